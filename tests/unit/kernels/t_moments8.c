/* SPDX-License-Identifier: Apache-2.0
 *
 * t_moments8.c - moments in 8 bits: what the codes stand for and what fifty updates make of them,
 * against FlashOptim's own kernels (golden/make_moments8.py), and what becomes of groups that fp16
 * cannot hold, in every variant.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/moments8.h"
#include "kernels_fixture.h"

#define N      (ZR_BLOCK + 77) /* of golden/make_moments8.py, as what follows */
#define EVERY  13
#define SOME   ((N + EVERY - 1) / EVERY)
#define GROUPS ((N + ZR_MOMENT8_GROUP - 1) / ZR_MOMENT8_GROUP)

#define EACH_VARIANT(k)                                                                            \
	for (int variant_ = 0; (k = fixture_kernels(variant_)); variant_++)                        \
		if (fixture_runs(k))

static double golden[256];

/* n values of a line of the file into golden. */
static void read_golden(const char *name, int n)
{
	const char *top = getenv("srcdir");
	char path[4096], word[64];
	int count, found = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/golden/moments8.txt", top ? top : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	while (!found && fscanf(f, "%63s %d", word, &count) == 2) {
		found = !strcmp(word, name) && count == n;
		for (int i = 0; i < count; i++)
			assert_int_equal(fscanf(f, "%lf", found ? &golden[i] : &(double){ 0 }), 1);
	}
	fclose(f);
	if (!found)
		fail_msg("%s: not %d values of %s", path, n, name);
}

static float drawn(uint64_t *x)
{
	double a = fixture_draw(x), b = fixture_draw(x);
	return (float)(a * b * fixture_draw(x));
}

/* Two blocks of codes 0 under scales 0. */
static void *moments(void)
{
	void *p = fixture_buffer(2 * ZR_MOMENT8_BYTES / 4, ZR_F32);
	memset(p, 0, 2 * ZR_MOMENT8_BYTES);
	return p;
}

static void codes_stand_for_what_they_do_in_flashoptim(void **state)
{
	void *block = moments();
	float x[ZR_MOMENT8_GROUP];

	(void)state;
	for (int root = 0; root <= 1; root++) {
		read_golden(root ? "read.v" : "read.m", 256);
		for (int i = 0; i < 256; i++) {
			*zr_codes8(block, i) = (uint8_t)i;
			*zr_scale8(block, i) = zr_f16(0.75f);
		}
		for (int i = 0; i < 256; i++) {
			zr_get8(block, i / ZR_MOMENT8_GROUP * ZR_MOMENT8_GROUP, ZR_MOMENT8_GROUP,
				root, x);
			fixture_near(x[i % ZR_MOMENT8_GROUP], golden[i], 1e-6 * fabs(golden[i]));
		}
	}
	fixture_release();
}

/* The same bits in every variant, for any code under any scale: quotients may be formed by other
 * means than division. */
static void every_code_is_read_alike(void **state)
{
	static const float scales[] = { 0x1p-24f,      0.75f,      1,
					1.0009765625f, 3.1415926f, ZR_SCALE8_LARGEST };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
		for (int root = 0; root <= 1; root++) {
			void *block = moments();
			float *x = fixture_buffer(256, ZR_F32), y[ZR_MOMENT8_GROUP];
			for (int i = 0; i < 256; i++) {
				*zr_codes8(block, i) = (uint8_t)i;
				*zr_scale8(block, i) = zr_f16(scales[s]);
			}
			k->state8_get(block, root, x, 0, 256);
			for (int i = 0; i < 256; i += ZR_MOMENT8_GROUP) {
				zr_get8(block, i, ZR_MOMENT8_GROUP, root, y);
				assert_memory_equal(x + i, y, sizeof y);
			}
			fixture_release();
		}
}

/* The same codes in every variant of numbers in the middle of two of them, and a few bits away: a
 * quotient that is only nearly right would be rounded to the other. */
