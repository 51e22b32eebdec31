/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - parts of the comm plugin `local`: what the ranks share, and what one rank keeps.
 *
 * All ranks map one memfd. Its front is the area: per rank a seat, per seat and group a lane, and
 * in a lane the ring of the operations that the rank has posted. Three words of a lane only ever
 * grow, are written by the owner alone, and are slept on (futex) by the others:
 *   posted  operations announced         sync  meetings inside operations
 *   done    operations whose data the owner has read from its peers
 * Behind the area lie staging buffers and the memory of mem_alloc, for which the memfd grows; pages
 * exist once they are touched.
 *
 * Ranks of one run trust each other: each can write all that the memfd has. What comes from another
 * process is never used as an address here; of ranks in one process it is, for they share theirs.
 *
 * Each rank executes its operations in the order it posted them, both groups in one queue, so ranks
 * may wait for their tickets in different orders without a deadlock.
 */
#ifndef ZR_COMM_LOCAL_H
#define ZR_COMM_LOCAL_H

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "plugins/comm/checks.h"
#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"
#include "plugins/comm/sum.h"

#define WINDOW 64 /* tickets of one rank that may be outstanding */
/* a slot is rewritten only when every peer must have executed it: that far apart are two ranks
 * never, > 2 * WINDOW */
#define RING      256
#define SEGS      16384 /* segments of the operations in a ring, all together */
#define REGIONS   64    /* calls of mem_alloc in a life */
#define MAX_RANKS 256
#define CARRIED   8192u /* bytes that a rank sends at most in an operation that carries them */
#define PAYLOAD   (WINDOW * CARRIED) /* and in the operations of a ring, all together */
#define GROUPS    6                  /* as ZR_GROUP_*, self first */
#define LANES     (GROUPS - 1)       /* groups that need one: all but self */

/* The growing words of a lane. */
enum word { POSTED, DONE, SYNC, WORDS };

/* What peers look at first, a cache line of its own per operation: written before `posted`. Where
 * an operation sends a few bytes they need no more than it. */
struct mark {
	_Alignas(64) _Atomic uint32_t seq; /* of the operation */
	uint32_t unused;
	uint64_t sign; /* hash of all in which ranks must not differ */
	char data[48]; /* its payload, if that is no longer */
};

/* One segment as peers see it: the owner's addresses, and their places in the memfd, 0 where they
 * are not in it. */
struct shared_seg {
	uint64_t send, recv, send_at, recv_at;
	int64_t count;
};

struct slot {
	int32_t kind, dtype, root, n_seg;
	struct zr_comm_tag tag;
	uint64_t first_seg; /* number of its first segment, modulo SEGS an index */
	uint64_t payload;   /* number of the first byte that it carries, modulo PAYLOAD an index */
	int32_t private;    /* peers of other processes see no mapping of some of its buffers */
	int32_t carries;    /* bytes in the payload: by kind and sizes, so alike on all ranks */
};

struct lane {
	_Alignas(64) _Atomic uint32_t word[WORDS];
	_Atomic uint32_t sleepers; /* threads that sleep on one of the words */
	struct mark mark[RING];
	struct slot slot[RING];
	struct shared_seg seg[SEGS];
	_Alignas(64) char payload[PAYLOAD];
};

/* What a rank does now, for the reports of the others; parts may be of two moments. */
struct doing {
	_Atomic int64_t step;
	_Atomic int32_t op, unit, kind; /* kind 0: has posted nothing yet */
	_Atomic uint32_t waiting;
};

/* A mapping that the ranks of one process share. */
struct shared_map {
	char *_Atomic base;
	_Atomic int32_t users;
};

/* What the ranks of one process share, in its own memory. */
struct process {
	struct process *next;
	uint64_t nonce;
	int fd, users;
	struct area *area;
	uint64_t area_bytes;
	/* [world][REGIONS] of each rank that is the lowest of its node here */
	struct shared_map *maps;
};

struct seat {
	_Atomic uint32_t joined; /* 1 seated, 2 has tried to read the others */
	_Atomic uint32_t left;   /* destroyed its instance */
	_Atomic int32_t pid;
	_Atomic uint32_t reads;   /* process_vm_readv works from here to every other process */
	_Atomic uint64_t probe;   /* address of a private copy of the area's nonce */
	cpu_set_t cpus;           /* that it may use */
	_Atomic uint32_t ordered; /* its process takes part in barriers of others */
	struct doing doing;
	/* in the memfd, of the regions of its node: set by the node's first rank */
	_Atomic uint64_t place[REGIONS];
	struct lane lane[LANES];
};

struct area {
	uint64_t nonce;
	_Atomic uint64_t end; /* of what mem_alloc has given away */
	int32_t world;
	_Atomic uint32_t aborted; /* 1 somebody writes why, 2 why is there */
	char why[1000];
	struct seat seat[];
};

