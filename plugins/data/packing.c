/* SPDX-License-Identifier: Apache-2.0
 *
 * packing.c - see packing.h.
 */
#include "packing.h"

#include <stdlib.h>
#include <string.h>

#include "windows.h"

const char *const packings[] = { "bfd", "wrapped", "none", NULL };

/* ---- pieces --------------------------------------------------------------------------------- */

struct cutting {
	const struct zr_host *h;
	struct packing *p;
	const struct packing_source *src;
	int64_t room; /* pieces that fit p->piece */
	int64_t rest; /* rows that the sequence still has, of wrapped */
	int kind;
};

static int add_piece(struct cutting *c, int64_t document, int64_t from, int64_t rows,
		     int64_t targets)
{
	struct packing *p = c->p;
	if (p->pieces == c->room) {
		int64_t room = c->room ? c->room + c->room / 2 : 1024;
		struct piece *more = realloc(p->piece, (size_t)room * sizeof *more);
		if (!more)
			return zr_fail(c->h, ZR_ENOMEM, "no memory for %lld documents",
				       (long long)room);

		p->piece = more;
		c->room = room;
	}

	p->piece[p->pieces++] = (struct piece){ (uint32_t)document, (uint32_t)from, (int32_t)rows,
						(int32_t)targets };
	p->rows += rows;
	p->targets += targets;
	if (p->pieces >= UINT32_MAX)
		return zr_fail(c->h, ZR_EINVAL, "more than %u documents and pieces",
			       UINT32_MAX - 1);

	return ZR_OK;
}

static int cut_document(struct cutting *c, int64_t d, int64_t tokens)
{
	int64_t T = c->p->length, from, rows = 0;
	int rc = ZR_OK, wrapped = c->kind == PACKING_WRAPPED;

	if (tokens > UINT32_MAX)
		return zr_fail(c->h, ZR_EINVAL, "document %lld has %lld tokens, %u are allowed",
			       (long long)d, (long long)tokens, UINT32_MAX);

	for (from = 0; from < tokens - 1 && !rc; from += rows) {
		int64_t most = wrapped ? c->rest : T;
		rows = tokens - 1 - from;
		if (rows > most)
			rows = most;
		int64_t targets = c->src->targets(c->src->arg, d, from + 1, rows);
		if (targets || wrapped)
			rc = add_piece(c, d, from, rows, targets);
		else
			c->p->unlearned++;
		if (c->rest > rows)
			c->rest = c->rest - rows;
		else
			c->rest = T;
	}

	c->p->cut += rows < tokens - 1;
	return rc;
}

static int cut_all(struct cutting *c)
{
	struct packing *p = c->p;
	int rc = ZR_OK;

	for (int64_t d = 0; d < c->src->n && !rc; d++) {
		int64_t tokens = c->src->tokens(c->src->arg, d);
		if (!tokens)
			continue;

		p->documents++;
		if (tokens > p->longest)
			p->longest = tokens;
		if (tokens < 2 || !c->src->targets(c->src->arg, d, 1, tokens - 1))
			p->unlearned++;
		else
			rc = cut_document(c, d, tokens);
	}

	return rc;
}

/* ---- sequences of pieces as they are -------------------------------------------------------- */

static int allocate(const struct zr_host *h, uint32_t **to, int64_t n)
{
	*to = calloc((size_t)n, sizeof **to);
	if (!*to)
		return zr_fail(h, ZR_ENOMEM, "no memory for %lld sequences", (long long)n);

	return ZR_OK;
}

/* Ends a sequence before each piece that the last one has no room for, and leaves out those without
 * a target. */
static void join_pieces(struct packing *p, int kind)
{
	int64_t kept = 0, room = 0, targets = 0, i;

	for (i = 0; i < p->pieces; i++) {
		if (!room || kind == PACKING_NONE) {
			if (p->n && !targets)
				kept = (int64_t)p->first[--p->n];
			p->first[p->n++] = (uint32_t)kept;
			room = p->length;
			targets = 0;
		}

		p->piece[kept++] = p->piece[i];
		room -= p->piece[i].rows;
		targets += p->piece[i].targets;
	}

	if (p->n && !targets)
		kept = (int64_t)p->first[--p->n];
	p->first[p->n] = (uint32_t)kept;
	p->rows = 0;
	for (i = 0; i < kept; i++)
		p->rows += p->piece[i].rows;
	p->pieces = kept;
}

/* ---- best fit decreasing -------------------------------------------------------------------- */

/* The pieces by falling rows, those of as many rows in the order in which they stand. */
static int sort_pieces(const struct zr_host *h, struct packing *p)
{
	struct piece *sorted = malloc((size_t)p->pieces * sizeof *sorted);
	int64_t i, rows;

	if (!sorted)
		return zr_fail(h, ZR_ENOMEM, "no memory for %lld documents", (long long)p->pieces);

	for (i = 0; i < p->pieces; i++)
		p->longer[p->piece[i].rows - 1]++;
	for (rows = p->length - 1; rows > 0; rows--)
		p->longer[rows - 1] += p->longer[rows];
	for (i = 0; i < p->pieces; i++) /* longer[rows] goes from its first to the next's */
		sorted[p->longer[p->piece[i].rows]++] = p->piece[i];
	memmove(p->longer, p->longer + 1, (size_t)p->length * sizeof *p->longer);
	p->longer[p->length] = 0;
	free(p->piece);
	p->piece = sorted;
	return ZR_OK;
}

/* Sequences by the rows that they have room for: a list for each room, and a tree that says which
 * lists are not empty, with the lists as its leaves. */
