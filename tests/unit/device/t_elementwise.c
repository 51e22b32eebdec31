/* SPDX-License-Identifier: Apache-2.0
 *
 * t_elementwise.c - updates by a function of one element: the bits of the device's own operations
 * in every variant, on any number of threads, in any type of the states, whatever the cut.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include "tests/lib/testdevice.h"

#include <zeroth/optimizer.h>
#include <zeroth/parameters.h>

#include "elementwise_texts.h"

#include <cmocka.h> /* after the headers with members that its macros name */

#define MOST   (9 * ZR_BLOCK)
#define BLOCKS (MOST / ZR_BLOCK)
#define STEP   3
#define SEED   77
#define PARAM  5

/* One parameter and all that belongs to it, with room that nobody may touch behind its end. */
struct data {
	float grad[MOST], master[MOST];
	union {
		float wide[MOST];
		uint16_t half[MOST];
		uint8_t codes[BLOCKS * ZR_STATE8_BYTES];
	} state[ZR_ELEMENTWISE_STATES];
	uint32_t lowp[MOST];
};

static const struct zr_scalars scalars = { .step = STEP, .grad_mult = 0.25f, .lr = 0x1p-6f };

static void draw(struct data *x, const struct dev *d, int32_t type, uint32_t states, uint32_t roots)
{
	uint64_t seed = 9;
	memset(x, 0x77, sizeof *x);
	for (int i = 0; i < MOST; i++) {
		x->grad[i] = (float)rnd(&seed) * 3;
		x->master[i] = (float)rnd(&seed);
	}
	for (uint32_t j = 0; j < states; j++) {
		static float v[MOST];
		for (int i = 0; i < MOST; i++)
			v[i] = (float)rnd(&seed) * (i / 32 % 5 ? 0.5f : 0);
		for (int i = 0; i < MOST && roots >> j & 1; i++)
			v[i] = v[i] * v[i];
		struct zr_op_cast op = { .size = sizeof op,
					 .n = MOST,
					 .src = zr_array_at(ZR_F32, v),
					 .dst = zr_array_at(type, &x->state[j]) };
		if (type)
			assert_int_equal(d->ops->cast(d->ops, NULL, &op), 0);
		for (int i = 0; !type && i < MOST; i++) {
			int64_t b = i / ZR_BLOCK * ZR_STATE8_BYTES;
			x->state[j].codes[b + i % ZR_BLOCK] = (uint8_t)(v[i] * 255);
			uint16_t scale = (uint16_t)(0x3000 + i / 32);
			memcpy(x->state[j].codes + b + ZR_BLOCK + i % ZR_BLOCK / 32 * 2, &scale, 2);
		}
	}
}

struct call {
	struct zr_opt_step s;
	struct zr_elementwise e;
	struct zr_buf state[ZR_ELEMENTWISE_STATES];
	struct zr_seg seg;
	int64_t dims[1];
	float k[ZR_ELEMENTWISE_CONSTANTS];
};

static struct zr_buf buf(void *p, int32_t dtype)
{
	return (struct zr_buf){ p, MOST, dtype, ZR_MEM_HOST };
}

/* Elements [from, from + n) of a parameter; from is a multiple of a block. */
static int elementwise(const struct dev *d, const struct text *t, struct data *x, int32_t type,
		       int32_t lowp, int64_t from, int64_t n, const double *totals, double *sums)
{
	struct call c = { .dims = { MOST }, .e = *t->e };
	c.seg = (struct zr_seg){ from, n, from, PARAM, 1, c.dims, "p" };
	t->constants(STEP, (double)scalars.lr, c.k);
	c.e.k = c.k;
	c.e.roots = t->roots;
	c.e.sums = sums;
	c.e.name = "text";
	for (uint32_t j = 0; j < c.e.n_state; j++)
		c.state[j] = buf(&x->state[j], type);
	c.s = (struct zr_opt_step){ .size = sizeof c.s,
				    .seg_stride = sizeof(struct zr_seg),
				    .n_state = c.e.n_state,
				    .step = STEP,
				    .lr = (double)scalars.lr,
				    .grad_mult = (double)scalars.grad_mult,
				    .master = buf(x->master, ZR_F32),
				    .grad = buf(x->grad, ZR_F32),
				    .state = c.state,
				    .seg = &c.seg,
				    .n_seg = 1,
				    .partials = totals,
				    .seed = SEED,
				    .native = d->ops->native };
	if (lowp)
		c.s.lowp = buf(x->lowp, lowp);
	return d->ops->elementwise(&c.s, &c.e);
}

