/* SPDX-License-Identifier: Apache-2.0
 *
 * token_text.h - the text of tokens, and the tokens of a text: by a tokenizer.json, or as the data
 * plugin of a run has it.
 */
#ifndef ZR_CMD_SAMPLE_TOKEN_TEXT_H
#define ZR_CMD_SAMPLE_TOKEN_TEXT_H

#include <stdio.h>

#include "core/config/config.h"
#include "files/tokenizer/tokenizer.h"

#define ZR_MODEL_FILE 4096 /* bytes of a path */

struct zr_data_v1;

/* Where to look for the text of tokens. All is borrowed for the call of zr_token_text_open. */
struct zr_token_source {
	/* the file to use, or its directory, whatever else is there; NULL: look for one */
	const char *tokenizer;
	/* a run or a model's directory, which may have a tokenizer.json; NULL: none */
	const char *dir;
	const struct zr_section *data; /* [data] of the run; NULL: none. Must outlive the text. */
	int64_t vocabulary;            /* of the model; 0: not known */
	/* [model] add_tokens, which a tokenizer gets beside those of its file; NULL: none */
	const char *add_tokens;
	int quiet; /* standard error does not hear which one was found */
};

/* The path of a file that belongs to the model of a run or of a model's directory: in it, in its
 * model-16bit, or in the directory that [model] path of its config.ini names; 1: it is there. */
int zr_model_file(const char *run, const char *name, char file[ZR_MODEL_FILE]);

struct zr_token_text {
	const struct zr_data_v1 *data; /* NULL: there is none that knows the text of tokens */
	const void *data_opts;
	struct zr_tokenizer *tokenizer; /* NULL: the text of a token is that of `data` */
	struct zr_decoder *decoder;     /* NULL: its decoder is not known, or there is none */
	int64_t tokens; /* only those below have a text, if that is known; else the vocabulary */
	char file[ZR_MODEL_FILE]; /* the tokenizer.json that is used; "": none */
	const char *add_tokens;   /* that it got, borrowed; NULL: none */
};

/* Uses the tokenizer of the source, else what [data] knows, else the tokenizer.json that belongs to
 * the model of `dir`. One that is found there, whether it can be used or not, is said on standard
 * error. If there is nothing tokens have no text, which is no failure. zr_token_text_close also
 * after a failure. */
int zr_token_text_open(const struct zr_token_source *from, struct zr_token_text *t,
		       struct zr_error *err);
void zr_token_text_close(struct zr_token_text *t);

int zr_token_text_known(const struct zr_token_text *t); /* 0: tokens are numbers */

/* The bytes of a token, *n of them; valid until the next call and as long as t. Of a token that has
 * none, no bytes; of one that is a number, its digits and a blank. */
const char *zr_token_text_bytes(struct zr_token_text *t, int32_t token, size_t *n,
				char scratch[16]);

/* *out: [vocabulary] bytes of the text of each token, to be freed; NULL: not known. Special tokens
 * have none: their names are not in the text. */
int zr_token_lengths(const struct zr_token_source *from, uint16_t **out, struct zr_error *err);

/* The same with regard to the tokens before it, as the tokenizer decodes them: some have no space
 * at the start of a text, some wait for more. */
const char *zr_token_text_next(struct zr_token_text *t, int32_t token, size_t *n, char scratch[16]);
/* What waited, at the end of the text. */
const char *zr_token_text_rest(struct zr_token_text *t, size_t *n);
/* The next token is the first of a text, or comes behind others. */
void zr_token_text_begin(struct zr_token_text *t, int behind_text);

/* The tokens of n bytes of text go to the sink. ZR_EINVAL if nothing here knows the text of tokens.
 * A sink that fails has set err itself, or left it alone. */
int zr_token_text_encode(const struct zr_token_text *t, const char *text, size_t n,
			 zr_token_sink *sink, void *arg, struct zr_error *err);

/* Characters of bytes that come in any pieces: one that is not complete is held back. To a terminal
 * no control bytes are sent, which a model without much training may draw. */
struct zr_char_writer {
	FILE *f;
	int terminal; /* f is one */
	int utf8;     /* what is no character becomes U+FFFD, as it does on a terminal */
	char held[4];
	size_t n_held;
};

int zr_char_write(struct zr_char_writer *w, const char *p, size_t n); /* 0 or -1 */
int zr_char_end(struct zr_char_writer *w); /* writes what is held, though it is no character */

#endif
