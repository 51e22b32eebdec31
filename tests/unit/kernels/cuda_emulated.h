/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_emulated.h - the part of CUDA that kernels/cuda/ is written in, on the host: so their
 * indices, tiles, barriers and exchanges between threads are tested where there is no GPU. CUDA
 * blocks run one after the other, the threads of one as coroutines that take turns at barriers.
 * Shared memory is poisoned before each block, and where an asynchronous copy goes until its thread
 * waits for it; a warp runs as far ahead of the others as barriers let it. Past the end of dynamic
 * shared memory there is nothing. A block whose threads wait for each other forever aborts.
 *
 * hopper_emulated.h adds what compute capability 9.0 does beside its threads. Several CUDA blocks
 * of such a launch run by turns, so that one may wait for what another stores.
 *
 * With the thread sanitizer the coroutines are threads to it, ordered by __syncthreads() and
 * __syncwarp() alone, as on a GPU: it reports every access to shared or global memory that no
 * barrier orders, whichever order they ran in. A shuffle orders nothing. What remains unseen: races
 * between CUDA blocks, speed, most limits of hardware.
 */
#ifndef ZR_TESTS_CUDA_EMULATED_H
#define ZR_TESTS_CUDA_EMULATED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct emulated_stream *cudaStream_t;
typedef int cudaError_t;
enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaMemcpyDefault = 4 };

static inline cudaError_t cudaMalloc(void **p, size_t bytes)
{
	return posix_memalign(p, 256, bytes) ? cudaErrorMemoryAllocation : cudaSuccess;
}

static inline cudaError_t cudaFree(void *p)
{
	free(p);
	return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	(void)kind;
	memcpy(to, from, bytes);
	return cudaSuccess;
}

static inline cudaError_t cudaDeviceSynchronize(void)
{
	return cudaSuccess;
}

static inline const char *cudaGetErrorString(cudaError_t e)
{
	return e == cudaErrorInvalidValue ? "invalid argument" : "out of memory";
}

#ifdef __cplusplus
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
/* ZR_UNSEEN: what is no part of the kernels. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_write_range(void *, unsigned long);
extern "C" inline __attribute__((used)) const char *__tsan_default_options()
{
	return "halt_on_error=1:atexit_sleep_ms=0";
}
/* whose no_sanitize leaves notes of entry and exit, and a coroutine ends without exit */
#ifdef __clang__
#define ZR_UNSEEN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define ZR_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#endif
#else
#define ZR_UNSEEN
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((unused))
#ifdef __SANITIZE_ADDRESS__ /* it guards arrays of no section only */
#define __shared__ static
#else
#define __shared__ static __attribute__((section("zr_shared")))
#endif
#define __grid_constant__
#define __launch_bounds__(...)
#define ZR_MOST_BLOCKS          2   /* the loops of sweeps go round */
#define ZR_MOST_THREADS         256 /* the time of a barrier grows with their square */
#define ZR_DYNAMIC_SHARED(name) unsigned char *name = emulated::dynamic

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};
inline dim3 threadIdx(0), blockIdx(0), blockDim(1), gridDim(1);

