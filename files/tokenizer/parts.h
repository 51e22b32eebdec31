/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what a tokenizer is made of. Only files/tokenizer/ and its tests include it.
 *
 *   bytes -> utf8.c -> added.c (raw) -> normalizer.c -> added.c (normalized) -> encoder_split.c
 *         -> model.c: bpe.c, unigram.c, wordpiece.c -> ids
 *
 * Each stage hands on what no later byte can change, and holds the rest. A section is the text
 * between two added tokens, its end as final as that of the document. */
#ifndef ZR_TOKENIZER_PARTS_H
#define ZR_TOKENIZER_PARTS_H

#include <jansson.h>

#include "files/tokenizer/buf.h"
#include "files/tokenizer/memo.h"
#include "files/tokenizer/merges.h"
#include "files/tokenizer/regex.h"
#include "files/tokenizer/spaces.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokenizer/utf8.h"

#define ZR_TOKENIZER_IDS (1 << 22) /* ids are below */

/* ---- the tokenizer ---- */

struct zr_token {
	const char *p; /* the bytes it stands for; NULL: no such id */
	uint32_t n;
	uint16_t made; /* whether it is of the vocabulary, and of bytes only: BPE can make it */
	uint16_t special;
};

struct zr_added_token {
	int32_t id;
	uint32_t len;
	const char *content; /* as it is looked for: normalized where the text is */
	int lstrip, rstrip;
	int single_word; /* only where it is not part of a longer word */
};

/* Added tokens that are looked for at the same place: in raw text, or in normalized text. */
struct zr_added {
	/* those with the same first byte together, the longest first */
	struct zr_added_token *token;
	int32_t n, of[257];       /* token[of[b] .. of[b + 1]) start with byte b */
	unsigned char first[256]; /* the bytes that tokens start with */
	int n_first;
	uint32_t second[256]; /* what the second may be: bit b % 32 */
	size_t longest;
	int lstrip;            /* any has it */
	int marked;            /* a space in the text stands for U+2581, no white space */
	struct zr_regex *word; /* a character of words; NULL: no token is a single word */
};

enum {
	ZR_SPLIT_ISOLATED,
	ZR_SPLIT_REMOVED,
	ZR_SPLIT_CONTIGUOUS,
	ZR_SPLIT_WITH_PREVIOUS,
	ZR_SPLIT_WITH_NEXT
};

/* One step of the pre-tokenizer. */
struct zr_split {
	struct zr_regex *regex; /* NULL: pieces stay whole */
	int behavior, invert;   /* ZR_SPLIT_*: of what matched; invert: of what did not */
	int prefix;             /* ZR_PREFIX_*: puts a space before a piece that has none */
	int spaces;             /* U+2581 becomes a space before that */
	int alphabet;           /* pieces of this step are written in ByteLevel's characters */
	int marks;              /* they are written with U+2581 for each space */
};

/* One step of the normalizer. */
enum {
	ZR_STEP_FORM,
	ZR_STEP_CHARACTERS,
	ZR_STEP_CHARSMAP,
	ZR_STEP_REPLACE,
	ZR_STEP_STRIP,
	ZR_STEP_PREPEND,
	ZR_STEP_SPACES
};
struct zr_step {
	int kind;
	int form;                  /* ZR_FORM_* */
	struct zr_regex *regex;    /* of ZR_STEP_REPLACE */
	char *text;                /* what is put in */
	int left, right;           /* of ZR_STEP_STRIP */
	struct zr_charsmap *map;   /* of ZR_STEP_CHARSMAP */
	int clean, spaced_chinese; /* of ZR_STEP_CHARACTERS, in this order: as BERT cleans */
	int decompose, unmark;     /* form D; no marks: UNMARK_* */
	int lower, nmt;            /* lower case; as the normalizer Nmt */
	int16_t ascii[128];        /* what becomes of these; -1: nothing */
};
enum { ZR_UNMARK_NONE, ZR_UNMARK_NONSPACING, ZR_UNMARK_ALL };

