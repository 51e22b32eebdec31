/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.c - reduce_scatters in rank order (invariant I1): a sequence of all-to-alls of pieces,
 * which are added when they have arrived. Two pieces are in flight, in the halves of a staging
 * buffer of fixed size that the operations of a group use in turn.
 */
#include "mpi.h"

#define HALF  (4u << 20)  /* bytes of a half, */
#define LEAST (64u << 10) /* but no less than so many of each rank */
#define ITEM  (64u << 10) /* bytes of a sum per item of parallel() */

/* Bytes of a piece that come from each rank. */
static uint64_t piece_bytes(const struct zm_group *g)
{
	uint64_t n = HALF / (uint64_t)g->size / 64 * 64;
	return n > LEAST ? n : LEAST;
}

uint64_t zm_piece_staging(const struct zm_group *g)
{
	return 2 * piece_bytes(g) * (uint64_t)g->size;
}

static char *half_of(const struct zm_group *g, const struct zm_pend *p, const struct zm_piece *x)
{
	if (x == p->piece)
		return g->pieces;
	return g->pieces + piece_bytes(g) * (uint64_t)g->size;
}

/* Elements [x->at, x->at + x->n) of each rank's part of a segment. */
static int exchange(struct zr_inst *c, const struct zm_pend *p, struct zm_piece *x)
{
	const struct zm_group *g = &c->group[p->group];
	const struct zr_comm_seg *s = &p->seg[x->seg];
	uint64_t esz = comm_dtype_bytes(p->own.dtype);
	int bytes = (int)((uint64_t)x->n * esz);
	MPI_Datatype piece, apart;
	int rc = MPI_Type_contiguous(bytes, MPI_BYTE, &piece);
	if (rc == MPI_SUCCESS) {
		rc = MPI_Type_create_resized(piece, 0, (MPI_Aint)((uint64_t)s->count * esz),
					     &apart);
		MPI_Type_free(&piece);
	}
	if (rc != MPI_SUCCESS)
		return zm_mpi_failed(c, rc, "MPI_Type_create_resized");

	rc = MPI_Type_commit(&apart);
	if (rc == MPI_SUCCESS)
		rc = MPI_Ialltoall((const char *)s->send + (uint64_t)x->at * esz, 1, apart,
				   half_of(g, p, x), bytes, MPI_BYTE, g->sums, &x->req);
	MPI_Type_free(&apart);
	return zm_mpi_failed(c, rc, "MPI_Ialltoall");
}

/* The next piece, into a half that is free: none if there is no more. */
static int post_next(struct zr_inst *c, struct zm_pend *p, struct zm_piece *x)
{
	int64_t most = (int64_t)(piece_bytes(&c->group[p->group]) / comm_dtype_bytes(p->own.dtype));
	*x = (struct zm_piece){ .req = MPI_REQUEST_NULL };
	while (p->next_seg < p->own.n_seg && p->next_at == p->seg[p->next_seg].count) {
		p->next_seg++;
		p->next_at = 0;
	}
	if (p->next_seg == p->own.n_seg)
		return 0;

	int64_t left = p->seg[p->next_seg].count - p->next_at;
	x->seg = p->next_seg;
	x->at = p->next_at;
	x->n = left < most ? left : most;
	p->next_at += x->n;
	return exchange(c, p, x);
}

int zm_first_pieces(struct zr_inst *c, struct zm_pend *p)
{
	p->begun = 1;
	p->next_seg = p->turn = 0;
	p->next_at = 0;
	int rc = post_next(c, p, &p->piece[0]);
	if (rc)
		return rc;
	return post_next(c, p, &p->piece[1]);
}

/* A stretch of one piece's sum. */
struct adding {
	struct zr_inst *c;
	const char *from;
	char *to;
	uint64_t bytes; /* of a part */
	int32_t ranks, dtype;
};

static void add_item(void *arg, int64_t item, int32_t worker)
{
	const struct adding *a = arg;
	uint64_t at = (uint64_t)item * ITEM, n = a->bytes - at < ITEM ? a->bytes - at : ITEM;
	const char **from = a->c->source + (int64_t)worker * a->c->world;
	char *to = a->to + at;
	for (int32_t r = 0; r < a->ranks; r++)
		from[r] = a->from + (uint64_t)r * a->bytes + at;
	zl_sum(a->dtype, &to, 1, from, a->ranks, n, 0);
}

static void add(struct zr_inst *c, const struct zm_pend *p, const struct zm_piece *x)
{
	const struct zm_group *g = &c->group[p->group];
	uint64_t esz = comm_dtype_bytes(p->own.dtype);
	struct adding a = { c,
			    half_of(g, p, x),
			    (char *)p->seg[x->seg].recv + (uint64_t)x->at * esz,
			    (uint64_t)x->n * esz,
			    g->size,
			    p->own.dtype };
	c->h->parallel(c->h, (int64_t)((a.bytes + ITEM - 1) / ITEM), add_item, &a);
}

int zm_advance_pieces(struct zr_inst *c, struct zm_pend *p)
{
	if (!p->begun) {
		int rc = zm_first_pieces(c, p);
		if (rc)
			return rc;
	}

	for (struct zm_piece *x = &p->piece[p->turn]; x->n; x = &p->piece[p->turn]) {
		int done, rc;
		rc = zm_mpi_failed(c, MPI_Test(&x->req, &done, MPI_STATUS_IGNORE), "MPI_Ialltoall");
		if (rc || !done)
			return rc;

		add(c, p, x);
		c->moved = zm_now();
		rc = post_next(c, p, x);
		if (rc)
			return rc;

		p->turn ^= 1;
	}
	return 1;
}
