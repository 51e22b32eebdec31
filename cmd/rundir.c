/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.c - see rundir.h.
 */
#define _GNU_SOURCE
#include "cmd/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *zr_rundir(const struct zr_config *cfg)
{
	return ((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir;
}

const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n)
{
	snprintf(buf, n, "%s/%s", zr_rundir(cfg), name);
	return buf;
}

/* runs/quickstart-20260131-235959, with -2, -3, ... behind if that second has one already. */
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

int zr_rundir_check(struct zr_config *cfg, int resuming, struct zr_error *err)
{
	struct stat st;
	char name[PATH_MAX];
	if (!strcmp(zr_rundir(cfg), "auto")) {
		name_run(cfg, name, sizeof name);
		return zr_config_set_auto(cfg, "run", "dir", name, err);
	}
	if (resuming && !stat(zr_rundir(cfg), &st) && S_ISDIR(st.st_mode))
		return 0;
	if (!lstat(zr_rundir(cfg), &st)) {
		const char *where = zr_config_source(cfg, "run", "dir");
		return zr_err(err, ZR_EINVAL, "%s: run directory %s exists already; go on from its checkpoint with --resume auto, choose another [run] dir or "
			      "remove it",
			      where ? where : "[run]", zr_rundir(cfg));
	}
	if (errno != ENOENT)
		return zr_err(err, ZR_EINVAL, "run directory %s: %s", zr_rundir(cfg), strerror(errno));
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

/* Parents as needed. Counts in *made what was not there. */
static int make_path(const char *dir, int *made)
{
	char path[PATH_MAX];
	int rc = copy_path(path, dir);
	if (rc)
		return rc;
	for (char *p = strchr(path + (*path == '/'), '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		if (!mkdir(path, 0777))
			++*made;
		else if (errno != EEXIST)
			return -errno;
		*p = '/';
	}
	if (!mkdir(path, 0777))
		++*made;
	else if (errno != EEXIST)
		return -errno;
	return 0;
}

int zr_rundir_make(struct zr_config *cfg, int *made, struct zr_error *err)
{
	char path[PATH_MAX];
	const char *where = zr_config_source(cfg, "run", "dir");
	int rc = make_path(zr_rundir(cfg), made);
	if (rc)
		return zr_err(err, rc == -ENOSPC || rc == -EIO ? ZR_EIO : ZR_EINVAL, "%s: [run] cannot make dir = %s: %s",
			      where ? where : "-o", zr_rundir(cfg), strerror(-rc));
	FILE *f = fopen(zr_rundir_file(cfg, "config.ini", path, sizeof path), "we");
	if (!f)
		return zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(errno));
	rc = zr_config_write_ini(cfg, f, 1);
	if (fclose(f) || rc)
		return zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(errno));
	return 0;
}

static void empty(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);
	while (d && (e = readdir(d)))
		if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path && strcmp(e->d_name, ".") &&
		    strcmp(e->d_name, ".."))
			unlink(path);
	if (d)
		closedir(d);
}

void zr_rundir_unmake(const struct zr_config *cfg, int made)
{
	char path[PATH_MAX];
	if (!made || copy_path(path, zr_rundir(cfg)))
		return;
	empty(path);
	for (; made && !rmdir(path); made--) {
		char *slash = strrchr(path, '/');
		if (!slash)
			break;
		*slash = 0;
	}
}
