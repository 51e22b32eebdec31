/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.h - the master parameters as a safetensors file with canonical (Hugging Face's) names. It
 * is written under a temporary name, synced and renamed, so that a file of that name is complete.
 * [main]
 */
#ifndef ZR_CMD_WEIGHTS_H
#define ZR_CMD_WEIGHTS_H

#include "core/session.h"

/* Collective: every rank calls, rank 0 writes. */
int zr_weights_save(struct zr_session *s, const char *path, struct zr_error *err);

/* The same of what is trained alone, under names with `prefix` before them. Collective. */
int zr_weights_save_trained(struct zr_session *s, const char *path, const char *prefix,
			    struct zr_error *err);

/* Sets the masters and states with which a training starts: random values of the seed, or the
 * tensors of [model] path and of [adapter] path. Collective. */
int zr_weights_begin(struct zr_session *s, struct zr_error *err);

/* Fills the masters from the file (tensors of the same names and shapes) and publishes them. Each
 * rank reads only what it holds. */
int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err);

/* XXH3-64 over the fp32 bits of the masters in canonical order, padding left out. Collective. */
int zr_weights_digest(struct zr_session *s, uint64_t *digest, struct zr_error *err);

#endif
