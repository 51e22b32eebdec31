/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - a model as other tools load it: a directory with config.json and model.safetensors, or, above a size, with
 * model-00001-of-0000N.safetensors and model.safetensors.index.json. Written as DIR.tmp and renamed when it is whole.
 * [main]
 */
#ifndef ZR_CMD_EXPORT_H
#define ZR_CMD_EXPORT_H

#include "files/checkpoint/manifest.h"

#define ZR_EXPORT_SHARD UINT64_C(5000000000) /* bytes of tensors in a file, as Hugging Face's tools have it */

struct zr_export;

struct zr_export_how {
	int32_t dtype;
	int replace;
	uint64_t shard_bytes; /* most in a file, unless one tensor is larger */
};

/* The tensors of a layout as `dtype`: ZR_F32, ZR_BF16 (rounded half away from zero, as in training), ZR_F16 (to nearest
 * even). meta: that of a manifest; its keys and texts make config.json, unless the model began with a directory: then that
 * one's config.json stays as it was but for the type, and files of a tokenizer that are there are copied. dir must not
 * exist, unless it is replaced. layout and meta are borrowed. */
int zr_export_open(const char *dir, const struct zr_layout *layout, json_t *meta, const struct zr_export_how *how,
		   struct zr_export **out, struct zr_error *err);
/* x as that type has it. */
float zr_export_rounded(int32_t dtype, float x);
/* The next n values, in canonical order. A failure is kept for the end. */
void zr_export_put(struct zr_export *x, const float *values, int64_t n);
/* keep = 0 takes everything back. *infinite: values that fp16 made so. */
int zr_export_close(struct zr_export *x, int keep, int64_t *infinite, struct zr_error *err);

/* export_checkpoint.c: the parameters of the checkpoint at `path` to the new directory `dir`; a line about it on standard
 * output. */
int zr_export_checkpoint(const char *path, const char *dir, const struct zr_export_how *how, struct zr_error *err);

/* The masters of a session in the type of its compute copies, by rank 0; collective. */
struct zr_session;
int zr_export_session(struct zr_session *s, const char *dir, int replace, struct zr_error *err);

#endif
