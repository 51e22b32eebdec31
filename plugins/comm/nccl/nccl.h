/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.h - private to the plugin comm/nccl: collectives between GPUs, on a stream of its own.
 *
 * An operation on memory of GPUs waits, on the GPU, for what the compute stream had been given
 * before it was posted; wait() lets the compute stream wait for it: the host blocks in neither. A
 * thread watches what is outstanding and ends it when it fails or takes too long (I5).
 *
 * What lies in host memory goes through the GPUs, too: copied there, moved by NCCL and copied back,
 * on a communicator and a stream of their own, so that none waits for what is computed. Each such
 * operation begins with a message of every rank to all that says what the operation is: ranks
 * compare these, and a signature of what they posted on memory of GPUs before.
 *
 * Sums of fp32 are exchanges of pieces and additions in rank order (invariant I1), through a
 * scratch that does not grow with them. NCCL itself adds integers and, where the option sums says
 * so, reduce_scatters.
 */
#ifndef ZR_COMM_NCCL_H
#define ZR_COMM_NCCL_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/device.h>
#include <zeroth/zero.h>

#include "plugins/comm/checks.h"
#include "plugins/comm/header.h"
#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"

#define NN_WINDOW 64        /* operations posted and not over, at most */
#define NN_GROUPS 6         /* by ZR_GROUP_* */
#ifndef NN_RANKS_PER_ID     /* tests have fewer */
#define NN_RANKS_PER_ID 128 /* of a world that meets by several ids */
#endif
#define NN_WHY 1024 /* bytes of a reason to stop */

enum { NN_SUMS_ORDERED, NN_SUMS_NCCL };

struct nccl_opts {
	double timeout;
	int32_t sums; /* NN_SUMS_* */
};

/* What a rank tells all others of an operation in host memory; small ones are in it. */
#define NN_MESSAGE 256
struct nn_message {
	struct comm_header header;
	uint64_t before; /* signature of what was posted on memory of GPUs */
	char data[NN_MESSAGE - sizeof(struct comm_header) - sizeof(uint64_t)];
};

/* What moves the host memory of a group. */
struct nn_talk {
	ncclComm_t comm, making; /* making: comm until all ranks have made it */
	cudaStream_t stream;
	cudaEvent_t here; /* what was sent for last has come */
	/* [2 * half] each: what this rank sends, then what it receives */
	char *pinned, *device;
	uint64_t half;
	const char **source; /* [size] of a sum */
	/* operations that are not over, in order: the first one is under way */
	int32_t queue[NN_WINDOW], waiting;
	uint64_t posted;           /* so far */
	struct comm_header common; /* the last one that all have come to */
};

/* Its ranks are first .. first + size - 1, or those of the list; size 0: not made. */
struct nn_group {
	int32_t first, size, rank;
	int32_t *ranks;       /* [size], owned; NULL: no list */
	ncclComm_t comm;      /* NULL: a group of one, or not made yet */
	ncclComm_t making;    /* it, until all ranks have made it */
	struct nn_talk *talk; /* NULL likewise; the node has the world's if it is the world */
	uint64_t before;      /* signature of what was posted on memory of GPUs */
};

/* Of an operation that begins with a message to all. */
enum nn_stage { NN_POSTED, NN_TOLD, NN_COUNTS, NN_VERDICT, NN_DATA, NN_OVER };

/* An operation. */
struct nn_pend {
	int used, waited; /* free again when it was waited for and is over */
	cudaEvent_t over;
	double since; /* when it was posted, seconds */
	int32_t group;
	uint64_t bytes;
	struct comm_header own;
	int on_host;
	uint64_t before; /* signature of what was posted on memory of GPUs before */
	/* of one that begins with a message: */
	enum nn_stage stage;
	const struct zr_comm_seg *seg;    /* the caller's */
	struct zr_comm_exchange exchange; /* of COMM_EXCHANGE: what was posted */
	int32_t at_seg;                   /* under way: of this segment */
	int64_t at, n;                    /* elements [at, at + n), of each rank */
};

