/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/offload.h - DRAFT. Role "offload", interface "zr.offload/1": an asynchronous store of objects in
 * another tier. Sections [offload.optimizer], [offload.gradient], [offload.param], [offload.activation].
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
	uint32_t max_inflight; /* requests; one more gets ZR_EAGAIN */
	uint32_t direct;       /* 1: the memory itself can be used in place through map() */
	uint64_t align;        /* of offsets, lengths and addresses, bytes */
	uint64_t capacity;     /* bytes */
};

/* GROWABLE. A buffer stays valid and untouched until its ticket was waited for. Each completion is checked:
 * a short or failed transfer is an error of wait(). Ticket 0 is already complete. */
struct zr_offload_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_tier_info *);                              /* [main] */
	int (*make)(struct zr_inst *, const char *key, uint64_t bytes, uint64_t *object);  /* [main] reserves the space */
	int (*discard)(struct zr_inst *, uint64_t object);                                 /* [main] */
	int (*read)(struct zr_inst *, uint64_t object, uint64_t off, void *dst, uint64_t bytes, uint64_t *ticket);        /* [step] */
	int (*write)(struct zr_inst *, uint64_t object, uint64_t off, const void *src, uint64_t bytes, uint64_t *ticket); /* [step] */
	void *(*map)(struct zr_inst *, uint64_t object);    /* (optional) [main] address of the object */
	int (*test)(struct zr_inst *, uint64_t ticket);     /* [step] 1 done, 0 pending, < 0 failed */
	int (*wait)(struct zr_inst *, uint64_t ticket);     /* [step] consumes the ticket */
	int (*drain)(struct zr_inst *);                     /* [main] after an error, before destroy */
};

#ifdef __cplusplus
}
#endif
#endif
