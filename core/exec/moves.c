/* SPDX-License-Identifier: Apache-2.0
 *
 * moves.c - bytes between memories, stores and ranks.
 */
#include "core/exec/exec.h"
#include "core/memory/tier.h"

/* Memory that is not pinned is copied at once. */
static int copy_part(struct zr_session *s, const struct zr_call *c, int64_t part)
{
	struct zr_inst *it = s->roles->device.inst;
	const struct zr_device_v1 *dev = s->roles->device.vtbl;
	const uint64_t bytes = (uint64_t)c->i->block, k = (uint64_t)part;
	const struct zr_operand *source = &c->o[ZR_O_COPY_FROM], *target = &c->o[ZR_O_COPY_TO];
	char *from = c->at[ZR_O_COPY_FROM] + k * zr_parts_apart(source, c->i->blocks, bytes);
	char *to = c->at[ZR_O_COPY_TO] + k * zr_parts_apart(target, c->i->blocks, bytes);
	int beside = ZR_HAS(dev, struct zr_device_v1, copy_wait) && dev->copy_start &&
		     dev->copy_wait;
	if (!beside || s->pageable[source->region] || s->pageable[target->region])
		return zr_copy(s, to, from, bytes, c->err);

	int rc;
	if (zr_can_mark(s)) {
		rc = dev->copy_after(it, to, from, bytes, zr_mark_before(s, c->i), c->ticket);
		return zr_instance_failed(&s->roles->device, rc, "copy_after", c->err);
	}

	rc = dev->copy_start(it, to, from, bytes, c->ticket);
	return zr_instance_failed(&s->roles->device, rc, "copy_start", c->err);
}

/* Whether the device copies many parts by one call, all of them in memory that it has pinned. */
static int takes_rows(const struct zr_session *s, const struct zr_call *c)
{
	const struct zr_device_v1 *dev = s->roles->device.vtbl;
	const int32_t from = c->o[ZR_O_COPY_FROM].region;
	const int32_t to = c->o[ZR_O_COPY_TO].region;
	if (c->i->blocks < 2 || s->pageable[from] || s->pageable[to])
		return 0;
	if (!zr_can_mark(s))
		return 0;

	return ZR_HAS(dev, struct zr_device_v1, copy_rows) && dev->copy_rows;
}

static int copy_rows(struct zr_session *s, const struct zr_call *c)
{
	const uint64_t bytes = (uint64_t)c->i->block;
	const struct zr_operand *from = &c->o[ZR_O_COPY_FROM], *to = &c->o[ZR_O_COPY_TO];
	const struct zr_device_rows rows = {
		.size = sizeof rows,
		.slot = zr_mark_before(s, c->i),
		.dst = c->at[ZR_O_COPY_TO],
		.src = c->at[ZR_O_COPY_FROM],
		.bytes = bytes,
		.rows = (uint64_t)c->i->blocks,
		.dst_apart = zr_parts_apart(to, c->i->blocks, bytes),
		.src_apart = zr_parts_apart(from, c->i->blocks, bytes),
	};
	return ZR_ASK(&s->roles->device, device, copy_rows, c->err, &rows, c->ticket);
}

/* Of parts that are copied one by one, one is under way while the next one begins. */
int zr_begin_copy(struct zr_session *s, const struct zr_call *c)
{
	int rc = 0;
	if (takes_rows(s, c))
		return copy_rows(s, c);

	for (int64_t k = 0; !rc && k < c->i->blocks; k++) {
		uint64_t before = *c->ticket;
		*c->ticket = 0;
		rc = copy_part(s, c, k);
		if (before && !rc)
			rc = ZR_ASK(&s->roles->device, device, copy_wait, c->err, before);
	}
	return rc;
}

int zr_end_copy(struct zr_session *s, const struct zr_call *c)
{
	return ZR_ASK(&s->roles->device, device, copy_wait, c->err, *c->ticket);
}

int zr_begin_request(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_operand *o = &c->o[zr_stored(c->i)];
	struct zr_spot spot = { .region = o->region, .at = o->at };
	return zr_request(s, spot, c->at[zr_unstored(c->i)], o->bytes, c->i->kind == ZR_I_WRITE,
			  c->ticket, c->err);
}

