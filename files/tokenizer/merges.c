/* SPDX-License-Identifier: Apache-2.0
 *
 * merges.c - the merges of BPE by their pair, of which each has one place: a perfect hash by
 * displacements (Belazzougui, Botelho and Dietzfelbinger 2009, "Hash, displace, and compress").
 * Pairs fall in groups by their hash. Each group, the largest first, gets the smallest displacement
 * that sends all of its pairs to places that are free.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define GROUP   4   /* pairs in one, on average, at most */
#define LARGEST 256 /* pairs in one; more are so only in a file made for it */
#define TRIES   8   /* with other hashes */

/* Of an id, so that none has all of them set. */
static unsigned bits_of(size_t ids)
{
	unsigned bits = 1;
	while (ids >> bits)
		bits++;
	return bits;
}

size_t zr_merges_most(size_t ids)
{
	unsigned bits = 64 - 2 * bits_of(ids);
	if (bits < 24)
		return (size_t)1 << bits;

	return ZR_MERGES_MOST;
}

int zr_merges_room(struct zr_merges *m, size_t n, size_t ids)
{
	m->bits = bits_of(ids);
	m->list = malloc((n + 1) * sizeof *m->list);
	m->id = malloc((n + 1) * sizeof *m->id);
	if (m->list && m->id)
		return 0;

	return ZR_ENOMEM;
}

void zr_merges_put(struct zr_merges *m, uint32_t left, uint32_t right, uint32_t id)
{
	m->list[m->n] = (uint64_t)m->n << 2 * m->bits | zr_merges_pair(m, left, right);
	m->id[m->n++] = id;
}

void zr_merges_free(struct zr_merges *m)
{
	free(m->list);
	free(m->id);
	free(m->place);
	free(m->displacement);
}

/* ---- groups ---- */

struct groups {
	size_t n;
	uint64_t *list;  /* of group g: list[end[g] .. end[g + 1]) */
	uint32_t *end;   /* [n + 2] */
	uint32_t *order; /* [n] groups, the largest first */
};

static int open_groups(struct groups *g, const struct zr_merges *m)
{
	g->n = (size_t)1 << (64 - m->group_shift);
	g->list = malloc((m->n + 1) * sizeof *g->list);
	g->end = calloc(g->n + 2, sizeof *g->end);
	g->order = malloc(g->n * sizeof *g->order);
	if (g->list && g->end && g->order)
		return 0;

	return ZR_ENOMEM;
}

static void close_groups(struct groups *g)
{
	free(g->list);
	free(g->end);
	free(g->order);
}

static size_t group_of(const struct zr_merges *m, uint64_t merge)
{
	return (size_t)(zr_merges_hash(m, zr_merges_pair_of(m, merge)) >> m->group_shift);
}

static void fill_groups(struct groups *g, const struct zr_merges *m)
{
	for (size_t i = 0; i < m->n; i++)
		g->end[group_of(m, m->list[i]) + 2]++;
	for (size_t i = 0; i < g->n; i++)
		g->end[i + 2] += g->end[i + 1];
	for (size_t i = 0; i < m->n; i++)
		g->list[g->end[group_of(m, m->list[i]) + 1]++] = m->list[i];
}

/* How many groups come before one of as many pairs: the place of its size in `start`. */
static uint32_t *by_size(const struct groups *g, uint32_t *start, size_t i)
{
	uint32_t n = g->end[i + 1] - g->end[i];
	return &start[n < LARGEST ? LARGEST - n : 0];
}

static void order_groups(struct groups *g)
{
	uint32_t start[LARGEST + 1] = { 0 }, before = 0;

	for (size_t i = 0; i < g->n; i++)
		++*by_size(g, start, i);
	for (int i = 0; i <= LARGEST; i++) {
		uint32_t n = start[i];
		start[i] = before;
		before += n;
	}

	for (size_t i = 0; i < g->n; i++)
		g->order[(*by_size(g, start, i))++] = (uint32_t)i;
}

/* Of merges with the same pair the last one counts. Returns how many are left. */
static uint32_t last_of_each(const struct zr_merges *m, uint64_t *list, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0, k; i < n; i++) {
		for (k = 0; k < kept && zr_merges_pair_of(m, list[k] ^ list[i]); k++)
			;
		list[k] = list[i];
		kept += k == kept;
	}

	return kept;
}

/* ---- places ---- */

static uint64_t *place_of(const struct zr_merges *m, uint64_t merge, uint32_t displacement)
{
	uint64_t hash = zr_merges_hash(m, zr_merges_pair_of(m, merge));
	return zr_merges_place(m, hash, displacement);
}

/* Puts a group where a displacement sends it; 0: not all of these places are free. */
static int put_group(struct zr_merges *m, const uint64_t *list, uint32_t n, uint32_t displacement)
{
	uint32_t i = 0;

	for (; i < n; i++) {
		uint64_t *place = place_of(m, list[i], displacement);
		if (*place != ZR_NO_MERGE)
			break;

		*place = list[i];
	}

	if (i == n)
		return 1;

	while (i-- > 0)
		*place_of(m, list[i], displacement) = ZR_NO_MERGE;

	return 0;
}

static int put_groups(struct zr_merges *m, struct groups *g)
{
	memset(m->place, 0xff, m->places * sizeof *m->place);
	for (size_t i = 0; i < g->n; i++) {
		uint32_t k = g->order[i], d = 0;
		uint64_t *list = g->list + g->end[k];
		uint32_t n = g->end[k + 1] - g->end[k];
		if (n > LARGEST)
			return 0;

		n = last_of_each(m, list, n);
		while (d <= UINT16_MAX && !put_group(m, list, n, d))
			d++;
		if (d > UINT16_MAX)
			return 0;

		m->displacement[k] = (uint16_t)d;
	}

	return 1;
}

/* Finds a factor whose hashes fit all pairs into their places. Returns whether one of some does. */
static int find_factor(struct zr_merges *m, struct groups *g)
{
	m->factor = UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < TRIES; i++) {
		if (i)
			m->factor += UINT64_C(0x2545f4914f6cdd1e); /* it stays odd */
		memset(g->end, 0, (g->n + 2) * sizeof *g->end);
		fill_groups(g, m);
		order_groups(g);
		if (put_groups(m, g))
			return 1;
	}

	return 0;
}

int zr_merges_ready(struct zr_merges *m)
{
	struct groups g = { 0 };
	int rc = ZR_ENOMEM;

	m->group_shift = 63;
	while (m->n >> (64 - m->group_shift) >= GROUP)
		m->group_shift--;
	m->places = m->n + m->n / 3 + 16;
	m->place = malloc(m->places * sizeof *m->place);
	m->displacement = calloc((size_t)1 << (64 - m->group_shift), sizeof *m->displacement);
	if (m->place && m->displacement)
		rc = open_groups(&g, m);
	if (!rc && !find_factor(m, &g))
		rc = ZR_EINVAL;

	close_groups(&g);
	free(m->list);
	m->list = NULL;
	return rc;
}
