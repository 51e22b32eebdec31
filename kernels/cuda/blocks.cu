/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.cu - elementwise operations that also make sums per block of ZR_BLOCK elements. Sixteen
 * threads work on a block: thread j mod 16 adds element j in fp64, as chain j mod 16 of
 * cpu/sumsq.h, and the chains are added as the same tree. So the sums have the bits of the CPU, and
 * the threads of a block read 64 bytes together.
 */
#include "kernel.h"

#include "../cpu/lamb.h"
#include "../cpu/mx.h"
#include "../cpu/sumsq.h"
#include "../cpu/update.h"
#include "../fold.h"

#define BLOCKS_AT_ONCE 16 /* by the threads of a CUDA block */
#define WORDS_AHEAD    32 /* that a thread loads before it computes the first: memory is far away */

struct sums {
	double a, b;
	uint32_t bad;
};

/* The sums of all chains, in the first of their threads. */
ZR_DEVICE void meet(sums *s)
{
	for (int half = ZR_CHAINS / 2; half > 0; half /= 2) {
		s->a += __shfl_down_sync(ZR_FULL_WARP, s->a, half, ZR_CHAINS);
		s->b += __shfl_down_sync(ZR_FULL_WARP, s->b, half, ZR_CHAINS);
		s->bad += __shfl_down_sync(ZR_FULL_WARP, s->bad, half, ZR_CHAINS);
	}
}

/* f.element(factors, i, f.load(i), &sums) for each of n elements, f.block(b, sums) after those of
 * block b. */
template <class F>
static __global__ void __launch_bounds__(ZR_CHAINS *BLOCKS_AT_ONCE, 4)
	blocks_kernel(const __grid_constant__ F f, int64_t n)
{
	const auto k = f.factors();
	const int64_t blocks = (n + ZR_BLOCK - 1) / ZR_BLOCK,
		      step = (int64_t)gridDim.x * BLOCKS_AT_ONCE;

	/* the same for all threads */
	for (int64_t at = (int64_t)blockIdx.x * BLOCKS_AT_ONCE; at < blocks; at += step) {
		int64_t b = at + threadIdx.y, from = b * ZR_BLOCK,
			to = from + ZR_BLOCK < n ? from + ZR_BLOCK : n;
		sums s = { 0, 0, 0 };
		enum { AHEAD = WORDS_AHEAD * 4 / sizeof(f.load(from)) };
		int64_t i = from + threadIdx.x;
		for (; i + (AHEAD - 1) * ZR_CHAINS < to; i += AHEAD * ZR_CHAINS) {
			decltype(f.load(i)) x[AHEAD];
#pragma unroll
			for (int j = 0; j < AHEAD; j++)
				x[j] = f.load(i + j * ZR_CHAINS);
#pragma unroll
			for (int j = 0; j < AHEAD; j++)
				f.element(k, i + j * ZR_CHAINS, x[j], &s);
		}
		for (; i < to; i += ZR_CHAINS)
			f.element(k, i, f.load(i), &s);
		meet(&s);
		if (threadIdx.x == 0 && b < blocks)
			f.block(b, s);
	}
}

template <class F> static cudaError_t each_block(const F &f, int64_t n, cudaStream_t s)
{
	int64_t grid = zr_ceil_div(zr_ceil_div(n, ZR_BLOCK), BLOCKS_AT_ONCE);
	return zr_launch(blocks_kernel<F>,
			 dim3((unsigned)(grid < ZR_MOST_BLOCKS ? grid : ZR_MOST_BLOCKS)),
			 dim3(ZR_CHAINS, BLOCKS_AT_ONCE), 0, s, f, n);
}

/* ---- fold ------------------------------------------------------------------------ */

