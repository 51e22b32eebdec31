/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_attention_hopper.c - attention's kernel for compute capability 9.0, run by the host
 * (hopper_emulated.h), against the scalar kernel: heads of every width, lengths beside the tiles',
 * shared key-value heads, documents, windows, soft caps, dropout and largest scores; the bits are
 * the same in each order in which what is asynchronous may end.
 */
#include "attention_slices.h"
#include "hopper_kernels.h"
#include "tests/lib/sanitize.h"

#include <kernels_cuda.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 8 };

static void forward_hopper(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	(void)scratch;
	assert_true(zr_cuda_attention_hopper_takes(o));
	if (lo < hi)
		assert_int_equal(zr_cuda_attention_hopper(o, NULL), cudaSuccess);
}

static void no_backward(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
			void *scratch, float *delta, float *sums)
{
	(void)o, (void)parts, (void)lo, (void)hi, (void)scratch, (void)delta, (void)sums;
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

static const struct variant hopper_kernels = { "hopper", forward_hopper, no_backward,
					       no_sum,   no_sums,        no_scratch };

static void compare_results(const struct problem *x, const struct problem *y)
{
	const double tolerance = x->dtype == ZR_BF16 ? 6e-3 : 8e-4;
	struct distance out = { 0, 0 }, lse = { 0, 0 };

	for (int64_t r = 0; r < x->B * x->T; r++)
		for (int64_t i = 0; i < x->H * x->D; i++)
			measure(&out, get(x, x->out, r * x->out_stride + i),
				get(y, y->out, r * y->out_stride + i));
	for (int64_t i = 0; i < x->n_lse; i++)
		measure(&lse, get_lse(x, i), get_lse(y, i));
	assert_close(&out, tolerance, x, "hopper", "out");
	assert_close(&lse, tolerance, x, "hopper", "lse");
}

static void agree(const int64_t shape[5], int32_t dtype, const struct options *options)
{
	struct problem x = make(shape, dtype, 5, 1), y = make(shape, dtype, 5, 1);

	give_options(&x, options);
	give_options(&y, options);
	forward(&hopper_kernels, &x, 0);
	forward(&variants[0], &y, 0);
	compare_results(&x, &y);
	drop(&x);
	drop(&y);
}

static void every_length_agrees_with_the_scalar_kernel(void **state)
{
	static const int64_t lengths[] = { 1,   2,   7,   15,  16,  17,  33,  63,  64,  65,  100,
					   127, 128, 129, 159, 191, 192, 193, 255, 256, 257, 300 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const int64_t shape[5] = { 1, lengths[i], 1, 1, i % 4 == 3 ? 128 : 64 };
		hopper_order((int)i % ORDERS);
		agree(shape, i % 2 ? ZR_BF16 : ZR_F16, &(struct options){ 0 });
	}
}

static void every_width_agrees_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 2, 33, 4, 2, 64 },  { 1, 131, 2, 1, 80 },
					     { 1, 140, 2, 2, 96 }, { 2, 129, 3, 1, 128 },
					     { 1, 71, 2, 1, 256 }, { 1, 193, 1, 1, 256 } };
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		hopper_order((int)i % ORDERS);
		agree(shapes[i], i % 2 ? ZR_BF16 : ZR_F16, &(struct options){ 0 });
		agree(shapes[i], i % 2 ? ZR_F16 : ZR_BF16, &(struct options){ .softcap = 2 });
		agree(shapes[i], i % 2 ? ZR_BF16 : ZR_F16, &(struct options){ .dropout = 0.25F });
	}
}

/* Walks of several tiles, of which some are seen whole, some in part, some by one of a block's
 * warpgroups alone, and some by none. */
static void tiles_seen_in_part_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 1, 300, 1, 1, 64 },
					     { 1, 261, 1, 1, 80 },
					     { 1, 290, 1, 1, 128 },
					     { 1, 200, 1, 1, 256 } };
	static const struct options masks[] = {
		{ .documents = 1 },
		{ .window = 2 },
		{ .window = 20 },
		{ .window = 100 },
		{ .window = 150, .documents = 1 },
		{ .window = 90, .softcap = 2 },
		{ .documents = 1, .softcap = 0.75F },
		{ .window = 100, .dropout = 0.2F },
	};
	const size_t n = sizeof masks / sizeof *masks;
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t k = i ? i - 1 : 0; k < n; k += i ? 3 : 1) {
			hopper_order((int)(i + k) % ORDERS);
			agree(shapes[i], (i + k) % 2 ? ZR_F16 : ZR_BF16, &masks[k]);
		}
}

/* Keys that grow along the sequence, or shrink: the largest scores grow by more than a base may be
 * exceeded by, and by less. */
static void growing_scores_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shape[5] = { 1, 290, 1, 1, 64 };
	(void)state;
	for (int shrink = 0; shrink < 2; shrink++) {
		struct problem x = make(shape, ZR_F16, 5, 1), y = make(shape, ZR_F16, 5, 1);
		for (int64_t t = 0; t < x.T; t++)
			for (int64_t d = 0; d < x.D; d++) {
				const int64_t at = t * x.in_stride + x.H * x.D + d;
				const double by = 0.05 * (double)(shrink ? x.T - t : t);
				put(&x, x.qkv, at, get(&x, x.qkv, at) * by);
				put(&y, y.qkv, at, get(&y, y.qkv, at) * by);
			}
		forward(&hopper_kernels, &x, 0);
		forward(&variants[0], &y, 0);
		compare_results(&x, &y);
		drop(&x);
		drop(&y);
	}
}

