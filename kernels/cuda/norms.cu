/* SPDX-License-Identifier: Apache-2.0
 *
 * norms.cu - layer norm and RMSNorm and their gradients. A warp computes a row; the gradients of
 * gamma and beta are sums over rows (parts.h).
 */
#include "parts.h"

#define ROW_WARPS 4 /* rows of a CUDA block */

static dim3 columns_by(int64_t columns, int64_t tiles)
{
	return dim3((unsigned)zr_ceil_div(columns, ZR_THREADS), (unsigned)tiles);
}

/* ---- layer norm ------------------------------------------------------------------ */

template <class T>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP, 8)
	layernorm_kernel(const __grid_constant__ struct zr_op_layernorm op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width,
		      at = r * width;
	const int first = 4 * (int)threadIdx.x;
	float sum = 0, squares = 0;

	if (r >= op.rows) /* a whole warp */
		return;
	for (int64_t c = first; c < width; c += 4 * ZR_WARP) {
		zr_quad x = zr_load<T>(
			op.x, zr_place{ at + c, width - c < 4 ? (int)(width - c) : 4, whole });
		sum += (x.x[0] + x.x[1]) + (x.x[2] + x.x[3]);
	}
	const float mean = zr_warp_sum(sum) / (float)width;
	for (int64_t c = first; c < width; c += 4 * ZR_WARP) {
		int n = width - c < 4 ? (int)(width - c) : 4;
		zr_quad x = zr_load<T>(op.x, zr_place{ at + c, n, whole });
#pragma unroll
		for (int k = 0; k < 4; k++)
			squares = k < n ? fmaf(x.x[k] - mean, x.x[k] - mean, squares) : squares;
	}
	const float rstd = 1 / sqrtf(zr_warp_sum(squares) / (float)width + op.eps);
	for (int64_t c = first; c < width; c += 4 * ZR_WARP) {
		int n = width - c < 4 ? (int)(width - c) : 4;
		zr_quad x = zr_load<T>(op.x, zr_place{ at + c, n, whole });
		zr_quad gamma = zr_load<T>(op.gamma, zr_place{ c, n, whole }),
			beta = { { 0, 0, 0, 0 } };
		if (op.beta)
			beta = zr_load<T>(op.beta, zr_place{ c, n, whole });
		for (int k = 0; k < 4; k++)
			x.x[k] = fmaf((x.x[k] - mean) * rstd, gamma.x[k], beta.x[k]);
		zr_store<T>(op.y, zr_place{ at + c, n, whole }, x);
	}
	if (threadIdx.x == 0) {
		op.mean[r] = mean;
		op.rstd[r] = rstd;
	}
}

template <class T>
static cudaError_t launch_layernorm(const struct zr_op_layernorm *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->y, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->beta, sizeof(T));
	return zr_launch(layernorm_kernel<T>, dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
			 dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
}

cudaError_t zr_cuda_layernorm(const struct zr_op_layernorm *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_layernorm, op, s);
}

/* dx of a row. */
template <class T>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP)
	layernorm_dx_kernel(const __grid_constant__ struct zr_op_layernorm_bwd op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width,
		      at = r * width;
	float sum_n = 0, sum_nx = 0;

	if (r >= op.rows)
		return;
	const float mean = op.mean[r], rstd = op.rstd[r];
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		zr_place row = { at + c, width - c < 4 ? (int)(width - c) : 4, whole },
			 col = { c, row.n, whole };
		zr_quad x = zr_load<T>(op.x, row), dy = zr_load<T>(op.dy, row),
			gamma = zr_load<T>(op.gamma, col);
#pragma unroll
		for (int k = 0; k < 4; k++) { /* beyond the row dy is 0 */
			float n = dy.x[k] * gamma.x[k];
			sum_n += n;
			sum_nx = fmaf(n, (x.x[k] - mean) * rstd, sum_nx);
		}
	}
	sum_n = zr_warp_sum(sum_n) / (float)width;
	sum_nx = zr_warp_sum(sum_nx) / (float)width;
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		zr_place row = { at + c, width - c < 4 ? (int)(width - c) : 4, whole },
			 col = { c, row.n, whole };
		zr_quad x = zr_load<T>(op.x, row), dy = zr_load<T>(op.dy, row),
			gamma = zr_load<T>(op.gamma, col);
		zr_quad dx = zr_load<T>(op.dx, row);
		for (int k = 0; k < 4; k++) {
			float xh = (x.x[k] - mean) * rstd;
			dx.x[k] += rstd * (dy.x[k] * gamma.x[k] - sum_n - xh * sum_nx);
		}
		zr_store<T>(op.dx, row, dx);
	}
}

