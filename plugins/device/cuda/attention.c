/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - see attention.h.
 */
#include "attention.h"

#define WORK_ALIGNMENT 128 /* that the gradients' kernels of compute capability 9.0 want */

cudaError_t cuda_attention_by(int hopper, const struct zr_op_attention *o, cudaStream_t s)
{
	if (hopper && zr_cuda_attention_hopper_takes(o))
		return zr_cuda_attention_hopper(o, s);
	if (zr_cuda_attention_mma_takes(o))
		return zr_cuda_attention_mma(o, s);
	return zr_cuda_attention(o, s);
}

/* The first place in work that is aligned. Models align what they lend to less: if that decided
 * which kernels compute, the bits of a result would depend on places in memory. */
static struct zr_op_attention_bwd aligned(const struct zr_op_attention_bwd *o)
{
	struct zr_op_attention_bwd op = *o;

	op.work = (void *)(((uintptr_t)o->work + WORK_ALIGNMENT - 1) / WORK_ALIGNMENT *
			   WORK_ALIGNMENT);
	return op;
}

uint64_t cuda_attention_bwd_room(int hopper, const struct zr_op_attention_bwd *o)
{
	const int64_t queries = o->fwd.length - o->fwd.first;
	const uint64_t delta = (uint64_t)(o->fwd.batch * o->fwd.heads * queries) * sizeof(float);
	struct zr_op_attention_bwd op = *o;

	/* who plans has no addresses yet */
	op.work = NULL;
	op.dout = op.dq = op.dk = op.dv = NULL;
	op.fwd.q = op.fwd.k = op.fwd.v = op.fwd.out = NULL;
	op.fwd.key_sums = NULL;
	if (!hopper || !zr_cuda_attention_hopper_takes_bwd(&op))
		return delta;
	return zr_cuda_attention_hopper_bwd_work(&op) + WORK_ALIGNMENT - 1;
}

cudaError_t cuda_attention_bwd_by(int hopper, const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	const struct zr_op_attention_bwd op = aligned(o);
	cudaError_t e;

	if (hopper && zr_cuda_attention_hopper_takes_bwd(&op)) {
		e = zr_cuda_attention_delta(&op, s);
		if (e != cudaSuccess)
			return e;
		return zr_cuda_attention_hopper_bwd(&op, s);
	}

	e = zr_cuda_attention_delta(o, s);
	if (e != cudaSuccess)
		return e;
	if (zr_cuda_attention_mma_takes_bwd(o))
		return zr_cuda_attention_mma_bwd(o, s);
	return zr_cuda_attention_bwd(o, s);
}
