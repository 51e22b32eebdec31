/* SPDX-License-Identifier: Apache-2.0
 *
 * moves.c - bytes between memories, stores and ranks.
 */
#include "core/exec/exec.h"
#include "core/memory/tier.h"

int zr_begin_copy(struct zr_session *s, const struct zr_call *c)
{
	return zr_copy_begin(s, c->o[0].region, c->o[1].region, c->at[1], c->at[0],
			     c->o[0].bytes, c->i->flags & ZR_F_IDLE, c->ticket);
}

int zr_end_copy(struct zr_session *s, const struct zr_call *c)
{
	return zr_copied(s, *c->ticket);
}

int zr_begin_read(struct zr_session *s, const struct zr_call *c)
{
	struct zr_spot from = { .region = c->o[0].region, .at = c->o[0].at };
	return zr_read(s, from, c->at[1], c->o[0].bytes, c->ticket);
}

int zr_end_read(struct zr_session *s, const struct zr_call *c)
{
	return zr_moved(s, c->o[0].region, *c->ticket);
}

int zr_begin_write(struct zr_session *s, const struct zr_call *c)
{
	struct zr_spot to = { .region = c->o[1].region, .at = c->o[1].at };
	return zr_write(s, to, c->at[0], c->o[1].bytes, c->ticket);
}

int zr_end_write(struct zr_session *s, const struct zr_call *c)
{
	return zr_moved(s, c->o[1].region, *c->ticket);
}

/* ---- ranks ---- */

/* A comm of device memory alone has another one beside it, for what is in host memory. */
#define HOST_COMM (1ull << 63) /* marks the tickets of host_comm */

int zr_post(struct zr_session *s, const struct zr_comm_op *o, int device, zr_ticket *ticket)
{
	struct zr_setup *p = s->setup;
	struct zr_instance *comm = !device && p->host_comm.inst ? &p->host_comm : &p->comm;
	*ticket = 0;
	int rc = ((const struct zr_comm_v1 *)comm->vtbl)->post(comm->inst, o, ticket);
	if (comm == &p->host_comm && *ticket)
		*ticket |= HOST_COMM;
	return rc == ZR_EAGAIN ? rc : zr_user_failed(s, comm, rc, "post");
}

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	struct zr_instance *comm = ticket & HOST_COMM ? &s->setup->host_comm : &s->setup->comm;
	int rc = ticket ? ((const struct zr_comm_v1 *)comm->vtbl)->wait(comm->inst, ticket & ~HOST_COMM) : 0;
	return zr_user_failed(s, comm, rc, "wait");
}

int zr_begin_collective(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_instr *i = c->i;
	struct zr_comm_op o = { .size = sizeof o, .kind = i->number, .group = i->group, .dtype = i->dtype, .root = i->root,
				.n_seg = (int32_t)i->blocks, .seg = c->seg,
				.tag = { .step = s->step + 1, .op = i->op, .unit = i->unit } };
	return zr_post(s, &o, i->flags & ZR_F_DEVICE, c->ticket);
}

int zr_end_collective(struct zr_session *s, const struct zr_call *c)
{
	return zr_complete(s, *c->ticket);
}
