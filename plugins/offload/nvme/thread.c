/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c - the I/O thread, from its start to its end.
 */
#define _GNU_SOURCE
#include "nvme.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *thread_main(void *arg)
{
	struct zr_inst *d = arg;
	if (d->ring)
		nv_ring_run(d);
	else
		nv_plain_run(d);

	return NULL;
}

/* Signals are for the training thread. */
static int start_thread(struct zr_inst *d)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }; /* of a crash */
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&d->thread, NULL, thread_main, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

void nv_init(struct zr_inst *d)
{
	pthread_mutex_init(&d->mutex, NULL);
	pthread_cond_init(&d->done, NULL);
	d->posted_end = &d->posted;
	for (int i = NV_INFLIGHT; i-- > 0;) {
		d->request[i].next = d->free_requests;
		d->free_requests = &d->request[i];
	}

	d->event = -1;
}

int nv_start(struct zr_inst *d)
{
	char room[256];
	const char *why;
	int rc;

	d->event = eventfd(0, EFD_CLOEXEC);
	if (d->event < 0)
		return zr_fail(d->h, ZR_ENOMEM, "eventfd: %s", strerror(errno));

	rc = nv_chunks(d);
	if (rc)
		return rc;

	why = nv_ring_open(d, room, sizeof room);
	if (why)
		zr_log(d->h, ZR_LOG_WARN,
		       "%s: no io_uring (%s): one request at a time by pread and pwrite",
		       d->o->path, why);
	rc = start_thread(d);
	if (rc)
		return zr_fail(d->h, ZR_ENOMEM,
			       "cannot start a thread: %s: too little "
			       "memory, or too many threads",
			       strerror(rc));

	d->running = 1;
	return ZR_OK;
}

void nv_stop(struct zr_inst *d)
{
	if (d->running) {
		nv_drain(d);
		pthread_mutex_lock(&d->mutex);
		d->stop = 1;
		pthread_mutex_unlock(&d->mutex);
		nv_wake(d);
		pthread_join(d->thread, NULL);
	}

	nv_ring_close(d);
	if (d->event >= 0)
		close(d->event);
	d->h->release(d->h, d->chunks);
	d->h->release(d->h, d->bounce_mem);
	pthread_cond_destroy(&d->done);
	pthread_mutex_destroy(&d->mutex);
}