struct zr_normalizer {
	struct zr_step *step;
	int n;
	int whole; /* a section is not normalized before it has ended */
};

struct zr_bpe {
	struct zr_merges merges;
	/* [whole_mask + 1] ids by their bytes, -1: empty; NULL: not asked for */
	int32_t *whole;
	size_t whole_mask;
	int ignore_merges;      /* a word that is a token is that token */
	int characters;         /* merges begin with characters, not with bytes */
	int lacks;              /* of bytes: some have no token */
	int fuse_unknown;       /* neighbours without a token are one unknown token */
	int32_t *character;     /* [ZR_BMP] tokens of single characters, -1: none; or NULL */
	struct zr_joins *joins; /* NULL: words are merged whole */
};

/* Vocabularies of SentencePiece write a space as U+2581. Here both are a space: in the tokens, and
 * in the text when it is normalized or split. */
enum { ZR_SPACES_ARE_SPACES, ZR_SPACES_NORMALIZED, ZR_SPACES_SPLIT };
enum { ZR_PREFIX_NONE, ZR_PREFIX_FIRST, ZR_PREFIX_ALL };

/* How tokens become text. */
enum { ZR_DECODE_BYTES, ZR_DECODE_SPACES, ZR_DECODE_WORDS, ZR_DECODE_UNKNOWN };
struct zr_decoding {
	int kind;           /* ZR_DECODE_* */
	int replaced;       /* of ZR_DECODE_SPACES: U+2581 becomes a space */
	int bytes, fused;   /* <0x0A> becomes a byte; the text is one then */
	int strip;          /* spaces that go from the start of the text */
	int unspaced_first; /* the first token loses all of its spaces */
	char *prefix;       /* of ZR_DECODE_WORDS: of tokens that go on with a word */
	int cleanup;        /* some spaces before marks go */
};

/* Texts by their beginnings, character by character. Node 0 is the root; as the result of a step:
 * none. */
struct zr_trie_node {
	uint32_t c : 21;     /* the character that leads here */
	uint32_t last : 1;   /* of its siblings */
	uint32_t shares : 1; /* its bit, with siblings behind those that have one to themselves */
	uint32_t has[2];     /* zr_trie_bit of the children's characters */
	uint32_t child;      /* its first one; the first of each bit are in the order of these */
	int32_t id;          /* of the text that ends here; -1: none */
};
struct zr_trie {
	struct zr_trie_node *node;
	size_t n;
	int moved;        /* the nodes are in pages of their own */
	uint32_t *first;  /* [ZR_BMP] children of the root by their character */
	uint32_t *second; /* those of `widest`, which but for the root has the most; in `first` */
	uint32_t widest;
};
struct zr_trie_text {
	const char *p;
	uint32_t n;
	int32_t id;         /* of equal texts the largest counts */
	uint64_t beginning; /* zr_trie_build sets it */
};

#define ZR_BMP 65536 /* characters below are in tables */

enum { ZR_MODEL_BPE, ZR_MODEL_UNIGRAM, ZR_MODEL_WORDPIECE, ZR_MODELS };

struct zr_tokenizer {
	struct zr_token *token; /* [size] */
	int64_t size;
	struct zr_buf text; /* of all tokens */
	int model;          /* ZR_MODEL_* */
	int32_t byte[256];  /* tokens of single bytes; -1: none */
	int32_t unknown;    /* token of what has none; -1: there is none */
	int byte_fallback;  /* what has no token becomes tokens of its bytes */
	int spaced;         /* U+2581 is a space in tokens, and in text from some step on */
	struct zr_normalizer normalizer; /* without steps: `nfc`, `spaces` and `prepend` say all */
	int nfc;
	int spaces;               /* ZR_SPACES_*: where U+2581 becomes a space */
	int prepend;              /* the normalizer puts a space before each section */
	struct zr_added added[2]; /* looked for in raw text, in normalized text */
	struct zr_split *split;
	int n_splits;
	char gap[256]; /* whether a byte, up to a space, leaves nothing and ends what is before it:
			* what is between two of these has ids of its own */
	struct zr_bpe bpe;
	struct zr_trie trie; /* tokens of Unigram and WordPiece */
	double *score;       /* [size] of Unigram's */
	double unknown_score;
	int apart;           /* Unigram takes the words of a text one by one */
	uint32_t continuing; /* node of what tokens begin with that go on with a word */
	int no_continuing;   /* there are none */
	size_t prefix;       /* bytes of that beginning, which no text has */
	size_t longest_word; /* characters; longer ones are unknown */
	struct zr_decoding decoding;
	int32_t *template[2], n_template[2]; /* before, after */
	char processor[64];                  /* type of a post-processor that we do not know */
};

