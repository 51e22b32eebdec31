/* SPDX-License-Identifier: Apache-2.0
 *
 * norms.cu - layer norm and RMSNorm and their gradients. A warp computes a row, or a CUDA block the
 * gradients of a tile of rows; the gradients of gamma and beta are sums over rows (parts.h).
 */
#include "parts.h"

#define ROW_WARPS 4 /* rows of a CUDA block */

/* Columns c.. of the row that starts at element `at`. */
ZR_DEVICE zr_place row_place(int64_t at, int64_t c, int64_t width, int whole)
{
	return zr_place{ at + c, width - c < 4 ? (int)(width - c) : 4, whole };
}

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

/* ---- all gradients at once ------------------------------------------------------- */

/* A CUDA block does a tile of rows and so reads x and dy once. A thread has Q fours of columns of
 * every row, which are blockDim.x fours apart, and adds their gradients of gamma and beta, rows
 * ascending. It has ROWS rows at a time: sums over a row are those of a thread, columns
 * ascending, then of a warp as a butterfly, then of warps ascending. */
struct norm_bwd {
	const void *x, *dy, *gamma;
	const float *mean, *rstd; /* mean: of layer norm alone */
	void *dx;
	float *part; /* or NULL */
	int64_t rows, width;
	uint32_t flags; /* of RMSNorm */
};

/* What xh is multiplied by, of a thread's part of gamma. */
template <bool RMS, class T>
ZR_DEVICE zr_quad norm_factor(const zr_packed<T> &gamma, const norm_bwd &op)
{
	zr_quad f = zr_unpacked(gamma);
	for (int j = 0; j < 4 && RMS; j++)
		f.x[j] = !op.gamma ? 1 : op.flags & ZR_RMSNORM_PLUS_ONE ? 1 + f.x[j] : f.x[j];
	return f;
}

#define NORM_THREADS 512 /* at most, and half of it where a thread has one four */
#define NORM_WIDEST  (4 * 2 * NORM_THREADS)

template <class T, int Q> struct norm_rows {
	enum { ROWS = 2 }; /* as registers allow */
	zr_packed<T> x[ROWS][Q], dy[ROWS][Q], dx[ROWS][Q];
	float mean[ROWS], rstd[ROWS];
};

/* Elements from i on, `left` of their row. */
template <class T>
ZR_DEVICE zr_packed<T> packed_of(const void *p, int64_t i, int64_t left, int whole)
{
	zr_packed<T> v;
	if (whole)
		return *(const zr_packed<T> *)(const void *)((const T *)p + i);
	zr_pack(zr_load<T>(p, zr_place{ i, left < 4 ? (int)left : 4, 0 }), &v);
	return v;
}

/* The thread's part of rows from r on; beyond `end` and the row's end it is 0. */
template <class T, int Q>
ZR_DEVICE void load_rows(norm_rows<T, Q> *to, const norm_bwd &op, int64_t r, int64_t end, int whole)
{
	const bool add = !(op.flags & ZR_RMSNORM_STORE);
#pragma unroll
	for (int k = 0; k < norm_rows<T, Q>::ROWS; k++) {
		const bool there = r + k < end;
		to->mean[k] = there && op.mean ? op.mean[r + k] : 0;
		to->rstd[k] = there ? op.rstd[r + k] : 0;
#pragma unroll
		for (int q = 0; q < Q; q++) {
			const int64_t c = 4 * ((int64_t)q * blockDim.x + threadIdx.x),
				      i = (r + k) * op.width + c;
			to->x[k][q] = to->dy[k][q] = to->dx[k][q] = zr_packed<T>{};
			if (!there || c >= op.width)
				continue;
			to->x[k][q] = packed_of<T>(op.x, i, op.width - c, whole);
			to->dy[k][q] = packed_of<T>(op.dy, i, op.width - c, whole);
			if (add)
				to->dx[k][q] = packed_of<T>(op.dx, i, op.width - c, whole);
		}
	}
}