/* part[tile][2][width]: sums of dy * xh and of dy. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	layernorm_part_kernel(const __grid_constant__ struct zr_op_layernorm_bwd op)
{
	const int64_t c = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x,
		      from = (int64_t)blockIdx.y * TILE;
	const int64_t to = from + TILE < op.rows ? from + TILE : op.rows;
	const T *x = (const T *)op.x, *dy = (const T *)op.dy;
	float *part = (float *)op.work + 2 * blockIdx.y * op.width, gamma = 0, beta = 0;

	if (c >= op.width)
		return;
#pragma unroll 4
	for (int64_t r = from; r < to; r++) {
		float g = zr_widen(dy[r * op.width + c]);
		gamma += g * ((zr_widen(x[r * op.width + c]) - op.mean[r]) * op.rstd[r]);
		beta += g;
	}
	part[c] = gamma;
	part[op.width + c] = beta;
}

template <class T>
static cudaError_t launch_layernorm_bwd(const struct zr_op_layernorm_bwd *op, cudaStream_t s)
{
	int64_t tiles = zr_ceil_div(op->rows, TILE);
	const float *part = (const float *)op->work;
	int whole = op->width % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->dy, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->dx, sizeof(T));
	cudaError_t e = cudaSuccess;
	if (op->dgamma || op->dbeta)
		e = zr_launch(layernorm_part_kernel<T>, columns_by(op->width, tiles),
			      dim3(ZR_THREADS), 0, s, *op);
	if (e == cudaSuccess)
		e = zr_launch(layernorm_dx_kernel<T>,
			      dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
			      dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
	if (e == cudaSuccess && op->dgamma)
		e = sum_parts(part, 2 * op->width, tiles, op->dgamma, op->width, op->flags, s);
	if (e == cudaSuccess && op->dbeta)
		e = sum_parts(part + op->width, 2 * op->width, tiles, op->dbeta, op->width,
			      op->flags, s);
	return e;
}

cudaError_t zr_cuda_layernorm_bwd(const struct zr_op_layernorm_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_layernorm_bwd, op, s);
}

/* ---- RMSNorm --------------------------------------------------------------------- */

/* What xh is multiplied by. */
template <class T> ZR_DEVICE zr_quad rmsnorm_factor(const void *gamma, zr_place col, uint32_t flags)
{
	if (!gamma)
		return zr_quad{ { 1, 1, 1, 1 } };
	zr_quad f = zr_load<T>(gamma, col);
	for (int k = 0; k < 4 && flags & ZR_RMSNORM_PLUS_ONE; k++)
		f.x[k] = 1 + f.x[k];
	return f;
}

/* Columns c.. of the row that starts at element `at`. */
ZR_DEVICE zr_place row_place(int64_t at, int64_t c, int64_t width, int whole)
{
	return zr_place{ at + c, width - c < 4 ? (int)(width - c) : 4, whole };
}

template <class T>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP)
	rmsnorm_kernel(const __grid_constant__ struct zr_op_rmsnorm op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width;
	const int64_t at = zr_row_at(r, width, op.per_row, op.x_stride),
		      to = zr_row_at(r, width, op.per_row, op.y_stride);
	float squares = 0;

	if (r >= op.rows) /* a whole warp */
		return;
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		zr_quad x = zr_load<T>(op.x, row_place(at, c, width, whole));
		for (int k = 0; k < 4; k++)
			squares = fmaf(x.x[k], x.x[k], squares);
	}
	const float rstd = 1 / sqrtf(zr_warp_sum(squares) / (float)width + op.eps);
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		zr_quad x = zr_load<T>(op.x, row_place(at, c, width, whole)),
			f = rmsnorm_factor<T>(op.gamma, row_place(0, c, width, whole), op.flags);
		for (int k = 0; k < 4; k++)
			x.x[k] = x.x[k] * rstd * f.x[k];
		zr_store<T>(op.y, row_place(to, c, width, whole), x);
	}
	if (threadIdx.x == 0)
		op.rstd[r] = rstd;
}

template <class T> static cudaError_t launch_rmsnorm(const struct zr_op_rmsnorm *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && op->x_stride % 4 == 0 && op->y_stride % 4 == 0 &&
		    zr_quads(op->x, sizeof(T)) && zr_quads(op->y, sizeof(T)) &&
		    zr_quads(op->gamma, sizeof(T));
	return zr_launch(rmsnorm_kernel<T>, dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
			 dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
}

cudaError_t zr_cuda_rmsnorm(const struct zr_op_rmsnorm *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_rmsnorm, op, s);
}

