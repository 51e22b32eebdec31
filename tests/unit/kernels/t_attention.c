/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention.c - causal attention and its gradients: against PyTorch (golden/make_attention.py),
 * finite differences, and every vector variant against the scalar oracle.
 */
#include "attention_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/scalar.h"

/* ---- PyTorch ---- */

static FILE *open_golden(void)
{
	const char *srcdir = getenv("srcdir");
	char path[1024];
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/golden/attention.txt", srcdir ? srcdir : ".");
	f = fopen(path, "r");
	if (!f)
		fail_msg("cannot open %s", path);
	return f;
}

/* Reads an array of the file and compares: `tokens` says whether base is a tensor or lse. */
static void check_golden(FILE *f, const char *what, const struct problem *p, const char *base,
			 int64_t stride, int64_t first, int64_t width, const char *variant)
{
	struct distance d = { 0, 0 };
	char name[16];
	long count;

	assert_int_equal(fscanf(f, "%15s %ld", name, &count), 2);
	assert_string_equal(name, what);
	assert_int_equal(count, base ? p->B * p->T * width : p->n_lse);
	for (int64_t i = 0; i < count; i++) {
		double y;
		assert_int_equal(fscanf(f, "%lf", &y), 1);
		measure(&d,
			base ? get(p, base, i / width * stride + first + i % width) : get_lse(p, i),
			y);
	}
	assert_close(&d, p->dtype == ZR_F64 ? 1e-7 : 2e-6, p, variant, what);
}

/* The next case, drawn from `seed`, with the options that its line names; 0: there is none. */
static int next_case(FILE *f, int32_t dtype, uint64_t seed, struct problem *p)
{
	int64_t shape[5];
	char line[128], name[16];
	double value;
	int n;

	if (fscanf(f, " case %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &shape[0],
		   &shape[1], &shape[2], &shape[3], &shape[4]) != 5)
		return 0;
	*p = make(shape, dtype, seed, 1);
	assert_non_null(fgets(line, sizeof line, f));
	for (const char *at = line; sscanf(at, "%15s %lf%n", name, &value, &n) == 2; at += n)
		if (!strcmp(name, "window"))
			p->op.fwd.window = (int64_t)value;
		else if (!strcmp(name, "softcap"))
			p->op.fwd.softcap = (float)value;
		else if (!strcmp(name, "documents"))
			give_documents(p);
		else
			fail_msg("the golden file has an unknown option %s", name);
	return 1;
}

static void golden(const struct variant *v, int32_t dtype)
{
	FILE *f = open_golden();
	struct problem p;
	uint64_t seed = 1;

	for (; next_case(f, dtype, seed, &p); seed++) {
		int64_t q = p.H * p.D, k = p.G * p.D;
		both(v, &p);
		check_golden(f, "out", &p, p.out, p.out_stride, 0, q, v->name);
		check_golden(f, "lse", &p, NULL, 0, 0, 0, v->name);
		check_golden(f, "dq", &p, p.dqkv, p.in_stride, 0, q, v->name);
		check_golden(f, "dk", &p, p.dqkv, p.in_stride, q, k, v->name);
		check_golden(f, "dv", &p, p.dqkv, p.in_stride, q + k, k, v->name);
		drop(&p);
	}
	assert_int_equal(seed, 14);
	fclose(f);
}

static void agrees_with_pytorch(void **state)
{
	(void)state;
	golden(&oracle64, ZR_F64);
	for (int i = 0; i < n_variants; i++)
		golden(&variants[i], ZR_F32);
}

/* ---- finite differences ---- */

/* sum of dout * out */
static double objective(struct problem *p)
{
	double sum = 0;

	forward(&oracle64, p, 0);
	for (int64_t r = 0; r < p->B * p->T; r++)
		for (int64_t i = r * p->out_stride; i < r * p->out_stride + p->H * p->D; i++)
			sum += get(p, p->dout, i) * get(p, p->out, i);
	return sum;
}

