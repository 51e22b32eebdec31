/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_slices.c - attention of a part of the queries, and of a part of the heads: every
 * variant against itself on the whole, and against the oracle.
 */
#include "attention_slices.h"

static const struct options plain = { 0 };
static const struct options all[] = {
	{ .window = 24 },
	{ .documents = 1 },
	{ .softcap = 0.75f, .window = 40, .documents = 1 },
	{ .dropout = 0.25f },
	{ .dropout = 0.25f, .window = 24, .softcap = 2, .documents = 1 },
};
enum { N_ALL = sizeof all / sizeof *all };

static void slices_of(const struct variant *v, const int64_t shape[5], int32_t dtype,
		      const struct options *options, int64_t parts)
{
	struct problem p = make(shape, dtype, 3, 1);

	give_options(&p, options);
	p.parts = parts;
	assert_slices_anywhere(v, &p);
	drop(&p);
}

static void slices_have_the_bits_of_the_whole(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++)
			for (int t = 0; t < 3; t++) {
				const struct options *o = &all[(s + (size_t)t) % N_ALL];
				slices_of(&variants[v], attention_shapes[s], dtypes[t], &plain, 1);
				slices_of(&variants[v], attention_shapes[s], dtypes[t], o, 1);
			}
}

static void slices_of_wide_heads_have_the_bits_of_the_whole(void **state)
{
	static const int64_t shapes[][5] = {
		{ 1, 200, 2, 1, 64 },
		{ 2, 131, 1, 1, 96 },
		{ 1, 150, 4, 1, 128 },
	};
	(void)state;
	for (size_t s = 0; s < 3; s++)
		for (int v = n_variants > 1; v < n_variants; v++)
			for (size_t k = s; k < N_ALL; k += 2) {
				slices_of(&variants[v], shapes[s], ZR_F32, &all[k], 1);
				slices_of(&variants[v], shapes[s], ZR_BF16, &all[k],
					  shapes[s][2] / shapes[s][3]);
			}
}

/* The scalar kernel in double: slices of any options sum to the gradients. */
static void slices_of_the_oracle_sum_to_the_whole(void **state)
{
	static const int64_t shape[5] = { 2, 70, 4, 2, 5 };
	(void)state;
	for (size_t k = 0; k < N_ALL; k++)
		slices_of(&oracle64, shape, ZR_F64, &all[k], 1 + (int64_t)k % 2);
}

static void no_queries_give_keys_nothing(void **state)
{
	static const int64_t shape[5] = { 1, 40, 2, 1, 24 };
	(void)state;
	for (int v = 0; v < n_variants; v++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
			struct problem p = make(shape, dtype, 3, 1);
			p.op.fwd.first = 40;
			backward(&variants[v], &p, 0);
			for (int64_t r = 0; r < p.T; r++)
				for (int64_t i = 0; i < 2 * p.D; i++) {
					int64_t at = r * p.in_stride + p.H * p.D + i;
					assert_true(get(&p, p.dqkv, at) == 0);
				}
			drop(&p);
		}
}

static void heads_have_the_bits_that_they_have_among_all(void **state)
{
	static const int64_t shape[5] = { 2, 70, 6, 3, 24 };
	(void)state;
	for (int v = 0; v < n_variants; v++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
			struct problem p = make(shape, dtype, 3, 1);
			give_options(&p, &all[3 + dtype % 2]);
			p.parts = 1 + dtype % 2;
			assert_heads_alone(&variants[v], &p);
			drop(&p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_have_the_bits_of_the_whole),
		cmocka_unit_test(slices_of_wide_heads_have_the_bits_of_the_whole),
		cmocka_unit_test(slices_of_the_oracle_sum_to_the_whole),
		cmocka_unit_test(no_queries_give_keys_nothing),
		cmocka_unit_test(heads_have_the_bits_that_they_have_among_all),
	};

	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
