/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_pairs.c - attention of bf16 by sums of pairs has every bit of the same in C, where
 * the processor has them, and the latter agrees with the oracle in double.
 */
#include "attention_case.h"

#include "cpu/attention_pairs.h"
#include "cpu/table.h"
#include "tests/lib/isa.h"

static const struct variant twin = { "twin",
				     zr_attention_twin,
				     zr_attention_bwd_twin,
				     zr_attention_bwd_sum_scalar,
				     zr_attention_sums_scalar,
				     zr_attention_scratch_scalar };

/* The last variant of those that the machine has, if it is the one of pairs. */
static const struct variant *of_pairs(void)
{
	const struct variant *v = &variants[n_variants - 1];
	return strcmp(v->name, "avx512bf16") ? NULL : v;
}

/* A gradient of 0 has either sign. */
static void drop_signs_of_zeros(struct problem *p)
{
	uint16_t *x = (uint16_t *)(void *)p->dqkv;
	for (int64_t i = 0; i < p->n_in; i++)
		if (x[i] == 0x8000)
			x[i] = 0;
}

static void compare_bits(const struct variant *v, const int64_t shape[5], int64_t parts, double by,
			 const struct options *options)
{
	struct problem x = make(shape, ZR_BF16, 5, by), y = make(shape, ZR_BF16, 5, by);

	give_options(&x, options);
	give_options(&y, options);
	x.parts = y.parts = parts;
	both(&twin, &x);
	both(v, &y);
	assert_memory_equal(x.lse, y.lse, (size_t)x.n_lse * x.real);
	assert_memory_equal(x.out, y.out, (size_t)x.n_out * x.elem);
	assert_memory_equal(x.delta, y.delta, (size_t)x.n_lse * x.real);
	drop_signs_of_zeros(&x);
	drop_signs_of_zeros(&y);
	assert_memory_equal(x.dqkv, y.dqkv, (size_t)x.n_in * x.elem);
	drop(&x);
	drop(&y);
}

/* Lengths and widths around every pair, vector, panel and tile. */
static void I1_bits_are_those_of_the_twin(void **state)
{
	static const int64_t shapes[][5] = {
		{ 1, 1, 1, 1, 1 },  { 2, 13, 3, 3, 5 },   { 1, 33, 1, 1, 31 }, { 1, 64, 2, 2, 64 },
		{ 1, 65, 4, 2, 33 }, { 1, 127, 1, 1, 7 },
		{ 1, 129, 2, 1, 16 }, { 1, 200, 1, 1, 20 },
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
	const struct variant *v = of_pairs();
	(void)state;
	if (!v)
		skip();
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (size_t o = 0; o < sizeof all / sizeof *all; o++)
			if (s < 6 || (s + o) % 3 == 0)
				compare_bits(v, shapes[s], 1, 1 + (double)o, &all[o]);
}

static void I1_parts_of_heads_have_the_bits_of_the_twin(void **state)
{
	static const int64_t shape[5] = { 1, 70, 4, 1, 24 };
	const struct variant *v = of_pairs();
	(void)state;
	if (!v)
		skip();
	for (int64_t parts = 1; parts <= 4; parts *= 2)
		compare_bits(v, shape, parts, 1, &(struct options){ .documents = parts == 2 });
}

/* Scores so far apart that powers are denormal or 0, and operands that are denormal. */
static void I1_bits_of_extreme_values_are_those_of_the_twin(void **state)
{
	static const int64_t shape[5] = { 1, 70, 1, 1, 16 };
	const struct variant *v = of_pairs();
	(void)state;
	if (!v)
		skip();
	for (double by = 1e-39; by < 1e6; by *= 1e3)
		compare_bits(v, shape, 1, by, &(struct options){ 0 });
}

static void twin_agrees(const int64_t shape[5], const struct options *options)
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
	both(&twin, &p);
	compare_all(&p, &want, 5e-3, twin.name);
	drop(&want);
	drop(&p);
}

static void the_twin_agrees_with_the_oracle(void **state)
{
	static const int64_t shape[5] = { 1, 100, 4, 2, 24 };
	(void)state;
	twin_agrees(shape, &(struct options){ 0 });
	twin_agrees(shape, &(struct options){ .documents = 1, .dropout = 0.25f });
	twin_agrees(shape, &(struct options){ .window = 24, .softcap = 2 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I1_bits_are_those_of_the_twin),
		cmocka_unit_test(I1_parts_of_heads_have_the_bits_of_the_twin),
		cmocka_unit_test(I1_bits_of_extreme_values_are_those_of_the_twin),
		cmocka_unit_test(the_twin_agrees_with_the_oracle),
	};

	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