int zr_end_request(struct zr_session *s, const struct zr_call *c)
{
	return zr_requested(s, c->o[zr_stored(c->i)].region, *c->ticket, c->err);
}

/* ---- ranks ---- */

/* A comm of device memory may have another one beside it, for what is in host memory. */
static struct zr_instance *comm_of(const struct zr_session *s, int device)
{
	struct zr_setup_roles *r = s->roles;
	if (!device && r->host_comm.inst)
		return &r->host_comm;
	return &r->comm;
}

static int post(struct zr_session *s, const struct zr_comm_op *o, int device, zr_ticket *ticket,
		struct zr_error *err)
{
	struct zr_instance *comm = comm_of(s, device);
	const struct zr_comm_v1 *v = comm->vtbl;
	*ticket = 0;
	int rc = v->post(comm->inst, o, ticket);
	if (rc == ZR_EAGAIN)
		return rc;
	return zr_user_failed(s, comm, rc, "post", err);
}

static int complete(struct zr_session *s, int device, zr_ticket ticket, struct zr_error *err)
{
	struct zr_instance *comm = comm_of(s, device);
	const struct zr_comm_v1 *v = comm->vtbl;
	if (!ticket)
		return 0;
	return zr_user_failed(s, comm, v->wait(comm->inst, ticket), "wait", err);
}

int zr_comm_run(struct zr_session *s, const struct zr_comm_op *o, struct zr_error *err)
{
	zr_ticket ticket;
	int rc = post(s, o, 0, &ticket, err);
	if (rc)
		return rc;
	return complete(s, 0, ticket, err);
}

static int post_exchange(struct zr_session *s, const struct zr_call *c,
			 const struct zr_comm_tag *tag)
{
	struct zr_instance *comm = comm_of(s, c->i->flags & ZR_F_DEVICE);
	const struct zr_comm_v1 *v = comm->vtbl;
	struct zr_comm_exchange x = { .size = sizeof x,
				      .group = c->i->group,
				      .dtype = c->i->dtype,
				      .send = c->seg->send,
				      .recv = c->seg->recv,
				      .tag = *tag };
	if (c->i->flags & ZR_F_ROWS) {
		zr_rows_to_exchange(s, c, &x);
	} else {
		x.send_count = c->program->count + c->i->root;
		x.recv_count = x.send_count + zr_group_ranks(s->facts, c->i->group);
	}
	*c->ticket = 0;
	int rc = v->exchange(comm->inst, &x, c->ticket);
	if (rc == ZR_EAGAIN)
		return rc;
	return zr_user_failed(s, comm, rc, "exchange", c->err);
}

static int post_collective(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_instr *i = c->i;
	struct zr_comm_op o = { .size = sizeof o,
				.kind = i->number,
				.group = i->group,
				.dtype = i->dtype,
				.root = i->root,
				.n_seg = (int32_t)i->blocks,
				.seg = c->seg,
				.tag = { .step = s->step + 1, .op = i->op, .unit = i->unit } };
	if (i->flags & (ZR_F_COUNTS | ZR_F_ROWS))
		return post_exchange(s, c, &o.tag);
	return post(s, &o, i->flags & ZR_F_DEVICE, c->ticket, c->err);
}

/* What is left of it is on the device, if it is on device memory: later copies come after that. */
static int leave_collective(struct zr_session *s, const struct zr_call *c)
{
	if (!(c->i->flags & ZR_F_DEVICE))
		return 0;
	return zr_mark(s, &s->marks.collective, c->err);
}

int zr_begin_collective(struct zr_session *s, const struct zr_call *c)
{
	int rc = post_collective(s, c);
	if (rc || *c->ticket)
		return rc;
	return leave_collective(s, c);
}

int zr_end_collective(struct zr_session *s, const struct zr_call *c)
{
	int rc = complete(s, c->i->flags & ZR_F_DEVICE, *c->ticket, c->err);
	if (rc)
		return rc;
	return leave_collective(s, c);
}
