/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_scalars.c - scalars of the run of an optimizer under test: they are lent to its steps, and
 * advance() is called for them; and what a call of the optimizer may return.
 */
#include "cmd/check/optimizer.h"

#include <math.h>
#include <string.h>

uint32_t zr_bench_scalars(const struct zr_bench *b)
{
	if (b->c->minor < 5 || !ZR_HAS(b->v, struct zr_optimizer_v1, n_run) || !b->v->advance)
		return 0;
	return b->v->n_run;
}

double *zr_bench_lend_scalars(const struct zr_bench *b, const double *values)
{
	const size_t bytes = zr_bench_scalars(b) * sizeof *values;
	double *lent;

	if (!bytes)
		return NULL;
	lent = zr_area_new(b->c, "the scalars of the run", bytes, 8);
	memcpy(lent, values, bytes);
	zr_area_protect(b->c, lent, 1);
	return lent;
}

void zr_bench_judge(struct zr_bench *b, const struct zr_bench_way *way, int rc)
{
	zr_check_device_text(b->c, &b->it, rc);
	if (way->lenient)
		zr_may_fail(&b->it, rc);
	else if (rc == ZR_ENOTSUP && way->lowp == ZR_F16 && zr_may_fail(&b->it, rc))
		b->no_fp16 = 1;
	else
		zr_must(&b->it, rc);
}

/* Sums over all parameters; whether they are finite. */
static int sum_all(const struct zr_bench *b, double *sums)
{
	int finite = 1;

	for (uint32_t k = 0; k < b->v->n_partial; k++) {
		struct zr_exact all = { 0 };
		for (int i = 0; i < ZR_BENCH_TENSORS; i++)
			zr_exact_merge(&all, &b->sums[i][k]);
		sums[k] = zr_exact_value(&all);
		finite &= isfinite(sums[k]) != 0;
	}

	return finite;
}

/* One call of advance(), with nothing that it may not touch in reach; run: in and out. */
static void advance_once(struct zr_bench *b, const struct zr_bench_way *way, int number,
			 double *run)
{
	struct zr_check *c = b->c;
	const double lr = way->lr ? way->lr : 1e-2, *sums = b->all;
	const size_t bytes = zr_bench_scalars(b) * sizeof *run;
	const size_t known = offsetof(struct zr_opt_update, sums) + sizeof(double *);
	const void *opts[2] = { b->it.opts, b->others };
	double *lent = zr_area_new(c, "the scalars of the run", bytes, 8);
	struct zr_opt_update u = { .size = sizeof u,
				   .n_group = b->others ? 2 : 1,
				   .step = number,
				   .elements = b->elements,
				   .lr = (const double[]){ lr, lr },
				   .opts = opts,
				   .sums = b->v->n_partial ? sums : NULL };

	memcpy(lent, run, bytes);
	struct zr_opt_update *at = zr_lend(c, "struct zr_opt_update", &u, sizeof u, known);
	zr_area_protect(c, at, 1);
	zr_bench_judge(b, way, ZR_CALL(c, ZR_STEP, "advance", b->v->advance(b->it.inst, at, lent)));
	memcpy(run, lent, bytes);
	zr_area_free(c, at);
	zr_area_free(c, lent);
}

void zr_bench_advance(struct zr_bench *b, const struct zr_bench_way *way, int number)
{
	const uint32_t n = zr_bench_scalars(b);
	double again[ZR_OPT_RUN];

	memcpy(b->run_before, b->run, sizeof b->run);
	memcpy(again, b->run, sizeof again);
	if (!sum_all(b, b->all))
		return;
	advance_once(b, way, number, b->run);
	advance_once(b, way, number, again);
	for (uint32_t i = 0; i < n; i++) {
		if (memcmp(&b->run[i], &again[i], sizeof again[i]))
			zr_check_fail(b->c,
				      "advance() makes %s %a, and called again %a; what it makes "
				      "follows from its arguments alone",
				      b->v->run_names[i], b->run[i], again[i]);
		if (!way->lenient && !isfinite(b->run[i]))
			zr_check_fail(b->c, "advance() makes %s %g; scalars of the run are finite",
				      b->v->run_names[i], b->run[i]);
	}
}
