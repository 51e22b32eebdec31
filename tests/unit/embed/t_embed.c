/* SPDX-License-Identifier: Apache-2.0
 *
 * t_embed.c - engines with a model of the program's own, whose layers share maps and a bias: ranks,
 * stages, recomputation, saving and parts of a step change no bit, and calls in a wrong order say
 * so.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zeroth/optimizer.h>
#include <zeroth/zeroth.h>

#include <cmocka.h> /* last: it defines fail() */

#define WIDE 8

/* ---- the model: thrice y = relu(A x + b), and loss = (mean of A y + b - t)^2 ---- */

struct sample {
	float x[WIDE], t;
};

static _Atomic int fail_layer = -1; /* that fails in backward */

static void make_sample(int64_t number, struct sample *s)
{
	uint64_t h = (uint64_t)number * 0x9e3779b97f4a7c15u + 1;
	for (int i = 0; i < WIDE; i++) {
		h = h * 6364136223846793005u + 1442695040888963407u;
		s->x[i] = (float)(h >> 40) / (1 << 23) - 1;
	}
	s->t = s->x[0] * s->x[1] + s->x[2];
}

static int body(const struct zeroth_call *c, int back)
{
	const struct sample *data = c->batch;
	const float *w = c->param[0], *b = c->param[1];
	const int last = c->layer == 3;
	if (c->dtype != ZR_F32 || (back && c->layer == fail_layer))
		return ZR_EIO;
	for (int k = 0; back && k < 2; k++)
		for (int i = 0; !c->accumulate[k] && i < (k ? WIDE : WIDE * WIDE); i++)
			c->dparam[k][i] = 0;
	for (int64_t s = 0; s < c->samples; s++) {
		const float *x = c->in ? (const float *)c->in + s * WIDE : data[s].x;
		const float *dy = last || !back ? NULL : (const float *)c->dout + s * WIDE;
		float y[WIDE], mean = 0, d[WIDE];
		for (int o = 0; o < WIDE; o++) {
			y[o] = b[o];
			for (int i = 0; i < WIDE; i++)
				y[o] += w[o * WIDE + i] * x[i];
			mean += y[o] / WIDE;
		}
		for (int o = 0; o < WIDE; o++)
			d[o] = last ? c->scale * 2 * (mean - data[s].t) / WIDE :
			       dy   ? (y[o] > 0 ? dy[o] : 0) :
				      0;
		if (last)
			c->loss[s] = (mean - data[s].t) * (mean - data[s].t);
		if (c->right)
			c->right[s] = c->loss[s] < 0.1f;
		for (int o = 0; !back && !last && o < WIDE; o++)
			((float *)c->out)[s * WIDE + o] = y[o] > 0 ? y[o] : 0;
		for (int o = 0; back && o < WIDE; o++) {
			c->dparam[1][o] += d[o];
			for (int i = 0; i < WIDE; i++)
				c->dparam[0][o * WIDE + i] += d[o] * x[i];
		}
		for (int i = 0; c->din && i < WIDE; i++) {
			float sum = 0;
			for (int o = 0; o < WIDE; o++)
				sum += d[o] * w[o * WIDE + i];
			((float *)c->din)[s * WIDE + i] = sum;
		}
	}
	return 0;
}

static int forward(const struct zeroth_call *c)
{
	return body(c, 0);
}
static int backward(const struct zeroth_call *c)
{
	return body(c, 1);
}

/* a thread of the engine takes a signal of the program, or not that of its own crash */
static _Atomic int wrong_mask;

static int load(void *arg, int32_t rank, int training, int64_t step, int64_t slot, int64_t samples,
		const void **batch)
{
	sigset_t blocked;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	wrong_mask |= sigismember(&blocked, SIGSEGV) || !sigismember(&blocked, SIGTERM);
	struct sample(*room)[4] = arg;
	assert_true(samples <= 4);
	for (int64_t i = 0; i < samples; i++)
		make_sample(((training ? step + 1 : 0) * 64 + slot) * 4 + i, &room[rank][i]);
	*batch = room[rank];
	return 0;
}

static const struct zeroth_tensor tensors[] = {
	{ "a", { WIDE, WIDE }, 2, ZEROTH_INIT_NORMAL, 0, 0.3, 0, 0 },
	{ "bias", { WIDE }, 1, ZEROTH_INIT_CONST, 0.01, 0, 0, 0 },
	{ "b", { WIDE, WIDE }, 2, ZEROTH_INIT_UNIFORM, 0, 0.3, 0, 0 },
	{ "c", { WIDE, WIDE }, 2, ZEROTH_INIT_UNIFORM, 0, 0.3, 0, 0 },
};
static const struct zeroth_unit units[] = { { "a", tensors, 1, 0 },
					    { "bias", tensors + 1, 1, 0 },
					    { "b", tensors + 2, 1, 0 },
					    { "c", tensors + 3, 1, 0 } };
static const int32_t used[][2] = { { 0, 1 }, { 2, 1 }, { 3, 1 } };
static const struct zeroth_layer layers[] = {
	{ "first", used[0], 2, 0, WIDE, 0, 0, forward, backward },
	{ "middle", used[1], 2, 0, WIDE, 0, 0, forward, backward },
	{ "third", used[1], 2, 0, WIDE, 0, 0, forward, backward },
	{ "last", used[2], 2, 0, 0, 0, 0, forward, backward },
};
static struct sample rooms[8][4];
static const struct zeroth_model model = {
	.size = sizeof model,
	.n_units = 4,
	.n_layers = 4,
	.tensor_size = sizeof *tensors,
	.unit_size = sizeof *units,
	.layer_size = sizeof *layers,
	.units = units,
	.layers = layers,
	.arg = rooms,
	.load = load,
	.held_out = 10,
};

