/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - see faults.h: io_uring. What liburing has inline reads the rings directly, so that a
 * completion cannot be caught on its way. Its request can: it becomes one that moves nothing and
 * ends at once, and its completion then gets the result that was chosen.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#ifdef HAVE_LIBURING
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread struct {
	int waits;
	__u64 data;
	int res;
} replaced; /* one thread has the ring */

/* liburing came with the plugin, so it is not next in the search order. */
static void *of_liburing(const char *name)
{
	fault_busy++;
	void *lib = dlopen("liburing.so.2", RTLD_NOW), *fn = lib ? dlsym(lib, name) : NULL;
	fault_busy--;
	return fn;
}

static int is_write(const struct io_uring_sqe *s)
{
	return s->opcode == IORING_OP_WRITE || s->opcode == IORING_OP_WRITE_FIXED;
}

static int is_transfer(const struct io_uring_sqe *s)
{
	return is_write(s) || s->opcode == IORING_OP_READ || s->opcode == IORING_OP_READ_FIXED;
}

static void replace(struct io_uring_sqe *s, int res)
{
	replaced.waits = 1;
	replaced.data = s->user_data;
	replaced.res = res;
	io_uring_prep_nop(s);
	s->user_data = replaced.data;
}

/* The transfer is made here, with one bit changed. */
static int flipped(const struct io_uring_sqe *s)
{
	void *mem = (void *)(uintptr_t)s->addr;
	long n;
	if (is_write(s)) {
		void *copy = fault_flipped(mem, s->len);
		n = syscall(SYS_pwrite64, s->fd, copy, s->len, s->off);
		fault_drop(copy, s->len);
	} else {
		n = syscall(SYS_pread64, s->fd, mem, s->len, s->off);
		if (n > 0)
			fault_flip(mem, (size_t)n);
	}
	return n < 0 ? -errno : (int)n;
}

static void examine(struct io_uring_sqe *s)
{
	char buf[PATH_MAX];
	const char *path = is_transfer(s) ? fault_fd_path(s->fd, buf, sizeof buf) : NULL;
	enum fault_kind kind = path ? fault_point(FAULT_RING, path) : FAULT_NONE;
	if (kind == FAULT_FAIL)
		replace(s, -fault_error());
	else if (kind == FAULT_SHORT)
		s->len = (unsigned)fault_half(s->len);
	else if (kind == FAULT_FLIP)
		replace(s, flipped(s));
}

VISIBLE int io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
	static int (*next)(struct io_uring *, unsigned);
	struct io_uring_cqe *e;
	unsigned head;
	if (!next)
		next = (int (*)(struct io_uring *, unsigned))of_liburing(
			"io_uring_submit_and_wait");
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
		examine(&ring->sq.sqes[i & *ring->sq.kring_mask]);
	int rc = next(ring, n);
	io_uring_for_each_cqe(ring, head, e) if (replaced.waits && e->user_data == replaced.data)
	{
		e->res = replaced.res;
		replaced.waits = 0;
	}
	return rc;
}

VISIBLE int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	static int (*next)(unsigned, struct io_uring *, unsigned);
	if (!next)
		next = (int (*)(unsigned, struct io_uring *, unsigned))of_liburing(
			"io_uring_queue_init");
	if (getenv("ZR_FAULT_NO_RING"))
		return -ENOSYS;
	return fault_point(FAULT_SETUP, "io_uring_queue_init") == FAULT_FAIL ?
		       -fault_error() :
		       next(entries, ring, flags);
}

VISIBLE int io_uring_register_buffers_sparse(struct io_uring *ring, unsigned n)
{
	static int (*next)(struct io_uring *, unsigned);
	if (!next)
		next = (int (*)(struct io_uring *, unsigned))of_liburing(
			"io_uring_register_buffers_sparse");
	return fault_point(FAULT_SETUP, "io_uring_register_buffers_sparse") == FAULT_FAIL ?
		       -fault_error() :
		       next(ring, n);
}

VISIBLE int io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned at,
						 const struct iovec *v, const __u64 *tags,
						 unsigned n)
{
	static int (*next)(struct io_uring *, unsigned, const struct iovec *, const __u64 *,
			   unsigned);
	if (!next)
		next = (int (*)(struct io_uring *, unsigned, const struct iovec *, const __u64 *,
				unsigned))of_liburing("io_uring_register_buffers_update_tag");
	return fault_point(FAULT_SETUP, "io_uring_register_buffers_update_tag") == FAULT_FAIL ?
		       -fault_error() :
		       next(ring, at, v, tags, n);
}
#else
extern int fault_without_io_uring; /* a file has a declaration */
#endif
