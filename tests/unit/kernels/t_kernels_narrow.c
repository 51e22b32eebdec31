/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_narrow.c - numbers of 8 bits that rows or columns scale (ZR_MM_FP8): the nearest ones
 * of all that E4M3 and E5M2 have, the power of two that is meant, what is not finite, tails and
 * strides, the same bits in every variant.
 */
#include <math.h>
#include <string.h>

#include "kernels_fixture.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

#define ROWS  70
#define WIDTH 149
#define LD    153

/* ---- the formats, by their definition -------------------------------------------- */

struct format {
	int e5m2, mantissa, bias, finite; /* finite: codes of magnitudes that are finite numbers */
	int highest;                      /* power of two */
	double most;
};

static const struct format e4m3 = { 0, 3, 7, 127, 117, 448 };
static const struct format e5m2 = { 1, 2, 15, 124, 110, 57344 };

static double value_of(const struct format *f, int code)
{
	const int exponent = code >> f->mantissa, rest = code & ((1 << f->mantissa) - 1);
	if (!exponent)
		return ldexp(rest, 1 - f->bias - f->mantissa);
	return ldexp(1 + ldexp(rest, -f->mantissa), exponent - f->bias);
}

/* The nearest number; of two the one whose code is even. */
static double nearest(const struct format *f, double x)
{
	int best = 0;
	for (int code = 1; code < f->finite; code++) {
		const double now = fabs(value_of(f, code) - fabs(x));
		const double before = fabs(value_of(f, best) - fabs(x));
		if (now < before || (now == before && code % 2 == 0))
			best = code;
	}
	return copysign(value_of(f, best), x);
}

/* The largest power of two by which `most` stays within the format. */
static int power_of(const struct format *f, double most)
{
	int power = f->highest;
	while (ldexp(most, power) > f->most)
		power--;
	return power;
}

/* ---- a matrix -------------------------------------------------------------------- */

enum special { NAN_ROW = 3, INF_ROW = 5, ZERO_ROW = 7, TINY_ROW = 9, LEAST_ROW, HUGE_ROW, TOP_ROW };

/* Numbers over many powers of two. Row (or column) number `special` is what its name says. */
static uint16_t *numbers(int by_column)
{
	uint64_t seed = 11;
	uint16_t *x = fixture_buffer((int64_t)ROWS * LD, ZR_BF16);
	const int lines = by_column ? WIDTH : ROWS, length = by_column ? ROWS : WIDTH;

	for (int line = 0; line < lines; line++)
		for (int i = 0; i < length; i++) {
			const int at = by_column ? i * LD + line : line * LD + i;
			double v = fixture_draw(&seed) * ldexp(1, -(i * 7 + line) % 23);
			if (line == ZERO_ROW)
				v = 0;
			if (line == TINY_ROW)
				v = ldexp(v, -118);
			if (line == LEAST_ROW)
				v = ldexp(1 + i % 7, -133);
			if (line == HUGE_ROW)
				v = ldexp(v, 126);
			if (line == TOP_ROW && i == 0)
				v = 1.9921875; /* above 1.75: the next power of two */
			fixture_set(x, at, ZR_BF16, (double)(float)v);
			if (line == NAN_ROW && i == 1)
				x[at] = 0x7fc1;
			if (line == INF_ROW && i == length - 1)
				x[at] = 0xff80;
		}
	return x;
}

static void narrow(const struct zr_cpu_kernels *k, const struct zr_narrowing *n, int by_column)
{
	if (by_column) {
		k->narrow_columns(n, 0, ZR_NARROW_COLUMNS);
		k->narrow_columns(n, ZR_NARROW_COLUMNS, n->width);
	} else {
		k->narrow_rows(n, 0, 9);
		k->narrow_rows(n, 9, n->rows);
	}
}

static void check_line(const struct format *f, const uint16_t *x, const uint16_t *y, int line,
		       int length, int64_t x_step, int64_t y_step)
{
	double most = 0;
	for (int i = 0; i < length; i++)
		most = fmax(most, fabs(fixture_get(x, i * x_step, ZR_BF16)));

	for (int i = 0; i < length; i++) {
		const double from = fixture_get(x, i * x_step, ZR_BF16);
		const double to = fixture_get(y, i * y_step, ZR_BF16);
		if (line == NAN_ROW || line == INF_ROW) {
			assert_true(isnan(to));
			continue;
		}
		const int power = power_of(f, most);
		const double want = ldexp(nearest(f, ldexp(from, power)), -power);
		if (to != want)
			fail_msg("line %d, element %d: %a became %a, not %a (largest %a)", line, i,
				 from, to, want, most);
	}
}

