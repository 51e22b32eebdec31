/* SPDX-License-Identifier: Apache-2.0
 *
 * table_bf16.c - the table of avx512bf16: products and attention of bf16 by vdpbf16ps, all
 * else as AVX-512.
 */
#include "table.h"

const struct zr_cpu_kernels zr_cpu_avx512bf16 = {
	.name = "avx512bf16",
#define KERNEL(returns, name, args)  .name = zr_##name##_avx512,
#define PRODUCT(returns, name, args) .name = zr_##name##_avx512bf16,
#define SCALAR(returns, name, args)  .name = zr_##name##_scalar,
#include <kernels.def>
};
