/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.h - the master parameters as a safetensors file with canonical (Hugging Face's) names. It
 * is written under a temporary name, synced and renamed, so that a file of that name is complete.
 * [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_H
#define ZR_TRAIN_WEIGHTS_H

#include "core/session.h"

/* Collective: every rank calls, rank 0 writes. */
int zr_weights_save(struct zr_session *s, const char *path, struct zr_error *err);

/* The same of what an adapter added and what it does not freeze, under names with `prefix` before
 * them. Collective. */
int zr_weights_save_adapter(struct zr_session *s, const char *path, const char *prefix,
			    struct zr_error *err);
/* The same without a session: fn gives the values. */
int zr_weights_write_adapter(const struct zr_setup *s, const char *path, const char *prefix,
			     zr_values_fn *fn, void *arg, struct zr_error *err);

/* Fills the masters from the file (tensors of the same names and shapes) and publishes them. Each
 * rank reads only what it holds. */
int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err);

/* XXH3-64 over the fp32 bits of the masters in canonical order, padding left out. Collective. */
int zr_weights_digest(struct zr_session *s, uint64_t *digest, struct zr_error *err);

/* ---- weights_files.c ---- */

struct zr_tensor_files;

/* Files with the values of a setup's tensors: each is read from the first that has it. */
struct zr_weights_files {
	struct zr_tensor_files *adapter, *model; /* NULL: none */
};
/* Those of [model] path and [adapter] path. On failure there is nothing to close. */
int zr_weights_files_open(struct zr_setup *s, struct zr_weights_files *out, struct zr_error *err);
void zr_weights_files_close(struct zr_weights_files *f); /* zeroed ones are fine */
zr_values_fn zr_weights_files_read;                      /* arg: a struct zr_weights_files */
int zr_weights_files_have(const struct zr_weights_files *f, int32_t i);

/* Sets the masters and states with which a training starts: random values of the seed, or the
 * tensors of [model] path and of [adapter] path. Collective. */
int zr_weights_begin(struct zr_session *s, struct zr_error *err);

#endif
