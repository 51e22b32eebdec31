/* SPDX-License-Identifier: Apache-2.0
 *
 * t_sched.c - schedulers: constant; the others against golden/warmup.txt and golden/schedules.txt,
 * which their formulas made, against golden/transformers_schedules.txt, which transformers and
 * Axolotl made, and against what their options promise.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/scheduler.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "tests/lib/testhost.h"

static struct zr_host *host;

static double value(const struct zr_desc *desc, struct zr_inst *inst, int64_t step, double base)
{
	const struct zr_scheduler_v1 *v = test_iface(desc, "zr.scheduler/1");
	struct zr_sched_point at = {
		.size = sizeof at, .step = step, .total_steps = 100, .base = base
	};
	double lr = -1;
	assert_int_equal(v->value(inst, &at, &lr), ZR_OK);
	return lr;
}

static void constant_is_the_base(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/constant");
	struct zr_inst *inst;
	void *opts = test_options(desc);
	(void)state;
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_true(value(desc, inst, 0, 3e-4) == 3e-4);
	assert_true(value(desc, inst, 99, 1e-2) == 1e-2);
	desc->destroy(inst);
	free(opts);
}

static FILE *golden(const char *name)
{
	const char *src = getenv("ZR_SRCDIR");
	char path[4096];
	snprintf(path, sizeof path, "%s/tests/golden/%s", src ? src : ".", name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	return f;
}

static void warmup_has_deepspeeds_values(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	char type[16], steps[32], low[32], high[32], want[32], got[32];
	FILE *f = golden("warmup.txt");
	long long before;
	int lines = 0;
	(void)state;
	while (fscanf(f, "%15s %31s %31s %31s %lld %31s", type, steps, low, high, &before, want) ==
	       6) {
		void *opts = test_options(desc);
		struct zr_inst *inst;
		assert_int_equal(test_set(desc, opts, "warmup_type", type), 0);
		assert_int_equal(test_set(desc, opts, "warmup_num_steps", steps), 0);
		assert_int_equal(test_set(desc, opts, "warmup_min_lr", low), 0);
		assert_int_equal(test_set(desc, opts, "warmup_max_lr", high), 0);
		assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
		snprintf(got, sizeof got, "%.9g", value(desc, inst, before, 7));
		if (strcmp(got, want))
			fail_msg("%s %s %s %s: update %lld: %s, wanted %s", type, steps, low, high,
				 before, got, want);
		desc->destroy(inst);
		free(opts);
		lines++;
	}
	fclose(f);
	assert_true(lines > 100);
}

/* One schedule as a line `case ID BASE OPTION=VALUE...` of the golden file says it. */
struct schedule {
	const struct zr_desc *desc;
	struct zr_inst *inst;
	void *opts;
	double base;
	char text[512]; /* owns the texts of the options */
};

static void open_schedule(struct schedule *s, const char *text)
{
	char name[64], *save, *word;
	snprintf(s->text, sizeof s->text, "%s", text);
	strtok_r(s->text, " \n", &save);
	snprintf(name, sizeof name, "scheduler/%s", strtok_r(NULL, " \n", &save));
	s->base = atof(strtok_r(NULL, " \n", &save));
	s->desc = test_plugin(name);
	s->opts = test_options(s->desc);
	while ((word = strtok_r(NULL, " \n", &save))) {
		char *is = strchr(word, '=');
		*is = 0;
		assert_int_equal(test_set(s->desc, s->opts, word, is + 1), 0);
	}
	assert_int_equal(test_create(host, s->desc, s->opts, &s->inst), ZR_OK);
}

static void close_schedule(struct schedule *s)
{
	s->desc->destroy(s->inst);
	free(s->opts);
}

#define UPDATES 5000

static void near(const char *text, const char *what, double got, double want)
{
	if (!(fabs(got - want) <= 1e-13 * fabs(want)))
		fail_msg("%s%s %.17g, wanted %.17g", text, what, got, want);
}

/* Sampled values, and two sums that hold every update to its own. Returns the number of
 * schedules. */
