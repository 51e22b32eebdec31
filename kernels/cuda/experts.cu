/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.cu - what a mixture of experts does to tokens and to rows, with the bits of the CPU's
 * scalar kernels. Places are sorted by a CUDA block per expert, which looks at all of them.
 */
#include "kernel.h"
#include "../cpu/route.h"

#define LANES 16 /* of dot products */

/* ---- routing --------------------------------------------------------------------- */

static __global__ void __launch_bounds__(ZR_THREADS)
	route_kernel(const __grid_constant__ struct zr_op_route op)
{
	const int64_t r = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x;
	if (r < op.rows)
		zr_route_token(&op, r);
}

static __global__ void __launch_bounds__(ZR_THREADS)
	route_bwd_kernel(const __grid_constant__ struct zr_op_route_bwd op)
{
	const int64_t r = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x;
	if (r < op.rows)
		zr_route_token_bwd(&op, r);
}

/* offsets[e + 1] = places of expert e */
static __global__ void __launch_bounds__(ZR_THREADS)
	count_kernel(const __grid_constant__ struct zr_op_route op)
{
	__shared__ int32_t count[ZR_THREADS];
	const int me = (int)threadIdx.x;
	int32_t n = 0;

	for (int64_t i = me; i < op.rows * op.k; i += ZR_THREADS)
		n += op.ids[i] == (int32_t)blockIdx.x;
	count[me] = n;
	for (int half = ZR_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (me < half)
			count[me] += count[me + half];
	}
	if (!me)
		op.offsets[blockIdx.x + 1] = count[0];
}

static __global__ void __launch_bounds__(ZR_EXPERTS)
	offsets_kernel(const __grid_constant__ struct zr_op_route op)
{
	__shared__ int32_t end[ZR_EXPERTS];
	const int me = (int)threadIdx.x;

	end[me] = me < op.experts ? op.offsets[me + 1] : 0;
	for (int by = 1; by < ZR_EXPERTS; by *= 2) {
		__syncthreads();
		int32_t before = me >= by ? end[me - by] : 0;
		__syncthreads();
		end[me] += before;
	}
	if (me < op.experts)
		op.offsets[me + 1] = end[me];
	if (!me)
		op.offsets[0] = 0;
}

static __global__ void __launch_bounds__(ZR_THREADS)
	place_kernel(const __grid_constant__ struct zr_op_route op)
{
	__shared__ int32_t found[2][ZR_THREADS / ZR_WARP]; /* by a warp, in turns */
	const int me = (int)threadIdx.x, warp = me / ZR_WARP, lane = me % ZR_WARP;
	int32_t at = op.offsets[blockIdx.x];
	int turn = 0;

	for (int64_t i0 = 0; i0 < op.rows * op.k; i0 += ZR_THREADS, turn ^= 1) {
		const int64_t i = i0 + me;
		const int mine = i < op.rows * op.k && op.ids[i] == (int32_t)blockIdx.x;
		const uint32_t all = __ballot_sync(ZR_FULL_WARP, mine);
		if (!lane)
			found[turn][warp] = __popc(all);
		__syncthreads();
		int32_t before = __popc(all & ((1u << lane) - 1)), sum = 0;
		for (int w = 0; w < ZR_THREADS / ZR_WARP; w++) {
			before += w < warp ? found[turn][w] : 0;
			sum += found[turn][w];
		}
		if (mine) {
			op.order[at + before] = (int32_t)i;
			op.where[i] = at + before;
		}
		at += sum;
	}
}

static __device__ int has_expert(const struct zr_op_route &op, int64_t r, int32_t e)
{
	for (int64_t j = 0; j < op.k; j++)
		if (op.ids[r * op.k + j] == e)
			return 1;

	return 0;
}