struct group {
	/* its ranks are first .. first + size - 1, or those of the list; rank: of this process in
	 * it; size 0: not made */
	int32_t first, size, rank;
	const int32_t *ranks; /* [size]; NULL: no list */
};

/* An outstanding ticket. */
struct pend {
	uint64_t ticket; /* 0: free */
	uint32_t seq;    /* value of `posted` after it */
	uint32_t meet;   /* all_reduce: value of `sync` that separates its halves */
	int32_t group;
	int32_t stage; /* 0 posted, 1 the first half of an all_reduce is done, 2 executed */
};

struct region {
	/* place in the memfd, of the node's first rank; distance of ranks */
	uint64_t at, stride, bytes;
	char *base;         /* where `at` is mapped; NULL: freed */
	struct view *views; /* owned */
};

/* Where a rank's bytes are read: at p here, or at p in process pid. */
struct source {
	const char *p;
	pid_t pid; /* 0: here */
};

struct local_opts {
	double timeout;
	uint64_t staging;
	int32_t cross_read;
};

struct zr_inst {
	const struct zr_host *h;
	const struct local_opts *o;
	const struct zr_boot_v1 *boot;
	struct zr_inst *boot_inst;
	int32_t rank, world, pid;
	int32_t nodes; /* 1, or more: then memory of mem_alloc is shared by the node only */
	struct group group[GROUPS];
	int32_t listed[GROUPS - ZR_GROUP_SEQUENCE][MAX_RANKS]; /* of those that have a list */
	struct process *process;                               /* NULL: one rank alone */
	int fd;                                                /* the process's */
	struct area *area;                                     /* NULL: one rank alone */
	/* of the area; places in the memfd of staging and mem_alloc */
	uint64_t area_bytes, stage_at, data_at;
	uint64_t nonce;       /* peers try to read it */
	int reads;            /* process_vm_readv works between all */
	int ordered;          /* all are `ordered`: who sleeps pays for the order, not who wakes */
	int crowded;          /* there are more ranks than processors */
	struct pollfd *watch; /* [world]: pidfds of the other processes, -1 where there is none */
	struct pend pend[WINDOW];
	uint64_t next, head; /* next ticket to give, to execute */
	int outstanding;     /* tickets not yet waited for */
	uint64_t seg_head[LANES], payload_head[LANES];
	uint64_t seg_end[LANES], payload_end[LANES]; /* known to be free up to here */
	uint32_t posted[LANES], sync[LANES];
	const char *doing; /* what the wait in progress is for; NULL: the operation `in` */
	const struct pend *in;
	char text[200];         /* of zl_doing */
	double since;           /* when the call in progress began to wait; 0: not yet */
	char *stage;            /* mapping of all staging buffers, NULL until used */
	struct source *source;  /* [world] */
	char *fetch;            /* [workers][world][FETCH]; owns also `source` and `watch` */
	_Atomic int32_t unread; /* process whose memory could not be read, 0: none */
	_Atomic int why_unread; /* errno of that */
	_Atomic uint64_t sent;
	struct region region[REGIONS];
	int n_regions;
};

static inline uint64_t zl_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#define FETCH 65536u /* bytes of another process that a sum reads at a time */

/* The number in the world of a rank of the group. */
static inline int32_t rank_in_world(const struct group *g, int32_t rank_in_group)
{
	if (g->ranks)
		return g->ranks[rank_in_group];
	return g->first + rank_in_group;
}

static inline struct lane *lane_of(const struct zr_inst *c, int32_t group, int32_t rank_in_group)
{
	const int32_t rank = rank_in_world(&c->group[group], rank_in_group);
	return &c->area->seat[rank].lane[group - ZR_GROUP_NODE];
}

static inline const struct slot *slot_of(const struct lane *l, uint32_t seq)
{
	return &l->slot[seq % RING];
}

static inline struct mark *mark_of(struct lane *l, uint32_t seq)
{
	return &l->mark[seq % RING];
}

static inline const struct shared_seg *seg_of(const struct lane *l, const struct slot *s, int32_t i)
{
	return &l->seg[(s->first_seg + (uint64_t)i) % SEGS];
}

static inline const struct group *node_of(const struct zr_inst *c)
{
	return &c->group[ZR_GROUP_NODE];
}

/* Of the ranges of all ranks of the node. */
static inline uint64_t region_bytes(const struct zr_inst *c, const struct region *r)
{
	return r->stride * (uint64_t)node_of(c)->size;
}

double zl_now(void);

