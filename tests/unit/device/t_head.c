/* SPDX-License-Identifier: Apache-2.0
 *
 * t_head.c - the output projection fused with softmax cross entropy: against PyTorch's float64,
 * against a plain softmax in double and its finite differences, over shapes that need several
 * chunks.
 */
#include "golden.h"
#include "tests/lib/sanitize.h"

struct head {
	struct zr_op_head_loss op;
	struct buf x, w, loss, dx, dw, work;
	int32_t *targets;
	float *weights;
	double sum;
};

static struct head head_new(const struct dev *d, int64_t rows, int64_t width, int64_t vocabulary,
			    int32_t dtype, double scale)
{
	struct head t = {
		.op = { .size = sizeof t.op,
			.dtype = dtype,
			.scale = 0.125f,
			.rows = rows,
			.width = width,
			.vocabulary = vocabulary },
		.x = buf_random(rows * width, dtype, 1, scale),
		.w = buf_random(vocabulary * width, dtype, 2, 1),
		.loss = buf_new(rows, ZR_F32, 0),
		.dx = buf_new(rows * width, dtype, 0),
		.dw = buf_new(vocabulary * width, ZR_F32, 0),
		.targets = calloc((size_t)rows, sizeof(int32_t)),
		.weights = calloc((size_t)rows, sizeof(float)),
	};
	uint64_t seed = 3;
	int64_t r;
	for (r = 0; r < rows; r++)
		t.targets[r] = (int32_t)((rnd(&seed) + 1) / 2 * (double)vocabulary);
	t.targets[0] = (int32_t)vocabulary - 1;
	t.work = buf_new((int64_t)(d->ops->head_loss_work(d->ops, &t.op) / 4), ZR_F32, 0);
	t.op.x = t.x.p;
	t.op.w = t.w.p;
	t.op.targets = t.targets;
	t.op.loss = (float *)(void *)t.loss.p;
	t.op.dx = t.dx.p;
	t.op.dw = (float *)(void *)t.dw.p;
	t.op.work = t.work.p;
	return t;
}

static int head_run(const struct dev *d, struct head *t)
{
	t->op.loss_sum = &t->sum;
	return d->ops->head_loss(d->ops, NULL, &t->op);
}

static void head_free(struct head *t)
{
	assert_true(buf_guarded(&t->loss) && buf_guarded(&t->dx) && buf_guarded(&t->dw) &&
		    buf_guarded(&t->work));
	buf_free(&t->x);
	buf_free(&t->w);
	buf_free(&t->loss);
	buf_free(&t->dx);
	buf_free(&t->dw);
	buf_free(&t->work);
	free(t->targets);
	free(t->weights);
}

/* Some rows have no target, the others a weight. */
static void head_mask(struct head *t)
{
	int64_t r;
	for (r = 0; r < t->op.rows; r++) {
		t->weights[r] = (float)(r % 4) / 2;
		t->targets[r] = r % 3 == 1 ? -1 : t->targets[r];
	}
	t->op.weights = t->weights;
}

static void on_every_variant(void (*fn)(const struct dev *, const char *))
{
	int i, ran = 0;
	for (i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		if (!dev_open_variant(&d, 2, i)) {
			fn(&d, dev_isas[i]);
			ran++;
		}
		dev_close(&d);
	}
	assert_true(ran >= 1);
}

static int has_tiles(const char *variant)
{
	return !strcmp(variant, "amx");
}

/* ---- golden values ---- */

static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };
static const double rounding[] = { 0, 0x1p-8, 0x1p-11 }; /* of a stored number, relative */

static void torch_head(const struct dev *d, const char *variant)
{
	static const int32_t targets[] = { 3, 12, 0, 3, 7, 11, 12 };
	int i;
	for (i = 0; i < 3; i++) {
		int32_t dtype = types[i];
		struct head t = head_new(d, 7, 6, 13, dtype, 1);
		uint64_t state = 5;
		drawn(&t.x, &state);
		drawn(&t.w, &state);
		memcpy(t.targets, targets, sizeof targets);
		t.op.scale = 0.25f;
		assert_int_equal(head_run(d, &t), ZR_OK);
		golden(variant, "head.loss", &t.loss, 1e-6);
		golden(variant, "head.dx", &t.dx,
		       rounding[i] + rounding_of_logits(variant, types[i]) + 1e-6);
		golden(variant, "head.dw", &t.dw, rounding_of_logits(variant, types[i]) + 1e-6);
		head_free(&t);
	}
}

