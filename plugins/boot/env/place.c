/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - the directories in which ranks meet, and whether they are safe: see env.h.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const char *own_name(char *out)
{
	snprintf(out, NAME_ROOM, "zeroth-%u", (unsigned)geteuid());
	return out;
}

const char *ze_path(const struct zr_inst *b, int dir, const char *name, char *out)
{
	char own[NAME_ROOM], run[NAME_ROOM] = "";
	if (dir == b->run && dir >= 0)
		ze_name_run(run, b->id);
	snprintf(out, PATH_ROOM, "%s/%s%s%s%s%s", b->o->directory, own_name(own), *run ? "/" : "",
		 run, *name ? "/" : "", name);

	return out;
}

/* Whoever may rename what lies in `directory` can hinder a run. One where everybody may is none
 * that somebody chose with care. */
static int check_directory(const struct zr_inst *b, int fd)
{
	const char *path = b->o->directory;
	struct stat st;
	if (fstat(fd, &st))
		return zr_fail(b->h, ZR_EIO, "directory %s: %s", path, strerror(errno));
	if (st.st_mode & S_ISVTX)
		return 0;
	if (st.st_mode & S_IWOTH)
		return zr_fail(b->h, ZR_EINVAL,
			       "directory %s: its mode is %04o, everybody may rename what lies "
			       "there: run chmod o-w on it, or chmod +t, or choose another one",
			       path, st.st_mode & 07777);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return zr_fail(b->h, ZR_EINVAL,
			       "directory %s: it belongs to user %u, who may rename what lies "
			       "there: choose one of your own, or one with the sticky bit as /tmp",
			       path, (unsigned)st.st_uid);

	return 0;
}

/* Whether a directory that is to be this user's alone is not, and why[NAME_ROOM]. */
static int not_own(const struct stat *st, char *why)
{
	if (st->st_uid != geteuid())
		snprintf(why, NAME_ROOM,
			 "it belongs to user %u, not to user %u: choose another directory",
			 (unsigned)st->st_uid, (unsigned)geteuid());
	else if (st->st_mode & 077)
		snprintf(why, NAME_ROOM,
			 "its mode is %04o, others may see what is there: remove it, or run chmod "
			 "700 on it",
			 st->st_mode & 07777);
	else
		return 0;

	return 1;
}

static int refuse(const struct zr_inst *b, int dir, const char *name, const char *why)
{
	char path[PATH_ROOM];
	return zr_fail(b->h, ZR_EINVAL, "%s: %s", ze_path(b, dir, name, path), why);
}

/* After a call that failed. */
static int failed(const struct zr_inst *b, int dir, const char *name)
{
	char path[PATH_ROOM];
	int why = errno;
	if (why == ENOTDIR || why == ELOOP)
		return refuse(b, dir, name, "it is a link or no directory: remove it");

	return zr_fail(b->h, ZR_EIO, "%s: %s", ze_path(b, dir, name, path), strerror(why));
}

static int check_own(const struct zr_inst *b, int fd, int dir, const char *name)
{
	char why[NAME_ROOM];
	struct stat st;
	if (fstat(fd, &st))
		return failed(b, dir, name);
	if (not_own(&st, why))
		return refuse(b, dir, name, why);

	return 0;
}

/* The meeting in the open `directory`. */
static int open_own(struct zr_inst *b, int parent)
{
	char name[NAME_ROOM];

	own_name(name);
	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		return failed(b, -1, "");

	b->meeting = openat(parent, name, OPEN_DIRECTORY);
	if (b->meeting < 0)
		return failed(b, -1, "");

	return check_own(b, b->meeting, -1, "");
}

int ze_open_meeting(struct zr_inst *b)
{
	int parent = open(b->o->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return zr_fail(b->h, ZR_EINVAL, "directory %s: %s", b->o->directory,
			       strerror(errno));
	int rc = check_directory(b, parent);
	if (!rc)
		rc = open_own(b, parent);
	close(parent);
	return rc;
}

int ze_enter_run(const struct zr_inst *b, const char *name)
{
	char why[NAME_ROOM];
	struct stat st;
	int fd = openat(b->meeting, name, OPEN_DIRECTORY);
	if (fd < 0 || (!fstat(fd, &st) && !not_own(&st, why)))
		return fd;

	close(fd);
	return -1;
}

int ze_open_run(struct zr_inst *b, uint64_t id)
{
	char name[NAME_ROOM];

	ze_name_run(name, id);
	int fd = openat(b->meeting, name, OPEN_DIRECTORY);
	if (fd < 0 && (errno == ENOENT || errno == ESTALE))
		return 0;
	if (fd < 0)
		return failed(b, b->meeting, name);

	int rc = check_own(b, fd, b->meeting, name);
	if (rc) {
		close(fd);
		return rc;
	}

	b->run = fd;
	b->id = id;
	return 1;
}

int ze_make_run(struct zr_inst *b)
{
	char name[NAME_ROOM];
	if (mkdirat(b->meeting, ze_name_run(name, b->id), 0700))
		return failed(b, b->meeting, name);

	int rc = ze_open_run(b, b->id);
	if (rc == 0)
		return refuse(b, b->meeting, name, "somebody has removed it");

	return rc < 0 ? rc : 0;
}

void ze_close(struct zr_inst *b)
{
	if (b->run >= 0)
		close(b->run);
	if (b->meeting >= 0)
		close(b->meeting);
	b->run = b->meeting = -1;
}