/* Block e < experts: the sums of expert e; the last block: that of lse^2 */
static __global__ void __launch_bounds__(ZR_THREADS)
	sums_kernel(const __grid_constant__ struct zr_op_route op)
{
	__shared__ double sum[ZR_THREADS];
	__shared__ int64_t number[ZR_THREADS];
	const int me = (int)threadIdx.x;
	const int64_t e = blockIdx.x, at = op.experts + e;
	/* the number that goes with the sum: that of e's places, in the last block of tokens */
	const int64_t number_at = e < op.experts ? e : 2 * op.experts + 1;
	double x = 0;
	int64_t n = 0;

	for (int64_t r = me; r < op.rows; r += ZR_THREADS) {
		if (!zr_route_counts(op.targets, r))
			continue;
		x += e < op.experts ? (double)op.logits[r * op.experts + e] :
				      (double)op.lse[r] * (double)op.lse[r];
		n += e < op.experts ? has_expert(op, r, (int32_t)e) : 1;
	}
	sum[me] = x;
	number[me] = n;
	for (int half = ZR_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (me < half) {
			sum[me] += sum[me + half];
			number[me] += number[me + half];
		}
	}
	if (me)
		return;
	op.sums[at] = (op.before ? op.before[at] : 0) + sum[0];
	op.sums[number_at] = (op.before ? op.before[number_at] : 0) + (double)number[0];
}

/* One block; a thread adds the parts of a sum. */
static __global__ void __launch_bounds__(ZR_THREADS)
	losses_kernel(const __grid_constant__ struct zr_op_router_losses op)
{
	__shared__ double sums[2 * ZR_EXPERTS + 2];
	const int64_t n = 2 * op.experts + 2;
	for (int64_t i = threadIdx.x; i < n; i += ZR_THREADS) {
		sums[i] = op.sums[i];
		for (int64_t part = 1; part < op.parts; part++)
			sums[i] += op.sums[part * n + i];
	}
	__syncthreads();
	if (threadIdx.x)
		return;

	const double *p = sums + op.experts, all = sums[2 * op.experts + 1];
	const double tokens = all > 0 ? all : 1; /* without tokens all sums are 0 */
	double balance = 0;
	for (int64_t e = 0; e < op.experts; e++) {
		balance += sums[e] / tokens * (p[e] / tokens);
		op.share[e] = (float)(sums[e] / tokens);
	}
	op.share[op.experts] = (float)(tokens / (double)op.blocks);
	*op.loss = (double)op.balance * ((double)op.experts * balance) +
		   (double)op.z * (p[op.experts] / tokens);
}

static dim3 blocks_of(int64_t n, int64_t each)
{
	return dim3((unsigned)zr_ceil_div(n, each));
}

cudaError_t zr_cuda_route(const struct zr_op_route *op, cudaStream_t s)
{
	const dim3 experts((unsigned)op->experts), threads(ZR_THREADS);
	cudaError_t e =
		zr_launch(route_kernel, blocks_of(op->rows, ZR_THREADS), threads, 0, s, *op);
	if (e == cudaSuccess)
		e = zr_launch(count_kernel, experts, threads, 0, s, *op);
	if (e == cudaSuccess)
		e = zr_launch(offsets_kernel, dim3(1), dim3(ZR_EXPERTS), 0, s, *op);
	if (e == cudaSuccess)
		e = zr_launch(place_kernel, experts, threads, 0, s, *op);
	if (e == cudaSuccess && op->sums)
		e = zr_launch(sums_kernel, dim3((unsigned)op->experts + 1), threads, 0, s, *op);
	return e;
}

cudaError_t zr_cuda_router_losses(const struct zr_op_router_losses *op, cudaStream_t s)
{
	return zr_launch(losses_kernel, dim3(1), dim3(ZR_THREADS), 0, s, *op);
}

cudaError_t zr_cuda_route_bwd(const struct zr_op_route_bwd *op, cudaStream_t s)
{
	return zr_launch(route_bwd_kernel, blocks_of(op->rows, ZR_THREADS), dim3(ZR_THREADS), 0, s,
			 *op);
}

/* ---- rows ------------------------------------------------------------------------ */

