/* SPDX-License-Identifier: Apache-2.0
 *
 * t_stages.c - the ZeRO stages: their groups, their options and what each changes in the verbs on
 * GPT-2's schedule, and what they do when a verb or memory is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stages_case.h"

#include <cmocka.h> /* after the headers with members that its macros name */

/* ---- groups and options ---- */

static void groups_are_those_of_the_stage(void **state)
{
	static const struct zr_groups want[N_STAGES] = {
		{ ZR_GROUP_SELF, ZR_GROUP_SELF, ZR_GROUP_SELF },
		{ ZR_GROUP_SELF, ZR_GROUP_SELF, ZR_GROUP_WORLD },
		{ ZR_GROUP_SELF, ZR_GROUP_WORLD, ZR_GROUP_WORLD },
		{ ZR_GROUP_WORLD, ZR_GROUP_WORLD, ZR_GROUP_WORLD },
		{ ZR_GROUP_NODE, ZR_GROUP_WORLD, ZR_GROUP_WORLD },
		{ ZR_GROUP_NODE, ZR_GROUP_NODE, ZR_GROUP_NODE },
	};
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		open_run(stages[i], &gpt2,
			 i < FIRST_SPLIT ? NULL : SETS("persistence_threshold", "10"));
		for (int32_t u = 0; u < gpt2.n_units; u++) {
			int whole = i < FIRST_SPLIT || gpt2.elements[u] <= 10;
			assert_int_equal(run.fixture.groups[u].param,
					 whole ? ZR_GROUP_SELF : want[i].param);
			assert_int_equal(run.fixture.groups[u].grad, want[i].grad);
			assert_int_equal(run.fixture.groups[u].state, want[i].state);
		}
		close_run();
	}
}

static void every_option_is_documented_and_auto_means_what_its_text_says(void **state)
{
	static const char *const names[] = {
		"reduce_bucket_size", "allgather_bucket_size", "sub_group_size",
		"overlap_comm",       "update_in_backward",    "gather_16bit_weights_on_model_save",
		"expert_ranks",       "prefetch_bucket_size",  "max_live_parameters",
		"max_reuse_distance", "persistence_threshold", "persistent"
	};
	struct fixture_model told = gpt2;
	static const uint64_t one_hop[] = { 20, 20, 100, 1, 0, 0, 1, 20, 140, 200, 8192 },
			      three[] = { 20, 20, 100, 1, 0, 0, 1, 140, 180, 200, 8192 };
	(void)state;
	told.typical = 20;
	for (int i = 0; i < 2 * N_STAGES; i++) {
		const struct zr_desc *desc = stage(stages[i / 2]);
		const uint64_t *want = i % 2 ? three : one_hop;
		void *opts = test_options(desc);
		told.hops = i % 2 ? 3 : 1;
		assert_int_equal(desc->n_opts, i / 2 < FIRST_SPLIT ? 7 : 12);
		resolve(desc, opts, &told);
		for (uint32_t k = 0; k < desc->n_opts; k++) {
			const struct zr_opt *o = &desc->opts[k];
			const char *at = (const char *)opts + o->offset;
			assert_string_equal(o->name, names[k]);
			assert_true(strlen(o->doc) > 40 && o->doc[strlen(o->doc) - 1] == '.');
			if (o->type == ZR_T_GLOBS)
				assert_string_equal(*(const char *const *)at, "");
			else
				assert_true(want[k] == (o->type == ZR_T_BOOL ?
								*(const uint8_t *)at :
								*(const uint64_t *)at));
			if (o->flags & ZR_O_AUTO)
				assert_non_null(strstr(o->doc, "; auto is "));
		}
		free(opts);
	}
}

static void auto_is_resolved_even_without_facts_and_given_values_stay(void **state)
{
	struct zr_facts none = { .size = offsetof(struct zr_facts, parameters), .world = 1 };
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		const struct zr_desc *desc = stage(stages[i]);
		void *opts = test_options(desc);
		const uint64_t *reduce = (const void *)((const char *)opts + desc->opts[0].offset);
		assert_int_equal(test_set(desc, opts, "reduce_bucket_size", "5e8"), 0);
		assert_int_equal(desc->resolve(host, &none, opts), ZR_OK);
		assert_true(*reduce == 500000000);
		for (uint32_t k = 0; k < desc->n_opts; k++)
			if (desc->opts[k].flags & ZR_O_AUTO)
				assert_true(*(const uint64_t *)((const char *)opts +
								desc->opts[k].offset) !=
					    ZR_AUTO_COUNT);
		free(opts);
	}
}