namespace emulated
{

/* DYNAMIC: what compute capabilities 8.6, 8.9 and 12.0, the least, lend a block. WINDOW: the
 * addresses of shared memory of a block, the last ones being its dynamic shared memory. */
enum {
	LANES = 32,
	MOST = 1024,
	RESIDENT = 4, /* blocks that run by turns */
	STACK = 256 << 10,
	DYNAMIC = 99 << 10,
	WINDOW = 256 << 10,
	PAGE = 1 << 16,
	GRID_YZ = 65535
};

/* Of a warp or of a block. */
struct barrier {
	int members, waiting;
	unsigned turn;
	char order[2]; /* what the thread sanitizer is told of, by turns */
};

#ifdef __x86_64__
/* The stack pointer of one that rests, with the registers that a call keeps on its stack:
 * swapcontext() asks the kernel for the mask of signals each time, and with the address sanitizer
 * clears the shadow of the whole stack. */
typedef void *place;

__attribute__((naked)) ZR_UNSEEN inline void change(place *, place *)
{
	asm("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi)\n\t"
	    "mov (%rsi), %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret");
}

ZR_UNSEEN inline void begin_at(place *p, char *stack, size_t size, void (*f)())
{
	void **top = (void **)(stack + size) - 8; /* six registers, where to go, no way back */
	memset(top, 0, 8 * sizeof *top);
	top[6] = (void *)f;
	*p = top;
}
#else
typedef ucontext_t place;

ZR_UNSEEN inline void change(place *from, place *to)
{
	swapcontext(from, to);
}

ZR_UNSEEN inline void begin_at(place *p, char *stack, size_t size, void (*f)())
{
	getcontext(p);
	p->uc_stack.ss_sp = stack;
	p->uc_stack.ss_size = size;
	p->uc_link = NULL;
	makecontext(p, f, 0);
}
#endif

/* While may_go(what, turn) is false the thread rests. */
struct coroutine {
	place at;
	bool (*may_go)(const void *what, uint64_t turn);
	const void *what;
	uint64_t turn;
	const char *waits_for; /* in words */
	dim3 index = dim3(0);
	void *thread; /* the thread sanitizer's */
	bool done;
};

/* A copy that a thread started: until it waits, its place holds nothing that makes sense. */
struct copying {
	void *to;
	const void *from; /* NULL: zeros */
	size_t n;
};

enum { COPIES = 128 };

/* A CUDA block that runs. Its threads follow those of the block before it, from a whole warp on. */
struct resident {
	bool running;
	dim3 index = dim3(0);
	int first, end; /* threads */
	barrier all;
	char begun, over;
	unsigned char *dynamic;
};

inline coroutine fiber[MOST];
inline copying copies[MOST][COPIES];
inline int n_copies[MOST];
inline place scheduler;
inline void *scheduler_thread;
inline char *stacks;
inline int now; /* number of the running thread */
inline resident blocks[RESIDENT], *here;
inline barrier warp[MOST / LANES];
typedef uint32_t words[12];
inline words slot[2][MOST / LANES][LANES]; /* what the lanes of a warp show each other, by turns */
/* windows of shared memory; the running block's dynamic shared memory, at the end of its window */
inline unsigned char *room, *dynamic;
inline size_t dynamic_bytes;
inline void (*body)(void *);
inline void *body_arg;

/* ---- what the thread sanitizer is told ---- */

#ifdef __SANITIZE_THREAD__
inline void tell(char *place)
{
	__tsan_release(place);
}
inline void hear(char *place)
{
	__tsan_acquire(place);
}

/* Somebody else than threads of the kernel has written there. */
inline void tell_of_write(void *to, size_t n)
{
	__tsan_write_range(to, n);
}

ZR_UNSEEN inline void go_to(void *thread)
{
	__tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync);
}

ZR_UNSEEN inline void *new_thread()
{
	return __tsan_create_fiber(0);
}

ZR_UNSEEN inline void *this_thread()
{
	return __tsan_get_current_fiber();
}
#else
inline void tell(char *)
{
}
inline void hear(char *)
{
}
inline void tell_of_write(void *, size_t)
{
}
inline void go_to(void *)
{
}
inline void *new_thread()
{
	return &scheduler;
}
inline void *this_thread()
{
	return &scheduler;
}
#endif

/* ---- threads ---- */