/* ---- engines ---- */

#define OK(call)                                                                                   \
	do {                                                                                       \
		if (call)                                                                          \
			fail_msg("%s: %s", #call, zeroth_error(e));                                \
	} while (0)

static struct zeroth *make(int ranks, const char *stage, const char *more)
{
	static const char text[] =
		"[train]\ntrain_batch_size = 16\nmicro_batch_size = 2\nsteps = 6\n"
		"[optimizer]\nlr = 0.05\n[checkpoint]\ndir = saved\n";
	char option[64];
	struct zeroth *e = zeroth_new();
	snprintf(option, sizeof option, "zero.plugin=%s", stage);
	OK(zeroth_set_text(e, text));
	OK(zeroth_set_model(e, &model));
	OK(zeroth_set_ranks(e, ranks));
	OK(zeroth_set(e, option));
	if (more)
		OK(zeroth_set(e, more));
	OK(zeroth_open(e));
	return e;
}

static void steps(struct zeroth *e, int n)
{
	struct zeroth_result r = { .size = sizeof r };
	while (n--) {
		OK(zeroth_step(e, &r));
		assert_int_equal(r.outcome, ZEROTH_APPLIED);
	}
}

static uint64_t end(struct zeroth *e)
{
	uint64_t losses, parameters;
	OK(zeroth_digest(e, &losses, &parameters));
	zeroth_close(e);
	return losses * 31 + parameters;
}

static uint64_t reference(void)
{
	static uint64_t digest;
	if (!digest) {
		struct zeroth *e = make(1, "stage0", NULL);
		steps(e, 6);
		digest = end(e);
	}
	return digest;
}

/* ---- tests ---- */

static void test_ranks_and_stages(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= 4; ranks *= 2)
		for (int stage = 0; stage < 4; stage++) {
			char name[24];
			snprintf(name, sizeof name, "stage%d", stage);
			struct zeroth *e =
				make(ranks, name, stage & 1 ? "activation.plugin=recompute" : NULL);
			steps(e, 6);
			assert_true(end(e) == reference());
		}
}

/* Two ranks, four micro-batches each: the same samples as load() would give. */
static void test_signals_are_the_programs(void **state)
{
	(void)state;
	wrong_mask = 0;
	struct zeroth *e = make(2, "stage1", NULL);
	steps(e, 1);
	end(e);
	assert_int_equal(wrong_mask, 0);
}

static void test_parts(void **state)
{
	static struct sample sample[2][2];
	const void *batch[] = { sample[0], sample[1] };
	struct zeroth_result r = { .size = sizeof r };
	struct zeroth *e = make(2, "stage2", NULL);
	double loss, sum = 0;
	(void)state;
	assert_int_equal(zeroth_backward(e), ZR_ESTATE);
	for (int step = 0; step < 6; step++, sum = 0)
		for (int micro = 0; micro < 4; micro++) {
			for (int i = 0; i < 4; i++)
				make_sample(((step + 1) * 64 + micro * 2 + i / 2) * 4 + i % 2,
					    &sample[i / 2][i % 2]);
			OK(zeroth_forward(e, batch, &loss));
			assert_int_equal(zeroth_forward(e, batch, &loss), ZR_ESTATE);
			assert_int_equal(zeroth_step(e, &r), ZR_ESTATE);
			assert_non_null(strstr(zeroth_error(e), "zeroth_backward"));
			OK(zeroth_backward(e));
			assert_int_equal(zeroth_save(e), ZR_ESTATE);
			OK(zeroth_step(e, &r));
			assert_int_equal(r.outcome, micro < 3 ? ZEROTH_PENDING : ZEROTH_APPLIED);
			sum += loss / 4;
			if (micro == 3)
				assert_float_equal(sum, r.loss, 1e-6);
		}
	assert_int_equal(zeroth_forward(e, batch, &loss), ZR_ESTATE);
	assert_non_null(strstr(zeroth_error(e), "all 6 steps"));
	assert_true(end(e) == reference());
}

static void test_save_and_resume(void **state)
{
	int64_t step = -2;
	struct zeroth_facts facts = { .size = sizeof facts };
	struct zeroth *e = make(2, "stage3", NULL);
	(void)state;
	OK(zeroth_resume(e, "auto", &step));
	assert_int_equal(step, -1);
	steps(e, 3);
	OK(zeroth_save(e));
	zeroth_close(e);
	e = make(4, "stage1", NULL);
	OK(zeroth_resume(e, "auto", &step));
	assert_int_equal(step, 3);
	steps(e, 3);
	OK(zeroth_facts(e, &facts));
	assert_int_equal(facts.step, 6);
	assert_int_equal(facts.ranks, 4);
	assert_int_equal(facts.accumulation, 2);
	assert_int_equal(facts.parameters, 3 * WIDE * WIDE + WIDE);
	assert_true(end(e) == reference());
}

