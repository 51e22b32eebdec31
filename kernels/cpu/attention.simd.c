/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.simd.c - causal attention and its gradients in vectors; formulas in attention.c.
 *
 * After FlashAttention (Dao et al. 2022): tiles of queries against TK keys, online softmax forward,
 * P recomputed from lse backward. A tile is worked on in panels of PW queries, and lanes run over
 * the queries of a panel: S is kept transposed, [keys, PW], so that maximum, sum, causal mask and
 * rescaling are vertical. Tiles begin where a document begins: each is worked on as if it stood
 * alone. Everything else is one of three small products, with one micro-kernel, whose factors from
 * a are broadcast and whose vectors run over queries or elements of a head:
 *
 *   S = K Qt    dP = V dOt       scores       [keys, PW]    Qt, dOt [D, PW]; Q carries the scale
 *   dV += P dO  dK += dS Q       add_keys     [keys, Dp]    Q, dO [queries, Dp], Dp = D padded
 *   O += P' V   dQ += dS' K      add_queries  [queries, Dp] K, V [keys, Dp]
 *
 * K and V of a tile are widened to fp32 into scratch, where their rows lie side by side. What is
 * masked costs little: a column of a panel goes through the keys up to its last query, a block of
 * MR queries up to its last one, a block of keys begins with its first query, and tiles before the
 * window of a panel's first query are left out. Products round their rows up to 2: what lies there
 * is zero or never read.
 *
 * Invariant I1: a head (backward: a part of those that share a key-value head) is computed by one
 * call, each element of a product one chain over ascending k, which passes through memory between
 * tiles and blocks; what is left out of it are zeros, which a sum of 0 may owe its sign. So of all
 * sizes only TK is seen in the bits, and forward alone: there the sums of a query are rescaled once
 * a tile. The backward computes S by the same instructions on the same values as the forward:
 * rounding of large scores cancels in S - lse.
 *
 * Scratch: tiles, whatever T is. Sums of a part: dk and dv, [T + KEYS, Dp] each.
 */
#include "attention_blocks.h"
#include "transpose_simd.h"

#include <float.h>

#define GROUP   2 /* panels whose queries a block of dK or dV goes through at once */
#define AT_ONCE 2 /* keys whose exponentials are computed side by side */

/* ---- tiles ----------------------------------------------------------------------- */

/* Those of the tile at k0; the next tile is wanted if it begins before end. */
static void load_keys(const struct work *w, int64_t k0, int64_t end)
{
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TK, w->T - k0);

	load_rows(w, w->k, w->ldk, UP(n, 2), at_k(w, o->k, k0), o->k_stride, n, 1);
	load_rows(w, w->v, w->ldk, UP(n, 2), at_v(w, o->v, k0), o->v_stride, n, 1);
	w->ahead->row = 2 * (k0 + TK);
	w->ahead->end = k0 + TK < end ? 2 * least(w->T, k0 + 2 * TK) : w->ahead->row;
}

/* Panels of `scale` times rows [0, n), `stride` floats apart; n a multiple of ZR_W. */
ZR_INLINE void panels_of(const struct work *w, float *panels, const float *rows, int64_t stride,
			 int64_t n, float scale)
{
	for (int64_t i = 0; i < n; i += ZR_W)
		for (int64_t d = 0; d < w->D; d += 4) {
			float *to = panels + i / PW * w->panel_size + i % PW + d * PW;
			vf r[4];
			load_columns(rows + i * stride + d, stride * (int64_t)sizeof *rows, r);
			UNROLL for (int k = 0; k < 4; k++)
				vstore_f32(to + k * PW, r[k] * vset(scale));
		}
}

/* Panels of the n queries from q0 on. */
static void load_queries(const struct work *w, int64_t q0, int64_t n)
{
	const struct zr_op_attention *o = w->o;
	const void *q = at_q(w, o->q, q0);
	int64_t padded = UP(n, PW);

	if (o->dtype == ZR_F32 && n == padded && w->D % 4 == 0) {
		panels_of(w, w->qt, q, o->q_stride, n, o->scale);
		return;
	}
	load_rows(w, w->rows, w->Dp, padded, q, o->q_stride, n, o->scale);
	panels_of(w, w->qt, w->rows, w->Dp, padded, 1);
}

/* The keys that each column of the panel at q0 goes through, of those of the panel; none where no
 * query is left. */
