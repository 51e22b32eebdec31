/* SPDX-License-Identifier: Apache-2.0
 *
 * table_amx.c - the table of amx: products of bf16 by tile registers, attention of bf16 by
 * vdpbf16ps, all else as AVX-512.
 */
#include "table.h"

#define zr_attention_amx zr_attention_avx512bf16
#define zr_attention_bwd_amx zr_attention_bwd_avx512bf16
#define zr_attention_bwd_sum_amx zr_attention_bwd_sum_avx512bf16
#define zr_attention_sums_amx zr_attention_sums_avx512bf16
#define zr_attention_scratch_amx zr_attention_scratch_avx512bf16
#define zr_gemm_finish_amx zr_gemm_finish_avx512

const struct zr_cpu_kernels zr_cpu_amx = ZR_CPU_TABLE(avx512, amx);
