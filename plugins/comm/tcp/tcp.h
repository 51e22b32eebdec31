/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - parts of the comm plugin `tcp`: ranks of any machines, each connected with each other.
 *
 * A pair of ranks has a connection for each group that both are in, and one for notes. What a rank
 * sends to another one over a group's connection is a stream: for each operation, in the order in
 * which they were posted, a header and the bytes that this peer gets. Who receives knows from the
 * operation that it has posted itself how many come and where they go; a header that differs ends
 * the run before any of its bytes is taken. Bytes of an operation that was not posted here yet stay
 * in the connection.
 *
 * Nothing moves but in post, test and wait. Sums are added in rank order (invariant I1), in pieces:
 * of two pieces the parts of all ranks may be under way, in a staging buffer of fixed size.
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

#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"
#include "plugins/comm/sum.h"

#define WINDOW    64 /* tickets of one rank that may be outstanding */
#define GROUPS    3  /* self, node, world, as ZR_GROUP_* */
#define CHANNELS  3  /* of a pair: notes in the place of self */
#define NOTES     ZR_GROUP_SELF
#define ADDRESSES 8 /* of a machine that are tried */

/* What all ranks of an operation must agree on. */
struct tc_header {
	int32_t kind, dtype, root, n_seg;
	int32_t op, unit;
	int64_t step;
	int64_t total;   /* elements of all segments */
	uint64_t counts; /* hash of the elements of each */
	uint64_t seq;    /* number in the group, from 1 */
};

enum { NOTE_WAITS = 1, NOTE_STOPPED, NOTE_LEFT };

struct tc_note {
	int32_t what, group;     /* NOTE_WAITS: of the operation */
	uint64_t posted[GROUPS]; /* operations of the sender so far */
	struct tc_header at;     /* NOTE_WAITS */
	char why[900];           /* NOTE_STOPPED */
};

/* How far a stream is. */
struct tc_cursor {
	uint64_t seq; /* of the operation; one more than those that are over */
	int phase;    /* PHASE_* */
	int32_t seg;
	uint64_t at;            /* bytes of the header, or of this peer's part of the segment */
	uint64_t piece;         /* of a sum: number of the piece that arrives */
	struct tc_header comes; /* that is being received */
};

enum { PHASE_HEADER, PHASE_DATA, PHASE_RESULT };

struct tc_peer {
	int fd[CHANNELS]; /* -1: none */
	struct tc_cursor out[GROUPS], in[GROUPS];
	int left, ended; /* said so; its connection is over */
	struct tc_note note;
	size_t note_got; /* bytes of the next one, which is in `coming` */
	struct tc_note coming;
	size_t to_send; /* bytes of `going` that are not sent */
	struct tc_note going;
};

/* An outstanding operation. */
struct tc_pend {
	zr_ticket ticket; /* 0: free */
	int32_t group;
	int met, told;                 /* headers agree; a note says that this rank waits in it */
	struct tc_header own, *all;    /* [world] by rank in the group; kind 0: not here yet */
	const struct zr_comm_seg *seg; /* the caller's */
	int32_t came, sent, got; /* ranks whose header is here; that have all; whose all is here */
	/* a sum */
	uint64_t pieces, added; /* all; that are in the result */
	int32_t arrived[2];     /* ranks whose part of piece added, added + 1 is here */
	int32_t add_seg;        /* where piece `added` lies */
	uint64_t add_at;
};

struct tc_group {
	/* its ranks are first .. first + size - 1; rank: of this process in it */
	int32_t first, size, rank;
	uint64_t posted;         /* operations so far */
	int32_t queue[WINDOW];   /* by seq: its place in `pend` */
	char *staging;           /* of sums: two pieces of each rank */
	struct tc_pend *adds;    /* the sum that uses it */
	struct tc_header common; /* the last one that all have come to */
};

struct tcp_opts {
	double timeout;
	const char *interface;
};

struct zr_inst {
	const struct zr_host *h;
	const struct tcp_opts *o;
	int32_t rank, world;
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

/* connect.c: connections with all ranks, whose addresses boot tells */
int tc_connect(struct zr_inst *c);

/* post.c */
int tc_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);

/* sum.c: bytes of a piece of a sum that come from each of so many ranks */
uint64_t tc_piece_bytes(int32_t ranks);
/* at least the staging of a group of any size in this world, which rounding makes differ */
uint64_t tc_most_staged(int32_t world);
/* move.c: moves what can be moved. 1: something was, 0, < 0. */
int tc_advance(struct zr_inst *c);
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

/* note.c */
double tc_now(void);
int tc_read_notes(struct zr_inst *c);
void tc_send_note(struct zr_inst *c, int32_t what, const struct tc_pend *p);
int tc_push_notes(struct zr_inst *c, double seconds); /* whether all have left */
void tc_goodbye(struct zr_inst *c);
int tc_enter(struct zr_inst *c); /* fails if broken or asked to abort */
/* breaks, tells all others */
int tc_stop(struct zr_inst *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tc_lost(struct zr_inst *c, int32_t rank, int why); /* a connection is over: says whose */

/* text.c */
/* What two headers differ in, NULL: in nothing. */
const char *tc_difference(const struct tc_header *x, const struct tc_header *y);
void tc_op_text(const struct tc_header *op, int32_t group, char *out, size_t room);
void tc_missing_text(const struct zr_inst *c, const struct tc_pend *p, char *out, size_t room);
/* Stops because the ranks' operations differ. */
int tc_differ(struct zr_inst *c, const struct tc_pend *p, int32_t peer, const char *what,
	      int32_t common);

#endif
