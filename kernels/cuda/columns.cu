/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.cu - gradients that are sums over rows of activations, with the bits of the CPU's scalar
 * kernels.
 */
#include "parts.h"

/* ---- bias_bwd -------------------------------------------------------------------- */

#define BIAS_THREADS 64 /* of four columns each */
#define BIAS_ROWS    16 /* that a thread loads before it adds the first */

/* Sums over rows that are `width` elements apart. */
template <class T, int AHEAD>
ZR_DEVICE zr_quad add_rows(const void *dy, zr_place at, int rows, int64_t width)
{
	zr_quad sum = { { 0, 0, 0, 0 } };
	int r = 0;
	for (; r + AHEAD <= rows; r += AHEAD) {
		zr_quad row[AHEAD];
#pragma unroll
		for (int k = 0; k < AHEAD; k++, at.i += width)
			row[k] = zr_load<T>(dy, at);
#pragma unroll
		for (int k = 0; k < 4 * AHEAD; k++)
			sum.x[k % 4] += row[k / 4].x[k % 4];
	}
	for (; r < rows; r++, at.i += width) {
		const zr_quad row = zr_load<T>(dy, at);
		for (int k = 0; k < 4; k++)
			sum.x[k] += row.x[k];
	}
	return sum;
}

template <class T>
static __global__ void __launch_bounds__(BIAS_THREADS)
	bias_part_kernel(const __grid_constant__ struct zr_op_bias_bwd op, float *part,
			 int64_t first, int64_t columns, int whole)
{
	const int64_t c = 4 * ((int64_t)blockIdx.x * BIAS_THREADS + threadIdx.x),
		      from = (int64_t)blockIdx.y * TILE, at = from * op.width + first + c;
	const int n = columns - c < 4 ? (int)(columns - c) : 4;
	const int rows = op.rows - from < TILE ? (int)(op.rows - from) : TILE;

	if (n <= 0)
		return;
	const zr_quad sum =
		whole && n == 4 ?
			add_rows<T, BIAS_ROWS>(op.dy, zr_place{ at, 4, 1 }, rows, op.width) :
			add_rows<T, 1>(op.dy, zr_place{ at, n, 0 }, rows, op.width);
	for (int k = 0; k < n; k++)
		part[blockIdx.y * columns + c + k] = sum.x[k];
}

/* As many columns at a time as there is room for. */
template <class T>
static cudaError_t launch_bias_bwd(const struct zr_op_bias_bwd *op, float *part, int64_t room,
				   cudaStream_t s)
{
	const int64_t tiles = zr_ceil_div(op->rows, TILE), fit = room / tiles,
		      most = fit >= 4 ? fit / 4 * 4 : fit;
	const int whole = op->width % 4 == 0 && most % 4 == 0 && zr_quads(op->dy, sizeof(T));
	cudaError_t e = cudaSuccess;
	for (int64_t first = 0; e == cudaSuccess && first < op->width; first += most) {
		int64_t columns = op->width - first < most ? op->width - first : most;
		dim3 grid((unsigned)zr_ceil_div(columns, 4 * BIAS_THREADS), (unsigned)tiles);
		e = zr_launch(bias_part_kernel<T>, grid, dim3(BIAS_THREADS), 0, s, *op, part, first,
			      columns, whole);
		if (e == cudaSuccess)
			e = sum_parts(part, columns, tiles, op->db + first, columns, op->flags, s);
	}
	return e;
}

cudaError_t zr_cuda_bias_bwd(const struct zr_op_bias_bwd *op, float *part, int64_t room,
			     cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_bias_bwd, op, part, room, s);
}

/* ---- embedding_bwd --------------------------------------------------------------- */

/* First it lists the rows of each token: it counts them, reserves places and writes them there.
 * Only integers are added atomically, and the rows of a list are sorted before they are added, so
 * that results depend only on the tokens. */
#define LISTERS ZR_MOST_THREADS /* that give places */
/* rows of a list that are put in order; of more all tokens are searched, which are few lists
 * then */
#define LISTED 2048
#define MOST   8 /* columns of a thread at a time */

struct lists {
	int32_t *next;     /* [vocabulary] rows, then where the next one goes */
	int32_t *start;    /* [vocabulary + 1] of the token's rows in `row` */
	int32_t *distinct; /* tokens that there are; how many is behind them, [vocabulary] */
	int32_t *row;      /* [rows] */
};

