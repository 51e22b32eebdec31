/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.h - parts of the comm plugin `mpi`.
 *
 * A post starts nonblocking MPI collectives and returns: one of a small header (kind, types,
 * counts, tag), and one per segment. A wait first sees the headers of all ranks, compares them, and
 * only then trusts the data. Sums do not run through MPI's reductions: all-to-alls bring the parts,
 * and they are added in rank order (invariant I1); unless the option sums says so, for
 * reduce_scatters.
 *
 * Beside the collectives there are notes: small messages from rank to rank that say where a rank
 * waits, that it stopped and why, or that it has left. They are read only by those who wait for
 * long, and name the culprits (I5).
 *
 * An instance that failed is broken: it makes no further MPI call, for its collectives would never
 * complete, and MPI_Finalize neither. It leaves a mark for who would call that.
 */
#ifndef ZR_COMM_MPI_H
#define ZR_COMM_MPI_H

#include <mpi.h>
#include <stdatomic.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "plugins/comm/header.h"
#include "plugins/comm/checks.h"
#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"
#include "plugins/comm/sum.h"

#if defined(__GNUC__) && !defined(__clang__)
/* MPICH declares MPI_STATUSES_IGNORE as an array it would write */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

#define WINDOW 64               /* tickets of one rank that may be outstanding */
#define GROUPS 6                /* as ZR_GROUP_*, self first */
#define BROKEN "zeroth: broken" /* name of MPI_COMM_SELF once MPI_Finalize would hang */

/* Messages between ranks. */
enum { NOTE_WAITS = 1, NOTE_STOPPED, NOTE_LEFT };

struct zm_note {
	int32_t what, group;     /* NOTE_WAITS: of the operation */
	uint64_t posted[GROUPS]; /* operations of the sender so far */
	struct comm_header at;   /* NOTE_WAITS */
	char why[900];           /* NOTE_STOPPED */
};

struct zm_peer {
	int left;
	struct zm_note note; /* the last one */
};

struct zm_group {
	/* its ranks are first .. first + size - 1, or those of the list; rank: of this process in
	 * it; size 0: not made */
	int32_t first, size, rank;
	int32_t *ranks; /* [size], owned; NULL: no list */
	/* segments; headers; the second halves of all_reduces, pieces of reduce_scatters */
	MPI_Comm data, meet, sums;
	char *pieces;              /* staging of those; NULL until there are some */
	uint64_t posted;           /* operations so far */
	struct comm_header common; /* the last one that all have come to */
};

enum stage { POSTED, MET, SECOND, DONE };
enum { SUMS_ORDERED, SUMS_MPI };

/* Of a reduce_scatter: elements [at, at + n) of each part of a segment, under way; n = 0: none. */
struct zm_piece {
	MPI_Request req;
	int32_t seg;
	int64_t at, n;
};

/* An outstanding operation. Its buffers are kept for the next one in the same place. */
struct zm_pend {
	zr_ticket ticket; /* 0: free */
	int32_t group;
	enum stage stage;
	int told;                      /* a note says that this rank waits in it */
	struct comm_header own, *all;  /* [world]: of each rank */
	const struct zr_comm_seg *seg; /* the caller's */
	/* of an exchange: what was posted; counts of all ranks to this one, [world] */
	struct zr_comm_exchange exchange;
	int64_t *counts;
	MPI_Request meet, *req; /* [n_req] of the data */
	int32_t n_req, req_room;
	/* a reduce_scatter in rank order; its first pieces are posted */
	int in_pieces, begun;
	struct zm_piece piece[2];
	int turn;         /* the piece that was posted first */
	int32_t next_seg; /* where the next one begins */
	int64_t next_at;
	char *staging;
	uint64_t staging_bytes;
};

struct mpi_opts {
	double timeout;
	int32_t sums; /* SUMS_* */
};

struct zr_inst {
	const struct zr_host *h;
	const struct mpi_opts *o;
	int started; /* this instance called MPI_Init */
	int broken;  /* 1: no further MPI calls; `why` says it */
	int follows; /* broken because of another rank */
	int32_t rank, world;
	struct zm_group group[GROUPS];
	MPI_Comm notes;
	struct zm_peer *peer;  /* [world] */
	struct zm_note note;   /* being sent */
	MPI_Request *note_req; /* [world] */
	struct zm_pend pend[WINDOW];
	zr_ticket next; /* count of tickets given */
	/* those that post more later, sums and exchanges, in order of posting: in a group one after
	 * the other */
	int32_t sums[WINDOW];
	int32_t n_sums;
	const char **source; /* [workers][world] of a sum */
	double moved;        /* when the last piece of one was here */
	_Atomic uint64_t received;
	_Atomic int abort_state; /* 1 somebody writes `abort_why`, 2 it is there */
	char abort_why[800];
	char why[1024];
};

