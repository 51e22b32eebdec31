/* SPDX-License-Identifier: Apache-2.0
 *
 * t_fp16.c - precision/fp16: the loss scale against traces written by hand from the rules of ZeRO's
 * dynamic scaler, with bursts of overflow; every option changes one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/precision.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "tests/lib/testhost.h"

static struct zr_host *host;

/* A step and what it leaves: 'o' overflowed or '.', the next scale, overflows left, and 'a'pply,
 * 's'kip or s't'op. */
struct step {
	char event;
	double scale;
	int left;
	char action;
};

struct trace {
	const char *name;
	const char *options[13]; /* name, text, ... */
	double scale;            /* of the first step */
	struct step step[40];
};

static const struct trace
	traces[] = {
		{ "window 4, two overflows to a fall",
		  { "initial_scale_power", "4", "loss_scale_window", "4", "min_loss_scale", "2" },
		  16,
		  { { '.', 16, 2, 'a' }, { '.', 16, 2, 'a' },
		    { '.', 16, 2, 'a' }, { '.', 16, 2, 'a' },
		    { '.', 32, 2, 'a' }, /* the fifth: four lie behind it */
		    { 'o', 32, 1, 's' }, { 'o', 16, 1, 's' },
		    { 'o', 8, 1, 's' }, /* a burst: no refill by falling */
		    { '.', 8, 1, 'a' },  { '.', 8, 1, 'a' },
		    { 'o', 4, 1, 's' }, /* nor by two steps without */
		    { '.', 4, 1, 'a' },  { '.', 4, 1, 'a' },
		    { '.', 4, 1, 'a' },  { '.', 4, 1, 'a' },
		    { '.', 8, 2, 'a' },  { 'o', 8, 1, 's' },
		    { '.', 8, 1, 'a' },  { 'o', 4, 1, 's' },
		    { 'o', 2, 1, 's' },  { 'o', 2, 1, 't' } } },
		{ "the same, but the floor is skipped",
		  { "initial_scale_power", "2", "loss_scale_window", "4", "min_loss_scale", "2",
		    "on_nonfinite", "skip" },
		  4,
		  { { 'o', 4, 1, 's' },
		    { 'o', 2, 1, 's' },
		    { 'o', 2, 1, 's' },
		    { 'o', 2, 1, 's' },
		    { '.', 2, 1, 'a' },
		    { '.', 2, 1, 'a' },
		    { '.', 2, 1, 'a' },
		    { '.', 2, 1, 'a' },
		    { '.', 4, 2, 'a' },
		    { '.', 4, 2, 'a' },
		    { '.', 4, 2, 'a' },
		    { '.', 4, 2, 'a' },
		    { '.', 8, 2, 'a' } } },
		{ "hysteresis 3, counted anew after each step without overflow",
		  { "initial_scale_power", "4", "loss_scale_window", "4", "hysteresis", "3",
		    "consecutive_hysteresis", "yes" },
		  16,
		  { { 'o', 16, 2, 's' },
		    { 'o', 16, 1, 's' },
		    { '.', 16, 3, 'a' },
		    { 'o', 16, 2, 's' },
		    { 'o', 16, 1, 's' },
		    { 'o', 8, 1, 's' },
		    { 'o', 4, 1, 's' },
		    { '.', 4, 3, 'a' },
		    { '.', 4, 3, 'a' },
		    { '.', 4, 3, 'a' },
		    { '.', 4, 3, 'a' },
		    { '.', 8, 3, 'a' },
		    { 'o', 8, 2, 's' },
		    { '.', 8, 3, 'a' } } },
		{ "hysteresis 3, counted anew only when the scale doubles",
		  { "initial_scale_power", "4", "loss_scale_window", "2", "hysteresis", "3" },
		  16,
		  { { 'o', 16, 2, 's' },
		    { '.', 16, 2, 'a' },
		    { '.', 16, 2, 'a' },
		    { 'o', 16, 1, 's' },
		    { '.', 16, 1, 'a' },
		    { 'o', 8, 1, 's' },
		    { '.', 8, 1, 'a' },
		    { '.', 8, 1, 'a' },
		    { '.', 16, 3, 'a' },
		    { '.', 16, 3, 'a' },
		    { '.', 32, 3, 'a' } } },
		{ "hysteresis 1 to a floor that is no power of two",
		  { "initial_scale_power", "4", "hysteresis", "1", "min_loss_scale", "3" },
		  16,
		  { { 'o', 8, 1, 's' },
		    { 'o', 4, 1, 's' },
		    { 'o', 3, 1, 's' },
		    { '.', 3, 1, 'a' },
		    { 'o', 3, 1, 't' } } },
		{ "window 1 doubles at every step after the first without overflow",
		  { "initial_scale_power", "4", "loss_scale_window", "1" },
		  16,
		  { { '.', 16, 2, 'a' },
		    { '.', 32, 2, 'a' },
		    { '.', 64, 2, 'a' },
		    { 'o', 64, 1, 's' },
		    { '.', 64, 1, 'a' },
		    { '.', 128, 2, 'a' } } },
		{ "the defaults",
		  { NULL },
		  65536,
		  { { 'o', 65536, 1, 's' },
		    { 'o', 32768, 1, 's' },
		    { '.', 32768, 1, 'a' },
		    { 'o', 16384, 1, 's' } } },
		{ "a fixed scale",
		  { "loss_scale", "96" },
		  96,
		  { { '.', 96, 2, 'a' }, { '.', 96, 2, 'a' }, { 'o', 96, 2, 't' } } },
		{ "a fixed scale that skips",
		  { "loss_scale", "0.5", "on_nonfinite", "skip" },
		  0.5,
		  { { '.', 0.5, 2, 'a' },
		    { 'o', 0.5, 2, 's' },
		    { 'o', 0.5, 2, 's' },
		    { '.', 0.5, 2, 'a' } } },
	};

