/* SPDX-License-Identifier: Apache-2.0
 *
 * t_outside.c - a model that threads of the program compute gives the bits that it gives as
 * functions, in every stage and on any number of ranks; calls in a wrong order say so.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zeroth/zeroth.h>

#include "tests/lib/cards.h"

#include <cmocka.h> /* last: it defines fail() */

/* ---- the model: thrice y = a x + b, the first and third with one a and b; mean of y^2 ---- */

enum { WIDE = 3000, LAYERS = 3, STEPS = 4, SAMPLES = 2, MICRO = 4, ELEMENTS = SAMPLES * WIDE };

#define TENSOR(name, flags)                                                                        \
	{                                                                                          \
		name, { WIDE }, 1, ZEROTH_INIT_NORMAL, 0.5, 0.1, flags, 0                          \
	}
static const struct zeroth_tensor outer[] = { TENSOR("a", 0), TENSOR("b", 0) };
static const struct zeroth_tensor inner[] = { TENSOR("c", 0), TENSOR("d", ZEROTH_TENSOR_FROZEN) };
static const struct zeroth_unit units[] = { { "outer", outer, 2, 0 }, { "inner", inner, 2, 0 } };
static const int32_t uses[] = { 0, 1 };

/* The sample x of a micro-batch. */
static void make_input(int64_t step, int64_t slot, float *x)
{
	for (int64_t i = 0; i < ELEMENTS; i++)
		x[i] = (float)((i * 7919 + slot * 104729 + step * 1299709) % 1000) / 1000 - 0.5f;
}

static void go_forward(const struct zeroth_call *c, const float *x, float *y)
{
	const float *a = c->param[0], *b = c->param[1];

	for (int i = 0; i < ELEMENTS; i++)
		y[i] = a[i % WIDE] * x[i] + b[i % WIDE];
}

/* dx may be dy, or NULL. */
static void go_backward(const struct zeroth_call *c, const float *x, const float *dy, float *dx)
{
	const float *a = c->param[0];

	for (int k = 0; k < 2; k++)
		if (c->dparam[k] && !c->accumulate[k])
			memset(c->dparam[k], 0, WIDE * sizeof(float));
	for (int i = 0; i < ELEMENTS; i++) {
		if (c->dparam[0])
			c->dparam[0][i % WIDE] += dy[i] * x[i];
		if (c->dparam[1])
			c->dparam[1][i % WIDE] += dy[i];
		if (dx)
			dx[i] = dy[i] * a[i % WIDE];
	}
}

/* dy: NULL: the loss alone */
static void go_loss(const struct zeroth_call *c, const float *y, float *dy)
{
	for (int s = 0; s < SAMPLES; s++) {
		c->loss[s] = 0;
		for (int i = s * WIDE; i < (s + 1) * WIDE; i++)
			c->loss[s] += y[i] * y[i] / WIDE;
	}

	for (int i = 0; dy && i < ELEMENTS; i++)
		dy[i] = c->scale * 2 * y[i] / WIDE;
}

/* ---- as functions ---------------------------------------------------------------- */

static int layer_forward(const struct zeroth_call *c)
{
	go_forward(c, c->in ? c->in : c->batch, c->out);
	return 0;
}

static int layer_backward(const struct zeroth_call *c)
{
	go_backward(c, c->in ? c->in : c->batch, c->dout, c->din);
	return 0;
}

static int loss_forward(const struct zeroth_call *c)
{
	go_loss(c, c->in, NULL);
	return 0;
}

static int loss_backward(const struct zeroth_call *c)
{
	go_loss(c, c->in, c->din);
	return 0;
}

static float loaded[2][ELEMENTS];

static int load(void *arg, int32_t rank, int training, int64_t step, int64_t slot, int64_t samples,
		const void **batch)
{
	(void)arg;
	(void)training;
	if (samples != SAMPLES)
		return ZR_EINVAL;
	make_input(step, slot, loaded[rank]);
	*batch = loaded[rank];
	return 0;
}

