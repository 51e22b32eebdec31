/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.c - see rundir.h.
 */
#include "train/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"

const char *zr_rundir(const struct zr_config *cfg)
{
	return ((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir;
}

const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n)
{
	snprintf(buf, n, "%s/%s", zr_rundir(cfg), name);
	return buf;
}

/* runs/quickstart-20260131-235959, followed by -2, -3, ... if another run began in the same
 * second. */
static void name_run(const struct zr_config *cfg, char *out, size_t n)
{
	char ini[PATH_MAX] = "run", stamp[32];
	struct stat st;
	time_t now = time(NULL);
	struct tm tm;

	if (zr_config_path(cfg))
		snprintf(ini, sizeof ini, "%s", zr_config_path(cfg));
	char *base = basename(ini), *dot = strrchr(base, '.');
	if (dot && dot != base)
		*dot = 0;
	localtime_r(&now, &tm);
	strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
	snprintf(out, n, "runs/%s-%s", base, stamp);
	for (int i = 2; !lstat(out, &st) && i < 1000; i++)
		snprintf(out, n, "runs/%s-%s-%d", base, stamp, i);
}

int zr_is_there(const char *path, int *rc, struct zr_error *err)
{
	struct stat st;

	if (!stat(path, &st))
		return 1;
	if (errno != ENOENT)
		*rc = zr_err(err, ZR_EIO, "%s: %s", path, strerror(errno));
	return 0;
}

static int refuse_old(const struct zr_config *cfg, struct zr_error *err)
{
	const char *where = zr_config_source(cfg, "run", "dir");

	return zr_err(
		err, ZR_EINVAL,
		"%s: run directory %s exists already; go on from its checkpoint with --resume "
		"auto, choose another [run] dir or "
		"remove it",
		where ? where : "[run]", zr_rundir(cfg));
}

int zr_rundir_check(struct zr_config *cfg, int resuming, struct zr_error *err)
{
	struct stat st;
	char name[PATH_MAX];

	if (!strcmp(zr_rundir(cfg), "auto")) {
		name_run(cfg, name, sizeof name);
		return zr_config_set_auto(cfg, "run", "dir", name, err);
	}

	int no = resuming && stat(zr_rundir(cfg), &st) ? errno : 0;
	if (resuming && !no && S_ISDIR(st.st_mode))
		return 0;
	if ((!no || no == ENOENT) && !lstat(zr_rundir(cfg), &st))
		return refuse_old(cfg, err);
	if (errno != ENOENT)
		return zr_err(err, ZR_EINVAL, "run directory %s: %s", zr_rundir(cfg),
			      strerror(errno));
	return 0;
}

static int copy_path(char path[PATH_MAX], const char *dir)
{
	int n = snprintf(path, PATH_MAX, "%s", dir);
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;

	while (n > 1 && path[n - 1] == '/')
		path[--n] = 0;
	return 0;
}

/* Makes a directory unless it exists. Returns 0 or errno. */
static int make_one(const char *path, int *made)
{
	int no = mkdir(path, 0777) ? errno : 0;
	*made += !no;
	return no == EEXIST ? 0 : no;
}

int zr_dir_make(const char *dir, int *made, struct zr_error *err)
{
	char path[PATH_MAX];
	int parents = 0, own = 0, no = -copy_path(path, dir);

	for (char *p = no ? NULL : strchr(path + (*path == '/'), '/'); !no && p;
	     p = strchr(p + 1, '/')) {
		*p = 0;
		no = make_one(path, &parents);
		*p = '/';
	}

	if (!no)
		no = make_one(path, &own);
	*made = own ? parents + own : 0;
	if (!no)
		return 0;
	return zr_err(err, no == ENOSPC || no == EIO ? ZR_EIO : ZR_EINVAL,
		      "cannot make dir = %s: %s", dir, strerror(no));
}

static void empty(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;

	DIR *d = opendir(dir);
	while (d && (e = readdir(d)))
		if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path &&
		    strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlink(path);
	if (d)
		closedir(d);
}

void zr_dir_unmake(const char *dir, int made, int with_files)
{
	char path[PATH_MAX];

	if (!made || copy_path(path, dir))
		return;
	if (with_files)
		empty(path);
	for (; made && !rmdir(path); made--) {
		char *slash = strrchr(path, '/');
		if (!slash)
			break;

		*slash = 0;
	}
}

int zr_rundir_make(struct zr_config *cfg, int resuming, int *made, struct zr_error *err)
{
	struct zr_error why = { 0 };
	const char *where = zr_config_source(cfg, "run", "dir");

	int rc = zr_dir_make(zr_rundir(cfg), made, &why);
	if (rc)
		return zr_err(err, rc, "%s: [run] %s", where ? where : "-o", why.text);
	return *made || resuming ? 0 : refuse_old(cfg, err); /* another run has made it meanwhile */
}

int zr_dir_has(const char *dir, const char *name, char path[PATH_MAX])
{
	char own[PATH_MAX];

	if (!path)
		path = own;
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		return 0;
	if (!access(path, F_OK))
		errno = 0;
	/* what cannot be looked at is there: whoever opens it says why */
	return errno != ENOENT && errno != ENOTDIR;
}

struct zr_dir_kind zr_dir_look(const char *dir)
{
	struct zr_dir_kind kind = { .run = zr_dir_has(dir, "config.ini", NULL) };

	if (!kind.run) {
		kind.model = zr_dir_has(dir, "config.json", NULL);
		return kind;
	}

	kind.weights = zr_dir_has(dir, "model.safetensors", NULL);
	kind.adapters = zr_dir_has(dir, "adapter_model.safetensors", NULL);
	kind.unseen = kind.adapters ? errno : 0;
	return kind;
}

long long zr_run_steps(const char *run)
{
	char path[PATH_MAX];
	json_t *j = zr_dir_has(run, "summary.json", path) ? json_load_file(path, 0, NULL) : NULL;
	json_t *steps = json_object_get(j, "steps");
	long long n = steps ? (long long)json_integer_value(steps) : -1;

	json_decref(j);
	return n;
}

int zr_dir_with_model(const char *dir, struct zr_dir_kind *out, struct zr_error *err)
{
	struct stat st;

	*out = zr_dir_look(dir);
	if (out->unseen)
		return zr_err(err, ZR_EIO, "%s/adapter_model.safetensors: %s", dir,
			      strerror(out->unseen));
	if (out->model || out->weights || out->adapters)
		return 0;
	if (stat(dir, &st))
		return zr_err(err, errno == ENOENT ? ZR_EINVAL : ZR_EIO, "%s: %s", dir,
			      strerror(errno));
	return zr_err(err, ZR_EINVAL,
		      out->run ? "%s: the run has no model.safetensors yet: it ends with one; a "
				 "checkpoint is made a model by `zeroth checkpoint export`" :
				 "%s: neither a run, which has config.ini, nor a model's "
				 "directory, which has config.json",
		      dir);
}

int zr_new_dir_make(const char *dir, const char *tmp, int replace, struct zr_error *err)
{
	struct stat st;

	if (!replace && !lstat(dir, &st))
		return zr_err(err, ZR_EINVAL,
			      "%s exists already; choose another directory or remove it", dir);
	zr_remove(AT_FDCWD, tmp);
	if (!mkdir(tmp, 0777))
		return 0;
	return zr_err(err, errno == ENOENT || errno == ENOTDIR ? ZR_EINVAL : ZR_EIO,
		      "%s: cannot make the directory: %s", tmp, strerror(errno));
}

/* Durable before it gets its name; then the one goes that had it. */
int zr_new_dir_take(const char *dir, const char *tmp, int replace, struct zr_error *err)
{
	int fd = zr_dir_open(AT_FDCWD, tmp, 0), no = fd < 0 ? errno : zr_sync_dir(fd);
	if (fd >= 0)
		close(fd);
	if (!no && replace)
		no = zr_take_name(AT_FDCWD, tmp, dir);
	else if (!no)
		no = rename(tmp, dir) ? errno : zr_sync_parent(dir);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot rename to %s: %s", tmp, dir, strerror(no));
	return 0;
}

int zr_keep_file(const char *path, int force, struct zr_error *err)
{
	struct stat st;

	if (force || stat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s exists already; choose another name, or --force "
		      "replaces it",
		      path);
}

int zr_put_text(const char *path, const char *text, struct zr_error *err)
{
	char tmp[PATH_MAX + 8];

	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	int no;
	if (text)
		no = zr_file_put(AT_FDCWD, tmp, text, strlen(text));
	else
		no = ENOMEM;
	if (no && text)
		unlink(tmp);
	if (!no)
		no = zr_take_name(AT_FDCWD, tmp, path);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no));
	return 0;
}

char *zr_rundir_config_text(const struct zr_config *cfg)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int bad = !f || zr_config_write_ini(cfg, f, 1);

	/* when memory runs out, fclose may succeed without a text */
	bad |= f && fclose(f);
	if (bad)
		free(text);
	return bad ? NULL : text;
}

int zr_rundir_write_config(const struct zr_config *cfg, struct zr_error *err)
{
	char path[PATH_MAX], *text = zr_rundir_config_text(cfg);
	int rc = zr_put_text(zr_rundir_file(cfg, "config.ini", path, sizeof path), text, err);
	free(text);
	return rc;
}
