/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.h - arguments of operations that no device takes. Each function returns ZR_OK, or fails
 * with a text that names the operation.
 */
#ifndef ZEROTH_KERNELS_CHECKS_H
#define ZEROTH_KERNELS_CHECKS_H

#include <zeroth/device.h>

#include <fold.h>

static inline int zr_check_dtype(const struct zr_host *h, const char *op, int32_t dtype)
{
	if (dtype == ZR_F32 || dtype == ZR_BF16 || dtype == ZR_F16)
		return ZR_OK;
	return zr_fail(h, ZR_ENOTSUP, "%s: element type %d is none of fp32, bf16 and fp16", op,
		       dtype);
}

static inline int zr_check_scales(const struct zr_host *h, const char *op, const struct zr_array *t)
{
	if (!t->scales)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s: element type %d has no scales apart", op, t->dtype);
}

static inline int zr_check_array(const struct zr_host *h, const char *op, const struct zr_array *t)
{
	int rc = zr_check_dtype(h, op, t->dtype);
	if (rc)
		return rc;
	return zr_check_scales(h, op, t);
}

static inline int zr_check_master(const struct zr_host *h, const char *op,
				  const struct zr_op_master *o)
{
	if (!o->rem_bits || o->rem_bits == 16 || o->rem_bits == 8)
		return ZR_OK;
	return zr_fail(h, ZR_ENOTSUP, "%s: a remainder has 16 or 8 bits, not %d", op, o->rem_bits);
}

/* Moments in fp32 (also 0), 8 bits or, with bf16 != 0, in bf16; and a rounded copy, or none. */
static inline int zr_check_moments(const struct zr_host *h, const char *op, int32_t dtype, int bf16,
				   const void *lowp, int32_t lowp_dtype)
{
	if (dtype && dtype != ZR_F32 && dtype != ZR_U8 && !(bf16 && dtype == ZR_BF16))
		return zr_fail(h, ZR_ENOTSUP, "%s: moments cannot be of element type %d", op,
			       dtype);
	return zr_check_dtype(h, op, lowp ? lowp_dtype : ZR_F32);
}

/* host: 1: the device computes on host memory. */
static inline int zr_check_fold(const struct zr_host *h, const struct zr_op_fold *o, int host)
{
	int rc = zr_check_dtype(h, "fold", o->comm_dtype);
	if (rc || !ZR_HAS(o, struct zr_op_fold, to_apart) || !o->number)
		return rc;

	const int32_t group = o->group > 1 ? o->group : 1;
	const int32_t turns = o->number > 0 && o->number < group ? group / o->number : 1;
	if (o->number < 0 || group & (group - 1) || group >= 1 << ZR_FOLD_LEVELS ||
	    (o->number % group && turns * o->number != group))
		return zr_fail(h, ZR_EINVAL, "fold: %d contributions do not make trees of %d",
			       o->number, group);
	if (o->turn < 0 || o->turn >= turns || (turns > 1 && !o->waiting))
		return zr_fail(h, ZR_EINVAL, "fold: turn %d of %d%s", o->turn, turns,
			       o->waiting ? "" : ", and no place for what waits");
	if (turns > 1 && o->turn + 1 < turns && o->sumsq)
		return zr_fail(h, ZR_EINVAL, "fold: turn %d of %d measures nothing", o->turn,
			       turns);
	if (o->each && !host)
		return zr_fail(h, ZR_ENOTSUP, "fold: contributions must be equally far apart");
	if ((o->to_apart || (o->to && o->to != ZR_F32)) &&
	    (o->flags & ZR_OP_ACCUMULATE || o->sumsq))
		return zr_fail(h, ZR_EINVAL,
			       "fold: sums of element type %d, %lld elements apart, are only "
			       "stored",
			       o->to, (long long)o->to_apart);

	if (o->from == ZR_MXINT8 && o->comm_dtype != ZR_F32)
		return zr_fail(h, ZR_EINVAL,
			       "fold: codes are not rounded to element type %d once more",
			       o->comm_dtype);
	if (o->from != ZR_MXINT8)
		rc = zr_check_dtype(h, "fold", o->from ? o->from : ZR_F32);
	if (!rc)
		rc = zr_check_dtype(h, "fold", o->to ? o->to : ZR_F32);
	return rc;
}

