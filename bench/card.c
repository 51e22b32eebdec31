/* SPDX-License-Identifier: Apache-2.0
 *
 * card.c - device/cpu, whose backward of attention asks for as much workspace as that of
 * device/cuda: of each query head and row a number. For plans of cards by sequences.sh on machines
 * that have none.
 */
#include <stdlib.h>
#include <zeroth/device.h>

#include "../tests/doubles/wrapped.h"

WRAP_MADE(device, "device/cpu.so", "card")

static uint64_t attention_bwd_work(const struct zr_ops *ops, const struct zr_op_attention_bwd *op)
{
	const struct zr_op_attention *a = &op->fwd;
	(void)ops;
	return (uint64_t)(a->batch * a->heads * (a->length - a->first)) * sizeof(float);
}

static const struct zr_ops *ops_of(struct zr_inst *inst)
{
	static struct zr_ops ops;
	ops = *real_vtbl->ops(inst);
	ops.attention_bwd_work = attention_bwd_work;
	return &ops;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.ops = ops_of;
}

ZR_PLUGIN(&desc);
