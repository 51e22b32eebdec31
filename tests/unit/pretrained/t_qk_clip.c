/* SPDX-License-Identifier: Apache-2.0
 *
 * t_qk_clip.c - [train] qk_clip by its formula (golden/make_qk_clip.py): of models with joint maps
 * and separate ones, shared key heads, biases, windows and soft caps, a step has the largest scores
 * of transformers, and leaves the queries and keys that follow from them.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "files/safetensors.h"
#include "train/weights.h"

#include <cmocka.h> /* last: it defines fail() */

#define LIMIT 1e-5
#define MOST  4096 /* elements of a tensor of these models */

static const char *const cases[] = { "gpt2",   "llama", "llama-bias", "qwen2",     "mistral",
				     "gemma2", "phi3",  "gpt-neox",   "starcoder2" };

static const char *golden_path(const char *name)
{
	static char path[4][PATH_MAX];
	static int next;
	const char *dir = getenv("ZR_SRCDIR");
	next = (next + 1) % 4;
	snprintf(path[next], PATH_MAX, "%s/tests/golden/%s", dir ? dir : ".", name);
	return path[next];
}

/* n numbers of the golden file, NULL: it has none of that name. */
static const float *find(const struct zr_st *st, const char *model, const char *name, int64_t n)
{
	static float x[MOST];
	struct zr_error err = { 0 };
	char key[256];
	snprintf(key, sizeof key, "%s/%s", model, name);
	const struct zr_st_tensor *t = zr_st_find(st, key);
	if (!t)
		return NULL;
	assert_int_equal(t->elements, n);
	assert_true(n <= MOST);
	assert_int_equal(zr_st_read(st, t, 0, t->bytes, x, &err), 0);
	return x;
}

static void assert_near(const char *model, const char *what, const float *a, const float *b,
			int64_t n)
{
	double diff = 0, norm = 0;
	for (int64_t i = 0; i < n; i++) {
		diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		norm += (double)b[i] * b[i];
	}
	if (!(sqrt(diff) <= LIMIT * sqrt(norm)))
		fail_msg("%s: %s: relative norm of the difference %.3g > %g", model, what,
			 sqrt(diff / norm), LIMIT);
}

struct run {
	const char *model;
	const struct zr_st *st;
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
	float x[MOST]; /* of the tensor that comes */
	int compared;
};

static void begin(struct run *r)
{
	char option[6][PATH_MAX + 32], file[64];
	struct zr_error err = { 0 };
	const float *clip = find(r->st, r->model, "clip", 4);
	snprintf(file, sizeof file, "pretrained/%s", r->model);
	snprintf(option[0], sizeof *option, "model.path=%s", golden_path(file));
	snprintf(option[1], sizeof *option, "data.path=%s", golden_path("pretrained/tokens.bin"));
	snprintf(option[2], sizeof *option, "train.qk_clip_threshold=%.9g", (double)clip[0]);
	snprintf(option[3], sizeof *option, "train.qk_clip_alpha=%.9g", (double)clip[1]);
	snprintf(option[4], sizeof *option, "optimizer.lr=%.9g", (double)clip[2]);
	const char *options[] = { option[0],
				  option[1],
				  option[2],
				  option[3],
				  option[4],
				  "train.qk_clip=yes",
				  "train.sequence_length=13",
				  "data.plugin=tokens",
				  "data.format=uint16",
				  "data.order=sequential",
				  "train.train_batch_size=2",
				  "train.micro_batch_size=1",
				  "train.gradient_clipping=0",
				  "optimizer.plugin=sgd",
				  "optimizer.weight_decay=0",
				  "optimizer.momentum=0",
				  "precision.plugin=fp32",
				  "train.eval_every=0" };
	int rc = zr_config_load(NULL, options, sizeof options / sizeof *options, &r->cfg, &err);
	if (!rc)
		rc = zr_setup_open(r->cfg, ZR_MODE_TRAIN, 0, 1, &r->setup, &err);
	if (!rc)
		rc = zr_session_open(r->setup, &r->session, &err);
	if (!rc)
		rc = zr_weights_begin(r->session, &err);
	if (rc)
		fail_msg("%s: %s", r->model, err.text);
}

static void end(struct run *r)
{
	zr_session_close(r->session);
	zr_setup_close(r->setup);
	zr_config_free(r->cfg);
}

/* The scores of all layers, in order, and what the result says of them. */
static void compare_scores(struct run *r, const struct zr_step_result *result)
{
	const struct zr_clip_plan *p = &r->setup->plan.clip;
	const float *largest = zr_host_table(r->session, p->largest), *want;
	const double clipped = (double)find(r->st, r->model, "clip", 4)[3];
	float scores[64], most = 0, said = (float)result->max_score;
	int64_t n = 0;

	for (uint32_t i = 0; i < r->setup->facts.decl.n_layers; i++)
		for (int32_t h = 0; h < p->layer[i].heads; h++)
			scores[n++] = largest[p->layer[i].score + h];
	want = find(r->st, r->model, "scores", n);
	for (int64_t i = 0; i < n; i++) {
		assert_near(r->model, "largest score", &scores[i], &want[i], 1);
		most = want[i] > most ? want[i] : most;
	}
	assert_near(r->model, "the largest of all", &said, &most, 1);
	assert_true((double)result->clipped_heads == clipped);
}

/* A tensor's masters come chunk by chunk. */
static int take(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	struct run *r = arg;
	assert_true(first + n <= MOST);
	memcpy(r->x + first, x, (size_t)n * sizeof *x);
	if (first + n < t->elements)
		return 0;

	const float *want = find(r->st, r->model, t->decl->name, t->elements);
	assert_int_equal(want != NULL, t->decl->heads != NULL);
	if (want) {
		assert_near(r->model, t->decl->name, r->x, want, t->elements);
		r->compared++;
	}
	return 0;
}

static void a_step_is_that_of_the_formula(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_st st;
	(void)unused;
	if (zr_st_open(golden_path("qk_clip.safetensors"), &st, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct run r = { .model = cases[i], .st = &st };
		struct zr_step_result result;
		begin(&r);
		if (zr_session_step(r.session, 0, &result, &err))
			fail_msg("%s: %s", r.model, err.text);
		compare_scores(&r, &result);
		if (zr_session_masters(r.session, take, &r, &err))
			fail_msg("%s: %s", r.model, err.text);
		assert_true(r.compared >= 2);
		end(&r);
	}
	zr_st_close(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_that_of_the_formula),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
