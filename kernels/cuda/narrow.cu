/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.cu - operands of products in 8 bits, by the arithmetic of cpu/narrow.h: codes of E4M3 or
 * E5M2 with the powers of two that they are multiplied by, or the same numbers in bf16; and what
 * becomes of sums of products of codes.
 */
#include "kernel.h"

#include "../cpu/codes.h"
#include "../cpu/narrow.h"

#define ROWS_AT_ONCE (ZR_THREADS / ZR_WARP) /* a warp has a row */
#define SIDE         32                     /* of a tile that is turned */
#define DEEP         8                      /* threads along its rows */

/* A rounded x as a code: its bits from the sign to the last one that a number of 8 bits has. */
ZR_DEVICE uint8_t code_of(struct zr_narrow_kind kind, float x)
{
	const uint32_t bits = zr_bits(x), sign = bits >> 31 << 7;
	const uint32_t magnitude = bits & 0x7fffffffu;
	const int cut = 23 - kind.mantissa;

	if (zr_from_bits(magnitude) < zr_power_of_two(kind.normal)) /* a multiple of the smallest */
		return (uint8_t)(sign | (uint32_t)(zr_from_bits(magnitude) *
						   zr_power_of_two(kind.mantissa - kind.normal)));

	/* the exponent of the smallest normal number has the code 1 */
	return (uint8_t)(sign |
			 ((magnitude >> cut) - ((uint32_t)(kind.normal + 126) << kind.mantissa)));
}

/* What a row or column is scaled by, of its largest magnitude. */
struct powers {
	float up, down;
	int finite;
};

ZR_DEVICE struct powers powers_of(struct zr_narrow_kind kind, uint32_t most)
{
	const int32_t power = zr_narrow_power(kind, most);
	if (!zr_narrow_is_finite(most))
		return { 0, zr_from_bits(0x7fc00000u), 0 };
	return { zr_power_of_two(power), zr_power_of_two(-power), 1 };
}

ZR_DEVICE float bf16_at(const void *p, int64_t i)
{
	return zr_widen(((const bf16 *)p)[i]);
}

/* Element i of n.to gets x, scaled and rounded. */
ZR_DEVICE void put(const struct zr_cuda_narrowing &n, struct zr_narrow_kind kind,
		   const struct powers &by, int64_t i, float x)
{
	const float scaled = by.finite ? zr_narrow_round(kind, x * by.up) : 0;
	if (n.scale)
		((uint8_t *)n.to)[i] = code_of(kind, scaled);
	else if (by.finite)
		((uint16_t *)n.to)[i] = (uint16_t)(zr_bits(scaled * by.down) >> 16);
	else
		((uint16_t *)n.to)[i] = 0x7fc0;
}

ZR_DEVICE uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

ZR_DEVICE uint32_t warp_largest(uint32_t x)
{
	for (int mask = ZR_WARP / 2; mask > 0; mask /= 2)
		x = larger(x, __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP));
	return x;
}

static __global__ void __launch_bounds__(ZR_THREADS)
	rows_kernel(const __grid_constant__ struct zr_cuda_narrowing n)
{
	const struct zr_narrow_kind kind = zr_narrow_kind_of(n.of.e5m2);
	const int lane = (int)(threadIdx.x % ZR_WARP);
	const int64_t step = (int64_t)gridDim.x * ROWS_AT_ONCE;

	for (int64_t r = (int64_t)blockIdx.x * ROWS_AT_ONCE + threadIdx.x / ZR_WARP; r < n.of.rows;
	     r += step) {
		const int64_t from = r * n.of.ld, to = r * n.of.width;
		uint32_t most = 0;
		for (int64_t i = lane; i < n.of.width; i += ZR_WARP)
			most = larger(most, zr_magnitude(bf16_at(n.of.from, from + i)));

		const struct powers by = powers_of(kind, warp_largest(most));
		for (int64_t i = lane; i < n.of.width; i += ZR_WARP)
			put(n, kind, by, to + i, bf16_at(n.of.from, from + i));
		if (n.scale && lane == 0)
			n.scale[r] = by.down;
	}
}

/* The largest magnitude of a column among ZR_CUDA_NARROW_PART rows: n.part[part][column]. */
static __global__ void __launch_bounds__(ZR_THREADS)
	part_kernel(const __grid_constant__ struct zr_cuda_narrowing n)
{
	const int64_t c = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x;
	const int64_t first = (int64_t)blockIdx.y * ZR_CUDA_NARROW_PART;
	const int64_t left = n.of.rows - first;
	const int64_t rows = left < ZR_CUDA_NARROW_PART ? left : ZR_CUDA_NARROW_PART;
	uint32_t most = 0;

	if (c >= n.of.width)
		return;
	for (int64_t r = first; r < first + rows; r++)
		most = larger(most, zr_magnitude(bf16_at(n.of.from, r * n.of.ld + c)));
	n.part[blockIdx.y * n.of.width + c] = most;
}

