/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c - the double of the CUDA runtime; see double.h.
 */
#define _GNU_SOURCE
#include "double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct task {
	struct task *next;
	void (*fn)(void *);
	_Alignas(16) char arg[DOUBLE_TASK];
};

struct double_stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *first, *last;
	int busy, ending;
};

/* recorded: how often it was, done: the last of these that the stream came to. Tasks keep it. */
struct double_event {
	_Atomic int users;
	_Atomic unsigned long recorded, done;
};

/* Memory of a GPU, or pinned. */
struct block {
	struct block *next;
	char *at;
	size_t bytes;
	enum cudaMemoryType type;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;

static void doze(void)
{
	nanosleep(&(struct timespec){ 0, 20000 }, NULL);
}

/* ---- the GPU --------------------------------------------------------------------- */

const char *cudaGetErrorString(cudaError_t e)
{
	return e == cudaErrorMemoryAllocation ? "out of memory" : "an error of the double";
}

const char *cudaGetErrorName(cudaError_t e)
{
	return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	return device ? cudaErrorInvalidValue : cudaSuccess;
}

/* Each rank has a GPU of its own, unless ZR_DOUBLE_GPU names one. */
cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device)
{
	const char *given = getenv("ZR_DOUBLE_GPU");
	(void)device;
	if (given)
		snprintf(id, (size_t)room, "%s", given);
	else
		snprintf(id, (size_t)room, "double:%d", (int)gettid());
	return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = *greatest = 0;
	return cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------- */

static cudaError_t add_block(void **p, size_t bytes, enum cudaMemoryType type)
{
	struct block *b = malloc(sizeof *b);
	void *at = NULL;
	if (!b || posix_memalign(&at, 256, bytes ? bytes : 1)) {
		free(b);
		return cudaErrorMemoryAllocation;
	}

	memset(at, 0xa5, bytes);
	pthread_mutex_lock(&blocks_lock);
	*b = (struct block){ blocks, at, bytes, type };
	blocks = b;
	pthread_mutex_unlock(&blocks_lock);
	*p = at;
	return cudaSuccess;
}

static cudaError_t drop_block(void *p)
{
	struct block **link = &blocks, *b;
	pthread_mutex_lock(&blocks_lock);
	while (*link && (*link)->at != p)
		link = &(*link)->next;
	b = *link;
	if (b)
		*link = b->next;
	pthread_mutex_unlock(&blocks_lock);
	if (!b)
		return cudaErrorInvalidValue;

	double_check_freed(b->at, b->bytes);
	free(b->at);
	free(b);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	return add_block(p, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaFree(void *p)
{
	return drop_block(p);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	(void)flags;
	return add_block(p, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaFreeHost(void *p)
{
	return drop_block(p);
}

/* The double of cards tells where what it hides lies, if this process has loaded it. */
void *double_real(const void *p)
{
	static void *(*of_cards)(const void *);
	static int looked;
	if (!looked) {
		char path[4096];
		snprintf(path, sizeof path, "%s/../tests/doubles/.libs/cards.so",
			 getenv("ZR_TEST_PLUGINS") ? getenv("ZR_TEST_PLUGINS") : "plugins");
		void *so = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
		if (so)
			*(void **)&of_cards = dlsym(so, "card_real_address");
		looked = 1;
	}
	return of_cards ? of_cards(p) : (void *)(size_t)p;
}

static enum cudaMemoryType type_of(const void *p)
{
	const char *all = getenv("ZR_DOUBLE_MEMORY"), *at = p;
	enum cudaMemoryType type = cudaMemoryTypeUnregistered;
	if (double_real(p) != p || (all && !strcmp(all, "device")))
		return cudaMemoryTypeDevice;

	pthread_mutex_lock(&blocks_lock);
	for (const struct block *b = blocks; b; b = b->next)
		if (at >= b->at && at < b->at + b->bytes)
			type = b->type;
	pthread_mutex_unlock(&blocks_lock);
	return type;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
	*a = (struct cudaPointerAttributes){ .type = type_of(p) };
	return cudaSuccess;
}

/* ---- streams --------------------------------------------------------------------- */

static struct task *take_task(struct double_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->busy = 0;
	pthread_cond_broadcast(&s->changed);
	while (!s->first && !s->ending)
		pthread_cond_wait(&s->changed, &s->lock);

	struct task *t = s->first;
	if (t) {
		s->first = t->next;
		s->busy = 1;
	}
	pthread_mutex_unlock(&s->lock);
	return t;
}

static void *run_stream(void *arg)
{
	struct double_stream *s = arg;
	struct task *t;
	while ((t = take_task(s))) {
		t->fn(t->arg);
		free(t);
	}
	return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
	struct double_stream *s = calloc(1, sizeof *s);
	(void)flags;
	if (!s)
		return cudaErrorMemoryAllocation;

	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&s->thread, NULL, run_stream, s)) {
		free(s);
		return cudaErrorMemoryAllocation;
	}
	*out = s;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
	(void)priority;
	return cudaStreamCreateWithFlags(out, flags);
}

/* What is in the queue is done first. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	pthread_mutex_lock(&s->lock);
	s->ending = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	pthread_mutex_lock(&s->lock);
	while (s->first || s->busy)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return cudaSuccess;
}

cudaError_t double_enqueue(cudaStream_t s, void (*fn)(void *), const void *arg, size_t bytes)
{
	struct task *t = calloc(1, sizeof *t);
	if (!t || bytes > sizeof t->arg)
		abort();

	t->fn = fn;
	memcpy(t->arg, arg, bytes);
	pthread_mutex_lock(&s->lock);
	if (s->first)
		s->last->next = t;
	else
		s->first = t;
	s->last = t;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return cudaSuccess;
}

struct filling {
	void *to;
	const void *from; /* NULL: bytes of `value` */
	size_t bytes;
	int value;
};

static void fill(void *arg)
{
	const struct filling *f = arg;
	if (f->from)
		memcpy(double_real(f->to), double_real(f->from), f->bytes);
	else
		memset(double_real(f->to), f->value, f->bytes);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
	const struct filling f = { p, NULL, bytes, value };
	return double_enqueue(s, fill, &f, sizeof f);
}

/* Memory of the host is read when the stream comes to it: a caller must leave it alone. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t s)
{
	const struct filling f = { to, from, bytes, 0 };
	(void)kind;
	return double_enqueue(s, fill, &f, sizeof f);
}

/* ---- events ---------------------------------------------------------------------- */

struct coming {
	struct double_event *e;
	unsigned long number;
};

static void leave_event(struct double_event *e)
{
	if (atomic_fetch_sub(&e->users, 1) == 1)
		free(e);
}

static void reach(void *arg)
{
	const struct coming *c = arg;
	atomic_store(&c->e->done, c->number);
	leave_event(c->e);
}

static void wait_until(void *arg)
{
	const struct coming *c = arg;
	while (atomic_load(&c->e->done) < c->number)
		doze();
	leave_event(c->e);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
	struct double_event *e = calloc(1, sizeof *e);
	(void)flags;
	if (!e)
		return cudaErrorMemoryAllocation;

	atomic_store(&e->users, 1);
	*out = e;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	leave_event(e);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	const struct coming c = { e, atomic_fetch_add(&e->recorded, 1) + 1 };
	atomic_fetch_add(&e->users, 1);
	return double_enqueue(s, reach, &c, sizeof c);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned int flags)
{
	const struct coming c = { e, atomic_load(&e->recorded) };
	(void)flags;
	atomic_fetch_add(&e->users, 1);
	return double_enqueue(s, wait_until, &c, sizeof c);
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
	return atomic_load(&e->done) < atomic_load(&e->recorded) ? cudaErrorNotReady : cudaSuccess;
}
