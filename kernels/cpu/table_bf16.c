/* SPDX-License-Identifier: Apache-2.0
 *
 * table_bf16.c - the table of avx512bf16: products and attention of bf16 by vdpbf16ps, all
 * else as AVX-512.
 */
#include "table.h"

const struct zr_cpu_kernels zr_cpu_avx512bf16 = ZR_CPU_TABLE(avx512, avx512bf16);
