/* SPDX-License-Identifier: Apache-2.0
 *
 * resume.h - where a run keeps its checkpoints, and from which one it resumes. [main]
 */
#ifndef ZR_TRAIN_RESUME_H
#define ZR_TRAIN_RESUME_H

#include <limits.h>

#include "core/config/config.h"

/* A checkpoint or a directory of checkpoints at or below `path`, which may also be a run
 * directory. */
int zr_checkpoints_at(const char *path, char out[PATH_MAX], struct zr_error *err);

/* What --resume means: "auto" is the directory of the config, which need not exist yet; otherwise
 * it is a path as above. */
int zr_resume_path(const struct zr_config *cfg, const char *resume, char out[PATH_MAX],
		   struct zr_error *err);

/* The directory that a run saves to; [run] dir is resolved. */
int zr_checkpoint_dir(const struct zr_config *cfg, char out[PATH_MAX], struct zr_error *err);

/* Refuses a directory that already has checkpoints, unless this training resumes from them. */
int zr_checkpoint_dir_check(const struct zr_config *cfg, struct zr_error *err);

#endif
