/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_grouped.cu - products of each expert's rows, and gradients of the experts' weights. How
 * many rows an expert has is in device memory: the grid has a CUDA block for every tile that there
 * could be, which looks up whose it is. In 16 bits, where rows are whole 16 bytes, a block computes
 * 64 x 128 on tensor cores, a warp 32 x 32 of it; else any types in fp32, 64 x 64 by fma. K, or the
 * rows of a chunk, are one chain of sums per element.
 */
#include "mma.h"

#define ROWS   64
#define COLS   128 /* of a tile on tensor cores */
#define SQUARE 64  /* rows and columns of a tile in fp32 */
#define DEPTH  32  /* of K at a time */
#define SIDE   16  /* threads along either side of a square */

static_assert(ZR_THREADS == ZR_EXPERTS && ZR_THREADS == SIDE * SIDE, "a thread for each");

/* ---- whose tile ------------------------------------------------------------------ */

struct whose {
	int expert;       /* -1: there is no such tile */
	int64_t row, end; /* its first row, and behind the expert's last */
};

/* Tile number `tile` of ROWS rows of one expert each. Every thread asks. */
ZR_DEVICE whose find_tile(const int32_t *offsets, int64_t experts, int64_t tile)
{
	__shared__ int32_t last[ZR_EXPERTS];
	__shared__ int found;
	const int me = (int)threadIdx.x;
	const int64_t n = me < experts ? offsets[me + 1] - offsets[me] : 0;

	last[me] = (int32_t)((n + ROWS - 1) / ROWS);
	if (!me)
		found = -1;
	for (int by = 1; by < ZR_EXPERTS; by *= 2) {
		__syncthreads();
		int32_t before = me >= by ? last[me - by] : 0;
		__syncthreads();
		last[me] += before;
	}
	__syncthreads();
	const int64_t first = me ? last[me - 1] : 0;
	if (tile >= first && tile < last[me])
		found = me;
	__syncthreads();
	const int e = found;
	if (e < 0)
		return whose{ -1, 0, 0 };
	return whose{ e, offsets[e] + (tile - (e ? last[e - 1] : 0)) * ROWS, offsets[e + 1] };
}

/* Behind the rows of the chunk that row s is in: order ascends from s to `end`. */
ZR_DEVICE int64_t chunk_end(const struct zr_op_matmul_grouped_dw &op, int64_t s, int64_t end)
{
	if (!op.order)
		return end;
	const int64_t next = (op.order[s] / op.k / ZR_EXPERT_CHUNK + 1) * ZR_EXPERT_CHUNK * op.k;
	while (s < end) {
		int64_t middle = (s + end) / 2;
		if (op.order[middle] < next)
			s = middle + 1;
		else
			end = middle;
	}
	return s;
}

ZR_DEVICE void put_d(const struct zr_op_matmul_grouped &op, int64_t row, int64_t col, float x)
{
	const int64_t at = row * op.n + col;
	if (op.flags & ZR_MM_ACCUMULATE)
		x = zr_get(op.d.data, at, op.d.dtype) + x;
	zr_put(op.d.data, at, op.d.dtype, x);
}

/* ---- tensor cores ---------------------------------------------------------------- */

/* R x W numbers of 16 bits; its rows are 8 numbers longer, so that those that a warp reads together
 * lie in different banks. */
template <int R, int W> struct tile {
	enum { STRIDE = W + 8, SIZE = R * STRIDE };
	uint16_t *x;
	ZR_MEMBER const void *at(int row, int col) const
	{
		return x + row * STRIDE + col;
	}
	/* Starts to bring rows from r0 and columns from c0 on; 0 from r1 and from c1 on. */
	ZR_MEMBER void load(const void *from, int64_t ld, int64_t r0, int64_t r1, int64_t c0,
			    int64_t c1) const
	{
		for (int i = (int)threadIdx.x; i < R * (W / 8); i += ZR_THREADS) {
			const int r = i / (W / 8), c = i % (W / 8) * 8;
			const bool inside = r0 + r < r1 && c0 + c < c1;
			zr_copy16(x + r * STRIDE + c,
				  (const uint16_t *)from +
					  (inside ? (r0 + r) * ld + c0 + c : r0 * ld),
				  inside);
		}
	}
};

