/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm.c - normalisation by the root mean square over rows of C and its gradient, scalar.
 *
 * Forward: rstd = 1 / sqrt(mean(x^2) + eps),
 *   y = xh * f with xh = x * rstd, f = gamma, 1 + gamma or 1.
 * Backward: n = dy * f; dx = or += rstd * (n - xh * mean(n * xh));
 *   dgamma = sum over rows of dy * xh. These sums are made per tile of ZR_LN_TILE rows, rows
 *   ascending, then over tiles ascending: fixed by the shape (invariant I1).
 */
#include "scalar.h"
#include "table.h"

static zr_real factor(const void *gamma, int64_t c, uint32_t flags, int32_t dtype)
{
	zr_real f = gamma ? zr_get(gamma, c, dtype) : 1;

	return gamma && flags & ZR_RMSNORM_PLUS_ONE ? 1 + f : f;
}

static void forward_row(const struct zr_op_rmsnorm *op, int64_t r)
{
	int64_t width = op->width, at = zr_row_at(r, width, op->per_row, op->x_stride);
	int64_t to = zr_row_at(r, width, op->per_row, op->y_stride);
	zr_real squares = 0, rstd;

	for (int64_t c = 0; c < width; c++) {
		zr_real x = zr_get(op->x, at + c, op->dtype);
		squares += x * x;
	}
	rstd = 1 / zr_sqrt(squares / (zr_real)width + op->eps);
	for (int64_t c = 0; c < width; c++)
		zr_put(op->y, to + c, op->dtype,
		       zr_get(op->x, at + c, op->dtype) * rstd *
			       factor(op->gamma, c, op->flags, op->dtype));
	zr_reals(op->rstd)[r] = rstd;
}

void ZR_SCALAR(rmsnorm)(const struct zr_op_rmsnorm *op, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		forward_row(op, r);
}

static void backward_row(const struct zr_op_rmsnorm_bwd *op, int64_t r, zr_real *dgamma)
{
	int64_t width = op->width, at = zr_row_at(r, width, op->per_row, op->x_stride);
	int64_t from = zr_row_at(r, width, op->per_row, op->dy_stride);
	int64_t to = zr_row_at(r, width, op->per_row, op->dx_stride);
	zr_real rstd = zr_reals(op->rstd)[r], mean = 0;

	for (int64_t c = 0; c < width; c++) {
		zr_real xh = zr_get(op->x, at + c, op->dtype) * rstd,
			dy = zr_get(op->dy, from + c, op->dtype);
		mean += dy * factor(op->gamma, c, op->flags, op->dtype) * xh;
		if (dgamma)
			dgamma[c] += dy * xh;
	}

	mean /= (zr_real)width;
	for (int64_t c = 0; c < width; c++) {
		zr_real xh = zr_get(op->x, at + c, op->dtype) * rstd;
		zr_real n = zr_get(op->dy, from + c, op->dtype) *
			    factor(op->gamma, c, op->flags, op->dtype);
		zr_real dx = rstd * (n - xh * mean);
		if (!(op->flags & ZR_RMSNORM_STORE))
			dx = zr_get(op->dx, to + c, op->dtype) + dx;
		zr_put(op->dx, to + c, op->dtype, dx);
	}
}

void ZR_SCALAR(rmsnorm_bwd)(const struct zr_op_rmsnorm_bwd *op, int64_t lo, int64_t hi,
			    zr_real *part)
{
	if (part)
		memset(part, 0, (size_t)op->width * sizeof *part);
	for (int64_t r = lo; r < hi; r++)
		backward_row(op, r, part);
}

void ZR_SCALAR(rmsnorm_bwd_sum)(const struct zr_op_rmsnorm_bwd *op, const zr_real *part,
				int64_t n_part, int64_t lo, int64_t hi)
{
	zr_real *dgamma = zr_reals(op->dgamma);

	for (int64_t c = lo; c < hi; c++) {
		zr_real g = part[c];
		for (int64_t p = 1; p < n_part; p++)
			g += part[p * op->width + c];
		dgamma[c] = op->flags & ZR_OP_ACCUMULATE ? dgamma[c] + g : g;
	}
}
