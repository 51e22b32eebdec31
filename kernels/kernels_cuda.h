/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_cuda.h - the CUDA kernels: each function enqueues an operation of <zeroth/device.h> on a
 * stream and returns the result of the launch. The pointers of an operation are addresses that the
 * device can use. The caller has checked the arguments.
 */
#ifndef ZEROTH_KERNELS_CUDA_H
#define ZEROTH_KERNELS_CUDA_H

#include <kernels.h>

#ifdef ZR_CUDA_EMULATED /* see cuda/kernel.h */
#include ZR_CUDA_EMULATED
#else
#include <cuda_runtime_api.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* elements.cu: bits of the CPU's scalar kernels */
cudaError_t zr_cuda_gelu_bwd(const struct zr_op_gelu_bwd *, cudaStream_t);
/* to = gelu(from) of rows of `width` elements, ld apart; to may be from */
struct zr_cuda_gelu_args {
	int64_t rows, width, ld;
	int32_t dtype;
	int32_t activation; /* ZR_ACT_GELU_* */
	const void *from;
	void *to;
};
cudaError_t zr_cuda_gelu(const struct zr_cuda_gelu_args *, cudaStream_t);
cudaError_t zr_cuda_logit_cap(const struct zr_op_logit_cap *, cudaStream_t);
cudaError_t zr_cuda_residual(const struct zr_op_residual *, cudaStream_t);
cudaError_t zr_cuda_cast(const struct zr_op_cast *, cudaStream_t);
cudaError_t zr_cuda_encode(const struct zr_op_cast *, cudaStream_t);
cudaError_t zr_cuda_decode(const struct zr_op_cast *, cudaStream_t);
cudaError_t zr_cuda_mx_encode(const struct zr_op_cast *, cudaStream_t);
cudaError_t zr_cuda_mx_decode(const struct zr_op_cast *, cudaStream_t);
cudaError_t zr_cuda_init(const struct zr_op_init *, cudaStream_t);
cudaError_t zr_cuda_master_join(const struct zr_op_master *, cudaStream_t);
cudaError_t zr_cuda_master_split(const struct zr_op_master *, cudaStream_t);
cudaError_t zr_cuda_round_stochastic(const struct zr_op_round_stochastic *, cudaStream_t);
cudaError_t zr_cuda_scale_heads(const struct zr_op_scale_heads *, cudaStream_t);
cudaError_t zr_cuda_cast_heads(const struct zr_op_cast_heads *, cudaStream_t);
cudaError_t zr_cuda_muon_factor(const struct zr_op_muon_factor *, cudaStream_t);
cudaError_t zr_cuda_embedding(const struct zr_op_embedding *, cudaStream_t);
cudaError_t zr_cuda_rotary(const struct zr_op_rotary *, cudaStream_t);
cudaError_t zr_cuda_swiglu(const struct zr_op_swiglu *, cudaStream_t);
cudaError_t zr_cuda_swiglu_bwd(const struct zr_op_swiglu_bwd *, cudaStream_t);

/* updates.cu: bits of the CPU's scalar kernels */
cudaError_t zr_cuda_adamw(const struct zr_op_adamw *, cudaStream_t);
cudaError_t zr_cuda_sgd(const struct zr_op_sgd *, cudaStream_t);
cudaError_t zr_cuda_lion(const struct zr_op_lion *, cudaStream_t);
cudaError_t zr_cuda_adagrad(const struct zr_op_adagrad *, cudaStream_t);
cudaError_t zr_cuda_lamb(const struct zr_op_lamb *, cudaStream_t);
cudaError_t zr_cuda_muon_update(const struct zr_op_muon *, cudaStream_t);

/* blocks.cu: sums per block of ZR_BLOCK elements, bits of the CPU's scalar kernels */
cudaError_t zr_cuda_fold(const struct zr_op_fold *, cudaStream_t);
cudaError_t zr_cuda_lamb_norms(const struct zr_op_lamb *, cudaStream_t);
cudaError_t zr_cuda_muon_momentum(const struct zr_op_muon *, cudaStream_t);
cudaError_t zr_cuda_muon_normalize(const struct zr_op_muon *, cudaStream_t);

/* norms.cu: the order of the sums over a row is the device's own */
cudaError_t zr_cuda_layernorm(const struct zr_op_layernorm *, cudaStream_t);
cudaError_t zr_cuda_layernorm_bwd(const struct zr_op_layernorm_bwd *, cudaStream_t);
cudaError_t zr_cuda_rmsnorm(const struct zr_op_rmsnorm *, cudaStream_t);
cudaError_t zr_cuda_rmsnorm_bwd(const struct zr_op_rmsnorm_bwd *, cudaStream_t);

/* columns.cu: sums over rows, bits of the CPU's scalar kernels */
cudaError_t zr_cuda_embedding_bwd(const struct zr_op_embedding_bwd *, int32_t *room, cudaStream_t);
int64_t zr_cuda_embedding_bwd_room(const struct zr_op_embedding_bwd *); /* numbers in room */
/* part: room for `room` floats, at least 64 * ceil(rows / 64) */
cudaError_t zr_cuda_bias_bwd(const struct zr_op_bias_bwd *, float *part, int64_t room,
			     cudaStream_t);

/* head.cu: rows of logits, `ld` floats apart: loss[r], and into `grad`, of dtype and ldd elements
 * apart, the gradient (softmax - onehot) * scale, if it is not NULL, and zeros behind it up to
 * column `filled`; right: as zr_op_head_loss */