/* ---- bpe.c ---- */

struct zr_bpe_work; /* what one thread needs: symbols, candidates */
/* For ignore_merges and characters: finds whole words and characters; 0 or ZR_ENOMEM. */
int zr_bpe_index(struct zr_tokenizer *t);
struct zr_bpe_work *zr_bpe_open(const struct zr_tokenizer *t);
void zr_bpe_close(struct zr_bpe_work *w); /* NULL is fine */
/* Words that are merged together: 1: this will be one of them; 0: it is too long, or they are too
 * many. Then their ids, in the same order, and these once more. */
int zr_bpe_expect(struct zr_bpe_work *w, const char *p, size_t n);
void zr_bpe_merge_expected(struct zr_bpe_work *w);
int64_t zr_bpe_expected(struct zr_bpe_work *w, const int32_t **ids);
void zr_bpe_expect_again(struct zr_bpe_work *w);
void zr_bpe_expect_none(struct zr_bpe_work *w);
/* The ids of one word; returns their number, or ZR_ENOMEM, or ZR_ENOTSUP: a byte of the word has no
 * token, and the vocabulary has none for what is unknown. */
int64_t zr_bpe_encode(struct zr_bpe_work *w, const char *p, size_t n, const int32_t **ids);
int zr_bpe_lacking(const struct zr_bpe_work *w); /* that byte */

/* ---- joins.c ---- */

/* From the merges and the vocabulary. *out: NULL where merges may join anything. 0 or ZR_ENOMEM. */
int zr_joins_open(const struct zr_tokenizer *t, struct zr_joins **out);
void zr_joins_close(struct zr_joins *j); /* NULL is fine */
#define ZR_JOINS_IDS 24
/* How many bytes of a word p[0..n), n > 0, come before a place that no merge crosses. *count: how
 * many tokens they are, if they are characters that nothing joins; 0: that is not known here. */
size_t zr_joins_part(const struct zr_joins *j, const char *p, size_t n, int32_t ids[ZR_JOINS_IDS],
		     int *count);

/* ---- trie.c ---- */

/* Sorts the n texts and builds the trie of them; 0 or ZR_ENOMEM. */
int zr_trie_build(struct zr_trie *t, struct zr_trie_text *text, size_t n);
void zr_trie_free(struct zr_trie *t);
/* The number of its bit: those of small letters are not those of ASCII's digits and marks. */
static inline uint32_t zr_trie_bit(uint32_t c)
{
	return (c ^ (c >> 1 & 32)) % 64;
}
static inline uint64_t zr_trie_has(const struct zr_trie_node *o)
{
	return (uint64_t)o->has[1] << 32 | o->has[0];
}
/* How many bits are set. */
static inline uint32_t zr_trie_count(uint64_t x)
{
	x -= x >> 1 & UINT64_C(0x5555555555555555);
	x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
	x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(x * UINT64_C(0x0101010101010101) >> 56);
}
/* Where the child of a node is that a character leads to, if there is one; 0: there is none. */
static inline uint32_t zr_trie_place(const struct zr_trie *t, uint32_t node, uint32_t c)
{
	const struct zr_trie_node *o = &t->node[node];
	uint64_t has = zr_trie_has(o), bit = UINT64_C(1) << zr_trie_bit(c);

	if ((!node || node == t->widest) && c < ZR_BMP) {
		if (node)
			return t->second[c];

		return t->first[c];
	}

	if (has & bit)
		return o->child + zr_trie_count(has & (bit - 1));

	return 0;
}
/* What is there; 0: none of the character. */
static inline uint32_t zr_trie_at(const struct zr_trie *t, uint32_t place, uint32_t c)
{
	const struct zr_trie_node *o = &t->node[place];
	if (o->c != c && o->shares)
		while (!o->last && (++o)->c != c)
			;
	if (o->c == c)
		return (uint32_t)(o - t->node);

	return 0;
}
/* The child of a node that a character leads to; 0: none. */
static inline uint32_t zr_trie_next(const struct zr_trie *t, uint32_t node, uint32_t c)
{
	return zr_trie_at(t, zr_trie_place(t, node, c), c);
}
uint32_t zr_trie_walk(const struct zr_trie *t, const char *p, size_t n); /* from the root */

