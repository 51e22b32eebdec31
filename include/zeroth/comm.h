/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/comm.h - DRAFT. Role "comm", interface "zr.comm/1": asynchronous collectives over groups
 * of ranks. All ranks of a group post the same operations in the same order. Each operation carries
 * a tag: ranks whose tags, kinds or counts differ fail with a message that shows both, and so
 * does a rank that waits longer than the timeout.
 *
 * An operation works on a list of segments, the bucket. post() starts it and never waits; wait()
 * completes it. Buffers belong to the caller, who leaves them alone between post and wait.
 */
#ifndef ZEROTH_COMM_H
#define ZEROTH_COMM_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_COMM
#define ZR_USES_COMM ZR_DRAFT_COMM

#ifdef __cplusplus
extern "C" {
#endif

/* Stands for an operation that was posted. 0: it is already complete. Any other ticket is waited
 * for exactly once, with the instance that issued it. */
typedef uint64_t zr_ticket;

/* Kinds of operation. With R ranks in the group and count elements of a segment: */
#define ZR_COMM_ALL_GATHER     1 /* send [count], recv [R][count]: recv[r] = send of rank r */
#define ZR_COMM_REDUCE_SCATTER 2 /* send [R][count], recv [count] = sum over ranks of send_r[own] */
/* send [count], recv [count] = sum over ranks; may be the same buffer */
#define ZR_COMM_ALL_REDUCE 3
#define ZR_COMM_BROADCAST  4 /* recv [count] = send [count] of `root` */
#define ZR_COMM_ALL_TO_ALL 5 /* send [R][count], recv [R][count]: recv[r] = send_r[own] */
#define ZR_COMM_BARRIER    6 /* no segment */
/* Moves no data. After wait, mem_peer shows what peers wrote into their segments' `send` before
 * they posted. Segments are compared as those of any other operation. */
#define ZR_COMM_FENCE 7

/* Sums are of fp32, fp64 or int64 and run over the ranks in ascending order: acc = x_0, then acc =
 * acc + x_r. Only a plugin with `sums` (below) may add in another order. An all_gather whose recv
 * already holds send in its place (recv + rank*count == send) copies only the parts of other
 * ranks. */

/* Says what an operation is for. Ranks compare it, and a rank that fails or hangs reports it.
 * FROZEN. */
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

/* An all-to-all in which each rank sends another number of elements to each. With R ranks in the
 * group, what is for rank r begins in `send` behind what is for the ranks before it, and what comes
 * from rank r in `recv` likewise; the two do not overlap. What rank a sends to rank b is what b
 * receives from a: the plugin compares each pair of counts before it writes into `recv`, and a
 * difference fails on all ranks with both numbers. A count may be 0, also all of them. GROWABLE. */
struct zr_comm_exchange {
	uint32_t size;
	int32_t group; /* ZR_GROUP_* of zeroth/zero.h */
	int32_t dtype, rsv;
	const void *send; /* borrowed until wait, as all that this struct points to */
	void *recv;
	const int64_t *send_count, *recv_count; /* [R] elements */
	struct zr_comm_tag tag;
};

/* GROWABLE. */
struct zr_comm_v1 {
	uint32_t size;
	/* ZR_MEM_* bits: the kinds of memory that segments may lie in; those of one operation lie
	 * in one kind. 0: host memory, and device memory that the host can address. */
	uint32_t mem;
	int (*post)(struct zr_inst *, const struct zr_comm_op *, zr_ticket *); /* [step] */
	/* [step] 1: done, but wait must still consume the ticket; 0: pending; < 0: failed */
	int (*test)(struct zr_inst *, zr_ticket);
	int (*wait)(struct zr_inst *, zr_ticket); /* [step] completes and consumes the ticket */
	/* (optional) [main] Collective over the node: allocates `bytes` zeroed bytes that the other
	 * ranks of the node can address. */
	int (*mem_alloc)(struct zr_inst *, uint64_t bytes, void **out);
	void (*mem_free)(struct zr_inst *, void *p);
	/* (optional) [step] The address at which this process sees what `mine` is at rank `rank` of
	 * the group; NULL: this process cannot address it. */
	void *(*mem_peer)(struct zr_inst *, const void *mine, int32_t group, int32_t rank);
	/* [any] Every pending and later call fails with ZR_EPEER on all ranks. */
	void (*abort)(struct zr_inst *, const char *why);
	/* [any] Bytes that this rank has read from other ranks or sent to them. */
	uint64_t (*bytes_sent)(struct zr_inst *);
	/* (optional) [main] A gather without a copy. *out: one read-only mapping of [bytes of rank
	 * 0 | bytes of rank 1 | ...], which are the memory that each rank of the group allocated at
	 * the same place with mem_alloc; `mine` is that place on this rank. `bytes` and the offset
	 * of the place are whole pages. Not collective. The mapping is valid until mem_free. As
	 * with mem_peer, it shows what peers wrote only after a fence. For a group of one rank it
	 * is `mine` itself. ZR_ENOTSUP: the ranks share no memory; ZR_ENOMEM: no mappings are
	 * left. */
	int (*mem_view)(struct zr_inst *, const void *mine, uint64_t bytes, int32_t group,
			void **out);
	/* (optional) [main] NULL: a reduce_scatter adds in rank order, as above. Otherwise the name
	 * and version of the library that chooses the order, as "NCCL 2.27.3"; results then depend
	 * on it bit for bit. The answer follows from the options alone: the option is called
	 * `sums`, and its value `ordered` means rank order. Core refuses another value in a
	 * training that posts no reduce_scatter. */
	const char *(*sums)(const void *opts);
	/* (optional) [main] Bytes that an instance takes of zr_host.alloc in create, in one piece
	 * named "comm", in a world of so many ranks: for plans, which are made without the others.
	 * NULL: none. */
	uint64_t (*held)(const void *opts, int32_t world, int32_t workers);
	/* (optional) [step] Posts an exchange, an operation among the others: all ranks of the
	 * group post it, in the same order, and its ticket is tested and waited for like theirs.
	 * Fails as post() does: ZR_EAGAIN, ZR_EINVAL for what no group could do, ZR_EPEER. */
	int (*exchange)(struct zr_inst *, const struct zr_comm_exchange *, zr_ticket *);
	/* (optional) [main] Collective over the world: makes group `number`, one of
	 * ZR_GROUP_SEQUENCE, ZR_GROUP_EXPERT and ZR_GROUP_CROSS, of the `n` ranks that `ranks`
	 * names, numbers in the world in ascending order, this rank among them. Rank k of the group
	 * is ranks[k]. All ranks call it for the same numbers in the same order, with no operation
	 * outstanding; the groups of one number share no rank, and all ranks of one give the same
	 * list: otherwise it fails with ZR_EINVAL, or ZR_EPEER where another rank found out. A
	 * number is made once. The list is the caller's, and copied. From then on operations run
	 * over the group; mem_peer and mem_view need not know it. */
	int (*group)(struct zr_inst *, int32_t number, const int32_t *ranks, int32_t n);
	/* (optional) [main] Bytes of memory of the device that an instance takes in create, in a
	 * world of so many ranks: plans leave them to it. NULL: none. */
	uint64_t (*held_on_device)(const void *opts, int32_t world);
	/* (optional, both) [main] Memory of the device, from which segments will mostly be, for a
	 * library that wants to know of it beforehand. mem_lend comes once it is allocated, with no
	 * operation outstanding; not collective, but all ranks lend at the same point, perhaps
	 * other sizes. The plugin touches none of its bytes but those of operations. mem_take_back
	 * takes the same `base` before the memory is freed, again with no operation outstanding, or
	 * after a failure: nothing of the plugin uses the memory when it returns. */
	int (*mem_lend)(struct zr_inst *, void *base, uint64_t bytes);
	void (*mem_take_back)(struct zr_inst *, void *base);
};

#ifdef __cplusplus
}
#endif
#endif
