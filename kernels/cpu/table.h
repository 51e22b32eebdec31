/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - prototypes of every variant of every kernel. The suffix is scalar, avx2, avx512, or
 * f64: the scalar source with ZR_REAL=double, which the tests call directly. Variants of bf16 have
 * products and attention of their own, all else is that of avx512.
 */
#ifndef ZEROTH_KERNELS_CPU_TABLE_H
#define ZEROTH_KERNELS_CPU_TABLE_H

#include <kernels.h>

#define REAL float
#define KERNEL(returns, name, args)                                                                \
	returns zr_##name##_scalar args;                                                           \
	returns zr_##name##_avx2 args;                                                             \
	returns zr_##name##_avx512 args;
#define SCALAR(...) KERNEL(__VA_ARGS__)
#define PRODUCT(returns, name, args)                                                               \
	KERNEL(returns, name, args)                                                                \
	returns zr_##name##_avx512bf16 args;                                                       \
	returns zr_##name##_amx args;                                                              \
	returns zr_##name##_amx_emulated args; /* tile registers in C: for tests */
#include <kernels.def>
#undef REAL

#define REAL                        double
#define KERNEL(returns, name, args) returns zr_##name##_f64 args;
#define PRODUCT(...)                KERNEL(__VA_ARGS__)
#define SCALAR(...)                 KERNEL(__VA_ARGS__)
#include <kernels.def>
#undef REAL

/* Tokens of one document from token t of batch entry b on. */
static inline int64_t zr_document(const struct zr_op_attention *o, int64_t b, int64_t t)
{
	const int32_t *start = o->starts ? o->starts + b * o->length : NULL;
	int64_t end = start ? t + 1 : o->length;

	while (end < o->length && start[end] == start[t])
		end++;
	return end - t;
}

/* The generator's element of query i and key 0, which the following keys' elements follow. */
static inline uint64_t zr_drop_element(const struct zr_op_attention *o, int64_t b, int64_t h,
				       int64_t i)
{
	const int64_t heads = o->all_heads ? o->all_heads : o->heads;
	const int64_t rows = o->drop_rows ? o->drop_rows : o->length;

	return ((uint64_t)(b * heads + o->first_head + h) * (uint64_t)rows + (uint64_t)i) *
	       (uint64_t)rows;
}

/* The first element of key j and key-value head g in key_sums: of k's gradient, or of v's. */
static inline int64_t zr_key_sums_at(const struct zr_op_attention *o, int64_t b, int64_t j,
				     int64_t g, int of_v)
{
	const int64_t row = 2 * (b * o->length + j) + of_v;

	return (row * o->kv_heads + g) * o->head_dim;
}

/* Position of row r = b*T+t. */
static inline int64_t zr_position(const int32_t *position, int64_t r, int64_t length)
{
	return position ? position[r] : r % length;
}

#endif
