/* SPDX-License-Identifier: Apache-2.0
 *
 * t_matmul.c - matrix products of device/cpu against a product in double precision, for every
 * instruction set, over shapes, transposes, types and epilogues.
 */
#include "product_in_double.h"
#include "tests/lib/sanitize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define GAP 3 /* elements between the rows of every matrix, NaN */

struct mm {
	struct zr_op_matmul op;
	struct buf a, b, d, bias, pre;
	double *start; /* what D held */
};

static const int64_t shapes[][3] = {
	{ 1, 1, 1 },      { 1, 7, 3 },     { 3, 1, 5 },      { 5, 17, 31 },
	{ 8, 48, 192 },   { 9, 49, 193 },  { 13, 97, 64 },   { 33, 50, 257 },
	{ 64, 130, 400 }, { 67, 24, 515 }, { 129, 33, 129 }, { 3, 3, 4500 },
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* rows x cols elements with NaN in the gaps. */
static struct buf matrix(int64_t rows, int64_t cols, int32_t dtype, uint64_t seed)
{
	struct buf m = buf_new(rows * (cols + GAP), dtype, (int)(seed & 1));
	int64_t i, j;
	for (i = 0; i < rows; i++)
		for (j = 0; j < cols; j++)
			put(m.p, dtype, i * (cols + GAP) + j, rnd(&seed));
	return m;
}

static struct mm mm_new(const int64_t *shape, uint32_t flags, int32_t a_dtype, int32_t b_dtype,
			int32_t d_dtype, int bias)
{
	int64_t m = shape[0], n = shape[1], k = shape[2], i, j;
	int ta = !!(flags & ZR_MM_TRANS_A), tb = !!(flags & ZR_MM_TRANS_B);
	struct mm t = {
		.op = { .size = sizeof t.op,
			.flags = flags,
			.a.dtype = a_dtype,
			.b.dtype = b_dtype,
			.d.dtype = d_dtype,
			.m = m,
			.n = n,
			.k = k,
			.lda = (ta ? m : k) + GAP,
			.ldb = (tb ? k : n) + GAP,
			.ldd = n + GAP },
		.a = matrix(ta ? k : m, ta ? m : k, a_dtype, 11),
		.b = matrix(tb ? n : k, tb ? k : n, b_dtype, 22),
		.d = flags & ZR_MM_ACCUMULATE ? matrix(m, n, d_dtype, 33) :
						buf_new(m * (n + GAP), d_dtype, 1),
		.bias = buf_random(n, b_dtype, 44, 1),
		.pre = buf_new(m * (n + GAP), d_dtype, 0),
		.start = calloc((size_t)(m * n), sizeof(double)),
	};
	t.op.a.data = t.a.p;
	t.op.b.data = t.b.p;
	t.op.d.data = t.d.p;
	t.op.bias = bias ? t.bias.p : NULL;
	t.op.pre = flags & ZR_MM_GELU ? t.pre.p : NULL;
	for (i = 0; i < m && flags & ZR_MM_ACCUMULATE; i++)
		for (j = 0; j < n; j++)
			t.start[i * n + j] = get(t.d.p, d_dtype, i * t.op.ldd + j);
	return t;
}

static void mm_free(struct mm *t)
{
	buf_free(&t->a);
	buf_free(&t->b);
	buf_free(&t->d);
	buf_free(&t->bias);
	buf_free(&t->pre);
	free(t->start);
}

/* What D shall be, before GELU, and the sums of magnitudes. */
static void in_double(const struct mm *t, double *want, double *size)
{
	const struct zr_op_matmul *o = &t->op;
	const int64_t mnk[] = { o->m, o->n, o->k };
	const struct factor a = { o->a.data, o->a.dtype, o->lda, !!(o->flags & ZR_MM_TRANS_A) };
	const struct factor b = { o->b.data, o->b.dtype, o->ldb, !!(o->flags & ZR_MM_TRANS_B) };
	for (int64_t i = 0; i < o->m * o->n; i++) {
		want[i] = t->start[i] + (o->bias ? get(o->bias, o->b.dtype, i % o->n) : 0);
		size[i] = fabs(want[i]) + 1e-3;
	}
	add_product(want, size, mnk, 1, &a, &b);
}

static void verify(const struct mm *t, const double *sums, const double *sizes, const char *isa)
{
	const struct zr_op_matmul *o = &t->op;
	int64_t i, j;
	for (i = 0; i < o->m; i++) {
		for (j = 0; j < o->n; j++) {
			double size = sizes[i * o->n + j], want = sums[i * o->n + j];
			double got = get(o->d.data, o->d.dtype, i * o->ldd + j);
			int ok = 1;
			if (o->flags & ZR_MM_GELU) {
				ok = product_close(get(o->pre, o->d.dtype, i * o->ldd + j), want,
						   size, o->k, o->d.dtype);
				want = product_gelu(want, o->activation);
				size *= 1.2;
			}
			if (!ok || !product_close(got, want, size, o->k, o->d.dtype))
				fail_msg("%s m %lld n %lld k %lld flags %x types %d %d %d: (%lld, "
					 "%lld) is %.9g, not %.9g",
					 isa, (long long)o->m, (long long)o->n, (long long)o->k,
					 o->flags, o->a.dtype, o->b.dtype, o->d.dtype, (long long)i,
					 (long long)j, got, want);
		}
		for (j = o->n; j < o->ldd && o->flags & ZR_MM_GELU; j++)
			assert_true(isnan(get(o->pre, o->d.dtype, i * o->ldd + j)));
		for (j = o->n; j < o->ldd; j++)
			assert_true(isnan(get(o->d.data, o->d.dtype, i * o->ldd + j)));
	}
	assert_true(buf_guarded(&t->d) && buf_guarded(&t->pre));
}

/* One product in every instruction set. */
static void one(const int64_t *shape, uint32_t flags, int32_t a, int32_t b, int32_t out, int bias)
{
	struct mm t = mm_new(shape, flags, a, b, out, bias);
	const struct buf d = buf_copy(&t.d), pre = buf_copy(&t.pre);
	const size_t bytes = (size_t)d.n * width_of(out), n = (size_t)(t.op.m * t.op.n);
	double *want = malloc(2 * n * sizeof *want);
	assert_non_null(want);
	in_double(&t, want, want + n);
	/* every form of GELU on some type of result */
	t.op.activation = flags & ZR_MM_GELU ? (a + out) % 3 + 1 : 0;
	if (t.op.activation == ZR_ACT_SILU)
		t.op.activation = 0;
	for (int i = 0; i < DEV_VARIANTS; i++) {
		if (!has_variant[i])
			continue;
		memcpy(t.d.p, d.p, bytes);
		memcpy(t.pre.p, pre.p, bytes);
		assert_int_equal(variant[i].ops->matmul(variant[i].ops, NULL, &t.op), ZR_OK);
		verify(&t, want, want + n, dev_isas[i]);
	}
	free(want);
	free(d.room);
	free(pre.room);
	mm_free(&t);
}

/* ---- tests ---- */

static void any_shape_and_transpose_is_the_product_in_double(void **state)
{
	static const uint32_t trans[] = { 0, ZR_MM_TRANS_A, ZR_MM_TRANS_B,
					  ZR_MM_TRANS_A | ZR_MM_TRANS_B };
	size_t s, i;
	(void)state;
	for (s = 0; s < N_SHAPES; s++)
		for (i = 0; i < 4; i++) {
			if (sanitized() && i != s % 4)
				continue;
			one(shapes[s], trans[i], ZR_F32, ZR_F32, ZR_F32, 0);
			one(shapes[s], trans[i] | ZR_MM_ACCUMULATE, ZR_F32, ZR_F32, ZR_F32, 0);
		}
}

static void every_mix_of_types_bias_and_gelu_is_right(void **state)
{
	static const int64_t shape[] = { 21, 70, 270 };
	static const int32_t type[] = { ZR_F32, ZR_BF16, ZR_F16 };
	int i;
	(void)state;
	for (i = 0; i < 27 * 4; i += sanitized() ? 7 : 1) {
		uint32_t trans = (i & 1 ? ZR_MM_TRANS_A : 0) | (i & 2 ? ZR_MM_TRANS_B : 0);
		int32_t a = type[i / 4 % 3], b = type[i / 12 % 3], out = type[i / 36];
		one(shape, trans, a, b, out, 0);
		one(shape, trans, a, b, out, 1);
		one(shape, trans | ZR_MM_GELU, a, b, out, 1);
		if (out == ZR_F32)
			one(shape, trans | ZR_MM_ACCUMULATE, a, b, out, 0);
	}
}

static void grids_of_tiles_and_split_sums_are_right(void **state)
{
	static const int64_t many[] = { 300, 1700, 40 }, deep[] = { 40, 60, 9000 };
	/* rows that share sets of the caches */
	static const int64_t apart[] = { 40, 60, 512 - GAP };
	(void)state;
	one(many, ZR_MM_GELU, ZR_F32, ZR_F32, ZR_BF16, 1);
	one(many, ZR_MM_TRANS_B, ZR_BF16, ZR_BF16, ZR_F32, 0);
	one(deep, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_BF16, ZR_BF16, ZR_F32, 0);
	one(deep, ZR_MM_GELU, ZR_F32, ZR_BF16, ZR_BF16, 1);
	one(many, ZR_MM_TRANS_A | ZR_MM_GELU, ZR_F16, ZR_F16, ZR_F16, 1);
	one(deep, ZR_MM_TRANS_B, ZR_F16, ZR_F16, ZR_F16, 1);
	one(deep, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_F32, ZR_F16, ZR_F32, 0);
	one(apart, 0, ZR_F32, ZR_F32, ZR_F32, 0);
}

/* One NaN in A spoils its row, one in B its column, and no other element. */
static void nan_stays(const struct dev *d, const char *isa)
{
	static const int64_t shape[] = { 19, 53, 37 };
	struct mm t = mm_new(shape, ZR_MM_TRANS_B, ZR_F32, ZR_F32, ZR_F32, 0);
	int64_t i, j;
	put(t.a.p, ZR_F32, 17 * t.op.lda + 5, NAN);
	put(t.b.p, ZR_F32, 52 * t.op.ldb + 36, NAN);
	assert_int_equal(d->ops->matmul(d->ops, NULL, &t.op), ZR_OK);
	for (i = 0; i < shape[0]; i++)
		for (j = 0; j < shape[1]; j++)
			if (isnan(get(t.d.p, ZR_F32, i * t.op.ldd + j)) != (i == 17 || j == 52))
				fail_msg("%s: (%d, %d)", isa, (int)i, (int)j);
	mm_free(&t);
}

static void a_nan_spoils_its_row_and_column_only(void **state)
{
	(void)state;
	on_every_variant(nan_stays);
}

/* Ties between two bf16 values: 1 + 2^-8 is half way from 1 to 1 + 2^-7. Of fp16 and what its range
 * ends at. */
static void ties(const struct dev *d, const char *isa)
{
	static const struct {
		int32_t dtype;
		double x, rounded;
	} tie[] = { { ZR_BF16, 1 + 0x1p-8, 1 + 0x1p-7 },
		    { ZR_BF16, 1 + 0x3p-8, 1 + 0x1p-6 },
		    { ZR_BF16, -1 - 0x1p-8, -1 - 0x1p-7 },
		    { ZR_BF16, 1 + 0x1.fep-9, 1 },
		    { ZR_BF16, 0x1.ffp+3, 16 },
		    { ZR_BF16, -0x1p-133, -0x1p-133 },
		    { ZR_F16, 1 + 0x1p-11, 1 },
		    { ZR_F16, -1 - 0x3p-11, -1 - 0x1p-9 },
		    { ZR_F16, 65519, 65504 },
		    { ZR_F16, -65520, -INFINITY },
		    { ZR_F16, 0x1p-24, 0x1p-24 },
		    { ZR_F16, 0x1p-25, 0 } };
	size_t i;
	for (i = 0; i < sizeof tie / sizeof *tie; i++) {
		float a = (float)tie[i].x, one_ = 1;
		uint16_t out[2] = { 0 };
		struct zr_op_matmul op = { .size = sizeof op,
					   .m = 1,
					   .n = 1,
					   .k = 1,
					   .lda = 1,
					   .ldb = 1,
					   .ldd = 1,
					   .a = zr_array_at(ZR_F32, &a),
					   .b = zr_array_at(ZR_F32, &one_),
					   .d = zr_array_at(tie[i].dtype, out) };
		assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_OK);
		if (get(out, tie[i].dtype, 0) != tie[i].rounded)
			fail_msg("%s: %a became %a", isa, tie[i].x, get(out, tie[i].dtype, 0));
	}
}

