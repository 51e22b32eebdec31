/* SPDX-License-Identifier: Apache-2.0
 *
 * post.c - operations when they are posted: checked, announced to the other ranks by a header,
 * their collectives started.
 */
#include "mpi.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (1 << 20) /* bytes of which larger segments are made of, for counts are ints */
#define TAGS  32768     /* that every MPI has */

int zm_is_group(const struct zr_inst *c, int32_t group)
{
	return group >= ZR_GROUP_SELF && group < GROUPS && c->group[group].size;
}

/* ---- checks ---------------------------------------------------------------------- */

static int check_segments(struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct zm_group *g = &c->group[op->group];
	const char *kind = comm_kind_name(op->kind);
	if (op->n_seg < 0 || (op->n_seg && op->kind == ZR_COMM_BARRIER))
		return zr_fail(c->h, ZR_EINVAL, "%s of %d segments", kind, op->n_seg);
	if (op->n_seg && !comm_dtype_bytes(op->dtype))
		return zr_fail(c->h, ZR_EINVAL, "%s of unknown type %d", kind, op->dtype);

	for (int32_t i = 0; i < op->n_seg; i++) {
		const struct zr_comm_seg *s = &op->seg[i];
		if (s->count < 0 || s->count > INT64_MAX / 16 / g->size)
			return zr_fail(c->h, ZR_EINVAL, "segment %d of %s has %lld elements", i,
				       kind, (long long)s->count);
		if (op->kind == ZR_COMM_REDUCE_SCATTER && c->o->sums == SUMS_MPI &&
		    s->count > INT_MAX)
			return zr_fail(
				c->h, ZR_ENOTSUP,
				"segment %d of %s has %lld elements, MPI adds at most %d: set sums "
				"= ordered",
				i, kind, (long long)s->count, INT_MAX);
		if (s->count && !comm_placed_well(op, g->rank, g->size, s))
			return zr_fail(c->h, ZR_EINVAL,
				       "segment %d of %s: the result would overwrite what is sent",
				       i, kind);
	}
	return 0;
}

static int check_op(struct zr_inst *c, const struct zr_comm_op *op)
{
	if (op->kind < ZR_COMM_ALL_GATHER || op->kind > ZR_COMM_FENCE)
		return zr_fail(c->h, ZR_EINVAL, "unknown kind of operation %d", op->kind);
	if (!zm_is_group(c, op->group))
		return zr_fail(c->h, ZR_EINVAL, "%s over unknown group %d",
			       comm_kind_name(op->kind), op->group);
	if ((op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_REDUCE) &&
	    op->dtype != ZR_F32 && op->dtype != ZR_F64 && op->dtype != ZR_I64)
		return zr_fail(c->h, ZR_ENOTSUP, "%s adds f32, f64 and i64, not %s",
			       comm_kind_name(op->kind), comm_dtype_name(op->dtype));
	if (op->kind == ZR_COMM_BROADCAST && (op->root < 0 || op->root >= c->group[op->group].size))
		return zr_fail(c->h, ZR_EINVAL, "broadcast from rank %d of %d", op->root,
			       c->group[op->group].size);
	return check_segments(c, op);
}

/* ---- collectives ----------------------------------------------------------------- */

/* `bytes` as a count of a type: bytes, or one of a type that is as long. Then it is to be freed
 * once used. */
struct extent {
	MPI_Datatype type;
	int n, made;
};

static int extent_of(uint64_t bytes, struct extent *e)
{
	*e = (struct extent){ MPI_BYTE, (int)bytes, 0 };
	if (bytes <= INT_MAX)
		return MPI_SUCCESS;

	MPI_Datatype chunk, part[2] = { MPI_DATATYPE_NULL, MPI_BYTE };
	int length[2] = { (int)(bytes / CHUNK), (int)(bytes % CHUNK) };
	MPI_Aint at[2] = { 0, (MPI_Aint)(bytes - bytes % CHUNK) };
	int rc = MPI_Type_contiguous(CHUNK, MPI_BYTE, &chunk);
	if (rc != MPI_SUCCESS)
		return rc;

	part[0] = chunk;
	rc = MPI_Type_create_struct(length[1] ? 2 : 1, length, at, part, &e->type);
	MPI_Type_free(&chunk);
	if (rc == MPI_SUCCESS)
		rc = MPI_Type_commit(&e->type);
	e->n = e->made = 1;
	return rc;
}

