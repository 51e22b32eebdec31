/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - the table of the scalar oracle.
 */
#include "table.h"

const struct zr_cpu_kernels zr_cpu_scalar = {
	.name = "scalar",
#define KERNEL(returns, name, args)  .name = zr_##name##_scalar,
#define PRODUCT(returns, name, args) .name = zr_##name##_scalar,
#define SCALAR(returns, name, args)  .name = zr_##name##_scalar,
#include <kernels.def>
};
