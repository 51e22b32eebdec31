/* SPDX-License-Identifier: Apache-2.0
 *
 * t_optim.c - adamw and sgd through their plugins on device/cpu: trajectories of torch.optim
 * (golden/optim.txt), and what a piece may and may not touch.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include "testhost.h"

#include <cmocka.h> /* after the headers with members that its macros name */

#define PARAMS 8
#define FIRST 5                /* elements of the first parameter; the rest is the second */
#define ROOM (2 * ZR_BLOCK)    /* elements of the buffers: a block for each */
#define PADDING 77.0f
#define PLACE(i) ((i) < FIRST ? (i) : ZR_BLOCK + (i) - FIRST)

static struct zr_host *host;
static const struct zr_desc *device;
static struct zr_inst *device_inst;
static void *device_opts;
static const struct zr_ops *ops;

/* Everything a run of an optimizer needs: two parameters, each in a block of its own. */
struct rig {
	const struct zr_desc *desc;
	const struct zr_optimizer_v1 *v;
	struct zr_inst *inst;
	void *opts;
	uint32_t n_state;
	float master[ROOM], grad[ROOM], state[2][ROOM];
	uint16_t lowp[ROOM];
	struct zr_scalars scalars;
	struct zr_buf states[2];
	struct zr_seg seg[2];
	struct zr_opt_step step;
};

static struct rig rig;

static struct zr_buf buf(void *p, int32_t dtype)
{
	return (struct zr_buf){ p, ROOM, dtype, ZR_MEM_HOST };
}

/* `options`: name, text, ..., NULL */
static void rig_open(const char *plugin, const char *const *options)
{
	static const int64_t dims[2] = { FIRST, PARAMS - FIRST };
	int i;
	memset(&rig, 0, sizeof rig);
	rig.desc = test_plugin(plugin);
	rig.v = test_iface(rig.desc, "zr.optimizer/1");
	rig.opts = test_options(rig.desc);
	for (; *options; options += 2)
		assert_int_equal(test_set(rig.desc, rig.opts, options[0], options[1]), 0);
	assert_int_equal(test_create(host, rig.desc, rig.opts, &rig.inst), ZR_OK);
	assert_non_null(rig.v->states(rig.inst, &rig.n_state));
	assert_true(rig.n_state <= 2);
	for (i = 0; i < ROOM; i++)
		rig.master[i] = rig.grad[i] = rig.state[0][i] = rig.state[1][i] = PADDING;
	for (i = 0; i < PARAMS; i++) {
		rig.master[PLACE(i)] = 1 - (float)i / 4;
		rig.state[0][PLACE(i)] = rig.state[1][PLACE(i)] = 0;
	}
	rig.states[0] = buf(rig.state[0], ZR_F32);
	rig.states[1] = buf(rig.state[1], ZR_F32);
	rig.seg[0] = (struct zr_seg){ .n = FIRST, .ndim = 1, .dims = &dims[0], .name = "a" };
	rig.seg[1] = (struct zr_seg){ .off = ZR_BLOCK, .n = PARAMS - FIRST, .param = 1, .ndim = 1, .dims = &dims[1],
				      .name = "b" };
	rig.step = (struct zr_opt_step){ .size = sizeof rig.step, .n_state = rig.n_state, .opts = rig.opts,
					 .master = buf(rig.master, ZR_F32), .grad = buf(rig.grad, ZR_F32),
					 .state = rig.states, .seg = rig.seg, .n_seg = 2, .ops = ops,
					 .scalars = &rig.scalars };
}

static void rig_close(void)
{
	rig.desc->destroy(rig.inst);
	free(rig.opts);
}

/* Update t (1-based) of golden/make_optim.py; the stored gradients are 8 times too large. */
static void rig_update(int t)
{
	int i;
	for (i = 0; i < PARAMS; i++)
		rig.grad[PLACE(i)] = 8 * (float)(sin(0.7 * i + 0.3 * t) * pow(2, i - 4));
	rig.scalars = (struct zr_scalars){ .step = t, .grad_mult = 0.125f, .lr = (float)(0.01 / sqrt(t)) };
	rig.step.step = t;
	rig.step.lr = rig.scalars.lr;
	rig.step.grad_mult = rig.scalars.grad_mult;
	assert_int_equal(rig.v->step(rig.inst, &rig.step), ZR_OK);
}

