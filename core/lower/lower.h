/* SPDX-License-Identifier: Apache-2.0
 *
 * lower.h - from the operations of a recorded program to instructions: what the files that do it
 * share. The first memory error stays in `rc`; whatever is emitted after it is left out, so that
 * builders need not look.
 */
#ifndef ZR_CORE_LOWER_H
#define ZR_CORE_LOWER_H

#include "core/lower/instr.h"
#include "core/memory/subgroup.h"
#include "core/program/route.h"
#include "core/setup.h"

/* What a collective moves for one unit. */
struct zr_sent_received {
	struct zr_operand send, recv;
};

struct zr_lowering {
	const struct zr_setup *s;
	const struct zr_setup_facts *f; /* of s, as is the plan */
	const struct zr_plan *plan;
	const struct zr_program *record; /* NULL: of none */
	const struct zr_activations *act;
	struct zr_lowered *p;
	struct zr_error *err;
	int rc;
	/* what is lowered now: operation of the record; unit of it, -1: none */
	int32_t op, unit;
	/* 1: the micro-batch's contributions are the first of the step */
	int store;
	int last;    /* 1: and the last */
	int updates; /* 1: an update in the backward is lowered */
	/* what lives are counted in: grows with each operation, and where one has buffers in
	 * turn */
	int32_t now;
	struct zr_share own, slice; /* blocks that are added now; slice: of parts */
	uint64_t cache;             /* bytes of the caches of layers so far */
	int32_t pending;            /* a reduce with sums to come, -1: none */
	int left;     /* 1: of which the device's sums are on their way to their places */
	int summed;   /* 1: what is added now is such a sum, and no contribution */
	int32_t *hop; /* [record->n] that an operation is at */
	int32_t *end; /* [record->n] of an update: of its sub-groups */
	struct zr_operand batch, staging, chunk; /* buffers: of ZR_R_BATCH and so on */
	struct zr_operand scalars, sums;         /* of an update */
	/* of whole matrices: one and its work memory, a part of one on its way, scalars */
	struct zr_operand matrix, message, whole_scalars;
	/* what this rank holds of each owner's matrix; all ranks' parts of this rank's */
	struct zr_operand held, parts;
	struct zr_operand *gathered; /* [n_units] the gathered copy of each */
	struct zr_operand *param;    /* [n_units] of the units of a layer: what its calls read */
	struct zr_operand *grad;     /* [n_units] where layers leave its gradient */
	/* [n_units] of one that several layers use, where ranks share a sequence: the sum of its
	 * uses so far, of the blocks that are this rank's among them */
	struct zr_operand *shared;
	struct zr_operand *there;    /* [n_units] of a layer's experts that compute on the host */
	struct zr_operand experts;   /* of all experts of a layer: their gradients, or what comes */
	struct zr_operand *life;     /* [lives] of activations: where each is */
	struct zr_operand work_grad; /* gradient of the activations */
	/* [record->n] of an operation: where it passes through host memory */
	struct zr_operand *bounce;
	/* [record->n] of an operation on its way: what its hop reads until the next one begins */
	struct zr_operand *source;
	struct zr_operand *whole;      /* [record->n_unit] all of a unit that is published */
	struct zr_sent_received *part; /* [n_units] scratch: the exchanges of a collective */
	/* [record->n_unit] what a reduce sends and receives of each of its units */
	struct zr_sent_received *reduce;
	/* [record->n_unit] codes that arrive of a unit, and where they are decoded to */
	struct zr_sent_received *coded;
	struct zr_operand codes; /* of an update: of what is rounded */
	/* [record->n_unit] what of it is read until the reduce is waited for */
	struct zr_operand *from;
	int32_t subgroups; /* of p->subgroup, that the record updates */
	/* of p->subgroup: next to be computed, next to be read */
	int32_t subgroup_next, subgroup_read;
	int32_t subgroup_early; /* next to be read for the update of this step, in its backward */
};

/* ---- operands ---- */

/* Lives from the first operation that has it among its operands to the last. align: at least 64. */
struct zr_operand zr_low_buffer(struct zr_lowering *l, int32_t region, uint64_t bytes,
				uint32_t align);

