/* SPDX-License-Identifier: Apache-2.0
 *
 * documents.h - files of tokens that say where documents begin and which tokens are learned, and
 * batches of packed documents from them. Such a file is one of safetensors, with format =
 * zeroth.documents/1 in its metadata and these tensors:
 *
 *   tokens     U16 or U32 [N]
 *   learned    U8 [N], 0 or 1: whether the token is a target; none: all are. The first token of a
 *              document never is one.
 *   documents  I64 [D + 1]: where in `tokens` each one begins, and N
 */
#ifndef ZR_DATA_DOCUMENTS_H
#define ZR_DATA_DOCUMENTS_H

#include <zeroth/data.h>

#include "packing.h"

struct documents_file {
	const char *name;
	const uint8_t *tokens, *learned, *offsets; /* of any alignment; learned may be NULL */
	int width;                                 /* bytes per token */
	int64_t n;                                 /* tokens */
	int64_t first;                             /* its first document among those of all files */
	int64_t documents;
};

/* A number of the metadata: of what became of the records that it was made of. */
struct documents_count {
	char name[64];
	int64_t value;
};

/* The documents of all files of a pattern. */
struct documents {
	struct documents_file *f;
	int n;
	int64_t documents, tokens;
	int64_t vocabulary;               /* the largest that a file names; 0: none does */
	struct documents_count count[32]; /* over all files */
	uint32_t counts;
};

/* Whether a file of these bytes is one of safetensors. [pure] */
int documents_found(const uint8_t *bytes, int64_t n);
/* Adds a file, whose name and bytes must outlive d. Fails with what is damaged. [main] */
int documents_add(const struct zr_host *h, struct documents *d, const char *name,
		  const uint8_t *bytes, int64_t n);
void documents_free(struct documents *d);

/* Some of them, packed. */
struct documents_part {
	const struct documents *of; /* NULL: there is none */
	double held_out;            /* a share, by the hash of the number of each document */
	int32_t split;              /* ZR_SPLIT_VAL: takes what is held out; else the others */
	int shuffled;
	int64_t documents, tokens, vocabulary;
	struct packing packing; /* freed by the owner */
};

/* Which of the documents d[ZR_SPLIT_*] are learned, in part[ZR_SPLIT_TRAIN], and which evaluate:
 * the share held_out of what is learned where d[ZR_SPLIT_VAL] has none of its own, or, with
 * evaluates, all of them, of which none is learned. Fails if a part that is wanted is empty.
 * [main] */
int documents_divide(const struct zr_host *h, const struct documents d[2], double held_out,
		     int evaluates, int shuffled, struct documents_part part[2]);
/* packing: PACKING_*. [main] */
int documents_pack(const struct zr_host *h, struct documents_part *part, int packing,
		   int64_t length, int64_t vocabulary);
/* As zr_data_v1 has them. */
int documents_batch(const struct zr_host *h, const struct documents_part *part,
		    const struct zr_batch *b);
double documents_targets(const struct documents_part *part, const struct zr_batch *b);
/* Whether document d of all is in this part. */
int documents_has(const struct documents_part *part, int64_t d);
/* Whether document d has these tokens, of which those are learned; the first one never is. */
int documents_are(const struct documents_part *part, int64_t d, const int32_t *ids,
		  const uint8_t *learned, int64_t n);
/* Tokens of each document of the part, and how many of them are targets. fn returns 0, or a
 * negative code that ends it. */
int documents_lengths(const struct documents_part *part,
		      int (*fn)(void *arg, int64_t tokens, int64_t targets), void *arg);
/* The i-th number that `zeroth data show` prints, as zr_data_v1.count() tells it; none of a part
 * that is not there. */
void documents_tell(const struct documents_part *part, uint32_t i, struct zr_data_count *out);

#endif