static void loss_and_gradients_agree_with_pytorch(void **state)
{
	(void)state;
	on_every_variant(torch_head);
}

static void torch_matmul(const struct dev *d, const char *variant)
{
	struct buf a = buf_new(45, ZR_F32, 0), b = buf_new(171, ZR_F32, 0),
		   bias = buf_new(19, ZR_F32, 0);
	struct buf pre = buf_new(95, ZR_F32, 0), out = buf_new(95, ZR_F32, 0);
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = ZR_MM_GELU,
				   .m = 5,
				   .n = 19,
				   .k = 9,
				   .lda = 9,
				   .ldb = 19,
				   .ldd = 19,
				   .a = zr_array_at(ZR_F32, a.p),
				   .b = zr_array_at(ZR_F32, b.p),
				   .d = zr_array_at(ZR_F32, out.p),
				   .bias = bias.p,
				   .pre = pre.p };
	uint64_t state = 6;
	int i;
	drawn(&a, &state);
	drawn(&b, &state);
	drawn(&bias, &state);
	for (i = 0; i < 45; i++)
		((float *)(void *)a.p)[i] /= 4;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_OK);
	golden(variant, "matmul.pre", &pre, 1e-6);
	golden(variant, "matmul.gelu", &out, 1e-6);
	buf_free(&a);
	buf_free(&b);
	buf_free(&bias);
	buf_free(&pre);
	buf_free(&out);
}

static void product_bias_and_gelu_agree_with_pytorch(void **state)
{
	(void)state;
	on_every_variant(torch_matmul);
}

/* ---- the plain softmax in double ---- */

/* Loss of row r; p, if not NULL, receives the gradient of the logits. */
static double plain_row(const struct head *t, int64_t r, double *p)
{
	const struct zr_op_head_loss *o = &t->op;
	double *z = calloc((size_t)o->vocabulary, sizeof *z), max = -INFINITY, sum = 0, loss;
	int32_t target = t->targets[r] < 0 ? 0 : t->targets[r];
	double weight = t->targets[r] < 0 ? 0 : o->weights ? (double)o->weights[r] : 1;
	int64_t v, c;
	for (v = 0; v < o->vocabulary; v++) {
		for (c = 0; c < o->width; c++)
			z[v] += get(o->x, o->dtype, r * o->width + c) *
				get(o->w, o->dtype, v * o->width + c);
		max = z[v] > max ? z[v] : max;
	}
	for (v = 0; v < o->vocabulary; v++)
		sum += exp(z[v] - max);
	loss = log(sum) + max - z[target];
	for (v = 0; p && v < o->vocabulary; v++)
		p[v] = (exp(z[v] - max) / sum - (v == target)) * (double)o->scale * weight;
	free(z);
	return loss * weight;
}

/* Largest difference of got from want over the largest of want. */
static double off_by(const struct buf *got, const double *want)
{
	double most = 1e-30, diff = 0;
	int64_t i;
	for (i = 0; i < got->n; i++) {
		double e = fabs(get(got->p, got->dtype, i) - want[i]);
		most = fabs(want[i]) > most ? fabs(want[i]) : most;
		if (!(e <= diff))
			diff = e;
	}
	return diff / most;
}

