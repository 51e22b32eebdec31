/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c - see lock.h. The lock is flock(2)'s: it is released with the last descriptor, which no
 * program that is started inherits. On NFS, Linux makes it a lock of the whole file at the server,
 * so that it holds between machines; that needs a file that is open for writing, which a directory
 * cannot be. A file system without locks causes a warning, and the directory is used without a
 * lock.
 */
#include "train/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"

#define NAME ".lock"

/* The holder writes who it is right after it got the lock. */
static int busy(int fd, const char *dir, struct zr_error *err)
{
	char who[256] = "";

	for (int i = 0; i < 50 && !*who; i++) {
		ssize_t n = pread(fd, who, sizeof who - 1, 0);
		who[n > 0 ? n : 0] = 0;
		if (!*who)
			nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}

	who[strcspn(who, "\n")] = 0;
	return zr_err(
		err, ZR_EINVAL,
		"%s: %s is writing there: wait for its end, end it, or choose another directory",
		dir, *who ? who : "another process");
}

static void sign(int fd)
{
	char host[65] = "", who[256];
	gethostname(host, sizeof host - 1);
	int n = snprintf(who, sizeof who, "process %ld on %s\n", (long)getpid(), host);
	if (ftruncate(fd, 0) || pwrite(fd, who, (size_t)n, 0) != n)
		zr_logf(ZR_LOG_DEBUG, "lock", "cannot write who holds it: %s", strerror(errno));
}

/* Whether the locked file is still the one of that name: a holder removes the file before it
 * releases the lock. */
static int is_current(int fd, const char *path)
{
	struct stat mine, there;
	return !fstat(fd, &mine) && !lstat(path, &there) && mine.st_dev == there.st_dev &&
	       mine.st_ino == there.st_ino;
}

/* Opens and locks the file. Returns the descriptor or a negative code. */
static int take(const char *dir, const char *path, struct zr_error *err)
{
	for (;;) {
		struct stat st;
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
		if (fd < 0)
			return zr_err(err, ZR_EINVAL, "%s: cannot write: %s", path,
				      strerror(errno));

		int rc = 0;
		if (fstat(fd, &st))
			rc = zr_err(err, ZR_EIO, "%s: %s", path, strerror(errno));
		else if (!S_ISREG(st.st_mode))
			rc = zr_err(err, ZR_EINVAL, "%s: not a regular file", path);

		if (!rc && flock(fd, LOCK_EX | LOCK_NB)) {
			if (errno == EWOULDBLOCK)
				rc = busy(fd, dir, err);
			else
				zr_logf(ZR_LOG_WARN, "lock",
					"%s: no lock (%s): let no other process write there", path,
					strerror(errno));
		}

		if (!rc && is_current(fd, path))
			return fd;

		close(fd);
		if (rc)
			return rc;
	}
}

int zr_locks_add(struct zr_locks *l, const char *dir, struct zr_error *err)
{
	struct stat st;

	if (stat(dir, &st))
		return zr_err(err, ZR_EINVAL, "%s: %s", dir, strerror(errno));

	for (int i = 0; i < l->n; i++)
		if (l->held[i].device == st.st_dev && l->held[i].inode == st.st_ino)
			return 0;
	char *path = l->held[l->n].path;
	if (l->n == ZR_LOCKS || snprintf(path, PATH_MAX, "%s/" NAME, dir) >= PATH_MAX)
		return zr_err(err, ZR_EINVAL, "%s: a path too long", dir);

	int fd = take(dir, path, err);
	if (fd < 0)
		return fd;

	sign(fd);
	l->held[l->n].fd = fd;
	l->held[l->n].device = st.st_dev;
	l->held[l->n++].inode = st.st_ino;
	return 0;
}

int zr_locks_add_checkpoints(struct zr_locks *l, const char *dir, struct zr_error *err)
{
	char real[PATH_MAX], config[PATH_MAX + 16], lock[PATH_MAX + 16];

	char *slash = realpath(dir, real) ? strrchr(real, '/') : NULL;
	if (!slash)
		return zr_err(err, ZR_EIO, "%s: %s", dir, strerror(errno));
	if (!strcmp(slash, "/checkpoints")) {
		*slash = 0;
		snprintf(config, sizeof config, "%s/config.ini", real);
		snprintf(lock, sizeof lock, "%s/" NAME, real);
		int none = access(config, F_OK) && errno == ENOENT;
		none = none && access(lock, F_OK) && errno == ENOENT;
		int rc = none ? 0 : zr_locks_add(l, real, err);
		if (rc)
			return rc;
	}

	return zr_locks_add(l, dir, err);
}

void zr_locks_release_after(struct zr_locks *l, int n)
{
	while (l->n > n) {
		l->n--;
		if (is_current(l->held[l->n].fd, l->held[l->n].path))
			unlink(l->held[l->n].path);
		close(l->held[l->n].fd);
	}
}

void zr_locks_release(struct zr_locks *l)
{
	zr_locks_release_after(l, 0);
}
