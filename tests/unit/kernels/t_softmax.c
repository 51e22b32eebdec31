/* SPDX-License-Identifier: Apache-2.0
 *
 * t_softmax.c - softmax cross entropy of a row in one pass and in blocks of it.
 */
#include "kernels_fixture.h"

#include <math.h>
#include <string.h>

#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

enum { MOST = 300 };
static const int64_t lengths[] = { 1, 2, 15, 64, 67, MOST };

/* The loss of n logits, and the stats, in blocks of `block`. */
static float in_blocks(const struct zr_cpu_kernels *k, const float *x, int64_t n, int64_t block,
		       int32_t target, float *stats)
{
	float row[MOST];
	memcpy(row, x, (size_t)n * sizeof *row);
	for (int64_t i = 0; i < n; i += block)
		k->softmax_sums(row + i, n - i < block ? n - i : block, i > 0, stats);
	return k->softmax_end(stats, x[target], 0.5f);
}

static float in_one_pass(const struct zr_cpu_kernels *k, const float *x, int64_t n, int32_t target,
			 int backward, float *stats)
{
	float row[MOST];
	memcpy(row, x, (size_t)n * sizeof *row);
	return k->softmax_loss(row, n, target, backward, 0.5f, stats);
}

static void blocks_have_the_loss_of_one_pass(void **state)
{
	const struct zr_cpu_kernels *k;
	uint64_t seed = 3;

	(void)state;
	EACH_VARIANT(k)
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (int64_t block = 1; block <= lengths[i]; block += 13) {
			const int32_t target = (int32_t)lengths[i] / 2;
			float *x = fixture_drawn(&seed, lengths[i], ZR_F32, 8);
			float one[2], all[2];
			/* the first block has nothing that counts */
			for (int64_t j = 0; j < block && j < target; j++)
				x[j] = -INFINITY;
			fixture_near(in_blocks(k, x, lengths[i], block, target, all),
				     in_one_pass(k, x, lengths[i], target, 1, one), 1e-5);
			fixture_near(all[0], one[0], 0);
			fixture_near(all[1], one[1], 1e-5);
			fixture_release();
		}
}

static void what_is_not_finite_shows_in_the_loss(void **state)
{
	static const float bad[] = { NAN, INFINITY };
	const struct zr_cpu_kernels *k;
	uint64_t seed = 5;

	(void)state;
	EACH_VARIANT(k)
	for (int64_t at = 0; at < MOST; at++) {
		float *x = fixture_drawn(&seed, MOST, ZR_F32, 1), stats[2];
		x[at] = bad[at % 2];
		for (int backward = 0; backward < 2; backward++)
			assert_false(isfinite(in_one_pass(k, x, MOST, 7, backward, stats)));
		assert_false(isfinite(in_blocks(k, x, MOST, 100, 7, stats)));
		for (int64_t i = 0; i < MOST; i++)
			if (i != at && i / 100 == at / 100)
				x[i] = -INFINITY; /* all of the block but that */
		assert_false(isfinite(in_blocks(k, x, MOST, 100, 7, stats)));
		fixture_release();
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_have_the_loss_of_one_pass),
		cmocka_unit_test(what_is_not_finite_shows_in_the_loss),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
