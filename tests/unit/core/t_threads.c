/* SPDX-License-Identifier: Apache-2.0
 *
 * t_threads.c - whole trainings with ranks as threads of one process, each with a session, a pool
 * and plugins' instances of its own: nothing in core or a plugin belongs to the process alone.
 * Under the thread sanitizer this is the test that no rank touches another's memory without saying
 * so; everywhere it is one more of I1.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/evaluate.h"

#include <cmocka.h> /* last: it defines fail() */

#define RANKS 4
#define STEPS 3

static char scratch[] = "/tmp/zeroth-threads-XXXXXX";

struct rank {
	struct zr_config *cfg;
	uint64_t digest; /* of the losses and the masters */
	struct zr_error err;
};

/* FNV-1a */
static void add(uint64_t *digest, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*digest = (*digest ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

static int add_master(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	(void)t;
	(void)first;
	add(arg, x, (size_t)n * sizeof *x);
	return 0;
}

static int steps(struct zr_session *s, struct rank *r)
{
	struct zr_step_result step;
	struct zr_eval_set set = { s->setup->roles.source, 3, 0 };
	struct zr_eval_result val;
	int rc = zr_session_begin(s, zr_init_values, s, &r->err);
	r->digest = 0xcbf29ce484222325u;
	for (int i = 0; !rc && i < STEPS; i++) {
		rc = zr_session_step(s, 0, &step, &r->err);
		add(&r->digest, &step.loss, sizeof step.loss);
	}
	if (!rc)
		rc = zr_evaluate(s, &set, &(struct zr_eval_how){ 0 }, &val, &r->err);
	add(&r->digest, &val.digest, sizeof val.digest);
	if (rc)
		return rc;
	return zr_session_masters(s, add_master, &r->digest, &r->err);
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	struct zr_setup *setup = NULL;
	struct zr_session *s = NULL;
	int rc = zr_setup_open(r->cfg, ZR_MODE_TRAIN, 0, 0, &setup, &r->err);
	if (!rc)
		rc = zr_session_open(setup, &s, &r->err);
	if (!rc)
		rc = steps(s, r);
	if (rc && setup)
		zr_setup_abort(setup, r->err.text);
	zr_session_close(s);
	zr_setup_close(setup);
	return NULL;
}

static void load(struct rank *r, int rank, int world, int node, int run, const char *const *extra)
{
	char boot[PATH_MAX], data[PATH_MAX], number[4][48];
	const char *o[40] = { "model.plugin=gpt2",
			      "model.layers=2",
			      "model.heads=2",
			      "model.width=32",
			      "model.context=32",
			      "model.dropout=0.1",
			      "data.plugin=text",
			      data,
			      boot,
			      number[0],
			      number[1],
			      number[2],
			      number[3],
			      "comm.plugin=local",
			      "train.train_batch_size=12",
			      "train.micro_batch_size=1",
			      "train.steps=3",
			      "device.threads=2" };
	int n = 18;
	snprintf(boot, sizeof boot, "boot.plugin=%s/tests/doubles/.libs/threads.so",
		 getenv("ZR_BUILDDIR"));
	snprintf(data, sizeof data, "data.path=%s/text", scratch);
	snprintf(number[0], sizeof *number, "boot.rank=%d", rank);
	snprintf(number[1], sizeof *number, "boot.world=%d", world);
	snprintf(number[2], sizeof *number, "boot.ranks_per_node=%d", node);
	snprintf(number[3], sizeof *number, "boot.run=%d", run);
	while (*extra)
		o[n++] = *extra++;
	if (zr_config_load(NULL, o, n, &r->cfg, &r->err))
		fail_msg("%s", r->err.text);
}

/* The digest of a training with so many ranks, the same on each. */
static uint64_t train(int world, int node, const char *const *extra)
{
	static int run;
	struct rank rank[RANKS] = { 0 };
	pthread_t thread[RANKS];
	run++;
	for (int r = 0; r < world; r++)
		load(&rank[r], r, world, node, run, extra);
	for (int r = 0; r < world; r++)
		assert_int_equal(pthread_create(&thread[r], NULL, rank_main, &rank[r]), 0);
	for (int r = 0; r < world; r++)
		pthread_join(thread[r], NULL);
	for (int r = 0; r < world; r++) {
		if (rank[r].err.code)
			fail_msg("rank %d of %d: %s", r, world, rank[r].err.text);
		zr_config_free(rank[r].cfg);
		assert_true(rank[r].digest == rank[0].digest);
	}
	return rank[0].digest;
}

static void I1_every_stage_with_ranks_as_threads(void **state)
{
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1",
					      "zero.plugin=stage2", "zero.plugin=stage3",
					      "zero.plugin=hpz",    "zero.plugin=mics" };
	static const char *const precisions[] = { "precision.plugin=fp32",
						  "precision.plugin=bf16" };
	(void)state;
	for (int p = 0; p < 2; p++) {
		const char *const alone[] = { precisions[p], NULL };
		uint64_t want = train(1, 1, alone);
		for (int i = 0; i < 6; i++) {
			const char *other = i % 2 ? "zero.reduce_bucket_size=1" :
						    "activation.plugin=recompute";
			const char *const extra[] = { stages[i], precisions[p], other, NULL };
			assert_true(train(3, 3, extra) == want);
			assert_true(train(4, 2, extra) == want);
		}
	}
}

static void sums_of_each_rank_are_the_same_over_stages(void **state)
{
	static const char *const local[] = { "train.reduction=local", "zero.plugin=stage0", NULL };
	static const char *const split[] = { "train.reduction=local", "zero.plugin=stage3", NULL };
	(void)state;
	assert_true(train(2, 2, local) == train(2, 1, split));
}

static int make_data(void **state)
{
	char path[PATH_MAX];
	(void)state;
	if (!mkdtemp(scratch))
		return -1;
	snprintf(path, sizeof path, "%s/text", scratch);
	FILE *f = fopen(path, "w");
	for (int i = 0; f && i < 6000; i++)
		fprintf(f, "%d is followed by %d. ", i, i + 1);
	return f && !fclose(f) ? 0 : -1;
}

static int remove_data(void **state)
{
	char cmd[PATH_MAX];
	(void)state;
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", scratch);
	return system(cmd) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I1_every_stage_with_ranks_as_threads),
		cmocka_unit_test(sums_of_each_rank_are_the_same_over_stages),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_data, remove_data);
}
