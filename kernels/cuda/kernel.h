/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.h - what the CUDA kernels are written in: storage types, four elements at a time,
 * launches, sums over a warp. The arithmetic of elements is that of the CPU's scalar kernels: the
 * same headers, compiled for the device without contraction to fma (-fmad=false) and without fast
 * math, so that elementwise operations have the CPU's bits.
 *
 * No kernel adds floats atomically: who adds what, and in which order, follows from shapes alone
 * (invariant I1).
 *
 * ZR_CUDA_EMULATED names a header that stands in for CUDA, so that a host compiler can run the
 * kernels in tests.
 */
#ifndef ZEROTH_KERNELS_CUDA_KERNEL_H
#define ZEROTH_KERNELS_CUDA_KERNEL_H

#ifdef ZR_CUDA_EMULATED
#include ZR_CUDA_EMULATED
#else
#include <cuda_runtime.h>
#define ZR_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

#define ZR_INLINE static __host__ __device__ __forceinline__
#define ZR_DEVICE static __device__ __forceinline__
#define ZR_MEMBER __device__ __forceinline__ /* of a class */

/* 1 / d, 1 <= d < 2^126 or NaN: what the compiler makes of a division, without the branch for
 * other d. */
ZR_INLINE float zr_inverse(float d)
{
#ifdef __CUDA_ARCH__
	float r;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
	return fmaf(r, -fmaf(d, r, -1), r);
#else
	return 1 / d;
#endif
}

#define ZR_RECIPROCAL zr_inverse
#include "../cpu/scalar.h"
#include <kernels_cuda.h>

#define ZR_WARP      32
#define ZR_FULL_WARP 0xffffffffu
#define ZR_THREADS   256 /* of a block, where nothing else is said */
#ifndef ZR_MOST_THREADS
#define ZR_MOST_THREADS 1024 /* that a block may have */
#endif
#ifndef ZR_MOST_BLOCKS
#define ZR_MOST_BLOCKS 2048 /* of a sweep: fills any device several times, then each thread loops */
#endif

#include "storage.h"

/* Converting f16 takes the registers of what is loaded ahead of it. */
template <class T> inline constexpr bool zr_converts_long = false;
template <> inline constexpr bool zr_converts_long<f16> = true;

/* Calls fn<T>(...) for the storage type `dtype`. */
#define ZR_BY_TYPE(dtype, fn, ...)                                                                 \
	((dtype) == ZR_BF16 ? fn<bf16>(__VA_ARGS__) :                                              \
	 (dtype) == ZR_F16  ? fn<f16>(__VA_ARGS__) :                                               \
			      fn<float>(__VA_ARGS__))

/* Whether p (or nothing) can be read four elements of `bytes` at a time. */
static inline int zr_quads(const void *p, int64_t bytes)
{
	return (uintptr_t)p % (uintptr_t)(4 * bytes) == 0;
}

/* ---- launches -------------------------------------------------------------------- */

static inline int64_t zr_ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

template <class... P, class... A>
static cudaError_t zr_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
			     cudaStream_t s, const A &...args)
{
	if (!grid.x || !grid.y || !grid.z)
		return cudaSuccess;
#ifdef ZR_CUDA_EMULATED
	return emulated_launch([&] { kernel(args...); }, grid, block, shared, s);
#else
	if (shared > 48u << 10) { /* more must be asked for */
		cudaError_t e = cudaFuncSetAttribute(
			kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
		if (e != cudaSuccess)
			return e;
	}
	cudaLaunchConfig_t how = {};
	how.gridDim = grid;
	how.blockDim = block;
	how.dynamicSmemBytes = shared;
	how.stream = s;
	/* of this launch alone: cudaGetLastError has what others asked, too */
	return cudaLaunchKernelEx(&how, kernel, args...);
#endif
}

struct nothing {
}; /* factors of operations that have none */

/* f.quad(f.factors(), place) for every four of n elements. */
template <class F>
static __global__ void __launch_bounds__(ZR_THREADS)
	zr_sweep_kernel(const __grid_constant__ F f, int64_t n, int whole)
{
	const auto k = f.factors();
	const int64_t step = (int64_t)gridDim.x * blockDim.x * 4;

	for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < n; i += step) {
		int m = n - i < 4 ? (int)(n - i) : 4;
		f.quad(k, zr_place{ i, m, whole && m == 4 });
	}
}

template <class F> static cudaError_t zr_sweep(const F &f, int64_t n, int whole, cudaStream_t s)
{
	int64_t blocks = zr_ceil_div(n, 4 * ZR_THREADS);
	return zr_launch(zr_sweep_kernel<F>,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, f, n, whole);
}

/* f.finish(f.factors(), place, f.load(place)) for every four of n elements. A thread loads AHEAD
 * fours before it computes the first, so that much is under way in memory. Each block of threads
 * does one part. */
template <class F, int AHEAD>
static __global__ void __launch_bounds__(ZR_THREADS)
	zr_ahead_kernel(const __grid_constant__ F f, int64_t n, int whole)
{
	const auto k = f.factors();
	const int64_t part = 4 * ZR_THREADS * AHEAD, from = (int64_t)blockIdx.x * part;
	decltype(f.load(zr_place{})) x[AHEAD];

	if (whole && n - from >= part) {
#pragma unroll
		for (int j = 0; j < AHEAD; j++)
			x[j] = f.load(zr_place{ from + 4 * (j * ZR_THREADS + threadIdx.x), 4, 1 });
#pragma unroll
		for (int j = 0; j < AHEAD; j++)
			f.finish(k, zr_place{ from + 4 * (j * ZR_THREADS + threadIdx.x), 4, 1 },
				 x[j]);
		return;
	}
	for (int64_t i = from + 4 * threadIdx.x; i < n && i < from + part; i += 4 * ZR_THREADS) {
		int m = n - i < 4 ? (int)(n - i) : 4;
		zr_place at = { i, m, whole && m == 4 };
		f.finish(k, at, f.load(at));
	}
}

template <class F, int AHEAD = 2>
static cudaError_t zr_sweep_ahead(const F &f, int64_t n, int whole, cudaStream_t s)
{
	return zr_launch(zr_ahead_kernel<F, AHEAD>,
			 dim3((unsigned)zr_ceil_div(n, 4 * ZR_THREADS * AHEAD)), dim3(ZR_THREADS),
			 0, s, f, n, whole);
}

/* ---- a warp ---------------------------------------------------------------------- */

/* A butterfly: every lane gets the same sum. */
ZR_DEVICE float zr_warp_sum(float x)
{
	for (int mask = ZR_WARP / 2; mask > 0; mask /= 2)
		x += __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP);
	return x;
}

/* The larger; a NaN stays. */
ZR_DEVICE float zr_larger(float a, float b)
{
	return b > a || b != b ? b : a;
}

ZR_DEVICE float zr_warp_max(float x)
{
	for (int mask = ZR_WARP / 2; mask > 0; mask /= 2)
		x = zr_larger(x, __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP));
	return x;
}

#endif
