/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/boot.h - DRAFT. Role "boot", interface "zr.boot/1": tells each process its rank and lets
 * the ranks exchange small values before they have a comm.
 */
#ifndef ZEROTH_BOOT_H
#define ZEROTH_BOOT_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_BOOT
#define ZR_USES_BOOT ZR_DRAFT_BOOT

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
	/* on this machine, which may simulate several nodes; 0: local_world */
	int32_t machine_ranks;
};

/* GROWABLE. Every function but info() is collective over all ranks unless it says otherwise. */
struct zr_boot_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_boot_info *); /* [main] */
	/* (optional) [main] Not collective. put publishes a value of at most 4096 bytes under a key
	 * of at most 63 bytes; get waits until the key is there. While get waits, it logs every 10
	 * s which ranks are missing. A boot of one rank may omit both. */
	int (*put)(struct zr_inst *, const char *key, const void *value, uint64_t bytes);
	int (*get)(struct zr_inst *, const char *key, void *value, uint64_t bytes,
		   double timeout_s);
	/* (optional) [main] After it, every rank sees what any rank put before it. */
	int (*fence)(struct zr_inst *, double timeout_s);
	/* (optional) [any] Not collective: says that this rank fails. Ranks that wait for it in get
	 * or fence fail with `why`. destroy must not wait for them without a limit. */
	void (*abort)(struct zr_inst *, const char *why);
	/* (optional) [any] Not collective, and never waits. 1: boot knows that another rank has
	 * called abort, or has ended without leaving; why[room] then says which one. 0: it knows of
	 * none. For a thread that looks after others: one that waits for a device waits neither in
	 * get nor in fence. */
	int (*stopped)(struct zr_inst *, char *why, uint64_t room);
};

/* `zeroth train -n` starts ranks of one machine with their rank and their number in
 * ZEROTH_LOCAL_RANK and ZEROTH_LOCAL_WORLD, and in ZEROTH_LOCAL_FD the descriptor of a memfd that
 * they share: so long, sealed against any other length and against more seals, and zero but for
 * this at its front. All else of it is boot's. Nothing else is a file to write to: check it. */
#define ZR_LOCAL_BYTES (2u << 20)
#define ZR_LOCAL_MAGIC 0x7a65726f74684c31u
struct zr_local_head {
	uint64_t magic;
	int32_t world, rsv;
};

#ifdef __cplusplus
}
#endif
#endif
