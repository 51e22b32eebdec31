/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - parts of the comm plugin `tcp`: ranks of any machines, each connected with each other.
 *
 * A pair of ranks has a connection for each group that both are in, and one for notes; those of a
 * group of listed ranks are made with the group. What a rank
 * sends to another one over a group's connection is a stream: for each operation, in the order in
 * which they were posted, a header and the bytes that this peer gets. Who receives knows from the
 * operation that it has posted itself how many come and where they go; a header that differs ends
 * the run before any of its bytes is taken. Bytes of an operation that was not posted here yet stay
 * in the connection.
 *
 * Ranks of one node that may read each other's memory lend what is large: in the place of its bytes
 * the stream has the address of each part, whose reader says in its own stream, before its next
 * operation, that it has read all.
 *
 * Nothing moves but in post, test and wait. Sums are added in rank order (invariant I1), in pieces:
 * of two pieces the parts of all ranks may be under way, in a staging buffer of fixed size. Each
 * rank adds a part of an all_reduce and sends it to all; a small one, and of two ranks one of two
 * pieces, goes to all as it is, and each adds it whole.
 *
 * Notes say where a rank waits, that it stopped and why, or that it has left (I5).
 */
#ifndef ZR_COMM_TCP_H
#define ZR_COMM_TCP_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "plugins/comm/header.h"
#include "plugins/comm/checks.h"
#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"
#include "plugins/comm/sum.h"

#define WINDOW    64 /* tickets of one rank that may be outstanding */
#define GROUPS    6  /* as ZR_GROUP_*, self first */
#define CHANNELS  6  /* of a pair: notes in the place of self */
#define NOTES     ZR_GROUP_SELF
#define LENT      (16u << 10) /* bytes of a segment that are worth lending */
#define SMALL     (64u << 10) /* most bytes of all of three ranks or more that each adds itself */
#define ADDRESSES 8           /* of a machine that are tried */

enum { NOTE_WAITS = 1, NOTE_STOPPED, NOTE_LEFT };

struct tc_note {
	int32_t what, group;     /* NOTE_WAITS: of the operation */
	uint64_t posted[GROUPS]; /* operations of the sender so far */
	struct comm_header at;   /* NOTE_WAITS */
	char why[900];           /* NOTE_STOPPED */
};

/* How far a stream is. */
struct tc_cursor {
	uint64_t seq; /* of the operation; one more than those that are over */
	int phase;    /* PHASE_* */
	int lent;     /* this pair lends in this operation */
	int32_t seg;
	uint64_t at;               /* bytes of the header, or of this peer's part of the segment */
	uint64_t piece;            /* of a sum: number of the piece that arrives */
	struct comm_header header; /* that is under way */
	uint64_t address;          /* of a part that is lent, */
	uint64_t told;             /* and how many bytes of the address have come */
	char word;                 /* so is this byte, which says no more than that it comes */
};

/* Of an operation in a stream. AGREED: the sender of an exchange has found all counts that it
 * expects. RESULT: its part of the sum of an all_reduce. READ: it has read all that it was lent. */
enum { PHASE_HEADER, PHASE_AGREED, PHASE_DATA, PHASE_RESULT, PHASE_READ, PHASES };

struct tc_peer {
	int fd[CHANNELS]; /* -1: none */
	/* of a rank whose memory is read: its process, and a descriptor that tells when it ends,
	 * -1: none */
	int32_t pid;
	int ends;
	struct tc_cursor out[GROUPS], in[GROUPS];
	int left, ended; /* said so; its connection is over */
	struct tc_note note;
	size_t note_got; /* bytes of the next one, which is in `coming` */
	struct tc_note coming;
	size_t to_send; /* bytes of `going` that are not sent */
	struct tc_note going;
};

/* Of an exchange: what goes to a rank, and where what comes from it lies. */
struct tc_pair {
	char *send, *recv;
	uint64_t sent, received; /* bytes */
};

/* An outstanding operation. */
struct tc_pend {
	zr_ticket ticket; /* 0: free */
	int32_t group;
	int big;                       /* worth lending */
	int small;                     /* an all_reduce of which each rank adds all itself */
	int met, told;                 /* headers agree; a note says that this rank waits in it */
	struct comm_header own, *all;  /* [world] by rank in the group; kind 0: not here yet */
	const struct zr_comm_seg *seg; /* the caller's */
	struct tc_pair *pair;          /* of an exchange, [world] by rank in the group */
	int32_t came, sent, got; /* ranks whose header is here; that have all; whose all is here */
	/* a sum */
	uint64_t pieces, added; /* all; that are in the result */
	int32_t arrived[2];     /* ranks whose part of piece added, added + 1 is here */
	int32_t add_seg;        /* where piece `added` lies */
	uint64_t add_at;
};

struct tc_group {
	/* its ranks are first .. first + size - 1, or those of the list; rank: of this process in
	 * it; size 0: not made */
	int32_t first, size, rank;
	int32_t *ranks;            /* [size], owned; NULL: no list */
	uint64_t posted;           /* operations so far */
	int32_t queue[WINDOW];     /* by seq: its place in `pend` */
	char *staging;             /* of sums: two pieces of each rank */
	struct tc_pend *adds;      /* the sum that uses it */
	struct comm_header common; /* the last one that all have come to */
};

