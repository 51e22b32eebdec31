/* SPDX-License-Identifier: Apache-2.0
 *
 * gguf.h - a model as llama.cpp reads it: one file with the tensors, what the model computes and
 * its tokenizer, as llama.cpp's own converter makes it of a directory of Hugging Face. What the
 * converter does not say, or llama.cpp would compute in another way, is refused. [main]
 */
#ifndef ZR_TRAIN_GGUF_H
#define ZR_TRAIN_GGUF_H

#include <jansson.h>

#include "core/base/error.h"

struct zr_layout;
struct zr_export_gguf;

struct zr_export_gguf_how {
	int32_t type; /* of matrices: ZR_GGUF_F16, ZR_GGUF_BF16 or ZR_GGUF_Q8_0 */
	/* directory with the files of the tokenizer; NULL: the one that the model began with */
	const char *tokenizer;
};

/* meta: that of a manifest, with what the model is; config: its config.json. layout is borrowed.
 * ZR_EINVAL: the file exists, or GGUF has no words for the model or its tokenizer. */
int zr_export_gguf_open(const char *path, const struct zr_layout *layout, const json_t *meta,
			const json_t *config, const struct zr_export_gguf_how *how,
			struct zr_export_gguf **out, struct zr_error *err);
/* Adds the next n values, in the order of the layout. The end reports a failure. */
void zr_export_gguf_put(struct zr_export_gguf *x, const float *values, int64_t n);
/* Ends it and frees x. keep = 0 removes all that was written. *infinite: values that were finite
 * and are not in 16 bits. */
int zr_export_gguf_done(struct zr_export_gguf *x, int keep, int64_t *infinite,
			struct zr_error *err);

#endif