/* ---- model.c, unigram.c, wordpiece.c ---- */

/* A place between two characters, and the best way to it. */
struct zr_unigram_place {
	double score;
	double second; /* of the second best way */
	uint32_t from; /* where its last token starts: another place */
	int32_t id;    /* which it is */
	uint32_t c;    /* the character behind the place */
	uint32_t at;   /* bytes of the word before it */
};
#define ZR_AHEAD       32 /* places that are looked from at the same time */
#define ZR_AHEAD_DEPTH 16 /* characters of a token that are looked for so */
/* What starts at the places from `first` on: looked for together, as the processor waits for the
 * memory of all of them at once. */
struct zr_unigram_ahead {
	size_t first, n;
	uint32_t length[ZR_AHEAD];            /* characters that texts of the trie start with */
	uint32_t node[ZR_AHEAD];              /* where more of them are; 0: none */
	int32_t id[ZR_AHEAD][ZR_AHEAD_DEPTH]; /* of the token with one more character; -1: none */
};
struct zr_unigram_work {
	struct zr_unigram_place *place; /* [room]; characters are read up to place n */
	size_t room, n;
	struct zr_unigram_ahead ahead;
	size_t farthest; /* place that a token ends at */
	struct zr_ids ids;
	double sum; /* of the scores before a word; then with its own */
	int sure;   /* the word's ids are the same after another sum */
};

/* Whether no token goes on behind a word, so that each has ids of its own. */
int zr_unigram_apart(const struct zr_tokenizer *t);
size_t zr_unigram_part(const char *p, size_t n); /* bytes of the first word, with its spaces */
/* Adds the scores of ids that are sure. 0: they are not, after this sum. */
int zr_unigram_add(const struct zr_tokenizer *t, struct zr_unigram_work *w, const int32_t *ids,
		   size_t n);
/* The ids of a word of n > 0 bytes, valid until the next call; returns their number, or
 * ZR_ENOMEM. */
int64_t zr_unigram_encode(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
			  size_t n, const int32_t **ids);
#define ZR_WORDPIECES 64 /* words at a time */
/* A word, and where it is read while its tokens are looked for. */
struct zr_wordpiece {
	const char *p;
	size_t n;
	int32_t *id; /* [count] its ids, valid until the next call */
	int64_t count;
	size_t at, next, end; /* where a token starts, the next character, where the longest ends */
	uint32_t place, c;    /* zr_trie_place of that character */
};
/* The ids of words of n > 0 bytes, all of them together, up to
 * ZR_WORDPIECES; 0 or ZR_ENOMEM. */
int zr_wordpiece_encode(const struct zr_tokenizer *t, struct zr_ids *ids, struct zr_wordpiece *word,
			size_t words);
