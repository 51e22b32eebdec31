/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_pairs.simd.c - causal attention of bf16 and its gradients, products of pairs by
 * vdpbf16ps; formulas in attention.c. Compiled where the instruction set has it; operands of other
 * types take attention.simd.c, whose tiles, panels and masks these are.
 *
 * A word is two bf16 that are neighbours along the sum, the first in the low half; each of 16 lanes
 * adds the products of a pair (bf16_pairs.h).
 *
 *   S = K Qt    dP = V dOt       pairs along D         K, V [keys, Dp/2]    Qt, dOt [Dp/2, PW]
 *   Ot += V' P  dQt += K' dS     pairs along keys      V, K [keys/2, Dp]    P, dS [keys/2, PW]
 *   dV += P dO  dK += dS Q       pairs along queries   P, dS [keys, TQ/2]   Q, dO [TQ/2, Dp]
 *
 * The order of operations is said in attention_pairs.h.
 *
 * Invariant I1 as in attention.simd.c. Scratch: tiles, whatever T is. Sums of a part: dk and dv, [T
 * + KEYS, Dp] each.
 */
#include "attention_simd.h"
#include "attention_pairs.h"

struct pairs {
	struct work w;          /* of its scratch p, ds, keep, words, max, sum, ot and rows */
	float unit;             /* of S: the scale, 1 under a soft cap */
	uint32_t *k, *v;        /* [KEYS, Dp/2] */
	uint32_t *across;       /* [KEYS/2, Dp]: V forward, K backward, pairs along keys */
	uint32_t *p2;           /* [KEYS/2, PW]: P forward, dS backward, pairs along keys */
	uint32_t *raw;          /* [TQ, Dp/2]: rows as they are loaded */
	uint32_t *qt, *dot;     /* panels [Dp/2, PW] */
	uint32_t *q2, *do2;     /* [TQ/2, Dp], pairs along queries */
	uint32_t *prow, *dsrow; /* [KEYS, TQ/2]: P, dS */
};

/* ---- products -------------------------------------------------------------------- */

