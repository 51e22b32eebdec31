/* SPDX-License-Identifier: Apache-2.0
 *
 * t_sched.c - schedulers: constant, and warmup_lr against the values of golden/warmup.txt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/scheduler.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "testhost.h"

static struct zr_host *host;

static double value(const struct zr_desc *desc, struct zr_inst *inst, int64_t step, double base)
{
	const struct zr_scheduler_v1 *v = test_iface(desc, "zr.scheduler/1");
	struct zr_sched_point at = { .size = sizeof at, .step = step, .total_steps = 100, .base = base };
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

static void warmup_has_deepspeeds_values(void **state)
{
	const struct zr_desc *desc = test_plugin("scheduler/warmup_lr");
	char path[4096], type[16], steps[32], low[32], high[32], want[32], got[32];
	const char *src = getenv("ZR_SRCDIR");
	long long before;
	int lines = 0;
	FILE *f;
	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/warmup.txt", src ? src : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fscanf(f, "%15s %31s %31s %31s %lld %31s", type, steps, low, high, &before, want) == 6) {
		void *opts = test_options(desc);
		struct zr_inst *inst;
		assert_int_equal(test_set(desc, opts, "warmup_type", type), 0);
		assert_int_equal(test_set(desc, opts, "warmup_num_steps", steps), 0);
		assert_int_equal(test_set(desc, opts, "warmup_min_lr", low), 0);
		assert_int_equal(test_set(desc, opts, "warmup_max_lr", high), 0);
		assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
		snprintf(got, sizeof got, "%.9g", value(desc, inst, before, 7));
		if (strcmp(got, want))
			fail_msg("%s %s %s %s: update %lld: %s, wanted %s", type, steps, low, high, before, got, want);
		desc->destroy(inst);
		free(opts);
		lines++;
	}
	fclose(f);
	assert_true(lines > 100);
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
	struct zr_facts facts = { .size = sizeof facts, .lr = 6e-4 };
	void *opts = test_options(desc);
	struct zr_inst *inst;
	(void)state;
	assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
	assert_int_equal(desc->create(host, opts, &inst), ZR_OK);
	assert_true(value(desc, inst, 5000, 1) == 6e-4);
	desc->destroy(inst);
	free(opts);
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
		cmocka_unit_test(the_first_two_updates_run_at_the_minimum),
		cmocka_unit_test(auto_maximum_is_the_optimizers_lr),
		cmocka_unit_test(auto_maximum_without_facts_is_the_base),
		cmocka_unit_test(bad_options_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
