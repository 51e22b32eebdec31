/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_simd.h - what attention in fp32, in pairs and by tile registers share: the work on a
 * head and its scratch, how rows are loaded and stored, a panel's mask and dropout, the sum of
 * parts.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_SIMD_H
#define ZEROTH_KERNELS_CPU_ATTENTION_SIMD_H

#include "attention_places.h"
#include "raise.h"
#include "simd.h"
#include "table.h"

#define TQ 128 /* queries per tile in pairs: how often a loaded K and V is used */
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
#define KEYS        UP(TK, MR)
/* dropout factors of a query and a tile's keys, wherever they start */
#define WORDS (4 + TK + 4 * ZR_W)

/* Rows of K and V, in turns from K of a token on, that are wanted in the cache: [row, end). */
struct ahead {
	int64_t row, end;
};

/* The work on one document of a head: where its operands are, and scratch. Panels are [D, PW],
 * panel_size floats. Tokens are counted from the document's first one. */
struct work {
	const struct zr_op_attention *o;
	int64_t T, D, Dp, panel_size;
	int64_t tq;          /* queries per tile in fp32 */
	int64_t ldk, lds;    /* between rows of k and v, of p and ds */
	int64_t window;      /* tokens that a query attends to, at most all */
	int64_t b, h, g;     /* batch entry, query head, key-value head */
	int64_t start;       /* the document's first token; T of them */
	float *k, *v;        /* [KEYS, ldk] */
	float *p, *ds;       /* [KEYS, lds] */
	float *keep, *words; /* [KEYS, PW], [PW, WORDS]: dropout's factors */
	float *max, *sum;    /* of each query of a tile */
	float *shrink;       /* [PW] */
	float *rows, *drows; /* [queries, Dp]: Q, dO */
	float *qt, *dot;     /* panels: Q, dO */
	float *ot;           /* O or dQ: panels in pairs, [queries, Dp] in fp32 */
	float *dk, *dv;      /* [T + KEYS, Dp], sums of a part */
	struct ahead *ahead;
	float *largest; /* of the head's products before a soft cap, so far; NULL: not wanted */
};

static inline int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- scratch --------------------------------------------------------------------- */

/* The next n words of scratch, of 4 bytes; counted from NULL to learn its size. */
static inline void *carve(char *base, uint64_t *used, int64_t n)
{
	void *p = base ? base + *used : NULL;
	*used += UP((uint64_t)n * sizeof(float), 64);
	return p;
}

/* What the operation says of a head. */
static inline void begin_layout(struct work *w, const struct zr_op_attention *o)
{
	w->o = o;
	w->D = o->head_dim;
	w->Dp = UP(w->D, NR * ZR_W);
	w->window = o->window ? least(o->window, o->length) : o->length;
}

/* ---- load and store -------------------------------------------------------------- */

ZR_INLINE void load(float *dst, int64_t ld, int64_t padded, const void *src, int64_t stride,
		    int64_t n, int64_t D, int64_t Dp, float scale, int32_t dtype)
{
	vf by = vset(scale);

	for (int64_t i = 0; i < n; i++) {
		const int64_t e = i * stride;
		float *to = dst + i * ld;
		int64_t d = 0;
		for (; d + 4 * ZR_W <= D; d += 4 * ZR_W)
			UNROLL for (int k = 0; k < 4 * ZR_W; k += ZR_W)
				vstore_f32(to + d + k, vload(src, e + d + k, dtype) * by);
		for (; d < D; d += ZR_W) {
			vf x = D - d < ZR_W ? vload_n(src, e + d, dtype, (int)(D - d)) :
					      vload(src, e + d, dtype);
			vstore_f32(to + d, x * by);
		}
		for (; d < Dp; d += ZR_W)
			vstore_f32(to + d, vset(0));
	}

	for (int64_t i = n; i < padded; i++)
		memset(dst + i * ld, 0, (size_t)Dp * sizeof *dst);
}

/* dst[padded, Dp] = scale * rows [0, n) of src, `stride` elements apart, D wide; zeros around. */
static inline void load_rows(const struct work *w, float *dst, int64_t ld, int64_t padded,
			     const void *src, int64_t stride, int64_t n, float scale)
{
	ZR_BY_DTYPE(w->o->dtype, load, dst, ld, padded, src, stride, n, w->D, w->Dp, scale);
}

ZR_INLINE void store(void *dst, int64_t stride, const float *src, int64_t ld, int64_t n, int64_t D,
		     const float *scale, int each, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++) {
		const int64_t e = i * stride;
		const float *from = src + i * ld;
		vf by = vset(scale[each ? i : 0]);
		int64_t d = 0;
		for (; d + 4 * ZR_W <= D; d += 4 * ZR_W)
			UNROLL for (int k = 0; k < 4 * ZR_W; k += ZR_W)
				vstore(dst, e + d + k, dtype, vload_f32(from + d + k) * by);
		for (; d < D; d += ZR_W) {
			vf x = vload_f32(from + d) * by;
			if (D - d < ZR_W)
				vstore_n(dst, e + d, dtype, x, (int)(D - d));
			else
				vstore(dst, e + d, dtype, x);
		}
	}
}