static void compare(const struct dev *d, const char *variant, int64_t rows, int64_t width,
		    int64_t vocabulary, int type, int masked)
{
	int32_t dtype = types[type];
	double rounded = rounding_of_logits(variant, dtype);
	struct head t = head_new(d, rows, width, vocabulary, dtype, 1);
	double *dx = calloc((size_t)t.dx.n, sizeof *dx), *dw = calloc((size_t)t.dw.n, sizeof *dw);
	double *p = calloc((size_t)vocabulary, sizeof *p),
	       *loss = calloc((size_t)rows, sizeof *loss), sum = 0;
	int64_t r, v, c;
	if (masked)
		head_mask(&t);
	for (r = 0; r < rows; r++) {
		loss[r] = plain_row(&t, r, p);
		for (v = 0; v < vocabulary; v++)
			for (c = 0; c < width; c++) {
				dx[r * width + c] += p[v] * get(t.w.p, dtype, v * width + c);
				dw[v * width + c] += p[v] * get(t.x.p, dtype, r * width + c);
			}
	}
	assert_int_equal(head_run(d, &t), ZR_OK);
	if (!(off_by(&t.loss, loss) < 2e-6 && off_by(&t.dx, dx) < rounding[type] + rounded + 5e-6 &&
	      off_by(&t.dw, dw) < rounded + 5e-6))
		fail_msg("%s %lld x %lld x %lld type %d: loss off by %g, dx %g, dw %g", variant,
			 (long long)rows, (long long)width, (long long)vocabulary, dtype,
			 off_by(&t.loss, loss), off_by(&t.dx, dx), off_by(&t.dw, dw));
	for (r = 0; r < rows; r++)
		sum += get(t.loss.p, ZR_F32, r);
	assert_true(t.sum == sum); /* fp64, in row order */
	free(dx);
	free(dw);
	free(p);
	free(loss);
	head_free(&t);
}

static void plain(const struct dev *d, const char *variant)
{
	static const int64_t shape[][3] = {
		{ 1, 8, 5 }, { 7, 24, 97 }, { 65, 9, 256 }, { 150, 16, 513 }
	};
	size_t i;
	for (i = 0; i < sizeof shape / sizeof *shape; i++)
		for (int type = sanitized() ? (int)i % 3 : 0; type < 3; type += sanitized() ? 3 : 1)
			compare(d, variant, shape[i][0], shape[i][1], shape[i][2], type, 0);
	compare(d, variant, 1600, 4, 2500, 1, 0);
	/* on tile registers blocks of the vocabulary: a single one, and three, of which the logits
	 * of one are kept */
	if (has_tiles(variant))
		compare(d, variant, 1600, 4, 2500, 1, 1);
	if (has_tiles(variant) && !sanitized())
		compare(d, variant, 1600, 4, 9000, 1, 1);
}

static void masked(const struct dev *d, const char *variant)
{
	for (int type = 0; type < 3; type++) {
		compare(d, variant, 7, 24, 97, type, 1);
		compare(d, variant, 65, 9, 256, type, 1);
	}
}

static void rows_without_a_target_and_weights_are_those_of_the_softmax_in_double(void **state)
{
	(void)state;
	on_every_variant(masked);
}

/* A row without a target changes no bit of the others. */
static void no_target(const struct dev *d, const char *variant)
{
	struct head a = head_new(d, 6, 9, 31, ZR_F32, 1), b = head_new(d, 6, 9, 31, ZR_F32, 1);
	(void)variant;
	b.targets[2] = -1;
	assert_int_equal(head_run(d, &a), ZR_OK);
	assert_int_equal(head_run(d, &b), ZR_OK);
	for (int64_t i = 0; i < a.dx.n; i++)
		assert_true(get(b.dx.p, ZR_F32, i) == (i / 9 == 2 ? 0 : get(a.dx.p, ZR_F32, i)));
	for (int64_t r = 0; r < 6; r++)
		assert_true(get(b.loss.p, ZR_F32, r) == (r == 2 ? 0 : get(a.loss.p, ZR_F32, r)));
	head_free(&a);
	head_free(&b);
}

static void a_row_without_a_target_leaves_the_others_alone(void **state)
{
	(void)state;
	on_every_variant(no_target);
}

static void any_number_of_chunks_is_the_softmax_in_double(void **state)
{
	(void)state;
	on_every_variant(plain);
}

