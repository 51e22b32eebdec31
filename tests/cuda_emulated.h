/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_emulated.h - the part of CUDA that kernels/cuda/ is written in, on the host: so their indices, tiles, barriers
 * and exchanges between threads are tested where there is no GPU. CUDA blocks run one after the other, the threads of
 * one as coroutines that take turns at barriers. Shared memory is poisoned before each block, and where an asynchronous
 * copy goes until its thread waits for it; a warp runs as far ahead of the others as barriers let it. A block whose threads
 * wait for each other forever aborts. What it cannot show: every race, speed, the limits of hardware.
 */
#ifndef ZR_TESTS_CUDA_EMULATED_H
#define ZR_TESTS_CUDA_EMULATED_H

#include <stddef.h>
#include <stdint.h>

typedef struct emulated_stream *cudaStream_t;
typedef int cudaError_t;
enum { cudaSuccess, cudaMemcpyDefault = 4 };

#ifdef __cplusplus
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define ZR_DYNAMIC_SHARED(name) unsigned char *name = emulated::dynamic

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint4 {
	unsigned x, y, z, w;
};
inline dim3 threadIdx(0), blockIdx(0), blockDim(1), gridDim(1);

namespace emulated {

enum { LANES = 32, MOST = 1024, STACK = 256 << 10, DYNAMIC = 200 << 10 };

/* Of a warp or of a block. */
struct barrier {
	int members, waiting;
	unsigned turn;
};

struct coroutine {
	ucontext_t context;
	dim3 index = dim3(0);
	bool done;
};

/* A copy that a thread started: until it waits, its place holds nothing that makes sense. */
struct copying {
	void *to;
	const void *from; /* NULL: zeros */
	size_t n;
};

enum { COPIES = 128 };

inline coroutine fiber[MOST];
inline copying copies[MOST][COPIES];
inline int n_copies[MOST];
inline ucontext_t scheduler;
inline char *stacks;
inline int now; /* number of the running thread in its block */
inline bool moved;
inline barrier warp[MOST / LANES], block;
inline uint32_t slot[MOST / LANES][LANES][8]; /* what the lanes of a warp show each other */
inline int any;
alignas(64) inline unsigned char dynamic[DYNAMIC];
inline void (*body)(void *);
inline void *body_arg;

inline void meet(barrier *b)
{
	unsigned turn = b->turn;
	b->waiting++;
	while (b->turn == turn) {
		if (b->waiting >= b->members) { /* a thread that has ended is no member */
			b->waiting = 0;
			b->turn++;
			moved = true;
		} else {
			swapcontext(&fiber[now].context, &scheduler);
		}
	}
}

inline void meet_warp() { meet(&warp[now / LANES]); }

inline void run_thread()
{
	body(body_arg);
	if (n_copies[now]) {
		fprintf(stderr, "a thread ends with copies that it did not wait for\n");
		abort();
	}
	fiber[now].done = true;
	warp[now / LANES].members--;
	block.members--;
	moved = true;
	swapcontext(&fiber[now].context, &scheduler);
}

inline void start_block(int threads)
{
	memset(dynamic, 0xff, sizeof dynamic);
	block = barrier{ threads, 0, 0 };
	for (int i = 0; i < threads; i++) {
		coroutine *f = &fiber[i];
		if (i % LANES == 0)
			warp[i / LANES] = barrier{ threads - i < LANES ? threads - i : LANES, 0, 0 };
		f->done = false;
		f->index = dim3((unsigned)i % blockDim.x, (unsigned)i / blockDim.x % blockDim.y, (unsigned)i / blockDim.x / blockDim.y);
		getcontext(&f->context);
		f->context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
		f->context.uc_stack.ss_size = STACK;
		f->context.uc_link = NULL;
		makecontext(&f->context, run_thread, 0);
	}
}

/* Whether the threads of a warp got further: they go on until they wait for other warps. */
inline bool run_warp(int first, int end)
{
	bool any_moved = false;
	do {
		moved = false;
		for (now = first; now < end; now++)
			if (!fiber[now].done) {
				threadIdx = fiber[now].index;
				swapcontext(&scheduler, &fiber[now].context);
			}
		any_moved |= moved;
	} while (moved);
	return any_moved;
}

inline void run_block(int threads)
{
	start_block(threads);
	while (block.members > 0) {
		bool any_moved = false;
		for (int first = 0; first < threads; first += LANES)
			any_moved |= run_warp(first, first + LANES < threads ? first + LANES : threads);
		if (!any_moved) {
			fprintf(stderr, "block (%u, %u): its threads wait for each other forever\n", blockIdx.x, blockIdx.y);
			abort();
		}
	}
}

template <class F> void call(void *f) { (*(F *)f)(); }

inline void copy_later(void *to, const void *from, size_t n)
{
	if (n_copies[now] == COPIES) {
		fprintf(stderr, "a thread has started %d copies that it did not wait for\n", COPIES);
		abort();
	}
	memset(to, 0xff, n);
	copies[now][n_copies[now]++] = copying{ to, from, n };
}

inline void copy_now()
{
	for (int i = 0; i < n_copies[now]; i++) {
		const copying *c = &copies[now][i];
		if (c->from)
			memcpy(c->to, c->from, c->n);
		else
			memset(c->to, 0, c->n);
	}
	n_copies[now] = 0;
}

/* Words of every lane, as the others see them until the next exchange. */
inline uint32_t (*show(const uint32_t *words, int n))[8]
{
	meet_warp();
	memcpy(slot[now / LANES][now % LANES], words, (size_t)n * 4);
	meet_warp();
	return slot[now / LANES];
}

template <class T> T from_lane(T x, int lane)
{
	uint32_t mine[2] = { 0, 0 };
	memcpy(mine, &x, sizeof x);
	T theirs;
	memcpy(&theirs, show(mine, 2)[lane], sizeof theirs);
	return theirs;
}

} // namespace emulated