/* Where a piece comes from all ranks, to be added. */
struct nn_half {
	float *at;
	cudaEvent_t arrived, added;
};

/* Memory that NCCL was told of, and what each group's communicator calls it; NULL: it does not
 * know it. */
enum { NN_SCRATCH, NN_LENT, NN_RANGES };
struct nn_range {
	void *base; /* NULL: there is none */
	uint64_t bytes;
	void *handle[NN_GROUPS];
};

struct zr_inst {
	const struct zr_host *h;
	const struct nccl_opts *o;
	int32_t rank, world;
	struct nn_group group[NN_GROUPS];
	const struct zr_boot_v1 *boot;
	struct zr_inst *boot_inst;
	const struct zr_device_v1 *dev;
	struct zr_inst *dev_inst;
	int gpu;
	cudaStream_t compute, stream; /* the device's; owned */
	cudaEvent_t ready;            /* of the compute stream, when an operation is posted */
	void *scratch;                /* owned: device memory for sums, two halves */
	struct nn_half half[2];
	int turn;            /* the half of the next piece */
	cudaStream_t adding; /* owned: adds pieces that are there */
	struct nn_range range[NN_RANGES];
	struct nn_pend pend[NN_WINDOW];
	const struct nn_pend *posting; /* NULL: none */
	_Atomic uint64_t moved;        /* bytes that came from other ranks */

	pthread_mutex_t lock; /* of all calls of NCCL, and of what follows */
	pthread_t watch;
	int watched, leaving;
	/* communicators are aborted, for the reason in why; what calls fail with then */
	int broken, code;
	int told; /* the others know that */
	/* when this rank last asked whether another one has stopped, or left; since when it knows
	 * that rank `left` has, 0: it does not */
	double heard, left_asked, left_since;
	int32_t left;
	char why[NN_WHY];
};

/* The number in the world of a rank of the group. */
static inline int32_t nn_in_world(const struct nn_group *g, int32_t rank)
{
	return g->ranks ? g->ranks[rank] : g->first + rank;
}

static inline int nn_is_group(const struct zr_inst *c, int32_t group)
{
	return group >= ZR_GROUP_SELF && group < NN_GROUPS && c->group[group].size;
}

/* error.c: the code of a failure with the library's own words, or ZR_OK. With the lock. */
int nn_cuda(struct zr_inst *c, cudaError_t e, const char *call);
void nn_gave_back(struct zr_inst *c, cudaError_t e, const char *call);
int nn_nccl(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call);
/* ends all; returns code */
int nn_stop(struct zr_inst *c, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int nn_stopped(struct zr_inst *c); /* fails with the reason */
void nn_abort_comms(struct zr_inst *c);
void nn_op_text(const struct nn_pend *p, char *out, size_t room);
double nn_now(void);

/* finish.c: waits until a call has begun its work */
int nn_finish(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call);
int nn_is_noted(ncclResult_t e); /* a call inside a group: its end begins the work */
int nn_end_group(struct zr_inst *c, ncclComm_t comm, ncclResult_t e);
/* spins first, then sleeps for a small part of what was waited already: without the lock, for the
 * watching thread must be able to end what is waited for */
void nn_doze(struct zr_inst *c, double waited);

/* post.c */
int nn_enter(struct zr_inst *c); /* fails if this rank is broken. With the lock */
int nn_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);
int nn_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out);
/* posts one in host memory and waits for it. With the lock */
int nn_host_run(struct zr_inst *c, const struct zr_comm_op *op);
int nn_wait(struct zr_inst *c, zr_ticket ticket);
int nn_test(struct zr_inst *c, zr_ticket ticket);

