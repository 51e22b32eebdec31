/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.c - sums in rank order (invariant I1), piece by piece: what of a segment is whose, and the
 * adding.
 */
#include "tcp.h"

#define HALF  (1u << 20)  /* bytes of a piece of all ranks, */
#define LEAST (64u << 10) /* but no less than so many of each */
#define ITEM  (64u << 10) /* bytes of a sum per item of parallel() */

uint64_t tc_piece_bytes(int32_t ranks)
{
	uint64_t n = HALF / (uint64_t)ranks / 64 * 64;
	return n > LEAST ? n : LEAST;
}

uint64_t tc_staging_bytes(int32_t ranks)
{
	return 2 * tc_piece_bytes(ranks) * (uint64_t)ranks;
}

uint64_t tc_most_staged(int32_t world)
{
	const uint64_t least = LEAST * (uint64_t)world;
	return 2 * (least > HALF ? least : HALF);
}

/* Elements of a part of an all_reduce: equal ones, but for the last. */
static int64_t part_elements(int64_t count, int32_t ranks)
{
	return ((count + ranks - 1) / ranks + 15) / 16 * 16;
}

static int64_t first_element(int64_t count, int32_t ranks, int32_t r)
{
	int64_t first = part_elements(count, ranks) * r;
	return first < count ? first : count;
}

uint64_t tc_part_at(const struct tc_group *g, const struct tc_pend *p, int32_t seg, int32_t r)
{
	int64_t count = p->seg[seg].count;
	uint64_t each = comm_dtype_bytes(p->own.dtype);
	if (p->small)
		return 0;
	if (p->own.kind == ZR_COMM_ALL_REDUCE)
		return (uint64_t)first_element(count, g->size, r) * each;
	return (uint64_t)count * (uint64_t)r * each;
}

uint64_t tc_part(const struct tc_group *g, const struct tc_pend *p, int32_t seg, int32_t r)
{
	if (p->own.kind == ZR_COMM_ALL_REDUCE && !p->small)
		return tc_part_at(g, p, seg, r + 1) - tc_part_at(g, p, seg, r);
	return (uint64_t)p->seg[seg].count * comm_dtype_bytes(p->own.dtype);
}

uint64_t tc_count_pieces(const struct tc_group *g, const struct tc_pend *p)
{
	uint64_t n = 0, most = tc_piece_bytes(g->size);
	for (int32_t i = 0; i < p->own.n_seg; i++)
		n += (tc_part(g, p, i, g->rank) + most - 1) / most;
	return n;
}

/* A stretch of one piece's sum. */
struct adding {
	struct zr_inst *c;
	const struct tc_group *g;
	const char *staged; /* parts of all ranks, but for this one's */
	const char *own;
	char *to;
	uint64_t bytes; /* of a part */
	int32_t dtype;
};

static void add_stretch(void *arg, int64_t item, int32_t worker)
{
	const struct adding *a = arg;
	uint64_t at = (uint64_t)item * ITEM, n = a->bytes - at < ITEM ? a->bytes - at : ITEM;
	const char **from = a->c->source + (int64_t)worker * a->c->world;
	char *to = a->to + at;
	for (int32_t r = 0; r < a->g->size; r++)
		from[r] = a->staged + (uint64_t)r * tc_piece_bytes(a->g->size) + at;
	from[a->g->rank] = a->own + at;
	zl_sum(a->dtype, &to, 1, from, a->g->size, n, 0);
}

static void add_piece(struct zr_inst *c, const struct tc_group *g, const struct tc_pend *p,
		      uint64_t bytes)
{
	const struct zr_comm_seg *s = &p->seg[p->add_seg];
	const uint64_t own = tc_part_at(g, p, p->add_seg, g->rank);
	const uint64_t half = tc_piece_bytes(g->size) * (uint64_t)g->size;
	struct adding a = {
		.c = c,
		.g = g,
		.staged = g->staging + half * (p->added % 2),
		.own = (const char *)s->send + own + p->add_at,
		.to = (char *)s->recv + (p->own.kind == ZR_COMM_ALL_REDUCE ? own : 0) + p->add_at,
		.bytes = bytes,
		.dtype = p->own.dtype,
	};
	c->h->parallel(c->h, (int64_t)((bytes + ITEM - 1) / ITEM), add_stretch, &a);
}

/* The sum of a small one may take the place of what others are still sent. */
static int may_add(const struct tc_group *g, const struct tc_pend *p)
{
	return p->added < p->pieces && (!p->small || p->sent == g->size - 1);
}

void tc_add_pieces(struct zr_inst *c, struct tc_group *g, struct tc_pend *p)
{
	const uint64_t most = tc_piece_bytes(g->size);
	while (may_add(g, p) && p->arrived[p->added % 2] == g->size - 1) {
		uint64_t all = tc_part(g, p, p->add_seg, g->rank);
		while (p->add_at == all) {
			all = tc_part(g, p, ++p->add_seg, g->rank);
			p->add_at = 0;
		}

		uint64_t bytes = all - p->add_at < most ? all - p->add_at : most;
		add_piece(c, g, p, bytes);
		p->add_at += bytes;
		p->arrived[p->added++ % 2] = 0;
	}

	if (p->added == p->pieces && g->adds == p)
		g->adds = NULL;
}