/* The next request of p, for data that a type describes. */
int zm_send_part(struct zr_inst *c, struct zm_pend *p, const void *from, uint64_t bytes, int32_t to)
{
	MPI_Request *req = &p->req[p->n_req++];
	const int tag = (int)(p->own.seq % TAGS);
	struct extent e;
	int rc = extent_of(bytes, &e);
	*req = MPI_REQUEST_NULL;
	if (rc == MPI_SUCCESS)
		rc = MPI_Isend(from, e.n, e.type, to, tag, c->group[p->group].data, req);
	if (e.made)
		MPI_Type_free(&e.type);
	return zm_mpi_failed(c, rc, "MPI_Isend");
}

int zm_recv_part(struct zr_inst *c, struct zm_pend *p, void *to, uint64_t bytes, int32_t from)
{
	MPI_Request *req = &p->req[p->n_req++];
	const int tag = (int)(p->own.seq % TAGS);
	struct extent e;
	int rc = extent_of(bytes, &e);
	*req = MPI_REQUEST_NULL;
	if (rc == MPI_SUCCESS)
		rc = MPI_Irecv(to, e.n, e.type, from, tag, c->group[p->group].data, req);
	if (e.made)
		MPI_Type_free(&e.type);
	return zm_mpi_failed(c, rc, "MPI_Irecv");
}

struct parts {
	const void *send;
	void *recv;
	uint64_t bytes; /* of a part */
	int32_t root;
};

/* Starts one collective; kinds of ZR_COMM_* that only move. */
static int start(struct zr_inst *c, struct zm_pend *p, int32_t kind, MPI_Comm comm,
		 const struct parts *m)
{
	MPI_Request *req = &p->req[p->n_req++];
	struct extent e;
	int rc = extent_of(m->bytes, &e);
	*req = MPI_REQUEST_NULL;
	if (rc == MPI_SUCCESS && kind == ZR_COMM_ALL_GATHER)
		rc = MPI_Iallgather(m->send, m->send == MPI_IN_PLACE ? 0 : e.n, e.type, m->recv,
				    e.n, e.type, comm, req);
	else if (rc == MPI_SUCCESS && kind == ZR_COMM_ALL_TO_ALL)
		rc = MPI_Ialltoall(m->send, e.n, e.type, m->recv, e.n, e.type, comm, req);
	else if (rc == MPI_SUCCESS)
		rc = MPI_Ibcast(m->recv, e.n, e.type, m->root, comm, req);
	if (e.made)
		MPI_Type_free(&e.type);
	return zm_mpi_failed(c, rc, comm_kind_name(kind));
}

uint64_t zm_part(int64_t count, int32_t ranks)
{
	return (uint64_t)(((count + ranks - 1) / ranks + 15) / 16 * 16);
}

static void count_received(struct zr_inst *c, uint64_t bytes)
{
	atomic_fetch_add_explicit(&c->received, bytes, memory_order_relaxed);
}

/* Bytes of the part that this rank adds, of parts of equal size but the last. */
static uint64_t own_part(const struct zm_group *g, uint64_t part, uint64_t bytes)
{
	const uint64_t from = part * (uint64_t)g->rank;
	if (from >= bytes)
		return 0;
	if (bytes - from < part)
		return bytes - from;
	return part;
}

/* An all_reduce goes through staging: what is sent in parts of equal size, and the parts that
 * came. */
static int start_all_reduce(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_seg *s,
			    char **staging)
{
	const struct zm_group *g = &c->group[p->group];
	const uint64_t esz = comm_dtype_bytes(p->own.dtype), bytes = (uint64_t)s->count * esz;
	const uint64_t part = zm_part(s->count, g->size) * esz, all = part * (uint64_t)g->size;
	const uint64_t own = own_part(g, part, bytes);
	struct parts m = { .send = *staging, .recv = *staging + all, .bytes = part };

	memcpy(*staging, s->send, bytes);
	*staging += 2 * all;
	count_received(c, (uint64_t)(g->size - 1) * own + bytes - own);
	return start(c, p, ZR_COMM_ALL_TO_ALL, g->data, &m);
}

