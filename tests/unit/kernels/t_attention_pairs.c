/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_pairs.c - attention of bf16 by sums of pairs and by tile registers has every bit of
 * the same in C, where the processor has them, and by tile registers in C on any that has AVX-512;
 * the twins agree with the oracle in double.
 */
#include "attention_slices.h"

#include "cpu/attention_tiles.h"
#include "cpu/table.h"
#include "tests/lib/isa.h"
#include "tests/twins/twins.h"

#include <stdlib.h>

#define TWIN(name, forward, backward)                                                              \
	{                                                                                          \
		name, forward, backward, zr_attention_bwd_sum_scalar, zr_attention_sums_scalar,    \
			zr_attention_scratch_scalar                                                \
	}

static const struct variant pairs_twin =
	TWIN("twin of pairs", zr_attention_twin, zr_attention_bwd_twin);
static const struct variant tiles_twin =
	TWIN("twin of tiles", zr_attention_tiles_twin, zr_attention_bwd_tiles_twin);

/* What this machine can run, each with its twin. */
static struct held {
	struct variant v;
	const struct variant *twin;
} held[3];
static int n_held;

static void find_held(void)
{
	for (int i = 0; i < n_variants; i++) {
		const int tiles = !strcmp(variants[i].name, "amx");
		if (tiles || !strcmp(variants[i].name, "avx512bf16"))
			held[n_held++] =
				(struct held){ variants[i], tiles ? &tiles_twin : &pairs_twin };
	}
#ifdef HAVE_AVX512BF16
	if (isa_runs("avx512"))
		held[n_held++] = (struct held){
			{ "amx_emulated", zr_attention_amx_emulated, zr_attention_bwd_amx_emulated,
			  zr_attention_bwd_sum_amx_emulated, zr_attention_sums_amx_emulated,
			  zr_attention_scratch_amx_emulated },
			&tiles_twin
		};
#endif
}

/* A gradient of 0 has either sign. */
static void drop_signs_of_zeros(struct problem *p)
{
	uint16_t *x = (uint16_t *)(void *)p->dqkv;
	for (int64_t i = 0; i < p->n_in; i++)
		if (x[i] == 0x8000)
			x[i] = 0;
}

static void assert_same_gradients(struct problem *x, struct problem *y)
{
	drop_signs_of_zeros(x);
	drop_signs_of_zeros(y);
	assert_memory_equal(x->dqkv, y->dqkv, (size_t)x->n_in * x->elem);
}

static void compare_bits(const struct held *h, const int64_t shape[5], int64_t parts, double by,
			 const struct options *options)
{
	struct problem x = make(shape, ZR_BF16, 5, by), y = make(shape, ZR_BF16, 5, by);

	give_options(&x, options);
	give_options(&y, options);
	x.parts = y.parts = parts;
	both(h->twin, &x);
	both(&h->v, &y);
	assert_memory_equal(x.lse, y.lse, (size_t)x.n_lse * x.real);
	assert_memory_equal(x.out, y.out, (size_t)x.n_out * x.elem);
	assert_memory_equal(x.delta, y.delta, (size_t)x.n_lse * x.real);
	for (int64_t few = 1; !options->dropout && few <= 5 && few <= y.T; few += 2)
		assert_rows_alone(&h->v, &y, y.T - few);
	assert_same_gradients(&x, &y);
	drop(&x);
	drop(&y);
}

/* Lengths and widths around every pair, vector, panel and tile. */
static void I1_bits_are_those_of_the_twin(void **state)
{
	static const int64_t shapes[][5] = {
		{ 1, 1, 1, 1, 1 },    { 2, 13, 3, 3, 5 },   { 1, 33, 1, 1, 31 },
		{ 1, 64, 2, 2, 64 },  { 1, 65, 4, 2, 33 },  { 1, 127, 1, 1, 7 },
		{ 1, 129, 2, 1, 16 }, { 1, 200, 1, 1, 20 }, { 1, 290, 1, 1, 34 },
		{ 1, 530, 1, 1, 8 },  { 1, 40, 1, 1, 264 },
	};
	static const struct options all[] = {
		{ 0 },
		{ .window = 1 },
		{ .window = 24 },
		{ .window = 70, .softcap = 0.75f },
		{ .softcap = 30 },
		{ .documents = 1 },
		{ .documents = 1, .window = 9, .softcap = 2, .dropout = 0.25f },
		{ .dropout = 0.1f },
	};
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
			for (size_t o = 0; o < sizeof all / sizeof *all; o++)
				if (s < 6 || (s + o) % 3 == 0)
					compare_bits(&held[v], shapes[s], 1, 1 + (double)o,
						     &all[o]);
}

/* Rows alone are computed query by query, and documents of a few tokens are. */
static void the_largest_scores_are_those_of_a_plain_loop(void **state)
{
	static const int64_t shapes[][5] = {
		{ 2, 3, 2, 1, 33 }, { 1, 65, 4, 2, 33 }, { 1, 200, 1, 1, 20 }, { 1, 530, 1, 1, 8 }
	};
	static const struct options all[] = {
		{ 0 },
		{ .window = 24 },
		{ .documents = 1 },
		{ .softcap = 0.5f, .window = 40, .documents = 1 },
		{ .softcap = 2, .dropout = 0.25f },
	};
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
			for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
				struct problem p = make(shapes[s], ZR_BF16, 30 + s, 2);
				give_options(&p, &all[k]);
				assert_largest_scores(&held[v].v, &p);
				drop(&p);
			}
}

