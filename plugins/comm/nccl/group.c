/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups: the communicators of those that boot says, and of those that a list names.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

/* Those of a group whose ranks all say the same color; a rank alone has none. */
int nn_split(struct zr_inst *c, struct nn_group *g, int color)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t world = c->group[ZR_GROUP_WORLD].comm;
	config.blocking = 0;
	if (g->size == 1)
		color = NCCL_SPLIT_NOCOLOR;

	ncclResult_t e = ncclCommSplit(world, color, g->rank, &g->making, &config);
	int rc = nn_finish(c, world, e, "ncclCommSplit");
	if (rc || g->size == 1)
		return rc;

	g->comm = g->making;
	rc = nn_ranges_join(c, (int)(g - c->group));
	if (rc)
		return rc;
	return nn_talk_open(c, g);
}

/* What all ranks say of the group that each is in. */
static int gather_signs(struct zr_inst *c, int32_t number, const uint64_t *own, uint64_t *all)
{
	const struct zr_comm_seg seg = { own, all, 1 };
	const struct zr_comm_op op = comm_signs_op(number, &seg);
	return nn_host_run(c, &op);
}

/* Whether all ranks of the list give the same one. */
static int agree(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const uint64_t own = comm_list_sign(number, ranks, n);
	uint64_t *all = malloc((size_t)c->world * sizeof *all);
	if (!all)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	int rc = gather_signs(c, number, &own, all);

	for (int32_t k = 0; !rc && k < n; k++)
		if (all[ranks[k]] != own)
			rc = nn_stop(c, ZR_EPEER, COMM_LISTS_DIFFER, c->rank, ranks[k],
				     comm_group_name(number));
	free(all);
	return rc;
}

static int take_list(struct zr_inst *c, struct nn_group *g, const int32_t *ranks, int32_t n)
{
	g->ranks = malloc((size_t)n * sizeof *g->ranks);
	if (!g->ranks)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	memcpy(g->ranks, ranks, (size_t)n * sizeof *g->ranks);
	return ZR_OK;
}

/* Collective over the world. */
static int make(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n, int32_t place)
{
	struct nn_group *g = &c->group[number];
	int rc = nn_enter(c);
	if (!rc && c->world > 1)
		rc = agree(c, number, ranks, n);
	if (!rc)
		rc = take_list(c, g, ranks, n);
	if (rc)
		return rc;

	g->rank = place;
	g->size = n;
	return c->world > 1 ? nn_split(c, g, ranks[0]) : ZR_OK;
}

int nn_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const int is_free = number >= ZR_GROUP_SEQUENCE && number < NN_GROUPS &&
			    !c->group[number].size;
	int32_t place;
	int rc = comm_check_list(c->h, number, is_free, ranks, n, &place);
	if (rc)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = make(c, number, ranks, n, place);
	if (c->broken)
		nn_tell(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}
