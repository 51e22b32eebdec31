/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - small files in the directories of place.c.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At the front of each file. */
struct header {
	char magic[8];
	uint64_t nonce; /* in the run its id, of a hello and its answer the number in their names */
	uint64_t bytes; /* that follow */
};
#define MAGIC "zeroth 2"

static int write_whole(int fd, const char *data, uint64_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			data += n;
			bytes -= (uint64_t)n;
		}
	}

	return 0;
}

static int write_file(int fd, uint64_t nonce, const void *data, uint64_t bytes)
{
	struct header head = { .nonce = nonce, .bytes = bytes };

	memcpy(head.magic, MAGIC, sizeof head.magic);
	int bad = write_whole(fd, (const char *)&head, sizeof head);
	if (!bad)
		bad = write_whole(fd, data, bytes);
	int why = errno;
	if (close(fd) && !bad)
		return -1;

	errno = why;
	return bad;
}

/* Gives the file a second name: 0 or errno. Over NFS the call can fail although the name is there,
 * because the reply to a first try was lost. Only a new open is sure to see how many names a file
 * has. */
static int add_name(int dir, const char *own, const char *name)
{
	struct stat st;

	if (!linkat(dir, own, dir, name, 0))
		return 0;

	int why = errno, fd = openat(dir, own, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return why;
	if (!fstat(fd, &st) && st.st_nlink == 2)
		why = 0;
	close(fd);
	return why;
}

int ze_try_write(struct zr_inst *b, int dir, uint64_t nonce, const char *name, const void *data,
		 uint64_t bytes)
{
	char own[NAME_ROOM];
	int why;

	snprintf(own, sizeof own, "new-%d-%016llx-%u", b->mine.rank,
		 (unsigned long long)b->mine.draw, atomic_fetch_add(&b->begun, 1));
	int fd = openat(dir, own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	if (write_file(fd, nonce, data, bytes))
		why = errno;
	else
		why = add_name(dir, own, name);
	unlinkat(dir, own, 0);
	return why;
}

int ze_write(struct zr_inst *b, int dir, uint64_t nonce, const char *name, const void *data,
	     uint64_t bytes)
{
	char path[PATH_ROOM];
	int why = ze_try_write(b, dir, nonce, name, data, bytes);
	if (why == EEXIST)
		return 0;
	if (why)
		return zr_fail(b->h, ZR_EIO, "cannot write %s: %s", ze_path(b, dir, name, path),
			       strerror(why));

	return 1;
}

int ze_write_new(struct zr_inst *b, const char *name, const void *data, uint64_t bytes)
{
	char path[PATH_ROOM];
	int rc = ze_write(b, b->run, b->id, name, data, bytes);
	if (rc == 0)
		return zr_fail(b->h, ZR_ESTATE, "%s is there already",
			       ze_path(b, b->run, name, path));

	return rc < 0 ? rc : 0;
}

/* Whether an open file is none that this user wrote for itself alone. */
static int is_bad(const struct stat *st, char *why)
{
	if (!S_ISREG(st->st_mode))
		snprintf(why, NAME_ROOM, "it is no regular file: remove it");
	else if (st->st_uid != geteuid())
		snprintf(why, NAME_ROOM, "it belongs to user %u, not to user %u: remove it",
			 (unsigned)st->st_uid, (unsigned)geteuid());
	else if (st->st_mode & 077)
		snprintf(why, NAME_ROOM, "its mode is %04o, others may use it: remove it",
			 st->st_mode & 07777);
	else
		return 0;

	return 1;
}

/* Bytes, or < 0. */
static int64_t read_whole(int fd, char *data, uint64_t room)
{
	uint64_t have = 0;
	while (have < room) {
		ssize_t n = read(fd, data + have, room - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;

		have += (uint64_t)n;
	}

	return (int64_t)have;
}

/* ZE_FAILED with errno, ZE_TORN or ZE_READ. */
static int read_file(int fd, uint64_t size, uint64_t nonce, void *data, uint64_t room,
		     uint64_t *bytes)
{
	struct header head;
	int64_t n = read_whole(fd, (char *)&head, sizeof head);
	if (n < 0)
		return ZE_FAILED;
	if (n != sizeof head || memcmp(head.magic, MAGIC, sizeof head.magic) ||
	    head.nonce != nonce || head.bytes > room || head.bytes != size - sizeof head)
		return ZE_TORN;

	*bytes = head.bytes;
	n = read_whole(fd, data, head.bytes);
	if (n < 0)
		return ZE_FAILED;
	if (n == (int64_t)head.bytes)
		return ZE_READ;

	return ZE_TORN;
}

int ze_try_read(int dir, uint64_t nonce, const char *name, void *data, uint64_t room,
		uint64_t *bytes, char *why)
{
	struct stat st;
	/* O_NONBLOCK: a FIFO would wait for a writer */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int rc = ZE_REFUSED;

	if (fd < 0 && (errno == ENOENT || errno == ESTALE))
		return ZE_ABSENT;
	if (fd < 0 && errno == ELOOP)
		snprintf(why, NAME_ROOM, "it is a link: remove it");
	else if (fd < 0 || fstat(fd, &st))
		rc = ZE_FAILED;
	else if (!is_bad(&st, why))
		rc = read_file(fd, (uint64_t)st.st_size, nonce, data, room, bytes);
	if (rc == ZE_FAILED)
		snprintf(why, NAME_ROOM, "%s", strerror(errno));
	if (fd >= 0)
		close(fd);

	return rc;
}

int ze_read(struct zr_inst *b, int dir, uint64_t nonce, const char *name, void *data, uint64_t room,
	    uint64_t *bytes)
{
	char path[PATH_ROOM], why[NAME_ROOM];
	int rc = ze_try_read(dir, nonce, name, data, room, bytes, why);
	if (rc == ZE_REFUSED || rc == ZE_FAILED)
		return zr_fail(b->h, rc == ZE_FAILED ? ZR_EIO : ZR_EINVAL, "%s: %s",
			       ze_path(b, dir, name, path), why);

	return rc;
}

int ze_read_run(struct zr_inst *b, const char *name, void *data, uint64_t room, uint64_t *bytes)
{
	char path[PATH_ROOM];
	int rc = ze_read(b, b->run, b->id, name, data, room, bytes);
	if (rc == ZE_TORN)
		return zr_fail(b->h, ZR_EINVAL, "%s: it is no file of this run",
			       ze_path(b, b->run, name, path));

	return rc;
}

int ze_is_there(struct zr_inst *b, const char *name)
{
	char data[MAX_VALUE];
	uint64_t bytes;
	return ze_read_run(b, name, data, sizeof data, &bytes);
}

void ze_remove(int dir, const char *name)
{
	unlinkat(dir, name, 0);
}
