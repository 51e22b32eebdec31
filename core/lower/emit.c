/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.c - see lower.h: instructions, their operands and buffers, one after the other.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* Whether there is room for one more. */
static int grows(struct zr_lowering *l, void *list, int32_t n, int32_t *cap, size_t size)
{
	if (zr_list_room(list, n + 1, cap, size))
		l->rc = zr_err(l->err, ZR_ENOMEM,
			       "out of memory for the instructions of a program");
	return !l->rc;
}

void zr_low_emit(struct zr_lowering *l, struct zr_instr i)
{
	static const uint8_t queue[ZR_I_KINDS] = {
#define ZR_INSTR(kind, name, queue, begin, ...) ZR_Q_##queue,
#include "core/lower/instr.def"
	};
	struct zr_lowered *p = l->p;
	if (!grows(l, &p->instr, p->n, &p->cap, sizeof *p->instr))
		return;

	if (queue[i.kind] != ZR_Q_COMPUTE)
		i.queue = queue[i.kind];
	i.op = l->op;
	i.unit = l->unit;
	i.first = p->n_operand;
	if (l->updates)
		i.flags |= ZR_F_UPDATE;
	p->instr[p->n++] = i;
}

struct zr_operand zr_low_buffer(struct zr_lowering *l, int32_t region, uint64_t bytes,
				uint32_t align)
{
	struct zr_operand o = zr_mine(region, 0, bytes);
	struct zr_lowered *p = l->p;
	if (!grows(l, &p->buffer, p->n_buffer, &p->cap_buffer, sizeof *p->buffer))
		return o;
	p->buffer[p->n_buffer++] = (struct zr_buffer){
		.region = region, .first = -1, .last = -1, .align = align, .bytes = bytes
	};
	o.buffer = p->n_buffer;
	return o;
}

void zr_low_keep(struct zr_lowering *l, const struct zr_operand *o)
{
	if (!o->buffer)
		return;

	struct zr_buffer *b = &l->p->buffer[o->buffer - 1];
	if (b->first < 0)
		b->first = l->now;
	if (b->last < l->now)
		b->last = l->now;
}

struct zr_operand zr_low_whole_life(struct zr_lowering *l, int32_t region, uint64_t bytes)
{
	if (!bytes)
		return zr_none();

	struct zr_operand o = zr_low_buffer(l, region, zr_up(bytes, ZR_PAGE), ZR_PAGE);
	zr_low_keep(l, &o);
	if (o.buffer)
		l->p->buffer[o.buffer - 1].last = INT32_MAX;
	return o;
}

void zr_low_arg(struct zr_lowering *l, struct zr_operand o, uint32_t access)
{
	struct zr_lowered *p = l->p;
	if (!grows(l, &p->operand, p->n_operand, &p->cap_operand, sizeof *p->operand))
		return;
	o.access = access;
	zr_low_keep(l, &o);
	p->operand[p->n_operand++] = o;
	p->instr[p->n - 1].n++;
}

void zr_low_operand(struct zr_lowering *l, int32_t name, struct zr_operand o, uint32_t access)
{
	const struct zr_instr *i = &l->p->instr[l->p->n - 1];
	if (!l->rc && i->n != name)
		l->rc = zr_err(l->err, ZR_EINTERNAL, "%s: operand %d comes as the %d-th one",
			       zr_instr_name[i->kind], name, i->n);
	zr_low_arg(l, o, access);
}

void zr_low_seen(struct zr_lowering *l, struct zr_operand mine)
{
	zr_low_arg(l, mine, ZR_READS);
	mine.whose = ZR_OTHERS;
	zr_low_arg(l, mine, ZR_WRITES);
}

int32_t zr_low_add_subgroup(struct zr_lowering *l, const struct zr_subgroup *subgroup)
{
	struct zr_lowered *p = l->p;
	if (!grows(l, &p->subgroup, p->n_subgroup, &p->cap_subgroup, sizeof *p->subgroup))
		return 0;
	p->subgroup[p->n_subgroup] = *subgroup;
	return p->n_subgroup++;
}

void zr_low_host(struct zr_lowering *l, int32_t call)
{
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_HOST, .number = call });
}

static int on_disk(const struct zr_lowering *l, const struct zr_operand *o)
{
	return l->plan->region[o->region].tier == ZR_TIER_DISK;
}

static int on_device(const struct zr_lowering *l, const struct zr_operand *o)
{
	return o->region >= 0 && l->plan->region[o->region].store == ZR_STORE_DEVICE;
}

