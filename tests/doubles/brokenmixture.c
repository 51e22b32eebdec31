/* SPDX-License-Identifier: Apache-2.0
 *
 * brokenmixture.c - model/mixtral with a wrong gradient of its routers, for
 * tests/system/plugin_check.sh: $BROKEN is what they lack, the gradient by way of the `weights` or
 * that of the `balance` loss.
 */
#include <string.h>
#include <zeroth/device.h>
#include <zeroth/experts.h>
#include <zeroth/model.h>

#include "wrapped.h"

WRAP_MADE(model, "model/mixtral.so", "broken")

static const struct zr_ops *ops;

static int route_bwd(const struct zr_ops *o, struct zr_stream *stream,
		     const struct zr_op_route_bwd *op)
{
	static float none[4096];
	struct zr_op_route_bwd without = *op;
	(void)o;
	if (strcmp(getenv("BROKEN"), "weights"))
		without.balance = 0;
	else
		without.dweights = none;
	return ops->route_bwd(ops, stream, &without);
}

static int backward(struct zr_inst *inst, const struct zr_layer_call *call)
{
	struct zr_layer_call c = *call;
	struct zr_ops mine = *call->ops;
	ops = call->ops;
	mine.route_bwd = route_bwd;
	c.ops = &mine;
	return real_vtbl->backward(inst, &c);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.backward = backward;
}

ZR_PLUGIN(&desc);