/* move.c: on memory of GPUs, in the stream */
ncclDataType_t nn_type_of(int32_t dtype);
int nn_move(struct zr_inst *c, const struct zr_comm_op *op);
int nn_move_exchange(struct zr_inst *c, const struct zr_comm_exchange *x);
int nn_adds(int32_t kind);
/* what comes from other ranks, as the other comm plugins count it */
uint64_t nn_bytes_of(const struct zr_inst *c, const struct zr_comm_op *op);

/* ordered.c: sums in rank order */
uint64_t nn_scratch_bytes(int32_t world);
int nn_halves_open(struct zr_inst *c);
void nn_halves_close(struct zr_inst *c);
int nn_ordered_sum(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_op *op);
/* elements [lo, hi) of a sum's segment, as it is sent, that a rank adds up */
void nn_part_of(const struct nn_group *g, int32_t kind, int64_t count, int32_t rank, int64_t *lo,
		int64_t *hi);

/* host.c: operations that begin with a message to all. With the lock. */
void nn_host_post(struct zr_inst *c, struct nn_pend *p);
/* takes all of them as far as they go */
int nn_host_advance(struct zr_inst *c);
/* waits until p is over */
int nn_host_wait(struct zr_inst *c, struct nn_pend *p);
/* waits until no exchange is left of which the data are not on the stream */
int nn_host_settle(struct zr_inst *c, int32_t group);

/* piece.c: the data of such an operation, in pieces: begins the next one, 1: there is none; and
 * takes what came */
int nn_piece_start(struct zr_inst *c, struct nn_pend *p);
void nn_piece_take(struct zr_inst *c, const struct nn_pend *p);
/* bytes that go with the message */
uint64_t nn_inline_bytes(const struct zr_inst *c, const struct nn_pend *p);
void nn_inline_put(const struct zr_inst *c, const struct nn_pend *p, char *to);
/* from: of rank 0; of the others each `stride` bytes behind */
void nn_inline_take(struct zr_inst *c, const struct nn_pend *p, const char *from, uint64_t stride);

/* talk.c */
uint64_t nn_talk_bytes(int32_t ranks); /* of the device, for a group of so many */
int nn_talk_open(struct zr_inst *c, struct nn_group *g);
void nn_talk_close(struct zr_inst *c, struct nn_talk *t);
/* copies `sent` bytes to the device; and `received` back, once the calls in between are done */
int nn_talk_begin(struct zr_inst *c, const struct nn_talk *t, uint64_t sent);
int nn_talk_end(struct zr_inst *c, const struct nn_talk *t, uint64_t received);
int nn_talk_is_here(struct zr_inst *c, const struct nn_talk *t);

/* lend.c */
int nn_range_add(struct zr_inst *c, int which, void *base, uint64_t bytes);
void nn_range_drop(struct zr_inst *c, int which);
int nn_ranges_join(struct zr_inst *c, int group); /* all of them, by a new communicator */
int nn_lend(struct zr_inst *c, void *base, uint64_t bytes);
void nn_take_back(struct zr_inst *c, void *base);

/* group.c */
int nn_split(struct zr_inst *c, struct nn_group *g, int color);
int nn_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n);

/* note.c: what ranks say through boot when something fails. From the thread that core calls. */
void nn_tell(struct zr_inst *c);      /* that this rank is broken, once */
void nn_tell_left(struct zr_inst *c); /* that it leaves */
/* fail if another rank has stopped; or has left, and p waits for it: both ask now and then */
int nn_hear(struct zr_inst *c, double waited);
/* fails if boot knows that another rank has stopped or is gone. [any], with the lock */
int nn_ask_boot(struct zr_inst *c);
int nn_left_behind(struct zr_inst *c, const struct nn_pend *p, double waited);
int nn_late(struct zr_inst *c, const struct nn_pend *p, double waited);

/* watch.c */
int nn_watch_start(struct zr_inst *c);
void nn_watch_end(struct zr_inst *c);

#endif