[[noreturn]] __attribute__((format(printf, 1, 2))) ZR_UNSEEN inline void fail(const char *what, ...)
{
	va_list args;
	va_start(args, what);
	fprintf(stderr, "block (%u, %u), thread %d: ", blockIdx.x, blockIdx.y,
		here ? now - here->first : 0);
	vfprintf(stderr, what, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

ZR_UNSEEN inline void rest()
{
	go_to(scheduler_thread);
	change(&fiber[now].at, &scheduler);
}

/* The thread goes on once may_go() is true. */
ZR_UNSEEN inline void rest_until(bool (*may_go)(const void *, uint64_t), const void *what,
				 uint64_t turn, const char *waits_for)
{
	coroutine *f = &fiber[now];
	while (!may_go(what, turn)) {
		f->may_go = may_go;
		f->what = what;
		f->turn = turn;
		f->waits_for = waits_for;
		rest();
	}
	f->may_go = NULL;
}

/* A thread that has ended is no member. */
ZR_UNSEEN inline bool barrier_is_full(const void *what, uint64_t turn)
{
	const barrier *b = (const barrier *)what;
	return b->turn != turn || b->waiting >= b->members;
}

ZR_UNSEEN inline void wait_for(barrier *b)
{
	unsigned turn = b->turn;
	b->waiting++;
	rest_until(barrier_is_full, b, turn, "a barrier");
	if (b->turn == turn) {
		b->waiting = 0;
		b->turn++;
	}
}

/* A barrier that orders memory: what was done before it is seen behind it. */
ZR_UNSEEN inline void meet(barrier *b)
{
	char *order = &b->order[b->turn % 2];
	tell(order);
	wait_for(b);
	hear(order);
}

ZR_UNSEEN inline barrier *own_warp()
{
	return &warp[now / LANES];
}

ZR_UNSEEN inline void go_into(resident *b)
{
	here = b;
	blockIdx = b->index;
	dynamic = b->dynamic;
}

} // namespace emulated

/* What is done beside the threads. */
#include "hopper_emulated.h"

namespace emulated
{

ZR_UNSEEN inline void run_thread()
{
	hear(&here->begun);
	body(body_arg);
	if (n_copies[now])
		fail("ends with copies that it did not wait for");
	end_of_thread();
	fiber[now].done = true;
	warp[now / LANES].members--;
	here->all.members--;
	tell(&here->over);
	rest();
}

/* Arrays in shared memory that kernels declare. */
#ifdef __SANITIZE_ADDRESS__
inline void poison_static()
{
}
#else
extern "C" char __start_zr_shared[] __attribute__((weak)), __stop_zr_shared[] __attribute__((weak));
inline void poison_static()
{
	memset(__start_zr_shared, 0xff, (size_t)(__stop_zr_shared - __start_zr_shared));
}
#endif

ZR_UNSEEN inline void start_thread(int i, unsigned number)
{
	coroutine *f = &fiber[i];
	f->done = false;
	f->thread = f->thread ? f->thread : new_thread();
	f->index = dim3(number % blockDim.x, number / blockDim.x % blockDim.y,
			number / blockDim.x / blockDim.y);
	f->may_go = NULL;
	begin_at(&f->at, stacks + (size_t)i * STACK, STACK, run_thread);
}

/* The n-th of the grid. */
ZR_UNSEEN inline void start_block(resident *b, uint64_t n)
{
	b->running = true;
	b->index = dim3((unsigned)(n % gridDim.x), (unsigned)(n / gridDim.x % gridDim.y),
			(unsigned)(n / gridDim.x / gridDim.y));
	b->all = barrier{ b->end - b->first, 0, 0, {} };
	go_into(b);
	memset(dynamic, 0xff, dynamic_bytes);
	poison_static();
	begin_beside(b);
	for (int i = b->first; i < b->end; i++)
		start_thread(i, (unsigned)(i - b->first));
	for (int i = b->first; i < b->end; i += LANES)
		warp[i / LANES] = barrier{ b->end - i < LANES ? b->end - i : LANES, 0, 0, {} };
	tell(&b->begun);
}

ZR_UNSEEN inline bool must_wait(const coroutine *f)
{
	return f->done || (f->may_go && !f->may_go(f->what, f->turn));
}

/* Whether the threads of a warp got further: they go on until they wait for other warps. */
ZR_UNSEEN inline bool run_warp(int first, int end)
{
	bool moved, any_moved = false;
	do {
		moved = false;
		for (now = first; now < end; now++)
			if (!must_wait(&fiber[now])) {
				threadIdx = fiber[now].index;
				go_to(fiber[now].thread);
				change(&scheduler, &fiber[now].at);
				moved = true;
			}
		any_moved |= moved;
	} while (moved);
	return any_moved;
}

/* The warps of a launch begin in this order: the last one first, if it is set. */
inline bool last_first;

/* Whether its threads got further. */
ZR_UNSEEN inline bool run_block(resident *b)
{
	const int warps = (b->end - b->first + LANES - 1) / LANES;
	bool any_moved = false;
	go_into(b);
	for (int i = 0; i < warps; i++) {
		const int first = b->first + (last_first ? warps - 1 - i : i) * LANES;
		any_moved |= run_warp(first, first + LANES < b->end ? first + LANES : b->end);
	}
	if (b->all.members == 0) {
		end_beside(b);
		b->running = false;
		hear(&b->over);
	}
	return any_moved;
}

/* Says what the threads of the first resident block wait for. */
ZR_UNSEEN [[noreturn]] inline void wait_forever()
{
	char what[256] = "";
	for (here = blocks; !here->running;)
		here++;
	go_into(here);
	for (int i = here->first; i < here->end; i++) {
		const char *next = fiber[i].done ? "" : fiber[i].waits_for;
		const size_t n = strlen(what);
		if (!strstr(what, next))
			snprintf(what + n, sizeof what - n, "%s%s", n ? ", " : "", next);
	}
	now = here->first;
	fail("its threads wait for each other forever: for %s", what);
}

template <class F> void call(void *f)
{
	(*(F *)f)();
}

ZR_UNSEEN inline void copy_later(void *to, const void *from, size_t n)
{
	if (n_copies[now] == COPIES)
		fail("has started %d copies that it did not wait for", COPIES);
	memset(to, 0xff, n);
	copies[now][n_copies[now]++] = copying{ to, from, n };
}

ZR_UNSEEN inline void copy_now()
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

/* Words of every lane, as the others see them until the next exchange: whoever comes to that has
 * read these. */
ZR_UNSEEN inline const words *show(const uint32_t *given, int n)
{
	words *shown = slot[own_warp()->turn % 2][now / LANES];
	volatile uint32_t *mine = shown[now % LANES];
	for (int i = 0; i < n; i++)
		mine[i] = given[i];
	wait_for(own_warp());
	return shown;
}

/* By value: the thread sanitizer watches whatever these would get the address of. */
ZR_UNSEEN inline const words *show_two(uint64_t given)
{
	const uint32_t mine[2] = { (uint32_t)given, (uint32_t)(given >> 32) };
	return show(mine, 2);
}

ZR_UNSEEN inline uint64_t shown_two(const words &lane)
{
	return (uint64_t)lane[1] << 32 | lane[0];
}

template <class T> T from_lane(T x, int lane)
{
	uint64_t bits = 0;
	memcpy(&bits, &x, sizeof x);
	bits = shown_two(show_two(bits)[lane]);
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* Dynamic shared memory of so many bytes for each resident block, at the end of its window: behind
 * that there is nothing. */
ZR_UNSEEN inline void make_room(size_t shared, size_t alignment)
{
	if (!room) {
		const size_t each = WINDOW + PAGE;
		room = (unsigned char *)mmap(NULL, RESIDENT * each + PAGE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED)
			abort();
		room += PAGE - (uintptr_t)room % PAGE;
		for (int i = 0; i < RESIDENT; i++)
			if (mprotect(room + i * each + WINDOW, PAGE, PROT_NONE))
				abort();
		stacks = (char *)malloc((size_t)MOST * STACK);
		scheduler_thread = this_thread();
	}
	dynamic_bytes = (shared + alignment - 1) / alignment * alignment;
	for (int i = 0; i < RESIDENT; i++)
		blocks[i].dynamic = room + i * (WINDOW + PAGE) + WINDOW - dynamic_bytes;
}

ZR_UNSEEN inline void run_grid(dim3 grid, dim3 threads, int at_once)
{
	const int n = (int)(threads.x * threads.y * threads.z);
	const int room_of_threads = (n + LANES - 1) / LANES * LANES;
	uint64_t left = (uint64_t)grid.x * grid.y * grid.z;
	int running = 0;
	if (n > MOST || grid.y > GRID_YZ || grid.z > GRID_YZ || grid.x > INT32_MAX)
		abort();
	gridDim = grid;
	blockDim = threads;
	for (int i = 0; i < at_once; i++) {
		blocks[i].first = i * room_of_threads;
		blocks[i].end = i * room_of_threads + n;
	}
	do {
		bool moved = false;
		for (int i = 0; i < at_once; i++) {
			/* whoever hopes for ascending order is found out */
			if (!blocks[i].running && left) {
				start_block(&blocks[i], --left);
				running++;
			}
			if (blocks[i].running) {
				moved |= run_block(&blocks[i]);
				running -= !blocks[i].running;
			}
		}
		if (running && !moved && !finish_one())
			wait_forever();
	} while (running || left);
	here = NULL;
}

ZR_UNSEEN inline void launch_now(void (*f)(void *), void *arg, dim3 grid, dim3 threads, int at_once)
{
	body = f;
	body_arg = arg;
	run_grid(grid, threads, at_once);
	body_arg = NULL;
}

} // namespace emulated

template <class F>
cudaError_t emulated_launch(F f, dim3 grid, dim3 threads, size_t shared, cudaStream_t)
{
	if (shared > emulated::DYNAMIC)
		abort();
	emulated::make_room(shared, 16);
	emulated::launch_now(emulated::call<F>, &f, grid, threads, 1);
	return cudaSuccess;
}

/* Of compute capability 9.0. A thread begins with as many registers as __launch_bounds__(threads,
 * 1) says. */
template <class F>
cudaError_t emulated_launch_hopper(F f, dim3 grid, dim3 threads, size_t shared, cudaStream_t)
{
	const int n = (int)(threads.x * threads.y * threads.z);
	if (shared > emulated::HOPPER_DYNAMIC || n < 1 || n > emulated::MOST)
		abort();
	const int most = emulated::REGISTERS / n / 8 * 8;
	const int at_once =
		emulated::MOST / ((n + emulated::LANES - 1) / emulated::LANES * emulated::LANES);
	emulated::launch_registers = most < 256 ? most : 256;
	emulated::make_room(shared, 1024);
	emulated::launch_now(emulated::call<F>, &f, grid, threads,
			     at_once < emulated::RESIDENT ? at_once : emulated::RESIDENT);
	emulated::launch_registers = 0;
	return cudaSuccess;
}

/* ---- what kernels call ---- */

static inline void __syncthreads()
{
	emulated::meet(&emulated::here->all);
}
static inline void __syncwarp()
{
	emulated::meet(emulated::own_warp());
}

template <class T> T __shfl_xor_sync(uint32_t, T x, int mask, int)
{
	return emulated::from_lane(x, emulated::now % emulated::LANES ^ mask);
}

template <class T> T __shfl_sync(uint32_t, T x, int lane, int)
{
	return emulated::from_lane(x, lane);
}

template <class T> T __shfl_down_sync(uint32_t, T x, int by, int width)
{
	int lane = emulated::now % emulated::LANES;
	return emulated::from_lane(x, lane % width + by < width ? lane + by : lane);
}

static inline uint32_t __ballot_sync(uint32_t, int x)
{
	uint32_t mine = x != 0, all = 0;
	const emulated::words *lane = emulated::show(&mine, 1);
	for (int i = 0; i < emulated::LANES; i++)
		all |= lane[i][0] << i;
	return all;
}

static inline int32_t atomicAdd(int32_t *to, int32_t x)
{
	return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}

static inline int atomicMax(int *to, int x)
{
	int seen = __atomic_load_n(to, __ATOMIC_RELAXED);
	while (x > seen &&
	       !__atomic_compare_exchange_n(to, &seen, x, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return seen;
}

static inline int __ffs(int x)
{
	return __builtin_ffs(x);
}
static inline int __popc(uint32_t x)
{
	return __builtin_popcount(x);
}

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
