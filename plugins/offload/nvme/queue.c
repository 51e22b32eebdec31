/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - passes requests from the caller to the I/O thread and results back. A ticket has the
 * number of an entry and of its use, so that the ticket of an earlier request is not taken for that
 * of the next one in the same entry.
 */
#define _GNU_SOURCE
#include "nvme.h"

#include <string.h>
#include <unistd.h>

/* ---- the caller's side ----------------------------------------------------------- */

static uint64_t ticket_of(const struct zr_inst *d, const struct nv_request *r)
{
	return r->round * NV_INFLIGHT + (uint64_t)(r - d->request) + 1;
}

/* Under the lock; NULL: it ended, or never was. */
static struct nv_request *request_of(struct zr_inst *d, uint64_t ticket)
{
	struct nv_request *r = &d->request[(ticket - 1) % NV_INFLIGHT];
	if (ticket_of(d, r) == ticket && r->state != NV_FREE)
		return r;

	return NULL;
}

void nv_wake(struct zr_inst *d)
{
	uint64_t one = 1;
	(void)!write(d->event, &one, sizeof one); /* cannot fail: the count is far from full */
}

/* Under the lock. */
static void enqueue(struct zr_inst *d, struct nv_request *r)
{
	r->state = NV_POSTED;
	r->next = NULL;
	*d->posted_end = r;
	d->posted_end = &r->next;
	r->object->outstanding++;
}

/* Under the lock. */
static void release(struct zr_inst *d, struct nv_request *r)
{
	r->state = NV_FREE;
	r->round++;
	r->next = d->free_requests;
	d->free_requests = r;
	r->object->outstanding--;
}

int nv_post(struct zr_inst *d, const struct nv_request *want, uint64_t *ticket)
{
	struct nv_request *r;
	int broken;

	pthread_mutex_lock(&d->mutex);
	broken = d->broken;
	r = broken ? NULL : d->free_requests;
	if (r) {
		d->free_requests = r->next;
		r->object = want->object;
		r->off = want->off;
		r->bytes = want->bytes;
		r->mem = want->mem;
		r->write = want->write;
		r->cut = 0;
		r->code = ZR_OK;
		enqueue(d, r);
		*ticket = ticket_of(d, r);
	}

	pthread_mutex_unlock(&d->mutex);
	if (r)
		nv_wake(d);
	if (broken)
		return zr_fail(d->h, ZR_EIO, "%s: %s", d->path, d->broken_text);
	if (r)
		return ZR_OK;

	return ZR_EAGAIN;
}

static int no_ticket(struct zr_inst *d, uint64_t ticket)
{
	return zr_fail(d->h, ZR_ESTATE, "there is no ticket %llu, or it was waited for",
		       (unsigned long long)ticket);
}

int nv_test(struct zr_inst *d, uint64_t ticket)
{
	struct nv_request *r;
	int rc = 1;

	if (!ticket)
		return rc;

	pthread_mutex_lock(&d->mutex);
	r = request_of(d, ticket);
	if (r) {
		if (r->state == NV_POSTED)
			rc = 0;
		else if (r->code)
			rc = r->code;
		else
			rc = 1;
	}

	pthread_mutex_unlock(&d->mutex);
	if (r)
		return rc;

	return no_ticket(d, ticket);
}

int nv_wait(struct zr_inst *d, uint64_t ticket)
{
	char text[sizeof d->request[0].text] = "";
	struct nv_request *r;
	int rc = ZR_OK;

	if (!ticket)
		return rc;

	pthread_mutex_lock(&d->mutex);
	r = request_of(d, ticket);
	while (r && r->state == NV_POSTED)
		pthread_cond_wait(&d->done, &d->mutex);
	if (r) {
		rc = r->code;
		if (rc)
			memcpy(text, r->text, sizeof text);
		release(d, r);
	}

	pthread_mutex_unlock(&d->mutex);
	if (!r)
		return no_ticket(d, ticket);
	if (rc)
		return zr_fail(d->h, rc, "%s", text);

	return ZR_OK;
}

int nv_drain(struct zr_inst *d)
{
	pthread_mutex_lock(&d->mutex);
	for (int i = 0; i < NV_INFLIGHT; i++) {
		struct nv_request *r = &d->request[i];
		while (r->state == NV_POSTED)
			pthread_cond_wait(&d->done, &d->mutex);
		if (r->state == NV_DONE)
			release(d, r);
	}

	pthread_mutex_unlock(&d->mutex);
	return ZR_OK;
}

/* ---- the I/O thread's side ------------------------------------------------------- */

int nv_accept(struct zr_inst *d)
{
	struct nv_request *r, *next;
	int stop;

	pthread_mutex_lock(&d->mutex);
	r = d->posted;
	d->posted = NULL;
	d->posted_end = &d->posted;
	stop = d->stop;
	pthread_mutex_unlock(&d->mutex);
	for (; r; r = next) {
		int side = r->write;
		next = r->next;
		r->next = NULL;
		r->queued = 1;
		r->number = d->accepted++;
		*d->queue_end[side] = r;
		d->queue_end[side] = &r->next;
	}

	return stop;
}

void nv_finish(struct zr_inst *d, struct nv_request *r)
{
	if (!r->code)
		nv_examine(d, r);
	pthread_mutex_lock(&d->mutex);
	r->state = NV_DONE;
	pthread_cond_broadcast(&d->done);
	pthread_mutex_unlock(&d->mutex);
}

void nv_break(struct zr_inst *d, const char *what, int error)
{
	pthread_mutex_lock(&d->mutex);
	d->broken = 1;
	snprintf(d->broken_text, sizeof d->broken_text, "%s: %s", what, strerror(error));
	for (int i = 0; i < NV_INFLIGHT; i++) {
		struct nv_request *r = &d->request[i];
		if (r->state == NV_POSTED) {
			r->code = ZR_OK;
			nv_refuse(r, "%s/%s: %s", d->path, r->object->name, d->broken_text);
			r->state = NV_DONE;
		}
	}

	pthread_cond_broadcast(&d->done);
	pthread_mutex_unlock(&d->mutex);
}
