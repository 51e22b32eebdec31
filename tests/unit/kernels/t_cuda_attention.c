/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_attention.c - attention's CUDA kernels, run by the host (cuda_emulated.h), against the
 * scalar kernel: heads of every width, lengths beside the tiles', shared key-value heads, dropout,
 * poisoned results, padding left alone.
 */
#include "attention_slices.h"
#include "tests/lib/sanitize.h"

#include <kernels_cuda.h>

#include <math.h>
#include <stdlib.h>

static void forward_fma(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	(void)scratch;
	if (lo < hi)
		assert_int_equal(zr_cuda_attention(o, NULL), cudaSuccess);
}

static void backward_fma(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
			 void *scratch, float *delta, float *sums)
{
	struct zr_op_attention_bwd op = *o;
	(void)parts, (void)scratch, (void)sums;
	op.work = delta;
	if (lo >= hi)
		return;
	assert_int_equal(zr_cuda_attention_delta(&op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_bwd(&op, NULL), cudaSuccess);
}

static void forward_mma(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	(void)scratch;
	assert_true(zr_cuda_attention_mma_takes(o));
	if (lo < hi)
		assert_int_equal(zr_cuda_attention_mma(o, NULL), cudaSuccess);
}

static void backward_mma(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
			 void *scratch, float *delta, float *sums)
{
	struct zr_op_attention_bwd op = *o;
	(void)parts, (void)scratch, (void)sums;
	op.work = delta;
	assert_true(zr_cuda_attention_mma_takes_bwd(&op));
	if (lo >= hi)
		return;
	assert_int_equal(zr_cuda_attention_delta(&op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_mma_bwd(&op, NULL), cudaSuccess);
}

static void no_sum(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
		   float *sums)
{
	(void)o, (void)parts, (void)lo, (void)hi, (void)sums;
}

static int64_t no_sums(const struct zr_op_attention *o)
{
	(void)o;
	return 16;
}

static uint64_t no_scratch(const struct zr_op_attention *o, int backward)
{
	(void)o, (void)backward;
	return 64;
}

static const struct variant fma_kernels = { "fma",  forward_fma, backward_fma,
					    no_sum, no_sums,     no_scratch };
static const struct variant mma_kernels = { "mma",  forward_mma, backward_mma,
					    no_sum, no_sums,     no_scratch };

/* Of relative norms: results are rounded to the type once, here and there; on tensor cores what
 * enters products too. */
static double tolerance(const struct variant *v, int32_t dtype)
{
	return (v->forward == forward_mma ? 2 : 1) * (dtype == ZR_F32  ? 2e-6 :
						      dtype == ZR_BF16 ? 3e-3 :
									 4e-4);
}

static void agree_with(const struct variant *v, const int64_t shape[5], int32_t dtype,
		       const struct options *options)
{
	struct problem x = make(shape, dtype, 5, 1), y = make(shape, dtype, 5, 1);
	give_options(&x, options);
	give_options(&y, options);
	both(v, &x);
	both(&variants[0], &y);
	compare_all(&x, &y, tolerance(v, dtype), v->name);
	drop(&x);
	drop(&y);
}

static void agree(const struct variant *v, const int64_t shape[5], int32_t dtype, float dropout)
{
	agree_with(v, shape, dtype, &(struct options){ .dropout = dropout });
}

static void any_width_agrees_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 1, 1, 1, 1, 1 },    { 2, 33, 2, 1, 18 },
					     { 1, 32, 4, 2, 64 },  { 1, 70, 1, 1, 80 },
					     { 1, 35, 2, 1, 130 }, { 2, 5, 3, 3, 256 } };
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		agree(&fma_kernels, shapes[i], dtypes[i % 3], i % 2 ? 0.2f : 0);
	agree(&fma_kernels, shapes[1], ZR_F32, 0);
	agree(&fma_kernels, shapes[3], ZR_F32, 0.5f);
}

static void tensor_cores_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 1, 1, 1, 1, 64 },   { 2, 33, 2, 1, 80 },
					     { 1, 64, 4, 2, 64 },  { 1, 131, 2, 2, 96 },
					     { 1, 70, 2, 1, 128 }, { 1, 97, 3, 3, 64 },
					     { 1, 261, 1, 1, 64 }, { 1, 37, 2, 1, 256 },
					     { 1, 71, 2, 1, 256 }, { 1, 85, 1, 1, 256 } };
	(void)state;
	attention_pad = 8;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const int both_types = shapes[i][1] < 40; /* they lie alike */
		if (both_types || i % 2)
			agree(&mma_kernels, shapes[i], ZR_BF16, i % 2 ? 0.2f : 0);
		if (both_types || i % 2 == 0)
			agree(&mma_kernels, shapes[i], ZR_F16, i % 2 ? 0 : 0.4f);
	}
	attention_pad = 3;
}

