/* SPDX-License-Identifier: Apache-2.0
 *
 * t_master.c - masters of 32 bits as a bf16 copy and the 16 bits it lacks, or rounded to 24 bits,
 * against the cast and against FlashOptim. Each runs in every variant of this machine.
 */
#include "cpu/scalar.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels_fixture.h"
#include "tests/lib/sanitize.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

enum { SPAN = 65536 }; /* patterns of the lower half */

/* All patterns with this upper half: split, compared with the cast, joined. */
static void split_and_join(const struct zr_cpu_kernels *k, uint32_t upper)
{
	static float from[SPAN], back[SPAN];
	static uint16_t lowp[SPAN], rem[SPAN], cast[SPAN];
	struct zr_op_master split = { .n = SPAN, .master = from, .lowp = lowp, .rem = rem };
	struct zr_op_master join = { .n = SPAN, .master = back, .lowp = lowp, .rem = rem };
	struct zr_op_cast copy = { .n = SPAN,
				   .src = zr_array_at(ZR_F32, from),
				   .dst = zr_array_at(ZR_BF16, cast) };

	for (uint32_t i = 0; i < SPAN; i++)
		from[i] = zr_from_bits(upper << 16 | i);
	k->master_split(&split, 0, SPAN);
	k->cast(&copy, 0, SPAN);
	k->master_join(&join, 0, SPAN);
	assert_memory_equal(lowp, cast, sizeof lowp);
	for (uint32_t i = 0; i < SPAN; i++)
		if (isnan(from[i]) ? !isnan(back[i]) : zr_bits(back[i]) != zr_bits(from[i]))
			fail_msg("%s: %08x became %04x, %04x, %08x", k->name, zr_bits(from[i]),
				 lowp[i], rem[i], zr_bits(back[i]));
}

/* The same with 8 of the 16 bits: what comes back is the rounded number, and stays what it is. */
static void split_in_24_and_join(const struct zr_cpu_kernels *k, uint32_t upper)
{
	static float from[SPAN], back[SPAN], again[SPAN];
	static uint16_t lowp[SPAN], cast[SPAN];
	static uint8_t rem[SPAN];
	struct zr_op_master split = {
		.n = SPAN, .master = from, .lowp = lowp, .rem = rem, .rem_bits = 8
	};
	struct zr_op_master join = {
		.n = SPAN, .master = back, .lowp = lowp, .rem = rem, .rem_bits = 8
	};
	struct zr_op_cast copy = { .n = SPAN,
				   .src = zr_array_at(ZR_F32, back),
				   .dst = zr_array_at(ZR_BF16, cast) };

	for (uint32_t i = 0; i < SPAN; i++)
		from[i] = zr_from_bits(upper << 16 | i);
	k->master_split(&split, 0, SPAN);
	k->master_join(&join, 0, SPAN);
	k->cast(&copy, 0, SPAN);
	for (uint32_t i = 0; i < SPAN; i++) {
		uint32_t nearest = ((upper << 16 | i) + 128) / 256 * 256;
		if (isnan(from[i]) ? !isnan(back[i]) :
				     zr_bits(back[i]) != nearest || lowp[i] != cast[i])
			fail_msg("%s: %08x became %04x, %02x, %08x", k->name, zr_bits(from[i]),
				 lowp[i], rem[i], zr_bits(back[i]));
	}
	split.master = back;
	join.master = again;
	k->master_split(&split, 0, SPAN);
	k->master_join(&join, 0, SPAN);
	for (uint32_t i = 0; i < SPAN; i++)
		assert_true(isnan(from[i]) ? isnan(again[i]) :
					     zr_bits(again[i]) == zr_bits(back[i]));
}

/* Every 61st upper half, and those beside zero, infinity and NaN of either sign. */
static void a_split_master_comes_back_and_its_upper_half_is_the_cast(void **state)
{
	static const uint16_t edges[] = { 0,      1,      0x7f,   0x80,   0x7f7e, 0x7f7f,
					  0x7f80, 0x7f81, 0x7fbf, 0x7fc0, 0x7fff };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		for (uint32_t upper = 3; upper < SPAN; upper += sanitized() ? 61 * 7 : 61)
			split_and_join(k, upper), split_in_24_and_join(k, upper);
		for (size_t i = 0; i < 2 * (sizeof edges / sizeof *edges); i++) {
			split_and_join(k, edges[i / 2] | (i % 2 ? 0x8000u : 0));
			split_in_24_and_join(k, edges[i / 2] | (i % 2 ? 0x8000u : 0));
		}
	}
}

/* No farther from the number than what FlashOptim makes of it (golden/make_split24.py), by nearly
 * the same correction: it has 127 steps to half a unit of the bf16 number, and here there are
 * 128. */
static void masters_of_24_bits_are_as_near_as_those_of_flashoptim(void **state)
{
	const char *top = getenv("srcdir");
	const struct zr_cpu_kernels *k;
	char path[4096];

	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/split24.txt", top ? top : ".");
	EACH_VARIANT(k)
	{
		FILE *f = fopen(path, "r");
		double ours = 0, theirs = 0;
		unsigned x, lowp, back;
		int rem, n = 0;

		assert_non_null(f);
		for (; fscanf(f, "%x %x %d %x", &x, &lowp, &rem, &back) == 4; n++) {
			float from = zr_from_bits(x), to;
			uint16_t half;
			uint8_t code;
			struct zr_op_master op = {
				.n = 1, .master = &from, .lowp = &half, .rem = &code, .rem_bits = 8
			};
			double unit = zr_from_bits((lowp + 1) << 16) - zr_from_bits(lowp << 16),
			       away, code_away;

			k->master_split(&op, 0, 1);
			op.master = &to;
			k->master_join(&op, 0, 1);
			away = fabs((double)to - from) / fabs(unit);
			/* theirs is signed as the number is, ours goes away from zero */
			code_away = (int8_t)code - (x >> 31 ? -rem : rem) * (128 / 127.0);
			if (half != lowp || away > 1 / 512.0 || fabs(code_away) > 1)
				fail_msg("%s: %08x became %04x, %d, by FlashOptim %04x, %d",
					 k->name, x, half, (int8_t)code, lowp, rem);
			ours += away;
			theirs += fabs((double)zr_from_bits(back) - from) / fabs(unit);
		}
		fclose(f);
		assert_int_equal(n, 96);
		if (!(ours > 0 && ours < theirs * 1.02))
			fail_msg("%s: %g of a unit away in the mean, FlashOptim %g", k->name,
				 ours / n, theirs / n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_split_master_comes_back_and_its_upper_half_is_the_cast),
		cmocka_unit_test(masters_of_24_bits_are_as_near_as_those_of_flashoptim),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("master", tests, NULL, NULL);
}