static void results_of_16_bits_round_as_their_type_does(void **state)
{
	(void)state;
	on_every_variant(ties);
}

static void an_empty_sum_is_zero_or_the_bias(void **state)
{
	static const int64_t no_k[] = { 3, 5, 0 };
	(void)state;
	one(no_k, 0, ZR_F32, ZR_F32, ZR_F32, 0);
	one(no_k, ZR_MM_ACCUMULATE, ZR_F32, ZR_F32, ZR_F32, 0);
	one(no_k, 0, ZR_F32, ZR_F32, ZR_BF16, 1);
}

/* I1: the bits of a product do not depend on the number of workers. */
static void i1(const struct dev *unused, const char *isa)
{
	static const int64_t big[][3] = {
		{ 256, 300, 768 }, { 70, 2000, 64 },  { 130, 128, 5000 },
		{ 16, 64, 20000 }, { 255, 300, 300 },
	};
	static const uint32_t flags[] = { 0,
					  ZR_MM_TRANS_B | ZR_MM_GELU,
					  ZR_MM_TRANS_A | ZR_MM_ACCUMULATE,
					  ZR_MM_TRANS_A,
					  ZR_MM_TRANS_B,
					  ZR_MM_TRANS_A | ZR_MM_ACCUMULATE };
	static const int32_t in[] = { ZR_F32, ZR_F32, ZR_F16, ZR_F32, ZR_BF16, ZR_BF16 };
	static const int32_t out[] = { ZR_F32, ZR_BF16, ZR_F32, ZR_BF16, ZR_BF16, ZR_F32 };
	struct buf first[5][6] = { 0 };
	int workers, s, f;
	(void)unused;
	for (workers = 1; workers <= 3; workers++) {
		struct dev d;
		assert_int_equal(dev_open(&d, workers, isa), ZR_OK);
		for (s = 0; s < 5; s++)
			for (f = 0; f < 6; f++) {
				if (sanitized() && (s + f) % 3)
					continue;
				const int bias = !(flags[f] & ZR_MM_ACCUMULATE);
				struct mm t = mm_new(big[s], flags[f], in[f], in[f], out[f], bias);
				assert_int_equal(d.ops->matmul(d.ops, NULL, &t.op), ZR_OK);
				if (workers == 1)
					first[s][f] = buf_copy(&t.d);
				else if (!buf_same(&first[s][f], &t.d))
					fail_msg("%s: shape %d flags %x differ with %d workers",
						 isa, s, flags[f], workers);
				mm_free(&t);
			}
		dev_close(&d);
	}
	for (s = 0; s < 5; s++)
		for (f = 0; f < 6; f++)
			buf_free(&first[s][f]);
}

