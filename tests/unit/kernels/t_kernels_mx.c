/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_mx.c - casts into ZR_MXINT8 and out of it: what each byte says, nearest codes, what
 * comes back, ends of tensors, the same bits in every variant; and folds of codes.
 */
#include "cpu/mx.h"

#include <stdlib.h>

#include "kernels_fixture.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

#define BLOCKS 5
#define ALL    (BLOCKS * ZR_BLOCK)
#define N      (ALL - 37) /* the last block has fewer elements, and so has its last group */

/* Element j of group g. */
#define AT(g, j) ((g)*ZR_MX_SHARING + (j))

/* Ordinary numbers; groups of zeros, of one number, of tiny and of huge ones. */
static float *numbers(void)
{
	uint64_t seed = 5;
	float *x = fixture_buffer(N, ZR_F32);
	for (int i = 0; i < N; i++)
		x[i] = (float)(fixture_draw(&seed) * 0.731);
	for (int j = 0; j < ZR_MX_SHARING; j++) {
		x[AT(2, j)] = 0;
		x[AT(3, j)] = j == 9 ? -3e-5f : -0.0f;
		x[AT(4, j)] *= 0x1p-119f;
		x[AT(5, j)] *= 0x1p126f;
		x[AT(6, j)] *= 0x1p-140f;
		x[AT(7, j)] *= 0.377f * (float)j;
		x[AT(8, j)] = 0x1.fffffep-4f; /* rounds to 128, which no code is */
	}
	return x;
}

static uint8_t *encoded(const struct zr_cpu_kernels *k, int32_t from, const void *x)
{
	uint8_t *to = fixture_buffer(BLOCKS * ZR_MX_BLOCK / 4, ZR_F32);
	struct zr_op_cast op = { .n = N,
				 .src = zr_array_at(from, x),
				 .dst = zr_array_at(ZR_MXINT8, to) };
	k->mx_encode(&op, 0, 2);
	k->mx_encode(&op, 2, BLOCKS);
	return to;
}

static void *decoded(const struct zr_cpu_kernels *k, const uint8_t *from, int32_t to)
{
	void *x = fixture_buffer(N, to);
	struct zr_op_cast op = { .n = N,
				 .src = zr_array_at(ZR_MXINT8, from),
				 .dst = zr_array_at(to, x) };
	k->mx_decode(&op, 0, 3);
	k->mx_decode(&op, 3, BLOCKS);
	return x;
}

/* By the definition in zeroth/plugin.h, in fp64. */
static double nearest(const float *group, int n, int j)
{
	double most = 0;
	int e;
	for (int i = 0; i < n; i++)
		most = fmax(most, fabs((double)group[i]));
	if (most < 0x1p-120)
		return 0;

	frexp(most, &e);
	const double unit = ldexp(1, e - 7);
	const double code = rint((double)group[j] / unit);
	return fmin(fmax(code, -127), 127) * unit;
}

static void every_code_is_the_nearest(void **state)
{
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		const float *x = numbers(), *y = decoded(k, encoded(k, ZR_F32, x), ZR_F32);
		for (int i = 0; i < N; i++) {
			const int first = i / ZR_MX_SHARING * ZR_MX_SHARING;
			const int n = N - first < ZR_MX_SHARING ? N - first : ZR_MX_SHARING;
			if ((double)y[i] != nearest(x + first, n, i - first))
				fail_msg("element %d: %a became %a, not %a", i, x[i], y[i],
					 nearest(x + first, n, i - first));
		}
		fixture_release();
	}
}

/* Bytes by hand: 1.5 is the largest, so that the scale is 127 and codes count 64ths. */
static void bytes_are_those_of_the_format(void **state)
{
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		float *x = numbers();
		for (int j = 0; j < ZR_MX_SHARING; j++)
			x[j] = 0;
		x[0] = 1.5f;
		x[1] = -1;
		x[2] = 0.5f / 64; /* a tie, which goes to an even code */
		x[3] = 1.5f / 64;
		const uint8_t *c = encoded(k, ZR_F32, x);
		assert_int_equal(c[ZR_BLOCK], 127);
		assert_int_equal(c[0], 96);
		assert_int_equal((int8_t)c[1], -64);
		assert_int_equal(c[2], 0);
		assert_int_equal(c[3], 2);
		assert_int_equal(c[ZR_BLOCK + 2], 0);
		assert_int_equal(c[ZR_BLOCK + 8], 123);
		assert_int_equal(c[AT(8, 0)], 127);
		fixture_release();
	}
}