static const struct zeroth_layer functions[] = {
	{ "1", uses, 1, 0, WIDE, 0, 0, layer_forward, layer_backward },
	{ "2", uses + 1, 1, 0, WIDE, 0, 0, layer_forward, layer_backward },
	{ "3", uses, 1, 0, WIDE, 0, 0, layer_forward, layer_backward },
	{ "loss", uses, 0, 0, 0, 0, 0, loss_forward, loss_backward },
};
static const struct zeroth_layer places[] = {
	{ "1", uses, 1, 0, 0, 0, 0, NULL, NULL },
	{ "2", uses + 1, 1, 0, 0, 0, 0, NULL, NULL },
	{ "3", uses, 1, 0, 0, 0, 0, NULL, NULL },
	{ "loss", NULL, 0, 0, 0, 0, 0, NULL, NULL },
};

static const struct zeroth_model *model_of(int is_outside)
{
	static struct zeroth_model m[2] = { { .size = sizeof *m, .load = load },
					    { .size = sizeof *m, .flags = ZEROTH_MODEL_OUTSIDE } };

	for (int i = 0; i < 2; i++) {
		m[i].n_units = 2;
		m[i].n_layers = LAYERS + 1;
		m[i].tensor_size = sizeof *outer;
		m[i].unit_size = sizeof *units;
		m[i].layer_size = sizeof *places;
		m[i].units = units;
		m[i].layers = i ? places : functions;
	}
	return &m[is_outside];
}

/* ---- as a thread of the program for each rank ------------------------------------ */

struct worker {
	pthread_t thread;
	struct zeroth *e;
	int rank, ranks, training;
	int64_t micro, step, slots; /* of its micro-batch */
	int failed;                 /* what a call returned */
	int lowest;                 /* layer whose backward came */
	float loss;                 /* of the first sample */
	char why[512];
};

static int compute(struct worker *w, int kind, const struct zeroth_call *c, float (*x)[ELEMENTS])
{
	float *y = x[c->layer < LAYERS ? c->layer + 1 : LAYERS];

	if (kind == ZEROTH_FORWARD)
		go_forward(c, x[c->layer], y);
	else if (kind == ZEROTH_LOSS)
		go_loss(c, y, c->training ? x[LAYERS + 1] : NULL);
	else
		go_backward(c, x[c->layer], x[LAYERS + 1], x[LAYERS + 1]);
	if (kind == ZEROTH_BACKWARD)
		w->lowest = c->layer;
	if (kind == ZEROTH_LOSS)
		w->loss = c->loss[0];
	return zeroth_give(w->e, w->rank, 0);
}

/* A micro-batch of one rank. */
static void *work(void *arg)
{
	struct worker *w = arg;
	float(*x)[ELEMENTS] = calloc(LAYERS + 2, sizeof *x);
	struct zeroth_call c = { .size = sizeof c };

	int rc = zeroth_begin(w->e, w->rank, w->training);
	make_input(w->step, w->micro * w->ranks + w->rank, x[0]);
	while (!rc && (rc = zeroth_take(w->e, w->rank, &c)) > 0)
		rc = compute(w, rc, &c, x);
	w->failed = rc;
	snprintf(w->why, sizeof w->why, "%s", zeroth_error(w->e));
	free(x);
	return NULL;
}

