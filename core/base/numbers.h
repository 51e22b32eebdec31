/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.h - the smaller and the larger number, what two ranges share, room in a memory, and the
 * height of a tree.
 */
#ifndef ZR_CORE_BASE_NUMBERS_H
#define ZR_CORE_BASE_NUMBERS_H

#include <stdint.h>

/* Leaves of [*from, *end) what is in [lo, hi) as well; 0: nothing, *end may then be below *from. */
static inline int zr_intersect(int64_t lo, int64_t hi, int64_t *from, int64_t *end)
{
	if (*from < lo)
		*from = lo;
	if (*end > hi)
		*end = hi;
	return *from < *end;
}

/* The least multiple of `to` that is not below n; to 0: n itself. */
static inline uint64_t zr_up(uint64_t n, uint64_t to)
{
	return to ? (n + to - 1) / to * to : n;
}

/* Room for so many bytes from *end on, which it moves; where it begins. */
static inline uint64_t zr_room(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;
	*end += zr_up(bytes, 64);
	return at;
}

static inline uint64_t zr_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t zr_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Levels above the leaves of a balanced binary tree of n leaves, a power of two: as many nodes wait
 * for their sibling at most. */
static inline int32_t zr_tree_levels(int32_t n)
{
	int32_t levels = 0;
	while (n >> (levels + 1))
		levels++;
	return levels;
}

/* The smaller one of two numbers of blocks, elements or ranks. */
static inline int64_t zr_fewer(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif
