/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_twin.c - attention in pairs as attention_pairs.h says, one element at a time.
 */
#include "attention_pairs.h"
#include "bf16_pairs.h"
#include "table.h"

#include <float.h>

/* One query head of one batch entry. Rows of tokens beyond the sequence are NULL. */
struct head {
	const struct zr_op_attention *o;
	const void *dout;
	const float *delta;
	int64_t b, h, g;
};

static const uint16_t *row(const struct head *x, const void *p, int64_t stride, int64_t apart,
			   int64_t t, int64_t h, int64_t first)
{
	const struct zr_op_attention *o = x->o;
	if (t >= o->length || t < first)
		return NULL;
	return (const uint16_t *)p + (x->b * o->length + t - (x->b + 1) * first) * stride +
	       h * (apart ? apart : o->head_dim);
}

static const uint16_t *q_row(const struct head *x, int64_t t)
{
	return row(x, x->o->q, x->o->q_stride, x->o->q_head, t, x->h, x->o->first);
}

static const uint16_t *k_row(const struct head *x, int64_t t)
{
	return row(x, x->o->k, x->o->k_stride, x->o->k_head, t, x->g, 0);
}

static const uint16_t *v_row(const struct head *x, int64_t t)
{
	return row(x, x->o->v, x->o->v_stride, x->o->v_head, t, x->g, 0);
}

static const uint16_t *out_row(const struct head *x, const void *p, int64_t t)
{
	return row(x, p, x->o->out_stride, 0, t, x->h, x->o->first);
}

static int64_t statistic(const struct head *x, int64_t t)
{
	const struct zr_op_attention *o = x->o;
	return (x->b * o->heads + x->h) * (o->length - o->first) + t - o->first;
}

static int64_t document(const struct head *x, int64_t t)
{
	return x->o->starts ? x->o->starts[x->b * x->o->length + t] : 0;
}

static int attends(const struct head *x, int64_t i, int64_t j)
{
	return i < x->o->length && j <= i && document(x, i) <= j &&
	       (!x->o->window || i - j < x->o->window);
}

/* ---- arithmetic ------------------------------------------------------------------ */

/* [x] */
static uint16_t rounded(float x)
{
	uint32_t u = zr_bits(zr_no_denormal(x));
	return zr_bf16_with(x == x ? zr_from_bits(u) : x, 0x7fff + (u >> 16 & 1));
}

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

/* of S */
static float unit(const struct zr_op_attention *o)
{
	return o->softcap > 0 ? 1 : o->scale;
}

static float score(const struct head *x, int64_t i, int64_t j)
{
	const struct zr_op_attention *o = x->o;
	float s = dot(x, k_row(x, j), q_row(x, i));
	return o->softcap > 0 ? o->softcap * zr_tanhf(s * (o->scale / o->softcap)) : s;
}

/* m_ij */
static float keep(const struct head *x, int64_t i, int64_t j)
{
	const struct zr_op_attention *o = x->o;
	uint64_t T = (uint64_t)o->length,
		 e = ((uint64_t)(x->b * o->heads + x->h) * T + (uint64_t)i) * T + (uint64_t)j;

	if (o->dropout <= 0)
		return 1;
	return zr_rng_word(&o->rng, e) >= zr_drop_below(o->dropout) ? zr_drop_scale(o->dropout) : 0;
}

/* ---- forward --------------------------------------------------------------------- */

static void forward_row(const struct head *x, int64_t i, float *acc)
{
	const struct zr_op_attention *o = x->o;
	const uint16_t ones[2] = { rounded(1), rounded(1) };
	int64_t start = document(x, i), D = o->head_dim, place = out_row(x, o->out, i) -
								(const uint16_t *)o->out;
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

static struct head head_of(const struct zr_op_attention *o, int64_t b, int64_t h)
{
	return (struct head){ .o = o, .b = b, .h = h, .g = h / (o->heads / o->kv_heads) };
}

void zr_attention_twin(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	for (int64_t n = lo; n < hi; n++) {
		struct head x = head_of(o, n / o->heads, n % o->heads);
		for (int64_t i = o->first; i < o->length; i++)
			forward_row(&x, i, scratch);
	}
}

/* ---- backward -------------------------------------------------------------------- */

static float delta_of(const struct head *x, int64_t i)
{
	const uint16_t *a = out_row(x, x->dout, i), *b = out_row(x, x->o->out, i);
	float sum[16] = { 0 };

	for (int64_t d = 0; d < x->o->head_dim; d++)
		sum[d % 16] = fmaf(zr_from_bf16(a[d]), zr_from_bf16(b[d]), sum[d % 16]);
	for (int apart = 8; apart; apart /= 2)
		for (int l = 0; l < apart; l++)
			sum[l] += sum[l + apart];
	return sum[0];
}

/* [m_ij P] and [dS], 0 where the query does not attend */
static void grad(const struct head *x, int64_t i, int64_t j, uint16_t *mp, uint16_t *ds)
{
	const struct zr_op_attention *o = x->o;
	float s, t, p, m, y;

	*mp = *ds = 0;
	if (!attends(x, i, j))
		return;
	s = score(x, i, j);
	p = power_of_2(fminf(0, s * unit(o) - o->lse[statistic(x, i)]) * ZR_EXP_LOG2E);
	m = keep(x, i, j);
	y = p * (m * dot(x, v_row(x, j), out_row(x, x->dout, i)) - x->delta[statistic(x, i)]);
	if (o->softcap > 0) {
		t = fmaxf(-1, s * (1 / o->softcap));
		y *= fmaf(-t, t, 1);
	}
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
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch, D = o->head_dim;

	for (int64_t n = lo; n < hi; n++, sums += 2 * D * o->length) {
		memset(sums, 0, (size_t)(2 * D * o->length) * sizeof *sums);
		for (int64_t h = n % in_batch * heads; h < (n % in_batch + 1) * heads; h++) {
			struct head x = head_of(o, n / in_batch, h);
			x.dout = op->dout;
			x.delta = delta;
			for (int64_t i = 0; i < o->length; i++)
				delta[statistic(&x, i)] = delta_of(&x, i);
			for (int64_t i = 0; i < o->length; i++)
				backward_query(&x, op->dq, i, scratch);
			for (int64_t j = 0; j < o->length; j++)
				backward_key(&x, j, sums + 2 * D * j);
		}
	}
}