static int adamw(const struct dev *d, struct data *x, int32_t type, int32_t lowp, int64_t n)
{
	struct zr_op_adamw op = { .size = sizeof op,
				  .lowp_dtype = lowp,
				  .bias_correction = 1,
				  .n = n,
				  .beta1 = TEXT_BETA1,
				  .beta2 = TEXT_BETA2,
				  .eps = TEXT_EPS,
				  .weight_decay = TEXT_DECAY,
				  .scalars = &scalars,
				  .grad = x->grad,
				  .master = x->master,
				  .m = &x->state[0],
				  .v = &x->state[1],
				  .lowp = lowp ? x->lowp : NULL,
				  .moment_dtype = type ? type : ZR_U8 };
	return d->ops->adamw(d->ops, NULL, &op);
}

static const int32_t types[] = { ZR_F32, ZR_BF16, 0 };
static const int32_t copies[] = { 0, ZR_F32, ZR_BF16, ZR_F16 };
static const int64_t sizes[] = { 1, 31, 33, 1024, 2047, 2049, MOST - 3 };
#define N(a) ((int)(sizeof(a) / sizeof *(a)))

static struct data a, b;

static int apart(const uint8_t *x, const uint8_t *y, int is_signed)
{
	return abs(is_signed ? (int8_t)*x - (int8_t)*y : *x - *y);
}

/* Of element i of a and b, in the states j: in fp16. */
static uint16_t scale_of(const struct data *x, int j, int64_t i)
{
	uint16_t scale;
	memcpy(&scale,
	       x->state[j].codes + i / ZR_BLOCK * ZR_STATE8_BYTES + ZR_BLOCK +
		       i % ZR_BLOCK / 32 * 2,
	       2);
	return scale;
}

/* Of n elements a and b, whose states have 8 bits: masters differ by their rounding, copies, codes
 * and scales by what that can change. Behind these elements nothing differs. */
static void differ_by_rounding(int32_t lowp, int64_t n)
{
	const uint16_t *half[2] = { (const uint16_t *)a.lowp, (const uint16_t *)b.lowp };
	for (int64_t i = 0; i < MOST; i++) {
		double p = (double)a.master[i], off = fabs((double)b.master[i] - p);
		assert_true(off <= (i < n ? 1e-6 * (1 + fabs(p)) : 0));
		for (int j = 0; j < 2; j++) {
			int64_t at = i / ZR_BLOCK * ZR_STATE8_BYTES + i % ZR_BLOCK;
			assert_true(apart(a.state[j].codes + at, b.state[j].codes + at, j == 0) <=
				    (i < n));
			assert_true(abs(scale_of(&a, j, i) - scale_of(&b, j, i)) <=
				    (i / 32 * 32 < n));
		}
		if (lowp == ZR_F32 && i < n)
			assert_memory_equal(b.lowp + i, b.master + i, sizeof *b.lowp);
		else if (lowp && lowp != ZR_F32)
			assert_true(abs(half[0][i] - half[1][i]) <= (i < n));
		else
			assert_int_equal(a.lowp[i], b.lowp[i]);
	}
	assert_memory_equal(a.grad, b.grad, sizeof a.grad);
}

static void check_adamw(const struct dev *d, int32_t type, int32_t lowp, int64_t n)
{
	draw(&a, d, type, 2, 2);
	b = a;
	assert_int_equal(adamw(d, &a, type, lowp, n), 0);
	assert_int_equal(elementwise(d, &text_adamw, &b, type, lowp, 0, n, NULL, NULL), 0);
	if (type)
		assert_memory_equal(&a, &b, sizeof a);
	else /* the operation divides in another order */
		differ_by_rounding(lowp, n);
}

static void adamw_has_the_bits_of_the_operation(void **state)
{
	(void)state;
	for (int v = 0; v < DEV_VARIANTS; v++) {
		struct dev d;
		if (dev_open_variant(&d, v % 2 ? 3 : 1, v) == 0)
			for (int t = 0; t < N(types); t++)
				for (int c = 0; c < N(copies); c++)
					for (int n = 0; n < N(sizes); n++)
						check_adamw(&d, types[t], copies[c], sizes[n]);
		dev_close(&d);
	}
}