static void keys_of_columns(const struct work *w, int64_t keys[COLUMNS], int64_t all, int64_t q0,
			    int64_t k0)
{
	for (int64_t c = 0, q = q0; c < COLUMNS; c++, q += COLUMN)
		keys[c] = q < w->T ? most(0, least(all, q + COLUMN - k0)) : 0;
}

/* Formula of zr_softcap. */
static void cap_scores(const struct work *w, float *s, const int64_t keys[COLUMNS])
{
	vf c = vset(w->o->softcap), r = vset(1) / c;

	for (int col = 0; col < COLUMNS; col++)
		for (int64_t j = 0; j < keys[col]; j++)
			UNROLL for (int n = 0; n < NR; n++)
			{
				float *x = s + j * w->lds + col * COLUMN + n * ZR_W;
				vstore_f32(x, c * vtanh(vload_f32(x) * r));
			}
}

/* p: scores of panel i of the tile, the queries from q0 on, against the keys in scratch, from k0
 * on. */
static void score_panel(const struct work *w, float *p, int64_t i, int64_t q0, int64_t k0,
			int64_t all, const int64_t keys[COLUMNS])
{
	scores(w, p, w->k, w->qt + i * w->panel_size, all, keys);
	if (w->largest) {
		mask_panel(w, p, q0, k0, all);
		for (int c = 0; c < COLUMNS; c++)
			note_largest(w, p + c * COLUMN, w->lds, keys[c], COLUMN);
	}
	if (w->o->softcap > 0)
		cap_scores(w, p, keys);
	mask_panel(w, p, q0, k0, all);
}

/* Of a column: 0 for the keys beyond, as far as blocks reach. */
ZR_INLINE void clear_keys(const struct work *w, float *p, int64_t keys)
{
	for (int64_t j = keys; j < keys + MR; j++)
		UNROLL for (int n = 0; n < NR; n++) vstore_f32(p + j * w->lds + n * ZR_W, vset(0));
}

/* ---- forward --------------------------------------------------------------------- */

/* Of n keys of a column: p becomes exp(p - max), times keep if not NULL; their sum is added. */
ZR_INLINE void softmax_keys(const struct work *w, int n, float *p, const vf max[NR], vf total[NR],
			    const float *keep)
{
	vf e[AT_ONCE * NR];

	UNROLLED(i, AT_ONCE * NR, n * NR)
	e[i] = vload_f32(p + i / NR * w->lds + i % NR * ZR_W) - max[i % NR];
	vexp_small(e, n * NR);
	UNROLLED(i, AT_ONCE * NR, n * NR)
	{
		total[i % NR] = total[i % NR] + e[i];
		if (keep)
			e[i] = e[i] * vload_f32(keep + i / NR * PW + i % NR * ZR_W);
		vstore_f32(p + i / NR * w->lds + i % NR * ZR_W, e[i]);
	}
}

/* A column of p from scores to exp(score - max), times keep if not NULL; max and sum follow, what
 * the old sums shrink by is in shrink. Scores are relative to a finite maximum where a query has
 * not seen a key yet. */
ZR_INLINE void softmax_column(const struct work *w, float *p, int64_t keys, float *max, float *sum,
			      float *shrink, const float *keep)
{
	vf m[NR], less[NR], total[NR];
	int64_t j = 0;

	UNROLL for (int n = 0; n < NR; n++) m[n] = vload_f32(max + n * ZR_W);
	for (; j < keys; j++)
		UNROLL for (int n = 0; n < NR; n++)
			m[n] = vmax(m[n], vload_f32(p + j * w->lds + n * ZR_W));
	UNROLL for (int n = 0; n < NR; n++)
	{
		less[n] = vload_f32(max + n * ZR_W);
		vstore_f32(max + n * ZR_W, m[n]);
		m[n] = vmax(vset(-FLT_MAX), m[n]);
		less[n] = less[n] - m[n];
	}

	vexp_small(less, NR);
	UNROLL for (int n = 0; n < NR; n++)
	{
		vstore_f32(shrink + n * ZR_W, less[n]);
		total[n] = vload_f32(sum + n * ZR_W) * less[n];
	}
	for (j = 0; j + AT_ONCE <= keys; j += AT_ONCE)
		softmax_keys(w, AT_ONCE, p + j * w->lds, m, total, keep ? keep + j * PW : NULL);
	for (; j < keys; j++)
		softmax_keys(w, 1, p + j * w->lds, m, total, keep ? keep + j * PW : NULL);
	UNROLL for (int n = 0; n < NR; n++) vstore_f32(sum + n * ZR_W, total[n]);
	clear_keys(w, p, keys);
}

