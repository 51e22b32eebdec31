/* SPDX-License-Identifier: Apache-2.0
 *
 * rounding.c - an optimizer (p -= lr * grad) that is right but for how it leaves the processor;
 * tests/system/rounding.sh builds and runs it. CHANGE_IN: resolve, create, step or item, where it
 * changes that; CHANGE_TO: up, down, zero (how it rounds) or denormals (which are then taken for
 * 0).
 */
#include <zeroth/optimizer.h>

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

struct opts {
	double lr;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, ZR_O_SCHED | ZR_O_NUMERIC, "1e-2", 0, ZR_HI, "",
	       "Learning rate."),
};

struct zr_inst {
	const struct zr_host *h;
};

struct job {
	const struct zr_opt_step *s;
	const struct zr_seg *seg;
};

static void change(const char *where)
{
	const char *in = getenv("CHANGE_IN"), *to = getenv("CHANGE_TO");
	if (!in || !to || strcmp(in, where))
		return;
	fesetround(!strcmp(to, "up")   ? FE_UPWARD :
		   !strcmp(to, "down") ? FE_DOWNWARD :
		   !strcmp(to, "zero") ? FE_TOWARDZERO :
					 FE_TONEAREST);
#ifdef __x86_64__
	if (!strcmp(to, "denormals"))
		_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static void update_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_opt_step *s = j->s;
	int64_t first = j->seg->off + item * ZR_BLOCK, left = j->seg->n - item * ZR_BLOCK;
	float *p = (float *)s->master.data + first;
	const float *g = (const float *)s->grad.data + first;
	(void)worker;
	for (int64_t i = 0; i < left && i < ZR_BLOCK; i++)
		p[i] -= (float)s->lr * (float)s->grad_mult * g[i];
	change("item");
}

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	for (uint64_t i = 0; i < s->n_seg; i++) {
		struct job job = { s, ZR_SEG(s, i) };
		inst->h->parallel(inst->h, (ZR_SEG(s, i)->n + ZR_BLOCK - 1) / ZR_BLOCK, update_item,
				  &job);
	}
	change("step");
	return ZR_OK;
}

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 0;
	return NULL;
}

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	(void)h, (void)facts, (void)opts;
	change("resolve");
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	(void)opts;
	*out = malloc(sizeof **out);
	if (!*out)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	(*out)->h = h;
	change("create");
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 optimizer = { .size = sizeof optimizer,
						  .caps = ZR_OPT_ELEMENTWISE,
						  .mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
						  .state_version = 1,
						  .state_stride = sizeof(struct zr_state),
						  .states = states,
						  .step = step };
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &optimizer }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "rounding",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Changes how the processor rounds.",
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.ifaces = ifaces,
	.resolve = resolve,
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
