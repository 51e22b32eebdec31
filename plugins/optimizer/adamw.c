/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW (Loshchilov and Hutter 2019), computed by the device that holds the memory: one sweep
 * per segment, see struct zr_op_adamw for the formula. State: two fp32 moments per element.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>

#include "piece.h"

struct adamw_opts {
	double lr;
	double betas[2];
	double eps;
	double weight_decay;
	uint8_t bias_correction;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct adamw_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-3", 0, ZR_HI, "", "Learning rate."),
	ZR_OPT(struct adamw_opts, betas, ZR_T_F64S, CHANGES | ZR_O_MAX_OPEN, "0.9, 0.999", 0, 1, "",
	       "Decay per step of the averages of the gradient and of its square."),
	ZR_OPT(struct adamw_opts, eps, ZR_T_F64, CHANGES, "1e-8", 0, ZR_HI, "",
	       "Added to the root of the averaged square before dividing by it."),
	ZR_OPT(struct adamw_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter, times the learning rate, that a step takes away."),
	ZR_OPT(struct adamw_opts, bias_correction, ZR_T_BOOL, CHANGES, "yes", 0, 0, "",
	       "Divide the averages by what their start at zero left out."),
};

enum { EXP_AVG, EXP_AVG_SQ, N_STATE };
static const struct zr_state states[N_STATE] = {
	[EXP_AVG] = { "exp_avg", ZR_F32, 0, 0 },
	[EXP_AVG_SQ] = { "exp_avg_sq", ZR_F32, 0, 0 },
};

struct zr_inst {
	const struct zr_host *h;
};

static const struct zr_state *adamw_states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = N_STATE;
	return states;
}

static int adamw_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct adamw_opts *o = s->opts;
	uint64_t i;
	int rc = ZR_OK;
	if (!ZR_HAS(s->ops, struct zr_ops, adamw) || !s->ops->adamw)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no adamw operation");
	for (i = 0; i < s->n_seg && !rc; i++) {
		int64_t off = s->seg[i].off;
		struct zr_op_adamw op = {
			.size = sizeof op,
			.lowp_dtype = s->lowp.dtype,
			.bias_correction = o->bias_correction,
			.n = s->seg[i].n,
			.beta1 = o->betas[0],
			.beta2 = o->betas[1],
			.eps = o->eps,
			.weight_decay = o->weight_decay,
			.scalars = s->scalars,
			.grad = piece_f32(&s->grad, off),
			.master = piece_f32(&s->master, off),
			.m = piece_f32(&s->state[EXP_AVG], off),
			.v = piece_f32(&s->state[EXP_AVG_SQ], off),
			.lowp = piece_lowp(&s->lowp, off),
		};
		rc = s->ops->adamw(s->ops, s->stream, &op);
	}
	return rc;
}

static int adamw_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts; /* every piece brings those of its group */
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void adamw_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = adamw_states,
	.step = adamw_step,
};
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "adamw",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "AdamW on the device that holds the parameters.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct adamw_opts),
	.create = adamw_create,
	.destroy = adamw_destroy,
};
ZR_PLUGIN(&desc);
