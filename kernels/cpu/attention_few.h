/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_few.h - attention of few queries to many keys in the bits of attention_tiles.simd.c,
 * query by query: both products are of a row, by gemm_few.simd.c, which reads keys and values where
 * they lie. On tiles they would be packed for a panel of queries of which few are there. Included
 * by attention_tiles.simd.c only.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_FEW_H
#define ZEROTH_KERNELS_CPU_ATTENTION_FEW_H

#include "gemm_few.h"

#define FEW 4 /* queries */

/* c[n] = or += a[k] B, which lies as `flags` say. */
static void multiply_row(const struct tiles *x, uint32_t flags, const void *a, const void *b,
			 int64_t ldb, int64_t n, int64_t k, float *c, int add)
{
	const struct zr_op_matmul op = { .size = sizeof op,
					 .flags = flags,
					 .d.dtype = ZR_F32,
					 .m = 1,
					 .n = n,
					 .k = k,
					 .lda = k,
					 .ldb = ldb,
					 .a = zr_array_at(ZR_BF16, a),
					 .b = zr_array_at(ZR_BF16, b) };
	_Static_assert(KEPT * BLOCK / 2 >= ZR_FEW_K, "the place of K' has room for a row");
	ZR_SIMD(gemm_few)(&op, 0, 1, 0, n, c, n, add, (float *)x->kt);
}

/* Scores [from, to) of a row raise the largest one. */
static void note_row(const struct work *w, const float *s, int64_t from, int64_t to)
{
	for (int64_t j = from; j < to; j++)
		if (s[j] > *w->largest)
			*w->largest = s[j];
}

/* Query q. Keys that its panel goes through and it does not would add zeros. */
static void forward_query(const struct tiles *x, int64_t q)
{
	const struct work *w = &x->w;
	const struct zr_op_attention *o = w->o;
	const vf c = vset(x->unit * ZR_EXP_LOG2E);
	const int64_t begin = most(0, q + 1 - w->window), first = begin / TK * TK;
	vf relative = vset(ZR_PAIRS_LEAST), sum = vset(0);
	float *s = w->p;

	for (int64_t k0 = first; k0 <= q; k0 += TK) {
		const int64_t keys = least(TK, q + 1 - k0), whole = UP(keys, BLOCK);
		const vf old = relative;
		vf m = vset(-INFINITY), shrink;
		multiply_row(x, ZR_MM_TRANS_B, at_q(w, o->q, q), at_k(w, o->k, k0), o->k_stride,
			     keys, w->D, s, 0);
		for (int64_t j = keys; j < whole; j++)
			s[j] = 0;
		if (w->largest)
			note_row(w, s, most(0, begin - k0), keys);
		if (o->softcap > 0)
			cap_scores(x, s, whole);
		for (int64_t j = keys; j < whole; j++)
			s[j] = -INFINITY;
		for (int64_t j = 0; j < begin - k0; j++)
			s[j] = -INFINITY;
		for (int64_t j = 0; j < whole; j += ZR_W)
			m = vmax(m, vload_f32(s + j));
		m = vset(vmaxh(m));
		relative = vselect_less(vset(ZR_TILES_GROWTH), (m - old) * c, m, old);
		shrink = vpower((old - relative) * c);
		if (k0 > first) {
			sum = sum * shrink;
			for (int64_t d = 0; d < w->Dp; d += ZR_W)
				vstore_f32(w->ot + d, vload_f32(w->ot + d) * shrink);
		}
		sum = softmax_row(x, s, relative, sum, NULL, 0, whole);
		multiply_row(x, 0, s, at_v(w, o->v, k0), o->v_stride, w->D, keys, w->ot,
			     k0 > first);
	}

	vstore_f32(w->max, relative);
	vstore_f32(w->sum, sum);
	forward_finish(x, q, 0, 1);
}

#endif