template <class T, int Q, bool RMS>
static __global__ void __launch_bounds__(NORM_THREADS / 2 * Q, Q > 1 ? 1 : 3)
	norm_bwd_kernel(const __grid_constant__ norm_bwd op, int whole)
{
	enum { ROWS = norm_rows<T, Q>::ROWS, SUMS = RMS ? ROWS : 2 * ROWS };
	__shared__ struct {
		alignas(SUMS % 4 ? 8 : 16) float of[SUMS];
	} sums[2][NORM_THREADS / ZR_WARP];
	const int64_t from = (int64_t)blockIdx.x * TILE;
	const int64_t end = from + TILE < op.rows ? from + TILE : op.rows;
	const int warps = (int)blockDim.x / ZR_WARP;
	const float share = 1 / (float)op.width;
	constexpr bool EARLY = Q > 1 && sizeof(T) == 2;
	zr_packed<T> gamma[Q];
	zr_quad dgamma[Q] = {}, dbeta[Q] = {};
	norm_rows<T, Q> now, next;
	int turn = 0;

	for (int q = 0; q < Q; q++) {
		const int64_t c = 4 * ((int64_t)q * blockDim.x + threadIdx.x);
		gamma[q] = c < op.width && op.gamma ? packed_of<T>(op.gamma, c, op.width - c, 0) :
						      zr_packed<T>{};
	}
	if (EARLY)
		load_rows(&next, op, from, end, whole);
	for (int64_t r = from; r < end; r += ROWS, turn ^= 1) {
		float sum[SUMS] = {};
		if (EARLY) {
			now = next;
			load_rows(&next, op, r + ROWS, end, whole);
		} else {
			load_rows(&now, op, r, end, whole);
		}
#pragma unroll
		for (int k = 0; k < ROWS; k++) {
#pragma unroll
			for (int q = 0; q < Q; q++) {
				const zr_quad x = zr_unpacked(now.x[k][q]),
					      dy = zr_unpacked(now.dy[k][q]),
					      f = norm_factor<RMS>(gamma[q], op);
				for (int j = 0; j < 4; j++) {
					float n = dy.x[j] * f.x[j],
					      xh = (x.x[j] - now.mean[k]) * now.rstd[k];
					sum[k] = fmaf(n, xh, sum[k]);
					if (!RMS)
						sum[SUMS - ROWS + k] += n;
				}
			}
		}
#pragma unroll
		for (int i = 0; i < SUMS; i++) {
			sum[i] = zr_warp_sum(sum[i]);
			if (threadIdx.x % ZR_WARP == 0)
				sums[turn][threadIdx.x / ZR_WARP].of[i] = sum[i];
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			sum[i] = sums[turn][0].of[i];
		for (int w = 1; w < warps; w++)
#pragma unroll
			for (int i = 0; i < SUMS; i++)
				sum[i] += sums[turn][w].of[i];
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			sum[i] *= share;
#pragma unroll
		for (int k = 0; k < ROWS; k++) {
			if (r + k >= end)
				break;
#pragma unroll
			for (int q = 0; q < Q; q++) {
				const int64_t c = 4 * ((int64_t)q * blockDim.x + threadIdx.x);
				const zr_place at =
					row_place((r + k) * op.width, c, op.width, whole);
				const zr_quad x = zr_unpacked(now.x[k][q]),
					      dy = zr_unpacked(now.dy[k][q]),
					      f = norm_factor<RMS>(gamma[q], op);
				zr_quad dx = zr_unpacked(now.dx[k][q]);
				for (int j = 0; j < 4; j++) {
					float n = dy.x[j] * f.x[j],
					      xh = (x.x[j] - now.mean[k]) * now.rstd[k];
					if (!RMS)
						n -= sum[SUMS - ROWS + k];
					n = now.rstd[k] * (n - xh * sum[k]);
					dx.x[j] = op.flags & ZR_RMSNORM_STORE ? n : dx.x[j] + n;
					dgamma[q].x[j] += dy.x[j] * xh;
					dbeta[q].x[j] += dy.x[j];
				}
				if (c < op.width)
					zr_store<T>(op.dx, at, dx);
			}
		}
	}
	float *part = op.part + (RMS ? 1 : 2) * blockIdx.x * op.width;
	for (int q = 0; q < Q && op.part; q++) {
		const int64_t c = 4 * ((int64_t)q * blockDim.x + threadIdx.x);
		if (c >= op.width)
			continue;
		zr_store<float>(part, row_place(0, c, op.width, 0), dgamma[q]);
		if (!RMS)
			zr_store<float>(part + op.width, row_place(0, c, op.width, 0), dbeta[q]);
	}
}

template <class T, int Q, bool RMS>
static cudaError_t launch_norm_bwd(const norm_bwd &op, int whole, cudaStream_t s)
{
	const int64_t threads = zr_ceil_div(op.width, 4 * Q * ZR_WARP) * ZR_WARP;
	return zr_launch(norm_bwd_kernel<T, Q, RMS>, dim3((unsigned)zr_ceil_div(op.rows, TILE)),
			 dim3((unsigned)threads), 0, s, op, whole);
}

template <class T, bool RMS>
static cudaError_t norm_bwd_by_width(const norm_bwd &op, cudaStream_t s)
{
	const int whole = op.width % 4 == 0 && zr_quads(op.x, sizeof(T)) &&
			  zr_quads(op.dy, sizeof(T)) && zr_quads(op.dx, sizeof(T));
	return op.width <= 2 * NORM_THREADS ? launch_norm_bwd<T, 1, RMS>(op, whole, s) :
					      launch_norm_bwd<T, 2, RMS>(op, whole, s);
}

static dim3 columns_by(int64_t columns, int64_t tiles)
{
	return dim3((unsigned)zr_ceil_div(columns, ZR_THREADS), (unsigned)tiles);
}

/* ---- a row in a warp ------------------------------------------------------------- */

/* A lane's fours of a row, a warp's fours apart. Up to KEPT are read once and kept; with KEPT 0
 * there may be any number, and each is read when it is asked for. */
template <class T, int KEPT> struct lane_row {
	/* CUDA blocks that must fit at once, which limits registers */
	enum { BLOCKS = KEPT * sizeof(T) > 16 ? 4 : 8 };
	const void *p;
	int64_t at, width;
	int whole;
	zr_packed<T> kept[KEPT ? KEPT : 1];

	ZR_MEMBER int64_t column(int j) const
	{
		return 4 * ((int64_t)j * ZR_WARP + threadIdx.x);
	}

	ZR_MEMBER void load()
	{
#pragma unroll
		for (int j = 0; j < KEPT; j++)
			if (column(j) < width)
				kept[j] = packed_of<T>(p, at + column(j), width - column(j), whole);
	}

	ZR_MEMBER zr_quad four(int j) const
	{
		return KEPT ? zr_unpacked(kept[j]) :
			      zr_load<T>(p, row_place(at, column(j), width, whole));
	}

	/* f(four, its column, how many there are) of each. */
	template <class F> ZR_MEMBER void each(F f) const
	{
#pragma unroll(KEPT ? KEPT : 1)
		for (int j = 0; KEPT ? j < KEPT : column(j) < width; j++) {
			const int64_t c = column(j);
			if (!KEPT || c < width)
				f(four(j), c, width - c < 4 ? (int)(width - c) : 4);
		}
	}
};

/* fn<T, KEPT>(...) of as many as a width needs, or of 0: up to 8, of bf16 up to WIDE, as registers
 * allow. */
#define BY_WIDTH(T, WIDE, width, fn, ...)                                                          \
	((width) <= 4 * ZR_WARP * 8                  ? fn<T, 8>(__VA_ARGS__) :                     \
	 (width) <= 4 * ZR_WARP * MOST_KEPT<T, WIDE> ? fn<T, MOST_KEPT<T, WIDE>>(__VA_ARGS__) :    \
						       fn<T, 0>(__VA_ARGS__))

template <class T, int WIDE> static constexpr int MOST_KEPT = 8;
template <int WIDE> constexpr int MOST_KEPT<bf16, WIDE> = WIDE;

/* ---- layer norm ------------------------------------------------------------------ */

template <class T, int KEPT>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP, (lane_row<T, KEPT>::BLOCKS))
	layernorm_kernel(const __grid_constant__ struct zr_op_layernorm op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width;
	float sum = 0, squares = 0;

	if (r >= op.rows) /* a whole warp */
		return;
	lane_row<T, KEPT> row = { op.x, r * width, width, whole, {} };
	row.load();
	row.each([&](const zr_quad &x, int64_t, int) {
		sum += (x.x[0] + x.x[1]) + (x.x[2] + x.x[3]);
	});
	const float mean = zr_warp_sum(sum) / (float)width;
	row.each([&](const zr_quad &x, int64_t, int n) {
#pragma unroll
		for (int k = 0; k < 4; k++)
			squares = k < n ? fmaf(x.x[k] - mean, x.x[k] - mean, squares) : squares;
	});
	const float rstd = 1 / sqrtf(zr_warp_sum(squares) / (float)width + op.eps);
	row.each([&](const zr_quad &x, int64_t c, int n) {
		const zr_quad gamma = zr_load<T>(op.gamma, zr_place{ c, n, whole });
		zr_quad beta = { { 0, 0, 0, 0 } }, y;
		if (op.beta)
			beta = zr_load<T>(op.beta, zr_place{ c, n, whole });
		for (int k = 0; k < 4; k++)
			y.x[k] = fmaf((x.x[k] - mean) * rstd, gamma.x[k], beta.x[k]);
		zr_store<T>(op.y, zr_place{ row.at + c, n, whole }, y);
	});
	if (threadIdx.x == 0) {
		op.mean[r] = mean;
		op.rstd[r] = rstd;
	}
}

