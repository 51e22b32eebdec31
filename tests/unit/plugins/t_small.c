/* SPDX-License-Identifier: Apache-2.0
 *
 * t_small.c - plugins of a few lines: boot/local, activation/keep, precision/fp32 and bf16.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zeroth/activation.h>
#include <zeroth/boot.h>
#include <zeroth/precision.h>

#include "tests/lib/testhost.h"

#include <cmocka.h> /* after the headers with members that its macros name */

static struct zr_host *host;

static void boot_local_is_rank_0_of_1_on_this_machine(void **state)
{
	const struct zr_desc *desc = test_plugin("boot/local");
	const struct zr_boot_v1 *v = test_iface(desc, "zr.boot/1");
	struct zr_boot_info info;
	struct zr_inst *inst;
	char name[64] = "";
	(void)state;
	memset(&info, 0xff, sizeof info);
	info.size = sizeof info;
	void *opts = test_options(desc);
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_int_equal(v->info(inst, &info), ZR_OK);
	assert_int_equal(info.rank, 0);
	assert_int_equal(info.world, 1);
	assert_int_equal(info.local_rank, 0);
	assert_int_equal(info.local_world, 1);
	assert_int_equal(info.node, 0);
	assert_int_equal(info.nodes, 1);
	gethostname(name, sizeof name);
	name[sizeof name - 1] = 0;
	assert_string_equal(info.host, name);
	desc->destroy(inst);
	free(opts);
}

static void activation_keep_keeps_every_layer(void **state)
{
	const struct zr_desc *desc = test_plugin("activation/keep");
	const struct zr_activation_v1 *v = test_iface(desc, "zr.activation/1");
	const struct zr_act_layer layers[3] = { { 1 << 20, 1 << 30, 0, 0 } };
	struct zr_act_choice choice[4] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	struct zr_inst *inst;
	(void)state;
	assert_int_equal(test_create(host, desc, NULL, &inst), ZR_OK);
	assert_int_equal(v->choose(inst, layers, 3, sizeof *layers, choice), ZR_OK);
	assert_true(choice[0].out == ZR_ACT_KEEP && choice[0].saved == ZR_ACT_KEEP);
	assert_true(choice[2].out == ZR_ACT_KEEP && choice[2].saved == ZR_ACT_KEEP);
	assert_true(choice[3].out == -1 && choice[3].saved == -1);
	desc->destroy(inst);
}

/* Answers of a policy for an input layer, 5 blocks and a loss layer, as "out/saved" by first
 * letters. */
static void expect_answers(const char *plugin, const char *const *options, const char *want)
{
	const struct zr_desc *desc = test_plugin(plugin);
	const struct zr_activation_v1 *v = test_iface(desc, "zr.activation/1");
	struct zr_act_layer layers[7];
	struct zr_act_choice choice[7] = { { 0, 0 } };
	char got[64] = "";
	struct zr_inst *inst;
	void *opts = test_options(desc);
	int i;
	for (i = 0; i < 7; i++)
		layers[i] = (struct zr_act_layer){ .out = i < 6 ? 64 : 0,
						   .saved = i && i < 6 ? 640 : 0 };
	for (; *options; options += 2)
		assert_int_equal(test_set(desc, opts, options[0], options[1]), 0);
	if (test_create(host, desc, opts, &inst) ||
	    v->choose(inst, layers, 7, sizeof *layers, choice))
		fail_msg("%s", test_error(host));
	for (i = 0; i < 7; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%c/%c", i ? " " : "",
			 "kro"[choice[i].out], "kro"[choice[i].saved]);
	assert_string_equal(got, want);
	desc->destroy(inst);
	free(opts);
}

#define ANSWERS(plugin, want, ...)                                                                 \
	expect_answers(plugin, (const char *const[]){ __VA_ARGS__ NULL }, want)
#define O(name, value) name, value,

static void activation_recompute_and_offload_keep_the_last(void **state)
{
	(void)state;
	ANSWERS("activation/offload", "o/o o/o o/o o/o k/k k/k k/k");
	ANSWERS("activation/offload", "o/o o/o k/k k/k k/k k/k k/k", O("keep", "4"));
	ANSWERS("activation/recompute", "k/k k/r k/r k/r k/r k/k k/k");
	ANSWERS("activation/recompute", "k/k k/r r/r k/r k/k k/k k/k", O("every", "2"));
	ANSWERS("activation/recompute", "o/k o/r r/r o/r k/k k/k k/k",
		O("every", "2") O("outputs", "offload"));
	/* 3 * 64 + 3 * 704 */
	ANSWERS("activation/recompute", "k/k k/r k/r k/k k/k k/k k/k", O("max_bytes", "2304"));
}

/* Steps 0 and 1, the second with a non-finite gradient, which must lead to `action`. */
static void precision(const char *plugin, int32_t dtype, const char *on_nonfinite, int32_t action)
{
	const struct zr_desc *desc = test_plugin(plugin);
	const struct zr_precision_v1 *v = test_iface(desc, "zr.precision/1");
	struct zr_precision_info info = { .size = sizeof info };
	struct zr_inst *inst;
	struct zr_scale s;
	void *opts = test_options(desc);
	int32_t got = -1;
	if (on_nonfinite)
		assert_int_equal(test_set(desc, opts, "on_nonfinite", on_nonfinite), 0);
	assert_int_equal(test_create(host, desc, opts, &inst), ZR_OK);
	assert_int_equal(v->info(inst, &info), ZR_OK);
	assert_int_equal(info.dtype, dtype);
	assert_int_equal(info.comm_dtype, ZR_F32);
	assert_int_equal(v->start(inst, &s), ZR_OK);
	assert_int_equal(v->next(inst, &s, 0, &got), ZR_OK);
	assert_int_equal(got, ZR_STEP_APPLY);
	assert_int_equal(s.last_overflow, -1);
	assert_int_equal(v->next(inst, &s, 1, &got), ZR_OK);
	assert_int_equal(got, action);
	assert_int_equal(s.last_overflow, 1);
	assert_int_equal(s.step, 2);
	assert_true(s.scale == 1);
	desc->destroy(inst);
	free(opts);
}

static void precisions_without_a_scale_stop_at_a_non_finite_gradient(void **state)
{
	(void)state;
	precision("precision/fp32", ZR_F32, NULL, ZR_STEP_STOP);
	precision("precision/bf16", ZR_BF16, NULL, ZR_STEP_STOP);
}

static void precisions_without_a_scale_skip_if_asked(void **state)
{
	(void)state;
	precision("precision/fp32", ZR_F32, "skip", ZR_STEP_SKIP);
	precision("precision/bf16", ZR_BF16, "skip", ZR_STEP_SKIP);
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
		cmocka_unit_test(boot_local_is_rank_0_of_1_on_this_machine),
		cmocka_unit_test(activation_keep_keeps_every_layer),
		cmocka_unit_test(activation_recompute_and_offload_keep_the_last),
		cmocka_unit_test(precisions_without_a_scale_stop_at_a_non_finite_gradient),
		cmocka_unit_test(precisions_without_a_scale_skip_if_asked),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
