/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_compare.c - what device/cuda does before it uses attention's kernels for compute
 * capability 9.0, with kernels run by the host: its comparison agrees where they are right and
 * finds each mistake that is planted in what they give; and which kernels compute what.
 */
#include "attention_case.h"
#include "hopper_kernels.h"

#include "plugins/device/cuda/attention.h"

#include <attention_compare.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/scalar.h"

/* ---- the comparison -------------------------------------------------------------- */

static cudaError_t hopper_backward(const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	return cuda_attention_bwd_by(1, o, s);
}

static uint64_t hopper_work(const struct zr_op_attention_bwd *o)
{
	return cuda_attention_bwd_room(1, o);
}

static cudaError_t plain_backward(const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	assert_int_equal(zr_cuda_attention_delta(o, s), cudaSuccess);
	return zr_cuda_attention_bwd(o, s);
}

static uint64_t plain_work(const struct zr_op_attention_bwd *o)
{
	return cuda_attention_bwd_room(0, o);
}

static const struct attention_kernels hopper = { zr_cuda_attention_hopper_takes,
						 zr_cuda_attention_hopper,
						 zr_cuda_attention_hopper_takes_bwd, hopper_work,
						 hopper_backward };
static const struct attention_kernels plain = { .forward = zr_cuda_attention,
						.work = plain_work,
						.backward = plain_backward };

static void right_kernels_agree(void **state)
{
	static const struct {
		struct attention_problem problem;
		int64_t width;
		int32_t dtype;
	} cases[] = {
		{ { .batch = 1, .length = 1, .heads = 2, .kv_heads = 1 }, 64, ZR_BF16 },
		{ { .batch = 2, .length = 35, .heads = 2, .kv_heads = 1 }, 80, ZR_F16 },
		{ { .batch = 1, .length = 140, .heads = 1, .kv_heads = 1, .sharp = 8 },
		  64,
		  ZR_BF16 },
		{ { .batch = 1,
		    .length = 70,
		    .heads = 2,
		    .kv_heads = 1,
		    .dropout = 0.3F,
		    .scores = 1 },
		  64,
		  ZR_F16 },
		{ { .batch = 1, .length = 130, .heads = 2, .kv_heads = 1, .window = 50 },
		  96,
		  ZR_BF16 },
		{ { .batch = 1,
		    .length = 131,
		    .heads = 1,
		    .kv_heads = 1,
		    .window = 60,
		    .documents = 1,
		    .softcap = 2 },
		  128,
		  ZR_F16 },
		{ { .batch = 1,
		    .length = 90,
		    .heads = 1,
		    .kv_heads = 1,
		    .first = 37,
		    .key_sums = 1 },
		  256,
		  ZR_BF16 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct comparison found = { 0 };
		if (compare_attention(&hopper, &plain, &cases[i].problem, cases[i].dtype,
				      cases[i].width, &found))
			fail_msg("%s", found.text);
		assert_int_equal(found.problems, 1);
	}
}

/* ---- kernels that give ones ------------------------------------------------------ */

/* What was asked for, so often. */
static struct {
	int n, types[8], widths[257], grouped, windows, documents, caps, sliced, sums, whole, mixed,
		drops, scores;
} asked;

static int takes(const struct zr_op_attention *o)
{
	(void)o;
	return 1;
}

static int takes_bwd(const struct zr_op_attention_bwd *o)
{
	(void)o;
	return 1;
}

static void fill(void *to, int32_t dtype, int64_t rows, int64_t stride, int64_t width)
{
	for (int64_t r = 0; to && r < rows; r++)
		for (int64_t i = 0; i < width; i++)
			zr_put(to, r * stride + i, dtype, 1);
}

static cudaError_t ones(const struct zr_op_attention *o, cudaStream_t s)
{
	const int64_t queries = o->batch * (o->length - o->first);
	(void)s;
	fill(o->out, o->dtype, queries, o->out_stride, o->heads * o->head_dim);
	fill(o->lse, ZR_F32, queries, o->heads, o->heads);
	fill(o->max_scores, ZR_F32, 1, o->heads, o->heads);
	asked.n++;
	asked.types[o->dtype]++;
	asked.widths[o->head_dim]++;
	asked.grouped += o->kv_heads < o->heads;
	asked.windows += o->window > 0;
	asked.documents += o->starts != NULL;
	asked.caps += o->softcap > 0;
	asked.sliced += o->first > 0;
	asked.whole += o->length >= 1024;
	asked.drops += o->dropout > 0;
	asked.scores += o->max_scores != NULL;
	asked.mixed += o->window > 0 && o->starts && o->softcap > 0;
	return cudaSuccess;
}

static cudaError_t ones_backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	const struct zr_op_attention *o = &op->fwd;
	const int64_t keys = o->batch * o->length, width = o->kv_heads * o->head_dim;
	const int64_t queries = o->batch * (o->length - o->first);
	(void)s;
	fill(op->dq, o->dtype, queries, o->q_stride, o->heads * o->head_dim);
	fill(op->dk, o->dtype, keys, o->k_stride, width);
	fill(op->dv, o->dtype, keys, o->v_stride, width);
	fill(o->key_sums, ZR_F32, keys, 2 * width, 2 * width);
	asked.sums += o->key_sums != NULL;
	return cudaSuccess;
}

