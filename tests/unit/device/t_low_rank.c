/* SPDX-License-Identifier: Apache-2.0
 *
 * t_low_rank.c - products with a low-rank update of device/cpu, for every instruction set: against
 * double precision over ranks, shapes, layouts, types, biases and GELU; the bits of the separate
 * operations in fp32, with and without dropout; and the same bits over workers and rows.
 */
#include "product_in_double.h"
#include "tests/lib/sanitize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define GAP 3 /* elements between the rows of A, B and D, NaN */

struct low {
	struct zr_op_matmul_low_rank op;
	struct buf a, b, d, bias, pre, u, v;
};

static struct buf matrix(int64_t rows, int64_t cols, int64_t gap, int32_t dtype, uint64_t seed)
{
	struct buf m = buf_new(rows * (cols + gap), dtype, (int)(seed & 1));
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++)
			put(m.p, dtype, i * (cols + gap) + j, rnd(&seed));
	return m;
}

/* m, n, k, r */
static struct low low_new(const int64_t *shape, uint32_t flags, uint32_t low_flags, int32_t dtype,
			  int32_t to, int bias, float dropout)
{
	const int64_t m = shape[0], n = shape[1], k = shape[2], r = shape[3];
	const int tb = (flags & ZR_MM_TRANS_B) != 0, tv = (low_flags & ZR_LR_TRANS_V) != 0;
	struct low t = { .a = matrix(m, k, GAP, dtype, 11),
			 .b = matrix(tb ? n : k, tb ? k : n, GAP, dtype, 22),
			 .d = matrix(m, n, GAP, to, 33),
			 .bias = buf_random(n, dtype, 44, 1),
			 .pre = buf_new(m * (n + GAP), to, 0),
			 .u = matrix(m, r, 0, dtype, 55),
			 .v = matrix(tv ? n : r, tv ? r : n, 0, dtype, 66) };
	t.op = (struct zr_op_matmul_low_rank){ .size = sizeof t.op,
					       .flags = low_flags,
					       .r = r,
					       .gain = 0.7f,
					       .dropout = dropout,
					       .rng = { 5, 6, 7, 8 },
					       .first = dropout > 0 ? m * k + 3 : 0,
					       .u = t.u.p,
					       .v = t.v.p,
					       .product = { .size = sizeof t.op.product,
							    .flags = flags,
							    .m = m,
							    .n = n,
							    .k = k,
							    .lda = k + GAP,
							    .ldb = (tb ? k : n) + GAP,
							    .ldd = n + GAP,
							    .a = zr_array_at(dtype, t.a.p),
							    .b = zr_array_at(dtype, t.b.p),
							    .d = zr_array_at(to, t.d.p),
							    .bias = bias ? t.bias.p : NULL,
							    .pre = flags & ZR_MM_GELU ? t.pre.p :
											NULL } };
	return t;
}

static void low_free(struct low *t)
{
	struct buf *all[] = { &t->a, &t->b, &t->d, &t->bias, &t->pre, &t->u, &t->v };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		buf_free(all[i]);
}

/* ---- in double precision ---- */

/* What D shall be, before GELU and without dropout, and the sums of magnitudes; `start`: what D
 * held. */
static void expect(const struct low *t, const struct buf *start, double *want, double *size)
{
	const struct zr_op_matmul *o = &t->op.product;
	const int64_t mnk[] = { o->m, o->n, o->k }, mnr[] = { o->m, o->n, t->op.r };
	const int tb = (o->flags & ZR_MM_TRANS_B) != 0, tv = (t->op.flags & ZR_LR_TRANS_V) != 0;
	const struct factor a = { o->a.data, o->a.dtype, o->lda, 0 },
			    b = { o->b.data, o->b.dtype, o->ldb, tb };
	const struct factor u = { t->op.u, o->a.dtype, t->op.r, 0 };
	const struct factor v = { t->op.v, o->b.dtype, tv ? t->op.r : o->n, tv };
	for (int64_t i = 0; i < o->m * o->n; i++) {
		const int64_t at = i / o->n * o->ldd + i % o->n;
		want[i] = (o->flags & ZR_MM_ACCUMULATE ? get(start->p, o->d.dtype, at) : 0) +
			  (o->bias ? get(o->bias, o->b.dtype, i % o->n) : 0);
		size[i] = fabs(want[i]) + 1e-3;
	}
	add_product(want, size, mnk, 1, &a, &b);
	add_product(want, size, mnr, (double)t->op.gain, &u, &v);
}