/* Part k of an operand's equal parts. */
static struct zr_operand part_of(struct zr_operand o, int64_t k, int64_t parts, uint64_t bytes)
{
	return zr_operand_part(o, (uint64_t)k * zr_parts_apart(&o, parts, bytes), bytes);
}

/* Emits one instruction that moves bytes. of: its kind, sizes and flags. */
static void emit_move(struct zr_lowering *l, struct zr_instr of, struct zr_operand from,
		      struct zr_operand to)
{
	zr_low_emit(l, of);
	zr_low_operand(l, ZR_O_COPY_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_COPY_TO, to, ZR_WRITES);
}

/* A store takes one part at a time; parts that touch are one. */
void zr_low_move_parts(struct zr_lowering *l, struct zr_operand from, struct zr_operand to,
		       int64_t parts, uint64_t bytes)
{
	int read = on_disk(l, &from), write = on_disk(l, &to);
	int device = (read && on_device(l, &to)) || (!read && write && on_device(l, &from));
	uint64_t all = (uint64_t)parts * bytes;
	if (from.bytes == all && to.bytes == all) {
		bytes = all;
		parts = 1;
	}
	if (device && !l->f->device_info.host_access) {
		struct zr_operand host = zr_low_buffer(l, ZR_R_GRAD_BOUNCE, all, ZR_PAGE);
		zr_low_move_parts(l, from, host, parts, bytes);
		zr_low_move_parts(l, host, to, parts, bytes);
		return;
	}

	struct zr_instr i = { .kind = ZR_I_COPY, .block = (int64_t)bytes, .blocks = parts };
	if (!read && !write) {
		emit_move(l, i, from, to);
		return;
	}

	i.kind = read ? ZR_I_READ : ZR_I_WRITE;
	if (write && (from.buffer || from.region == ZR_R_STAGING))
		i.flags = ZR_F_LATE;
	i.blocks = 1;
	for (int64_t k = 0; k < parts; k++)
		emit_move(l, i, part_of(from, k, parts, bytes), part_of(to, k, parts, bytes));
}

void zr_low_move(struct zr_lowering *l, struct zr_operand from, struct zr_operand to)
{
	zr_low_move_parts(l, from, to, 1, from.bytes);
}

/* Nobody looks at what other ranks than the root of a broadcast would send. */
static int sends(const struct zr_lowering *l, const struct zr_instr *i)
{
	return i->number != ZR_COMM_BROADCAST || i->root == l->f->process.rank;
}

static void post(struct zr_lowering *l, struct zr_instr i, const struct zr_sent_received *part,
		 int32_t n)
{
	i.blocks = n;
	zr_low_emit(l, i);
	for (int32_t k = 0; k < n; k++) {
		zr_low_operand(l, zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k), part[k].send,
			       sends(l, &i) ? ZR_READS : 0);
		zr_low_operand(l, zr_in_pair(ZR_O_COLLECTIVE_EACH_RECEIVED, k), part[k].recv,
			       ZR_WRITES);
	}
}

/* How many equal parts a buffer has: of all ranks, or one. */
static uint64_t parts(int32_t kind, int received, uint64_t ranks)
{
	int many = kind == ZR_COMM_ALL_TO_ALL ||
		   kind == (received ? ZR_COMM_ALL_GATHER : ZR_COMM_REDUCE_SCATTER);
	return many ? ranks : 1;
}

/* Bytes [at, at + n) of each of a buffer's parts. */
static struct zr_operand of_each(struct zr_operand o, uint64_t parts, uint64_t at, uint64_t n)
{
	return zr_operand_part(o, at, (parts - 1) * (o.bytes / parts) + n);
}

/* Chunk by chunk, each through the same sub-group of host memory. */
static void through_host(struct zr_lowering *l, struct zr_instr i, const struct zr_sent_received *x)
{
	uint64_t ranks = (uint64_t)zr_group_ranks(l->f, i.group);
	uint64_t sent = parts(i.number, 0, ranks), received = parts(i.number, 1, ranks);
	uint64_t all = x->recv.bytes / received;
	uint64_t step = zr_min(all, ZR_HOST_COMM / (sent + received) / 64 * 64);
	struct zr_operand host = zr_low_buffer(l, ZR_R_HOST_COMM, step * (sent + received), 64);
	l->now++;
	for (uint64_t at = 0; at < all; at += step) {
		uint64_t n = zr_min(all - at, step);
		struct zr_sent_received part = { zr_operand_part(host, 0, sent * n),
						 zr_operand_part(host, step * sent, received * n) };
		if (sends(l, &i))
			zr_low_move_parts(l, of_each(x->send, sent, at, n), part.send,
					  (int64_t)sent, n);
		post(l, i, &part, 1);
		zr_low_move_parts(l, part.recv, of_each(x->recv, received, at, n),
				  (int64_t)received, n);
	}
}