/* The same of any model, with a memory of words. */
struct zr_model_work; /* what one thread needs */
/* Takes the ids of n bytes; `start`: as it was put. 0 or a negative code. */
typedef int zr_model_sink(void *arg, const int32_t *ids, size_t count, uint64_t start, size_t n);
struct zr_model_work *zr_model_open(const struct zr_tokenizer *t, zr_model_sink *sink, void *arg);
void zr_model_close(struct zr_model_work *w); /* NULL is fine */
/* A word of n > 0 bytes, which stay where they are until zr_model_flush: until then its ids may
 * wait. start: of the first byte. 0, ZR_ENOMEM, ZR_ENOTSUP of zr_bpe_encode, or what the sink
 * returns. */
int zr_model_put(struct zr_model_work *w, const char *p, size_t n, uint64_t start);
int zr_model_flush(struct zr_model_work *w);
int zr_model_lacking(const struct zr_model_work *w);    /* zr_bpe_lacking */
struct zr_memo *zr_model_memo(struct zr_model_work *w); /* of words; others may use it too */

/* ---- alphabet.c ---- */

int zr_alphabet_byte(int32_t c); /* what a character stands for, -1: nothing */
/* Appends p[0..n), bytes, as characters, and back; 0 or ZR_ENOMEM, ZR_EINVAL. */
int zr_alphabet_write(const char *p, size_t n, struct zr_buf *out);
int zr_alphabet_read(const char *p, size_t n, struct zr_buf *out);
size_t zr_alphabet_count(const char *p, size_t n); /* characters in p[0..n) */

/* ---- utf8.c ---- */

char *zr_utf8_put(char *to, int32_t c);              /* writes a character; returns where it ends */
size_t zr_utf8_well_formed(const char *p, size_t n); /* how many bytes of p[0..n), from p on */

/* What is no UTF-8 of all bytes so far: how many places, and bytes before the first of them. */
struct zr_utf8_bad {
	uint64_t places, first, bytes;
};

/* Decodes what is complete of `raw`, or with final all, to `out`, and drops it there. */
int zr_utf8_lossy(struct zr_buf *raw, int final, struct zr_buf *out, struct zr_utf8_bad *bad);

/* ---- added.c ---- */

struct zr_found {
	const struct zr_added_token *token; /* NULL: none up to `start` */
	size_t start, stop;
};
/* The first token in p[from..n). What is before `start` is settled; without final, a token or what
 * is beside it may go on behind n. in_word: before p there is a character of a word. */
void zr_added_find(const struct zr_added *a, struct zr_match *m, const char *p, size_t n,
		   size_t from, int final, int in_word, struct zr_found *out);
/* Whether p[0..n) ends in one, n > 0. */
int zr_added_in_word(const struct zr_added *a, struct zr_match *m, const char *p, size_t n);
void zr_added_sort(struct zr_added *a);

/* ---- forms.c ---- */

enum { ZR_FORM_C, ZR_FORM_D, ZR_FORM_KC, ZR_FORM_KD };
/* Passes p[0..n) in a form to put: of form C what is settled, of the others all there is. */
typedef int zr_form_put(void *arg, const char *p, size_t n);
int zr_form(int form, const char *p, size_t n, zr_form_put *put, void *arg, struct zr_error *err);
int zr_unicode_there(struct zr_error *err); /* 0, or ZR_ENOTSUP where this build cannot */
/* Bytes of p[0..n) that are settled: with final all, else up to a character that combines with
 * nothing before it. */
size_t zr_nfc_settled(const char *p, size_t n, int final);
/* Where a byte of p[0..n) is when that is normalized: its character, or the one that it became a
 * part of. */
size_t zr_nfc_place(const void *unused, const char *p, size_t n, size_t at, int first);

/* ---- characters.c ---- */

/* Appends p[0..n), changed character by character; 0 or ZR_ENOMEM. */
int zr_characters(const struct zr_step *s, const char *p, size_t n, struct zr_buf *out);
void zr_characters_ready(struct zr_step *s); /* when the step has been read */
/* The last place in p[0..n) between two letters or digits that no step joins; 0: there is none. */
size_t zr_characters_cut(const char *p, size_t n);

