/* SPDX-License-Identifier: Apache-2.0
 *
 * boundary.c - see boundary.h.
 */
#include "core/boundary.h"

#include <string.h>

#include "core/session.h"

static void merge(struct zr_boundary *to, const struct zr_boundary *from, int rank)
{
	zr_exact_merge(&to->loss, &from->loss);
	zr_exact_merge(&to->norm, &from->norm);
	if (from->bad_tensor < to->bad_tensor) {
		to->bad_tensor = from->bad_tensor;
		to->bad_rank = rank;
	}
	if (!to->stop)
		to->stop = from->stop;
}

int zr_boundary_exchange(struct zr_session *s, struct zr_boundary *mine, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	struct zr_boundary *table = (struct zr_boundary *)(s->region[ZR_R_HOST] + p->plan.exchange);
	struct zr_boundary *send = table + p->process.world;
	int64_t check = mine->check;
	zr_ticket ticket;
	if (p->process.world == 1)
		return 0;
	*send = *mine;
	struct zr_comm_seg seg = { .send = send, .recv = table, .count = sizeof *mine / sizeof(int64_t) };
	s->err = err;
	int rc = zr_collective(s, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_I64, &seg, 1, -1, -1, &ticket);
	if (!rc)
		rc = zr_complete(s, ticket);
	if (rc)
		return rc;
	memset(mine, 0, sizeof *mine);
	mine->bad_tensor = INT64_MAX;
	for (int r = 0; r < p->process.world; r++) {
		if (table[r].check != check)
			return zr_err(err, ZR_EINVAL, "rank %d runs another program than rank %d: its config, model or plugins differ", r,
				      p->process.rank);
		merge(mine, &table[r], r);
	}
	mine->check = check;
	return 0;
}
