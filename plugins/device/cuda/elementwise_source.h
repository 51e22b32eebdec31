/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_source.h - the source that NVRTC compiles for an update of one element.
 */
#ifndef ZR_DEVICE_CUDA_ELEMENTWISE_SOURCE_H
#define ZR_DEVICE_CUDA_ELEMENTWISE_SOURCE_H

#include <zeroth/elementwise.h>

/* Writes it as snprintf() does. types: of each state, 0: 8 bits; lowp: of the rounded copy, 0:
 * there is none. Its kernels are zr_ew_update and, with sums, zr_ew_measure
 * (kernels/cuda/elementwise.cuh). A C++ compiler compiles it as well, behind CUDA emulated. */
int cuda_elementwise_source(const struct zr_elementwise *e, const int32_t *types, int32_t lowp,
			    char *to, size_t room);

#endif
