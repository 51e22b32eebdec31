/* SPDX-License-Identifier: Apache-2.0
 *
 * beside.c - a thread that computes on host memory beside the one that begins instructions, where
 * the device has a memory of its own: while the host adds gradients or updates parameters, the
 * device gets what it is to compute next. It takes instructions of the host's queue in their order.
 * What they depend on is over when they are handed over; whatever depends on one of them, and is
 * not behind it in that queue, waits for it. A function of the session waits for all of them, and
 * runs where it always did.
 */
#include <pthread.h>
#include <stdlib.h>

#include "core/base/pool.h"
#include "core/exec/exec.h"

#define ROOM 64

struct handed {
	struct zr_call call;
	zr_call_fn *fn;
	int32_t number;
};

struct zr_beside {
	struct zr_session *s;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t given, done;
	struct handed list[ROOM]; /* the k-th at k % ROOM */
	uint64_t n_given, n_done;
	int stop;
	int rc; /* of the first one that failed: nothing is computed after it */
	int32_t failed;
	struct zr_error err;
};

static _Thread_local int32_t running = -1; /* on that thread: the instruction */

int32_t zr_beside_at(void)
{
	return running;
}

/* Nobody reads the error before it is known that there is one. */
static int compute(struct zr_beside *b, struct handed *h)
{
	h->call.err = &b->err;
	running = h->number;
	if (b->s->runs_beside)
		b->s->runs_beside(b->s->ran_arg, h->call.program, h->number, 0);
	int rc = h->fn(b->s, &h->call);
	if (b->s->runs_beside)
		b->s->runs_beside(b->s->ran_arg, h->call.program, h->number, 1);
	running = -1;
	return rc;
}

/* The next one, with the lock, which is free while it is computed. */
static void take_one(struct zr_beside *b)
{
	struct handed *h = &b->list[b->n_done % ROOM];
	int rc = b->rc;
	if (!rc) {
		pthread_mutex_unlock(&b->lock);
		rc = compute(b, h);
		pthread_mutex_lock(&b->lock);
		b->rc = rc;
		b->failed = h->number;
	}

	b->n_done++;
	pthread_cond_broadcast(&b->done);
}

static void *thread_main(void *arg)
{
	struct zr_beside *b = arg;

	zr_pool_rounding(NULL);
	pthread_mutex_lock(&b->lock);
	while (!b->stop)
		if (b->n_done < b->n_given)
			take_one(b);
		else
			pthread_cond_wait(&b->given, &b->lock);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

int zr_beside_open(struct zr_session *s, struct zr_error *err)
{
	sigset_t before;

	if (s->facts->device_info.host_ops || s->facts->mode != ZR_MODE_TRAIN)
		return 0;

	struct zr_beside *b = calloc(1, sizeof *b);
	if (!b)
		return zr_no_memory(err);

	b->s = s;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->given, NULL);
	pthread_cond_init(&b->done, NULL);
	zr_pool_mask(&before);
	int rc = pthread_create(&b->thread, NULL, thread_main, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		free(b);
		return zr_err(err, ZR_ENOMEM,
			      "the system starts no thread for what the host computes");
	}

	pthread_setname_np(b->thread, "zeroth host");
	s->beside = b;
	return 0;
}

void zr_beside_close(struct zr_session *s)
{
	struct zr_beside *b = s->beside;
	if (!b)
		return;

	pthread_mutex_lock(&b->lock);
	b->stop = 1;
	pthread_cond_broadcast(&b->given);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->given);
	pthread_cond_destroy(&b->done);
	pthread_mutex_destroy(&b->lock);
	free(b);
	s->beside = NULL;
}

int zr_beside_takes(const struct zr_session *s, const struct zr_instr *i)
{
	return s->beside && !s->in_turn && zr_beside_kind(i);
}

void zr_beside_give(struct zr_session *s, const struct zr_call *c, zr_call_fn *fn, int32_t number)
{
	struct zr_beside *b = s->beside;

	pthread_mutex_lock(&b->lock);
	while (b->n_given - b->n_done == ROOM)
		pthread_cond_wait(&b->done, &b->lock);
	b->list[b->n_given % ROOM] = (struct handed){ *c, fn, number };
	*c->ticket = ++b->n_given;
	pthread_cond_signal(&b->given);
	pthread_mutex_unlock(&b->lock);
}

int zr_beside_wait(struct zr_session *s, uint64_t ticket, struct zr_error *err)
{
	struct zr_beside *b = s->beside;

	pthread_mutex_lock(&b->lock);
	while (b->n_done < ticket)
		pthread_cond_wait(&b->done, &b->lock);
	int rc = b->rc;
	pthread_mutex_unlock(&b->lock);
	if (!rc)
		return 0;

	s->at = b->failed;
	s->waiting = 0;
	*err = b->err;
	return rc;
}

int zr_beside_settle(struct zr_session *s, struct zr_error *err)
{
	if (!s->beside)
		return 0;
	return zr_beside_wait(s, s->beside->n_given, err);
}
