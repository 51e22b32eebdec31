/* SPDX-License-Identifier: Apache-2.0
 *
 * t_forecast.c - a program on queues takes as long as can be counted by hand; operations cost what
 * their sizes and rates say; a card's rates are known by its name.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/forecast/forecast.h"
#include "train/forecast/source.h"
#include "train/forecast/tally.h"

#define N 4

/* Two reads, each before what computes on it. */
static int32_t after[] = { 0, 1 };
static struct zr_instr instr[N] = {
	{ .kind = ZR_I_READ, .queue = ZR_Q_STORE },
	{ .kind = ZR_I_READ, .queue = ZR_Q_STORE },
	{ .kind = ZR_I_LAYER, .queue = ZR_Q_COMPUTE, .after = 0, .n_after = 1 },
	{ .kind = ZR_I_LAYER, .queue = ZR_Q_COMPUTE, .after = 1, .n_after = 1 },
};
static const struct zr_lowered program = { .n = N, .instr = instr, .dep = after };

static const double none[N];

/* Seconds of a program of at most N instructions. beside: what each takes from what computes. */
static double took(const struct zr_lowered *p, int host_ops, int unbound, const double seconds[],
		   const double beside[])
{
	struct zr_setup *s = calloc(1, sizeof *s);
	struct zr_cost cost[N];
	double end[N];

	assert_non_null(s);
	s->facts.device_info.host_ops = (uint32_t)host_ops;
	for (int32_t n = 0; n < p->n; n++)
		cost[n] = (struct zr_cost){ seconds[n], beside[n], p->instr[n].queue };

	double t = zr_forecast_run(&s->facts, p, cost, unbound, end);
	free(s);
	return t;
}

static double run(int host_ops, int unbound, const double cost[N])
{
	return took(&program, host_ops, unbound, cost, none);
}

static void test_queues(void **state)
{
	(void)state;
	/* reads 0-2, 2-4; computes 2-3 and, after the second read, 4-5 */
	assert_float_equal(run(1, 0, (double[]){ 2, 2, 1, 1 }), 5, 1e-12);
	assert_float_equal(run(0, 0, (double[]){ 2, 2, 1, 1 }), 5, 1e-12);
	/* computes 1-4, 4-7: the second read hides behind the first layer */
	assert_float_equal(run(1, 0, (double[]){ 1, 1, 3, 3 }), 7, 1e-12);
	/* both reads at once: 0-2; computes 2-3, 3-4 */
	assert_float_equal(run(1, 1, (double[]){ 2, 2, 1, 1 }), 4, 1e-12);
}

/* What the thread does itself holds up what comes after, whatever that waits for. */
static void test_thread(void **state)
{
	struct zr_instr order[2] = { { .kind = ZR_I_LAYER, .queue = ZR_Q_COMPUTE },
				     { .kind = ZR_I_WRITE, .queue = ZR_Q_STORE } };
	const struct zr_lowered p = { .n = 2, .instr = order };
	const double cost[] = { 3, 2 }, sums[] = { 1, 1, 0, 0 }, reads[] = { 1, 1, 3, 3 };
	(void)state;
	assert_float_equal(took(&p, 1, 0, cost, none), 5, 1e-12);
	/* checksums of both reads, 0-2; computes 2-5, 5-8 */
	assert_float_equal(took(&program, 1, 0, reads, sums), 8, 1e-12);
	/* a card computes beside it */
	assert_float_equal(took(&p, 0, 0, cost, none), 3, 1e-12);
}

