/* SPDX-License-Identifier: Apache-2.0
 *
 * chunks.c - where text is changed character by character and split at white space first, what is
 * between two gaps has ids of its own, and most of it comes again: what is remembered is neither
 * normalized nor split. Chunks that are not remembered become one text, of a batch of chunks.
 */
#define _DEFAULT_SOURCE
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/encoder.h"

#define ADDED     1    /* found: added tokens */
#define CHUNKS    128  /* looked for at a time */
#define MOST_HELD 4096 /* bytes of a chunk that waits for its end */

/* What is between two gaps. */
struct chunk {
	const char *p;
	size_t n;
	struct zr_memo *place; /* NULL: it is not remembered */
	int found;             /* in its place: so many ids; -1: it is not there */
	int32_t id[ZR_MEMO_IDS];
	size_t end, ids; /* of its text and its ids among those of the chunks that are not there */
};

struct zr_chunks {
	struct zr_memo *memo;
	char gap;         /* what stands between normalized chunks */
	int within;       /* text up to here is part of a chunk that goes on */
	struct chunk *at; /* whose ids come next */
	uint64_t start;   /* of the text of these chunks */
	struct zr_buf ids;
	struct chunk chunk[CHUNKS];
};

int zr_chunks_open(struct zr_encoder *e)
{
	struct zr_chunks *k = NULL;

	for (int c = 0; !k && c < 128; c++)
		if (e->t->gap[c]) {
			k = calloc(1, sizeof *k);
			if (!k || zr_buf_reserve(&k->ids, 1) ||
			    zr_normalize(&e->t->normalizer, e->match, &(char){ (char)c }, 1, 0,
					 &e->normalized, NULL)) {
				zr_chunks_close(k);
				return ZR_ENOMEM;
			}

			k->gap = *e->normalized.p;
			k->memo = zr_model_memo(e->model);
		}
	e->chunks = k;
	return 0;
}

void zr_chunks_close(struct zr_chunks *k)
{
	if (k)
		zr_buf_free(&k->ids);
	free(k);
}

/* Which of 8 bytes may be gaps, as they are up to a space: the lowest bit that is set is right. */
static uint64_t may_be_gaps(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x;
	memcpy(&x, p, sizeof x);
	x = le64toh(x);
	return (x - ones * (' ' + 1)) & ~x & ones << 7;
}

/* The end of what starts at `at` and has no gap; n: it may go on. */
static size_t gap_after(const struct zr_encoder *e, const char *p, size_t n, size_t at)
{
	while (at < n) {
		uint64_t some = 1;
		if (n - at >= 8)
			some = may_be_gaps(p + at);
		if (!some)
			at += 8;
		else
			at += (size_t)__builtin_ctzll(some) / 8;
		if (some && e->t->gap[(unsigned char)p[at]])
			break;

		at += some != 0;
	}

	return at;
}

/* The next chunks of p[*at..n) that have ended; *at: behind them. Returns their number. */
static size_t next_chunks(struct zr_encoder *e, const char *p, size_t n, size_t *at)
{
	struct zr_chunks *k = e->chunks;
	size_t count = 0, end, from = *at;

	for (; count < CHUNKS; from = end) {
		while (from < n && e->t->gap[(unsigned char)p[from]])
			from++;
		end = gap_after(e, p, n, from);
		if (end == n)
			break;

		struct chunk *c = &k->chunk[count++];
		c->p = p + from;
		c->n = end - from;
		if (c->n > ZR_MEMO_BYTES)
			c->place = NULL;
		else
			c->place = zr_memo_place(k->memo, ZR_MEMO_CHUNK, c->p, c->n);
	}

	e->marks.at[ZR_MARK_NORMALIZER] += from - *at;
	*at = from;
	return count;
}

/* Ids of the chunk that has the text at `start`. */
static int keep(struct zr_encoder *e, const int32_t *ids, size_t count, uint64_t start)
{
	struct zr_chunks *k = e->chunks;

	for (; start - k->start >= k->at->end; k->at++)
		k->at->ids = k->ids.n / sizeof *ids;
	if (zr_buf_add(&k->ids, ids, count * sizeof *ids))
		return no_memory(e);

	return 0;
}