static void run_all(struct worker *w, int ranks)
{
	for (int i = 0; i < ranks; i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (int i = 0; i < ranks; i++)
		pthread_join(w[i].thread, NULL);
}

/* ---- trainings ------------------------------------------------------------------- */

static struct zeroth *made(int is_outside, int ranks, const char *stage, const char *more)
{
	char text[8192];
	struct zeroth *e = zeroth_new();

	snprintf(text, sizeof text,
		 "[train]\nsteps = %d\ntrain_batch_size = %d\nmicro_batch_size = %d\n"
		 "gradient_clipping = 0.5\n[zero]\nplugin = %s\n[optimizer]\nlr = 0.01\n%s",
		 STEPS, SAMPLES * MICRO, SAMPLES, stage, more);
	assert_int_equal(zeroth_set_text(e, text), 0);
	assert_int_equal(zeroth_set_ranks(e, ranks), 0);
	assert_int_equal(zeroth_set_model(e, model_of(is_outside)), 0);
	return e;
}

static struct zeroth *opened(int is_outside, int ranks, const char *stage, const char *more)
{
	struct zeroth *e = made(is_outside, ranks, stage, more);
	if (zeroth_open(e))
		fail_msg("%s", zeroth_error(e));
	return e;
}

struct numbers {
	uint64_t losses, parameters;
};

static struct numbers ended(struct zeroth *e)
{
	struct numbers n;

	assert_int_equal(zeroth_digest(e, &n.losses, &n.parameters), 0);
	zeroth_close(e);
	return n;
}

static struct numbers as_functions(const char *more)
{
	struct zeroth *e = opened(0, 1, "stage0", more);

	for (int i = 0; i < STEPS; i++)
		assert_int_equal(zeroth_step(e, NULL), 0);
	return ended(e);
}

static void step_outside(struct zeroth *e, int ranks, int64_t step)
{
	struct worker w[2] = { 0 };
	struct zeroth_result r = { .size = sizeof r };

	for (int64_t m = 0; m < MICRO / ranks; m++) {
		for (int i = 0; i < ranks; i++)
			w[i] = (struct worker){ .e = e,
						.rank = i,
						.ranks = ranks,
						.training = 1,
						.micro = m,
						.step = step,
						.lowest = -1 };
		run_all(w, ranks);
		for (int i = 0; i < ranks; i++) {
			assert_int_equal(w[i].failed, ZEROTH_DONE);
			assert_int_equal(w[i].lowest, 0);
		}
		assert_int_equal(zeroth_step(e, &r), 0);
		assert_int_equal(r.outcome,
				 m + 1 < MICRO / ranks ? ZEROTH_PENDING : ZEROTH_APPLIED);
	}
	assert_int_equal(r.step, step + 1);
}

static void same_bits(void **state)
{
	char disk[] = "/tmp/zeroth-outside-XXXXXX", on_disk[128];
	static const char *const stage[] = { "stage0", "stage1", "stage2", "stage3" };
	const char *more[] = { "", on_disk, "states = 8bit\n" };

	(void)state;
	assert_non_null(mkdtemp(disk));
	snprintf(on_disk, sizeof on_disk, "[offload.optimizer]\nplugin = nvme\npath = %s\n", disk);
	for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
		const struct numbers want = as_functions(more[k]);
		for (int ranks = 1; ranks <= 2; ranks++)
			for (size_t i = 0; i < sizeof stage / sizeof *stage; i++) {
				struct zeroth *e = opened(1, ranks, stage[i], more[k]);
				for (int64_t step = 0; step < STEPS; step++)
					step_outside(e, ranks, step);
				const struct numbers n = ended(e);
				assert_int_equal(n.losses, want.losses);
				assert_int_equal(n.parameters, want.parameters);
			}
	}
	rmdir(disk);
}

/* ---- the rest -------------------------------------------------------------------- */

/* Doubles a tensor, and leaves the others. */
static int twice_a(void *arg, int64_t i, int64_t first, int64_t n, float *x)
{
	(void)arg;
	(void)first;
	for (int64_t k = 0; !i && k < n; k++)
		x[k] *= 2;
	return 0;
}

static int copy(void *arg, int64_t i, int64_t first, int64_t n, const float *x)
{
	memcpy((float *)arg + i * WIDE + first, x, (size_t)n * sizeof *x);
	return 0;
}

static void values_change(void **state)
{
	static float before[4 * WIDE], after[4 * WIDE];
	struct zeroth *e = opened(1, 2, "stage3", "[precision]\nplugin = bf16\n");
	double one[] = { 1, 0.5 }, two[] = { 3, -0.25 };
	struct zeroth_tensor_info info = { .size = sizeof info };

	(void)state;
	assert_int_equal(zeroth_get(e, copy, before), 0);
	assert_int_equal(zeroth_change(e, twice_a, NULL), 0);
	assert_int_equal(zeroth_get(e, copy, after), 0);
	for (int i = 0; i < 4 * WIDE; i++)
		assert_true(after[i] == (i < WIDE ? 2 * before[i] : before[i]));

	assert_int_equal(zeroth_sum(e, (double *[]){ one, two }, 2), 0);
	assert_true(one[0] == 4 && two[0] == 4 && one[1] == 0.25 && two[1] == 0.25);
	assert_int_equal(zeroth_sum(e, (double *[]){ one, two }, 0), ZR_EINVAL);

	assert_int_equal(zeroth_tensor(e, 2, &info), 0);
	assert_int_equal(info.flags, 0);
	assert_int_equal(zeroth_tensor(e, 3, &info), 0);
	assert_int_equal(info.flags, ZEROTH_TENSOR_FROZEN);
	zeroth_close(e);
}