template <class T, int KEPT>
static cudaError_t launch_layernorm_kept(const struct zr_op_layernorm *op, int whole,
					 cudaStream_t s)
{
	return zr_launch(layernorm_kernel<T, KEPT>,
			 dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)), dim3(ZR_WARP, ROW_WARPS),
			 0, s, *op, whole);
}

template <class T>
static cudaError_t launch_layernorm(const struct zr_op_layernorm *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->y, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->beta, sizeof(T));
	return BY_WIDTH(T, 16, op->width, launch_layernorm_kept, op, whole, s);
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
	float *part = op->dgamma || op->dbeta ? (float *)op->work : NULL;
	int whole = op->width % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->dy, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->dx, sizeof(T));
	const bool at_once = !zr_converts_long<T> && op->width <= NORM_WIDEST;
	cudaError_t e = cudaSuccess;
	if constexpr (!zr_converts_long<T>) {
		const norm_bwd both = { op->x,  op->dy, op->gamma, op->mean,  op->rstd,
					op->dx, part,   op->rows,  op->width, 0 };
		if (at_once)
			e = norm_bwd_by_width<T, false>(both, s);
	}
	if (part && !at_once)
		e = zr_launch(layernorm_part_kernel<T>, columns_by(op->width, tiles),
			      dim3(ZR_THREADS), 0, s, *op);
	if (e == cudaSuccess && !at_once)
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