static int follows(const char *name, int64_t updates)
{
	FILE *f = golden(name);
	struct schedule s = { 0 };
	char line[512], text[512] = "";
	double lr[UPDATES], a, b;
	long long k;
	int cases = 0;
	while (fgets(line, sizeof line, f)) {
		if (!strncmp(line, "case ", 5)) {
			open_schedule(&s, line);
			snprintf(text, sizeof text, "%s", line);
			for (k = 0; k < updates; k++)
				lr[k] = value(s.desc, s.inst, k, s.base);
		} else if (sscanf(line, "at %lld %lf", &k, &a) == 2) {
			near(text, line, lr[k], a);
		} else if (sscanf(line, "sum %lf %lf", &a, &b) == 2) {
			long double sum = 0, weighted = 0;
			for (k = 0; k < updates; k++) {
				sum += lr[k];
				weighted += lr[k] * (1 + k % 97);
			}
			near(text, "sum", (double)sum, a);
			near(text, "weighted sum", (double)weighted, b);
			close_schedule(&s);
			cases++;
		}
	}
	fclose(f);
	return cases;
}

static void deepspeeds_schedules_over_5000_updates(void **state)
{
	(void)state;
	assert_int_equal(follows("schedules.txt", UPDATES), 17);
}

static void transformers_schedules_over_2000_updates(void **state)
{
	(void)state;
	assert_int_equal(follows("transformers_schedules.txt", 2000), 77);
}

/* The length of a warm-up by a share of the run, once the run's is known: before that the
 * schedule takes the one that the point says. */
static void a_share_of_the_updates_is_the_warmup(void **state)
{
	static const struct {
		const char *text;
		int64_t steps, warmup;
	} cases[] = {
		{ "warmup_ratio=0.07", 100, 8 }, /* 0.07 * 100 is 7.000000000000001 */
		{ "warmup_ratio=0.07 warmup_rounding=down", 100, 7 },
		{ "warmup_ratio=0.29 warmup_rounding=down", 100, 28 }, /* 28.999999999999996 */
		{ "warmup_ratio=0.1 warmup_rounding=down warmup_least_steps=2", 19, 2 },
		{ "warmup_ratio=0.1 warmup_rounding=down warmup_least_steps=2", 9, 0 },
		{ "warmup_ratio=0.03 warmup_most_steps=100", 5000, 100 },
		{ "warmup_ratio=0.5 warmup_num_steps=3", 100, 3 },
		{ "warmup_ratio=0", 100, 0 },
	};
	char line[256];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct zr_facts facts = { .size = sizeof facts,
					  .lr = NAN,
					  .steps = cases[i].steps };
		struct schedule s;
		snprintf(line, sizeof line, "case constant_with_warmup 1 %s", cases[i].text);
		open_schedule(&s, line);
		const struct zr_scheduler_v1 *v = test_iface(s.desc, "zr.scheduler/1");
		for (int known = 0; known < 2; known++) {
			struct zr_sched_point at = { .size = sizeof at,
						     .base = 1,
						     .total_steps = cases[i].steps };
			double lr = 0;
			if (known)
				assert_int_equal(s.desc->resolve(host, &facts, s.opts), ZR_OK);
			for (at.step = 0; at.step < 200; at.step++) {
				assert_int_equal(v->value(s.inst, &at, &lr), ZR_OK);
				if (lr == 1)
					break;
			}
			if (at.step != cases[i].warmup)
				fail_msg("%s of %lld: %lld updates", cases[i].text,
					 (long long)cases[i].steps, (long long)at.step);
		}
		close_schedule(&s);
	}
}

static void an_end_that_is_no_end_is_refused(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/polynomial");
	struct zr_facts facts = { .size = sizeof facts, .lr = 1e-5, .steps = 10 };
	void *opts = test_options(desc);
	(void)state;
	assert_int_equal(test_set(desc, opts, "lr_end", "1e-5"), 0);
	assert_int_equal(desc->resolve(host, &facts, opts), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "lr_end = 1e-05 is not below"));
	free(opts);
	test_clear(host);
}

static void two_minima_are_refused(void **state)
{
	static const char *const names[] = { "scheduler/cosine_with_min_lr",
					     "scheduler/cosine_warmup_with_min_lr" };
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct zr_desc *desc = test_plugin(names[i]);
		void *opts = test_options(desc);
		struct zr_inst *inst;
		assert_int_equal(test_set(desc, opts, "min_lr", "1e-5"), 0);
		assert_int_equal(test_set(desc, opts, "min_lr_rate", "0.1"), 0);
		assert_int_equal(test_create(host, desc, opts, &inst), ZR_EINVAL);
		assert_non_null(strstr(test_error(host), "give one of them"));
		free(opts);
		test_clear(host);
	}
}