ZR_INLINE vf vpairs(vf c, vi a, vi b)
{
	return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

/* c[MR, NR*ZR_W] = c times by + sum over k of the pairs a[m*row + k*step] b[k, NR*ZR_W]; without by
 * c is not read if `add` is 0. */
ZR_INLINE void micro_pairs(int add, const vf *by, float *c, int64_t ldc, const uint32_t *a,
			   int64_t row, int64_t step, const uint32_t *b, int64_t ldb, int64_t k)
{
	vf acc[MR][NR];

	UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
	{
		acc[i][n] = add ? vload_f32(c + i * ldc + n * ZR_W) : vset(0);
		if (by)
			acc[i][n] = acc[i][n] * by[n];
	}
	for (int64_t j = 0; j < k; j++) {
		vi y[NR];
		UNROLL for (int n = 0; n < NR; n++) y[n] = viload(b + n * ZR_W);
		UNROLL for (int i = 0; i < MR; i++)
		{
			vi x = viset(a[i * row]);
			UNROLL for (int n = 0; n < NR; n++) acc[i][n] = vpairs(acc[i][n], x, y[n]);
		}
		a += step;
		b += ldb;
	}

	UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
		vstore_f32(c + i * ldc + n * ZR_W, acc[i][n]);
}

/* c[keys, PW] = a[keys, Dp/2] b[Dp/2, PW] */
static void scores_pairs(const struct pairs *x, float *c, const uint32_t *a, const uint32_t *b,
			 int64_t keys)
{
	int64_t half = x->w.Dp / 2, n = UP(x->w.D, 2) / 2;
	for (int64_t i = 0; i < keys; i += MR)
		micro_pairs(0, NULL, c + i * PW, PW, a + i * half, half, 1, b, PW, n);
}

/* c[keys, Dp] += a[keys, TQ/2] b[n, Dp], n pairs of queries */
static void add_keys_pairs(const struct pairs *x, float *c, const uint32_t *a, const uint32_t *b,
			   int64_t keys, int64_t n)
{
	int64_t Dp = x->w.Dp;
	for (int64_t col = 0; col < Dp; col += NR * ZR_W)
		for (int64_t i = 0; i < keys; i += MR)
			micro_pairs(1, NULL, c + i * Dp + col, Dp, a + i * (TQ / 2), TQ / 2, 1,
				    b + col, Dp, n);
}

/* c[D, PW] = c times by + across[keys/2, Dp]' p2[keys/2, PW] */
static void add_queries_pairs(const struct pairs *x, const vf *by, float *c, int64_t keys)
{
	for (int64_t d = 0; d < x->w.D; d += MR)
		micro_pairs(1, by, c + d * PW, PW, x->across + d, 1, x->w.Dp, x->p2, PW,
			    UP(keys, 2) / 2);
}

/* ---- load and pack --------------------------------------------------------------- */

/* dst[padded, Dp/2] = rows [0, n) of src, `stride` elements apart; zeros around. */
static void load_pairs(const struct pairs *x, uint32_t *dst, int64_t padded, const void *src,
		       int64_t stride, int64_t n)
{
	const uint16_t *s = src;
	int64_t half = x->w.Dp / 2;

	for (int64_t i = 0; i < padded; i++, s += stride, dst += half)
		for (int64_t e = 0; e < half; e += ZR_W) {
			int64_t left = i < n ? x->w.D - 2 * e : 0; /* elements */
			__mmask32 m = left < 32 ? (1u << most(left, 0)) - 1 : ~0u;
			vistore(dst + e, _mm512_maskz_loadu_epi16(m, s + 2 * e));
		}
}

/* dst[rows/2, Dp], pairs along rows, from src[rows, Dp/2], pairs along D; rows is even. */
static void pair_rows(const struct pairs *x, uint32_t *dst, const uint32_t *src, int64_t rows)
{
	int64_t Dp = x->w.Dp;
	const uint16_t *s = (const uint16_t *)(const void *)src;

	for (int64_t i = 0; i < rows; i += 2, s += 2 * Dp, dst += Dp)
		for (int64_t d = 0; d < Dp; d += ZR_W)
			vistore(dst + d, vior(viwiden(vhload(s + d)),
					      vishl(viwiden(vhload(s + Dp + d)), 16)));
}

/* Panels [Dp/2, PW] of src[n, Dp/2]. */
static void pair_panels(const struct pairs *x, uint32_t *panels, const uint32_t *src, int64_t n)
{
	int64_t half = x->w.Dp / 2;
	for (int64_t i = 0; i < n; i += PW)
		transpose((float *)(void *)(panels + i * half), PW,
			  (const float *)(const void *)(src + i * half), half, PW, half);
}

/* bf16 of a in the low halves of the lanes, of b in the high ones */
ZR_INLINE vi vpair(vf a, vf b)
{
	static const uint16_t order[32] = { 0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
					    21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
					    11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
	return _mm512_permutexvar_epi16(_mm512_loadu_si512(order),
					(__m512i)_mm512_cvtne2ps_pbh(b, a));
}

/* bf16 of the lanes of a, then of those of b */
ZR_INLINE vi vrow(vf a, vf b)
{
	return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* 2^x; the remainder of -infinity is 0 */
ZR_INLINE vf vexp2(vf x)
{
	vf r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	vf q = vfma(vset(ZR_EXP2_4), r, vset(ZR_EXP2_3));

	q = vfma(q, r, vset(ZR_EXP2_2));
	q = vfma(q, r, vset(ZR_EXP2_1));
	return vscale2(vfma(q, r, vset(1)), x - r);
}

/* Scores in p under their soft cap and mask, dropout's factors in keep; out of both the keys that
 * blocks round up to. */
static void prepare_panel(const struct pairs *x, int64_t q0, int64_t k0, int64_t keys)
{
	const struct work *w = &x->w;
	float cap = w->o->softcap;

	if (w->largest) {
		mask_panel(w, w->p, q0, k0, keys);
		note_largest(w, w->p, PW, keys, PW);
	}
	if (cap > 0)
		for (int64_t i = 0; i < keys * PW; i += ZR_W)
			vstore_f32(w->p + i, vset(cap) * vtanh(vload_f32(w->p + i) *
							       vset(w->o->scale / cap)));
	mask_panel(w, w->p, q0, k0, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, keys);
	for (int64_t i = keys * PW; i < UP(keys, MR) * PW; i += ZR_W) {
		vstore_f32(w->p + i, vset(-INFINITY));
		vstore_f32(w->keep + i, vset(0));
	}
}

static void load_tile(const struct pairs *x, int64_t k0, int backward)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TK, w->T - k0), padded = UP(n, MR);

	load_pairs(x, x->k, padded, at_k(w, o->k, k0), o->k_stride, n);
	load_pairs(x, x->v, padded, at_v(w, o->v, k0), o->v_stride, n);
	pair_rows(x, x->across, backward ? x->k : x->v, padded);
}

/* Of n queries; the first `skip` are not there, src begins behind them. */
static void load_queries(const struct pairs *x, uint32_t *panels, uint32_t *pairs, const void *src,
			 int64_t stride, int64_t skip, int64_t n)
{
	int64_t padded = UP(n, PW), half = x->w.Dp / 2;

	memset(x->raw, 0, (size_t)(skip * half) * sizeof *x->raw);
	load_pairs(x, x->raw + skip * half, padded - skip, src, stride, n - skip);
	pair_panels(x, panels, x->raw, n);
	if (pairs)
		pair_rows(x, pairs, x->raw, padded);
}

/* ---- forward --------------------------------------------------------------------- */

/* p2 from the scores in p; max and sum [PW] follow, `shrink` is what the old sums shrink by. */
static void softmax_pairs(const struct pairs *x, int64_t keys, float *max, float *sum,
			  const float *keep, vf shrink[PV])
{
	vf m[PV], total[PV], c = vset(x->unit * ZR_EXP_LOG2E);
	const float *p = x->w.p;

	UNROLL for (int i = 0; i < PV; i++) m[i] = vload_f32(max + i * ZR_W);
	for (int64_t j = 0; j < keys; j++)
		UNROLL for (int i = 0; i < PV; i++)
			m[i] = vmax(m[i], vload_f32(p + j * PW + i * ZR_W));
	UNROLL for (int i = 0; i < PV; i++)
	{
		vf old = vload_f32(max + i * ZR_W), new = vmax(vset(ZR_PAIRS_LEAST), m[i]);
		vstore_f32(max + i * ZR_W, m[i]);
		m[i] = new;
		shrink[i] = vexp2((old - new) * c);
		total[i] = vload_f32(sum + i * ZR_W) * shrink[i];
	}

	for (int64_t j = 0; j < keys; j += 2)
		UNROLL for (int i = 0; i < PV; i++)
		{
			int64_t at_p = j * PW + i * ZR_W;
			vf a = vexp2((vload_f32(p + at_p) - m[i]) * c);
			vf b = vexp2((vload_f32(p + at_p + PW) - m[i]) * c);
			vi two = vpair(a, b);
			total[i] = vpairs(total[i], two, viset(0x3f803f80));
			if (keep)
				two = vpair(a * vload_f32(keep + at_p),
					    b * vload_f32(keep + at_p + PW));
			vistore(x->p2 + at_p / 2 + i * (ZR_W / 2), two);
		}
	UNROLL for (int i = 0; i < PV; i++) vstore_f32(sum + i * ZR_W, total[i]);
}

static void forward_panel(const struct pairs *x, int64_t i, int64_t q0, int64_t k0)
{
	const struct work *w = &x->w;
	int64_t keys = keys_of(w, q0, k0);
	vf shrink[PV];

	if (keys <= 0)
		return;

	scores_pairs(x, w->p, x->k, x->qt + i * PW * w->Dp / 2, keys);
	prepare_panel(x, q0, k0, keys);
	softmax_pairs(x, keys, w->max + i * PW, w->sum + i * PW, w->o->dropout > 0 ? w->keep : NULL,
		      shrink);
	add_queries_pairs(x, shrink, w->ot + i * w->panel_size, keys);
}

/* out and lse of the n queries from q0 on. */
static void forward_finish(const struct pairs *x, int64_t q0, int64_t n)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	float *lse = o->lse + row(w, q0);

	for (int64_t i = 0; i < n; i += ZR_W) {
		vf r = vset(1) / vload_f32(w->sum + i);
		float *at_o = w->ot + i / PW * w->panel_size + i % PW;
		for (int64_t d = 0; d < w->D; d++)
			vstore_f32(at_o + d * PW, vfma(vload_f32(at_o + d * PW), r, vset(0)));
	}

	to_rows(w, w->rows, w->ot, n);
	store_rows(w, at_out(w, o->out, q0), o->out_stride, w->rows, n, 1);
	for (int64_t i = 0; i < n; i++)
		lse[i] = w->max[i] * x->unit + zr_ln(w->sum[i]);
}

