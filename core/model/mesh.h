/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.h - groups of ranks, and what is split over them. A unit's blocks are cut into as many equal
 * parts as there are ranks in the world; a share of a smaller group is several parts in a row. So
 * who holds what follows from these few numbers, for every rank alike.
 */
#ifndef ZR_CORE_MESH_H
#define ZR_CORE_MESH_H

#include <zeroth/boot.h>
#include <zeroth/zero.h>

/* Ranks of a group, which follow each other; this rank's number among them. */
struct zr_axis {
	int32_t n, rank;
};

struct zr_mesh {
	struct zr_axis group[ZR_GROUP_WORLD + 1]; /* by ZR_GROUP_* */
	int even; /* 1: all nodes have as many ranks: only then may anything be split by node */
};

/* Blocks of a unit. The last shares may have fewer than `per`, or none. */
struct zr_share {
	int64_t per, first, n;
};

struct zr_mesh zr_mesh_of(const struct zr_boot_info *ranks);

/* Share `number` of so many. */
struct zr_share zr_share_of(int64_t blocks, int64_t shares, int64_t number);

/* What a rank has of a unit that is split over a group. */
struct zr_share zr_mesh_share(const struct zr_mesh *m, int32_t group, int64_t blocks, int32_t rank);

/* Of `world` equal parts of a unit that is split over groups of so many ranks, the one for which a
 * rank answers: one of its own share, and of no other rank's. */
int32_t zr_rank_part(int32_t ranks, int32_t world, int32_t rank);

#endif
