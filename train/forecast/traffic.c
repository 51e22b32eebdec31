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

/* Bytes that others send to this rank in an update. */
static uint64_t update_bytes(const struct zr_setup *s)
{
	const struct zr_lowered *p = &s->programs.lowered[ZR_S_UPDATE];
	uint64_t sum = 0;

	for (int32_t n = 0; n < p->n; n++) {
		const struct zr_instr *i = &p->instr[n];
		const struct zr_operand *o = i->n ? p->operand + i->first : NULL;
		uint64_t others = (uint64_t)zr_group_ranks(&s->facts, i->group) - 1;
		if (i->kind != ZR_I_COLLECTIVE || i->number == ZR_COMM_FENCE)
			continue;

		for (int64_t k = 0; k < i->blocks; k++) {
			if (i->number == ZR_COMM_ALL_GATHER)
				sum += others * o[zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k)].bytes;
			else if (i->number != ZR_COMM_BROADCAST || i->root != s->facts.process.rank)
				sum += o[zr_in_pair(ZR_O_COLLECTIVE_EACH_RECEIVED, k)].bytes;
		}
	}

	return sum;
}

uint64_t zr_traffic_received(const struct zr_setup *s)
{
	uint64_t micro = program_bytes(&s->programs.recorded[ZR_PROG_MICRO]) *
			 (uint64_t)(s->facts.batch.accumulation - 1);
	uint64_t exchange = (uint64_t)(s->facts.process.world - 1) * sizeof(struct zr_boundary);
	return micro + program_bytes(&s->programs.recorded[ZR_PROG_LAST_MICRO]) + update_bytes(s) +
	       exchange;
}