static MPI_Datatype mpi_type(int32_t dtype)
{
	if (dtype == ZR_F32)
		return MPI_FLOAT;
	if (dtype == ZR_F64)
		return MPI_DOUBLE;
	return MPI_INT64_T;
}

/* MPI's own reduction; a result that lies in what is sent comes there by way of staging. */
static int start_own_sum(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_seg *s,
			 char **staging)
{
	const struct zm_group *g = &c->group[p->group];
	MPI_Request *req = &p->req[p->n_req++];
	void *to = s->recv;
	if (zm_sum_in_place(g, s, p->own.dtype)) {
		to = *staging;
		*staging += (uint64_t)s->count * comm_dtype_bytes(p->own.dtype);
	}

	*req = MPI_REQUEST_NULL;
	int rc = MPI_Ireduce_scatter_block(s->send, to, (int)s->count, mpi_type(p->own.dtype),
					   MPI_SUM, g->data, req);
	return zm_mpi_failed(c, rc, "MPI_Ireduce_scatter_block");
}

static int start_segment(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_seg *s,
			 char **staging)
{
	const struct zm_group *g = &c->group[p->group];
	uint64_t bytes = (uint64_t)s->count * comm_dtype_bytes(p->own.dtype);
	struct parts m = { .send = s->send, .recv = s->recv, .bytes = bytes, .root = p->own.root };
	int32_t kind = p->own.kind;
	if (kind == ZR_COMM_ALL_REDUCE)
		return start_all_reduce(c, p, s, staging);

	if (kind != ZR_COMM_BROADCAST)
		count_received(c, (uint64_t)(g->size - 1) * bytes);
	else if (g->rank != m.root)
		count_received(c, bytes);

	if (kind == ZR_COMM_REDUCE_SCATTER && p->in_pieces)
		return 0;
	if (kind == ZR_COMM_REDUCE_SCATTER)
		return start_own_sum(c, p, s, staging);

	if (kind == ZR_COMM_ALL_GATHER && (char *)s->recv + (uint64_t)g->rank * bytes == s->send) {
		m.send = MPI_IN_PLACE;
	} else if (kind == ZR_COMM_BROADCAST && g->rank == m.root && s->send != s->recv) {
		memcpy(s->recv, s->send, bytes);
	}
	return start(c, p, kind, g->data, &m);
}

int zm_second_half(struct zr_inst *c, struct zm_pend *p)
{
	const struct zm_group *g = &c->group[p->group];
	char *staging = p->staging;
	int rc = 0;
	p->n_req = 0;
	for (int32_t i = 0; !rc && i < p->own.n_seg; i++) {
		uint64_t part = zm_part(p->seg[i].count, g->size) * comm_dtype_bytes(p->own.dtype),
			 all = part * (uint64_t)g->size;
		struct parts m = { .send = MPI_IN_PLACE, .recv = staging, .bytes = part };
		staging += 2 * all;
		if (part)
			rc = start(c, p, ZR_COMM_ALL_GATHER, g->sums, &m);
	}
	return rc;
}

/* ---- post ------------------------------------------------------------------------ */

static int is_data(int32_t kind)
{
	return kind < ZR_COMM_BARRIER;
}

/* A group of one rank: the result is a copy. */
static void alone(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && is_data(op->kind); i++)
		if (op->seg[i].count && op->seg[i].send != op->seg[i].recv)
			memcpy(op->seg[i].recv, op->seg[i].send,
			       (uint64_t)op->seg[i].count * comm_dtype_bytes(op->dtype));
}

/* Ranks must agree on who adds, too. */
static struct comm_header header_of(const struct zr_comm_op *op, int32_t sums)
{
	struct comm_header h = comm_header_of(op);
	if (op->kind == ZR_COMM_REDUCE_SCATTER)
		h.root = sums;
	return h;
}

static int in_pieces(const struct zr_inst *c, const struct zr_comm_op *op)
{
	return op->kind == ZR_COMM_REDUCE_SCATTER && c->o->sums == SUMS_ORDERED;
}

