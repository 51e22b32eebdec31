/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cap.c - logits that are scaled and under a soft cap, in the head and alone: PyTorch's values,
 * the likeliest token, and the same bits for rows of dw and for any number of workers.
 */
#include "golden.h"

static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };
static const double rounding[] = { 0, 0x1p-8, 0x1p-11 }; /* of a stored number, relative */

static const struct way {
	const char *name;
	float gain, softcap;
} ways[] = { { "scaled", 0.375f, 0 }, { "capped", 0, 3 }, { "both", 0.375f, 3 } };

struct head {
	struct zr_op_head_loss op;
	struct buf x, w, loss, dx, dw, stats, right, work;
	int32_t targets[1600];
	double sum;
};

#define F(b) ((float *)(void *)(b).p)

static void head_new(struct head *t, const struct dev *d, int64_t rows, int64_t width,
		     int64_t vocabulary, int32_t dtype, const struct way *way)
{
	uint64_t seed = 3;
	*t = (struct head){ .x = buf_random(rows * width, dtype, 1, 1),
			    .w = buf_random(vocabulary * width, dtype, 2, 1),
			    .loss = buf_new(rows, ZR_F32, 0),
			    .dx = buf_new(rows * width, dtype, 0),
			    .dw = buf_new(vocabulary * width, ZR_F32, 0),
			    .stats = buf_new(2 * rows, ZR_F32, 0),
			    .right = buf_new(rows, ZR_F32, 0) };
	for (int64_t r = 0; r < rows; r++)
		t->targets[r] = r == 1 ? -1 : (int32_t)((rnd(&seed) + 1) / 2 * (double)vocabulary);
	t->op = (struct zr_op_head_loss){ .size = sizeof t->op,
					  .dtype = dtype,
					  .scale = 0.25f,
					  .rows = rows,
					  .width = width,
					  .vocabulary = vocabulary,
					  .x = t->x.p,
					  .w = t->w.p,
					  .targets = t->targets,
					  .loss = F(t->loss),
					  .dx = t->dx.p,
					  .dw = F(t->dw),
					  .stats = F(t->stats),
					  .loss_sum = &t->sum,
					  .logit_gain = way->gain,
					  .softcap = way->softcap };
	t->work = buf_new((int64_t)(d->ops->head_loss_work(d->ops, &t->op) / 4), ZR_F32, 0);
	t->op.work = t->work.p;
}

static void head_free(struct head *t)
{
	struct buf *all[] = {
		&t->x, &t->w, &t->loss, &t->dx, &t->dw, &t->stats, &t->right, &t->work
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		assert_true(buf_guarded(all[i]));
		buf_free(all[i]);
	}
}

static void on_every_variant(void (*fn)(const struct dev *, const char *))
{
	for (int i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		if (!dev_open_variant(&d, 2, i))
			fn(&d, dev_isas[i]);
		else
			assert_true(i > 0);
		dev_close(&d);
	}
}

static void check_golden(const char *variant, const char *way, const char *what,
			 const struct buf *got, double tolerance)
{
	char name[64];
	snprintf(name, sizeof name, "%s.%s", way, what);
	golden(variant, name, got, tolerance);
}

/* Where the first largest of the golden logits is, which capping does not move. */
static int32_t likeliest(const struct head *t, int64_t r)
{
	double best = -INFINITY;
	int32_t at = 0;
	for (int32_t v = 0; v < t->op.vocabulary; v++) {
		double sum = 0;
		for (int64_t c = 0; c < t->op.width; c++)
			sum += get(t->x.p, t->x.dtype, r * t->op.width + c) *
			       get(t->w.p, t->w.dtype, v * t->op.width + c);
		at = sum > best ? v : at;
		best = fmax(best, sum);
	}
	return at;
}

