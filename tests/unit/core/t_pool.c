/* SPDX-License-Identifier: Apache-2.0
 *
 * t_pool.c - the pool hands out every item once, whatever its size and the gaps between jobs, and
 * each thread begins with its own share.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

#include "core/base/pool.h"

struct job {
	atomic_int seen[1000];
	atomic_int bad_worker, bad_fp;
	int workers;
};

/* Whether this thread's floating-point mode is the one of pool.h. */
static int fp_mode_ok(void)
{
#ifdef __x86_64__
	return (_mm_getcsr() & ~0x3fu) == 0x1f80; /* but for the sticky flags */
#else
	return fegetround() == FE_TONEAREST;
#endif
}

static void visit(void *arg, int64_t item, int32_t worker)
{
	struct job *j = arg;
	atomic_fetch_add(&j->seen[item], 1);
	if (worker < 0 || worker >= j->workers)
		atomic_fetch_add(&j->bad_worker, 1);
	if (!fp_mode_ok())
		atomic_fetch_add(&j->bad_fp, 1);
}

static void check_sizes(int threads)
{
	static const int64_t sizes[] = { 0, 1, 2, 3, 7, 64, 1000 };
	struct zr_pool *p;
	assert_int_equal(zr_pool_new(threads, &p), 0);
	assert_int_equal(zr_pool_size(p), threads);
	for (int round = 0; round < 200; round++) {
		struct job j = { .workers = threads };
		int64_t n = sizes[round % 7];
		zr_pool_run(p, n, visit, &j);
		for (int64_t i = 0; i < 1000; i++)
			assert_int_equal(atomic_load(&j.seen[i]), i < n);
		assert_int_equal(atomic_load(&j.bad_worker), 0);
		assert_int_equal(atomic_load(&j.bad_fp), 0);
		if (round % 50 == 49) /* long enough for the threads to go to sleep */
			nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
	zr_pool_free(p);
}

static void every_item_once_1(void **unused)
{
	(void)unused;
	check_sizes(1);
}

static void every_item_once_2(void **unused)
{
	(void)unused;
	check_sizes(2);
}

static void every_item_once_5(void **unused)
{
	(void)unused;
	check_sizes(5);
}

#define THREADS 3
#define SHARE   4

struct shares {
	pthread_barrier_t all_began;
	atomic_int began[THREADS]; /* by thread: whether it has an item */
	int64_t first[THREADS];
};

/* The first item of each thread ends when all have one. */
static void note_first(void *arg, int64_t item, int32_t worker)
{
	struct shares *s = arg;
	if (atomic_exchange(&s->began[worker], 1))
		return;
	s->first[worker] = item;
	pthread_barrier_wait(&s->all_began);
}

static void each_begins_with_its_share(void **unused)
{
	(void)unused;
	for (int round = 0; round < 20; round++) { /* a thread of an earlier job may come late */
		struct zr_pool *p;
		struct shares s = { .first = { 0 } };
		assert_int_equal(zr_pool_new(THREADS, &p), 0);
		pthread_barrier_init(&s.all_began, NULL, THREADS);
		zr_pool_run(p, THREADS * SHARE, note_first, &s);
		for (int w = 0; w < THREADS; w++)
			assert_int_equal(s.first[w], w * SHARE);
		pthread_barrier_destroy(&s.all_began);
		zr_pool_free(p);
	}
}

static void no_pool_runs_on_the_caller(void **unused)
{
	(void)unused;
	struct job j = { .workers = 1 };
	zr_pool_run(NULL, 10, visit, &j);
	for (int i = 0; i < 10; i++)
		assert_int_equal(atomic_load(&j.seen[i]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_item_once_1),
		cmocka_unit_test(every_item_once_2),
		cmocka_unit_test(every_item_once_5),
		cmocka_unit_test(each_begins_with_its_share),
		cmocka_unit_test(no_pool_runs_on_the_caller),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
