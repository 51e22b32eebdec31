/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.h - the parameters of a model of Hugging Face: model.safetensors, or the shards that
 * model.safetensors.index.json names. Nothing in the files is trusted; messages name file, key or
 * tensor. [main]
 */
#ifndef ZR_FILES_TENSORS_H
#define ZR_FILES_TENSORS_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/pretrained/pretrained.h"

struct zr_layout;
struct zr_tensor_files;

/* Which tensors of a layout must be there: all; those of the model, without what an adapter added;
 * or what an adapter added and what it does not freeze. */
enum { ZR_FILES_WHOLE, ZR_FILES_MODEL, ZR_FILES_ADAPTER };

/* The files at a path, a directory or one file, with the tensors of a layout: each is there once,
 * under its name or with the prefix before it, in its shape and in fp32, bf16 or fp16. Others must
 * fit `ignored`, of which "HEAD=TENSOR" is another name of TENSOR in a layout without HEAD. Only
 * headers are read. */
int zr_tensor_files_open(const char *path, const struct zr_layout *layout, int which,
			 const char *prefix, const char *ignored, struct zr_tensor_files **out,
			 struct zr_error *err);
/* The same where the model has got rows: a tensor of rows.to of them in the layout has rows.from in
 * the files. The others are, each, the mean of all of these: added up as doubles, row by row, so
 * that whoever reads one has the same bits. */
int zr_tensor_files_open_grown(const char *path, const struct zr_layout *layout, int which,
			       const char *prefix, const char *ignored, struct zr_grown_rows rows,
			       struct zr_tensor_files **out, struct zr_error *err);
void zr_tensor_files_close(struct zr_tensor_files *f); /* NULL is fine */
/* the k-th file, from 0; NULL: there are fewer */
const char *zr_tensor_files_path(const struct zr_tensor_files *f, int32_t k);
int zr_tensor_files_have(const struct zr_tensor_files *f, int32_t i); /* tensor i */
/* Elements [first, first + n) of tensor i in fp32. files: a struct zr_tensor_files. What a file
 * lost since it was opened is an error: it is read, not mapped. */
int zr_tensor_files_read(void *files, int32_t i, int64_t first, int64_t n, float *x,
			 struct zr_error *err);

/* Elements [first, first + n) of a tensor of type ZR_F32, ZR_BF16 or ZR_F16 in fp32. */
struct zr_st;
struct zr_st_tensor;
int zr_tensor_values(const struct zr_st *file, const struct zr_st_tensor *tensor, int64_t first,
		     int64_t n, float *x, struct zr_error *err);

void zr_widen_f16(const uint16_t *from, int64_t n, float *to); /* exactly */
/* dtype: ZR_BF16 or ZR_F16. */
void zr_widen16(const uint16_t *from, int32_t dtype, int64_t n, float *to);
uint16_t zr_narrow_f16(float x); /* to nearest even */

#endif
