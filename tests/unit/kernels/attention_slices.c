/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_slices.c - see attention_slices.h.
 */
#include "attention_slices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/scalar.h"

/* ---- parts of problems ---- */

/* Columns [from, from + n) of row r of x become those of row s of p. */
static void take(const struct problem *x, void *to, int64_t r, const struct problem *p,
		 const void *of, int64_t s, int64_t stride, int64_t from, int64_t n)
{
	memcpy((char *)to + (size_t)(r * stride + from) * x->elem,
	       (const char *)of + (size_t)(s * stride + from) * p->elem, (size_t)n * x->elem);
}

/* Queries [first, length) of p and keys [0, length). Rows that no operation may read are NaN. */
static struct problem slice_of(const struct problem *p, int64_t first, int64_t length)
{
	const int64_t shape[5] = { p->B, length, p->H, p->G, p->D }, n = length - first;
	const int64_t q = p->H * p->D, kv = 2 * p->G * p->D;
	struct problem x = make(shape, p->dtype, 1, 1);

	memset(x.qkv, 0xff, (size_t)x.n_in * x.elem);
	memset(x.dout, 0xff, (size_t)x.n_out * x.elem);
	for (int64_t b = 0; b < p->B; b++)
		for (int64_t t = 0; t < length; t++) {
			const int64_t r = b * n + t - first, s = b * p->T + t;
			take(&x, x.qkv, b * length + t, p, p->qkv, s, p->in_stride, q, kv);
			if (t < first)
				continue;
			take(&x, x.qkv, r, p, p->qkv, s, p->in_stride, 0, q);
			take(&x, x.dout, r, p, p->dout, s, p->out_stride, 0, q);
		}

	give_options(&x, &(struct options){ .dropout = p->op.fwd.dropout,
					    .documents = p->starts != NULL,
					    .window = p->op.fwd.window,
					    .softcap = p->op.fwd.softcap });
	x.parts = p->parts;
	x.op.fwd.first = (int32_t)first;
	x.op.fwd.drop_rows = p->T;
	return x;
}

/* Place for key_sums, and elements behind that belong to nobody. */
static float *room_for_sums(const struct problem *p)
{
	const size_t n = (size_t)(2 * p->B * p->T * p->G * p->D + attention_pad);
	float *sums = malloc(n * p->real);
	assert_non_null(sums);
	memset(sums, 0xff, n * p->real);
	return sums;
}

static double sum_at(const struct problem *p, const float *sums, int64_t i)
{
	return p->real == 8 ? ((const double *)(const void *)sums)[i] : (double)sums[i];
}

float *key_sums(const struct variant *v, struct problem *p)
{
	float *sums = room_for_sums(p);
	const int64_t n = 2 * p->B * p->T * p->G * p->D;
	void *dk = p->op.dk, *dv = p->op.dv;

	p->op.fwd.key_sums = sums;
	p->op.dk = p->op.dv = NULL;
	backward(v, p, 0);
	p->op.fwd.key_sums = NULL;
	p->op.dk = dk;
	p->op.dv = dv;
	for (int64_t i = 0; i < n; i++)
		if (isnan(sum_at(p, sums, i)))
			fail_msg("%s: element %d of key_sums is not stored", v->name, (int)i);
	for (int64_t i = n; i < n + attention_pad; i++)
		assert_true(isnan(sum_at(p, sums, i)));
	return sums;
}

/* ---- comparisons ---- */

/* n elements are the same bits, or zeros. */
static void same_elements(const struct problem *x, const void *xb, int64_t i,
			  const struct problem *y, const void *yb, int64_t j, int64_t n,
			  const char *what)
{
	for (int64_t d = 0; d < n; d++) {
		const size_t a = (size_t)(i + d) * x->elem, b = (size_t)(j + d) * y->elem;
		const double zero = get(x, xb, i + d), other = get(y, yb, j + d);
		if (zero == 0 && other == 0)
			continue;
		if (memcmp((const char *)xb + a, (const char *)yb + b, x->elem))
			fail_msg("%s: %.9g is not %.9g (T %d of %d from %d, dim %d dtype %d)", what,
				 zero, other, (int)x->T, (int)y->T, x->op.fwd.first, (int)x->D,
				 (int)x->dtype);
	}
}

static void same_queries(const struct problem *x, const struct problem *p, const char *dqkv)
{
	const int64_t first = x->op.fwd.first, n = x->T - first;

	for (int64_t b = 0; b < p->B; b++)
		for (int64_t i = 0; i < n; i++) {
			const int64_t r = b * n + i, s = b * p->T + first + i;
			same_elements(x, x->out, r * x->out_stride, p, p->out, s * p->out_stride,
				      p->H * p->D, "out");
			same_elements(x, x->dqkv, r * x->in_stride, p, dqkv, s * p->in_stride,
				      p->H * p->D, "dq");
			for (int64_t h = b * p->H; h < (b + 1) * p->H; h++)
				assert_true(get_lse(x, h * n + i) ==
					    get_lse(p, h * p->T + first + i));
		}
}

/* How far a stored element may be from what it was rounded from, at most. */
static double rounding(const struct problem *p, double x)
{
	if (p->dtype == ZR_BF16)
		return fabs(x) * 0x1p-8;
	if (p->dtype == ZR_F16)
		return fabs(x) * 0x1p-11 + 0x1p-25;
	return 0;
}

