/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.simd.c - causal attention and its gradients in vectors; formulas in attention.c.
 *
 * After FlashAttention (Dao et al. 2022): tiles of TQ queries against TK keys, online softmax
 * forward, P recomputed from lse backward. A tile is worked on in panels of PW queries, and lanes
 * run over the queries of a panel: S is kept transposed, [keys, PW], so that maximum, sum, causal
 * mask and rescaling are vertical, and an odd T or head_dim D needs a masked tail only where it is
 * loaded and stored. Tiles begin where a document begins: each is worked on as if it stood alone.
 * Everything else is one of three small products, with one micro-kernel:
 *
 *   S = K Qt    dP = V dOt       scores       [keys, PW]    Qt, dOt [D, PW]; Q carries the scale
 *   dV += P dO  dK += dS Q       add_keys     [keys, Dp]    Q, dO [PW, Dp], Dp = D padded
 *   Ot += V' P  dQt += K' dS     add_queries  [D, PW]
 *
 * K and V of a tile are widened to fp32 into scratch. Keys beyond a panel's last query are skipped,
 * and tiles before the window of a panel's first.
 * Products round their rows up to MR: what lies there is zero or never read.
 *
 * Invariant I1: a head (backward: a part of those that share a key-value head) is computed by one
 * call, its tiles in index order, each element of a product one chain over ascending k. The
 * backward computes S by the same instructions on the same values as the forward: rounding of large
 * scores cancels in S - lse.
 *
 * Scratch: tiles, whatever T is. Sums of a part: dk and dv, [T + KEYS, Dp] each.
 */
#include "attention_simd.h"

#include <float.h>

/* ---- forward --------------------------------------------------------------------- */

/* New maximum of each query in m, finite where it has not seen a key yet; what the old sums shrink
 * by, in shrink. */
ZR_INLINE void panel_max(const float *s, int64_t keys, float *max, vf m[PV], vf shrink[PV])
{
	UNROLL for (int c = 0; c < PV; c++)
		m[c] = vload_f32(max + c * ZR_W);
	for (int64_t j = 0; j < keys; j++)
		UNROLL for (int c = 0; c < PV; c++)
			m[c] = vmax(m[c], vload_f32(s + j * PW + c * ZR_W));
	UNROLL for (int c = 0; c < PV; c++) {
		vf old = vload_f32(max + c * ZR_W);
		vstore_f32(max + c * ZR_W, m[c]);
		m[c] = vmax(vset(-FLT_MAX), m[c]);
		shrink[c] = vexp(old - m[c]);
	}
}

/* p[keys, PW] from scores to exp(score - max), times keep if not NULL; max, sum [PW] and ot [D, PW]
 * follow the maximum. */
static void softmax_panel(const struct work *w, float *p, int64_t keys, float *max, float *sum,
			  float *ot, const float *keep)
{
	vf m[PV], shrink[PV], total[PV];

	panel_max(p, keys, max, m, shrink);
	UNROLL for (int c = 0; c < PV; c++)
		total[c] = vload_f32(sum + c * ZR_W) * shrink[c];
	for (int64_t j = 0; j < keys; j++)
		UNROLL for (int c = 0; c < PV; c++) {
			int64_t i = j * PW + c * ZR_W;
			vf e = vexp(vload_f32(p + i) - m[c]);
			total[c] = total[c] + e;
			if (keep)
				e = e * vload_f32(keep + i);
			vstore_f32(p + i, e);
		}
	UNROLL for (int c = 0; c < PV; c++)
		vstore_f32(sum + c * ZR_W, total[c]);
	for (int64_t d = 0; d < w->D; d++)
		UNROLL for (int c = 0; c < PV; c++) {
			float *x = ot + d * PW + c * ZR_W;
			vstore_f32(x, vload_f32(x) * shrink[c]);
		}
}

/* Queries [q0, q0 + PW), panel i of the tile, against the keys in scratch, from k0 on. */
static void forward_panel(const struct work *w, int64_t i, int64_t q0, int64_t k0)
{
	int64_t keys = keys_of(w, q0, k0);
	float *ot = w->ot + i * w->panel_size;

	if (keys <= 0)
		return;
	score_panel(w, i, q0, k0, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, keys);
	softmax_panel(w, w->p, keys, w->max + i * PW, w->sum + i * PW, ot,
		      w->o->dropout > 0 ? w->keep : NULL);
	add_queries(w, ot, w->v, w->p, keys);
}