static void I1_parts_of_heads_have_the_bits_of_the_twin(void **state)
{
	static const int64_t shape[5] = { 1, 70, 4, 1, 24 };
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (int64_t parts = 1; parts <= 4; parts *= 2)
			compare_bits(&held[v], shape, parts, 1,
				     &(struct options){ .documents = parts == 2 });
}

/* In fp32 the order of a sum shows. */
static void assert_same_key_sums(const struct held *h, struct problem *x, struct problem *y)
{
	float *want = key_sums(h->twin, x), *sums = key_sums(&h->v, y);

	for (int64_t i = 0; i < 2 * x->B * x->T * x->G * x->D; i++)
		assert_true(sums[i] == want[i]);
	free(want);
	free(sums);
}

/* Of the queries from `first` on: the rows of p that there are, in the places of the first rows. */
static void compare_queries(const struct held *h, const int64_t shape[5], int64_t first,
			    const struct options *options)
{
	struct problem x = make(shape, ZR_BF16, 5, 2), y = make(shape, ZR_BF16, 5, 2);

	give_options(&x, options);
	give_options(&y, options);
	x.op.fwd.first = y.op.fwd.first = (int32_t)first;
	both(h->twin, &x);
	both(&h->v, &y);
	assert_memory_equal(x.lse, y.lse, (size_t)x.n_lse * x.real);
	assert_memory_equal(x.out, y.out, (size_t)x.n_out * x.elem);
	assert_same_gradients(&x, &y);
	assert_same_key_sums(h, &x, &y);
	drop(&x);
	drop(&y);
}

/* Pairs and blocks of queries begin with the document, not with the first query. */
static void I1_bits_of_some_queries_are_those_of_the_twin(void **state)
{
	static const int64_t shapes[][5] = { { 2, 13, 3, 3, 5 },
					     { 1, 65, 4, 2, 33 },
					     { 1, 200, 1, 1, 20 } };
	static const struct options all[] = {
		{ 0 },
		{ .documents = 1, .window = 9, .softcap = 2, .dropout = 0.25f },
		{ .window = 70, .softcap = 0.75f },
	};
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (size_t s = 0; s < 3; s++)
			for (int64_t first = 1; first < shapes[s][1]; first += 1 + first / 2)
				compare_queries(&held[v], shapes[s], first,
						&all[(size_t)(first + v) % 3]);
}

static void slices_have_the_bits_of_the_whole(void **state)
{
	static const int64_t shape[5] = { 1, 150, 4, 2, 40 };
	static const struct options all[] = {
		{ 0 },
		{ .window = 24, .dropout = 0.25f },
		{ .documents = 1, .softcap = 2 },
	};
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (int k = 0; k < 3; k++) {
			struct problem p = make(shape, ZR_BF16, 3, 1);
			give_options(&p, &all[k]);
			assert_slices_anywhere(&held[v].v, &p);
			drop(&p);
		}
}

/* Scores so far apart that powers are denormal or 0, and operands that are denormal. */
static void I1_bits_of_extreme_values_are_those_of_the_twin(void **state)
{
	static const int64_t shape[5] = { 1, 70, 1, 1, 16 };
	(void)state;
	if (!n_held)
		skip();
	for (int v = 0; v < n_held; v++)
		for (double by = 1e-39; by < 1e6; by *= 1e3)
			compare_bits(&held[v], shape, 1, by, &(struct options){ 0 });
}

static void twin_agrees(const struct variant *twin, const int64_t shape[5],
			const struct options *options)
{
	struct problem want = make(shape, ZR_F64, 7, 1), p = make(shape, ZR_BF16, 7, 1);
	const int64_t n[2] = { p.n_in, p.n_out };
	char *const from[2] = { p.qkv, p.dout }, *const to[2] = { want.qkv, want.dout };

	give_options(&want, options);
	give_options(&p, options);
	for (int t = 0; t < 2; t++)
		for (int64_t i = 0; i < n[t]; i++)
			put(&want, to[t], i, get(&p, from[t], i));
	both(&oracle64, &want);
	both(twin, &p);
	compare_all(&p, &want, 5e-3, twin->name);
	drop(&want);
	drop(&p);
}

static void the_twins_agree_with_the_oracle(void **state)
{
	static const int64_t shape[5] = { 1, 100, 4, 2, 24 };
	static const struct variant *const twins[] = { &pairs_twin, &tiles_twin };
	(void)state;
	if (!__builtin_cpu_supports("avx512f")) /* as the twins are compiled for */
		skip();
	for (int i = 0; i < 2; i++) {
		twin_agrees(twins[i], shape, &(struct options){ 0 });
		twin_agrees(twins[i], shape, &(struct options){ .documents = 1, .dropout = 0.25f });
		twin_agrees(twins[i], shape, &(struct options){ .window = 24, .softcap = 2 });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I1_bits_are_those_of_the_twin),
		cmocka_unit_test(I1_parts_of_heads_have_the_bits_of_the_twin),
		cmocka_unit_test(I1_bits_of_some_queries_are_those_of_the_twin),
		cmocka_unit_test(slices_have_the_bits_of_the_whole),
		cmocka_unit_test(the_largest_scores_are_those_of_a_plain_loop),
		cmocka_unit_test(I1_bits_of_extreme_values_are_those_of_the_twin),
		cmocka_unit_test(the_twins_agree_with_the_oracle),
	};

	find_variants();
	find_held();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
