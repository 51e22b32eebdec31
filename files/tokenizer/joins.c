/* SPDX-License-Identifier: Apache-2.0
 *
 * joins.c - where merges cannot join the characters of a word: between two that no merge has as its
 * first part's last and its second part's first character. What is between two such places is
 * merged by itself, whatever is beside it: a shorter word, which comes more often.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define BITS 32 /* for each merge: few of those that are not set share one */

/* What becomes of characters without a token. */
enum {
	BYTES,    /* tokens of their bytes, which nothing joins */
	EACH,     /* each is an unknown token, which nothing joins */
	TOGETHER, /* neighbours are one */
	OTHER,    /* merges may join them */
};

struct zr_joins {
	char ascii[128][128]; /* whether a merge joins two characters */
	uint64_t *bit;        /* of the pairs of characters that a merge joins, by their hash */
	unsigned shift;
	int none;   /* of these */
	int spaced; /* a space stands for U+2581 */
	int32_t unknown;
	const int32_t *token; /* of a character alone; borrowed */
	const int32_t *byte;
};

static inline size_t place(const struct zr_joins *j, uint32_t a, uint32_t b)
{
	return (size_t)(((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15) >> j->shift);
}

static inline int is_unknown(const struct zr_joins *j, uint32_t c)
{
	return c < ZR_BMP && j->token[c] < 0;
}

/* Of characters behind ZR_BMP it is not known whether they have a token. */
static int none_joins(const struct zr_joins *j, uint32_t a, uint32_t b)
{
	int one = a >= ZR_BMP || is_unknown(j, a), other = b >= ZR_BMP || is_unknown(j, b);
	if (j->none == TOGETHER)
		return one && other;

	return j->none == OTHER && (one || other);
}

static inline int may_join(const struct zr_joins *j, uint32_t a, uint32_t b)
{
	if (a < 128 && b < 128)
		return j->ascii[a][b];
	size_t at = place(j, a, b);
	return (j->bit[at / 64] >> (at % 64) & 1) || (j->none >= TOGETHER && none_joins(j, a, b));
}

/* Unknown characters at p that are one token; 0: they may be part of more, or there are none. */
static size_t together(const struct zr_joins *j, const char *p, size_t n)
{
	size_t at = 0, len = 0;
	uint32_t c = 0;

	for (; at < n && is_unknown(j, c = zr_utf8_read(p + at, &len)); at += len)
		;
	if (at < n && c >= ZR_BMP)
		return 0;

	return at;
}

/* The tokens of a character that nothing joins; returns how many: 0 if that is not known. */
static int tokens_of(const struct zr_joins *j, uint32_t c, const char *p, size_t n, int32_t *ids)
{
	int none = is_unknown(j, c);
	if (c >= ZR_BMP || (none && j->none != BYTES))
		return 0;
	if (none && j->spaced && c == ' ') {
		p = ZR_SPACE;
		n = strlen(ZR_SPACE);
	}

	if (none)
		ids[0] = j->byte[(unsigned char)p[0]];
	else
		ids[0] = j->token[c];
	for (size_t i = 1; none && i < n; i++)
		ids[i] = j->byte[(unsigned char)p[i]];

	return none ? (int)n : 1;
}

/* Bytes from p on that are one unknown token; 0: the first character is known, or what it becomes
 * depends on others. */
static size_t unknown_part(const struct zr_joins *j, uint32_t c, const char *p, size_t n,
			   size_t len)
{
	if (!is_unknown(j, c))
		return 0;
	if (j->none == EACH)
		return len;
	if (j->none == TOGETHER)
		return together(j, p, n);

	return 0;
}

size_t zr_joins_part(const struct zr_joins *j, const char *p, size_t n, int32_t ids[ZR_JOINS_IDS],
		     int *count)
{
	size_t len, more = 0;
	uint32_t c = zr_utf8_read(p, &len), next = 0;
	size_t at = unknown_part(j, c, p, n, len);

	*count = 0;
	if (at) {
		ids[(*count)++] = j->unknown;
		return at;
	}

	for (; at + len == n || !may_join(j, c, next = zr_utf8_read(p + at + len, &more));
	     c = next, len = more) {
		int some = tokens_of(j, c, p + at, len, ids + *count);
		if (!some && *count)
			return at;

		at += len;
		*count += some;
		if (!some || at == n || *count > ZR_JOINS_IDS - 3)
			return at;
	}

	if (at)
		return at;

	for (at = len + more; at < n; at += len) {
		c = next;
		next = zr_utf8_read(p + at, &len);
		if (!may_join(j, c, next))
			break;
	}

	return at;
}

/* ---- what the merges say ---- */

/* Whether it is a token of text that merges can begin with: not that of a byte. */
static int is_text(const struct zr_tokenizer *t, uint32_t id)
{
	const struct zr_token *o = &t->token[id];
	return o->n && !(o->n == 1 && t->byte[(unsigned char)o->p[0]] == (int32_t)id);
}

static int put_pair(struct zr_joins *j, const struct zr_tokenizer *t, uint64_t merge)
{
	const struct zr_merges *m = &t->bpe.merges;
	uint32_t left = (uint32_t)(zr_merges_pair_of(m, merge) >> m->bits);
	uint32_t right = (uint32_t)merge & zr_merges_no_id(m);
	if (!is_text(t, left) || !is_text(t, right))
		return 0;

	const struct zr_token *a = &t->token[left], *b = &t->token[right];
	const char *last = a->p + zr_utf8_previous(a->p, a->n);
	uint32_t before = (uint32_t)zr_utf8_value(last), behind = (uint32_t)zr_utf8_value(b->p);
	size_t at = place(j, before, behind);
	j->bit[at / 64] |= UINT64_C(1) << (at % 64);
	if (before < 128 && behind < 128)
		j->ascii[before][behind] = 1;

	return 1;
}

static int has_unknown(const struct zr_tokenizer *t)
{
	const struct zr_merges *m = &t->bpe.merges;

	for (size_t i = 0; i < m->places; i++) {
		uint64_t pair = zr_merges_pair_of(m, m->place[i]);
		if (m->place[i] != ZR_NO_MERGE &&
		    (pair >> m->bits == (uint32_t)t->unknown ||
		     (pair & zr_merges_no_id(m)) == (uint32_t)t->unknown))
			return 1;
	}

	return 0;
}

/* Where some bytes have a token, an unknown one may come behind what follows it. */
static int of_none(const struct zr_tokenizer *t)
{
	int bytes = 0;

	for (int i = 0; i < 256; i++)
		bytes += t->byte[i] >= 0;
	if (bytes == 256)
		return BYTES;
	if (bytes || t->unknown < 0 || has_unknown(t))
		return OTHER;
	if (t->bpe.fuse_unknown)
		return TOGETHER;

	return EACH;
}

int zr_joins_open(const struct zr_tokenizer *t, struct zr_joins **out)
{
	const struct zr_bpe *b = &t->bpe;
	struct zr_joins *j = calloc(1, sizeof *j);
	const struct zr_merges *m = &b->merges;
	int good = 1, bits = 10;

	*out = j;
	if (!j)
		return ZR_ENOMEM;

	while (bits < 40 && (size_t)1 << bits < BITS * m->n)
		bits++;
	j->shift = 64 - (unsigned)bits;
	j->bit = calloc((size_t)1 << (bits - 6), sizeof *j->bit);
	if (!j->bit)
		return ZR_ENOMEM;

	j->token = b->character;
	j->none = of_none(t);
	j->unknown = t->unknown;
	j->byte = t->byte;
	j->spaced = t->spaced;
	for (uint32_t i = 0; i < 128 * 128; i++)
		j->ascii[i / 128][i % 128] = (char)none_joins(j, i / 128, i % 128);
	for (size_t i = 0; good && i < m->places; i++)
		if (m->place[i] != ZR_NO_MERGE)
			good = put_pair(j, t, m->place[i]);
	if (!good) {
		zr_joins_close(j);
		*out = NULL;
	}

	return 0;
}

void zr_joins_close(struct zr_joins *j)
{
	if (j)
		free(j->bit);
	free(j);
}
