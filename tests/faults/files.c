/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - see faults.h: calls on open files.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* One transfer, of the bytes at `at` or, for -1, from where the file stands. */
static long move_in(int fd, void *mem, size_t bytes, off_t at)
{
	return at < 0 ? syscall(SYS_read, fd, mem, bytes) :
			syscall(SYS_pread64, fd, mem, bytes, at);
}

static long move_out(int fd, const void *mem, size_t bytes, off_t at)
{
	return at < 0 ? syscall(SYS_write, fd, mem, bytes) :
			syscall(SYS_pwrite64, fd, mem, bytes, at);
}

static long do_read(int fd, void *mem, size_t bytes, off_t at)
{
	char buf[PATH_MAX];
	const char *path = fault_fd_path(fd, buf, sizeof buf);
	enum fault_kind kind = path ? fault_point(FAULT_READ, path) : FAULT_NONE;
	if (kind == FAULT_FAIL)
		return -1;
	long n = move_in(fd, mem, kind == FAULT_SHORT ? fault_half(bytes) : bytes, at);
	if (kind == FAULT_FLIP && n > 0)
		fault_flip(mem, (size_t)n);
	return n;
}

static long do_write(int fd, const void *mem, size_t bytes, off_t at)
{
	char buf[PATH_MAX];
	const char *path = fault_fd_path(fd, buf, sizeof buf);
	enum fault_kind kind = path ? fault_point(FAULT_WRITE, path) : FAULT_NONE;
	void *copy = kind == FAULT_FLIP && bytes ? fault_flipped(mem, bytes) : NULL;
	long n = kind == FAULT_FAIL ? -1 :
				      move_out(fd, copy ? copy : mem,
					       kind == FAULT_SHORT ? fault_half(bytes) : bytes, at);
	if (copy)
		fault_drop(copy, bytes);
	if (path && fault_records())
		fault_record("write\t%s\t%ld", path, n);
	return n;
}

long fault_read(int fd, void *mem, size_t bytes)
{
	return do_read(fd, mem, bytes, -1);
}

long fault_write(int fd, const void *mem, size_t bytes)
{
	return do_write(fd, mem, bytes, -1);
}

VISIBLE ssize_t read(int fd, void *mem, size_t bytes)
{
	return do_read(fd, mem, bytes, -1);
}

VISIBLE ssize_t pread(int fd, void *mem, size_t bytes, off_t at)
{
	return do_read(fd, mem, bytes, at);
}

VISIBLE ssize_t write(int fd, const void *mem, size_t bytes)
{
	return do_write(fd, mem, bytes, -1);
}

VISIBLE ssize_t pwrite(int fd, const void *mem, size_t bytes, off_t at)
{
	return do_write(fd, mem, bytes, at);
}

VISIBLE ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
VISIBLE ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));

/* Of several parts a fault gets the first alone: a short transfer, as every caller must expect. */
VISIBLE ssize_t readv(int fd, const struct iovec *v, int n)
{
	return n > 0 ? do_read(fd, v->iov_base, v->iov_len, -1) : syscall(SYS_readv, fd, v, n);
}

VISIBLE ssize_t writev(int fd, const struct iovec *v, int n)
{
	return n > 0 ? do_write(fd, v->iov_base, v->iov_len, -1) : syscall(SYS_writev, fd, v, n);
}

static int simple(enum fault_call call, int fd, const char **path, char *buf, size_t size)
{
	*path = fault_fd_path(fd, buf, size);
	return *path && fault_point(call, *path) == FAULT_FAIL;
}

static int sync_file(int fd, long number)
{
	char buf[PATH_MAX];
	const char *path;
	int bad = simple(FAULT_SYNC, fd, &path, buf, sizeof buf);
	if (path && fault_records())
		fault_record("sync-begin\t%s", path);
	int rc = bad ? -1 : (int)syscall(number, fd);
	if (path && fault_records())
		fault_record("sync\t%s\t%d", path, rc);
	return rc;
}

VISIBLE int fsync(int fd)
{
	return sync_file(fd, SYS_fsync);
}

VISIBLE int fdatasync(int fd)
{
	return sync_file(fd, SYS_fdatasync);
}

VISIBLE int sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
	static int (*next)(int, off_t, off_t, unsigned);
	char buf[PATH_MAX];
	const char *path;
	if (!next)
		next = (int (*)(int, off_t, off_t, unsigned))fault_next("sync_file_range");
	return simple(FAULT_RANGE, fd, &path, buf, sizeof buf) ? -1 : next(fd, at, n, flags);
}

VISIBLE int fallocate(int fd, int mode, off_t at, off_t n)
{
	static int (*next)(int, int, off_t, off_t);
	char buf[PATH_MAX];
	const char *path;
	if (!next)
		next = (int (*)(int, int, off_t, off_t))fault_next("fallocate");
	return simple(FAULT_SPACE, fd, &path, buf, sizeof buf) ? -1 : next(fd, mode, at, n);
}

VISIBLE int fallocate64(int, int, off_t, off_t) __attribute__((alias("fallocate")));

VISIBLE int ftruncate(int fd, off_t n)
{
	char buf[PATH_MAX];
	const char *path;
	int rc = simple(FAULT_TRUNCATE, fd, &path, buf, sizeof buf) ?
			 -1 :
			 (int)syscall(SYS_ftruncate, fd, n);
	if (path && fault_records())
		fault_record("write\t%s\t%d", path, rc);
	return rc;
}

VISIBLE int ftruncate64(int, off_t) __attribute__((alias("ftruncate")));

/* The descriptor is closed all the same, as by the kernel. */
int fault_close(int fd)
{
	char buf[PATH_MAX];
	const char *path;
	int bad = simple(FAULT_CLOSE, fd, &path, buf, sizeof buf), no = errno;
	int rc = (int)syscall(SYS_close, fd);
	if (bad)
		errno = no;
	return bad ? -1 : rc;
}

VISIBLE int close(int fd)
{
	return fault_close(fd);
}

VISIBLE int flock(int fd, int how)
{
	char buf[PATH_MAX];
	const char *path;
	return simple(FAULT_LOCK, fd, &path, buf, sizeof buf) ? -1 :
								(int)syscall(SYS_flock, fd, how);
}

VISIBLE int fstat(int fd, struct stat *st)
{
	static int (*next)(int, struct stat *);
	char buf[PATH_MAX];
	const char *path;
	if (!next)
		next = (int (*)(int, struct stat *))fault_next("fstat");
	return simple(FAULT_STAT, fd, &path, buf, sizeof buf) ? -1 : next(fd, st);
}
