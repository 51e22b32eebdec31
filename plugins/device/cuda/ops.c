/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - the table of operations: each checks what device/cpu checks and launches its kernels.
 */
#include "attention.h"
#include "cuda.h"

static int launched(struct zr_inst *d, cudaError_t e, const char *op)
{
	d->last = op;
	return cuda_result(d, e, op);
}

/* The operation `name` on struct zr_op_<args>, if `check` is ZR_OK; o is its argument struct. */
#define CHECKED_ON(args, name, check)                                                              \
	int cuda_##name(const struct zr_ops *ops, struct zr_stream *s,                             \
			const struct zr_op_##args *o)                                              \
	{                                                                                          \
		int rc = check;                                                                    \
		if (rc)                                                                            \
			return rc;                                                                 \
		return launched(ops->dev, zr_cuda_##name(o, cuda_stream(ops->dev, s)), #name);     \
	}
#define CHECKED(name) CHECKED_ON(name, name, zr_check_##name(ops->dev->h, o))
#define OPERATION_ON(args, name, dtype)                                                            \
	CHECKED_ON(args, name, zr_check_dtype(ops->dev->h, #name, dtype))
#define OPERATION(name, dtype) OPERATION_ON(name, name, dtype)

OPERATION(embedding, o->dtype)
OPERATION(layernorm, o->dtype)
OPERATION(layernorm_bwd, o->dtype)
CHECKED(rmsnorm)
CHECKED(rmsnorm_bwd)
CHECKED(logit_cap)
CHECKED(scale_heads)
CHECKED(cast_heads)
CHECKED(gelu_bwd)
CHECKED(swiglu)
CHECKED(swiglu_bwd)
CHECKED(rotary)
CHECKED(residual)
CHECKED_ON(fold, fold, zr_check_fold(ops->dev->h, o, 0))
OPERATION(init, ZR_F32)
OPERATION(round_stochastic, ZR_F32)
OPERATION(muon_factor, ZR_F32)
CHECKED_ON(master, master_join, zr_check_master(ops->dev->h, "master_join", o))
CHECKED_ON(master, master_split, zr_check_master(ops->dev->h, "master_split", o))
OPERATION_ON(muon, muon_normalize, ZR_F32)
OPERATION(sgd, o->lowp ? o->lowp_dtype : ZR_F32)
CHECKED(lion)
OPERATION(adagrad, o->lowp ? o->lowp_dtype : ZR_F32)
OPERATION(lamb, o->lowp ? o->lowp_dtype : ZR_F32)
OPERATION_ON(lamb, lamb_norms, ZR_F32)
OPERATION_ON(muon, muon_momentum, ZR_F32)
OPERATION_ON(muon, muon_update, o->lowp ? o->lowp_dtype : ZR_F32)
CHECKED(adamw)

int cuda_cast(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_cast *o)
{
	cudaStream_t stream = cuda_stream(ops->dev, s);
	int rc = zr_check_cast(ops->dev->h, o);
	if (rc)
		return rc;

	if (zr_has_codes(o->dst.dtype))
		return launched(ops->dev, zr_cuda_encode(o, stream), "cast");
	if (zr_has_codes(o->src.dtype))
		return launched(ops->dev, zr_cuda_decode(o, stream), "cast");
	if (o->dst.dtype == ZR_MXINT8)
		return launched(ops->dev, zr_cuda_mx_encode(o, stream), "cast");
	if (o->src.dtype == ZR_MXINT8)
		return launched(ops->dev, zr_cuda_mx_decode(o, stream), "cast");
	return launched(ops->dev, zr_cuda_cast(o, stream), "cast");
}

/* ---- sums over rows -------------------------------------------------------------- */

uint64_t cuda_layernorm_bwd_work(const struct zr_ops *ops, const struct zr_op_layernorm_bwd *o)
{
	(void)ops;
	return (uint64_t)((o->rows + ZR_LN_TILE - 1) / ZR_LN_TILE * 2 * o->width) * sizeof(float);
}

uint64_t cuda_rmsnorm_bwd_work(const struct zr_ops *ops, const struct zr_op_rmsnorm_bwd *o)
{
	(void)ops;
	return (uint64_t)((o->rows + ZR_LN_TILE - 1) / ZR_LN_TILE * o->width) * sizeof(float);
}

int cuda_embedding_bwd(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_embedding_bwd *o)
{
	struct zr_inst *d = ops->dev;
	int64_t need = zr_cuda_embedding_bwd_room(o), room = CUDA_PARTS / sizeof(int32_t);
	int rc = zr_check_dtype(d->h, "embedding_bwd", o->dtype);
	if (!rc && need > room)
		rc = zr_fail(
			d->h, ZR_ENOTSUP,
			"embedding_bwd: %lld rows and a vocabulary of %lld take %lld numbers of "
			"%lld",
			(long long)(o->batch * o->length), (long long)o->vocabulary,
			(long long)need, (long long)room);
	if (rc)
		return rc;
	return launched(d, zr_cuda_embedding_bwd(o, (int32_t *)cuda_parts(d), cuda_stream(d, s)),
			"embedding_bwd");
}

int cuda_bias_bwd(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_bias_bwd *o)
{
	struct zr_inst *d = ops->dev;
	int64_t room = CUDA_PARTS / sizeof(float);
	int rc = zr_check_dtype(d->h, "bias_bwd", o->dtype);
	if (!rc && (o->rows + 63) / 64 > room)
		rc = zr_fail(d->h, ZR_ENOTSUP, "bias_bwd: %lld rows are more than %lld",
			     (long long)o->rows, (long long)room * 64);
	if (rc)
		return rc;
	return launched(d, zr_cuda_bias_bwd(o, cuda_parts(d), room, cuda_stream(d, s)), "bias_bwd");
}

/* ---- attention ------------------------------------------------------------------- */

static int check_attention(const struct zr_inst *d, const struct zr_op_attention *o)
{
	int rc = zr_check_attention(d->h, o);
	if (rc)
		return rc;
	if (o->head_dim > ZR_CUDA_HEAD_DIM)
		return zr_fail(d->h, ZR_ENOTSUP, "attention: heads of width %lld are wider than %d",
			       (long long)o->head_dim, ZR_CUDA_HEAD_DIM);
	if (o->batch * o->heads > CUDA_GRID_Y)
		return zr_fail(d->h, ZR_ENOTSUP,
			       "attention: a batch of %lld with %lld heads is more than %d of them",
			       (long long)o->batch, (long long)o->heads, CUDA_GRID_Y);
	return ZR_OK;
}

int cuda_attention(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_attention *o)
{
	struct zr_inst *d = ops->dev;
	int rc = check_attention(d, o);
	if (rc)
		return rc;

	return launched(d, cuda_attention_by(d->hopper, o, cuda_stream(d, s)), "attention");
}

uint64_t cuda_attention_bwd_work(const struct zr_ops *ops, const struct zr_op_attention_bwd *o)
{
	return cuda_attention_bwd_room(ops->dev->hopper, o);
}

int cuda_attention_bwd(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_attention_bwd *o)
{
	struct zr_inst *d = ops->dev;
	int rc = check_attention(d, &o->fwd);
	if (rc)
		return rc;

	return launched(d, cuda_attention_bwd_by(d->hopper, o, cuda_stream(d, s)), "attention_bwd");
}