/* Central differences of the loss in double against the gradients of the device. */
static void differences(const struct dev *d, const char *variant)
{
	struct head t = head_new(d, 5, 7, 31, ZR_F32, 1);
	const double h = 0x1p-10;
	int i;
	assert_int_equal(head_run(d, &t), ZR_OK);
	for (i = 0; i < 2; i++) {
		const struct buf *x = i ? &t.w : &t.x, *g = i ? &t.dw : &t.dx;
		int64_t e, r;
		for (e = 0; e < x->n; e += 3) {
			float *at = (float *)(void *)x->p + e, was = *at;
			double slope = 0;
			*at = (float)((double)was + h);
			for (r = 0; r < 5; r++)
				slope += plain_row(&t, r, NULL) / 2 / h;
			*at = (float)((double)was - h);
			for (r = 0; r < 5; r++)
				slope -= plain_row(&t, r, NULL) / 2 / h;
			*at = was;
			slope *= (double)t.op.scale;
			if (fabs(slope - get(g->p, ZR_F32, e)) > 2e-4 * (1 + fabs(slope)))
				fail_msg("%s: %s[%d] is %g, difference quotient %g", variant,
					 i ? "dw" : "dx", (int)e, get(g->p, ZR_F32, e), slope);
		}
	}
	head_free(&t);
}

static void gradients_are_finite_differences_of_the_loss(void **state)
{
	(void)state;
	on_every_variant(differences);
}

/* ---- the rest of the contract ---- */

static void loss_only(const struct dev *d, const char *variant)
{
	struct head a = head_new(d, 70, 16, 97, ZR_F32, 1), b = head_new(d, 70, 16, 97, ZR_F32, 1);
	int64_t i;
	(void)variant;
	b.op.dx = NULL;
	assert_int_equal(head_run(d, &a), ZR_OK);
	assert_int_equal(head_run(d, &b), ZR_OK);
	assert_true(buf_same(&a.loss, &b.loss) && a.sum == b.sum);
	for (i = 0; i < b.dw.n; i++)
		assert_true(isnan(get(b.dw.p, ZR_F32, i)));
	head_free(&a);
	head_free(&b);
}

static void without_dx_it_is_the_same_loss_and_no_gradient(void **state)
{
	(void)state;
	on_every_variant(loss_only);
}

static void accumulate(const struct dev *d, const char *variant)
{
	struct head t = head_new(d, 70, 16, 97, ZR_F32, 1);
	struct buf once;
	int64_t i;
	assert_int_equal(head_run(d, &t), ZR_OK);
	once = buf_copy(&t.dw);
	t.op.flags = ZR_OP_ACCUMULATE;
	assert_int_equal(head_run(d, &t), ZR_OK);
	for (i = 0; i < once.n; i++) {
		double g = get(once.p, ZR_F32, i);
		if (!(fabs(get(t.dw.p, ZR_F32, i) - 2 * g) <= 1e-5 * (0.1 + fabs(g))))
			fail_msg("%s: dw[%d] is %g after %g twice", variant, (int)i,
				 get(t.dw.p, ZR_F32, i), g);
	}
	buf_free(&once);
	head_free(&t);
}

/* ---- what an adapter adds ---- */

#define RANK 5

/* a [rows, width] and b [rows, RANK] beside each other */
static void join(const struct buf *to, const struct buf *a, const struct buf *b, int64_t rows,
		 int64_t width, int32_t dtype)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t k = 0; k < width + RANK; k++)
			put(to->p, dtype, r * (width + RANK) + k,
			    k < width ? get(a->p, dtype, r * width + k) :
					get(b->p, dtype, r * RANK + k - width));
}

static void parts_agree(const char *variant, const char *name, const struct buf *part,
			const struct buf *whole, int64_t n, int64_t from, int32_t dtype)
{
	const int64_t apart = whole->n / (part->n / n);

	for (int64_t i = 0; i < part->n; i++) {
		const double got = get(part->p, dtype, i);
		const double want = get(whole->p, dtype, i / n * apart + from + i % n);
		if (!(fabs(got - want) <= 1e-5 + 1e-2 * (dtype != ZR_F32) * (1 + fabs(want))))
			fail_msg("%s: %s[%d] is %g, of one product %g", variant, name, (int)i, got,
				 want);
	}
}

