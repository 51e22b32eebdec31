/* SPDX-License-Identifier: Apache-2.0
 *
 * t_frozen.c - [train] freeze: after a step what is frozen has the bits that it began with, and the
 * rest those of a step in which nothing is; what is frozen takes no memory that it does not need.
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
#define TWICE        "train.gradient_accumulation_steps=2"

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

/* The weights after `steps` steps. *setup: of the first call, the others' are closed. */
static float **train(struct zr_setup **setup, int steps, const char *freeze,
		     const char *const *more)
{
	char pattern[200];
	const char *options[16] = { "train.gradient_clipping=0", pattern };
	struct zr_error err;
	struct zr_session *session = NULL;
	struct zr_step_result r;
	snprintf(pattern, sizeof pattern, "train.freeze=%s", freeze);
	for (int i = 0; more[i]; i++)
		options[2 + i] = more[i];
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

static void one_step(const char *freeze, const char *const *more)
{
	struct zr_setup *s = NULL;
	float **x = train(&s, 1, freeze, more), **start = train(&s, 0, freeze, more),
	      **free_ = train(&s, 1, "", more);
	int frozen = 0, trained = 0;
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		const char *name = s->facts.layout.tensor[i].decl->name;
		if (same(s, i, start, free_))
			fail_msg("%s does not move at all", name);
		if (!same(s, i, x, s->facts.frozen[i] ? start : free_))
			fail_msg("%s, %s: %s has other bits", freeze, more[0] ? more[0] : "fp32",
				 name);
		frozen += s->facts.frozen[i];
		trained += !s->facts.frozen[i];
	}
	assert_true(frozen > 0 && trained > 0);
	release(s, x);
	release(s, start);
	release(s, free_);
	plan_close(s);
}

/* The embedding that the head shares, the lowest layers, all but the last, and parts of units. */
static const char *const patterns[] = { "wte.weight",
					"wte.weight wpe.weight",
					"w* h.0.*",
					"w* h.*",
					"h.1.* ln_f.*",
					"*.bias",
					"*ln_?.weight wpe.weight h.0.attn.c_attn.weight",
					"* !h.1.* h.1.ln_?.*" };

static void in_every_precision(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		one_step(patterns[i], OPTIONS(NULL));
		one_step(patterns[i], OPTIONS("precision.plugin=bf16"));
		one_step(patterns[i], OPTIONS("precision.plugin=bf16", "precision.master=split"));
		one_step(patterns[i],
			 OPTIONS("precision.plugin=fp16", "precision.loss_scale=1024"));
	}
}

static void with_accumulation_recompute_and_groups(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		one_step(patterns[i],
			 OPTIONS("train.gradient_accumulation_steps=3",
				 "activation.plugin=recompute", "zero.plugin=stage3",
				 "optimizer.m.match=h.*.c_*.weight", "optimizer.m.plugin=sgd",
				 "optimizer.m.momentum=0.9"));
	one_step("h.0.*", OPTIONS("optimizer.m.match=h.*.c_*.weight", "optimizer.m.plugin=muon"));
	one_step("h.0.* *.bias", OPTIONS("optimizer.plugin=lamb"));
}

/* ---- the plan ---- */

static int backwards(const struct zr_setup *s)
{
	int n = 0;
	for (int32_t i = 0; i < s->programs.train_uses.n; i++)
		n += s->programs.train_uses.use[i].phase == ZR_BACKWARD;
	return n;
}

static uint64_t region(const struct zr_setup *s, int r)
{
	return s->plan.region[r].bytes;
}

/* Of a whole unit nothing is there but the compute copy. */
static void a_frozen_unit_takes_its_copy_only(void **unused)
{
	static const int gone[] = { ZR_R_MASTER, ZR_R_GRAD };
	struct zr_setup *all = plan_open(1, OPTIONS("precision.plugin=bf16"));
	struct zr_setup *s = plan_open(1, OPTIONS("precision.plugin=bf16", "train.freeze=h.0.*"));
	uint64_t block = (uint64_t)all->facts.layout.unit[2].blocks * ZR_BLOCK;
	(void)unused;
	assert_string_equal(all->facts.layout.unit[2].name, "h.0");
	for (int i = 0; i < 2; i++)
		assert_int_equal(region(s, gone[i]), region(all, gone[i]) - (i ? 4 : 2) * block);
	assert_int_equal(region(s, ZR_R_STATE), region(all, ZR_R_STATE) - 8 * block);
	assert_int_equal(region(s, ZR_R_PARAM), region(all, ZR_R_PARAM));
	plan_close(s);
	s = plan_open(1, OPTIONS("train.freeze=h.0.*"));
	/* in fp32 the others' copies are their masters */
	assert_int_equal(region(s, ZR_R_PARAM), 4 * block);
	plan_close(s);
	plan_close(all);
}

