/* SPDX-License-Identifier: Apache-2.0
 *
 * t_activation.c - activation policies that keep and recompute: what they answer, the schedules and
 * places that follow, bytes against formulas (I2), and the same bits whatever is dropped (I1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "activation_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

/* Every 7th of what plant() takes: 7 and 3 have no common divisor, so all choices of each layer
 * meet. */
enum { CHOICES = 2187, STEP = 7 };

/* ---- schedules ---- */

static void expect_schedule(const char *option, const char *want)
{
	char got[256];
	struct zr_setup *s = six(option);
	schedule_text(&s->programs.train_uses, got);
	assert_string_equal(got, want);
	schedule_text(&s->programs.eval_uses, got);
	assert_string_equal(got, "f0 f1 f2 f3 f4 f5 f6 f7");
	plan_close(s);
}

static void each_segment_runs_again_before_its_backward(void **unused)
{
	(void)unused;
	expect_schedule("activation.plugin=keep", "f0 f1 f2 f3 f4 f5 f6 b7 b6 b5 b4 b3 b2 b1 b0");
	expect_schedule("activation.plugin=recompute",
			"f0 f1 f2 f3 f4 f5 f6 b7 b6 r5 b5 r4 b4 r3 b3 r2 b2 r1 b1 b0");
}

static void segments_are_counted_from_the_last(void **unused)
{
	(void)unused;
	static const char *const o[] = { SIX, "activation.plugin=recompute", "activation.every=4",
					 NULL };
	char got[256];
	struct zr_setup *s = plan_open(1, o);
	schedule_text(&s->programs.train_uses, got);
	assert_string_equal(got, "f0 f1 f2 f3 f4 f5 f6 b7 b6 b5 b4 b3 r1 r2 b2 b1 b0");
	plan_close(s);
}

static void expect_planted(int choice, const char *want)
{
	struct zr_error err = { 0 };
	char got[256];
	struct zr_setup *s = six(NULL);
	plant(choice);
	if (ask_again(s, &err))
		fail_msg("%s", err.text);
	schedule_text(&s->programs.train_uses, got);
	assert_string_equal(got, want);
	plan_close(s);
}

/* block n keeps its output only; twice that: nothing */
enum { R1 = 3, R2 = 9, R3 = 27, R5 = 243, R6 = 729 };

static void what_is_gone_runs_again_once(void **unused)
{
	(void)unused;
	expect_planted(0, "f0 f1 f2 f3 f4 f5 f6 b7 b6 b5 b4 b3 b2 b1 b0");
	/* the last block's output is read next, whatever the policy says */
	expect_planted(2 * R6, "f0 f1 f2 f3 f4 f5 f6 b7 r6 b6 b5 b4 b3 b2 b1 b0");
	/* a block that keeps all over one that keeps nothing: only the lower one runs again */
	expect_planted(2 * R5, "f0 f1 f2 f3 f4 f5 f6 b7 r5 b6 b5 b4 b3 b2 b1 b0");
	expect_planted(2 * R2 + 2 * R1 + R3,
		       "f0 f1 f2 f3 f4 f5 f6 b7 b6 b5 b4 r1 r2 r3 b3 b2 b1 b0");
	expect_planted(2, "f0 f1 f2 f3 f4 f5 f6 b7 b6 b5 b4 b3 b2 r0 b1 b0");
	expect_planted(2186, "f0 f1 f2 f3 f4 f5 f6 b7 r0 r1 r2 r3 r4 r5 r6 b6 b5 b4 b3 b2 b1 b0");
}

/* ---- places ---- */

static void activations_are_where_they_are_read(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_setup *s = six("precision.plugin=bf16");
	walk_program(s, ZR_S_LAST);
	walk_program(s, ZR_S_EVAL);
	for (int i = 0; i < CHOICES; i += STEP) {
		int ran[LAYERS] = { 0 };
		plant(i);
		if (ask_again(s, &err))
			fail_msg("choice %d: %s", i, err.text);
		walk_program(s, ZR_S_LAST);
		for (int32_t k = 0; k < s->programs.train_uses.n; k++)
			ran[s->programs.train_uses.use[k].layer] +=
				s->programs.train_uses.use[k].phase == ZR_RECOMPUTE;
		for (int k = 0; k < LAYERS; k++)
			assert_true(ran[k] <= 1);
	}
	plan_close(s);
}