/* A card copies one way while it copies the other; copies of one way come one behind the other. */
static void test_both_ways(void **state)
{
	struct zr_instr copies[3] = { { .kind = ZR_I_COPY, .queue = ZR_Q_COPY },
				      { .kind = ZR_I_COPY, .queue = ZR_Q_COPY },
				      { .kind = ZR_I_COPY, .queue = ZR_Q_COPY } };
	const struct zr_lowered p = { .n = 3, .instr = copies };
	const struct zr_cost cost[] = { { 2, 0, ZR_FQ_IN },
					{ 3, 0, ZR_FQ_OUT },
					{ 2, 0, ZR_FQ_IN } };
	struct zr_setup *s = calloc(1, sizeof *s);
	double end[3];
	(void)state;
	assert_non_null(s);
	assert_float_equal(zr_forecast_run(&s->facts, &p, cost, 0, end), 4, 1e-12);
	assert_float_equal(end[1], 3, 1e-12);
	free(s);
}

/* A card's copy starts after the layer that it depends on, while the next one is computed; without
 * one, at once. */
static void test_copies(void **state)
{
	static int32_t first[] = { 0 };
	struct zr_instr order[4] = {
		{ .kind = ZR_I_LAYER, .queue = ZR_Q_COMPUTE },
		{ .kind = ZR_I_LAYER, .queue = ZR_Q_COMPUTE },
		{ .kind = ZR_I_COPY, .queue = ZR_Q_COPY, .n_after = 1 },
		{ .kind = ZR_I_COPY, .queue = ZR_Q_COPY },
	};
	const struct zr_lowered p = { .n = 4, .instr = order, .dep = first };
	struct zr_lowered less = p;
	(void)state;
	/* layers 0-1, 1-6; copies 1-3, 3-5 */
	assert_float_equal(took(&p, 0, 0, (double[]){ 1, 5, 2, 2 }, none), 6, 1e-12);
	/* copies 1-7, 7-9 */
	assert_float_equal(took(&p, 0, 0, (double[]){ 1, 5, 6, 2 }, none), 9, 1e-12);
	order[2].n_after = 0;
	less.n = 3;
	assert_float_equal(took(&less, 0, 0, (double[]){ 1, 5, 6, 2 }, none), 6, 1e-12);
}

static void test_work(void **state)
{
	const double at[] = { 8, 8, 8 };
	struct zr_rates r = { .processors = 1 };
	struct zr_error err = { 0 };
	struct zr_ops no_ops = { .size = sizeof no_ops };
	struct zr_tally t;
	(void)state;
	assert_int_equal(zr_rates_set(&r, "matmul.fp32.nn", 1, 1, at, 3, 1000, &err), 0);
	assert_int_equal(zr_rates_set(&r, "matmul.fp32.tn", 1, 1, at, 3, 500, &err), 0);
	assert_int_equal(zr_rates_set(&r, "copy", 1, 1, at, 1, 100, &err), 0);
	zr_tally_open(&t, &no_ops, &r, 1, 1);
	struct zr_op_matmul op = {
		.size = sizeof op, .a.dtype = ZR_F32, .d.dtype = ZR_F32, .m = 10, .n = 20, .k = 30
	};
	assert_int_equal(t.ops.matmul(&t.ops, NULL, &op), 0);
	/* and 2400 bytes of the weight */
	assert_float_equal(t.seconds, 12 + 12, 1e-9);
	op.flags = ZR_MM_TRANS_A;
	assert_int_equal(t.ops.matmul(&t.ops, NULL, &op), 0);
	assert_float_equal(t.seconds, 24 + 24 + 4, 1e-9);
	assert_float_equal(t.flops, 24000, 1e-9);
	/* no rate of it: three times 4 bytes of each element, half of them written */
	struct zr_op_residual add = { .size = sizeof add, .dtype = ZR_F32, .n = 50 };
	assert_int_equal(t.ops.residual(&t.ops, NULL, &add), 0);
	assert_float_equal(t.without, 3, 1e-9);
	assert_float_equal(t.seconds, 55, 1e-9);
	zr_rates_free(&r);
}