static void compare_with_torch(const char *name, const char *plugin, const char *const *options)
{
	char path[4096], line[512], got[32];
	const char *src = getenv("ZR_SRCDIR");
	int t = 0, want_t, i, used, seen = 0;
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/optim.txt", src ? src : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	rig_open(plugin, options);
	while (fgets(line, sizeof line, f)) {
		char *p = line;
		if (sscanf(line, "%31s %d%n", got, &want_t, &used) != 2 || strcmp(got, name))
			continue;
		while (t < want_t)
			rig_update(++t);
		for (i = 0, p += used; i < PARAMS; i++) {
			double want = strtod(p, &p), is = rig.master[PLACE(i)];
			if (fabs(is - want) > 2e-6)
				fail_msg("%s update %d parameter %d: %.9g, wanted %.9g", name, t, i, is, want);
		}
		seen++;
	}
	fclose(f);
	rig_close();
	assert_int_equal(seen, 4);
	assert_int_equal(t, 50);
}

static void adamw_follows_torch_over_50_updates(void **state)
{
	static const char *const o[] = { "betas", "0.9,0.95", "weight_decay", "0.1", NULL };
	(void)state;
	compare_with_torch("adamw", "optimizer/adamw", o);
}

static void sgd_follows_torch_over_50_updates(void **state)
{
	static const char *const plain[] = { NULL };
	static const char *const decay[] = { "weight_decay", "0.1", NULL };
	static const char *const momentum[] = { "momentum", "0.9", "dampening", "0.25", "weight_decay", "0.05", NULL };
	static const char *const nesterov[] = { "momentum", "0.8", "nesterov", "yes", NULL };
	(void)state;
	compare_with_torch("sgd", "optimizer/sgd", plain);
	compare_with_torch("sgd-decay", "optimizer/sgd", decay);
	compare_with_torch("sgd-momentum", "optimizer/sgd", momentum);
	compare_with_torch("sgd-nesterov", "optimizer/sgd", nesterov);
}

static void without_bias_correction_the_first_step_is_as_the_formula_says(void **state)
{
	static const char *const o[] = { "bias_correction", "no", NULL };
	double g, want;
	(void)state;
	rig_open("optimizer/adamw", o);
	rig_update(1);
	g = (float)(sin(0.7 * 7 + 0.3) * 8);
	want = 1 - 7.0 / 4 - 0.01 * (0.1 * g) / (sqrt(0.001 * g * g) + 1e-8);
	assert_true(fabs(rig.master[PLACE(7)] - want) < 1e-6);
	rig_close();
}

static void padding_is_never_touched(void **state)
{
	static const char *const none[] = { NULL }, *const momentum[] = { "momentum", "0.9", NULL };
	int round, i, s;
	(void)state;
	for (round = 0; round < 2; round++) {
		rig_open(round ? "optimizer/sgd" : "optimizer/adamw", round ? momentum : none);
		for (i = 0; i < ROOM; i++)
			rig.lowp[i] = 0x1234;
		rig.step.lowp = buf(rig.lowp, ZR_BF16);
		rig_update(1);
		for (i = 0; i < ROOM; i++) {
			if (i < FIRST || (i >= ZR_BLOCK && i < PLACE(PARAMS)))
				continue;
			assert_true(rig.master[i] == PADDING);
			assert_int_equal(rig.lowp[i], 0x1234);
			for (s = 0; s < (int)rig.n_state; s++)
				assert_true(rig.state[s][i] == PADDING);
		}
		rig_close();
	}
}

static void the_bf16_copy_is_the_master_rounded_half_away(void **state)
{
	static const char *const none[] = { NULL };
	int round, i;
	(void)state;
	for (round = 0; round < 2; round++) {
		rig_open(round ? "optimizer/sgd" : "optimizer/adamw", none);
		rig.step.lowp = buf(rig.lowp, ZR_BF16);
		rig_update(1);
		for (i = 0; i < PARAMS; i++) {
			uint32_t bits;
			memcpy(&bits, &rig.master[PLACE(i)], 4);
			assert_int_equal(rig.lowp[PLACE(i)], (bits + 0x8000) >> 16);
		}
		rig_close();
	}
}

/* ZR_OPT_ELEMENTWISE, which offloading and sharding lean on. */
static void any_split_into_pieces_gives_the_same_bits_I1(void **state)
{
	static const char *const none[] = { NULL }, *const momentum[] = { "momentum", "0.9", NULL };
	static struct rig whole;
	int round, t;
	(void)state;
	for (round = 0; round < 2; round++) {
		const char *plugin = round ? "optimizer/sgd" : "optimizer/adamw";
		rig_open(plugin, round ? momentum : none);
		assert_true(rig.v->caps & ZR_OPT_ELEMENTWISE);
		for (t = 1; t <= 5; t++)
			rig_update(t);
		whole = rig;
		rig_close();
		rig_open(plugin, round ? momentum : none);
		for (t = 1; t <= 5; t++) { /* the parameters one by one, the second one first */
			rig.step.n_seg = 1;
			rig.step.seg = &rig.seg[1];
			rig_update(t);
			rig.step.seg = &rig.seg[0];
			rig_update(t);
		}
		assert_memory_equal(rig.master, whole.master, sizeof rig.master);
		assert_memory_equal(rig.state, whole.state, sizeof rig.state);
		rig_close();
	}
}