template <class F> cudaError_t emulated_launch(F f, dim3 grid, dim3 threads, size_t shared, cudaStream_t)
{
	int n = (int)(threads.x * threads.y * threads.z);
	if (n > emulated::MOST || shared > emulated::DYNAMIC)
		abort();
	if (!emulated::stacks)
		emulated::stacks = (char *)malloc((size_t)emulated::MOST * emulated::STACK);
	emulated::body = emulated::call<F>;
	emulated::body_arg = &f;
	gridDim = grid;
	blockDim = threads;
	for (blockIdx.z = grid.z; blockIdx.z-- > 0;)
		for (blockIdx.y = grid.y; blockIdx.y-- > 0;)
			for (blockIdx.x = grid.x; blockIdx.x-- > 0;) /* whoever hopes for ascending order is found out */
				emulated::run_block(n);
	emulated::body_arg = NULL;
	return cudaSuccess;
}

/* ---- what kernels call ------------------------------------------------------------------------------ */

static inline void __syncthreads() { emulated::meet(&emulated::block); }
static inline void __syncwarp() { emulated::meet_warp(); }

static inline int __syncthreads_or(int x)
{
	__syncthreads();
	emulated::any = 0;
	__syncthreads();
	emulated::any |= x;
	__syncthreads();
	return emulated::any;
}

template <class T> T __shfl_xor_sync(uint32_t, T x, int mask, int)
{
	return emulated::from_lane(x, emulated::now % emulated::LANES ^ mask);
}

template <class T> T __shfl_down_sync(uint32_t, T x, int by, int width)
{
	int lane = emulated::now % emulated::LANES;
	return emulated::from_lane(x, lane % width + by < width ? lane + by : lane);
}

static inline uint32_t __ballot_sync(uint32_t, int x)
{
	uint32_t mine = x != 0, all = 0;
	uint32_t(*lane)[8] = emulated::show(&mine, 1);
	for (int i = 0; i < emulated::LANES; i++)
		all |= lane[i][0] << i;
	return all;
}

static inline int32_t atomicAdd(int32_t *to, int32_t x)
{
	int32_t was = *to;
	*to += x;
	return was;
}

static inline int __ffs(int x) { return __builtin_ffs(x); }

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int, cudaStream_t)
{
	memcpy(to, from, n);
	return cudaSuccess;
}

static inline cudaError_t cudaMemsetAsync(void *to, int x, size_t n, cudaStream_t)
{
	memset(to, x, n);
	return cudaSuccess;
}

#endif
#endif