/* Lives as long as the program; of no bytes: none. */
struct zr_operand zr_low_whole_life(struct zr_lowering *l, int32_t region, uint64_t bytes);

/* It lives at least until now: of what is under way, or what only some ranks use. */
void zr_low_keep(struct zr_lowering *l, const struct zr_operand *o);

static inline struct zr_operand zr_mine(int32_t region, uint64_t at, uint64_t bytes)
{
	return (struct zr_operand){
		.region = region, .whose = ZR_MINE, .unit = -1, .at = at, .bytes = bytes
	};
}

static inline struct zr_operand zr_of_spot(struct zr_spot spot, uint64_t bytes)
{
	struct zr_operand o = zr_mine(spot.region, spot.at, bytes);
	o.buffer = spot.buffer;
	return o;
}

static inline struct zr_operand zr_operand_part(struct zr_operand o, uint64_t from, uint64_t bytes)
{
	o.at += from;
	o.bytes = bytes;
	return o;
}

static inline struct zr_operand zr_none(void)
{
	return zr_mine(-1, 0, 0);
}

/* The largest scores of all heads in host memory, and where forwards raise them. */
static inline struct zr_operand zr_low_host_scores(const struct zr_lowering *l)
{
	const struct zr_clip_plan *p = &l->plan->clip;
	return zr_mine(ZR_R_HOST, p->largest, (uint64_t)p->scores * sizeof(float));
}

static inline struct zr_operand zr_low_scores(const struct zr_lowering *l)
{
	if (l->f->device_info.host_ops)
		return zr_low_host_scores(l);
	return zr_mine(ZR_R_SCORES, 0, (uint64_t)l->plan->clip.scores * sizeof(float));
}

/* ---- emit.c: instructions ---- */

/* Who computes on what is in a region. */
static inline uint8_t zr_low_queue(const struct zr_lowering *l, int region)
{
	return l->plan->region[region].store == ZR_STORE_DEVICE ? ZR_Q_COMPUTE : ZR_Q_HOST;
}

/* Where ranks exchange what is of experts: on the device, or where these compute, if comm reaches
 * that alone. */
static inline int32_t zr_low_meeting_region(const struct zr_lowering *l)
{
	return l->f->homes.on_host && zr_comm_on_host(l->f) ? ZR_R_BOUNCE : ZR_R_COMM;
}

/* Begins an instruction; its operands follow: first those that have names, ZR_O_*, in their order.
 * Its queue counts where that may be either of two, see instr.def. */
void zr_low_emit(struct zr_lowering *l, struct zr_instr i);
void zr_low_operand(struct zr_lowering *l, int32_t name, struct zr_operand o, uint32_t access);
void zr_low_arg(struct zr_lowering *l, struct zr_operand o, uint32_t access);

/* A function of the session. */
void zr_low_host(struct zr_lowering *l, int32_t call);

/* Bytes from one place to another one of the same length, whatever lies between. */
void zr_low_move(struct zr_lowering *l, struct zr_operand from, struct zr_operand to);

/* Equal parts, as far apart as each operand says: zr_parts_apart(). */
void zr_low_move_parts(struct zr_lowering *l, struct zr_operand from, struct zr_operand to,
		       int64_t parts, uint64_t bytes);

/* A collective over l->part[0 .. n), through host memory where comm cannot reach what it is to
 * move. */
void zr_low_collective(struct zr_lowering *l, int32_t kind, int32_t group, int32_t dtype,
		       int32_t root, int32_t n);

/* Whether zr_low_exchange() can move what is in a region. */
int zr_low_exchanges(const struct zr_lowering *l, int32_t region);

/* Over the world an all-to-all of l->part[0], with a count for each pair of ranks: sent, received:
 * [world] bytes for and from each, whole elements of fp32. */
void zr_low_exchange(struct zr_lowering *l, const uint64_t *sent, const uint64_t *received);

/* Rows go to the ranks that have their experts, or back, of elements of a type; `one`: single
 * elements. table: of the round. */
