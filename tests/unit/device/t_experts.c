/* SPDX-License-Identifier: Apache-2.0
 *
 * t_experts.c - a mixture of experts, from the logits to all gradients, on device/cpu with every
 * instruction set: against transformers (golden/make_experts.py), against sums in double, and bit
 * for bit where the header promises bits.
 */
#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "mixture.h"

static void on_every_variant(void (*fn)(const struct dev *, const char *))
{
	int ran = 0;
	for (int i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		if (!dev_open_variant(&d, 2, i)) {
			fn(&d, dev_isas[i]);
			ran++;
		}
		dev_close(&d);
	}
	assert_true(ran >= 1);
}

/* ---- transformers ---- */

static void golden(const char *variant, const char *block, const char *part, const float *got,
		   int64_t n)
{
	const char *src = getenv("srcdir");
	char path[4096], name[64], word[64];
	long long count;
	double want;
	int found = 0;
	snprintf(path, sizeof path, "%s/tests/golden/experts.txt", src ? src : ".");
	snprintf(name, sizeof name, "%s.%s", block, part);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (!found && fscanf(f, "%63s %lld", word, &count) == 2) {
		found = !strcmp(word, name);
		if (found)
			assert_int_equal(count, n);
		for (int64_t i = 0; i < count; i++) {
			assert_int_equal(fscanf(f, "%lf", &want), 1);
			if (found && !(fabs((double)got[i] - want) <= 2e-6 * (1 + fabs(want))))
				fail_msg("%s: %s[%lld] is %.9g, not %.9g", variant, name,
					 (long long)i, (double)got[i], want);
		}
	}
	assert_true(found);
	fclose(f);
}

static void blocks(const struct dev *d, const char *variant)
{
	static const char *const name[] = { "mixtral", "olmoe", "qwen3" };
	for (int i = 0; i < 3; i++) {
		struct mix m = mix_new(9, 5, 2, 8, 6, ZR_F32);
		m.flags = i == 1 ? 0 : ZR_ROUTE_NORMALISE;
		score(d, &m);
		forward(d, &m);
		backward(d, &m);
		float losses[2] = { (float)m.losses[0], (float)m.losses[1] };
		golden(variant, name[i], "losses", losses, 2);
		golden(variant, name[i], "out", F(m.out), m.out.n);
		golden(variant, name[i], "dx", F(m.dx), m.dx.n);
		golden(variant, name[i], "dgate", F(m.dgate), m.dgate.n);
		golden(variant, name[i], "dw_gate", F(m.dwg), m.dwg.n);
		golden(variant, name[i], "dw_up", F(m.dwu), m.dwu.n);
		golden(variant, name[i], "dw_down", F(m.dwd), m.dwd.n);
		mix_free(&m);
	}
}

static void blocks_are_those_of_transformers(void **state)
{
	(void)state;
	on_every_variant(blocks);
}

/* ---- routing ---- */

/* ids are the largest, lowest first among equals; the sorting is a stable one. */
static void check_routing(const struct mix *m)
{
	const int32_t *ids = I(m->ids), *order = I(m->order), *offsets = I(m->offsets);
	assert_int_equal(offsets[0], 0);
	assert_int_equal(offsets[m->experts], m->rows * m->k);
	for (int64_t e = 0; e < m->experts; e++)
		for (int32_t s = offsets[e]; s < offsets[e + 1]; s++) {
			assert_int_equal(ids[order[s]], e);
			assert_true(s == offsets[e] || order[s] > order[s - 1]);
			assert_int_equal(I(m->where)[order[s]], s);
		}
	for (int64_t r = 0; r < m->rows; r++)
		for (int64_t j = 0; j < m->k; j++)
			for (int64_t i = 0; i < j; i++)
				assert_true(ids[r * m->k + i] != ids[r * m->k + j]);
}

static void ties(const struct dev *d, const char *variant)
{
	struct mix m = mix_new(4, 6, 3, 1, 1, ZR_F32);
	static const float logits[4][6] = { { 2, 2, 2, 2, 2, 2 },
					    { 0, 1, 0, 1, 0, 0 },
					    { -1e9f, -1e9f, 5, -1e9f, -1e9f, -1e9f },
					    { 1, NAN, 3, 2, NAN, -INFINITY } };
	static const int32_t want[4][3] = { { 0, 1, 2 }, { 1, 3, 0 }, { 2, 0, 1 }, { 2, 3, 0 } };
	(void)variant;
	for (int normalise = 0; normalise < 2; normalise++) {
		m.flags = normalise ? ZR_ROUTE_NORMALISE : 0;
		memcpy(m.logits.p, logits, sizeof logits);
		route(d, &m);
		check_routing(&m);
		assert_memory_equal(m.ids.p, want, 3 * sizeof *want);
		for (int j = 0; j < 3; j++)
			assert_true(fabs((double)F(m.weights)[j] -
					 (normalise ? 1 / 3.0 : 1 / 6.0)) < 1e-7);
		assert_true(F(m.weights)[6] == 1 && F(m.weights)[7] == 0);
		assert_true(isnan(F(m.lse)[3]) && isnan(F(m.weights)[9]));
	}
	mix_free(&m);
}

