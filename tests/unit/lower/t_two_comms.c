/* SPDX-License-Identifier: Apache-2.0
 *
 * t_two_comms.c - where device memory has a comm of its own, a collective on one comm waits for
 * those under way on the other: each moves on only while somebody waits for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "order_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

static struct zr_setup setup;
static struct zr_lowered program;

/* A collective that sends bytes [at, at + 8). */
static int32_t post(uint64_t at, int device)
{
	int32_t i = fixture_add(&program, ZR_I_COLLECTIVE, ZR_Q_COMM);
	program.instr[i].flags = device ? ZR_F_DEVICE : 0;
	fixture_touch(&program, ZR_READS, ZR_R_PARAM, ZR_MINE, at, 8);
	return i;
}

static void six_collectives(int two_comms)
{
	static const int on_device[] = { 0, 0, 1, 1, 1, 0 };
	struct zr_error err = { 0 };
	fixture_setup(&setup, 1 << 20, 0);
	fixture_free(&program);
	setup.facts.two_comms = two_comms;
	for (uint64_t i = 0; i < 6; i++)
		post(8 * i, on_device[i]);
	if (zr_order(&setup, &program, &err) || zr_verify(&setup, &program, &err))
		fail_msg("%s", err.text);
}

static void one_comm_needs_no_order(void **unused)
{
	(void)unused;
	six_collectives(0);
	assert_int_equal(program.n_dep, 0);
	fixture_free(&program);
}

static void the_other_comm_is_waited_for(void **unused)
{
	(void)unused;
	six_collectives(1);
	assert_int_equal(program.n_dep, 5);
	assert_true(fixture_waits(&program, 2, 0) && fixture_waits(&program, 2, 1));
	assert_true(fixture_waits(&program, 5, 2) && fixture_waits(&program, 5, 3) &&
		    fixture_waits(&program, 5, 4));
	fixture_free(&program);
}

static void no_wait_can_be_left_out(void **unused)
{
	(void)unused;
	six_collectives(1);
	for (int32_t j = 0; j < program.n; j++)
		for (int32_t k = 0; k < program.instr[j].n_after; k++) {
			struct zr_error err = { 0 };
			struct fixture_cut cut = fixture_take(&program, j, k);
			assert_int_equal(zr_verify(&setup, &program, &err), ZR_ESTATE);
			assert_non_null(strstr(err.text, "is under way on another comm"));
			fixture_put_back(&program, cut);
		}
	fixture_free(&program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_comm_needs_no_order),
		cmocka_unit_test(the_other_comm_is_waited_for),
		cmocka_unit_test(no_wait_can_be_left_out),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
