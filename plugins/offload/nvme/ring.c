/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - chunks through io_uring. A read of the eventfd is always among them, so that a post
 * wakes the thread. Buffers are not registered: of a registered buffer kernels hand the disk every
 * 4096 bytes apart, and cut an operation that has more of these than the disk takes at once; of
 * other memory a huge page is handed over whole.
 */
#include "nvme.h"

#ifdef HAVE_LIBURING
#include <errno.h>
#include <liburing.h>
#include <string.h>

struct nv_ring {
	struct io_uring u;
	uint64_t posts; /* what the eventfd counted */
};

const char *nv_ring_open(struct zr_inst *d, char *room, size_t size)
{
	struct nv_ring *ring = d->h->alloc(d->h, sizeof *ring, "workspace");
	int rc;

	if (ring)
		rc = io_uring_queue_init((unsigned)d->o->queue_depth + 1, &ring->u, 0);
	else
		rc = -ENOMEM;
	if (rc) {
		d->h->release(d->h, ring);
		snprintf(room, size, "%s", strerror(-rc));
		return room;
	}

	d->ring = ring;
	return NULL;
}

void nv_ring_close(struct zr_inst *d)
{
	if (!d->ring)
		return;
	io_uring_queue_exit(&d->ring->u);
	d->h->release(d->h, d->ring);
}

/* ---- the I/O thread -------------------------------------------------------------- */

/* There is room: the ring has an entry for every chunk and one for the eventfd. */
static void submit(struct zr_inst *d, struct nv_chunk *c)
{
	struct io_uring_sqe *s = io_uring_get_sqe(&d->ring->u);
	int fd = c->request->object->fd;
	uint64_t at = c->at + c->done;
	char *mem = c->mem + c->done;
	uint32_t bytes = c->bytes - c->done;

	if (c->write)
		io_uring_prep_write(s, fd, mem, bytes, at);
	else
		io_uring_prep_read(s, fd, mem, bytes, at);
	io_uring_sqe_set_data(s, c);
}

static void listen_for_posts(struct zr_inst *d)
{
	struct io_uring_sqe *s = io_uring_get_sqe(&d->ring->u);
	io_uring_prep_read(s, d->event, &d->ring->posts, sizeof d->ring->posts, 0);
	io_uring_sqe_set_data(s, NULL);
}

static void reap(struct zr_inst *d)
{
	struct io_uring_cqe *e;
	if (io_uring_peek_cqe(&d->ring->u, &e))
		return;

	struct nv_chunk *c = io_uring_cqe_get_data(e);
	int moved = e->res;
	io_uring_cqe_seen(&d->ring->u, e);
	if (!c)
		listen_for_posts(d);
	else if (nv_settle(d, c, moved))
		submit(d, c);
}

/* One chunk at a time is checked, and another one begins at once: while many are checked, the disk
 * would run out of them. */
void nv_ring_run(struct zr_inst *d)
{
	struct nv_chunk *c;

	listen_for_posts(d);
	while (!nv_accept(d)) {
		while ((c = nv_next(d))) {
			submit(d, c);
			io_uring_submit(&d->ring->u); /* or below, if it fails */
		}

		int rc = io_uring_submit_and_wait(&d->ring->u, 1);
		if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) {
			nv_break(d, "io_uring", -rc);
			return;
		}

		reap(d);
	}
}

#else

const char *nv_ring_open(struct zr_inst *d, char *room, size_t size)
{
	(void)d;
	(void)room;
	(void)size;
	return "built without liburing";
}

void nv_ring_close(struct zr_inst *d)
{
	(void)d;
}

void nv_ring_run(struct zr_inst *d)
{
	(void)d;
}
#endif