static void documents_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 2, 70, 2, 1, 64 },
					     { 1, 131, 2, 2, 96 },
					     { 1, 261, 1, 1, 64 } },
			     narrow[][5] = { { 2, 70, 2, 1, 20 },
					     { 1, 131, 1, 1, 66 },
					     { 1, 261, 1, 1, 8 } };
	(void)state;
	for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
		agree_with(&fma_kernels, narrow[i], ZR_F32,
			   &(struct options){ .documents = 1, .dropout = i % 2 ? 0.2f : 0 });
	attention_pad = 8;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		agree_with(&mma_kernels, shapes[i], i % 2 ? ZR_BF16 : ZR_F16,
			   &(struct options){ .documents = 1, .dropout = i % 2 ? 0 : 0.2f });
	agree_with(&mma_kernels, shapes[2], ZR_BF16, &(struct options){ .documents = 1 });
	agree_with(&mma_kernels, shapes[0], ZR_F16, &(struct options){ .documents = 1 });
	attention_pad = 3;
}

static void windows_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 2, 40, 2, 1, 64 }, { 1, 131, 1, 1, 64 } };
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		int64_t window = i ? 40 : 2;
		agree_with(&fma_kernels, shapes[i], ZR_F32,
			   &(struct options){ .window = window, .dropout = i ? 0.2f : 0 });
		attention_pad = 8;
		agree_with(&mma_kernels, shapes[i], i ? ZR_BF16 : ZR_F16,
			   &(struct options){ .window = window, .dropout = i ? 0 : 0.2f });
		attention_pad = 3;
	}
	attention_pad = 8;
	agree_with(&mma_kernels, shapes[0], ZR_BF16,
		   &(struct options){ .window = 20, .documents = 1 });
	attention_pad = 3;
}

/* Walks of several tiles on tensor cores, of which some are seen whole, and some in part for
 * documents, windows or both. */
static void tiles_seen_in_part_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 1, 261, 1, 1, 64 },
					     { 1, 230, 1, 1, 80 },
					     { 1, 230, 1, 1, 96 },
					     { 1, 230, 1, 1, 128 },
					     { 1, 100, 2, 1, 256 } };
	static const struct options masks[] = {
		{ .documents = 1 },
		{ .window = 100 },
		{ .window = 150, .documents = 1 },
		{ .window = 90, .softcap = 2 },
		{ .window = 100, .dropout = 0.2f },
		{ .documents = 1, .softcap = 2, .dropout = 0.2f },
	};
	const size_t n_masks = sanitized() ? 3 : sizeof masks / sizeof *masks;
	(void)state;
	attention_pad = 8;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t k = i ? i - 1 : 0; k < n_masks; k += i ? 3 : 1)
			agree_with(&mma_kernels, shapes[i], (i + k) % 2 ? ZR_F16 : ZR_BF16,
				   &masks[k]);
	attention_pad = 3;
}

/* Keys that grow along the sequence, or shrink: the largest scores grow by more than a base may be
 * exceeded by, and by less. */
static void growing_scores_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shape[5] = { 1, 261, 1, 1, 64 };
	(void)state;
	attention_pad = 8;
	for (int shrink = 0; shrink < 2; shrink++) {
		struct problem x = make(shape, ZR_BF16, 5, 1), y = make(shape, ZR_BF16, 5, 1);
		for (int64_t t = 0; t < x.T; t++)
			for (int64_t d = 0; d < x.D; d++) {
				const int64_t at = t * x.in_stride + x.H * x.D + d;
				const double by = 0.05 * (double)(shrink ? x.T - t : t);
				put(&x, x.qkv, at, get(&x, x.qkv, at) * by);
				put(&y, y.qkv, at, get(&y, y.qkv, at) * by);
			}
		both(&mma_kernels, &x);
		both(&variants[0], &y);
		/* sharp scores: their gradients are differences of what is nearly equal */
		compare_all(&x, &y, 2 * tolerance(&mma_kernels, ZR_BF16), "mma");
		drop(&x);
		drop(&y);
	}
	attention_pad = 3;
}

static void tensor_cores_keep_nan(void **state)
{
	static const int64_t shape[5] = { 1, 140, 1, 1, 64 };
	struct problem p;
	(void)state;
	attention_pad = 8;
	p = make(shape, ZR_BF16, 5, 1);
	put(&p, p.qkv, 70 * p.in_stride + 64, (double)NAN); /* an element of key 70 */
	both(&mma_kernels, &p);
	for (int64_t t = 0; t < p.T; t++) {
		assert_int_equal(isnan(get(&p, p.out, t * p.out_stride)) != 0, t >= 70);
		assert_int_equal(isnan(get_lse(&p, t)) != 0, t >= 70);
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride)) || t < 70); /* dq */
		/* dk and dv: of keys that those queries see */
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride + 64)));
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride + 128)));
	}
	drop(&p);
	attention_pad = 3;
}

