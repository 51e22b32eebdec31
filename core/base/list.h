/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h - lists that grow.
 */
#ifndef ZR_CORE_BASE_LIST_H
#define ZR_CORE_BASE_LIST_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/plugin.h>

/* Makes *(T **)list one of at least `need` elements. ZR_ENOMEM: nothing changed. */
static inline int zr_list_room(void *list, int32_t need, int32_t *cap, size_t size)
{
	void *at;
	memcpy(&at, list, sizeof at);
	if (at && need <= *cap)
		return 0;
	int32_t more = need > 32 ? 2 * need : 64;
	if (!(at = realloc(at, (size_t)more * size)))
		return ZR_ENOMEM;
	memcpy(list, &at, sizeof at);
	*cap = more;
	return 0;
}

#endif
