/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_adam.c - AdamW or Adam on host memory, whatever the device: our own sweep with the widest
 * vectors of this processor on the host's threads. Same formula and same bits as adamw and adam on
 * device/cpu: no operation of the kernel depends on the width of its vectors, nor on where a
 * sub-group is split.
 */
#include "adam_family.h"
#include "plugins/descriptor.h"

#include <kernels.h>

/* Elements per item: some MB of traffic, so that threads rarely ask for work. */
#define CUT (32 * ZR_BLOCK)

struct cpu_adam_opts {
	struct adam_opts adam;
	uint8_t adamw_mode;
};

static const struct zr_opt options[] = {
	ADAM_OPTIONS(
		"Share of each parameter that a step takes away, times the learning rate, or that "
		"is added to its gradient, by adamw_mode."),
	ZR_OPT(struct cpu_adam_opts, adamw_mode, ZR_T_BOOL, ADAM_CHANGES, "yes", 0, 0, "",
	       "Decay the parameters themselves (AdamW); no adds the decay to the gradient (Adam, "
	       "L2)."),
};

struct job {
	struct zr_op_adamw op; /* on the whole sub-group */
	const struct zr_cpu_kernels *k;
	const struct zr_opt_step *s;
};

/* Updates those of the elements [item * CUT, item * CUT + CUT) of the sub-group that belong to a
 * segment. */
static void update(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t lo = item * CUT, hi = lo + CUT;
	uint64_t i;
	(void)worker;
	for (i = 0; i < j->s->n_seg; i++) {
		const struct zr_seg *g = ZR_SEG(j->s, i);
		int64_t from = g->off > lo ? g->off : lo;
		int64_t to = g->off + g->n < hi ? g->off + g->n : hi;
		if (from < to)
			j->k->adamw(&j->op, from, to);
	}
}

static int cpu_adam_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct cpu_adam_opts *o = s->opts;
	/* those of the step may lie where only a device reads */
	const struct zr_scalars scalars = { s->step, (float)s->grad_mult, (float)s->lr };
	int64_t n = (int64_t)s->grad.count;
	struct job j = { adam_op(inst, s, 0, n, !o->adamw_mode), zr_cpu_variant(zr_cpu_best()), s };
	j.op.scalars = &scalars;
	inst->h->parallel(inst->h, (n + CUT - 1) / CUT, update, &j);
	return ZR_OK;
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
	.state_version = ADAM_STATE_VERSION,
	.state_stride = sizeof(struct zr_state),
	.states = adam_states,
	.step = cpu_adam_step,
	.upgrade = adam_upgrade,
	.split_masters = 1,
};

PLUGIN(optimizer, "cpu_adam", &vtbl, .version = "1",
       .summary = "AdamW or Adam on host memory, by the processor.",
       PLUGIN_OPTIONS(struct cpu_adam_opts, options), .create = adam_create,
       .destroy = adam_destroy);