/* ---- bytes ---- */

static struct zr_setup *try_recompute(int layers, const char *precision, const char *key,
				      uint64_t value, struct zr_error *err)
{
	char text[3][48];
	const char *o[] = { text[0], "activation.plugin=recompute", text[1], text[2], NULL };
	snprintf(text[0], sizeof *text, "model.layers=%d", layers);
	snprintf(text[1], sizeof *text, "precision.plugin=%s", precision);
	snprintf(text[2], sizeof *text, "activation.%s=%llu", key, (unsigned long long)value);
	return plan_try(ZR_SETUP_ALONE, 1, o, err);
}

static struct zr_setup *recompute(const char *precision, const char *key, uint64_t value)
{
	struct zr_error err;
	struct zr_setup *s = try_recompute(L, precision, key, value, &err);
	if (!s)
		fail_msg("%s = %llu: %s", key, (unsigned long long)value, err.text);
	return s;
}

/* At the end of forward: outputs of the embedding and of one layer per segment, everything of the
 * last k layers. */
static void I2_segments_take_what_the_formula_says(void **unused)
{
	(void)unused;
	for (int i = 0; i < 2 * (L - 1); i++) {
		unsigned k = (unsigned)i / 2 + 1;
		struct zr_setup *s = recompute(i & 1 ? "bf16" : "fp32", "every", k);
		uint64_t out = up(s->facts.layer_bytes[L].out, 64),
			 saved = up(s->facts.layer_bytes[L].saved, 64);
		uint64_t want = (1 + (L - k + k - 1) / k) * out + k * (out + saved);
		assert_int_equal(s->plan.region[ZR_R_ACT].bytes, want);
		plan_close(s);
	}
	struct zr_setup *s = six(NULL);
	uint64_t out = up(s->facts.layer_bytes[1].out, 64),
		 saved = up(s->facts.layer_bytes[1].saved, 64);
	assert_int_equal(s->plan.region[ZR_R_ACT].bytes, out + L * (out + saved));
	plan_close(s);
}

/* Peak with the last m layers kept, the others in segments of k: at the end of forward, or while
 * the last of those segments is there again. */
static uint64_t peak(unsigned m, unsigned k, uint64_t out, uint64_t saved)
{
	unsigned segments = (L - m + k - 1) / k, run = k < L - m ? k : L - m;
	uint64_t forward = (1 + segments) * out + m * (out + saved),
		 again = segments * out + run * (out + saved);
	return forward > again ? forward : again;
}

static void max_bytes_keeps_as_many_layers_as_fit(void **unused)
{
	(void)unused;
	struct zr_setup *s = six(NULL);
	uint64_t out = up(s->facts.layer_bytes[1].out, 64),
		 saved = up(s->facts.layer_bytes[1].saved, 64), least = peak(1, 1, out, saved);
	plan_close(s);
	for (uint64_t limit = least; limit < least + 7 * saved; limit += saved / 3) {
		unsigned fits = 0, again = 0;
		for (unsigned m = 1; m <= L; m++)
			for (unsigned k = 1; k <= L; k++)
				fits = peak(m, k, out, saved) <= limit ? m : fits;
		s = recompute("fp32", "max_bytes", limit);
		for (int32_t i = 0; i < s->programs.train_uses.n; i++)
			again += s->programs.train_uses.use[i].phase == ZR_RECOMPUTE;
		assert_int_equal(again, L - fits);
		assert_true(s->plan.region[ZR_R_ACT].bytes <= limit);
		walk_program(s, ZR_S_LAST);
		plan_close(s);
	}
}

/* With many layers that is not the shortest segment: its outputs alone take more. */
static void the_least_that_is_named_is_enough(void **unused)
{
	(void)unused;
	for (int layers = 2; layers <= 32; layers += 15) {
		struct zr_error err;
		unsigned long long least = 0;
		assert_null(try_recompute(layers, "fp32", "max_bytes", 1, &err));
		const char *at = strstr(err.text, "at least ");
		if (!at || sscanf(at, "at least %llu", &least) != 1)
			fail_msg("refused with: %s", err.text);
		assert_null(try_recompute(layers, "fp32", "max_bytes", least - 1, &err));
		struct zr_setup *s = try_recompute(layers, "fp32", "max_bytes", least, &err);
		assert_non_null(s);
		assert_int_equal(s->plan.region[ZR_R_ACT].bytes, least);
		plan_close(s);
	}
}