/* A device whose memory Zeroth does not reach, though this program does, as a GPU's kernels do. */
static const char *device_apart(void)
{
	static char text[5000];
	snprintf(text, sizeof text,
		 "[device]\n%s\nmemory = 32M\nseparate = no\ndeclared = yes\n"
		 "late_copies = yes\n",
		 strchr(cards_option(), '.') + 1);
	return text;
}

static void memory_apart(void **state)
{
	const struct numbers want = as_functions("");

	(void)state;
	for (int ranks = 1; ranks <= 2; ranks++) {
		struct zeroth *e =
			opened(1, ranks, ranks == 1 ? "stage1" : "stage3", device_apart());
		for (int64_t step = 0; step < STEPS; step++)
			step_outside(e, ranks, step);
		const struct numbers n = ended(e);
		assert_int_equal(n.losses, want.losses);
		assert_int_equal(n.parameters, want.parameters);
	}

	struct zeroth *e = made(0, 1, "stage0", device_apart());
	assert_int_equal(zeroth_open(e), ZR_ENOTSUP);
	assert_non_null(strstr(zeroth_error(e), "whose layers are functions needs a device whose "
						"memory the program reads, as cpu"));
	zeroth_close(e);

	char text[5000];
	snprintf(text, sizeof text, "[device]\n%s\nmemory = 32M\ngraphs = yes\n",
		 strchr(cards_option(), '.') + 1);
	e = made(1, 1, "stage0", text);
	assert_int_equal(zeroth_open(e), ZR_ENOTSUP);
	assert_non_null(strstr(zeroth_error(e), "take graphs out"));
	zeroth_close(e);
}

static void nothing_is_learned(void **state)
{
	struct zeroth *e = opened(1, 2, "stage3", "");
	struct worker w[2] = { { .e = e, .rank = 0, .ranks = 2, .lowest = -1 },
			       { .e = e, .rank = 1, .ranks = 2, .lowest = -1 } };
	uint64_t before, after;

	(void)state;
	assert_int_equal(zeroth_digest(e, NULL, &before), 0);
	run_all(w, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w[i].failed, ZEROTH_DONE);
		assert_int_equal(w[i].lowest, -1);
		assert_true(w[i].loss > 0);
	}
	assert_int_equal(zeroth_digest(e, NULL, &after), 0);
	assert_int_equal(before, after);
	zeroth_close(e);
}

#define REFUSED(e, call, code, text)                                                               \
	do {                                                                                       \
		assert_int_equal(call, code);                                                      \
		assert_string_equal(zeroth_error(e), text);                                        \
	} while (0)