static int lamb(const struct dev *d, struct data *x, int64_t n, const double *totals, double *sums)
{
	struct zr_op_lamb op = { .size = sizeof op,
				 .lowp_dtype = ZR_BF16,
				 .bias_correction = 1,
				 .n = n,
				 .beta1 = TEXT_BETA1,
				 .beta2 = TEXT_BETA2,
				 .eps = TEXT_EPS,
				 .weight_decay = TEXT_DECAY,
				 .min_coeff = 0.01,
				 .max_coeff = 10,
				 .scalars = &scalars,
				 .grad = x->grad,
				 .master = x->master,
				 .m = x->state[0].wide,
				 .v = x->state[1].wide,
				 .lowp = x->lowp,
				 .block_norms = sums,
				 .norms = totals };
	return sums ? d->ops->lamb_norms(d->ops, NULL, &op) : d->ops->lamb(d->ops, NULL, &op);
}

static void check_lamb(const struct dev *d, int64_t n)
{
	double want[BLOCKS][2], got[2], total[2] = { 0, 0 };
	const struct text *t = &text_lamb;
	draw(&a, d, ZR_F32, 2, 2);
	b = a;
	assert_int_equal(lamb(d, &a, n, NULL, &want[0][0]), 0);
	for (int64_t at = 0; at < n; at += ZR_BLOCK) {
		int64_t count = n - at < ZR_BLOCK ? n - at : ZR_BLOCK;
		assert_int_equal(elementwise(d, t, &b, ZR_F32, ZR_BF16, at, count, NULL, got), 0);
		assert_memory_equal(got, want[at / ZR_BLOCK], sizeof got);
		total[0] += got[0];
		total[1] += got[1];
	}
	assert_memory_equal(&a, &b, sizeof a);
	assert_int_equal(lamb(d, &a, n, total, NULL), 0);
	assert_int_equal(elementwise(d, t, &b, ZR_F32, ZR_BF16, 0, n, total, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
}

static void sums_have_the_bits_of_lambs(void **state)
{
	(void)state;
	for (int v = 0; v < DEV_VARIANTS; v++) {
		struct dev d;
		if (dev_open_variant(&d, 2, v) == 0)
			for (int n = 0; n < N(sizes); n++)
				check_lamb(&d, sizes[n]);
		dev_close(&d);
	}
}

static void sums_are_refused_without_totals(void **state)
{
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "scalar"), 0);
	draw(&a, &d, ZR_F32, 2, 2);
	assert_int_equal(elementwise(&d, &text_lamb, &a, ZR_F32, 0, 0, 5, NULL, NULL), ZR_ESTATE);
	dev_close(&d);
}

/* Words are those of the device's own random numbers: of init, which takes two for an element. */
static void random_words_are_those_of_the_stream(void **state)
{
	static float want[MOST / 2];
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 3, "scalar"), 0);
	struct zr_op_init op = { .size = sizeof op,
				 .flags = ZR_INIT_OP_UNIFORM,
				 .n = MOST / 2,
				 .std = 1,
				 .rng = { SEED, STEP, PARAM, 0xfffffffdu },
				 .dst = want };
	assert_int_equal(d.ops->init(d.ops, NULL, &op), 0);
	draw(&a, &d, ZR_F32, 0, 0);
	assert_int_equal(elementwise(&d, &text_random, &a, ZR_F32, 0, 0, MOST, NULL, NULL), 0);
	for (int i = 0; i < MOST / 2; i++)
		assert_memory_equal(&a.master[2 * i], &want[i], sizeof want[i]);
	dev_close(&d);
}

