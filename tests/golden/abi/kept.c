/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - an optimizer, a scheduler and a monitor in one file, which make.sh builds with the
 * headers of each minor of the plugin ABI; minorN.so are these builds, which every later host
 * must load. tests/system/abi.sh runs them.
 */
#include <zeroth/monitor.h>
#include <zeroth/optimizer.h>
#include <zeroth/scheduler.h>

#include <stdlib.h>
#include <string.h>

struct opts {
	double lr, keep;
	uint64_t period;
};

static const struct zr_opt of_optimizer[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP | ZR_O_SCHED, "1e-2", 0, ZR_HI,
	       "", "Learning rate."),
	ZR_OPT(struct opts, keep, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP | ZR_O_MAX_OPEN, "0.5", 0, 1,
	       "", "Share of the last step that is kept."),
};
static const struct zr_opt of_scheduler[] = {
	ZR_OPT(struct opts, period, ZR_T_COUNT, ZR_O_NUMERIC, "3", 1, ZR_HI, "updates",
	       "Updates between two halvings."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	FILE *f;
};

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	inst->o = opts;
	inst->f = NULL;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	if (inst->f)
		fclose(inst->f);
	free(inst);
}

/* ---- optimizer: p -= lr (m = keep m + g) ---- */

static const struct zr_state table[] = { { "kept", ZR_F32, 0, 0 } };

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 1;
	return table;
}

struct job {
	const struct zr_opt_step *s;
	const struct zr_seg *g;
};

static void update(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_opt_step *s = j->s;
	const struct opts *o = s->opts;
	const float *grad = s->grad.data, lr = (float)s->lr, keep = (float)o->keep;
	float *p = s->master.data, *m = s->state[0].data;
	int64_t first = j->g->off + item * ZR_BLOCK, last = j->g->off + j->g->n;
	(void)worker;
	for (int64_t i = first; i < last && i < first + ZR_BLOCK; i++) {
		m[i] = keep * m[i] + grad[i] * (float)s->grad_mult;
		p[i] -= lr * m[i];
	}
}

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	if (s->lowp.data)
		return zr_fail(inst->h, ZR_ENOTSUP, "this one is for fp32");
	for (uint64_t i = 0; i < s->n_seg; i++) {
#if ZR_ABI_MINOR < 4
		struct job job = { s, &s->seg[i] };
#else
		struct job job = { s, ZR_SEG(s, i) };
#endif
		inst->h->parallel(inst->h, (job.g->n + ZR_BLOCK - 1) / ZR_BLOCK, update, &job);
	}
	return ZR_OK;
}

static const struct zr_optimizer_v1 optimizer = { .size = sizeof optimizer,
						  .caps = ZR_OPT_ELEMENTWISE,
						  .mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
						  .state_version = 1,
						  .state_stride = sizeof(struct zr_state),
						  .states = states,
						  .step = step };

/* ---- scheduler: half the rate every period ---- */

static int value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	*lr = at->base;
	for (int64_t i = at->step / (int64_t)inst->o->period; i > 0 && i < 64; i--)
		*lr /= 2;
	return ZR_OK;
}

static const struct zr_scheduler_v1 scheduler = { .size = sizeof scheduler, .value = value };

/* ---- monitor: steps and losses, a line each ---- */

static int metrics(struct zr_inst *inst, int64_t at, const struct zr_metric *m, uint32_t n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/kept.txt", inst->h->run_dir);
	if (!inst->f && !(inst->f = fopen(path, "w")))
		return zr_fail(inst->h, ZR_EIO, "cannot write %s", path);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(m[i].name, "loss"))
			fprintf(inst->f, "%lld %.9g\n", (long long)at, m[i].value);
	return ZR_OK;
}

static int flush(struct zr_inst *inst)
{
	return inst->f && fflush(inst->f) ? zr_fail(inst->h, ZR_EIO, "cannot write") : ZR_OK;
}

static const struct zr_monitor_v1 monitor = { .size = sizeof monitor,
					      .metrics = metrics,
					      .flush = flush };

#define DESC(name, table)                                                                          \
	static const struct zr_iface name##_ifaces[] = { { "zr." #name "/1", &name },              \
							 { NULL, NULL } };                         \
	static const struct zr_desc name##_desc = { .size = sizeof(struct zr_desc),                \
						    .role = #name,                                 \
						    .id = "kept",                                  \
						    .version = "1",                                \
						    .license = "Apache-2.0",                       \
						    .summary = "Kept for later hosts.",            \
						    .ifaces = name##_ifaces,                       \
						    .opts = table,                                 \
						    .n_opts = sizeof table / sizeof *table,        \
						    .opt_stride = sizeof *table,                   \
						    .opts_size = sizeof(struct opts),              \
						    .create = create,                              \
						    .destroy = destroy };
DESC(optimizer, of_optimizer)
DESC(scheduler, of_scheduler)
static const struct zr_opt of_monitor[] = {
	ZR_OPT(struct opts, period, ZR_T_COUNT, 0, "1", 1, ZR_HI, "steps", "Does nothing."),
};
DESC(monitor, of_monitor)
ZR_PLUGIN(&optimizer_desc, &scheduler_desc, &monitor_desc);
