/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiles.simd.c - causal attention of bf16 by tile registers; formulas in attention.c, the
 * order of operations in attention_tiles.h. Operands of other types take attention.simd.c. The
 * backward is in attention_tiles_bwd.simd.c.
 *
 *   S = Q K'      a query is a row, lanes run over keys; K' has its words transposed
 *   O += P V      P is rounded where S lay; V has its rows interleaved
 *
 * K' and V of KEPT keys are packed once for all queries of a tile, and each panel goes through them
 * with its O in the cache.
 *
 * Scratch: tiles, whatever T is.
 */
#include "attention_tiles_simd.h"
#include "double_simd.h"

/* Scores [PW, TK] of keys that the queries, from q0 on, do not attend to become -infinity. */
static void mask_rows(const struct work *w, float *s, int64_t q0, int64_t k0, int64_t lo,
		      int64_t hi)
{
	if (k0 + hi <= q0 + 1 && k0 + lo > q0 + PW - 1 - w->window)
		return;

	for (int64_t i = 0; i < PW; i++, s += TK) {
		const int64_t end = q0 + i + 1 - k0, begin = end - w->window;
		for (int64_t j = most(lo, end / ZR_W * ZR_W); j < hi; j += ZR_W)
			vstore_f32(s + j, vfirst(vload_f32(s + j), vlanes(most(0, end - j)),
						 vset(-INFINITY)));
		for (int64_t j = lo; j < least(begin, hi); j += ZR_W)
			vstore_f32(s + j,
				   vfirst(vset(-INFINITY), vlanes(begin - j), vload_f32(s + j)));
	}
}

/* The maximum of each of 16 vectors */
ZR_INLINE vf vmax_of_each(vf m[COL])
{
	vf four[4];

	UNROLL for (int i = 0; i < COL; i += 4)
	{
		const vf *v = m + i;
		const __m512d a = _mm512_castps_pd(
			vmax(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1])));
		const __m512d b = _mm512_castps_pd(
			vmax(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3])));
		four[i / 4] = vmax(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
				   _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
	}

	UNROLL for (int i = 0; i < 4; i += 2)
		four[i] = vmax(_mm512_shuffle_f32x4(four[i], four[i + 1], 0x44),
			       _mm512_shuffle_f32x4(four[i], four[i + 1], 0xee));
	return vmax(_mm512_shuffle_f32x4(four[0], four[2], 0x88),
		    _mm512_shuffle_f32x4(four[0], four[2], 0xdd));
}

/* Of 16 rows of scores [16, TK]: what they are relative to follows their maxima in steps; returns
 * what sums shrink by. */
ZR_INLINE vf follow_maxima(const struct tiles *x, const float *s, int64_t lo, int64_t hi, float *n)
{
	const vf old = vload_f32(n), c = vset(x->unit * ZR_EXP_LOG2E);
	vf m[COL], new;

	UNROLL for (int i = 0; i < COL; i++) m[i] = vset(-INFINITY);
	for (int64_t j = lo; j < hi; j += ZR_W)
		UNROLL for (int i = 0; i < COL; i++) m[i] = vmax(m[i], vload_f32(s + i * TK + j));
	new = vmax_of_each(m);
	new = vselect_less(vset(ZR_TILES_GROWTH), (new - old) * c, new, old);
	vstore_f32(n, new);
	return vpower((old - new) * c);
}

/* A row of scores becomes one of P, in the same place; returns the sums of the lanes. */
ZR_INLINE vf softmax_row(const struct tiles *x, float *s, vf n, vf sum, const float *keep,
			 int64_t lo, int64_t hi)
{
	const vf c = vset(x->unit * ZR_EXP_LOG2E);

	UNROLL for (int64_t j = lo; j < hi; j += BLOCK)
	{
		vf a = vpower((vload_f32(s + j) - n) * c);
		vf b = vpower((vload_f32(s + j + ZR_W) - n) * c);
		sum = (sum + a) + b;
		if (keep) {
			a = a * vload_f32(keep + j);
			b = b * vload_f32(keep + j + ZR_W);
		}
		vstore_f32(s + j / 2, vfrom_bits(vrow(a, b)));
	}
	return sum;
}

/* Rows [i, end) of a panel, at most 16, with their scores in s; `left` steps are to be done beside
 * the whole panel. x->by gets what O is to shrink by; returns whether it is. */
