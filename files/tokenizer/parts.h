/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what a tokenizer is made of. Only files/tokenizer/ and its tests include it.
 *
 *   bytes -> utf8.c -> added.c (raw) -> nfc.c -> added.c (normalized) -> split.c -> bpe.c -> ids
 *
 * Each stage hands on what no later byte can change, and holds the rest. A section is the text between two added tokens:
 * its end is as final as that of the document.
 */
#ifndef ZR_TOKENIZER_PARTS_H
#define ZR_TOKENIZER_PARTS_H

#include <jansson.h>

#include "files/tokenizer/buf.h"
#include "files/tokenizer/regex.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokenizer/utf8.h"

#define ZR_TOKENIZER_IDS (1 << 22) /* ids are below */

/* ---- the tokenizer ---- */

struct zr_token {
	const char *p; /* the bytes it stands for; NULL: no such id */
	uint32_t n;
	uint32_t made;  /* whether it is of the vocabulary, and of bytes only: BPE can make it */
};

struct zr_added_token {
	int32_t id;
	uint32_t len;
	const char *content; /* as it is looked for: normalized where the text is */
	int lstrip, rstrip;
	int single_word;     /* only where it is not part of a longer word */
};

/* Added tokens that are looked for at the same place: in raw text, or in normalized text. */
struct zr_added {
	struct zr_added_token *token; /* those with the same first byte together, the longest first */
	int32_t n, of[257];           /* token[of[b] .. of[b + 1]) start with byte b */
	size_t longest;
	int lstrip;                   /* any has it */
	struct zr_regex *word;        /* a character of words; NULL: no token is a single word */
};

enum { ZR_SPLIT_ISOLATED, ZR_SPLIT_REMOVED, ZR_SPLIT_CONTIGUOUS, ZR_SPLIT_WITH_PREVIOUS, ZR_SPLIT_WITH_NEXT };

/* One step of the pre-tokenizer. */
struct zr_split {
	struct zr_regex *regex; /* NULL: pieces stay whole */
	int behavior, invert;   /* ZR_SPLIT_*: of what matched; invert: of what did not */
	int prefix;             /* ZR_PREFIX_*: puts a space before a piece that has none */
};

struct zr_merge {
	uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
	uint32_t rank, id;
};

struct zr_bpe {
	int32_t byte[256];
	struct zr_merge *merge; /* [mask + 1], open addressing */
	size_t mask;
	int32_t *whole;         /* [whole_mask + 1] ids by their bytes, -1: empty; NULL: not asked for */
	size_t whole_mask;
	int ignore_merges;      /* a word that is a token is that token */
	int characters;         /* merges begin with characters, not with bytes */
};

/* Vocabularies of SentencePiece write a space as U+2581. Here both are a space: in the tokens, and
 * in the text when it is normalized or split. */
enum { ZR_SPACES_ARE_SPACES, ZR_SPACES_NORMALIZED, ZR_SPACES_SPLIT };
enum { ZR_PREFIX_NONE, ZR_PREFIX_FIRST, ZR_PREFIX_ALL };

struct zr_tokenizer {
	struct zr_token *token; /* [size] */
	int64_t size;
	struct zr_buf text;     /* of all tokens */
	int nfc;
	int spaces;             /* ZR_SPACES_*: where U+2581 becomes a space */
	int prepend;            /* the normalizer puts a space before each section */
	struct zr_added added[2]; /* looked for in raw text, in normalized text */
	struct zr_split *split;
	int n_splits;
	struct zr_bpe bpe;
	int32_t *template[2], n_template[2]; /* before, after */
	char unknown[64];       /* type of a post-processor that we do not know */
};

/* ---- bpe.c ---- */