/* Queries [q0, q0 + PW), panel i of the tile, against the keys in scratch, from k0 on. */
static void forward_panel(const struct work *w, int64_t i, int64_t q0, int64_t k0)
{
	int64_t all = keys_of(w, q0, k0), keys[COLUMNS], n = least(PW, w->T - q0);
	float *out = w->ot + i * PW * w->Dp, *shrink = w->shrink;

	if (all <= 0)
		return;

	keys_of_columns(w, keys, all, q0, k0);
	score_panel(w, w->p, i, q0, k0, all, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, all);
	for (int c = 0; c < COLUMNS; c++) {
		int64_t q = i * PW + c * COLUMN;
		if (w->o->dropout > 0)
			softmax_column(w, w->p + c * COLUMN, keys[c], w->max + q, w->sum + q,
				       shrink + c * COLUMN, w->keep + c * COLUMN);
		else
			softmax_column(w, w->p + c * COLUMN, keys[c], w->max + q, w->sum + q,
				       shrink + c * COLUMN, NULL);
	}

	if (k0 == first_tile(w, q0))
		add_queries(w, SET, out, NULL, w->p, w->v, all, n, q0 - k0);
	else
		add_queries(w, SCALED, out, shrink, w->p, w->v, all, n, q0 - k0);
}

/* out and lse of the n queries from q0 on. */
static void forward_finish(const struct work *w, int64_t q0, int64_t n)
{
	const struct zr_op_attention *o = w->o;
	float *lse = o->lse + row(w, q0);

	for (int64_t i = 0; i < n; i++)
		lse[i] = w->max[i] + zr_ln(w->sum[i]);
	for (int64_t i = 0; i < n; i += ZR_W)
		vstore_f32(w->sum + i, vset(1) / vload_f32(w->sum + i));
	store_scaled(w, at_out(w, o->out, q0), o->out_stride, w->ot, n, w->sum);
}

static void forward_tile(const struct work *w, int64_t q0)
{
	int64_t n = least(w->tq, w->T - q0), panels = UP(n, PW) / PW;

	load_queries(w, q0, n);
	for (int64_t i = 0; i < panels * PW; i++) {
		w->max[i] = -INFINITY;
		w->sum[i] = 0;
	}
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		load_keys(w, k0, q0 + n);
		for (int64_t i = 0; i < panels; i++)
			forward_panel(w, i, q0 + i * PW, k0);
	}
	forward_finish(w, q0, n);
}

/* ---- scratch --------------------------------------------------------------------- */

/* As many as fit half of a cache of 512 KiB: in each direction, several arrays of [tq, D]. */
static int64_t queries_of_tile(const struct work *w, int backward)
{
	const int64_t unit = GROUP * PW, n = (backward ? 1 << 14 : 1 << 15) / w->Dp;
	return most(unit, n / unit * unit);
}

static uint64_t layout(struct work *w, const struct zr_op_attention *o, char *base, int backward)
{
	uint64_t used = 0;
	int64_t panels;

	begin_layout(w, o);
	w->tq = queries_of_tile(w, backward);
	w->ldk = w->Dp + LINE;
	w->lds = backward ? GROUP * PW : PW;
	w->panel_size = (w->D + 3) / 4 * 4 * PW;
	panels = w->tq / PW * w->panel_size;
	w->k = carve(base, &used, KEYS * w->ldk);
	w->v = carve(base, &used, KEYS * w->ldk);
	w->p = carve(base, &used, (TK + MR) * w->lds);
	w->keep = carve(base, &used, KEYS * PW);
	w->words = carve(base, &used, PW * WORDS);
	w->max = carve(base, &used, w->tq);
	w->sum = carve(base, &used, w->tq);
	w->shrink = carve(base, &used, PW);
	w->rows = carve(base, &used, w->tq * w->Dp);
	w->qt = carve(base, &used, panels);
	w->ot = carve(base, &used, w->tq * w->Dp);
	if (backward) {
		w->ds = carve(base, &used, (TK + MR) * w->lds);
		w->drows = carve(base, &used, w->tq * w->Dp);
		w->dot = carve(base, &used, panels);
	}
	return used;
}

uint64_t ZR_SIMD(attention_scratch)(const struct zr_op_attention *o, int backward)
{
	struct work w;
	return layout(&w, o, NULL, backward);
}