static void I1_bits_do_not_depend_on_the_number_of_workers(void **state)
{
	(void)state;
	on_every_variant(i1);
}

/* Row i of the product t, computed alone: a product of one row, which goes its own way. */
static void row_alone(const struct dev *d, const char *isa, const struct mm *t, int64_t i)
{
	struct mm row = *t;
	const int64_t n = t->op.n, at = t->op.flags & ZR_MM_TRANS_A ? i : i * t->op.lda;
	const size_t bytes = zr_bytes_of(t->op.d.dtype, n);
	struct buf out = buf_new(n, t->op.d.dtype, 1);
	for (int64_t j = 0; j < n && t->op.flags & ZR_MM_ACCUMULATE; j++)
		put(out.p, ZR_F32, j, t->start[i * n + j]);
	row.op.m = 1;
	row.op.a = zr_array_from(&t->op.a, at);
	row.op.d.data = out.p;
	row.op.pre = NULL;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &row.op), ZR_OK);
	if (memcmp(out.p, zr_array_from(&t->op.d, i * t->op.ldd).data, bytes))
		fail_msg("%s: row %d of [%d, %d, %d] flags %x differs alone", isa, (int)i,
			 (int)t->op.m, (int)n, (int)t->op.k, t->op.flags);
	buf_free(&out);
}