void zr_low_exchange_rows(struct zr_lowering *l, int32_t dtype, int one, int back,
			  struct zr_operand table, struct zr_operand from, struct zr_operand to);

/* What this rank holds of a unit's parameters. */
static inline struct zr_operand zr_low_share(const struct zr_lowering *l, int32_t unit)
{
	return zr_of_spot(l->plan->unit[unit].param, zr_unit_share_bytes(l->s, unit));
}

/* Of a fence: what all ranks wrote at one place is seen by all. */
void zr_low_seen(struct zr_lowering *l, struct zr_operand mine);

/* Something in host memory of all ranks comes together and is merged into `mine` by a call of the
 * session: n elements. */
void zr_low_merge(struct zr_lowering *l, struct zr_operand mine, uint64_t all, int32_t call,
		  int64_t n);

/* ---- what operations become ---- */

typedef void zr_low_fn(struct zr_lowering *l, const struct zr_pop *op);
typedef void zr_low_part_fn(struct zr_lowering *l); /* beside them */

zr_low_fn zr_low_layer; /* lower_layer.c */

/* lower_gather.c. next, rest: the next hop of a transfer, or all that are left; fence: what was
 * written is seen by those who look at it in place. */
zr_low_fn zr_low_gather, zr_low_publish, zr_low_published, zr_low_next, zr_low_rest;
zr_low_part_fn zr_low_fence;

/* lower_codec.c. All elements of a unit's gradient; `codes` is as long as its blocks at least. */
void zr_low_encode_gradient(struct zr_lowering *l, int32_t unit, uint8_t queue,
			    struct zr_operand gradient, struct zr_operand codes);
/* What ranks of a group exchange in place of this, of the i-th unit of an operation: codes, or the
 * same. Once they came, decodes those of all units of an operation, if there are any. */
struct zr_sent_received zr_low_code(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				    int32_t group, struct zr_sent_received x);
void zr_low_decode(struct zr_lowering *l, const struct zr_pop *op);
/* Of a program with updates: room for codes. The compute copy of a sub-group, which was just
 * written, is rounded to what they can say. */
void zr_low_make_codes(struct zr_lowering *l);
void zr_low_round(struct zr_lowering *l, const struct zr_subgroup *p, struct zr_operand copy);

/* lower_reduce.c. pending: what a reduce left for when the device is busy again. */
zr_low_fn zr_low_reduce, zr_low_reduced;
zr_low_part_fn zr_low_pending;

/* lower_update.c, lower_whole.c. ahead: reads beside a layer; subgroups: lists those of the
 * program, makes what they need. updated: within a forward, no more of them comes. */
zr_low_fn zr_low_update, zr_low_ahead;
zr_low_part_fn zr_low_subgroups, zr_low_partial, zr_low_whole, zr_low_updated;

/* Where an activation is during one of its lives. */
struct zr_operand zr_low_activation(struct zr_lowering *l, int32_t life);

/* A sub-group's data, where it is while it is computed; what of it is staged comes there, or
 * goes back. */
struct zr_operand zr_low_datum(const struct zr_lowering *l, const struct zr_subgroup *p, int d);
void zr_low_pass(struct zr_lowering *l, const struct zr_subgroup *p, int out);
/* a save that is under way may still need what is about to change */
void zr_low_secure(struct zr_lowering *l, int32_t number);
/* scalars of all groups, where who computes on a region reads them */
struct zr_operand zr_low_scalars(struct zr_lowering *l, int region);
struct zr_operand zr_low_gradient(struct zr_lowering *l, int32_t unit); /* of this micro-batch */
int32_t zr_low_add_subgroup(struct zr_lowering *l, const struct zr_subgroup *p); /* its number */

static inline const int32_t *zr_low_units(const struct zr_lowering *l, const struct zr_pop *op)
{
	return l->record->unit + op->first;
}

/* Whether an operation is of all experts of a layer, which ranks divide. */
static inline int zr_low_of_experts(const struct zr_lowering *l, const struct zr_pop *op)
{
	return zr_is_divided(&l->f->homes, zr_low_units(l, op)[0]);
}

#endif
