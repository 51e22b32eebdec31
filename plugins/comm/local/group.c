/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups of the ranks that a list names. Each has a lane of its own in the area, which
 * nobody has touched before the group is made.
 */
#include "local.h"

#include <string.h>

/* What all ranks say of the group that each is in. */
static int gather_signs(struct zr_inst *c, int32_t number, uint64_t own, uint64_t all[MAX_RANKS])
{
	const struct zr_comm_seg seg = { &own, all, 1 };
	const struct zr_comm_op op = comm_signs_op(number, &seg);
	zr_ticket ticket;

	int rc = zl_post(c, &op, &ticket);
	if (rc)
		return rc;
	return zl_wait(c, ticket);
}

int zl_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const int is_free = number >= ZR_GROUP_SEQUENCE && number < GROUPS &&
			    !c->group[number].size;
	int32_t place;
	int rc = comm_check_list(c->h, number, is_free, ranks, n, &place);
	if (rc)
		return rc;

	uint64_t own = comm_list_sign(number, ranks, n), all[MAX_RANKS];
	rc = gather_signs(c, number, own, all);
	if (rc)
		return rc;

	for (int32_t k = 0; k < n; k++)
		if (all[ranks[k]] != own)
			return zl_stop(c, COMM_LISTS_DIFFER, c->rank, ranks[k],
				       comm_group_name(number));

	int32_t *list = c->listed[number - ZR_GROUP_SEQUENCE];
	memcpy(list, ranks, (size_t)n * sizeof *list);
	c->group[number] = (struct group){ .size = n, .rank = place, .ranks = list };
	return 0;
}
