/* SPDX-License-Identifier: Apache-2.0
 *
 * dir.c - see dir.h: names, the steps from written to durable, removal.
 */
#include "files/checkpoint/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "files/checkpoint/reader.h"

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
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX - ZR_CKPT_NAME)
		return 0;

	return zr_err(err, ZR_EINVAL, "%s: a path too long", dir);
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

/* Appends a step to a list. Returns an errno. */
static int add_step(int64_t **steps, int64_t *n, int64_t *room, int64_t step)
{
	if (*n == *room) {
		int64_t *more = realloc(*steps, (size_t)(*room * 2 + 16) * sizeof *more);
		if (!more)
			return ENOMEM;

		*room = *room * 2 + 16;
		*steps = more;
	}

	(*steps)[(*n)++] = step;
	return 0;
}

int64_t *zr_ckpt_steps(const char *dir, int unfinished, int64_t *n)
{
	int64_t *steps = NULL, room = 0;
	struct dirent *e;
	DIR *d = opendir(dir);
	int no = 0;

	*n = 0;
	if (!d) {
		if (errno != ENOENT && errno != ENOTDIR)
			*n = -errno;
		return NULL;
	}

	while (!no && (errno = 0, e = readdir(d))) {
		int64_t step = step_of(e->d_name, unfinished);
		if (step >= 0)
			no = add_step(&steps, n, &room, step);
	}

	if (!no)
		no = errno;
	closedir(d);
	if (steps && !no)
		qsort(steps, (size_t)*n, sizeof *steps, ascending);
	if (!no)
		return steps;

	free(steps);
	*n = -no;
	return NULL;
}

int64_t zr_ckpt_named(const char *dir, const char *name)
{
	int at = zr_dir_open(AT_FDCWD, dir, 1);
	char *text = NULL;
	size_t n;
	int no;

	if (at < 0)
		no = errno;
	else
		no = zr_file_text(at, name, 0, ZR_CKPT_NAME, &text, &n);
	zr_ckpt_close(at);
	if (!no)
		text[strcspn(text, "\n")] = 0;
	int64_t step = -1;
	if (!no)
		step = step_of(text, 0);
	free(text);
	errno = no;
	if (no == ENOENT)
		return ZR_LATEST_NONE;
	if (step < 0)
		return ZR_LATEST_DAMAGED;

	return step;
}

/* ---- removal ---- */

/* What has the name of an unfinished checkpoint is ours; what a link points to is not. */
void zr_ckpt_abandon(const char *dir, int64_t step)
{
	char name[ZR_CKPT_NAME];
	int at = zr_dir_open(AT_FDCWD, dir, 1);

	step_name(step, 1, name);
	if (at >= 0)
		zr_remove(at, name);
	zr_ckpt_close(at);
}

/* It loses its name first, durably: what has one is whole. */
int zr_ckpt_remove(const char *dir, int64_t step, struct zr_error *err)
{
	char from[ZR_CKPT_NAME], to[ZR_CKPT_NAME];
	int at = zr_dir_open(AT_FDCWD, dir, 1), no = at < 0 ? errno : 0;

	step_name(step, 0, from);
	step_name(step, 1, to);
	if (!no)
		no = zr_take_name(at, from, to);
	if (!no)
		no = zr_remove(at, to);
	zr_ckpt_close(at);
	if (no)
		return zr_err(err, ZR_EIO, "%s/%s: cannot remove: %s", dir, from, strerror(no));

	return 0;
}

int zr_ckpt_prune(const char *dir, int64_t step, int64_t keep, int64_t *removed,
		  struct zr_error *err)
{
	int64_t n, whole = 0, *steps = zr_ckpt_steps(dir, 0, &n), best = zr_ckpt_named(dir, "best");
	char path[PATH_MAX];
	int rc = 0;
	if (n < 0)
		rc = zr_err(err, ZR_EIO, "%s: cannot read the directory: %s", dir,
			    strerror((int)-n));
	for (int64_t i = n - 1; !rc && keep > 0 && i >= 0; i--) {
		struct zr_error why = { 0 };
		if (steps[i] > step || zr_ckpt_path(dir, steps[i], 0, path, NULL))
			continue;

		int bad = zr_ckpt_check(path, 0, NULL, NULL, NULL, &why);
		if (bad && bad != ZR_EINVAL) /* it may be whole */
			rc = zr_err(err, bad, "%s", why.text);
		if (bad || ++whole <= keep || steps[i] == best)
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
	int64_t n, removed = 0, *steps = zr_ckpt_steps(dir, 1, &n);
	int at = zr_dir_open(AT_FDCWD, dir, 1);
	char name[ZR_CKPT_NAME];

	for (int64_t i = 0; at >= 0 && i < n; i++) {
		step_name(steps[i], 1, name);
		int fd = zr_dir_open(at, name, 0),
		    other = fd < 0 && (errno == ENOTDIR || errno == ELOOP);
		if ((other || (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))) && !zr_remove(at, name))
			removed++;
		zr_ckpt_close(fd);
	}

	zr_ckpt_close(at);
	free(steps);
	return removed;
}

/* ---- writing ---- */

/* With all parents, whose names are durable when the last one was made. */
static int make_dir(const char *dir)
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

	if (mkdir(path, 0777))
		return errno == EEXIST ? 0 : errno;

	int no = zr_sync_parent(path);
	/* as far up as this user may */
	for (char *p; !no && (p = strrchr(path, '/')) && p > path; zr_sync_parent(path))
		*p = 0;

	return no;
}

