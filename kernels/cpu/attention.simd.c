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
#include "simd.h"
#include "table.h"

#include <float.h>

#define TQ 128 /* queries per tile: how often a loaded K and V is used */
#define TK 64
#define PW 32
#define PV (PW / ZR_W) /* vectors across a panel */

/* The micro-kernel's block: MR rows of NR vectors. */
#define NR 2
#if ZR_W == 16
#define MR 8
#else
#define MR 6
#endif

#define UP(x, unit) (((x) + (unit)-1) / (unit) * (unit))
#define KEYS UP(TK, MR)
/* dropout factors of a query and a tile's keys, wherever they start */
#define WORDS (4 + TK + 4 * ZR_W)
#define UNROLL _Pragma("GCC unroll 16")

/* The work on one document of a head: where its operands are, and scratch. Panels are [D, PW],
 * panel_size floats. Tokens are counted from the document's first one. */
struct work {
	const struct zr_op_attention *o;
	int64_t T, D, Dp, ldk, panel_size;
	int64_t window;          /* tokens that a query attends to, at most all */
	int64_t b, h, g;         /* batch entry, query head, key-value head */
	int64_t start;           /* the document's first token; T of them */
	float *k, *v;            /* [KEYS, ldk] */
	float *p, *ds;           /* [KEYS, PW] */
	float *keep, *words;     /* [KEYS, PW], [PW, WORDS]: dropout's factors */
	float *max, *sum;        /* [TQ] */
	float *rows, *drows;     /* [TQ, Dp]: Q, dO */
	float *qt, *ot, *dot;    /* panels: Q, O or dQ, dO */
	float *dk, *dv;          /* [T + KEYS, Dp], sums of a part */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- products -------------------------------------------------------------------- */

/* c[MR, NR*ZR_W] (+)= sum over k of a[m*row + k*step] * b[k, NR*ZR_W] */
ZR_INLINE void micro(int add, float *c, int64_t ldc, const float *a, int64_t row, int64_t step,
		     const float *b, int64_t ldb, int64_t k)
{
	vf acc[MR][NR];

	UNROLL for (int i = 0; i < MR; i++)
		UNROLL for (int n = 0; n < NR; n++)
			acc[i][n] = add ? vload_f32(c + i * ldc + n * ZR_W) : vset(0);
	for (int64_t j = 0; j < k; j++) {
		vf y[NR];
		UNROLL for (int n = 0; n < NR; n++)
			y[n] = vload_f32(b + n * ZR_W);
		UNROLL for (int i = 0; i < MR; i++) {
			vf x = vset(a[i * row]);
			UNROLL for (int n = 0; n < NR; n++)
				acc[i][n] = vfma(x, y[n], acc[i][n]);
		}
		a += step;
		b += ldb;
	}
	UNROLL for (int i = 0; i < MR; i++)
		UNROLL for (int n = 0; n < NR; n++)
			vstore_f32(c + i * ldc + n * ZR_W, acc[i][n]);
}

/* c[UP(m, MR), n] (+)= A b[k, n]; n a multiple of NR * ZR_W. */
ZR_INLINE void product(int add, float *c, int64_t ldc, const float *a, int64_t row, int64_t step,
		       const float *b, int64_t ldb, int64_t m, int64_t n, int64_t k)
{
	for (int64_t col = 0; col < n; col += NR * ZR_W)
		for (int64_t i = 0; i < m; i += MR)
			micro(add, c + i * ldc + col, ldc, a + i * row, row, step, b + col, ldb, k);
}

/* c[keys, PW] = a[keys, D] b[D, PW] */
static void scores(const struct work *w, float *c, const float *a, const float *b, int64_t keys)
{
	product(0, c, PW, a, w->ldk, 1, b, PW, keys, PW, w->D);
}

/* c[keys, Dp] += a[keys, PW] b[PW, Dp] */
static void add_keys(const struct work *w, float *c, const float *a, const float *b, int64_t keys)
{
	product(1, c, w->Dp, a, PW, 1, b, w->Dp, keys, w->Dp, PW);
}

/* c[D, PW] += a[keys, D]' b[keys, PW] */
static void add_queries(const struct work *w, float *c, const float *a, const float *b,
			int64_t keys)
{
	product(1, c, PW, a, 1, w->ldk, b, PW, w->D, PW, keys);
}

/* ---- load and store -------------------------------------------------------------- */

ZR_INLINE void load(float *dst, int64_t ld, int64_t padded, const void *src, int64_t stride,
		    int64_t n, int64_t D, float scale, int32_t dtype)
{
	for (int64_t i = 0; i < padded; i++) {
		int64_t d = 0;
		for (; i < n && d < D; d += ZR_W) {
			int64_t e = i * stride + d;
			vf x = D - d < ZR_W ? vload_n(src, e, dtype, (int)(D - d)) :
					      vload(src, e, dtype);
			vstore_f32(dst + i * ld + d, x * vset(scale));
		}
		for (; d < ld; d++)
			dst[i * ld + d] = 0;
	}
}

/* dst[padded, ld] = scale * rows [0, n) of src, `stride` elements apart, D wide; zeros around. */
static void load_rows(const struct work *w, float *dst, int64_t ld, int64_t padded, const void *src,
		      int64_t stride, int64_t n, float scale)
{
	ZR_BY_DTYPE(w->o->dtype, load, dst, ld, padded, src, stride, n, w->D, scale);
}

ZR_INLINE void store(void *dst, int64_t stride, const float *src, int64_t ld, int64_t n, int64_t D,
		     float scale, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t d = 0; d < D; d += ZR_W) {
			vf x = vload_f32(src + i * ld + d) * vset(scale);
			if (D - d < ZR_W)
				vstore_n(dst, i * stride + d, dtype, x, (int)(D - d));
			else
				vstore(dst, i * stride + d, dtype, x);
		}
}

