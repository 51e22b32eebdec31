/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/array.h - DRAFT. An array as operations of <zeroth/device.h> take it: where its elements
 * are, and their type. Its shape and what is between its rows are members of the operation.
 */
#ifndef ZEROTH_ARRAY_H
#define ZEROTH_ARRAY_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_DEVICE
#define ZR_USES_DEVICE ZR_DRAFT_DEVICE

#ifdef __cplusplus
extern "C" {
#endif

/* FROZEN. */
struct zr_array {
	void *data; /* an operand that is only read is not written by this */
	/* Of a type whose scales lie apart from its elements; NULL for all types that there are:
	 * ZR_NF4 and ZR_INT8 have theirs in each block. */
	const void *scales;
	int32_t dtype, rsv;
};

static inline struct zr_array zr_array_at(int32_t dtype, const void *data)
{
	struct zr_array t = { (void *)(uintptr_t)data, NULL, dtype, 0 };
	return t;
}

/* From element i on; of a type of blocks, a multiple of ZR_BLOCK. */
static inline struct zr_array zr_array_from(const struct zr_array *t, int64_t i)
{
	struct zr_array from = *t;
	from.data = (char *)t->data + zr_bytes_of(t->dtype, i);
	return from;
}

#ifdef __cplusplus
}
#endif
#endif
