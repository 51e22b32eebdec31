/* SPDX-License-Identifier: Apache-2.0
 *
 * roles.c - tests of schedulers, precisions, policies of activations, and monitors.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zeroth/activation.h>
#include <zeroth/monitor.h>
#include <zeroth/precision.h>
#include <zeroth/scheduler.h>

#include "cmd/check/check.h"

/* ---- scheduler ------------------------------------------------------------------- */

static double rate_of(struct zr_try *t, int64_t step, int32_t group, double base)
{
	struct zr_check *c = t->c;
	const struct zr_scheduler_v1 *v = c->vtbl;
	const struct zr_sched_point at = {
		.size = sizeof at, .group = group, .step = step, .total_steps = 100, .base = base
	};
	const struct zr_sched_point *lent =
		zr_lend(c, "struct zr_sched_point", &at, sizeof at, sizeof at);
	double lr = NAN;

	zr_area_protect(c, lent, 1);
	zr_must(t, ZR_CALL(c, ZR_PURE, "value", v->value(t->inst, lent, &lr)));
	zr_area_free(c, lent);
	if (!isfinite(lr) || lr < 0)
		zr_check_fail(c,
			      "the rate of step %" PRId64 " is %g, expected a finite number, 0 "
			      "or more; set *lr",
			      step, lr);
	return lr;
}

static double rate(struct zr_try *t, int64_t step)
{
	return rate_of(t, step, 0, 1e-3);
}

void zr_test_schedule(struct zr_check *c)
{
	struct zr_try t = { .c = c }, other = { .c = c };
	double lr[121];

	zr_try_open(c, &t);
	for (int i = 0; i <= 120; i++) /* some steps beyond the end of the run */
		lr[i] = rate(&t, i);
	for (int i = 120; i >= 0; i -= 7)
		if (rate(&t, i) != lr[i])
			zr_check_fail(c,
				      "the rate of step %d depends on which steps were asked "
				      "for before; compute it from `at` alone",
				      i);
	zr_try_close(&t);
	zr_try_open(c, &other);
	for (int i = 60; i <= 120; i++)
		if (rate(&other, i) != lr[i])
			zr_check_fail(c,
				      "the rate of step %d depends on which steps were asked "
				      "for before: a run that resumes there gets another",
				      i);
	if (rate(&other, 1 << 30) < 0)
		zr_check_fail(c, "a negative rate");
	const double second = rate_of(&other, 50, 1, 2e-3);
	zr_try_close(&other);

	zr_try_open(c, &t);
	if (rate_of(&t, 50, 1, 2e-3) != second)
		zr_check_fail(c, "the rate of a second parameter group depends on which groups "
				 "were asked for before; compute it from `at` alone");
	zr_try_close(&t);
}

void zr_compute_scheduler(struct zr_check *c, struct zr_results *r)
{
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	for (int i = 0; i <= 100; i += 20)
		for (int32_t group = 0; group < 2; group++) {
			const double base = (1 + group) * (c->seed ? 3e-3 : 1e-3);
			const double lr = rate_of(&t, i + 7 * (int)c->seed, group, base);
			zr_result_add(c, r, "value", &lr, sizeof lr, "the rate of step %d", i);
		}
	zr_try_close(&t);
}

void zr_test_schedule_sizes(struct zr_check *c)
{
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	double lr = rate(&t, 10);
	c->grown = 64;
	if (rate(&t, 10) != lr)
		zr_check_fail(c, "a host of a later minor, with a longer struct, gets "
				 "another rate");
	c->grown = 0;
	c->minor = c->plugin->entry->need_minor;
	if (rate(&t, 10) != lr)
		zr_check_fail(c, "a host of the minor that it says it needs gets another "
				 "rate");
	zr_try_close(&t);
}

/* ---- precision ------------------------------------------------------------------- */

static void advance(struct zr_try *t, struct zr_scale *s, int overflow, int32_t *action)
{
	struct zr_check *c = t->c;
	const struct zr_precision_v1 *v = c->vtbl;

	*action = -1;
	zr_must(t, ZR_CALL(c, ZR_PURE, "next", v->next(t->inst, s, overflow, action)));
	if (*action < ZR_STEP_APPLY || *action > ZR_STEP_STOP)
		zr_check_fail(c, "action is %d, expected ZR_STEP_*", *action);
	if (overflow && *action == ZR_STEP_APPLY)
		zr_check_fail(c, "a step whose gradients are not finite is applied; skip it or "
				 "stop");
	if (!(s->scale > 0) || !isfinite(s->scale))
		zr_check_fail(c, "the scale became %g, expected a finite number above 0", s->scale);
}

