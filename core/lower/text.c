/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - instructions in words.
 */
#include <stdio.h>

#include "core/setup.h"

const char *const zr_lowered_name[ZR_LOWERED] = {
	[ZR_S_FIRST] = "first micro",          [ZR_S_MICRO] = "micro", [ZR_S_LAST] = "last micro",
	[ZR_S_BOUNDARY] = "boundary",          [ZR_S_MEET] = "meet",   [ZR_S_UPDATE] = "update",
	[ZR_S_ONWARD] = "update, first micro", [ZR_S_EVAL] = "eval",   [ZR_S_VALUES] = "values",
};

const char *const zr_instr_name[ZR_I_KINDS] = {
#define ZR_INSTR(kind, name, queue, begin, ...) name,
#include "core/lower/instr.def"
};

const char *const zr_collective_name[ZR_COMM_FENCE + 1] = {
	[ZR_COMM_ALL_GATHER] = "all_gather", [ZR_COMM_REDUCE_SCATTER] = "reduce_scatter",
	[ZR_COMM_ALL_REDUCE] = "all_reduce", [ZR_COMM_BROADCAST] = "broadcast",
	[ZR_COMM_ALL_TO_ALL] = "all_to_all", [ZR_COMM_BARRIER] = "barrier",
	[ZR_COMM_FENCE] = "fence",
};

const char *const zr_queue_name[ZR_QUEUES] = {
	[ZR_Q_COMPUTE] = "compute", [ZR_Q_HOST] = "host", [ZR_Q_COPY] = "copy",
	[ZR_Q_STORE] = "store",     [ZR_Q_COMM] = "comm",
};

const struct zr_program *zr_record_of(const struct zr_setup_programs *p, int32_t id)
{
	static const int32_t from[ZR_LOWERED] = {
		[ZR_S_FIRST] = ZR_PROG_MICRO,
		[ZR_S_MICRO] = ZR_PROG_MICRO,
		[ZR_S_LAST] = ZR_PROG_LAST_MICRO,
		[ZR_S_BOUNDARY] = -1,
		[ZR_S_MEET] = -1,
		[ZR_S_UPDATE] = ZR_PROG_UPDATE,
		[ZR_S_ONWARD] = ZR_PROG_ONWARD,
		[ZR_S_EVAL] = ZR_PROG_EVAL,
		[ZR_S_VALUES] = ZR_PROG_UPDATE,
	};
	return from[id] < 0 ? NULL : &p->recorded[from[id]];
}

/* What an instruction is a part of, that is in no record. */
static const char *part_of(const struct zr_lowered *p, const struct zr_instr *i)
{
	static const char *const call[] = {
#define ZR_HOST_CALL(call, what, begin, ...) what,
#include "core/lower/instr.def"
	};
	if (i->kind == ZR_I_HOST && call[i->number])
		return call[i->number];

	switch (p->id) {
	case ZR_S_BOUNDARY:
	case ZR_S_MEET:
		return "exchange of loss and norm";
	case ZR_S_UPDATE:
	case ZR_S_ONWARD:
		return "update";
	case ZR_S_VALUES:
		return "publish";
	default:
		return zr_instr_name[i->kind];
	}
}

/* The use that an operation runs, or is beside; NULL: another kind. */
static const struct zr_use *use_of(const struct zr_setup_programs *programs,
				   const struct zr_program *p, const struct zr_pop *op)
{
	if (op->kind == ZR_P_LAYER && p->id == ZR_PROG_EVAL)
		return &programs->eval_uses.use[op->use];
	if (op->kind == ZR_P_LAYER)
		return &programs->train_uses.use[op->use];
	if (op->kind == ZR_P_SPILL || op->kind == ZR_P_FETCH)
		return &programs->train_uses.use[programs->train_act.move[op->use].use];
	return NULL;
}

const char *zr_instr_text(const struct zr_setup *s, const struct zr_lowered *p, int32_t n,
			  char *buf, size_t size)
{
	const struct zr_program *r = zr_record_of(&s->programs, p->id);
	const struct zr_instr *i = &p->instr[n];
	const struct zr_use *use = NULL;
	const char *what = part_of(p, i);
	char layer[96] = "", in[96] = "";
	if (i->op >= 0) {
		const struct zr_pop *op = &r->op[i->op];
		use = use_of(&s->programs, r, op);
		what = zr_pop_name[op->kind];
		if (op->kind == ZR_P_LAYER)
			what = zr_phase_name[use->phase];
	}

	if (use)
		snprintf(layer, sizeof layer, " of layer %s",
			 zr_layer_at(&s->facts.decl, use->layer)->name);
	if (i->unit >= 0)
		snprintf(in, sizeof in, " (unit %s)", s->facts.layout.unit[i->unit].name);
	snprintf(buf, size, "%s%s%s", what, layer, in);
	return buf;
}
