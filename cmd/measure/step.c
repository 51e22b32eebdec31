/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - steps of training as a whole, of a small model or of that of a configuration.
 */

#include "bench.h"
#include "train/fit.h"
#include "train/run/timeline.h"

#define MOST  200 /* steps */
#define FIRST 2   /* that do not count */

/* Operations of a step of one rank: 6 for each parameter of a product and token (Kaplan et al.
 * 2020), without attention's scores. */
static double operations(const struct zr_setup *s)
{
	double n = 0;
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		n += s->facts.layout.tensor[i].decl->ndim == 2 ?
			     (double)s->facts.layout.tensor[i].elements :
			     0;
	return 6 * n * (double)(s->facts.batch.train * s->facts.batch.length) /
	       s->facts.process.world;
}

static int steps(struct zr_bench *b, struct zr_session *ss)
{
	struct zr_timeline line;
	double whole = 0, update = 0, began = zr_now();
	int n = 0, rc = zr_timeline_open(&line, ss, NULL, b->err);

	for (int i = 0; i < MOST && !rc; i++) {
		struct zr_step_result r;
		const double t = zr_now();
		/* rank 0 says that it is enough, as a signal would */
		const int last = !b->rank && i > FIRST && t - began > b->seconds;
		zr_timeline_begin(&line);
		rc = zr_session_step(ss, last, &r, b->err);
		const double took = zr_timeline_end(&line);
		if (i >= FIRST) {
			whole += took;
			update += line.update;
			n++;
		}

		if (r.stop)
			break;
	}

	zr_timeline_close(&line);
	if (rc || !n)
		return rc;

	const struct zr_batch_shape *batch = &b->s->facts.batch;
	const double one = 1, tokens = (double)(batch->train * batch->length),
		     params = (double)b->s->facts.layout.parameters;
	b->seconds = 0.02; /* of the limit */
	double peak = zr_bench_fma(b, 0);
	zr_bench_note(b, "step", &one, 1, n, whole, "op/s", 0, 1);
	zr_bench_note(b, "step.tokens", &tokens, 1, n * tokens, whole, "token/s", 0, 1);
	zr_bench_note(b, "step.update", &params, 1, n * params, update, "parameter/s", 0, 1);
	zr_bench_note(b, "step.products", &tokens, 1, n * operations(b->s), whole, "FLOP/s", peak,
		      1);
	if (!b->rank && b->job->table)
		printf("  a step takes %.2f ms, its update %.0f %% of them\n", 1e3 * whole / n,
		       100 * update / whole);
	return b->err->code;
}

static int measure_step(struct zr_bench *b)
{
	struct zr_session *ss = NULL;

	int rc = zr_plan_check(b->s, 0, b->err);
	if (!rc)
		rc = zr_session_open(b->s, &ss, b->err);
	if (!rc)
		rc = zr_session_begin(ss, zr_init_values, ss, b->err);
	if (!rc)
		rc = steps(b, ss);
	zr_bench_meet(b);
	if (ss)
		zr_session_close(ss);
	return rc;
}

const struct zr_bench_subject zr_bench_step = {
	.name = "step",
	.summary = "steps of a small model, or of that of CONF",
	.run = measure_step,
	.seconds = 1.5,
	.least_ranks = 1,
};