static void differences(const struct options *options)
{
	static const int64_t shape[5] = { 2, 6, 4, 2, 3 };
	struct problem p = make(shape, ZR_F64, 11, 1);
	const double h = 1e-5;

	give_options(&p, options);
	both(&oracle64, &p);
	for (int64_t r = 0; r < p.B * p.T; r++)
		for (int64_t i = r * p.in_stride; i < r * p.in_stride + (p.H + 2 * p.G) * p.D;
		     i++) {
			double x = get(&p, p.qkv, i), up, down;
			put(&p, p.qkv, i, x + h);
			up = objective(&p);
			put(&p, p.qkv, i, x - h);
			down = objective(&p);
			put(&p, p.qkv, i, x);
			if (fabs((up - down) / (2 * h) - get(&p, p.dqkv, i)) > 1e-8)
				fail_msg("element %d: difference %.10g, gradient %.10g", (int)i,
					 (up - down) / (2 * h), get(&p, p.dqkv, i));
		}
	drop(&p);
}

static void gradients_are_finite_differences(void **state)
{
	(void)state;
	differences(&(struct options){ 0 });
	differences(&(struct options){ .window = 3 });
	differences(&(struct options){ .softcap = 0.75f });
	differences(&(struct options){ .documents = 1 });
	differences(&(struct options){ .documents = 1, .window = 2 });
}

static void gradients_are_finite_differences_under_dropout(void **state)
{
	(void)state;
	differences(&(struct options){ .dropout = 0.3f });
	differences(
		&(struct options){ .dropout = 0.3f, .documents = 1, .window = 3, .softcap = 0.5f });
}

/* ---- variants against the oracle ---- */

static void against_oracle(int32_t dtype, float dropout, double tolerance)
{
	assert_variants_agree(1, dtype, &(struct options){ .dropout = dropout }, tolerance);
}

static void variants_agree_in_fp32(void **state)
{
	(void)state;
	against_oracle(ZR_F32, 0, 2e-6);
}

static void variants_agree_when_heads_that_share_a_key_are_cut(void **state)
{
	(void)state;
	assert_variants_agree(2, ZR_F32, &(struct options){ .dropout = 0.25f }, 2e-6);
	assert_variants_agree(3, ZR_F32, &(struct options){ 0 }, 2e-6);
	assert_variants_agree(2, ZR_BF16, &(struct options){ 0 }, 4e-3);
}

static void variants_agree_in_fp32_under_dropout(void **state)
{
	(void)state;
	against_oracle(ZR_F32, 0.25f, 2e-6);
}

/* Results are rounded to 8 bits, an error of up to 2^-9 and 2^-9/sqrt(3) on average; delta takes
 * the rounded out. In pairs m P is rounded to 8 bits too. */
static void variants_agree_in_bf16(void **state)
{
	(void)state;
	against_oracle(ZR_BF16, 0, 4e-3);
	against_oracle(ZR_BF16, 0.25f, 6e-3);
}

/* The same with 11 bits. */
static void variants_agree_in_fp16(void **state)
{
	(void)state;
	against_oracle(ZR_F16, 0, 5e-4);
	against_oracle(ZR_F16, 0.25f, 5e-4);
}

static void variants_agree_on_documents(void **state)
{
	(void)state;
	assert_variants_agree(1, ZR_F32, &(struct options){ .dropout = 0.25f, .documents = 1 },
			      2e-6);
	assert_variants_agree(2, ZR_BF16, &(struct options){ .documents = 1 }, 4e-3);
}

static int in_pairs(const struct variant *v, int32_t dtype)
{
	return dtype == ZR_BF16 && !strcmp(v->name, "avx512bf16");
}

static void rounded_once(int32_t dtype)
{
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants && !in_pairs(&variants[v], dtype); v++) {
			struct problem p = make(attention_shapes[s], dtype, s, 1),
				       f = make(attention_shapes[s], ZR_F32, s, 1);
			for (int64_t i = 0; i < p.n_in; i++)
				put(&f, f.qkv, i, get(&p, p.qkv, i));
			forward(&variants[v], &p, 0);
			forward(&variants[v], &f, 0);
			for (int64_t r = 0; r < p.B * p.T; r++)
				for (int64_t i = r * p.out_stride; i < r * p.out_stride + p.H * p.D;
				     i++) {
					float x = ((float *)(void *)f.out)[i];
					assert_int_equal(((uint16_t *)(void *)p.out)[i],
							 dtype == ZR_BF16 ? zr_bf16(x) : zr_f16(x));
				}
			assert_memory_equal(p.lse, f.lse, (size_t)p.n_lse * p.real);
			drop(&p);
			drop(&f);
		}
}

