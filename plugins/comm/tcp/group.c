/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups of the ranks that a list names.
 */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

/* Whether all ranks of the list give the same one. */
static int agree(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const uint64_t own = comm_list_sign(number, ranks, n);
	uint64_t *all = malloc((size_t)c->world * sizeof *all);
	if (!all)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	const struct zr_comm_seg seg = { &own, all, sizeof own };
	int rc = tc_gather(c, ZR_GROUP_WORLD, &seg, number);
	for (int32_t k = 0; !rc && k < n; k++)
		if (all[ranks[k]] != own)
			rc = tc_stop(c, COMM_LISTS_DIFFER, c->rank, ranks[k],
				     comm_group_name(number));
	free(all);
	return rc;
}

/* Its list and staging, which are freed with the instance. */
static int take_memory(struct zr_inst *c, struct tc_group *g, const int32_t *ranks, int32_t n)
{
	g->ranks = malloc((size_t)n * sizeof *g->ranks);
	if (n > 1)
		g->staging = c->h->alloc(c->h, tc_staging_bytes(n), "comm");
	if (!g->ranks || (n > 1 && !g->staging))
		return zr_fail(c->h, ZR_ENOMEM, "no memory for a group of %d ranks", n);

	memcpy(g->ranks, ranks, (size_t)n * sizeof *g->ranks);
	return 0;
}

int tc_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const int is_free = number >= ZR_GROUP_SEQUENCE && number < GROUPS &&
			    !c->group[number].size;
	int32_t place;
	int rc = tc_enter(c);
	if (!rc)
		rc = comm_check_list(c->h, number, is_free, ranks, n, &place);
	if (rc)
		return rc;

	struct tc_group *g = &c->group[number];
	rc = agree(c, number, ranks, n);
	if (!rc)
		rc = take_memory(c, g, ranks, n);
	if (rc)
		return rc;

	g->rank = place;
	g->size = n;
	if (c->world > 1)
		return tc_connect_group(c, number);
	return 0;
}
