/* SPDX-License-Identifier: Apache-2.0
 *
 * dir.c - see dir.h: names, the steps from written to durable, removal.
 */
#define _GNU_SOURCE
#include "core/checkpoint/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checkpoint/reader.h"
#include "core/log.h"

/* ---- names ---- */

#define STEP_DIR "step-%08" PRId64 "%s"

static void step_name(int64_t step, int tmp, char name[ZR_CKPT_NAME])
{
	snprintf(name, ZR_CKPT_NAME, STEP_DIR, step, tmp ? ".tmp" : "");
}

int zr_ckpt_path(const char *dir, int64_t step, int tmp, char path[PATH_MAX], struct zr_error *err)
{
	char name[ZR_CKPT_NAME];
	step_name(step, tmp, name);
	return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX - ZR_CKPT_NAME ? 0 :
		zr_err(err, ZR_EINVAL, "%s: a path too long", dir);
}

/* The step whose directory is called so; -1: another file. */
static int64_t step_of(const char *name, int tmp)
{
	char again[ZR_CKPT_NAME];
	int64_t step;
	if (sscanf(name, "step-%" SCNd64, &step) != 1 || step < 0)
		return -1;
	step_name(step, tmp, again);
	return strcmp(again, name) ? -1 : step;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static int64_t *list(const char *dir, int tmp, int64_t *n)
{
	int64_t *steps = NULL, room = 0;
	struct dirent *e;
	DIR *d = opendir(dir);
	*n = 0;
	while (d && (e = readdir(d))) {
		int64_t step = step_of(e->d_name, tmp);
		if (step >= 0 && *n == room) {
			room = room * 2 + 16;
			int64_t *more = realloc(steps, (size_t)room * sizeof *steps);
			if (!more)
				break;
			steps = more;
		}
		if (step >= 0)
			steps[(*n)++] = step;
	}
	if (d)
		closedir(d);
	if (steps)
		qsort(steps, (size_t)*n, sizeof *steps, ascending);
	return steps;
}

int64_t *zr_ckpt_steps(const char *dir, int64_t *n)
{
	return list(dir, 0, n);
}

int64_t zr_ckpt_latest(const char *dir)
{
	char path[PATH_MAX], name[ZR_CKPT_NAME] = "";
	if (snprintf(path, sizeof path, "%s/latest", dir) >= (int)sizeof path)
		return -1;
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	if (!fgets(name, sizeof name, f))
		*name = 0;
	fclose(f);
	name[strcspn(name, "\n")] = 0;
	return step_of(name, 0);
}

/* ---- removal ---- */

/* A directory of files, without directories in it. */
static int remove_dir(const char *path)
{
	char file[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(path);
	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    snprintf(file, sizeof file, "%s/%s", path, e->d_name) < (int)sizeof file)
			unlink(file);
	if (d)
		closedir(d);
	return rmdir(path) ? errno : 0;
}

void zr_ckpt_abandon(const char *dir, int64_t step)
{
	char path[PATH_MAX];
	if (!zr_ckpt_path(dir, step, 1, path, NULL))
		remove_dir(path);
}

/* It loses its name first: what has one is whole. */
int zr_ckpt_remove(const char *dir, int64_t step, struct zr_error *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	int rc = zr_ckpt_path(dir, step, 0, from, err);
	if (!rc)
		rc = zr_ckpt_path(dir, step, 1, to, err);
	if (rc)
		return rc;
	int no = rename(from, to) ? errno : remove_dir(to);
	return no ? zr_err(err, ZR_EIO, "%s: cannot remove: %s", from, strerror(no)) : 0;
}

int zr_ckpt_prune(const char *dir, int64_t step, int64_t keep, int64_t *removed, struct zr_error *err)
{
	int64_t n, whole = 0, *steps = zr_ckpt_steps(dir, &n);
	char path[PATH_MAX];
	int rc = 0;
	for (int64_t i = n - 1; !rc && keep > 0 && i >= 0; i--) {
		if (steps[i] > step || zr_ckpt_path(dir, steps[i], 0, path, NULL) || zr_ckpt_check(path, 0, NULL, NULL, NULL, NULL))
			continue;
		if (++whole <= keep)
			continue;
		rc = zr_ckpt_remove(dir, steps[i], err);
		if (!rc && removed)
			++*removed;
	}
	free(steps);
	return rc;
}

int64_t zr_ckpt_clear(const char *dir)
{
	int64_t n, removed = 0, *steps = list(dir, 1, &n);
	char path[PATH_MAX];
	for (int64_t i = 0; i < n; i++) {
		if (zr_ckpt_path(dir, steps[i], 1, path, NULL))
			continue;
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !remove_dir(path))
			removed++;
		if (fd >= 0)
			close(fd);
	}
	free(steps);
	return removed;
}

/* ---- writing ---- */

static int make_parents(const char *dir)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
		return ENAMETOOLONG;
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0777) && errno != EEXIST)
			return errno;
		*p = '/';
	}
	return mkdir(path, 0777) && errno != EEXIST ? errno : 0;
}

int zr_ckpt_begin(const char *dir, int64_t step, int *lock, struct zr_error *err)
{
	char path[PATH_MAX];
	int rc = zr_ckpt_path(dir, step, 1, path, err), no;
	if (rc)
		return rc;
	no = make_parents(dir);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot make the directory: %s", dir, strerror(no));
	zr_ckpt_clear(dir);
	if (mkdir(path, 0777))
		return zr_err(err, ZR_EIO, "%s: cannot make the directory: %s%s", path, strerror(errno),
			      errno == EEXIST ? ": another process writes it" : "");
	*lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*lock >= 0)
		flock(*lock, LOCK_EX | LOCK_NB);
	return 0;
}

