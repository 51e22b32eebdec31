/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - fork and join over a fixed set of threads.
 *
 * Each thread has a share of a job's items, which follow each other, and takes from the shares of
 * others when its own is empty. Operations cut the same rows alike, so a thread mostly gets those
 * that it has in its cache. Who takes an item may read fn, arg and n, because the caller does not
 * return before every item is done. So a thread that wakes late disturbs nothing, and a small job
 * never waits for a sleeper. Threads and caller look for a while before they sleep on a futex.
 */
#include "core/base/pool.h"

#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#define relax()      _mm_pause()
#define DEFAULT_MODE 0x1f80u
#else
#define relax()      ((void)0)
#define DEFAULT_MODE 0u
#endif

#define SPINS 4000 /* about 50 microseconds: longer than the gaps between operations of a step */

struct zr_pool {
	int threads;
	pthread_mutex_t job_lock; /* of who has a job */
	zr_pool_fn *fn;
	void *arg;
	int64_t n;
	_Alignas(64) atomic_uint done; /* items finished; futex of the caller */
	atomic_uint waiting;           /* the caller sleeps on `done` */
	_Alignas(64) atomic_uint job;  /* its number, another one to stop; futex of the threads */
	atomic_uint sleepers;
	atomic_uint stop;
	atomic_uint rounding; /* some item changed it */
	atomic_int workers;   /* numbers that are taken; 0 is the caller's */
	struct {
		pthread_t thread;         /* of 0, the caller, none */
		atomic_int_fast64_t left; /* items of its share; below 0: others came too late */
	} worker[];                       /* [threads] */
};

static void futex_wait(atomic_uint *word, unsigned value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

/* The control bits: rounding, exceptions, denormals; 0: not known. */
static uint64_t rounding_mode(void)
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
	int same = fegetround() == FE_TONEAREST && rounding_mode() == DEFAULT_MODE;
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

static int64_t share_end(const struct zr_pool *p, int32_t of)
{
	return p->n * (of + 1) / p->threads;
}

/* Takes and runs items of a share until none is left. */
static void empty(struct zr_pool *p, int32_t of, int32_t worker)
{
	atomic_int_fast64_t *share = &p->worker[of].left;
	for (int64_t left; atomic_load(share) > 0 && (left = atomic_fetch_sub(share, 1)) > 0;) {
		const unsigned n = (unsigned)p->n;
		run_item(p, p->fn, p->arg, share_end(p, of) - left, worker);
		if (atomic_fetch_add(&p->done, 1) + 1 == n && atomic_load(&p->waiting))
			futex_wake(&p->done);
	}
}

static void work(struct zr_pool *p, int32_t worker)
{
	for (int32_t i = 0; i < p->threads; i++)
		empty(p, (worker + i) % p->threads, worker);
}

static void *thread_main(void *arg)
{
	struct zr_pool *p = arg;
	const int32_t worker = 1 + atomic_fetch_add(&p->workers, 1);
	restore_rounding();
	for (unsigned seen = 0; !atomic_load(&p->stop);) {
		for (int i = 0; i < SPINS && atomic_load(&p->job) == seen; i++)
			relax();
		if (atomic_load(&p->job) == seen) {
			atomic_fetch_add(&p->sleepers, 1);
			futex_wait(&p->job, seen);
			atomic_fetch_sub(&p->sleepers, 1);
			continue;
		}

		seen = atomic_load(&p->job);
		work(p, worker);
	}
	return NULL;
}

void zr_pool_mask(sigset_t *before)
{
	const int own[] = { ZR_SIGNAL_STACKS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	sigset_t set;
	sigfillset(&set);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&set, own[i]);
	pthread_sigmask(SIG_SETMASK, &set, before);
}

int zr_pool_new(int threads, struct zr_pool **out)
{
	struct zr_pool *p;
	size_t bytes = (sizeof *p + (size_t)threads * sizeof *p->worker + 63) / 64 * 64;
	if (!(p = aligned_alloc(64, bytes)))
		return -ENOMEM;

	memset(p, 0, bytes);
	p->threads = 1;
	pthread_mutex_init(&p->job_lock, NULL);
	restore_rounding();
	sigset_t old;
	zr_pool_mask(&old);
	int rc = 0;
	while (p->threads < threads && !rc) {
		rc = pthread_create(&p->worker[p->threads].thread, NULL, thread_main, p);
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
	atomic_fetch_add(&p->job, 1);
	futex_wake(&p->job);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->worker[i].thread, NULL);
	pthread_mutex_destroy(&p->job_lock);
	free(p);
}

int zr_pool_size(const struct zr_pool *p)
{
	return p->threads;
}

static void wait_done(struct zr_pool *p, unsigned n)
{
	for (int i = 0; i < SPINS && atomic_load(&p->done) != n; i++)
		relax();
	if (atomic_load(&p->done) == n)
		return;
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
	pthread_mutex_lock(&p->job_lock);
	p->fn = fn;
	p->arg = arg;
	p->n = n;
	atomic_store(&p->done, 0);
	for (int32_t i = 0; i < p->threads; i++)
		atomic_store(&p->worker[i].left, share_end(p, i) - share_end(p, i - 1));
	atomic_fetch_add(&p->job, 1);
	if (atomic_load(&p->sleepers))
		futex_wake(&p->job);
	work(p, 0);
	wait_done(p, (unsigned)n);
	pthread_mutex_unlock(&p->job_lock);
}
