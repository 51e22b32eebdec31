/* SPDX-License-Identifier: Apache-2.0
 *
 * t_run_eval.c - what an evaluation changes: the best one, and what patience counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/run_eval.h"

static void no_number_is_never_the_best(void **state)
{
	struct zr_best b = ZR_BEST_NONE;
	(void)state;
	assert_false(zr_best_note(&b, NAN, 2, 1));
	assert_int_equal(b.step, -1);
	assert_int_equal(b.since, 1);
	assert_true(zr_best_note(&b, 3, 4, 1));
	assert_int_equal(b.since, 0);
	assert_false(zr_best_note(&b, NAN, 6, 1));
	assert_false(zr_best_note(&b, 3, 8, 1));
	assert_int_equal(b.step, 4);
	assert_true(b.loss == 3 && b.lowest == 3);
	assert_int_equal(b.since, 2);
}

/* At 5 a run ends, and the same run goes on: patience waits for what is below 3. */
static void patience_does_not_count_the_end_of_a_run(void **state)
{
	struct zr_best b = ZR_BEST_NONE;
	(void)state;
	zr_best_note(&b, 3, 2, 1);
	zr_best_note(&b, 4, 4, 1);
	assert_int_equal(b.since, 1);
	assert_false(zr_best_note(&b, 5, 5, 0));
	assert_int_equal(b.since, 1);
	assert_true(zr_best_note(&b, 1, 5, 0));
	assert_int_equal(b.since, 1);
	assert_true(b.loss == 1 && b.lowest == 3);

	assert_false(zr_best_note(&b, 2, 6, 1));
	assert_int_equal(b.since, 0);
	assert_true(b.loss == 1 && b.lowest == 2);
	assert_int_equal(b.step, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_number_is_never_the_best),
		cmocka_unit_test(patience_does_not_count_the_end_of_a_run),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