static const struct attention_kernels known = { takes, ones, takes_bwd, plain_work, ones_backward };

/* ---- mistakes -------------------------------------------------------------------- */

static const struct attention_problem small = {
	.batch = 1, .length = 120, .heads = 2, .kv_heads = 1, .scores = 1
};

enum { WIDTH = 64, ROW = 2 * WIDTH + 8, KEY_ROW = WIDTH + 8 }; /* of `small`, with padding */

/* What the wrong kernels do to the ones. */
static void (*spoil)(const struct zr_op_attention_bwd *);
static int calls;

static int takes_none(const struct zr_op_attention *o)
{
	(void)o;
	return 0;
}

static cudaError_t wrong_backward(const struct zr_op_attention_bwd *o, cudaStream_t s)
{
	const cudaError_t e = ones_backward(o, s);

	calls++;
	spoil(o);
	return e;
}

static cudaError_t fails(const struct zr_op_attention *o, cudaStream_t s)
{
	(void)o, (void)s;
	return cudaErrorInvalidValue;
}

static void nothing(const struct zr_op_attention_bwd *o)
{
	(void)o;
}

static void change(void *at, int64_t i, float by)
{
	zr_put(at, i, ZR_BF16, zr_get(at, i, ZR_BF16) + by);
}

static void one_element(const struct zr_op_attention_bwd *o)
{
	change(o->dk, 20 * KEY_ROW + 3, 0.4F);
}

static void a_little_everywhere(const struct zr_op_attention_bwd *o)
{
	for (int64_t r = 0; r < small.length; r++)
		for (int64_t i = 0; i < 2 * WIDTH; i++) {
			const float x = zr_get(o->dq, r * ROW + i, ZR_BF16);
			zr_put(o->dq, r * ROW + i, ZR_BF16, x * 1.03F);
		}
}

static void out_of_the_forward(const struct zr_op_attention_bwd *o)
{
	change(o->fwd.out, 36 * ROW + 127, 0.4F);
}

static void lse_of_the_forward(const struct zr_op_attention_bwd *o)
{
	o->fwd.lse[73] += 0.5F;
}

static void largest_score(const struct zr_op_attention_bwd *o)
{
	o->fwd.max_scores[1] = 2;
}

static void no_number(const struct zr_op_attention_bwd *o)
{
	zr_put(o->dv, 0, ZR_BF16, NAN);
}

static void between_rows(const struct zr_op_attention_bwd *o)
{
	zr_put(o->dq, 5 * ROW + 2 * WIDTH, ZR_BF16, 0);
}

static void behind_the_last_row(const struct zr_op_attention_bwd *o)
{
	zr_put(o->dv, 120 * KEY_ROW, ZR_BF16, 0);
}

static void an_input(const struct zr_op_attention_bwd *o)
{
	change((void *)(uintptr_t)o->fwd.k, 9 * KEY_ROW, 1);
}

static void behind_work(const struct zr_op_attention_bwd *o)
{
	((char *)o->work)[plain_work(o)] = 0;
}

static void now_and_then(const struct zr_op_attention_bwd *o)
{
	if (calls == 3)
		change(o->dq, 7, 0.01F);
}

