/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.h - tokenizers as Hugging Face's tokenizer.json describes them: BPE, byte-level as of
 * GPT-2, Llama 3, Qwen2 and their kin, or of SentencePiece as of Llama 2, Mistral, Gemma and Phi-3;
 * Unigram as of T5, ALBERT and XLM-R; WordPiece as of BERT. The ids are those of the `tokenizers`
 * library; what a file asks for beyond what is here is refused by name.
 *
 * Text comes in pieces of any size, of which the ids do not depend: what the next byte could change
 * is held back. One thread per encoder; they may share a tokenizer.
 */
#ifndef ZR_TOKENIZER_H
#define ZR_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* bytes that one piece of text between two splits may have */
#define ZR_TOKENIZER_PIECE (16u << 20)

struct zr_tokenizer;
struct zr_encoder;

#define ZR_TOKENIZER_PATH 4096 /* bytes of a path */

/* The tokenizer.json that a path means: itself, or the one in the directory that it is. ZR_EINVAL:
 * the directory has none; ZR_ENOTSUP: the path, or what the directory has instead, is a tokenizer
 * in another format, of which the text of the error says how to write it as tokenizer.json. */
int zr_tokenizer_find(const char *path, char file[ZR_TOKENIZER_PATH], struct zr_error *err);

/* path: as zr_tokenizer_find takes it. */
int zr_tokenizer_open(const char *path, struct zr_tokenizer **out, struct zr_error *err);
void zr_tokenizer_close(struct zr_tokenizer *t); /* NULL is fine */

/* ---- tokens that are added to those of the file: add.c ----
 *
 * tokens: texts separated by blanks; NULL or empty: none. Their ids are those of transformers'
 * add_special_tokens: one that the file adds or that its model has keeps its id, the others get
 * those behind the last one, in their order. ZR_EINVAL where these would not be in a row, where a
 * token stands there twice, or where the file adds it with other properties. */

/* *ids: of each of them, owned; *size: one more than the largest id of all tokens; *distinct: how
 * many there are, transformers' len(tokenizer). */
int zr_tokenizer_places(const char *path, const char *tokens, int32_t **ids, int64_t *size,
			int64_t *distinct, struct zr_error *err);
/* Refuses a tokenizer that gives them other ids than those that `ids` names, separated by blanks;
 * NULL: it may give any. */
int zr_tokenizer_has_places(const char *path, const char *tokens, const char *ids,
			    struct zr_error *err);
/* The file with these as special tokens of raw text: all other bytes are its own. *text: owned. */
int zr_tokenizer_text_with(const char *path, const char *tokens, char **text, size_t *bytes,
			   struct zr_error *err);
/* As zr_tokenizer_open of that text. */
int zr_tokenizer_open_with(const char *path, const char *tokens, struct zr_tokenizer **out,
			   struct zr_error *err);
/* How many tokens a text names. */
int32_t zr_tokenizer_words(const char *tokens);
/* Refuses a tokenizer in which one of the tokens has another id than in ids. */
int zr_tokenizer_same_ids(const struct zr_tokenizer *t, const char *tokens, const int32_t *ids,
			  struct zr_error *err);

int64_t zr_tokenizer_size(const struct zr_tokenizer *t); /* one more than the largest id */
/* id of an added token, or -1 */
int32_t zr_tokenizer_added(const struct zr_tokenizer *t, const char *content);
/* The bytes that a token stands for; NULL: there is no such token. *n: their number. Valid as long
 * as t. */
const char *zr_tokenizer_bytes(const struct zr_tokenizer *t, int64_t id, size_t *n);
/* Whether a token marks a place, as the end of a text or a turn of a chat: it stands for no text,
 * and the bytes above are its name. */
int zr_tokenizer_special(const struct zr_tokenizer *t, int64_t id);

/* The ids that the post-processor puts before (after = 0) or after a document; returns their
 * number. ZR_ENOTSUP where it is none that we know. The ids are borrowed. */
int zr_tokenizer_template(const struct zr_tokenizer *t, int after, const int32_t **ids,
			  struct zr_error *err);

/* Takes n ids; 0 or a negative code that ends the encoding. */
typedef int zr_token_sink(void *arg, const int32_t *ids, size_t n);

/* t is borrowed until zr_encoder_close. */
int zr_encoder_open(const struct zr_tokenizer *t, zr_token_sink *sink, void *arg,
		    struct zr_encoder **out, struct zr_error *err);
void zr_encoder_close(struct zr_encoder *e); /* NULL is fine */

/* The next n bytes of a document. Bytes that are not UTF-8 are read as U+FFFD, one for each longest
 * part that could have been the start of a character, as Python's errors='replace' has it.
 * ZR_ENOTSUP: a byte has no token in a byte-level vocabulary. After a failure only
 * zr_encoder_close. */
int zr_encode(struct zr_encoder *e, const void *bytes, size_t n, struct zr_error *err);
/* The document ends: the rest goes to the sink, and the next byte begins another. */
int zr_encode_end(struct zr_encoder *e, struct zr_error *err);

/* Follows byte `at` of the document that is to come or under way, in text of whole characters, to
 * its token; first: if it becomes several, or something is put before it, to the first of these.
 * Call it before that byte is given, in ascending order. */
int zr_encode_mark(struct zr_encoder *e, uint64_t at, int first, struct zr_error *err);
/* When the document has ended, and until the next mark: of its i-th mark, the number of the token
 * that has the byte, or if none has it of the next one; the first token of the document is 0. */
uint64_t zr_encoder_marked(const struct zr_encoder *e, size_t i);

/* ---- back to text ----
 *
 * What the library's decode makes of ids, special tokens among them; a file without a decoder: the
 * tokens one behind the other. One thread per decoder. */
struct zr_decoder;
/* t is borrowed until zr_decoder_close. ZR_ENOTSUP: the decoder of the file is not known. */
int zr_decoder_open(const struct zr_tokenizer *t, struct zr_decoder **out, struct zr_error *err);
void zr_decoder_close(struct zr_decoder *d); /* NULL is fine */
/* The next token is the first of a text, as it is of a new decoder; or, behind_text, it comes
 * behind others that are not given. */
void zr_decoder_begin(struct zr_decoder *d, int behind_text);
/* The text of the next token, and of those that waited for it: *n bytes, valid until the next call;
 * NULL: there is no memory. Of byte-level tokens it is bytes, of which those that are no UTF-8 are
 * U+FFFD for the library. */
const char *zr_decode(struct zr_decoder *d, int32_t id, size_t *n);
/* What waits for more: tokens of bytes that are characters only together. */
const char *zr_decode_end(struct zr_decoder *d, size_t *n);

uint64_t zr_encoder_replaced(const struct zr_encoder *e); /* U+FFFD that were not in the text */
/* Bytes of all documents before the first of them. */
uint64_t zr_encoder_replaced_first(const struct zr_encoder *e);

#endif
