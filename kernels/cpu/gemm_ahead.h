/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_ahead.h - prefetching of gemm.simd.c, included by it only. While the micro-kernel runs, what
 * comes next is asked into the caches: some rows before each call, or a line every few elements of
 * K. The functions that ask are inline: gcc drops calls of a function that does nothing else.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_AHEAD_H
#define ZEROTH_KERNELS_CPU_GEMM_AHEAD_H

struct ahead {
	const char *at;     /* the next row as stored */
	int64_t ld, bytes;  /* bytes between rows, bytes of a row */
	int64_t rows, step; /* rows left, rows at a time */
	int64_t done;       /* bytes of the next row that ask_line() has asked for */
	struct ahead *then; /* what it asks for after the last row */
};

/* rows x cols elements from element `first` on, in `parts` parts. */
static struct ahead ahead_of(const void *p, int32_t dtype, int64_t first, int64_t ld, int64_t rows,
			     int64_t cols, int64_t parts)
{
	int64_t size = zr_size(dtype);
	return (struct ahead){ .at = zr_at(p, first, dtype),
			       .ld = ld * size,
			       .bytes = cols * size,
			       .rows = rows,
			       .step = (rows + parts - 1) / parts };
}

static struct ahead ahead_a(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t k0,
			    int64_t kc, int64_t parts)
{
	k0 *= STEP;
	kc *= STEP;
	if (op->flags & ZR_MM_TRANS_A)
		return ahead_of(op->a.data, op->a.dtype, k0 * op->lda + row0, op->lda, kc, rows,
				parts);
	return ahead_of(op->a.data, op->a.dtype, row0 * op->lda + k0, op->lda, rows, kc, parts);
}

static struct ahead ahead_b(const struct zr_op_matmul *op, int64_t col0, int64_t cols, int64_t k0,
			    int64_t kc, int64_t parts)
{
	k0 *= STEP;
	kc *= STEP;
	if (op->flags & ZR_MM_TRANS_B)
		return ahead_of(op->b.data, op->b.dtype, col0 * op->ldb + k0, op->ldb, cols, kc,
				parts);
	return ahead_of(op->b.data, op->b.dtype, k0 * op->ldb + col0, op->ldb, kc, cols, parts);
}

ZR_INLINE void ahead_ask(struct ahead *s)
{
	for (int64_t n = min(s->step, s->rows); n > 0; n--, s->rows--, s->at += s->ld)
		for (int64_t i = 0; i < s->bytes; i += 64)
			__builtin_prefetch(s->at + i, 0, 2);
}

/* A line of *now. */
ZR_INLINE void ask_line(struct ahead **now)
{
	struct ahead *s = *now;
	__builtin_prefetch(s->at + s->done, 0, 2);
	s->done += 64;
	if (__builtin_expect(s->done < s->bytes, 1))
		return;
	s->done = 0;
	s->at += s->ld;
	if (--s->rows <= 0)
		*now = s->then;
}

#endif
