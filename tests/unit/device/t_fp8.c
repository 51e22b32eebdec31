/* SPDX-License-Identifier: Apache-2.0
 *
 * t_fp8.c - matrix products in 8 bits (ZR_MM_FP8): the bits of a product in bf16 of operands that
 * the test rounded itself, for every instruction set, over shapes, transposes, types and epilogues;
 * an operand that stays from the call before; a row, and a column, by itself; a low-rank update;
 * what is refused; and that no more work is touched than matmul_work() says.
 */
#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define GAP 3 /* elements between the rows of operands, NaN */

static const int64_t shapes[][3] = {
	{ 1, 1, 1 }, { 3, 17, 31 }, { 16, 64, 48 }, { 33, 50, 257 }, { 70, 129, 130 },
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* rows x cols numbers of many sizes, with NaN in the gaps. */
static struct buf matrix(int64_t rows, int64_t cols, uint64_t seed)
{
	struct buf m = buf_new(rows * (cols + GAP), ZR_BF16, (int)(seed & 1));
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++)
			put(m.p, ZR_BF16, i * (cols + GAP) + j,
			    ldexp(rnd(&seed), -(int)((i * 5 + j * 3) % 11)));
	return m;
}

static const struct format {
	int bits, normal, power; /* of the mantissa; least normal exponent; highest power of two */
	double most;
} e4m3 = { 3, -6, 117, 448 }, e5m2 = { 2, -14, 110, 57344 };

/* By the definition: n elements, `step` apart, that share the largest power of two by which all
 * stay within the format; each to the nearest of its numbers. */
static void round_line(void *p, int64_t n, int64_t step, const struct format *f)
{
	double largest = 0;
	int power = f->power;

	for (int64_t i = 0; i < n; i++)
		largest = fmax(largest, fabs(get(p, ZR_BF16, i * step)));
	while (ldexp(largest, power) > f->most)
		power--;
	for (int64_t i = 0; i < n; i++) {
		const double x = ldexp(get(p, ZR_BF16, i * step), power);
		int exponent;
		frexp(x, &exponent);
		exponent--;
		if (exponent < f->normal || x == 0)
			exponent = f->normal;
		put(p, ZR_BF16, i * step,
		    ldexp(rint(ldexp(x, f->bits - exponent)), exponent - f->bits - power));
	}
}

/* ---- a product, and what it should be -------------------------------------------- */

struct product {
	struct zr_op_matmul op; /* in 8 bits */
	struct buf a, b, bias, d, pre, work;
	struct zr_op_matmul plain; /* of rounded operands, in bf16 */
	struct buf plain_a, plain_b, plain_d, plain_pre;
};

static struct product product_new(const struct dev *d, const int64_t *shape, uint32_t flags,
				  int32_t type, int with_bias)
{
	const int64_t m = shape[0], n = shape[1], k = shape[2];
	const int rows_of_b = (flags & ZR_MM_TRANS_B) != 0;
	struct product t = { .op = { .size = sizeof t.op,
				     .flags = flags | ZR_MM_FP8,
				     .m = m,
				     .n = n,
				     .k = k,
				     .lda = k + GAP,
				     .ldb = (rows_of_b ? k : n) + GAP,
				     .ldd = n } };
	t.a = matrix(m, k, 5);
	t.b = matrix(rows_of_b ? n : k, rows_of_b ? k : n, 8);
	t.bias = buf_random(n, ZR_BF16, 7, 1);
	t.d = buf_random(m * n, type, 9, 1);
	t.pre = buf_new(m * n, type, 0);
	t.plain_a = buf_copy(&t.a);
	t.plain_b = buf_copy(&t.b);
	t.plain_d = buf_copy(&t.d);
	t.plain_pre = buf_copy(&t.pre);

	t.op.a = zr_array_at(ZR_BF16, t.a.p);
	t.op.b = zr_array_at(ZR_BF16, t.b.p);
	t.op.d = zr_array_at(type, t.d.p);
	t.op.bias = with_bias ? t.bias.p : NULL;
	t.op.pre = flags & ZR_MM_GELU ? t.pre.p : NULL;
	t.work = buf_new((int64_t)d->ops->matmul_work(d->ops, &t.op) / 4, ZR_F32, 0);
	t.op.work = t.work.p;

	for (int64_t i = 0; i < m; i++)
		round_line(t.plain_a.p + i * t.op.lda * 2, k, 1,
			   flags & ZR_MM_E5M2_A ? &e5m2 : &e4m3);
	for (int64_t j = 0; j < n; j++)
		round_line(t.plain_b.p + j * (rows_of_b ? t.op.ldb : 1) * 2, k,
			   rows_of_b ? 1 : t.op.ldb, &e4m3);
	t.plain = t.op;
	t.plain.flags = flags & ~(ZR_MM_E5M2_A | ZR_MM_SAME_A);
	t.plain.a.data = t.plain_a.p;
	t.plain.b.data = t.plain_b.p;
	t.plain.d.data = t.plain_d.p;
	t.plain.pre = t.op.pre ? t.plain_pre.p : NULL;
	t.plain.work = NULL;
	return t;
}