static __global__ void __launch_bounds__(ZR_THREADS)
	count_tokens_kernel(const int32_t *tokens, int64_t rows, lists l)
{
	for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; r < rows;
	     r += (int64_t)gridDim.x * blockDim.x)
		atomicAdd(&l.next[tokens[r]], 1);
}

/* A thread gives places to a stretch of the vocabulary. */
static __global__ void __launch_bounds__(LISTERS) place_tokens_kernel(int32_t vocabulary, lists l)
{
	__shared__ int32_t before[2][LISTERS];
	const int me = (int)threadIdx.x, stretch = (vocabulary + LISTERS - 1) / LISTERS;
	const int32_t lo = me * stretch < vocabulary ? me * stretch : vocabulary,
		      hi = lo + stretch < vocabulary ? lo + stretch : vocabulary;
	int32_t rows = 0, some = 0;

	for (int32_t v = lo; v < hi; v++) {
		rows += l.next[v];
		some += l.next[v] > 0;
	}
	before[0][me] = rows;
	before[1][me] = some;
	for (int by = 1; by < LISTERS; by *= 2) {
		__syncthreads();
		int32_t r = me >= by ? before[0][me - by] : 0,
			n = me >= by ? before[1][me - by] : 0;
		__syncthreads();
		before[0][me] += r;
		before[1][me] += n;
	}
	rows = before[0][me] - rows;
	some = before[1][me] - some;
	for (int32_t v = lo; v < hi; v++) {
		int32_t n = l.next[v];
		l.start[v] = l.next[v] = rows;
		if (n)
			l.distinct[some++] = v;
		rows += n;
	}
	if (me == LISTERS - 1) {
		l.start[vocabulary] = rows;
		l.distinct[vocabulary] = some;
	}
}

static __global__ void __launch_bounds__(ZR_THREADS)
	list_rows_kernel(const int32_t *tokens, int64_t rows, lists l)
{
	for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; r < rows;
	     r += (int64_t)gridDim.x * blockDim.x)
		l.row[atomicAdd(&l.next[tokens[r]], 1)] = (int32_t)r;
}

/* A thread's columns from c0 on, so far. */
struct columns {
	float x[MOST];
};

template <class T> ZR_DEVICE void add_row(columns *c, const T *from, int64_t left)
{
#pragma unroll
	for (int k = 0; k < MOST; k++)
		if (k * ZR_THREADS + (int)threadIdx.x < left)
			c->x[k] += zr_widen(from[k * ZR_THREADS + threadIdx.x]);
}

/* All rows of a token, found among all others. */
template <class T>
ZR_DEVICE void add_found(columns *c, const struct zr_op_embedding_bwd &op, int32_t token,
			 int64_t c0)
{
	__shared__ uint32_t same[ZR_THREADS / ZR_WARP];
	const int64_t rows = op.batch * op.length;
	const int me = (int)threadIdx.x;
	for (int64_t at = 0; at < rows; at += ZR_THREADS) {
		uint32_t mine =
			__ballot_sync(ZR_FULL_WARP, at + me < rows && op.tokens[at + me] == token);
		if (me % ZR_WARP == 0)
			same[me / ZR_WARP] = mine;
		__syncthreads();
		for (int w = 0; w < ZR_THREADS / ZR_WARP; w++)
			for (uint32_t left = same[w]; left; left &= left - 1)
				add_row(c,
					(const T *)op.dout +
						(at + w * ZR_WARP + __ffs((int)left) - 1) *
							op.width +
						c0,
					op.width - c0);
		__syncthreads();
	}
}