/* rows [0, n) of dst, `stride` elements apart = scale * src[n, Dp] */
static void store_rows(const struct work *w, void *dst, int64_t stride, const float *src, int64_t n,
		       float scale)
{
	ZR_BY_DTYPE(w->o->dtype, store, dst, stride, src, w->Dp, n, w->D, scale);
}

/* dst[cols, ldd] = src[rows, lds]'; rows and cols are multiples of 4 */
static void transpose(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows,
		      int64_t cols)
{
	for (int64_t i = 0; i < rows; i += 4)
		for (int64_t j = 0; j < cols; j += 4) {
			const float *s = src + i * lds + j;
			float *d = dst + j * ldd + i;
			__m128 a = _mm_loadu_ps(s), b = _mm_loadu_ps(s + lds);
			__m128 c = _mm_loadu_ps(s + 2 * lds), e = _mm_loadu_ps(s + 3 * lds);
			_MM_TRANSPOSE4_PS(a, b, c, e);
			_mm_storeu_ps(d, a);
			_mm_storeu_ps(d + ldd, b);
			_mm_storeu_ps(d + 2 * ldd, c);
			_mm_storeu_ps(d + 3 * ldd, e);
		}
}

/* Address of row r of the heads at h, `head` apart, or D. */
static void *at(const struct work *w, const void *p, int64_t stride, int64_t head, int64_t r,
		int64_t h)
{
	return zr_at(p, r * stride + h * (head ? head : w->D), w->o->dtype);
}

/* Row of token t; of query t, of which those before `first` are not there. */
static int64_t token(const struct work *w, int64_t t)
{
	return w->b * w->o->length + w->start + t;
}

static int64_t query(const struct work *w, int64_t t)
{
	return token(w, t) - (w->b + 1) * w->o->first;
}

/* Of token t: in k or dk, in v or dv, in q or dq, in out or dout. */
static void *at_k(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->k_stride, w->o->k_head, token(w, t), w->g);
}

static void *at_v(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->v_stride, w->o->v_head, token(w, t), w->g);
}

static void *at_q(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->q_stride, w->o->q_head, query(w, t), w->h);
}

static void *at_out(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->out_stride, 0, query(w, t), w->h);
}

/* Number of query t among all rows of all heads. */
static int64_t row(const struct work *w, int64_t t)
{
	const struct zr_op_attention *o = w->o;
	return (w->b * o->heads + w->h) * (o->length - o->first) + w->start + t - o->first;
}

/* The next document of the head, T = 0: none is left. */
static int next_document(struct work *w)
{
	w->start += w->T;
	w->T = w->start < w->o->length ? zr_document(w->o, w->b, w->start) : 0;
	return w->T > 0;
}

static void load_keys(const struct work *w, int64_t k0)
{
	const struct zr_op_attention *o = w->o;
	int64_t n = least(TK, w->T - k0);

	load_rows(w, w->k, w->ldk, UP(n, MR), at_k(w, o->k, k0), o->k_stride, n, 1);
	load_rows(w, w->v, w->ldk, UP(n, MR), at_v(w, o->v, k0), o->v_stride, n, 1);
}

/* Rows of the tile's panels from rows, or back. */
static void to_panels(const struct work *w, float *panels, const float *rows, int64_t n)
{
	for (int64_t i = 0; i < n; i += PW)
		transpose(panels + i / PW * w->panel_size, PW, rows + i * w->Dp, w->Dp, PW, w->Dp);
}

static void to_rows(const struct work *w, float *rows, const float *panels, int64_t n)
{
	for (int64_t i = 0; i < n; i += PW)
		transpose(rows + i * w->Dp, w->Dp, panels + i / PW * w->panel_size, PW, w->Dp, PW);
}

/* ---- a panel's mask and dropout -------------------------------------------------- */

/* The first tile of keys that query q0 attends to. */
static int64_t first_tile(const struct work *w, int64_t q0)
{
	return most(0, q0 - w->window + 1) / TK * TK;
}

/* How many keys of the tile at k0 the queries [q0, q0 + PW) go through, 0 or less for none. */
static int64_t keys_of(const struct work *w, int64_t q0, int64_t k0)
{
	return k0 < first_tile(w, q0) ? 0 : least(TK, least(w->T, q0 + PW) - k0);
}

