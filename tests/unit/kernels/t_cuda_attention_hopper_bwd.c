/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_attention_hopper_bwd.c - gradients of attention for compute capability 9.0, run by the
 * host (hopper_emulated.h), against the scalar kernel: heads of every width, lengths beside the
 * tiles', shared key-value heads, documents, windows, soft caps and dropout; the bits are the same
 * in each order in which what is asynchronous may end, and of slices those of the whole.
 */
#include "attention_slices.h"
#include "hopper_kernels.h"
#include "tests/lib/sanitize.h"

#include <kernels_cuda.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 8 };

static void forward_scalar(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	variants[0].forward(o, lo, hi, scratch);
}

static void backward_hopper(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	struct zr_op_attention_bwd op = *o;
	(void)parts, (void)delta, (void)sums;

	if (lo >= hi)
		return;

	op.work = (void *)(((uintptr_t)scratch + 127) / 128 * 128);
	assert_true(zr_cuda_attention_hopper_takes_bwd(&op));
	assert_int_equal(zr_cuda_attention_delta(&op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_hopper_bwd(&op, NULL), cudaSuccess);
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

/* Of the backward, exactly what it asks for, but for what aligns it. */
static uint64_t room(const struct zr_op_attention *o, int backward)
{
	const struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = *o };

	return backward ? zr_cuda_attention_hopper_bwd_work(&op) + 64 : variants[0].scratch(o, 0);
}

static const struct variant hopper_kernels = { "hopper", forward_scalar, backward_hopper,
					       no_sum,   no_sums,        room };

static void agree(const int64_t shape[5], int32_t dtype, const struct options *options)
{
	const double tolerance = dtype == ZR_BF16 ? 6e-3 : 8e-4;
	struct problem x = make(shape, dtype, 5, 1), y = make(shape, dtype, 5, 1);

	give_options(&x, options);
	give_options(&y, options);
	both(&hopper_kernels, &x);
	both(&variants[0], &y);
	compare_all(&x, &y, tolerance, "hopper");
	drop(&x);
	drop(&y);
}

static void every_length_agrees_with_the_scalar_kernel(void **state)
{
	static const int64_t lengths[] = { 1, 17, 64, 127, 128, 65, 193, 129, 16, 257 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const int64_t shape[5] = { 1, lengths[i], 1, 1, i % 3 == 2 ? 128 : 64 };
		hopper_order((int)i % ORDERS);
		agree(shape, i % 2 ? ZR_BF16 : ZR_F16, &(struct options){ 0 });
	}
}

static void every_width_agrees_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 2, 33, 4, 2, 64 },  { 1, 131, 1, 1, 80 },
					     { 1, 70, 2, 2, 96 },  { 2, 15, 3, 1, 128 },
					     { 1, 41, 2, 1, 256 }, { 1, 131, 1, 1, 256 },
					     { 1, 37, 12, 1, 64 }, { 1, 20, 12, 4, 80 } };
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		hopper_order((int)i % ORDERS);
		agree(shapes[i], i % 3 ? ZR_BF16 : ZR_F16,
		      &(struct options){ .softcap = i % 2 ? 2 : 0 });
		agree(shapes[i], i % 3 ? ZR_F16 : ZR_BF16, &(struct options){ .dropout = 0.25F });
	}
}

/* Walks of several tiles, of which some are seen whole, some in part, some by one of a block's
 * warpgroups alone, and some by none. */
static void tiles_seen_in_part_agree_with_the_scalar_kernel(void **state)
{
	static const int64_t shapes[][5] = { { 1, 300, 1, 1, 64 },
					     { 1, 200, 1, 1, 80 },
					     { 1, 260, 1, 1, 128 },
					     { 1, 140, 1, 1, 256 } };
	static const struct options masks[] = {
		{ .documents = 1 },
		{ .window = 2 },
		{ .window = 150, .documents = 1 },
		{ .window = 90, .softcap = 2 },
		{ .window = 100, .dropout = 0.2F },
	};
	const size_t n = sizeof masks / sizeof *masks;
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t k = i; k < n; k += i ? n : 1) {
			hopper_order((int)(i + k) % ORDERS);
			agree(shapes[i], (i + k) % 2 ? ZR_F16 : ZR_BF16, &masks[k]);
		}
}

