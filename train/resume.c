/* SPDX-License-Identifier: Apache-2.0
 *
 * resume.c - see resume.h.
 */
#include "train/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "files/checkpoint/dir.h"
#include "train/rundir.h"

static const char *dir_option(const struct zr_config *cfg)
{
	return ((const struct zr_checkpoint_opts *)zr_config_find(cfg, "checkpoint")->opts)->dir;
}

static int join(const char *dir, const char *name, char out[PATH_MAX], struct zr_error *err)
{
	if (snprintf(out, PATH_MAX, "%s%s%s", dir, *name ? "/" : "", name) < PATH_MAX - 128)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: a path too long", dir);
}

/* Refuses a symbolic link, through which a save would delete and write in a directory that nobody
 * named. */
static int in_run(const char *run, char out[PATH_MAX], struct zr_error *err)
{
	char target[PATH_MAX];
	int rc = join(run, "checkpoints", out, err);

	ssize_t n = rc ? -1 : readlink(out, target, sizeof target);
	if (n < 0)
		return rc;
	return zr_err(err, ZR_EINVAL,
		      "%s is a symbolic link, and none is followed in a run directory: "
		      "give what it points to, "
		      "[checkpoint] dir = %.*s",
		      out, (int)n, target);
}

int zr_checkpoints_at(const char *path, char out[PATH_MAX], struct zr_error *err)
{
	struct stat st;

	if (stat(path, &st))
		return zr_err(err, zr_file_code(errno), "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return zr_err(err, ZR_EINVAL, "%s: not a directory", path);

	int rc = join(path, "manifest.json", out, err);
	if (rc)
		return rc;

	const int is_checkpoint = zr_is_there(out, &rc, err);
	if (rc)
		return rc;
	if (is_checkpoint)
		return join(path, "", out, err);

	rc = in_run(path, out, err);
	return rc || zr_is_there(out, &rc, err) || rc ? rc : join(path, "", out, err);
}

int zr_resume_path(const struct zr_config *cfg, const char *resume, char out[PATH_MAX],
		   struct zr_error *err)
{
	if (strcmp(resume, "auto"))
		return zr_checkpoints_at(resume, out, err);
	if (!strcmp(dir_option(cfg), "auto") && !strcmp(zr_rundir(cfg), "auto"))
		return zr_err(
			err, ZR_EINVAL,
			"--resume auto: [run] dir and [checkpoint] dir are auto, so there is no "
			"place to look: give one "
			"of them, or --resume PATH");
	return zr_checkpoint_dir(cfg, out, err);
}

int zr_checkpoint_dir(const struct zr_config *cfg, char out[PATH_MAX], struct zr_error *err)
{
	if (strcmp(dir_option(cfg), "auto"))
		return join(dir_option(cfg), "", out, err);
	return in_run(zr_rundir(cfg), out, err);
}

int zr_checkpoint_dir_check(const struct zr_config *cfg, struct zr_error *err)
{
	char dir[PATH_MAX];
	int64_t n;

	int rc = zr_checkpoint_dir(cfg, dir, err);
	if (rc)
		return rc;

	free(zr_ckpt_steps(dir, 0, &n));
	if (n < 0)
		return zr_err(err, ZR_EIO, "[checkpoint] dir = %s: %s", dir, strerror((int)-n));
	if (!n)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "[checkpoint] dir = %s has checkpoints already: go on from them with "
		      "--resume auto, or choose "
		      "another directory",
		      dir);
}