static void what_came_out_goes_in_with_the_same_bytes(void **state)
{
	static const int32_t by[] = { ZR_F32, ZR_BF16 };
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		const uint8_t *once = encoded(k, ZR_F32, numbers());
		for (int t = 0; t < 2; t++) {
			const uint8_t *again = encoded(k, by[t], decoded(k, once, by[t]));
			assert_memory_equal(once, again, BLOCKS * ZR_MX_BLOCK);
		}
		fixture_release();
	}
}

static void variants_have_the_same_bits(void **state)
{
	static const int32_t type[] = { ZR_F32, ZR_BF16, ZR_F16 };
	const struct zr_cpu_kernels *k, *scalar = fixture_kernels(0);
	(void)state;
	EACH_VARIANT(k)
	{
		float *x = numbers();
		x[AT(0, 7)] = NAN;
		x[AT(1, 0)] = INFINITY;
		x[N - 1] = -INFINITY;
		for (int t = 0; t < 3; t++) {
			void *from = fixture_buffer(N, type[t]);
			for (int i = 0; i < N; i++)
				zr_put(from, i, type[t], x[i]);
			const uint8_t *a = encoded(scalar, type[t], from);
			assert_memory_equal(a, encoded(k, type[t], from), BLOCKS * ZR_MX_BLOCK);
			assert_memory_equal(decoded(scalar, a, type[t]), decoded(k, a, type[t]),
					    (size_t)(N * fixture_size(type[t])));
		}
		fixture_release();
	}
}

/* A group with a number that is not finite has none that is a number. */
static void what_is_not_finite_is_seen(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	for (int n = 0; n < 3; n++) {
		float *x = numbers();
		x[AT(1, 11)] = bad[n];
		const float *y = decoded(k, encoded(k, ZR_F32, x), ZR_F32);
		for (int j = 0; j < ZR_MX_SHARING; j++)
			assert_true(isnan(y[AT(1, j)]));
		assert_true(isfinite(y[AT(0, 31)]) && isfinite(y[AT(2, 0)]));
		fixture_release();
	}
}

/* A fold of codes is one of what they are decoded to: also where a tensor ends. */
static void codes_are_added_as_what_they_stand_for(void **state)
{
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		float *x = numbers();
		double squares[2][BLOCKS];
		uint32_t bad[2][BLOCKS];
		x[N - 2] = NAN;
		const uint8_t *codes = encoded(k, ZR_F32, x);
		float *values = decoded(k, codes, ZR_F32), *sum[2];
		const void *each[2][2] = { { codes, codes }, { values, values } };
		for (int way = 0; way < 2; way++) {
			sum[way] = fixture_buffer(N, ZR_F32);
			struct zr_op_fold op = { .size = sizeof op,
						 .comm_dtype = ZR_F32,
						 .n = N,
						 .g = each[way][0],
						 .acc = sum[way],
						 .sumsq = squares[way],
						 .nonfinite = bad[way],
						 .number = 2,
						 .from = way ? ZR_F32 : ZR_MXINT8,
						 .each = each[way] };
			k->fold(&op, 0, BLOCKS);
		}
		assert_memory_equal(sum[0], sum[1], N * sizeof(float));
		assert_memory_equal(squares[0], squares[1], (BLOCKS - 1) * sizeof(double));
		assert_memory_equal(bad[0], bad[1], sizeof bad[0]);
		assert_true(bad[0][BLOCKS - 1] > 0);
		fixture_release();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_is_the_nearest),
		cmocka_unit_test(bytes_are_those_of_the_format),
		cmocka_unit_test(what_came_out_goes_in_with_the_same_bytes),
		cmocka_unit_test(variants_have_the_same_bits),
		cmocka_unit_test(what_is_not_finite_is_seen),
		cmocka_unit_test(codes_are_added_as_what_they_stand_for),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