static void each_order_gives_the_same_bits(void **state)
{
	static const int64_t shape[5] = { 2, 261, 2, 1, 64 };
	struct problem first = make(shape, ZR_BF16, 5, 1), x = make(shape, ZR_BF16, 5, 1);
	(void)state;
	hopper_order(0);
	forward(&hopper_kernels, &first, 0);
	for (int order = 1; order < ORDERS; order += sanitized() ? 3 : 1) {
		hopper_order(order);
		forward(&hopper_kernels, &x, 0);
		assert_memory_equal(x.out, first.out, (size_t)x.n_out * x.elem);
		assert_memory_equal(x.lse, first.lse, (size_t)x.n_lse * x.real);
	}
	drop(&first);
	drop(&x);
}

static void nan_is_kept(void **state)
{
	static const int64_t shape[5] = { 1, 140, 1, 1, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	put(&p, p.qkv, 70 * p.in_stride + 64, (double)NAN); /* an element of key 70 */
	forward(&hopper_kernels, &p, 0);
	for (int64_t t = 0; t < p.T; t++) {
		assert_int_equal(isnan(get(&p, p.out, t * p.out_stride)) != 0, t >= 70);
		assert_int_equal(isnan(get_lse(&p, t)) != 0, t >= 70);
	}
	drop(&p);
}

static void last_queries_have_the_bits_of_all(void **state)
{
	static const int64_t shapes[][5] = { { 1, 140, 2, 1, 64 }, { 2, 135, 2, 1, 80 } };
	static const int64_t firsts[] = { 0, 1, 63, 64, 130 };
	(void)state;
	for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
		struct problem p = make(shapes[i % 2], i % 2 ? ZR_BF16 : ZR_F16, 5, 1);
		p.op.fwd.window = i % 2 ? 0 : 33;
		p.op.fwd.dropout = i % 2 ? 0.2F : 0;
		assert_rows_alone(&hopper_kernels, &p, firsts[i]);
		drop(&p);
	}
}

static void a_window_of_all_has_the_bits_of_none(void **state)
{
	static const int64_t shape[5] = { 1, 37, 1, 1, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	assert_wide_windows(&hopper_kernels, &p);
	drop(&p);
}

static void heads_have_the_bits_that_they_have_elsewhere(void **state)
{
	static const int64_t shape[5] = { 2, 40, 4, 2, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	assert_heads_apart(&hopper_kernels, &p);
	drop(&p);
}

static void largest_scores_are_found(void **state)
{
	static const int64_t shapes[][5] = { { 2, 140, 2, 1, 64 },
					     { 1, 200, 1, 1, 80 },
					     { 1, 70, 2, 2, 128 },
					     { 1, 131, 1, 1, 256 } };
	static const struct options all[] = {
		{ 0 }, { .window = 30, .documents = 1 }, { .softcap = 2 }, { .dropout = 0.25F }
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct problem p = make(shapes[i], i % 2 ? ZR_F16 : ZR_BF16, 5, 1);
		hopper_order((int)i);
		give_options(&p, &all[i]);
		assert_largest_scores(&hopper_kernels, &p);
		drop(&p);
	}
}

static void what_the_kernel_cannot_do_is_refused(void **state)
{
	static const int64_t good[5] = { 1, 5, 2, 1, 64 }, narrow[5] = { 1, 5, 2, 1, 72 };
	struct problem p = make(good, ZR_BF16, 1, 1), other = make(narrow, ZR_BF16, 1, 1);
	(void)state;
	assert_true(zr_cuda_attention_hopper_takes(&p.op.fwd));
	p.op.fwd.dtype = ZR_F32;
	assert_false(zr_cuda_attention_hopper_takes(&p.op.fwd));
	assert_false(zr_cuda_attention_hopper_takes(&other.op.fwd));
	p.op.fwd.dtype = ZR_BF16;
	p.op.fwd.dropout = 0.1F;
	assert_true(zr_cuda_attention_hopper_takes(&p.op.fwd));
	p.op.fwd.softcap = 2;
	assert_false(zr_cuda_attention_hopper_takes(&p.op.fwd));
	drop(&p);
	drop(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_agrees_with_the_scalar_kernel),
		cmocka_unit_test(every_width_agrees_with_the_scalar_kernel),
		cmocka_unit_test(tiles_seen_in_part_agree_with_the_scalar_kernel),
		cmocka_unit_test(growing_scores_agree_with_the_scalar_kernel),
		cmocka_unit_test(each_order_gives_the_same_bits),
		cmocka_unit_test(nan_is_kept),
		cmocka_unit_test(last_queries_have_the_bits_of_all),
		cmocka_unit_test(a_window_of_all_has_the_bits_of_none),
		cmocka_unit_test(heads_have_the_bits_that_they_have_elsewhere),
		cmocka_unit_test(largest_scores_are_found),
		cmocka_unit_test(what_the_kernel_cannot_do_is_refused),
	};
	attention_pad = 8;
	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
