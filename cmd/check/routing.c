/* SPDX-License-Identifier: Apache-2.0
 *
 * routing.c - a mixture's choice of experts, held fixed. The choice jumps where two experts are as
 * likely, and differences of the loss across a jump say nothing of its gradient, which is that of
 * the loss with the same choice. So these operations repeat the choices of an earlier pass, with
 * the weights that the present probabilities give them.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/device.h>
#include <zeroth/experts.h>

#include "cmd/check/check.h"

enum { BLOCKS = 32 };

/* What route() chose in a block. */
struct choice {
	int64_t rows, experts, k;
	int32_t *ids, *offsets, *order, *where;
};

static struct {
	struct zr_check *c;
	const struct zr_ops *real;
	struct zr_ops ops;
	struct choice block[BLOCKS];
	int at, repeats;
} fixed;

static int32_t *copy(const int32_t *from, int64_t n)
{
	int32_t *to = malloc((size_t)n * sizeof *to);
	if (!to)
		zr_check_lacks(fixed.c, "memory");
	return memcpy(to, from, (size_t)n * sizeof *to);
}

static void keep(struct choice *b, const struct zr_op_route *op)
{
	free(b->ids);
	free(b->offsets);
	free(b->order);
	free(b->where);
	*b = (struct choice){ op->rows,
			      op->experts,
			      op->k,
			      copy(op->ids, op->rows * op->k),
			      copy(op->offsets, op->experts + 1),
			      copy(op->order, op->rows * op->k),
			      copy(op->where, op->rows * op->k) };
}

static void repeat(const struct choice *b, const struct zr_op_route *op)
{
	for (int64_t e = 0; op->sums && e < op->experts; e++)
		op->sums[e] += (double)(b->offsets[e + 1] - b->offsets[e]) -
			       (double)(op->offsets[e + 1] - op->offsets[e]);
	for (int64_t row = 0; row < op->rows; row++) {
		double sum = 0;
		for (int64_t j = row * op->k; j < (row + 1) * op->k; j++)
			sum += (double)op->logits[row * op->experts + b->ids[j]];
		for (int64_t j = row * op->k; j < (row + 1) * op->k; j++)
			op->weights[j] = (float)((double)op->logits[row * op->experts + b->ids[j]] /
						 (op->flags & ZR_ROUTE_NORMALISE ? sum : 1));
	}

	memcpy(op->ids, b->ids, (size_t)(op->rows * op->k) * 4);
	memcpy(op->offsets, b->offsets, (size_t)(op->experts + 1) * 4);
	memcpy(op->order, b->order, (size_t)(op->rows * op->k) * 4);
	memcpy(op->where, b->where, (size_t)(op->rows * op->k) * 4);
}

static int route(const struct zr_ops *ops, struct zr_stream *stream, const struct zr_op_route *op)
{
	struct choice *b = &fixed.block[fixed.at++ % BLOCKS];
	const int rc = fixed.real->route(fixed.real, stream, op);

	(void)ops;
	if (rc)
		return rc;
	if (!fixed.repeats)
		keep(b, op);
	else if (b->rows != op->rows || b->experts != op->experts || b->k != op->k)
		zr_check_fail(fixed.c,
			      "it routes %lld tokens to %lld of %lld experts, and routed "
			      "others before",
			      (long long)op->rows, (long long)op->k, (long long)op->experts);
	else
		repeat(b, op);
	return ZR_OK;
}

const struct zr_ops *zr_routing_ops(struct zr_check *c, const struct zr_ops *real)
{
	fixed.c = c;
	fixed.real = real;
	fixed.ops = *real;
	fixed.ops.route = route;
	return &fixed.ops;
}

void zr_routing_pass(int repeats)
{
	fixed.at = 0;
	fixed.repeats = repeats;
}