int zr_ckpt_begin(const char *dir, int64_t step, int *lock, struct zr_error *err)
{
	char path[PATH_MAX], *name = path + strlen(dir) + 1;
	int rc = zr_ckpt_path(dir, step, 1, path, err), no;
	if (rc)
		return rc;

	no = make_dir(dir);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot make the directory: %s", dir, strerror(no));

	zr_ckpt_clear(dir);
	int at = zr_dir_open(AT_FDCWD, dir, 1);
	if (at < 0 || mkdirat(at, name, 0777) || (*lock = zr_dir_open(at, name, 0)) < 0)
		no = errno;
	else
		no = 0;
	zr_ckpt_close(at);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot make the directory: %s%s", path,
			      strerror(no), no == EEXIST ? ": another process writes it" : "");

	flock(*lock, LOCK_EX | LOCK_NB);
	return 0;
}

/* The manifest, durable, and as it reads back; with it all files are there, and as large as it
 * says. */
static int write_manifest(int at, const char *tmp, const struct zr_manifest *m,
			  struct zr_error *err)
{
	struct zr_manifest back;
	char *text = zr_manifest_text(m);
	int no = ENOMEM;

	if (text)
		no = zr_file_put(at, "manifest.json", text, strlen(text));
	if (!no)
		no = zr_sync_dir(at);
	int rc;
	if (no)
		rc = zr_err(err, ZR_EIO, "%s/manifest.json: cannot write: %s", tmp, strerror(no));
	else
		rc = zr_ckpt_check(tmp, 0, NULL, NULL, &back, err);
	if (!rc) {
		rc = zr_manifest_same(m, text, &back, err);
		zr_manifest_free(&back);
	}

	free(text);
	return rc;
}

static int set_name(int at, const char *name, int64_t step)
{
	char text[ZR_CKPT_NAME], tmp[ZR_CKPT_NAME];
	int n = snprintf(text, sizeof text, STEP_DIR "\n", step, "");

	snprintf(tmp, sizeof tmp, "%s.tmp", name);
	int no = zr_file_put(at, tmp, text, (size_t)n);
	if (no)
		return no;
	if (renameat(at, tmp, at, name))
		return errno;

	return zr_sync_dir(at);
}

/* Lets `latest` name the checkpoint, and `best` the best one where that is there. */
static int name_newest(int top, const struct zr_manifest *m, int keep_best)
{
	char best[ZR_CKPT_NAME];
	int no = set_name(top, "latest", m->step);

	step_name(m->best.step, 0, best);
	if (no || !keep_best || faccessat(top, best, F_OK, 0))
		return no;

	return set_name(top, "best", m->best.step);
}

/* A checkpoint of the same step may be there: one that was damaged, or of a training that was left.
 * It goes only when the new one has its name. */
int zr_ckpt_commit(const char *dir, const struct zr_manifest *m, int keep_best,
		   struct zr_error *err)
{
	char path[PATH_MAX], tmp[ZR_CKPT_NAME], name[ZR_CKPT_NAME];
	int rc = zr_ckpt_path(dir, m->step, 1, path, err);
	if (rc)
		return rc;

	step_name(m->step, 1, tmp);
	step_name(m->step, 0, name);
	int top = zr_dir_open(AT_FDCWD, dir, 1), at = -1, no;
	if (top >= 0)
		at = zr_dir_open(top, tmp, 0);

	if (at < 0)
		rc = zr_file_failed(err, path, "", errno);
	else
		rc = write_manifest(at, path, m, err);
	if (!rc && (no = zr_take_name(top, tmp, name)))
		rc = zr_err(err, ZR_EIO, "%s/%s: cannot give it its name: %s", dir, name,
			    strerror(no));
	if (!rc && (no = name_newest(top, m, keep_best)))
		rc = zr_err(err, ZR_EIO, "%s/latest or best: cannot write: %s", dir, strerror(no));

	zr_ckpt_close(at);
	zr_ckpt_close(top);
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

static int check_entries(struct check *c, const struct zr_st *file, int32_t rank,
			 struct zr_error *err)
{
	int64_t n;
	struct zr_ckpt_entry *e = zr_entries(c->m, rank, &n);
	int rc = 0;

	if (!e)
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory", c->path);
	if (!rc && file->n != n)
		rc = zr_err(err, ZR_EINVAL, "%s: %lld tensors, but the manifest declares %lld",
			    file->path, (long long)file->n, (long long)n);
	if (!rc)
		rc = zr_reader_run(c->reader, c->m, file, e, n, count_entry, c, err);
	free(e);
	return rc;
}

static int check_size(const struct check *c, int32_t rank, struct zr_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	int fd = zr_ckpt_file_path(c->m, c->path, rank, path),
	    no = fd < 0 || fstat(fd, &st) ? errno : 0;

	zr_ckpt_close(fd);
	if (no)
		return zr_file_failed(err, path, "", no);
	if ((uint64_t)st.st_size == c->m->file[rank].bytes)
		return 0;

	return zr_err(err, ZR_EINVAL, "%s: %lld bytes, but the manifest says %llu", path,
		      (long long)st.st_size, (unsigned long long)c->m->file[rank].bytes);
}

int zr_ckpt_check(const char *path, int every_byte, zr_ckpt_progress *progress, void *arg,
		  struct zr_manifest *m, struct zr_error *err)
{
	struct zr_manifest mine;
	struct zr_st file;
	int rc = zr_manifest_read(path, &mine, err);
	if (rc)
		return rc;

	struct check c = { .m = &mine,
			   .path = path,
			   .progress = progress,
			   .arg = arg,
			   .all = zr_ckpt_bytes(&mine) };
	if (every_byte && !(c.reader = zr_reader_new(0)))
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory", path);
	for (int32_t r = 0; !rc && r < mine.world; r++) {
		if (every_byte)
			rc = zr_ckpt_open(&mine, path, r, &file, err);
		else
			rc = check_size(&c, r, err);
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
