/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.simd.c - fold.c with vectors, same bits.
 */
#include "simd.h"
#include "sumsq.h"
#include "table.h"

struct measure {
	struct vchains squares;
	uint32_t bad;
};

/* Whether acc has what it is to get: fp32 that is neither rounded nor added to anything. Not to
 * write it again saves half of the way to memory. */
ZR_INLINE int is_there(const struct zr_op_fold *op, int32_t dtype)
{
	return (const void *)op->g == op->acc && dtype == ZR_F32 && !(op->flags & ZR_OP_ACCUMULATE);
}

/* One vector of n elements from i, part `part` of its 16. */
ZR_INLINE void add(const struct zr_op_fold *op, struct measure *s, int64_t i, int part, int n,
		   int32_t dtype, int stores)
{
	vf x = vround(vload_n(op->g, i, ZR_F32, n), dtype);

	if (op->flags & ZR_OP_ACCUMULATE)
		x = vload_n(op->acc, i, ZR_F32, n) + x;
	if (stores)
		vstore_n(op->acc, i, ZR_F32, x, n);
	if (op->sumsq) {
		vchain(&s->squares, part, x);
		s->bad += vnonfinite(x);
	}
}

ZR_INLINE void fold_block(const struct zr_op_fold *op, int64_t b, int32_t dtype)
{
	int64_t i = b * ZR_BLOCK, to = i + ZR_BLOCK < op->n ? i + ZR_BLOCK : op->n;
	struct measure s = { vchains_zero(), 0 };
	const int stores = !is_there(op, dtype);

	for (; i + ZR_CHAINS <= to; i += ZR_CHAINS)
		for (int part = 0; part < ZR_PARTS; part++)
			add(op, &s, i + part * ZR_W, part, ZR_W, dtype, stores);
	for (int part = 0; i < to; i += ZR_W, part++)
		add(op, &s, i, part, vlanes(to - i), dtype, stores);
	if (op->sumsq) {
		op->sumsq[b] = vchains_meet(&s.squares);
		op->nonfinite[b] = s.bad;
	}
}

#define TURNS 4
#define ASK   1024 /* bytes between what is asked for and what is used */

/* Asks for the line of an element that comes later. */
ZR_INLINE void ask(const float *g)
{
	__builtin_prefetch((const void *)((uintptr_t)g + ASK), 0, 2);
}

/* TURNS whole blocks from b on, a little of each in turns: a processor reads ahead in each page by
 * itself, so that more bytes are on their way from memory than from one block at a time. */
ZR_INLINE void fold_blocks(const struct zr_op_fold *op, int64_t b, int32_t dtype)
{
	struct measure s[TURNS];
	const int stores = !is_there(op, dtype);

	UNROLL for (int t = 0; t < TURNS; t++) s[t] = (struct measure){ vchains_zero(), 0 };
	for (int64_t i = b * ZR_BLOCK; i < (b + 1) * ZR_BLOCK; i += ZR_CHAINS) {
		UNROLL for (int t = 0; t < TURNS; t++) ask(op->g + i + t * ZR_BLOCK);
		UNROLL for (int t = 0; t < TURNS; t++) UNROLL for (int part = 0; part < ZR_PARTS;
								   part++)
			add(op, &s[t], i + t * ZR_BLOCK + part * ZR_W, part, ZR_W, dtype, stores);
	}

	for (int t = 0; op->sumsq && t < TURNS; t++) {
		op->sumsq[b + t] = vchains_meet(&s[t].squares);
		op->nonfinite[b + t] = s[t].bad;
	}
}

void ZR_SIMD(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	const int64_t whole = op->n / ZR_BLOCK;
	int64_t b = lo;
	for (; b + TURNS <= hi && b + TURNS <= whole; b += TURNS)
		ZR_BY_DTYPE(op->comm_dtype, fold_blocks, op, b);
	for (; b < hi; b++)
		ZR_BY_DTYPE(op->comm_dtype, fold_block, op, b);
}
