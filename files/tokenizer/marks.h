/* SPDX-License-Identifier: Apache-2.0
 *
 * marks.h - follows bytes of a document through the stages of the encoder to their tokens. Only
 * files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_MARKS_H
#define ZR_TOKENIZER_MARKS_H

#include <stddef.h>
#include <stdint.h>

enum { ZR_MARK_RAW, ZR_MARK_NORMALIZER, ZR_MARK_NORMALIZED, ZR_MARK_SECTION, ZR_MARK_STAGES };

struct zr_mark {
	uint64_t at; /* the byte that went into the stage; in the end the number of its token */
	int stage;   /* ZR_MARK_* */
	/* 1: goes to the first token of what its byte becomes, or of what is put before that */
	int first;
};

struct zr_marks {
	struct zr_mark *mark;
	size_t n, room, first;       /* marks before `first` have their tokens */
	uint64_t at[ZR_MARK_STAGES]; /* bytes that each stage handed on */
	uint64_t tokens;             /* of the document, so far */
	size_t inserted;             /* bytes that the pass under way puts before its bytes */
	int settled;                 /* the document has ended */
};

int zr_marks_add(struct zr_marks *m, uint64_t at, int first); /* 0 or ZR_ENOMEM */

#define ZR_MARK_LOST SIZE_MAX
/* Where the byte at `at` of p[0..n) is in what that becomes; first: the first byte of what it
 * becomes. ZR_MARK_LOST: there is no memory to find that. */
typedef size_t zr_marks_map(const void *arg, const char *p, size_t n, size_t at, int first);
/* A stage hands on its next n bytes, from p on; in the next stage they begin at byte `to`. map:
 * NULL where they stay as they are. 0 or ZR_ENOMEM. */
int zr_marks_pass(struct zr_marks *m, int stage, uint64_t n, uint64_t to, zr_marks_map *map,
		  const void *arg, const char *p);

/* Whether the next mark is on a byte before `end` of a stage, or on what such a byte became. */
static inline int zr_marks_before(const struct zr_marks *m, int stage, uint64_t end)
{
	if (m->first == m->n)
		return 0;

	const struct zr_mark *k = &m->mark[m->first];
	return k->stage > stage || (k->stage == stage && k->at < end);
}

/* The next token is made of bytes before `end` of a stage: marks on these get its number. */
void zr_marks_token(struct zr_marks *m, int stage, uint64_t end);
void zr_marks_end(struct zr_marks *m); /* the document ends */

#endif