struct rooms {
	int64_t leaves; /* a power of two above the largest room */
	uint8_t *any;   /* [2 * leaves]: node 1 is the root, node i has 2 i and 2 i + 1 below it */
	uint32_t *head; /* [leaves]: the last sequence of this room, and 1 */
	uint32_t *next; /* [sequences]: the one before it, and 1 */
};

static void tell(struct rooms *r, int64_t room)
{
	int64_t at = r->leaves + room;
	r->any[at] = r->head[room] != 0;
	while (at >>= 1)
		r->any[at] = r->any[2 * at] | r->any[2 * at + 1];
}

/* The least room of a sequence that has at least `rows`; -1: none. */
static int64_t least_room(const struct rooms *r, int64_t rows)
{
	int64_t at = r->leaves + rows;
	if (r->any[at])
		return rows;

	while (at > 1 && (at & 1 || !r->any[at + 1]))
		at >>= 1;
	if (at == 1)
		return -1;

	for (at++; at < r->leaves;)
		at = 2 * at + !r->any[2 * at];

	return at - r->leaves;
}

/* The sequence of each piece; returns how many there are. */
static int64_t fit(const struct packing *p, struct rooms *r, uint32_t *sequence)
{
	int64_t n = 0, i;

	for (i = 0; i < p->pieces; i++) {
		int64_t rows = p->piece[i].rows, room = least_room(r, rows);
		uint32_t s;
		if (room < 0)
			s = (uint32_t)n++;
		else
			s = r->head[room] - 1;
		if (room < 0) {
			room = p->length;
		} else {
			r->head[room] = r->next[s];
			tell(r, room);
		}

		sequence[i] = s;
		room -= rows;
		if (!room)
			continue;

		r->next[s] = r->head[room];
		r->head[room] = s + 1;
		tell(r, room);
	}

	return n;
}

/* From the sequence of each piece to the pieces of each sequence. */
static int list_pieces(const struct zr_host *h, struct packing *p, const uint32_t *sequence)
{
	int64_t i;
	int rc = allocate(h, &p->first, p->n + 1);
	if (!rc)
		rc = allocate(h, &p->place, p->pieces);
	if (rc)
		return rc;

	for (i = 0; i < p->pieces; i++)
		p->first[sequence[i]]++;
	for (i = 1; i <= p->n; i++)
		p->first[i] += p->first[i - 1];
	for (i = p->pieces; i-- > 0;)
		p->place[--p->first[sequence[i]]] = (uint32_t)i;

	return ZR_OK;
}

static int best_fit_decreasing(const struct zr_host *h, struct packing *p)
{
	struct rooms r = { .leaves = 1 };
	uint32_t *sequence = NULL;
	int rc = allocate(h, &p->longer, p->length + 1);
	if (!rc)
		rc = sort_pieces(h, p);
	while (r.leaves <= p->length)
		r.leaves *= 2;
	r.any = calloc((size_t)r.leaves, 2);
	if (!rc && !r.any)
		rc = zr_fail(h, ZR_ENOMEM, "no memory");
	if (!rc)
		rc = allocate(h, &r.head, r.leaves);
	if (!rc)
		rc = allocate(h, &r.next, p->pieces);
	if (!rc)
		rc = allocate(h, &sequence, p->pieces);
	if (!rc) {
		p->n = fit(p, &r, sequence);
		rc = list_pieces(h, p, sequence);
	}

	free(sequence);
	free(r.next);
	free(r.head);
	free(r.any);
	return rc;
}

/* ---- all of it ------------------------------------------------------------------------------ */

int packing_make(const struct zr_host *h, struct packing *p, int kind, int64_t length,
		 const struct packing_source *src)
{
	struct cutting c = { .h = h, .p = p, .src = src, .rest = length, .kind = kind };
	int rc;

	packing_free(p);
	p->length = length;
	rc = cut_all(&c);
	if (rc || !p->pieces)
		return rc;
	if (kind == PACKING_BFD)
		return best_fit_decreasing(h, p);

	rc = allocate(h, &p->first, p->pieces + 1);
	if (!rc)
		join_pieces(p, kind);

	return rc;
}

struct packing_visit packing_visit(const struct packing *p, uint64_t seed, int64_t g, int shuffled)
{
	uint64_t key = windows_key(seed, (uint64_t)(g / p->n));
	return (struct packing_visit){ key,
				       shuffled ? windows_permute(g % p->n, p->n, key) : g % p->n,
				       shuffled };
}

const struct piece *packing_piece(const struct packing *p, const struct packing_visit *v, int64_t i)
{
	int64_t at = p->first[v->sequence] + i;
	if (at >= p->first[v->sequence + 1])
		return NULL;
	if (!p->place)
		return &p->piece[at];

	at = p->place[at];
	if (v->shuffled) {
		int32_t rows = p->piece[at].rows;
		int64_t first = p->longer[rows], n = p->longer[rows - 1] - first;
		at = first + windows_permute(at - first, n, windows_key(v->key, (uint64_t)rows));
	}

	return &p->piece[at];
}

int64_t packing_pieces(const struct packing *p, int64_t document, struct piece *piece, int64_t room)
{
	int64_t n = 0;

	for (int64_t i = 0; i < p->pieces; i++) {
		if (p->piece[i].document != document)
			continue;

		int64_t at = n < room ? n : room;
		for (; at && piece[at - 1].from > p->piece[i].from; at--)
			if (at < room)
				piece[at] = piece[at - 1];
		if (at < room)
			piece[at] = p->piece[i];
		n++;
	}

	return n;
}

void packing_free(struct packing *p)
{
	free(p->piece);
	free(p->place);
	free(p->first);
	free(p->longer);
	memset(p, 0, sizeof *p);
}