ZR_DEVICE uint32_t column_most(const struct zr_cuda_narrowing &n, int64_t column)
{
	const int64_t parts = (n.of.rows + ZR_CUDA_NARROW_PART - 1) / ZR_CUDA_NARROW_PART;
	uint32_t most = 0;
	for (int64_t p = 0; p < parts; p++)
		most = larger(most, n.part[p * n.of.width + column]);
	return most;
}

/* Tiles of SIDE columns and ZR_CUDA_NARROW_PART rows, SIDE rows at a time; codes are turned. */
static __global__ void __launch_bounds__(SIDE *DEEP)
	columns_kernel(const __grid_constant__ struct zr_cuda_narrowing n)
{
	const struct zr_narrow_kind kind = zr_narrow_kind_of(n.of.e5m2);
	__shared__ float tile[SIDE][SIDE + 1];
	__shared__ uint32_t most[SIDE];
	const int64_t first_column = (int64_t)blockIdx.x * SIDE;
	const int64_t first = (int64_t)blockIdx.y * ZR_CUDA_NARROW_PART;
	const int64_t end = first + ZR_CUDA_NARROW_PART;
	const int x = (int)threadIdx.x, y = (int)threadIdx.y;

	if (y == 0 && first_column + x < n.of.width)
		most[x] = column_most(n, first_column + x);
	__syncthreads();
	if (n.scale && blockIdx.y == 0 && y == 0 && first_column + x < n.of.width)
		n.scale[first_column + x] = powers_of(kind, most[x]).down;

	for (int64_t row = first; row < end && row < n.of.rows; row += SIDE) {
		for (int k = y; k < SIDE; k += DEEP)
			if (row + k < n.of.rows && first_column + x < n.of.width)
				tile[k][x] =
					bf16_at(n.of.from, (row + k) * n.of.ld + first_column + x);
		__syncthreads();

		for (int k = y; k < SIDE; k += DEEP) {
			/* neighbours in a warp store neighbours in memory */
			int r = k, c = x;
			if (n.scale) {
				r = x;
				c = k;
			}

			const int64_t to_row = row + r, to_column = first_column + c;
			int64_t to = to_row * n.of.width + to_column;
			if (to_row >= n.of.rows || to_column >= n.of.width)
				continue;
			if (n.scale)
				to = to_column * n.of.rows + to_row;
			put(n, kind, powers_of(kind, most[c]), to, tile[r][c]);
		}
		__syncthreads();
	}
}

cudaError_t zr_cuda_narrow_rows(const struct zr_cuda_narrowing *n, cudaStream_t s)
{
	const int64_t blocks = zr_ceil_div(n->of.rows, ROWS_AT_ONCE);
	return zr_launch(rows_kernel,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *n);
}

cudaError_t zr_cuda_narrow_columns(const struct zr_cuda_narrowing *n, cudaStream_t s)
{
	const unsigned parts = (unsigned)zr_ceil_div(n->of.rows, ZR_CUDA_NARROW_PART);
	const cudaError_t e = zr_launch(part_kernel,
					dim3((unsigned)zr_ceil_div(n->of.width, ZR_THREADS), parts),
					dim3(ZR_THREADS), 0, s, *n);
	if (e != cudaSuccess)
		return e;
	return zr_launch(columns_kernel, dim3((unsigned)zr_ceil_div(n->of.width, SIDE), parts),
			 dim3(SIDE, DEEP), 0, s, *n);
}

/* ---- sums of products of codes --------------------------------------------------- */

static __global__ void __launch_bounds__(ZR_THREADS)
	scale_kernel(const __grid_constant__ struct zr_cuda_scaling o)
{
	const struct zr_op_matmul &op = o.op;
	const int64_t n = op.m * op.n, step = (int64_t)gridDim.x * ZR_THREADS;

	for (int64_t i = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x; i < n; i += step) {
		const int64_t row = i / op.n, column = i % op.n, at = row * op.ldd + column;
		float x = o.sums[i] * (o.a[row] * o.b[column]);
		if (op.flags & ZR_MM_ACCUMULATE)
			x += zr_get(op.d.data, at, op.d.dtype);
		if (op.bias)
			x += zr_get(op.bias, column, ZR_BF16);
		zr_put(op.d.data, at, op.d.dtype, x);
	}
}

cudaError_t zr_cuda_scale_sums(const struct zr_cuda_scaling *o, cudaStream_t s)
{
	const int64_t blocks = zr_ceil_div(o->op.m * o->op.n, ZR_THREADS);
	return zr_launch(scale_kernel,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *o);
}