/* A card reads parameters while it computes: the slower of the two counts. */
static void test_streams(void **state)
{
	const double at[] = { 8, 8, 8 };
	struct zr_rates r = { .processors = 1 };
	struct zr_error err = { 0 };
	struct zr_ops no_ops = { .size = sizeof no_ops };
	struct zr_tally t;
	struct zr_op_matmul op = {
		.size = sizeof op, .a.dtype = ZR_F32, .d.dtype = ZR_F32, .m = 10, .n = 20, .k = 30
	};
	(void)state;
	assert_int_equal(zr_rates_set(&r, "matmul.fp32.nn", 1, 1, at, 3, 1000, &err), 0);
	assert_int_equal(zr_rates_set(&r, "matmul.fp32.nt", 1, 1, at, 3, 10000, &err), 0);
	assert_int_equal(zr_rates_set(&r, "copy", 1, 1, at, 1, 600, &err), 0);
	zr_tally_open(&t, &no_ops, &r, 1, 1);
	t.streams = 1;
	assert_int_equal(t.ops.matmul(&t.ops, NULL, &op), 0); /* 12 s, and 2 for 2400 bytes */
	assert_float_equal(t.seconds, 12, 1e-9);
	op.flags = ZR_MM_TRANS_B;
	assert_int_equal(t.ops.matmul(&t.ops, NULL, &op), 0); /* 1.2 s, and 2 */
	assert_float_equal(t.seconds, 12 + 2, 1e-9);
	zr_rates_free(&r);
}

/* A rate that was asked for before is that of its name and size alone. */
static void test_asked(void **state)
{
	const double one[] = { 1, 1, 1 };
	struct zr_rates r = { .processors = 1 };
	struct zr_error err = { 0 };
	struct zr_ops no_ops = { .size = sizeof no_ops };
	struct zr_tally t;
	(void)state;
	assert_int_equal(zr_rates_set(&r, "copy", 1, 1, one, 1, 4, &err), 0);
	assert_int_equal(zr_rates_set(&r, "fold.fp32", 1, 1, one, 1, 2, &err), 0);
	zr_tally_open(&t, &no_ops, &r, 1, 1);
	for (int again = 0; again < 2; again++)
		for (int n = 1; n < 2000; n++) {
			assert_float_equal(zr_tally_seconds(&t, n, "copy", 1, n, 1, 1), n / 4.0,
					   1e-9);
			assert_float_equal(zr_tally_seconds(&t, n, "fold.fp32", 1, n, 1, 1),
					   n / 2.0, 1e-9);
			assert_float_equal(zr_tally_seconds(&t, n, "none", 1, n, 1, 1), 0, 0);
		}
	zr_rates_free(&r);
}

/* Half of the keys in the window, less what the first ones lack. */
static void test_window(void **state)
{
	const double at[] = { 64, 16, 1 };
	struct zr_rates r = { .processors = 1 };
	struct zr_error err = { 0 };
	struct zr_ops no_ops = { .size = sizeof no_ops };
	struct zr_tally t;
	struct zr_op_attention op = { .size = sizeof op,
				      .dtype = ZR_F32,
				      .batch = 1,
				      .length = 64,
				      .heads = 1,
				      .head_dim = 16 };
	(void)state;
	assert_int_equal(zr_rates_set(&r, "attention.fp32", 1, 1, at, 2, 1, &err), 0);
	zr_tally_open(&t, &no_ops, &r, 1, 1);
	assert_int_equal(t.ops.attention(&t.ops, NULL, &op), 0);
	assert_float_equal(t.flops, 2 * 64 * 64 * 16, 1e-9);
	op.window = 32;
	assert_int_equal(t.ops.attention(&t.ops, NULL, &op), 0);
	assert_float_equal(t.flops, 2 * 64 * 64 * 16 * 1.75, 1e-6);
	op.first = 32; /* each of these queries has a whole window */
	assert_int_equal(t.ops.attention(&t.ops, NULL, &op), 0);
	assert_float_equal(t.flops, 2 * 64 * 64 * 16 * 2.25, 1e-6);
	op.window = 0;
	assert_int_equal(t.ops.attention(&t.ops, NULL, &op), 0);
	assert_float_equal(t.flops, 2 * 64 * 64 * 16 * 3.0, 1e-6);
	zr_rates_free(&r);
}

