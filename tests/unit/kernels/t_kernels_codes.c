/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_codes.c - casts into ZR_NF4 and ZR_INT8 and out of them: the codes of bitsandbytes
 * (golden/make_codes.py), nearest codes, what comes back, and the same bits in every variant.
 */
#include "cpu/codes.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels_fixture.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

#define BLOCKS 5
#define N      (BLOCKS * ZR_BLOCK)
static const int32_t types[] = { ZR_NF4, ZR_INT8 };

static void read_golden(FILE *f, const char *name, int n, uint32_t *to)
{
	char word[16];
	int count;
	assert_int_equal(fscanf(f, "%15s %d", word, &count), 2);
	assert_string_equal(word, name);
	assert_int_equal(count, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(fscanf(f, "%x", &to[i]), 1);
}

static void codes_are_those_of_bitsandbytes(void **state)
{
	static uint32_t x[ZR_BLOCK], codes[ZR_BLOCK / 2], scales[ZR_SCALES];
	const char *top = getenv("srcdir");
	const struct zr_cpu_kernels *k;
	char path[4096];
	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/codes.txt", top ? top : ".");
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	read_golden(f, "x", ZR_BLOCK, x);
	read_golden(f, "codes", ZR_BLOCK / 2, codes);
	read_golden(f, "scales", ZR_SCALES, scales);
	fclose(f);
	EACH_VARIANT(k)
	{
		uint8_t *to = fixture_buffer(1152 / 4, ZR_F32);
		struct zr_op_cast op = { .n = ZR_BLOCK,
					 .src = zr_array_at(ZR_F32, x),
					 .dst = zr_array_at(ZR_NF4, to) };
		k->encode(&op, 0, 1);
		for (int i = 0; i < ZR_BLOCK / 2; i++)
			if (to[i] != codes[i])
				fail_msg("byte %d is %02x, that of bitsandbytes is %02x", i, to[i],
					 codes[i]);
		assert_memory_equal(to + ZR_BLOCK / 2, scales, sizeof scales);
		fixture_release();
	}
}

/* Ordinary numbers, groups of zeros, one number alone, the smallest and the largest. */
static float *numbers(void)
{
	uint64_t seed = 5;
	float *x = fixture_drawn(&seed, N, ZR_F32, 1);
	for (int i = 0; i < ZR_SHARING; i++) {
		x[ZR_BLOCK + i] = 0;
		x[ZR_BLOCK + ZR_SHARING + i] = i == 9 ? -3e-5f : 0;
		x[ZR_BLOCK + 2 * ZR_SHARING + i] *= 0x1p-100f;
		x[ZR_BLOCK + 3 * ZR_SHARING + i] *= 0x1p126f;
		x[ZR_BLOCK + 4 * ZR_SHARING + i] = -0.0f;
		x[ZR_BLOCK + 5 * ZR_SHARING + i] *= 0.377f * (float)i;
	}
	return x;
}

static uint8_t *encoded(const struct zr_cpu_kernels *k, int32_t dtype, const float *x)
{
	uint8_t *to = fixture_buffer(BLOCKS * zr_coded_block(dtype) / 4, ZR_F32);
	struct zr_op_cast op = { .n = N,
				 .src = zr_array_at(ZR_F32, x),
				 .dst = zr_array_at(dtype, to) };
	k->encode(&op, 0, 2);
	k->encode(&op, 2, BLOCKS);
	return to;
}

static void *decoded(const struct zr_cpu_kernels *k, int32_t dtype, const uint8_t *from, int32_t to)
{
	void *x = fixture_buffer(N, to);
	struct zr_op_cast op = { .n = N,
				 .src = zr_array_at(dtype, from),
				 .dst = zr_array_at(to, x) };
	k->decode(&op, 0, 3);
	k->decode(&op, 3, BLOCKS);
	return x;
}

static void every_code_is_the_nearest(void **state)
{
	static const float value[16] = { ZR_NF4_VALUES };
	const struct zr_cpu_kernels *k = fixture_kernels(0);
	const float *x = numbers();
	(void)state;
	for (int t = 0; t < 2; t++) {
		const float *y = decoded(k, types[t], encoded(k, types[t], x), ZR_F32);
		for (int i = 0; i < N; i++) {
			double most = 0, best = 1e300;
			for (int j = 0; j < ZR_SHARING; j++)
				most = fmax(most, fabs((double)x[i / ZR_SHARING * ZR_SHARING + j]));
			for (int c = 0; c < (types[t] == ZR_NF4 ? 16 : 255); c++) {
				double v = types[t] == ZR_NF4 ? value[c] * most :
								(c - 127) * most / 127;
				best = fmin(best, fabs(v - (double)x[i]));
			}
			if (!(fabs((double)y[i] - (double)x[i]) <= best + most * 2e-5 + 1e-44))
				fail_msg("type %d: %a became %a, nearest is %g away", types[t],
					 x[i], y[i], best);
		}
	}
	fixture_release();
}

static void what_came_out_goes_in_with_the_same_bytes(void **state)
{
	const struct zr_cpu_kernels *k;
	(void)state;
	EACH_VARIANT(k)
	{
		const float *x = numbers();
		for (int t = 0; t < 2; t++) {
			uint8_t *once = encoded(k, types[t], x);
			uint8_t *again = encoded(k, types[t], decoded(k, types[t], once, ZR_F32));
			assert_memory_equal(once, again,
					    (size_t)(BLOCKS * zr_coded_block(types[t])));
		}
		fixture_release();
	}
}

static void variants_have_the_same_bits(void **state)
{
	static const int32_t to[] = { ZR_F32, ZR_BF16, ZR_F16 };
	const struct zr_cpu_kernels *k, *scalar = fixture_kernels(0);
	(void)state;
	EACH_VARIANT(k)
	{
		float *x = numbers();
		x[7] = NAN;
		x[ZR_SHARING] = INFINITY;
		x[2 * ZR_SHARING + 1] = -INFINITY;
		for (int t = 0; t < 2; t++) {
			uint8_t *a = encoded(scalar, types[t], x), *b = encoded(k, types[t], x);
			assert_memory_equal(a, b, (size_t)(BLOCKS * zr_coded_block(types[t])));
			for (int d = 0; d < 3; d++)
				assert_memory_equal(decoded(scalar, types[t], a, to[d]),
						    decoded(k, types[t], a, to[d]),
						    (size_t)(N * fixture_size(to[d])));
		}
		fixture_release();
	}
}

/* A group with a number that is not finite has none that is. */
static void what_is_not_finite_is_seen(void **state)
{
	const struct zr_cpu_kernels *k;
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	(void)state;
	EACH_VARIANT(k)
	for (int n = 0; n < 6; n++) {
		float *x = numbers();
		x[ZR_SHARING + 11] = bad[n / 2];
		const uint8_t *codes = encoded(k, types[n % 2], x);
		const float *y = decoded(k, types[n % 2], codes, ZR_F32);
		int finite = 0;
		for (int i = ZR_SHARING; i < 2 * ZR_SHARING; i++)
			finite += isfinite(y[i]);
		assert_int_equal(finite, 0);
		assert_true(isfinite(y[0]) && isfinite(y[2 * ZR_SHARING]));
		fixture_release();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_of_bitsandbytes),
		cmocka_unit_test(every_code_is_the_nearest),
		cmocka_unit_test(what_came_out_goes_in_with_the_same_bytes),
		cmocka_unit_test(variants_have_the_same_bits),
		cmocka_unit_test(what_is_not_finite_is_seen),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