static inline int zr_check_adamw(const struct zr_host *h, const struct zr_op_adamw *o)
{
	return zr_check_moments(h, "adamw", o->moment_dtype, 1, o->lowp, o->lowp_dtype);
}

static inline int zr_check_lion(const struct zr_host *h, const struct zr_op_lion *o)
{
	return zr_check_moments(h, "lion", o->moment_dtype, 0, o->lowp, o->lowp_dtype);
}

static inline int zr_has_codes(int32_t dtype)
{
	return dtype == ZR_NF4 || dtype == ZR_INT8;
}

/* fp32 into codes, codes into any, or any into any; any into ZR_MXINT8, and back. */
static inline int zr_check_cast(const struct zr_host *h, const struct zr_op_cast *o)
{
	const int mx_in = o->dst.dtype == ZR_MXINT8, mx_out = o->src.dtype == ZR_MXINT8;
	if (mx_in && !mx_out)
		return zr_check_array(h, "cast", &o->src);
	if (mx_out && !mx_in)
		return zr_check_array(h, "cast", &o->dst);

	const int in = zr_has_codes(o->dst.dtype) && o->src.dtype == ZR_F32;
	const int out = zr_has_codes(o->src.dtype);
	int rc = in ? ZR_OK : zr_check_dtype(h, "cast", o->dst.dtype);
	if (!rc && !out)
		rc = zr_check_dtype(h, "cast", o->src.dtype);
	if (!rc)
		rc = zr_check_scales(h, "cast", &o->dst);
	if (!rc)
		rc = zr_check_scales(h, "cast", &o->src);
	if (!rc && (in || out) && o->n % ZR_BLOCK)
		rc = zr_fail(h, ZR_EINVAL, "cast: %lld elements are no whole blocks",
			     (long long)o->n);
	return rc;
}

static inline int zr_check_gelu(const struct zr_host *h, const char *op, int32_t activation)
{
	if (!activation || activation == ZR_ACT_GELU_TANH || activation == ZR_ACT_GELU_ERF)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s: activation %d is no GELU", op, activation);
}

static inline int zr_check_fp8(const struct zr_host *h, const struct zr_op_matmul *o)
{
	if (!(o->flags & ZR_MM_FP8)) {
		if (o->flags & (ZR_MM_E5M2_A | ZR_MM_SAME_A))
			return zr_fail(h, ZR_EINVAL,
				       "matmul: ZR_MM_E5M2_A and ZR_MM_SAME_A go "
				       "with ZR_MM_FP8");
		return ZR_OK;
	}
	if (o->a.dtype != ZR_BF16 || o->b.dtype != ZR_BF16)
		return zr_fail(h, ZR_ENOTSUP,
			       "matmul: operands of element types %d and %d, where those of a "
			       "product in 8 bits are bf16",
			       o->a.dtype, o->b.dtype);
	if (o->flags & ZR_MM_TRANS_A)
		return zr_fail(h, ZR_ENOTSUP,
			       "matmul: in 8 bits the first operand is not transposed");
	if (!ZR_HAS(o, struct zr_op_matmul, work) || !o->work)
		return zr_fail(h, ZR_EINVAL, "matmul: a product in 8 bits has no work memory");
	return ZR_OK;
}

static inline int zr_check_matmul(const struct zr_host *h, const struct zr_op_matmul *o)
{
	int rc = zr_check_array(h, "matmul", &o->a);
	if (!rc)
		rc = zr_check_array(h, "matmul", &o->b);
	if (!rc)
		rc = zr_check_array(h, "matmul", &o->d);
	if (!rc && o->flags & ZR_MM_ACCUMULATE &&
	    (o->d.dtype != ZR_F32 || o->bias || o->flags & ZR_MM_GELU))
		rc = zr_fail(h, ZR_EINVAL,
			     "matmul: only an fp32 result without bias and GELU can be added to");
	if (!rc)
		rc = zr_check_fp8(h, o);
	if (rc)
		return rc;
	return zr_check_gelu(h, "matmul", o->activation);
}