static void prefetching_without_overlap_is_refused_as_a_dead_option(void **state)
{
	const struct zr_desc *desc = stage("stage3");
	void *opts = test_options(desc);
	(void)state;
	assert_int_equal(test_set(desc, opts, "overlap_comm", "no"), 0);
	assert_int_equal(test_set(desc, opts, "prefetch_bucket_size", "5e7"), 0);
	resolve(desc, opts, &gpt2);
	test_clear(host);
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "prefetch_bucket_size"));
	assert_int_equal(test_set(desc, opts, "prefetch_bucket_size", "auto"), 0);
	resolve(desc, opts, &gpt2);
	assert_int_equal(desc->check(host, opts), ZR_OK);
	free(opts);
}

/* ---- what each option changes ---- */

static void reduce_bucket_size_cuts_the_lists_of_gradients(void **state)
{
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		assert_non_null(
			strstr(answers(stages[i], ZR_PROG_MICRO, SETS("reduce_bucket_size", "1")),
			       "reduce 5; "));
		assert_non_null(strstr(run.fixture.said, "reduce 4; "));
		assert_non_null(strstr(run.fixture.said, "reduce 0; reduce 1; "));
		assert_non_null(
			strstr(answers(stages[i], ZR_PROG_MICRO, SETS("reduce_bucket_size", "41")),
			       "reduce 5 4 3; "));
		assert_non_null(
			strstr(run.fixture.said, "grad 8: reduce 2; reduce 0; end: reduce 1; "));
		assert_non_null(
			strstr(answers(stages[i], ZR_PROG_MICRO, SETS("reduce_bucket_size", "5e8")),
			       "end: reduce 5 4 3 2 0 1; "));
	}
}

static void allgather_bucket_size_cuts_the_lists_of_parameters(void **state)
{
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		assert_string_equal(answers(stages[i], ZR_PROG_UPDATE,
					    SETS("allgather_bucket_size", "40")),
				    "update: update 0; publish 0; update 1; update 2; update 3; "
				    "publish 1 2; update 4; "
				    "publish 3 4; update 5; publish 5; ");
		assert_string_equal(
			answers(stages[i], ZR_PROG_UPDATE, SETS("allgather_bucket_size", "5e8")),
			"update: update 0; update 1; update 2; update 3; update 4; update 5; "
			"publish 0 1 2 3 4 5; ");
	}
	answers("stage3", ZR_PROG_EVAL,
		SETS("persistence_threshold", "1", "allgather_bucket_size", "100"));
	assert_memory_equal(run.fixture.said, "before 0: gather 0; gather 1; ", 30);
	answers("stage3", ZR_PROG_EVAL,
		SETS("persistence_threshold", "1", "allgather_bucket_size", "110"));
	assert_memory_equal(run.fixture.said, "before 0: gather 0 1; ", 22);
}

static void without_overlap_everything_happens_where_it_is_due(void **state)
{
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		answers(stages[i], ZR_PROG_LAST_MICRO,
			SETS("overlap_comm", "no", "reduce_bucket_size", "5e8"));
		assert_string_equal(run.fixture.said,
				    "grad 4: reduce 5; grad 5: reduce 4; grad 6: "
				    "reduce 3; grad 7: reduce 2; grad 8: reduce 0 1; ");
		assert_string_equal(answers(stages[i], ZR_PROG_UPDATE, SETS("overlap_comm", "no")),
				    "update: update 0; update 1; update 2; update 3; update 4; "
				    "update 5; publish 0; publish 1 2 3 4 5; ");
	}
	answers("stage3", ZR_PROG_EVAL,
		SETS("overlap_comm", "no", "persistence_threshold", "1", "max_reuse_distance",
		     "0"));
	assert_string_equal(run.fixture.said,
			    "before 0: gather 0; gather 1; after 0: drop 0 1; "
			    "before 1: gather 2; after 1: drop 2; before 2: gather 3; after 2: "
			    "drop 3; before 3: gather 4; after 3: drop 4; before 4: gather 0; "
			    "after 4: drop 0; ");
}

/* After the layer that follows the reduce's, and what is left at the end. The update program has
 * nothing to say then. */