static void rows_alone(const struct dev *d, const char *isa)
{
	static const int64_t shape[][3] = { { 3, 1, 1 },    { 2, 33, 3 },    { 5, 17, 31 },
					    { 4, 97, 193 }, { 3, 371, 257 }, { 2, 130, 772 },
					    { 3, 16, 4499 } };
	static const int32_t type[] = { ZR_F32, ZR_BF16, ZR_F16 };
	static const uint32_t more[] = { 0, ZR_MM_GELU, ZR_MM_ACCUMULATE };
	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
		for (uint32_t f = sanitized() ? s % 3 : 0; f < 12; f += sanitized() ? 3 : 1) {
			const uint32_t flags = more[f % 3] | ZR_MM_EACH_ROW |
					       (f & 4 ? ZR_MM_TRANS_B : 0) |
					       (f == 11 ? ZR_MM_TRANS_A : 0);
			const int32_t in = type[(f + s) % 3];
			const int32_t out = f % 3 == 2 ? ZR_F32 : type[f / 4];
			struct mm t = mm_new(shape[s], flags, in, in, out, f % 3 != 2);
			assert_int_equal(d->ops->matmul(d->ops, NULL, &t.op), ZR_OK);
			for (int64_t i = 0; i < t.op.m; i++)
				row_alone(d, isa, &t, i);
			mm_free(&t);
		}
}

