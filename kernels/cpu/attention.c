/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention and its gradients, the scalar oracle.
 *
 * Shapes, per batch entry b and head h of D = head_dim; query head h reads key-value head h /
 * share, share = heads / kv_heads. With s_ij = scale q_i.k_j, under the soft cap c if there is
 * one c tanh(scale q_i.k_j / c), for the j <= i of i's document and window, and mask m_ij = 0 or
 * 1/(1-dropout):
 *
 *   forward   lse_i = log sum_j exp(s_ij),  P_ij = exp(s_ij - lse_i),  out_i = sum_j m_ij P_ij v_j
 *   backward  delta_i = dout_i.out_i,  dS_ij = P_ij (m_ij dout_i.v_j - delta_i) (1 - (s_ij/c)^2)
 *             dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i,h dS_ij q_i,
 *             dv_j = sum_i,h m_ij P_ij dout_i
 *
 * The forward goes through the keys of one query with the online softmax (Milakov and Gimelshein
 * 2018), the backward recomputes P from lse (Dao et al. 2022): nothing of the T x T matrix is
 * stored. The backward has two loops, over the keys of a query for dq and over the queries of a key
 * for dk and dv, so that each gradient is a plain sum in index order. The heads that share a key
 * may be split into parts, whose sums are added. Results are stored, not added; arithmetic is fp32.
 *
 * Scratch: a row of D. Sums of a part: a row of dk and one of dv per key.
 */
#include "attention_places.h"
#include "raise.h"
#include "scalar.h"
#include "table.h"

/* Index of the first element of token t, head h, where heads are `head` apart, or head_dim. */
static int64_t row(const struct zr_op_attention *o, int64_t stride, int64_t head, int64_t b,
		   int64_t t, int64_t h)
{
	return (b * o->length + t) * stride + h * (head ? head : o->head_dim);
}

static int64_t k_row(const struct zr_op_attention *o, int64_t b, int64_t t, int64_t g)
{
	return row(o, o->k_stride, o->k_head, b, t, g);
}

static int64_t v_row(const struct zr_op_attention *o, int64_t b, int64_t t, int64_t g)
{
	return row(o, o->v_stride, o->v_head, b, t, g);
}

/* Of queries, the rows before `first` are not there; nor are they in lse and delta. */
static int64_t q_row(const struct zr_op_attention *o, int64_t b, int64_t t, int64_t h)
{
	return row(o, o->q_stride, o->q_head, b, t, h) - (b + 1) * o->first * o->q_stride;
}

static int64_t out_row(const struct zr_op_attention *o, int64_t b, int64_t t, int64_t h)
{
	return row(o, o->out_stride, 0, b, t, h) - (b + 1) * o->first * o->out_stride;
}

static int64_t lse_row(const struct zr_op_attention *o, int64_t b, int64_t t, int64_t h)
{
	return (b * o->heads + h) * (o->length - o->first) + t - o->first;
}

static zr_real dot(const struct zr_op_attention *o, const void *x, int64_t xi, const void *y,
		   int64_t yi)
{
	zr_real s = 0;
	for (int64_t d = 0; d < o->head_dim; d++)
		s = zr_fma(zr_get(x, xi + d, o->dtype), zr_get(y, yi + d, o->dtype), s);
	return s;
}

/* acc += a x */
static void add_row(const struct zr_op_attention *o, zr_real *acc, zr_real a, const void *x,
		    int64_t xi)
{
	for (int64_t d = 0; d < o->head_dim; d++)
		acc[d] = zr_fma(a, zr_get(x, xi + d, o->dtype), acc[d]);
}

static void store_row(const struct zr_op_attention *o, void *dst, int64_t di, const zr_real *acc,
		      zr_real a)
{
	for (int64_t d = 0; d < o->head_dim; d++)
		zr_put(dst, di + d, o->dtype, acc[d] * a);
}

/* The first token that query i attends to. */
static int64_t first_key(const struct zr_op_attention *o, int64_t b, int64_t i)
{
	int64_t start = o->starts ? o->starts[b * o->length + i] : 0;
	int64_t oldest = o->window ? i - o->window + 1 : 0;
	return oldest > start ? oldest : start;
}

