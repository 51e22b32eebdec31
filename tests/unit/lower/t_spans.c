/* SPDX-License-Identifier: Apache-2.0
 *
 * t_spans.c - the map of who touched which bytes last, when it has many spans: what instructions
 * wait for stays right, and the time grows with their number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "order_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

static struct zr_setup setup;
static struct zr_lowered program;

static int fresh(void **unused)
{
	(void)unused;
	fixture_setup(&setup, 1 << 20, 0);
	fixture_free(&program);
	return 0;
}

static int gone(void **unused)
{
	(void)unused;
	fixture_free(&program);
	return 0;
}

static void touch(int kind, int queue, uint32_t access, uint64_t at, uint64_t bytes)
{
	fixture_add(&program, kind, queue);
	fixture_touch(&program, access, ZR_R_PARAM, ZR_MINE, at, bytes);
}

static void copy(uint32_t access, uint64_t at, uint64_t bytes)
{
	touch(ZR_I_COPY, ZR_Q_COPY, access, at, bytes);
}

static void order(void)
{
	struct zr_error err = { 0 };
	if (zr_order(&setup, &program, &err) || zr_verify(&setup, &program, &err))
		fail_msg("%s", err.text);
}

/* Instruction j waits for so many others. */
static void waits_for(int32_t j, int32_t n)
{
	assert_int_equal(program.instr[j].n_after, n);
}

#define N 1009

/* Each byte of a range has its own writer, and these come in no order. */
static void many_spans(void **unused)
{
	(void)unused;
	for (int i = 0; i < N; i++)
		copy(ZR_WRITES, (uint64_t)i * 601 % N, 1);
	copy(ZR_READS, 100, 700);
	copy(ZR_WRITES, 300, 300);
	copy(ZR_READS, 0, N);
	copy(ZR_WRITES, 0, N + 1);
	copy(ZR_READS, 400, 1);
	order();
	for (int i = 0; i < N; i++) {
		int at = i * 601 % N, read = at >= 100 && at < 800;
		waits_for(i, 0);
		assert_int_equal(fixture_waits(&program, N, i), read);
		assert_int_equal(fixture_waits(&program, N + 2, i), !read);
	}
	waits_for(N, 700);
	waits_for(N + 1, 1);
	assert_true(fixture_waits(&program, N + 1, N));
	waits_for(N + 2, N - 700 + 1);
	assert_true(fixture_waits(&program, N + 2, N + 1));
	waits_for(N + 3, 1);
	assert_true(fixture_waits(&program, N + 3, N + 2));
	waits_for(N + 4, 1);
	assert_true(fixture_waits(&program, N + 4, N + 3));
}

/* Processor time for ordering and verifying n writes, each to a lower address than all before
 * it. */
static double descending(int n)
{
	fixture_free(&program);
	for (int i = n; i > 0; i--)
		touch(ZR_I_LAYER, ZR_Q_COMPUTE, ZR_WRITES, 2 * (uint64_t)i, 1);
	clock_t start = clock();
	order();
	return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Takes the least of several times, as other processes disturb them. */
static void grows_linearly(void **unused)
{
	(void)unused;
	double few = 1e9, many = 1e9;
	for (int i = 0; i < 3; i++) {
		double t = descending(4000);
		few = t < few ? t : few;
		t = descending(64000);
		many = t < many ? t : many;
	}
	printf("# 4000 writes: %.4f s, 64000: %.4f s\n", few, many);
	/* a map that moves all spans behind a new one: 256 or more */
	assert_true(many < 120 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(many_spans, fresh),
		cmocka_unit_test_setup(grows_linearly, fresh),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, gone);
}