/* Four elements of a row each. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	expert_rows_kernel(const __grid_constant__ struct zr_op_expert_rows op, int whole)
{
	const int64_t s = blockIdx.x, from = op.order[s] / op.k;
	for (int64_t c = (int64_t)threadIdx.x * 4; c < op.width; c += ZR_THREADS * 4) {
		int n = op.width - c < 4 ? (int)(op.width - c) : 4;
		zr_store<T>(op.out, zr_place{ s * op.width + c, n, whole },
			    zr_load<T>(op.x, zr_place{ from * op.width + c, n, whole }));
	}
}

template <class T>
static cudaError_t expert_rows(const struct zr_op_expert_rows *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && zr_quads(op->x, sizeof(T)) &&
		    zr_quads(op->out, sizeof(T));
	return zr_launch(expert_rows_kernel<T>, dim3((unsigned)(op->rows * op->k)),
			 dim3(ZR_THREADS), 0, s, *op, whole);
}

cudaError_t zr_cuda_expert_rows(const struct zr_op_expert_rows *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, expert_rows, op, s);
}

template <class T>
ZR_DEVICE void combine_four(const struct zr_op_expert_combine &op, int64_t r, int64_t c, int whole)
{
	const int n = op.width - c < 4 ? (int)(op.width - c) : 4;
	const zr_place to = { r * op.width + c, n, whole };
	zr_quad sum = { { 0 } };

	for (int64_t i = r * op.k; i < (r + 1) * op.k; i++) {
		zr_quad y = zr_load<T>(op.y, zr_place{ op.where[i] * op.width + c, n, whole });
		for (int q = 0; q < 4; q++)
			sum.x[q] += op.weights ? op.weights[i] * y.x[q] : y.x[q];
	}
	if (op.out_dtype == ZR_BF16)
		zr_store<bf16>(op.out, to, sum);
	else if (op.out_dtype == ZR_F16)
		zr_store<f16>(op.out, to, sum);
	else
		zr_store<float>(op.out, to, sum);
}

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	combine_kernel(const __grid_constant__ struct zr_op_expert_combine op, int whole)
{
	for (int64_t c = (int64_t)threadIdx.x * 4; c < op.width; c += ZR_THREADS * 4)
		combine_four<T>(op, blockIdx.x, c, whole);
}

template <class T> static cudaError_t combine(const struct zr_op_expert_combine *op, cudaStream_t s)
{
	int whole = op->width % 4 == 0 && zr_quads(op->y, sizeof(T)) &&
		    zr_quads(op->out, zr_size(op->out_dtype));
	return zr_launch(combine_kernel<T>, dim3((unsigned)op->rows), dim3(ZR_THREADS), 0, s, *op,
			 whole);
}

cudaError_t zr_cuda_expert_combine(const struct zr_op_expert_combine *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, combine, op, s);
}

/* Half a warp takes a place. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	weigh_kernel(const __grid_constant__ struct zr_op_expert_weigh op)
{
	const int64_t s = ((int64_t)blockIdx.x * ZR_THREADS + threadIdx.x) / LANES;
	const bool inside = s < op.places;
	int64_t place = 0;
	if (inside)
		place = op.order ? op.order[s] : s;
	const float weight = op.weights[place];
	T *x = (T *)op.x + s * op.width, *dy = (T *)op.dy + s * op.width;
	float sum = 0;

	for (int64_t c = threadIdx.x % LANES; inside && c < op.width; c += LANES) {
		const float a = zr_widen(x[c]), b = zr_widen(dy[c]);
		sum += a * b;
		zr_narrow(a * weight, &x[c]);
		zr_narrow(b * weight, &dy[c]);
	}
	for (int mask = LANES / 2; mask > 0; mask /= 2)
		sum += __shfl_xor_sync(ZR_FULL_WARP, sum, mask, ZR_WARP);
	if (inside && threadIdx.x % LANES == 0)
		op.dweights[place] = sum;
}

template <class T> static cudaError_t weigh(const struct zr_op_expert_weigh *op, cudaStream_t s)
{
	return zr_launch(weigh_kernel<T>, blocks_of(op->places, ZR_THREADS / LANES),
			 dim3(ZR_THREADS), 0, s, *op);
}

cudaError_t zr_cuda_expert_weigh(const struct zr_op_expert_weigh *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, weigh, op, s);
}
