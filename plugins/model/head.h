/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - the head of a language model, the same for all that end in a norm and an output
 * projection:
 *
 *   loss = cross entropy(norm(x) W^T)        W [vocabulary, width]
 *
 * What differs is the norm, which each model gives as two functions over its own operations.
 */
#ifndef ZR_MODEL_HEAD_H
#define ZR_MODEL_HEAD_H

#include <zeroth/model.h>

/* One call of the head. `pass` is handed to the norm's functions as it is. */
struct head {
	const struct zr_layer_call *c;
	int64_t rows, width, vocabulary;
	int weight;             /* place of W in param[] */
	int stats;              /* numbers per row that norm keeps for norm_bwd */
	uint64_t norm_bwd_work; /* bytes */
	const void *pass;
	/* y = norm of `rows` rows of x; stats: [stats][head.rows] */
	int (*norm)(const void *pass, const void *x, void *y, float *stats, int64_t rows);
	/* call.grad += gradient w.r.t. call.in */
	int (*norm_bwd)(const void *pass, const void *dy, const float *stats, void *work);
};

/* Bytes of the call's work; head.c needs dtype, scale, ops only. */
uint64_t head_work(const struct head *, int backward);
uint32_t head_rows_of(const struct head *); /* of zr_layer_bytes */
int head_forward(const struct head *);
int head_backward(const struct head *);
/* Scores of one row, [vocabulary] on the device; with the work of a forward. */
int head_logits(const struct head *, int64_t row, float *logits);

#endif