/* total_num_steps = auto is the length of the run, as a fact or, without it, as the point says. */
static void auto_total_is_the_length_of_the_run(void **state)
{
	static const char *const names[] = { "scheduler/warmup_decay_lr",
					     "scheduler/warmup_cosine_lr", "scheduler/linear",
					     "scheduler/cosine" };
	(void)state;
	for (int i = 0; i < 8; i++) {
		const struct zr_desc *desc = test_plugin(names[i / 2]);
		struct zr_facts facts = { .size = sizeof facts,
					  .lr = NAN,
					  .steps = i % 2 ? 100 : 0 };
		struct zr_inst *inst;
		void *opts = test_options(desc);
		assert_int_equal(test_set(desc, opts, "warmup_num_steps", "10"), 0);
		assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
		assert_int_equal(desc->create(host, opts, &inst), ZR_OK);
		double middle = value(desc, inst, 56, 1e-3), end = value(desc, inst, 101, 1e-3);
		assert_true(middle > 4e-4 && middle < 6e-4);
		assert_true(end < 1e-6);
		desc->destroy(inst);
		free(opts);
	}
}

/* Without an option that says otherwise no schedule rises above the optimizer's lr, and each
 * reaches it: whether the lr was known while resolving, or only the group's own when it is
 * asked. cosine_warmup_with_min_lr reaches it by a warm-up alone. */
static void the_top_is_the_optimizers_lr(void **state)
{
	static const char *const names[] = { "scheduler/constant",
					     "scheduler/warmup_lr",
					     "scheduler/warmup_decay_lr",
					     "scheduler/warmup_cosine_lr",
					     "scheduler/one_cycle",
					     "scheduler/linear",
					     "scheduler/cosine",
					     "scheduler/cosine_with_restarts",
					     "scheduler/cosine_with_min_lr",
					     "scheduler/constant_with_warmup",
					     "scheduler/polynomial",
					     "scheduler/inverse_sqrt",
					     "scheduler/warmup_stable_decay" };
	(void)state;
	for (int i = 0; i < 2 * (int)(sizeof names / sizeof *names); i++) {
		const struct zr_desc *desc = test_plugin(names[i / 2]);
		struct zr_facts facts = { .size = sizeof facts,
					  .lr = i % 2 ? 2e-5 : NAN,
					  .steps = 5000 };
		void *opts = test_options(desc);
		struct zr_inst *inst;
		double top = 0;
		if (desc->resolve)
			assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
		assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
		for (int64_t k = 0; k < 5000; k++)
			top = fmax(top, value(desc, inst, k, 2e-5));
		if (fabs(top - 2e-5) > 1e-17)
			fail_msg("%s rises to %g", names[i / 2], top);
		desc->destroy(inst);
		free(opts);
	}
}

static void a_range_test_starts_at_the_optimizers_lr(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/lr_range_test");
	struct zr_facts facts = { .size = sizeof facts, .lr = 2e-5 };
	void *opts = test_options(desc);
	struct zr_inst *inst;
	(void)state;
	assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_true(value(desc, inst, 0, 1) == 2e-5);
	desc->destroy(inst);
	free(opts);
}

static void ending_inside_the_warmup_is_said(void **state)
{
	static const char *const cases[] = { "case warmup_decay_lr 1 total_num_steps=9 "
					     "warmup_num_steps=10",
					     "case warmup_cosine_lr 1 "
					     "total_num_steps=9 warmup_num_steps=10" };
	struct schedule s;
	(void)state;
	for (int i = 0; i < 2; i++) {
		test_clear(host);
		open_schedule(&s, cases[i]);
		assert_non_null(strstr(test_log(host), "total_num_steps = 9"));
		close_schedule(&s);
	}
	test_clear(host);
	open_schedule(&s, "case warmup_cosine_lr 1 total_num_steps=10 warmup_num_steps=10");
	assert_string_equal(test_log(host), "");
	close_schedule(&s);
}

static void a_decay_after_the_cycle_needs_rate_and_interval(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/one_cycle");
	static const char *const dead[] = { "decay_lr_rate", "decay_step_size" };
	struct zr_inst *inst;
	(void)state;
	for (int i = 0; i < 2; i++) {
		void *opts = test_options(desc);
		assert_int_equal(test_set(desc, opts, dead[i], "5"), 0);
		assert_int_equal(test_create(host, desc, opts, &inst), ZR_EINVAL);
		assert_non_null(strstr(test_error(host), dead[i]));
		free(opts);
	}
	test_clear(host);
}

