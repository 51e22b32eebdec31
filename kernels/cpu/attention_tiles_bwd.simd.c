/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiles_bwd.simd.c - the gradients of attention_tiles.simd.c.
 *
 *   St = K Q'       a key is a row, lanes run over queries
 *   dPt = V dO'
 *   dV += Pt dO     rows of Pt and dSt are left operands as they are
 *   dK += dSt Q
 *   dQt += K' dSt   rows of dSt are interleaved in pairs of keys
 *
 * Q', dO' have their words transposed, Q and dO their rows interleaved once per tile of queries; K'
 * is of pairs of keys, once per tile of keys.
 *
 * Sums of a part: dk and dv, [T + KEYS, Dp] each.
 */
#include "attention_tiles_simd.h"

/* Of two keys, their scores s and dP dp for the panel's queries: rows of P and dS, and the latter
 * in pairs, whose columns are in the order of order_of(). */
ZR_INLINE void grad_keys(const struct tiles *x, const float *s, const float *dp, const vf l[PV],
			 const vf delta[PV], const float *keep, uint32_t *prow, uint32_t *dsrow,
			 uint32_t *ds2)
{
	const vf c = vset(x->unit * ZR_EXP_LOG2E),
		 cap = vset(x->w.o->softcap > 0 ? 1 / x->w.o->softcap : 0);
	vi row[2];

	UNROLL for (int j = 0; j < 2; j++)
	{
		vf p[PV], ds[PV];
		UNROLL for (int i = 0; i < PV; i++)
		{
			const int at = j * PW + i * ZR_W;
			vf score = vload_f32(s + at), d = vload_f32(dp + at);
			vf e = vpower(vmin(vset(0), vfma(score, c, l[i])));
			p[i] = e;
			if (keep) {
				p[i] = e * vload_f32(keep + at);
				d = d * vload_f32(keep + at);
			}
			ds[i] = e * (d - delta[i]);
			if (x->w.o->softcap > 0) {
				vf t = vmax(vset(-1), score * cap);
				ds[i] = ds[i] * vfma(vset(-1) * t, t, vset(1));
			}
		}

		row[j] = vrow(ds[0], ds[1]);
		vistore(prow + j * COL, vrow(p[0], p[1]));
		vistore(dsrow + j * COL, row[j]);
	}

	vistore(ds2, _mm512_unpacklo_epi16(row[0], row[1]));
	vistore(ds2 + TK / 2 * COL, _mm512_unpackhi_epi16(row[0], row[1]));
}

/* The query of a panel that column i of dS in pairs, and so of dQt, belongs to. */
static inline int order_of(int i)
{
	return i % COL / 4 * 8 + i / COL * 4 + i % 4;
}

/* Rows of P and dS have places for GROUP panels whose products are at work and for as many whose
 * are still to come. */
static inline uint32_t *group_of(uint32_t *rows, int64_t at)
{
	return rows + at / PW % (2 * GROUP) * TK * COL;
}

static inline float *half_of(float *p, int64_t at)
{
	return p + at / PW % 2 * TK * PW;
}

static inline uint32_t *ds2_of(const struct tiles *x, int64_t at)
{
	return x->ds2 + at / PW % 2 * (TK / 2) * PW;
}

static void grad_panel(const struct tiles *x, const struct panel *q, int64_t k0)
{
	const struct work *w = &x->w;
	const int64_t left = x->queue->left, at = q->at;
	const float *dp = half_of(w->ds, at);
	uint32_t *prow = group_of(x->prow, at), *dsrow = group_of(x->dsrow, at);
	uint32_t *ds2 = ds2_of(x, at);
	float *s = half_of(w->p, at);
	vf l[PV], delta[PV];

	if (!q->hi)
		return;
	if (w->o->softcap > 0)
		cap_scores(x, s, PW * TK);
	mask_panel(w, s, q->q0, k0, q->hi);
	if (w->o->dropout > 0)
		dropout_panel(w, q->q0, k0, q->hi);
	UNROLL for (int i = 0; i < PV; i++)
	{
		l[i] = vload_f32(w->max + at + i * ZR_W);
		delta[i] = vload_f32(w->sum + at + i * ZR_W);
	}
	for (int64_t j = q->lo; j < q->hi; j += 2) {
		uint32_t *to = ds2 + j / 2 * COL;
		if (w->o->dropout > 0)
			grad_keys(x, s + j * PW, dp + j * PW, l, delta, w->keep + j * PW,
				  prow + j * COL, dsrow + j * COL, to);
		else
			grad_keys(x, s + j * PW, dp + j * PW, l, delta, NULL, prow + j * COL,
				  dsrow + j * COL, to);
		steps(x->queue, left, j - q->lo, q->hi - q->lo);
	}
}

