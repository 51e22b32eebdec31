/* SPDX-License-Identifier: Apache-2.0
 *
 * t_exact.c - I1: sums of doubles do not depend on their order.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/exact.h"

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Random finite doubles over the whole range of exponents. */
static double any_double(void)
{
	for (;;) {
		uint64_t bits = next();
		double x;
		memcpy(&x, &bits, sizeof x);
		if (isfinite(x) && fabs(x) < 0x1p1000)
			return x;
	}
}

static double sum_of(const double *x, int n)
{
	struct zr_exact e;
	e = (struct zr_exact){ 0 };
	for (int i = 0; i < n; i++)
		zr_exact_add(&e, x[i]);
	return zr_exact_value(&e);
}

static void I1_order_does_not_matter(void **unused)
{
	(void)unused;
	double x[257];
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 257; i++)
			x[i] = any_double();
		double first = sum_of(x, 257);
		for (int i = 256; i > 0; i--) {
			int j = (int)(next() % (uint64_t)(i + 1));
			double t = x[i];
			x[i] = x[j];
			x[j] = t;
		}
		double second = sum_of(x, 257);
		assert_memory_equal(&first, &second, sizeof first);
	}
}

static void I1_merging_parts_equals_the_whole(void **unused)
{
	(void)unused;
	double x[100];
	struct zr_exact a, b;
	for (int i = 0; i < 100; i++)
		x[i] = any_double();
	double whole = sum_of(x, 100);
	a = (struct zr_exact){ 0 };
	b = (struct zr_exact){ 0 };
	for (int i = 0; i < 100; i++)
		zr_exact_add(i % 3 ? &a : &b, x[i]);
	zr_exact_merge(&a, &b);
	double merged = zr_exact_value(&a);
	assert_memory_equal(&whole, &merged, sizeof whole);
}

static void sums_are_rounded_once(void **unused)
{
	(void)unused;
	double big[] = { 1e300, 1.0, -1e300 };
	assert_true(sum_of(big, 3) == 1.0);
	double tie[] = { 1.0, 0x1p-53 };
	assert_true(sum_of(tie, 2) == 1.0);
	double above[] = { 1.0, 0x1p-53, 0x1p-1074 };
	assert_true(sum_of(above, 3) == 1.0 + 0x1p-52);
	above[2] = 0x1p-500; /* and zeros below it */
	assert_true(sum_of(above, 3) == 1.0 + 0x1p-52);
	double tiny[] = { 0x1p-1074, 0x1p-1074, 0x1p-1074 };
	assert_true(sum_of(tiny, 3) == 3 * 0x1p-1074);
	double cancel[] = { 0.1, 0.2, -0.3 };
	assert_true(sum_of(cancel, 3) == 0x1p-55); /* 0.1 + 0.2 - 0.3 of these doubles, exactly */
	double negative[] = { -1.5, -2.25 };
	assert_true(sum_of(negative, 2) == -3.75);
	assert_true(sum_of(negative, 0) == 0.0);
}

/* Against long double where that is exact: integers up to 2^60. */
static void sums_of_integers_are_right(void **unused)
{
	(void)unused;
	for (int round = 0; round < 200; round++) {
		double x[64];
		int64_t total = 0;
		for (int i = 0; i < 64; i++) {
			int64_t v = (int64_t)(next() >> 12) - ((int64_t)1 << 51);
			x[i] = (double)v;
			total += v;
		}
		assert_true(sum_of(x, 64) == (double)total);
	}
}

static void non_finite_terms_are_counted(void **unused)
{
	(void)unused;
	double x[] = { 1, INFINITY, NAN };
	struct zr_exact e;
	e = (struct zr_exact){ 0 };
	for (int i = 0; i < 3; i++)
		zr_exact_add(&e, x[i]);
	assert_int_equal(e.nonfinite, 2);
	assert_true(isnan(zr_exact_value(&e)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I1_order_does_not_matter),
		cmocka_unit_test(I1_merging_parts_equals_the_whole),
		cmocka_unit_test(sums_are_rounded_once),
		cmocka_unit_test(sums_of_integers_are_right),
		cmocka_unit_test(non_finite_terms_are_counted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
