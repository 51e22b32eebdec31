/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiles_twin.c - attention in tiles as attention_tiles.h says, one element at a time.
 */
#include "tests/twins/attention_twin.h"
#include "tests/twins/twins.h"

#define BLOCK ZR_TILES_BLOCK

/* ---- arithmetic ------------------------------------------------------------------ */

static float power_of_2(float x)
{
	float whole = floorf(x), r = x - whole, q;
	if (whole < -1000)
		return 0;
	if ((double)r + (double)whole > (double)x)
		r = nextafterf(r, 0);
	q = fmaf(ZR_EXP2_F3, r, ZR_EXP2_F2);
	q = fmaf(q, r, ZR_EXP2_F1);
	return ldexpf(fmaf(q, r, 1), (int)whole);
}

static float dot(const struct head *x, const uint16_t *a, const uint16_t *b)
{
	const int64_t D = x->o->head_dim;
	float sum = 0;
	for (int64_t d = 0; d < D; d += BLOCK) {
		uint16_t y[BLOCK] = { 0 }, z[BLOCK] = { 0 };
		const size_t n = (size_t)(D - d < BLOCK ? D - d : BLOCK);
		memcpy(y, a + d, n * sizeof *y);
		memcpy(z, b + d, n * sizeof *z);
		sum = zr_tile_sum(sum, (uint16_t(*)[2])y, (uint16_t(*)[2])z);
	}
	return sum;
}

/* acc += factors of a block times its rows, NULL where there is none */
static void add_rows(const struct head *x, float *acc, uint16_t f[BLOCK],
		     const uint16_t *const rows[BLOCK])
{
	for (int64_t d = 0; d < x->o->head_dim; d++) {
		uint16_t y[BLOCK];
		for (int i = 0; i < BLOCK; i++)
			y[i] = rows[i] ? rows[i][d] : 0;
		acc[d] = zr_tile_sum(acc[d], (uint16_t(*)[2])f, (uint16_t(*)[2])y);
	}
}

static float score(const struct head *x, int64_t i, int64_t j)
{
	const struct zr_op_attention *o = x->o;
	float s = dot(x, k_row(x, j), q_row(x, i));
	return o->softcap > 0 ? o->softcap * zr_tanhf(s * (o->scale / o->softcap)) : s;
}

/* ---- forward --------------------------------------------------------------------- */

/* The keys from `first` on of a tile: shrinks the sums where they must and adds. */
static void forward_keys(const struct head *x, int64_t i, int64_t first, float *relative,
			 float sum[16], float *acc)
{
	const struct zr_op_attention *o = x->o;
	const float c = unit(o) * ZR_EXP_LOG2E;
	float s[ZR_TILES_KEYS], max = -INFINITY;

	for (int64_t j = 0; j < ZR_TILES_KEYS; j++) {
		s[j] = attends(x, i, first + j) ? score(x, i, first + j) : -INFINITY;
		max = fmaxf(max, s[j]);
	}
	if ((max - *relative) * c > ZR_TILES_GROWTH) {
		float shrink = power_of_2((*relative - max) * c);
		for (int l = 0; l < 16; l++)
			sum[l] *= shrink;
		for (int64_t d = 0; d < o->head_dim; d++)
			acc[d] *= shrink;
		*relative = max;
	}
	for (int64_t k = 0; k < ZR_TILES_KEYS && first + k <= i; k += BLOCK) {
		const uint16_t *rows[BLOCK] = { 0 };
		uint16_t p[BLOCK] = { 0 };
		for (int64_t j = k; j < k + BLOCK; j++)
			if (attends(x, i, first + j)) {
				float e = power_of_2((s[j] - *relative) * c);
				sum[j % 16] += e;
				p[j - k] = zr_bf16(o->dropout > 0 ? e * keep(x, i, first + j) : e);
				rows[j - k] = v_row(x, first + j);
			}
		add_rows(x, acc, p, rows);
	}
}

static void forward_row(const struct head *x, int64_t i, float *acc)
{
	const struct zr_op_attention *o = x->o;
	const int64_t place = out_row(x, o->out, i) - (const uint16_t *)o->out;
	float relative = ZR_PAIRS_LEAST, sum[16] = { 0 };

	memset(acc, 0, (size_t)o->head_dim * sizeof *acc);
	for (int64_t k = document(x, i); k <= i; k += ZR_TILES_KEYS)
		forward_keys(x, i, k, &relative, sum, acc);
	for (int apart = 8; apart; apart /= 2)
		for (int l = 0; l < apart; l++)
			sum[l] += sum[l + apart];
	for (int64_t d = 0; d < o->head_dim; d++)
		zr_put(o->out, place + d, ZR_BF16, fmaf(acc[d], 1 / sum[0], 0));
	o->lse[statistic(x, i)] = relative * unit(o) + zr_ln(sum[0]);
}

void zr_attention_tiles_twin(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
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
	p = power_of_2(fminf(0, fmaf(s, unit(o) * ZR_EXP_LOG2E,
				     -(o->lse[statistic(x, i)] * ZR_EXP_LOG2E))));
	m = keep(x, i, j);
	y = gradient_of_score(x, i, s, p, m * dot(x, v_row(x, j), out_row(x, x->dout, i)));
	*mp = zr_bf16(p * m);
	*ds = zr_bf16(y);
}

static void backward_query(const struct head *x, const void *dq, int64_t i, float *acc)
{
	const struct zr_op_attention *o = x->o;
	int64_t place = q_row(x, i) - (const uint16_t *)o->q;

	memset(acc, 0, (size_t)o->head_dim * sizeof *acc);
	for (int64_t j = document(x, i); j <= i; j += BLOCK) {
		const uint16_t *rows[BLOCK];
		uint16_t mp[BLOCK], ds[BLOCK];
		for (int64_t n = 0; n < BLOCK; n++) {
			grad(x, i, j + n, mp + n, ds + n);
			rows[n] = attends(x, i, j + n) ? k_row(x, j + n) : NULL;
		}
		add_rows(x, acc, ds, rows);
	}
	for (int64_t d = 0; d < o->head_dim; d++)
		zr_put((void *)(uintptr_t)dq, place + d, ZR_BF16, acc[d] * o->scale);
}

/* Adds to dk = sum[0, D) and dv = sum[D, 2D) of key j. */
static void backward_key(const struct head *x, int64_t j, float *sum)
{
	int64_t i = document(x, j) + (j - document(x, j)) / BLOCK * BLOCK;

	for (; i < x->o->length && document(x, i) <= j; i += BLOCK) {
		const uint16_t *q[BLOCK], *dout[BLOCK];
		uint16_t mp[BLOCK], ds[BLOCK];
		for (int64_t n = 0; n < BLOCK; n++) {
			const int meet = attends(x, i + n, j);
			grad(x, i + n, j, mp + n, ds + n);
			q[n] = meet ? q_row(x, i + n) : NULL;
			dout[n] = meet ? out_row(x, x->dout, i + n) : NULL;
		}
		add_rows(x, sum, ds, q);
		add_rows(x, sum + x->o->head_dim, mp, dout);
	}
}

void zr_attention_bwd_tiles_twin(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				 int64_t hi, void *scratch, float *delta, float *sums)
{
	twin_backward(op, parts, lo, hi, scratch, delta, sums, backward_query, backward_key);
}
