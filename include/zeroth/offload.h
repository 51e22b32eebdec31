/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/offload.h - DRAFT. Role "offload", interface "zr.offload/1": an asynchronous store of
 * objects in another tier. Each of the sections [offload.optimizer], [offload.gradient],
 * [offload.param] and [offload.activation] has an instance of its own. Instances share nothing,
 * even if their options are equal.
 *
 * An object is an array of bytes that read as zeros until they are written. It belongs to the
 * instance and exists until discard or destroy. Nothing of it outlives the process that made it,
 * and no other process sees it.
 *
 * read and write post a request and return at once; the request proceeds without further calls.
 * Requests may complete in any order: if two overlap and one of them writes, wait for the first
 * before posting the second, unless the store does (zr_tier_info.in_order). The buffer belongs to
 * the caller. Until the ticket was waited for, the caller keeps it and does not change it, and does
 * not look at the buffer of a read. When wait returned 0, the transfer is complete. wait reports a
 * short or failed transfer, and wrong data if the store can detect them, with the place and the
 * offset in the text. After a failure the other requests proceed and can be waited for.
 */
#ifndef ZEROTH_OFFLOAD_H
#define ZEROTH_OFFLOAD_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_OFFLOAD
#define ZR_USES_OFFLOAD ZR_DRAFT_OFFLOAD

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE; filled by info(). */
struct zr_tier_info {
	uint32_t size;
	uint32_t mem_ok; /* kinds of memory it reads into and writes from: ZR_MEM_* */
	/* requests posted and not waited for, at most; one more gets ZR_EAGAIN */
	uint32_t max_inflight;
	/* 1: map() gives the memory of objects, and requests are plain copies */
	uint32_t direct;
	/* A request needs no intermediate copy if its offset, its length and its address are
	 * multiples of this many bytes. Other requests work, but are slower. */
	uint64_t align;
	/* bytes that make() can still reserve; UINT64_MAX: no limit of its own */
	uint64_t capacity;
	/* How the user wants core to run the update pipeline over this tier; all 0: the user did
	 * not say. */
	/* sub-groups in memory at once, at least 1 + pipeline_read + pipeline_write; 0: core counts
	 * them */
	uint32_t buffers;
	uint32_t pipeline_read;  /* 1: read the next sub-group while one is computed */
	uint32_t pipeline_write; /* 1: write the last sub-group while one is computed */
	/* Bytes of host memory that the store allocates for each 4096 bytes of an object, for
	 * checksums for example. */
	uint32_t kept;
	/* 1: of requests that overlap, in the object or in memory, the later one begins when the
	 * earlier one is over */
	uint32_t in_order;
};

/* GROWABLE. */
struct zr_offload_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_tier_info *); /* [main] */

	/* [main] Makes an object of `bytes` > 0 and reserves its space: fails with ZR_EFIT if there
	 * is too little, so that a write never runs out of space. key says what the object holds,
	 * for messages and names of files; it matches [a-z0-9._-]+ and need not be unique. */
	int (*make)(struct zr_inst *, const char *key, uint64_t bytes, uint64_t *object);
	int (*discard)(struct zr_inst *, uint64_t object); /* [main] with no outstanding request */

	/* [step] [off, off + bytes) lies inside the object; bytes may be 0. Fails with ZR_EAGAIN
	 * while max_inflight requests are outstanding. *ticket is waited for exactly once; 0 is not
	 * a ticket and means that the request is complete. */
	int (*read)(struct zr_inst *, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		    uint64_t *ticket);
	int (*write)(struct zr_inst *, uint64_t object, uint64_t off, const void *src,
		     uint64_t bytes, uint64_t *ticket);

	/* (optional) [main] The memory of the object, aligned to 4096 bytes and valid until
	 * discard; a device may pin it until then. NULL if info says direct = 0. */
	void *(*map)(struct zr_inst *, uint64_t object);

	/* [step] 1: done; 0: pending; < 0: failed, wait says why */
	int (*test)(struct zr_inst *, uint64_t ticket);
	/* [step] Blocks until the request is done and consumes the ticket. Ticket 0: ZR_OK. */
	int (*wait)(struct zr_inst *, uint64_t ticket);

	/* [main] Blocks until no request is outstanding, consumes all tickets, and drops failures
	 * that nobody waited for. It serves an orderly end after an error. destroy does the same by
	 * itself. */
	int (*drain)(struct zr_inst *);
};

#ifdef __cplusplus
}
#endif
#endif
