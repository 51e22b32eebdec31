/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.h - CUDA's compiler at run time, loaded when it is first needed.
 */
#ifndef ZR_DEVICE_CUDA_NVRTC_H
#define ZR_DEVICE_CUDA_NVRTC_H

#include <zeroth/plugin.h>

/* Compiles `source` for compute capability major * 10 + minor into *code, machine code of *bytes
 * that the caller frees. Every operation rounds once, as on the host. ZR_ENOTSUP: there is no
 * compiler; ZR_EINVAL: it refuses the source, and the text has `name` and what it says. */
int cuda_compile(const struct zr_host *h, const char *name, const char *source, int capability,
		 void **code, size_t *bytes);

#endif