static void ties_go_to_the_lowest_and_not_a_number_stays(void **state)
{
	(void)state;
	on_every_variant(ties);
}

/* ---- sums in double ---- */

static double at(const struct buf *b, int64_t i)
{
	return get(b->p, b->dtype, i);
}

static void near(const char *variant, const char *what, const struct mix *m, double got,
		 double want, double size)
{
	double step = m->dtype == ZR_F32 ? 0x1p-20 : m->dtype == ZR_BF16 ? 0x1p-6 : 0x1p-9;
	if (!(fabs(got - want) <= step * (size + 1e-2)))
		fail_msg("%s: type %d, %lld rows, %lld of %lld experts, width %lld: %s is %.9g, "
			 "not %.9g (of %.9g)",
			 variant, m->dtype, (long long)m->rows, (long long)m->k,
			 (long long)m->experts, (long long)m->width, what, got, want, size);
}

/* Each product of the forward and each gradient of a weight, from the operands as they were
 * stored. */
static void check_products(const char *variant, const struct mix *m)
{
	for (int64_t e = 0; e < m->experts; e++) {
		int32_t lo = I(m->offsets)[e], hi = I(m->offsets)[e + 1];
		for (int64_t f = 0; f < m->ffn; f++) {
			for (int32_t s = lo; s < hi; s++) {
				double sum = 0, size = 0;
				for (int64_t c = 0; c < m->width; c++) {
					double x = at(&m->xs, s * m->width + c) *
						   at(&m->wg, (e * m->ffn + f) * m->width + c);
					sum += x;
					size += fabs(x);
				}
				near(variant, "a number of hg", m, at(&m->hg, s * m->ffn + f), sum,
				     size);
			}
		}
		for (int64_t i = 0; i < m->ffn * m->width; i++) {
			double sum = 0, size = 0;
			for (int32_t s = lo; s < hi; s++) {
				double x = at(&m->dys, s * m->width + i / m->ffn) *
					   at(&m->act, s * m->ffn + i % m->ffn);
				sum += x;
				size += fabs(x);
			}
			if (lo == hi)
				assert_true(F(m->dwd)[e * m->ffn * m->width + i] == 0);
			near(variant, "dwd", m, (double)F(m->dwd)[e * m->ffn * m->width + i], sum,
			     size);
		}
	}
}

static void check_combined(const char *variant, const struct mix *m)
{
	for (int64_t i = 0; i < m->rows * m->width; i++) {
		int64_t r = i / m->width, c = i % m->width;
		double sum = 0, size = 0;
		for (int64_t j = r * m->k; j < (r + 1) * m->k; j++) {
			double x =
				(double)F(m->weights)[j] * at(&m->y, I(m->where)[j] * m->width + c);
			sum += x;
			size += fabs(x);
			assert_true(at(&m->xs, I(m->where)[j] * m->width + c) == at(&m->x, i));
		}
		near(variant, "out", m, at(&m->out, i), sum, size);
	}
}

/* logits such that experts are chosen by `which`: 0: as the router says, 1: always the same ones,
 * 2: only the last ones */
static void choose(struct mix *m, int which)
{
	for (int64_t i = 0; which && i < m->rows * m->experts; i++)
		F(m->logits)[i] = (float)(which == 1 ? -(i % m->experts) : i % m->experts) / 4;
}

