/* SPDX-License-Identifier: Apache-2.0
 *
 * saved.h - the parameters in the files of a checkpoint, by tensor, without the session that wrote
 * them. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_SAVED_H
#define ZR_TRAIN_WEIGHTS_SAVED_H

#include <limits.h>

#include "core/session.h"
#include "files/checkpoint/manifest.h"

/* All files of a checkpoint with their entries. Each of them may have parts of a tensor. */
struct zr_saved {
	struct zr_manifest m;
	char path[PATH_MAX];
	struct zr_st *file; /* [world] */
	struct zr_ckpt_entry **entry;
	int64_t *n, *next; /* entries of each file; number of the one that was read last */
	int32_t opened;
	const struct zr_ckpt_entry *have; /* what buf has; NULL: nothing */
	float *buf;
};

/* path: of one checkpoint. On failure there is nothing to close. */
int zr_saved_open(const char *path, struct zr_saved *out, struct zr_error *err);
void zr_saved_close(struct zr_saved *s);

/* Of a tensor that the checkpoint does not leave out; each entry that is read is compared with its
 * hash. arg: a struct zr_saved. */
zr_values_fn zr_saved_read;

/* ZR_EINVAL: the layout has other tensors than the checkpoint. */
int zr_saved_fits(const struct zr_saved *s, const struct zr_layout *l, struct zr_error *err);

/* Whether it leaves frozen tensors out, which are those of [model] path. */
int zr_saved_leaves_out(const struct zr_manifest *m);

/* Fills the masters from a checkpoint; frozen tensors that it leaves out come from [model] path.
 * Collective. */
int zr_weights_load_checkpoint(struct zr_session *s, const char *path, struct zr_error *err);

#endif
