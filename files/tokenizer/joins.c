/* SPDX-License-Identifier: Apache-2.0
 *
 * joins.c - where merges cannot join the characters of a word: between two that no merge has as its
 * first part's last and its second part's first character. What is between two such places is
 * merged by itself, whatever is beside it: a shorter word, which comes more often.
 */
#include <stdlib.h>

#include "files/tokenizer/parts.h"

#define BITS 32   /* for each merge: few of those that are not set share one */

struct zr_joins {
	char ascii[128][128]; /* whether a merge joins two characters */
	uint64_t *bit;      /* of the pairs of characters that a merge joins, by their hash */
	unsigned shift;
	int all_bytes; /* what has no token becomes tokens of bytes, which nothing joins */
	const int32_t *token; /* of a character alone; borrowed */
};

static inline size_t place(const struct zr_joins *j, uint32_t a, uint32_t b)
{
	return (size_t)(((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15) >> j->shift);
}

/* Characters without a token may be unknown together with their neighbours. */
static inline int may_join(const struct zr_joins *j, uint32_t a, uint32_t b)
{
	if (a < 128 && b < 128)
		return j->ascii[a][b];
	size_t at = place(j, a, b);
	if (j->bit[at / 64] >> (at % 64) & 1)
		return 1;
	return !j->all_bytes && (a >= ZR_BMP || b >= ZR_BMP || j->token[a] < 0 || j->token[b] < 0);
}

size_t zr_joins_part(const struct zr_joins *j, const char *p, size_t n, int32_t *id)
{
	size_t len, end;
	uint32_t c = zr_utf8_read(p, &end), next;
	*id = -1;
	if (end == n || !may_join(j, c, next = zr_utf8_read(p + end, &len))) {
		*id = c < ZR_BMP ? j->token[c] : -1;
		return end;
	}
	for (end += len; end < n; end += len, c = next) {
		c = next;
		next = zr_utf8_read(p + end, &len);
		if (!may_join(j, c, next))
			break;
	}
	return end;
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
	j->all_bytes = 1;
	for (int i = 0; i < 256; i++)
		j->all_bytes &= t->byte[i] >= 0;
	for (int i = 0; i < 128 * 128 && !j->all_bytes; i++)
		j->ascii[i / 128][i % 128] = j->token[i / 128] < 0 || j->token[i % 128] < 0;
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
