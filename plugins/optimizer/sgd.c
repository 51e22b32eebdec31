/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd.c - stochastic gradient descent with torch.optim.SGD's momentum, computed by the device that
 * holds the memory; see struct zr_op_sgd for the formula. State: one fp32 buffer per element if
 * momentum > 0.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>

#include "piece.h"
#include "plugins/descriptor.h"

struct sgd_opts {
	double lr;
	double momentum;
	double dampening;
	double weight_decay;
	uint8_t nesterov;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct sgd_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-3", 0, ZR_HI, "",
	       "Learning rate."),
	/* not per group: it decides whether there is a buffer at all */
	ZR_OPT(struct sgd_opts, momentum, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MAX_OPEN, "0", 0, 1, "",
	       "Share of the last direction that is kept; 0 needs no state."),
	ZR_OPT(struct sgd_opts, dampening, ZR_T_F64, CHANGES, "0", 0, 1, "",
	       "Share of each gradient that is left out of the momentum."),
	ZR_OPT(struct sgd_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter that is added to its gradient (L2)."),
	ZR_OPT(struct sgd_opts, nesterov, ZR_T_BOOL, CHANGES, "no", 0, 0, "",
	       "Look ahead: step along the gradient plus the momentum."),
};

static const struct zr_state states[] = { { "momentum_buffer", ZR_F32, 0, 0 } };

struct zr_inst {
	const struct zr_host *h;
	uint32_t n_state;
};

static int sgd_check(const struct zr_host *h, const void *opts)
{
	const struct sgd_opts *o = opts;
	if (o->nesterov && (o->momentum <= 0 || o->dampening != 0))
		return zr_fail(h, ZR_EINVAL,
			       "nesterov = yes needs momentum > 0 and dampening = 0, got %g and %g",
			       o->momentum, o->dampening);
	if (o->dampening != 0 && o->momentum <= 0)
		return zr_fail(h, ZR_EINVAL, "dampening = %g does nothing without momentum",
			       o->dampening);
	return ZR_OK;
}

static const struct zr_state *sgd_states(struct zr_inst *inst, uint32_t *n)
{
	*n = inst->n_state;
	return states;
}

static int sgd_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct sgd_opts *o = s->opts;
	uint64_t i;
	int rc = ZR_OK;
	if (!ZR_HAS(s->ops, struct zr_ops, sgd) || !s->ops->sgd)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no sgd operation");

	for (i = 0; i < s->n_seg && !rc; i++) {
		int64_t off = ZR_SEG(s, i)->off;
		struct zr_op_sgd op = {
			.size = sizeof op,
			.lowp_dtype = s->lowp.dtype,
			.nesterov = o->nesterov,
			.n = ZR_SEG(s, i)->n,
			.momentum = o->momentum,
			.dampening = o->dampening,
			.weight_decay = o->weight_decay,
			.scalars = s->scalars,
			.grad = piece_f32(&s->grad, off),
			.master = piece_f32(&s->master, off),
			.buf = inst->n_state ? piece_f32(&s->state[0], off) : NULL,
			.lowp = piece_at(&s->lowp, off),
		};
		rc = s->ops->sgd(s->ops, s->stream, &op);
	}
	return rc;
}

static int sgd_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct sgd_opts *o = opts;
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	inst->n_state = o->momentum > 0;
	*out = inst;
	return ZR_OK;
}

static void sgd_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = sgd_states,
	.step = sgd_step,
};

PLUGIN(optimizer, "sgd", &vtbl, .version = "1",
       .summary = "Gradient descent with momentum on the device that holds the parameters.",
       PLUGIN_OPTIONS(struct sgd_opts, options), .check = sgd_check, .create = sgd_create,
       .destroy = sgd_destroy);