struct zr_bpe_work; /* what one thread needs: a cache of words, symbols */
int zr_bpe_merges(struct zr_bpe *b, size_t n); /* room for n merges; 0 or ZR_ENOMEM */
void zr_bpe_merge_put(struct zr_bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
int zr_bpe_index(struct zr_tokenizer *t); /* for ignore_merges: finds whole words; 0 or ZR_ENOMEM */
struct zr_bpe_work *zr_bpe_open(const struct zr_tokenizer *t);
void zr_bpe_close(struct zr_bpe_work *w);
/* The ids of a word of n bytes, valid until the next call; returns their number, or ZR_ENOMEM. */
int64_t zr_bpe_word(struct zr_bpe_work *w, const char *p, size_t n, const int32_t **ids);

/* ---- utf8.c ---- */

/* Decodes what is complete of `raw`, or with final all, to `out`, and drops it there. */
int zr_utf8_lossy(struct zr_buf *raw, int final, struct zr_buf *out, uint64_t *replaced);

/* ---- added.c ---- */

struct zr_found {
	const struct zr_added_token *token; /* NULL: none up to `start` */
	size_t start, stop;
};
/* The first token in p[from..n). What is before `start` is settled; without final, a token or what is beside it may go on
 * behind n. in_word: before p there is a character of a word. */
void zr_added_find(const struct zr_added *a, struct zr_match *m, const char *p, size_t n,
		   size_t from, int final, int in_word, struct zr_found *out);
/* Whether p[0..n) ends in one, n > 0. */
int zr_added_in_word(const struct zr_added *a, struct zr_match *m, const char *p, size_t n);
void zr_added_sort(struct zr_added *a);

/* ---- nfc.c ---- */

/* Bytes of p[0..n) that are settled: with final all, else up to a character that combines with nothing before it. */
size_t zr_nfc_settled(const char *p, size_t n, int final);
/* Passes p[0..n), which must be settled, normalized to put. */
typedef int zr_nfc_put(void *arg, const char *p, size_t n);
int zr_nfc(const char *p, size_t n, zr_nfc_put *put, void *arg, struct zr_error *err);
int zr_nfc_there(struct zr_error *err); /* 0, or ZR_ENOTSUP where this build cannot */

/* Where a byte of p[0..n) is when that is normalized: its character, or the one that it became a
 * part of. */
size_t zr_nfc_place(const char *p, size_t n, size_t at);

/* ---- marks.c ---- */

enum { ZR_MARK_RAW, ZR_MARK_NORMALIZER, ZR_MARK_NORMALIZED, ZR_MARK_SECTION, ZR_MARK_STAGES };

struct zr_mark {
	uint64_t at; /* in what went into the stage; in the end the number of its token */
	int stage;
};
struct zr_marks {
	struct zr_mark *mark;
	size_t n, room, first;       /* those before `first` have a token */
	uint64_t at[ZR_MARK_STAGES]; /* bytes that each stage handed on */
	uint64_t tokens;             /* of the document, so far */
	int settled;                 /* the document has ended */
};
int zr_marks_add(struct zr_marks *m, uint64_t at); /* 0 or ZR_ENOMEM */
/* Where a byte of p[0..n) is in what that becomes. */
typedef size_t zr_marks_map(const char *p, size_t n, size_t at);
/* A stage hands on its next n bytes, from p on; in the next one they begin at `to`. map: NULL where
 * they stay as they are. */
void zr_marks_pass(struct zr_marks *m, int stage, uint64_t n, uint64_t to, zr_marks_map *map, const char *p);
/* Whether a mark is on a stage's bytes before `end`, or on what they become. */
int zr_marks_before(const struct zr_marks *m, int stage, uint64_t end);
/* The next token is of a stage's bytes before `end`. */
void zr_marks_token(struct zr_marks *m, int stage, uint64_t end);
void zr_marks_end(struct zr_marks *m);

/* ---- load.c, load_steps.c ---- */

enum { ZR_TOKEN_OTHER, ZR_TOKEN_MADE, ZR_TOKEN_BYTE };

struct zr_load {
	const char *file;
	struct zr_tokenizer *t;
	json_t *vocab; /* ids by content, in the end also those of added tokens */
	struct zr_error *err;
	int joins_words; /* of SentencePiece: a merge makes a token with a space behind another character */
};
/* Fails with "FILE: place: text". */
int zr_load_fail(const struct zr_load *l, int code, const char *place, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Fails for a value of another type: "FILE: place: text, found ...". */
int zr_load_found(const struct zr_load *l, const char *place, const char *wanted, const json_t *found);
int zr_load_flag(const struct zr_load *l, const json_t *o, const char *place, const char *key, int otherwise, int *out);
int zr_load_normalizer(struct zr_load *l, const json_t *o);
int zr_load_splits(struct zr_load *l, const json_t *o);
int zr_load_template(struct zr_load *l, const json_t *o);
int zr_load_added(struct zr_load *l, const json_t *o); /* after the normalizer; load_added.c */

/* ---- spaces.c ---- */

/* Appends p[0..n), whole characters, with a space for each U+2581. 0 or ZR_ENOMEM. */
int zr_spaces(const char *p, size_t n, struct zr_buf *out);
/* Where a byte of p[0..n) is then. */
size_t zr_spaces_place(const char *p, size_t n, size_t at);
/* Whether the vocabulary is one of SentencePiece. */
int zr_load_is_spaced(const json_t *root);
/* The n bytes of such a token to out, which has room for the text; returns its ZR_TOKEN_*. */
int zr_spaced_token(const char *text, char *out, size_t *n);
int zr_load_spaced_normalizer(struct zr_load *l, const json_t *o);
int zr_load_spaced_splits(struct zr_load *l, const json_t *o);
int zr_spaced_joins(const char *text); /* of U+2581 behind another character */

#endif
