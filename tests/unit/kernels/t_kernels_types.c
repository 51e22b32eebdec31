/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_types.c - storage of 16 bits: how bf16 and fp16 round, what they keep, and that every
 * variant converts every pattern alike.
 */
#include "cpu/scalar.h"

#include <stdio.h>

#include "tests/lib/half.h"
#include "kernels_fixture.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

/* ---- bf16 ---- */

static void bf16_rounds_half_away_from_zero(void **state)
{
	static const struct {
		uint32_t from;
		uint16_t to;
	} cases[] = {
		/* ties, to even or odd */
		{ 0x3f800000, 0x3f80 },
		{ 0x3f808000, 0x3f81 },
		{ 0x3f818000, 0x3f82 },
		{ 0xbf808000, 0xbf81 },
		{ 0x3f807fff, 0x3f80 },
		{ 0x3f808001, 0x3f81 },
		{ 0x3fff8000, 0x4000 }, /* carries into the exponent */
		{ 0x7f7fffff, 0x7f80 },
		{ 0x7f7f7fff, 0x7f7f }, /* overflow */
		{ 0x7f800000, 0x7f80 },
		{ 0xff800000, 0xff80 },
		{ 0x80000000, 0x8000 },
		{ 0x00000000, 0x0000 },
		/* subnormal */
		{ 0x00008000, 0x0001 },
		{ 0x00007fff, 0x0000 },
		{ 0x807fffff, 0x8080 },
		/* NaN */
		{ 0x7fffffff, 0x7fff },
		{ 0xffffffff, 0xffff },
		{ 0x7f800001, 0x7fc0 },
		{ 0xffc01234, 0xffc0 },
	};
	enum { CASES = sizeof cases / sizeof *cases };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		uint32_t from[CASES];
		uint16_t *to = fixture_buffer(CASES, ZR_BF16);
		struct zr_op_cast op = { .n = CASES,
					 .src = zr_array_at(ZR_F32, from),
					 .dst = zr_array_at(ZR_BF16, to) };
		for (int i = 0; i < CASES; i++)
			from[i] = cases[i].from;
		k->cast(&op, 0, CASES);
		for (int i = 0; i < CASES; i++)
			assert_int_equal(to[i], cases[i].to);
		fixture_release();
	}
}

static void bf16_survives_the_way_through_fp32(void **state)
{
	const struct zr_cpu_kernels *k;
	static uint16_t all[65536];

	(void)state;
	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	EACH_VARIANT(k)
	{
		float *wide = fixture_buffer(65536, ZR_F32);
		uint16_t *back = fixture_buffer(65536, ZR_BF16);
		struct zr_op_cast up = { .n = 65536,
					 .src = zr_array_at(ZR_BF16, all),
					 .dst = zr_array_at(ZR_F32, wide) };
		struct zr_op_cast down = { .n = 65536,
					   .src = zr_array_at(ZR_F32, wide),
					   .dst = zr_array_at(ZR_BF16, back) };
		k->cast(&up, 0, 65536);
		k->cast(&down, 0, 65536);
		for (int i = 0; i < 65536; i++) {
			int nan = (i & 0x7fff) > 0x7f80;
			assert_int_equal(zr_bits(wide[i]), (uint32_t)i << 16);
			assert_int_equal(back[i], nan ? i | 0x40 : i);
		}
		fixture_release();
	}
}

/* ---- fp16 ---- */

static void fp16_has_known_bits(void **state)
{
	static const struct {
		float from;
		uint16_t to;
	} cases[] = {
		{ 1, 0x3c00 },
		{ -2, 0xc000 },
		{ 65504, 0x7bff },
		{ 65519.996f, 0x7bff },
		{ 65520, 0x7c00 },
		{ -1e9f, 0xfc00 },
		{ 0x1p-14f, 0x0400 },
		{ 0x1p-24f, 0x0001 },
		{ 0x1p-25f, 0x0000 },
		{ 0x1.8p-25f, 0x0001 },
		{ -0x1p-26f, 0x8000 },
		/* a tie of subnormals, to even; up to the least normal */
		{ 0x1.8p-24f, 0x0002 },
		{ 0x1.ffcp-15f, 0x0400 },
		{ 0x1.002p0f, 0x3c00 },
		{ 0x1.006p0f, 0x3c02 },
		{ 1.0f / 3, 0x3555 },
		{ 0, 0 },
		{ -0.0f, 0x8000 },
	};
	enum { CASES = sizeof cases / sizeof *cases };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		float from[CASES];
		uint16_t *to = fixture_buffer(CASES, ZR_F16);
		struct zr_op_cast op = { .n = CASES,
					 .src = zr_array_at(ZR_F32, from),
					 .dst = zr_array_at(ZR_F16, to) };
		for (int i = 0; i < CASES; i++)
			from[i] = cases[i].from;
		k->cast(&op, 0, CASES);
		for (int i = 0; i < CASES; i++)
			assert_int_equal(to[i], cases[i].to);
		fixture_release();
	}
}

