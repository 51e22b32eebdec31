/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_job.c - see kernels_job.h.
 */
#include "kernels_job.h"

#include <stdlib.h>

/* Odd ones. */
static const struct shape shapes[] = { { 1, 1, 1 },      { 3, 7, 15 },      { 13, 97, 64 },
				       { 131, 33, 129 }, { 67, 160, 4099 }, { 5, 130, 8803 } };

#define SHAPES (int)(sizeof shapes / sizeof *shapes)

static uint64_t seed;

void *noise(int64_t n, int32_t dtype)
{
	void *p = fixture_buffer(n, dtype);

	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		zr_put(p, i, dtype, (float)((double)(int32_t)(seed >> 32) * 0x1p-30));
	}
	return p;
}

void *output(struct job *j, int64_t n, int32_t dtype, int fresh)
{
	void *p = fresh ? fixture_buffer(n, dtype) : noise(n, dtype);

	assert_true(j->outs < (int)(sizeof j->out / sizeof *j->out));
	j->out[j->outs].p = p;
	j->out[j->outs].n = n;
	j->out[j->outs++].dtype = dtype;
	return p;
}

void *absolute(void *p, int64_t n, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++)
		zr_put(p, i, dtype, fabsf(zr_get(p, i, dtype)));
	return p;
}

const int32_t *draw_tokens(int64_t n, int32_t vocabulary)
{
	int32_t *t = fixture_buffer(n, ZR_F32);

	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		t[i] = (int32_t)((seed >> 33) % (uint32_t)vocabulary);
	}
	return t;
}

/* ---- the tests ---- */

static struct job make(const struct kernel *kernel, const struct shape *s, int32_t dtype,
		       int variation)
{
	struct job j = { .span = s->n, .grain = 64 };

	seed = 99;
	kernel->make(&j, s, dtype, variation);
	return j;
}

/* Runs the job in pieces of `grains` grains, the last piece first. */
static void run_cut(const struct kernel *kernel, const struct zr_cpu_kernels *k, struct job *j,
		    int64_t grains)
{
	int64_t piece = grains * j->grain, pieces = (j->span + piece - 1) / piece;

	for (int64_t i = pieces - 1; i >= 0; i--)
		kernel->run(k, j, i * piece, (i + 1) * piece < j->span ? (i + 1) * piece : j->span);
}

static void compare(const struct job *got, const struct job *want, double tolerance)
{
	for (int o = 0; o < want->outs; o++) {
		int32_t dtype = want->out[o].dtype;
		int64_t n = want->out[o].n;
		if (tolerance == 0) {
			assert_memory_equal(got->out[o].p, want->out[o].p,
					    (size_t)(n * fixture_size(dtype)));
			continue;
		}
		for (int64_t i = 0; i < n; i++) {
			double w = fixture_get(want->out[o].p, i, dtype);
			double t = dtype == ZR_BF16 ? 0x1p-7 :
				   dtype == ZR_F16  ? 0x1p-10 :
						      tolerance;
			fixture_near(fixture_get(got->out[o].p, i, dtype), w,
				     t * (1 + (w < 0 ? -w : w)));
		}
	}
}

struct state {
	const struct zr_cpu_kernels *k;
	const struct kernel *kernel;
	char name[96];
};

/* check(state, shape, dtype, variation) for all of them */
static void for_all(const struct state *s,
		    void (*check)(const struct state *, const struct shape *, int32_t, int))
{
	if (!fixture_runs(s->k))
		skip();
	for (int i = 0; i < SHAPES; i++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_F16; dtype++)
			for (int v = 0; v < s->kernel->variations; v++) {
				check(s, shapes + i, dtype, v);
				fixture_release();
			}
}

static void check_cuts(const struct state *s, const struct shape *shape, int32_t dtype,
		       int variation)
{
	struct job whole = make(s->kernel, shape, dtype, variation);

	s->kernel->run(s->k, &whole, 0, whole.span);
	for (int64_t grains = 1; grains <= 3; grains += 2) {
		struct job cut = make(s->kernel, shape, dtype, variation);
		run_cut(s->kernel, s->k, &cut, grains);
		compare(&cut, &whole, 0);
	}
}

static void check_oracle(const struct state *s, const struct shape *shape, int32_t dtype,
			 int variation)
{
	struct job oracle = make(s->kernel, shape, dtype, variation),
		   j = make(s->kernel, shape, dtype, variation);

	s->kernel->run(&zr_cpu_scalar, &oracle, 0, oracle.span);
	s->kernel->run(s->k, &j, 0, j.span);
	compare(&j, &oracle, s->kernel->tolerance);
}

static void test_cuts(void **state)
{
	for_all(*state, check_cuts);
}

static void test_oracle(void **state)
{
	for_all(*state, check_oracle);
}

int job_main(const char *name, const struct kernel *kernels, int n_kernels)
{
	/* two tests of three variants */
	struct state *states = calloc((size_t)(6 * n_kernels), sizeof *states);
	struct CMUnitTest *tests = calloc((size_t)(6 * n_kernels), sizeof *tests);
	const struct zr_cpu_kernels *k;
	int n = 0, rc;

	if (!states || !tests)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	for (int i = 0; (k = fixture_kernels(i)); i++)
		for (int op = 0; op < n_kernels; op++)
			for (int cuts = k == &zr_cpu_scalar; cuts <= 1; cuts++) {
				struct state *s = states + n;
				*s = (struct state){ .k = k, .kernel = kernels + op };
				snprintf(s->name, sizeof s->name, "%s %s %s", k->name,
					 kernels[op].name,
					 cuts ? "has the same bits however it is cut (I1)" :
					 kernels[op].tolerance > 0 ? "agrees with the oracle" :
								     "has the oracle's bits");
				tests[n++] = (struct CMUnitTest){ .name = s->name,
								  .initial_state = s,
								  .test_func = cuts ? test_cuts :
										      test_oracle };
			}
	rc = _cmocka_run_group_tests(name, tests, (size_t)n, NULL, NULL);
	free(states);
	free(tests);
	return rc;
}