static void update_in_backward_updates_one_list_behind_the_reduces(void **state)
{
	static const char *const want =
		"grad 4: reduce 5; grad 5: reduce 4; after 6: update 5; publish 5; grad 6: reduce "
		"3; after 7: update 4; publish 4; "
		"grad 7: reduce 2; after 8: update 3; publish 3; grad 8: reduce 0; reduce 1; end: "
		"update 2; publish 2; update 0; publish 0; "
		"update 1; publish 1; ";
	const char *const *sets[] = { SETS("update_in_backward", "yes", "reduce_bucket_size", "1",
					   "allgather_bucket_size", "1"),
				      SETS("update_in_backward", "yes", "reduce_bucket_size",
					   "41") };
	(void)state;
	for (int i = 0; i < 2 * N_STAGES; i++) {
		open_run(stages[i / 2], &gpt2, sets[i % 2]);
		run.fixture.local = 1;
		if (fixture_steps(&run.fixture) ||
		    fixture_program(&run.fixture, ZR_PROG_LAST_MICRO))
			fail_msg("%s: %s", stages[i / 2], run.fixture.error);
		if (i % 2 == 0 && i / 2 < FIRST_SPLIT)
			assert_string_equal(run.fixture.said, want);
		if (i % 2)
			assert_non_null(
				strstr(run.fixture.said,
				       "grad 8: reduce 2; reduce 0; end: reduce 1; update 5; "));
		assert_int_equal(fixture_program(&run.fixture, ZR_PROG_UPDATE), ZR_OK);
		assert_string_equal(run.fixture.said, "");
		close_run();
	}
}

/* Where nothing hides behind the next layer, memory of sums and states is free as soon as it
 * goes. */
static void one_rank_that_computes_on_the_host_updates_at_once(void **state)
{
	static const char *const want =
		"grad 4: reduce 5; update 5; publish 5; grad 5: reduce 4; update 4; publish 4; "
		"grad 6: reduce 3; update 3; publish 3; grad 7: reduce 2; update 2; publish 2; "
		"grad 8: reduce 0; reduce 1; update 0; publish 0; update 1; publish 1; ";
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		open_run(stages[i], &gpt2,
			 SETS("update_in_backward", "yes", "reduce_bucket_size", "1",
			      "allgather_bucket_size", "1"));
		run.fixture.local = run.fixture.stage.synchronous = 1;
		if (fixture_steps(&run.fixture) ||
		    fixture_program(&run.fixture, ZR_PROG_LAST_MICRO))
			fail_msg("%s: %s", stages[i], run.fixture.error);
		if (i < FIRST_SPLIT)
			assert_string_equal(run.fixture.said, want);
		close_run();
	}
}

static const char *const split[] = { "stage3", "hpz" };

static void prefetch_bucket_size_gathers_ahead_in_the_order_of_uses(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		answers(split[i], ZR_PROG_EVAL,
			SETS("persistence_threshold", "1", "max_reuse_distance", "0",
			     "allgather_bucket_size", "5e8", "prefetch_bucket_size", "40"));
		assert_string_equal(run.fixture.said,
				    "before 0: gather 0 1; gather 2; gather 3; "
				    "after 0: drop 0 1; before 1: gather 4; after 1: drop 2; after "
				    "2: drop 3; after 3: drop 4; before 4: gather 0; after 4: drop "
				    "0; ");
		answers(split[i], ZR_PROG_EVAL,
			SETS("persistence_threshold", "1", "max_reuse_distance", "0",
			     "allgather_bucket_size", "5e8", "prefetch_bucket_size", "0"));
		assert_null(strstr(run.fixture.said, "gather 2; gather 3"));
		assert_non_null(strstr(run.fixture.said, "before 2: gather 3; after 2: drop 3; "));
	}
}

/* The last block, the head and the last block again: with room ahead it is never dropped. */
static void what_is_full_already_is_taken_ahead_without_a_gather(void **state)
{
	(void)state;
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "max_reuse_distance", "0",
		     "prefetch_bucket_size", "120"));
	assert_non_null(strstr(run.fixture.said, "before 2: gather 0; after 2: drop 3; before 4: "
						 "gather 3; gather 2; after 4: drop 0; "));
}

