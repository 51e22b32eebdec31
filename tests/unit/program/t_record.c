/* SPDX-License-Identifier: Apache-2.0
 *
 * t_record.c - the recorder: stages that do something wrong are refused with the point and the
 * unit. What the real ones record: see t_program.c.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/session.h"
#include "tests/lib/plan_fixture.h"
#include "tests/lib/ranks_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

enum { WTE, WPE, H0, H1, LN_F, UNITS };
enum { EMBED, L0, L1, BWD_HEAD, BWD_L1, BWD_L0, BWD_EMBED }; /* uses in training */

/* ---- a stage that is right but for one thing ---- */

enum fault {
	NONE,
	KEEP_LAST,
	DROP_EARLY,
	NO_GATHER,
	GATHER_TWICE,
	GATHER_TWICE_IN_A_LIST,
	DROP_UNGATHERED,
	GATHER_OUT_OF_RANGE,
	REDUCE_TWICE,
	REDUCE_NEVER,
	REDUCE_EARLY,
	REDUCE_TIED_EARLY,
	REDUCE_IN_UPDATE,
	UPDATE_TWICE,
	UPDATE_NEVER,
	UPDATE_IN_MICRO,
	IN_BACKWARD,
	IN_BACKWARD_UNREDUCED,
	IN_BACKWARD_COPIED,
	IN_BACKWARD_UNPUBLISHED,
	IN_BACKWARD_AND_AFTER,
	PUBLISH_EARLY,
	PUBLISH_NEVER,
	PUBLISH_TWICE,
	PUBLISH_IN_MICRO,
	REFUSES,
	IGNORES_REFUSAL,
	OTHER_UPDATE,
	OTHER_MICRO,
	OTHER_EVAL,
	OTHER_SETTINGS,
	DROP_UNUSED
};

static enum fault fault;
static int32_t my_rank;

static int each(int (*verb)(const struct zr_stage *, const int32_t *, int32_t),
		const struct zr_stage *s, const struct zr_point *p, int32_t but)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < p->n_units; i++)
		if (p->units[i] != but)
			rc = verb(s, &p->units[i], 1);
	return rc;
}

static int update_units(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return s->update(s, units, n, 0);
}

static int before(const struct zr_point *p, const struct zr_stage *s)
{
	static const int32_t wte = WTE, h0 = H0, twice[] = { H0, H0 }, none = UNITS;
	int rc = each(s->gather, s, p,
		      fault == NO_GATHER && p->use == L1              ? H1 :
		      fault == GATHER_TWICE_IN_A_LIST && p->use == L0 ? H0 :
									-1);
	if (fault == GATHER_TWICE_IN_A_LIST && p->use == L0)
		rc = s->gather(s, twice, 2);
	if (fault == GATHER_TWICE && p->use == BWD_L0)
		rc = s->gather(s, &h0, 1);
	if (fault == DROP_EARLY && p->use == EMBED)
		rc = s->drop(s, &wte, 1);
	if (fault == DROP_UNGATHERED && p->use == L1)
		rc = s->drop(s, &h0, 1);
	int unused = fault == DROP_UNUSED ||
		     (fault == OTHER_EVAL && my_rank == 1 && p->program == ZR_PROG_EVAL);
	if (!rc && unused && p->use == EMBED && !(rc = s->gather(s, &h0, 1)))
		rc = s->drop(s, &h0, 1);
	if (fault == GATHER_OUT_OF_RANGE && p->use == L1)
		rc = s->gather(s, &none, 1);
	if (fault == REDUCE_EARLY && p->use == BWD_L1)
		rc = s->reduce(s, p->units, 1);
	if (fault == UPDATE_IN_MICRO && p->use == L1)
		rc = s->update(s, &h0, 1, 0);
	if (fault == PUBLISH_IN_MICRO && p->use == L1)
		rc = s->publish(s, &h0, 1);
	return fault == REFUSES && p->use == L1 ? ZR_EINVAL : rc;
}