static void shapes(const struct dev *d, const char *variant)
{
	static const struct {
		int64_t rows, experts, k, width, ffn;
	} shape[] = { { 1, 1, 1, 1, 1 },     { 1, 7, 3, 5, 2 },     { 33, 4, 4, 17, 9 },
		      { 300, 3, 1, 21, 50 }, { 70, 16, 2, 48, 33 }, { 13, 256, 8, 7, 3 },
		      { 2, 256, 256, 3, 4 }, { 41, 6, 2, 64, 400 } };
	static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };
	for (size_t i = 0; i < 3 * 3 * sizeof shape / sizeof *shape; i++) {
		const int s = (int)(i / 9);
		struct mix m = mix_new(shape[s].rows, shape[s].experts, shape[s].k, shape[s].width,
				       shape[s].ffn, types[i % 3]);
		score(d, &m);
		choose(&m, (int)(i / 3 % 3));
		forward(d, &m);
		check_routing(&m);
		check_combined(variant, &m);
		struct buf hg = buf_copy(&m.hg);
		backward(d, &m);
		/* where its gradient went */
		memcpy(m.hg.p, hg.p, (size_t)hg.n * width_of(hg.dtype));
		check_products(variant, &m);
		buf_free(&hg);
		mix_free(&m);
	}
}

static void any_shape_and_crowd_is_right(void **state)
{
	(void)state;
	on_every_variant(shapes);
}

/* ---- the same bits ---- */

static void run_all(const struct dev *d, struct mix *m)
{
	score(d, m);
	forward(d, m);
	backward(d, m);
}

static void workers(const struct dev *unused, const char *variant)
{
	struct mix first = { 0 };
	(void)unused;
	for (int n = 1; n <= 3; n++) {
		struct dev d;
		assert_int_equal(dev_open(&d, n, variant), ZR_OK);
		struct mix m = mix_new(700, 6, 2, 40, 30, ZR_BF16);
		run_all(&d, &m);
		if (n == 1) {
			first = m;
		} else {
			const struct buf *a = &first.x, *b = &m.x;
			for (; a <= &first.where; a++, b++)
				assert_true(buf_same(a, b));
			assert_memory_equal(first.losses, m.losses, sizeof m.losses);
			mix_free(&m);
		}
		dev_close(&d);
	}
	mix_free(&first);
}

static void I1_bits_do_not_depend_on_the_number_of_workers(void **state)
{
	(void)state;
	on_every_variant(workers);
}

static void alone(const struct dev *d, const char *variant)
{
	enum { ROWS = 300, WIDTH = 700 }; /* K is cut in blocks */
	struct mix m = mix_new(ROWS, 3, 2, WIDTH, 65, ZR_F32);
	(void)variant;
	score(d, &m);
	struct buf logits = buf_copy(&m.logits);
	forward(d, &m);
	for (int64_t r = 0; r < ROWS; r += 37) {
		struct mix one = mix_new(1, 3, 2, WIDTH, 65, ZR_F32);
		memcpy(one.x.p, F(m.x) + r * WIDTH, WIDTH * sizeof(float));
		memcpy(one.logits.p, F(logits) + r * 3, 3 * sizeof(float));
		for (int i = 0; i < 3; i++) {
			struct buf *to = i == 0 ? &one.wg : i == 1 ? &one.wu : &one.wd;
			const struct buf *from = i == 0 ? &m.wg : i == 1 ? &m.wu : &m.wd;
			memcpy(to->p, from->p, (size_t)to->n * sizeof(float));
		}
		forward(d, &one);
		assert_memory_equal(one.out.p, F(m.out) + r * WIDTH, WIDTH * sizeof(float));
		mix_free(&one);
	}
	buf_free(&logits);
	mix_free(&m);
}

static void a_token_gets_what_it_gets_alone(void **state)
{
	(void)state;
	on_every_variant(alone);
}

/* dw of some of the tokens, those of whole chunks, the places of the others left out. */
static void gradient_of(const struct dev *d, const struct mix *m, int64_t lo, int64_t hi,
			uint32_t flags, struct buf *dw)
{
	struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
					      .flags = flags,
					      .dtype = m->dtype,
					      .experts = m->experts,
					      .m = m->ffn,
					      .n = m->width,
					      .k = m->k };
	struct buf order = buf_new(m->order.n, ZR_F32, 0),
		   offsets = buf_new(m->experts + 1, ZR_F32, 0);
	struct buf dy = buf_new(m->hg.n, m->dtype, 0), x = buf_new(m->xs.n, m->dtype, 0);
	size_t size = width_of(m->dtype);
	int32_t n = 0;
	for (int64_t e = 0; e < m->experts; e++) {
		I(offsets)[e] = n;
		for (int32_t s = I(m->offsets)[e]; s < I(m->offsets)[e + 1]; s++) {
			int64_t token = I(m->order)[s] / m->k;
			if (token < lo || token >= hi)
				continue;
			I(order)[n] = I(m->order)[s];
			memcpy(dy.p + (size_t)(n * m->ffn) * size,
			       m->hg.p + (size_t)(s * m->ffn) * size, (size_t)m->ffn * size);
			memcpy(x.p + (size_t)(n * m->width) * size,
			       m->xs.p + (size_t)(s * m->width) * size, (size_t)m->width * size);
			n++;
		}
		op.dw[e] = F(*dw) + e * m->ffn * m->width;
	}
	I(offsets)[m->experts] = n;
	op.rows = n;
	op.offsets = I(offsets);
	op.order = I(order);
	op.dy = dy.p;
	op.x = x.p;
	done(d, d->ops->matmul_grouped_dw(d->ops, NULL, &op));
	buf_free(&order);
	buf_free(&offsets);
	buf_free(&dy);
	buf_free(&x);
}