static void test_evaluate(void **state)
{
	struct zeroth_evaluation one = { .size = sizeof one }, four = { .size = sizeof four };
	struct zeroth *e = make(1, "stage0", NULL);
	double value;
	(void)state;
	steps(e, 2);
	OK(zeroth_evaluate(e, "", &one));
	OK(zeroth_metric(e, "val_loss", &value));
	assert_true(value == one.loss);
	assert_int_equal(zeroth_metric(e, "speed", &value), ZR_EINVAL);
	assert_int_equal(one.targets, 10);
	assert_int_equal(zeroth_evaluate(e, "other", &four), ZR_EINVAL);
	steps(e, 4);
	assert_true(end(e) == reference());
	e = make(4, "stage3", NULL);
	steps(e, 2);
	OK(zeroth_evaluate(e, NULL, &four));
	assert_true(four.loss == one.loss && four.accuracy == one.accuracy);
	zeroth_close(e);
}

static float kept[4][WIDE * WIDE];

static int take(void *arg, int64_t i, int64_t first, int64_t n, const float *x)
{
	(void)arg;
	memcpy(kept[i] + first, x, (size_t)n * sizeof *x);
	return 0;
}

static int give(void *arg, int64_t i, int64_t first, int64_t n, float *x)
{
	(void)arg;
	memcpy(x, kept[i] + first, (size_t)n * sizeof *x);
	return 0;
}

static void test_values(void **state)
{
	struct zeroth_tensor_info info = { .size = sizeof info };
	struct zeroth *e = make(1, "stage0", NULL);
	uint64_t before, after;
	(void)state;
	OK(zeroth_tensor(e, 2, &info));
	assert_string_equal(info.name, "b");
	assert_int_equal(info.elements, WIDE * WIDE);
	assert_int_equal(zeroth_tensor(e, 4, &info), ZR_EINVAL);
	steps(e, 1);
	OK(zeroth_get(e, take, NULL));
	OK(zeroth_digest(e, NULL, &before));
	zeroth_close(e);
	e = make(2, "stage3", NULL);
	OK(zeroth_put(e, give, NULL));
	OK(zeroth_digest(e, NULL, &after));
	assert_true(before == after);
	OK(zeroth_save_weights(e, "model.safetensors"));
	assert_int_equal(access("model.safetensors", R_OK), 0);
	zeroth_close(e);
}

/* A layer that fails ends the engine, with its name; another engine goes on. */
static void test_failures(void **state)
{
	struct zeroth *e = make(2, "stage2", NULL), *other = make(2, "stage2", NULL);
	struct zeroth_tensor_info info = { .size = sizeof info };
	(void)state;
	fail_layer = 0;
	assert_int_equal(zeroth_step(other, NULL), ZR_EIO);
	fail_layer = -1;
	assert_non_null(strstr(zeroth_error(other), "backward of layer first failed"));
	for (int i = 0; i < 4; i++) { /* later calls return it, whatever else fails between */
		assert_int_equal(zeroth_tensor(other, 9999, &info), ZR_EINVAL);
		assert_string_equal(zeroth_error(other), "there are 4 tensors");
		assert_int_equal(i == 0 ? zeroth_save(other) :
				 i == 1 ? zeroth_step(other, NULL) :
				 i == 2 ? zeroth_forward(other, NULL, NULL) :
					  zeroth_backward(other),
				 ZR_EIO);
		assert_non_null(strstr(zeroth_error(other), "backward of layer first failed"));
	}
	zeroth_close(other);
	steps(e, 6);
	assert_int_equal(zeroth_step(e, NULL), ZR_ESTATE);
	assert_true(end(e) == reference());
	e = zeroth_new();
	assert_int_equal(zeroth_step(e, NULL), ZR_ESTATE);
	OK(zeroth_set_text(e, "[train]\nstepz = 1\n"));
	OK(zeroth_set_model(e, &model));
	assert_int_equal(zeroth_open(e), ZR_EINVAL);
	assert_string_equal(zeroth_error(e),
			    "text:2: [train] stepz: unknown key; did you mean steps?");
	zeroth_close(e);
	zeroth_close(NULL);
}

#define MISSING(call, text)                                                                        \
	do {                                                                                       \
		assert_int_equal(call, ZR_EINVAL);                                                 \
		assert_string_equal(zeroth_error(e), text " is NULL");                             \
	} while (0)

