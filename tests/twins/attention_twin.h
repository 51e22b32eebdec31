/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_twin.h - what the twins of attention in pairs and in tiles share: rows of a head, which
 * queries attend to which keys, and the arithmetic of single numbers.
 */
#ifndef ZR_TESTS_TWINS_ATTENTION_TWIN_H
#define ZR_TESTS_TWINS_ATTENTION_TWIN_H

#include "cpu/attention_pairs.h"
#include "cpu/attention_places.h"
#include "cpu/bf16_pairs.h"
#include "cpu/table.h"

/* One query head of one batch entry. Rows of tokens beyond the sequence are NULL. */
struct head {
	const struct zr_op_attention *o;
	const void *dout;
	const float *delta;
	int64_t b, h, g;
};

static inline const uint16_t *row(const struct head *x, const void *p, int64_t stride,
				  int64_t apart, int64_t t, int64_t h, int64_t first)
{
	const struct zr_op_attention *o = x->o;
	if (t >= o->length || t < first)
		return NULL;
	return (const uint16_t *)p + (x->b * o->length + t - (x->b + 1) * first) * stride +
	       h * (apart ? apart : o->head_dim);
}

static inline const uint16_t *q_row(const struct head *x, int64_t t)
{
	return row(x, x->o->q, x->o->q_stride, x->o->q_head, t, x->h, x->o->first);
}

static inline const uint16_t *k_row(const struct head *x, int64_t t)
{
	return row(x, x->o->k, x->o->k_stride, x->o->k_head, t, x->g, 0);
}

static inline const uint16_t *v_row(const struct head *x, int64_t t)
{
	return row(x, x->o->v, x->o->v_stride, x->o->v_head, t, x->g, 0);
}

static inline const uint16_t *out_row(const struct head *x, const void *p, int64_t t)
{
	return row(x, p, x->o->out_stride, 0, t, x->h, x->o->first);
}

static inline int64_t statistic(const struct head *x, int64_t t)
{
	const struct zr_op_attention *o = x->o;
	return (x->b * o->heads + x->h) * (o->length - o->first) + t - o->first;
}

static inline int64_t document(const struct head *x, int64_t t)
{
	return x->o->starts ? x->o->starts[x->b * x->o->length + t] : 0;
}

static inline int attends(const struct head *x, int64_t i, int64_t j)
{
	return i >= x->o->first && i < x->o->length && j <= i && document(x, i) <= j &&
	       (!x->o->window || i - j < x->o->window);
}

static inline struct head head_of(const struct zr_op_attention *o, int64_t b, int64_t h)
{
	return (struct head){ .o = o, .b = b, .h = h, .g = h / (o->heads / o->kv_heads) };
}

/* ---- arithmetic ------------------------------------------------------------------ */

/* [x] */
static inline uint16_t rounded(float x)
{
	uint32_t u = zr_bits(zr_no_denormal(x));
	return zr_bf16_with(x == x ? zr_from_bits(u) : x, 0x7fff + (u >> 16 & 1));
}

/* of S */
static inline float unit(const struct zr_op_attention *o)
{
	return o->softcap > 0 ? 1 : o->scale;
}

/* m_ij */
static inline float keep(const struct head *x, int64_t i, int64_t j)
{
	const struct zr_op_attention *o = x->o;
	uint64_t e = zr_drop_element(o, x->b, x->h, i) + (uint64_t)j;

	if (o->dropout <= 0)
		return 1;
	return zr_rng_word(&o->rng, e) >= zr_drop_below(o->dropout) ? zr_drop_scale(o->dropout) : 0;
}

static inline float delta_of(const struct head *x, int64_t i)
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

/* dS, not rounded, of a score s with P = p, where dP = dp */
static inline float gradient_of_score(const struct head *x, int64_t i, float s, float p, float dp)
{
	const float y = p * (dp - x->delta[statistic(x, i)]);
	if (x->o->softcap <= 0)
		return y;
	const float t = fmaxf(-1, s * (1 / x->o->softcap));
	return y * fmaf(-t, t, 1);
}

/* ---- loops ----------------------------------------------------------------------- */

static inline void twin_forward(const struct zr_op_attention *o, int64_t lo, int64_t hi, float *acc,
				void (*of_row)(const struct head *, int64_t i, float *acc))
{
	for (int64_t n = lo; n < hi; n++) {
		struct head x = head_of(o, n / o->heads, n % o->heads);
		for (int64_t i = o->first; i < o->length; i++)
			of_row(&x, i, acc);
	}
}

/* of_query stores a row of dq, of_key adds to dk = sum[0, D) and dv = sum[D, 2D) of a key. */
static inline void twin_backward(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				 int64_t hi, float *acc, float *delta, float *sums,
				 void (*of_query)(const struct head *, const void *dq, int64_t i,
						  float *acc),
				 void (*of_key)(const struct head *, int64_t j, float *sum))
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch, D = o->head_dim;

	for (int64_t n = lo; n < hi; n++, sums += 2 * D * o->length) {
		memset(sums, 0, (size_t)(2 * D * o->length) * sizeof *sums);
		for (int64_t h = n % in_batch * heads; h < (n % in_batch + 1) * heads; h++) {
			struct head x = head_of(o, n / in_batch, h);
			x.dout = op->dout;
			x.delta = delta;
			for (int64_t i = o->first; i < o->length; i++)
				delta[statistic(&x, i)] = delta_of(&x, i);
			for (int64_t i = o->first; i < o->length; i++)
				of_query(&x, op->dq, i, acc);
			for (int64_t j = 0; j < o->length; j++)
				of_key(&x, j, sums + 2 * D * j);
		}
	}
}

#endif
