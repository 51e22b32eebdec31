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

/* Makes it if it is not there and writes config.ini, the config as resolved. *made: directories that it took, parents
 * included. */
int zr_rundir_make(struct zr_config *cfg, int *made, struct zr_error *err);
/* Takes that back, with the files in it: a run that was refused leaves nothing. */
void zr_rundir_unmake(const struct zr_config *cfg, int made);

const char *zr_rundir(const struct zr_config *cfg);
const char *zr_rundir_file(const struct zr_config *cfg, const char *name, char *buf, size_t n); /* path of a file in it */

#endif
