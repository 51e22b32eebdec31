/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.h - the directory of a run: resolved config, metrics, summary, weights. A directory that
 * exists is refused, unless the run resumes from a checkpoint. [main]
 */
#ifndef ZR_TRAIN_RUNDIR_H
#define ZR_TRAIN_RUNDIR_H

#include <limits.h>

#include "core/config/config.h"

/* Whether [run] dir may be made, or exists if `resuming`; resolves `auto` to runs/<name of the
 * INI>-<date>-<time>. Writes nothing. */
int zr_rundir_check(struct zr_config *cfg, int resuming, struct zr_error *err);

/* Makes it. A directory that was made meanwhile is refused unless the run is `resuming`. *made: see
 * below. */
int zr_rundir_make(struct zr_config *cfg, int resuming, int *made, struct zr_error *err);
/* The text of config.ini, with resolved values, owned; NULL: memory ran out. And writes it. */
char *zr_rundir_config_text(const struct zr_config *cfg);
int zr_rundir_write_config(const struct zr_config *cfg, struct zr_error *err);

/* Refuses to write over a file, unless `force` is set. */
int zr_keep_file(const char *path, int force, struct zr_error *err);

/* Writes a file under another name, which it then takes. text NULL: memory ran out. */
int zr_put_text(const char *path, const char *text, struct zr_error *err);

/* Whether a path exists; *rc: the error if that cannot be found out. */
int zr_is_there(const char *path, int *rc, struct zr_error *err);

/* Makes any directory, with its parents. *made: how many were made; 0 if it existed. unmake removes
 * these, with or without the files in it; a directory that has other files stays. */
int zr_dir_make(const char *dir, int *made, struct zr_error *err);
void zr_dir_unmake(const char *dir, int made, int with_files);

/* What a directory is: a run's, with config.ini, or that of a model of Hugging Face, with
 * config.json. */
struct zr_dir_kind {
	int run, model;
	/* of a run: that has weights, model.safetensors, or adapters, which are all that it has
	 * where its model is in [model] path */
	int weights, adapters;
	int unseen; /* errno, where it cannot be known whether there are adapters */
};
struct zr_dir_kind zr_dir_look(const char *dir);
/* The same of what must have a model that can be used: a run that ended, or a model's directory. */
int zr_dir_with_model(const char *dir, struct zr_dir_kind *out, struct zr_error *err);
/* Steps after which a run has what it left at its end, by summary.json; -1: not known. */
long long zr_run_steps(const char *run);
/* Whether it has a file, whose path goes to `path`; NULL: not wanted. */
int zr_dir_has(const char *dir, const char *name, char path[PATH_MAX]);

/* A new directory `dir`, of which nothing is seen before it is complete: made as `tmp`, without
 * what an earlier attempt left, and then given its name, durably. One that exists is refused, or
 * replaced. */
int zr_new_dir_make(const char *dir, const char *tmp, int replace, struct zr_error *err);
int zr_new_dir_take(const char *dir, const char *tmp, int replace, struct zr_error *err);

const char *zr_rundir(const struct zr_config *cfg);
/* path of a file in it */
const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n);

#endif