/* Two buffers of each operand. A is ROWS x DEPTH, or DEPTH x ROWS as stored; B likewise. */
template <bool A_DOWN, bool B_ACROSS> struct operands {
	typedef tile<A_DOWN ? DEPTH : ROWS, A_DOWN ? ROWS : DEPTH> a_tile;
	typedef tile<B_ACROSS ? COLS : DEPTH, B_ACROSS ? DEPTH : COLS> b_tile;
	enum { SIZE = (int)a_tile::SIZE + (int)b_tile::SIZE };
	uint16_t *room; /* [2 * SIZE] */
	ZR_MEMBER a_tile a(int turn) const
	{
		return a_tile{ room + turn * SIZE };
	}
	ZR_MEMBER b_tile b(int turn) const
	{
		return b_tile{ room + turn * SIZE + a_tile::SIZE };
	}
};

struct place { /* of this lane in the tile */
	int row, col, lane;
};

ZR_DEVICE place my_place()
{
	const int warp = (int)threadIdx.x / ZR_WARP;
	return place{ warp / 4 * 32, warp % 4 * 32, (int)threadIdx.x % ZR_WARP };
}

/* sum[32, 32] += A B over DEPTH */
template <class T, bool A_DOWN, bool B_ACROSS>
ZR_DEVICE void add_depth(float (&sum)[2][4][4], const operands<A_DOWN, B_ACROSS> &o, int turn,
			 place me)
{
	const int lane = me.lane;
	const auto a = o.a(turn);
	const auto b = o.b(turn);
#pragma unroll
	for (int k = 0; k < DEPTH; k += 16) {
		uint32_t x[2][4], y[2][4];
#pragma unroll
		for (int m = 0; m < 2; m++) {
			const int row = me.row + m * 16;
			if constexpr (A_DOWN)
				zr_load_transposed(x[m], a.at(k + lane / 16 * 8 + lane % 8,
							      row + lane / 8 % 2 * 8));
			else
				zr_load_rows(x[m], a.at(row + lane % 16, k + lane / 16 * 8));
		}
#pragma unroll
		for (int n = 0; n < 2; n++) {
			const int col = me.col + n * 16;
			if constexpr (B_ACROSS)
				zr_load_rows(y[n], b.at(col + lane / 16 * 8 + lane % 8,
							k + lane / 8 % 2 * 8));
			else
				zr_load_transposed(y[n], b.at(k + lane % 16, col + lane / 16 * 8));
		}
#pragma unroll
		for (int m = 0; m < 2; m++)
#pragma unroll
			for (int n = 0; n < 4; n++)
				zr_mma(sum[m][n], x[m], y[n / 2][n % 2 * 2],
				       y[n / 2][n % 2 * 2 + 1], T());
	}
}

