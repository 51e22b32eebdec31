/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - a model as other tools load it: a directory with config.json and model.safetensors,
 * or, above a size, with model-00001-of-0000N.safetensors and model.safetensors.index.json. It is
 * written as DIR.tmp and renamed when it is complete. Or one file as llama.cpp reads it, see
 * gguf/gguf.h. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_EXPORT_H
#define ZR_TRAIN_WEIGHTS_EXPORT_H

#include "core/pretrained/pretrained.h"
#include "files/checkpoint/manifest.h"

/* Bytes of tensors in a file, the limit of Hugging Face's tools. */
#define ZR_EXPORT_SHARD UINT64_C(5000000000)

struct zr_export;

struct zr_export_how {
	int32_t dtype;
	int replace;
	uint64_t shard_bytes; /* bytes of tensors in a file at most, unless one tensor is larger */
	/* what was merged, and in what the base was stored, for the files' metadata; borrowed while
	 * the export is open; NULL: nothing */
	const char *base, *store, *adapter;
	int merge; /* of what has an adapter: the model with it, not the adapter alone */
	/* the type of matrices in a file of llama.cpp, ZR_GGUF_F16, ...; 0: it is a directory */
	int32_t gguf;
	const char *tokenizer; /* of that file: see gguf.h */
};

/* The tensors of a layout as `dtype`: ZR_F32, ZR_BF16 (rounded half away from zero, as in
 * training), ZR_F16 (to nearest even). meta: that of a manifest; its keys and texts become
 * config.json. But if training started from a directory, config.json is copied from there with
 * another type, and so are the tokenizer's files. dir must not exist, unless `replace` is set.
 * ZR_EINVAL where no class of transformers computes the model, see ZR_META_MISFIT.
 * layout and meta are borrowed. */
int zr_export_open(const char *dir, const struct zr_layout *layout, json_t *meta,
		   const struct zr_export_how *how, struct zr_export **out, struct zr_error *err);
/* x rounded to that type. */
float zr_export_rounded(int32_t dtype, float x);
/* n values in one of the types of 16 bits. */
void zr_export_narrow(int32_t dtype, const float *x, int64_t n, uint16_t *to);
/* Adds the next n values, in canonical order. zr_export_done reports a failure. */
void zr_export_put(struct zr_export *x, const float *values, int64_t n);
/* Ends the export after `rc`, which it returns unless that is 0. A failure removes all that was
 * written. Warns about values that became infinite in fp16. */
int zr_export_done(struct zr_export *x, int rc, struct zr_error *err);

/* How many rows a model of that metadata has got by [model] add_tokens. */
struct zr_grown_rows zr_export_rows(const json_t *meta);

/* Refuses what is for a model where adapters alone are written. */
int zr_export_adapters_alone(const struct zr_export_how *how, struct zr_error *err);

/* export_checkpoint.c: writes the parameters of the checkpoint at `path` to the new directory
 * `dir`, and a line about it to standard output. If it has adapters: these alone, as PEFT's files,
 * or, with how->merge, the model in which they are merged. */
int zr_export_checkpoint(const char *path, const char *dir, const struct zr_export_how *how,
			 struct zr_error *err);

#define ZR_EXPORT_OPTIONS 32 /* most */

/* Files that are exported. */
struct zr_export_from {
	const char *model;   /* a directory of Hugging Face, or of a run that ended */
	const char *adapter; /* a directory of PEFT, which is merged; NULL: model is a run */
	/* "section.key=value" of how adapter was trained: [model] store, [precision] */
	const char *const *option;
	int options;
};

/* export_files.c: the same of these files. */
int zr_export_files(const struct zr_export_from *from, const char *dir,
		    const struct zr_export_how *how, struct zr_error *err);

/* ZR_EINVAL where no class of transformers computes the model. */
struct zr_setup;
int zr_export_check(const struct zr_setup *s, struct zr_error *err);
/* Writes config.json for tensors in fp32, unless the model knows none; where no class computes the
 * model, a line says why. */
int zr_export_config(const struct zr_setup *s, const char *path, struct zr_error *err);

/* Writes the masters of a session in the type of its compute copies. Collective; rank 0 writes. */
struct zr_session;
int zr_export_session(struct zr_session *s, const char *dir, int replace, struct zr_error *err);

#endif