/* x w^T + u v^T is the product of [x u] and [w v]. */
static void low_rank(const struct dev *d, const char *variant)
{
	const int64_t rows = 150, width = 16, vocabulary = 513;

	for (int i = 0; i < 2; i++) {
		const int32_t type = types[i];
		struct head a = head_new(d, rows, width, vocabulary, type, 1);
		struct head b = head_new(d, rows, width + RANK, vocabulary, type, 1);
		struct buf u = buf_random(rows * RANK, type, 7, 1),
			   v = buf_random(vocabulary * RANK, type, 8, 1),
			   du = buf_new(rows * RANK, type, 0),
			   dv = buf_new(vocabulary * RANK, ZR_F32, 0);

		join(&b.x, &a.x, &u, rows, width, type);
		join(&b.w, &a.w, &v, vocabulary, width, type);
		a.op.r = RANK;
		a.op.u = u.p;
		a.op.v = v.p;
		a.op.du = du.p;
		a.op.dv = (float *)(void *)dv.p;
		assert_int_equal(head_run(d, &a), ZR_OK);
		assert_int_equal(head_run(d, &b), ZR_OK);
		parts_agree(variant, "loss", &a.loss, &b.loss, 1, 0, ZR_F32);
		parts_agree(variant, "dx", &a.dx, &b.dx, width, 0, type);
		parts_agree(variant, "dw", &a.dw, &b.dw, width, 0, ZR_F32);
		parts_agree(variant, "du", &du, &b.dx, RANK, width, type);
		parts_agree(variant, "dv", &dv, &b.dw, RANK, width, ZR_F32);

		struct buf once = buf_copy(&dv);
		a.op.flags = ZR_OP_ACCUMULATE_DV;
		assert_int_equal(head_run(d, &a), ZR_OK);
		for (int64_t k = 0; k < dv.n; k++)
			assert_true(fabs(get(dv.p, ZR_F32, k) - 2 * get(once.p, ZR_F32, k)) <=
				    1e-5);
		assert_true(buf_guarded(&du) && buf_guarded(&dv));
		buf_free(&once);
		buf_free(&u);
		buf_free(&v);
		buf_free(&du);
		buf_free(&dv);
		head_free(&a);
		head_free(&b);
	}
}

static void what_an_adapter_adds_is_a_part_of_the_product(void **state)
{
	(void)state;
	on_every_variant(low_rank);
}

static void accumulate_adds_to_dw(void **state)
{
	(void)state;
	on_every_variant(accumulate);
}

static void extremes(const struct dev *d, const char *variant)
{
	struct head t = head_new(d, 9, 16, 300, ZR_F32, 1e4);
	int64_t i;
	(void)variant;
	assert_int_equal(head_run(d, &t), ZR_OK);
	for (i = 0; i < 9; i++)
		assert_true(isfinite(get(t.loss.p, ZR_F32, i)) && get(t.loss.p, ZR_F32, i) >= 0);
	for (i = 0; i < t.dx.n; i++)
		assert_true(isfinite(get(t.dx.p, ZR_F32, i)));
	put(t.x.p, ZR_F32, 4 * 16 + 3, NAN);
	assert_int_equal(head_run(d, &t), ZR_OK);
	for (i = 0; i < 9; i++)
		assert_int_equal(!isfinite(get(t.loss.p, ZR_F32, i)), i == 4);
	head_free(&t);
}

static void huge_logits_do_not_overflow_and_a_nan_shows(void **state)
{
	(void)state;
	on_every_variant(extremes);
}

static void little_work(const struct dev *d, const char *variant)
{
	static const int64_t rows[] = { 64, 256, 1000, 4096, 16384 }, vocabulary[] = { 256, 50257 };
	const int tiles = has_tiles(variant); /* keeps more, to compute less */
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 2; j++) {
			struct zr_op_head_loss op = { .size = sizeof op,
						      .dtype = ZR_BF16,
						      .rows = rows[i],
						      .width = 64,
						      .vocabulary = vocabulary[j] };
			uint64_t work = d->ops->head_loss_work(d->ops, &op),
				 row = (uint64_t)vocabulary[j] * 4;
			assert_true(work <= (tiles ? 64u : 33u) << 20);
			assert_true(tiles || work <= ((uint64_t)rows[i] / 2 + 1) * (row + 64));
			assert_true(work >= 32 * row);
		}
}

