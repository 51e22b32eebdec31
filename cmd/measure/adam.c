/* SPDX-License-Identifier: Apache-2.0
 *
 * adam.c - updates by the optimizer of the configuration, with states in fp32 and in 8 bits.
 */

#include "bench.h"

#define MOST (1 << 23) /* parameters */

struct update {
	struct zr_bench *b;
	const struct zr_optimizer_v1 *vtbl;
	struct zr_instance *it;
	struct zr_opt_step step;
	struct zr_buf state[8];
	struct zr_seg seg;
	int64_t dims[1];
};

static int update(void *arg)
{
	struct update *u = arg;
	return zr_instance_failed(u->it, u->vtbl->step(u->it->inst, &u->step), "step", u->b->err);
}

static struct zr_buf buffer(const struct update *u, int64_t n, int32_t dtype, uint64_t bytes)
{
	const uint32_t mem = u->b->s->facts.device_info.unified ? ZR_MEM_HOST : ZR_MEM_DEVICE;
	return (struct zr_buf){ zr_bench_take(u->b, bytes), (uint64_t)n, dtype, mem };
}

/* A state of zeros is one that optimizers start with. */
static int clear(struct update *u, const struct zr_buf *x, uint64_t bytes)
{
	static const char zeros[1 << 16];
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += sizeof zeros)
		rc = zr_bench_put(u->b, (char *)x->data + at, zeros,
				  bytes - at < sizeof zeros ? bytes - at : sizeof zeros);
	return rc;
}

static int place(struct update *u, int64_t n)
{
	struct zr_bench *b = u->b;
	const struct zr_scalars scalars = { 3, 0.5f, 1e-4f };
	uint32_t n_state = 0;
	int rc = 0;

	zr_bench_empty(b);
	u->dims[0] = n;
	u->seg = (struct zr_seg){ .n = n, .ndim = 1, .dims = u->dims, .name = "p" };
	u->step = (struct zr_opt_step){ .size = sizeof u->step,
					.seg_stride = sizeof(struct zr_seg),
					.step = 3,
					.lr = 1e-4,
					.grad_mult = 0.5,
					.opts = u->it->section->opts,
					.state = u->state,
					.seg = &u->seg,
					.n_seg = 1,
					.ops = b->s->roles.ops };
	u->step.master = buffer(u, n, ZR_F32, 4 * (uint64_t)n);
	u->step.grad = buffer(u, n, ZR_F32, 4 * (uint64_t)n);
	const struct zr_state *s = u->vtbl->states(u->it->inst, &n_state);
	for (uint32_t i = 0; i < n_state && !rc; i++) {
		const struct zr_state *one =
			(const void *)((const char *)s + i * (size_t)u->vtbl->state_stride);
		const uint64_t block = one->dtype ? zr_dtype_block(one->dtype) :
						    one->bytes_per_block;
		const uint64_t bytes = (uint64_t)n / ZR_BLOCK * block;
		u->state[i] = buffer(u, n, one->dtype, bytes);
		rc = clear(u, &u->state[i], bytes);
	}

	u->step.n_state = n_state;
	void *at = zr_bench_take(b, sizeof scalars);
	u->step.scalars = at;
	if (rc)
		return rc;
	return zr_bench_put(b, at, &scalars, sizeof scalars);
}

/* ---- the limit: the same memory, with almost no arithmetic ------------------------ */

#define CUT (64 * ZR_BLOCK)

static void stream_cut(void *arg, int64_t item, int32_t worker)
{
	typedef uint32_t wide __attribute__((vector_size(64), may_alias));
	const struct update *u = arg;
	const int64_t first = item * CUT * 4;
	(void)worker;
	for (int64_t i = first; i < first + CUT * 4; i += 64) {
		const wide g = *(const wide *)((const char *)u->step.grad.data + i);
		*(wide *)((char *)u->step.master.data + i) ^= g;
		*(wide *)((char *)u->state[0].data + i) ^= g;
		*(wide *)((char *)u->state[1].data + i) ^= g;
	}
}

static int streams(void *arg)
{
	struct update *u = arg;
	zr_pool_run(u->b->s->facts.process.pool, MOST / CUT, stream_cut, u);
	return 0;
}

static double limit_of(struct update *u)
{
	const double at = MOST;

	if (!u->b->s->facts.device_info.host_ops || u->step.n_state != 2 ||
	    u->state[0].dtype != ZR_F32)
		return 0;

	double t = zr_bench_time(u->b, streams, u);
	zr_bench_note(u->b, "limit.update", &at, 1, at, t, "parameter/s", 0, 1);
	return t > 0 ? at / t : 0;
}

static int measure_adam(struct zr_bench *b)
{
	static const int64_t sizes[] = { MOST, 1 << 18, 1 << 14 };
	const struct zr_section *sec = b->s->roles.param_group[0].section;
	struct update u = { .b = b, .it = &b->s->roles.optimizer[0].it };
	char name[ZR_RATE_NAME];
	double limit = 0;
	int rc = 0;

	u.vtbl = u.it->vtbl;
	if (u.vtbl->caps & ZR_OPT_WHOLE || u.vtbl->partial)
		return 0; /* needs more than ranges of elements */
	for (int i = 0; i < 3 && !rc; i++) {
		const double at = (double)sizes[i];
		rc = place(&u, sizes[i]);
		if (!rc && !i)
			limit = limit_of(&u);
		rc = rc || !i ? rc : b->err->code;
		if (!rc)
			rc = place(&u, sizes[i]); /* numbers again */
		double t = rc ? 0 : zr_bench_time(b, update, &u);
		snprintf(name, sizeof name, "%s.%s", sec->plugin->desc->id,
			 b->job->subject == &zr_bench_adam8 ? "8bit" : "fp32");
		zr_bench_note(b, name, &at, 1, at, t, "parameter/s", i ? 0 : limit, !i);
		rc = b->err->code;
	}

	return rc;
}

const struct zr_bench_subject zr_bench_adam = {
	.name = "adam",
	.summary = "updates, states in fp32 and in 8 bits",
	.run = measure_adam,
	.room = 4ull * 4 * MOST + (1 << 20),
	.seconds = 0.1,
	.least_ranks = 1,
	.by_thread = 1,
};

static const char *const in_8_bits[] = { "optimizer.states=8bit", NULL };
const struct zr_bench_subject zr_bench_adam8 = {
	.name = "adam",
	.summary = NULL,
	.run = measure_adam,
	.room = 4ull * 4 * MOST + (1 << 20),
	.seconds = 0.1,
	.least_ranks = 1,
	.by_thread = 1,
	.overrides = in_8_bits,
	.needs = "states",
};