struct tcp_opts {
	double timeout;
	const char *interface;
	int32_t cross_read;
};

struct zr_inst {
	const struct zr_host *h;
	const struct tcp_opts *o;
	int32_t rank, world;
	int lends;           /* all ranks of the node read each other's memory */
	uint64_t nonce;      /* which they try on this */
	uint8_t run[16];     /* the number of the run, which strangers do not know */
	int broken, follows; /* `why` says it; because of another rank */
	struct tc_group group[GROUPS];
	struct tc_peer *peer; /* [world] */
	struct tc_pend pend[WINDOW];
	zr_ticket next;      /* count of tickets given */
	const char **source; /* [workers][world] of a sum */
	struct pollfd *poll; /* [world * CHANNELS] */
	char *staging;       /* of all groups */
	_Atomic uint64_t received;
	_Atomic int abort_state; /* 1 somebody writes `abort_why`, 2 it is there */
	char abort_why[800];
	char why[1024];
};

static inline struct tc_pend *tc_pend_of(struct zr_inst *c, zr_ticket t)
{
	return &c->pend[t % WINDOW];
}

static inline int tc_adds(int32_t kind)
{
	return kind == ZR_COMM_REDUCE_SCATTER || kind == ZR_COMM_ALL_REDUCE;
}

/* The number in the world of a rank of the group. */
static inline int32_t tc_in_world(const struct tc_group *g, int32_t rank_in_group)
{
	if (g->ranks)
		return g->ranks[rank_in_group];
	return g->first + rank_in_group;
}

/* The place of a rank of the world in the group; -1: it is not in it. */
static inline int32_t tc_place_in(const struct tc_group *g, int32_t rank)
{
	if (g->ranks)
		return comm_place_in(g->ranks, g->size, rank, INT32_MAX);
	return rank >= g->first && rank < g->first + g->size ? rank - g->first : -1;
}

/* connect.c: connections with all ranks, whose addresses boot tells */
int tc_connect(struct zr_inst *c);
/* with the others of a group of listed ranks; all ranks of the world call it */
int tc_connect_group(struct zr_inst *c, int32_t number);

/* lend.c: whether the ranks of the node may read each other's memory */
int tc_try_lending(struct zr_inst *c);
/* fetch.c: reads what a rank lends */
int tc_fetch(struct zr_inst *c, int32_t rank, uint64_t from, char *to, uint64_t bytes);

/* group.c */
int tc_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n);

/* post.c */
int tc_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);
int tc_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out);

/* sum.c: bytes of a piece of a sum that come from each of so many ranks */
uint64_t tc_piece_bytes(int32_t ranks);
uint64_t tc_staging_bytes(int32_t ranks); /* of a group of so many ranks */
/* at least the staging of a group of any size in this world, which rounding makes differ */
uint64_t tc_most_staged(int32_t world);
/* move.c: whether this rank and rank r of the group read each other's memory */
int tc_lends_to(const struct zr_inst *c, const struct tc_group *g, int32_t r);
/* moves what can be moved. 1: something was, 0, < 0. */
int tc_advance(struct zr_inst *c);
/* Of an exchange: what this rank sends to itself. */
void tc_keep_own(const struct tc_pair *own);
int tc_is_done(const struct zr_inst *c, const struct tc_pend *p);
/* Until something can be moved or a note comes, at most so long. */
void tc_sleep(struct zr_inst *c, int milliseconds);

/* sum.c: of a segment, bytes of the part that rank r of the group adds, and where it begins */
uint64_t tc_part(const struct tc_group *g, const struct tc_pend *p, int32_t seg, int32_t r);
uint64_t tc_part_at(const struct tc_group *g, const struct tc_pend *p, int32_t seg, int32_t r);
uint64_t tc_count_pieces(const struct tc_group *g, const struct tc_pend *p);
/* Adds the pieces that are here. */
void tc_add_pieces(struct zr_inst *c, struct tc_group *g, struct tc_pend *p);

/* wait.c */
int tc_test(struct zr_inst *c, zr_ticket t);
int tc_wait(struct zr_inst *c, zr_ticket t);
/* An all_gather of some bytes over a group, before it returns. */
int tc_gather(struct zr_inst *c, int32_t group, const struct zr_comm_seg *bytes, int32_t about);

/* note.c */
double tc_now(void);
int tc_read_notes(struct zr_inst *c);
int tc_read_notes_of(struct zr_inst *c, int32_t rank);
void tc_send_note(struct zr_inst *c, int32_t what, const struct tc_pend *p);
int tc_push_notes(struct zr_inst *c, double seconds); /* whether all have left */
void tc_goodbye(struct zr_inst *c);
int tc_enter(struct zr_inst *c); /* fails if broken or asked to abort */
/* breaks, tells all others */
int tc_stop(struct zr_inst *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tc_lost(struct zr_inst *c, int32_t rank, int why); /* a connection is over: says whose */

/* text.c */
void tc_missing_text(const struct zr_inst *c, const struct tc_pend *p, char *out, size_t room);
/* Stops because the operations of this rank and a peer differ. */
int tc_differ(struct zr_inst *c, const struct tc_pend *p, int32_t peer, const char *what);

#endif
