/* SPDX-License-Identifier: Apache-2.0
 *
 * Bases that device/cpu lends optimizers of whole matrices: they are orthogonal, of the right space
 * and order, whatever the rank, and the same bits for any number of workers and instructions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/testdevice.h"

#include <math.h>
#include <zeroth/matrices.h>

#define MOST 257

static float a[MOST * MOST], q[MOST * MOST], other[MOST * MOST];
static uint64_t work[ZR_BASIS_WORK(MOST) / 8];

/* Numbers in [-2, 2), by Knuth's MMIX generator. */
static void draw(float *x, int64_t n)
{
	uint64_t state = 1;
	for (int64_t i = 0; i < n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		x[i] = (float)(state >> 40 & 0xff) / 64 - 2;
	}
}

/* a[n, n] = G G' of a drawn G[n, rank]. */
static void draw_square(int64_t n, int64_t rank)
{
	draw(other, n * rank);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++) {
			double sum = 0;
			for (int64_t r = 0; r < rank; r++)
				sum += (double)other[i * rank + r] * other[k * rank + r];
			a[i * n + k] = (float)sum;
		}
}

/* The largest difference of q' q from the identity. */
static double skewed(int64_t n)
{
	double most = 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k <= i; k++) {
			double sum = i == k ? -1 : 0;
			for (int64_t r = 0; r < n; r++)
				sum += (double)q[r * n + i] * q[r * n + k];
			most = fmax(most, fabs(sum));
		}
	return most;
}

static struct zr_opt_step step_on(const struct dev *d)
{
	return (struct zr_opt_step){ .size = sizeof(struct zr_opt_step),
				     .native = d->ops->native,
				     .matrices = d->ops->matrices };
}

static int orthogonal(const struct dev *d, int64_t n, float *x)
{
	const struct zr_opt_step s = step_on(d);
	memset(work, 0x7f, sizeof work); /* values left over */
	return s.matrices->orthogonal(&s, n, x, work);
}

static int eigenvectors(const struct dev *d, int64_t n)
{
	const struct zr_opt_step s = step_on(d);
	memset(work, 0x7f, sizeof work);
	return s.matrices->eigenvectors(&s, n, a, q, work);
}

/* ---- the orthogonal factor ---- */

/* Q' A is R, upper triangular. */
static void look_at_factor(const struct dev *d, int64_t n)
{
	double size = 0, below = 0;
	memcpy(q, a, sizeof q);
	assert_int_equal(orthogonal(d, n, q), ZR_OK);
	assert_true(skewed(n) < 1e-6);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++) {
			double sum = 0;
			for (int64_t r = 0; r < n; r++)
				sum += (double)q[r * n + i] * a[r * n + k];
			size = fmax(size, fabs(sum));
			if (i > k)
				below = fmax(below, fabs(sum));
		}
	assert_true(below <= 2e-6 * size);
}

static void factors_are_orthogonal(void **state)
{
	static const int64_t sides[] = { 1, 2, 7, 16, 33, 130 };
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 2, "auto"), 0);
	for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
		draw(a, sides[i] * sides[i]);
		look_at_factor(&d, sides[i]);
	}

	memset(a, 0, sizeof a);
	look_at_factor(&d, 20);
	draw_square(40, 3);
	look_at_factor(&d, 40);
	dev_close(&d);
}

/* numpy.linalg.qr of [[1, 2], [3, 4]]: LAPACK's signs */
static void signs_are_those_of_lapack(void **state)
{
	static const float given[] = { 1, 2, 3, 4 };
	static const double want[] = { -0.316227766, -0.9486832981, -0.9486832981, 0.316227766 };
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), 0);
	memcpy(q, given, sizeof given);
	assert_int_equal(orthogonal(&d, 2, q), ZR_OK);
	for (int i = 0; i < 4; i++)
		assert_true(fabs(q[i] - want[i]) < 1e-7);
	dev_close(&d);
}

/* ---- eigenvectors ---- */