template <class T, int KEPT>
static __global__ void __launch_bounds__(ROW_WARPS *ZR_WARP, (lane_row<T, KEPT>::BLOCKS))
	rmsnorm_kernel(const __grid_constant__ struct zr_op_rmsnorm op, int whole)
{
	const int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.y, width = op.width;
	const int64_t to = zr_row_at(r, width, op.per_row, op.y_stride);
	float squares = 0;

	if (r >= op.rows) /* a whole warp */
		return;
	lane_row<T, KEPT> row = {
		op.x, zr_row_at(r, width, op.per_row, op.x_stride), width, whole, {}
	};
	row.load();
	row.each([&](const zr_quad &x, int64_t, int) { /* beyond the row x is 0 */
						       for (int k = 0; k < 4; k++)
							       squares = fmaf(x.x[k], x.x[k],
									      squares);
	});
	const float rstd = 1 / sqrtf(zr_warp_sum(squares) / (float)width + op.eps);
	row.each([&](zr_quad x, int64_t c, int n) {
		const zr_quad f = rmsnorm_factor<T>(op.gamma, zr_place{ c, n, whole }, op.flags);
		for (int k = 0; k < 4; k++)
			x.x[k] = x.x[k] * rstd * f.x[k];
		zr_store<T>(op.y, zr_place{ to + c, n, whole }, x);
	});
	if (threadIdx.x == 0)
		op.rstd[r] = rstd;
}

