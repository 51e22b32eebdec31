/* SPDX-License-Identifier: Apache-2.0
 *
 * documents.h - writing a file of tokens that knows its documents, and which tokens are learned. It
 * is a safetensors file with metadata format = zeroth.documents/1, vocabulary and counts as decimal
 * numbers, and these tensors:
 *
 *   tokens     U16, or U32 where the vocabulary has more than 65536 tokens  [N]
 *   learned    U8: 1 if a token is a target of its document; absent: all are  [N]
 *   documents  I64: where each document starts in tokens, and last N  [documents + 1]
 *
 * The first token of a document is no target. Memory does not grow with the file, which is called
 * PATH.tmp until it is complete. Little-endian hosts only. [main]
 */
#ifndef ZR_FILES_DOCUMENTS_H
#define ZR_FILES_DOCUMENTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/* The header of the file `name`, n bytes of JSON. */
int zr_documents_header(const char *name, const char *text, size_t n, json_t **out,
			struct zr_error *err);

struct zr_documents;

/* mode: of the file, as in open(2). masked: with the tensor `learned`. path is borrowed. */
int zr_documents_create(const char *path, mode_t mode, int64_t vocabulary, int masked,
			struct zr_documents **out, struct zr_error *err);
/* Adds n ids, which are below the vocabulary, to the document; learned: 0 or 1 for each, NULL: all
 * are. */
int zr_documents_put(struct zr_documents *d, const int32_t *ids, const uint8_t *learned, size_t n,
		     struct zr_error *err);
/* The document ends; one without tokens is none. */
int zr_documents_end(struct zr_documents *d, struct zr_error *err);
/* A number of the metadata. name is borrowed. */
int zr_documents_count(struct zr_documents *d, const char *name, int64_t n, struct zr_error *err);

struct zr_documents_totals {
	int64_t documents, tokens, targets, longest; /* longest: tokens of a document */
};
struct zr_documents_totals zr_documents_total(const struct zr_documents *d);

/* keep: makes the file durable and gives it its name; else, and on failure, removes it. Frees d;
 * NULL is fine. */
int zr_documents_close(struct zr_documents *d, int keep, struct zr_error *err);

#endif
