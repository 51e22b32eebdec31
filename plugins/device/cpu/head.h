/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - a head_loss in parts: head.c cuts rows, head_blocks.c columns too, and head_part.c
 * computes what belongs to some of both.
 */
#ifndef ZR_DEVICE_CPU_HEAD_H
#define ZR_DEVICE_CPU_HEAD_H

#include "cpu.h"

struct cpu_head {
	const struct zr_inst *d;
	const struct zr_op_head_loss *op;
	int64_t first, rows, rows_per_item;
	int64_t column, columns; /* of the logits */
	float *stats, *right;    /* NULL: not wanted */
	float *logits;
	int64_t stride;     /* floats between rows of logits */
	int capped;         /* logits are as after logit_cap */
	int32_t grad_dtype; /* of the logits once they are their gradient */
};

/* ---- head_part.c ---- */

/* Losses of all columns of some rows, whose logits then are their gradient. */
void cpu_head_rows(const struct cpu_head *c);

/* logits = x w^T + u v^T */
int cpu_head_project(const struct zr_ops *ops, const struct cpu_head *c);

/* What the logits add to the stats of their rows, which the first columns begin; the target's logit
 * goes to its loss. */
void cpu_head_sums(const struct cpu_head *c);
/* Losses of all rows, once their stats have all columns; stats are then those of softmax_loss. */
void cpu_head_losses(const struct cpu_head *c);
/* Logits become their gradient, by the stats of their rows. */
void cpu_head_gradient(const struct cpu_head *c);

/* dx [rows, width] = or, fp32, += dlogits w */
int cpu_head_grad_x(const struct zr_ops *ops, const struct cpu_head *c, void *dx, int32_t dtype,
		    int add);
/* dw [columns, width] = or, but for the first rows of a batch, += dlogits^T x */
int cpu_head_grad_w(const struct zr_ops *ops, const struct cpu_head *c, float *dw);

/* du and dv of all columns, where there are some, as dx and dw. */
int cpu_head_grad_low(const struct zr_ops *ops, const struct cpu_head *c);

/* ---- head_blocks.c ---- */

/* Floats of work that blocks of columns gain from; 0: the shape or the instruction set do not gain
 * by blocks. `chunks`: of rows that head_loss would take else. */
int64_t cpu_head_blocks_work(const struct zr_ops *ops, const struct zr_op_head_loss *o,
			     int64_t chunks);

/* whole: without rows yet, all columns. head_loss with gradients, or head_loss_rows, in blocks of
 * columns, if there is gain in it: else *done is 0. `work`: floats in o->work. */
int cpu_head_blocks(const struct zr_ops *ops, const struct cpu_head *whole, int64_t work,
		    int64_t chunks, int *done);

#endif
