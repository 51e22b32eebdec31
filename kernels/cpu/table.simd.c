/* SPDX-License-Identifier: Apache-2.0
 *
 * table.simd.c - the table of one vector instruction set: zr_cpu_avx2, zr_cpu_avx512.
 */
#include "simd.h"
#include "table.h"

#define TEXT(isa)    #isa
#define TEXT_OF(isa) TEXT(isa)

const struct zr_cpu_kernels ZR_CAT(zr_cpu_, ZR_ISA) = {
	.name = TEXT_OF(ZR_ISA),
#define KERNEL(returns, name, args)  .name = ZR_CAT(zr_##name##_, ZR_ISA),
#define PRODUCT(returns, name, args) .name = ZR_CAT(zr_##name##_, ZR_ISA),
#define SCALAR(returns, name, args)  .name = zr_##name##_scalar,
#include <kernels.def>
};