static void forward_tile(const struct pairs *x, int64_t q0)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TQ, w->T - q0), panels = UP(n, PW) / PW;

	load_queries(x, x->qt, NULL, at_q(w, o->q, q0), o->q_stride, 0, n);
	memset(w->ot, 0, (size_t)(panels * w->panel_size) * sizeof *w->ot);
	for (int64_t i = 0; i < panels * PW; i++) {
		w->max[i] = -INFINITY;
		w->sum[i] = 0;
	}
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		load_tile(x, k0, 0);
		for (int64_t i = 0; i < panels; i++)
			forward_panel(x, i, q0 + i * PW, k0);
	}
	forward_finish(x, q0, n);
}

/* Places of a head's work from base on, which may be NULL; returns the bytes. */
static uint64_t layout(struct pairs *x, const struct zr_op_attention *o, char *base, int backward)
{
	struct work *w = &x->w;
	int64_t Dp, tile;
	uint64_t used = 0;

	begin_layout(w, o);
	Dp = w->Dp;
	w->panel_size = Dp * PW;
	w->lds = PW;
	tile = TQ * Dp;
	x->unit = o->softcap > 0 ? 1 : o->scale;
	x->k = carve(base, &used, KEYS * Dp / 2);
	x->v = carve(base, &used, KEYS * Dp / 2);
	x->across = carve(base, &used, KEYS * Dp / 2);
	x->p2 = carve(base, &used, KEYS / 2 * PW);
	x->qt = carve(base, &used, tile / 2);
	x->raw = carve(base, &used, tile / 2);
	w->p = carve(base, &used, KEYS * PW);
	w->keep = carve(base, &used, KEYS * PW);
	w->words = carve(base, &used, PW * WORDS);
	w->max = carve(base, &used, TQ);
	w->sum = carve(base, &used, TQ);
	w->rows = carve(base, &used, tile);
	w->ot = carve(base, &used, tile);
	if (backward) {
		x->dot = carve(base, &used, tile / 2);
		x->q2 = carve(base, &used, tile / 2);
		x->do2 = carve(base, &used, tile / 2);
		x->prow = carve(base, &used, KEYS * TQ / 2);
		x->dsrow = carve(base, &used, KEYS * TQ / 2);
		w->ds = carve(base, &used, KEYS * PW);
	}
	return used;
}