void ZR_SIMD(attention)(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	struct ahead ahead = { 0 };
	float largest;
	struct work w = { .ahead = &ahead, .largest = o->max_scores ? &largest : NULL };

	layout(&w, o, scratch, 0);
	for (int64_t n = lo; n < hi; n++) {
		w.b = n / o->heads;
		w.h = n % o->heads;
		w.g = w.h / (o->heads / o->kv_heads);
		largest = 0;
		for (w.start = w.T = 0; next_document(&w);) {
			for (int64_t q0 = first_query(&w); q0 < w.T; q0 += w.tq)
				forward_tile(&w, q0);
		}
		raise_largest(&w, 1);
	}
}

/* ---- backward -------------------------------------------------------------------- */

/* Of n keys of a column: p from scores to m P, ds from dP to dS. P is at most 1 (see
 * attention.c). */
ZR_INLINE void grad_keys(const struct work *w, int n, float *p, float *ds, const vf lse[NR],
			 const vf delta[NR], const float *keep, float cap)
{
	vf s[AT_ONCE * NR], e[AT_ONCE * NR], by = vset(1) / vset(cap > 0 ? cap : 1);

	UNROLLED(i, AT_ONCE * NR, n * NR)
	{
		s[i] = vload_f32(p + i / NR * w->lds + i % NR * ZR_W);
		e[i] = vmin(vset(0), s[i] - lse[i % NR]);
	}
	vexp_small(e, n * NR);
	UNROLLED(i, AT_ONCE * NR, n * NR)
	{
		int64_t to = i / NR * w->lds + i % NR * ZR_W;
		vf m = keep ? vload_f32(keep + i / NR * PW + i % NR * ZR_W) : vset(1);
		vf x = e[i] * (m * vload_f32(ds + to) - delta[i % NR]);
		if (cap > 0) { /* a masked score is -infinity, its slope finite */
			vf t = vmax(vset(-1), s[i] * by);
			x = x * vfma(vset(-1) * t, t, vset(1));
		}
		vstore_f32(p + to, m * e[i]);
		vstore_f32(ds + to, x);
	}
}

ZR_INLINE void grad_column(const struct work *w, float *p, float *ds, int64_t keys,
			   const float *lse, const float *delta, const float *keep, float cap)
{
	vf l[NR], r[NR];
	int64_t j = 0;

	UNROLL for (int n = 0; n < NR; n++)
	{
		l[n] = vload_f32(lse + n * ZR_W);
		r[n] = vload_f32(delta + n * ZR_W);
	}
	for (; j + AT_ONCE <= keys; j += AT_ONCE)
		grad_keys(w, AT_ONCE, p + j * w->lds, ds + j * w->lds, l, r,
			  keep ? keep + j * PW : NULL, cap);
	for (; j < keys; j++)
		grad_keys(w, 1, p + j * w->lds, ds + j * w->lds, l, r, keep ? keep + j * PW : NULL,
			  cap);
	clear_keys(w, p, keys);
	clear_keys(w, ds, keys);
}

static void grad_panel(const struct work *w, float *p, float *ds, const int64_t keys[COLUMNS],
		       int64_t i)
{
	for (int c = 0; c < COLUMNS; c++) {
		const float *lse = w->max + i * PW + c * COLUMN, *keep = w->keep + c * COLUMN;
		const float *delta = w->sum + i * PW + c * COLUMN;
		float cap = w->o->softcap, *s = p + c * COLUMN, *d = ds + c * COLUMN;
		if (w->o->dropout > 0)
			grad_column(w, s, d, keys[c], lse, delta, keep, cap);
		else if (cap > 0)
			grad_column(w, s, d, keys[c], lse, delta, NULL, cap);
		else
			grad_column(w, s, d, keys[c], lse, delta, NULL, 0);
	}
}

/* Panel i of the tile: m P, dS and what comes to dQ. */
static void backward_panel(const struct work *w, float *p, float *ds, int64_t all, int64_t i,
			   int64_t q0, int64_t k0)
{
	int64_t keys[COLUMNS], n = least(PW, w->T - q0);
	float *dq = w->ot + i * PW * w->Dp;

	keys_of_columns(w, keys, all, q0, k0);
	score_panel(w, p, i, q0, k0, all, keys);
	scores(w, ds, w->v, w->dot + i * w->panel_size, all, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, all);
	grad_panel(w, p, ds, keys, i);
	if (k0 == first_tile(w, q0))
		add_queries(w, SET, dq, NULL, ds, w->k, all, n, q0 - k0);
	else
		add_queries(w, ADD, dq, NULL, ds, w->k, all, n, q0 - k0);
}

