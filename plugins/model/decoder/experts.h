/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.h - what experts compute of rows that are sorted by expert, wherever these are.
 */
#ifndef ZR_DECODER_EXPERTS_H
#define ZR_DECODER_EXPERTS_H

#include "decoder.h"

/* Rows of groups, one behind the other: group g has those of expert `first` + g % `experts` of the
 * block, and gives the gradients of the block's expert number g. */
struct expert_rows {
	int64_t rows, groups, first, experts;
	int64_t k;              /* places of a token, where there is an order */
	const int32_t *offsets; /* [groups + 1] */
	const int32_t *order;   /* [rows] place of each; NULL: that of its number */
	const uint8_t *later;   /* [groups] 1: gradients are added; NULL: as the call says */
	void *gate, *up;        /* [rows, F] */
};

/* All places of the call, its own experts'. */
struct expert_rows rows_of_places(const struct pass *, const struct routing *);

/* y [rows, C] = what the experts make of x [rows, C]; leaves gate and up. */
int experts_gate_up(const struct pass *, const struct expert_rows *, const void *x);
int experts_forward(const struct pass *, const struct expert_rows *, const void *x, void *act,
		    void *y);

/* From dy [rows, C], that of a token's sum: dW of the maps down; m->dgate and m->dup; by place the
 * gradients w.r.t. the weights. */
int experts_backward_down(const struct pass *, const struct expert_rows *, const struct moe_work *m,
			  const void *dy, const float *weights, float *dweights);
/* Then, with x: dW of the maps gate and up; dx [rows, C] in fp32. */
int experts_backward_inputs(const struct pass *, const struct expert_rows *,
			    const struct moe_work *m, const void *x, float *dx);

/* ---- moe.c, for homes.c ---- */

int64_t moe_rounds(const struct pass *); /* of a call; 1: experts are here */
int moe_logits(const struct pass *, const struct routing *, const void *x);
/* The operation for all rows; `behind`: with the sums of the routers' losses. */
struct zr_op_route moe_route_op(const struct pass *, const struct routing *, int behind);
/* dW of the router; sum += the gradient w.r.t. y by way of it. */
int moe_router_backward(const struct pass *, const struct routing *, const struct moe_work *m,
			const void *y, float *sum);
/* From sum, the gradient w.r.t. what the norm gave, to that of the block's input. */
int moe_input_gradient(const struct pass *, const struct block_saved *, const struct block_work *);

#endif
