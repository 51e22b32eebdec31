/* SPDX-License-Identifier: Apache-2.0
 *
 * bind.c - addresses of operands, once there is memory.
 */
#include <stdlib.h>

#include "core/exec/exec.h"

static char *address(const struct zr_session *s, const struct zr_operand *o)
{
	char *mine = NULL;
	if (o->region >= 0 && s->region[o->region])
		mine = s->region[o->region] + o->at;
	if (o->whose == ZR_MINE || o->whose == s->facts->process.rank)
		return mine;
	if (o->whose == ZR_VIEW)
		return s->view[o->unit];
	if (o->whose == ZR_OTHERS)
		return NULL;
	return ((const struct zr_comm_v1 *)s->roles->comm.vtbl)
		->mem_peer(s->roles->comm.inst, mine, ZR_GROUP_WORLD, o->whose);
}

/* Elements of one part of an exchange. */
static int64_t part_elements(const struct zr_setup_facts *f, const struct zr_instr *i,
			     const struct zr_operand *send, const struct zr_operand *recv)
{
	uint64_t bytes = recv->bytes;
	if (i->number == ZR_COMM_ALL_TO_ALL || i->number == ZR_COMM_FENCE)
		bytes = send->bytes / (uint64_t)zr_group_ranks(f, i->group);
	else if (i->number == ZR_COMM_ALL_GATHER)
		bytes = send->bytes;
	return (int64_t)(bytes / (uint64_t)zr_dtype_bytes(i->dtype));
}

static void bind_segments(const struct zr_setup_facts *f, const struct zr_lowered *p,
			  struct zr_bound *b, const struct zr_instr *i)
{
	for (int64_t k = 0; k < i->blocks; k++) {
		int32_t sent = i->first + zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k);
		int32_t received = i->first + zr_in_pair(ZR_O_COLLECTIVE_EACH_RECEIVED, k);
		int64_t n = part_elements(f, i, &p->operand[sent], &p->operand[received]);
		b->seg[i->first + k] = (struct zr_comm_seg){ b->at[sent], b->at[received], n };
	}
}

static int bind_program(struct zr_session *s, int32_t id, struct zr_error *err)
{
	const struct zr_lowered *p = &s->programs->lowered[id];
	struct zr_bound *b = &s->bound[id];
	b->at = calloc((size_t)p->n_operand + 1, sizeof *b->at);
	b->seg = calloc((size_t)p->n_operand + 1, sizeof *b->seg);
	b->ticket = calloc((size_t)p->n + 1, sizeof *b->ticket);
	b->mark = calloc((size_t)p->n + 1, sizeof *b->mark);
	if (!b->at || !b->seg || !b->ticket || !b->mark)
		return zr_err(err, ZR_ENOMEM, "out of memory for the addresses of a program");

	for (int32_t k = 0; k < p->n_operand; k++)
		b->at[k] = address(s, &p->operand[k]);
	for (int32_t n = 0; n < p->n; n++)
		if (p->instr[n].kind == ZR_I_COLLECTIVE)
			bind_segments(s->facts, p, b, &p->instr[n]);
	return 0;
}

int zr_bind(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	s->each = calloc((size_t)s->facts->process.world, sizeof *s->each);
	if (!s->each)
		return zr_err(err, ZR_ENOMEM, "out of memory for the addresses of all ranks");

	for (int32_t id = 0; !rc && id < ZR_LOWERED; id++)
		rc = bind_program(s, id, err);
	return rc;
}

void zr_unbind(struct zr_session *s)
{
	free(s->each);
	for (int32_t id = 0; id < ZR_LOWERED; id++) {
		free(s->bound[id].at);
		free(s->bound[id].seg);
		free(s->bound[id].ticket);
		free(s->bound[id].mark);
	}
}
