/* SPDX-License-Identifier: Apache-2.0
 *
 * table_amx.c - the table of amx: products and attention of bf16 by tile registers, all else as
 * AVX-512.
 */
#include "table.h"

#define zr_gemm_finish_amx zr_gemm_finish_avx512

const struct zr_cpu_kernels zr_cpu_amx = {
	.name = "amx",
#define KERNEL(returns, name, args)  .name = zr_##name##_avx512,
#define PRODUCT(returns, name, args) .name = zr_##name##_amx,
#define SCALAR(returns, name, args)  .name = zr_##name##_scalar,
#include <kernels.def>
};