/* ---- refusals ---- */

static void refused(const char *const *options, const char *text)
{
	struct zr_error err;
	struct zr_setup *s = plan_try(ZR_SETUP_ALONE, 1, options, &err);
	if (s)
		fail_msg("not refused; wanted: %s", text);
	if (!strstr(err.text, text))
		fail_msg("refused with: %s; wanted: %s", err.text, text);
}

#define REFUSED(text, ...)                                                                         \
	refused((const char *const[]){ "activation.plugin=recompute", __VA_ARGS__, NULL }, text)

static void options_that_cannot_act_are_refused(void **unused)
{
	(void)unused;
	REFUSED("exclude each other", "activation.every=2", "activation.max_bytes=1G");
	REFUSED("every = 0 needs max_bytes", "activation.every=0");
	REFUSED("every = 2 recomputes nothing", "activation.every=2"); /* two blocks */
	REFUSED("every = 1 recomputes nothing", "model.layers=1");
}

static void refuse_planted(const char *text)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = six(NULL);
	int rc = ask_again(s, &err);
	plan_close(s);
	assert_int_equal(rc, ZR_EINVAL);
	if (!strstr(err.text, text))
		fail_msg("refused with: %s; wanted: %s", err.text, text);
}

static void answers_that_cannot_be_are_refused(void **unused)
{
	(void)unused;
	plant(0);
	planted[3].out = ZR_ACT_RECOMPUTE;
	refuse_planted("layer h.2 drops its output but not what it saved");
	plant(0);
	planted[4].saved = 7;
	refuse_planted("layer h.3 is neither kept nor recomputed nor offloaded");
	plant(0);
	planted[4].saved = -1;
	refuse_planted("layer h.3 is neither");
	plant(0);
	planted[4].saved = ZR_ACT_OFFLOAD;
	refuse_planted("layer h.3 is to wait in another memory, but device and host are one here: "
		       "add [offload.activation] with a "
		       "plugin for disk and its path, or give the device a memory of its own "
		       "([device] memory = ...), or choose "
		       "another [activation] plugin");
}

/* Nothing of the loss layer waits, so its answers change nothing; those for parts of 0 bytes
 * neither. */
static void parts_of_no_bytes_are_kept(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_setup *s = six(NULL);
	plant(0);
	planted[LAYERS - 1] = (struct zr_act_choice){ ZR_ACT_RECOMPUTE, ZR_ACT_RECOMPUTE };
	planted[0].saved = ZR_ACT_RECOMPUTE;
	assert_int_equal(ask_again(s, &err), 0);
	assert_int_equal(s->programs.train_uses.n, 2 * LAYERS - 1);
	plan_close(s);
}

/* ---- the same bits ---- */

static void I1_whatever_is_dropped(void **unused)
{
	(void)unused;
	static const int choice[] = {
		0, 2186, 2, 2 * R5, 2 * R6 + R5, 2 * R1 + 2 * R2 + R3, R1 + 2 * R3 + 2 * R6, 1000
	};
	static const char *const precision[] = { "precision.plugin=fp32", "precision.plugin=bf16" };
	for (int p = 0; p < 2; p++) {
		struct bits want = train_bits((struct training){ .option = { precision[p] } });
		assert_true(want.loss[0] > 1 && want.norm[1] > 0 && want.loss[0] != want.loss[1]);
		for (size_t i = 0; i < sizeof choice / sizeof *choice; i++) {
			plant(choice[i]);
			struct bits got = train_bits(
				(struct training){ .option = { precision[p] }, .planted = 1 });
			assert_memory_equal(&got, &want, sizeof want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_segment_runs_again_before_its_backward),
		cmocka_unit_test(segments_are_counted_from_the_last),
		cmocka_unit_test(what_is_gone_runs_again_once),
		cmocka_unit_test(activations_are_where_they_are_read),
		cmocka_unit_test(I2_segments_take_what_the_formula_says),
		cmocka_unit_test(max_bytes_keeps_as_many_layers_as_fit),
		cmocka_unit_test(the_least_that_is_named_is_enough),
		cmocka_unit_test(options_that_cannot_act_are_refused),
		cmocka_unit_test(answers_that_cannot_be_are_refused),
		cmocka_unit_test(parts_of_no_bytes_are_kept),
		cmocka_unit_test(I1_whatever_is_dropped),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
