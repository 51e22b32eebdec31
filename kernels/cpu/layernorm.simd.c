/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm.simd.c - layernorm.c with vectors over columns. Sums over a row run in lanes that meet
 * in one order (vsum); lanes past the row's end hold 0.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE float row_sum(const void *x, int64_t width, int32_t dtype)
{
	vf even = vset(0), odd = vset(0);
	int64_t c = 0;

	for (; c + 2 * ZR_W <= width; c += 2 * ZR_W) {
		even = even + vload(x, c, dtype);
		odd = odd + vload(x, c + ZR_W, dtype);
	}
	for (; c < width; c += ZR_W)
		even = even + vload_n(x, c, dtype, vlanes(width - c));
	return vsum(even + odd);
}

/* sum of (x - mean)^2 */
ZR_INLINE float row_squares(const void *x, int64_t width, float mean, int32_t dtype)
{
	vf even = vset(0), odd = vset(0), d;
	int64_t c = 0;

	for (; c + 2 * ZR_W <= width; c += 2 * ZR_W) {
		d = vload(x, c, dtype) - vset(mean);
		even = vfma(d, d, even);
		d = vload(x, c + ZR_W, dtype) - vset(mean);
		odd = vfma(d, d, odd);
	}

	for (; c < width; c += ZR_W) {
		int n = vlanes(width - c);
		d = vfirst(vload_n(x, c, dtype, n) - vset(mean), n, vset(0));
		even = vfma(d, d, even);
	}
	return vsum(even + odd);
}

ZR_INLINE void normalise(const struct zr_op_layernorm *op, int64_t at, int64_t c, vf mean, vf rstd,
			 int32_t dtype, int n)
{
	vf xh = (vload_n(op->x, at + c, dtype, n) - mean) * rstd;
	vf beta = op->beta ? vload_n(op->beta, c, dtype, n) : vset(0);

	vstore_n(op->y, at + c, dtype, vfma(xh, vload_n(op->gamma, c, dtype, n), beta), n);
}

ZR_INLINE void forward(const struct zr_op_layernorm *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		const void *x = zr_at(op->x, r * width, dtype);
		float mean = row_sum(x, width, dtype) / (float)width;
		float rstd = 1 / sqrtf(row_squares(x, width, mean, dtype) / (float)width + op->eps);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			normalise(op, r * width, c, vset(mean), vset(rstd), dtype, ZR_W);
		if (c < width)
			normalise(op, r * width, c, vset(mean), vset(rstd), dtype,
				  (int)(width - c));
		op->mean[r] = mean;
		op->rstd[r] = rstd;
	}
}

void ZR_SIMD(layernorm)(const struct zr_op_layernorm *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

struct backward {
	const struct zr_op_layernorm_bwd *op;
	int64_t at; /* first element of the row */
	vf mean, rstd;
	vf sum_n, sum_nx;      /* first the lanes' sums, then both means over the row */
	float *dgamma, *dbeta; /* partial sums, or both NULL */
};

/* Lanes past the row's end add 0: dy is 0 there. */
ZR_INLINE void gather_sums(struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = (vload_n(b->op->x, b->at + c, dtype, n) - b->mean) * b->rstd;
	vf dy = vload_n(b->op->dy, b->at + c, dtype, n),
	   d = dy * vload_n(b->op->gamma, c, dtype, n);

	b->sum_n = b->sum_n + d;
	b->sum_nx = vfma(d, vfirst(xh, n, vset(0)), b->sum_nx);
	if (!b->dgamma)
		return;

	vstore_n(b->dgamma, c, ZR_F32, vfma(dy, xh, vload_n(b->dgamma, c, ZR_F32, n)), n);
	vstore_n(b->dbeta, c, ZR_F32, vload_n(b->dbeta, c, ZR_F32, n) + dy, n);
}

ZR_INLINE void add_dx(const struct backward *b, int64_t c, int32_t dtype, int n)
{
	vf xh = (vload_n(b->op->x, b->at + c, dtype, n) - b->mean) * b->rstd;
	vf d = vload_n(b->op->dy, b->at + c, dtype, n) * vload_n(b->op->gamma, c, dtype, n);
	vf dx = vload_n(b->op->dx, b->at + c, dtype, n);

	vstore_n(b->op->dx, b->at + c, dtype, vfma(b->rstd, d - b->sum_n - xh * b->sum_nx, dx), n);
}

ZR_INLINE void backward(const struct zr_op_layernorm_bwd *op, int64_t lo, int64_t hi, float *part,
			int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		struct backward b = {
			op,      r * width, vset(op->mean[r]),         vset(op->rstd[r]), vset(0),
			vset(0), part,      part ? part + width : NULL
		};
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			gather_sums(&b, c, dtype, ZR_W);
		if (c < width)
			gather_sums(&b, c, dtype, (int)(width - c));
		b.sum_n = vset(vsum(b.sum_n) / (float)width);
		b.sum_nx = vset(vsum(b.sum_nx) / (float)width);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			add_dx(&b, c, dtype, ZR_W);
		if (c < width)
			add_dx(&b, c, dtype, (int)(width - c));
	}
}

void ZR_SIMD(layernorm_bwd)(const struct zr_op_layernorm_bwd *op, int64_t lo, int64_t hi,
			    float *part)
{
	if (part)
		memset(part, 0, 2 * (size_t)op->width * sizeof *part);
	ZR_BY_DTYPE(op->dtype, backward, op, lo, hi, part);
}

ZR_INLINE void sum_columns(float *out, const float *part, int64_t n_part, int64_t stride,
			   int accumulate, int n)
{
	vf sum = vload_n(part, 0, ZR_F32, n);

	for (int64_t p = 1; p < n_part; p++)
		sum = sum + vload_n(part, p * stride, ZR_F32, n);
	if (accumulate)
		sum = vload_n(out, 0, ZR_F32, n) + sum;
	vstore_n(out, 0, ZR_F32, sum, n);
}

void ZR_SIMD(layernorm_bwd_sum)(const struct zr_op_layernorm_bwd *op, const float *part,
				int64_t n_part, int64_t lo, int64_t hi)
{
	int accumulate = op->flags & ZR_OP_ACCUMULATE;
	int64_t width = op->width;

	for (int64_t c = lo; c < hi; c += ZR_W) {
		int n = vlanes(hi - c);
		if (op->dgamma)
			sum_columns(op->dgamma + c, part + c, n_part, 2 * width, accumulate, n);
		if (op->dbeta)
			sum_columns(op->dbeta + c, part + width + c, n_part, 2 * width, accumulate,
				    n);
	}
}