static void verify(const struct low *t, const double *sums, const double *sizes, const char *isa)
{
	const struct zr_op_matmul *o = &t->op.product;
	for (int64_t i = 0; i < o->m; i++)
		for (int64_t j = 0; j < o->ldd; j++) {
			const int64_t at = i * o->ldd + j, k = o->k + t->op.r;
			double got = get(o->d.data, o->d.dtype, at), want, size;
			if (j >= o->n) {
				assert_true(isnan(got));
				continue;
			}
			want = sums[i * o->n + j];
			size = sizes[i * o->n + j];
			int ok = !o->pre || product_close(get(o->pre, o->d.dtype, at), want, size,
							  k, o->d.dtype);
			if (o->flags & ZR_MM_GELU)
				want = product_gelu(want, o->activation);
			if (!ok || !product_close(got, want, 1.2 * size, k, o->d.dtype))
				fail_msg("%s: m %d n %d k %d r %d flags %x %x types %d %d: (%d, "
					 "%d) is %.9g, not %.9g",
					 isa, (int)o->m, (int)o->n, (int)o->k, (int)t->op.r,
					 o->flags, t->op.flags, o->a.dtype, o->d.dtype, (int)i,
					 (int)j, got, want);
		}
	assert_true(buf_guarded(&t->d) && buf_guarded(&t->pre));
}

/* One product in every instruction set. */
static void one(const int64_t *shape, uint32_t flags, uint32_t low_flags, int32_t dtype, int32_t to,
		int bias)
{
	struct low t = low_new(shape, flags, low_flags, dtype, to, bias, 0);
	const struct buf d = buf_copy(&t.d), pre = buf_copy(&t.pre);
	const size_t bytes = (size_t)d.n * width_of(to), n = (size_t)(shape[0] * shape[1]);
	double *want = malloc(2 * n * sizeof *want);
	assert_non_null(want);
	t.op.product.activation = flags & ZR_MM_TRANS_B ? ZR_ACT_GELU_ERF : 0;
	expect(&t, &d, want, want + n);
	for (int i = 0; i < DEV_VARIANTS; i++) {
		if (!has_variant[i])
			continue;
		memcpy(t.d.p, d.p, bytes);
		memcpy(t.pre.p, pre.p, bytes);
		assert_int_equal(variant[i].ops->matmul_low_rank(variant[i].ops, NULL, &t.op),
				 ZR_OK);
		verify(&t, want, want + n, dev_isas[i]);
	}
	free(want);
	free(d.room);
	free(pre.room);
	low_free(&t);
}

static const int64_t shapes[][4] = {
	{ 1, 1, 1, 1 },      { 1, 7, 3, 8 },     { 3, 1, 5, 3 },      { 5, 17, 31, 1 },
	{ 9, 49, 193, 3 },   { 33, 50, 257, 8 }, { 67, 24, 515, 64 }, { 129, 200, 129, 16 },
	{ 13, 31, 64, 300 }, { 3, 3, 4500, 2 },  { 12, 20, 9000, 8 },
};
#define SHAPES (int)(sizeof shapes / sizeof *shapes)

/* Under sanitizers one case in so many is enough. */
static int step(int otherwise)
{
	return sanitized() ? otherwise : 1;
}

static void any_shape_rank_and_type_is_right(void **state)
{
	static const int32_t type[] = { ZR_F32, ZR_BF16, ZR_F16 };
	static const int64_t wide[] = { 300, 1700, 40, 16 };
	(void)state;
	for (int s = 0; s < SHAPES; s++)
		for (int i = s % step(5); i < 12; i += step(5)) {
			const uint32_t b = i & 1 ? ZR_MM_TRANS_B : 0, v = i & 2 ? ZR_LR_TRANS_V : 0;
			const int32_t t = type[i / 4];
			one(shapes[s], b, v, t, t, 1);
			one(shapes[s], b | ZR_MM_GELU, v, t, t, i & 1);
			one(shapes[s], b, v, t, ZR_F32, 0);
			one(shapes[s], b | ZR_MM_ACCUMULATE, v, t, ZR_F32, 0);
		}
	one(wide, ZR_MM_GELU, ZR_LR_TRANS_V, ZR_F32, ZR_BF16, 1);
	one(wide, ZR_MM_TRANS_B, 0, ZR_BF16, ZR_BF16, 0);
}

/* ---- bits ---- */