/* St = K Q', dPt = V dO' */
static void enqueue_both_scores(const struct tiles *x, const struct panel *q)
{
	struct product p = { .c = half_of(x->w.p, q->at) + q->lo * PW,
			     .ldc = PW,
			     .c_next = BLOCK * PW,
			     .a = x->k + q->lo * x->half,
			     .row = x->half * 4,
			     .a_step = COL,
			     .a_next = BLOCK * x->half,
			     .b = x->qt + q->at * x->half,
			     .col = COL * x->half,
			     .b_step = COL * COL,
			     .blocks = x->w.Dp / BLOCK,
			     .times = (q->hi - q->lo) / BLOCK };
	if (!q->hi)
		return;

	enqueue(x->queue, p);
	p.c = half_of(x->w.ds, q->at) + q->lo * PW;
	p.a = x->v + q->lo * x->half;
	p.b = x->dot + q->at * x->half;
	enqueue(x->queue, p);
}

/* dQt += K' dSt */
static void enqueue_queries(const struct tiles *x, const struct panel *q)
{
	const int64_t Dp = x->w.Dp;
	if (q->hi)
		enqueue(x->queue, (struct product){ .c = x->w.ot + q->at * Dp,
						    .ldc = PW,
						    .c_next = BLOCK * PW,
						    .a = x->kt + q->lo / BLOCK * Dp * COL,
						    .row = COL * 4,
						    .a_step = Dp * COL,
						    .a_next = BLOCK * COL,
						    .b = ds2_of(x, q->at) + q->lo / 2 * COL,
						    .col = TK / 2 * COL,
						    .b_step = COL * COL,
						    .blocks = (q->hi - q->lo) / BLOCK,
						    .times = Dp / BLOCK,
						    .add = !q->first });
}

/* dV += Pt dO, dK += dSt Q of the keys from k0 on and the group of panels from `from` on, of n
 * queries from q0 on: each block of keys has the panels that go through it. */
static void enqueue_keys(const struct tiles *x, int64_t q0, int64_t n, int64_t k0, int64_t from)
{
	const struct work *w = &x->w;
	const int64_t Dp = w->Dp, end = least(n, from + GROUP * PW);

	for (int64_t j = 0; j < TK && k0 + j < w->T; j += BLOCK) {
		const int64_t last = k0 + j + BLOCK - 1 - q0; /* of the block, counted from q0 */
		const int64_t i = most(from, most(0, k0 + j - q0) / PW * PW);
		const int64_t to = w->window < w->T ? least(end, last + w->window) : end;
		struct product p = { .c = w->dv + (w->start + k0 + j) * Dp,
				     .ldc = Dp,
				     .c_next = BLOCK,
				     .a = group_of(x->prow, i) + j * COL,
				     .row = COL * 4,
				     .a_step = TK * COL,
				     .b = x->do2 + i / 2 * COL,
				     .col = x->tq / 2 * COL,
				     .b_step = COL * COL,
				     .b_next = x->tq * COL,
				     .blocks = (UP(to, PW) - i) / PW,
				     .times = Dp / BLOCK,
				     .add = 1 };
		if (i >= to)
			continue;
		enqueue(x->queue, p);
		p.c = w->dk + (w->start + k0 + j) * Dp;
		p.a = group_of(x->dsrow, i) + j * COL;
		p.b = x->q2 + i / 2 * COL;
		enqueue(x->queue, p);
	}
}

/* The n queries from q0 on against the keys from k0 on: while a panel's P and dS are computed, tile
 * registers work on those of panels before, and on the scores of the one after. */
static void backward_keys(const struct tiles *x, int64_t q0, int64_t n, int64_t k0)
{
	struct panel before = { 0 }, now = panel_of(x, 0, q0, n, k0), after;

	enqueue_both_scores(x, &now);
	finish(x->queue);
	for (int64_t i = 0; i < n; i += PW) {
		after = panel_of(x, i + PW, q0, n, k0);
		enqueue_queries(x, &before);
		if (i && i % (GROUP * PW) == 0)
			enqueue_keys(x, q0, n, k0, i - GROUP * PW);
		enqueue_both_scores(x, &after);
		grad_panel(x, &now, k0);
		finish(x->queue);
		before = now;
		now = after;
	}

	enqueue_queries(x, &before);
	enqueue_keys(x, q0, n, k0, (n - 1) / (GROUP * PW) * GROUP * PW);
	finish(x->queue);
}

/* -lse / ln 2 and delta of the tile's n queries but the first `skip` into max and sum; around,
 * where P is 0, -infinity and 0. delta also out. */