static void gradients_of_frozen_units_have_no_buffer(void **unused)
{
	struct zr_setup *all = plan_open(1, OPTIONS("train.gradient_accumulation_steps=2",
						    "zero.reduce_bucket_size=1e9"));
	struct zr_setup *s =
		plan_open(1, OPTIONS("train.gradient_accumulation_steps=2",
				     "zero.reduce_bucket_size=1e9", "train.freeze=w* h.0.*"));
	(void)unused;
	uint64_t left = 0;
	for (int32_t u = 0; u < s->facts.layout.n_units; u++)
		left += s->facts.frozen_unit[u] ? 0 :
						  (uint64_t)s->facts.layout.unit[u].elements * 4;
	assert_true(region(all, ZR_R_GRAD_BUFFER) > left);
	assert_int_equal(region(s, ZR_R_GRAD_BUFFER), left);
	plan_close(s);
	plan_close(all);
}

static void backward_ends_at_the_lowest_layer_that_is_trained(void **unused)
{
	static const struct {
		const char *freeze;
		int layers;
	} cases[] = { { "", 4 },         { "wpe.weight", 4 }, { "w*", 3 },
		      { "w* h.0.*", 2 }, { "w* h.*", 1 },     { "*.bias", 4 } };
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char option[64];
		snprintf(option, sizeof option, "train.freeze=%s", cases[i].freeze);
		struct zr_setup *s = plan_open(1, OPTIONS(option));
		assert_int_equal(backwards(s), cases[i].layers);
		plan_close(s);
	}
}

/* Of a tensor in a unit with others, too, nothing is there but the compute copy; the parts of a
 * unit differ from it by less than a block for each rank. */
static void a_frozen_tensor_takes_its_copy_only(void **unused)
{
	static const struct {
		int region, bytes;
	} gone[] = { { ZR_R_MASTER, 2 },
		     { ZR_R_GRAD, 4 },
		     { ZR_R_LOCAL, 4 },
		     { ZR_R_STATE, 8 },
		     { ZR_R_PARAM, 0 } };
	static const int worlds[] = { 1, 2, 4 };
	(void)unused;
	for (int w = 0; w < 3; w++)
		for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
			char freeze[100];
			snprintf(freeze, sizeof freeze, "train.freeze=%s", patterns[i]);
			const char *const stage = worlds[w] == 1 ? "zero.plugin=stage0" :
								   "zero.plugin=stage2";
			struct zr_setup *all = plan_open(worlds[w], OPTIONS("precision.plugin=bf16",
									    "train.reduction=local",
									    stage, TWICE));
			struct zr_setup *s = plan_open(worlds[w], OPTIONS("precision.plugin=bf16",
									  "train.reduction=local",
									  stage, TWICE, freeze));
			int64_t blocks = 0, parts = s->facts.layout.n_units;
			for (int32_t t = 0; t < s->facts.layout.n_tensors; t++)
				blocks += s->facts.frozen[t] ? s->facts.layout.tensor[t].blocks : 0;
			for (int k = 0; k < 5; k++) {
				int64_t split = gone[k].region == ZR_R_LOCAL ||
								gone[k].region == ZR_R_PARAM ?
							1 :
							worlds[w];
				int64_t less = (int64_t)(region(all, gone[k].region) -
							 region(s, gone[k].region));
				int64_t want = blocks * ZR_BLOCK * gone[k].bytes / split,
					slack = parts * ZR_BLOCK * 8 * (worlds[w] - 1);
				if (gone[k].region == ZR_R_LOCAL && worlds[w] == 1)
					want = 0;
				if (less < want - slack || less > want + slack)
					fail_msg("%s, %d ranks, region %d: %lld bytes less, not "
						 "%lld",
						 patterns[i], worlds[w], gone[k].region,
						 (long long)less, (long long)want);
			}
			plan_close(s);
			plan_close(all);
		}
}

/* The bytes that a rank receives of other ranks' gradients. */
static uint64_t reduced(const struct zr_setup *s)
{
	uint64_t n = 0;
	for (int32_t i = 0; i < s->programs.recorded[ZR_PROG_LAST_MICRO].n; i++)
		n += s->programs.recorded[ZR_PROG_LAST_MICRO].op[i].kind == ZR_P_REDUCE ?
			     s->programs.recorded[ZR_PROG_LAST_MICRO].op[i].bytes :
			     0;
	return n;
}

static void gradients_of_frozen_tensors_do_not_travel(void **unused)
{
	struct zr_setup *s =
		plan_open(2, OPTIONS("train.freeze=*.c_*.weight", "zero.plugin=stage3"));
	uint64_t most = 0;
	(void)unused;
	for (int32_t i = 0; i < s->facts.layout.n_tensors;
	     i++) /* half of it, from one other rank */
		most += s->facts.frozen[i] ?
				0 :
				(uint64_t)(s->facts.layout.tensor[i].blocks + 1) / 2 * ZR_BLOCK * 4;
	assert_true(reduced(s) > 0);
	assert_true(reduced(s) <= most);
	plan_close(s);
}