/* dx of a row. */
template <class T>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP)
	rmsnorm_dx_kernel(const __grid_constant__ struct zr_op_rmsnorm_bwd op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width;
	const int64_t at = zr_row_at(r, width, op.per_row, op.x_stride),
		      from = zr_row_at(r, width, op.per_row, op.dy_stride),
		      to = zr_row_at(r, width, op.per_row, op.dx_stride);
	float mean = 0;

	if (r >= op.rows)
		return;
	const float rstd = op.rstd[r];
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		zr_quad x = zr_load<T>(op.x, row_place(at, c, width, whole)),
			dy = zr_load<T>(op.dy, row_place(from, c, width, whole)),
			f = rmsnorm_factor<T>(op.gamma, row_place(0, c, width, whole), op.flags);
		for (int k = 0; k < 4; k++)
			mean = fmaf(dy.x[k] * f.x[k], x.x[k] * rstd, mean);
	}
	mean = zr_warp_sum(mean) / (float)width;
	for (int64_t c = 4 * threadIdx.x; c < width; c += 4 * ZR_WARP) {
		const zr_place out = row_place(to, c, width, whole);
		zr_quad x = zr_load<T>(op.x, row_place(at, c, width, whole)),
			dy = zr_load<T>(op.dy, row_place(from, c, width, whole)),
			f = rmsnorm_factor<T>(op.gamma, row_place(0, c, width, whole), op.flags);
		for (int k = 0; k < 4; k++)
			dy.x[k] = rstd * (dy.x[k] * f.x[k] - x.x[k] * rstd * mean);
		if (!(op.flags & ZR_RMSNORM_STORE)) {
			zr_quad dx = zr_load<T>(op.dx, out);
			for (int k = 0; k < 4; k++)
				dy.x[k] = dx.x[k] + dy.x[k];
		}
		zr_store<T>(op.dx, out, dy);
	}
}

/* part[tile][width]: sums of dy * xh. Heads are many rows: the grid's first side has most room. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	rmsnorm_part_kernel(const __grid_constant__ struct zr_op_rmsnorm_bwd op)
{
	const int64_t c = (int64_t)blockIdx.y * ZR_THREADS + threadIdx.x,
		      first = (int64_t)blockIdx.x * TILE;
	const int64_t end = first + TILE < op.rows ? first + TILE : op.rows;
	const T *x = (const T *)op.x, *dy = (const T *)op.dy;
	const int64_t per = op.per_row ? op.per_row : 1;
	int64_t place = first % per, at = zr_row_at(first, op.width, op.per_row, op.x_stride),
		from = zr_row_at(first, op.width, op.per_row, op.dy_stride);
	/* from the last row of a group to the first of the next one */
	const int64_t x_step = (op.x_stride ? op.x_stride : per * op.width) - (per - 1) * op.width,
		      dy_step = (op.dy_stride ? op.dy_stride : per * op.width) -
				(per - 1) * op.width;
	float gamma = 0;

	if (c >= op.width)
		return;
#pragma unroll 4
	for (int64_t r = first; r < end; r++) {
		const bool last = ++place == per;
		gamma += zr_widen(dy[from + c]) * (zr_widen(x[at + c]) * op.rstd[r]);
		at += last ? x_step : op.width;
		from += last ? dy_step : op.width;
		place = last ? 0 : place;
	}
	((float *)op.work)[blockIdx.x * op.width + c] = gamma;
}

template <class T>
static cudaError_t rmsnorm_dgamma(const struct zr_op_rmsnorm_bwd *op, cudaStream_t s)
{
	int64_t tiles = zr_ceil_div(op->rows, TILE);
	dim3 grid((unsigned)tiles, (unsigned)zr_ceil_div(op->width, ZR_THREADS));
	cudaError_t e = zr_launch(rmsnorm_part_kernel<T>, grid, dim3(ZR_THREADS), 0, s, *op);
	return e != cudaSuccess ? e :
				  sum_parts((const float *)op->work, op->width, tiles, op->dgamma,
					    op->width, op->flags, s);
}

/* dx may be dy: dgamma comes first. */
template <class T>
static cudaError_t launch_rmsnorm_bwd(const struct zr_op_rmsnorm_bwd *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && op->x_stride % 4 == 0 && op->dy_stride % 4 == 0 &&
		    op->dx_stride % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->dy, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->dx, sizeof(T));
	cudaError_t e = op->dgamma ? rmsnorm_dgamma<T>(op, s) : cudaSuccess;
	return e != cudaSuccess ? e :
				  zr_launch(rmsnorm_dx_kernel<T>,
					    dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
					    dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
}

cudaError_t zr_cuda_rmsnorm_bwd(const struct zr_op_rmsnorm_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_rmsnorm_bwd, op, s);
}
