/* SPDX-License-Identifier: Apache-2.0
 *
 * table.simd.c - the table of one vector instruction set: zr_cpu_avx2, zr_cpu_avx512.
 */
#include "simd.h"
#include "table.h"

#define TABLE(suffix) ZR_CPU_TABLE(suffix, suffix)

const struct zr_cpu_kernels ZR_CAT(zr_cpu_, ZR_ISA) = TABLE(ZR_ISA);
