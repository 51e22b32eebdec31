/* SPDX-License-Identifier: Apache-2.0
 *
 * t_groups.c - parameter groups: who owns which tensor, what their states take, and what a step
 * does. After one step from the same weights a tensor depends on its own group's optimizer and
 * options alone; so it must have, to the bit, what a run without groups gives it that has these
 * options for all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "tests/lib/plan_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

#define OPTIONS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- assignment ---- */

static int32_t tensor(const struct zr_setup *s, const char *name)
{
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		if (!strcmp(s->facts.layout.tensor[i].decl->name, name))
			return i;
	fail_msg("no tensor %s", name);
	return -1;
}

static const char *group_of(const struct zr_setup *s, const char *name)
{
	return s->roles.param_group[s->roles.group_of[tensor(s, name)]].section->name;
}

static void the_first_group_with_a_pattern_has_the_tensor(void **unused)
{
	struct zr_setup *s = plan_open(1, OPTIONS("optimizer.b.match=*.bias  h.1.*",
						  "optimizer.a.match=*ln_?.weight h.*.c_proj.*"));
	(void)unused;
	assert_string_equal(group_of(s, "h.0.ln_1.bias"), "optimizer.b");
	assert_string_equal(group_of(s, "h.0.attn.c_proj.bias"), "optimizer.b");
	assert_string_equal(group_of(s, "h.1.mlp.c_proj.weight"), "optimizer.b");
	assert_string_equal(group_of(s, "ln_f.weight"), "optimizer.a");
	assert_string_equal(group_of(s, "h.0.attn.c_proj.weight"), "optimizer.a");
	assert_string_equal(group_of(s, "h.0.attn.c_attn.weight"), "optimizer");
	assert_string_equal(group_of(s, "wte.weight"), "optimizer");
	assert_int_equal(s->roles.n_optimizers, 1);
	assert_int_equal(s->roles.n_states, 2);
	plan_close(s);
}

static void refused(const char *text, const char *const *options)
{
	struct zr_error err;
	struct zr_setup *s = plan_try(ZR_SETUP_ALONE, 1, options, &err);
	if (s)
		plan_close(s);
	assert_null(s);
	assert_int_equal(err.code, ZR_EINVAL);
	assert_string_equal(err.text, text);
}

static void a_pattern_without_a_tensor_is_refused(void **unused)
{
	(void)unused;
	refused("-o: [optimizer.x] match: no tensor has a name like *.biass; their names are like "
		"wte.weight and h.0.ln_1.weight",
		OPTIONS("optimizer.x.match=*.bias *.biass"));
	refused("-o: [optimizer.y] match: groups before this one have all of its tensors; take it "
		"out or put it before them",
		OPTIONS("optimizer.x.match=*.bias", "optimizer.y.match=ln_f.bias h.?.ln_?.bias"));
}

static void the_rules_of_a_plugin_hold_for_each_group(void **unused)
{
	(void)unused;
	refused("-o: [optimizer.x] nesterov = yes needs momentum > 0 and dampening = 0, got 0 and "
		"0",
		OPTIONS("optimizer.plugin=sgd", "optimizer.x.match=*", "optimizer.x.nesterov=yes"));
}

/* ---- states ---- */

static int64_t blocks_of(int64_t elements)
{
	return (elements + 2047) / 2048;
}

/* The model of matrix.ini: V = 256, T = 40, C = 48, 2 layers. */
static void states_are_there_for_the_tensors_of_their_optimizer_only(void **unused)
{
	const int64_t matrices = blocks_of(48 * 144) + blocks_of(48 * 48) + 2 * blocks_of(48 * 192);
	const int64_t others = blocks_of(256 * 48) + blocks_of(40 * 48) + 2 + 2 * 8;
	struct zr_setup *s =
		plan_open(1, OPTIONS("optimizer.m.match=h.*.c_*.weight", "optimizer.m.plugin=sgd",
				     "optimizer.m.momentum=0.9"));
	(void)unused;
	assert_int_equal(s->roles.n_states, 3);
	assert_string_equal(zr_setup_state(&s->roles, 2)->name, "momentum_buffer");
	assert_int_equal(s->plan.region[ZR_R_STATE].bytes, (2 * others + 2 * matrices) * 2048 * 4);
	plan_close(s);
	s = plan_open(1, OPTIONS("optimizer.m.match=h.*.c_*.weight", "optimizer.m.plugin=sgd"));
	assert_int_equal(s->plan.region[ZR_R_STATE].bytes, 2 * others * 2048 * 4);
	plan_close(s);
}

/* Every rank plans the same bytes, whatever it holds: memory that ranks read in each other has
 * equal arenas. */
static void ranks_plan_alike(void **unused)
{
	struct zr_setup *s =
		plan_open(3, OPTIONS("zero.plugin=stage3", "zero.persistence_threshold=0",
				     "optimizer.m.match=wte.weight", "optimizer.m.plugin=sgd",
				     "optimizer.m.momentum=0.9"));
	int64_t wte = blocks_of(256 * 48), most = 0;
	(void)unused;
	for (int r = 0; r < 3; r++) {
		int64_t n = zr_unit_share(&s->facts, 0, s->facts.groups[0].state, r).n;
		most = n > most ? n : most;
	}
	assert_int_equal(most, (wte + 2) / 3);
	int64_t block = 0; /* rank 0 has the first third of each of the other units */
	for (int32_t u = 1; u < s->facts.layout.n_units; u++)
		block += (s->facts.layout.unit[u].blocks + 2) / 3;
	assert_int_equal(s->plan.region[ZR_R_STATE].bytes, (most + 2 * block) * 2048 * 4);
	plan_close(s);
}

/* ---- a step ---- */