/* What must be there and is not, is a failure that ends nothing. */
static void test_null(void **state)
{
	struct zeroth_model no_units = model, no_layers = model;
	struct zeroth *e = zeroth_new(), *none = NULL;
	double value;
	(void)state;
	no_units.units = NULL;
	no_layers.layers = NULL;
	MISSING(zeroth_set_file(e, NULL), "zeroth_set_file: path");
	MISSING(zeroth_set_text(e, NULL), "zeroth_set_text: text");
	MISSING(zeroth_set(e, NULL), "zeroth_set: option");
	MISSING(zeroth_add_plugins(e, NULL), "zeroth_add_plugins: entry");
	MISSING(zeroth_set_model(e, NULL), "zeroth_set_model: model");
	MISSING(zeroth_set_model(e, &no_units), "zeroth_set_model: units");
	MISSING(zeroth_set_model(e, &no_layers), "zeroth_set_model: layers");
	assert_int_equal(zeroth_facts(e, NULL), ZR_ESTATE);
	zeroth_close(e);
	e = make(2, "stage2", NULL);
	MISSING(zeroth_resume(e, NULL, NULL), "zeroth_resume: path");
	steps(e, 3);
	MISSING(zeroth_save_weights(e, NULL), "zeroth_save_weights: file");
	MISSING(zeroth_tensor(e, 0, NULL), "zeroth_tensor: out");
	MISSING(zeroth_get(e, NULL, NULL), "zeroth_get: fn");
	MISSING(zeroth_put(e, NULL, NULL), "zeroth_put: fn");
	MISSING(zeroth_metrics(e, NULL), "zeroth_metrics: m");
	MISSING(zeroth_metric(e, NULL, &value), "zeroth_metric: name");
	MISSING(zeroth_metric(e, "loss", NULL), "zeroth_metric: value");
	MISSING(zeroth_facts(e, NULL), "zeroth_facts: out");
	steps(e, 3);
	assert_true(end(e) == reference());
	/* no engine: what zeroth_new() returns where memory ends */
	assert_int_equal(zeroth_set_file(none, "x"), ZR_ENOMEM);
	assert_int_equal(zeroth_set_ranks(none, 1), ZR_ENOMEM);
	assert_int_equal(zeroth_set_log(none, 0, NULL, NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_open(none), ZR_ENOMEM);
	assert_int_equal(zeroth_resume(none, "auto", NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_step(none, NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_forward(none, NULL, NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_backward(none), ZR_ENOMEM);
	assert_int_equal(zeroth_evaluate(none, "", NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_get(none, NULL, NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_facts(none, NULL), ZR_ENOMEM);
	assert_int_equal(zeroth_metric(none, "loss", &value), ZR_ENOMEM);
	assert_int_equal(zeroth_digest(none, NULL, NULL), ZR_ENOMEM);
	assert_string_equal(zeroth_error(none), "out of memory");
}

static void write_file(const char *path)
{
	FILE *f = fopen(path, "w");
	assert_true(f && !fclose(f));
}

/* What cannot be written ends nothing and changes no bit, and can be written when the way is free.
 * A file in place of a directory stops root, too. */
static void test_failed_saves(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= 2; ranks++) {
		struct zeroth *e = make(ranks, "stage3", "checkpoint.dir=blocked/checkpoints");
		struct zeroth *other;
		write_file("blocked");
		steps(e, 2);
		assert_int_equal(zeroth_save(e), ZR_EINVAL);
		assert_non_null(strstr(zeroth_error(e), "cannot make dir = blocked/checkpoints"));
		assert_int_equal(zeroth_save_weights(e, "blocked/model"), ZR_EIO);
		assert_non_null(strstr(zeroth_error(e), "blocked/model: cannot write"));
		steps(e, 1);
		assert_string_equal(zeroth_error(e), "");
		assert_int_equal(unlink("blocked"), 0);
		other = make(1, "stage0", "checkpoint.dir=blocked/checkpoints");
		steps(other, 1);
		OK(zeroth_save(other)); /* and keeps the directory locked */
		assert_int_equal(zeroth_save(e), ZR_EINVAL);
		assert_non_null(strstr(zeroth_error(e), "has checkpoints already"));
		assert_int_equal(system("cd blocked/checkpoints && rm -r step-* latest"), 0);
		write_file("blocked/config.ini"); /* as in a run, which is then locked, too */
		assert_int_equal(zeroth_save(e), ZR_EINVAL);
		assert_non_null(strstr(zeroth_error(e), "is writing there"));
		assert_int_not_equal(access("blocked/.lock", F_OK), 0);
		zeroth_close(other);
		assert_int_equal(system("rm -r blocked"), 0);
		steps(e, 1);
		OK(zeroth_save(e));
		OK(zeroth_save_weights(e, "blocked/model"));
		steps(e, 2);
		assert_true(end(e) == reference());
		assert_int_equal(system("rm -r blocked"), 0);
	}
}

/* An engine may be closed wherever a step is. */
static void test_closed_within(void **state)
{
	static struct sample sample[2][2];
	const void *batch[] = { sample[0], sample[1] };
	(void)state;
	for (int part = 0; part < 3; part++) {
		struct zeroth *e = make(2, "stage3", part ? NULL : "train.train_batch_size=4");
		OK(zeroth_forward(e, batch, NULL));
		if (part < 2)
			OK(zeroth_backward(e));
		zeroth_close(e);
	}
}

static int lines;

static void count(void *arg, int level, const char *topic, const char *text)
{
	(void)arg, (void)topic;
	lines += level <= ZR_LOG_INFO && *text;
}

/* Lines go to the engine that they are about, once for all its ranks. */
static void test_log(void **state)
{
	struct zeroth *e = zeroth_new();
	(void)state;
	OK(zeroth_set_ranks(e, 2));
	OK(zeroth_set_log(e, ZR_LOG_INFO, count, NULL));
	OK(zeroth_set_text(e, "[train]\nmicro_batch_size = 1\ntrain_batch_size = 2\n"
			      "[data]\nplugin = text\npath = nothing\n"));
	OK(zeroth_set_model(e, &model));
	OK(zeroth_open(e)); /* "[data] goes without path" */
	assert_true(lines == 1);
	zeroth_close(e);
}

/* ---- calls from within a call ---- */

static struct zeroth *within; /* the engine whose callbacks call it */
static _Atomic int let_in;    /* calls that were not refused */
static _Atomic int came;      /* callbacks that called */

static void refused(int rc)
{
	let_in += rc != ZR_ESTATE || !strstr(zeroth_error(within), "another call");
}

/* All that would change the engine or wait for its ranks. */
static void call_all(void)
{
	struct zeroth_evaluation ev = { .size = sizeof ev };
	struct zeroth_facts facts = { .size = sizeof facts };
	const struct zr_metric *m;
	uint64_t digest;
	double value;
	refused(zeroth_step(within, NULL));
	refused(zeroth_forward(within, NULL, NULL));
	refused(zeroth_backward(within));
	refused(zeroth_infer(within, NULL, NULL));
	refused(zeroth_evaluate(within, "", &ev));
	refused(zeroth_save(within));
	refused(zeroth_save_weights(within, "never"));
	refused(zeroth_resume(within, "auto", NULL));
	refused(zeroth_get(within, take, NULL));
	refused(zeroth_put(within, give, NULL));
	refused(zeroth_digest(within, &digest, NULL));
	refused(zeroth_metrics(within, &m));
	refused(zeroth_metric(within, "loss", &value));
	refused(zeroth_open(within));
	refused(zeroth_set(within, "train.steps=1"));
	refused(zeroth_set_file(within, "x"));
	refused(zeroth_set_model(within, &model));
	refused(zeroth_set_log(within, 0, NULL, NULL));
	zeroth_close(within); /* does nothing */
	let_in += zeroth_facts(within, &facts) || facts.parameters != 3 * WIDE * WIDE + WIDE;
	came++;
}

static void *call_elsewhere(void *arg)
{
	call_all();
	return arg;
}

static int calling_backward(const struct zeroth_call *c)
{
	pthread_t thread; /* this one waits for it */
	if (within && c->layer == 1) {
		call_all();
		assert_int_equal(pthread_create(&thread, NULL, call_elsewhere, NULL), 0);
		pthread_join(thread, NULL);
	}
	return body(c, 1);
}

static int calling_get(void *arg, int64_t i, int64_t first, int64_t n, const float *x)
{
	call_all();
	return take(arg, i, first, n, x);
}

/* A callback that calls its engine, or waits for a thread that does, is told so. */
static void test_calls_within_a_call(void **state)
{
	struct zeroth_layer calling[4];
	const struct zeroth_model whole = model;
	struct zeroth_model m = model;
	struct zeroth *e;
	(void)state;
	memcpy(calling, layers, sizeof calling);
	calling[1].backward = calling_backward;
	m.layers = calling;
	e = zeroth_new();
	OK(zeroth_set_text(e, "[train]\ntrain_batch_size = 16\nmicro_batch_size = 2\nsteps = 6\n"
			      "[optimizer]\nlr = 0.05\n"));
	OK(zeroth_set_model(e, &m));
	OK(zeroth_set_ranks(e, 2));
	OK(zeroth_open(e));
	let_in = came = 0;
	within = e;
	steps(e, 3);
	assert_string_equal(zeroth_error(e), "");
	OK(zeroth_get(e, calling_get, NULL));
	within = NULL;
	assert_int_equal(let_in, 0);
	assert_true(came >= 2 * 2 * 4 * 3 + 4);
	assert_int_equal(access("never", F_OK), -1);
	steps(e, 3);
	assert_true(end(e) == reference());
	assert_memory_equal(&whole, &model, sizeof model);
}

static int log_calls;

static void calling_log(void *arg, int level, const char *topic, const char *text)
{
	struct zeroth *e = arg, *other = zeroth_new();
	(void)level, (void)topic, (void)text;
	log_calls++;
	let_in += zeroth_set_log(e, 0, NULL, NULL) != ZR_ESTATE;
	let_in += zeroth_step(e, NULL) != ZR_ESTATE;
	let_in += zeroth_open(other) != ZR_ESTATE;
	let_in += !strstr(zeroth_error(other), "zeroth_open: log functions do not call this");
	zeroth_close(e);
}

static void test_calls_of_a_log_function(void **state)
{
	struct zeroth *e = zeroth_new();
	(void)state;
	let_in = 0;
	OK(zeroth_set_log(e, ZR_LOG_INFO, calling_log, e));
	OK(zeroth_set_text(e, "[train]\nmicro_batch_size = 1\ntrain_batch_size = 2\n"
			      "[data]\nplugin = text\npath = nothing\n"));
	OK(zeroth_set_model(e, &model));
	OK(zeroth_open(e));
	assert_true(log_calls > 0);
	assert_int_equal(let_in, 0);
	zeroth_close(e);
}

/* A child that the process forks has no threads of the engine to wait for. */
static void test_calls_of_a_child(void **state)
{
	struct zeroth *e = make(1, "stage0", NULL);
	int status = -1;
	(void)state;
	pid_t child = fork();
	if (!child) {
		int rc = zeroth_step(e, NULL);
		zeroth_close(e);
		_exit(rc != ZR_ESTATE || !strstr(zeroth_error(e), "the process that forked"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	steps(e, 6);
	assert_true(end(e) == reference());
}

/* ---- sizes of structs, and fields of a model ---- */

#define TOO_SMALL(call, what)                                                                      \
	do {                                                                                       \
		assert_int_equal(call, ZR_EINVAL);                                                 \
		assert_non_null(strstr(zeroth_error(e), what));                                    \
	} while (0)

static void test_sizes_of_structs(void **state)
{
	struct zeroth *e = make(1, "stage0", NULL), *fresh = zeroth_new();
	struct zeroth_facts facts = { 0 };
	struct zeroth_evaluation ev = { 0 };
	struct zeroth_tensor_info info = { 0 };
	(void)state;
	for (uint32_t size = 0; size < sizeof(struct zeroth_result); size += 8) {
		struct zeroth_result r = { .size = size };
		TOO_SMALL(zeroth_step(e, &r), "zeroth_step: r: size is");
		facts.size = ev.size = info.size = size;
		if (size < sizeof facts)
			TOO_SMALL(zeroth_facts(e, &facts), "zeroth_facts: out: size is");
		if (size < sizeof ev)
			TOO_SMALL(zeroth_evaluate(e, "", &ev), "zeroth_evaluate: out: size is");
		if (size < sizeof info)
			TOO_SMALL(zeroth_tensor(e, 0, &info), "zeroth_tensor: out: size is");
	}
	steps(e, 6); /* none of these was one */
	assert_true(end(e) == reference());
	e = fresh;
	static const uint32_t wrong[] = { 0, 1, 7, 8, 9, 23, 73, 4104, 0x80000000u, UINT32_MAX };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct zeroth_model m = model;
		m.tensor_size = wrong[i];
		TOO_SMALL(zeroth_set_model(e, &m), "tensor_size is");
		m = model;
		m.unit_size = wrong[i];
		TOO_SMALL(zeroth_set_model(e, &m), "unit_size is");
		m = model;
		m.layer_size = wrong[i];
		TOO_SMALL(zeroth_set_model(e, &m), "layer_size is");
		m = model;
		m.size = wrong[i] < sizeof m ? wrong[i] : 8;
		TOO_SMALL(zeroth_set_model(e, &m), "zeroth_model: size is");
		struct zr_entry entry = { .magic = ZR_MAGIC, .size = 8 };
		TOO_SMALL(zeroth_add_plugins(e, &entry), "size 8");
	}
	zeroth_close(e);
}

/* A model of one's own to spoil. */
struct spoilt {
	struct zeroth_model m;
	struct zeroth_unit unit[4];
	struct zeroth_layer layer[4];
	struct zeroth_tensor tensor[4];
	int32_t used[2];
};

static void refuse_model(void (*spoil)(struct spoilt *), const char *want)
{
	static struct spoilt s;
	struct zeroth *e = zeroth_new();
	s.m = model;
	memcpy(s.unit, units, sizeof units);
	memcpy(s.layer, layers, sizeof layers);
	memcpy(s.tensor, tensors, sizeof tensors);
	for (int i = 0; i < 4; i++)
		s.unit[i].tensors = &s.tensor[i];
	s.m.units = s.unit;
	s.m.layers = s.layer;
	s.used[0] = s.used[1] = 1;
	spoil(&s);
	OK(zeroth_set_text(e, "[train]\nmicro_batch_size = 2\nsteps = 2\n"));
	OK(zeroth_set_model(e, &s.m));
	int rc = zeroth_open(e);
	if (rc != ZR_EINVAL || !strstr(zeroth_error(e), want))
		fail_msg("expected '%s', got %d: %s", want, rc, zeroth_error(e));
	zeroth_close(e);
}

static char long_name[300];

#define SPOILS(X)                                                                                  \
	X(no_layer, s->layer[1].units = s->layer[2].units = used[0],                               \
	  "unit b: no layer has it in its units")                                                  \
	X(same_tensors, s->tensor[3].name = "a", "two tensors have the name a")                    \
	X(same_units, s->unit[3].name = "a", "two units have the name a")                          \
	X(same_layers, s->layer[1].name = "first", "two layers have the name first")               \
	X(std_nan, s->tensor[0].std = NAN, "tensor a: std is nan")                                 \
	X(std_negative, s->tensor[0].std = -1, "tensor a: std is -1")                              \
	X(std_inf, s->tensor[2].std = INFINITY, "tensor b: std is inf")                            \
	X(mean_nan, s->tensor[1].mean = NAN, "tensor bias: mean is nan")                           \
	X(mean_large, s->tensor[1].mean = -1e39, "tensor bias: mean is -1e+39")                    \
	X(init, s->tensor[1].init = 4, "tensor bias: init is 4")                                   \
	X(ndim, s->tensor[1].ndim = 5, "tensor bias: ndim is 5")                                   \
	X(ndim_0, s->tensor[1].ndim = 0, "tensor bias: ndim is 0")                                 \
	X(dims, s->tensor[0].dims[1] = 0, "tensor a: dims[1] is 0")                                \
	X(dims_negative, s->tensor[0].dims[0] = -3, "tensor a: dims[0] is -3")                     \
	X(dims_large, s->tensor[0].dims[0] = INT64_MAX, "tensor a has an impossible shape")        \
	X(held_out, s->m.held_out = -1, "held_out is -1; expected 0 to")                           \
	X(held_out_large, s->m.held_out = INT64_MAX, "held_out is 9223372036854775807")            \
	X(newline, s->tensor[2].name = "b\n",                                                      \
	  "name of tensor 0 (b ) has a control character, as a newline, in unit b")                \
	X(newline_unit, s->unit[2].name = "b\nc", "name of unit 2 (b c) has a control character")  \
	X(newline_layer, s->layer[2].name = "\x1b[2J", "name of layer 2 ( [2J) has a control")     \
	X(control_c1, s->tensor[2].name = "b\xc2\x9b", "name of tensor 0")                         \
	X(utf8, s->tensor[2].name = "b\xff", "is not UTF-8")                                       \
	X(name_long, s->tensor[2].name = memset(long_name, 'x', 299), "is longer than 255 bytes")  \
	X(name_null, s->tensor[2].name = NULL, "name of tensor 0 () is NULL, in unit b")           \
	X(name_empty, s->unit[2].name = "", "name of unit 2 () is empty")                          \
	X(unit_null, s->unit[2].name = NULL, "name of unit 2 () is NULL")                          \
	X(layer_null, s->layer[2].name = NULL, "name of layer 2 () is NULL")                       \
	X(no_tensors, s->unit[2].tensors = NULL, "unit b: tensors is NULL")                        \
	X(n_tensors, s->unit[2].n_tensors = 0, "unit b: n_tensors is 0")                           \
	X(n_tensors_large, s->unit[2].n_tensors = UINT32_MAX,                                      \
	  "n_tensors of all units are 4294967298")                                                 \
	X(n_units, s->m.n_units = 0, "n_units is 0")                                               \
	X(n_units_large, s->m.n_units = UINT32_MAX, "n_units is 4294967295")                       \
	X(n_layers, s->m.n_layers = 1, "n_layers is 1")                                            \
	X(n_layers_large, s->m.n_layers = UINT32_MAX, "n_layers is 4294967295")                    \
	X(units_null, s->layer[1].units = NULL, "layer middle: units is NULL")                     \
	X(units_twice, s->layer[1].units = s->used,                                                \
	  "layer middle: units[1] is 1, which it has already")                                     \
	X(units_number, s->used[1] = 4;                                                            \
	  s->layer[1].units = s->used, "layer middle: units[1] is 4; there are 4 units")           \
	X(units_negative, s->used[1] = -1;                                                         \
	  s->layer[1].units = s->used, "layer middle: units[1] is -1")                             \
	X(forward, s->layer[1].forward = NULL, "layer 1 (middle): forward is NULL")                \
	X(backward, s->layer[3].backward = NULL, "layer 3 (last): backward is NULL")               \
	X(out, s->layer[1].out = 0, "layer 1 (middle): out is 0")                                  \
	X(out_last, s->layer[3].out = 1, "layer 3 (last): out is 1")                               \
	X(out_large, s->layer[1].out = UINT64_C(1) << 62, "layer 1 needs over 64 TiB")             \
	X(saved, s->layer[1].saved = UINT64_MAX, "layer 1 needs over 64 TiB")                      \
	X(work, s->layer[1].work = UINT64_MAX / 2 + 1, "layer 1 needs over 64 TiB")
#define SPOIL(name, change, want)                                                                  \
	static void spoil_##name(struct spoilt *s)                                                 \
	{                                                                                          \
		change;                                                                            \
	}
SPOILS(SPOIL)

/* Each field of a model's description that cannot be held is refused by its name. */
static void test_fields_of_a_model(void **state)
{
	(void)state;
#define REFUSE(name, change, want) refuse_model(spoil_##name, want);
	SPOILS(REFUSE)
}

/* ---- optimizers that the program brings ---- */

static _Atomic uint32_t ndims; /* a bit for each ndim that step_whole() has got */
static _Atomic int lent;       /* interfaces that create() has got */

struct descent {
	double lr;
};

struct zr_inst {
	const struct zr_host *h;
};

static int descend(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const float *grad = s->grad.data, rate = (float)(s->lr * s->grad_mult);
	float *p = s->master.data, *copy = s->lowp.data;
	for (uint64_t k = 0; k < s->n_seg; k++)
		for (int64_t i = s->seg[k].off; i < s->seg[k].off + s->seg[k].n; i++) {
			p[i] -= rate * grad[i];
			if (copy)
				copy[i] = p[i];
		}
	return s->lowp.data && s->lowp.dtype != ZR_F32 ? zr_fail(inst->h, ZR_EINVAL, "lowp") : 0;
}

static int descend_whole(struct zr_inst *inst, const struct zr_opt_step *s)
{
	int64_t n = 1;
	for (int d = 0; d < s->seg->ndim; d++)
		n *= s->seg->dims[d];
	ndims |= 1u << s->seg->ndim;
	return s->n_seg == 1 && s->seg->n == n ? descend(inst, s) :
						 zr_fail(inst->h, ZR_EINVAL, "not whole");
}

static uint64_t no_cubes(struct zr_inst *inst, const int64_t *dims, int32_t ndim)
{
	(void)inst, (void)dims;
	return ndim == 3 ? ZR_WORK_REFUSED : 0;
}

static const struct zr_state *no_states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 0;
	return NULL;
}

static int descent_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	static const char *const all[] = { "zr.boot/1",       "zr.device/1", "zr.model/1",
					   "zr.pretrained/1", "zr.data/1:x", "zr.unknown/1" };
	struct zr_inst *other;
	(void)opts;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		lent += h->get(h, all[i], &other) != NULL;
	*out = calloc(1, sizeof **out);
	if (!*out)
		return ZR_ENOMEM;
	(*out)->h = h;
	return 0;
}

static void descent_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_opt descent_options[] = {
	ZR_OPT(struct descent, lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_SCHED, "0.05", 0, ZR_HI, "",
	       "Learning rate."),
};

#define DESCENT(name, bits, whole, work)                                                           \
	static const struct zr_optimizer_v1 name##_calls = {                                       \
		.size = sizeof name##_calls,                                                       \
		.caps = bits,                                                                      \
		.mem_ok = ZR_MEM_HOST,                                                             \
		.state_version = 1,                                                                \
		.states = no_states,                                                               \
		.step = descend,                                                                   \
		.step_whole = whole,                                                               \
		.whole_work = work,                                                                \
	};                                                                                         \
	static const struct zr_iface name##_ifaces[] = { { "zr.optimizer/1", &name##_calls },      \
							 { NULL, NULL } };                         \
	static const struct zr_desc name##_desc = {                                                \
		.size = sizeof name##_desc,                                                        \
		.role = "optimizer",                                                               \
		.id = #name,                                                                       \
		.version = "1",                                                                    \
		.license = "Apache-2.0",                                                           \
		.summary = "Descent.",                                                             \
		.ifaces = name##_ifaces,                                                           \
		.opts = descent_options,                                                           \
		.n_opts = 1,                                                                       \
		.opt_stride = sizeof *descent_options,                                             \
		.opts_size = sizeof(struct descent),                                               \
		.create = descent_create,                                                          \
		.destroy = descent_destroy,                                                        \
	};
DESCENT(elements, ZR_OPT_ELEMENTWISE, NULL, NULL)
DESCENT(whole, ZR_OPT_WHOLE, descend_whole, NULL)
DESCENT(picky, ZR_OPT_WHOLE, descend_whole, no_cubes)
ZR_PLUGIN(&elements_desc, &whole_desc, &picky_desc);

static char last_line[300];

static void keep_line(void *arg, int level, const char *topic, const char *text)
{
	(void)arg;
	if (level <= ZR_LOG_WARN && !strcmp(topic, "optimizer"))
		snprintf(last_line, sizeof last_line, "%s", text);
}

/* An engine whose tensors have 4, 3, 2 and 1 dimensions. */
static struct zeroth *shaped(int ranks, const char *stage, const char *optimizer, int *rc)
{
	static const struct zeroth_tensor shapes[] = {
		{ "a", { 2, 4, 2, 4 }, 4, ZEROTH_INIT_NORMAL, 0, 0.3, 0, 0 },
		{ "bias", { 2, 2, 2 }, 3, ZEROTH_INIT_CONST, 0.01, 0, 0, 0 },
		{ "b", { WIDE, WIDE }, 2, ZEROTH_INIT_UNIFORM, 0, 0.3, 0, 0 },
		{ "c", { WIDE * WIDE }, 1, ZEROTH_INIT_UNIFORM, 0, 0.3, 0, 0 },
	};
	static const struct zeroth_unit of[] = { { "a", shapes, 1, 0 },
						 { "bias", shapes + 1, 1, 0 },
						 { "b", shapes + 2, 1, 0 },
						 { "c", shapes + 3, 1, 0 } };
	struct zeroth_model m = model;
	struct zeroth *e = zeroth_new();
	char option[2][64];
	m.units = of;
	snprintf(option[0], sizeof option[0], "zero.plugin=%s", stage);
	snprintf(option[1], sizeof option[1], "optimizer.plugin=%s", optimizer);
	OK(zeroth_set_text(e, "[train]\ntrain_batch_size = 16\nmicro_batch_size = 2\nsteps = 6\n"));
	OK(zeroth_set_model(e, &m));
	OK(zeroth_set_ranks(e, ranks));
	OK(zeroth_add_plugins(e, &zr_plugin_entry_v1));
	OK(zeroth_set_log(e, ZR_LOG_WARN, keep_line, NULL));
	for (int i = 0; i < 2; i++)
		OK(zeroth_set(e, option[i]));
	*rc = zeroth_open(e);
	return e;
}

static uint64_t trained(int ranks, const char *stage, const char *optimizer)
{
	int rc;
	struct zeroth *e = shaped(ranks, stage, optimizer, &rc);
	OK(rc);
	steps(e, 6);
	return end(e);
}

/* step_whole() gets every parameter, and with the same function the bits are those of step(). */
static void test_whole_parameters_of_all_shapes(void **state)
{
	const uint64_t want = trained(1, "stage0", "elements");
	int rc;
	(void)state;
	for (int ranks = 1; ranks <= 4; ranks *= 2)
		for (int stage = 0; stage < 4; stage++) {
			char name[24];
			snprintf(name, sizeof name, "stage%d", stage);
			ndims = 0;
			assert_true(trained(ranks, name, "whole") == want);
			assert_int_equal(ndims, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4);
		}
	struct zeroth *e = shaped(1, "stage0", "picky", &rc);
	assert_int_equal(rc, ZR_EINVAL);
	assert_non_null(strstr(zeroth_error(e),
			       "tensor bias has a shape that picky does not "
			       "update, 2 x 2 x 2: give it to an [optimizer.NAME]"));
	zeroth_close(e);
}

/* Boot, device, model and data are not lent to optimizers. */
static void test_what_an_optimizer_gets(void **state)
{
	(void)state;
	lent = 0;
	*last_line = 0;
	trained(1, "stage0", "elements");
	assert_int_equal(lent, 0);
	assert_string_equal(last_line, "plugin elements asked for zr.boot/1, which comm plugins "
				       "get alone");
}

static int setup(void **state)
{
	static char dir[] = "/tmp/t_embed.XXXXXX";
	*state = NULL;
	return !mkdtemp(dir) || chdir(dir);
}

static int teardown(void **state)
{
	(void)state;
	return system("rm -rf \"$PWD\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_and_stages),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_save_and_resume),
		cmocka_unit_test(test_evaluate),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_failed_saves),
		cmocka_unit_test(test_closed_within),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_signals_are_the_programs),
		cmocka_unit_test(test_calls_within_a_call),
		cmocka_unit_test(test_calls_of_a_log_function),
		cmocka_unit_test(test_calls_of_a_child),
		cmocka_unit_test(test_sizes_of_structs),
		cmocka_unit_test(test_fields_of_a_model),
		cmocka_unit_test(test_whole_parameters_of_all_shapes),
		cmocka_unit_test(test_what_an_optimizer_gets),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("embed", tests, setup, teardown);
}