static void wrong_order(void **state)
{
	struct zeroth *e = opened(1, 1, "stage3", "");
	struct zeroth_call c = { .size = sizeof c };

	(void)state;
	void *stream = &c;
	assert_int_equal(zeroth_stream(e, 0, &stream), 0);
	assert_null(stream); /* a CPU computes at once */
	REFUSED(e, zeroth_stream(e, 1, &stream), ZR_EINVAL,
		"zeroth_stream: rank is 1; this process has 1, from 0");
	assert_int_equal(zeroth_stream(e, 0, NULL), ZR_EINVAL);

	REFUSED(e, zeroth_take(e, 0, &c), ZR_ESTATE, "zeroth_take comes after zeroth_begin");
	REFUSED(e, zeroth_begin(e, 1, 1), ZR_EINVAL,
		"zeroth_begin: rank is 1; this process has 1, from 0");
	REFUSED(e, zeroth_forward(e, NULL, NULL), ZR_ESTATE,
		"zeroth_forward is for a model of zeroth_set_model whose layers are functions");
	REFUSED(e, zeroth_step(e, NULL), ZR_ESTATE, "zeroth_step: zeroth_begin comes first");
	assert_int_equal(zeroth_begin(e, 0, 1), 0);
	REFUSED(e, zeroth_begin(e, 0, 1), ZR_ESTATE,
		"zeroth_begin: rank 0 is within a micro-batch: zeroth_take until it returns "
		"ZEROTH_DONE");
	REFUSED(e, zeroth_give(e, 0, 0), ZR_ESTATE, "zeroth_give comes after zeroth_take");
	assert_int_equal(zeroth_take(e, 0, &c), ZEROTH_FORWARD);
	REFUSED(e, zeroth_take(e, 0, &c), ZR_ESTATE,
		"zeroth_take: zeroth_give of layer 0 is missing");
	REFUSED(e, zeroth_save(e), ZR_ESTATE,
		"zeroth_save comes between steps: rank 0 is within a micro-batch");
	REFUSED(e, zeroth_step(e, NULL), ZR_ESTATE, "zeroth_step: rank 0 is within a micro-batch");
	c.size = 8;
	assert_int_equal(zeroth_give(e, 0, 0), 0);
	assert_int_equal(zeroth_take(e, 0, &c), ZR_EINVAL);
	zeroth_close(e); /* within a micro-batch */

	e = opened(0, 1, "stage0", "");
	REFUSED(e, zeroth_begin(e, 0, 1), ZR_ESTATE,
		"zeroth_begin is for an open engine whose model has flags ZEROTH_MODEL_OUTSIDE");
	zeroth_close(e);
}

/* A rank whose thread gives a failure back ends the engine, also for one that waits for it. */
static void a_rank_fails(void **state)
{
	struct zeroth *e = opened(1, 2, "stage3", "");
	struct worker w = { .e = e, .rank = 0, .ranks = 2, .training = 1 };
	struct zeroth_call c = { .size = sizeof c };
	const char *why =
		"the program's computation of layer 1 failed with code -5; rank 1, step 1, "
		"forward of layer 1 (unit outer)";

	(void)state;
	assert_int_equal(pthread_create(&w.thread, NULL, work, &w), 0);
	assert_int_equal(zeroth_begin(e, 1, 1), 0);
	assert_int_equal(zeroth_take(e, 1, &c), ZEROTH_FORWARD);
	assert_int_equal(zeroth_give(e, 1, -5), 0);
	assert_int_equal(zeroth_take(e, 1, &c), -5);
	if (!strstr(zeroth_error(e), why))
		fail_msg("%s", zeroth_error(e));
	pthread_join(w.thread, NULL);
	assert_true(w.failed < 0);
	assert_int_equal(zeroth_save(e), -5);
	zeroth_close(e);
}

static void wrong_models(void **state)
{
	static const struct zeroth_layer wide[] = { { "1", uses, 1, 0, 8, 0, 0, NULL, NULL },
						    { "loss", NULL, 0, 0, 0, 0, 0, NULL, NULL } };
	static const struct zeroth_layer used[] = { { "1", uses, 2, 0, 0, 0, 0, NULL, NULL },
						    { "loss", uses, 1, 0, 0, 0, 0, NULL, NULL } };
	const struct {
		const struct zeroth_layer *layers;
		const char *why;
	} all[] = { { wide, "layer 0 (1): the program computes the model: functions are NULL, and "
			    "out, saved and work are 0" },
		    { used, "layer 1 (loss): n_units is 1; the last layer stands for the loss, and "
			    "has none" } };

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct zeroth_model m = *model_of(1);
		struct zeroth *e = zeroth_new();
		m.n_layers = 2;
		m.layers = all[i].layers;
		assert_int_equal(zeroth_set_model(e, &m), 0);
		assert_int_equal(zeroth_open(e), ZR_EINVAL);
		if (!strstr(zeroth_error(e), all[i].why))
			fail_msg("%s", zeroth_error(e));
		zeroth_close(e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_bits),    cmocka_unit_test(values_change),
		cmocka_unit_test(memory_apart), cmocka_unit_test(nothing_is_learned),
		cmocka_unit_test(wrong_order),  cmocka_unit_test(a_rank_fails),
		cmocka_unit_test(wrong_models),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