/* Two chunks and a bit: at once, chunk by chunk onto what is there, and each alone from zero and
 * then added. Expert 2 has tokens of the second chunk only, expert 3 none. */
static void chunks(const struct dev *d, const char *variant)
{
	enum { C = ZR_EXPERT_CHUNK, ROWS = 2 * C + 5 };
	struct mix m = mix_new(ROWS, 4, 1, 9, 5, ZR_F32);
	struct buf added = buf_new(m.dwg.n, ZR_F32, 0), sum = buf_new(m.dwg.n, ZR_F32, 0),
		   part = buf_new(m.dwg.n, ZR_F32, 0);
	(void)variant;
	for (int64_t r = 0; r < ROWS; r++)
		for (int64_t e = 0; e < 4; e++)
			F(m.logits)
	[r * 4 + e] = (float)(e == (r / C == 1 && r % 3 == 0 ? 2 : r % 2));
	forward(d, &m);
	gradient(d, &m, m.ffn, m.width, &m.hg, &m.xs, &m.dwg);
	for (int64_t lo = 0; lo < ROWS; lo += C) {
		gradient_of(d, &m, lo, lo + C, lo ? ZR_OP_ACCUMULATE : 0, &added);
		gradient_of(d, &m, lo, lo + C, 0, lo ? &part : &sum);
		for (int64_t i = 0; lo && i < sum.n; i++)
			F(sum)[i] += F(part)[i];
	}
	assert_memory_equal(m.dwg.p, added.p, (size_t)added.n * sizeof(float));
	/* 0 is added where nothing is: all but the sign of a zero stays */
	for (int64_t i = 0; i < sum.n; i++)
		assert_true(F(sum)[i] == F(m.dwg)[i]);
	assert_true(F(m.dwg)[3 * m.ffn * m.width] == 0 && F(m.dwg)[2 * m.ffn * m.width] != 0);
	buf_free(&added);
	buf_free(&sum);
	buf_free(&part);
	mix_free(&m);
}

static void gradients_are_folded_by_chunks_of_tokens(void **state)
{
	(void)state;
	on_every_variant(chunks);
}

/* ---- refusals ---- */

static void what_cannot_be_is_refused_with_a_text(void **state)
{
	struct dev d;
	struct zr_op_route op = { .size = sizeof op, .rows = 1, .experts = 4, .k = 5 };
	struct zr_op_matmul_grouped mm = { .size = sizeof mm,
					   .flags = ZR_MM_ACCUMULATE,
					   .a.dtype = ZR_F32,
					   .b_dtype = ZR_F32,
					   .d.dtype = ZR_BF16,
					   .rows = 1,
					   .experts = 1,
					   .n = 1,
					   .k = 1 };
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), ZR_OK);
	assert_int_equal(d.ops->route(d.ops, NULL, &op), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "route: 5 of 4 experts cannot be chosen"));
	op.experts = 257;
	assert_int_equal(d.ops->route(d.ops, NULL, &op), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "257 experts are not 1 to 256"));
	op.experts = op.k = 256;
	op.rows = 1 << 23;
	assert_int_equal(d.ops->route(d.ops, NULL, &op), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "2147483648 places are more than"));
	assert_int_equal(d.ops->matmul_grouped(d.ops, NULL, &mm), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "only an fp32 result can be added to"));
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_those_of_transformers),
		cmocka_unit_test(ties_go_to_the_lowest_and_not_a_number_stays),
		cmocka_unit_test(any_shape_and_crowd_is_right),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_number_of_workers),
		cmocka_unit_test(a_token_gets_what_it_gets_alone),
		cmocka_unit_test(gradients_are_folded_by_chunks_of_tokens),
		cmocka_unit_test(what_cannot_be_is_refused_with_a_text),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
