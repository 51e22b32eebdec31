/* SPDX-License-Identifier: Apache-2.0
 *
 * t_stage0.c - stage0 against a stage that records: which verbs on which units it answers each point with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/zero.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "testhost.h"

static struct zr_host *host;
static const struct zr_desc *desc;
static const struct zr_zero_v1 *zero;
static struct zr_inst *inst;

static char said[1024]; /* "gather 0; update 0 1 whole; ..." */
static int refuse_after; /* verbs that succeed before one fails; -1: none fails */

static int record(const char *verb, const int32_t *units, int32_t n, const char *rest)
{
	size_t len = strlen(said);
	int32_t i;
	len += (size_t)snprintf(said + len, sizeof said - len, "%s", verb);
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(said + len, sizeof said - len, " %d", units[i]);
	snprintf(said + len, sizeof said - len, "%s; ", rest);
	return refuse_after-- == 0 ? ZR_ENOMEM : ZR_OK;
}

static int gather(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	(void)s;
	return record("gather", units, n, "");
}

static int drop(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	(void)s;
	return record("drop", units, n, "");
}

static int reduce(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	(void)s;
	return record("reduce", units, n, "");
}

static int update(const struct zr_stage *s, const int32_t *units, int32_t n, int64_t piece)
{
	(void)s;
	return record("update", units, n, piece ? " in pieces" : " whole");
}

static int publish(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	(void)s;
	return record("publish", units, n, "");
}

static const struct zr_stage stage = { .size = sizeof stage, .n_units = 3, .n_uses = 4, .world = 1, .gather = gather,
				       .drop = drop, .reduce = reduce, .update = update, .publish = publish };

static const char *answer(int32_t program, int32_t at, const int32_t *units, uint32_t n)
{
	struct zr_point p = { .size = sizeof p, .program = program, .at = at, .use = -1, .units = units, .n_units = n };
	said[0] = 0;
	refuse_after = -1;
	assert_int_equal(zero->at(inst, &p, &stage), ZR_OK);
	return said;
}

static void nothing_is_split(void **state)
{
	struct zr_groups g = { -1, -1, -1 };
	(void)state;
	assert_int_equal(zero->groups(inst, 1, 1 << 20, &g), ZR_OK);
	assert_int_equal(g.param, ZR_GROUP_SELF);
	assert_int_equal(g.grad, ZR_GROUP_SELF);
	assert_int_equal(g.state, ZR_GROUP_SELF);
}

static void programs_that_compute_gather_every_unit_at_their_begin(void **state)
{
	static const int32_t programs[] = { ZR_PROG_MICRO, ZR_PROG_LAST_MICRO, ZR_PROG_EVAL };
	int i;
	(void)state;
	for (i = 0; i < 3; i++)
		assert_string_equal(answer(programs[i], ZR_AT_BEGIN, NULL, 0), "gather 0; gather 1; gather 2; ");
}

static void complete_gradients_are_reduced_as_listed(void **state)
{
	static const int32_t units[] = { 2, 0 };
	(void)state;
	assert_string_equal(answer(ZR_PROG_MICRO, ZR_AT_GRAD, units, 2), "reduce 2 0; ");
	assert_string_equal(answer(ZR_PROG_LAST_MICRO, ZR_AT_GRAD, units, 1), "reduce 2; ");
}

static void all_updates_come_before_the_first_publish(void **state)
{
	(void)state;
	assert_string_equal(answer(ZR_PROG_UPDATE, ZR_AT_UPDATE, NULL, 0),
			    "update 0 whole; update 1 whole; update 2 whole; publish 0; publish 1; publish 2; ");
}

static void nothing_moves_at_uses_and_nothing_is_dropped(void **state)
{
	static const int32_t units[] = { 0, 1 };
	int32_t program;
	(void)state;
	for (program = ZR_PROG_MICRO; program <= ZR_PROG_EVAL; program++) {
		assert_string_equal(answer(program, ZR_AT_BEFORE, units, 2), "");
		assert_string_equal(answer(program, ZR_AT_AFTER, units, 2), "");
		assert_string_equal(answer(program, ZR_AT_END, NULL, 0), "");
	}
	assert_string_equal(answer(ZR_PROG_UPDATE, ZR_AT_BEGIN, NULL, 0), "");
}

static void a_failing_verb_ends_the_answer(void **state)
{
	struct zr_point p = { .size = sizeof p, .program = ZR_PROG_MICRO, .at = ZR_AT_BEGIN, .use = -1 };
	(void)state;
	said[0] = 0;
	refuse_after = 1;
	assert_int_equal(zero->at(inst, &p, &stage), ZR_ENOMEM);
	assert_string_equal(said, "gather 0; gather 1; ");
	p.at = ZR_AT_UPDATE;
	said[0] = 0;
	refuse_after = 2;
	assert_int_equal(zero->at(inst, &p, &stage), ZR_ENOMEM);
	assert_string_equal(said, "update 0 whole; update 1 whole; update 2 whole; ");
}

static int setup(void **state)
{
	(void)state;
	host = test_host(1);
	desc = test_plugin("zero/stage0");
	zero = test_iface(desc, "zr.zero/1");
	return test_create(host, desc, NULL, &inst);
}

static int teardown(void **state)
{
	(void)state;
	desc->destroy(inst);
	test_host_free(host);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_split),
		cmocka_unit_test(programs_that_compute_gather_every_unit_at_their_begin),
		cmocka_unit_test(complete_gradients_are_reduced_as_listed),
		cmocka_unit_test(all_updates_come_before_the_first_publish),
		cmocka_unit_test(nothing_moves_at_uses_and_nothing_is_dropped),
		cmocka_unit_test(a_failing_verb_ends_the_answer),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
