/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/offload.h - DRAFT. Role "offload", interface "zr.offload/1": an asynchronous store of objects in
 * another tier. Sections [offload.optimizer], [offload.gradient], [offload.param], [offload.activation]: one
 * instance each, and they share nothing, even where their options are equal.
 *
 * An object is `bytes` bytes that read as zeros until they are written. It belongs to the instance and ends with
 * discard or destroy: nothing of it outlives the process that made it, and no other process sees it.
 *
 * read and write post a request and return at once; it goes on without further calls. Requests are done in any
 * order, so where two overlap and one writes, wait for the first before posting the second. The buffer is the
 * caller's: kept, and left alone (by a read: not looked at), until the ticket was waited for. What wait returned
 * 0 for is whole: a short, failed or, where the store can tell, wrong transfer is an error of its wait, with the
 * place and the offset in the text. After a failure the other requests go on and can be waited for.
 */
#ifndef ZEROTH_OFFLOAD_H
#define ZEROTH_OFFLOAD_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE; filled by info(). */
struct zr_tier_info {
	uint32_t size;
	uint32_t mem_ok;       /* kinds of memory it reads into and writes from: ZR_MEM_* */
	uint32_t max_inflight; /* requests posted and not waited for, at most; one more gets ZR_EAGAIN */
	uint32_t direct;       /* 1: map() gives the memory of objects, and requests are plain copies */
	uint64_t align;        /* a request moves without a copy in between if its offset, its length and its address are
				* multiples of this many bytes; others work, more slowly */
	uint64_t capacity;     /* bytes that make() may still reserve now; UINT64_MAX: no limit of its own */
	/* How the user wants core to run the update pipeline over this tier; all 0: no say. */
	uint32_t buffers;       /* pieces in memory at once, at least 1 + pipeline_read + pipeline_write */
	uint32_t pipeline_read; /* 1: the next piece is read while one is computed */
	uint32_t pipeline_write; /* 1: the last piece is written while one is computed */
	uint32_t kept;           /* bytes of host memory that it allocates for each 4096 bytes of an object, as for checksums */
};

/* GROWABLE. */
struct zr_offload_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_tier_info *); /* [main] */

	/* [main] A new object of `bytes` > 0, its space reserved: what does not fit is refused here with ZR_EFIT, later it
	 * cannot run out. key: what it holds, for messages and names of files: [a-z0-9._-]+, need not be unique. */
	int (*make)(struct zr_inst *, const char *key, uint64_t bytes, uint64_t *object);
	int (*discard)(struct zr_inst *, uint64_t object); /* [main] no request of it outstanding */

	/* [step] [off, off + bytes) lies inside the object; bytes may be 0. ZR_EAGAIN with max_inflight outstanding. In
	 * *ticket what to wait for, exactly once; 0, never a ticket, if everything has happened already. */
	int (*read)(struct zr_inst *, uint64_t object, uint64_t off, void *dst, uint64_t bytes, uint64_t *ticket);
	int (*write)(struct zr_inst *, uint64_t object, uint64_t off, const void *src, uint64_t bytes, uint64_t *ticket);

	/* (optional) [main] The object's memory, 4096-byte aligned, until discard, before which a device may pin it; NULL where info
	 * says direct = 0. */
	void *(*map)(struct zr_inst *, uint64_t object);

	int (*test)(struct zr_inst *, uint64_t ticket); /* [step] 1 done, 0 pending, < 0 failed: wait tells why */
	int (*wait)(struct zr_inst *, uint64_t ticket); /* [step] blocks until done; the ticket ends. Ticket 0: ZR_OK */

	/* [main] Blocks until nothing is outstanding; all tickets end, unwaited failures are forgotten. For an orderly end
	 * after an error; destroy does the same by itself. */
	int (*drain)(struct zr_inst *);

	/* (optional) [main] Requests will use memory in [base, base + bytes), which stays mapped until destroy: a store that
	 * can prepares it once instead of with every request. With nothing outstanding; once per range, ranges do not
	 * overlap. What cannot be prepared is used as any other memory, with a line of log; so this fails only on misuse. */
	int (*buffers)(struct zr_inst *, void *base, uint64_t bytes);
};

#ifdef __cplusplus
}
#endif
#endif
