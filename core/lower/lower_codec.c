/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_codec.c - what ranks send each other as ZR_MXINT8. Gradients: each contribution is encoded
 * where it was made, also where it stays, and its owner adds what it is decoded to. Parameters: the
 * compute copy is rounded to what codes can say whenever it is written, so that sending codes loses
 * nothing: a gather or a publish may carry them or not, and whoever holds a value, its owner too,
 * has the same one.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* Blocks that are rounded at a time. */
#define ROUNDED 4096

/* So many blocks of a unit from one type to another. */
struct coding {
	uint8_t kind, queue;
	int32_t unit, from, to;
	int64_t first, n;
};

static void emit(struct zr_lowering *l, const struct coding *c, struct zr_operand from,
		 struct zr_operand to)
{
	l->unit = c->unit;
	zr_low_emit(l, (struct zr_instr){ .kind = c->kind,
					  .queue = c->queue,
					  .from = c->from,
					  .dtype = c->to,
					  .block = c->first,
					  .blocks = c->n });
	zr_low_operand(l, ZR_O_ENCODE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_ENCODE_TO, to, ZR_WRITES);
}

static void encode(struct zr_lowering *l, struct coding c, int32_t from, struct zr_operand plain,
		   struct zr_operand codes)
{
	c.kind = ZR_I_ENCODE;
	c.from = from;
	c.to = ZR_MXINT8;
	emit(l, &c, plain, codes);
}

/* Padding of the plain values stays as it is. */
static void decode(struct zr_lowering *l, struct coding c, int32_t to, struct zr_operand codes,
		   struct zr_operand plain)
{
	c.kind = ZR_I_DECODE;
	c.from = ZR_MXINT8;
	c.to = to;
	emit(l, &c, codes, plain);
}

/* ---- gradients ---- */

void zr_low_encode_gradient(struct zr_lowering *l, int32_t unit, uint8_t queue,
			    struct zr_operand gradient, struct zr_operand codes)
{
	const struct coding c = { .queue = queue,
				  .unit = unit,
				  .n = l->f->layout.unit[unit].blocks };
	encode(l, c, ZR_F32, gradient, codes);
}

/* ---- parameters between ranks ---- */

/* Room for codes beside plain values. */
static struct zr_operand room(struct zr_lowering *l, const struct zr_operand *beside,
			      uint64_t bytes)
{
	if (zr_low_queue(l, beside->region) == ZR_Q_COMPUTE)
		return zr_low_buffer(l, ZR_R_GATHER, bytes, 64);
	return zr_low_buffer(l, ZR_R_BOUNCE, bytes, ZR_PAGE);
}

struct zr_sent_received zr_low_code(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				    int32_t group, struct zr_sent_received x)
{
	const int32_t u = zr_low_units(l, op)[i];
	const struct zr_axis *ranks = &l->f->mesh.group[group];
	const int64_t per = (int64_t)(x.send.bytes / zr_unit_block(l->f, u));
	const uint64_t share = (uint64_t)per * zr_dtype_block(ZR_MXINT8);
	const uint8_t queue = zr_low_queue(l, x.send.region);
	struct zr_sent_received codes;
	if (!zr_sends_codes(l->f, u))
		return x;

	codes.recv = room(l, &x.recv, share * (uint64_t)ranks->n);
	if (queue == zr_low_queue(l, x.recv.region))
		codes.send = zr_operand_part(codes.recv, (uint64_t)ranks->rank * share, share);
	else
		codes.send = room(l, &x.send, share);

	const struct coding c = { .queue = queue, .unit = u, .first = ranks->rank * per, .n = per };
	encode(l, c, l->f->types.dtype, x.send, codes.send);
	l->coded[op->first + i] = (struct zr_sent_received){ codes.recv, x.recv };
	return codes;
}

void zr_low_decode(struct zr_lowering *l, const struct zr_pop *op)
{
	for (int32_t i = 0; i < op->n; i++) {
		struct zr_sent_received *x = &l->coded[op->first + i];
		const int32_t u = zr_low_units(l, op)[i];
		if (!x->send.buffer)
			continue;

		const struct coding c = { .queue = zr_low_queue(l, x->recv.region),
					  .unit = u,
					  .n = l->f->layout.unit[u].blocks };
		decode(l, c, l->f->types.dtype, x->send, x->recv);
		*x = (struct zr_sent_received){ zr_none(), zr_none() };
	}
}

/* ---- parameters after an update ---- */

/* The largest share of a unit that is rounded: the same on all ranks. */
static int64_t largest_share(const struct zr_lowering *l)
{
	int64_t most = 0;
	for (int32_t u = 0; u < l->f->layout.n_units; u++)
		if (zr_rounds_parameters(l->f, u) && l->plan->unit[u].held.per > most)
			most = l->plan->unit[u].held.per;
	return most;
}

void zr_low_make_codes(struct zr_lowering *l)
{
	const int64_t blocks = zr_fewer(largest_share(l), ROUNDED);
	const int device = zr_low_queue(l, ZR_R_MASTER) == ZR_Q_COMPUTE;
	l->codes = zr_low_whole_life(l, device ? ZR_R_GATHER : ZR_R_BOUNCE,
				     (uint64_t)blocks * zr_dtype_block(ZR_MXINT8));
}

void zr_low_round(struct zr_lowering *l, const struct zr_subgroup *p, struct zr_operand copy)
{
	const uint64_t block = zr_unit_block(l->f, p->unit), code = zr_dtype_block(ZR_MXINT8);
	struct coding c = { .queue = zr_low_queue(l, ZR_R_MASTER), .unit = p->unit };
	if (!zr_rounds_parameters(l->f, p->unit))
		return;

	for (int64_t at = 0; at < p->n; at += c.n) {
		c.first = p->first + at;
		c.n = zr_fewer(p->n - at, ROUNDED);

		struct zr_operand plain =
			zr_operand_part(copy, (uint64_t)at * block, (uint64_t)c.n * block);
		struct zr_operand codes = zr_operand_part(l->codes, 0, (uint64_t)c.n * code);
		encode(l, c, l->f->types.dtype, plain, codes);
		decode(l, c, l->f->types.dtype, codes, plain);
	}
}
