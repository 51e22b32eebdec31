/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.c - Lion (Chen et al. 2023), computed by the device that holds the memory: one sweep per
 * segment, see struct zr_op_lion for the formula. State: one average per element, in fp32 or 8
 * bits.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>

#include "moments.h"
#include "piece.h"
#include "plugins/descriptor.h"

struct lion_opts {
	double lr;
	double betas[2];
	double weight_decay;
	int32_t states; /* index into types */
};

static const char *const types[] = { "fp32", "8bit", NULL };

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct lion_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-4", 0, ZR_HI, "",
	       "Learning rate: how far every parameter moves per step; some 3 to 10 times below "
	       "AdamW's."),
	ZR_OPT(struct lion_opts, betas, ZR_T_F64S, CHANGES | ZR_O_MAX_OPEN, "0.9, 0.99", 0, 1, "",
	       "Share of the average in the direction of a step, and its decay per step."),
	ZR_OPT(struct lion_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter, times the learning rate, that a step takes away."),
	/* not per group: it decides the type of the state */
	ZR_OPT_ENUM(struct lion_opts, states, ZR_O_NUMERIC, "fp32", types,
		    "Type in which the average is kept; 8bit takes 2.9 bytes less per parameter: a "
		    "code of 8 bits, and a scale per 32 elements."),
};

#define STATE_VERSION 1
static const struct zr_state wide[] = { { "exp_avg", ZR_F32, 0, 0 } };
static const struct zr_state codes[] = { { "exp_avg", 0, ZR_MOMENT8_BYTES, 0 } };

struct zr_inst {
	const struct zr_host *h;
	int32_t moment_dtype;
};

static const struct zr_state *lion_states(struct zr_inst *inst, uint32_t *n)
{
	*n = 1;
	if (inst->moment_dtype == ZR_U8)
		return codes;
	return wide;
}

static int lion_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct lion_opts *o = s->opts;
	uint64_t i;
	int rc = ZR_OK;
	if (!ZR_HAS(s->ops, struct zr_ops, lion) || !s->ops->lion)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no lion operation");

	for (i = 0; i < s->n_seg && !rc; i++) {
		int64_t off = ZR_SEG(s, i)->off;
		struct zr_op_lion op = {
			.size = sizeof op,
			.lowp_dtype = s->lowp.dtype,
			.moment_dtype = inst->moment_dtype,
			.n = ZR_SEG(s, i)->n,
			.beta1 = o->betas[0],
			.beta2 = o->betas[1],
			.weight_decay = o->weight_decay,
			.scalars = s->scalars,
			.grad = piece_f32(&s->grad, off),
			.master = piece_f32(&s->master, off),
			.m = piece_at(&s->state[0], off),
			.lowp = piece_at(&s->lowp, off),
			.rem = piece_rem(s, off),
			.rem_bits = piece_rem_bits(s),
		};
		rc = s->ops->lion(s->ops, s->stream, &op);
	}
	return rc;
}

static int lion_upgrade(struct zr_inst *inst, uint32_t from, const struct zr_buf *old,
			uint32_t n_old, const struct zr_buf *now)
{
	if (from != STATE_VERSION)
		return zr_fail(inst->h, ZR_ENOTSUP, "states of version %u are not known", from);
	moments_convert(old, now, n_old, -1);
	return ZR_OK;
}

static int lion_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	/* other options come with every sub-group, from its parameter group */
	const struct lion_opts *o = opts;
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	inst->moment_dtype = o->states ? ZR_U8 : ZR_F32;
	*out = inst;
	return ZR_OK;
}

static void lion_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = STATE_VERSION,
	.state_stride = sizeof(struct zr_state),
	.states = lion_states,
	.step = lion_step,
	.upgrade = lion_upgrade,
	.split_masters = 1,
};

PLUGIN(optimizer, "lion", &vtbl, .version = "1",
       .summary = "Lion: the sign of an average, with half of Adam's state.",
       PLUGIN_OPTIONS(struct lion_opts, options), .create = lion_create, .destroy = lion_destroy);
