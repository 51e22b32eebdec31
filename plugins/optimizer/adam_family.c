/* SPDX-License-Identifier: Apache-2.0
 *
 * adam_family.c - see adam_family.h.
 */
#include "adam_family.h"

#include <stdlib.h>

#include "moments.h"
#include "piece.h"

const char *const adam_types[] = { "fp32", "bf16", "8bit", NULL };
static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_U8 }; /* of these */

enum { EXP_AVG, EXP_AVG_SQ, N_STATE };
static const struct zr_state wide[N_STATE] = {
	[EXP_AVG] = { "exp_avg", ZR_F32, 0, 0 },
	[EXP_AVG_SQ] = { "exp_avg_sq", ZR_F32, 0, 0 },
};
static const struct zr_state narrow[N_STATE] = {
	[EXP_AVG] = { "exp_avg", ZR_BF16, 0, 0 },
	[EXP_AVG_SQ] = { "exp_avg_sq", ZR_BF16, 0, 0 },
};
static const struct zr_state codes[N_STATE] = {
	[EXP_AVG] = { "exp_avg", 0, ZR_MOMENT8_BYTES, 0 },
	[EXP_AVG_SQ] = { "exp_avg_sq", 0, ZR_MOMENT8_BYTES, 0 },
};

const struct zr_state *adam_states(struct zr_inst *inst, uint32_t *n)
{
	*n = N_STATE;
	if (inst->moment_dtype == ZR_U8)
		return codes;
	if (inst->moment_dtype == ZR_BF16)
		return narrow;
	return wide;
}

struct zr_op_adamw adam_op(const struct zr_inst *inst, const struct zr_opt_step *s, int64_t off,
			   int64_t n, int l2)
{
	const struct adam_opts *o = s->opts;
	return (struct zr_op_adamw){
		.size = sizeof(struct zr_op_adamw),
		.lowp_dtype = s->lowp.dtype,
		.l2 = (uint8_t)l2,
		.bias_correction = o->bias_correction,
		.n = n,
		.beta1 = o->betas[0],
		.beta2 = o->betas[1],
		.eps = o->eps,
		.weight_decay = o->weight_decay,
		.scalars = s->scalars,
		.grad = piece_f32(&s->grad, off),
		.master = piece_f32(&s->master, off),
		.m = piece_at(&s->state[EXP_AVG], off),
		.v = piece_at(&s->state[EXP_AVG_SQ], off),
		.lowp = piece_at(&s->lowp, off),
		.moment_dtype = inst->moment_dtype,
		.rem = piece_rem(s, off),
		.rem_bits = piece_rem_bits(s),
	};
}

int adam_step(struct zr_inst *inst, const struct zr_opt_step *s, int l2)
{
	uint64_t i;
	int rc = ZR_OK;
	if (!ZR_HAS(s->ops, struct zr_ops, adamw) || !s->ops->adamw)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no adamw operation");

	for (i = 0; i < s->n_seg && !rc; i++) {
		struct zr_op_adamw op = adam_op(inst, s, ZR_SEG(s, i)->off, ZR_SEG(s, i)->n, l2);
		rc = s->ops->adamw(s->ops, s->stream, &op);
	}
	return rc;
}

int adam_upgrade(struct zr_inst *inst, uint32_t from, const struct zr_buf *old, uint32_t n_old,
		 const struct zr_buf *now)
{
	if (from != ADAM_STATE_VERSION)
		return zr_fail(inst->h, ZR_ENOTSUP, "states of version %u are not known", from);
	moments_convert(old, now, n_old, EXP_AVG_SQ);
	return ZR_OK;
}

int adam_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	/* other options come with every sub-group, from its parameter group */
	const struct adam_opts *o = opts;
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->moment_dtype = dtypes[o->states];
	*out = inst;
	return ZR_OK;
}

void adam_destroy(struct zr_inst *inst)
{
	free(inst);
}
