/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_options.c - attention in windows, under a soft cap and with heads that are not
 * together: every variant against the oracle, and bits where what is computed is the same.
 */
#include "attention_case.h"

#include <math.h>
#include <stdlib.h>

static void variants_agree_in_windows(void **state)
{
	(void)state;
	for (int64_t window = 1; window < 140; window = 3 * window + 13) {
		float dropout = window % 2 ? 0 : 0.25f;
		assert_variants_agree(
			1, ZR_F32, &(struct options){ .dropout = dropout, .window = window }, 2e-6);
	}
	assert_variants_agree(1, ZR_BF16, &(struct options){ .window = 24 }, 4e-3);
	assert_variants_agree(2, ZR_F32,
			      &(struct options){ .dropout = 0.25f, .window = 24, .documents = 1 },
			      2e-6);
}

static void variants_agree_under_a_soft_cap(void **state)
{
	(void)state;
	assert_variants_agree(1, ZR_F32, &(struct options){ .softcap = 0.75f }, 2e-6);
	assert_variants_agree(1, ZR_BF16, &(struct options){ .softcap = 30, .window = 24 }, 4e-3);
	assert_variants_agree(1, ZR_F16,
			      &(struct options){ .softcap = 1, .documents = 1, .dropout = 0.25f },
			      5e-4);
	assert_variants_agree(
		2, ZR_F32, &(struct options){ .softcap = 2, .window = 24, .dropout = 0.25f }, 2e-6);
}

/* lse of a single key is its score: so every variant has the tanh of the scalar one. */
static void capped_scores_have_the_bits_of_the_scalar_kernel(void **state)
{
	static const int64_t shape[5] = { 512, 1, 2, 1, 1 };
	(void)state;
	for (double by = 1e-3; by < 100; by *= 9) {
		struct problem want = make(shape, ZR_F32, 7, by);
		want.op.fwd.scale = 1;
		want.op.fwd.softcap = 3;
		both(&variants[0], &want);
		for (int64_t r = 0; r < want.B; r++)
			for (int64_t h = 0; h < want.H; h++) {
				double q = get(&want, want.qkv, r * want.in_stride + h),
				       k = get(&want, want.qkv, r * want.in_stride + want.H);
				double s = 3 * tanh(q * k / 3);
				assert_true(fabs(get_lse(&want, r * want.H + h) - s) <=
					    4e-7 * fabs(s));
			}
		for (int v = 1; v < n_variants; v++) {
			struct problem p = make(shape, ZR_F32, 7, by);
			p.op.fwd.scale = 1;
			p.op.fwd.softcap = 3;
			both(&variants[v], &p);
			assert_memory_equal(p.lse, want.lse, (size_t)p.n_lse * p.real);
			drop(&p);
		}
		drop(&want);
	}
}

/* Scores of 1e10 are all as good as the cap: nothing flows through them, and rows are means. */
static void a_soft_cap_calms_large_scores(void **state)
{
	static const int64_t shape[5] = { 1, 150, 2, 1, 40 };
	(void)state;
	for (int v = 0; v < n_variants; v++) {
		struct problem p = make(shape, ZR_F32, 8, 1e5);
		p.op.fwd.softcap = 30;
		both(&variants[v], &p);
		for (int64_t i = 0; i < p.n_lse; i++)
			assert_true(fabs(get_lse(&p, i)) <= 30 + log(150));
		for (int64_t r = 0; r < p.B * p.T; r++)
			for (int64_t i = 0; i < (p.H + p.G) * p.D; i++)
				assert_true(fabs(get(&p, p.dqkv, r * p.in_stride + i)) < 1e13);
		drop(&p);
	}
}

static void a_window_of_all_has_the_bits_of_none(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++) {
			struct problem p =
				make(attention_shapes[s], s % 2 ? ZR_BF16 : ZR_F32, s, 1);
			if (s % 3 == 2)
				give_documents(&p);
			assert_wide_windows(&variants[v], &p);
			drop(&p);
		}
}

static void what_no_window_reaches_is_not_read(void **state)
{
	(void)state;
	for (int v = 0; v < n_variants; v++) {
		assert_window_forgets(&variants[v], ZR_F32, 24);
		assert_window_forgets(&variants[v], ZR_BF16, 33);
	}
}

static void heads_apart_have_the_bits_of_heads_together(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++) {
			static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
			struct problem p = make(attention_shapes[s], dtypes[s % 3], s, 1);
			p.op.fwd.dropout = s % 2 ? 0.25f : 0;
			if (s % 4 == 3)
				give_documents(&p);
			assert_heads_apart(&variants[v], &p);
			drop(&p);
		}
}

static void the_largest_scores_are_those_of_a_plain_loop(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	static const struct options all[] = {
		{ 0 },
		{ .window = 24 },
		{ .documents = 1 },
		{ .softcap = 0.5f, .window = 40, .documents = 1 },
		{ .softcap = 2, .dropout = 0.25f },
	};
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (size_t k = 0; k < sizeof all / sizeof *all; k++)
			for (int v = 0; v < n_variants; v++) {
				int32_t dtype = dtypes[(s + k) % 3];
				struct problem p = make(attention_shapes[s], dtype, 30 + s, 2);
				give_options(&p, &all[k]);
				assert_largest_scores(&variants[v], &p);
				drop(&p);
			}
}

/* Of a query and a key whose product is NaN nothing counts, all else does. */
static void a_score_that_is_NaN_is_not_the_largest(void **state)
{
	static const int64_t shape[5] = { 1, 70, 1, 1, 32 };
	(void)state;
	for (int v = 0; v < n_variants; v++)
		for (int k = 0; k < 2; k++) {
			struct problem p = make(shape, k ? ZR_BF16 : ZR_F32, 9, 1);
			float largest = 0, most = 0;
			p.op.fwd.max_scores = &most;
			forward(&variants[v], &p, 0);
			put(&p, p.qkv, 69 * p.in_stride + p.D, (double)NAN); /* the last key */
			p.op.fwd.max_scores = &largest;
			forward(&variants[v], &p, 0);
			assert_true(largest > most / 2 && largest <= most);
			drop(&p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variants_agree_in_windows),
		cmocka_unit_test(variants_agree_under_a_soft_cap),
		cmocka_unit_test(capped_scores_have_the_bits_of_the_scalar_kernel),
		cmocka_unit_test(a_soft_cap_calms_large_scores),
		cmocka_unit_test(a_window_of_all_has_the_bits_of_none),
		cmocka_unit_test(what_no_window_reaches_is_not_read),
		cmocka_unit_test(heads_apart_have_the_bits_of_heads_together),
		cmocka_unit_test(the_largest_scores_are_those_of_a_plain_loop),
		cmocka_unit_test(a_score_that_is_NaN_is_not_the_largest),
	};

	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