/* scale q_i.k_j of batch entry b, query head h. */
static zr_real uncapped(const struct zr_op_attention *o, int64_t b, int64_t h, int64_t i, int64_t j)
{
	int64_t g = h / (o->heads / o->kv_heads);
	return o->scale * dot(o, o->q, q_row(o, b, i, h), o->k, k_row(o, b, j, g));
}

static zr_real capped(const struct zr_op_attention *o, zr_real s)
{
	return o->softcap > 0 ? zr_softcap(s, o->softcap) : s;
}

/* s_ij */
static zr_real score(const struct zr_op_attention *o, int64_t b, int64_t h, int64_t i, int64_t j)
{
	return capped(o, uncapped(o, b, h, i, j));
}

/* m_ij */
static zr_real keep(const struct zr_op_attention *o, int64_t b, int64_t h, int64_t i, int64_t j)
{
	uint64_t e = zr_drop_element(o, b, h, i) + (uint64_t)j;

	if (o->dropout <= 0)
		return 1;
	return zr_rng_word(&o->rng, e) >= zr_drop_below(o->dropout) ? zr_drop_scale(o->dropout) : 0;
}

/* largest: of the head's scores before their soft cap, so far. */
static void forward_row(const struct zr_op_attention *o, int64_t b, int64_t h, int64_t i,
			zr_real *acc, zr_real *largest)
{
	int64_t g = h / (o->heads / o->kv_heads);
	zr_real max = -INFINITY, sum = 0;

	memset(acc, 0, (size_t)o->head_dim * sizeof *acc);
	for (int64_t j = first_key(o, b, i); j <= i; j++) {
		zr_real raw = uncapped(o, b, h, i, j), s = capped(o, raw), p;
		if (raw > *largest)
			*largest = raw;
		if (s > max) { /* what was summed so far was relative to the old maximum */
			zr_real shrink = zr_exp(max - s);
			for (int64_t d = 0; d < o->head_dim; d++)
				acc[d] *= shrink;
			sum *= shrink;
			max = s;
		}

		p = zr_exp(s - max);
		sum += p;
		add_row(o, acc, p * keep(o, b, h, i, j), o->v, v_row(o, b, j, g));
	}

	store_row(o, o->out, out_row(o, b, i, h), acc, 1 / sum);
	zr_reals(o->lse)[lse_row(o, b, i, h)] = max + zr_ln(sum);
}

void ZR_SCALAR(attention)(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	for (int64_t n = lo; n < hi; n++) {
		zr_real largest = 0;
		for (int64_t i = o->first; i < o->length; i++)
			forward_row(o, n / o->heads, n % o->heads, i, scratch, &largest);
		if (o->max_scores)
			zr_raise(zr_reals(o->max_scores) + n % o->heads, largest);
	}
}

/* m_ij P_ij in *mp, returns dS_ij. P is at most 1: rounding of a large lse must not let it grow. */
static zr_real grad_score(const struct zr_op_attention_bwd *o, const zr_real *delta, int64_t b,
			  int64_t h, int64_t i, int64_t j, zr_real *mp)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t n = lse_row(f, b, i, h), g = h / (f->heads / f->kv_heads);
	zr_real s = score(f, b, h, i, j), x = s - zr_reals(f->lse)[n];
	zr_real p = zr_exp(x > 0 ? 0 : x), m = keep(f, b, h, i, j);
	zr_real dp = dot(f, o->dout, out_row(f, b, i, h), f->v, v_row(f, b, j, g));

	zr_real ds = p * (m * dp - delta[n]);

	*mp = m * p;
	if (f->softcap > 0)
		ds = ds * zr_softcap_slope(s, f->softcap);
	return ds;
}

