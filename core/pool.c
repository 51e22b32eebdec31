/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - fork and join over a fixed set of threads.
 *
 * A job is announced by one 64-bit word: its generation above, the items left to hand out below. A
 * thread takes an item by a compare-and-swap on that word; having one, it may read fn, arg and n,
 * because the caller does not return before every item is done. So a thread that wakes late
 * disturbs nothing, and a small job never waits for a sleeper. Threads and caller look for a while
 * before they sleep on a futex.
 */
#define _GNU_SOURCE
#include "core/pool.h"

#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#define relax() _mm_pause()
#define DEFAULT_MODE 0x1f80u
#else
#define relax() ((void)0)
#define DEFAULT_MODE 0u
#endif

#define SPINS 4000 /* about 50 microseconds: longer than the gaps between operations of a step */

struct zr_pool {
	int threads;
	zr_pool_fn *fn;
	void *arg;
	int64_t n;
	_Alignas(64) atomic_uint_fast64_t job; /* generation << 32 | items left */
	_Alignas(64) atomic_uint done;         /* items finished; futex of the caller */
	atomic_uint waiting;                   /* the caller sleeps on `done` */
	_Alignas(64) atomic_uint bell;         /* futex of the threads */
	atomic_uint sleepers;
	atomic_uint stop;
	atomic_uint rounding; /* some item changed it */
	atomic_int workers;   /* numbers that are taken; 0 is the caller's */
	pthread_t thread[];   /* [threads - 1] */
};

static void futex_wait(atomic_uint *word, unsigned value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

uint64_t zr_rounding_mode(void)
{
	uint64_t mode = 0;
#if defined(__x86_64__)
	mode = _mm_getcsr() & ~0x3fu; /* but for what happened so far */
#elif defined(__aarch64__)
	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
#endif
	return mode;
}

/* To the nearest, denormals kept, exceptions masked. Returns whether the thread had another
 * mode. */
static int restore_rounding(void)
{
	int same = fegetround() == FE_TONEAREST && zr_rounding_mode() == DEFAULT_MODE;
	return !same && (fesetenv(FE_DFL_ENV), 1);
}

int zr_pool_rounding(struct zr_pool *p)
{
	return restore_rounding() |
	       (p && atomic_load_explicit(&p->rounding, memory_order_relaxed) &&
		atomic_exchange(&p->rounding, 0));
}

/* Where items end on their thread does not matter to the next one. */
static void run_item(struct zr_pool *p, zr_pool_fn *fn, void *arg, int64_t item, int32_t worker)
{
	fn(arg, item, worker);
	if (restore_rounding() && p)
		atomic_store(&p->rounding, 1);
}

/* Takes and runs items until none is left. */
static void work(struct zr_pool *p, int32_t worker)
{
	uint_fast64_t job = atomic_load_explicit(&p->job, memory_order_acquire);
	while (job & 0xffffffffu) {
		if (!atomic_compare_exchange_weak_explicit(&p->job, &job, job - 1,
							   memory_order_acq_rel,
							   memory_order_acquire))
			continue;
		int64_t n = p->n;
		run_item(p, p->fn, p->arg, n - (int64_t)(job & 0xffffffffu), worker);
		if (atomic_fetch_add(&p->done, 1) + 1 == (unsigned)n && atomic_load(&p->waiting))
			futex_wake(&p->done);
		job = atomic_load_explicit(&p->job, memory_order_acquire);
	}
}

static int look_for_work(struct zr_pool *p)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&p->job, memory_order_acquire) & 0xffffffffu)
			return 1;
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return 1;
		relax();
	}
	return 0;
}

static void *thread_main(void *arg)
{
	struct zr_pool *p = arg;
	const int32_t worker = 1 + atomic_fetch_add(&p->workers, 1);
	restore_rounding();
	while (!atomic_load(&p->stop)) {
		if (!look_for_work(p)) {
			unsigned bell = atomic_load(&p->bell);
			atomic_fetch_add(&p->sleepers, 1);
			if (!(atomic_load(&p->job) & 0xffffffffu) && !atomic_load(&p->stop))
				futex_wait(&p->bell, bell);
			atomic_fetch_sub(&p->sleepers, 1);
		}
		work(p, worker);
	}
	return NULL;
}

int zr_pool_new(int threads, struct zr_pool **out)
{
	size_t bytes = sizeof(struct zr_pool) + (size_t)threads * sizeof(pthread_t);
	struct zr_pool *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p)
		return -ENOMEM;
	*p = (struct zr_pool){ .threads = 1 };
	restore_rounding();
	sigset_t all, old; /* signals are the control thread's */
	sigfillset(&all);
	sigdelset(&all, ZR_SIGNAL_STACKS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = 0;
	while (p->threads < threads && !rc) {
		rc = pthread_create(&p->thread[p->threads - 1], NULL, thread_main, p);
		p->threads += !rc;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		zr_pool_free(p);
		return -rc;
	}
	*out = p;
	return 0;
}

void zr_pool_free(struct zr_pool *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, 1);
	atomic_fetch_add(&p->bell, 1);
	futex_wake(&p->bell);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->thread[i - 1], NULL);
	free(p);
}

int zr_pool_size(const struct zr_pool *p)
{
	return p->threads;
}

static void wait_done(struct zr_pool *p, unsigned n)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load(&p->done) == n)
			return;
		relax();
	}
	atomic_store(&p->waiting, 1);
	for (unsigned done; (done = atomic_load(&p->done)) != n;)
		futex_wait(&p->done, done);
	atomic_store(&p->waiting, 0);
}

void zr_pool_run(struct zr_pool *p, int64_t n, zr_pool_fn *fn, void *arg)
{
	if (restore_rounding() && p)
		atomic_store(&p->rounding, 1);
	if (!p || p->threads == 1 || n <= 1) {
		for (int64_t i = 0; i < n; i++)
			run_item(p, fn, arg, i, 0);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	p->n = n;
	atomic_store(&p->done, 0);
	uint_fast64_t generation = (atomic_load(&p->job) >> 32) + 1;
	atomic_store(&p->job, generation << 32 | (uint_fast64_t)n);
	if (atomic_load(&p->sleepers)) {
		atomic_fetch_add(&p->bell, 1);
		futex_wake(&p->bell);
	}
	work(p, 0);
	wait_done(p, (unsigned)n);
}