void zr_test_precision(struct zr_check *c)
{
	const struct zr_precision_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	struct zr_precision_info info = { .size = sizeof info };
	struct zr_scale s = { 0 }, again = { 0 }, middle;
	int32_t action[300], other;

	zr_try_open(c, &t);
	struct zr_precision_info *lent =
		zr_lend(c, "struct zr_precision_info", &info, sizeof info, sizeof info);
	zr_must(&t, ZR_CALL(c, ZR_MAIN, "info", v->info(t.inst, lent)));
	info = *lent;
	if (info.dtype != ZR_F32 && info.dtype != ZR_BF16 && info.dtype != ZR_F16)
		zr_check_fail(c, "dtype is %d, expected ZR_F32, ZR_BF16 or ZR_F16", info.dtype);
	if (info.comm_dtype != ZR_F32 && info.comm_dtype != ZR_BF16 && info.comm_dtype != ZR_F16)
		zr_check_fail(c, "comm_dtype is %d, expected ZR_F32, ZR_BF16 or ZR_F16",
			      info.comm_dtype);
	if (info.master != ZR_MASTER_FP32 && info.dtype != ZR_BF16)
		zr_check_fail(c, "master is %d, which goes with ZR_BF16 only", info.master);
	if (info.products < ZR_PRODUCTS_WHOLE || info.products > ZR_PRODUCTS_FP8_E5M2_GRADIENTS ||
	    (info.products && info.dtype != ZR_BF16))
		zr_check_fail(c,
			      "products is %d, expected ZR_PRODUCTS_*, others than WHOLE with "
			      "ZR_BF16 only",
			      info.products);
	zr_must(&t, ZR_CALL(c, ZR_PURE, "start", v->start(t.inst, &s)));
	middle = s;
	for (int i = 0; i < 300; i++) {
		if (i == 150)
			middle = s;
		advance(&t, &s, i % 100 >= 90 && i % 3 == 0, &action[i]);
	}

	zr_try_close(&t);
	zr_must(&t, zr_try_create(&t)); /* as a run that resumes from the record */
	again = middle;
	for (int i = 150; i < 300; i++) {
		advance(&t, &again, i % 100 >= 90 && i % 3 == 0, &other);
		if (other != action[i])
			zr_check_fail(c,
				      "after a restart step %d is decided otherwise; all that "
				      "next() remembers must be in struct zr_scale",
				      i);
	}

	if (memcmp(&again, &s, sizeof s))
		zr_check_fail(c,
			      "after a restart the scale is %g instead of %g; all that next() "
			      "remembers must be in struct zr_scale",
			      again.scale, s.scale);
	zr_try_close(&t);
}

void zr_compute_precision(struct zr_check *c, struct zr_results *r)
{
	const struct zr_precision_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	struct zr_precision_info info = { .size = sizeof info };
	struct zr_scale s = { 0 };
	int32_t action;

	zr_try_open(c, &t);
	zr_must(&t, ZR_CALL(c, ZR_MAIN, "info", v->info(t.inst, &info)));
	zr_result_add(c, r, "info", &info, sizeof info, "what info() says");
	zr_must(&t, ZR_CALL(c, ZR_PURE, "start", v->start(t.inst, &s)));
	for (int i = 0; i < 40; i++) {
		advance(&t, &s, c->seed ? i % 3 == 0 : i % 7 == 2, &action);
		zr_result_add(c, r, "next", &s, sizeof s, "the scale after step %d", i);
		zr_result_add(c, r, "next", &action, sizeof action, "the action of step %d", i);
	}

	zr_try_close(&t);
}

/* ---- activation ------------------------------------------------------------------ */

void zr_test_activation(struct zr_check *c)
{
	enum { LAYERS = 9 };
	const struct zr_activation_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	struct {
		struct zr_act_layer layer;
		uint64_t later[2];
	} * layers;
	struct zr_act_choice *choice, first[LAYERS];
	zr_try_open(c, &t);
	layers = zr_area_new(c, "the layers", LAYERS * sizeof *layers, 8);
	choice = zr_area_new(c, "the choices", LAYERS * sizeof *choice, 4);
	for (int i = 0; i < LAYERS; i++)
		layers[i].layer = (struct zr_act_layer){ .out = 1000, .saved = 4000 };
	zr_area_protect(c, layers, 1);
	for (int pass = 0; pass < 2; pass++) {
		memset(choice, 0, LAYERS * sizeof *choice);
		zr_must(&t,
			ZR_CALL(c, ZR_PURE, "choose",
				v->choose(t.inst, &layers->layer, LAYERS, sizeof *layers, choice)));
		for (int i = 0; i < LAYERS; i++)
			if (choice[i].out < ZR_ACT_KEEP || choice[i].out > ZR_ACT_OFFLOAD ||
			    choice[i].saved < ZR_ACT_KEEP || choice[i].saved > ZR_ACT_OFFLOAD)
				zr_check_fail(c, "layer %d gets %d and %d, expected ZR_ACT_*", i,
					      choice[i].out, choice[i].saved);
			else if (choice[i].out == ZR_ACT_RECOMPUTE &&
				 choice[i].saved != ZR_ACT_RECOMPUTE)
				zr_check_fail(c,
					      "layer %d drops its output and not what it saved; "
					      "one forward computes both",
					      i);
		if (pass && memcmp(choice, first, sizeof first))
			zr_check_fail(c, "the same layers get another answer the second time");
		memcpy(first, choice, sizeof first);
	}

	zr_try_close(&t);
}