static void I1_a_row_alone_has_the_bits_that_it_has_among_others(void **state)
{
	(void)state;
	on_every_variant(rows_alone);
}

static void what_cannot_be_is_refused_with_a_text(void **state)
{
	static const int64_t shape[] = { 4, 4, 4 };
	struct dev d;
	struct mm t = mm_new(shape, ZR_MM_ACCUMULATE, ZR_F32, ZR_F32, ZR_F32, 1);
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), ZR_OK);
	assert_int_equal(d.ops->matmul(d.ops, NULL, &t.op), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "without bias"));
	t.op.flags = 0;
	t.op.b.dtype = ZR_F64;
	assert_int_equal(d.ops->matmul(d.ops, NULL, &t.op), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "none of fp32, bf16 and fp16"));
	assert_int_equal(test_errors(d.h), 2);
	mm_free(&t);
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_shape_and_transpose_is_the_product_in_double),
		cmocka_unit_test(every_mix_of_types_bias_and_gelu_is_right),
		cmocka_unit_test(grids_of_tiles_and_split_sums_are_right),
		cmocka_unit_test(a_nan_spoils_its_row_and_column_only),
		cmocka_unit_test(results_of_16_bits_round_as_their_type_does),
		cmocka_unit_test(an_empty_sum_is_zero_or_the_bias),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_number_of_workers),
		cmocka_unit_test(I1_a_row_alone_has_the_bits_that_it_has_among_others),
		cmocka_unit_test(what_cannot_be_is_refused_with_a_text),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_variants, close_variants);
}
