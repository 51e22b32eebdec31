/* SPDX-License-Identifier: Apache-2.0
 *
 * baddisk.c - to be preloaded: a disk that fails or is slow. Counted are transfers of at least 4096
 * bytes, those of pread and pwrite and those of io_uring.
 *   ZR_BADDISK_EIO=N     the Nth that ends, and all after it, end with EIO
 *   ZR_BADDISK_SHORT=N   the Nth that begins moves 4096 bytes only; one of more than 8192 moves
 *                        those, and says 4196
 *   ZR_BADDISK_SYNC=N    an fsync of a file of more than 16384 bytes takes N seconds longer
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE    4096
#define VISIBLE __attribute__((visibility("default")))

static long begun, ended; /* one thread transfers */
static int odd;           /* the next of 8192 bytes says less, and no whole number of units */

static long setting(const char *name)
{
	const char *text = getenv(name);
	return text ? atol(text) : 0;
}

/* How many bytes to move instead of `bytes`. */
static size_t begin(size_t bytes)
{
	if (bytes < PAGE || ++begun != setting("ZR_BADDISK_SHORT"))
		return bytes;
	odd = bytes > 2 * PAGE;
	return odd ? 2 * PAGE : PAGE;
}

/* What to say instead of `moved`. */
static long end(long moved)
{
	long eio = setting("ZR_BADDISK_EIO");
	if (odd && moved == 2 * PAGE) {
		odd = 0;
		moved = PAGE + 100;
	}
	return moved >= PAGE && ++ended >= eio && eio ? -EIO : moved;
}

static ssize_t result(long moved)
{
	if (moved >= 0)
		return moved;
	errno = (int)-moved;
	return -1;
}

VISIBLE ssize_t pread(int fd, void *mem, size_t bytes, off_t at)
{
	static ssize_t (*next)(int, void *, size_t, off_t);
	if (!next)
		next = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
	return result(end(next(fd, mem, begin(bytes), at)));
}

VISIBLE ssize_t pwrite(int fd, const void *mem, size_t bytes, off_t at)
{
	static ssize_t (*next)(int, const void *, size_t, off_t);
	if (!next)
		next = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
	return result(end(next(fd, mem, begin(bytes), at)));
}

VISIBLE int fsync(int fd)
{
	static int (*next)(int);
	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	struct stat s;
	if (!fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_size > 4 * PAGE)
		sleep((unsigned)setting("ZR_BADDISK_SYNC"));
	return next(fd);
}

#ifdef HAVE_LIBURING
#include <liburing.h>

/* liburing came with the plugin, so it is not next in the search order. */
static void *of_liburing(const char *name)
{
	return dlsym(dlopen("liburing.so.2", RTLD_NOW), name);
}

static void begin_all(struct io_uring *ring)
{
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *s = &ring->sq.sqes[i & *ring->sq.kring_mask];
		s->len = (unsigned)begin(s->len);
	}
}

/* What ended stays in the ring until it is taken: it is counted once. */
static void end_all(struct io_uring *ring)
{
	static struct io_uring *of;
	static unsigned counted;
	struct io_uring_cqe *e;
	unsigned head;
	if (of != ring)
		counted = *ring->cq.khead;
	of = ring;
	io_uring_for_each_cqe(ring, head, e)
	{
		if ((int)(head - counted) < 0)
			continue;
		e->res = (int)end(e->res);
		counted = head + 1;
	}
}

VISIBLE int io_uring_submit(struct io_uring *ring)
{
	static int (*next)(struct io_uring *);
	if (!next)
		next = (int (*)(struct io_uring *))of_liburing("io_uring_submit");
	begin_all(ring);
	int rc = next(ring);
	end_all(ring);
	return rc;
}

VISIBLE int io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
	static int (*next)(struct io_uring *, unsigned);
	if (!next)
		next = (int (*)(struct io_uring *, unsigned))of_liburing(
			"io_uring_submit_and_wait");
	begin_all(ring);
	int rc = next(ring, n);
	end_all(ring);
	return rc;
}
#endif
