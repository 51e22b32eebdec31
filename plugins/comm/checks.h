/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.h - what every comm plugin refuses of an exchange and of a new group, before any rank
 * hears of it.
 */
#ifndef ZR_COMM_CHECKS_H
#define ZR_COMM_CHECKS_H

#include "plugins/comm/names.h"
#include "plugins/comm/segment.h"

/* Of a group of so many ranks, where this one is `rank`. */
static inline int comm_check_exchange(const struct zr_host *h, const struct zr_comm_exchange *x,
				      int32_t ranks, int32_t rank)
{
	if (!comm_exchange_is_sound(x, ranks))
		return zr_fail(h, ZR_EINVAL,
			       "exchange of type %d: its counts are negative or too large, its "
			       "type is unknown, or the result would overwrite what is sent",
			       x->dtype);

	if (x->send_count[rank] != x->recv_count[rank])
		return zr_fail(h, ZR_EINVAL,
			       "exchange: rank %d of the group sends %lld elements to itself, and "
			       "expects %lld",
			       rank, (long long)x->send_count[rank],
			       (long long)x->recv_count[rank]);

	return ZR_OK;
}

/* Whether a group of that number can be made of a list of ranks. is_free: it is a number of such
 * groups, and no group has it yet. *place: of this rank in the list. */
static inline int comm_check_list(const struct zr_host *h, int32_t number, int is_free,
				  const int32_t *ranks, int32_t n, int32_t *place)
{
	if (!is_free)
		return zr_fail(h, ZR_EINVAL,
			       "group %d cannot be made: groups of a list are ZR_GROUP_SEQUENCE, "
			       "ZR_GROUP_EXPERT and ZR_GROUP_CROSS, each once",
			       number);

	*place = comm_place_in(ranks, n, h->rank, h->world);
	if (*place < 0)
		return zr_fail(h, ZR_EINVAL,
			       "the ranks of the %s do not ascend, are not all in the world, or "
			       "lack rank %d itself",
			       comm_group_name(number), h->rank);
	return ZR_OK;
}

/* An all-gather of what each rank says of its list, comm_list_sign(), in one segment. */
static inline struct zr_comm_op comm_signs_op(int32_t number, const struct zr_comm_seg *signs)
{
	return (struct zr_comm_op){ .size = sizeof(struct zr_comm_op),
				    .kind = ZR_COMM_ALL_GATHER,
				    .group = ZR_GROUP_WORLD,
				    .dtype = ZR_I64,
				    .n_seg = 1,
				    .seg = signs,
				    .tag = { -1, number, -1 } };
}

#endif