static uint64_t staging_bytes(const struct zm_group *g, const struct zr_comm_op *op)
{
	uint64_t elements = 0;
	for (int32_t i = 0; i < op->n_seg; i++) {
		const struct zr_comm_seg *s = &op->seg[i];
		if (op->kind == ZR_COMM_ALL_REDUCE)
			elements += 2 * zm_part(s->count, g->size) * (uint64_t)g->size;
		else if (op->kind == ZR_COMM_REDUCE_SCATTER && zm_sum_in_place(g, s, op->dtype))
			elements += (uint64_t)s->count;
	}
	return elements * comm_dtype_bytes(op->dtype);
}

/* Room that grows to the largest operation this place has had. */
static int make_room(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_op *op)
{
	struct zm_group *g = &c->group[op->group];
	const int pieces = in_pieces(c, op);
	uint64_t bytes = 0;
	if (!pieces)
		bytes = staging_bytes(g, op);

	if (!p->all)
		p->all = malloc((size_t)c->world * sizeof *p->all);
	if (op->n_seg > p->req_room) {
		free(p->req);
		p->req = malloc((size_t)op->n_seg * sizeof *p->req);
		p->req_room = p->req ? op->n_seg : 0;
	}
	if (bytes > p->staging_bytes) {
		c->h->release(c->h, p->staging);
		p->staging = c->h->alloc(c->h, bytes, "communication");
		p->staging_bytes = p->staging ? bytes : 0;
	}
	if (pieces && !g->pieces)
		g->pieces = c->h->alloc(c->h, zm_piece_staging(g), "communication");

	if (!p->all || p->req_room < op->n_seg || p->staging_bytes < bytes ||
	    (pieces && !g->pieces))
		return zr_fail(c->h, ZR_ENOMEM, "no memory for %s", comm_kind_name(op->kind));
	return 0;
}

/* p->own to all ranks of the group. */
int zm_announce(struct zr_inst *c, struct zm_pend *p)
{
	struct zm_group *g = &c->group[p->group];
	p->own.seq = ++g->posted;
	int rc = MPI_Iallgather(&p->own, sizeof p->own, MPI_BYTE, p->all, sizeof p->own, MPI_BYTE,
				g->meet, &p->meet);
	return zm_mpi_failed(c, rc, "MPI_Iallgather");
}

static int launch(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_op *op)
{
	char *staging = p->staging;
	p->group = op->group;
	p->stage = POSTED;
	p->told = 0;
	p->own = header_of(op, c->o->sums);
	p->in_pieces = in_pieces(c, op);
	p->begun = 0;
	p->seg = op->seg;
	p->n_req = 0;

	int rc = zm_announce(c, p);
	for (int32_t i = 0; !rc && is_data(op->kind) && i < op->n_seg; i++)
		if (op->seg[i].count)
			rc = start_segment(c, p, &op->seg[i], &staging);
	return rc;
}

/* What it posts later has its turn after that of earlier ones. */
int zm_enqueue(struct zr_inst *c, struct zm_pend *p)
{
	int first = 1;
	for (int i = 0; i < c->n_sums; i++)
		first &= c->pend[c->sums[i]].group != p->group;
	c->sums[c->n_sums++] = (int32_t)(p - c->pend);
	if (first && p->in_pieces)
		return zm_first_pieces(c, p);
	return 0;
}

struct zm_pend *zm_free_pend(struct zr_inst *c)
{
	for (int at = 0; at < WINDOW; at++)
		if (!c->pend[at].ticket)
			return &c->pend[at];
	return NULL;
}

zr_ticket zm_ticket_for(struct zr_inst *c, struct zm_pend *p)
{
	p->ticket = ++c->next * WINDOW + (zr_ticket)(p - c->pend);
	return p->ticket;
}

int zm_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	int rc = zm_enter(c);
	if (!rc)
		rc = check_op(c, op);
	if (rc)
		return rc;
	if (c->group[op->group].size == 1) {
		alone(op);
		*out = 0;
		return 0;
	}

	struct zm_pend *p = zm_free_pend(c);
	if (!p)
		return ZR_EAGAIN;

	rc = make_room(c, p, op);
	if (!rc)
		rc = launch(c, p, op);
	if (rc)
		return rc;

	*out = zm_ticket_for(c, p);
	if (op->kind == ZR_COMM_ALL_REDUCE || p->in_pieces)
		return zm_enqueue(c, p);
	return 0;
}