static void load_delta(const struct tiles *x, const struct zr_op_attention_bwd *op, int64_t q0,
		       int64_t skip, int64_t n, float *delta)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	const uint16_t *dout = at_out(w, op->dout, q0 + skip), *out = at_out(w, o->out, q0 + skip);

	for (int64_t i = 0; i < UP(n, PW); i++) {
		const int64_t e = (i - skip) * o->out_stride;
		const int there = i >= skip && i < n;
		w->sum[i] = there ? dot_bf16(dout + e, out + e, w->D) : 0;
		w->max[i] = there ? -(o->lse[row(w, q0 + i)] * ZR_EXP_LOG2E) : -INFINITY;
	}
	memcpy(delta + row(w, q0 + skip), w->sum + skip, (size_t)(n - skip) * sizeof *delta);
}

/* Of n queries; the first `skip` are not there, src begins behind them. */
static void load_queries(const struct tiles *x, uint32_t *columns, uint32_t *pairs, const void *src,
			 int64_t stride, int64_t skip, int64_t n)
{
	const int64_t padded = UP(n, PW);
	memset(x->q, 0, (size_t)(skip * x->half) * sizeof *x->q);
	load_words(x, x->q + skip * x->half, padded - skip, src, stride, n - skip);
	pack_columns(x, columns, x->q, padded);
	pack_pairs(x, pairs, x->tq, x->q, padded);
}

/* dq of n queries but the first `skip` from dQt. */
static void store_queries(const struct tiles *x, uint16_t *dq, int64_t skip, int64_t n)
{
	const struct work *w = &x->w;
	float rows[COL * COL];

	for (int64_t i = 0; i < UP(n, PW); i += COL)
		for (int64_t d = 0; d < w->D; d += COL) {
			const float *from = w->ot + i / PW * PW * w->Dp + d * PW + i % PW;
			transpose_words(rows, from, PW);
			for (int r = 0; r < COL; r++) {
				const int64_t q = i / PW * PW + order_of((int)(i % PW) + r);
				if (q >= skip && q < n)
					vstore_n(dq, (q - skip) * w->o->q_stride + d, ZR_BF16,
						 vload_f32(rows + r * COL) * vset(w->o->scale),
						 vlanes(w->D - d));
			}
		}
}

/* Of the queries from q0 on; the first `skip` are not there. */
static void backward_tile(const struct tiles *x, const struct zr_op_attention_bwd *op, int64_t q0,
			  int64_t skip, float *delta)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	const int64_t n = least(x->tq, w->T - q0);

	load_queries(x, x->dot, x->do2, at_out(w, op->dout, q0 + skip), o->out_stride, skip, n);
	load_queries(x, x->qt, x->q2, at_q(w, o->q, q0 + skip), o->q_stride, skip, n);
	load_delta(x, op, q0, skip, n, delta);
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		const int64_t keys = least(TK, w->T - k0), padded = UP(keys, BLOCK);
		load_words(x, x->k, padded, at_k(w, o->k, k0), o->k_stride, keys);
		load_words(x, x->v, padded, at_v(w, o->v, k0), o->v_stride, keys);
		pack_across(x, x->kt, x->k, padded);
		backward_keys(x, q0, n, k0);
	}

	store_queries(x, at_q(w, op->dq, q0 + skip), skip, n);
}

/* Blocks of queries begin with the document, wherever the first query is. */
static void backward_document(const struct tiles *x, const struct zr_op_attention_bwd *op,
			      float *delta)
{
	const int64_t T = x->w.T, from = first_query(&x->w);

	for (int64_t q0 = from / PW * PW; from < T && q0 < T; q0 += x->tq)
		backward_tile(x, op, q0, most(0, from - q0), delta);
}

void ZR_SIMD(attention_bwd)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch, size = sums_size(o);
	struct tiles x = { 0 };
	struct work *w = &x.w;

	if (!zr_attention_in_pairs(o)) {
		zr_attention_bwd_avx512(op, parts, lo, hi, scratch, delta, sums);
		return;
	}
	layout(&x, o, scratch, 1);
	*x.queue = (struct queue){ 0 };
	tiles_begin();
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

	tiles_end();
}

void ZR_SIMD(attention_bwd_sum)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				int64_t hi, float *sums)
{
	if (zr_attention_in_pairs(&op->fwd))
		sum_parts(op, parts, lo, hi, sums, op->fwd.scale);
	else
		zr_attention_bwd_sum_avx512(op, parts, lo, hi, sums);
}

int64_t ZR_SIMD(attention_sums)(const struct zr_op_attention *o)
{
	return zr_attention_in_pairs(o) ? sums_size(o) : zr_attention_sums_avx512(o);
}