/* out and lse of the n queries from q0 on. */
static void forward_finish(const struct work *w, int64_t q0, int64_t n)
{
	const struct zr_op_attention *o = w->o;
	float *lse = o->lse + row(w, q0);

	for (int64_t i = 0; i < n; i += ZR_W) {
		vf r = vset(1) / vload_f32(w->sum + i);
		float *x = w->ot + i / PW * w->panel_size + i % PW;
		for (int64_t d = 0; d < w->D; d++)
			vstore_f32(x + d * PW, vload_f32(x + d * PW) * r);
	}
	to_rows(w, w->rows, w->ot, n);
	store_rows(w, at_out(w, o->out, q0), o->out_stride, w->rows, n, 1);
	for (int64_t i = 0; i < n; i++)
		lse[i] = w->max[i] + zr_ln(w->sum[i]);
}

static void forward_tile(const struct work *w, int64_t q0)
{
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TQ, w->T - q0), panels = UP(n, PW) / PW;

	load_rows(w, w->rows, w->Dp, panels * PW, at_q(w, o->q, q0), o->q_stride, n, o->scale);
	to_panels(w, w->qt, w->rows, n);
	memset(w->ot, 0, (size_t)(panels * w->panel_size) * sizeof *w->ot);
	for (int64_t i = 0; i < panels * PW; i++) {
		w->max[i] = -INFINITY;
		w->sum[i] = 0;
	}
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		load_keys(w, k0);
		for (int64_t i = 0; i < panels; i++)
			forward_panel(w, i, q0 + i * PW, k0);
	}
	forward_finish(w, q0, n);
}

/* ---- scratch --------------------------------------------------------------------- */

/* The next n floats of scratch, counted from NULL to learn its size. */
static float *carve(char *base, uint64_t *used, int64_t n)
{
	float *p = base ? (float *)(base + *used) : NULL;
	*used += UP((uint64_t)n * sizeof *p, 64);
	return p;
}

