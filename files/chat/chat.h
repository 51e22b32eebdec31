/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.h - files of conversations to documents of tokens, of which some are learned. The text of a
 * conversation is tokenized as one, as apply_chat_template of Hugging Face's transformers does; a
 * token is learned if it has a byte of what is learned. See template.h and record.h. A file is JSON
 * lines, or one JSON list of records, which may go over lines: its "lines" are then its records.
 * [main]
 */
#ifndef ZR_CHAT_CHAT_H
#define ZR_CHAT_CHAT_H

#include <stddef.h>
#include <stdint.h>
#include <zeroth/look.h>

#include "core/base/error.h"
#include "files/chat/unread.h"

struct zr_chat_look;

/* The texts are borrowed until zr_chat_close; NULL: the usual. */
struct zr_chat_options {
	/* tokenizer.json, or the directory that has it; beside it is tokenizer_config.json */
	const char *tokenizer;
	/* special tokens that it gets beside those of the file, see tokenizer.h; NULL: none */
	const char *add_tokens;
	/* auto: what the tokenizer has; a name; or a file of Jinja, NAME.jinja */
	const char *template;
	/* forms in place of the template's, with \n, \t and \\; see template.h */
	const char *begin, *system_form, *user_form, *first_form, *assistant_form, *between, *end;
	const char *bos, *eos; /* tokens, as text */
	const char *train_on;  /* assistant, completion, all or last */
	const char *mask;      /* turn or trl: how much of an answer is learned; see template.h */
	const char *system;    /* system message of conversations without one */
	const char *on_bad;    /* stop or skip */
	const char *fields;    /* "messages=dialog, role=speaker": see record.h */
	int64_t max_length;    /* tokens of a document; 0: any number */
	const char *on_long;   /* shorten or drop */
	/* For a template of Jinja: auto, whole or each, see turns.h; the day of strftime_now,
	 * YYYY-MM-DD; variables, a JSON object. */
	const char *turns, *date, *template_kwargs;
	const char *tools; /* for zr_chat_write: a file with a JSON list of tools */
	int threads;       /* at least 1 */
	/* Calls fn(arg, item, thread) for each item in [0, n), thread in [0, threads), and returns
	 * when all are done. */
	void (*parallel)(void *of, int64_t n, void (*fn)(void *arg, int64_t item, int32_t thread),
			 void *arg);
	void *of;
	/* A line for people; NULL: none. */
	void (*note)(void *arg, const char *text);
	/* Takes a document; learned: 0 or 1 for each token. Returns 0, or a negative code that ends
	 * the reading. */
	int (*sink)(void *arg, const int32_t *ids, const uint8_t *learned, size_t n);
	/* For people, with one thread; NULL: nobody looks. Called for each document and for each
	 * record that is left out, in their order. Returns 0, or a negative code that ends the
	 * reading. */
	int (*look)(void *arg, const struct zr_chat_look *look);
	void *arg;
};

/* A document, or why a record is none; valid during the call. */
struct zr_chat_look {
	const char *path;
	int64_t line;
	const char *why; /* the record is left out; NULL: it is a document */
	const int32_t *ids;
	const uint8_t *learned;
	size_t n;
	/* tokens before its oldest messages went, and how many went; 0: all are there */
	size_t whole, lost;
	struct zr_chat_encoder *encoder; /* for zr_chat_parts */
};

enum {
	ZR_CHAT_JSON,
	ZR_CHAT_FIELDS,
	ZR_CHAT_ORDER,
	ZR_CHAT_LONG,
	ZR_CHAT_NO_TARGET,
	ZR_CHAT_NO_TOKEN,
	ZR_CHAT_REASONS
};

struct zr_chat_counts {
	int64_t records, documents, tokens, targets, longest;
	int64_t used;      /* records that gave a document, or several */
	int64_t truncated; /* documents that lost their oldest messages */
	int64_t dropped[ZR_CHAT_REASONS];
	uint64_t bytes;          /* of the text of the lines */
	struct zr_unread unread; /* fields of documents that nobody reads */
};

struct zr_chat;
struct zr_tokenizer;
int zr_chat_open(const struct zr_chat_options *o, struct zr_chat **out, struct zr_error *err);
void zr_chat_close(struct zr_chat *c); /* NULL is fine */

int64_t zr_chat_vocabulary(const struct zr_chat *c);
const struct zr_tokenizer *zr_chat_tokenizer(const struct zr_chat *c);
const char *zr_chat_template_of(const struct zr_chat *c); /* its name */

/* The parts of the document that is looked at, valid as long as that; a token that has bytes of two
 * is of the first. Found by rendering again with marks in the texts of messages, which counts only
 * where the template writes the same without the marks. What that does not tell is
 * ZR_PART_TEMPLATE. *unknown: texts whose place is not known. */
int zr_chat_parts(const struct zr_chat_look *look, const struct zr_part **part, size_t *n,
		  size_t *unknown, struct zr_error *err);

/* The text of n > 0 messages, of roles, texts and no more; prompt: and the start of an answer, see
 * zr_chat_render. */
struct zr_chat_message;
struct zr_chat_text;
int zr_chat_write(struct zr_chat *c, const struct zr_chat_message *m, size_t n, int prompt,
		  struct zr_chat_text *out, struct zr_error *err);

/* All documents of a file (plain, gzip or zstd; -: standard input) in their order. */
int zr_chat_file(struct zr_chat *c, const char *path, struct zr_error *err);
uint64_t zr_chat_at(const struct zr_chat *c); /* bytes of the file that were read */
const struct zr_chat_counts *zr_chat_counts_of(const struct zr_chat *c);
const char *zr_chat_reason(int reason); /* a word for counts: "json" ... */

#endif