/* file.c */
/* Makes it, or opens that of another process, into c->fd; `bytes`: that it has at least. */
int zl_file_make(struct zr_inst *c, uint64_t bytes);
int zl_file_open(struct zr_inst *c, int32_t pid, int32_t number, uint64_t bytes);
int zl_file_grow(struct zr_inst *c, int fd, uint64_t bytes); /* to at least that length */
/* Takes the mapping that another rank of this process has of the memfd with this nonce, or makes
 * one of the c->fd that get() finds. */
int zl_process_join(struct zr_inst *c, uint64_t nonce, int (*get)(struct zr_inst *, void *),
		    void *arg);
void zl_process_leave(struct zr_inst *c);

/* area.c */
int zl_join(struct zr_inst *c);
void zl_leave(struct zr_inst *c);

/* text.c */
/* "all_gather over the world (step 3, op 17, unit 2)" */
void zl_op_text(int32_t kind, int32_t group, const struct zr_comm_tag *tag, char *out, size_t room);
/* what the wait in progress is for */
const char *zl_doing(struct zr_inst *c);
/* "rank 2 (computing after ...)" for each rank of the group whose word is short of `target` */
void zl_missing_text(struct zr_inst *c, int32_t group, enum word w, uint32_t target, char *out,
		     size_t room);

/* wait.c */
/* Records why (the first one stands), wakes everybody. */
void zl_abort(struct zr_inst *c, const char *why);
/* abort, then zl_stopped */
int zl_stop(struct zr_inst *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* fails the call in progress with the reason of the abort */
int zl_stopped(struct zr_inst *c);
int zl_is_aborted(const struct zr_inst *c);
/* zl_stopped if a rank has aborted, else 0 */
int zl_aborted(struct zr_inst *c);
/* sets an own word, wakes its sleepers */
void zl_raise(struct zr_inst *c, int32_t group, enum word w, uint32_t value);
/* makes this process take part in barriers of memory that others ask for; 0: it cannot */
int zl_order(void);
/* 1 when this word of all ranks of the group has reached target; 0 not yet, only if !block; < 0 */
int zl_reach(struct zr_inst *c, const struct pend *p, enum word w, uint32_t target, int block);
void zl_nap(_Atomic uint32_t *word, uint32_t seen, double seconds);
void zl_wake(_Atomic uint32_t *word);
/* fails if a process died, or `awaited` left; -1: none */
int zl_check_alive(struct zr_inst *c, int32_t awaited);

/* compare.c */
/* hash of all in which ranks must not differ */
uint64_t zl_sign(const struct zr_comm_op *op, const struct slot *s);
/* All have posted p: ends everything, with the reason, if it is not the same operation. */
int zl_compare(struct zr_inst *c, const struct pend *p);

/* ring.c: an exchange is an operation of 2 R segments: what goes to each rank, then what comes */
int zl_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);
int zl_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out);
int zl_test(struct zr_inst *c, zr_ticket t);
int zl_wait(struct zr_inst *c, zr_ticket t);

/* carry.c */
/* of the payload of an operation that carries what it sends; 0: it does not */
uint64_t zl_carried_bytes(const struct zr_comm_op *op, int32_t ranks);
/* fills the payload of the slot; moves the data of an operation that all have posted */
void zl_carry(struct zr_inst *c, const struct zr_comm_op *op, struct lane *l, uint32_t seq);
void zl_carry_move(struct zr_inst *c, const struct pend *p);

/* group.c */
int zl_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n);

/* move.c: the data of an operation that all have posted */
/* of an all_reduce: the sum of the own part */
int zl_move(struct zr_inst *c, const struct pend *p);
int zl_move_rest(struct zr_inst *c, const struct pend *p); /* all_reduce: the parts of the others */
/* all_reduce: elements per rank, the last ones may have fewer */
int64_t zl_part(int64_t count, int32_t ranks);
void zl_sum_all(struct zr_inst *c, int32_t dtype, char *to, uint64_t bytes, int32_t ranks,
		int stream);

/* stage.c: the same through staging buffers */
int zl_stage(struct zr_inst *c, const struct pend *p);

/* mem.c */
int zl_mem_alloc(struct zr_inst *c, uint64_t bytes, void **out);
void zl_mem_free(struct zr_inst *c, void *p);

/* regions.c */
void *zl_mem_peer(struct zr_inst *c, const void *mine, int32_t group, int32_t rank);
/* place in the memfd, 0: not in it */
uint64_t zl_mem_at(const struct zr_inst *c, const void *p, uint64_t bytes);
/* NULL: not mapped here */
char *zl_mem_here(const struct zr_inst *c, uint64_t at);

/* view.c */
int zl_mem_view(struct zr_inst *c, const void *mine, uint64_t bytes, int32_t group, void **out);
void zl_views_free(struct region *r);

#endif