static void each_is_the_nearest(const struct format *f, int by_column)
{
	const struct zr_cpu_kernels *k;
	EACH_VARIANT(k)
	{
		const uint16_t *x = numbers(by_column);
		uint16_t *y = fixture_buffer(ROWS * WIDTH, ZR_BF16);
		const struct zr_narrowing n = {
			.rows = ROWS, .width = WIDTH, .ld = LD, .from = x, .to = y, .e5m2 = f->e5m2
		};
		narrow(k, &n, by_column);
		for (int line = 0; line < (by_column ? WIDTH : ROWS); line++)
			if (by_column)
				check_line(f, x + line, y + line, line, ROWS, LD, WIDTH);
			else
				check_line(f, x + line * LD, y + line * WIDTH, line, WIDTH, 1, 1);
		fixture_release();
	}
}

static void rows_of_e4m3(void **state)
{
	(void)state;
	each_is_the_nearest(&e4m3, 0);
}

static void columns_of_e4m3(void **state)
{
	(void)state;
	each_is_the_nearest(&e4m3, 1);
}

static void rows_of_e5m2(void **state)
{
	(void)state;
	each_is_the_nearest(&e5m2, 0);
}

static void columns_of_e5m2(void **state)
{
	(void)state;
	each_is_the_nearest(&e5m2, 1);
}

/* By hand: the largest is 3, so that 448 / 3 = 149.3 allows 2^7. */
static void numbers_are_those_of_the_format(void **state)
{
	static const double from[] = { 3, -1, 0.1, 0x1p-13, 0x1.8p-17, 0x1p-17, 2.97, -2.97, 0 };
	static const double to[] = { 3, -1, 0x1.ap-4, 0x1p-13, 0x1p-16, 0, /* a tie */ 3, -3, 0 };
	const struct zr_cpu_kernels *k;
	const int n = sizeof from / sizeof *from;
	(void)state;
	EACH_VARIANT(k)
	{
		uint16_t *x = fixture_buffer(n, ZR_BF16), *y = fixture_buffer(n, ZR_BF16);
		struct zr_narrowing op = { .rows = 1, .width = n, .ld = n, .from = x, .to = y };
		for (int i = 0; i < n; i++) {
			const float nearest_bf16 = (float)from[i];
			uint32_t bits;
			memcpy(&bits, &nearest_bf16, sizeof bits);
			x[i] = (uint16_t)((bits + 0x8000u) >> 16);
		}
		k->narrow_rows(&op, 0, 1);
		for (int i = 0; i < n; i++)
			if (fixture_get(y, i, ZR_BF16) != to[i])
				fail_msg("%g became %a, not %a", from[i],
					 fixture_get(y, i, ZR_BF16), to[i]);
		fixture_release();
	}
}

/* What is a number of 8 bits already stays as it is: nothing is rounded twice. */
static void again_changes_nothing(void **state)
{
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		const uint16_t *x = numbers(0);
		uint16_t *y = fixture_buffer(ROWS * WIDTH, ZR_BF16);
		uint16_t *z = fixture_buffer(ROWS * WIDTH, ZR_BF16);
		struct zr_narrowing n = {
			.rows = ROWS, .width = WIDTH, .ld = LD, .from = x, .to = y
		};
		k->narrow_rows(&n, 0, ROWS);
		n.from = y;
		n.to = z;
		n.ld = WIDTH;
		k->narrow_rows(&n, 0, ROWS);
		assert_memory_equal(y, z, ROWS * WIDTH * 2);
		fixture_release();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_e4m3),
		cmocka_unit_test(columns_of_e4m3),
		cmocka_unit_test(rows_of_e5m2),
		cmocka_unit_test(columns_of_e5m2),
		cmocka_unit_test(numbers_are_those_of_the_format),
		cmocka_unit_test(again_changes_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
