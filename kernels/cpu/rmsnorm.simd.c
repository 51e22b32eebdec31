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

/* What xh is multiplied by. */
ZR_INLINE vf factor(const void *gamma, int64_t c, uint32_t flags, int32_t dtype, int n)
{
	vf f;

	if (!gamma)
		return vset(1);
	f = vload_n(gamma, c, dtype, n);
	if (flags & ZR_RMSNORM_PLUS_ONE)
		f = vset(1) + f;
	return f;
}

/* columns c .. c + n of the row that starts at element `at` of x and `to` of y */
ZR_INLINE void normalise(const struct zr_op_rmsnorm *op, int64_t at, int64_t to, int64_t c, vf rstd,
			 int32_t dtype, int n)
{
	vf xh = vload_n(op->x, at + c, dtype, n) * rstd;

	vstore_n(op->y, to + c, dtype, xh * factor(op->gamma, c, op->flags, dtype, n), n);
}

ZR_INLINE void forward(const struct zr_op_rmsnorm *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		int64_t at = zr_row_at(r, width, op->per_row, op->x_stride);
		int64_t to = zr_row_at(r, width, op->per_row, op->y_stride);
		const void *x = zr_at(op->x, at, dtype);
		float rstd = 1 / sqrtf(row_squares(x, width, dtype) / (float)width + op->eps);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			normalise(op, at, to, c, vset(rstd), dtype, ZR_W);
		if (c < width)
			normalise(op, at, to, c, vset(rstd), dtype, (int)(width - c));
		op->rstd[r] = rstd;
	}
}

void ZR_SIMD(rmsnorm)(const struct zr_op_rmsnorm *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

struct backward {
	const struct zr_op_rmsnorm_bwd *op;
	int64_t x, dy, dx; /* first elements of the row */
	vf rstd;
	vf mean;       /* first the lanes' sums, then the mean over the row */
	float *dgamma; /* or NULL */
};

/* Lanes past the row's end add 0: x and dy are 0 there. */
ZR_INLINE void gather_sums(struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = vload_n(b->op->x, b->x + c, dtype, n) * b->rstd,
	   dy = vload_n(b->op->dy, b->dy + c, dtype, n);

	b->mean = vfma(dy * factor(b->op->gamma, c, b->op->flags, dtype, n), xh, b->mean);
	if (b->dgamma)
		vstore_n(b->dgamma, c, ZR_F32, vfma(dy, xh, vload_n(b->dgamma, c, ZR_F32, n)), n);
}

ZR_INLINE void put_dx(const struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = vload_n(b->op->x, b->x + c, dtype, n) * b->rstd;
	vf d = vload_n(b->op->dy, b->dy + c, dtype, n) *
	       factor(b->op->gamma, c, b->op->flags, dtype, n);
	vf dx;

	d = d - xh * b->mean;
	if (b->op->flags & ZR_RMSNORM_STORE)
		dx = b->rstd * d;
	else
		dx = vfma(b->rstd, d, vload_n(b->op->dx, b->dx + c, dtype, n));
	vstore_n(b->op->dx, b->dx + c, dtype, dx, n);
}

ZR_INLINE void backward(const struct zr_op_rmsnorm_bwd *op, int64_t lo, int64_t hi, float *part,
			int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		struct backward b = { op,
				      zr_row_at(r, width, op->per_row, op->x_stride),
				      zr_row_at(r, width, op->per_row, op->dy_stride),
				      zr_row_at(r, width, op->per_row, op->dx_stride),
				      vset(op->rstd[r]),
				      vset(0),
				      part };
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			gather_sums(&b, c, dtype, ZR_W);
		if (c < width)
			gather_sums(&b, c, dtype, (int)(width - c));
		b.mean = vset(vsum(b.mean) / (float)width);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			put_dx(&b, c, dtype, ZR_W);
		if (c < width)
			put_dx(&b, c, dtype, (int)(width - c));
	}
}

void ZR_SIMD(rmsnorm_bwd)(const struct zr_op_rmsnorm_bwd *op, int64_t lo, int64_t hi, float *part)
{
	if (part)
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
