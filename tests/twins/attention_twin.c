/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_twin.c - attention in pairs as attention_pairs.h says, one element at a time.
 */
#include <float.h>

#include "tests/twins/attention_twin.h"
#include "tests/twins/twins.h"

/* ---- arithmetic ------------------------------------------------------------------ */

static float power_of_2(float x)
{
	float whole = rintf(x), r = x - whole, q = fmaf(ZR_EXP2_4, r, ZR_EXP2_3);
	if (whole < -1000)
		return 0;
	q = fmaf(q, r, ZR_EXP2_2);
	q = fmaf(q, r, ZR_EXP2_1);
	return ldexpf(fmaf(q, r, 1), (int)whole);
}

static float dot(const struct head *x, const uint16_t *a, const uint16_t *b)
{
	float sum = 0;
	for (int64_t d = 0; d < x->o->head_dim; d += 2) {
		int two = d + 1 < x->o->head_dim;
		const uint16_t y[2] = { a[d], two ? a[d + 1] : 0 };
		const uint16_t z[2] = { b[d], two ? b[d + 1] : 0 };
		sum = zr_pair_sum(sum, y, z);
	}
	return sum;
}

/* acc += a pair of factors times a pair of rows */
static void add_rows(const struct head *x, float *acc, const uint16_t f[2], const uint16_t *first,
		     const uint16_t *second)
{
	for (int64_t d = 0; d < x->o->head_dim; d++) {
		const uint16_t y[2] = { first ? first[d] : 0, second ? second[d] : 0 };
		acc[d] = zr_pair_sum(acc[d], f, y);
	}
}

static float score(const struct head *x, int64_t i, int64_t j)
{
	const struct zr_op_attention *o = x->o;
	float s = dot(x, k_row(x, j), q_row(x, i));
	return o->softcap > 0 ? o->softcap * zr_tanhf(s * (o->scale / o->softcap)) : s;
}

/* ---- forward --------------------------------------------------------------------- */

static void forward_row(const struct head *x, int64_t i, float *acc)
{
	const struct zr_op_attention *o = x->o;
	const uint16_t ones[2] = { rounded(1), rounded(1) };
	int64_t start = document(x, i), D = o->head_dim,
		place = out_row(x, o->out, i) - (const uint16_t *)o->out;
	float max = -INFINITY, sum = 0, c = unit(o) * ZR_EXP_LOG2E;

	memset(acc, 0, (size_t)D * sizeof *acc);
	for (int64_t k = start; k <= i; k += ZR_PAIRS_TILE) {
		float old = max, least, shrink;
		for (int64_t j = k; j < k + ZR_PAIRS_TILE; j++)
			if (attends(x, i, j))
				max = fmaxf(max, score(x, i, j));
		least = fmaxf(ZR_PAIRS_LEAST, max);
		shrink = power_of_2((fmaxf(old, -FLT_MAX) - least) * c);
		sum *= shrink;
		for (int64_t d = 0; d < D; d++)
			acc[d] *= shrink;
		for (int64_t j = k; j < k + ZR_PAIRS_TILE; j += 2) {
			uint16_t p[2] = { 0, 0 }, mp[2] = { 0, 0 };
			for (int64_t n = 0; n < 2; n++)
				if (attends(x, i, j + n)) {
					float e = power_of_2((score(x, i, j + n) - least) * c);
					p[n] = rounded(e);
					mp[n] = rounded(e * keep(x, i, j + n));
				}
			sum = zr_pair_sum(sum, p, ones);
			add_rows(x, acc, mp, v_row(x, j), v_row(x, j + 1));
		}
	}
	for (int64_t d = 0; d < D; d++)
		zr_put(o->out, place + d, ZR_BF16, fmaf(acc[d], 1 / sum, 0));
	o->lse[statistic(x, i)] = max * unit(o) + zr_ln(sum);
}

void zr_attention_twin(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	twin_forward(o, lo, hi, scratch, forward_row);
}

/* ---- backward -------------------------------------------------------------------- */

/* [m_ij P] and [dS], 0 where the query does not attend */
static void grad(const struct head *x, int64_t i, int64_t j, uint16_t *mp, uint16_t *ds)
{
	const struct zr_op_attention *o = x->o;
	float s, p, m, y;

	*mp = *ds = 0;
	if (!attends(x, i, j))
		return;
	s = score(x, i, j);
	p = power_of_2(fminf(0, s * unit(o) - o->lse[statistic(x, i)]) * ZR_EXP_LOG2E);
	m = keep(x, i, j);
	y = gradient_of_score(x, i, s, p, m * dot(x, v_row(x, j), out_row(x, x->dout, i)));
	*mp = rounded(p * m);
	*ds = rounded(y);
}

static void backward_query(const struct head *x, const void *dq, int64_t i, float *acc)
{
	const struct zr_op_attention *o = x->o;
	int64_t place = q_row(x, i) - (const uint16_t *)o->q;

	memset(acc, 0, (size_t)o->head_dim * sizeof *acc);
	for (int64_t j = document(x, i); j <= i; j += 2) {
		uint16_t mp[2], ds[2];
		for (int64_t n = 0; n < 2; n++)
			grad(x, i, j + n, mp + n, ds + n);
		add_rows(x, acc, ds, k_row(x, j), k_row(x, j + 1));
	}
	for (int64_t d = 0; d < o->head_dim; d++)
		zr_put((void *)(uintptr_t)dq, place + d, ZR_BF16, acc[d] * o->scale);
}

/* Adds to dk = sum[0, D) and dv = sum[D, 2D) of key j. */
static void backward_key(const struct head *x, int64_t j, float *sum)
{
	int64_t i = document(x, j) + (j - document(x, j)) / 2 * 2;

	for (; i < x->o->length && document(x, i) <= j; i += 2) {
		uint16_t mp[2], ds[2];
		for (int64_t n = 0; n < 2; n++)
			grad(x, i + n, j, mp + n, ds + n);
		add_rows(x, sum, ds, q_row(x, i), q_row(x, i + 1));
		add_rows(x, sum + x->o->head_dim, mp, out_row(x, x->dout, i),
			 out_row(x, x->dout, i + 1));
	}
}

void zr_attention_bwd_twin(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			   int64_t hi, void *scratch, float *delta, float *sums)
{
	twin_backward(op, parts, lo, hi, scratch, delta, sums, backward_query, backward_key);
}