static void product_free(struct product *t)
{
	buf_free(&t->a);
	buf_free(&t->b);
	buf_free(&t->bias);
	buf_free(&t->d);
	buf_free(&t->pre);
	buf_free(&t->work);
	buf_free(&t->plain_a);
	buf_free(&t->plain_b);
	buf_free(&t->plain_d);
	buf_free(&t->plain_pre);
}

/* What D may differ by from that of the product in bf16: nothing on a CPU. Tensor cores add
 * products of codes with fewer bits than fp32 has, in another order; so what is added counts. */
static double allowed(const struct product *t, int64_t i)
{
	const struct zr_op_matmul *o = &t->plain;
	const int64_t row = i / o->n, column = i % o->n;
	const int rows_of_b = (o->flags & ZR_MM_TRANS_B) != 0;
	double size = 0;
	if (dev_is_cpu())
		return 0;

	for (int64_t k = 0; k < o->k; k++)
		size += fabs(get(o->a.data, ZR_BF16, row * o->lda + k) *
			     get(o->b.data, ZR_BF16,
				 rows_of_b ? column * o->ldb + k : k * o->ldb + column));
	return size * 0x1p-10 + fabs(get(o->d.data, o->d.dtype, i)) * 0x1p-7;
}

static void same(const struct product *t, const char *what)
{
	const struct zr_op_matmul *o = &t->op;
	if (!buf_guarded(&t->work) || !buf_guarded(&t->d) || !buf_guarded(&t->pre))
		fail_msg("%s: written outside", what);
	for (int64_t i = 0; i < o->m * o->n; i++)
		if (!(fabs(get(o->d.data, o->d.dtype, i) - get(t->plain.d.data, o->d.dtype, i)) <=
		      allowed(t, i)))
			fail_msg("%s, %lld x %lld x %lld, flags %u: element %lld is %a, not %a",
				 what, (long long)o->m, (long long)o->n, (long long)o->k, o->flags,
				 (long long)i, get(o->d.data, o->d.dtype, i),
				 get(t->plain.d.data, o->d.dtype, i));
	if (o->pre && dev_is_cpu())
		assert_memory_equal(t->pre.p, t->plain_pre.p, zr_bytes_of(o->d.dtype, o->m * o->n));
}

static int has_8_bits(const struct dev *d)
{
	return ZR_HAS(d->ops, struct zr_ops, matmul_work) && d->ops->matmul_work;
}

/* ---- tests ----------------------------------------------------------------------- */

static void on_every_variant(void (*try)(const struct dev *))
{
	struct dev d;
	int tried = 0;
	for (int i = 0; i < DEV_VARIANTS; i++) {
		if (!dev_open_variant(&d, 3, i) && has_8_bits(&d)) {
			try(&d);
			tried++;
		}
		dev_close(&d);
	}
	if (dev_is_cpu())
		assert_true(tried > 0);
	else if (!tried)
		skip();
}

static const struct {
	uint32_t flags;
	int32_t type;
	int bias;
} kinds[] = {
	{ 0, ZR_BF16, 0 },
	{ ZR_MM_TRANS_B, ZR_BF16, 1 },
	{ ZR_MM_GELU, ZR_BF16, 1 },
	{ ZR_MM_TRANS_B | ZR_MM_GELU, ZR_BF16, 0 },
	{ ZR_MM_ACCUMULATE, ZR_F32, 0 },
	{ ZR_MM_TRANS_B | ZR_MM_ACCUMULATE | ZR_MM_E5M2_A, ZR_F32, 0 },
	{ ZR_MM_E5M2_A, ZR_F32, 1 },
	{ ZR_MM_EACH_ROW | ZR_MM_TRANS_B, ZR_BF16, 1 },
};

static void each_kind(const struct dev *d)
{
	for (size_t s = 0; s < N_SHAPES; s++)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
			struct product t = product_new(d, shapes[s], kinds[i].flags, kinds[i].type,
						       kinds[i].bias);
			assert_int_equal(d->ops->matmul(d->ops, NULL, &t.op), ZR_OK);
			assert_int_equal(d->ops->matmul(d->ops, NULL, &t.plain), ZR_OK);
			same(&t, "a product");
			product_free(&t);
		}
}

static void it_multiplies_rounded_operands(void **state)
{
	(void)state;
	on_every_variant(each_kind);
}

/* The second of two products has another B, and finds A in work as the first one left it: what a
 * points to is read no more. */
static void keep_a(const struct dev *d)
{
	const int64_t first[] = { 33, 96, 130 }, second[] = { 33, 50, 130 };
	struct product t = product_new(d, first, ZR_MM_TRANS_B | ZR_MM_E5M2_A, ZR_BF16, 0);
	struct product u =
		product_new(d, second, ZR_MM_TRANS_B | ZR_MM_E5M2_A | ZR_MM_SAME_A, ZR_BF16, 0);
	u.op.work = t.op.work;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &t.op), ZR_OK);
	memset(u.a.p, 0x7f, zr_bytes_of(ZR_BF16, 33 * u.op.lda));
	assert_int_equal(d->ops->matmul(d->ops, NULL, &u.op), ZR_OK);
	assert_int_equal(d->ops->matmul(d->ops, NULL, &u.plain), ZR_OK);
	same(&u, "a product with the same A");
	product_free(&t);
	product_free(&u);
}

