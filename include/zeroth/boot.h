/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/boot.h - DRAFT. Role "boot", interface "zr.boot/1": who the ranks are.
 */
#ifndef ZEROTH_BOOT_H
#define ZEROTH_BOOT_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE; filled by info(). */
struct zr_boot_info {
	uint32_t size;
	int32_t rank, world;
	int32_t local_rank, local_world; /* among the ranks of this node */
	int32_t node, nodes;
	char host[64];
	int32_t machine_ranks; /* on this machine, which may play several nodes; 0: those of this node */
};

/* GROWABLE. Every function but info() is collective over all ranks unless it says otherwise. */
struct zr_boot_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_boot_info *); /* [main] */
	/* (optional) [main] not collective: publishes a value of at most 4096 bytes under a key of at most 63; get waits
	 * until it is there. While it waits, a line every 10 s says which ranks have not come. A boot of one rank need
	 * not have them. */
	int (*put)(struct zr_inst *, const char *key, const void *value, uint64_t bytes);
	int (*get)(struct zr_inst *, const char *key, void *value, uint64_t bytes, double timeout_s);
	int (*fence)(struct zr_inst *, double timeout_s);  /* (optional) [main] all puts before are visible after */
	/* (optional) [any] not collective: this rank fails. Those that wait for it in get or fence end with `why`; destroy
	 * must not wait for them without limit. */
	void (*abort)(struct zr_inst *, const char *why);
};

#ifdef __cplusplus
}
#endif
#endif