/* Block 1 in the backward, at a right point or a wrong one. */
static int update_h1(const struct zr_stage *s)
{
	static const int32_t h1 = H1;
	int rc = s->update(s, &h1, 1, 0);
	return rc || fault == IN_BACKWARD_UNPUBLISHED ? rc : s->publish(s, &h1, 1);
}

static int in_backward(const struct zr_point *p)
{
	return fault >= IN_BACKWARD && fault <= IN_BACKWARD_AND_AFTER &&
	       p->program == ZR_PROG_LAST_MICRO;
}

static int after(const struct zr_point *p, const struct zr_stage *s)
{
	static const int32_t wte = WTE, h1 = H1;
	int rc = each(s->drop, s, p,
		      fault == KEEP_LAST && p->use == BWD_EMBED                ? WPE :
		      fault == IN_BACKWARD_COPIED && p->use == BWD_L1          ? H1 :
		      fault == OTHER_MICRO && my_rank == 1 && p->use == BWD_L0 ? H0 :
										 -1);
	if (!rc && in_backward(p) && p->use == (fault == IN_BACKWARD_UNREDUCED ? BWD_L1 : BWD_L0))
		rc = update_h1(s);
	if (!rc && fault == IN_BACKWARD_COPIED && p->use == BWD_L0)
		rc = s->drop(s, &h1, 1);
	return !rc && fault == REDUCE_TIED_EARLY && p->use == BWD_HEAD ? s->reduce(s, &wte, 1) : rc;
}

static int grad(const struct zr_point *p, const struct zr_stage *s)
{
	static const int32_t h0 = H0;
	int last = p->use == BWD_EMBED;
	int rc = each(s->reduce, s, p,
		      fault == REDUCE_NEVER || fault == IGNORES_REFUSAL ? LN_F : -1);
	if (!rc && fault == REDUCE_TWICE && last)
		rc = s->reduce(s, &h0, 1);
	if (!rc && fault == OTHER_MICRO && my_rank == 1 && p->use == BWD_L0)
		rc = s->drop(s, &h0, 1);
	if (fault == IGNORES_REFUSAL && p->use == BWD_HEAD) {
		static const int32_t list[] = { LN_F, LN_F };
		s->reduce(s, list, 2);
	}
	return rc;
}

static int update(const struct zr_point *p, const struct zr_stage *s)
{
	static const int32_t h0 = H0;
	static const int32_t h1 = H1;
	int rc = fault == PUBLISH_EARLY         ? s->publish(s, &h0, 1) :
		 fault == IN_BACKWARD_AND_AFTER ? s->update(s, &h1, 1, 0) :
						  0;
	if (!rc && fault == OTHER_UPDATE && my_rank == 1)
		rc = s->update(s, p->units, (int32_t)p->n_units, 0);
	else if (!rc)
		rc = each(update_units, s, p, fault == UPDATE_NEVER ? WPE : -1);
	if (!rc && fault == UPDATE_TWICE)
		rc = s->update(s, &h0, 1, 0);
	if (!rc && fault == REDUCE_IN_UPDATE)
		rc = s->reduce(s, &h0, 1);
	if (!rc)
		rc = each(s->publish, s, p,
			  fault == UPDATE_NEVER || fault == PUBLISH_NEVER ? WPE : -1);
	return !rc && fault == PUBLISH_TWICE ? s->publish(s, &h0, 1) : rc;
}

static int planted_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	(void)inst;
	switch (p->at) {
	case ZR_AT_BEFORE:
		return before(p, s);
	case ZR_AT_AFTER:
		return after(p, s);
	case ZR_AT_GRAD:
		return grad(p, s);
	case ZR_AT_UPDATE:
		return update(p, s);
	}
	return 0;
}

static const struct zr_zero_v1 planted = { .size = sizeof planted, .at = planted_at };
static const char *const split_all[] = { "zero.plugin=stage3", "zero.persistence_threshold=0",
					 "train.gradient_accumulation_steps=2", NULL };

static const char *const unclipped[] = { "zero.plugin=stage3", "zero.persistence_threshold=0",
					 "train.gradient_accumulation_steps=2",
					 "train.gradient_clipping=0", NULL };

