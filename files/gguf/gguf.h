/* SPDX-License-Identifier: Apache-2.0
 *
 * gguf.h - files of llama.cpp, version 3: the letters GGUF, the version, the numbers of tensors and
 * of keys; the keys with their values; name, shape, type and place of each tensor; from the next
 * multiple of 32 on the tensors, each of which begins at a multiple of 32. Dimensions stand in the
 * order of ggml: that of the elements beside each other is the first. Little-endian hosts only, as
 * the format. [main]
 */
#ifndef ZR_FILES_GGUF_H
#define ZR_FILES_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define ZR_GGUF_ALIGN 32 /* bytes */
#define ZR_GGUF_BLOCK 32 /* elements of a row that share a scale in Q8_0 */

/* Types of tensors, by their numbers in the file. */
enum { ZR_GGUF_F32 = 0, ZR_GGUF_F16 = 1, ZR_GGUF_Q8_0 = 8, ZR_GGUF_BF16 = 30 };

/* ---- keys (keys.c) ---- */

/* Keys and their values, as the file has them. Where memory runs out, `failed` stays set and later
 * calls do nothing. */
struct zr_gguf_keys {
	char *bytes;
	size_t used, room;
	uint64_t count;
	int failed;
};

void zr_gguf_keys_free(struct zr_gguf_keys *k); /* a zeroed one is fine */
void zr_gguf_u32(struct zr_gguf_keys *k, const char *key, uint32_t value);
void zr_gguf_f32(struct zr_gguf_keys *k, const char *key, float value);
void zr_gguf_bool(struct zr_gguf_keys *k, const char *key, int value);
void zr_gguf_text(struct zr_gguf_keys *k, const char *key, const char *value);
void zr_gguf_i32s(struct zr_gguf_keys *k, const char *key, const int32_t *value, uint64_t n);
void zr_gguf_f32s(struct zr_gguf_keys *k, const char *key, const float *value, uint64_t n);
/* A list of texts is begun with their number; then each of them is added, of so many bytes. */
void zr_gguf_texts(struct zr_gguf_keys *k, const char *key, uint64_t n);
void zr_gguf_add(struct zr_gguf_keys *k, const char *text, size_t bytes);

/* ---- types (types.c) ---- */

/* Bytes of so many elements: of whole blocks in Q8_0. */
uint64_t zr_gguf_bytes(int32_t type, int64_t elements);
/* n elements as the type has them; whole blocks. F16 and BF16 round to the nearest, ties to even.
 * Q8_0: the largest magnitude of a block becomes 127 times a scale in F16, and what lies halfway
 * between two codes goes away from zero. *infinite: counts finite values that have become
 * infinite. ZR_EINVAL: values of which Q8_0 has no codes, since one is not finite or the scale is
 * too large for F16. */
int zr_gguf_encode(int32_t type, const float *x, int64_t n, void *to, int64_t *infinite);

/* ---- a file that is written from its start to its end (writer.c) ---- */

struct zr_gguf_tensor {
	char name[128];
	int32_t type, ndim;
	int64_t dims[4]; /* the first one is that of elements beside each other */
	uint64_t bytes;
};

/* A tensor of `ndim` dimensions as C has them, of which the last is that of elements beside each
 * other. */
void zr_gguf_make(struct zr_gguf_tensor *t, const char *name, int32_t type, int32_t ndim,
		  const int64_t *dims);

/* What fails stays in `failed`, and later calls do nothing. */
struct zr_gguf_writer {
	char *path, *tmp;
	int fd;
	int failed; /* errno */
	uint64_t bytes;
	struct XXH3_state_s *hash; /* of all that was appended */
};

/* Writes all that comes before the tensors. ZR_EINVAL: the path has a file already; ZR_EIO: the
 * disk has too little room, or the file cannot be made. On failure there is nothing to end. */
int zr_gguf_create(struct zr_gguf_writer *w, const char *path, const struct zr_gguf_keys *keys,
		   const struct zr_gguf_tensor *t, int64_t n, struct zr_error *err);
/* The bytes of the tensors, in their order. */
void zr_gguf_append(struct zr_gguf_writer *w, const void *data, size_t bytes);
void zr_gguf_pad(struct zr_gguf_writer *w); /* behind the last byte of each tensor */
/* Reads it back and makes it durable under its name: until then there is only `path`.tmp, which a
 * failure or keep = 0 removes. */
int zr_gguf_finish(struct zr_gguf_writer *w, int keep, struct zr_error *err);

#endif
