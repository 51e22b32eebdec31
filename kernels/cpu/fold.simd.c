/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.simd.c - fold.c with vectors, same bits.
 */
#include "mx.h"
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

/* ---- several contributions ---- */

/* Sixteen elements from i on, or the n that are left. */
struct strip {
	vf part[ZR_PARTS];
};

/* Of n elements those in a part. */
ZR_INLINE int lanes(int64_t n, int part)
{
	int64_t left = n - part * ZR_W;
	return left > 0 ? vlanes(left) : 0;
}

/* A strip of codes, which has one scale: groups are of several strips. */
ZR_INLINE struct strip decoded(const void *blocks, int64_t i, int64_t n)
{
	const uint8_t *block = (const uint8_t *)blocks + i / ZR_BLOCK * ZR_MX_BLOCK;
	const int64_t at = i % ZR_BLOCK;
	const vf unit = vset(zr_mx_unit(block[ZR_BLOCK + at / ZR_MX_SHARING]));
	struct strip x;
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
		x.part[p] = vfirst(vload_i8(block + at + p * ZR_W) * unit, lanes(n, p), vset(0));
	return x;
}

/* Contribution k, as it comes over the wire. */
ZR_INLINE struct strip leaf(const struct zr_op_fold *op, const struct zr_fold_shape *s, int32_t k,
			    int64_t i, int64_t n, int32_t dtype)
{
	const void *from = (const char *)op->g + k * op->apart;
	struct strip x;
	if (op->each)
		from = op->each[k];
	if (s->from == ZR_MXINT8)
		return decoded(from, i, n);
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
		x.part[p] = vround(vload_n(from, i + p * ZR_W, s->from, lanes(n, p)), dtype);
	return x;
}

/* The sum of two children, in the later one. */
ZR_INLINE void join(struct strip *x, const struct strip *earlier, int32_t dtype)
{
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
		x->part[p] = vround(earlier->part[p] + x->part[p], dtype);
}

ZR_INLINE struct strip load(const float *from, int64_t n)
{
	struct strip x;
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
		x.part[p] = vload_n(from, p * ZR_W, ZR_F32, lanes(n, p));
	return x;
}

ZR_INLINE void store(void *to, int64_t i, int32_t type, const struct strip *x, int64_t n)
{
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
		vstore_n(to, i + p * ZR_W, type, x->part[p], lanes(n, p));
}

/* As in fold.c. */
ZR_INLINE int join_inside(const struct zr_fold_shape *s, int32_t k, struct strip *waiting,
			  struct strip *x, int32_t dtype)
{
	int32_t level = 0;
	for (; level < s->inside && (k >> level & 1); level++)
		join(x, &waiting[level], dtype);
	if (level < s->inside)
		waiting[level] = *x;
	return level == s->inside;
}

ZR_INLINE int join_turns(const struct zr_op_fold *op, const struct zr_fold_shape *s, int64_t i,
			 int64_t n, struct strip *x, int32_t dtype)
{
	int32_t level = s->inside;
	if (level == s->levels)
		return 1;

	float *waiting = op->waiting + i;
	for (int32_t turn = op->turn; level < s->levels && (turn & 1); turn >>= 1, level++) {
		struct strip earlier = load(waiting, n);
		join(x, &earlier, dtype);
		waiting += op->waiting_apart;
	}
	if (level < s->levels)
		store(waiting, 0, ZR_F32, x, n);
	return level == s->levels;
}

ZR_INLINE void measure(struct measure *m, const struct strip *x)
{
	UNROLL for (int p = 0; p < ZR_PARTS; p++)
	{
		vchain(&m->squares, p, x->part[p]);
		m->bad += vnonfinite(x->part[p]);
	}
}

/* What the strip adds up to; lanes behind its end are 0. */
ZR_INLINE void add_many(const struct zr_op_fold *op, const struct zr_fold_shape *s,
			struct measure *m, int64_t i, int64_t n, int32_t dtype)
{
	struct strip waiting[ZR_FOLD_LEVELS], sum;
	int64_t stored = 0;
	int added = op->flags & ZR_OP_ACCUMULATE, roots = 0;
	if (added)
		sum = load(op->acc + i, n);

	for (int32_t k = 0; k < s->number; k++) {
		struct strip x = leaf(op, s, k, i, n, dtype);
		if (!join_inside(s, k, waiting, &x, dtype) || !join_turns(op, s, i, n, &x, dtype))
			continue;
		if (op->to_apart) {
			store(op->acc, i + stored++ * op->to_apart, s->to, &x, n);
			continue;
		}
		UNROLL for (int p = 0; p < ZR_PARTS && added; p++)
			x.part[p] = sum.part[p] + x.part[p];
		sum = x;
		added = roots = 1;
	}

	if (!roots)
		return;
	store(op->acc, i, s->to, &sum, n);
	if (op->sumsq)
		measure(m, &sum);
}

ZR_INLINE void many_block(const struct zr_op_fold *op, const struct zr_fold_shape *s, int64_t b,
			  int32_t dtype)
{
	int64_t i = b * ZR_BLOCK, to = i + ZR_BLOCK < op->n ? i + ZR_BLOCK : op->n;
	struct measure m = { vchains_zero(), 0 };
	for (; i + ZR_CHAINS <= to; i += ZR_CHAINS)
		add_many(op, s, &m, i, ZR_CHAINS, dtype);
	if (i < to)
		add_many(op, s, &m, i, to - i, dtype);
	if (op->sumsq) {
		op->sumsq[b] = vchains_meet(&m.squares);
		op->nonfinite[b] = m.bad;
	}
}

static void fold_many(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	const struct zr_fold_shape shape = zr_fold_shape_of(op);
	for (int64_t b = lo; b < hi; b++)
		ZR_BY_DTYPE(op->comm_dtype, many_block, op, &shape, b);
}

void ZR_SIMD(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	const int64_t whole = op->n / ZR_BLOCK;
	int64_t b = lo;
	if (zr_folds_many(op)) {
		fold_many(op, lo, hi);
		return;
	}

	for (; b + TURNS <= hi && b + TURNS <= whole; b += TURNS)
		ZR_BY_DTYPE(op->comm_dtype, fold_blocks, op, b);
	for (; b < hi; b++)
		ZR_BY_DTYPE(op->comm_dtype, fold_block, op, b);
}