static inline struct zm_pend *zm_pend_of(struct zr_inst *c, zr_ticket t)
{
	return &c->pend[t % WINDOW];
}

/* post.c */
int zm_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);
/* of an all_reduce: gathers the parts */
int zm_second_half(struct zr_inst *c, struct zm_pend *p);
/* elements of an all_reduce that a rank adds */
uint64_t zm_part(int64_t count, int32_t ranks);

/* Whether the next of those that post more later, in the same group, may do so. */
static inline int zm_lets_others(const struct zm_pend *p)
{
	return p->stage >= (p->in_pieces ? DONE : SECOND);
}

/* The number in the world of a rank of the group. */
static inline int32_t zm_in_world(const struct zm_group *g, int32_t rank_in_group)
{
	if (g->ranks)
		return g->ranks[rank_in_group];
	return g->first + rank_in_group;
}

/* Whether the result of a reduce_scatter lies in what is sent. */
static inline int zm_sum_in_place(const struct zm_group *g, const struct zr_comm_seg *s,
				  int32_t dtype)
{
	return (const char *)s->send +
		       (uint64_t)s->count * (uint64_t)g->rank * comm_dtype_bytes(dtype) ==
	       s->recv;
}

/* Waits for it, then the next of those that post more later. */
int zm_enqueue(struct zr_inst *c, struct zm_pend *p);
/* A free place for an operation; NULL: none. */
struct zm_pend *zm_free_pend(struct zr_inst *c);
/* The ticket of an operation that was launched. */
zr_ticket zm_ticket_for(struct zr_inst *c, struct zm_pend *p);
/* A message of `bytes` to or from a rank of the group, as the next request of p. */
int zm_send_part(struct zr_inst *c, struct zm_pend *p, const void *from, uint64_t bytes,
		 int32_t to);
int zm_recv_part(struct zr_inst *c, struct zm_pend *p, void *to, uint64_t bytes, int32_t from);
int zm_announce(struct zr_inst *c, struct zm_pend *p);
int zm_is_group(const struct zr_inst *c, int32_t group);

/* exchange.c */
int zm_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out);
/* all counts are here: compares those of this rank, then starts the data */
int zm_exchange_data(struct zr_inst *c, struct zm_pend *p);

/* group.c */
int zm_group_split(struct zr_inst *c, struct zm_group *g, int color);
int zm_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n);
void zm_group_free(struct zm_group *g);

/* piece.c */
uint64_t zm_piece_staging(const struct zm_group *g);
/* if no other sum of the group is under way */
int zm_first_pieces(struct zr_inst *c, struct zm_pend *p);
/* adds what is here, posts what follows: 1 done, 0 not yet, < 0 */
int zm_advance_pieces(struct zr_inst *c, struct zm_pend *p);

/* wait.c */
int zm_test(struct zr_inst *c, zr_ticket t);
int zm_wait(struct zr_inst *c, zr_ticket t);

/* data.c: results, once the data are here */
/* all_reduce: adds the own part; reduce_scatter: MPI's sums in place */
void zm_finish(struct zr_inst *c, struct zm_pend *p);
/* all_reduce: takes the parts of the others */
void zm_finish_sum(struct zr_inst *c, struct zm_pend *p);

/* note.c */
/* p: what this rank waits for, or NULL */
int zm_read_notes(struct zr_inst *c, const struct zm_pend *p);
void zm_tell_waiting(struct zr_inst *c, struct zm_pend *p);
void zm_goodbye(struct zr_inst *c); /* waits until all are about to leave, or breaks */

/* stop.c */
#define ZM_LOOK 50e-6 /* seconds of a wait without sleeping */
double zm_now(void);
void zm_doze(double waited);     /* sleeps for some part of what was waited already, at most 1 ms */
int zm_enter(struct zr_inst *c); /* fails if broken or asked to abort */
int zm_mpi_failed(struct zr_inst *c, int rc, const char *call); /* 0 if rc is success */
/* breaks, tells all others */
int zm_stop(struct zr_inst *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int zm_break(struct zr_inst *c, const char *why); /* tells nobody */
/* to all others: c->note, as a NOTE_*; whether the last one has left; waits until it has, 0: it
 * does not */
void zm_send_note(struct zr_inst *c, int32_t what);
int zm_note_sent(struct zr_inst *c);
int zm_push_note(struct zr_inst *c);

/* text.c */
/* "rank 2 (last seen in ...)" for each rank that has not come to p */
void zm_missing_text(struct zr_inst *c, const struct zm_pend *p, char *out, size_t room);
/* Stops because the operations of this rank and a peer differ. */
int zm_differ(struct zr_inst *c, const struct zm_pend *p, int32_t peer, const char *what);

#endif
