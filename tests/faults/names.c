/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - see faults.h: calls on names.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(enum fault_call call, const char *path)
{
	return path && fault_point(call, path) == FAULT_FAIL;
}

/* ---- opening ---- */

int fault_open(int dir, const char *path, int flags, unsigned mode)
{
	char buf[2 * PATH_MAX];
	const char *at = fault_at_path(dir, path, buf, sizeof buf);
	if (fails(FAULT_OPEN, at))
		return -1;
	int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
	if (at && fd >= 0 && flags & (O_CREAT | O_TRUNC) && fault_records())
		fault_record("%s\t%s", flags & O_TRUNC ? "open-empty" : "open", at);
	return fd;
}

static unsigned mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, unsigned) : 0;
}

VISIBLE int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	unsigned mode = mode_of(flags, ap);
	va_end(ap);
	return fault_open(AT_FDCWD, path, flags, mode);
}

VISIBLE int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	unsigned mode = mode_of(flags, ap);
	va_end(ap);
	return fault_open(dir, path, flags, mode);
}

VISIBLE int open64(const char *path, int flags, ...) __attribute__((alias("open")));
VISIBLE int openat64(int dir, const char *path, int flags, ...) __attribute__((alias("openat")));

/* ---- renaming, making, removing ---- */

VISIBLE int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	char a[2 * PATH_MAX], b[2 * PATH_MAX];
	const char *x = fault_at_path(from_dir, from, a, sizeof a),
		   *y = fault_at_path(to_dir, to, b, sizeof b);
	int bad = fails(FAULT_RENAME, y), no = errno;
	const char *what = flags & RENAME_EXCHANGE ? "exchange" : "rename";
	if (x && y && fault_records())
		fault_record("%s-begin\t%s\t%s", what, x, y);
	int rc = bad ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
	if (bad)
		errno = no;
	if (x && y && fault_records())
		fault_record("%s\t%s\t%s\t%d", what, x, y, rc);
	return rc;
}

VISIBLE int rename(const char *from, const char *to)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

VISIBLE int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return renameat2(from_dir, from, to_dir, to, 0);
}

VISIBLE int mkdirat(int dir, const char *path, mode_t mode)
{
	char buf[2 * PATH_MAX];
	const char *at = fault_at_path(dir, path, buf, sizeof buf);
	int rc = fails(FAULT_MKDIR, at) ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
	if (at && fault_records())
		fault_record("mkdir\t%s\t%d", at, rc);
	return rc;
}

VISIBLE int mkdir(const char *path, mode_t mode)
{
	return mkdirat(AT_FDCWD, path, mode);
}

VISIBLE int unlinkat(int dir, const char *path, int flags)
{
	char buf[2 * PATH_MAX];
	const char *at = fault_at_path(dir, path, buf, sizeof buf);
	int rc = fails(FAULT_UNLINK, at) ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
	if (at && fault_records())
		fault_record("unlink\t%s\t%d", at, rc);
	return rc;
}

VISIBLE int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

VISIBLE int rmdir(const char *path)
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* ---- listing ---- */

VISIBLE DIR *opendir(const char *path)
{
	static DIR *(*next)(const char *);
	char buf[2 * PATH_MAX];
	if (!next)
		next = (DIR * (*)(const char *)) fault_next("opendir");
	return fails(FAULT_LIST, fault_at_path(AT_FDCWD, path, buf, sizeof buf)) ? NULL :
										   next(path);
}

VISIBLE DIR *fdopendir(int fd)
{
	static DIR *(*next)(int);
	char buf[PATH_MAX];
	if (!next)
		next = (DIR * (*)(int)) fault_next("fdopendir");
	return fails(FAULT_LIST, fault_fd_path(fd, buf, sizeof buf)) ? NULL : next(fd);
}

VISIBLE struct dirent *readdir(DIR *d)
{
	static struct dirent *(*next)(DIR *);
	char buf[PATH_MAX];
	if (!next)
		next = (struct dirent * (*)(DIR *)) fault_next("readdir");
	return fails(FAULT_LIST, fault_fd_path(dirfd(d), buf, sizeof buf)) ? NULL : next(d);
}

/* ---- looking ---- */

VISIBLE int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	static int (*next)(int, const char *, struct stat *, int);
	char buf[2 * PATH_MAX];
	if (!next)
		next = (int (*)(int, const char *, struct stat *, int))fault_next("fstatat");
	return fails(FAULT_STAT, fault_at_path(dir, path, buf, sizeof buf)) ?
		       -1 :
		       next(dir, path, st, flags);
}

VISIBLE int stat(const char *path, struct stat *st)
{
	return fstatat(AT_FDCWD, path, st, 0);
}

VISIBLE int lstat(const char *path, struct stat *st)
{
	return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

VISIBLE int statvfs(const char *path, struct statvfs *fs)
{
	static int (*next)(const char *, struct statvfs *);
	char buf[2 * PATH_MAX];
	if (!next)
		next = (int (*)(const char *, struct statvfs *))fault_next("statvfs");
	return fails(FAULT_STAT, fault_at_path(AT_FDCWD, path, buf, sizeof buf)) ? -1 :
										   next(path, fs);
}

VISIBLE int faccessat(int dir, const char *path, int mode, int flags)
{
	static int (*next)(int, const char *, int, int);
	char buf[2 * PATH_MAX];
	if (!next)
		next = (int (*)(int, const char *, int, int))fault_next("faccessat");
	return fails(FAULT_STAT, fault_at_path(dir, path, buf, sizeof buf)) ?
		       -1 :
		       next(dir, path, mode, flags);
}

VISIBLE int access(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, 0);
}