static void mistakes_are_found(void **state)
{
	static const struct {
		void (*spoil)(const struct zr_op_attention_bwd *);
		const char *text;
	} mistakes[] = {
		{ one_element, "dk differs at row 20, column 3, by " },
		{ a_little_everywhere, "dq differs by 0.03" },
		{ out_of_the_forward, "out differs at row 36, column 127, by " },
		{ lse_of_the_forward, "lse differs " },
		{ largest_score, "max_scores differs by " },
		{ no_number, "dv differs by nan" },
		{ between_rows, "bytes in or behind dq are overwritten" },
		{ behind_the_last_row, "bytes in or behind dv are overwritten" },
		{ an_input, "bytes in or behind k are overwritten" },
		{ behind_work, "bytes in or behind work are overwritten" },
		{ now_and_then, "the bits are others when it is computed again" },
	};
	const struct attention_kernels kernels = { takes, ones, takes_bwd, plain_work,
						   wrong_backward };
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		struct comparison found = { 0 };
		spoil = mistakes[i].spoil;
		calls = 0;
		assert_int_equal(
			compare_attention(&kernels, &known, &small, ZR_BF16, WIDTH, &found), -1);
		assert_int_equal(found.problems, 0);
		if (!strstr(found.text, mistakes[i].text))
			fail_msg("\"%s\" is not in: %s", mistakes[i].text, found.text);
		assert_non_null(
			strstr(found.text, "bf16, 1 x 120 tokens, 2 heads of width 64 over 1: "));
	}
}

static void kernels_that_compute_nothing_are_found(void **state)
{
	struct attention_kernels kernels = { takes_none, ones, takes_bwd, plain_work,
					     wrong_backward };
	struct comparison found = { 0 };
	(void)state;
	spoil = nothing;
	assert_int_equal(compare_attention(&kernels, &known, &small, ZR_BF16, WIDTH, &found), -1);
	assert_non_null(strstr(found.text, "the kernels do not take it"));

	kernels.takes = takes;
	kernels.forward = fails;
	assert_int_equal(compare_attention(&kernels, &known, &small, ZR_BF16, WIDTH, &found), -1);
	assert_non_null(strstr(found.text, "the forward does not start: invalid argument"));
}

/* ---- the list -------------------------------------------------------------------- */

static void the_list_has_all_that_a_run_may_ask_for(void **state)
{
	static const int widths[] = { 64, 80, 96, 128, 256 };
	struct comparison found = { 0 };
	(void)state;
	memset(&asked, 0, sizeof asked);
	if (compare_attentions(&known, &known, &found))
		fail_msg("%s", found.text);
	assert_true(found.largest == 0);
	assert_int_equal(asked.n, found.problems * 4); /* of these once as what is known */
	assert_int_equal(asked.types[ZR_BF16], asked.n / 2);
	assert_int_equal(asked.types[ZR_F16], asked.n / 2);
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		assert_int_equal(asked.widths[widths[i]], asked.n / 5);
	assert_true(asked.grouped && asked.windows && asked.documents && asked.caps);
	assert_true(asked.drops && asked.scores);
	assert_true(asked.sliced && asked.sums && asked.whole && asked.mixed);
}

/* ---- which kernels --------------------------------------------------------------- */

typedef void run_fn(struct problem *p);

static void by_generic(struct problem *p)
{
	assert_int_equal(cuda_attention_by(0, &p->op.fwd, NULL), cudaSuccess);
	assert_int_equal(cuda_attention_bwd_by(0, &p->op, NULL), cudaSuccess);
}

static void by_hopper(struct problem *p)
{
	assert_int_equal(cuda_attention_by(1, &p->op.fwd, NULL), cudaSuccess);
	assert_int_equal(cuda_attention_bwd_by(1, &p->op, NULL), cudaSuccess);
}

