/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - the table of the scalar oracle.
 */
#include "table.h"

const struct zr_cpu_kernels zr_cpu_scalar = ZR_CPU_TABLE(scalar, scalar);
