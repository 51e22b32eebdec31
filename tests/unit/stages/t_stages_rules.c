/* SPDX-License-Identifier: Apache-2.0
 *
 * t_stages_rules.c - the ZeRO stages against the rules of core and the limits in their options, on
 * random models with random values; and the fixture against stages with planted defects: it must
 * catch them all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stages_case.h"

#include <cmocka.h> /* after the headers with members that its macros name */

/* ---- random models and values ---- */

static uint64_t dice = 88172645463325252u;

static int64_t roll(int64_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (int64_t)(dice % (uint64_t)n);
}

static int has(const struct fixture_model *m, int32_t layer, int32_t unit)
{
	for (int32_t i = 0; i < m->n[layer]; i++)
		if (m->unit[layer][i] == unit)
			return 1;
	return 0;
}

static struct fixture_model random_model(void)
{
	struct fixture_model m = { .n_units = 1 + (int32_t)roll(10),
				   .n_layers = 2 + (int32_t)roll(8) };
	for (int32_t u = 0; u < m.n_units; u++) {
		int32_t uses = 1 + (int32_t)(roll(3) == 0 ? roll(4) : 0);
		m.elements[u] = 1 + roll(roll(2) ? 20 : 100);
		for (; uses > 0; uses--) {
			int32_t l = (int32_t)roll(m.n_layers);
			if (!has(&m, l, u))
				m.unit[l][m.n[l]++] = u;
		}
	}
	for (int32_t l = 0; l < m.n_layers; l++)
		m.recompute[l] = roll(4) == 0;
	return m;
}

/* One random value of each option; *value is what it comes to, in the order of the table. */
static void random_options(const struct fixture_model *m, int split_parameters, const char **sets,
			   char text[7][32], int64_t *value)
{
	static const char *const name[] = { "reduce_bucket_size",   "allgather_bucket_size",
					    "overlap_comm",         "prefetch_bucket_size",
					    "max_live_parameters",  "max_reuse_distance",
					    "persistence_threshold" };
	int64_t big = largest(m), automatic[] = { big, big, 1, big, 4 * big, 2 * big, 8192 };
	int overlap = roll(3) > 0;
	for (int k = 0; k < (split_parameters ? 7 : 3); k++) {
		int64_t pick = k == 2 ? overlap : k == 3 && !overlap ? 4 : roll(5);
		if (k == 6 && pick == 4)
			pick = roll(4); /* auto leaves nothing split here */
		value[k] = k == 2             ? overlap :
			   pick == 0          ? k < 2 :
			   pick == 1          ? 1000000000000000000 :
			   pick < 4           ? 1 + roll(2 * big) :
			   k == 3 && !overlap ? 0 :
						automatic[k];
		snprintf(text[k], 32, "%lld", (long long)value[k]);
		*sets++ = name[k];
		*sets++ = k != 2 && pick == 4 ? "auto" : text[k];
	}
	*sets = NULL;
}

static void fail_with(const char *id, const char *const *sets, const char *what)
{
	char line[512] = "";
	for (; *sets; sets += 2)
		snprintf(line + strlen(line), sizeof line - strlen(line), " %s = %s", sets[0],
			 sets[1]);
	fail_msg("%s:%s: %s: %s", id, line, what, run.fixture.error);
}

static void try_stage(const char *id, const struct fixture_model *m, int split_parameters)
{
	const char *sets[2 * 7 + 1];
	int64_t v[7] = { 0 };
	char text[7][32];
	int64_t allocs;
	random_options(m, split_parameters, sets, text, v);
	open_run(id, m, sets);
	run.fixture.limits = (struct fixture_limits){ .reduce = v[0],
						      .gather = v[1],
						      .ahead = v[3],
						      .live = v[4],
						      .waiting = v[2] ? v[0] - 1 : 0 };
	if (fixture_steps(&run.fixture))
		fail_with(id, sets, "refused");
	for (int32_t u = 0; u < m->n_units; u++)
		if (run.fixture.resident[u] != (run.fixture.groups[u].param == ZR_GROUP_SELF))
			fail_with(id, sets, "a split unit is resident");
	if (split_parameters && v[5] == 0 && run.fixture.peak_live > run.fixture.peak_need + v[3])
		fail_with(id, sets, "more full than one use and the prefetch");
	allocs = test_allocs(host);
	if (fixture_steps(&run.fixture) || test_allocs(host) != allocs)
		fail_with(id, sets, "allocates in a second recording");
	close_run();
}

static void every_stage_keeps_the_rules_and_its_limits(void **state)
{
	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct fixture_model m = i % 3 ? random_model() : gpt2;
		for (int k = 0; k < N_STAGES; k++)
			try_stage(stages[k], &m, k >= FIRST_SPLIT);
	}
}

static void the_same_programs_are_recorded_again_after_other_ones(void **state)
{
	static const int32_t programs[] = { ZR_PROG_MICRO, ZR_PROG_LAST_MICRO, ZR_PROG_UPDATE,
					    ZR_PROG_EVAL };
	static const char *const sets[] = { "persistence_threshold", "1", "reduce_bucket_size",
					    "41", NULL };
	static char first[4][sizeof run.fixture.said];
	(void)state;
	for (int twice = 0; twice < 2; twice++) {
		open_run("stage3", &gpt2, sets);
		for (int k = 0; k < 4; k++) {
			int i = twice ? 3 - k : k;
			assert_int_equal(fixture_program(&run.fixture, programs[i]), ZR_OK);
			if (twice)
				assert_string_equal(first[i], run.fixture.said);
			strcpy(first[i], run.fixture.said);
		}
		close_run();
	}
}