static void numbers_between_codes_are_put_alike(void **state)
{
	static const float scales[] = { 0x1p-24f,      0x1p-20f,  0.75f,
					1.0009765625f, 3.140625f, ZR_SCALE8_LARGEST };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
		for (int bits = -40; bits <= 40; bits++) {
			void *block = moments();
			float *x = fixture_buffer(256, ZR_F32);
			for (int i = 0; i < 256; i++) {
				float middle = (float)(i - 128 + (i % 3 == 0)) / 2;
				float m = scales[s] * middle / (254 - fabsf(middle));
				x[i] = zr_from_bits(zr_bits(m) + (uint32_t)bits);
				if (m == 0 || i % ZR_MOMENT8_GROUP == 0)
					x[i] = scales[s];
			}
			k->state8_put(block, 0, x, 0, 256);
			for (int i = 0; i < 256; i++)
				assert_int_equal((int8_t)*zr_codes8(block, i),
						 zr_signed8_code(x[i], scales[s]));
			fixture_release();
		}
}

/* Codes differ where a number lies near the border of two: theirs are relative to what the scale is
 * rounded from. What differs goes on to the next update. */
static void follows_codes(int step, const char *which, const void *block)
{
	int sign = *which == 'm', others = 0;
	char name[32];

	snprintf(name, sizeof name, "%d.%s", step, which);
	read_golden(name, SOME);
	for (int i = 0; i < SOME; i++) {
		uint8_t code = *zr_codes8(block, (int64_t)i * EVERY);
		double apart = fabs((sign ? (int8_t)code : code) - golden[i]);
		if (apart > (step == 1 ? 1 : 3))
			fail_msg("%s: code %d is %d, should be %g", name, i, code, golden[i]);
		others += apart > 0;
	}
	if (others > (step == 1 ? SOME / 20 : SOME / 2))
		fail_msg("%s: %d of %d codes are others", name, others, SOME);
}

static void follows_scales(int step, const char *which, const void *block)
{
	char name[32];

	snprintf(name, sizeof name, "%d.%s_scale", step, which);
	read_golden(name, GROUPS);
	for (int g = 0; g < GROUPS; g++)
		fixture_near(zr_from_f16(*zr_scale8(block, (int64_t)g * ZR_MOMENT8_GROUP)),
			     golden[g], (step == 1 ? 1e-8 : 0.02) * golden[g]);
}

static void follows(int step, const struct zr_op_adamw *op)
{
	char name[32];

	follows_codes(step, "m", op->m);
	follows_codes(step, "v", op->v);
	follows_scales(step, "m", op->m);
	follows_scales(step, "v", op->v);
	snprintf(name, sizeof name, "%d.p", step);
	read_golden(name, SOME);
	for (int i = 0; i < SOME; i++)
		fixture_near(op->master[i * EVERY], golden[i], step == 1 ? 1e-6 : 5e-5 * step);
}

static void fifty_updates_follow_flashoptim(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_scalars scalars = { .grad_mult = 1, .lr = 0x1p-7f };
		float *p = fixture_buffer(N, ZR_F32), *g = fixture_buffer(N, ZR_F32);
		struct zr_op_adamw op = { .bias_correction = 1,
					  .n = N,
					  .beta1 = 0.9,
					  .beta2 = 0.95,
					  .eps = 1e-8,
					  .weight_decay = 0.1,
					  .scalars = &scalars,
					  .moment_dtype = ZR_U8,
					  .master = p,
					  .grad = g,
					  .m = moments(),
					  .v = moments() };
		uint64_t x = 5;

		for (int i = 0; i < N; i++)
			p[i] = drawn(&x);
		for (scalars.step = 1; scalars.step <= 50; scalars.step++) {
			for (int i = 0; i < N; i++)
				g[i] = drawn(&x);
			k->adamw(&op, 0, N);
			if (scalars.step == 1 || scalars.step == 10 || scalars.step == 50)
				follows((int)scalars.step, &op);
		}
		fixture_release();
	}
}

/* One update of two groups from nothing, the first with these gradients: moments are 0.5 of them
 * and 0.25 of their squares. Returns the masters, which were 1. */
static const float *one_update(const struct zr_cpu_kernels *k, const float *g, void *m, void *v)
{
	const struct zr_scalars scalars = { .step = 1, .grad_mult = 1, .lr = 0x1p-7f };
	float *grad = fixture_buffer(64, ZR_F32), *master = fixture_buffer(64, ZR_F32);
	struct zr_op_adamw op = { .n = 64,
				  .beta1 = 0.5,
				  .beta2 = 0.75,
				  .eps = 1e-8,
				  .scalars = &scalars,
				  .moment_dtype = ZR_U8,
				  .master = master,
				  .grad = grad,
				  .m = m,
				  .v = v };

	memset(m, 0, ZR_MOMENT8_BYTES);
	memset(v, 0, ZR_MOMENT8_BYTES);
	for (int i = 0; i < 64; i++) {
		master[i] = 1;
		grad[i] = i < 32 ? g[i] : 2;
	}
	k->adamw(&op, 0, 64);
	for (int i = 32; i < 64; i++) { /* the second group is as ever */
		assert_int_equal(*zr_codes8(m, i), 127);
		assert_int_equal(*zr_codes8(v, i), 255);
	}
	assert_true(zr_from_f16(*zr_scale8(m, 32)) == 1 && zr_from_f16(*zr_scale8(v, 32)) == 1);
	return master;
}