static void soft_caps_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shape[5] = { 1, 70, 2, 1, 64 }, single[5] = { 40, 1, 2, 1, 1 };
	const struct options caps[] = { { .softcap = 0.75f },
					{ .softcap = 30, .window = 33, .dropout = 0.2f } };
	struct problem x, y;
	(void)state;
	for (int i = 0; i < 2; i++) {
		agree_with(&fma_kernels, shape, i ? ZR_BF16 : ZR_F32, &caps[i]);
		attention_pad = 8;
		agree_with(&mma_kernels, shape, i ? ZR_F16 : ZR_BF16, &caps[i]);
		attention_pad = 3;
	}
	x = make(single, ZR_F32, 7, 3); /* lse of a single key is its score */
	y = make(single, ZR_F32, 7, 3);
	give_options(&x, &caps[0]);
	give_options(&y, &caps[0]);
	both(&fma_kernels, &x);
	both(&variants[0], &y);
	assert_memory_equal(x.lse, y.lse, (size_t)x.n_lse * x.real);
	drop(&x);
	drop(&y);
}

static void a_window_of_all_has_the_bits_of_none(void **state)
{
	static const int64_t shape[5] = { 1, 37, 1, 1, 64 };
	struct problem p = make(shape, ZR_F32, 5, 1);
	(void)state;
	assert_wide_windows(&fma_kernels, &p);
	drop(&p);
	attention_pad = 8;
	p = make(shape, ZR_BF16, 5, 1);
	assert_wide_windows(&mma_kernels, &p);
	drop(&p);
	attention_pad = 3;
}

static void what_no_window_reaches_is_not_read(void **state)
{
	(void)state;
	assert_window_forgets(&fma_kernels, ZR_F32, 24);
	attention_pad = 8;
	assert_window_forgets(&mma_kernels, ZR_BF16, 64);
	attention_pad = 3;
}

static void last_queries_have_the_bits_of_all(void **state)
{
	static const int64_t shapes[][5] = { { 1, 70, 2, 1, 64 }, { 2, 45, 2, 1, 80 } };
	static const int64_t firsts[] = { 0, 1, 31, 44, 32 };
	(void)state;
	for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
		struct problem p = make(shapes[i % 2], i % 2 ? ZR_BF16 : ZR_F32, 5, 1), m;
		p.op.fwd.window = i % 2 ? 9 : 0;
		assert_rows_alone(&fma_kernels, &p, firsts[i]);
		drop(&p);
		attention_pad = 8;
		m = make(shapes[i % 2], i % 2 ? ZR_BF16 : ZR_F16, 5, 1);
		m.op.fwd.window = i % 2 ? 0 : 33;
		assert_rows_alone(&mma_kernels, &m, firsts[i]);
		drop(&m);
		attention_pad = 3;
	}
}

/* Slices of one query, of no whole tile and of some. */
static void slices_of(const struct variant *v, const int64_t shape[5], int32_t dtype,
		      const struct options *options)
{
	const int64_t T = shape[1], ends[] = { 37, T - 1, T };
	struct problem p = make(shape, dtype, 5, 1);

	give_options(&p, options);
	assert_slices(v, &p, ends, 3);
	drop(&p);
}