/* dk and dv of p are its sums, rounded. */
static void sums_are_gradients(const struct problem *p, const float *sums, const char *name)
{
	const int64_t width = p->G * p->D;

	for (int64_t r = 0; r < p->B * p->T; r++)
		for (int64_t i = 0; i < 2 * width; i++) {
			const double x = sum_at(p, sums, 2 * r * width + i),
				     y = get(p, p->dqkv, r * p->in_stride + p->H * p->D + i);
			if (!(fabs(x - y) <= rounding(p, x)))
				fail_msg("%s: %.9g in key_sums, %.9g in dk or dv", name, x, y);
		}
}

/* Adds a slice's sums to those of all tokens. */
static void add_sums(double *all, const struct problem *p, const struct problem *x,
		     const float *sums)
{
	const int64_t row = 2 * p->G * p->D;

	for (int64_t b = 0; b < p->B; b++)
		for (int64_t i = 0; i < x->T * row; i++)
			all[b * p->T * row + i] += sum_at(x, sums, b * x->T * row + i);
}

static void close_sums(const struct variant *v, const struct problem *p, const double *all,
		       const float *sums)
{
	struct distance d[2] = { { 0, 0 }, { 0, 0 } };
	const int64_t width = p->G * p->D;

	for (int64_t i = 0; i < 2 * p->B * p->T * width; i++)
		measure(&d[i / width % 2], all[i], sum_at(p, sums, i));
	assert_close(&d[0], 2e-6, p, v->name, "the sum of slices' dk");
	assert_close(&d[1], 2e-6, p, v->name, "the sum of slices' dv");
}

/* ---- slices ---- */

void assert_slices(const struct variant *v, struct problem *p, const int64_t *ends, int n)
{
	const size_t tokens = (size_t)(p->B * p->T), bytes = (size_t)p->n_in * p->elem;
	double *all = calloc(tokens * (size_t)(2 * p->G * p->D), sizeof *all);
	char *dqkv = malloc(bytes);
	assert_true(all && dqkv && ends[n - 1] == p->T);

	both(v, p);
	memcpy(dqkv, p->dqkv, bytes);
	float *sums = key_sums(v, p);
	memcpy(p->dqkv, dqkv, bytes);
	sums_are_gradients(p, sums, v->name);

	for (int k = 0; k < n; k++) {
		struct problem x = slice_of(p, k ? ends[k - 1] : 0, ends[k]);
		forward(v, &x, 0);
		float *part = key_sums(v, &x);
		same_queries(&x, p, dqkv);
		add_sums(all, p, &x, part);
		backward(v, &x, 0);
		same_queries(&x, p, dqkv);
		sums_are_gradients(&x, part, v->name);
		free(part);
		drop(&x);
	}

	close_sums(v, p, all, sums);
	free(sums);
	free(dqkv);
	free(all);
}

void assert_slices_anywhere(const struct variant *v, struct problem *p)
{
	const int64_t T = p->T, wanted[] = { 1, T / 5, T / 3, T / 2 + 1, T - 1, T };
	int64_t ends[6];
	int n = 0;

	for (int i = 0; i < 6; i++)
		if (wanted[i] > (n ? ends[n - 1] : 0))
			ends[n++] = wanted[i];
	assert_slices(v, p, ends, n);
}

/* ---- heads ---- */

void assert_heads_alone(const struct variant *v, struct problem *p)
{
	const int64_t share = p->H / p->G, D = p->D;
	const int64_t from[3] = { 0, p->H * D, (p->H + p->G) * D };

	both(v, p);
	for (int64_t g = 0; g < p->G; g++) {
		const int64_t shape[5] = { p->B, p->T, share, 1, D }, q = share * D, h0 = g * share;
		const int64_t at[3] = { h0 * D, from[1] + g * D, from[2] + g * D };
		struct problem x = make(shape, p->dtype, 1, 1);
		x.parts = p->parts;
		give_options(&x, &(struct options){ .dropout = p->op.fwd.dropout,
						    .documents = p->starts != NULL,
						    .window = p->op.fwd.window,
						    .softcap = p->op.fwd.softcap });
		x.op.fwd.first_head = (int32_t)h0;
		x.op.fwd.all_heads = (int32_t)p->H;
		for (int64_t r = 0; r < p->B * p->T; r++) {
			const int64_t to = r * x.in_stride, of = r * p->in_stride;
			for (int64_t i = 0; i < q; i++) {
				put(&x, x.qkv, to + i, get(p, p->qkv, of + at[0] + i));
				put(&x, x.dout, r * x.out_stride + i,
				    get(p, p->dout, r * p->out_stride + at[0] + i));
			}
			for (int64_t i = 0; i < 2 * D; i++)
				put(&x, x.qkv, to + q + i,
				    get(p, p->qkv, of + at[1 + i / D] + i % D));
		}
		both(v, &x);
		for (int64_t r = 0; r < p->B * p->T; r++) {
			const int64_t mine = r * x.in_stride, of = r * p->in_stride;
			same_elements(&x, x.out, r * x.out_stride, p, p->out,
				      r * p->out_stride + at[0], q, "out");
			same_elements(&x, x.dqkv, mine, p, p->dqkv, of + at[0], q, "dq");
			same_elements(&x, x.dqkv, mine + q, p, p->dqkv, of + at[1], D, "dk");
			same_elements(&x, x.dqkv, mine + q + D, p, p->dqkv, of + at[2], D, "dv");
		}
		drop(&x);
	}
}