/* The first element of the generator. */
static inline int zr_check_first(const struct zr_host *h, const char *op, int64_t first)
{
	if (first >= 0)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s: dropout has no element %lld", op, (long long)first);
}

static inline int zr_check_residual(const struct zr_host *h, const struct zr_op_residual *o)
{
	int rc = zr_check_dtype(h, "residual", o->dtype);
	if (rc)
		return rc;
	return zr_check_first(h, "residual", o->first);
}

static inline int zr_check_gelu_bwd(const struct zr_host *h, const struct zr_op_gelu_bwd *o)
{
	int rc = zr_check_dtype(h, "gelu_bwd", o->dtype);
	if (rc)
		return rc;
	return zr_check_gelu(h, "gelu_bwd", o->activation);
}

static inline int zr_check_glu(const struct zr_host *h, const char *op, int32_t dtype,
			       int32_t activation, int64_t n, int64_t width, int64_t stride)
{
	int rc = zr_check_dtype(h, op, dtype);
	if (!rc && (activation < 0 || activation > ZR_ACT_GELU_ERF))
		rc = zr_fail(h, ZR_EINVAL, "%s: there is no activation %d", op, activation);
	if (!rc && (width < 0 || stride < width || (!width && stride) || (width && n % width)))
		rc = zr_fail(h, ZR_EINVAL,
			     "%s: %lld elements are no rows of %lld that lie %lld apart", op,
			     (long long)n, (long long)width, (long long)stride);
	return rc;
}

static inline int zr_check_swiglu(const struct zr_host *h, const struct zr_op_swiglu *o)
{
	return zr_check_glu(h, "swiglu", o->dtype, o->activation, o->n, o->width, o->stride);
}

static inline int zr_check_swiglu_bwd(const struct zr_host *h, const struct zr_op_swiglu_bwd *o)
{
	return zr_check_glu(h, "swiglu_bwd", o->dtype, o->activation, o->n, o->width, o->stride);
}

static inline int zr_check_cap(const struct zr_host *h, const char *op, float gain, float softcap)
{
	if (gain - gain == 0 && softcap >= 0 && softcap - softcap == 0)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s: logits are not scaled by %g and capped at %g", op,
		       (double)gain, (double)softcap);
}

static inline int zr_check_logit_cap(const struct zr_host *h, const struct zr_op_logit_cap *o)
{
	return zr_check_cap(h, "logit_cap", o->gain, o->softcap);
}

static inline int zr_check_scale_heads(const struct zr_host *h, const struct zr_op_scale_heads *o)
{
	if (o->width > 0 && o->begin >= 0 && o->lines > 0 && o->apart >= o->lines && o->heads >= 0)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL,
		       "scale_heads: %lld heads of %lld lines, %lld apart, are not in rows of %lld",
		       (long long)o->heads, (long long)o->lines, (long long)o->apart,
		       (long long)o->width);
}

static inline int zr_check_cast_heads(const struct zr_host *h, const struct zr_op_cast_heads *o)
{
	int rc = zr_check_array(h, "cast_heads", &o->src);
	if (!rc)
		rc = zr_check_array(h, "cast_heads", &o->dst);
	if (rc)
		return rc;
	const int rows_apart = o->rows <= 1 || o->dst_stride >= o->head_dim;
	const int heads_apart = o->heads <= 1 || o->dst_head >= o->head_dim;
	if (o->rows >= 0 && o->heads >= 0 && o->head_dim >= 0 && rows_apart && heads_apart)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL,
		       "cast_heads: %lld rows, %lld apart, of %lld heads, %lld apart, have no room "
		       "for heads of width %lld",
		       (long long)o->rows, (long long)o->dst_stride, (long long)o->heads,
		       (long long)o->dst_head, (long long)o->head_dim);
}

