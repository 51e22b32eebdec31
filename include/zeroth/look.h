/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/look.h - DRAFT. Documents of a data plugin as it made them, for people who look at them:
 * which tokens are whose, what is learned, where it was cut and why. data.h has who asks.
 */
#ifndef ZEROTH_LOOK_H
#define ZEROTH_LOOK_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_LOOK
#define ZR_USES_LOOK ZR_DRAFT_LOOK

#ifdef __cplusplus
extern "C" {
#endif

/* What a token is. */
#define ZR_PART_TEMPLATE 0 /* what the template writes itself, and what nobody can tell */
#define ZR_PART_TEXT     1 /* of a message; of a tool: what it gave back */
#define ZR_PART_THOUGHT  2
#define ZR_PART_CALL     3 /* of tools */
#define ZR_PART_TOOLS    4 /* their definitions */

/* FROZEN. Tokens from `from` up to those of the next part. */
struct zr_part {
	int64_t from;
	int32_t kind;     /* ZR_PART_* */
	int32_t message;  /* its number, from 0; -1: of none, or nobody can tell */
	const char *role; /* of the message; NULL: of none, or nobody can tell */
};

/* FROZEN. Rows [from, from + rows) of a document, which are learned in one sequence: the row of a
 * token has the token behind it as its target. */
struct zr_piece {
	int64_t from, rows;
};

/* A document, or a record that is none. Valid during the call. GROWABLE. */
struct zr_seen {
	uint32_t size, rsv;
	const char *file;
	int64_t line;
	const char *why;    /* the record was left out; NULL: it is a document */
	int64_t number;     /* of the document, from 1, among those that take part; 0: it is none */
	const int32_t *ids; /* [n] */
	const uint8_t *learned; /* [n]: 0 or 1 */
	int64_t n;
	const struct zr_part *part; /* [parts], in order; the first one begins with token 0 */
	int64_t parts;
	int64_t unknown;              /* texts whose place among the tokens nobody can tell */
	const struct zr_piece *piece; /* [pieces], in order of the tokens */
	int64_t pieces;
	/* tokens before its oldest messages went, and how many went; 0: all are there */
	int64_t whole, lost;
};

/* What is asked for. GROWABLE. The functions return 0, or a negative code that ends the looking. */
struct zr_look {
	uint32_t size;
	int32_t split;   /* ZR_SPLIT_* */
	int64_t from, n; /* documents and records [from, from + n), from 0, in the order of files */
	int (*seen)(void *arg, const struct zr_seen *seen);
	/* For each document that takes part; targets: how many of its tokens are learned. */
	int (*length)(void *arg, int64_t tokens, int64_t targets);
	void *arg;
};

#ifdef __cplusplus
}
#endif
#endif