static void a_forward_of_16_bits_is_fp32_rounded_once(void **state)
{
	(void)state;
	rounded_once(ZR_BF16);
	rounded_once(ZR_F16);
}

static void last_queries_have_the_bits_of_all(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++) {
			int64_t T = attention_shapes[s][1],
				firsts[] = { T - 1, T / 3, T > 30 ? 29 : 0 };
			struct problem p =
				make(attention_shapes[s], s % 3 == 2 ? ZR_BF16 : ZR_F32, s, 1);
			if (s % 4 == 3)
				give_documents(&p);
			if (s % 2)
				p.op.fwd.window = 1 + T / 4;
			p.op.fwd.softcap = s % 5 ? 0 : 2;
			for (int i = 0; i < 3; i++)
				assert_rows_alone(&variants[v], &p, firsts[i]);
			drop(&p);
		}
}

/* ---- properties ---- */

static void I1_bits_do_not_depend_on_the_cut(void **state)
{
	static const int64_t shape[5] = { 2, 70, 6, 3, 24 };
	(void)state;

	for (int v = 0; v < n_variants; v++)
		for (int64_t cut = 1; cut < 12; cut++) {
			struct problem a = make(shape, ZR_F32, 3, 1), b = make(shape, ZR_F32, 3, 1);
			a.op.fwd.dropout = b.op.fwd.dropout = 0.1f;
			a.parts = b.parts = 1 + cut % 2;
			a.op.fwd.window = b.op.fwd.window = cut % 3 * 16;
			a.op.fwd.softcap = b.op.fwd.softcap = cut % 4 ? 0 : 2;
			both(&variants[v], &a);
			forward(&variants[v], &b, cut);
			backward(&variants[v], &b, cut % (6 * b.parts));
			assert_memory_equal(a.out, b.out, (size_t)a.n_out * a.elem);
			assert_memory_equal(a.lse, b.lse, (size_t)a.n_lse * a.real);
			assert_memory_equal(a.dqkv, b.dqkv, (size_t)a.n_in * a.elem);
			drop(&a);
			drop(&b);
		}
}

static void future_tokens_change_no_bit_of_the_past(void **state)
{
	static const int64_t shape[5] = { 1, 150, 1, 1, 24 };
	(void)state;

	for (int v = 0; v < n_variants; v++)
		for (int64_t t = 1; t < 150; t += 37) {
			struct problem a = make(shape, ZR_F32, 3, 1), b = make(shape, ZR_F32, 3, 1);
			for (int64_t i = t * b.in_stride; i < b.n_in; i++)
				put(&b, b.qkv, i, 5 - get(&b, b.qkv, i));
			forward(&variants[v], &a, 0);
			forward(&variants[v], &b, 0);
			assert_memory_equal(a.out, b.out, (size_t)(t * a.out_stride) * a.elem);
			assert_memory_equal(a.lse, b.lse, (size_t)t * a.real);
			assert_memory_not_equal(a.out, b.out,
						(size_t)((t + 1) * a.out_stride) * a.elem);
			drop(&a);
			drop(&b);
		}
}

/* Tokens of base from one problem to another, a row of `stride` elements each. */
static void copy_tokens(char *to, const char *from, int64_t start, int64_t n, int64_t stride,
			size_t elem)
{
	memcpy(to, from + (size_t)(start * stride) * elem, (size_t)(n * stride) * elem);
}

/* Tokens [start, end) of a problem that was computed are one document. */
static void check_alone(const struct variant *v, const struct problem *p, int64_t b, int64_t start,
			int64_t end)
{
	int64_t shape[5] = { 1, end - start, p->H, p->G, p->D }, first = b * p->T + start;
	struct problem one = make(shape, p->dtype, 1, 1);

	one.parts = p->parts;
	one.op.fwd.window = p->op.fwd.window;
	one.op.fwd.softcap = p->op.fwd.softcap;
	copy_tokens(one.qkv, p->qkv, first, end - start, p->in_stride, p->elem);
	copy_tokens(one.dout, p->dout, first, end - start, p->out_stride, p->elem);
	both(v, &one);
	assert_memory_equal(one.out, p->out + (size_t)(first * p->out_stride) * p->elem,
			    (size_t)one.n_out * one.elem);
	assert_memory_equal(one.dqkv, p->dqkv + (size_t)(first * p->in_stride) * p->elem,
			    (size_t)one.n_in * one.elem);
	for (int64_t h = 0; h < p->H; h++)
		assert_memory_equal(one.lse + (size_t)(h * one.T) * one.real,
				    p->lse + (size_t)((b * p->H + h) * p->T + start) * p->real,
				    (size_t)one.T * one.real);
	drop(&one);
}