/* Records the setup's programs again, with the planted stage. */
static int record_again(struct zr_setup *s, enum fault f, struct zr_error *err)
{
	const void *real = s->roles.zero.vtbl;
	int rc = 0;
	fault = f;
	s->roles.zero.vtbl = &planted;
	for (int32_t id = 0; !rc && id < 4; id++) {
		zr_program_free(&s->programs.recorded[id]);
		rc = zr_program_record(s, id, &s->programs.recorded[id], err);
	}
	s->roles.zero.vtbl = real;
	return rc;
}

static void refused_with(const char *const *options, enum fault f, const char *text)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_open(2, options);
	int rc = record_again(s, f, &err);
	plan_close(s);
	if (!rc)
		fail_msg("not refused; wanted: %s", text);
	if (!strstr(err.text, text))
		fail_msg("refused with: %s; wanted: %s", err.text, text);
}

static void refused(enum fault f, const char *text)
{
	refused_with(split_all, f, text);
}

static void a_right_stage_is_recorded(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_open(2, split_all);
	(void)unused;
	if (record_again(s, NONE, &err))
		fail_msg("%s", err.text);
	plan_close(s);
}

static void forgotten_and_early_drops_are_refused(void **unused)
{
	(void)unused;
	refused(KEEP_LAST, "stage stage3, at the end in program micro: unit wpe is still full at "
			   "the end of the program: a drop is missing");
	refused(DROP_EARLY, "before the forward of embed in program micro: unit wte is needed, but "
			    "not gathered");
	refused(DROP_UNGATHERED, "before the forward of h.1 in program micro: unit h.0 is dropped "
				 "without having been gathered");
}

/* Nobody else writes to where it arrives. */
static void what_is_dropped_unused_has_arrived(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_open(2, split_all);
	const struct zr_program *p = &s->programs.recorded[ZR_PROG_MICRO];
	(void)unused;
	if (record_again(s, DROP_UNUSED, &err))
		fail_msg("%s", err.text);
	int32_t gather = first_after(p, 0, ZR_P_GATHER, H0),
		drop = first_after(p, gather, ZR_P_DROP, H0), wait = gather;
	while (wait < drop && (p->op[wait].kind != ZR_P_WAIT || p->op[wait].target != gather))
		wait++;
	assert_true(drop < p->n && wait < drop);
	plan_close(s);
}

static void gathers_that_are_missing_or_double_are_refused(void **unused)
{
	(void)unused;
	refused(NO_GATHER,
		"before the forward of h.1 in program micro: unit h.1 is needed, but not gathered");
	refused(GATHER_TWICE, "before the backward of h.0 in program micro: unit h.0 is gathered "
			      "twice without a drop");
	refused(GATHER_TWICE_IN_A_LIST, "before the forward of h.0 in program micro: unit h.0 is "
					"gathered twice without a drop");
	refused(GATHER_OUT_OF_RANGE,
		"before the forward of h.1 in program micro: gather of unit 5, but there are 5");
}

static void gradients_are_reduced_once_and_when_complete(void **unused)
{
	(void)unused;
	refused(REDUCE_TWICE,
		"complete after the backward of embed in program micro: unit h.0 is reduced twice");
	refused(REDUCE_NEVER, "at the end in program micro: unit ln_f has a complete gradient that "
			      "was not reduced");
	refused(REDUCE_EARLY, "before the backward of h.1 in program micro: unit h.1 is reduced "
			      "before its gradient is complete");
	refused(REDUCE_TIED_EARLY, "after the backward of head in program micro: unit wte is "
				   "reduced before its gradient is complete");
	refused(REDUCE_IN_UPDATE, "at the update in program update: unit h.0 is reduced in a "
				  "program without gradients");
}

static void units_are_updated_once_then_published_once(void **unused)
{
	(void)unused;
	refused(UPDATE_TWICE, "at the update in program update: unit h.0 is updated twice");
	refused(UPDATE_NEVER, "at the end in program update: unit wpe is not updated");
	refused(UPDATE_IN_MICRO, "before the forward of h.1 in program micro: unit h.0 is updated "
				 "outside of the update program");
	refused(PUBLISH_EARLY,
		"at the update in program update: unit h.0 is published before its update");
	refused(PUBLISH_NEVER,
		"at the end in program update: unit wpe is updated but not published");
	refused(PUBLISH_TWICE, "at the update in program update: unit h.0 is published twice");
	refused(PUBLISH_IN_MICRO, "before the forward of h.1 in program micro: unit h.0 is "
				  "published before its update");
}