void zr_compute_activation(struct zr_check *c, struct zr_results *r)
{
	enum { LAYERS = 9 };
	const struct zr_activation_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	struct zr_act_layer layer[LAYERS];
	struct zr_act_choice choice[LAYERS] = { { 0 } };
	zr_try_open(c, &t);
	for (int i = 0; i < LAYERS; i++)
		layer[i] = (struct zr_act_layer){ .out = 1000u * (c->seed ? 9u : (uint64_t)i),
						  .saved = 4000 };
	zr_must(&t, ZR_CALL(c, ZR_PURE, "choose",
			    v->choose(t.inst, layer, LAYERS, sizeof *layer, choice)));
	zr_result_add(c, r, "choose", choice, sizeof choice, "the choice");
	zr_try_close(&t);
}

/* ---- monitor --------------------------------------------------------------------- */

static void send(struct zr_try *t, int64_t step)
{
	struct zr_check *c = t->c;
	const struct zr_monitor_v1 *v = c->vtbl;
	const struct zr_metric m[] = { { "loss", 2.5 / (double)step },
				       { "lr", 1e-3 },
				       { "grad_norm", step % 3 ? 1 : 1e300 },
				       { "val_loss", 3 } };
	const uint32_t n = step % 10 ? 3 : 4;
	struct zr_metric *lent = zr_area_new(c, "the metrics", n * sizeof *m, 8);

	memcpy(lent, m, n * sizeof *m);
	zr_area_protect(c, lent, 1);
	zr_must(t, ZR_CALL(c, ZR_MAIN, "metrics", v->metrics(t->inst, step, lent, n)));
	zr_area_free(c, lent);
}

/* It keeps no pointer to what it is told: all of it is gone after the call. */
static void begin_monitor(struct zr_try *t)
{
	const struct zr_monitor_v1 *v = t->c->vtbl;
	static const char name[] = "run-1", config[] = "[train]\nsteps = 30\n";
	struct zr_monitor_run run = {
		.size = sizeof run, .steps = 30, .parameters = 1000, .world = 2
	};
	if (t->c->minor < 5 || !ZR_HAS(v, struct zr_monitor_v1, begin) || !v->begin)
		return;

	char *lent_name = zr_area_new(t->c, "the name of the run", sizeof name, 1);
	char *lent_config = zr_area_new(t->c, "the configuration", sizeof config, 1);
	memcpy(lent_name, name, sizeof name);
	memcpy(lent_config, config, sizeof config);
	run.name = lent_name;
	run.config = lent_config;
	struct zr_monitor_run *lent =
		zr_lend(t->c, "struct zr_monitor_run", &run, sizeof run, sizeof run);
	zr_must(t, ZR_CALL(t->c, ZR_MAIN, "begin", v->begin(t->inst, lent)));
	zr_area_free(t->c, lent);
	zr_area_free(t->c, lent_config);
	zr_area_free(t->c, lent_name);
}

void zr_test_monitor(struct zr_check *c)
{
	const struct zr_monitor_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	begin_monitor(&t);
	if (ZR_HAS(v, struct zr_monitor_v1, resume) && v->resume)
		zr_must(&t, ZR_CALL(c, ZR_MAIN, "resume", v->resume(t.inst, 0)));
	for (int64_t step = 1; step <= 30; step++)
		send(&t, step);
	if (v->flush)
		zr_must(&t, ZR_CALL(c, ZR_MAIN, "flush", v->flush(t.inst)));
	zr_try_close(&t);
}

void zr_test_monitor_resume(struct zr_check *c)
{
	const struct zr_monitor_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };

	if (!ZR_HAS(v, struct zr_monitor_v1, resume) || !v->resume)
		zr_check_skip(c, "it has no resume()");
	for (int run = 0; run < 3; run++) {
		zr_try_open(c, &t);
		begin_monitor(&t);
		zr_must(&t, ZR_CALL(c, ZR_MAIN, "resume", v->resume(t.inst, run * 5)));
		for (int64_t step = run * 5 + 1; step <= run * 5 + 10; step++)
			send(&t, step);
		zr_try_close(&t);
		zr_area_free(c, t.opts);
		zr_area_free(c, t.h);
		t = (struct zr_try){ .c = c };
	}
}