static int softmax_rows(const struct tiles *x, const struct panel *p, float *s, int64_t i,
			int64_t end, int64_t left)
{
	const struct work *w = &x->w;
	float *sums = w->sum + p->at * ZR_W;
	const float *relative = w->max + p->at;
	const vf shrink = follow_maxima(x, s + i * TK, p->lo, p->hi, w->max + p->at + i);
	const int shrinks = _mm512_cmp_ps_mask(shrink, vset(1), _CMP_NEQ_UQ) != 0;

	vstore_f32(x->by + i, shrink);
	for (int64_t r = i; r < end; r++) {
		vf sum = vset(0), n = vset(relative[r]);
		if (!p->first)
			sum = vload_f32(sums + r * ZR_W);
		if (!p->first && shrinks)
			sum = sum * vset(x->by[r]);
		if (w->o->dropout > 0)
			sum = softmax_row(x, s + r * TK, n, sum, w->words + r * WORDS + 4, p->lo,
					  p->hi);
		else if (p->hi - p->lo == TK)
			sum = softmax_row(x, s + r * TK, n, sum, NULL, 0, TK);
		else
			sum = softmax_row(x, s + r * TK, n, sum, NULL, p->lo, p->hi);
		vstore_f32(sums + r * ZR_W, sum);
		steps(x->queue, left, r, PW);
	}
	return !p->first && shrinks;
}

static int softmax_panel(const struct tiles *x, const struct panel *p, float *s)
{
	const struct work *w = &x->w;
	const int64_t left = x->queue->left;
	int shrinks;

	if (w->largest) {
		mask_rows(w, s, p->q0, p->k0, p->lo, p->hi);
		note_largest(w, s + p->lo, TK, p->n, p->hi - p->lo);
	}
	if (w->o->softcap > 0)
		cap_scores(x, s, PW * TK);
	mask_rows(w, s, p->q0, p->k0, p->lo, p->hi);
	if (w->o->dropout > 0)
		dropout_words(w, p->q0, p->k0, p->hi);
	shrinks = softmax_rows(x, p, s, 0, least(p->n, COL), left);
	if (p->n > COL)
		shrinks |= softmax_rows(x, p, s, COL, p->n, left);
	return shrinks;
}

static void shrink_panel(const struct tiles *x, const struct panel *p)
{
	const int64_t Dp = x->w.Dp;
	float *out = x->w.ot + p->at * Dp;

	for (int64_t r = 0; r < p->n; r++, out += Dp) {
		const vf by = vset(x->by[r]);
		for (int64_t d = 0; d < Dp; d += ZR_W)
			vstore_f32(out + d, vload_f32(out + d) * by);
	}
}

/* S = Q K' */
static void enqueue_scores(const struct tiles *x, const struct panel *p, float *s)
{
	const int64_t Dp = x->w.Dp;
	if (p->hi)
		enqueue(x->queue,
			(struct product){ .c = s + p->lo,
					  .ldc = TK,
					  .c_next = BLOCK,
					  .a = x->q + p->at * x->half,
					  .row = Dp * 2,
					  .a_step = COL,
					  .b = x->kt + (p->k0 - x->packed + p->lo) * x->half,
					  .col = COL * x->half,
					  .b_step = COL * COL,
					  .b_next = BLOCK * x->half,
					  .blocks = Dp / BLOCK,
					  .times = (p->hi - p->lo) / BLOCK });
}

/* O += P V */
static void enqueue_values(const struct tiles *x, const struct panel *p, const float *s)
{
	const int64_t Dp = x->w.Dp;
	if (p->hi)
		enqueue(x->queue,
			(struct product){ .c = x->w.ot + p->at * Dp,
					  .ldc = Dp,
					  .c_next = BLOCK,
					  .a = (const uint32_t *)(const void *)s + p->lo / 2,
					  .row = TK * 4,
					  .a_step = COL,
					  .b = x->v2 + (p->k0 - x->packed + p->lo) / 2 * COL,
					  .col = KEPT / 2 * COL,
					  .b_step = COL * COL,
					  .b_next = KEPT * COL,
					  .blocks = (p->hi - p->lo) / BLOCK,
					  .times = Dp / BLOCK,
					  .add = !p->first });
}

/* The panel and tile of packed keys after p, of n queries from q0 on. */
static struct panel next_of(const struct tiles *x, const struct panel *p, int64_t q0, int64_t n)
{
	const struct work *w = &x->w;
	int64_t at = p->at, k0 = p->k0 + TK;

	while (at < n && k0 >= least(x->packed + KEPT, q0 + at + PW)) {
		at += PW;
		k0 = most(x->packed, first_tile(w, q0 + at));
	}
	return panel_of(x, at, q0, n, k0);
}

/* The n queries from q0 on against the packed keys: while a panel's exponentials are computed,
 * tile registers multiply P of the one before by V, and queries of the one after by K. */
static void forward_keys(const struct tiles *x, int64_t q0, int64_t n)
{
	float *const s = x->w.p;
	struct panel before = { .at = -PW, .k0 = INT64_MAX / 2 }, after,
		     now = next_of(x, &before, q0, n);

	enqueue_scores(x, &now, s);
	finish(x->queue);
	for (int odd = 0; now.hi || before.hi; odd = !odd, before = now, now = after) {
		float *mine = s + odd * PW * TK, *other = s + !odd * PW * TK;
		int shrinks = 0;
		after = next_of(x, &now, q0, n);
		enqueue_values(x, &before, other);
		enqueue_scores(x, &after, other);
		if (now.hi)
			shrinks = softmax_panel(x, &now, mine);
		finish(x->queue);
		if (shrinks)
			shrink_panel(x, &now);
	}
}