/* Which queries there are, and where their dropout is. */
static inline int zr_check_queries(const struct zr_host *h, const struct zr_op_attention *o)
{
	const long long all = o->all_heads ? o->all_heads : o->first_head + o->heads;

	if (o->first < 0 || o->first > o->length)
		return zr_fail(h, ZR_EINVAL, "attention: from query %d on of %lld", o->first,
			       (long long)o->length);
	if (o->first_head < 0 || o->first_head + o->heads > all)
		return zr_fail(h, ZR_EINVAL, "attention: heads %d to %lld are not of %lld",
			       o->first_head, (long long)(o->first_head + o->heads), all);
	if (o->drop_rows && o->drop_rows < o->length)
		return zr_fail(h, ZR_EINVAL, "attention: dropout of %lld rows has none for %lld",
			       (long long)o->drop_rows, (long long)o->length);
	return ZR_OK;
}

static inline int zr_check_attention(const struct zr_host *h, const struct zr_op_attention *o)
{
	if (o->kv_heads < 1 || o->heads % o->kv_heads)
		return zr_fail(h, ZR_EINVAL,
			       "attention: %lld heads are not a multiple of %lld key-value heads",
			       (long long)o->heads, (long long)o->kv_heads);
	if (o->window < 0)
		return zr_fail(h, ZR_EINVAL,
			       "attention: a window of %lld tokens: it is 0 for all, or more",
			       (long long)o->window);
	if (!(o->softcap >= 0) || o->softcap - o->softcap != 0)
		return zr_fail(h, ZR_EINVAL,
			       "attention: a soft cap of %g: it is 0 for none, or more",
			       (double)o->softcap);
	int rc = zr_check_queries(h, o);
	if (rc)
		return rc;
	return zr_check_dtype(h, "attention", o->dtype);
}

static inline int zr_check_head(const struct zr_host *h, const char *op,
				const struct zr_op_head_loss *o)
{
	int rc = zr_check_dtype(h, op, o->dtype);
	if (rc)
		return rc;
	return zr_check_cap(h, op, o->logit_gain, o->softcap);
}

/* The rank of what is added to the logits of a head. */
static inline int64_t zr_head_rank(const struct zr_op_head_loss *o)
{
	return ZR_HAS(o, struct zr_op_head_loss, dv) ? o->r : 0;
}

/* Rows in groups of per_row that lie `stride` apart. */
static inline int zr_check_row_groups(const struct zr_host *h, const char *op, int64_t width,
				      int64_t per_row, int64_t stride)
{
	if (per_row >= 0 && (!stride || stride >= (per_row ? per_row : 1) * width))
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s: no %lld rows of %lld fit where groups lie %lld apart", op,
		       (long long)per_row, (long long)width, (long long)stride);
}

static inline int zr_check_rmsnorm(const struct zr_host *h, const struct zr_op_rmsnorm *o)
{
	int rc = zr_check_dtype(h, "rmsnorm", o->dtype);
	if (!rc)
		rc = zr_check_row_groups(h, "rmsnorm: x", o->width, o->per_row, o->x_stride);
	if (rc)
		return rc;
	return zr_check_row_groups(h, "rmsnorm: y", o->width, o->per_row, o->y_stride);
}

static inline int zr_check_rmsnorm_bwd(const struct zr_host *h, const struct zr_op_rmsnorm_bwd *o)
{
	int rc = zr_check_dtype(h, "rmsnorm_bwd", o->dtype);
	if (!rc)
		rc = zr_check_row_groups(h, "rmsnorm_bwd: dy", o->width, o->per_row, o->dy_stride);
	if (!rc)
		rc = zr_check_row_groups(h, "rmsnorm_bwd: x", o->width, o->per_row, o->x_stride);
	if (rc)
		return rc;
	return zr_check_row_groups(h, "rmsnorm_bwd: dx", o->width, o->per_row, o->dx_stride);
}