static void max_live_parameters_bounds_prefetch_and_reuse(void **state)
{
	(void)state;
	answers("stage3", ZR_PROG_EVAL,
		SETS("persistence_threshold", "1", "max_reuse_distance", "0",
		     "prefetch_bucket_size", "40", "max_live_parameters", "130"));
	assert_non_null(strstr(
		run.fixture.said,
		"before 0: gather 0; gather 1; gather 2; after 0: drop 0 1; before 1: gather 3; "
		"gather 4; after 1: drop 2; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "max_reuse_distance", "5e8",
		     "prefetch_bucket_size", "0", "max_live_parameters", "5e8"));
	assert_null(strstr(run.fixture.said, "before 4: gather"));
	assert_non_null(strstr(run.fixture.said, "after 5: drop 4; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "max_reuse_distance", "5e8",
		     "prefetch_bucket_size", "0", "max_live_parameters", "110"));
	assert_non_null(strstr(
		run.fixture.said,
		"before 1: drop 1; drop 0; gather 2; before 2: gather 3; before 3: gather 4; "
		"before 4: drop 2; drop 3; drop 4; gather 0; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "max_reuse_distance", "5e8",
		     "prefetch_bucket_size", "0", "max_live_parameters", "0"));
	assert_non_null(strstr(run.fixture.said,
			       "after 0: drop 0 1; before 1: gather 2; after 1: drop 2; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "max_reuse_distance", "5e8",
		     "prefetch_bucket_size", "0", "max_live_parameters", "20"));
	assert_non_null(strstr(run.fixture.said, "after 0: drop 0; before 1: drop 1; gather 2; "));
}

static void max_reuse_distance_keeps_what_is_used_again_soon(void **state)
{
	(void)state;
	/* over the head lie 101 elements, between the uses of wte 60 */
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "prefetch_bucket_size", "0",
		     "max_reuse_distance", "101"));
	assert_non_null(strstr(
		run.fixture.said,
		"before 3: gather 4; after 3: drop 4; before 5: gather 4; after 5: drop 4; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "prefetch_bucket_size", "0",
		     "max_reuse_distance", "102"));
	assert_non_null(strstr(run.fixture.said, "before 3: gather 4; after 5: drop 4; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "prefetch_bucket_size", "0",
		     "max_reuse_distance", "60"));
	assert_non_null(strstr(run.fixture.said, "before 4: gather 0; after 4: drop 0; "));
	answers("stage3", ZR_PROG_MICRO,
		SETS("persistence_threshold", "1", "prefetch_bucket_size", "0"));
	assert_non_null(strstr(run.fixture.said, "before 3: gather 4; after 5: drop 4; "));
}

static void persistence_threshold_leaves_small_units_whole(void **state)
{
	(void)state;
	assert_non_null(strstr(answers("stage3", ZR_PROG_EVAL, SETS("persistence_threshold", "0")),
			       "gather 5; "));
	assert_null(strstr(answers("stage3", ZR_PROG_EVAL, SETS("persistence_threshold", "1")),
			   "gather 5; "));
	assert_null(strstr(answers("stage3", ZR_PROG_EVAL, SETS("persistence_threshold", "20")),
			   "gather 1"));
	assert_string_equal(answers("stage3", ZR_PROG_EVAL, NULL), ""); /* auto is 8192 */
	assert_non_null(
		strstr(answers("stage3", ZR_PROG_UPDATE,
			       SETS("persistence_threshold", "1", "allgather_bucket_size", "5e8")),
		       "publish 0 1 2 3 4; publish 5; "));
}

static void persistent_units_stay_whole(void **state)
{
	(void)state;
	assert_string_equal(answers("stage3", ZR_PROG_EVAL,
				    SETS("persistence_threshold", "1", "persistent", "u0  u[123]",
					 "prefetch_bucket_size", "0")),
			    "before 3: gather 4; after 3: drop 4; ");
	assert_string_equal(answers("stage3", ZR_PROG_EVAL,
				    SETS("persistence_threshold", "1", "persistent", "u*")),
			    "");
}

static void I7_a_pattern_that_fits_no_unit(void **state)
{
	(void)state;
	open_run("stage3", &gpt2, SETS("persistence_threshold", "1", "persistent", "u1 wpe"));
	assert_int_equal(fixture_program(&run.fixture, ZR_PROG_EVAL), ZR_EINVAL);
	assert_string_equal(test_error(host),
			    "persistent: 'wpe' fits no unit; they are called like u0, u1 and u5");
	close_run();
}

