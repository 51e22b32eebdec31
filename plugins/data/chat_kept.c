/* SPDX-License-Identifier: Apache-2.0
 *
 * chat_kept.c - see chat_kept.h. The hash begins with the key, which is in the name as well: a file
 * that took the name of another one is not believed.
 */
#define _GNU_SOURCE
#include "chat_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define NOTE       "xxh3 %016llx\n"
#define NOTE_BYTES 22
#define OWN        "set cache to a directory of your own"

static int no_memory(const struct zr_host *h)
{
	return zr_fail(h, ZR_ENOMEM, "no memory");
}

char *kept_text(const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

/* ---- the directory ---- */

static const char *absolute(const char *variable)
{
	const char *path = getenv(variable);
	if (path && *path == '/')
		return path;

	return NULL;
}

static int choose_dir(struct kept *k, const char *cache)
{
	const char *base = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");

	if (cache)
		k->dir = kept_text("%s", cache);
	else if (base)
		k->dir = kept_text("%s/zeroth", base);
	else if (home)
		k->dir = kept_text("%s/.cache/zeroth", home);
	else
		return zr_fail(k->h, ZR_EINVAL,
			       "cache: no place for the tokens: neither "
			       "XDG_CACHE_HOME nor HOME is the absolute path of a directory; set "
			       "cache to one");
	if (!k->dir)
		return no_memory(k->h);

	return ZR_OK;
}

static int make_dirs(const struct kept *k)
{
	for (char *p = k->dir + 1;; p++) {
		const char was = *p;
		if (was && was != '/')
			continue;

		*p = 0;
		int no = 0;
		if (mkdir(k->dir, 0700) && errno != EEXIST)
			no = errno;
		if (no && !was)
			return zr_fail(k->h, ZR_EINVAL, "cache = %s: %s", k->dir, strerror(no));

		*p = was;
		if (!was)
			return ZR_OK;
	}
}

static int is_stranger(const struct stat *st)
{
	return st->st_uid != 0 && st->st_uid != geteuid();
}

/* A directory that the user names may be a link; the usual one is none. */
static int open_dir(struct kept *k, int follow)
{
	struct stat st;

	k->at = open(k->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
	if (k->at < 0 || fstat(k->at, &st))
		return zr_fail(k->h, ZR_EINVAL, "cache = %s: %s", k->dir, strerror(errno));
	if (is_stranger(&st))
		return zr_fail(k->h, ZR_EINVAL,
			       "cache = %s: it belongs to uid %u, who can change "
			       "what is learned: " OWN,
			       k->dir, (unsigned)st.st_uid);
	if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
		return zr_fail(k->h, ZR_EINVAL,
			       "cache = %s: its mode is %04o, writable by others, "
			       "who can change what is learned: run chmod o-w on it, or " OWN,
			       k->dir, (unsigned)st.st_mode & 07777);

	return ZR_OK;
}

/* ---- what is believed ---- */

/* Why a file is not believed, whatever is in it; "": it is. */
static void judge(const struct stat *st, char why[KEPT_WHY])
{
	*why = 0;
	if (!S_ISREG(st->st_mode))
		snprintf(why, KEPT_WHY, "is not a regular file");
	else if (is_stranger(st))
		snprintf(why, KEPT_WHY, "belongs to uid %u", (unsigned)st->st_uid);
	else if (st->st_mode & (S_IWGRP | S_IWOTH))
		snprintf(why, KEPT_WHY, "has mode %04o, writable by others",
			 (unsigned)st->st_mode & 07777);
}

static int open_lock(struct kept *k)
{
	struct stat st;
	char why[KEPT_WHY], *name = kept_text("%s.lock", k->name);
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

	if (!name)
		return no_memory(k->h);

	k->lock = openat(k->at, name, O_RDWR | O_CREAT | flags, 0600);
	if (k->lock < 0 && (errno == EACCES || errno == EROFS)) /* tokens that root keeps for all */
		k->lock = openat(k->at, name, O_RDONLY | flags);
	int no = 0;
	if (k->lock < 0 || fstat(k->lock, &st))
		no = errno;
	free(name);
	if (no)
		return zr_fail(k->h, ZR_EIO, "%s.lock: %s", k->path,
			       no == ELOOP ? "is a symbolic link: remove it" : strerror(no));

	judge(&st, why);
	if (*why)
		return zr_fail(k->h, ZR_EINVAL, "%s.lock: %s: remove it, or " OWN, k->path, why);

	return ZR_OK;
}

int kept_open(const struct zr_host *h, const char *cache, uint64_t key, struct kept *k)
{
	const int named = cache && *cache;

	*k = (struct kept){ .h = h, .key = key, .at = -1, .lock = -1 };
	int rc = choose_dir(k, named ? cache : NULL);
	if (!rc)
		rc = make_dirs(k);
	if (!rc)
		rc = open_dir(k, named);
	if (rc)
		return rc;

	k->path = kept_text("%s/chat-%016llx.tokens", k->dir, (unsigned long long)key);
	if (!k->path)
		return no_memory(h);

	k->name = strrchr(k->path, '/') + 1;
	return open_lock(k);
}

void kept_close(struct kept *k)
{
	if (k->lock >= 0)
		close(k->lock);
	if (k->at >= 0)
		close(k->at);
	free(k->path);
	free(k->dir);
}

int kept_wait(const struct kept *k, int to_write)
{
	while (flock(k->lock, to_write ? LOCK_EX : LOCK_SH))
		if (errno != EINTR)
			return zr_fail(k->h, ZR_EIO, "%s.lock: %s", k->path, strerror(errno));
	return ZR_OK;
}

/* The note's text; "" where there is none. */
static int read_note(const struct kept *k, char note[NOTE_BYTES + 1])
{
	size_t used = 0;
	ssize_t n = 1;
	while (used < NOTE_BYTES && n) {
		n = pread(k->lock, note + used, NOTE_BYTES - used, (off_t)used);
		if (n < 0 && errno != EINTR)
			return zr_fail(k->h, ZR_EIO, "%s.lock: %s", k->path, strerror(errno));

		if (n > 0)
			used += (size_t)n;
	}

	note[used] = 0;
	return ZR_OK;
}

static void make_note(const struct kept *k, const struct mapped *m, char note[NOTE_BYTES + 1])
{
	const uint64_t hash = XXH3_64bits_withSeed(m->base, (size_t)m->bytes, k->key);
	snprintf(note, NOTE_BYTES + 1, NOTE, (unsigned long long)hash);
}

/* Opens what is kept. *fd is -1 where there is none, or none that may be taken, for *why. */
static int open_kept(const struct kept *k, int *fd, char why[KEPT_WHY])
{
	struct stat st;

	*fd = openat(k->at, k->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0 && errno == ENOENT)
		return ZR_OK;
	if (*fd < 0 && errno == ELOOP) {
		snprintf(why, KEPT_WHY, "is a symbolic link");
		return ZR_OK;
	}

	if (*fd < 0 || fstat(*fd, &st)) {
		const int no = errno;
		if (*fd >= 0)
			close(*fd);
		return zr_fail(k->h, ZR_EIO, "%s: %s", k->path, strerror(no));
	}

	judge(&st, why);
	if (!*why && !st.st_size)
		snprintf(why, KEPT_WHY, "is empty");
	if (*why) {
		close(*fd);
		*fd = -1;
	}

	return ZR_OK;
}

int kept_take(const struct kept *k, struct mapped *m, char why[KEPT_WHY])
{
	char noted[NOTE_BYTES + 1], is[NOTE_BYTES + 1];
	int fd;

	*why = 0;
	int rc = open_kept(k, &fd, why);
	if (rc || fd < 0)
		return rc;

	rc = mapped_take(k->h, k->path, fd, m);
	if (!rc)
		rc = read_note(k, noted);
	if (rc)
		return rc;

	make_note(k, m, is);
	if (!strcmp(noted, is))
		return ZR_OK;

	snprintf(why, KEPT_WHY, *noted ? "is not what was written" : "has no hash beside it");
	mapped_close(m);
	return ZR_OK;
}

int kept_note(const struct kept *k, struct mapped *m)
{
	char note[NOTE_BYTES + 1];
	ssize_t n = 0;
	const int fd = openat(k->at, k->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return zr_fail(k->h, ZR_EIO, "%s: %s", k->path, strerror(errno));

	int rc = mapped_take(k->h, k->path, fd, m);
	if (rc)
		return rc;

	make_note(k, m, note);
	for (size_t done = 0; done<NOTE_BYTES; done += n> 0 ? (size_t)n : 0) {
		n = pwrite(k->lock, note + done, NOTE_BYTES - done, (off_t)done);
		if (n < 0 && errno != EINTR)
			return zr_fail(k->h, ZR_EIO, "%s.lock: cannot write: %s", k->path,
				       strerror(errno));
	}

	return ZR_OK;
}