static void a_document_gets_the_bits_that_it_gets_alone(void **state)
{
	static const int64_t shape[5] = { 2, 300, 4, 2, 24 };
	(void)state;

	for (int v = 0; v < n_variants; v++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
			struct problem p = make(shape, dtype, 9, 1);
			p.parts = 1 + v % 2;
			p.op.fwd.window = dtype == ZR_F32 ? 0 : 40;
			p.op.fwd.softcap = dtype == ZR_F32 ? 0 : 2;
			give_documents(&p);
			both(&variants[v], &p);
			for (int64_t i = 0, end; i < p.B * p.T; i = end) {
				for (end = i + 1; end % p.T && p.starts[end] == p.starts[i];)
					end++;
				check_alone(&variants[v], &p, i / p.T, i % p.T,
					    (end - 1) % p.T + 1);
			}
			drop(&p);
		}
}

static void assert_finite(const struct problem *p, const char *base, int64_t n, int64_t stride,
			  int64_t width, double limit)
{
	for (int64_t i = 0; i < n; i++)
		if (i % stride < width && !(fabs(get(p, base, i)) <= limit))
			fail_msg("element %d is %g", (int)i, get(p, base, i));
}

/* Inputs of 1e5 make scores of 1e10, where an ulp is 1024 and exp(1024) infinite: P must not pass 1
 * even if lse is an ulp too small. */
static void large_scores_stay_finite(void **state)
{
	static const int64_t shape[5] = { 1, 150, 2, 1, 40 };
	(void)state;

	for (int v = 0; v < n_variants; v++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
			struct problem p = make(shape, dtype, 8, 1e5);
			float *lse = (float *)(void *)p.lse;
			both(&variants[v], &p);
			assert_finite(&p, p.out, p.n_out, p.out_stride, p.H * p.D, 1.01e5);
			assert_finite(&p, p.dqkv, p.n_in, p.in_stride, (p.H + 2 * p.G) * p.D, 1e20);
			for (int64_t i = 0; i < p.n_lse; i++)
				lse[i] = nextafterf(lse[i], -INFINITY);
			backward(&variants[v], &p, 0);
			assert_finite(&p, p.dqkv, p.n_in, p.in_stride, (p.H + 2 * p.G) * p.D, 1e20);
			drop(&p);
		}
}

static void a_nan_is_not_lost(void **state)
{
	static const int64_t shape[5] = { 1, 100, 1, 1, 24 };
	(void)state;

	for (int v = 0; v < n_variants; v++)
		for (int tensor = 0; tensor < 3; tensor++) {
			struct problem p = make(shape, ZR_F32, 8, 1);
			p.op.fwd.softcap = v % 2 ? 2 : 0;
			put(&p, p.qkv, 40 * p.in_stride + tensor * 24 + 23, NAN);
			both(&variants[v], &p);
			assert_true(isnan(get(&p, p.out, 40 * p.out_stride + 23)));
			assert_true(
				isnan(get(&p, p.dqkv, 40 * p.in_stride + (tensor == 1 ? 0 : 24))));
			drop(&p);
		}
}

static void scratch_does_not_grow_with_length(void **state)
{
	(void)state;
	for (int v = 0; v < n_variants; v++) {
		struct zr_op_attention o = {
			.length = 1, .heads = 1, .kv_heads = 1, .head_dim = 64
		};
		uint64_t small = variants[v].scratch(&o, 0), backward = variants[v].scratch(&o, 1);
		o.length = 1 << 20;
		o.batch = 64;
		assert_int_equal(variants[v].scratch(&o, 0), small);
		assert_int_equal(variants[v].scratch(&o, 1), backward);
	}
}

/* ---- dropout ---- */