/* out and lse of the n queries from q0 on, without the first `skip`. */
static void forward_finish(const struct tiles *x, int64_t q0, int64_t skip, int64_t n)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	float sums[COL];

	for (int64_t i = 0; i < n; i++) {
		sums[i % COL] = vsum(vload_f32(w->sum + i * ZR_W));
		if (i % COL < COL - 1 && i < n - 1)
			continue;
		const int64_t at = i / COL * COL;
		const vf sum = vload_f32_n(sums, (int)(i - at) + 1);
		const __m256 low = _mm512_cvtpd_ps(vlogd(vdlow(sum))),
			     high = _mm512_cvtpd_ps(vlogd(vdhigh(sum)));
		vf ln = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
		ln = vselect_less(sum, vset(INFINITY), ln, sum); /* a NaN stays */
		vstore_f32(w->max + at, vload_f32(w->max + at) * vset(x->unit) + ln);
		vstore_f32(sums, vset(1) / sum);
		for (int64_t r = most(at, skip); r <= i; r++) {
			uint16_t *out = at_out(w, o->out, q0 + r);
			const vf by = vset(sums[r - at]);
			for (int64_t d = 0; d < w->D; d += ZR_W)
				vstore_n(out, d, ZR_BF16,
					 vfma(vload_f32(w->ot + r * w->Dp + d), by, vset(0)),
					 vlanes(w->D - d));
		}
	}

	memcpy(o->lse + row(w, q0 + skip), w->max + skip, (size_t)(n - skip) * sizeof *o->lse);
}

/* K' and V of so many keys from x->packed on. */
static void pack_keys(const struct tiles *x, int64_t keys)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;

	for (int64_t i = 0; i < keys; i += BLOCK) {
		const int64_t k0 = x->packed + i, n = least(BLOCK, keys - i);
		load_words(x, x->raw, BLOCK, at_k(w, o->k, k0), o->k_stride, n);
		pack_columns(x, x->kt + i * x->half, x->raw, BLOCK);
		load_words(x, x->raw, BLOCK, at_v(w, o->v, k0), o->v_stride, n);
		pack_pairs(x, x->v2 + i / 2 * COL, KEPT, x->raw, BLOCK);
	}
}

/* Of the queries from q0 on; the first `skip` are not there. */
static void forward_tile(struct tiles *x, int64_t q0, int64_t skip)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	const int64_t n = least(x->tq, w->T - q0);

	memset(x->q, 0, (size_t)(skip * x->half) * sizeof *x->q);
	load_words(x, x->q + skip * x->half, UP(n, PW) - skip, at_q(w, o->q, q0 + skip),
		   o->q_stride, n - skip);
	for (int64_t i = 0; i < UP(n, PW); i += ZR_W)
		vstore_f32(w->max + i, vset(ZR_PAIRS_LEAST));
	for (x->packed = first_tile(w, q0); x->packed < q0 + n; x->packed += KEPT) {
		pack_keys(x, least(KEPT, least(w->T, q0 + n) - x->packed));
		forward_keys(x, q0, n);
	}
	forward_finish(x, q0, skip, n);
}

#include "attention_few.h"

uint64_t ZR_SIMD(attention_scratch)(const struct zr_op_attention *o, int backward)
{
	struct tiles x;
	if (!zr_attention_in_pairs(o))
		return zr_attention_scratch_avx512(o, backward);
	return layout(&x, o, NULL, backward);
}

void ZR_SIMD(attention)(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch)
{
	struct tiles x = { 0 };
	struct work *w = &x.w;
	float largest;

	if (!zr_attention_in_pairs(o)) {
		zr_attention_avx512(o, lo, hi, scratch);
		return;
	}
	layout(&x, o, scratch, 0);
	*x.queue = (struct queue){ 0 };
	if (o->max_scores)
		w->largest = &largest;
	tiles_begin();
	for (int64_t n = lo; n < hi; n++) {
		largest = 0;
		w->b = n / o->heads;
		w->h = n % o->heads;
		w->g = w->h / (o->heads / o->kv_heads);
		for (w->start = w->T = 0; next_document(w);) {
			int64_t from = first_query(w), q0 = from / PW * PW;
			if (w->T - from <= FEW && !(o->dropout > 0))
				for (; from < w->T; from++)
					forward_query(&x, from);
			for (; from < w->T && q0 < w->T; q0 += x.tq)
				forward_tile(&x, q0, most(0, from - q0));
		}
		raise_largest(w, o->scale);
	}

	tiles_end();
}