template <class T> struct fold {
	struct zr_op_fold op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	struct operands {
		float g, acc;
	};
	ZR_MEMBER operands load(int64_t i) const
	{
		return operands{ op.g[i], op.flags & ZR_OP_ACCUMULATE ? op.acc[i] : 0 };
	}
	ZR_MEMBER void element(nothing, int64_t i, const operands &of, sums *s) const
	{
		T narrow;
		zr_narrow(of.g, &narrow);
		float x = zr_widen(narrow);
		if (op.flags & ZR_OP_ACCUMULATE)
			x = of.acc + x;
		op.acc[i] = x;
		s->a += (double)x * (double)x;
		s->bad += !isfinite(x);
	}
	ZR_MEMBER void block(int64_t b, const sums &s) const
	{
		if (!op.sumsq)
			return;
		op.sumsq[b] = s.a;
		op.nonfinite[b] = s.bad;
	}
};

/* Several contributions: see cpu/fold.c. */
template <class T> struct fold_many {
	struct zr_op_fold op;
	struct zr_fold_shape shape;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	struct operands {
		float acc;
	};
	ZR_MEMBER operands load(int64_t i) const
	{
		return operands{ op.flags & ZR_OP_ACCUMULATE ? op.acc[i] : 0 };
	}
	ZR_MEMBER float rounded(float x) const
	{
		T narrow;
		zr_narrow(x, &narrow);
		return zr_widen(narrow);
	}
	ZR_MEMBER float leaf(int32_t k, int64_t i) const
	{
		const char *from = (const char *)op.g + k * op.apart;
		if (shape.from == ZR_MXINT8)
			return zr_mx_get(from, i);
		if (shape.from == ZR_BF16)
			return rounded(zr_widen(((const bf16 *)from)[i]));
		if (shape.from == ZR_F16)
			return rounded(zr_widen(((const f16 *)from)[i]));
		return rounded(((const float *)from)[i]);
	}
	ZR_MEMBER int join_inside(int32_t k, float *waiting, float *x) const
	{
		int32_t level = 0;
		for (; level < shape.inside && (k >> level & 1); level++)
			*x = rounded(waiting[level] + *x);
		if (level < shape.inside)
			waiting[level] = *x;
		return level == shape.inside;
	}
	ZR_MEMBER int join_turns(int64_t i, float *x) const
	{
		float *waiting = op.waiting + i;
		int32_t level = shape.inside;
		for (int32_t turn = op.turn; level < shape.levels && (turn & 1);
		     turn >>= 1, level++) {
			*x = rounded(*waiting + *x);
			waiting += op.waiting_apart;
		}
		if (level < shape.levels)
			*waiting = *x;
		return level == shape.levels;
	}
	ZR_MEMBER void store(int64_t i, float x) const
	{
		if (shape.to == ZR_BF16)
			zr_narrow(x, (bf16 *)op.acc + i);
		else if (shape.to == ZR_F16)
			zr_narrow(x, (f16 *)op.acc + i);
		else
			op.acc[i] = x;
	}
	ZR_MEMBER void element(nothing, int64_t i, const operands &of, sums *s) const
	{
		float waiting[ZR_FOLD_LEVELS], sum = of.acc;
		int64_t stored = 0;
		int added = op.flags & ZR_OP_ACCUMULATE, roots = 0;
		for (int32_t k = 0; k < shape.number; k++) {
			float x = leaf(k, i);
			if (!join_inside(k, waiting, &x) || !join_turns(i, &x))
				continue;
			if (op.to_apart) {
				store(i + stored++ * op.to_apart, x);
				continue;
			}
			sum = added ? sum + x : x;
			added = roots = 1;
		}
		if (!roots)
			return;
		store(i, sum);
		s->a += (double)sum * (double)sum;
		s->bad += !isfinite(sum);
	}
	ZR_MEMBER void block(int64_t b, const sums &s) const
	{
		if (!op.sumsq)
			return;
		op.sumsq[b] = s.a;
		op.nonfinite[b] = s.bad;
	}
};

template <class T> static cudaError_t launch_fold(const struct zr_op_fold *op, cudaStream_t s)
{
	if (zr_folds_many(op))
		return each_block(fold_many<T>{ *op, zr_fold_shape_of(op) }, op->n, s);
	return each_block(fold<T>{ *op }, op->n, s);
}