static void backward_query(const struct zr_op_attention_bwd *o, zr_real *delta, int64_t b,
			   int64_t h, int64_t i, zr_real *acc)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t at = out_row(f, b, i, h), g = h / (f->heads / f->kv_heads);

	delta[lse_row(f, b, i, h)] = dot(f, o->dout, at, f->out, at);
	memset(acc, 0, (size_t)f->head_dim * sizeof *acc);
	for (int64_t j = first_key(f, b, i); j <= i; j++) {
		zr_real mp, ds = grad_score(o, delta, b, h, i, j, &mp);
		add_row(f, acc, ds, f->k, k_row(f, b, j, g));
	}
	store_row(f, o->dq, q_row(f, b, i, h), acc, f->scale);
}

/* What the query heads [first, first + heads) add to dk and dv of key j, into sum[0, D) and sum[D,
 * 2D). */
static void backward_key(const struct zr_op_attention_bwd *o, const zr_real *delta, int64_t b,
			 int64_t first, int64_t heads, int64_t j, zr_real *sum)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t n = zr_document(f, b, j), end = j + (f->window && f->window < n ? f->window : n);
	int64_t begin = j > f->first ? j : f->first;

	memset(sum, 0, 2 * (size_t)f->head_dim * sizeof *sum);
	for (int64_t h = first; h < first + heads; h++)
		for (int64_t i = begin; i < end; i++) {
			zr_real mp, ds = grad_score(o, delta, b, h, i, j, &mp);
			add_row(f, sum, ds, f->q, q_row(f, b, i, h));
			add_row(f, sum + f->head_dim, mp, o->dout, out_row(f, b, i, h));
		}
}

void ZR_SCALAR(attention_bwd)(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo,
			      int64_t hi, void *scratch, zr_real *delta, zr_real *sums)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t in_batch = f->kv_heads * parts, heads = f->heads / in_batch;

	for (int64_t n = lo; n < hi; n++) {
		int64_t b = n / in_batch, first = n % in_batch * heads;
		for (int64_t h = first; h < first + heads; h++)
			for (int64_t i = f->first; i < f->length; i++)
				backward_query(o, delta, b, h, i, scratch);
		for (int64_t j = 0; j < f->length; j++, sums += 2 * f->head_dim)
			backward_key(o, delta, b, first, heads, j, sums);
	}
}

static void store_sum(zr_real *dst, const zr_real *acc, zr_real a, int64_t n)
{
	for (int64_t d = 0; d < n; d++)
		dst[d] = acc[d] * a;
}

/* Gradients of key j from dk = sum[0, D) and dv = sum[D, 2D). */
static void store_key(const struct zr_op_attention_bwd *o, int64_t b, int64_t j, int64_t g,
		      const zr_real *sum)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t D = f->head_dim;

	if (f->key_sums) {
		zr_real *to = zr_reals(f->key_sums);
		store_sum(to + zr_key_sums_at(f, b, j, g, 0), sum, f->scale, D);
		store_sum(to + zr_key_sums_at(f, b, j, g, 1), sum + D, 1, D);
		return;
	}
	store_row(f, o->dk, k_row(f, b, j, g), sum, f->scale);
	store_row(f, o->dv, v_row(f, b, j, g), sum + D, 1);
}

void ZR_SCALAR(attention_bwd_sum)(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo,
				  int64_t hi, zr_real *sums)
{
	const struct zr_op_attention *f = &o->fwd;
	int64_t size = ZR_SCALAR(attention_sums)(f);

	for (int64_t n = lo; n < hi; n++, sums += parts * size) {
		int64_t b = n / f->kv_heads, g = n % f->kv_heads;
		for (int64_t i = size; i < parts * size; i++)
			sums[i % size] += sums[i];
		for (int64_t j = 0; j < f->length; j++)
			store_key(o, b, j, g, sums + 2 * j * f->head_dim);
	}
}

int64_t ZR_SCALAR(attention_sums)(const struct zr_op_attention *o)
{
	return 2 * o->length * o->head_dim;
}

uint64_t ZR_SCALAR(attention_scratch)(const struct zr_op_attention *o, int backward)
{
	(void)backward;
	return (uint64_t)o->head_dim * sizeof(zr_real);
}