static void a_stays_for_the_next_product(void **state)
{
	(void)state;
	on_every_variant(keep_a);
}

/* Rows of A and columns of B by themselves have the bits that they have among others. */
static void cut(const struct dev *d)
{
	const int64_t shape[] = { 12, 40, 96 };
	const uint32_t flags = ZR_MM_TRANS_B | ZR_MM_EACH_ROW;
	struct product whole = product_new(d, shape, flags, ZR_BF16, 1);
	struct product part = product_new(d, shape, flags, ZR_BF16, 1);
	assert_int_equal(d->ops->matmul(d->ops, NULL, &whole.op), ZR_OK);

	for (int64_t i = 0; i < shape[0]; i++)
		for (int64_t j = 0; j < shape[1]; j += 8) {
			struct zr_op_matmul op = part.op;
			op.m = 1;
			op.n = 8;
			op.a = zr_array_from(&op.a, i * op.lda);
			op.b = zr_array_from(&op.b, j * op.ldb);
			op.d = zr_array_from(&op.d, i * op.ldd + j);
			op.bias = (const char *)op.bias + j * 2;
			assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_OK);
		}
	assert_memory_equal(whole.d.p, part.d.p, zr_bytes_of(ZR_BF16, shape[0] * shape[1]));
	product_free(&whole);
	product_free(&part);
}

static void a_row_depends_on_itself_alone(void **state)
{
	(void)state;
	if (!dev_is_cpu())
		skip();
	on_every_variant(cut);
}

static void update(const struct dev *d)
{
	const int64_t shape[] = { 20, 33, 64 }, r = 5;
	struct product t = product_new(d, shape, ZR_MM_TRANS_B, ZR_BF16, 1);
	struct buf u = buf_random(shape[0] * r, ZR_BF16, 3, 1);
	struct buf v = buf_random(shape[1] * r, ZR_BF16, 4, 1);
	struct zr_op_matmul_low_rank low = { .size = sizeof low,
					     .flags = ZR_LR_TRANS_V,
					     .r = r,
					     .gain = 0.5f,
					     .u = u.p,
					     .v = v.p,
					     .product = t.op };
	assert_int_equal(d->ops->matmul_low_rank(d->ops, NULL, &low), ZR_OK);
	low.product = t.plain;
	assert_int_equal(d->ops->matmul_low_rank(d->ops, NULL, &low), ZR_OK);
	same(&t, "with a low-rank update");
	buf_free(&u);
	buf_free(&v);
	product_free(&t);
}

static void updates_are_not_rounded(void **state)
{
	(void)state;
	on_every_variant(update);
}

/* A row that is not finite becomes NaN as a whole, so that nothing hides it; others stay. */
static void spoil(const struct dev *d)
{
	const int64_t shape[] = { 4, 6, 32 };
	struct product t = product_new(d, shape, 0, ZR_F32, 0);
	put(t.a.p, ZR_BF16, t.op.lda + 3, (double)INFINITY);
	put(t.b.p, ZR_BF16, 2 * t.op.ldb + 5, (double)NAN);
	assert_int_equal(d->ops->matmul(d->ops, NULL, &t.op), ZR_OK);
	for (int64_t i = 0; i < 4; i++)
		for (int64_t j = 0; j < 6; j++)
			assert_int_equal(isnan(get(t.d.p, ZR_F32, i * 6 + j)), i == 1 || j == 5);
	product_free(&t);
}

static void what_is_not_finite_stays_seen(void **state)
{
	(void)state;
	on_every_variant(spoil);
}

static void refuse(const struct dev *d)
{
	const int64_t shape[] = { 16, 16, 16 };
	struct product t = product_new(d, shape, 0, ZR_BF16, 0);
	struct zr_op_matmul op = t.op;
	op.flags |= ZR_MM_TRANS_A;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_ENOTSUP);
	op = t.op;
	op.a.dtype = ZR_F16;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_ENOTSUP);
	op = t.op;
	op.work = NULL;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_EINVAL);
	op = t.op;
	op.flags = ZR_MM_SAME_A;
	assert_int_equal(d->ops->matmul(d->ops, NULL, &op), ZR_EINVAL);
	op.flags = 0;
	assert_int_equal(d->ops->matmul_work(d->ops, &op), 0);
	product_free(&t);
}

static void what_it_cannot_is_refused(void **state)
{
	(void)state;
	on_every_variant(refuse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_multiplies_rounded_operands),
		cmocka_unit_test(a_stays_for_the_next_product),
		cmocka_unit_test(a_row_depends_on_itself_alone),
		cmocka_unit_test(updates_are_not_rounded),
		cmocka_unit_test(what_is_not_finite_stays_seen),
		cmocka_unit_test(what_it_cannot_is_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
