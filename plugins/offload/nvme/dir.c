/* SPDX-License-Identifier: Apache-2.0
 *
 * dir.c - N4: PATH/zeroth-offload-r<rank>-<random>, one per instance, with a file that is locked as
 * long as the process lives. A directory whose lock can be had is that of a dead run.
 *
 * Whoever gets the lock owns the directory: the maker, or one that cleans up and came between
 * making and locking. The loser goes elsewhere. A lock on a file that is removed already is no
 * lock.
 */
#define _GNU_SOURCE
#include "nvme.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "zeroth-offload-r"
#define TRIES  16

/* The lock of an open directory, or -errno; -EWOULDBLOCK: somebody has it. */
static int take_lock(int dir)
{
	struct stat st;
	int error = 0, fd = openat(dir, NV_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EWOULDBLOCK : -errno; /* the directory was removed */
	if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &st))
		error = errno;
	else if (!st.st_nlink)
		error = EWOULDBLOCK;
	if (!error)
		return fd;

	close(fd);
	return -error;
}

/* ---- what dead runs left --------------------------------------------------------- */

static int is_data(const char *name)
{
	size_t n = strlen(name);
	return n > strlen(NV_DATA) && !strcmp(name + n - strlen(NV_DATA), NV_DATA);
}

/* Exactly what make_own makes: nobody else's directory is touched. */
static int is_ours(const char *name)
{
	int rank, end = 0;
	unsigned long long random;
	return sscanf(name, PREFIX "%d-%16llx%n", &rank, &random, &end) == 2 &&
	       (size_t)end == strlen(name);
}

/* Removes the files of objects, nothing else; their number and bytes. */
static int empty(int dir, uint64_t *bytes)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *list = NULL;

	if (copy >= 0)
		list = fdopendir(copy);
	struct dirent *e;
	struct stat st;
	if (!list && copy >= 0)
		close(copy);
	while (list && (e = readdir(list)))
		if (is_data(e->d_name) && !fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && !unlinkat(dir, e->d_name, 0)) {
			*bytes += (uint64_t)st.st_blocks * 512;
			n++;
		}
	if (list)
		closedir(list);

	return n;
}

/* Directories of other users, which cannot be opened or locked, are none of our business. */
static void remove_if_dead(struct zr_inst *d, const char *name)
{
	int dir = openat(d->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int lock = dir < 0 ? -1 : take_lock(dir), n;
	uint64_t bytes = 0;
	if (lock >= 0) {
		n = empty(dir, &bytes);
		if (!unlinkat(dir, NV_LOCK, 0) && !unlinkat(d->parent, name, AT_REMOVEDIR))
			zr_log(d->h, ZR_LOG_INFO,
			       "removed %s/%s, left by a run that died: %d files, %llu bytes",
			       d->o->path, name, n, (unsigned long long)bytes);
		else
			zr_log(d->h, ZR_LOG_WARN,
			       "cannot remove %s/%s, left by a run that died: %s", d->o->path, name,
			       strerror(errno));
		close(lock);
	}

	if (dir >= 0)
		close(dir);
}

static void remove_dead(struct zr_inst *d)
{
	int copy = openat(d->parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = NULL;

	if (copy >= 0)
		list = fdopendir(copy);
	struct dirent *e;
	if (!list && copy >= 0)
		close(copy);
	while (list && (e = readdir(list)))
		if (is_ours(e->d_name))
			remove_if_dead(d, e->d_name);
	if (list)
		closedir(list);
}

/* ---- the own one ----------------------------------------------------------------- */

static int make_own(struct zr_inst *d)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return -errno;

	snprintf(d->name, sizeof d->name, PREFIX "%d-%016llx", d->h->rank,
		 (unsigned long long)random);
	if (mkdirat(d->parent, d->name, 0700))
		return errno == EEXIST ? -EWOULDBLOCK : -errno;

	d->dir = openat(d->parent, d->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* removed by then */
	if (d->dir >= 0)
		d->lock = take_lock(d->dir);
	else if (errno == ENOENT)
		d->lock = -EWOULDBLOCK;
	else
		d->lock = -errno;
	if (d->lock >= 0)
		return 0;
	if (d->dir >= 0)
		close(d->dir);
	d->dir = -1;
	unlinkat(d->parent, d->name, AT_REMOVEDIR);
	return d->lock;
}

int nv_dir_open(struct zr_inst *d)
{
	int rc = -EWOULDBLOCK;

	d->parent = open(d->o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->parent < 0)
		return zr_fail(
			d->h, ZR_EINVAL,
			"path = %s: %s; name a directory on the disk that is to hold the data",
			d->o->path, strerror(errno));

	/* so that none cleans up while another makes; where that cannot be, they retry */
	int alone = !flock(d->parent, LOCK_EX);
	remove_dead(d);
	for (int i = 0; i < TRIES && rc == -EWOULDBLOCK; i++)
		rc = make_own(d);
	if (alone)
		flock(d->parent, LOCK_UN);
	if (rc)
		return zr_fail(d->h, ZR_EINVAL,
			       "path = %s: cannot make and lock a directory in it: %s", d->o->path,
			       strerror(-rc));

	snprintf(d->path, sizeof d->path, "%s/%s", d->o->path, d->name);
	return ZR_OK;
}

void nv_dir_close(struct zr_inst *d)
{
	if (d->dir >= 0) {
		if (unlinkat(d->dir, NV_LOCK, 0) || unlinkat(d->parent, d->name, AT_REMOVEDIR))
			zr_log(d->h, ZR_LOG_WARN, "cannot remove %s: %s", d->path, strerror(errno));
		close(d->dir);
	}

	if (d->lock >= 0)
		close(d->lock);
	if (d->parent >= 0)
		close(d->parent);
}
