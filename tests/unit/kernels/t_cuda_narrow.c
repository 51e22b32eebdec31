/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_narrow.c - the CUDA kernels of products in 8 bits, run by the host (cuda_emulated.h):
 * numbers in bf16 have the bits of the scalar kernels; codes are what E4M3 and E5M2 have for them;
 * sums of products of codes get scales, bias and what D held.
 */
#include "tests/lib/testdevice.h"

#include <kernels_cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const int64_t shapes[][2] = { { 1, 1 }, { 3, 40 }, { 33, 31 }, { 70, 129 }, { 300, 37 } };
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* As its name says: line 1 has an infinity, line 2 a NaN, line 3 zeros, line 4 the smallest
 * numbers. */
static struct buf matrix(int64_t rows, int64_t width, int64_t ld, int by_column)
{
	uint64_t seed = 3;
	struct buf x = buf_new(rows * ld, ZR_BF16, 1);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < width; c++) {
			const int64_t line = by_column ? c : r, i = by_column ? r : c;
			double v = ldexp(rnd(&seed), -(int)((r * 5 + c * 3) % 19));
			if (line == 1 && i == 0)
				v = (double)-INFINITY;
			if (line == 2 && i == 0)
				v = (double)NAN;
			if (line == 3)
				v = 0;
			if (line == 4)
				v = ldexp(1 + (double)(i % 5), -133);
			put(x.p, ZR_BF16, r * ld + c, v);
		}
	return x;
}

/* The number of a code, by the definition of the formats. */
static double number_of(uint8_t code, int e5m2)
{
	const int mantissa = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
	const int exponent = (code & 127) >> mantissa, rest = code & ((1 << mantissa) - 1);
	double x = ldexp(rest, 1 - bias - mantissa);
	if (exponent)
		x = ldexp(1 + ldexp(rest, -mantissa), exponent - bias);
	return code & 128 ? -x : x;
}

struct made {
	struct buf x, want, bits, codes, scale, part;
};

static void run(const struct zr_cuda_narrowing *n, int by_column)
{
	if (by_column)
		assert_int_equal(zr_cuda_narrow_columns(n, NULL), cudaSuccess);
	else
		assert_int_equal(zr_cuda_narrow_rows(n, NULL), cudaSuccess);
}

static struct made make(int64_t rows, int64_t width, int by_column, int e5m2)
{
	const int64_t ld = width + 3, lines = by_column ? width : rows;
	const int64_t parts = (rows + ZR_CUDA_NARROW_PART - 1) / ZR_CUDA_NARROW_PART;
	struct made m = { .x = matrix(rows, width, ld, by_column),
			  .want = buf_new(rows * width, ZR_BF16, 0),
			  .bits = buf_new(rows * width, ZR_BF16, 1),
			  .codes = buf_new((rows * width + 1) / 2, ZR_BF16, 0),
			  .scale = buf_new(lines, ZR_F32, 0),
			  .part = buf_new(parts * width, ZR_F32, 0) };
	struct zr_narrowing of = {
		.rows = rows, .width = width, .ld = ld, .from = m.x.p, .to = m.want.p, .e5m2 = e5m2
	};
	struct zr_cuda_narrowing n = { .of = of, .to = m.bits.p, .part = (void *)m.part.p };

	if (by_column)
		zr_cpu_scalar.narrow_columns(&of, 0, width);
	else
		zr_cpu_scalar.narrow_rows(&of, 0, rows);
	run(&n, by_column);
	n.to = m.codes.p;
	n.scale = (float *)(void *)m.scale.p;
	run(&n, by_column);
	return m;
}

static void unmake(struct made *m)
{
	buf_free(&m->x);
	buf_free(&m->want);
	buf_free(&m->bits);
	buf_free(&m->codes);
	buf_free(&m->scale);
	buf_free(&m->part);
}

static void check(const struct made *m, int64_t rows, int64_t width, int by_column, int e5m2)
{
	assert_true(buf_guarded(&m->bits) && buf_guarded(&m->codes) && buf_guarded(&m->scale) &&
		    buf_guarded(&m->part));
	assert_memory_equal(m->want.p, m->bits.p, (size_t)(rows * width) * 2);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < width; c++) {
			const double want = get(m->want.p, ZR_BF16, r * width + c);
			const double scale = get(m->scale.p, ZR_F32, by_column ? c : r);
			const uint8_t code =
				((uint8_t *)m->codes.p)[by_column ? c * rows + r : r * width + c];
			if (isnan(want))
				assert_true(isnan(scale));
			else if (number_of(code, e5m2) * scale != want)
				fail_msg("[%lld][%lld]: code %#x times %g is %a, should be %a",
					 (long long)r, (long long)c, code, scale,
					 number_of(code, e5m2) * scale, want);
		}
}

static void numbers_and_codes(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_SHAPES; s++)
		for (int kind = 0; kind < 4; kind++) {
			const int64_t rows = shapes[s][0], width = shapes[s][1];
			struct made m = make(rows, width, kind & 1, kind >> 1);
			check(&m, rows, width, kind & 1, kind >> 1);
			unmake(&m);
		}
}

/* D = sums a b + D + bias, of one rounding. */
static void sums_are_scaled(void **state)
{
	const int64_t m = 21, n = 35, ldd = 40;
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		const int32_t type = kind == 2 ? ZR_F32 : ZR_BF16;
		struct buf sums = buf_random(m * n, ZR_F32, 1, 1);
		struct buf a = buf_new(m, ZR_F32, 0), b = buf_new(n, ZR_F32, 0);
		struct buf bias = buf_random(n, ZR_BF16, 2, 1);
		struct buf d = buf_random(m * ldd, type, 4, 1), before = buf_copy(&d);
		for (int64_t i = 0; i < m; i++)
			put(a.p, ZR_F32, i, ldexp(1, (int)(i % 9) - 4));
		for (int64_t j = 0; j < n; j++)
			put(b.p, ZR_F32, j, ldexp(1, 3 - (int)(j % 7)));
		const struct zr_cuda_scaling o = { .op = { .size = sizeof o.op,
							   .flags = kind ? ZR_MM_ACCUMULATE : 0,
							   .m = m,
							   .n = n,
							   .ldd = ldd,
							   .d = zr_array_at(type, d.p),
							   .bias = kind == 0 ? bias.p : NULL },
						   .sums = (float *)(void *)sums.p,
						   .a = (float *)(void *)a.p,
						   .b = (float *)(void *)b.p };
		assert_int_equal(zr_cuda_scale_sums(&o, NULL), cudaSuccess);
		assert_true(buf_guarded(&d));
		for (int64_t i = 0; i < m; i++)
			for (int64_t j = 0; j < ldd; j++) {
				double x = get(before.p, type, i * ldd + j);
				const double held = kind ? x : 0;
				if (j < n)
					x = get(sums.p, ZR_F32, i * n + j) * get(a.p, ZR_F32, i) *
					    get(b.p, ZR_F32, j);
				if (j < n)
					x = (float)((float)(x + held) +
						    (kind ? 0 : get(bias.p, ZR_BF16, j)));
				put(before.p, type, i * ldd + j, x);
				assert_true(get(d.p, type, i * ldd + j) ==
					    get(before.p, type, i * ldd + j));
			}
		buf_free(&sums);
		buf_free(&a);
		buf_free(&b);
		buf_free(&bias);
		buf_free(&d);
		buf_free(&before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_codes),
		cmocka_unit_test(sums_are_scaled),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