struct zr_cuda_softmax {
	int64_t rows, vocabulary, ld, ldd, filled;
	int32_t dtype;
	float scale;
	float gain, softcap; /* of the logits before: gain 1 and softcap 0 for none */
	const float *logits;
	const int32_t *targets;
	const float *weights;
	float *loss, *right;
	void *grad;
};
cudaError_t zr_cuda_softmax_loss(const struct zr_cuda_softmax *, cudaStream_t);
/* *sum = fp64 sum of loss[rows] in row order */
cudaError_t zr_cuda_loss_sum(const float *loss, int64_t rows, double *sum, cudaStream_t);

/* experts.cu: bits of the CPU's scalar kernels */
cudaError_t zr_cuda_route(const struct zr_op_route *, cudaStream_t);
cudaError_t zr_cuda_router_losses(const struct zr_op_router_losses *, cudaStream_t);
cudaError_t zr_cuda_route_bwd(const struct zr_op_route_bwd *, cudaStream_t);
cudaError_t zr_cuda_expert_rows(const struct zr_op_expert_rows *, cudaStream_t);
cudaError_t zr_cuda_expert_combine(const struct zr_op_expert_combine *, cudaStream_t);
cudaError_t zr_cuda_expert_weigh(const struct zr_op_expert_weigh *, cudaStream_t);

/* matmul_grouped.cu: bf16 and fp16 on tensor cores, else any types in fp32; the tiles of rows that
 * there could be, of which a grid has at most 65535 */
cudaError_t zr_cuda_matmul_grouped(const struct zr_op_matmul_grouped *, cudaStream_t);
cudaError_t zr_cuda_matmul_grouped_dw(const struct zr_op_matmul_grouped_dw *, cudaStream_t);
int64_t zr_cuda_grouped_tiles(const struct zr_op_matmul_grouped *);

/* matmul.cu: any types, transposes and strides, in fp32: for what cuBLASLt does not take */
cudaError_t zr_cuda_matmul(const struct zr_op_matmul *, cudaStream_t);
/* D = or += drop(gain U V); nothing else of the product */
cudaError_t zr_cuda_low_rank_update(const struct zr_op_matmul_low_rank *, cudaStream_t);

/* U V into the product's D, = or += as there. */
static inline struct zr_op_matmul zr_low_rank_update(const struct zr_op_matmul_low_rank *l)
{
	struct zr_op_matmul op = zr_low_rank_product(l);
	op.flags |= l->product.flags & ZR_MM_ACCUMULATE;
	op.d = l->product.d;
	return op;
}

/* narrow.cu: numbers of 8 bits as ZR_MM_FP8 says, bits of the CPU's scalar kernels: without `scale`
 * in bf16, `to` as of.to says. With it as codes of E4M3 or E5M2, which scale[i] times a code's
 * number is the element's: `to` is [rows][width] and scale [rows]; or, where columns share a power
 * of two, [width][rows] and [width]. */
struct zr_cuda_narrowing {
	struct zr_narrowing of; /* its `to` is of no use */
	void *to;
	float *scale;
	uint32_t *part; /* where columns share one: [ceil(rows / ZR_CUDA_NARROW_PART)][width] */
};
#define ZR_CUDA_NARROW_PART 256
cudaError_t zr_cuda_narrow_rows(const struct zr_cuda_narrowing *, cudaStream_t);
cudaError_t zr_cuda_narrow_columns(const struct zr_cuda_narrowing *, cudaStream_t);
/* D = or += sums[m][n] times a[row] and b[column], which are powers of two, + bias, as op says */
struct zr_cuda_scaling {
	struct zr_op_matmul op;
	const float *sums, *a, *b;
};
cudaError_t zr_cuda_scale_sums(const struct zr_cuda_scaling *, cudaStream_t);

/* attention.cu: any element type and head_dim up to ZR_CUDA_HEAD_DIM, in fp32. delta: [B, heads, T
 * - first] floats */
#define ZR_CUDA_HEAD_DIM 256
cudaError_t zr_cuda_attention(const struct zr_op_attention *, cudaStream_t);
cudaError_t zr_cuda_attention_bwd(const struct zr_op_attention_bwd *, cudaStream_t);
cudaError_t zr_cuda_attention_delta(const struct zr_op_attention_bwd *, cudaStream_t);

/* attention_mma.cu, attention_mma_bwd.cu: bf16 and fp16 with heads of width 64, 80, 96 and 128 on
 * tensor cores, rows of 16 bytes aligned, scale > 0 */
int zr_cuda_attention_mma_takes(const struct zr_op_attention *);
int zr_cuda_attention_mma_takes_bwd(const struct zr_op_attention_bwd *);
cudaError_t zr_cuda_attention_mma(const struct zr_op_attention *, cudaStream_t);
cudaError_t zr_cuda_attention_mma_bwd(const struct zr_op_attention_bwd *, cudaStream_t);

/* attention_hopper.cu: the same by products of warpgroups, on compute capability 9.0 alone, but not
 * dropout beside a soft cap */
int zr_cuda_attention_hopper_takes(const struct zr_op_attention *);
cudaError_t zr_cuda_attention_hopper(const struct zr_op_attention *, cudaStream_t);
/* attention_hopper_bwd.cu: likewise. work: so many bytes, aligned to 128, which
 * begin with what zr_cuda_attention_delta stores there */
int zr_cuda_attention_hopper_takes_bwd(const struct zr_op_attention_bwd *);
uint64_t zr_cuda_attention_hopper_bwd_work(const struct zr_op_attention_bwd *);
cudaError_t zr_cuda_attention_hopper_bwd(const struct zr_op_attention_bwd *, cudaStream_t);

#ifdef __cplusplus
}
#endif
#endif