static void by_mma_itself(struct problem *p)
{
	assert_int_equal(zr_cuda_attention_mma(&p->op.fwd, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_delta(&p->op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_mma_bwd(&p->op, NULL), cudaSuccess);
}

static void by_hopper_itself(struct problem *p)
{
	assert_int_equal(zr_cuda_attention_hopper(&p->op.fwd, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_delta(&p->op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_hopper_bwd(&p->op, NULL), cudaSuccess);
}

static void by_fp32_itself(struct problem *p)
{
	assert_int_equal(zr_cuda_attention(&p->op.fwd, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_delta(&p->op, NULL), cudaSuccess);
	assert_int_equal(zr_cuda_attention_bwd(&p->op, NULL), cudaSuccess);
}

/* An operation, computed with work that begins `off` bytes behind a multiple of 128. */
struct called {
	struct options options;
	int32_t dtype;
	int scores; /* whether the largest ones are wanted */
	size_t off;
};

static struct problem run(const struct called *c, run_fn *fn, int hopper_work_is_there)
{
	static const int64_t shape[5] = { 1, 140, 1, 1, 64 };
	struct problem p = make(shape, c->dtype, 5, 4);
	float largest = 0;
	uint64_t bytes;
	char *room = NULL;

	give_options(&p, &c->options);
	if (c->scores)
		p.op.fwd.max_scores = &largest;
	bytes = cuda_attention_bwd_room(hopper_work_is_there, &p.op);
	assert_int_equal(posix_memalign((void **)&room, 128, c->off + bytes + 256), 0);
	memset(room, 0x5a, c->off + bytes + 256);
	p.op.work = room + c->off;
	fn(&p);
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(room[c->off + bytes + i], 0x5a);
	free(room);
	p.op.fwd.max_scores = NULL;
	return p;
}

static int same(const struct problem *x, const struct problem *y, int backward)
{
	if (backward)
		return !memcmp(x->dqkv, y->dqkv, (size_t)x->n_in * x->elem);
	return !memcmp(x->out, y->out, (size_t)x->n_out * x->elem);
}

static void assert_computed_by(const struct called *c, run_fn *asked_for, run_fn *forward,
			       run_fn *backward)
{
	const struct called at_work = { c->options, c->dtype, c->scores, 0 };
	struct problem x = run(c, asked_for, asked_for == by_hopper);
	struct problem y = run(&at_work, forward, 1), z = run(&at_work, backward, 1);

	assert_true(same(&x, &y, 0));
	if (forward == backward)
		assert_true(same(&x, &z, 1));
	drop(&x);
	drop(&y);
	drop(&z);
}

static void each_is_computed_by_the_kernels_that_take_it(void **state)
{
	const struct called usual = { { 0 }, ZR_BF16, 0, 0 };
	const struct called off = { { .window = 30 }, ZR_F16, 0, 64 };
	const struct called dropping = { { .dropout = 0.2F }, ZR_BF16, 0, 64 };
	const struct called both = { { .dropout = 0.2F, .softcap = 2 }, ZR_BF16, 0, 64 };
	const struct called scored = { { 0 }, ZR_BF16, 1, 64 };
	const struct called wide = { { 0 }, ZR_F32, 0, 64 };
	struct problem x = run(&usual, by_hopper_itself, 1), y = run(&usual, by_mma_itself, 1);
	(void)state;

	/* so that bits say which kernels they are of */
	assert_false(same(&x, &y, 0));
	assert_false(same(&x, &y, 1));
	drop(&x);
	drop(&y);

	assert_computed_by(&usual, by_generic, by_mma_itself, by_mma_itself);
	assert_computed_by(&off, by_generic, by_mma_itself, by_mma_itself);
	assert_computed_by(&usual, by_hopper, by_hopper_itself, by_hopper_itself);
	assert_computed_by(&off, by_hopper, by_hopper_itself, by_hopper_itself);
	assert_computed_by(&dropping, by_hopper, by_hopper_itself, by_hopper_itself);
	assert_computed_by(&both, by_hopper, by_mma_itself, by_mma_itself);
	assert_computed_by(&scored, by_hopper, by_hopper_itself, by_hopper_itself);
	assert_computed_by(&wide, by_hopper, by_fp32_itself, by_fp32_itself);
}

static void work_is_what_the_kernels_need(void **state)
{
	static const int64_t shape[5] = { 1, 70, 2, 1, 64 };
	struct problem p = make(shape, ZR_BF16, 5, 1);
	const uint64_t generic = cuda_attention_bwd_room(0, &p.op);
	(void)state;
	assert_int_equal(generic, 2 * 70 * sizeof(float));
	assert_true(cuda_attention_bwd_room(1, &p.op) >= zr_cuda_attention_hopper_bwd_work(&p.op));

	/* of no use to the generic kernels, which compute these */
	p.op.fwd.dropout = 0.1F;
	p.op.fwd.softcap = 2;
	assert_int_equal(cuda_attention_bwd_room(1, &p.op), generic);
	p.op.fwd.dropout = p.op.fwd.softcap = 0;
	p.op.fwd.dtype = ZR_F32;
	assert_int_equal(cuda_attention_bwd_room(1, &p.op), generic);
	drop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_kernels_agree),
		cmocka_unit_test(mistakes_are_found),
		cmocka_unit_test(kernels_that_compute_nothing_are_found),
		cmocka_unit_test(the_list_has_all_that_a_run_may_ask_for),
		cmocka_unit_test(each_is_computed_by_the_kernels_that_take_it),
		cmocka_unit_test(work_is_what_the_kernels_need),
	};
	attention_pad = 8;
	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