/* A CUDA block per token that there is: adds its rows, ascending, each thread some of the
 * columns. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	embedding_tokens_kernel(const __grid_constant__ struct zr_op_embedding_bwd op, lists l)
{
	__shared__ int32_t found[LISTED], ordered[LISTED];
	const int me = (int)threadIdx.x;

	if ((int32_t)blockIdx.x >= l.distinct[op.vocabulary])
		return;
	const int32_t token = l.distinct[blockIdx.x], first = l.start[token],
		      n = l.start[token + 1] - first;
	for (int32_t i = me; i < n && n <= LISTED; i += ZR_THREADS)
		found[i] = l.row[first + i];
	__syncthreads();
	for (int32_t i = me; i < n && n <= LISTED; i += ZR_THREADS) {
		int32_t place = 0;
		for (int32_t k = 0; k < n; k++)
			place += found[k] < found[i];
		ordered[place] = found[i];
	}
	__syncthreads();
	for (int64_t c0 = 0; c0 < op.width; c0 += MOST * ZR_THREADS) {
		float *to = op.dwte + token * op.width + c0;
		const int64_t left = op.width - c0;
		columns c;
		for (int k = 0; k < MOST; k++)
			c.x[k] = k * ZR_THREADS + me < left ? to[k * ZR_THREADS + me] : 0;
		for (int32_t i = 0; i < n && n <= LISTED; i++)
			add_row(&c, (const T *)op.dout + ordered[i] * op.width + c0, left);
		if (n > LISTED)
			add_found<T>(&c, op, token, c0);
		for (int k = 0; k < MOST; k++)
			if (k * ZR_THREADS + me < left)
				to[k * ZR_THREADS + me] = c.x[k];
	}
}

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	embedding_positions_kernel(const __grid_constant__ struct zr_op_embedding_bwd op)
{
	const int64_t i = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x, n = op.length * op.width;
	const T *dout = (const T *)op.dout;
	float sum;

	if (i >= n)
		return;
	sum = op.dwpe[i];
	for (int64_t b = 0; b < op.batch; b++)
		sum += zr_widen(dout[b * n + i]);
	op.dwpe[i] = sum;
}

int64_t zr_cuda_embedding_bwd_room(const struct zr_op_embedding_bwd *op)
{
	int64_t most = op->position && op->positions > op->vocabulary ? op->positions :
									op->vocabulary;
	return 3 * most + 2 + op->batch * op->length;
}

template <class T>
static cudaError_t add_tokens(const struct zr_op_embedding_bwd *op, int32_t *room, cudaStream_t s)
{
	const int64_t rows = op->batch * op->length, v = op->vocabulary,
		      blocks = zr_ceil_div(rows, ZR_THREADS);
	const lists l = { room, room + v, room + 2 * v + 1, room + 3 * v + 2 };
	const dim3 grid((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS));
	cudaError_t e = cudaMemsetAsync(l.next, 0, (size_t)v * sizeof *l.next, s);
	if (e == cudaSuccess)
		e = zr_launch(count_tokens_kernel, grid, dim3(ZR_THREADS), 0, s, op->tokens, rows,
			      l);
	if (e == cudaSuccess)
		e = zr_launch(place_tokens_kernel, dim3(1), dim3(LISTERS), 0, s, (int32_t)v, l);
	if (e == cudaSuccess)
		e = zr_launch(list_rows_kernel, grid, dim3(ZR_THREADS), 0, s, op->tokens, rows, l);
	return e != cudaSuccess ?
		       e :
		       zr_launch(embedding_tokens_kernel<T>, dim3((unsigned)(rows < v ? rows : v)),
				 dim3(ZR_THREADS), 0, s, *op, l);
}

template <class T>
static cudaError_t launch_embedding_bwd(const struct zr_op_embedding_bwd *op, int32_t *room,
					cudaStream_t s)
{
	cudaError_t e = cudaSuccess;
	if (op->dwte && !(op->flags & ZR_OP_ACCUMULATE_WTE))
		e = cudaMemsetAsync(op->dwte, 0,
				    (size_t)(op->vocabulary * op->width) * sizeof(float), s);
	if (e == cudaSuccess && op->dwpe && !(op->flags & ZR_OP_ACCUMULATE_WPE))
		e = cudaMemsetAsync(op->dwpe, 0,
				    (size_t)(op->positions * op->width) * sizeof(float), s);
	if (e == cudaSuccess && op->dwte)
		e = add_tokens<T>(op, room, s);
	if (e == cudaSuccess && op->dwpe && op->position) { /* as if positions were tokens */
		struct zr_op_embedding_bwd by_position = *op;
		by_position.tokens = op->position;
		by_position.vocabulary = op->positions;
		by_position.dwte = op->dwpe;
		e = add_tokens<T>(&by_position, room, s);
	} else if (e == cudaSuccess && op->dwpe)
		e = zr_launch(embedding_positions_kernel<T>,
			      dim3((unsigned)zr_ceil_div(op->length * op->width, ZR_THREADS)),
			      dim3(ZR_THREADS), 0, s, *op);
	return e;
}

cudaError_t zr_cuda_embedding_bwd(const struct zr_op_embedding_bwd *op, int32_t *room,
				  cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_embedding_bwd, op, room, s);
}
