/* SPDX-License-Identifier: Apache-2.0
 *
 * lamb.c - LAMB (You et al. 2020): Adam's direction, scaled per parameter by the ratio of the norms
 * of the parameter and of its step. Computed by the device that holds the memory in two sweeps, see
 * struct zr_op_lamb: the host adds up the norms over blocks and ranks in between. State: two fp32
 * moments per element.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>

#include "piece.h"
#include "plugins/descriptor.h"

struct lamb_opts {
	double lr;
	double betas[2];
	double eps;
	double weight_decay;
	double min_coeff, max_coeff;
	uint8_t bias_correction;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct lamb_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-3", 0, ZR_HI, "",
	       "Learning rate: how far a step moves each parameter, as a share of its norm."),
	ZR_OPT(struct lamb_opts, betas, ZR_T_F64S, CHANGES | ZR_O_MAX_OPEN, "0.9, 0.999", 0, 1, "",
	       "Decay per step of the averages of the gradient and of its square."),
	ZR_OPT(struct lamb_opts, eps, ZR_T_F64, CHANGES, "1e-8", 0, ZR_HI, "",
	       "Added to the root of the averaged square before dividing by it."),
	ZR_OPT(struct lamb_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter that is added to its direction, before the norm is taken."),
	ZR_OPT(struct lamb_opts, min_coeff, ZR_T_F64, CHANGES, "0.01", 0, ZR_HI, "",
	       "Least ratio of the two norms."),
	ZR_OPT(struct lamb_opts, max_coeff, ZR_T_F64, CHANGES, "10", 0, ZR_HI, "",
	       "Greatest ratio of the two norms."),
	ZR_OPT(struct lamb_opts, bias_correction, ZR_T_BOOL, CHANGES, "yes", 0, 0, "",
	       "Divide the averages by what their start at zero left out."),
};

enum { EXP_AVG, EXP_AVG_SQ, N_STATE };
static const struct zr_state states[N_STATE] = {
	[EXP_AVG] = { "exp_avg", ZR_F32, 0, 0 },
	[EXP_AVG_SQ] = { "exp_avg_sq", ZR_F32, 0, 0 },
};
enum { N_NORMS = 2 }; /* squares of the parameter and of its direction */

struct zr_inst {
	const struct zr_host *h;
};

static int lamb_check(const struct zr_host *h, const void *opts)
{
	const struct lamb_opts *o = opts;
	if (o->min_coeff > o->max_coeff)
		return zr_fail(h, ZR_EINVAL, "min_coeff = %g is above max_coeff = %g", o->min_coeff,
			       o->max_coeff);
	return ZR_OK;
}

static const struct zr_state *lamb_states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = N_STATE;
	return states;
}

/* The operation on elements [off, off + n) of the sub-group. */
static struct zr_op_lamb op_on(const struct zr_opt_step *s, int64_t off, int64_t n)
{
	const struct lamb_opts *o = s->opts;
	return (struct zr_op_lamb){
		.size = sizeof(struct zr_op_lamb),
		.lowp_dtype = s->lowp.dtype,
		.bias_correction = o->bias_correction,
		.n = n,
		.beta1 = o->betas[0],
		.beta2 = o->betas[1],
		.eps = o->eps,
		.weight_decay = o->weight_decay,
		.min_coeff = o->min_coeff,
		.max_coeff = o->max_coeff,
		.scalars = s->scalars,
		.grad = piece_f32(&s->grad, off),
		.master = piece_f32(&s->master, off),
		.m = piece_f32(&s->state[EXP_AVG], off),
		.v = piece_f32(&s->state[EXP_AVG_SQ], off),
		.lowp = piece_at(&s->lowp, off),
	};
}

static int device_lacks_lamb(const struct zr_inst *inst, const struct zr_ops *ops)
{
	if (ZR_HAS(ops, struct zr_ops, lamb) && ops->lamb && ops->lamb_norms)
		return ZR_OK;
	return zr_fail(inst->h, ZR_ENOTSUP, "this device has no lamb operations");
}

/* The end of the segments from `i` on that lie end to end, full blocks but for the last: one
 * operation for them. */
static uint64_t run_end(const struct zr_opt_step *s, uint64_t i)
{
	for (i++; i < s->n_seg; i++)
		if (ZR_SEG(s, i - 1)->n != ZR_BLOCK ||
		    ZR_SEG(s, i)->off != ZR_SEG(s, i - 1)->off + ZR_BLOCK)
			break;
	return i;
}

static int lamb_partial(struct zr_inst *inst, const struct zr_opt_step *s, double *out)
{
	uint64_t i, end;
	int rc = device_lacks_lamb(inst, s->ops);
	for (i = 0; i < s->n_seg && !rc; i++)
		if (ZR_SEG(s, i)->n > ZR_BLOCK)
			rc = zr_fail(
				inst->h, ZR_EINVAL,
				"partial: a segment of %lld elements is longer than a block of %d",
				(long long)ZR_SEG(s, i)->n, ZR_BLOCK);
	for (i = 0; i < s->n_seg && !rc; i = end) {
		end = run_end(s, i);
		int64_t n = (int64_t)(end - i - 1) * ZR_BLOCK + ZR_SEG(s, end - 1)->n;
		struct zr_op_lamb op = op_on(s, ZR_SEG(s, i)->off, n);
		op.block_norms = out + i * N_NORMS;
		rc = s->ops->lamb_norms(s->ops, s->stream, &op);
	}
	return rc;
}

static int lamb_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	uint64_t i;
	int rc = device_lacks_lamb(inst, s->ops);
	if (!rc && !s->partials)
		rc = zr_fail(inst->h, ZR_ESTATE, "no norms of the parameters came with the step");

	for (i = 0; i < s->n_seg && !rc; i++) {
		struct zr_op_lamb op = op_on(s, ZR_SEG(s, i)->off, ZR_SEG(s, i)->n);
		op.norms = s->partials + i * N_NORMS;
		rc = s->ops->lamb(s->ops, s->stream, &op);
	}
	return rc;
}

static int lamb_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts; /* every sub-group brings those of its parameter group */
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void lamb_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = 1,
	.n_partial = N_NORMS,
	.state_stride = sizeof(struct zr_state),
	.states = lamb_states,
	.step = lamb_step,
	.partial = lamb_partial,
};

PLUGIN(optimizer, "lamb", &vtbl, .version = "1",
       .summary = "LAMB: Adam with a step in proportion to the norm of each parameter.",
       PLUGIN_OPTIONS(struct lamb_opts, options), .check = lamb_check, .create = lamb_create,
       .destroy = lamb_destroy);
