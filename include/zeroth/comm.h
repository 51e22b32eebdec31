/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/comm.h - DRAFT. Role "comm", interface "zr.comm/1": collectives over groups of ranks, with tickets.
 * All ranks of a group post the same operations in the same order; each carries a tag, and ranks whose tags,
 * kinds or counts differ fail with both, as does a rank that waits longer than the timeout.
 *
 * An operation works on a list of segments: the bucket. Posting announces it and never waits; wait() completes it.
 * Buffers belong to the caller and stay untouched from post to wait.
 */
#ifndef ZEROTH_COMM_H
#define ZEROTH_COMM_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t zr_ticket; /* 0: already complete; else waited for exactly once, with the instance that issued it */

/* Kinds of operation. With R ranks in the group and count elements of a segment: */
#define ZR_COMM_ALL_GATHER 1     /* send [count], recv [R][count]: recv[r] = send of rank r */
#define ZR_COMM_REDUCE_SCATTER 2 /* send [R][count], recv [count] = sum over ranks of send_r[own] */
#define ZR_COMM_ALL_REDUCE 3     /* send [count], recv [count] = sum over ranks; may be the same buffer */
#define ZR_COMM_BROADCAST 4      /* recv [count] = send [count] of `root` */
#define ZR_COMM_ALL_TO_ALL 5     /* send [R][count], recv [R][count]: recv[r] = send_r[own] */
#define ZR_COMM_BARRIER 6        /* no segment */
#define ZR_COMM_FENCE 7          /* no data moves; after wait, what peers wrote into their segments' `send` before they
				  * posted is visible through mem_peer; segments are compared like any other */

/* Sums run over the ranks in ascending order, but for `sums` below: acc = x_0, then acc = acc + x_r; fp32, fp64 and int64. An
 * all_gather whose recv already holds send in place (recv + rank*count == send) copies only the others' parts. */

/* What an operation is for: compared over ranks, and reported by a rank that fails or hangs. FROZEN. */
struct zr_comm_tag {
	int64_t step;
	int32_t op;   /* number in the program */
	int32_t unit; /* first unit of the list, -1: none */
};

/* FROZEN. */
struct zr_comm_seg {
	const void *send;
	void *recv;
	int64_t count; /* elements */
};

/* GROWABLE. */
struct zr_comm_op {
	uint32_t size;
	int32_t kind;  /* ZR_COMM_* */
	int32_t group; /* ZR_GROUP_* of zeroth/zero.h */
	int32_t dtype;
	int32_t root;
	int32_t n_seg;
	const struct zr_comm_seg *seg; /* borrowed until wait */
	struct zr_comm_tag tag;
};

/* GROWABLE. */
struct zr_comm_v1 {
	uint32_t size;
	uint32_t mem; /* ZR_MEM_* bits of what segments may lie in; 0: host memory, and device memory that the host can address */
	int (*post)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *); /* [step] */
	int (*test)(struct zr_inst *, zr_ticket); /* [step] 1 done (wait still consumes it), 0 pending, < 0 failed */
	int (*wait)(struct zr_inst *, zr_ticket); /* [step] completes and consumes the ticket */
	/* (optional) [main] collective over the node: memory of `bytes` zeroed, which peers of the node can address. */
	int (*mem_alloc)(struct zr_inst *, uint64_t bytes, void **out);
	void (*mem_free)(struct zr_inst *, void *p);
	/* (optional) [step] where this process sees the same place of rank `rank` of the group; NULL: it cannot */
	void *(*mem_peer)(struct zr_inst *, const void *mine, int32_t group, int32_t rank);
	void (*abort)(struct zr_inst *, const char *why); /* [any] every pending and later call fails with ZR_EPEER on all ranks */
	uint64_t (*bytes_sent)(struct zr_inst *); /* [any] bytes this rank read from or sent to others so far */
	/* (optional) [main] *out: one read-only mapping of [bytes of rank 0 | bytes of rank 1 | ...], the same place in memory
	 * of mem_alloc of each rank of the group, `mine` that of this rank: a gather without a copy. `bytes` and the place's
	 * offset are whole pages. Not collective; valid until mem_free; shows what peers wrote as mem_peer does, after a fence.
	 * A group of one rank: `mine` itself. ZR_ENOTSUP: its ranks share no memory; ZR_ENOMEM: no mappings are left. */
	int (*mem_view)(struct zr_inst *, const void *mine, uint64_t bytes, int32_t group, void **out);
	/* (optional) [main] NULL: reduce_scatters add in rank order, as above. Else who orders their additions instead, with its
	 * version, as "NCCL 2.27.3": bits then depend on it. Follows from the options alone; the option is called `sums`, with the
	 * value `ordered` for rank order. Core refuses it in a training that posts no reduce_scatter. */
	const char *(*sums)(const void *opts);
};

#ifdef __cplusplus
}
#endif
#endif