static void torch(const struct dev *d, const char *variant)
{
	static const int32_t targets[] = { 3, 12, 0, 3, 7, 11, 12 };
	for (int k = 0; k < 3 * 3; k++) {
		const struct way *way = &ways[k / 3];
		double rounded = rounding_of_logits(variant, types[k % 3]);
		uint64_t state = 8;
		struct head t;
		head_new(&t, d, 7, 6, 13, types[k % 3], way);
		drawn(&t.x, &state);
		drawn(&t.w, &state);
		memcpy(t.targets, targets, sizeof targets);
		assert_int_equal(d->ops->head_loss(d->ops, NULL, &t.op), ZR_OK);
		check_golden(variant, way->name, "loss", &t.loss, 1e-6);
		check_golden(variant, way->name, "dx", &t.dx, rounding[k % 3] + rounded + 1e-6);
		check_golden(variant, way->name, "dw", &t.dw, rounded + 1e-6);
		t.op.dx = NULL;
		t.op.right = F(t.right);
		for (int r = 0; r < 7; r++)
			t.targets[r] = r % 2 ? likeliest(&t, r) : (likeliest(&t, r) + 1) % 13;
		assert_int_equal(d->ops->head_loss(d->ops, NULL, &t.op), ZR_OK);
		for (int r = 0; r < 7; r++)
			assert_true(F(t.right)[r] == (float)(r % 2));
		head_free(&t);
	}
}

static void loss_gradients_and_the_likeliest_agree_with_pytorch(void **state)
{
	(void)state;
	on_every_variant(torch);
}

static void assert_close(const char *variant, const char *way, const struct buf *x,
			 const struct buf *y, double tolerance)
{
	double most = 0, off = 0;
	for (int64_t i = 0; i < x->n; i++) {
		const double e = fabs(get(x->p, x->dtype, i) - get(y->p, y->dtype, i));
		most = fmax(most, fabs(get(y->p, y->dtype, i)));
		off = e <= off ? off : e;
	}
	if (!(off <= tolerance * most))
		fail_msg("%s, %s: off by %g of %g", variant, way, off, most);
}

/* So many rows and tokens that tile registers take them in blocks of the vocabulary. */
static void agrees(const struct dev *d, const char *variant, const struct way *way,
		   const struct head *want)
{
	const double rounded = rounding_of_logits(variant, ZR_BF16);
	struct head t;
	head_new(&t, d, 1600, 4, 2500, ZR_BF16, way);
	assert_int_equal(d->ops->head_loss(d->ops, NULL, &t.op), ZR_OK);
	assert_close(variant, way->name, &t.loss, &want->loss, 2e-6);
	assert_close(variant, way->name, &t.dx, &want->dx, 0x1p-8 + rounded);
	assert_close(variant, way->name, &t.dw, &want->dw, 5e-6 + rounded);
	head_free(&t);
}

static void many_rows_of_many_tokens_agree(void **state)
{
	struct dev scalar;
	(void)state;
	assert_int_equal(dev_open(&scalar, 2, "scalar"), ZR_OK);
	for (int k = 0; k < 3; k++) {
		struct head want;
		head_new(&want, &scalar, 1600, 4, 2500, ZR_BF16, &ways[k]);
		assert_int_equal(scalar.ops->head_loss(scalar.ops, NULL, &want.op), ZR_OK);
		for (int i = 1; i < DEV_VARIANTS; i++) {
			struct dev d;
			if (!dev_open_variant(&d, 2, i))
				agrees(&d, dev_isas[i], &ways[k], &want);
			dev_close(&d);
		}
		head_free(&want);
	}
	dev_close(&scalar);
}