static inline int zr_check_experts(const struct zr_host *h, const char *op, int64_t places,
				   int64_t experts)
{
	if (experts < 1 || experts > ZR_EXPERTS)
		return zr_fail(h, ZR_ENOTSUP, "%s: %lld experts are not 1 to %d", op,
			       (long long)experts, ZR_EXPERTS);
	if (places > INT32_MAX)
		return zr_fail(h, ZR_ENOTSUP, "%s: %lld places are more than %d", op,
			       (long long)places, INT32_MAX);
	return ZR_OK;
}

static inline int zr_check_route(const struct zr_host *h, const char *op, int64_t rows,
				 int64_t experts, int64_t k)
{
	if (k < 1 || k > experts)
		return zr_fail(h, ZR_EINVAL, "%s: %lld of %lld experts cannot be chosen", op,
			       (long long)k, (long long)experts);
	return zr_check_experts(h, op, rows * k, experts);
}

static inline int zr_check_router_losses(const struct zr_host *h,
					 const struct zr_op_router_losses *o)
{
	if (o->parts < 0)
		return zr_fail(h, ZR_EINVAL, "router_losses: sums of %lld parts",
			       (long long)o->parts);
	return zr_check_experts(h, "router_losses", 0, o->experts);
}

static inline int zr_check_combine(const struct zr_host *h, const struct zr_op_expert_combine *o)
{
	int rc = zr_check_dtype(h, "expert_combine", o->dtype);
	if (rc)
		return rc;
	return zr_check_dtype(h, "expert_combine", o->out_dtype);
}

static inline int zr_check_grouped(const struct zr_host *h, const struct zr_op_matmul_grouped *o)
{
	int rc = zr_check_experts(h, "matmul_grouped", o->rows, o->experts);
	if (!rc)
		rc = zr_check_array(h, "matmul_grouped", &o->a);
	if (!rc)
		rc = zr_check_dtype(h, "matmul_grouped", o->b_dtype);
	if (!rc)
		rc = zr_check_array(h, "matmul_grouped", &o->d);
	if (!rc && o->flags & ZR_MM_ACCUMULATE && o->d.dtype != ZR_F32)
		rc = zr_fail(h, ZR_EINVAL, "matmul_grouped: only an fp32 result can be added to");
	return rc;
}

static inline int zr_check_grouped_dw(const struct zr_host *h,
				      const struct zr_op_matmul_grouped_dw *o)
{
	int rc = zr_check_experts(h, "matmul_grouped_dw", o->rows, o->experts);
	if (rc)
		return rc;
	return zr_check_dtype(h, "matmul_grouped_dw", o->dtype);
}

static inline int zr_check_rotary(const struct zr_host *h, const struct zr_op_rotary *o)
{
	int64_t dim = o->rotary_dim ? o->rotary_dim : o->head_dim;
	int rc = zr_check_dtype(h, "rotary", o->dtype);
	if (!rc && (dim < 2 || dim % 2 || dim > 2 * ZR_ROTARY_PAIRS))
		rc = zr_fail(h, ZR_ENOTSUP,
			     "rotary: heads of width %lld are not even or wider than %d",
			     (long long)dim, 2 * ZR_ROTARY_PAIRS);
	if (!rc && dim > o->head_dim)
		rc = zr_fail(h, ZR_EINVAL, "rotary: heads of width %lld do not have %lld elements",
			     (long long)o->head_dim, (long long)dim);
	if (!rc && o->head_stride && o->head_stride < o->head_dim)
		rc = zr_fail(h, ZR_EINVAL, "rotary: heads of width %lld do not lie %lld apart",
			     (long long)o->head_dim, (long long)o->head_stride);
	if (!rc && o->gain - o->gain != 0)
		rc = zr_fail(h, ZR_EINVAL, "rotary: a gain of %g is no number", (double)o->gain);
	return rc;
}

#endif
