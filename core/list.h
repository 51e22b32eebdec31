/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h - lists that grow.
 */
#ifndef ZR_CORE_LIST_H
#define ZR_CORE_LIST_H

#include <stdint.h>
#include <stdlib.h>

/* realloc for at least `need` elements. NULL: no memory, and nothing changed. */
static inline void *zr_list_grow(void *list, int32_t need, int32_t *cap, size_t size)
{
	if (list && need <= *cap)
		return list;
	int32_t more = need > 32 ? 2 * need : 64;
	void *grown = realloc(list, (size_t)more * size);
	*cap = grown ? more : *cap;
	return grown;
}

#endif
