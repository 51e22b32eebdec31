/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_compare.h - whether kernels of attention that are tried give what others give, which
 * are known to be right: forward and backward, in bf16 and fp16, on the GPU that this process uses.
 * What is tried must give the same bits each time, leave what is not its own as it was, and write
 * all that is.
 */
#ifndef ZEROTH_KERNELS_ATTENTION_COMPARE_H
#define ZEROTH_KERNELS_ATTENTION_COMPARE_H

#include <kernels_cuda.h>

#include <stddef.h>

/* backward: with the sums of dout and out, which kernels' own functions want before. */
struct attention_kernels {
	int (*takes)(const struct zr_op_attention *);
	cudaError_t (*forward)(const struct zr_op_attention *, cudaStream_t);
	int (*takes_bwd)(const struct zr_op_attention_bwd *);
	uint64_t (*work)(const struct zr_op_attention_bwd *);
	cudaError_t (*backward)(const struct zr_op_attention_bwd *, cudaStream_t);
};

struct attention_problem {
	int64_t batch, length, heads, kv_heads;
	int64_t window, first; /* as in struct zr_op_attention */
	int documents;         /* whether sequences hold several */
	int key_sums;          /* whether the gradients of keys and values go there */
	int scores;            /* whether the largest ones are wanted */
	float softcap, dropout;
	float sharp; /* scores are so many times as large as usual; 0: once */
};

struct comparison {
	int problems;   /* that were compared */
	double largest; /* of their differences: norm of x - y over that of y */
	char text[400]; /* what is wrong, if something is */
};

/* 0: both give the same, within what their types round; else *out says what is wrong. */
int compare_attention(const struct attention_kernels *tried, const struct attention_kernels *known,
		      const struct attention_problem *problem, int32_t dtype, int64_t width,
		      struct comparison *out);

/* The same of a list of problems that has all that a run may ask for, each type and each width of
 * heads. */
int compare_attentions(const struct attention_kernels *tried, const struct attention_kernels *known,
		       struct comparison *out);

#endif
