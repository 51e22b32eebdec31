/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.h - which kernels an attention is computed by: `hopper` says whether those of compute
 * capability 9.0 are tried first. What they do not take is left to the generic ones. The caller has
 * checked the arguments.
 */
#ifndef ZR_DEVICE_CUDA_ATTENTION_H
#define ZR_DEVICE_CUDA_ATTENTION_H

#include <kernels_cuda.h>

cudaError_t cuda_attention_by(int hopper, const struct zr_op_attention *o, cudaStream_t s);
cudaError_t cuda_attention_bwd_by(int hopper, const struct zr_op_attention_bwd *o, cudaStream_t s);

/* Bytes of o->work. They follow from types, shapes and options alone. */
uint64_t cuda_attention_bwd_room(int hopper, const struct zr_op_attention_bwd *o);

#endif
