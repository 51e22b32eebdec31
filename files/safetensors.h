/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - files of named tensors: 8 bytes with the length of the header, a JSON header
 * {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, the tensors without gaps.
 * Little-endian hosts only, as the format. Messages name file and tensor. [main], but for
 * zr_st_read: [any].
 */
#ifndef ZR_FILES_SAFETENSORS_H
#define ZR_FILES_SAFETENSORS_H

#include <jansson.h>

#include "core/base/dtype.h"
#include "core/base/error.h"

#define ZR_ST_DIMS       8
#define ZR_ST_HEADER_MAX 100000000 /* bytes, as the reference implementation has it */

struct zr_st_tensor {
	const char *name;
	int32_t dtype; /* ZR_F32, ...; 0: a type of the format that Zeroth has no use for */
	int32_t ndim;
	int64_t dims[ZR_ST_DIMS];
	int64_t elements;
	uint64_t at, bytes; /* at: from the start of the data */
};

/* A file that is open for reading. Its header was checked: known types, shapes that are as large as
 * their places, no gaps, no overlaps, nothing behind the end. */
struct zr_st {
	char *path;
	int fd;
	uint64_t bytes; /* of the file */
	uint64_t data;  /* where the tensors start */
	uint64_t hash;  /* XXH3-64 of all bytes before the tensors */
	int64_t n;
	struct zr_st_tensor *tensor; /* in the order of their names; texts belong to root */
	json_t *root;
};

/* on failure there is nothing to close */
int zr_st_open(const char *path, struct zr_st *out, struct zr_error *err);
/* The same for a file that is open already; fd is closed with *out, or on failure. fd = -1: the
 * file could not be opened, and errno says why. */
int zr_st_open_fd(int fd, const char *path, struct zr_st *out, struct zr_error *err);
void zr_st_close(struct zr_st *st);
const struct zr_st_tensor *zr_st_find(const struct zr_st *st, const char *name); /* NULL: absent */
const char *zr_st_meta(const struct zr_st *st, const char *key);                 /* NULL: absent */
/* The type of a tensor as the file names it. */
const char *zr_st_type(const struct zr_st *st, const struct zr_st_tensor *t);

/* Bytes [from, from + n) of a tensor. */
int zr_st_read(const struct zr_st *st, const struct zr_st_tensor *t, uint64_t from, uint64_t n,
	       void *to, struct zr_error *err);
/* Says that a tensor could not be read. no: the errno, or ENODATA where the file ends. Returns the
 * code of the failure. [any] */
int zr_st_failed(const struct zr_st *st, const struct zr_st_tensor *t, int no,
		 struct zr_error *err);

/* A tensor of that shape whose data begins at byte `at`. */
struct zr_st_tensor zr_st_make(const char *name, int32_t dtype, int32_t ndim, const int64_t *dims,
			       uint64_t at);

/* The start of a file with these tensors, in the order of their places, up to the data: length and
 * header, padded with blanks to a multiple of 8. meta: an object of texts, or NULL. Texts of equal
 * length make headers of equal length. Returned owned; NULL: out of memory. */
char *zr_st_header(const struct zr_st_tensor *t, int64_t n, json_t *meta, size_t *bytes);

/* A file that is written from its start to its end. What fails stays in `failed`, and later calls
 * do nothing, so that a rank that cannot write still takes part in what it reads from others. */
struct zr_st_writer {
	char *path, *tmp;
	int fd;
	int failed; /* errno */
	int64_t n;  /* tensors */
	uint64_t bytes;
	struct XXH3_state_s *hash; /* of all that was appended */
};

int zr_st_create(struct zr_st_writer *w, const char *path, const struct zr_st_tensor *t, int64_t n,
		 json_t *meta, struct zr_error *err);
void zr_st_append(struct zr_st_writer *w, const void *data, size_t bytes);
/* Reads it back and makes it durable under its name: until then there is only `path`.tmp, which a
 * failure or keep = 0 removes. */
int zr_st_finish(struct zr_st_writer *w, int keep, struct zr_error *err);

#endif
