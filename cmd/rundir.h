/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.h - the directory of a run: resolved config, metrics, summary, weights. One that exists is refused,
 * unless the run goes on from a checkpoint. [main]
 */
#ifndef ZR_CMD_RUNDIR_H
#define ZR_CMD_RUNDIR_H

#include "core/config/config.h"

/* Whether [run] dir may be made, or if `resuming` is there; resolves `auto` to runs/<name of the INI>-<date>-<time>. Writes
 * nothing. */
int zr_rundir_check(struct zr_config *cfg, int resuming, struct zr_error *err);

/* Makes it; one that is there meanwhile is refused unless the run is `resuming`. *made: see below. */
int zr_rundir_make(struct zr_config *cfg, int resuming, int *made, struct zr_error *err);
int zr_rundir_write_config(const struct zr_config *cfg, struct zr_error *err); /* config.ini, as resolved */

/* Whether there is something at a path; *rc: an error, where that cannot be known. */
int zr_is_there(const char *path, int *rc, struct zr_error *err);

/* Any directory, with its parents. *made: how many were not there; 0 if it was there itself. unmake takes them back, with
 * or without the files in it; a directory that has others stays. */
int zr_dir_make(const char *dir, int *made, struct zr_error *err);
void zr_dir_unmake(const char *dir, int made, int with_files);

const char *zr_rundir(const struct zr_config *cfg);
const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n); /* path of a file in it */

#endif