/* f(row, column in the tile, number) for each number of this lane. */
template <class F> ZR_DEVICE void each_number(place me, const F &f)
{
	const int g = me.lane / 4, t = me.lane % 4;
#pragma unroll
	for (int m = 0; m < 2; m++)
#pragma unroll
		for (int n = 0; n < 4; n++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				f(me.row + m * 16 + g + i / 2 * 8, me.col + n * 8 + 2 * t + i % 2,
				  m, n, i);
}

template <class T, bool B_ACROSS>
static __global__ void __launch_bounds__(ZR_THREADS)
	grouped_mma_kernel(const __grid_constant__ struct zr_op_matmul_grouped op)
{
	typedef operands<false, B_ACROSS> both;
	alignas(16) __shared__ uint16_t room[2 * both::SIZE];
	const both o = { room };
	const whose mine = find_tile(op.offsets, op.experts, blockIdx.y);
	const int64_t col = (int64_t)blockIdx.x * COLS;
	const place me = my_place();
	float sum[2][4][4] = {};

	if (mine.expert < 0)
		return;
	const auto load = [&](int turn, int64_t k) {
		const void *b = op.b[mine.expert];
		o.a(turn).load(op.a.data, op.k, mine.row, mine.end, k, op.k);
		if constexpr (B_ACROSS)
			o.b(turn).load(b, op.k, col, op.n, k, op.k);
		else
			o.b(turn).load(b, op.n, k, op.k, col, op.n);
	};
	load(0, 0);
	zr_copied();
	__syncthreads();
	int turn = 0;
	for (int64_t k = 0; k < op.k; k += DEPTH, turn ^= 1) {
		if (k + DEPTH < op.k)
			load(turn ^ 1, k + DEPTH);
		add_depth<T>(sum, o, turn, me);
		zr_copied();
		__syncthreads();
	}
	each_number(me, [&](int r, int c, int m, int n, int i) {
		if (mine.row + r < mine.end && col + c < op.n)
			put_d(op, mine.row + r, col + c, sum[m][n][i]);
	});
}

/* sum = the tile of dy^T x over rows [s, end) */
template <class T>
ZR_DEVICE void sum_rows(float (&sum)[2][4][4], const struct zr_op_matmul_grouped_dw &op,
			const operands<true, false> &o, int64_t s, int64_t end, int64_t row,
			int64_t col, place me)
{
	int turn = 0;
	const auto load = [&](int to, int64_t k) {
		o.a(to).load(op.dy, op.m, k, end, row, op.m);
		o.b(to).load(op.x, op.n, k, end, col, op.n);
	};
	each_number(me, [&](int, int, int m, int n, int i) { sum[m][n][i] = 0; });
	load(0, s);
	zr_copied();
	__syncthreads();
	for (; s < end; s += DEPTH, turn ^= 1) {
		if (s + DEPTH < end)
			load(turn ^ 1, s + DEPTH);
		add_depth<T>(sum, o, turn, me);
		zr_copied();
		__syncthreads();
	}
}

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	grouped_dw_mma_kernel(const __grid_constant__ struct zr_op_matmul_grouped_dw op)
{
	typedef operands<true, false> both;
	alignas(16) __shared__ uint16_t room[2 * both::SIZE];
	const both o = { room };
	const int64_t row = (int64_t)blockIdx.y * ROWS, col = (int64_t)blockIdx.x * COLS;
	const int64_t end = op.offsets[blockIdx.z + 1];
	float *dw = op.dw[blockIdx.z];
	const place me = my_place();
	float total[2][4][4] = {}, sum[2][4][4];
	bool store = !(op.flags & ZR_OP_ACCUMULATE);

	if (!dw)
		return;
	const auto inside = [&](int r, int c) { return row + r < op.m && col + c < op.n; };
	if (!store)
		each_number(me, [&](int r, int c, int m, int n, int i) {
			if (inside(r, c))
				total[m][n][i] = dw[(row + r) * op.n + col + c];
		});
	int64_t next = op.offsets[blockIdx.z];
	for (int64_t first; (first = next) < end; store = false) {
		next = chunk_end(op, first, end);
		sum_rows<T>(sum, op, o, first, next, row, col, me);
		each_number(me, [&](int, int, int m, int n, int i) {
			total[m][n][i] = store ? sum[m][n][i] : total[m][n][i] + sum[m][n][i];
		});
	}
	each_number(me, [&](int r, int c, int m, int n, int i) {
		if (inside(r, c))
			dw[(row + r) * op.n + col + c] = total[m][n][i];
	});
}

/* ---- fp32 ------------------------------------------------------------------------ */

/* Sixteen sums of this thread: rows threadIdx / SIDE + i SIDE, columns threadIdx % SIDE + j SIDE of
 * a square. */
struct sixteen {
	float x[4][4];
};

template <class F> ZR_DEVICE void each_of_sixteen(const F &f)
{
	const int row = (int)threadIdx.x / SIDE, col = (int)threadIdx.x % SIDE;
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			f(row + i * SIDE, col + j * SIDE, i, j);
}

/* s = the sum of a(row, k) b(k, column) over k in [from, to). In memory neighbours are those of k,
 * or with *_DOWN those of rows, of columns. */
template <bool A_DOWN, bool B_DOWN, class A, class B>
ZR_DEVICE void square_product(sixteen *s, const A &a, const B &b, int64_t from, int64_t to)
{
	__shared__ float x[SIDE][SQUARE + 1], y[SIDE][SQUARE + 1];
	each_of_sixteen([&](int, int, int i, int j) { s->x[i][j] = 0; });
	for (; from < to; from += SIDE) {
		for (int i = (int)threadIdx.x; i < SQUARE * SIDE; i += ZR_THREADS) {
			const int ra = A_DOWN ? i % SQUARE : i / SIDE,
				  ka = A_DOWN ? i / SQUARE : i % SIDE;
			const int cb = B_DOWN ? i % SQUARE : i / SIDE,
				  kb = B_DOWN ? i / SQUARE : i % SIDE;
			x[ka][ra] = from + ka < to ? a(ra, from + ka) : 0;
			y[kb][cb] = from + kb < to ? b(from + kb, cb) : 0;
		}
		__syncthreads();
		for (int k = 0; k < SIDE; k++)
			each_of_sixteen([&](int row, int col, int i, int j) {
				s->x[i][j] = fmaf(x[k][row], y[k][col], s->x[i][j]);
			});
		__syncthreads();
	}
}

template <bool B_DOWN>
static __global__ void __launch_bounds__(ZR_THREADS)
	grouped_kernel(const __grid_constant__ struct zr_op_matmul_grouped op)
{
	const whose mine = find_tile(op.offsets, op.experts, blockIdx.y);
	const int64_t col = (int64_t)blockIdx.x * SQUARE;
	sixteen s;

	if (mine.expert < 0)
		return;
	const void *b = op.b[mine.expert];
	square_product<false, B_DOWN>(
		&s,
		[&](int r, int64_t k) {
			const int64_t row = mine.row + r;
			return row < mine.end ? zr_get(op.a.data, row * op.k + k, op.a.dtype) : 0;
		},
		[&](int64_t k, int c) {
			const int64_t at = B_DOWN ? k * op.n + col + c : (col + c) * op.k + k;
			return col + c < op.n ? zr_get(b, at, op.b_dtype) : 0;
		},
		0, op.k);
	each_of_sixteen([&](int r, int c, int i, int j) {
		if (mine.row + r < mine.end && col + c < op.n)
			put_d(op, mine.row + r, col + c, s.x[i][j]);
	});
}

static __global__ void __launch_bounds__(ZR_THREADS)
	grouped_dw_kernel(const __grid_constant__ struct zr_op_matmul_grouped_dw op)
{
	const int64_t row = (int64_t)blockIdx.y * SQUARE, col = (int64_t)blockIdx.x * SQUARE;
	const int64_t end = op.offsets[blockIdx.z + 1];
	float *dw = op.dw[blockIdx.z];
	sixteen total = {}, s;
	bool store = !(op.flags & ZR_OP_ACCUMULATE);

	if (!dw)
		return;
	const auto inside = [&](int r, int c) { return row + r < op.m && col + c < op.n; };
	if (!store)
		each_of_sixteen([&](int r, int c, int i, int j) {
			if (inside(r, c))
				total.x[i][j] = dw[(row + r) * op.n + col + c];
		});
	int64_t next = op.offsets[blockIdx.z];
	for (int64_t first; (first = next) < end; store = false) {
		next = chunk_end(op, first, end);
		square_product<true, true>(
			&s,
			[&](int r, int64_t k) {
				const int64_t at = k * op.m + row + r;
				return row + r < op.m ? zr_get(op.dy, at, op.dtype) : 0;
			},
			[&](int64_t k, int c) {
				const int64_t at = k * op.n + col + c;
				return col + c < op.n ? zr_get(op.x, at, op.dtype) : 0;
			},
			first, next);
		each_of_sixteen([&](int, int, int i, int j) {
			total.x[i][j] = store ? s.x[i][j] : total.x[i][j] + s.x[i][j];
		});
	}
	each_of_sixteen([&](int r, int c, int i, int j) {
		if (inside(r, c))
			dw[(row + r) * op.n + col + c] = total.x[i][j];
	});
}

/* ---- launches -------------------------------------------------------------------- */

static bool whole16(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

static bool mma_takes(const struct zr_op_matmul_grouped *op)
{
	bool takes = (op->a.dtype == ZR_BF16 || op->a.dtype == ZR_F16) &&
		     op->b_dtype == op->a.dtype && op->n % 8 == 0 && op->k % 8 == 0 &&
		     whole16(op->a.data);
	for (int64_t e = 0; e < op->experts; e++)
		takes = takes && whole16(op->b[e]);
	return takes;
}

int64_t zr_cuda_grouped_tiles(const struct zr_op_matmul_grouped *op)
{
	return zr_ceil_div(op->rows, ROWS) + op->experts;
}

static dim3 grid_of(const struct zr_op_matmul_grouped *op, int cols)
{
	return dim3((unsigned)zr_ceil_div(op->n, cols), (unsigned)zr_cuda_grouped_tiles(op));
}

template <class T>
static cudaError_t grouped_mma(const struct zr_op_matmul_grouped *op, cudaStream_t s)
{
	if (op->flags & ZR_MM_TRANS_B)
		return zr_launch(grouped_mma_kernel<T, true>, grid_of(op, COLS), dim3(ZR_THREADS),
				 0, s, *op);
	return zr_launch(grouped_mma_kernel<T, false>, grid_of(op, COLS), dim3(ZR_THREADS), 0, s,
			 *op);
}

cudaError_t zr_cuda_matmul_grouped(const struct zr_op_matmul_grouped *op, cudaStream_t s)
{
	if (mma_takes(op))
		return op->a.dtype == ZR_BF16 ? grouped_mma<bf16>(op, s) : grouped_mma<f16>(op, s);
	if (op->flags & ZR_MM_TRANS_B)
		return zr_launch(grouped_kernel<false>, grid_of(op, SQUARE), dim3(ZR_THREADS), 0, s,
				 *op);
	return zr_launch(grouped_kernel<true>, grid_of(op, SQUARE), dim3(ZR_THREADS), 0, s, *op);
}

static dim3 dw_grid(const struct zr_op_matmul_grouped_dw *op, int rows, int cols)
{
	return dim3((unsigned)zr_ceil_div(op->n, cols), (unsigned)zr_ceil_div(op->m, rows),
		    (unsigned)op->experts);
}

cudaError_t zr_cuda_matmul_grouped_dw(const struct zr_op_matmul_grouped_dw *op, cudaStream_t s)
{
	if (op->dtype == ZR_F32 || op->m % 8 || op->n % 8 || !whole16(op->dy) || !whole16(op->x))
		return zr_launch(grouped_dw_kernel, dw_grid(op, SQUARE, SQUARE), dim3(ZR_THREADS),
				 0, s, *op);
	return zr_launch(op->dtype == ZR_BF16 ? grouped_dw_mma_kernel<bf16> :
						grouped_dw_mma_kernel<f16>,
			 dw_grid(op, ROWS, COLS), dim3(ZR_THREADS), 0, s, *op);
}