/* rows [0, n) of dst, `stride` elements apart = scale * src[n, Dp] */
static inline void store_rows(const struct work *w, void *dst, int64_t stride, const float *src,
			      int64_t n, float scale)
{
	ZR_BY_DTYPE(w->o->dtype, store, dst, stride, src, w->Dp, n, w->D, &scale, 0);
}

/* The same with a scale of each row. */
static inline void store_scaled(const struct work *w, void *dst, int64_t stride, const float *src,
				int64_t n, const float *scale)
{
	ZR_BY_DTYPE(w->o->dtype, store, dst, stride, src, w->Dp, n, w->D, scale, 1);
}

/* dst[cols, ldd] = src[rows, lds]'; rows and cols are multiples of 4 */
static inline void transpose(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows,
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

/* The sum of a b of n bf16, in ZR_W sums by index. */
ZR_INLINE float dot_bf16(const uint16_t *a, const uint16_t *b, int64_t n)
{
	vf s = vset(0);
	for (int64_t d = 0; d < n; d += ZR_W) {
		const int lanes = vlanes(n - d);
		s = vfma(vload_n(a, d, ZR_BF16, lanes), vload_n(b, d, ZR_BF16, lanes), s);
	}
	return vsum(s);
}

/* Address of row r of the heads at h, `head` apart, or D. */
static inline void *at(const struct work *w, const void *p, int64_t stride, int64_t head, int64_t r,
		       int64_t h)
{
	return zr_at(p, r * stride + h * (head ? head : w->D), w->o->dtype);
}

/* Row of token t; of query t, of which those before `first` are not there. */
static inline int64_t token(const struct work *w, int64_t t)
{
	return w->b * w->o->length + w->start + t;
}

static inline int64_t query(const struct work *w, int64_t t)
{
	return token(w, t) - (w->b + 1) * w->o->first;
}

/* Of token t: in k or dk, in v or dv, in q or dq, in out or dout. */
static inline void *at_k(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->k_stride, w->o->k_head, token(w, t), w->g);
}

static inline void *at_v(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->v_stride, w->o->v_head, token(w, t), w->g);
}

static inline void *at_q(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->q_stride, w->o->q_head, query(w, t), w->h);
}

static inline void *at_out(const struct work *w, const void *p, int64_t t)
{
	return at(w, p, w->o->out_stride, 0, query(w, t), w->h);
}

/* Number of query t among all rows of all heads. */
static inline int64_t row(const struct work *w, int64_t t)
{
	const struct zr_op_attention *o = w->o;
	return (w->b * o->heads + w->h) * (o->length - o->first) + w->start + t - o->first;
}

/* The next document of the head, T = 0: none is left. */
static inline int next_document(struct work *w)
{
	w->start += w->T;
	w->T = w->start < w->o->length ? zr_document(w->o, w->b, w->start) : 0;
	return w->T > 0;
}

/* The first query of the document that is there, at most T. */
static inline int64_t first_query(const struct work *w)
{
	return least(w->T, most(0, w->o->first - w->start));
}

/* Rows of the tile's panels from rows, or back. */
static inline void to_panels(const struct work *w, float *panels, const float *rows, int64_t n)
{
	for (int64_t i = 0; i < n; i += PW)
		transpose(panels + i / PW * w->panel_size, PW, rows + i * w->Dp, w->Dp, PW, w->Dp);
}

static inline void to_rows(const struct work *w, float *rows, const float *panels, int64_t n)
{
	for (int64_t i = 0; i < n; i += PW)
		transpose(rows + i * w->Dp, w->Dp, panels + i / PW * w->panel_size, PW, w->Dp, PW);
}

/* ---- a panel's mask -------------------------------------------------------------- */

/* The first tile of keys that query q0 attends to. */
static inline int64_t first_tile(const struct work *w, int64_t q0)
{
	return most(0, q0 - w->window + 1) / TK * TK;
}

/* How many keys of the tile at k0 the queries [q0, q0 + PW) go through, 0 or less for none. */
static inline int64_t keys_of(const struct work *w, int64_t q0, int64_t k0)
{
	return k0 < first_tile(w, q0) ? 0 : least(TK, least(w->T, q0 + PW) - k0);
}

/* Scores of keys [k0, k0 + keys) become -infinity for the queries, from q0 on, that precede them or
 * whose window does. */