template <class T, int KEPT>
static cudaError_t launch_rmsnorm_kept(const struct zr_op_rmsnorm *op, int whole, cudaStream_t s)
{
	return zr_launch(rmsnorm_kernel<T, KEPT>, dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
			 dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
}

template <class T> static cudaError_t launch_rmsnorm(const struct zr_op_rmsnorm *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && op->x_stride % 4 == 0 && op->y_stride % 4 == 0 &&
		    zr_quads(op->x, sizeof(T)) && zr_quads(op->y, sizeof(T)) &&
		    zr_quads(op->gamma, sizeof(T));
	return BY_WIDTH(T, 32, op->width, launch_rmsnorm_kept, op, whole, s);
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
		      dy_step =
			      (op.dy_stride ? op.dy_stride : per * op.width) - (per - 1) * op.width;
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

/* dx may be dy: in kernels of their own dgamma comes first. */
template <class T>
static cudaError_t launch_rmsnorm_bwd(const struct zr_op_rmsnorm_bwd *op, cudaStream_t s)
{
	const int64_t tiles = zr_ceil_div(op->rows, TILE);
	int whole = op->width % 4 == 0 && op->x_stride % 4 == 0 && op->dy_stride % 4 == 0 &&
		    op->dx_stride % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->dy, sizeof(T)) && zr_quads(op->gamma, sizeof(T)) &&
		    zr_quads(op->dx, sizeof(T));
	float *part = op->dgamma ? (float *)op->work : NULL;
	const bool at_once = !zr_converts_long<T> && op->width >= 4 * ZR_WARP &&
			     op->width <= NORM_WIDEST && !op->x_stride && !op->dy_stride &&
			     !op->dx_stride;
	dim3 grid((unsigned)tiles, (unsigned)zr_ceil_div(op->width, ZR_THREADS));
	cudaError_t e = cudaSuccess;

	if constexpr (!zr_converts_long<T>) {
		const norm_bwd both = { op->x,  op->dy, op->gamma, NULL,      op->rstd,
					op->dx, part,   op->rows,  op->width, op->flags };
		if (at_once)
			e = norm_bwd_by_width<T, true>(both, s);
	}
	if (part && !at_once)
		e = zr_launch(rmsnorm_part_kernel<T>, grid, dim3(ZR_THREADS), 0, s, *op);
	if (e == cudaSuccess && !at_once)
		e = zr_launch(rmsnorm_dx_kernel<T>,
			      dim3((unsigned)zr_ceil_div(op->rows, ROW_WARPS)),
			      dim3(ZR_WARP, ROW_WARPS), 0, s, *op, whole);
	if (e == cudaSuccess && part)
		e = sum_parts(part, op->width, tiles, op->dgamma, op->width, op->flags, s);
	return e;
}

cudaError_t zr_cuda_rmsnorm_bwd(const struct zr_op_rmsnorm_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_rmsnorm_bwd, op, s);
}