static uint64_t layout(struct work *w, const struct zr_op_attention *o, char *base, int backward)
{
	uint64_t used = 0;
	int64_t panels;

	w->o = o;
	w->D = o->head_dim;
	w->window = o->window ? least(o->window, o->length) : o->length;
	w->Dp = UP(w->D, NR * ZR_W);
	w->ldk = w->Dp + MR;
	w->panel_size = (w->Dp + MR) * PW;
	panels = TQ / PW * w->panel_size;
	w->k = carve(base, &used, KEYS * w->ldk);
	w->v = carve(base, &used, KEYS * w->ldk);
	w->p = carve(base, &used, KEYS * PW);
	w->keep = carve(base, &used, KEYS * PW);
	w->words = carve(base, &used, PW * WORDS);
	w->max = carve(base, &used, TQ);
	w->sum = carve(base, &used, TQ);
	w->rows = carve(base, &used, TQ * w->Dp);
	w->qt = carve(base, &used, panels);
	w->ot = carve(base, &used, panels);
	if (backward) {
		w->ds = carve(base, &used, KEYS * PW);
		w->drows = carve(base, &used, TQ * w->Dp);
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
	struct work w = { 0 };

	layout(&w, o, scratch, 0);
	for (int64_t n = lo; n < hi; n++) {
		w.b = n / o->heads;
		w.h = n % o->heads;
		w.g = w.h / (o->heads / o->kv_heads);
		for (w.start = w.T = 0; next_document(&w);) {
			int64_t q0 = w.start < o->first ? o->first - w.start : 0;
			for (; q0 < w.T; q0 += TQ)
				forward_tile(&w, q0);
		}
	}
}

/* ---- backward -------------------------------------------------------------------- */

/* p from scores to m P, ds from dP to dS; lse and delta [PW]. P is at most 1 (see attention.c). */
static void grad_panel(float *p, float *ds, int64_t keys, const float *lse, const float *delta,
		       const float *keep, float cap)
{
	vf l[PV], r[PV], by = vset(1) / vset(cap > 0 ? cap : 1);

	UNROLL for (int c = 0; c < PV; c++) {
		l[c] = vload_f32(lse + c * ZR_W);
		r[c] = vload_f32(delta + c * ZR_W);
	}
	for (int64_t j = 0; j < keys; j++)
		UNROLL for (int c = 0; c < PV; c++) {
			int64_t i = j * PW + c * ZR_W;
			vf s = vload_f32(p + i), e = vexp(vmin(vset(0), s - l[c]));
			vf m = keep ? vload_f32(keep + i) : vset(1);
			vf x = e * (m * vload_f32(ds + i) - r[c]);
			if (cap > 0) { /* a masked score is -infinity, its slope finite */
				vf t = vmax(vset(-1), s * by);
				x = x * vfma(vset(-1) * t, t, vset(1));
			}
			vstore_f32(p + i, m * e);
			vstore_f32(ds + i, x);
		}
	/* rows that add_keys rounds up to */
	for (int64_t i = keys * PW; i < UP(keys, MR) * PW; i++)
		p[i] = ds[i] = 0;
}

static void backward_panel(const struct work *w, int64_t i, int64_t q0, int64_t k0)
{
	int64_t keys = keys_of(w, q0, k0);

	if (keys <= 0)
		return;
	score_panel(w, i, q0, k0, keys);
	scores(w, w->ds, w->v, w->dot + i * w->panel_size, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, keys);
	grad_panel(w->p, w->ds, keys, w->max + i * PW, w->sum + i * PW,
		   w->o->dropout > 0 ? w->keep : NULL, w->o->softcap);
	add_keys(w, w->dv + (w->start + k0) * w->Dp, w->p, w->drows + i * PW * w->Dp, keys);
	add_keys(w, w->dk + (w->start + k0) * w->Dp, w->ds, w->rows + i * PW * w->Dp, keys);
	add_queries(w, w->ot + i * w->panel_size, w->k, w->ds, keys);
}

/* lse and delta of the tile's n queries into max and sum, 0 beyond; delta also out. dot holds
 * dO. */
static void load_delta(const struct work *w, int64_t q0, int64_t n, float *delta)
{
	const struct zr_op_attention *o = w->o;
	int64_t padded = UP(n, PW);

	load_rows(w, w->rows, w->Dp, padded, at_out(w, o->out, q0), o->out_stride, n, 1);
	to_panels(w, w->ot, w->rows, n);
	for (int64_t i = 0; i < padded; i += ZR_W) {
		int64_t x = i / PW * w->panel_size + i % PW;
		vf s = vset(0);
		for (int64_t d = 0; d < w->D; d++)
			s = vfma(vload_f32(w->dot + x + d * PW), vload_f32(w->ot + x + d * PW), s);
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
	int64_t n = least(TQ, w->T - q0), panels = UP(n, PW) / PW;

	load_rows(w, w->drows, w->Dp, panels * PW, at_out(w, op->dout, q0), o->out_stride, n, 1);
	to_panels(w, w->dot, w->drows, n);
	load_delta(w, q0, n, delta);
	load_rows(w, w->rows, w->Dp, panels * PW, at_q(w, o->q, q0), o->q_stride, n, o->scale);
	to_panels(w, w->qt, w->rows, n);
	memset(w->ot, 0, (size_t)(panels * w->panel_size) * sizeof *w->ot);
	for (int64_t k0 = first_tile(w, q0); k0 < q0 + n; k0 += TK) {
		load_keys(w, k0);
		for (int64_t i = 0; i < panels; i++)
			backward_panel(w, i, q0 + i * PW, k0);
	}
	to_rows(w, w->rows, w->ot, n);
	store_rows(w, at_q(w, op->dq, q0), o->q_stride, w->rows, n, o->scale);
}

int64_t ZR_SIMD(attention_sums)(const struct zr_op_attention *o)
{
	return sums_size(o);
}

void ZR_SIMD(attention_bwd)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch,
		size = sums_size(o);
	struct work w = { 0 };

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
				for (int64_t q0 = 0; q0 < w.T; q0 += TQ)
					backward_tile(&w, op, q0, delta);
	}
}

void ZR_SIMD(attention_bwd_sum)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
				int64_t hi, float *sums)
{
	sum_parts(op, parts, lo, hi, sums, 1);
}