cudaError_t zr_cuda_fold(const struct zr_op_fold *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->comm_dtype, launch_fold, op, s);
}

/* ---- lamb_norms ------------------------------------------------------------------ */

struct lamb_norms {
	struct zr_op_lamb op;
	ZR_MEMBER struct lamb_factors factors() const
	{
		return lamb_factors(&op);
	}
	struct operands {
		float m, v, p, g;
	};
	ZR_MEMBER operands load(int64_t i) const
	{
		return operands{ op.m[i], op.v[i], op.master[i], op.grad[i] };
	}
	ZR_MEMBER void element(const struct lamb_factors &f, int64_t, operands x, sums *s) const
	{
		float p = x.p, r = lamb_direction(&f, p, x.g, &x.m, &x.v);
		s->a += (double)p * (double)p;
		s->b += (double)r * (double)r;
	}
	ZR_MEMBER void block(int64_t b, const sums &s) const
	{
		op.block_norms[2 * b] = s.a;
		op.block_norms[2 * b + 1] = s.b;
	}
};

cudaError_t zr_cuda_lamb_norms(const struct zr_op_lamb *op, cudaStream_t s)
{
	return each_block(lamb_norms{ *op }, op->n, s);
}

/* ---- muon_momentum --------------------------------------------------------------- */

struct muon_momentum {
	struct zr_op_muon op;
	ZR_MEMBER struct muon_factors factors() const
	{
		return muon_factors(&op);
	}
	struct operands {
		float buf, g;
	};
	ZR_MEMBER operands load(int64_t i) const
	{
		return operands{ op.buf[i], op.grad[i] };
	}
	ZR_MEMBER void element(const struct muon_factors &f, int64_t i, operands of, sums *s) const
	{
		float x = muon_average(&f, of.g, &of.buf);
		op.buf[i] = of.buf;
		op.x[i] = x;
		s->a += (double)x * (double)x;
	}
	ZR_MEMBER void block(int64_t b, const sums &s) const
	{
		op.sumsq[b] = s.a;
	}
};

cudaError_t zr_cuda_muon_momentum(const struct zr_op_muon *op, cudaStream_t s)
{
	return each_block(muon_momentum{ *op }, op->n, s);
}

/* ---- muon_normalize -------------------------------------------------------------- */

/* Every block adds the sums itself, in order: they are few, a 2048th of what it is about to
 * scale. */
static __global__ void __launch_bounds__(ZR_THREADS)
	muon_normalize_kernel(const __grid_constant__ struct zr_op_muon op)
{
	const int64_t blocks = (op.n + ZR_BLOCK - 1) / ZR_BLOCK,
		      step = (int64_t)gridDim.x * blockDim.x;
	__shared__ double some[ZR_THREADS];
	__shared__ float factor;
	double sum = 0;

	for (int64_t at = 0; at < blocks; at += ZR_THREADS) {
		if (at + threadIdx.x < blocks)
			some[threadIdx.x] = op.sumsq[at + threadIdx.x];
		__syncthreads();
		for (int k = 0; threadIdx.x == 0 && k < ZR_THREADS && at + k < blocks; k++)
			sum += some[k];
		__syncthreads();
	}
	if (threadIdx.x == 0) {
		double norm = sqrt(sum);
		factor = (float)(1 / (norm > op.eps ? norm : op.eps));
	}
	__syncthreads();
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < op.n; i += step)
		op.x[i] = op.x[i] * factor;
}

cudaError_t zr_cuda_muon_normalize(const struct zr_op_muon *op, cudaStream_t s)
{
	int64_t grid = zr_ceil_div(op->n, 16 * ZR_THREADS);
	return zr_launch(muon_normalize_kernel,
			 dim3((unsigned)(grid < ZR_MOST_BLOCKS ? grid : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op);
}