static inline void mask_panel(const struct work *w, float *s, int64_t q0, int64_t k0, int64_t keys)
{
	int64_t passed = q0 + PW - w->window - k0; /* keys that the last query attends to no more */
	for (int64_t j = q0 < k0 ? 0 : q0 - k0 + 1; j < keys; j++)
		for (int c = 0; c < PV; c++) {
			int64_t n = k0 + j - q0 - c * ZR_W; /* lanes whose query precedes the key */
			float *at_s = s + j * w->lds + c * ZR_W;
			if (n > 0)
				vstore_f32(at_s,
					   vfirst(vset(-INFINITY), vlanes(n), vload_f32(at_s)));
		}
	for (int64_t j = 0; j < least(keys, passed); j++)
		for (int c = 0; c < PV; c++) {
			int64_t n = w->window + k0 + j - q0 - c * ZR_W; /* that still do */
			float *at_s = s + j * w->lds + c * ZR_W;
			vstore_f32(at_s,
				   vfirst(vload_f32(at_s), vlanes(most(n, 0)), vset(-INFINITY)));
		}
}

/* ---- the largest score ----------------------------------------------------------- */

/* Raises it by scores [rows, cols], ld apart, once what is masked is -infinity. cols: whole
 * vectors. What lies behind the last query or key is 0 and raises nothing. */
ZR_INLINE void note_largest(const struct work *w, const float *s, int64_t ld, int64_t rows,
			    int64_t cols)
{
	vf m = vset(*w->largest);

	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j += ZR_W)
			m = vmax(vload_f32(s + i * ld + j), m); /* beside a NaN m stays */
	*w->largest = vmaxh(m);
}

/* The head's is among those of all batch entries and threads. unit: of what was noted. */
static inline void raise_largest(const struct work *w, float unit)
{
	if (w->largest)
		zr_raise(w->o->max_scores + w->h, *w->largest * unit);
}

/* ---- a panel's dropout ----------------------------------------------------------- */

/* The element of query t and key k0 in the generator. */
static inline uint64_t drop_element(const struct work *w, int64_t t, int64_t k0)
{
	return zr_drop_element(w->o, w->b, w->h, w->start + t) + (uint64_t)(w->start + k0);
}

/* 0 or 1 / (1 - dropout) in words[PW, WORDS], of each query's keys from element 4 on */
static inline void dropout_words(const struct work *w, int64_t q0, int64_t k0, int64_t keys)
{
	uint32_t below = zr_drop_below(w->o->dropout);
	float scale = zr_drop_scale(w->o->dropout);

	for (int64_t i = 0; i < PW; i++) {
		uint64_t e = drop_element(w, q0 + i, k0);
		/* of the first word of e's block; e itself at 4 */
		float *f = w->words + i * WORDS + 4 - e % 4;
		for (int64_t j = 0; j < keys + (int64_t)(e % 4); j += 4 * ZR_W) {
			vi word[4];
			vrng(&w->o->rng, (e + (uint64_t)j) / 4, word);
			for (int c = 0; c < 4; c++)
				vstore_f32(f + j + c * ZR_W, vdrop(vset(1), word[c], below, scale));
		}
	}
}

/* keep[keys, PW], the same */
static inline void dropout_panel(const struct work *w, int64_t q0, int64_t k0, int64_t keys)
{
	dropout_words(w, q0, k0, keys);
	transpose(w->keep, PW, w->words + 4, WORDS, PW, UP(keys, 4));
}

/* ---- sums of dk and dv ----------------------------------------------------------- */

static inline int64_t sums_size(const struct zr_op_attention *o)
{
	return 2 * (o->length + KEYS) * UP(o->head_dim, NR * ZR_W);
}

/* scale * sums of all tokens into key_sums, as k's gradients or as v's. */
static inline void store_sums(const struct work *w, const float *sums, float scale, int of_v)
{
	const struct zr_op_attention *o = w->o;
	float *to = o->key_sums + zr_key_sums_at(o, w->b, 0, w->g, of_v);

	store(to, 2 * o->kv_heads * w->D, sums, w->Dp, w->T, w->D, &scale, 0, ZR_F32);
}

/* dk = scale * sum, dv = sum of the parts of key-value heads [lo, hi). */
static inline void sum_parts(const struct zr_op_attention_bwd *op, int64_t parts, int64_t lo,
			     int64_t hi, float *sums, float scale)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t size = sums_size(o);
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
		if (o->key_sums) {
			store_sums(&w, w.dk, scale, 0);
			store_sums(&w, w.dv, 1, 1);
			continue;
		}
		store_rows(&w, at_k(&w, op->dk, 0), o->k_stride, w.dk, w.T, scale);
		store_rows(&w, at_v(&w, op->dv, 0), o->v_stride, w.dv, w.T, 1);
	}
}

#endif