/* One that also needs sums: times their total, 1 here. */
static void sums_and_random_words_come_together(void **state)
{
	const double total[] = { 1 };
	(void)state;
	for (int v = 0; v < DEV_VARIANTS; v++) {
		struct dev d;
		double got[1], want = 0;
		if (dev_open_variant(&d, 2, v) == 0) {
			draw(&a, &d, ZR_F32, 0, 0);
			b = a;
			for (int i = 0; i < ZR_BLOCK; i++)
				want += (double)a.master[i];
			assert_int_equal(elementwise(&d, &text_both, &b, ZR_F32, 0, 0, ZR_BLOCK,
						     NULL, got),
					 0);
			assert_true(fabs(got[0] - want) < 1e-9 * fabs(want));
			assert_memory_equal(&a, &b, sizeof a);
			assert_int_equal(elementwise(&d, &text_random, &a, ZR_F32, 0, 0, MOST, NULL,
						     NULL),
					 0);
			assert_int_equal(elementwise(&d, &text_both, &b, ZR_F32, 0, 0, MOST, total,
						     NULL),
					 0);
			assert_memory_equal(&a, &b, sizeof a);
		}
		dev_close(&d);
	}
}

static void in_pieces(const struct dev *d, int32_t type, int64_t n, int64_t most)
{
	draw(&b, d, type, 8, text_many.roots);
	for (int64_t at = 0; at < n; at += most) {
		int64_t count = n - at < most ? n - at : most;
		int rc = elementwise(d, &text_many, &b, type, ZR_F16, at, count, NULL, NULL);
		assert_int_equal(rc, 0);
	}
}

/* Eight states, every function. */
static void variants_cuts_and_threads_agree(void **state)
{
	(void)state;
	for (int t = 0; t < N(types); t++) {
		int first = 1;
		for (int v = 0; v < DEV_VARIANTS; v++) {
			struct dev d;
			if (dev_open_variant(&d, 1 + v, v) == 0) {
				in_pieces(&d, types[t], MOST - 5, (v + 1) * ZR_BLOCK);
				if (first)
					a = b;
				assert_memory_equal(&a, &b, sizeof a);
				first = 0;
			}
			dev_close(&d);
		}
	}
}

/* exp against the C library's in double, to 2 units of the last place. */
static void exp_is_exact_enough(void **state)
{
	(void)state;
	for (int i = -87000; i <= 88000; i += 7) {
		float x = (float)i * 1e-3f, got = zr_exp(x);
		double want = exp((double)x);
		assert_true(fabs((double)got - want) <= 2 * want * 0x1p-23);
	}
	assert_true(zr_exp(-100) == 0 && isinf(zr_exp(100)) && isnan(zr_exp(NAN)));
}

static void a_struct_that_is_too_short_is_refused(void **state)
{
	struct zr_elementwise short_one = *text_adamw.e;
	struct text t = text_adamw;
	struct dev d;
	(void)state;
	short_one.size = offsetof(struct zr_elementwise, sums);
	t.e = &short_one;
	assert_int_equal(dev_open(&d, 1, "scalar"), 0);
	draw(&a, &d, ZR_F32, 2, 2);
	assert_int_equal(elementwise(&d, &t, &a, ZR_F32, 0, 0, 5, NULL, NULL), ZR_EINVAL);
	dev_close(&d);
}

static void the_host_is_native(void **state)
{
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "scalar"), 0);
	assert_true(ZR_HAS(d.ops->native, struct zr_native, stream));
	assert_int_equal(d.ops->native->api, ZR_NATIVE_HOST);
	assert_null(d.ops->native->stream);
	dev_close(&d);
}

/* The text carries all that its author wrote, and what it may call. */
static void text_is_carried(void **state)
{
	(void)state;
	assert_non_null(strstr(text_adamw.e->text, "zr_sqrt(s[V]) * k[ROOT] + k[EPS]"));
	assert_non_null(strstr(text_adamw.e->functions, "ZR_FN float zr_exp(float x)"));
	assert_int_equal(text_many.e->n_state, 8);
	assert_int_equal(text_many.e->flags, ZR_ELEMENTWISE_RANDOM);
	assert_int_equal(text_lamb.e->n_sum, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adamw_has_the_bits_of_the_operation),
		cmocka_unit_test(sums_have_the_bits_of_lambs),
		cmocka_unit_test(sums_are_refused_without_totals),
		cmocka_unit_test(random_words_are_those_of_the_stream),
		cmocka_unit_test(sums_and_random_words_come_together),
		cmocka_unit_test(variants_cuts_and_threads_agree),
		cmocka_unit_test(exp_is_exact_enough),
		cmocka_unit_test(a_struct_that_is_too_short_is_refused),
		cmocka_unit_test(the_host_is_native),
		cmocka_unit_test(text_is_carried),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