uint64_t ZR_SIMD(attention_scratch)(const struct zr_op_attention *o, int backward)
{
	struct pairs x;
	if (!zr_attention_in_pairs(o))
		return zr_attention_scratch_avx512(o, backward);
	return layout(&x, o, NULL, backward);
}

void ZR_SIMD(attention)(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	struct pairs x = { 0 };
	struct work *w = &x.w;
	float largest;

	if (!zr_attention_in_pairs(o)) {
		zr_attention_avx512(o, lo, hi, scratch);
		return;
	}
	layout(&x, o, scratch, 0);
	if (o->max_scores)
		w->largest = &largest;
	for (int64_t n = lo; n < hi; n++) {
		largest = 0;
		w->b = n / o->heads;
		w->h = n % o->heads;
		w->g = w->h / (o->heads / o->kv_heads);
		for (w->start = w->T = 0; next_document(w);) {
			for (int64_t q0 = first_query(w); q0 < w->T; q0 += TQ)
				forward_tile(&x, q0);
		}
		raise_largest(w, o->scale);
	}
}

/* ---- backward -------------------------------------------------------------------- */

/* From the scores in p and dP in ds: panel i of prow and dsrow, and p2. */
static void grad_pairs(const struct pairs *x, int64_t panel, int64_t keys, const float *keep)
{
	const struct work *w = &x->w;
	vf l[PV], r[PV], unit = vset(x->unit),
			 cap = vset(w->o->softcap > 0 ? 1 / w->o->softcap : 0);
	uint32_t *prow = x->prow + panel * (PW / 2), *dsrow = x->dsrow + panel * (PW / 2);

	UNROLL for (int i = 0; i < PV; i++)
	{
		l[i] = vload_f32(w->max + panel * PW + i * ZR_W);
		r[i] = vload_f32(w->sum + panel * PW + i * ZR_W);
	}
	for (int64_t j = 0; j < UP(keys, MR); j += 2) {
		vf ds[2][PV], mp[2][PV];
		UNROLL for (int n = 0; n < 2; n++) UNROLL for (int i = 0; i < PV; i++)
		{
			int64_t at_p = (j + n) * PW + i * ZR_W;
			vf s = vload_f32(w->p + at_p), dp = vload_f32(w->ds + at_p);
			vf p = vexp2(vmin(vset(0), s * unit - l[i]) * vset(ZR_EXP_LOG2E));
			mp[n][i] = p;
			if (keep) {
				vf m = vload_f32(keep + at_p);
				mp[n][i] = p * m;
				dp = dp * m;
			}
			ds[n][i] = p * (dp - r[i]);
			if (w->o->softcap > 0) {
				vf t = vmax(vset(-1), s * cap);
				ds[n][i] = ds[n][i] * vfma(vset(-1) * t, t, vset(1));
			}
		}

		UNROLL for (int n = 0; n < 2; n++)
		{
			vistore(prow + (j + n) * (TQ / 2), vrow(mp[n][0], mp[n][1]));
			vistore(dsrow + (j + n) * (TQ / 2), vrow(ds[n][0], ds[n][1]));
		}
		UNROLL for (int i = 0; i < PV; i++)
			vistore(x->p2 + j / 2 * PW + i * ZR_W, vpair(ds[0][i], ds[1][i]));
	}
}

