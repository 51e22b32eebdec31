/* SPDX-License-Identifier: Apache-2.0
 *
 * faultydevice.c - device/cpu whose products have a fault, for tests/system/plugin_faults.sh: with
 * the macro CUTS they depend on the number of threads, with SHARES on what another instance does.
 */
#include <zeroth/device.h>

#include "wrapped.h"

WRAP_MADE(device, "device/cpu.so", "broken")

/* The operations of an instance, as long as the process. */
struct operations {
	struct zr_ops mine;
	const struct zr_ops *real;
};

static int matmul(const struct zr_ops *ops, struct zr_stream *stream, const struct zr_op_matmul *op)
{
	const struct zr_ops *real_ops = ((const struct operations *)(const void *)ops)->real;
	struct zr_op_matmul product = *op;
#if defined(SHARES)
	static uint32_t gelu;
	gelu = op->flags & ZR_MM_GELU;
	product.flags = (op->flags & ~ZR_MM_GELU) | gelu;
#else
	if (host->workers > 2)
		product.flags &= ~ZR_MM_GELU;
#endif
	return real_ops->matmul(real_ops, stream, &product);
}

static const struct zr_ops *ops_of(struct zr_inst *inst)
{
	struct operations *of = malloc(sizeof *of);
	if (!of)
		return NULL;
	of->real = real_vtbl->ops(inst);
	of->mine = *of->real;
	of->mine.matmul = matmul;
	return &of->mine;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.ops = ops_of;
}

ZR_PLUGIN(&desc);