static void every_fp16_survives_the_way_through_fp32(void **state)
{
	const struct zr_cpu_kernels *k;
	static uint16_t all[65536];

	(void)state;
	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	EACH_VARIANT(k)
	{
		float *wide = fixture_buffer(65536, ZR_F32);
		uint16_t *back = fixture_buffer(65536, ZR_F16);
		struct zr_op_cast up = { .n = 65536,
					 .src = zr_array_at(ZR_F16, all),
					 .dst = zr_array_at(ZR_F32, wide) };
		struct zr_op_cast down = { .n = 65536,
					   .src = zr_array_at(ZR_F32, wide),
					   .dst = zr_array_at(ZR_F16, back) };
		k->cast(&up, 0, 65536);
		k->cast(&down, 0, 65536);
		for (uint32_t i = 0; i < 65536; i++) {
			int nan = (i & 0x7fff) > 0x7c00;
			uint32_t quiet = (i & 0x8000) << 16 | 0x7fc00000 | (i & 0x3ff) << 13;
			assert_int_equal(zr_bits(wide[i]),
					 nan ? quiet : zr_bits((float)half_value((uint16_t)i)));
			assert_int_equal(back[i], nan ? i | 0x200 : i);
		}
		fixture_release();
	}
}

/* Half way between every two neighbours, and one float beside it on either side; then bits of all
 * kinds. */
static void fp16_rounds_to_nearest_even_from_everywhere(void **state)
{
	enum { EDGES = 6 * 0x7c00, DRAWN = 1 << 18, ALL = EDGES + DRAWN };
	const struct zr_cpu_kernels *k;
	float *from = fixture_buffer(ALL, ZR_F32);
	uint64_t x = 1;
	int n = 0;

	(void)state;
	for (int h = 0; h < 0x7c00; h++) {
		double next = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
		float middle = (float)((half_value((uint16_t)h) + next) / 2);
		for (int sign = -1; sign <= 1; sign += 2)
			for (int step = -1; step <= 1; step++)
				from[n++] = (float)sign *
					    zr_from_bits(zr_bits(middle) + (uint32_t)step);
	}
	while (n < ALL)
		from[n++] = zr_from_bits(
			(uint32_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 32));
	EACH_VARIANT(k)
	{
		uint16_t *to = fixture_buffer(ALL, ZR_F16);
		struct zr_op_cast op = { .n = ALL,
					 .src = zr_array_at(ZR_F32, from),
					 .dst = zr_array_at(ZR_F16, to) };
		k->cast(&op, 0, ALL);
		for (int i = 0; i < ALL; i++) {
			uint32_t u = zr_bits(from[i]), kept = isnan(from[i]) ? u >> 13 & 0x1ff : 0;
			if (to[i] != (half_of(from[i]) | kept))
				fail_msg("%s: %a (%08x) became %04x", k->name, (double)from[i], u,
					 to[i]);
		}
	}
	fixture_release();
}

/* Between the 16-bit types there are two steps, and only the second may round. */
static void bf16_and_fp16_meet_in_fp32(void **state)
{
	const struct zr_cpu_kernels *k;
	static uint16_t all[65536];

	(void)state;
	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	EACH_VARIANT(k)
	{
		uint16_t *half = fixture_buffer(65536, ZR_F16),
			 *brain = fixture_buffer(65536, ZR_BF16);
		struct zr_op_cast a = { .n = 65536,
					.src = zr_array_at(ZR_BF16, all),
					.dst = zr_array_at(ZR_F16, half) };
		struct zr_op_cast b = { .n = 65536,
					.src = zr_array_at(ZR_F16, all),
					.dst = zr_array_at(ZR_BF16, brain) };
		k->cast(&a, 0, 65536);
		k->cast(&b, 0, 65536);
		for (int i = 0; i < 65536; i++) {
			if ((i & 0x7fff) <= 0x7f80)
				assert_int_equal(half[i], half_of(zr_from_bf16((uint16_t)i)));
			if ((i & 0x7fff) <= 0x7c00)
				assert_int_equal(brain[i], zr_bf16((float)half_value((uint16_t)i)));
		}
		fixture_release();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bf16_rounds_half_away_from_zero),
		cmocka_unit_test(bf16_survives_the_way_through_fp32),
		cmocka_unit_test(fp16_has_known_bits),
		cmocka_unit_test(every_fp16_survives_the_way_through_fp32),
		cmocka_unit_test(fp16_rounds_to_nearest_even_from_everywhere),
		cmocka_unit_test(bf16_and_fp16_meet_in_fp32),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("kernels_types", tests, NULL, NULL);
}