/* The recorder waits for the reduce; the update program is left with the other units. */
static void a_unit_is_updated_in_the_backward(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_open(2, unclipped);
	const struct zr_program *last = &s->programs.recorded[ZR_PROG_LAST_MICRO],
				*after = &s->programs.recorded[ZR_PROG_UPDATE];
	(void)unused;
	if (record_again(s, IN_BACKWARD, &err))
		fail_msg("%s", err.text);
	int32_t reduce = first_after(last, 0, ZR_P_REDUCE, H1),
		update = first_after(last, 0, ZR_P_UPDATE, H1), wait = 0;
	while (last->op[wait].kind != ZR_P_WAIT || last->op[wait].target != reduce)
		wait++;
	assert_true(reduce < wait && wait < update &&
		    update < first_after(last, 0, ZR_P_REDUCE, H0));
	assert_true(first_after(last, update, ZR_P_PUBLISH, H1) < last->n);
	assert_int_equal(first_after(after, 0, ZR_P_UPDATE, H1), after->n);
	assert_true(first_after(after, 0, ZR_P_UPDATE, H0) < after->n);
	assert_int_equal(last->own_sums, 0); /* the others' sums go on to the update program */
	plan_close(s);
}

static void what_is_wrong_in_the_backward_is_refused(void **unused)
{
	(void)unused;
	refused(IN_BACKWARD, "[zero] stage3: unit h.1 cannot be updated in the backward: [train] "
			     "gradient_clipping");
	refused_with(unclipped, IN_BACKWARD_UNREDUCED,
		     "after the backward of h.1 in program last_micro: unit h.1 is updated before "
		     "its gradient is reduced");
	refused_with(unclipped, IN_BACKWARD_COPIED,
		     "after the backward of h.0 in program last_micro: unit h.1 is updated while a "
		     "gathered copy of it is there");
	refused_with(unclipped, IN_BACKWARD_UNPUBLISHED,
		     "at the end in program last_micro: unit h.1 is updated but not published");
	refused_with(unclipped, IN_BACKWARD_AND_AFTER,
		     "at the update in program update: unit h.1 is updated twice");
}

static void what_cannot_act_or_fails_is_refused(void **unused)
{
	(void)unused;
	refused(REFUSES, "[zero] at failed with code");
	refused(IGNORES_REFUSAL,
		"after the backward of head in program micro: unit ln_f is reduced twice");
}

/* A unit that is whole on every rank can be neither gathered nor dropped; lists hold units of one
 * group. */
static void groups_are_respected(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_open(2, split_all);
	(void)unused;
	s->facts.groups[WPE].param = ZR_GROUP_SELF;
	assert_int_equal(record_again(s, NONE, &err), ZR_ESTATE);
	assert_non_null(strstr(
		err.text,
		"before the forward of embed in program micro: unit wpe is whole on every rank"));
	plan_close(s);
}

/* ---- stages that differ between ranks ---- */

struct outcome {
	int rc, applied, changed;
	char text[1024];
}; /* [ranks], shared */

static struct outcome *outcome;

static int run_step(struct zr_setup *s, struct outcome *out, struct zr_error *err)
{
	struct zr_session *session = NULL;
	struct zr_step_result result;
	float first[64], *home;
	int rc = zr_session_open(s, &session, err);
	if (!rc)
		rc = zr_session_begin(session, zr_init_values, session, err);
	if (rc) {
		zr_session_close(session);
		return rc;
	}
	/* of blocks that this rank updates */
	home = (float *)zr_at(session, s->plan.unit[H0].master);
	memcpy(first, home, sizeof first);
	rc = zr_session_step(session, 0, &result, err);
	out->applied = (int)session->applied;
	out->changed = memcmp(first, home, sizeof first) != 0;
	zr_session_close(session);
	return rc;
}