/* Scores of keys [k0, k0 + keys) become -infinity for the queries, from q0 on, that precede them or
 * whose window does. */
static void mask_panel(const struct work *w, float *s, int64_t q0, int64_t k0, int64_t keys)
{
	int64_t passed = q0 + PW - w->window - k0; /* keys that the last query attends to no more */
	for (int64_t j = q0 < k0 ? 0 : q0 - k0 + 1; j < keys; j++)
		for (int c = 0; c < PV; c++) {
			int64_t n = k0 + j - q0 - c * ZR_W; /* lanes whose query precedes the key */
			float *at_s = s + j * PW + c * ZR_W;
			if (n > 0)
				vstore_f32(at_s,
					   vfirst(vset(-INFINITY), vlanes(n), vload_f32(at_s)));
		}
	for (int64_t j = 0; j < least(keys, passed); j++)
		for (int c = 0; c < PV; c++) {
			int64_t n = w->window + k0 + j - q0 - c * ZR_W; /* that still do */
			float *at_s = s + j * PW + c * ZR_W;
			vstore_f32(at_s, vfirst(vload_f32(at_s), vlanes(most(n, 0)),
						vset(-INFINITY)));
		}
}

/* keep[keys, PW] = 0 or 1 / (1 - dropout) */
static void dropout_panel(const struct work *w, int64_t q0, int64_t k0, int64_t keys)
{
	uint32_t below = zr_drop_below(w->o->dropout);
	float scale = zr_drop_scale(w->o->dropout);

	for (int64_t i = 0; i < PW; i++) {
		uint64_t e = (uint64_t)(row(w, q0 + i) * w->o->length + w->start + k0);
		/* of the first word of e's block; e itself at 4 */
		float *f = w->words + i * WORDS + 4 - e % 4;
		for (int64_t j = 0; j < keys + (int64_t)(e % 4); j += 4 * ZR_W) {
			vi word[4];
			vrng(&w->o->rng, (e + (uint64_t)j) / 4, word);
			for (int c = 0; c < 4; c++)
				vstore_f32(f + j + c * ZR_W, vdrop(vset(1), word[c], below, scale));
		}
	}
	transpose(w->keep, PW, w->words + 4, WORDS, PW, UP(keys, 4));
}

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
	scores(w, w->p, w->k, w->qt + i * w->panel_size, keys);
	mask_panel(w, w->p, q0, k0, keys);
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
		       const float *keep)
{
	vf l[PV], r[PV];

	UNROLL for (int c = 0; c < PV; c++) {
		l[c] = vload_f32(lse + c * ZR_W);
		r[c] = vload_f32(delta + c * ZR_W);
	}
	for (int64_t j = 0; j < keys; j++)
		UNROLL for (int c = 0; c < PV; c++) {
			int64_t i = j * PW + c * ZR_W;
			vf e = vexp(vmin(vset(0), vload_f32(p + i) - l[c])), dp = vload_f32(ds + i);
			vf m = keep ? vload_f32(keep + i) : vset(1);
			vstore_f32(p + i, m * e);
			vstore_f32(ds + i, e * (m * dp - r[c]));
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
	scores(w, w->p, w->k, w->qt + i * w->panel_size, keys);
	mask_panel(w, w->p, q0, k0, keys);
	scores(w, w->ds, w->v, w->dot + i * w->panel_size, keys);
	if (w->o->dropout > 0)
		dropout_panel(w, q0, k0, keys);
	grad_panel(w->p, w->ds, keys, w->max + i * PW, w->sum + i * PW,
		   w->o->dropout > 0 ? w->keep : NULL);
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
	return 2 * (o->length + KEYS) * UP(o->head_dim, NR * ZR_W);
}

void ZR_SIMD(attention_bwd)(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			    int64_t hi, void *scratch, float *delta, float *sums)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t in_batch = o->kv_heads * parts, heads = o->heads / in_batch,
		size = ZR_SIMD(attention_sums)(o);
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
	const struct zr_op_attention *o = &op->fwd;
	int64_t size = ZR_SIMD(attention_sums)(o);
	struct work w = {
		.o = o, .T = o->length, .D = o->head_dim, .Dp = UP(o->head_dim, NR * ZR_W)
	};

	for (int64_t n = lo; n < hi; n++) {
		w.b = n / o->kv_heads;
		w.g = n % o->kv_heads;
		w.dk = sums + (n - lo) * parts * size;
		w.dv = w.dk + size / 2;
		for (int64_t p = 1; p < parts; p++)
			for (int64_t i = 0; i < size; i += ZR_W)
				vstore_f32(w.dk + i,
					   vload_f32(w.dk + i) + vload_f32(w.dk + p * size + i));
		store_rows(&w, at_k(&w, op->dk, 0), o->k_stride, w.dk, w.T, 1);
		store_rows(&w, at_v(&w, op->dv, 0), o->v_stride, w.dv, w.T, 1);
	}
}