void zr_low_collective(struct zr_lowering *l, int32_t kind, int32_t group, int32_t dtype,
		       int32_t root, int32_t n)
{
	struct zr_instr i = { .kind = ZR_I_COLLECTIVE,
			      .number = kind,
			      .group = group,
			      .dtype = dtype,
			      .root = root };
	int device = 0;

	for (int32_t k = 0; k < n; k++)
		device |= on_device(l, &l->part[k].send) || on_device(l, &l->part[k].recv);
	if (device && zr_comm_on_host(l->f)) {
		for (int32_t k = 0; k < n; k++)
			through_host(l, i, &l->part[k]);
		return;
	}

	if (device)
		i.flags = ZR_F_DEVICE;
	post(l, i, l->part, n);
}

int zr_low_exchanges(const struct zr_lowering *l, int32_t region)
{
	int device = l->plan->region[region].store == ZR_STORE_DEVICE;
	return l->f->counts && !(device && zr_comm_on_host(l->f));
}

/* Notes the elements of as many ranks. */
static void add_counts(struct zr_lowering *l, const uint64_t *bytes)
{
	struct zr_lowered *p = l->p;
	const int32_t ranks = l->f->process.world;
	if (!grows(l, &p->count, p->n_count + ranks - 1, &p->cap_count, sizeof *p->count))
		return;
	for (int32_t r = 0; r < ranks; r++)
		p->count[p->n_count++] = (int64_t)(bytes[r] / sizeof(float));
}

void zr_low_exchange(struct zr_lowering *l, const uint64_t *sent, const uint64_t *received)
{
	struct zr_instr i = { .kind = ZR_I_COLLECTIVE,
			      .flags = ZR_F_COUNTS,
			      .number = ZR_COMM_ALL_TO_ALL,
			      .group = ZR_GROUP_WORLD,
			      .dtype = ZR_F32,
			      .root = l->p->n_count };
	add_counts(l, sent);
	add_counts(l, received);
	if (on_device(l, &l->part[0].send) || on_device(l, &l->part[0].recv))
		i.flags |= ZR_F_DEVICE;
	post(l, i, l->part, 1);
}

/* Where comm reaches host memory alone, by way of it; all that may have come. */
void zr_low_exchange_rows(struct zr_lowering *l, int32_t dtype, int one, int back,
			  struct zr_operand table, struct zr_operand from, struct zr_operand to)
{
	const int device = on_device(l, &from), host = device && zr_comm_on_host(l->f);
	struct zr_instr i = { .kind = ZR_I_COLLECTIVE,
			      .flags = ZR_F_ROWS,
			      .number = ZR_COMM_ALL_TO_ALL,
			      .group = ZR_GROUP_EXPERT,
			      .dtype = dtype,
			      .from = one,
			      .root = back };
	struct zr_sent_received x = { from, to };

	if (host) {
		x.send = zr_low_buffer(l, ZR_R_HOST_COMM, from.bytes, 64);
		x.recv = zr_low_buffer(l, ZR_R_HOST_COMM, to.bytes, 64);
		zr_low_move(l, from, x.send);
	} else if (device) {
		i.flags |= ZR_F_DEVICE;
	}

	post(l, i, &x, 1);
	zr_low_arg(l, table, ZR_READS);
	if (host)
		zr_low_move(l, x.recv, to);
}

void zr_low_merge(struct zr_lowering *l, struct zr_operand mine, uint64_t at, int32_t call,
		  int64_t n)
{
	uint64_t ranks = (uint64_t)l->f->process.world;
	struct zr_operand all = zr_mine(ZR_R_HOST, at, mine.bytes * ranks);
	if (ranks == 1)
		return;

	l->part[0] = (struct zr_sent_received){ mine, all };
	zr_low_collective(l, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_I64, 0, 1);
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_HOST, .number = call, .blocks = n });
	zr_low_operand(l, ZR_O_ADD_ALL, all, ZR_READS);
	zr_low_operand(l, ZR_O_ADD_MERGED, mine, ZR_READS | ZR_WRITES);
}