/* The panels of the tile from i on, queries from q0 on, that are worked on at once. */
static void backward_panels(const struct work *w, int64_t i, int64_t q0, int64_t k0)
{
	int64_t last = 0, n = 0, at_keys = (w->start + k0) * w->Dp, at_rows = i * PW * w->Dp;

	for (int64_t g = 0; g < GROUP && q0 + g * PW < w->T; g++) {
		int64_t keys = keys_of(w, q0 + g * PW, k0);
		if (keys <= 0)
			continue;
		backward_panel(w, w->p + g * PW, w->ds + g * PW, keys, i + g, q0 + g * PW, k0);
		last = keys;
		n = least((g + 1) * PW, w->T - q0);
	}

	add_keys(w, w->dv + at_keys, w->p, w->drows + at_rows, last, n, q0 - k0);
	add_keys(w, w->dk + at_keys, w->ds, w->rows + at_rows, last, n, q0 - k0);
}

/* lse and delta of the tile's n queries into max and sum, 0 beyond; delta also out. dot holds
 * dO. */
static void load_delta(const struct work *w, int64_t q0, int64_t n, float *delta)
{
	const struct zr_op_attention *o = w->o;
	int64_t padded = UP(n, PW), Dp = w->Dp;

	load_rows(w, w->rows, Dp, padded, at_out(w, o->out, q0), o->out_stride, n, 1);
	for (int64_t i = 0; i < padded; i += ZR_W) {
		const float *at_dot = w->dot + i / PW * w->panel_size + i % PW;
		vf s = vset(0);
		for (int64_t d = 0; d < w->D; d += 4) {
			vf r[4];
			load_columns(w->rows + i * Dp + d, Dp * (int64_t)sizeof *w->rows, r);
			UNROLL for (int k = 0; k < 4; k++) if (d + k < w->D)
				s = vfma(vload_f32(at_dot + (d + k) * PW), r[k], s);
		}

		vstore_f32(w->sum + i, s);
	}

	for (int64_t i = 0; i < padded; i++)
		w->max[i] = i < n ? o->lse[row(w, q0 + i)] : 0;
	memcpy(delta + row(w, q0), w->sum, (size_t)n * sizeof *delta);
}

static void backward_tile(const struct work *w, const struct zr_op_attention_bwd *op, int64_t q0,
			  float *delta)
{
	const struct zr_op_attention *o = w->o;
	int64_t n = least(w->tq, w->T - q0), panels = UP(n, PW) / PW;

	load_rows(w, w->drows, w->Dp, panels * PW, at_out(w, op->dout, q0), o->out_stride, n, 1);
	panels_of(w, w->dot, w->drows, w->Dp, panels * PW, 1);
	load_delta(w, q0, n, delta);
	load_rows(w, w->rows, w->Dp, panels * PW, at_q(w, o->q, q0), o->q_stride, n, o->scale);
	panels_of(w, w->qt, w->rows, w->Dp, panels * PW, 1);
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		load_keys(w, k0, q0 + n);
		for (int64_t i = 0; i < panels; i += GROUP)
			backward_panels(w, i, q0 + i * PW, k0);
	}
	store_rows(w, at_q(w, op->dq, q0), o->q_stride, w->ot, n, o->scale);
}

int64_t ZR_SIMD(attention_sums)(const struct zr_op_attention *o)
{
	return sums_size(o);
}

void ZR_SIMD(attention_bwd)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch, size = sums_size(o);
	struct ahead ahead = { 0 };
	struct work w = { .ahead = &ahead };

	layout(&w, o, scratch, 1);
	for (int64_t n = lo; n < hi; n++) {
		int64_t first = n % in_batch * heads;
		w.b = n / in_batch;
		w.g = n % in_batch / parts;
		w.dk = sums + (n - lo) * size;
		w.dv = w.dk + size / 2;
		memset(w.dk, 0, (size_t)size * sizeof *w.dk);
		for (w.h = first; w.h < first + heads; w.h++)
			for (w.start = w.T = 0; next_document(&w);)
				for (int64_t q0 = first_query(&w); q0 < w.T; q0 += w.tq)
					backward_tile(&w, op, q0, delta);
	}
}

void ZR_SIMD(attention_bwd_sum)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				int64_t hi, float *sums)
{
	sum_parts(op, parts, lo, hi, sums, 1);
}
