/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/comm.h - DRAFT. Role "comm", interface "zr.comm/1": collectives over groups of ranks, with
 * tickets. All ranks of a group issue the same operations in the same order.
 */
#ifndef ZEROTH_COMM_H
#define ZEROTH_COMM_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_COMM_ORDERED 1u /* sums run over the ranks in ascending order, acc = acc + x_r, the first storing */
#define ZR_COMM_VIEW 2u    /* all_gather may answer with a mapping instead of a copy */

/* 0: already complete; else waited for exactly once, with the instance that issued it */
typedef uint64_t zr_ticket;

/* What a failing or hanging rank reports of itself. FROZEN. */
struct zr_comm_tag {
	int64_t step;
	int32_t op;   /* number in the program */
	int32_t unit; /* -1: none */
};

/* GROWABLE. Counts are elements of `dtype` per rank; `group` is ZR_GROUP_* of zeroth/zero.h. Buffers belong
 * to the caller and stay untouched until the ticket was waited for. All [step]; failures name the ranks. */
struct zr_comm_op {
	uint32_t size, flags;
	int32_t group, dtype;
	int64_t count;
	const void *send;
	void *recv;
	int32_t root; /* broadcast */
	int32_t rsv;
	struct zr_comm_tag tag;
};

/* GROWABLE. */
struct zr_comm_v1 {
	uint32_t size, flags; /* ZR_COMM_* it can do */
	int (*all_gather)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *);     /* recv [ranks][count] */
	int (*reduce_scatter)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *); /* send [ranks][count], recv [count] */
	int (*all_reduce)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *);
	int (*broadcast)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *);
	int (*all_to_all)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *);     /* send, recv [ranks][count] */
	int (*barrier)(struct zr_inst *, const struct zr_comm_op *);
	int (*test)(struct zr_inst *, zr_ticket);  /* 1 done, 0 pending, < 0 failed */
	int (*wait)(struct zr_inst *, zr_ticket);  /* consumes the ticket */
	/* [main] Memory of its own: what all ranks of a node can address, or what is registered with the network. */
	int (*mem_alloc)(struct zr_inst *, uint64_t bytes, void **out);
	void (*mem_free)(struct zr_inst *, void *p);
	const void *(*mem_peer)(struct zr_inst *, const void *mine, int32_t rank); /* same place of a peer, or NULL */
	void (*abort)(struct zr_inst *, const char *why); /* [any] every pending call returns ZR_EPEER everywhere */
};

#ifdef __cplusplus
}
#endif
#endif
