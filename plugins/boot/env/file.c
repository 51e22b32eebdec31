/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - small files in the shared directory.
 */
#define _GNU_SOURCE
#include "env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_of(const struct zr_inst *b, int run, const char *name, char *out)
{
	if (run)
		snprintf(out, PATH_ROOM, "%s/zeroth-%016llx/%s", b->o->directory,
			 (unsigned long long)b->id, name);
	else
		snprintf(out, PATH_ROOM, "%s/%s", b->o->directory, name);
	return out;
}

int ze_make_run(struct zr_inst *b)
{
	char path[PATH_ROOM];
	if (mkdir(path_of(b, 1, "", path), 0777))
		return zr_fail(b->h, ZR_EIO, "cannot make %s: %s", path, strerror(errno));
	return 0;
}

static void remove_directory(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	if (!d)
		return;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(path);
}

void ze_remove_run(struct zr_inst *b)
{
	char path[PATH_ROOM];
	remove_directory(path_of(b, 1, "", path));
}

void ze_sweep(struct zr_inst *b)
{
	DIR *d = opendir(b->o->directory);
	char path[PATH_ROOM];
	struct dirent *e;
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "zeroth-", 7) &&
		    strspn(e->d_name + 7, "0123456789abcdef") == 16 && !e->d_name[7 + 16])
			remove_directory(path_of(b, 0, e->d_name, path));
	if (d)
		closedir(d);
}

static int write_whole(int fd, const char *data, uint64_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);
		if (n < 0 && errno != EINTR)
			return -1;
		data += n > 0 ? n : 0;
		bytes -= n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

int ze_write(struct zr_inst *b, int run, const char *name, const void *data, uint64_t bytes)
{
	char path[PATH_ROOM], own[PATH_ROOM], temporary[64];
	snprintf(temporary, sizeof temporary, "new-%d-%016llx", b->mine.rank,
		 (unsigned long long)b->mine.draw);
	path_of(b, run, temporary, own);
	int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int bad = fd < 0 || write_whole(fd, data, bytes);
	bad |= fd >= 0 && close(fd);
	if (!bad && !rename(own, path_of(b, run, name, path)))
		return 0;
	int why = errno;
	unlink(own);
	return zr_fail(b->h, ZR_EIO, "cannot write %s: %s", own, strerror(why));
}

int64_t ze_read(struct zr_inst *b, int run, const char *name, void *data, uint64_t room)
{
	char path[PATH_ROOM];
	int fd = open(path_of(b, run, name, path), O_RDONLY | O_CLOEXEC);
	uint64_t have = 0;
	ssize_t n = 1;
	if (fd < 0)
		return -1;
	while (have < room && (n = read(fd, (char *)data + have, room - have)) > 0)
		have += (uint64_t)n;
	close(fd);
	return n < 0 ? -1 : (int64_t)have;
}

void ze_remove(struct zr_inst *b, int run, const char *name)
{
	char path[PATH_ROOM];
	unlink(path_of(b, run, name, path));
}