/* dv and dk of the tile's keys, from n queries of it that begin with panel i. */
static void add_sums(const struct pairs *x, int64_t i, int64_t k0, int64_t keys, int64_t n)
{
	const struct work *w = &x->w;
	int64_t to = (w->start + k0) * w->Dp, from = i * PW / 2;

	add_keys_pairs(x, w->dv + to, x->prow + from, x->do2 + from * w->Dp, keys, n / 2);
	add_keys_pairs(x, w->dk + to, x->dsrow + from, x->q2 + from * w->Dp, keys, n / 2);
}

/* Returns how many keys the queries of the panel go through. */
static int64_t backward_panel(const struct pairs *x, int64_t i, int64_t q0, int64_t k0)
{
	const struct work *w = &x->w;
	int64_t keys = keys_of(w, q0, k0), at_q = i * PW * w->Dp / 2;

	if (keys <= 0)
		return 0;

	scores_pairs(x, w->p, x->k, x->qt + at_q, keys);
	scores_pairs(x, w->ds, x->v, x->dot + at_q, keys);
	prepare_panel(x, q0, k0, keys);
	grad_pairs(x, i, keys, w->o->dropout > 0 ? w->keep : NULL);
	add_queries_pairs(x, NULL, w->ot + i * w->panel_size, keys);
	return keys;
}