/* D = A B, then D += drop(gain U V), of which every row is summed alone. */
static void separately(const struct dev *d, const struct low *t, float *uv)
{
	const struct zr_op_matmul *o = &t->op.product;
	struct zr_op_matmul low = { .size = sizeof low,
				    .flags = ZR_MM_EACH_ROW,
				    .m = o->m,
				    .n = o->n,
				    .k = t->op.r,
				    .lda = t->op.r,
				    .ldb = o->n,
				    .ldd = o->n,
				    .a = zr_array_at(ZR_F32, t->op.u),
				    .b = zr_array_at(ZR_F32, t->op.v),
				    .d = zr_array_at(ZR_F32, uv) };
	struct zr_op_residual drop = { .size = sizeof drop,
				       .dtype = ZR_F32,
				       .dropout = t->op.dropout,
				       .n = o->m * o->n,
				       .rng = t->op.rng,
				       .b = uv,
				       .out = uv,
				       .gain = t->op.gain,
				       .first = t->op.first };
	assert_int_equal(d->ops->matmul(d->ops, NULL, o), ZR_OK);
	assert_int_equal(d->ops->matmul(d->ops, NULL, &low), ZR_OK);
	assert_int_equal(d->ops->residual(d->ops, NULL, &drop), ZR_OK);
	for (int64_t i = 0; i < o->m; i++)
		for (int64_t j = 0; j < o->n; j++)
			((float *)o->d.data)[i * o->ldd + j] += uv[i * o->n + j];
}

static void parts(const struct dev *d, const char *isa)
{
	for (int i = 0; i < 2 * SHAPES; i += step(3)) {
		const int64_t *shape = shapes[i / 2];
		const float dropout = i & 1 ? 0.3f : 0;
		struct low x = low_new(shape, 0, 0, ZR_F32, ZR_F32, 0, dropout);
		struct low y = low_new(shape, 0, 0, ZR_F32, ZR_F32, 0, dropout);
		float *uv = calloc((size_t)(shape[0] * shape[1]), sizeof *uv);
		assert_non_null(uv);
		separately(d, &x, uv);
		assert_int_equal(d->ops->matmul_low_rank(d->ops, NULL, &y.op), ZR_OK);
		if (!buf_same(&x.d, &y.d))
			fail_msg("%s: shape %d, dropout %g", isa, i / 2, (double)dropout);
		free(uv);
		low_free(&x);
		low_free(&y);
	}
}

static void it_is_the_separate_operations_in_fp32(void **state)
{
	(void)state;
	on_every_variant(parts);
}

static void I1_bits_do_not_depend_on_the_number_of_workers(void **state)
{
	static const int64_t big[][4] = { { 256, 300, 768, 16 },
					  { 130, 128, 5000, 8 },
					  { 70, 2000, 64, 64 },
					  { 16, 64, 20000, 3 } };
	(void)state;
	for (int v = 0; v < DEV_VARIANTS; v++)
		for (int i = 0; i < 8; i += step(3)) {
			struct buf first = { 0 };
			for (int workers = 1; workers <= 3; workers++) {
				struct dev d;
				if (!dev_open(&d, workers, dev_isas[v])) {
					struct low t = low_new(big[i / 2], ZR_MM_GELU, 0, ZR_BF16,
							       i & 1 ? ZR_BF16 : ZR_F32, 1, 0.2f);
					assert_int_equal(d.ops->matmul_low_rank(d.ops, NULL, &t.op),
							 ZR_OK);
					if (workers == 1)
						first = buf_copy(&t.d);
					else if (!buf_same(&first, &t.d))
						fail_msg("%s: shape %d, %d workers", dev_isas[v],
							 i / 2, workers);
					low_free(&t);
				}
				dev_close(&d);
			}
			if (first.p)
				buf_free(&first);
		}
}

/* Rows that are asked for as such have the bits that they have among others. */
static void rows_alone(const struct dev *d, const char *isa)
{
	static const int64_t shape[] = { 21, 70, 3000, 8 };
	struct low t =
		low_new(shape, ZR_MM_EACH_ROW | ZR_MM_GELU, ZR_LR_TRANS_V, ZR_F32, ZR_F32, 1, 0);
	const struct zr_op_matmul all = t.op.product;
	struct buf whole;
	assert_int_equal(d->ops->matmul_low_rank(d->ops, NULL, &t.op), ZR_OK);
	whole = buf_copy(&t.d);
	memset(all.d.data, 0, (size_t)(all.n * 4));
	t.op.product.m = 1;
	for (int64_t i = 0; i < all.m; i++) {
		t.op.u = (const float *)(const void *)t.u.p + i * shape[3];
		t.op.product.a = zr_array_from(&all.a, i * all.lda);
		t.op.product.d = zr_array_from(&all.d, i * all.ldd);
		t.op.product.pre = NULL;
		assert_int_equal(d->ops->matmul_low_rank(d->ops, NULL, &t.op), ZR_OK);
	}
	if (!buf_same(&whole, &t.d))
		fail_msg("%s", isa);
	buf_free(&whole);
	low_free(&t);
}

static void I1_rows_alone_have_the_bits_of_all(void **state)
{
	(void)state;
	on_every_variant(rows_alone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_shape_rank_and_type_is_right),
		cmocka_unit_test(it_is_the_separate_operations_in_fp32),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_number_of_workers),
		cmocka_unit_test(I1_rows_alone_have_the_bits_of_all),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("low-rank updates", tests, open_variants,
					   close_variants);
}