static void test_cards(void **state)
{
	struct zr_rates r = { 0 };
	struct zr_error err = { 0 };
	const double large[] = { 8192, 8192, 8192 }, small[] = { 128, 128, 8192 };
	(void)state;
	assert_int_equal(zr_card_rates("H100", &r, &err), 0);
	double most = zr_rate_at(&r, "matmul.bf16.nn", 1, 1, large, 3);
	assert_true(most < zr_card_peak("NVIDIA H100 80GB HBM3", ZR_BF16));
	assert_true(zr_rate_at(&r, "matmul.bf16.nn", 1, 1, small, 3) < most / 16);
	zr_rates_free(&r);
	assert_int_not_equal(zr_card_rates("Voodoo 2", &r, &err), 0);
	assert_non_null(strstr(err.text, "known are B200"));
	zr_rates_free(&r);
	assert_float_equal(zr_card_peak("cpu", ZR_F32), 0, 0);
}

/* What was measured on an H200, as bench/results/gpu.txt has it, in operations per second or in
 * elements of bf16, of which each operation touches so many bytes. */
static void test_measured(void **state)
{
	static const struct {
		const char *name;
		double size[3], rate;
	} limit[] = {
		{ "matmul.bf16.nn", { 8192, 8192, 8192 }, 691.2e12 },
		{ "matmul.bf16.nt", { 65536, 3072, 768 }, 676.9e12 },
		{ "matmul.bf16.tn", { 4096, 11008, 16384 }, 698.6e12 },
		{ "attention.bf16", { 1024, 64, 1 }, 234.6e12 },
		{ "attention_bwd.bf16", { 1024, 64, 1 }, 179.7e12 },
		{ "head_loss.bf16", { 16384, 768, 50257 }, 552.5e12 },
		{ "rmsnorm.bf16", { 1 << 27, 1, 1 }, 2145e9 / 4 },
		{ "layernorm_bwd.bf16", { 1 << 27, 1, 1 }, 2513e9 / 8 },
		{ "swiglu_bwd.bf16", { 1 << 27, 1, 1 }, 3382e9 / 12 },
		{ "adamw.fp32", { 1 << 27, 1, 1 }, 3952e9 / 28 },
		{ "copy", { 1 << 27, 1, 1 }, 4199e9 / 2 },
		{ "to_device", { 1 << 27, 1, 1 }, 55.55e9 },
	};
	struct zr_rates r = { 0 };
	struct zr_error err = { 0 };
	char by[256];
	(void)state;
	assert_int_equal(zr_card_rates("H200", &r, &err), 0);
	for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
		int dims = 1;
		while (dims < 3 && limit[i].size[dims] > 1)
			dims++;
		double rate = zr_rate_at(&r, limit[i].name, 1, 1, limit[i].size, dims);
		if (fabs(rate / limit[i].rate - 1) > 0.06)
			fail_msg("%s: %g of %g", limit[i].name, rate, limit[i].rate);
	}

	zr_rates_free(&r);
	zr_card_by("h200", by, sizeof by);
	assert_null(strstr(by, "family"));
	zr_card_by("A100", by, sizeof by);
	assert_non_null(strstr(by, "of that of H200, of another family"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queues),    cmocka_unit_test(test_thread),
		cmocka_unit_test(test_both_ways), cmocka_unit_test(test_work),
		cmocka_unit_test(test_streams),   cmocka_unit_test(test_window),
		cmocka_unit_test(test_asked),     cmocka_unit_test(test_cards),
		cmocka_unit_test(test_measured),  cmocka_unit_test(test_copies),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
