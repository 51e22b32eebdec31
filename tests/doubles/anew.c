/* SPDX-License-Identifier: Apache-2.0
 *
 * anew.c - the double of cards that rounds each operand of 8 bits anew, also where the call says
 * that it is the same as before (ZR_MM_SAME_A): built and run by tests/system/fp8.sh. So a model
 * that says it of another operand has other bits here.
 */
#include <zeroth/device.h>

#include "wrapped.h"

WRAP_MADE(device, "../tests/doubles/.libs/cards.so", "anew")

static struct zr_ops ops; /* what operations are called with; its `dev` is the card's */
static const struct zr_ops *real_ops;

static int matmul(const struct zr_ops *o, struct zr_stream *s, const struct zr_op_matmul *given)
{
	struct zr_op_matmul op = *given;
	(void)o;
	op.flags &= ~ZR_MM_SAME_A;
	return real_ops->matmul(real_ops, s, &op);
}

static int matmul_low_rank(const struct zr_ops *o, struct zr_stream *s,
			   const struct zr_op_matmul_low_rank *given)
{
	struct zr_op_matmul_low_rank op = *given;
	(void)o;
	op.product.flags &= ~ZR_MM_SAME_A;
	return real_ops->matmul_low_rank(real_ops, s, &op);
}

static const struct zr_ops *anew(struct zr_inst *d)
{
	real_ops = real_vtbl->ops(d);
	ops = *real_ops;
	ops.matmul = matmul;
	ops.matmul_low_rank = matmul_low_rank;
	return &ops;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.ops = anew;
}

ZR_PLUGIN(&desc);
