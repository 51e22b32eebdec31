/* SPDX-License-Identifier: Apache-2.0
 *
 * testhost.c - the host of testhost.h: accounts, failures and a small pool of threads.
 */
#include "testhost.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct block {
	struct block *next;
	void *p;
	uint64_t bytes;
};

struct test_host {
	struct zr_host h; /* first: the host is the handle */
	char error[1024], log[1024];
	int code, errors;
	struct block *blocks;
	uint64_t bytes;
	int64_t allocs, refuse;
	pthread_mutex_t lock; /* all below, and the members above */
	pthread_cond_t start, done;
	pthread_t thread[64];
	int n_threads, running, quit;
	uint64_t round;
	int64_t next, n;
	void (*fn)(void *, int64_t, int32_t);
	void *arg;
};

struct seat {
	struct test_host *t;
	int32_t worker;
};

static struct test_host *own(const struct zr_host *h)
{
	return h->impl;
}

static void host_log(const struct zr_host *h, int32_t level, const char *msg)
{
	struct test_host *t = own(h);
	(void)level;
	pthread_mutex_lock(&t->lock);
	snprintf(t->log, sizeof t->log, "%s", msg);
	pthread_mutex_unlock(&t->lock);
}

static int host_fail(const struct zr_host *h, int32_t code, const char *msg)
{
	struct test_host *t = own(h);
	pthread_mutex_lock(&t->lock);
	snprintf(t->error, sizeof t->error, "%s", msg);
	t->code = code;
	t->errors++;
	pthread_mutex_unlock(&t->lock);
	return code;
}

static void *host_alloc(const struct zr_host *h, uint64_t bytes, const char *what)
{
	struct test_host *t = own(h);
	struct block *b;
	uint64_t room = (bytes + 63) / 64 * 64 + 64;
	(void)what;
	t->allocs++;
	if (t->refuse > 0 && --t->refuse == 0)
		return NULL;
	b = malloc(sizeof *b);
	if (!b)
		return NULL;
	b->p = aligned_alloc(64, room);
	if (!b->p) {
		free(b);
		return NULL;
	}
	memset(b->p, 0, room);
	b->bytes = bytes;
	b->next = t->blocks;
	t->blocks = b;
	t->bytes += bytes;
	return b->p;
}

static void host_release(const struct zr_host *h, void *p)
{
	struct test_host *t = own(h);
	struct block **at, *b;
	if (!p)
		return;
	for (at = &t->blocks; *at && (*at)->p != p; at = &(*at)->next)
		;
	b = *at;
	if (!b) {
		fprintf(stderr, "testhost: release of memory that alloc did not give\n");
		abort();
	}
	*at = b->next;
	t->bytes -= b->bytes;
	free(b->p);
	free(b);
}

/* Takes items until none is left. */
static void work(struct test_host *t, int32_t worker)
{
	for (;;) {
		int64_t item = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
		if (item >= t->n)
			return;
		t->fn(t->arg, item, worker);
	}
}

static void *thread_main(void *arg)
{
	struct seat *seat = arg;
	struct test_host *t = seat->t;
	int32_t worker = seat->worker;
	uint64_t seen = 0;
	free(seat);
	pthread_mutex_lock(&t->lock);
	while (!t->quit) {
		if (t->round == seen) {
			pthread_cond_wait(&t->start, &t->lock);
			continue;
		}
		seen = t->round;
		pthread_mutex_unlock(&t->lock);
		work(t, worker);
		pthread_mutex_lock(&t->lock);
		if (--t->running == 0)
			pthread_cond_signal(&t->done);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void host_parallel(const struct zr_host *h, int64_t n, void (*fn)(void *, int64_t, int32_t),
			  void *arg)
{
	struct test_host *t = own(h);
	pthread_mutex_lock(&t->lock);
	t->next = 0;
	t->n = n;
	t->fn = fn;
	t->arg = arg;
	t->running = t->n_threads;
	t->round++;
	pthread_cond_broadcast(&t->start);
	pthread_mutex_unlock(&t->lock);
	work(t, 0);
	pthread_mutex_lock(&t->lock);
	while (t->running > 0)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

struct zr_host *test_host(int workers)
{
	struct test_host *t = calloc(1, sizeof *t);
	int i;
	if (!t || workers < 1 || workers > 65)
		abort();
	t->h = (struct zr_host){ .size = sizeof t->h,
				 .abi_minor = ZR_ABI_MINOR,
				 .impl = t,
				 .world = 1,
				 .local_world = 1,
				 .workers = workers,
				 .log = host_log,
				 .fail = host_fail,
				 .alloc = host_alloc,
				 .release = host_release,
				 .parallel = host_parallel };
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->start, NULL);
	pthread_cond_init(&t->done, NULL);
	for (i = 0; i < workers - 1; i++) {
		struct seat *seat = malloc(sizeof *seat);
		if (!seat)
			abort();
		*seat = (struct seat){ t, i + 1 };
		if (pthread_create(&t->thread[i], NULL, thread_main, seat))
			abort();
		t->n_threads++;
	}
	return &t->h;
}

void test_host_free(struct zr_host *h)
{
	struct test_host *t = own(h);
	int i;
	pthread_mutex_lock(&t->lock);
	t->quit = 1;
	pthread_cond_broadcast(&t->start);
	pthread_mutex_unlock(&t->lock);
	for (i = 0; i < t->n_threads; i++)
		pthread_join(t->thread[i], NULL);
	if (t->blocks) {
		fprintf(stderr, "testhost: %llu bytes were not released\n",
			(unsigned long long)t->bytes);
		abort();
	}
	pthread_cond_destroy(&t->start);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

const char *test_error(const struct zr_host *h)
{
	return own(h)->error;
}

int test_error_code(const struct zr_host *h)
{
	return own(h)->code;
}

int test_errors(const struct zr_host *h)
{
	return own(h)->errors;
}

const char *test_log(const struct zr_host *h)
{
	return own(h)->log;
}

void test_clear(struct zr_host *h)
{
	struct test_host *t = own(h);
	t->error[0] = t->log[0] = 0;
	t->code = t->errors = 0;
}

uint64_t test_bytes(const struct zr_host *h)
{
	return own(h)->bytes;
}

int64_t test_allocs(const struct zr_host *h)
{
	return own(h)->allocs;
}

void test_file_limit(int64_t bytes)
{
	struct rlimit r;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = bytes < 0 ? r.rlim_max : (rlim_t)bytes;
	setrlimit(RLIMIT_FSIZE, &r);
}

void test_refuse(struct zr_host *h, int64_t nth)
{
	own(h)->refuse = nth;
}
