/* SPDX-License-Identifier: Apache-2.0
 *
 * table_amx.c - the table of amx: products and attention of bf16 by tile registers, all else as
 * AVX-512.
 */
#include "table.h"

#define zr_gemm_finish_amx zr_gemm_finish_avx512

const struct zr_cpu_kernels zr_cpu_amx = ZR_CPU_TABLE(avx512, amx);