static void logits_of_a_large_batch_never_exist(void **state)
{
	(void)state;
	on_every_variant(little_work);
}

/* I1: threads. */
static void any_workers(const int64_t *shape)
{
	struct buf first[3] = { { 0 } };
	for (int workers = 1; workers <= 3; workers++) {
		struct dev d;
		struct head t;
		assert_int_equal(dev_open(&d, workers, "auto"), ZR_OK);
		t = head_new(&d, shape[0], shape[1], shape[2], ZR_BF16, 1);
		assert_int_equal(head_run(&d, &t), ZR_OK);
		if (workers == 1) {
			first[0] = buf_copy(&t.loss);
			first[1] = buf_copy(&t.dx);
			first[2] = buf_copy(&t.dw);
		}
		assert_true(buf_same(&first[0], &t.loss));
		assert_true(buf_same(&first[1], &t.dx));
		assert_true(buf_same(&first[2], &t.dw));
		head_free(&t);
		dev_close(&d);
	}
	for (int i = 0; i < 3; i++)
		buf_free(&first[i]);
}

static void I1_bits_do_not_depend_on_the_number_of_workers(void **state)
{
	/* with tile registers chunks of rows, and blocks of the vocabulary */
	static const int64_t shapes[][3] = { { 200, 40, 3001 },
					     { 1600, 4, 2500 },
					     { 1600, 4, 9000 } };
	(void)state;
	for (int i = 0; i < 3; i++)
		any_workers(shapes[i]);
}

/* Rows [at, at + n) of dw alone, into `part` between guards. */
static void some_rows(const struct dev *d, const struct head *t, int64_t at, int64_t n,
		      const struct buf *before)
{
	struct zr_op_head_loss op = t->op;
	struct buf part = buf_new(n * op.width, ZR_F32, 0);
	uint64_t bytes = (uint64_t)(n * op.width) * 4;
	if (before)
		memcpy(part.p, (float *)(void *)before->p + at * op.width, bytes);
	op.first_row = at;
	op.n_rows = n;
	op.dw = (float *)(void *)part.p;
	op.dx = NULL;
	op.loss_sum = NULL;
	op.loss = NULL;
	assert_int_equal(d->ops->head_loss_rows(d->ops, NULL, &op), ZR_OK);
	assert_memory_equal(part.p, t->op.dw + at * op.width, bytes);
	assert_true(buf_guarded(&part));
	buf_free(&part);
}

/* I1: the bits of dw in parts of any size are those of all of it. */
static void parts_of(const struct dev *d, const int64_t *shape, int32_t dtype, int masked, int adds,
		     const int64_t *part)
{
	struct head t = head_new(d, shape[0], shape[1], shape[2], dtype, 1);
	struct buf stats = buf_new(2 * t.op.rows, ZR_F32, 0), before = buf_copy(&t.dw);
	if (masked)
		head_mask(&t);
	t.op.flags = adds ? ZR_OP_ACCUMULATE : 0;
	for (int64_t i = 0; adds && i < before.n; i++)
		((float *)(void *)before.p)[i] = t.op.dw[i] = (float)(i % 13) - 6;
	t.op.stats = (float *)(void *)stats.p;
	assert_int_equal(head_run(d, &t), ZR_OK);
	for (; *part; part++)
		for (int64_t at = 0; at < t.op.vocabulary; at += *part * (*part > 1 ? 1 : 17)) {
			int64_t left = t.op.vocabulary - at, rows = *part < left ? *part : left;
			some_rows(d, &t, at, rows, adds ? &before : NULL);
		}
	assert_true(buf_guarded(&stats));
	buf_free(&stats);
	buf_free(&before);
	head_free(&t);
}