/* The ids of the chunks that are not remembered, all of them together. */
static int find_ids(struct zr_encoder *e, size_t count)
{
	struct zr_chunks *k = e->chunks;
	struct zr_buf *to = &e->normalized;
	struct zr_found f = { .token = NULL };
	int rc = 0;

	to->n = 0;
	for (struct chunk *c = k->chunk; !rc && c < k->chunk + count; c++) {
		if (c->found < 0) {
			rc = zr_normalize(&e->t->normalizer, e->match, c->p, c->n, 0, to, e->err);
			if (!rc && zr_buf_add(to, &k->gap, 1))
				rc = no_memory(e);
		}

		c->end = to->n;
	}

	if (!rc && e->t->added[NORMALIZED].n)
		zr_added_find(&e->t->added[NORMALIZED], e->match, to->p, to->n, 0, 1, 0, &f);
	k->ids.n = 0;
	k->at = k->chunk;
	k->start = e->marks.at[ZR_MARK_SECTION];
	if (rc || !to->n)
		return rc;
	if (f.token)
		return ADDED;

	e->keep = keep;
	rc = zr_encoder_split(e, to->p, to->n, 1);
	e->keep = NULL;
	for (; k->at < k->chunk + count; k->at++)
		k->at->ids = k->ids.n / sizeof(int32_t);

	return rc;
}

/* The chunks one by one, as sections: there are added tokens. */
static int chunks_apart(struct zr_encoder *e, size_t count)
{
	int rc = 0;

	for (struct chunk *c = e->chunks->chunk; !rc && c < e->chunks->chunk + count; c++) {
		e->marks.at[ZR_MARK_NORMALIZER] -= c->n; /* which it adds again */
		rc = zr_encoder_normalize(e, c->p, c->n, 1);
	}

	return rc;
}

static void find_chunk(struct chunk *c)
{
	const struct zr_memo *m = NULL;

	if (c->place)
		m = zr_memo_find(c->place, ZR_MEMO_CHUNK, c->p, c->n);
	c->found = m ? m->ids : -1;
	if (m)
		memcpy(c->id, m->id, sizeof c->id);
}

static int chunks_to_ids(struct zr_encoder *e, size_t count)
{
	struct zr_chunks *k = e->chunks;
	struct chunk *c, *end = k->chunk + count;
	size_t from = 0;

	for (c = k->chunk; c < end; c++)
		find_chunk(c);
	int rc = find_ids(e, count);
	if (rc == ADDED)
		return chunks_apart(e, count);

	const int32_t *ids = (const int32_t *)k->ids.p;
	for (c = k->chunk; !rc && c < end; from = c++->ids) {
		if (c->found >= 0) {
			e->marks.tokens += (uint64_t)c->found;
			rc = zr_encoder_emit(e, c->id, (size_t)c->found);
			continue;
		}

		rc = zr_encoder_emit(e, ids + from, c->ids - from);
		if (c->place)
			zr_memo_put(c->place, ZR_MEMO_CHUNK, c->p, c->n, ids + from, c->ids - from);
	}

	return rc;
}

int zr_chunks_normalize(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;
	struct zr_chunks *k = e->chunks;
	size_t at = 0, count = CHUNKS;

	if (zr_buf_add(b, p, n))
		return no_memory(e);

	int rc = 0, marked = e->marks.first < e->marks.n;
	size_t end;
	if (k->within && !marked)
		end = gap_after(e, b->p, b->n, 0);
	else
		end = b->n;
	if (k->within && end < b->n) {
		k->within = 0;
		at = end;
		rc = zr_encoder_normalize(e, b->p, end, 1);
	}

	while (!rc && !marked && !k->within && count == CHUNKS) {
		count = next_chunks(e, b->p, b->n, &at);
		rc = chunks_to_ids(e, count);
	}

	zr_buf_drop(b, at);
	k->within |= marked || b->n > MOST_HELD;
	if (!rc && (k->within || final))
		rc = zr_encoder_by_steps(e, "", 0, final);
	k->within &= !final;
	return rc;
}
