/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.h - the directory of a run: resolved config, metrics, summary, weights. A directory that
 * exists is refused, unless the run resumes from a checkpoint. [main]
 */
#ifndef ZR_CMD_RUNDIR_H
#define ZR_CMD_RUNDIR_H

#include "core/config/config.h"

/* Whether [run] dir may be made, or exists if `resuming`; resolves `auto` to runs/<name of the
 * INI>-<date>-<time>. Writes nothing. */
int zr_rundir_check(struct zr_config *cfg, int resuming, struct zr_error *err);

/* Makes it. A directory that was made meanwhile is refused unless the run is `resuming`. *made: see
 * below. */
int zr_rundir_make(struct zr_config *cfg, int resuming, int *made, struct zr_error *err);
/* writes config.ini, with resolved values */
int zr_rundir_write_config(const struct zr_config *cfg, struct zr_error *err);

/* Whether a path exists; *rc: the error if that cannot be found out. */
int zr_is_there(const char *path, int *rc, struct zr_error *err);

/* Makes any directory, with its parents. *made: how many were made; 0 if it existed. unmake removes
 * these, with or without the files in it; a directory that has other files stays. */
int zr_dir_make(const char *dir, int *made, struct zr_error *err);
void zr_dir_unmake(const char *dir, int made, int with_files);

const char *zr_rundir(const struct zr_config *cfg);
/* path of a file in it */
const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n);

#endif
