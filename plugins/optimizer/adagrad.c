/* SPDX-License-Identifier: Apache-2.0
 *
 * adagrad.c - Adagrad (Duchi et al. 2011) as torch.optim.Adagrad, computed by the device that holds
 * the memory: one sweep per segment, see struct zr_op_adagrad for the formula. State: one fp32 sum
 * of squares per element.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>

#include "piece.h"
#include "plugins/descriptor.h"

struct adagrad_opts {
	double lr;
	double lr_decay;
	double eps;
	double weight_decay;
	double initial_accumulator_value;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct adagrad_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-2", 0, ZR_HI, "",
	       "Learning rate."),
	ZR_OPT(struct adagrad_opts, lr_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Step t divides the learning rate by 1 + (t - 1) times this."),
	ZR_OPT(struct adagrad_opts, eps, ZR_T_F64, CHANGES, "1e-10", 0, ZR_HI, "",
	       "Added to the root of the sum of squares before dividing by it."),
	ZR_OPT(struct adagrad_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter that is added to its gradient (L2)."),
	/* not per group: it is the first value of the state */
	ZR_OPT(struct adagrad_opts, initial_accumulator_value, ZR_T_F64, ZR_O_NUMERIC, "0", 0,
	       ZR_HI, "", "First value of the sum of squares."),
};

struct zr_inst {
	const struct zr_host *h;
	struct zr_state sum;
};

static const struct zr_state *adagrad_states(struct zr_inst *inst, uint32_t *n)
{
	*n = 1;
	return &inst->sum;
}

static int adagrad_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct adagrad_opts *o = s->opts;
	uint64_t i;
	int rc = ZR_OK;
	if (!ZR_HAS(s->ops, struct zr_ops, adagrad) || !s->ops->adagrad)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no adagrad operation");

	for (i = 0; i < s->n_seg && !rc; i++) {
		int64_t off = ZR_SEG(s, i)->off;
		struct zr_op_adagrad op = {
			.size = sizeof op,
			.lowp_dtype = s->lowp.dtype,
			.n = ZR_SEG(s, i)->n,
			.lr_decay = o->lr_decay,
			.eps = o->eps,
			.weight_decay = o->weight_decay,
			.scalars = s->scalars,
			.grad = piece_f32(&s->grad, off),
			.master = piece_f32(&s->master, off),
			.sum = piece_f32(&s->state[0], off),
			.lowp = piece_at(&s->lowp, off),
		};
		rc = s->ops->adagrad(s->ops, s->stream, &op);
	}
	return rc;
}

static int adagrad_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct adagrad_opts *o = opts;
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	inst->sum = (struct zr_state){ "sum", ZR_F32, 0, o->initial_accumulator_value };
	*out = inst;
	return ZR_OK;
}

static void adagrad_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = adagrad_states,
	.step = adagrad_step,
};

PLUGIN(optimizer, "adagrad", &vtbl, .version = "1",
       .summary = "Adagrad: steps shrink with the sum of squared gradients.",
       PLUGIN_OPTIONS(struct adagrad_opts, options), .create = adagrad_create,
       .destroy = adagrad_destroy);