static int train_planted(int rank, void *arg)
{
	static const char *const o[] = { "zero.plugin=stage3",
					 "zero.persistence_threshold=0",
					 "train.gradient_accumulation_steps=2",
					 "comm.plugin=local",
					 "comm.timeout=20",
					 "device.threads=1",
					 "scheduler.plugin=constant",
					 NULL };
	struct zr_error err;
	struct zr_setup *s = plan_try(0, 0, o, &err);
	struct outcome *out = &outcome[rank];
	my_rank = rank;
	out->rc = err.code;
	if (s) {
		enum fault planted = *(const enum fault *)arg;
		zr_plan_free(&s->plan);
		s->facts.settings = planted == OTHER_SETTINGS && rank == 1;
		out->rc = record_again(s, planted, &err);
		if (!out->rc)
			out->rc = zr_plan_make(s, &err);
		if (!out->rc)
			out->rc = run_step(s, out, &err);
		plan_close(s);
	}
	snprintf(out->text, sizeof out->text, "%s", err.text);
	return 0;
}

static void train_two(enum fault f)
{
	memset(outcome, 0, 2 * sizeof *outcome);
	assert_int_equal(ranks_fork(2, train_planted, &f), 0);
}

static void equal_ranks_step(void **unused)
{
	(void)unused;
	train_two(NONE);
	for (int r = 0; r < 2; r++) {
		assert_string_equal(outcome[r].text, "");
		assert_int_equal(outcome[r].rc, 0);
		assert_true(outcome[r].applied == 1 && outcome[r].changed);
	}
}

static void differing(enum fault f)
{
	train_two(f);
	for (int r = 0; r < 2; r++) {
		assert_int_not_equal(outcome[r].rc, 0);
		assert_true(outcome[r].applied == 0 && !outcome[r].changed);
		if (!strstr(outcome[r].text, "rank 0") || !strstr(outcome[r].text, "rank 1"))
			fail_msg("rank %d says: %s", r, outcome[r].text);
	}
}

/* The first boundary compares all programs and the settings, before any update. */
static void another_update_program_is_refused_before_it_runs(void **unused)
{
	(void)unused;
	differing(OTHER_UPDATE);
	assert_non_null(strstr(outcome[0].text, "another program"));
}

static void another_eval_program_is_refused_before_the_update(void **unused)
{
	(void)unused;
	differing(OTHER_EVAL);
	assert_non_null(strstr(outcome[0].text, "another program"));
}

static void other_settings_are_refused_before_the_update(void **unused)
{
	(void)unused;
	differing(OTHER_SETTINGS);
	assert_non_null(strstr(outcome[0].text, "another program"));
}

static void another_micro_program_is_refused_before_the_update(void **unused)
{
	(void)unused;
	differing(OTHER_MICRO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: what forks should have no threads yet */
		cmocka_unit_test(equal_ranks_step),
		cmocka_unit_test(another_update_program_is_refused_before_it_runs),
		cmocka_unit_test(another_micro_program_is_refused_before_the_update),
		cmocka_unit_test(another_eval_program_is_refused_before_the_update),
		cmocka_unit_test(other_settings_are_refused_before_the_update),
		cmocka_unit_test(a_right_stage_is_recorded),
		cmocka_unit_test(forgotten_and_early_drops_are_refused),
		cmocka_unit_test(what_is_dropped_unused_has_arrived),
		cmocka_unit_test(gathers_that_are_missing_or_double_are_refused),
		cmocka_unit_test(gradients_are_reduced_once_and_when_complete),
		cmocka_unit_test(units_are_updated_once_then_published_once),
		cmocka_unit_test(a_unit_is_updated_in_the_backward),
		cmocka_unit_test(what_is_wrong_in_the_backward_is_refused),
		cmocka_unit_test(what_cannot_act_or_fails_is_refused),
		cmocka_unit_test(groups_are_respected),
	};
	outcome = ranks_shared(2 * sizeof *outcome);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return outcome ? cmocka_run_group_tests(tests, plan_data, plan_data_remove) : 1;
}