/* A q = value q, and values fall. */
static void look_at_eigenvectors(const struct dev *d, int64_t n)
{
	double before = INFINITY, size = 0;
	assert_int_equal(eigenvectors(d, n), ZR_OK);
	assert_true(skewed(n) < 1e-6);
	for (int64_t k = 0; k < n; k++) {
		double y[MOST], value = 0, off = 0;
		for (int64_t i = 0; i < n; i++) {
			y[i] = 0;
			for (int64_t r = 0; r < n; r++)
				y[i] += (double)a[i * n + r] * q[r * n + k];
			value += y[i] * q[i * n + k];
		}

		size = fmax(size, fabs(value));
		for (int64_t i = 0; i < n; i++)
			off = fmax(off, fabs(y[i] - value * q[i * n + k]));
		assert_true(off <= 2e-6 * size);
		assert_true(value <= before + 2e-6 * size);
		before = value;
	}
}

static void eigenvectors_are_that(void **state)
{
	static const int64_t sides[] = { 1, 2, 3, 16, 37, 130 };
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 2, "auto"), 0);
	for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
		draw_square(sides[i], sides[i]);
		look_at_eigenvectors(&d, sides[i]);
		draw_square(sides[i], (sides[i] + 2) / 3);
		look_at_eigenvectors(&d, sides[i]);
	}

	memset(a, 0, sizeof a);
	look_at_eigenvectors(&d, 20);
	for (int i = 0; i < 20; i++)
		a[i * 20 + i] = 3;
	look_at_eigenvectors(&d, 20);
	for (int i = 0; i < 400; i++)
		a[i] = 1e-30f;
	look_at_eigenvectors(&d, 20);
	for (int i = 0; i < 20; i++)
		a[i * 20 + i] = i % 2 ? 1e30f : -1e-30f;
	look_at_eigenvectors(&d, 20);
	dev_close(&d);
}

/* ---- both ---- */

static void workers_and_instructions_agree(void **state)
{
	static const struct {
		int workers;
		const char *isa;
	} way[] = { { 1, "scalar" }, { 3, "scalar" }, { 7, "auto" } };
	static float first[2][MOST * MOST];
	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		struct dev d;
		assert_int_equal(dev_open(&d, way[i].workers, way[i].isa), 0);
		draw_square(MOST, MOST);
		assert_int_equal(eigenvectors(&d, MOST), ZR_OK);
		draw(other, MOST * MOST);
		assert_int_equal(orthogonal(&d, MOST, other), ZR_OK);
		if (!i) {
			memcpy(first[0], q, sizeof q);
			memcpy(first[1], other, sizeof other);
		}
		assert_memory_equal(first[0], q, sizeof q);
		assert_memory_equal(first[1], other, sizeof other);
		dev_close(&d);
	}
}

static void what_is_not_finite_is_refused(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), 0);
	for (int i = 0; i < 3; i++) {
		draw_square(9, 9);
		a[40] = bad[i];
		assert_int_equal(eigenvectors(&d, 9), ZR_EINVAL);
		assert_int_equal(orthogonal(&d, 9, a), ZR_EINVAL);
		assert_non_null(strstr(test_error(d.h), "9 x 9 has values that are not finite"));
	}
	dev_close(&d);
}

static void products_turn_their_factors(void **state)
{
	static const float x[] = { 1, 2, 3, 4, 5, 6 }, y[] = { 7, 8, 9, 10, 11, 12 };
	static const float want[4][4] = {
		{ 58, 64, 139, 154 }, /* [2, 3] [3, 2] */
		{ 89, 98, 116, 128 }, /* [3, 2]' [3, 2] */
		{ 50, 68, 122, 167 }, /* [2, 3] [2, 3]' */
		{ 76, 103, 100, 136 } /* [3, 2]' [2, 3]' */
	};
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), 0);
	for (uint32_t flags = 0; flags < 4; flags++) {
		const struct zr_opt_step s = step_on(&d);
		s.matrices->product(&s, flags, 2, 2, 3, x, y, q);
		assert_memory_equal(q, want[flags], sizeof want[flags]);
	}
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(factors_are_orthogonal),
		cmocka_unit_test(signs_are_those_of_lapack),
		cmocka_unit_test(eigenvectors_are_that),
		cmocka_unit_test(workers_and_instructions_agree),
		cmocka_unit_test(what_is_not_finite_is_refused),
		cmocka_unit_test(products_turn_their_factors),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