/* With q = 0 and v_j the unit vector j, out_ij = m_ij / (i + 1). */
static void dropout_mask_is_that_of_the_stream(void **state)
{
	static const int64_t cases[][5] = { { 2, 37, 3, 3, 37 },
					    { 1, 96, 2, 2, 96 },
					    { 1, 130, 1, 1, 130 } };
	(void)state;

	for (int v = 0; v < n_variants * 3; v++) {
		struct problem p = make(cases[v % 3], ZR_F32, 1, 0);
		int64_t T = p.T, D = p.D;

		p.op.fwd.dropout = 0.4f;
		for (int64_t r = 0; r < p.B * T * p.H; r++)
			put(&p, p.qkv,
			    r / p.H * p.in_stride + (2 * p.H + r % p.H) * D + r / p.H % T, 1);
		forward(&variants[v / 3], &p, 0);
		for (int64_t n = 0; n < p.B * p.H * T * T; n++) {
			int64_t j = n % T, i = n / T % T, h = n / T / T % p.H, b = n / T / T / p.H;
			double x = get(&p, p.out, (b * T + i) * p.out_stride + h * D + j);
			int kept = zr_rng_word(&p.op.fwd.rng, (uint64_t)n) >= zr_drop_below(0.4f);
			if (fabs(x * (double)(i + 1) -
				 (j <= i && kept ? 1 / (1 - (double)0.4f) : 0)) > 1e-5)
				fail_msg("%s: b %d h %d i %d j %d: %g", variants[v / 3].name,
					 (int)b, (int)h, (int)i, (int)j, x);
		}
		drop(&p);
	}
}

static void dropout_preserves_the_mean(void **state)
{
	static const int64_t shape[5] = { 2, 128, 4, 4, 1 };
	(void)state;

	for (int v = 0; v < n_variants; v++) {
		struct problem p = make(shape, ZR_F32, 1, 1);
		double sum = 0;
		p.op.fwd.dropout = 0.5f;
		for (int64_t r = 0; r < p.B * p.T; r++)
			for (int64_t h = 0; h < p.H; h++)
				put(&p, p.qkv, r * p.in_stride + 2 * p.H + h, 1);
		forward(&variants[v], &p, 0);
		for (int64_t r = 0; r < p.B * p.T; r++)
			for (int64_t h = 0; h < p.H; h++)
				sum += get(&p, p.out, r * p.out_stride + h) /
				       (double)(p.B * p.T * p.H);
		assert_true(fabs(sum - 1) < 0.02); /* five standard deviations */
		drop(&p);
	}
}

static void no_dropout_ignores_the_generator(void **state)
{
	(void)state;
	for (int v = 0; v < n_variants; v++) {
		struct problem a = make(attention_shapes[6], ZR_F32, 1, 1),
			       b = make(attention_shapes[6], ZR_F32, 1, 1);
		b.op.fwd.rng = (struct zr_rng){ 0, 0, 0, 0 };
		both(&variants[v], &a);
		both(&variants[v], &b);
		assert_memory_equal(a.out, b.out, (size_t)a.n_out * a.elem);
		assert_memory_equal(a.dqkv, b.dqkv, (size_t)a.n_in * a.elem);
		drop(&a);
		drop(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_pytorch),
		cmocka_unit_test(gradients_are_finite_differences),
		cmocka_unit_test(gradients_are_finite_differences_under_dropout),
		cmocka_unit_test(variants_agree_in_fp32),
		cmocka_unit_test(variants_agree_in_fp32_under_dropout),
		cmocka_unit_test(variants_agree_when_heads_that_share_a_key_are_cut),
		cmocka_unit_test(variants_agree_on_documents),
		cmocka_unit_test(a_document_gets_the_bits_that_it_gets_alone),
		cmocka_unit_test(last_queries_have_the_bits_of_all),
		cmocka_unit_test(variants_agree_in_bf16),
		cmocka_unit_test(variants_agree_in_fp16),
		cmocka_unit_test(a_forward_of_16_bits_is_fp32_rounded_once),
		cmocka_unit_test(I1_bits_do_not_depend_on_the_cut),
		cmocka_unit_test(future_tokens_change_no_bit_of_the_past),
		cmocka_unit_test(large_scores_stay_finite),
		cmocka_unit_test(a_nan_is_not_lost),
		cmocka_unit_test(scratch_does_not_grow_with_length),
		cmocka_unit_test(dropout_mask_is_that_of_the_stream),
		cmocka_unit_test(dropout_preserves_the_mean),
		cmocka_unit_test(no_dropout_ignores_the_generator),
	};

	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