static void zeros_are_kept(void **state)
{
	const struct zr_cpu_kernels *k;
	static const float g[32];

	(void)state;
	EACH_VARIANT(k)
	{
		void *m = moments(), *v = moments();
		const float *p = one_update(k, g, m, v);
		assert_int_equal(*zr_scale8(m, 0), 0);
		assert_int_equal(*zr_scale8(v, 0), 0);
		for (int i = 0; i < 32; i++)
			assert_true(*zr_codes8(m, i) == 0 && *zr_codes8(v, i) == 0 && p[i] == 1);
		fixture_release();
	}
}

static void what_is_not_finite_is_nan_for_its_group(void **state)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	for (int b = 0; b < 4; b++) {
		void *m = moments(), *v = moments();
		float g[32] = { 1, 1, 1 }, x[32];
		g[7 * b] = bad[b];
		one_update(k, g, m, v);
		for (int root = 0; root <= 1; root++) {
			zr_get8(root ? v : m, 0, 32, root, x);
			for (int i = 0; i < 32; i++)
				assert_true(isnan(x[i]));
		}
		fixture_release();
	}
}

/* Scales of fp16 would be 0 or infinite. */
static void scales_neither_vanish_nor_overflow(void **state)
{
	static const float size[] = { 1e-9f, 1e-15f, 1e6f, 1e18f };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	for (int s = 0; s < 4; s++) {
		void *m = moments(), *v = moments();
		uint16_t scale = size[s] < 1 ? 1 : ZR_SCALE8_MOST;
		float g[32] = { size[s], -size[s] };
		one_update(k, g, m, v);
		assert_int_equal(*zr_scale8(m, 0), scale);
		assert_int_equal(*zr_scale8(v, 0), scale);
		assert_true(s >= 2 ? *zr_codes8(v, 1) == 255 && (int8_t)*zr_codes8(m, 1) == -127 :
				     *zr_codes8(v, 1) >= 1 && (int8_t)*zr_codes8(m, 1) <= 0);
		fixture_release();
	}
}

/* Else m / eps would be the step of a parameter whose m has a code. */
static void a_small_root_is_not_rounded_to_zero(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		void *m = moments(), *v = moments();
		float g[32] = { 1, 1e-4f, -1e-12f, 0 };
		one_update(k, g, m, v);
		for (int i = 0; i < 4; i++)
			assert_int_equal(*zr_codes8(v, i), i == 0 ? 255 : 1);
		fixture_release();
	}
}

/* Half a code: of a number x of its scale, (1 + x)^2 / 4 of 1/127, at most twice that of 1/127 /
 * 2. */
static void what_is_read_is_near_what_was_put(void **state)
{
	void *block = moments();
	uint64_t draw = 11;

	(void)state;
	for (int t = 0; t < 1000; t++) {
		float x[ZR_MOMENT8_GROUP], y[ZR_MOMENT8_GROUP], size = ldexpf(1, t % 24 - 12),
								scale;
		int n = 1 + t % ZR_MOMENT8_GROUP;
		for (int root = 0; root <= 1; root++) {
			for (int i = 0; i < n; i++)
				x[i] = root ? fabsf(drawn(&draw)) * size : drawn(&draw) * size;
			zr_put8(block, 32, n, root, x);
			zr_get8(block, 32, n, root, y);
			scale = zr_from_f16(*zr_scale8(block, 32));
			for (int i = 0; i < n; i++) {
				double r = root ? sqrt(x[i]) : fabs(x[i]) / scale;
				double half = root ? scale / 254 : scale * (1 + r) * (1 + r) / 500;
				fixture_near(root ? sqrt(y[i]) : y[i], root ? r : x[i],
					     root && r < scale / 255 ? scale / 254 : half);
			}
		}
	}
	fixture_release();
}

/* What an update is given and leaves, of elements that are each what they are in its other form. */
struct split {
	float *master, *grad;
	uint16_t *lowp;
	uint8_t *rem;
	void *m, *v;
};

