/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - groups: those that boot says, and those of the ranks that a list names.
 */
#include "mpi.h"

#include <stdlib.h>
#include <string.h>

/* The three communicators of a group whose ranks all say the same color. */
int zm_group_split(struct zr_inst *c, struct zm_group *g, int color)
{
	int rank = -1, size = 0;
	int rc = MPI_Comm_split(MPI_COMM_WORLD, color, c->rank, &g->data);
	if (rc == MPI_SUCCESS) {
		MPI_Comm_set_errhandler(g->data, MPI_ERRORS_RETURN);
		rc = MPI_Comm_dup(g->data, &g->meet);
	}
	if (rc == MPI_SUCCESS)
		rc = MPI_Comm_dup(g->data, &g->sums);
	if (rc != MPI_SUCCESS)
		return zm_mpi_failed(c, rc, "MPI_Comm_split");

	MPI_Comm_rank(g->data, &rank);
	MPI_Comm_size(g->data, &size);
	if (rank != g->rank || size != g->size)
		return zm_stop(
			c,
			"boot and MPI disagree: rank %d of a group of %d ranks is rank %d of %d in "
			"MPI",
			g->rank, g->size, rank, size);
	return 0;
}

void zm_group_free(struct zm_group *g)
{
	if (!g->size)
		return;

	MPI_Comm_free(&g->data);
	MPI_Comm_free(&g->meet);
	MPI_Comm_free(&g->sums);
}

/* What all ranks say of the group that each is in. */
static int gather_signs(struct zr_inst *c, int32_t number, const uint64_t *own, uint64_t *all)
{
	const struct zr_comm_seg seg = { own, all, 1 };
	const struct zr_comm_op op = comm_signs_op(number, &seg);
	zr_ticket ticket;

	int rc = zm_post(c, &op, &ticket);
	if (rc)
		return rc;
	return zm_wait(c, ticket);
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
			rc = zm_stop(c, COMM_LISTS_DIFFER, c->rank, ranks[k],
				     comm_group_name(number));
	free(all);
	return rc;
}

int zm_group(struct zr_inst *c, int32_t number, const int32_t *ranks, int32_t n)
{
	const int is_free = number >= ZR_GROUP_SEQUENCE && number < GROUPS &&
			    !c->group[number].size;
	int32_t place;
	int rc = zm_enter(c);
	if (!rc)
		rc = comm_check_list(c->h, number, is_free, ranks, n, &place);
	if (rc)
		return rc;

	struct zm_group *g = &c->group[number];
	rc = agree(c, number, ranks, n);
	if (rc)
		return rc;

	g->ranks = malloc((size_t)n * sizeof *g->ranks);
	if (!g->ranks)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	memcpy(g->ranks, ranks, (size_t)n * sizeof *g->ranks);
	g->rank = place;
	g->size = n;
	if (c->world > 1)
		return zm_group_split(c, g, ranks[0]);
	return 0;
}
