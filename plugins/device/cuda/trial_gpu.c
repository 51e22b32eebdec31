/* SPDX-License-Identifier: Apache-2.0
 *
 * trial_gpu.c - what cuda-trial calls of this plugin: the kernels of compute capability 9.0 beside
 * those of fp32 arithmetic, on one GPU.
 */
#include "attention.h"
#include "trial.h"

#include <attention_compare.h>

#include <stdio.h>

static cudaError_t hopper_backward(const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	return cuda_attention_bwd_by(1, o, s);
}

static uint64_t hopper_work(const struct zr_op_attention_bwd *o)
{
	return cuda_attention_bwd_room(1, o);
}

static cudaError_t plain_backward(const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	const cudaError_t e = zr_cuda_attention_delta(o, s);

	if (e != cudaSuccess)
		return e;
	return zr_cuda_attention_bwd(o, s);
}

static uint64_t plain_work(const struct zr_op_attention_bwd *o)
{
	return cuda_attention_bwd_room(0, o);
}

__attribute__((visibility("default"))) cuda_trial_fn zr_cuda_trial;

int zr_cuda_trial(int gpu, char *text, size_t room)
{
	static const struct attention_kernels hopper = { zr_cuda_attention_hopper_takes,
							 zr_cuda_attention_hopper,
							 zr_cuda_attention_hopper_takes_bwd,
							 hopper_work, hopper_backward };
	static const struct attention_kernels plain = { .forward = zr_cuda_attention,
							.work = plain_work,
							.backward = plain_backward };
	struct comparison found = { 0 };
	const cudaError_t e = cudaSetDevice(gpu);

	if (e != cudaSuccess) {
		snprintf(text, room, "choosing the GPU: %s", cudaGetErrorString(e));
		return -1;
	}
	if (compare_attentions(&hopper, &plain, &found)) {
		snprintf(text, room, "%s", found.text);
		return -1;
	}

	snprintf(text, room,
		 "%d problems agree with kernels of fp32 arithmetic, to %.2g of what they give",
		 found.problems, found.largest);
	return 0;
}
