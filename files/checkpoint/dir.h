/* SPDX-License-Identifier: Apache-2.0
 *
 * dir.h - a directory of checkpoints: step-00000050/ and so on, and `latest`, a text with the name
 * of the one that was finished last, and perhaps `best`, likewise of the one with the lowest loss.
 * While it is written or removed, a checkpoint is called step-00000050.tmp; what has the plain name
 * was whole when it got it (invariant I6). [main], or one thread at a time on one rank.
 */
#ifndef ZR_FILES_CKPT_DIR_H
#define ZR_FILES_CKPT_DIR_H

#include <limits.h>

#include "files/checkpoint/manifest.h"

/* DIR/step-00000050, or its .tmp, into path. 0, or an error: the path is too long. */
int zr_ckpt_path(const char *dir, int64_t step, int tmp, char path[PATH_MAX], struct zr_error *err);

/* The steps that have a directory, or one that was not finished, ascending; returned owned, NULL
 * with *n = 0 if there are none, or -errno if the directory cannot be read. */
int64_t *zr_ckpt_steps(const char *dir, int unfinished, int64_t *n);
#define ZR_LATEST_NONE    (-1)
#define ZR_LATEST_DAMAGED (-2)
/* The step that the file `name` names, or one of these. errno says why it is damaged; 0: it was
 * read, and names no step. */
int64_t zr_ckpt_named(const char *dir, const char *name);

/* Makes DIR and an empty DIR/step.tmp, whose descriptor *lock keeps others from taking it for a
 * leftover. Removes what earlier processes left unfinished. */
int zr_ckpt_begin(const char *dir, int64_t step, int *lock, struct zr_error *err);
/* Writes the manifest into DIR/step.tmp and reads it back, renames DIR/step.tmp to DIR/step, and
 * lets `latest` name it; with keep_best, `best` names the step that the manifest says is the best.
 * Each is durable before the next one begins. */
int zr_ckpt_commit(const char *dir, const struct zr_manifest *m, int keep_best,
		   struct zr_error *err);
void zr_ckpt_abandon(const char *dir, int64_t step); /* removes DIR/step.tmp */

/* Removes a checkpoint. */
int zr_ckpt_remove(const char *dir, int64_t step, struct zr_error *err);
/* Removes checkpoints up to `step`, but for the newest `keep` whole ones, the one that `best` names
 * and those that are not whole; keep = 0: none. Adds to *removed, if that is not NULL, how many. */
int zr_ckpt_prune(const char *dir, int64_t step, int64_t keep, int64_t *removed,
		  struct zr_error *err);
/* Removes every DIR/step.tmp that no process is writing. Returns their number. */
int64_t zr_ckpt_clear(const char *dir);

/* Whether a checkpoint is whole, with its manifest in *m if that is not NULL. every_byte: all
 * checksums; else the manifest's, and the sizes of the files. progress: called after each entry
 * with the bytes read so far. */
typedef void zr_ckpt_progress(void *arg, uint64_t done, uint64_t all);
int zr_ckpt_check(const char *path, int every_byte, zr_ckpt_progress *progress, void *arg,
		  struct zr_manifest *m, struct zr_error *err);
uint64_t zr_ckpt_bytes(const struct zr_manifest *m); /* of all files but the manifest */

#endif