static void backward_keys(const struct pairs *x, int64_t q0, int64_t panels, int64_t k0)
{
	int64_t keys[TQ / PW] = { 0 }, i, same = 1;

	load_tile(x, k0, 1);
	for (i = 0; i < panels; i++) {
		keys[i] = backward_panel(x, i, q0 + i * PW, k0);
		same = same && keys[i] == keys[0];
	}
	if (same && keys[0])
		add_sums(x, 0, k0, keys[0], panels * PW);
	for (i = 0; i < panels && !same; i++)
		add_sums(x, i, k0, keys[i], PW);
}

/* lse and delta of the tile's n queries but the first `skip` into max and sum, 0 around; delta also
 * out. */
static void load_delta(const struct pairs *x, const struct zr_op_attention_bwd *op, int64_t q0,
		       int64_t skip, int64_t n, float *delta)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	const uint16_t *dout = at_out(w, op->dout, q0 + skip), *out = at_out(w, o->out, q0 + skip);

	for (int64_t i = 0; i < UP(n, PW); i++) {
		const int64_t e = (i - skip) * o->out_stride;
		const int there = i >= skip && i < n;
		w->sum[i] = there ? dot_bf16(dout + e, out + e, w->D) : 0;
		w->max[i] = there ? o->lse[row(w, q0 + i)] : 0;
	}
	memcpy(delta + row(w, q0 + skip), w->sum + skip, (size_t)(n - skip) * sizeof *delta);
}

/* Of the queries from q0 on; the first `skip` are not there. */
static void backward_tile(const struct pairs *x, const struct zr_op_attention_bwd *op, int64_t q0,
			  int64_t skip, float *delta)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TQ, w->T - q0), panels = UP(n, PW) / PW;

	load_queries(x, x->dot, x->do2, at_out(w, op->dout, q0 + skip), o->out_stride, skip, n);
	load_queries(x, x->qt, x->q2, at_q(w, o->q, q0 + skip), o->q_stride, skip, n);
	load_delta(x, op, q0, skip, n, delta);
	memset(w->ot, 0, (size_t)(panels * w->panel_size) * sizeof *w->ot);
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK)
		backward_keys(x, q0, panels, k0);
	to_rows(w, w->rows, w->ot, n);
	store_rows(w, at_q(w, op->dq, q0 + skip), o->q_stride, w->rows + skip * w->Dp, n - skip,
		   o->scale);
}

/* Pairs of queries begin with the document, wherever the first query is. */
static void backward_document(const struct pairs *x, const struct zr_op_attention_bwd *op,
			      float *delta)
{
	const int64_t T = x->w.T, from = first_query(&x->w);

	for (int64_t q0 = from / PW * PW; from < T && q0 < T; q0 += TQ)
		backward_tile(x, op, q0, most(0, from - q0), delta);
}

void ZR_SIMD(attention_bwd)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch, size = sums_size(o);
	struct pairs x = { 0 };
	struct work *w = &x.w;

	if (!zr_attention_in_pairs(o)) {
		zr_attention_bwd_avx512(op, parts, lo, hi, scratch, delta, sums);
		return;
	}
	layout(&x, o, scratch, 1);
	for (int64_t n = lo; n < hi; n++) {
		int64_t first = n % in_batch * heads;
		w->b = n / in_batch;
		w->g = n % in_batch / parts;
		w->dk = sums + (n - lo) * size;
		w->dv = w->dk + size / 2;
		memset(w->dk, 0, (size_t)size * sizeof *w->dk);
		for (w->h = first; w->h < first + heads; w->h++)
			for (w->start = w->T = 0; next_document(w);)
				backward_document(&x, op, delta);
	}
}

void ZR_SIMD(attention_bwd_sum)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				int64_t hi, float *sums)
{
	sum_parts(op, parts, lo, hi, sums, zr_attention_in_pairs(&op->fwd) ? op->fwd.scale : 1);
}

int64_t ZR_SIMD(attention_sums)(const struct zr_op_attention *o)
{
	return sums_size(o);
}