static void slices_have_the_bits_of_the_whole(void **state)
{
	static const int64_t narrow[5] = { 2, 70, 2, 1, 18 };
	static const int64_t shapes[][5] = { { 1, 150, 2, 1, 64 },
					     { 2, 45, 2, 2, 80 },
					     { 1, 70, 2, 1, 96 },
					     { 1, 70, 1, 1, 128 },
					     { 1, 40, 2, 1, 256 } };
	static const struct options all[] = {
		{ 0 },
		{ .dropout = 0.25f, .window = 24 },
		{ .documents = 1, .softcap = 2 },
		{ .window = 9 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const struct options *options = &all[i % (sizeof all / sizeof *all)];
		if (i < sizeof all / sizeof *all)
			slices_of(&fma_kernels, narrow, i % 3 ? ZR_F32 : ZR_BF16, options);
		attention_pad = 8;
		slices_of(&mma_kernels, shapes[i], i % 2 ? ZR_BF16 : ZR_F16, options);
		attention_pad = 3;
	}
}

static void heads_have_the_bits_that_they_have_among_all(void **state)
{
	static const int64_t shape[5] = { 2, 40, 4, 2, 64 };
	struct problem p = make(shape, ZR_F32, 5, 1);
	(void)state;
	p.op.fwd.dropout = 0.25f;
	assert_heads_alone(&fma_kernels, &p);
	drop(&p);
	attention_pad = 8;
	p = make(shape, ZR_BF16, 5, 1);
	p.op.fwd.dropout = 0.25f;
	assert_heads_alone(&mma_kernels, &p);
	drop(&p);
	attention_pad = 3;
}

static void heads_apart_have_the_bits_of_heads_together(void **state)
{
	static const int64_t shape[5] = { 1, 37, 2, 1, 64 };
	struct problem p = make(shape, ZR_F32, 5, 1);
	(void)state;
	assert_heads_apart(&fma_kernels, &p);
	drop(&p);
	attention_pad = 8;
	p = make(shape, ZR_BF16, 5, 1);
	assert_heads_apart(&mma_kernels, &p);
	p.op.fwd.q_head = 68; /* rows of a head lie across vectors */
	assert_false(zr_cuda_attention_mma_takes(&p.op.fwd));
	drop(&p);
	attention_pad = 3;
}

static void the_largest_scores_are_those_of_a_plain_loop(void **state)
{
	static const int64_t shapes[][5] = { { 2, 45, 2, 1, 64 }, { 1, 131, 2, 2, 80 } };
	static const struct options all[] = {
		{ 0 },
		{ .window = 24 },
		{ .documents = 1 },
		{ .softcap = 0.5f, .window = 40, .documents = 1 },
		{ .softcap = 2, .dropout = 0.25f },
	};
	(void)state;
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		const size_t s = k % 2;
		struct problem p = make(shapes[s], s ? ZR_F16 : ZR_F32, 30 + s, 2), m;
		give_options(&p, &all[k]);
		assert_largest_scores(&fma_kernels, &p);
		drop(&p);
		attention_pad = 8;
		m = make(shapes[s], s ? ZR_BF16 : ZR_F16, 30 + s, 2);
		give_options(&m, &all[k]);
		assert_largest_scores(&mma_kernels, &m);
		drop(&m);
		attention_pad = 3;
	}
}

static void tensor_cores_refuse_what_they_cannot_take(void **state)
{
	static const int64_t good[5] = { 1, 5, 2, 1, 64 }, odd[5] = { 1, 5, 2, 1, 72 };
	struct problem p = make(good, ZR_BF16, 1, 1), q;
	(void)state;
	assert_false(zr_cuda_attention_mma_takes(&p.op.fwd)); /* rows 3 elements apart */
	drop(&p);
	attention_pad = 8;
	p = make(good, ZR_BF16, 1, 1);
	assert_true(zr_cuda_attention_mma_takes(&p.op.fwd));
	p.op.fwd.k = (const char *)p.op.fwd.k + 2;
	assert_false(zr_cuda_attention_mma_takes(&p.op.fwd));
	drop(&p);
	p = make(good, ZR_BF16, 1, 1);
	p.op.fwd.scale = -p.op.fwd.scale; /* the largest score is not that of the largest product */
	assert_false(zr_cuda_attention_mma_takes(&p.op.fwd));
	drop(&p);
	p = make(good, ZR_F32, 1, 1);
	q = make(odd, ZR_BF16, 1, 1);
	assert_false(zr_cuda_attention_mma_takes(&p.op.fwd));
	assert_false(zr_cuda_attention_mma_takes(&q.op.fwd));
	drop(&p);
	drop(&q);
	attention_pad = 3;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_width_agrees_with_the_scalar_kernel),
		cmocka_unit_test(tensor_cores_agree_with_the_scalar_kernel),
		cmocka_unit_test(documents_agree_with_the_scalar_kernel),
		cmocka_unit_test(windows_agree_with_the_scalar_kernel),
		cmocka_unit_test(tiles_seen_in_part_agree_with_the_scalar_kernel),
		cmocka_unit_test(growing_scores_agree_with_the_scalar_kernel),
		cmocka_unit_test(tensor_cores_keep_nan),
		cmocka_unit_test(soft_caps_agree_with_the_scalar_kernel),
		cmocka_unit_test(a_window_of_all_has_the_bits_of_none),
		cmocka_unit_test(what_no_window_reaches_is_not_read),
		cmocka_unit_test(last_queries_have_the_bits_of_all),
		cmocka_unit_test(slices_have_the_bits_of_the_whole),
		cmocka_unit_test(heads_have_the_bits_that_they_have_among_all),
		cmocka_unit_test(heads_apart_have_the_bits_of_heads_together),
		cmocka_unit_test(the_largest_scores_are_those_of_a_plain_loop),
		cmocka_unit_test(tensor_cores_refuse_what_they_cannot_take),
	};
	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