static int32_t tensors_of(const struct zr_setup *s, int32_t layer)
{
	const struct zr_layer *l = zr_layer_at(&s->facts.decl, layer);
	int32_t n = 0;
	for (uint32_t i = 0; i < l->n_units; i++)
		n += s->facts.layout.unit[l->units[i]].count;
	return n;
}

/* The model's tensors in their order, whatever is cut. */
static void parts_keep_order_and_numbers(void **unused)
{
	struct zr_setup *all = plan_open(1, OPTIONS(NULL)),
			*s = plan_open(1, OPTIONS("train.freeze=*.bias wte.weight"));
	(void)unused;
	assert_int_equal(s->facts.layout.n_tensors, all->facts.layout.n_tensors);
	assert_int_equal(s->facts.largest_unit, all->facts.largest_unit);
	assert_int_equal(s->facts.typical_unit, all->facts.typical_unit);
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		assert_string_equal(s->facts.layout.tensor[i].decl->name,
				    all->facts.layout.tensor[i].decl->name);
		assert_int_equal(s->facts.layout.tensor[i].block,
				 all->facts.layout.tensor[i].block);
		assert_int_equal(s->facts.frozen_unit[s->facts.layout.tensor[i].unit],
				 s->facts.frozen[i]);
	}
	assert_string_equal(s->facts.layout.unit[0].name, "wte");
	assert_string_equal(s->facts.layout.unit[2].name, "h.0/1");
	assert_string_equal(s->facts.layout.unit[3].name, "h.0/2");
	for (uint32_t l = 0; l < s->facts.decl.n_layers; l++)
		assert_int_equal(tensors_of(s, (int32_t)l), tensors_of(all, (int32_t)l));
	plan_close(s);
	plan_close(all);
}

/* The last pattern that fits a tensor decides, and a ! takes it out again. */
static void exceptions_are_a_way_to_write_the_same_set(void **unused)
{
	static const char *const same[][2] = {
		{ "train.freeze=w* h.0.*", "train.freeze=* !h.1.* !ln_f.*" },
		{ "train.freeze=wte.weight", "train.freeze=w* !wpe.weight" },
		{ "train.freeze=w* h.0.ln_?.* h.1.* ln_f.*", "train.freeze=* !h.0.* h.0.ln_?.*" },
		{ "train.freeze=w* h.1.* ln_f.*", "train.freeze=* !h.0.* h.0.* !h.0.*" },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		struct zr_setup *plain = plan_open(1, OPTIONS(same[i][0]));
		struct zr_setup *with = plan_open(1, OPTIONS(same[i][1]));
		const size_t tensors = (size_t)plain->facts.layout.n_tensors;
		assert_memory_equal(with->facts.frozen, plain->facts.frozen, tensors);
		assert_int_equal(with->facts.layout.n_units, plain->facts.layout.n_units);
		plan_close(plain);
		plan_close(with);
	}
}

static void refused(const char *text, const char *option)
{
	struct zr_error err;
	struct zr_setup *s = plan_try(ZR_SETUP_ALONE, 1, OPTIONS(option), &err);
	if (s)
		plan_close(s);
	assert_null(s);
	assert_int_equal(err.code, ZR_EINVAL);
	assert_string_equal(err.text, text);
}

static void I7_patterns_that_cannot_be_meant(void **unused)
{
	(void)unused;
	refused("-o: [train] freeze: no tensor has a name like h.7.*; their names are like "
		"wte.weight and h.0.ln_1.weight",
		"train.freeze=w* h.7.*");
	refused("-o: [train] freeze: all tensors are frozen: nothing is left to train",
		"train.freeze=*");
	refused("-o: [train] freeze: no tensor has a name like h.7.*; their names are like "
		"wte.weight and h.0.ln_1.weight",
		"train.freeze=* !h.7.*");
	refused("-o: [train] freeze: !h.1.* takes out no tensor that a pattern before it names: "
		"put it behind one that does, as in * !h.1.*",
		"train.freeze=w* !h.1.*");
	refused("-o: [optimizer.a] match: no tensor has a name like !h.1.*; their names are like "
		"wte.weight and h.0.ln_1.weight",
		"optimizer.a.match=* !h.1.*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_every_precision),
		cmocka_unit_test(exceptions_are_a_way_to_write_the_same_set),
		cmocka_unit_test(with_accumulation_recompute_and_groups),
		cmocka_unit_test(a_frozen_unit_takes_its_copy_only),
		cmocka_unit_test(gradients_of_frozen_units_have_no_buffer),
		cmocka_unit_test(backward_ends_at_the_lowest_layer_that_is_trained),
		cmocka_unit_test(a_frozen_tensor_takes_its_copy_only),
		cmocka_unit_test(gradients_of_frozen_tensors_do_not_travel),
		cmocka_unit_test(parts_keep_order_and_numbers),
		cmocka_unit_test(I7_patterns_that_cannot_be_meant),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
