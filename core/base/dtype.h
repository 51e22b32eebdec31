/* SPDX-License-Identifier: Apache-2.0
 *
 * dtype.h - the types of elements. One that is not in the table has no name and no bytes. [any]
 */
#ifndef ZR_CORE_BASE_DTYPE_H
#define ZR_CORE_BASE_DTYPE_H

#include <zeroth/plugin.h>

struct zr_dtype {
	const char *name;      /* in files; NULL: unknown */
	int32_t id;            /* ZR_F32, ...; 0: Zeroth has no use for it */
	int16_t bytes, trains; /* of an element; parameters, gradients and states may be of it */
};

/* By name, or where that is NULL by id; never NULL. */
const struct zr_dtype *zr_dtype_find(int32_t id, const char *name);

static inline int zr_dtype_bytes(int32_t id)
{
	return zr_dtype_find(id, NULL)->bytes;
}

#endif
