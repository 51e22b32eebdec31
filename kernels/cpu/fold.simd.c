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

/* One vector of n elements from i, part `part` of its 16. */
ZR_INLINE void add(const struct zr_op_fold *op, struct measure *s, int64_t i, int part, int n,
		   int32_t dtype)
{
	vf x = vround(vload_n(op->g, i, ZR_F32, n), dtype);

	if (op->flags & ZR_OP_ACCUMULATE)
		x = vload_n(op->acc, i, ZR_F32, n) + x;
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

	for (; i + ZR_CHAINS <= to; i += ZR_CHAINS)
		for (int part = 0; part < ZR_PARTS; part++)
			add(op, &s, i + part * ZR_W, part, ZR_W, dtype);
	for (int part = 0; i < to; i += ZR_W, part++)
		add(op, &s, i, part, vlanes(to - i), dtype);
	if (op->sumsq) {
		op->sumsq[b] = vchains_meet(&s.squares);
		op->nonfinite[b] = s.bad;
	}
}

void ZR_SIMD(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	for (int64_t b = lo; b < hi; b++)
		ZR_BY_DTYPE(op->comm_dtype, fold_block, op, b);
}
