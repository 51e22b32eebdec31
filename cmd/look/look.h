/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - documents as they were made of conversations, for people: on a terminal, and as an HTML
 * page. zeroth/look.h has what is shown. [main]
 */
#ifndef ZR_CMD_LOOK_H
#define ZR_CMD_LOOK_H

#include <stdio.h>
#include <zeroth/look.h>

#include "cmd/sample/token_text.h"
#include "core/base/error.h"

/* ---- conversations.c: of all data of a run ---- */

struct zr_setup;
struct zr_look_request {
	struct zr_setup *setup;
	struct zr_token_text *text;
	int32_t split;
	int64_t from, n;
	const char *conf; /* what the page is called */
	const char *html; /* the file of the page; NULL: standard output, as text */
	int colours;      /* of a terminal */
};
/* Whether a data plugin of the run shows its documents. */
int zr_look_can(const struct zr_setup *setup);
/* Documents [0, n) of a split, and records that are none, go to `seen`, see zeroth/look.h: of each
 * data plugin of the run that shows its own. */
int zr_look_through(struct zr_setup *setup, int32_t split, int64_t n,
		    int (*seen)(void *arg, const struct zr_seen *seen), void *arg,
		    struct zr_error *err);
int zr_look_show(const struct zr_look_request *r, struct zr_error *err);

/* ---- segments.c: tokens in a row that are alike ---- */

/* Tokens [from, to) of one part, all of them learned or none. */
struct zr_segment {
	int64_t from, to;
	int32_t kind, message; /* as struct zr_part has them */
	const char *role;
	int learned;
};
struct zr_segment_sink {
	int (*segment)(void *arg, const struct zr_segment *s); /* 0, or what ends it */
	int (*note)(void *arg, const char *text); /* why it is cut here; or about all of it */
	void *arg;
};
int zr_look_segments(const struct zr_seen *seen, const struct zr_segment_sink *to);
/* What is said before the first one: of messages that were left out, of texts without a place. */
int zr_look_notes(const struct zr_seen *seen, const struct zr_segment_sink *to);

/* How many tokens are learned: the first one never is. */
int64_t zr_look_targets(const struct zr_seen *seen);
/* A word for what a segment is. */
const char *zr_look_kind(const struct zr_segment *s);

/* The bytes of tokens, which may end within a character. 0 or ZR_ENOMEM. */
struct zr_look_text {
	char *p; /* owned */
	size_t n, room;
};
int zr_look_bytes(struct zr_token_text *text, const int32_t *ids, int64_t n,
		  struct zr_look_text *out);
/* Bytes of the character at p, of n > 0 that are there. *shown: it may be shown as it is; else it
 * is a control, or no character. */
size_t zr_look_character(const char *p, size_t n, int *shown);

/* ---- lengths.c: statistics ---- */

struct zr_lengths {
	int64_t *tokens, *targets; /* [n] each */
	int64_t n, room;
};
struct zr_spread {
	int64_t least, middle, most, p95;
	double mean, sum;
};
int zr_lengths_add(struct zr_lengths *l, int64_t tokens, int64_t targets); /* 0 or ZR_ENOMEM */
/* Sorts the numbers, of which there is one at least. */
void zr_lengths_spread(int64_t *value, int64_t n, struct zr_spread *s);
void zr_lengths_free(struct zr_lengths *l);

/* ---- terminal.c, page.c: a document after the other, then the statistics ---- */

struct zr_look_out {
	FILE *f;
	struct zr_token_text *text;
	int colours; /* of a terminal */
	struct zr_look_text bytes;
	const char *last_role; /* of the segment before */
	int32_t last_message;
	int open;              /* of a page: its element is open */
	const char *last_file; /* of the document before */
	int64_t last_line;
};

/* Whether a document is of the same line as the one before, which it becomes. */
int zr_look_again(struct zr_look_out *o, const struct zr_seen *seen);

void zr_look_legend(struct zr_look_out *o);
int zr_look_print(struct zr_look_out *o, const struct zr_seen *seen);
void zr_look_print_lengths(struct zr_look_out *o, struct zr_lengths *l);

/* A number of the statistics that has a name. */
struct zr_look_count {
	char name[64];
	int64_t value;
};
void zr_look_page_begin(struct zr_look_out *o, const char *name, const char *describe);
int zr_look_page_add(struct zr_look_out *o, const struct zr_seen *seen);
/* The messages of a document alone. */
int zr_look_page_messages(struct zr_look_out *o, const struct zr_seen *seen);
void zr_look_page_lengths(struct zr_look_out *o, struct zr_lengths *l,
			  const struct zr_look_count *count, int counts);
void zr_look_page_end(struct zr_look_out *o);

/* The lines of page.css; NULL ends them. */
extern const char *const zr_look_css[];

#endif
