/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.c - see traffic.h.
 */
#include "train/forecast/traffic.h"

#include "core/exec/boundary.h"

/* Bytes that others send to this rank in one run of the program. */
static uint64_t program_bytes(const struct zr_program *p)
{
	uint64_t sum = 0;
	for (int32_t i = 0; i < p->n; i++)
		if (p->op[i].kind != ZR_P_SPILL && p->op[i].kind != ZR_P_FETCH)
			sum += p->op[i].bytes;
	return sum;
}

/* Bytes that others send to this rank in a collective. */
static uint64_t collective_bytes(const struct zr_setup *s, const struct zr_lowered *p,
				 const struct zr_instr *i)
{
	const struct zr_operand *o = p->operand + i->first;
	const uint64_t ranks = (uint64_t)zr_group_ranks(&s->facts, i->group);
	uint64_t sum = 0;

	for (int64_t k = 0; k < i->blocks; k++) {
		const uint64_t sent = o[zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k)].bytes;
		const uint64_t received = zr_arriving(i, o, k);
		if (i->number == ZR_COMM_ALL_GATHER)
			sum += (ranks - 1) * sent;
		else if (i->group == ZR_GROUP_SEQUENCE || i->group == ZR_GROUP_EXPERT)
			/* its own part stays here */
			sum += received / ranks * (ranks - 1);
		else if (i->number != ZR_COMM_BROADCAST || i->root != s->facts.process.rank)
			sum += received;
	}
	return sum;
}

/* Whether it is between calls of a layer, and not what the record counts, as a gather. */
static int is_of_layer(const struct zr_setup *s, const struct zr_lowered *p,
		       const struct zr_instr *i)
{
	const struct zr_program *r = zr_record_of(&s->programs, p->id);
	return r && i->op >= 0 && r->op[i->op].kind == ZR_P_LAYER;
}

/* In a run of a program; group: of layers in one alone, 0: of all. */
static uint64_t received_in(const struct zr_setup *s, int32_t id, int32_t group)
{
	const struct zr_lowered *p = &s->programs.lowered[id];
	uint64_t sum = 0;

	for (int32_t n = 0; n < p->n; n++) {
		const struct zr_instr *i = &p->instr[n];
		if (i->kind == ZR_I_COLLECTIVE && i->number != ZR_COMM_FENCE &&
		    (!group || (i->group == group && is_of_layer(s, p, i))))
			sum += collective_bytes(s, p, i);
	}
	return sum;
}

/* What ranks that share a sequence, or divide experts, send each other, in all micro-batches of a
 * step. */
static uint64_t bytes_among(const struct zr_setup *s, int32_t group)
{
	const int64_t before = s->facts.batch.accumulation - 1;
	uint64_t sum = received_in(s, ZR_S_LAST, group);

	if (before > 0)
		sum += received_in(s, ZR_S_FIRST, group);
	if (before > 1)
		sum += (uint64_t)(before - 1) * received_in(s, ZR_S_MICRO, group);
	return sum;
}

uint64_t zr_traffic_received(const struct zr_setup *s)
{
	uint64_t micro = program_bytes(&s->programs.recorded[ZR_PROG_MICRO]) *
			 (uint64_t)(s->facts.batch.accumulation - 1);
	uint64_t exchange = (uint64_t)(s->facts.process.world - 1) * sizeof(struct zr_boundary);
	return micro + program_bytes(&s->programs.recorded[ZR_PROG_LAST_MICRO]) +
	       received_in(s, ZR_S_UPDATE, 0) + bytes_among(s, ZR_GROUP_SEQUENCE) +
	       bytes_among(s, ZR_GROUP_EXPERT) + exchange;
}
