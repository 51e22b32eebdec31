/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_places.h - where a query is in dropout's random numbers, and a key in key_sums, on
 * every device.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_PLACES_H
#define ZEROTH_KERNELS_CPU_ATTENTION_PLACES_H

#include "scalar.h"

/* Elements of the generator from a query to the next one. */
ZR_INLINE int64_t zr_drop_rows(const struct zr_op_attention *o)
{
	return o->drop_rows ? o->drop_rows : o->length;
}

/* The generator's element of query i and key 0, which the following keys' elements follow. */
ZR_INLINE uint64_t zr_drop_element(const struct zr_op_attention *o, int64_t b, int64_t h, int64_t i)
{
	const int64_t heads = o->all_heads ? o->all_heads : o->heads, rows = zr_drop_rows(o);

	return ((uint64_t)(b * heads + o->first_head + h) * (uint64_t)rows + (uint64_t)i) *
	       (uint64_t)rows;
}

/* The first element of key j and key-value head g in key_sums: of k's gradient, or of v's. */
ZR_INLINE int64_t zr_key_sums_at(const struct zr_op_attention *o, int64_t b, int64_t j, int64_t g,
				 int of_v)
{
	const int64_t row = 2 * (b * o->length + j) + of_v;

	return (row * o->kv_heads + g) * o->head_dim;
}

#endif