/* ---- the fixture catches what it should ---- */

/* Falsifies each verb call of a whole run in turn: no single defect may pass. */
static void the_fixture_catches_every_omitted_doubled_or_shortened_verb(void **state)
{
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		const char *const *sets = i < FIRST_SPLIT ? NULL :
							    SETS("persistence_threshold", "1",
								 "allgather_bucket_size", "110");
		int64_t calls;
		open_run(stages[i], &gpt2, sets);
		assert_int_equal(fixture_steps(&run.fixture), ZR_OK);
		calls = run.fixture.calls;
		close_run();
		for (int fault = FIXTURE_OMIT; fault <= FIXTURE_SHORT; fault++)
			for (int64_t call = 0; call < calls; call++) {
				open_run(stages[i], &gpt2, sets);
				run.fixture.fault = (enum fixture_fault)fault;
				run.fixture.fault_call = call;
				if (!fixture_steps(&run.fixture) || !run.fixture.error[0])
					fail_msg("%s: fault %d of call %lld passed", stages[i],
						 fault, (long long)call);
				close_run();
			}
	}
}

enum defect {
	SOUND,
	NO_DROP,
	DROP_AT_BEFORE,
	GATHER_WHOLE,
	REDUCE_AT_AFTER,
	NO_REDUCE,
	PUBLISH_FIRST,
	UPDATE_AT_BEGIN,
	KEEP_IN_MICRO,
	N_DEFECTS
};
static enum defect defect;

/* The plainest stage 3 with one planted defect. */
static int planted_groups(struct zr_inst *inst, const struct zr_groups_of *of,
			  struct zr_groups *out)
{
	(void)inst, (void)of;
	*out = (struct zr_groups){ defect == GATHER_WHOLE ? ZR_GROUP_SELF : ZR_GROUP_WORLD,
				   ZR_GROUP_WORLD, ZR_GROUP_WORLD };
	return ZR_OK;
}

static int planted_update(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	int rc = defect == PUBLISH_FIRST ? s->publish(s, units, n) : ZR_OK;
	if (!rc)
		rc = s->update(s, units, n, 0);
	return rc || defect == PUBLISH_FIRST ? rc : s->publish(s, units, n);
}

static int planted_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int32_t n = (int32_t)p->n_units;
	int rc;
	(void)inst;
	switch (p->at) {
	case ZR_AT_BEGIN:
		return defect == UPDATE_AT_BEGIN && p->program == ZR_PROG_UPDATE ?
			       s->update(s, p->units, n, 0) :
			       ZR_OK;
	case ZR_AT_BEFORE:
		rc = s->gather(s, p->units, n);
		return rc || defect != DROP_AT_BEFORE ? rc : s->drop(s, p->units, n);
	case ZR_AT_AFTER:
		if (defect == REDUCE_AT_AFTER && s->use(s, p->use)->phase == ZR_BACKWARD)
			return s->reduce(s, p->units, n);
		if (defect == KEEP_IN_MICRO && p->program == ZR_PROG_LAST_MICRO &&
		    p->use == s->n_uses - 1)
			return ZR_OK;
		return defect == NO_DROP ? ZR_OK : s->drop(s, p->units, n);
	case ZR_AT_GRAD:
		return defect == NO_REDUCE ? ZR_OK : s->reduce(s, p->units, n);
	case ZR_AT_UPDATE:
		return planted_update(s, p->units, n);
	}
	return ZR_OK;
}

static void the_fixture_names_planted_defects(void **state)
{
	static const struct zr_zero_v1 zero = { .size = sizeof zero,
						.groups = planted_groups,
						.at = planted_at };
	static const char *const said[N_DEFECTS] = {
		"",
		"gather of what is full",
		"used but not full",
		"gather of what is already whole",
		"reduced before its gradient is complete",
		"not reduced",
		"published before its update",
		"update before the scalars are agreed",
		"resident over one end and not over another",
	};
	(void)state;
	for (defect = SOUND; defect < N_DEFECTS; defect++) {
		fixture_open(&run.fixture, &gpt2, &zero, NULL);
		assert_int_equal(!fixture_steps(&run.fixture), defect == SOUND);
		assert_memory_equal(run.fixture.error, said[defect], strlen(said[defect]));
		assert_int_equal(!run.fixture.error[0], defect == SOUND);
	}
}

static void the_fixture_names_broken_limits(void **state)
{
	static const struct fixture_limits none = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
						    INT64_MAX };
	static const char *const said[] = { "too much full", "too much ahead",
					    "list longer than its bucket",
					    "list longer than its bucket",
					    "too many gradients wait" };
	(void)state;
	for (int i = 0; i < 5; i++) {
		open_run("stage3", &gpt2,
			 SETS("persistence_threshold", "1", "reduce_bucket_size", "41",
			      "allgather_bucket_size", "110", "prefetch_bucket_size", "20",
			      "max_live_parameters", "130"));
		run.fixture.limits = none;
		((int64_t *)&run.fixture.limits)[i] = (int64_t[]){ 129, 19, 40, 109, 20 }[i];
		assert_int_equal(fixture_steps(&run.fixture), ZR_ESTATE);
		assert_memory_equal(run.fixture.error, said[i], strlen(said[i]));
		close_run();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stage_keeps_the_rules_and_its_limits),
		cmocka_unit_test(the_same_programs_are_recorded_again_after_other_ones),
		cmocka_unit_test(the_fixture_catches_every_omitted_doubled_or_shortened_verb),
		cmocka_unit_test(the_fixture_names_planted_defects),
		cmocka_unit_test(the_fixture_names_broken_limits),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_host, free_host);
}