#define TRACES (int)(sizeof traces / sizeof *traces)

static void *open_fp16(const struct zr_desc *desc, const char *const *options)
{
	void *opts = test_options(desc);
	for (; *options; options += 2)
		assert_int_equal(test_set(desc, opts, options[0], options[1]), 0);
	return opts;
}

static void follows_its_trace(void **state)
{
	static const char actions[] = {
		[ZR_STEP_APPLY] = 'a', [ZR_STEP_SKIP] = 's', [ZR_STEP_STOP] = 't'
	};
	const struct trace *t = *state;
	const struct zr_desc *desc = test_plugin("precision/fp16");
	const struct zr_precision_v1 *v = test_iface(desc, "zr.precision/1");
	void *opts = open_fp16(desc, t->options);
	struct zr_inst *inst;
	struct zr_scale s;
	int64_t last = -1;
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_int_equal(v->start(inst, &s), ZR_OK);
	assert_true(s.scale == t->scale && s.step == 0 && s.last_overflow == -1);
	for (int i = 0; t->step[i].event; i++) {
		const struct step *want = &t->step[i];
		int32_t action = -1;
		last = want->event == 'o' ? i : last;
		assert_int_equal(v->next(inst, &s, want->event == 'o', &action), ZR_OK);
		if (s.scale != want->scale || s.hysteresis != want->left ||
		    actions[action] != want->action)
			fail_msg("step %d: scale %g, %d left, %c; wanted %g, %d, %c", i, s.scale,
				 (int)s.hysteresis, actions[action], want->scale, want->left,
				 want->action);
		assert_true(s.step == i + 1 && s.last_overflow == last);
	}
	desc->destroy(inst);
	free(opts);
}

static void after_1000_calm_steps_the_default_scale_doubles(void **state)
{
	static const char *const none[] = { NULL };
	const struct zr_desc *desc = test_plugin("precision/fp16");
	const struct zr_precision_v1 *v = test_iface(desc, "zr.precision/1");
	void *opts = open_fp16(desc, none);
	struct zr_precision_info info = { .size = sizeof info };
	struct zr_inst *inst;
	struct zr_scale s;
	int32_t action;
	(void)state;
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_int_equal(v->info(inst, &info), ZR_OK);
	assert_true(info.dtype == ZR_F16 && info.comm_dtype == ZR_F32 && info.scaled == 1);
	assert_int_equal(v->start(inst, &s), ZR_OK);
	for (int i = 0; i < 3500; i++) {
		assert_true(s.scale == (i <= 1000 ? 0x1p16 :
					i <= 2000 ? 0x1p17 :
					i <= 3000 ? 0x1p18 :
						    0x1p19));
		assert_int_equal(v->next(inst, &s, 0, &action), ZR_OK);
		assert_int_equal(action, ZR_STEP_APPLY);
	}
	desc->destroy(inst);
	free(opts);
}

static void refused(const char *const *options, const char *text)
{
	const struct zr_desc *desc = test_plugin("precision/fp16");
	void *opts = open_fp16(desc, options);
	struct zr_inst *inst;
	test_clear(host);
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_EINVAL);
	if (!strstr(test_error(host), text))
		fail_msg("%s: no \"%s\"", test_error(host), text);
	free(opts);
}

/* I7 */
static void options_that_cannot_act_are_refused(void **state)
{
	static const char *const dead[][2] = { { "initial_scale_power", "17" },
					       { "loss_scale_window", "5" },
					       { "hysteresis", "1" },
					       { "consecutive_hysteresis", "yes" },
					       { "min_loss_scale", "2" } };
	(void)state;
	for (int i = 0; i < 5; i++)
		refused((const char *const[]){ "loss_scale", "128", dead[i][0], dead[i][1], NULL },
			dead[i][0]);
	refused((const char *const[]){ "initial_scale_power", "3", "min_loss_scale", "16", NULL },
		"initial_scale_power = 3 starts the scale at 8, below min_loss_scale = 16");
}

static void options_out_of_range_are_refused(void **state)
{
	static const char *const bad[][2] = { { "loss_scale", "-1" },
					      { "initial_scale_power", "-1" },
					      { "initial_scale_power", "127" },
					      { "loss_scale_window", "0" },
					      { "hysteresis", "0" },
					      { "min_loss_scale", "0" },
					      { "on_nonfinite", "raise" } };
	const struct zr_desc *desc = test_plugin("precision/fp16");
	void *opts = test_options(desc);
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_not_equal(test_set(desc, opts, bad[i][0], bad[i][1]), 0);
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
	struct CMUnitTest tests[TRACES + 3];
	int n;
	for (n = 0; n < TRACES; n++)
		tests[n] = (struct CMUnitTest){ .name = traces[n].name,
						.test_func = follows_its_trace,
						.initial_state = (void *)(uintptr_t)&traces[n] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(
		after_1000_calm_steps_the_default_scale_doubles);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(options_that_cannot_act_are_refused);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(options_out_of_range_are_refused);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("fp16", tests, (size_t)n, setup, teardown);
}