/* ---- charsmap.c ---- */

/* A map of SentencePiece, in base64; what is wrong with it is said. */
int zr_charsmap_open(const char *base64, struct zr_charsmap **out, struct zr_error *err);
void zr_charsmap_close(struct zr_charsmap *m); /* NULL is fine */
int zr_charsmap_apply(const struct zr_charsmap *m, const char *p, size_t n, struct zr_buf *out);

/* ---- normalizer.c ---- */

/* Appends p[0..n) as the steps change it. begins: it is the start of a section. */
int zr_normalize(const struct zr_normalizer *z, struct zr_match *m, const char *p, size_t n,
		 int begins, struct zr_buf *out, struct zr_error *err);
/* Bytes of p[0..n) that do not depend on what follows. */
size_t zr_normalize_settled(const struct zr_normalizer *z, const char *p, size_t n, int final);
void zr_normalizer_free(struct zr_normalizer *z);

/* ---- marks.c ---- */

enum { ZR_MARK_RAW, ZR_MARK_NORMALIZER, ZR_MARK_NORMALIZED, ZR_MARK_SECTION, ZR_MARK_STAGES };

struct zr_mark {
	uint64_t at; /* in what went into the stage; in the end the number of its token */
	int stage;
	/* 1: goes to the first token of what its byte becomes, or of what is put before that */
	int first;
};
struct zr_marks {
	struct zr_mark *mark;
	size_t n, room, first;       /* those before `first` have a token */
	uint64_t at[ZR_MARK_STAGES]; /* bytes that each stage handed on */
	uint64_t tokens;             /* of the document, so far */
	size_t inserted;             /* bytes that the pass under way puts before its bytes */
	int settled;                 /* the document has ended */
};
int zr_marks_add(struct zr_marks *m, uint64_t at, int first); /* 0 or ZR_ENOMEM */
/* Where a byte of p[0..n) is in what that becomes; first: the first of it. ZR_MARK_LOST: there was
 * no memory to find that. */
#define ZR_MARK_LOST SIZE_MAX
typedef size_t zr_marks_map(const void *arg, const char *p, size_t n, size_t at, int first);
/* A stage hands on its next n bytes, from p on; in the next one they begin at `to`. map: NULL where
 * they stay as they are. 0 or ZR_ENOMEM. */
int zr_marks_pass(struct zr_marks *m, int stage, uint64_t n, uint64_t to, zr_marks_map *map,
		  const void *arg, const char *p);
/* Whether a mark is on a stage's bytes before `end`, or on what they become. */
static inline int zr_marks_before(const struct zr_marks *m, int stage, uint64_t end)
{
	const struct zr_mark *k = NULL;
	if (m->first < m->n)
		k = &m->mark[m->first];
	return k && (k->stage > stage || (k->stage == stage && k->at < end));
}
/* The next token is of a stage's bytes before `end`. */
void zr_marks_token(struct zr_marks *m, int stage, uint64_t end);
void zr_marks_end(struct zr_marks *m);

/* ---- lists.c ---- */

/* An array or an object in the text of a file, or another value that stands in its place. */
struct zr_list {
	const char *text; /* where it starts; NULL: the file has none */
	const char *p;    /* the entry that is read */
	size_t bytes, entries;
};
struct zr_lists {
	struct zr_list vocab, merges;
	struct zr_buf rest; /* the file's text without them, for jansson */
};
/* Of the n bytes of a tokenizer.json, which end with a 0 that is not counted; 0 or ZR_ENOMEM. */
int zr_lists_find(struct zr_lists *s, const char *text, size_t n);
/* 1: l->p is where the next entry starts; 0: there is none; -1: not JSON. After 1 whoever read the
 * entry sets l->p behind it. */
int zr_list_next(struct zr_list *l);
/* Read what stands at p, after white space, and return where it ends. NULL: it is something else,
 * or not JSON, or p is NULL. The text of a string is appended. */
const char *zr_list_mark(const char *p, char mark);
const char *zr_list_string(const char *p, struct zr_buf *to);
const char *zr_list_integer(const char *p, int64_t *value);
const char *zr_list_number(const char *p, double *value); /* as the library rounds it */

/* ---- names.c ---- */

struct zr_name {
	const char *p; /* borrowed */
	uint32_t n;
	int32_t id;
};
struct zr_names {
	struct zr_name *name; /* [n] in the order they came */
	size_t n, mask;
	uint32_t *at;       /* [mask + 1] open addressing: one more than the number of a name */
	struct zr_buf text; /* for their texts; has room, as these must not move */
};
int zr_names_room(struct zr_names *s, size_t n); /* for n of them; 0 or ZR_ENOMEM */
void zr_names_free(struct zr_names *s);
const struct zr_name *zr_names_find(const struct zr_names *s, const char *p, size_t n);
/* The id goes with the name from now on; there is room. Returns whether another did before. */
int zr_names_put(struct zr_names *s, const char *p, size_t n, int64_t id);

/* ---- load.c and its parts ---- */

enum { ZR_TOKEN_OTHER, ZR_TOKEN_MADE, ZR_TOKEN_BYTE };

struct zr_tokenizer_loading {
	const char *file;
	struct zr_tokenizer *t;
	const char *text; /* of the file, `bytes` of it */
	size_t bytes;
	struct zr_lists lists;
	struct zr_names names; /* of the vocabulary, in the end also those of added tokens */
	struct zr_error *err;
	int byte_level, metaspaces; /* in the pre-tokenizer so far */
	/* of SentencePiece: a merge makes a token with a space behind another character */
	int joins_words;
};
/* load_values.c */
/* Fails with "FILE: place: text". */
int zr_load_fail(const struct zr_tokenizer_loading *l, int code, const char *place, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));
/* Fails for a value of another type: "FILE: place: text, found ...". */
int zr_load_found(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		  const json_t *found);
/* The same of what stands in the file's text; NULL: nothing. Or the file is no JSON at all. */
int zr_load_unread(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		   const char *found);
int zr_load_flag(const struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		 const char *key, int otherwise, int *out);
const char *zr_load_type(const json_t *o); /* "": it has none */
/* The i-th step of a normalizer, pre-tokenizer or decoder, those of sequences one after the other;
 * NULL: behind the last. `list` is what a sequence calls its steps. */
const json_t *zr_load_step(const json_t *o, const char *list, size_t i);
int zr_load_regex(struct zr_tokenizer_loading *l, const char *place, const char *pattern,
		  int literal, struct zr_regex **out);
/* load_vocabulary.c */
int zr_load_vocab(struct zr_tokenizer_loading *l, const json_t *added);
int zr_load_room(struct zr_tokenizer_loading *l, size_t bytes, const json_t *added);
/* Room for the names of the vocabulary, and these. */
int zr_load_names(struct zr_tokenizer_loading *l, const json_t *added);
int zr_load_token(struct zr_tokenizer_loading *l, const struct zr_name *name, int *kind);
int zr_load_unknown(struct zr_tokenizer_loading *l, const json_t *v, const char *otherwise);
/* load_bpe.c, load_models.c */
int zr_load_bpe(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_unigram(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_wordpiece(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_normalizer(struct zr_tokenizer_loading *l, const json_t *o); /* load_normalizer.c */
/* load_steps.c */
int zr_load_splits(struct zr_tokenizer_loading *l, const json_t *o);
int zr_load_gaps(struct zr_tokenizer_loading *l); /* when all else is there */
int zr_load_template(struct zr_tokenizer_loading *l, const json_t *o);
int zr_load_decoder(struct zr_tokenizer_loading *l, const json_t *o); /* load_decoder.c */
int zr_load_added(struct zr_tokenizer_loading *l,
		  const json_t *o); /* after the normalizer; load_added.c */

#endif
