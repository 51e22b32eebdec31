/* SPDX-License-Identifier: Apache-2.0
 *
 * signsgd.c - a complete optimizer outside the tree: signSGD (Bernstein et al. 2018) with decoupled
 * weight decay, p -= lr * (sign(g) + weight_decay * p). Plain C on host memory, no state.
 *
 *   cc -shared -fPIC -O2 $(pkg-config --cflags zeroth-plugin) -o signsgd.so signsgd.c
 *   zeroth train conf/quickstart.ini -o optimizer.plugin=$PWD/signsgd.so -o optimizer.lr=3e-4
 */
#include <zeroth/optimizer.h>

#include <stdlib.h>
#include <string.h>

struct signsgd_opts {
	double lr;
	double weight_decay;
};

/* One table: the INI's keys, their ranges and defaults, and what `zeroth plugin info` prints. */
static const struct zr_opt options[] = {
	ZR_OPT(struct signsgd_opts, lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP | ZR_O_SCHED, "3e-4", 0,
	       ZR_HI, "", "Learning rate: how far every parameter moves per step."),
	ZR_OPT(struct signsgd_opts, weight_decay, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP, "0", 0,
	       ZR_HI, "",
	       "Share of each parameter, times the learning rate, that a step takes away."),
};

struct zr_inst {
	const struct zr_host *h;
};

/* One segment of a piece, for the threads of the host. */
struct job {
	const struct zr_opt_step *s;
	const struct zr_seg *seg;
};

#define ITEM 16384 /* elements; results do not depend on it */

static uint16_t to_bf16(float x) /* half away from zero */
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return (uint16_t)(x != x ? 0x7fc0 : (bits + 0x8000) >> 16);
}

static void update_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_opt_step *s = j->s;
	const struct signsgd_opts *o = s->opts;
	const float *grad = s->grad.data, lr = (float)s->lr,
		    decay = (float)(s->lr * o->weight_decay);
	float *p = s->master.data;
	int64_t i = j->seg->off + item * ITEM, end = i + ITEM, last = j->seg->off + j->seg->n;
	(void)worker;
	for (; i < end && i < last; i++) {
		/* the sign needs no grad_mult: it is positive */
		p[i] -= decay * p[i] + lr * (float)((grad[i] > 0) - (grad[i] < 0));
		if (s->lowp.data && s->lowp.dtype == ZR_BF16)
			((uint16_t *)s->lowp.data)[i] = to_bf16(p[i]);
		else if (s->lowp.data)
			((float *)s->lowp.data)[i] = p[i];
	}
}

static const struct zr_state *signsgd_states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 0;
	return NULL;
}

static int signsgd_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	uint64_t i;
	if (s->lowp.data && s->lowp.dtype != ZR_BF16 && s->lowp.dtype != ZR_F32)
		return zr_fail(inst->h, ZR_ENOTSUP, "writes parameters as fp32 or bf16 only");
	for (i = 0; i < s->n_seg; i++) {
		struct job job = { s, ZR_SEG(s, i) };
		inst->h->parallel(inst->h, (ZR_SEG(s, i)->n + ITEM - 1) / ITEM, update_item, &job);
	}
	return ZR_OK;
}

static int signsgd_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts; /* every piece brings those of its group */
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void signsgd_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = signsgd_states,
	.step = signsgd_step,
};
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "signsgd",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "signSGD with decoupled weight decay.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct signsgd_opts),
	.create = signsgd_create,
	.destroy = signsgd_destroy,
};
ZR_PLUGIN(&desc);
