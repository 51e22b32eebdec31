/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.c - what goes to comm. Where the host cannot address device memory, neither can a comm that has said nothing
 * else: what lies there goes through a piece of host memory, and is done when it is posted. A comm of device memory alone
 * has another one beside it, for the rest.
 */
#include "core/replay.h"
#include "core/tier.h"

static int on_device(const struct zr_session *s, const void *p)
{
	return (uintptr_t)p - (uintptr_t)s->arena[ZR_STORE_DEVICE] < s->setup->plan.arena[ZR_STORE_DEVICE];
}

#define HOST_COMM (1ull << 63) /* marks the tickets of host_comm */

static int post(struct zr_session *s, struct zr_instance *comm, const struct zr_comm_op *o, zr_ticket *ticket)
{
	*ticket = 0;
	int rc = ((const struct zr_comm_v1 *)comm->vtbl)->post(comm->inst, o, ticket);
	if (comm == &s->setup->host_comm && *ticket)
		*ticket |= HOST_COMM;
	return zr_user_failed(s, comm, rc, "post");
}

/* How many parts of `count` elements a buffer has. */
static int64_t parts_sent(const struct zr_comm_op *o, int64_t ranks)
{
	return o->kind == ZR_COMM_ALL_TO_ALL || o->kind == ZR_COMM_REDUCE_SCATTER ? ranks : 1;
}

static int64_t parts_received(const struct zr_comm_op *o, int64_t ranks)
{
	return o->kind == ZR_COMM_ALL_TO_ALL || o->kind == ZR_COMM_ALL_GATHER ? ranks : 1;
}

/* Elements [at, at + n) of each part: together in host memory, or back. */
static int move_parts(struct zr_session *s, char *host, char *far, int64_t parts, int64_t apart, uint64_t at, uint64_t bytes, int back)
{
	int rc = 0;
	for (int64_t k = 0; !rc && k < parts; k++) {
		char *there = far + (uint64_t)(k * apart) + at, *here = host + (uint64_t)k * bytes;
		rc = back ? zr_copy(s, there, here, bytes) : zr_copy(s, here, there, bytes);
	}
	return rc;
}

static int through_host(struct zr_session *s, const struct zr_comm_op *o, const struct zr_comm_seg *seg)
{
	int64_t ranks = zr_group_ranks(s->setup, o->group), size = zr_dtype_bytes(o->dtype);
	int64_t sent = parts_sent(o, ranks), received = parts_received(o, ranks);
	int64_t step = ZR_WIRE / ((sent + received) * size) / ZR_BLOCK * ZR_BLOCK;
	int sends = o->kind != ZR_COMM_BROADCAST || o->root == s->setup->process.rank, rc = 0;
	char *out = s->region[ZR_R_WIRE], *in = out + step * sent * size;
	for (int64_t at = 0; !rc && at < seg->count; at += step) {
		int64_t n = seg->count - at < step ? seg->count - at : step;
		struct zr_comm_seg part = { out, in, n };
		struct zr_comm_op op = *o;
		zr_ticket ticket = 0;
		op.n_seg = 1;
		op.seg = &part;
		if (sends)
			rc = move_parts(s, out, (char *)(uintptr_t)seg->send, sent, seg->count * size, (uint64_t)(at * size),
					(uint64_t)(n * size), 0);
		if (!rc)
			rc = post(s, &s->setup->comm, &op, &ticket);
		if (!rc)
			rc = zr_complete(s, ticket);
		if (!rc)
			rc = move_parts(s, in, seg->recv, received, seg->count * size, (uint64_t)(at * size), (uint64_t)(n * size), 1);
	}
	return rc;
}

static int run(struct zr_session *s, const struct zr_comm_op *o, zr_ticket *ticket)
{
	struct zr_setup *p = s->setup;
	int far = 0, rc = 0;
	for (int32_t i = 0; (p->plan.wire || p->host_comm.inst) && i < o->n_seg; i++)
		far |= on_device(s, o->seg[i].send) || on_device(s, o->seg[i].recv);
	if (!far || !p->plan.wire)
		return post(s, !far && p->host_comm.inst ? &p->host_comm : &p->comm, o, ticket);
	*ticket = 0;
	for (int32_t i = 0; !rc && i < o->n_seg; i++)
		rc = through_host(s, o, &o->seg[i]);
	return rc;
}

int zr_collective(struct zr_session *s, int32_t kind, int32_t group, int32_t dtype, const struct zr_comm_seg *seg, int32_t n,
		  int32_t op, int32_t unit, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = kind, .group = group, .dtype = dtype, .n_seg = n, .seg = seg,
				.tag = { .step = s->step + 1, .op = op, .unit = unit } };
	return run(s, &o, ticket);
}

int zr_broadcast(struct zr_session *s, int32_t unit, int32_t root, const struct zr_comm_seg *seg, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = ZR_COMM_BROADCAST, .group = ZR_GROUP_WORLD, .dtype = ZR_F32, .root = root,
				.n_seg = 1, .seg = seg, .tag = { .step = s->step + 1, .op = -1, .unit = unit } };
	return run(s, &o, ticket);
}

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	struct zr_instance *comm = ticket & HOST_COMM ? &s->setup->host_comm : &s->setup->comm;
	int rc = ticket ? ((const struct zr_comm_v1 *)comm->vtbl)->wait(comm->inst, ticket & ~HOST_COMM) : 0;
	return zr_user_failed(s, comm, rc, "wait");
}

int zr_post(struct zr_session *s, const struct zr_pop *op, int32_t kind, int32_t group, int32_t dtype, int32_t n)
{
	int32_t at = zr_number_of(s, op);
	return zr_collective(s, kind, group, dtype, zr_segments_of(s, op), n, at, zr_units_of(s, op)[0], &s->posted[at]);
}