static void each_order_gives_the_same_bits(void **state)
{
	static const struct {
		int64_t shape[5];
		int from, apart; /* the orders that are compared with the first one */
	} cases[] = { { { 1, 257, 1, 1, 64 }, 1, 2 }, { { 1, 129, 1, 1, 256 }, 5, 3 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct problem first = make(cases[i].shape, ZR_BF16, 5, 1),
			       x = make(cases[i].shape, ZR_BF16, 5, 1);
		const int apart = sanitized() ? 3 : cases[i].apart;
		hopper_order(0);
		both(&hopper_kernels, &first);
		for (int order = cases[i].from; order < ORDERS; order += apart) {
			hopper_order(order);
			both(&hopper_kernels, &x);
			assert_memory_equal(x.dqkv, first.dqkv, (size_t)x.n_in * x.elem);
		}
		drop(&first);
		drop(&x);
	}
}

static void nan_is_kept(void **state)
{
	static const int64_t shape[5] = { 1, 140, 1, 1, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	put(&p, p.qkv, 70 * p.in_stride + 64, (double)NAN); /* an element of key 70 */
	both(&hopper_kernels, &p);
	for (int64_t t = 0; t < p.T; t++) {
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride)) || t < 70); /* dq */
		/* dk and dv: of keys that those queries see */
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride + 64)));
		assert_true(isnan(get(&p, p.dqkv, t * p.in_stride + 128)));
	}
	drop(&p);
}

static void slices_have_the_bits_of_the_whole(void **state)
{
	static const int64_t shapes[][5] = { { 1, 140, 2, 1, 64 }, { 2, 133, 1, 1, 96 } };
	static const struct options all[] = { { 0 },
					      { .window = 90, .documents = 1, .dropout = 0.2F } };
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const int64_t T = shapes[i][1], ends[] = { 37, T - 12, T };
		struct problem p = make(shapes[i], i % 2 ? ZR_BF16 : ZR_F16, 5, 1);
		give_options(&p, &all[i]);
		assert_slices(&hopper_kernels, &p, ends, 3);
		drop(&p);
	}
}

static void heads_have_the_bits_that_they_have_elsewhere(void **state)
{
	static const int64_t shape[5] = { 1, 20, 4, 2, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	assert_heads_apart(&hopper_kernels, &p);
	assert_heads_alone(&hopper_kernels, &p);
	drop(&p);
}

static void a_window_of_all_has_the_bits_of_none(void **state)
{
	static const int64_t shape[5] = { 1, 37, 1, 1, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	(void)state;
	assert_wide_windows(&hopper_kernels, &p);
	drop(&p);
}

static void what_the_kernel_cannot_do_is_refused(void **state)
{
	static const int64_t good[5] = { 1, 5, 2, 1, 64 };
	struct problem p = make(good, ZR_BF16, 1, 1);
	(void)state;
	assert_true(zr_cuda_attention_hopper_takes_bwd(&p.op));
	p.op.fwd.dropout = 0.1F;
	assert_true(zr_cuda_attention_hopper_takes_bwd(&p.op));
	p.op.fwd.softcap = 2;
	assert_false(zr_cuda_attention_hopper_takes_bwd(&p.op));
	p.op.fwd.softcap = 0;
	p.op.work = p.qkv + 16;
	assert_false(zr_cuda_attention_hopper_takes_bwd(&p.op));
	drop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_agrees_with_the_scalar_kernel),
		cmocka_unit_test(every_width_agrees_with_the_scalar_kernel),
		cmocka_unit_test(tiles_seen_in_part_agree_with_the_scalar_kernel),
		cmocka_unit_test(each_order_gives_the_same_bits),
		cmocka_unit_test(nan_is_kept),
		cmocka_unit_test(slices_have_the_bits_of_the_whole),
		cmocka_unit_test(heads_have_the_bits_that_they_have_elsewhere),
		cmocka_unit_test(a_window_of_all_has_the_bits_of_none),
		cmocka_unit_test(what_the_kernel_cannot_do_is_refused),
	};
	attention_pad = 8;
	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
