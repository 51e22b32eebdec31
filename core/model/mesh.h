/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.h - groups of ranks, and what is split over them; axes, along which ranks divide the work. A
 * unit's blocks are cut into as many equal parts as there are ranks in the world; a share of a
 * smaller group is several parts in a row. So who holds what, and who computes what, follows from
 * these few numbers, for every rank alike.
 */
#ifndef ZR_CORE_MESH_H
#define ZR_CORE_MESH_H

#include <zeroth/boot.h>
#include <zeroth/zero.h>

#include "core/base/error.h"

/* Ranks along SEQUENCE are neighbours and DATA counts them together: rank = d * S + s. EXPERT goes
 * over the same ranks again. */
enum zr_axis_id {
	ZR_AXIS_DATA,     /* micro-batches */
	ZR_AXIS_SEQUENCE, /* parts of the sequences of one micro-batch */
	ZR_AXIS_EXPERT,   /* the experts that they hold */
	ZR_AXIS_COUNT
};

/* Ranks of a group, which follow each other, or along an axis; this rank's number among them. */
struct zr_axis {
	int32_t n, rank;
};

struct zr_mesh {
	struct zr_axis group[ZR_GROUP_CROSS + 1]; /* by ZR_GROUP_*; CROSS: only if even */
	struct zr_axis axis[ZR_AXIS_COUNT];       /* by ZR_AXIS_* */
	int even; /* 1: all nodes have as many ranks: only then may anything be split by node */
};

/* Blocks of a unit. The last shares may have fewer than `per`, or none. */
struct zr_share {
	int64_t per, first, n;
};

/* sequence, experts: ranks along these axes. */
struct zr_mesh zr_mesh_of(const struct zr_boot_info *ranks, int32_t sequence, int32_t experts);

/* Which micro-batch of the global batch a rank computes as its `micro`-th: its data slot. */
static inline int64_t zr_mesh_slot(const struct zr_mesh *m, int64_t micro)
{
	return micro * m->axis[ZR_AXIS_DATA].n + m->axis[ZR_AXIS_DATA].rank;
}

/* Share `number` of so many. */
struct zr_share zr_share_of(int64_t blocks, int64_t shares, int64_t number);

/* What a rank has of a unit that is split over a group. */
struct zr_share zr_mesh_share(const struct zr_mesh *m, int32_t group, int64_t blocks, int32_t rank);

/* Of `world` equal parts of a unit that is split over groups of so many ranks, the one for which a
 * rank answers: one of its own share, and of no other rank's. */
int32_t zr_rank_part(int32_t ranks, int32_t world, int32_t rank);

#endif
