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

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	struct zr_instance *comm = ticket & HOST_COMM ? &s->setup->host_comm : &s->setup->comm;
	int rc = ticket ? ((const struct zr_comm_v1 *)comm->vtbl)->wait(comm->inst, ticket & ~HOST_COMM) : 0;
	return zr_user_failed(s, comm, rc, "wait");
}