static void a_group_brings_its_own_options(void **state)
{
	static const char *const decay[] = { "weight_decay", "0.5", NULL };
	void *group;
	float before;
	(void)state;
	rig_open("optimizer/adamw", decay);
	group = test_options(rig.desc); /* weight_decay = 0 */
	rig.step.opts = group;
	memset(rig.grad, 0, sizeof rig.grad);
	rig.scalars = (struct zr_scalars){ .step = 1, .grad_mult = 1, .lr = 0.1f };
	before = rig.master[0];
	assert_int_equal(rig.v->step(rig.inst, &rig.step), ZR_OK);
	assert_true(rig.master[0] == before);
	rig.step.opts = rig.opts;
	assert_int_equal(rig.v->step(rig.inst, &rig.step), ZR_OK);
	assert_true(fabsf(rig.master[0] - 0.95f * before) < 1e-6f);
	free(group);
	rig_close();
}

static void sgd_without_momentum_needs_no_state(void **state)
{
	static const char *const none[] = { NULL }, *const momentum[] = { "momentum", "0.5", NULL };
	(void)state;
	rig_open("optimizer/sgd", none);
	assert_int_equal(rig.n_state, 0);
	rig_close();
	rig_open("optimizer/sgd", momentum);
	assert_int_equal(rig.n_state, 1);
	rig_close();
}

static void a_device_without_the_operation_is_refused_by_name(void **state)
{
	static const char *const none[] = { NULL };
	const struct zr_ops bare = { .size = sizeof bare };
	int round;
	(void)state;
	for (round = 0; round < 2; round++) {
		test_clear(host);
		rig_open(round ? "optimizer/sgd" : "optimizer/adamw", none);
		rig.step.ops = round ? NULL : &bare;
		assert_int_equal(rig.v->step(rig.inst, &rig.step), ZR_ENOTSUP);
		assert_non_null(strstr(test_error(host), round ? "no sgd operation" : "no adamw operation"));
		rig_close();
	}
}

static void refused(const char *plugin, const char *name, const char *text)
{
	const struct zr_desc *desc = test_plugin(plugin);
	void *opts = test_options(desc);
	if (!test_set(desc, opts, name, text))
		fail_msg("%s: %s = %s was taken", plugin, name, text);
	free(opts);
}

static void options_out_of_range_are_refused(void **state)
{
	(void)state;
	refused("optimizer/adamw", "betas", "2,0.9");
	refused("optimizer/adamw", "betas", "0.9,1");
	refused("optimizer/adamw", "betas", "0.9");
	refused("optimizer/adamw", "lr", "-1");
	refused("optimizer/adamw", "eps", "nan");
	refused("optimizer/sgd", "momentum", "1");
	refused("optimizer/sgd", "dampening", "1.5");
}

static void sgd_refuses_options_that_cannot_act_together_I7(void **state)
{
	const struct zr_desc *desc = test_plugin("optimizer/sgd");
	void *opts = test_options(desc);
	(void)state;
	test_clear(host);
	test_set(desc, opts, "nesterov", "yes");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host), "nesterov = yes needs momentum > 0 and dampening = 0, got 0 and 0");
	test_set(desc, opts, "momentum", "0.9");
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "dampening", "0.5");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	test_set(desc, opts, "nesterov", "no");
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "momentum", "0");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host), "dampening = 0.5 does nothing without momentum");
	free(opts);
}

static int setup(void **state)
{
	const struct zr_device_v1 *v;
	(void)state;
	host = test_host(2);
	device = test_plugin("device/cpu");
	v = test_iface(device, "zr.device/1");
	device_opts = test_options(device);
	if (test_create(host, device, device_opts, &device_inst))
		return -1;
	ops = v->ops(device_inst);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	device->destroy(device_inst);
	free(device_opts);
	test_host_free(host);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adamw_follows_torch_over_50_updates),
		cmocka_unit_test(sgd_follows_torch_over_50_updates),
		cmocka_unit_test(without_bias_correction_the_first_step_is_as_the_formula_says),
		cmocka_unit_test(padding_is_never_touched),
		cmocka_unit_test(the_bf16_copy_is_the_master_rounded_half_away),
		cmocka_unit_test(any_split_into_pieces_gives_the_same_bits_I1),
		cmocka_unit_test(a_group_brings_its_own_options),
		cmocka_unit_test(sgd_without_momentum_needs_no_state),
		cmocka_unit_test(a_device_without_the_operation_is_refused_by_name),
		cmocka_unit_test(options_out_of_range_are_refused),
		cmocka_unit_test(sgd_refuses_options_that_cannot_act_together_I7),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