static struct split drawn_split(int32_t bits, int32_t moments)
{
	struct split s = { fixture_buffer(N, ZR_F32),
			   fixture_buffer(N, ZR_F32),
			   fixture_buffer(N, ZR_BF16),
			   fixture_buffer(N, ZR_BF16),
			   fixture_buffer(2 * ZR_BLOCK, ZR_F32),
			   fixture_buffer(2 * ZR_BLOCK, ZR_F32) };
	struct zr_op_master op = {
		.n = N, .master = s.master, .lowp = s.lowp, .rem = s.rem, .rem_bits = bits
	};
	uint64_t x = 3;

	memset(s.rem, 0, N * sizeof(uint16_t));
	memset(s.m, 0, 2 * ZR_BLOCK * sizeof(float));
	memset(s.v, 0, 2 * ZR_BLOCK * sizeof(float));
	for (int i = 0; i < N; i++) {
		s.master[i] = drawn(&x);
		s.grad[i] = drawn(&x);
		if (moments == ZR_F32)
			((float *)s.m)[i] = drawn(&x);
	}
	s.master[5] = NAN;
	s.master[40] = zr_from_bits(0x7fffffffu); /* a NaN that rounding would make -0 */
	s.master[N - 1] = INFINITY;
	fixture_kernels(0)->master_split(&op, 0, N);
	return s;
}

static void update_split(const struct zr_cpu_kernels *k, const struct split *s, int lion,
			 int32_t moments, int32_t bits, int joined)
{
	const struct zr_scalars scalars = { .step = 3, .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_master split = {
		.n = N, .master = s->master, .lowp = s->lowp, .rem = s->rem, .rem_bits = bits
	};
	struct zr_op_adamw a = { .bias_correction = 1,
				 .n = N,
				 .beta1 = 0.9,
				 .beta2 = 0.95,
				 .eps = 1e-8,
				 .weight_decay = 0.1,
				 .scalars = &scalars,
				 .moment_dtype = moments,
				 .grad = s->grad,
				 .m = s->m,
				 .v = s->v };
	struct zr_op_lion l = { .n = N,
				.beta1 = 0.9,
				.beta2 = 0.95,
				.weight_decay = 0.1,
				.scalars = &scalars,
				.moment_dtype = moments,
				.grad = s->grad,
				.m = s->m };

	if (joined) {
		a.master = l.master = s->master;
		k->master_join(&split, 0, N);
	} else {
		a.lowp = l.lowp = s->lowp;
		a.rem = l.rem = s->rem;
		a.rem_bits = l.rem_bits = bits;
	}
	if (lion)
		k->lion(&l, 0, N);
	else
		k->adamw(&a, 0, N);
	if (joined)
		k->master_split(&split, 0, N);
}

static void a_split_master_is_joined_updated_and_split(void **state)
{
	static const int32_t types[] = { ZR_F32, ZR_U8 };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		for (int i = 0; i < 8; i++) {
			int32_t bits = i & 1 ? 16 : 8, moments = types[i >> 1 & 1];
			struct split whole = drawn_split(bits, moments),
				     parts = drawn_split(bits, moments);
			update_split(k, &whole, i >> 2, moments, bits, 0);
			update_split(k, &parts, i >> 2, moments, bits, 1);
			assert_memory_equal(whole.lowp, parts.lowp, N * sizeof *whole.lowp);
			assert_memory_equal(whole.rem, parts.rem, N * sizeof(uint16_t));
			assert_memory_equal(whole.m, parts.m, N * sizeof(float));
			assert_memory_equal(whole.v, parts.v, N * sizeof(float));
			fixture_release();
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_stand_for_what_they_do_in_flashoptim),
		cmocka_unit_test(every_code_is_read_alike),
		cmocka_unit_test(numbers_between_codes_are_put_alike),
		cmocka_unit_test(fifty_updates_follow_flashoptim),
		cmocka_unit_test(zeros_are_kept),
		cmocka_unit_test(what_is_not_finite_is_nan_for_its_group),
		cmocka_unit_test(scales_neither_vanish_nor_overflow),
		cmocka_unit_test(a_small_root_is_not_rounded_to_zero),
		cmocka_unit_test(what_is_read_is_near_what_was_put),
		cmocka_unit_test(a_split_master_is_joined_updated_and_split),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("moments8", tests, NULL, NULL);
}
