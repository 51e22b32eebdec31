/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c - removes what runs have left in the meeting. Only names that this plugin gives are
 * removed, and only if the process that wrote them was one of this machine and has ended, or, where
 * nobody can tell, when they are a day old. What is still in use then is missed by nobody: a run
 * that long ago joined only leaves marks there when it ends.
 */
#define _GNU_SOURCE
#include "env.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD (24 * 60 * 60) /* seconds */

/* What this plugin writes in the directory of a run begins so. */
static const char *const ours[] = { "joined-", "left-", "fence", "key-", "stopped", "new-" };

static DIR *list(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = NULL;

	if (fd >= 0)
		d = fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);

	return d;
}

static int is_ours(const char *name)
{
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (!strncmp(name, ours[i], strlen(ours[i])))
			return 1;
	return 0;
}

/* The directory, open as `run`, goes if nothing else lies in it. */
static void remove_run(const struct zr_inst *b, int run, const char *name)
{
	DIR *d = list(run);
	struct dirent *e;
	while (d && (e = readdir(d)))
		if (is_ours(e->d_name))
			unlinkat(run, e->d_name, 0);
	if (d)
		closedir(d);
	unlinkat(b->meeting, name, AT_REMOVEDIR);
}

void ze_remove_run(struct zr_inst *b)
{
	char name[NAME_ROOM];
	remove_run(b, b->run, ze_name_run(name, b->id));
}

/* By the clock of the file system, in which the directory of this run was just made. */
static int is_old(const struct zr_inst *b, const struct stat *st)
{
	struct stat young;
	return !fstat(b->run, &young) && young.st_mtime - st->st_mtime > OLD;
}

static int is_old_name(const struct zr_inst *b, const char *name)
{
	struct stat st;
	return !fstatat(b->meeting, name, &st, AT_SYMLINK_NOFOLLOW) && is_old(b, &st);
}

/* Whether what lies in file `name`, a hello, is of a process that is gone. */
static int is_dead(const struct zr_inst *b, int dir, uint64_t nonce, const char *name,
		   const struct stat *st)
{
	struct ze_hello m;
	char why[NAME_ROOM];
	uint64_t bytes;
	if (ze_try_read(dir, nonce, name, &m, sizeof m, &bytes, why) != ZE_READ ||
	    bytes != sizeof m || !m.machine || m.machine != b->mine.machine)
		return is_old(b, st);

	return ze_has_ended(b, &m);
}

static void sweep_run(const struct zr_inst *b, const char *name, uint64_t id)
{
	struct stat st;

	if (id == b->id)
		return;

	const int run = ze_enter_run(b, name);
	if (run < 0)
		return;
	if (!fstat(run, &st) && is_dead(b, run, id, "joined-0", &st))
		remove_run(b, run, name);
	close(run);
}

/* An answer goes with its hello, which its rank removes first. */
static void sweep_answer(const struct zr_inst *b, const char *name, int32_t rank, uint64_t draw)
{
	char hello[NAME_ROOM];
	struct stat st;
	ze_name_drawn(hello, "hello", rank, draw);
	if (fstatat(b->meeting, hello, &st, AT_SYMLINK_NOFOLLOW))
		ze_remove(b->meeting, name);
}

static void sweep_hello(const struct zr_inst *b, const char *name, int32_t rank, uint64_t draw)
{
	char answer[NAME_ROOM];
	struct stat st;
	if (fstatat(b->meeting, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !is_dead(b, b->meeting, draw, name, &st))
		return;

	ze_remove(b->meeting, name);
	ze_remove(b->meeting, ze_name_drawn(answer, "welcome", rank, draw));
}

void ze_sweep(const struct zr_inst *b)
{
	DIR *d = list(b->meeting);
	struct dirent *e;
	int32_t rank;
	uint64_t number;

	while (d && (e = readdir(d))) {
		const char *name = e->d_name;
		if (ze_is_run(name, &number))
			sweep_run(b, name, number);
		else if (ze_is_drawn(name, "hello", &rank, &number))
			sweep_hello(b, name, rank, number);
		else if (ze_is_drawn(name, "welcome", &rank, &number))
			sweep_answer(b, name, rank, number);
		else if (!strncmp(name, "new-", 4) && is_old_name(b, name))
			ze_remove(b->meeting, name);
	}

	if (d)
		closedir(d);
}
