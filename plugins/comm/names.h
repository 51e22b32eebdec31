/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - what comm plugins call operations and types when they report (invariant I5), where a
 * rank may stand, and what an option is that several have.
 */
#ifndef ZR_COMM_NAMES_H
#define ZR_COMM_NAMES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zeroth/comm.h>
#include <zeroth/zero.h>

/* Of the option sums: what all choices have in common, and the first of them. */
#define COMM_SUMS                                                                                  \
	"How gradients are added over ranks where each rank sends one fp32 sum per update, that "  \
	"is with [train] reduction = local. ordered: in the order of the ranks; "

/* mem_alloc and exchange as operations among others, after those of zeroth/comm.h: callers do not
 * post them. */
#define COMM_MEM      (ZR_COMM_FENCE + 1)
#define COMM_EXCHANGE (ZR_COMM_FENCE + 2)

/* Where one rank of an exchange expects other counts than its peer sends. */
#define COMM_PAIR_DIFFERS                                                                          \
	"ranks differ in what they exchange: rank %d sends %lld %s to rank %d, which expects "     \
	"%lld, in %s"

#define COMM_LISTS_DIFFER "rank %d and rank %d give other lists of ranks for the %s"

static inline const char *comm_kind_name(int32_t kind)
{
	static const char *const names[] = {
		"nothing",
		[ZR_COMM_ALL_GATHER] = "all_gather",
		[ZR_COMM_REDUCE_SCATTER] = "reduce_scatter",
		[ZR_COMM_ALL_REDUCE] = "all_reduce",
		[ZR_COMM_BROADCAST] = "broadcast",
		[ZR_COMM_ALL_TO_ALL] = "all_to_all",
		[ZR_COMM_BARRIER] = "barrier",
		[ZR_COMM_FENCE] = "fence",
		[COMM_MEM] = "mem_alloc",
		[COMM_EXCHANGE] = "exchange",
	};
	return kind > 0 && kind <= COMM_EXCHANGE ? names[kind] : names[0];
}

/* As in "all_gather over the world". */
static inline const char *comm_group_name(int32_t group)
{
	static const char *const names[] = {
		[ZR_GROUP_SELF] = "rank itself",    [ZR_GROUP_NODE] = "node",
		[ZR_GROUP_WORLD] = "world",         [ZR_GROUP_SEQUENCE] = "sequence group",
		[ZR_GROUP_EXPERT] = "expert group", [ZR_GROUP_CROSS] = "cross group",
	};
	return group >= ZR_GROUP_SELF && group <= ZR_GROUP_CROSS ? names[group] : "unknown group";
}

static inline const char *comm_dtype_name(int32_t dtype)
{
	static const char *const names[] = { "bytes", "f32", "bf16", "f16",
					     "f64",   "i32", "i64",  "u8" };
	return dtype > 0 && dtype <= ZR_U8 ? names[dtype] : names[0];
}

/* Appends to a text of `room` bytes; what does not fit is cut. */
static inline void comm_say(char *out, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static inline void comm_say(char *out, size_t room, const char *fmt, ...)
{
	size_t used = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + used, room - used, fmt, ap);
	va_end(ap);
}

/* Whether the numbers that boot found place this rank in its world and node. */
static inline int comm_check_place(const struct zr_host *h)
{
	int32_t first = h->rank - h->local_rank;
	if (h->rank < 0 || h->rank >= h->world || h->local_rank < 0 ||
	    h->local_rank >= h->local_world || first < 0 || first + h->local_world > h->world)
		return zr_fail(h, ZR_EINVAL, "rank %d of %d cannot be rank %d of %d of a node",
			       h->rank, h->world, h->local_rank, h->local_world);
	return ZR_OK;
}

#endif
