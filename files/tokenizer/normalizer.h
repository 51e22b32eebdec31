/* SPDX-License-Identifier: Apache-2.0
 *
 * normalizer.h - the steps of a normalizer, and what they are made of: Unicode's forms, changes of
 * single characters, the maps of SentencePiece. Only files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_NORMALIZER_H
#define ZR_TOKENIZER_NORMALIZER_H

#include "core/base/error.h"
#include "files/tokenizer/buf.h"
#include "files/tokenizer/regex.h"

enum {
	ZR_STEP_FORM,       /* one of Unicode's normalization forms */
	ZR_STEP_CHARACTERS, /* each character by itself: BERT's, Lowercase, StripAccents, Nmt */
	ZR_STEP_CHARSMAP,   /* a map of SentencePiece */
	ZR_STEP_REPLACE,    /* one text for each match of another */
	ZR_STEP_STRIP,      /* white space at the ends goes */
	ZR_STEP_PREPEND,    /* a text comes first */
	ZR_STEP_SPACES      /* U+2581 becomes a space */
};
enum { ZR_UNMARK_NONE, ZR_UNMARK_NONSPACING, ZR_UNMARK_ALL }; /* which marks go */
enum { ZR_FORM_C, ZR_FORM_D, ZR_FORM_KC, ZR_FORM_KD };

struct zr_step {
	int kind;               /* ZR_STEP_* */
	int form;               /* of ZR_STEP_FORM: ZR_FORM_* */
	struct zr_regex *regex; /* of ZR_STEP_REPLACE */
	char *text;             /* of ZR_STEP_REPLACE and ZR_STEP_PREPEND: what is put in */
	int left, right;        /* of ZR_STEP_STRIP */
	struct zr_charsmap *map;

	/* of ZR_STEP_CHARACTERS, in the order in which it does them */
	int clean, spaced_chinese; /* as BERT cleans; spaces around Chinese characters */
	int decompose, unmark;     /* form D; ZR_UNMARK_* */
	int lower, nmt;            /* lower case; as the normalizer Nmt */
	int16_t ascii[128];        /* what becomes of each character of ASCII; -1: nothing */
};

struct zr_normalizer {
	struct zr_step *step;
	int n;
	int whole; /* a section is not normalized before it has ended */
};

/* Appends p[0..n) as the steps change it. begins: p is the start of a section. */
int zr_normalize(const struct zr_normalizer *z, struct zr_match *m, const char *p, size_t n,
		 int begins, struct zr_buf *out, struct zr_error *err);
/* How many bytes of p[0..n) become the same whatever follows them. */
size_t zr_normalize_settled(const struct zr_normalizer *z, const char *p, size_t n, int final);
void zr_normalizer_free(struct zr_normalizer *z);

/* ---- forms.c: Unicode's normalization forms ---- */

typedef int zr_form_put(void *arg, const char *p, size_t n);
/* Passes p[0..n) in a form to put: of form C what is settled, of the others all of it. */
int zr_form(int form, const char *p, size_t n, zr_form_put *put, void *arg, struct zr_error *err);
/* 0, or ZR_ENOTSUP where this build has no tables of Unicode. */
int zr_unicode_there(struct zr_error *err);
/* How many bytes of p[0..n) are settled in form C: with `final` all, else those before a character
 * that combines with nothing before it. */
size_t zr_nfc_settled(const char *p, size_t n, int final);
/* Where the byte at `at` is when p[0..n) is in form C: at its character, or at the one that it
 * became a part of. */
size_t zr_nfc_place(const void *unused, const char *p, size_t n, size_t at, int first);

/* ---- characters.c: changes of single characters ---- */

/* Appends p[0..n), changed character by character. 0 or ZR_ENOMEM. */
int zr_characters(const struct zr_step *s, const char *p, size_t n, struct zr_buf *out);
/* Fills s->ascii, when all else of the step has been read. */
void zr_characters_ready(struct zr_step *s);
/* The last place in p[0..n) between two letters or digits that no step joins; 0: there is none. */
size_t zr_characters_cut(const char *p, size_t n);

/* ---- charsmap.c: maps of SentencePiece ---- */

/* base64: the map as the file has it. ZR_EINVAL: it is none. */
int zr_charsmap_open(const char *base64, struct zr_charsmap **out, struct zr_error *err);
void zr_charsmap_close(struct zr_charsmap *m); /* NULL is fine */
int zr_charsmap_apply(const struct zr_charsmap *m, const char *p, size_t n, struct zr_buf *out);

#endif
