/* SPDX-License-Identifier: Apache-2.0
 *
 * saved.h - the parameters in the files of a checkpoint, and what optimizers keep of them, by
 * tensor, without the session that wrote them. [main]
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
	/* Makes fp32 of an entry of a state, from `raw`, which has zeros up to the end of its last
	 * block; NULL: states of ZR_F32 alone are read. */
	int (*convert)(void *arg, const struct zr_ckpt_entry *e, void *raw, float *to,
		       struct zr_error *err);
	void *convert_arg;
	float *converted; /* what it made of buf; NULL: nothing yet */
};

/* path: of one checkpoint. On failure there is nothing to close. */
int zr_saved_open(const char *path, struct zr_saved *out, struct zr_error *err);
void zr_saved_close(struct zr_saved *s);

/* Of a tensor that the checkpoint does not leave out; each entry that is read is compared with its
 * hash. arg: a struct zr_saved. */
zr_values_fn zr_saved_read;

/* The same of state number `state` of the tensor's optimizer, from 0; -1: of its master, also where
 * a state evaluates. */
int zr_saved_read_state(struct zr_saved *s, int32_t tensor, int32_t state, int64_t first, int64_t n,
			float *x, struct zr_error *err);

/* ZR_EINVAL: the layout has other tensors than the checkpoint. */
int zr_saved_fits(const struct zr_saved *s, const struct zr_layout *l, struct zr_error *err);

/* Whether it leaves frozen tensors out, which are those of [model] path. */
int zr_saved_leaves_out(const struct zr_manifest *m);

/* Fills the masters from a checkpoint; frozen tensors that it leaves out come from [model] path.
 * Collective. */
int zr_weights_load_checkpoint(struct zr_session *s, const char *path, struct zr_error *err);

#endif