static void parts(const struct dev *d, const char *variant)
{
	/* rows, width, vocabulary: one chunk and several, sums along K that are split and not */
	static const int64_t shape[][3] = {
		{ 1, 8, 5 }, { 65, 9, 256 }, { 150, 16, 513 }, { 1024, 128, 40 }, { 64, 1024, 64 }
	};
	static const int64_t part[] = { 1, 7, 64, 256, 0 };
	/* and the vocabulary in blocks, with tile registers */
	static const int64_t blocks[] = { 1600, 4, 9000 }, of_blocks[] = { 2900, 9000, 0 };
	for (int k = 0; k < 5 * 3 * 2; k += sanitized() ? 7 : 1) /* each shape and type */
		parts_of(d, shape[k % 5], types[k % 3], k % 4 == 1, k & 1, part);
	for (int k = 0; k < 4 && has_tiles(variant); k += sanitized() ? 3 : 1)
		parts_of(d, blocks, ZR_BF16, k / 2, k & 1, of_blocks);
}

static void I1_rows_of_dw_have_the_bits_of_all(void **state)
{
	(void)state;
	on_every_variant(parts);
}

/* Likewise of the embedding. */
static void parts_of_wte(const struct dev *d, const char *variant)
{
	enum { V = 37, C = 19, ROWS = 50 };
	int32_t tokens[ROWS];
	uint64_t seed = 5;
	(void)variant;
	for (int i = 0; i < ROWS; i++)
		tokens[i] = (int32_t)((rnd(&seed) + 1) / 2 * V);
	for (int k = 0; k < 6; k++) {
		struct buf dout = buf_random(ROWS * C, types[k % 3], 1, 1);
		struct buf all = buf_random(V * C, ZR_F32, 2, 1);
		struct buf some = buf_copy(&all);
		struct zr_op_embedding_bwd op = { .size = sizeof op,
						  .flags = k & 1 ? ZR_OP_ACCUMULATE_WTE : 0,
						  .dtype = types[k % 3],
						  .batch = 2,
						  .length = ROWS / 2,
						  .width = C,
						  .vocabulary = V,
						  .tokens = tokens,
						  .dout = dout.p,
						  .dwte = (float *)(void *)all.p };
		assert_int_equal(d->ops->embedding_bwd(d->ops, NULL, &op), ZR_OK);
		for (op.first_row = 0; op.first_row < V; op.first_row += op.n_rows) {
			op.n_rows = V - op.first_row < 10 ? V - op.first_row : 10;
			op.dwte = (float *)(void *)some.p + op.first_row * C;
			assert_int_equal(d->ops->embedding_bwd_rows(d->ops, NULL, &op), ZR_OK);
		}
		assert_true(buf_same(&all, &some) && buf_guarded(&some));
		buf_free(&dout);
		buf_free(&all);
		buf_free(&some);
	}
}

static void I1_rows_of_dwte_have_the_bits_of_all(void **state)
{
	(void)state;
	on_every_variant(parts_of_wte);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_and_gradients_agree_with_pytorch),
		cmocka_unit_test(product_bias_and_gelu_agree_with_pytorch),
		cmocka_unit_test(
			rows_without_a_target_and_weights_are_those_of_the_softmax_in_double),
		cmocka_unit_test(a_row_without_a_target_leaves_the_others_alone),
		cmocka_unit_test(any_number_of_chunks_is_the_softmax_in_double),
		cmocka_unit_test(gradients_are_finite_differences_of_the_loss),
		cmocka_unit_test(without_dx_it_is_the_same_loss_and_no_gradient),
		cmocka_unit_test(accumulate_adds_to_dw),
		cmocka_unit_test(what_an_adapter_adds_is_a_part_of_the_product),
		cmocka_unit_test(huge_logits_do_not_overflow_and_a_nan_shows),
		cmocka_unit_test(logits_of_a_large_batch_never_exist),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_number_of_workers),
		cmocka_unit_test(I1_rows_of_dw_have_the_bits_of_all),
		cmocka_unit_test(I1_rows_of_dwte_have_the_bits_of_all),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
