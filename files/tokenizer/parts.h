/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what a tokenizer is made of. Only files/tokenizer/ and its tests include it.
 *
 * Text goes through stages, each of which hands on what no later byte can change, and holds the
 * rest. A section is the text between two added tokens; its end is as final as a document's.
 *
 *   stage                           files                                  header
 *   bytes to characters             utf8.c                                 utf8.h
 *   added tokens in raw text        encoder_added.c, added.c               added.h
 *   normalizer                      encoder_normalize.c, normalizer.c,     normalizer.h
 *                                   forms.c, characters.c, charsmap.c
 *   the same for repeated text      chunks.c                               encoder.h
 *   added tokens in its result      encoder_added.c, added.c               added.h
 *   pre-tokenizer: sections to      encoder_split.c, alphabet.c            here
 *   words, by patterns              regex.c, pattern.c, words.c, runs.c    regex.h
 *   model: words to ids             model.c, memo.c, wordpiece.c           model.h, memo.h
 *                                   bpe.c, joins.c                         bpe.h
 *                                   merges.c, merging.c                    merges.h
 *                                   unigram.c                              unigram.h
 *                                   trie.c                                 trie.h
 *
 * and beside them:
 *
 *   what all stages share           encoder.c                              encoder.h
 *   bytes followed to their tokens  marks.c                                marks.h
 *   U+2581 for a space              spaces.c, load_spaces.c                spaces.h
 *   ids to text                     decode.c                               here, tokenizer.h
 *   a tokenizer.json is read        load*.c                                load.h
 *   its large lists                 lists.c, names.c                       lists.h
 *   tokens are added to it          add.c                                  load.h
 */
#ifndef ZR_TOKENIZER_PARTS_H
#define ZR_TOKENIZER_PARTS_H

#include "files/tokenizer/added.h"
#include "files/tokenizer/bpe.h"
#include "files/tokenizer/buf.h"
#include "files/tokenizer/lists.h"
#include "files/tokenizer/load.h"
#include "files/tokenizer/marks.h"
#include "files/tokenizer/memo.h"
#include "files/tokenizer/model.h"
#include "files/tokenizer/normalizer.h"
#include "files/tokenizer/regex.h"
#include "files/tokenizer/spaces.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokenizer/trie.h"
#include "files/tokenizer/unigram.h"
#include "files/tokenizer/utf8.h"

#define ZR_TOKENIZER_IDS (1 << 22) /* ids are below */

struct zr_token {
	const char *p; /* the bytes it stands for; NULL: no such id */
	uint32_t n;
	uint16_t made; /* it is of the vocabulary, and of bytes only: BPE can make it */
	uint16_t special;
};

/* ---- the pre-tokenizer ---- */

/* What becomes of the text that a pattern matches: pieces of their own, nothing, pieces of all
 * matches in a row, the end of the piece before, the start of the piece behind. */
enum {
	ZR_SPLIT_ISOLATED,
	ZR_SPLIT_REMOVED,
	ZR_SPLIT_CONTIGUOUS,
	ZR_SPLIT_WITH_PREVIOUS,
	ZR_SPLIT_WITH_NEXT
};
/* Which pieces get a space before them, unless they begin with one. */
enum { ZR_PREFIX_NONE, ZR_PREFIX_FIRST, ZR_PREFIX_ALL };

/* One step of the pre-tokenizer. */
struct zr_split {
	struct zr_regex *regex; /* NULL: pieces stay whole */
	int behavior;           /* ZR_SPLIT_* */
	int invert;             /* `behavior` is that of text between matches */
	int prefix;             /* ZR_PREFIX_* */
	int spaces;             /* U+2581 becomes a space before that */
	int alphabet;           /* pieces of this step are written in ByteLevel's characters */
	int marks;              /* they are written with U+2581 for each space */
};

/* ---- alphabet.c: bytes as ByteLevel writes them, one character for each ---- */

int zr_alphabet_byte(int32_t c); /* the byte that a character stands for; -1: none */
/* Append the bytes p[0..n) as characters, and characters as bytes. 0, ZR_ENOMEM, or ZR_EINVAL: a
 * character stands for no byte. */
int zr_alphabet_write(const char *p, size_t n, struct zr_buf *out);
int zr_alphabet_read(const char *p, size_t n, struct zr_buf *out);
size_t zr_alphabet_count(const char *p, size_t n); /* characters in p[0..n) */

/* ---- the decoder ---- */

enum { ZR_DECODE_BYTES, ZR_DECODE_SPACES, ZR_DECODE_WORDS, ZR_DECODE_UNKNOWN };

struct zr_decoding {
	int kind;           /* ZR_DECODE_* */
	int replaced;       /* of ZR_DECODE_SPACES: U+2581 becomes a space */
	int bytes, fused;   /* <0x0A> becomes a byte; the tokens' texts become one text then */
	int strip;          /* how many spaces go from the start of the text */
	int unspaced_first; /* the first token loses all of its spaces */
	char *prefix;       /* of ZR_DECODE_WORDS: tokens that go on with a word begin with it */
	int cleanup;        /* some spaces before marks go */
};

/* ---- the tokenizer ---- */

/* Vocabularies of SentencePiece write a space as U+2581. Here both are a space: in tokens, and in
 * text from some stage on. */
enum { ZR_SPACES_ARE_SPACES, ZR_SPACES_NORMALIZED, ZR_SPACES_SPLIT };

struct zr_tokenizer {
	struct zr_token *token; /* [size] */
	int64_t size;
	int64_t own;        /* how many of them the model has, without added ones */
	struct zr_buf text; /* of all tokens */
	int32_t byte[256];  /* tokens of single bytes; -1: none */
	int32_t unknown;    /* the token of what has none; -1: there is none */
	int byte_fallback;  /* what has no token becomes tokens of its bytes */

	struct zr_added added[2];        /* looked for in raw text, in normalized text */
	struct zr_normalizer normalizer; /* without steps: `nfc`, `spaces` and `prepend` say all */
	int nfc;                         /* form C, and nothing else */
	int spaces;                      /* ZR_SPACES_*: where U+2581 becomes a space */
	int prepend;                     /* the normalizer puts a space before each section */
	struct zr_split *split;
	int n_splits;
	/* by byte, up to a space: it leaves nothing and ends what is before it, so that the text
	 * between two of these bytes has ids of its own */
	char gap[256];

	int model;  /* ZR_MODEL_* */
	int spaced; /* U+2581 is a space in tokens, and in text from some stage on */
	struct zr_bpe bpe;
	struct zr_trie trie; /* tokens of Unigram and WordPiece */
	double *score;       /* [size] of Unigram's tokens */
	double unknown_score;
	int apart;           /* Unigram takes the words of a text one by one */
	uint32_t continuing; /* WordPiece: the node of `prefix` */
	int no_continuing;   /* no token begins with `prefix` */
	size_t prefix; /* bytes that tokens begin with which go on with a word; text has none */
	size_t longest_word; /* characters; longer words are unknown */

	int32_t *template[2], n_template[2]; /* ids before a document, behind it */
	char processor[64];                  /* type of a post-processor that we do not know */
	struct zr_decoding decoding;
};

#endif