/* Every rate of a cycle lies between its ends, the second half mirrors the first, and `auto` makes
 * it do so. */
static void a_cycle_is_symmetric_by_default(void **state)
{
	struct schedule s;
	(void)state;
	open_schedule(&s, "case one_cycle 7 cycle_min_lr=1e-4 cycle_max_lr=1e-2 "
			  "cycle_first_step_size=640 cycle_first_stair_count=5");
	assert_true(value(s.desc, s.inst, 640, 7) == 1e-2);
	for (int64_t k = 0; k <= 1280; k++) {
		double lr = value(s.desc, s.inst, k, 7);
		assert_true(lr >= 1e-4 && lr <= 1e-2);
		near("cycle", "mirrored", lr, value(s.desc, s.inst, 1280 - k, 7));
		int64_t foot = k <= 640 ? k / 128 * 128 : 1280 - (1280 - k) / 128 * 128;
		near("cycle", "a stair", lr, value(s.desc, s.inst, foot, 7));
	}
	close_schedule(&s);
}

static void the_first_two_updates_run_at_the_minimum(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	void *opts = test_options(desc);
	struct zr_inst *inst;
	(void)state;
	assert_int_equal(test_set(desc, opts, "warmup_min_lr", "1e-5"), 0);
	assert_int_equal(test_set(desc, opts, "warmup_max_lr", "1e-3"), 0);
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_true(value(desc, inst, 0, 1) == 1e-5);
	assert_true(value(desc, inst, 1, 1) == 1e-5);
	assert_true(value(desc, inst, 2, 1) > 1e-5);
	desc->destroy(inst);
	free(opts);
}

/* As DeepSpeed: without warmup_max_lr the lr of the first group is the maximum of every group. */
static void auto_maximum_is_the_optimizers_lr(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	static const double lr[] = { 6e-4, 0 };
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct zr_facts facts = { .size = sizeof facts, .lr = lr[i] };
		void *opts = test_options(desc);
		struct zr_inst *inst;
		assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
		assert_int_equal(desc->create(host, opts, &inst), ZR_OK);
		assert_true(value(desc, inst, 5000, 1) == lr[i]);
		desc->destroy(inst);
		free(opts);
	}
}

static void auto_maximum_without_facts_is_the_base(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	void *opts = test_options(desc);
	struct zr_inst *inst;
	(void)state;
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_true(value(desc, inst, 5000, 2e-4) == 2e-4);
	desc->destroy(inst);
	free(opts);
}

static void bad_options_are_refused(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	void *opts = test_options(desc);
	(void)state;
	assert_int_not_equal(test_set(desc, opts, "warmup_num_steps", "0"), 0);
	assert_int_not_equal(test_set(desc, opts, "warmup_min_lr", "-1"), 0);
	assert_int_not_equal(test_set(desc, opts, "warmup_max_lr", "nan"), 0);
	assert_int_not_equal(test_set(desc, opts, "warmup_type", "cosine"), 0);
	free(opts);
}

static int setup(void **state)
{
	(void)state;
	host = test_host(1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_host_free(host);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constant_is_the_base),
		cmocka_unit_test(warmup_has_deepspeeds_values),
		cmocka_unit_test(deepspeeds_schedules_over_5000_updates),
		cmocka_unit_test(transformers_schedules_over_2000_updates),
		cmocka_unit_test(a_share_of_the_updates_is_the_warmup),
		cmocka_unit_test(an_end_that_is_no_end_is_refused),
		cmocka_unit_test(two_minima_are_refused),
		cmocka_unit_test(auto_total_is_the_length_of_the_run),
		cmocka_unit_test(the_top_is_the_optimizers_lr),
		cmocka_unit_test(a_range_test_starts_at_the_optimizers_lr),
		cmocka_unit_test(ending_inside_the_warmup_is_said),
		cmocka_unit_test(a_decay_after_the_cycle_needs_rate_and_interval),
		cmocka_unit_test(a_cycle_is_symmetric_by_default),
		cmocka_unit_test(the_first_two_updates_run_at_the_minimum),
		cmocka_unit_test(auto_maximum_is_the_optimizers_lr),
		cmocka_unit_test(auto_maximum_without_facts_is_the_base),
		cmocka_unit_test(bad_options_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