struct weights {
	const struct zr_place *first;
	float **x; /* by tensor */
};

static int keep(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	struct weights *w = arg;
	memcpy(w->x[t - w->first] + first, x, (size_t)n * sizeof *x);
	return 0;
}

/* The weights after `steps` steps, and in *lr the rates of the last. */
static float **train(struct zr_setup **setup, int steps, double *lr, const char *const *options)
{
	struct zr_error err;
	struct zr_session *session = NULL;
	struct zr_step_result r;
	struct zr_setup *s = plan_try(0, 1, options, &err);
	if (!s)
		fail_msg("%s", err.text);
	struct weights w = { s->facts.layout.tensor,
			     calloc((size_t)s->facts.layout.n_tensors, sizeof *w.x) };
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		w.x[i] = malloc((size_t)s->facts.layout.tensor[i].elements * sizeof **w.x);
	int rc = zr_session_open(s, &session, &err);
	if (!rc)
		rc = zr_session_begin(session, zr_init_values, session, &err);
	for (int i = 0; !rc && i < steps; i++)
		rc = zr_session_step(session, 0, &r, &err);
	if (!rc)
		rc = zr_session_masters(session, keep, &w, &err);
	if (rc)
		fail_msg("%s", err.text);
	if (lr)
		memcpy(lr, session->decided->lr, (size_t)s->roles.n_param_groups * sizeof *lr);
	zr_session_close(session);
	if (*setup)
		plan_close(s);
	else
		*setup = s;
	return w.x;
}

static void release(const struct zr_setup *s, float **x)
{
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		free(x[i]);
	free(x);
}

static int same(const struct zr_setup *s, int32_t i, float *const *a, float *const *b)
{
	return !memcmp(a[i], b[i], (size_t)s->facts.layout.tensor[i].elements * sizeof **a);
}

/* After one step with `mixed`, tensors of [optimizer] are as in a run with `base` alone, those of
 * its group as with `group` alone. */
static void one_step(const char *const *mixed, const char *const *base, const char *const *group)
{
	struct zr_setup *s = NULL, *other = NULL;
	float **x = train(&s, 1, NULL, mixed), **b = train(&other, 1, NULL, base),
	      **g = train(&other, 1, NULL, group);
	int differ[2] = { 0 };
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		const char *name = s->facts.layout.tensor[i].decl->name;
		differ[s->roles.group_of[i] != 0] += !same(s, i, b, g);
		if (!same(s, i, x, s->roles.group_of[i] ? g : b))
			fail_msg("%s of %s differs", name,
				 s->roles.param_group[s->roles.group_of[i]].section->name);
	}
	assert_true(differ[0] > 0 && differ[1] > 0); /* or nothing was compared */
	release(s, x);
	release(s, b);
	release(s, g);
	plan_close(s);
	plan_close(other);
}

/* Ones and small blocks, so that decay changes every tensor: 1 - 0.1 * 0.5 of a norm's weight. */
static void weight_decay_of_a_group_is_its_own(void **unused)
{
	(void)unused;
	one_step(OPTIONS("optimizer.lr=0.1", "optimizer.weight_decay=0.5",
			 "optimizer.n.match=*.bias *ln_*", "optimizer.n.weight_decay=0"),
		 OPTIONS("optimizer.lr=0.1", "optimizer.weight_decay=0.5"),
		 OPTIONS("optimizer.lr=0.1"));
}

static void the_learning_rate_of_a_group_is_its_own(void **unused)
{
	(void)unused;
	one_step(OPTIONS("precision.plugin=bf16", "optimizer.lr=0.01", "optimizer.n.match=h.* wpe*",
			 "optimizer.n.lr=0.02"),
		 OPTIONS("precision.plugin=bf16", "optimizer.lr=0.01"),
		 OPTIONS("precision.plugin=bf16", "optimizer.lr=0.02"));
}

static void groups_may_have_other_plugins(void **unused)
{
	(void)unused;
	one_step(OPTIONS("zero.sub_group_size=2048", "optimizer.lr=0.01",
			 "optimizer.n.match=*c_fc* ln_f.* h.1.ln_1.bias", "optimizer.n.plugin=sgd",
			 "optimizer.n.lr=0.5", "optimizer.n.momentum=0.9"),
		 OPTIONS("optimizer.lr=0.01"), OPTIONS("optimizer.plugin=sgd", "optimizer.lr=0.5"));
}

/* lr(0) of a linear warmup from 0 is 0, lr(1) half of the group's own after 2 steps of it. */
static void the_schedule_starts_from_the_groups_rate(void **unused)
{
	struct zr_setup *s = NULL;
	double lr[2];
	float **x = train(&s, 3, lr,
			  OPTIONS("optimizer.lr=0.25", "optimizer.n.match=*.bias",
				  "optimizer.n.lr=0.5", "scheduler.plugin=warmup_lr",
				  "scheduler.warmup_num_steps=2", "scheduler.warmup_type=linear"));
	(void)unused;
	assert_true(lr[0] == 0.125);
	assert_true(lr[1] == 0.25);
	release(s, x);
	plan_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_group_with_a_pattern_has_the_tensor),
		cmocka_unit_test(a_pattern_without_a_tensor_is_refused),
		cmocka_unit_test(the_rules_of_a_plugin_hold_for_each_group),
		cmocka_unit_test(states_are_there_for_the_tensors_of_their_optimizer_only),
		cmocka_unit_test(ranks_plan_alike),
		cmocka_unit_test(weight_decay_of_a_group_is_its_own),
		cmocka_unit_test(the_learning_rate_of_a_group_is_its_own),
		cmocka_unit_test(groups_may_have_other_plugins),
		cmocka_unit_test(the_schedule_starts_from_the_groups_rate),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
