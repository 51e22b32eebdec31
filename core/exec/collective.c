/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.c - what goes to comm. A comm of device memory alone has another one beside it, for what is in host memory.
 */
#include "core/session.h"

#define HOST_COMM (1ull << 63) /* marks the tickets of host_comm */

int zr_post(struct zr_session *s, const struct zr_comm_op *o, int device, zr_ticket *ticket)
{
	struct zr_setup *p = s->setup;
	struct zr_instance *comm = !device && p->host_comm.inst ? &p->host_comm : &p->comm;
	*ticket = 0;
	int rc = ((const struct zr_comm_v1 *)comm->vtbl)->post(comm->inst, o, ticket);
	if (comm == &p->host_comm && *ticket)
		*ticket |= HOST_COMM;
	return zr_user_failed(s, comm, rc, "post");
}

int zr_collective(struct zr_session *s, int32_t kind, int32_t group, int32_t dtype, const struct zr_comm_seg *seg, int32_t n,
		  int32_t op, int32_t unit, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = kind, .group = group, .dtype = dtype, .n_seg = n, .seg = seg,
				.tag = { .step = s->step + 1, .op = op, .unit = unit } };
	return zr_post(s, &o, 0, ticket);
}

int zr_broadcast(struct zr_session *s, int32_t unit, int32_t root, const struct zr_comm_seg *seg, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = ZR_COMM_BROADCAST, .group = ZR_GROUP_WORLD, .dtype = ZR_F32, .root = root,
				.n_seg = 1, .seg = seg, .tag = { .step = s->step + 1, .op = -1, .unit = unit } };
	return zr_post(s, &o, 0, ticket);
}

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	struct zr_instance *comm = ticket & HOST_COMM ? &s->setup->host_comm : &s->setup->comm;
	int rc = ticket ? ((const struct zr_comm_v1 *)comm->vtbl)->wait(comm->inst, ticket & ~HOST_COMM) : 0;
	return zr_user_failed(s, comm, rc, "wait");
}
