/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - the operations of a mixture of experts: each checks what device/cpu checks, and what
 * a grid holds, and launches its kernels.
 */
#include "cuda.h"

static int launched(struct zr_inst *d, cudaError_t e, const char *op)
{
	d->last = op;
	return cuda_result(d, e, op);
}

int cuda_route(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_route *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_route(d->h, "route", o->rows, o->experts, o->k);
	if (rc)
		return rc;
	return launched(d, zr_cuda_route(o, cuda_stream(d, s)), "route");
}

int cuda_router_losses(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_router_losses *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_router_losses(d->h, o);
	if (rc)
		return rc;
	return launched(d, zr_cuda_router_losses(o, cuda_stream(d, s)), "router_losses");
}

int cuda_route_bwd(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_route_bwd *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_route(d->h, "route_bwd", o->rows, o->experts, o->k);
	if (rc)
		return rc;
	return launched(d, zr_cuda_route_bwd(o, cuda_stream(d, s)), "route_bwd");
}

int cuda_expert_rows(const struct zr_ops *ops, struct zr_stream *s,
		     const struct zr_op_expert_rows *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_dtype(d->h, "expert_rows", o->dtype);
	if (rc)
		return rc;
	return launched(d, zr_cuda_expert_rows(o, cuda_stream(d, s)), "expert_rows");
}

int cuda_expert_combine(const struct zr_ops *ops, struct zr_stream *s,
			const struct zr_op_expert_combine *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_combine(d->h, o);
	if (rc)
		return rc;
	return launched(d, zr_cuda_expert_combine(o, cuda_stream(d, s)), "expert_combine");
}

int cuda_expert_weigh(const struct zr_ops *ops, struct zr_stream *s,
		      const struct zr_op_expert_weigh *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_dtype(d->h, "expert_weigh", o->dtype);
	if (rc)
		return rc;
	return launched(d, zr_cuda_expert_weigh(o, cuda_stream(d, s)), "expert_weigh");
}

int cuda_matmul_grouped(const struct zr_ops *ops, struct zr_stream *s,
			const struct zr_op_matmul_grouped *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_grouped(d->h, o);
	if (!rc && zr_cuda_grouped_tiles(o) > CUDA_GRID_Y)
		rc = zr_fail(d->h, ZR_ENOTSUP, "matmul_grouped: %lld rows are too many",
			     (long long)o->rows);
	if (rc)
		return rc;
	return launched(d, zr_cuda_matmul_grouped(o, cuda_stream(d, s)), "matmul_grouped");
}

int cuda_matmul_grouped_dw(const struct zr_ops *ops, struct zr_stream *s,
			   const struct zr_op_matmul_grouped_dw *o)
{
	struct zr_inst *d = ops->dev;
	int rc = zr_check_grouped_dw(d->h, o);
	if (rc)
		return rc;
	return launched(d, zr_cuda_matmul_grouped_dw(o, cuda_stream(d, s)), "matmul_grouped_dw");
}
