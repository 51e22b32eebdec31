/* SPDX-License-Identifier: Apache-2.0
 *
 * breakdown.c - see breakdown.h.
 */
#include "train/forecast/breakdown.h"

const char *const zr_part_name[ZR_PARTS] = {
	[ZR_PART_FORWARD] = "forward",       [ZR_PART_BACKWARD] = "backward",
	[ZR_PART_REDUCE] = "reduce",         [ZR_PART_GATHER_WAIT] = "gather wait",
	[ZR_PART_READ_WAIT] = "read wait",   [ZR_PART_OPTIMIZER] = "optimizer",
	[ZR_PART_WRITE_WAIT] = "write wait", [ZR_PART_PUBLISH] = "publish",
	[ZR_PART_BOUNDARY] = "boundary",     [ZR_PART_DATA] = "data",
	[ZR_PART_LAUNCH] = "launch",         [ZR_PART_OTHER] = "other",
};

const char *const zr_part_metric[ZR_PARTS] = {
	[ZR_PART_FORWARD] = "forward_s",       [ZR_PART_BACKWARD] = "backward_s",
	[ZR_PART_REDUCE] = "reduce_s",         [ZR_PART_GATHER_WAIT] = "gather_wait_s",
	[ZR_PART_READ_WAIT] = "read_wait_s",   [ZR_PART_OPTIMIZER] = "optimizer_s",
	[ZR_PART_WRITE_WAIT] = "write_wait_s", [ZR_PART_PUBLISH] = "publish_s",
	[ZR_PART_BOUNDARY] = "boundary_s",     [ZR_PART_DATA] = "data_s",
	[ZR_PART_LAUNCH] = "launch_s",         [ZR_PART_OTHER] = "other_s",
};

static enum zr_operand_part part_of_call(int32_t call)
{
	switch (call) {
	case ZR_H_BEGIN:
	case ZR_H_BATCH:
	case ZR_H_GIVEN:
		return ZR_PART_DATA;
	case ZR_H_LOSS:
	case ZR_H_MEASURE:
	case ZR_H_MERGE:
		return ZR_PART_BOUNDARY;
	default:
		return ZR_PART_OPTIMIZER;
	}
}

static enum zr_operand_part part_of_layer(const struct zr_setup_programs *p,
					  const struct zr_program *r, int32_t use)
{
	const struct zr_schedule *uses = r->id == ZR_PROG_EVAL ? &p->eval_uses : &p->train_uses;
	return uses->use[use].phase == ZR_FORWARD ? ZR_PART_FORWARD : ZR_PART_BACKWARD;
}

static enum zr_operand_part part_of_operation(const struct zr_setup_programs *p,
					      const struct zr_program *r, int32_t op)
{
	while (r->op[op].kind == ZR_P_WAIT || r->op[op].kind == ZR_P_HOP)
		op = r->op[op].target;
	switch (r->op[op].kind) {
	case ZR_P_LAYER:
		return part_of_layer(p, r, r->op[op].use);
	case ZR_P_REDUCE:
		return ZR_PART_REDUCE;
	case ZR_P_UPDATE:
		return ZR_PART_OPTIMIZER;
	case ZR_P_PUBLISH:
		return ZR_PART_PUBLISH;
	case ZR_P_SPILL:
		return ZR_PART_WRITE_WAIT;
	case ZR_P_FETCH:
		return ZR_PART_READ_WAIT;
	default:
		return ZR_PART_GATHER_WAIT;
	}
}

enum zr_operand_part zr_part_of(const struct zr_setup_programs *programs,
				const struct zr_lowered *p, int32_t n)
{
	const struct zr_program *r = zr_record_of(programs, p->id);
	const struct zr_instr *i = &p->instr[n];

	if (p->id == ZR_S_BOUNDARY || p->id == ZR_S_MEET)
		return ZR_PART_BOUNDARY;
	if (i->kind == ZR_I_HOST)
		return part_of_call(i->number);
	if (i->kind == ZR_I_READ)
		return ZR_PART_READ_WAIT;
	if (i->kind == ZR_I_WRITE)
		return ZR_PART_WRITE_WAIT;
	if (r && i->op >= 0)
		return part_of_operation(programs, r, i->op);
	return p->id == ZR_S_UPDATE || i->flags & ZR_F_UPDATE ? ZR_PART_OPTIMIZER : ZR_PART_OTHER;
}