/* What logit_cap makes of the products. */
static void alone(const struct dev *d, const char *variant)
{
	for (int k = 0; k < 3; k++) {
		uint64_t state = 8;
		struct buf x = buf_new(7 * 6, ZR_F32, 0), w = buf_new(13 * 6, ZR_F32, 0),
			   y = buf_new(7 * 13, ZR_F32, 1);
		struct zr_op_matmul product = { .size = sizeof product,
						.flags = ZR_MM_TRANS_B,
						.m = 7,
						.n = 13,
						.k = 6,
						.lda = 6,
						.ldb = 6,
						.ldd = 13,
						.a = zr_array_at(ZR_F32, x.p),
						.b = zr_array_at(ZR_F32, w.p),
						.d = zr_array_at(ZR_F32, y.p) };
		struct zr_op_logit_cap cap = { .size = sizeof cap,
					       .n = 7 * 13,
					       .gain = ways[k].gain,
					       .softcap = ways[k].softcap,
					       .x = F(y) };
		drawn(&x, &state);
		drawn(&w, &state);
		assert_int_equal(d->ops->matmul(d->ops, NULL, &product), ZR_OK);
		assert_int_equal(d->ops->logit_cap(d->ops, NULL, &cap), ZR_OK);
		check_golden(variant, ways[k].name, "logits", &y, 1e-6);
		assert_true(buf_guarded(&y));
		buf_free(&x);
		buf_free(&w);
		buf_free(&y);
	}
}

static void logits_agree_with_pytorch(void **state)
{
	(void)state;
	on_every_variant(alone);
}

/* Rows of dw alone. */
static void parts(const struct dev *d, const char *variant)
{
	(void)variant;
	for (int k = 0; k < 3 * 3; k++) {
		struct head t;
		head_new(&t, d, 60, 9, 257, types[k % 3], &ways[k / 3]);
		assert_int_equal(d->ops->head_loss(d->ops, NULL, &t.op), ZR_OK);
		for (int64_t at = 0; at < 257; at += 100) {
			const int64_t n = at + 100 < 257 ? 100 : 257 - at;
			struct zr_op_head_loss op = t.op;
			struct buf part = buf_new(n * 9, ZR_F32, 0);
			op.first_row = at;
			op.n_rows = n;
			op.dw = F(part);
			op.dx = NULL;
			assert_int_equal(d->ops->head_loss_rows(d->ops, NULL, &op), ZR_OK);
			assert_memory_equal(part.p, t.op.dw + at * 9, (size_t)(n * 9) * 4);
			buf_free(&part);
		}
		head_free(&t);
	}
}

static void I1_rows_of_dw_have_the_bits_of_all(void **state)
{
	(void)state;
	on_every_variant(parts);
}

static void I1_bits_do_not_depend_on_the_number_of_workers(void **state)
{
	struct buf first[4] = { { 0 } };
	(void)state;
	for (int workers = 1; workers <= 3; workers++) {
		struct buf many = buf_random(40003, ZR_F32, 5, 9);
		struct zr_op_logit_cap cap = {
			.size = sizeof cap, .n = 40003, .softcap = 2, .x = F(many)
		};
		struct dev d;
		struct head t;
		assert_int_equal(dev_open(&d, workers, "auto"), ZR_OK);
		head_new(&t, &d, 64, 40, 3001, ZR_BF16, &ways[2]);
		assert_int_equal(d.ops->head_loss(d.ops, NULL, &t.op), ZR_OK);
		assert_int_equal(d.ops->logit_cap(d.ops, NULL, &cap), ZR_OK);
		const struct buf *all[] = { &t.loss, &t.dx, &t.dw, &many };
		for (int i = 0; i < 4; i++) {
			if (workers == 1)
				first[i] = buf_copy(all[i]);
			assert_true(buf_same(&first[i], all[i]));
		}
		buf_free(&many);
		head_free(&t);
		dev_close(&d);
	}
	for (int i = 0; i < 4; i++)
		buf_free(&first[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_gradients_and_the_likeliest_agree_with_pytorch),
		cmocka_unit_test(many_rows_of_many_tokens_agree),
		cmocka_unit_test(logits_agree_with_pytorch),
		cmocka_unit_test(I1_rows_of_dw_have_the_bits_of_all),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_number_of_workers),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