/* ---- failures ---- */

/* Opens a stage and makes its verb call number `call` fail, -1: none. The code at which two steps
 * stopped. */
static int steps_with_failure(int i, int64_t call)
{
	open_run(stages[i], &gpt2, i < FIRST_SPLIT ? NULL : SETS("persistence_threshold", "1"));
	run.fixture.fault = FIXTURE_FAIL;
	run.fixture.fault_call = call;
	return fixture_steps(&run.fixture);
}

static void a_failing_verb_ends_the_answer_and_the_next_program_starts_afresh(void **state)
{
	static char sound[sizeof run.fixture.said];
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		int64_t calls;
		assert_int_equal(steps_with_failure(i, -1), ZR_OK);
		calls = run.fixture.calls;
		assert_int_equal(fixture_program(&run.fixture, ZR_PROG_MICRO), ZR_OK);
		strcpy(sound, run.fixture.said);
		close_run();
		for (int64_t call = 0; call < calls; call++) {
			assert_int_equal(steps_with_failure(i, call), ZR_ENOMEM);
			assert_int_equal(run.fixture.calls, call + 1);
			assert_string_equal(run.fixture.error, "");
			memset(run.fixture.full, 0, sizeof run.fixture.full);
			assert_int_equal(fixture_program(&run.fixture, ZR_PROG_MICRO), ZR_OK);
			assert_string_equal(run.fixture.said, sound);
			close_run();
		}
	}
}

static void refused_memory_fails_the_begin_with_a_text(void **state)
{
	(void)state;
	open_run("stage3", &gpt2, NULL);
	test_clear(host);
	test_refuse(host, 1);
	assert_int_equal(fixture_program(&run.fixture, ZR_PROG_MICRO), ZR_ENOMEM);
	assert_non_null(strstr(test_error(host), "6 units"));
	assert_int_equal(fixture_steps(&run.fixture), ZR_OK);
	close_run();
}

static void one_instance_records_models_of_any_size(void **state)
{
	static const struct fixture_model small = { .n_units = 2,
						    .n_layers = 2,
						    .elements = { 3, 4 },
						    .n = { 1, 2 },
						    .unit = { { 0 }, { 1, 0 } } };
	static const struct fixture_model *const models[] = { &small, &gpt2, &small, &gpt2 };
	(void)state;
	open_run("stage3", &small, SETS("persistence_threshold", "1"));
	for (int i = 0; i < 4; i++) {
		fixture_open(&run.fixture, models[i], run.fixture.zero, run.inst);
		if (i == 1) /* memory for the larger model is refused once */
			test_refuse(host, 1);
		assert_int_equal(fixture_steps(&run.fixture), i == 1 ? ZR_ENOMEM : ZR_OK);
	}
	close_run();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_are_those_of_the_stage),
		cmocka_unit_test(every_option_is_documented_and_auto_means_what_its_text_says),
		cmocka_unit_test(auto_is_resolved_even_without_facts_and_given_values_stay),
		cmocka_unit_test(prefetching_without_overlap_is_refused_as_a_dead_option),
		cmocka_unit_test(reduce_bucket_size_cuts_the_lists_of_gradients),
		cmocka_unit_test(allgather_bucket_size_cuts_the_lists_of_parameters),
		cmocka_unit_test(without_overlap_everything_happens_where_it_is_due),
		cmocka_unit_test(update_in_backward_updates_one_list_behind_the_reduces),
		cmocka_unit_test(one_rank_that_computes_on_the_host_updates_at_once),
		cmocka_unit_test(prefetch_bucket_size_gathers_ahead_in_the_order_of_uses),
		cmocka_unit_test(what_is_full_already_is_taken_ahead_without_a_gather),
		cmocka_unit_test(max_live_parameters_bounds_prefetch_and_reuse),
		cmocka_unit_test(max_reuse_distance_keeps_what_is_used_again_soon),
		cmocka_unit_test(persistence_threshold_leaves_small_units_whole),
		cmocka_unit_test(persistent_units_stay_whole),
		cmocka_unit_test(I7_a_pattern_that_fits_no_unit),
		cmocka_unit_test(a_failing_verb_ends_the_answer_and_the_next_program_starts_afresh),
		cmocka_unit_test(refused_memory_fails_the_begin_with_a_text),
		cmocka_unit_test(one_instance_records_models_of_any_size),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_host, free_host);
}
