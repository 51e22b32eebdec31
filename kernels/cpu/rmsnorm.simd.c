/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm.simd.c - rmsnorm.c with vectors over columns. Sums over a row run in lanes that meet in
 * one order (vsum); lanes past the row's end hold 0.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE float row_squares(const void *x, int64_t width, int32_t dtype)
{
	vf even = vset(0), odd = vset(0), v;
	int64_t c = 0;

	for (; c + 2 * ZR_W <= width; c += 2 * ZR_W) {
		v = vload(x, c, dtype);
		even = vfma(v, v, even);
		v = vload(x, c + ZR_W, dtype);
		odd = vfma(v, v, odd);
	}
	for (; c < width; c += ZR_W) {
		v = vload_n(x, c, dtype, vlanes(width - c));
		even = vfma(v, v, even);
	}
	return vsum(even + odd);
}

ZR_INLINE void normalise(const struct zr_op_rmsnorm *op, int64_t at, int64_t c, vf rstd,
			 int32_t dtype, int n)
{
	vf xh = vload_n(op->x, at + c, dtype, n) * rstd;

	vstore_n(op->y, at + c, dtype, xh * vload_n(op->gamma, c, dtype, n), n);
}

ZR_INLINE void forward(const struct zr_op_rmsnorm *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		const void *x = zr_at(op->x, r * width, dtype);
		float rstd = 1 / sqrtf(row_squares(x, width, dtype) / (float)width + op->eps);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			normalise(op, r * width, c, vset(rstd), dtype, ZR_W);
		if (c < width)
			normalise(op, r * width, c, vset(rstd), dtype, (int)(width - c));
		op->rstd[r] = rstd;
	}
}

void ZR_SIMD(rmsnorm)(const struct zr_op_rmsnorm *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

struct backward {
	const struct zr_op_rmsnorm_bwd *op;
	int64_t at; /* first element of the row */
	vf rstd;
	vf mean;    /* first the lanes' sums, then the mean over the row */
	float *dgamma;
};

/* Lanes past the row's end add 0: x and dy are 0 there. */
ZR_INLINE void gather_sums(struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = vload_n(b->op->x, b->at + c, dtype, n) * b->rstd,
	   dy = vload_n(b->op->dy, b->at + c, dtype, n);

	b->mean = vfma(dy * vload_n(b->op->gamma, c, dtype, n), xh, b->mean);
	vstore_n(b->dgamma, c, ZR_F32, vfma(dy, xh, vload_n(b->dgamma, c, ZR_F32, n)), n);
}

ZR_INLINE void add_dx(const struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = vload_n(b->op->x, b->at + c, dtype, n) * b->rstd;
	vf d = vload_n(b->op->dy, b->at + c, dtype, n) * vload_n(b->op->gamma, c, dtype, n);
	vf dx = vload_n(b->op->dx, b->at + c, dtype, n);

	vstore_n(b->op->dx, b->at + c, dtype, vfma(b->rstd, d - xh * b->mean, dx), n);
}

ZR_INLINE void backward(const struct zr_op_rmsnorm_bwd *op, int64_t lo, int64_t hi, float *part,
			int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		struct backward b = { op, r * width, vset(op->rstd[r]), vset(0), part };
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			gather_sums(&b, c, dtype, ZR_W);
		if (c < width)
			gather_sums(&b, c, dtype, (int)(width - c));
		b.mean = vset(vsum(b.mean) / (float)width);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			add_dx(&b, c, dtype, ZR_W);
		if (c < width)
			add_dx(&b, c, dtype, (int)(width - c));
	}
}

void ZR_SIMD(rmsnorm_bwd)(const struct zr_op_rmsnorm_bwd *op, int64_t lo, int64_t hi, float *part)
{
	memset(part, 0, (size_t)op->width * sizeof *part);
	ZR_BY_DTYPE(op->dtype, backward, op, lo, hi, part);
}

void ZR_SIMD(rmsnorm_bwd_sum)(const struct zr_op_rmsnorm_bwd *op, const float *part, int64_t n_part,
			      int64_t lo, int64_t hi)
{
	for (int64_t c = lo; c < hi; c += ZR_W) {
		int n = vlanes(hi - c);
		vf sum = vload_n(part, c, ZR_F32, n);
		for (int64_t p = 1; p < n_part; p++)
			sum = sum + vload_n(part, p * op->width + c, ZR_F32, n);
		if (op->flags & ZR_OP_ACCUMULATE)
			sum = vload_n(op->dgamma, c, ZR_F32, n) + sum;
		vstore_n(op->dgamma, c, ZR_F32, sum, n);
	}
}