static int sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), no;
	if (fd < 0)
		return errno;
	no = fsync(fd) && errno != EINVAL ? errno : 0; /* EINVAL: a file system that cannot, and need not */
	close(fd);
	return no;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), no;
	if (fd < 0)
		return errno;
	no = zr_write_all(fd, text, strlen(text));
	if (!no && fsync(fd))
		no = errno;
	if (close(fd) && !no)
		no = errno;
	return no;
}

/* A checkpoint of the same step may be there: one that was damaged, or of a training that was left. It goes only when
 * the new one has its name. */
static int take_name(const char *tmp, const char *path)
{
	if (!rename(tmp, path))
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return errno;
	if (renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE))
		return errno;
	remove_dir(tmp);
	return 0;
}

static int set_latest(const char *dir, int64_t step)
{
	char tmp[PATH_MAX], path[PATH_MAX], text[ZR_CKPT_NAME];
	snprintf(tmp, sizeof tmp, "%s/latest.tmp", dir);
	snprintf(path, sizeof path, "%s/latest", dir);
	snprintf(text, sizeof text, STEP_DIR "\n", step, "");
	int no = write_file(tmp, text);
	if (!no && rename(tmp, path))
		no = errno;
	return no ? no : sync_dir(dir);
}

int zr_ckpt_commit(const char *dir, const struct zr_manifest *m, struct zr_error *err)
{
	char tmp[PATH_MAX], path[PATH_MAX], file[PATH_MAX + 32];
	char *text = zr_manifest_text(m);
	int rc = zr_ckpt_path(dir, m->step, 1, tmp, err), no;
	if (!rc)
		rc = zr_ckpt_path(dir, m->step, 0, path, err);
	if (!rc && !text)
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory for the manifest", path);
	if (!rc) {
		snprintf(file, sizeof file, "%s/manifest.json", tmp);
		no = write_file(file, text);
		if (!no)
			no = sync_dir(tmp);
		if (!no)
			no = take_name(tmp, path);
		if (!no)
			no = sync_dir(dir);
		if (!no)
			no = set_latest(dir, m->step);
		if (no)
			rc = zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no));
	}
	free(text);
	return rc;
}

/* ---- checking ---- */

uint64_t zr_ckpt_bytes(const struct zr_manifest *m)
{
	uint64_t sum = 0;
	for (int32_t r = 0; r < m->world; r++)
		sum += m->file[r].bytes;
	return sum;
}

struct check {
	const struct zr_manifest *m;
	const char *path;
	zr_ckpt_progress *progress;
	void *arg;
	uint64_t done, all;
	struct zr_reader *reader;
};

static int count_entry(void *arg, const struct zr_ckpt_entry *e, void *data, struct zr_error *err)
{
	struct check *c = arg;
	(void)data, (void)err;
	c->done += e->bytes;
	if (c->progress)
		c->progress(c->arg, c->done, c->all);
	return 0;
}

static int check_entries(struct check *c, const struct zr_st *file, int32_t rank, struct zr_error *err)
{
	int64_t n;
	struct zr_ckpt_entry *e = zr_entries(c->m, rank, &n);
	int rc = e ? 0 : zr_err(err, ZR_ENOMEM, "%s: out of memory", c->path);
	if (!rc && file->n != n)
		rc = zr_err(err, ZR_EINVAL, "%s: %lld tensors, but the manifest declares %lld", file->path, (long long)file->n, (long long)n);
	if (!rc)
		rc = zr_reader_run(c->reader, c->m, file, e, n, count_entry, c, err);
	free(e);
	return rc;
}

static int check_size(const struct check *c, int32_t rank, struct zr_error *err)
{
	char path[PATH_MAX], name[ZR_CKPT_NAME];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s", c->path, zr_ckpt_file_name(rank, c->m->world, name));
	if (stat(path, &st))
		return zr_err(err, ZR_EINVAL, "%s: %s", path, strerror(errno));
	return (uint64_t)st.st_size == c->m->file[rank].bytes ? 0 :
		zr_err(err, ZR_EINVAL, "%s: %lld bytes, but the manifest says %llu", path, (long long)st.st_size,
		       (unsigned long long)c->m->file[rank].bytes);
}

int zr_ckpt_check(const char *path, int every_byte, zr_ckpt_progress *progress, void *arg, struct zr_manifest *m, struct zr_error *err)
{
	struct zr_manifest mine;
	struct zr_st file;
	int rc = zr_manifest_read(path, &mine, err);
	if (rc)
		return rc;
	struct check c = { .m = &mine, .path = path, .progress = progress, .arg = arg, .all = zr_ckpt_bytes(&mine) };
	if (every_byte && !(c.reader = zr_reader_new(0)))
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory", path);
	for (int32_t r = 0; !rc && r < mine.world; r++) {
		rc = every_byte ? zr_ckpt_open(&mine, path, r, &file, err) : check_size(&c, r, err);
		if (rc || !every_byte)
			continue;
		rc = check_entries(&c, &file, r, err);
		zr_st_close(&file);
	}
	zr_reader_free(c.reader);
	if (rc || !m)
		zr_manifest_free(&mine);
	else
		*m = mine;
	return rc;
}
