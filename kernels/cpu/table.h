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

/* Position of row r = b*T+t. */
static inline int64_t zr_position(const int32_t *position, int64_t r, int64_t length)
{
	return position ? position[r] : r % length;
}

#endif
