/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm.c - layer normalisation over rows of C and its gradient, scalar.
 *
 * Forward: mean and the biased variance in two passes, rstd = 1 / sqrt(var + eps),
 *   y = xh * gamma + beta with xh = (x - mean) * rstd.
 * Backward: n = dy * gamma; dx += rstd * (n - mean(n) - xh * mean(n * xh));
 *   dgamma = sum over rows of dy * xh, dbeta = sum over rows of dy. These sums are made per tile of
 *   ZR_LN_TILE rows, rows ascending, then over tiles ascending: fixed by the shape (invariant I1).
 */
#include "scalar.h"
#include "table.h"

static void forward_row(const struct zr_op_layernorm *op, int64_t r)
{
	int64_t width = op->width, at = r * width;
	zr_real sum = 0, squares = 0, mean, rstd;

	for (int64_t c = 0; c < width; c++)
		sum += zr_get(op->x, at + c, op->dtype);
	mean = sum / (zr_real)width;
	for (int64_t c = 0; c < width; c++) {
		zr_real d = zr_get(op->x, at + c, op->dtype) - mean;
		squares += d * d;
	}
	rstd = 1 / zr_sqrt(squares / (zr_real)width + op->eps);
	for (int64_t c = 0; c < width; c++) {
		zr_real xh = (zr_get(op->x, at + c, op->dtype) - mean) * rstd;
		zr_real beta = op->beta ? zr_get(op->beta, c, op->dtype) : 0;
		zr_put(op->y, at + c, op->dtype, zr_fma(xh, zr_get(op->gamma, c, op->dtype), beta));
	}
	zr_reals(op->mean)[r] = mean;
	zr_reals(op->rstd)[r] = rstd;
}

void ZR_SCALAR(layernorm)(const struct zr_op_layernorm *op, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		forward_row(op, r);
}

/* part: sums for dgamma, then for dbeta, or NULL */
static void backward_row(const struct zr_op_layernorm_bwd *op, int64_t r, zr_real *part)
{
	int64_t width = op->width, at = r * width;
	zr_real mean = zr_reals(op->mean)[r], rstd = zr_reals(op->rstd)[r], sum_n = 0, sum_nx = 0;

	for (int64_t c = 0; c < width; c++) {
		zr_real xh = (zr_get(op->x, at + c, op->dtype) - mean) * rstd;
		zr_real dy = zr_get(op->dy, at + c, op->dtype),
			n = dy * zr_get(op->gamma, c, op->dtype);
		sum_n += n;
		sum_nx += n * xh;
		if (part) {
			part[c] += dy * xh;
			part[width + c] += dy;
		}
	}

	sum_n /= (zr_real)width;
	sum_nx /= (zr_real)width;
	for (int64_t c = 0; c < width; c++) {
		zr_real xh = (zr_get(op->x, at + c, op->dtype) - mean) * rstd;
		zr_real n = zr_get(op->dy, at + c, op->dtype) * zr_get(op->gamma, c, op->dtype);
		zr_put(op->dx, at + c, op->dtype,
		       zr_get(op->dx, at + c, op->dtype) + rstd * (n - sum_n - xh * sum_nx));
	}
}

void ZR_SCALAR(layernorm_bwd)(const struct zr_op_layernorm_bwd *op, int64_t lo, int64_t hi,
			      zr_real *part)
{
	if (part)
		memset(part, 0, 2 * (size_t)op->width * sizeof *part);
	for (int64_t r = lo; r < hi; r++)
		backward_row(op, r, part);
}

static void sum_columns(zr_real *out, const zr_real *part, int64_t n_part, int64_t stride,
			int accumulate, int64_t lo, int64_t hi)
{
	for (int64_t c = lo; c < hi && out; c++) {
		zr_real sum = part[c];
		for (int64_t p = 1; p < n_part; p++)
			sum += part[p * stride + c];
		out[c] = accumulate ? out[c] + sum : sum;
	}
}

void ZR_SCALAR(layernorm_bwd_sum)(const struct zr_op_layernorm_bwd *op, const zr_real *part,
				  int64_t n_part, int64_t lo, int64_t hi)
{
	int accumulate = op->flags & ZR_OP_ACCUMULATE;
	int64_t width = op->width;

	sum_columns(zr_reals(op->dgamma), part, n_part, 2 * width, accumulate, lo, hi);
	sum_columns(zr_reals(op->dbeta), part + width, n_part, 2 * width, accumulate, lo, hi);
}
