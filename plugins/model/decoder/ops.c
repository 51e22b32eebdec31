/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - operations of the device with the arguments that all layers share.
 */
#include "decoder.h"

#include <string.h>

/* ---- linear maps ---- */

struct map map_of(const struct pass *p, enum block_tensor weight, enum block_tensor bias,
		  int64_t from, int64_t to)
{
	return (struct map){ p->g->at[weight], p->g->at[bias], from, to, 0 };
}

static int out_in(const struct pass *p)
{
	return p->f->map == ZR_MAP_OUT_IN;
}

/* Of a map in both directions. */
static uint64_t map_work(const struct pass *p, int64_t from, int64_t to)
{
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_matmul op = { .size = sizeof op, .m = p->N };
	uint64_t forward;

	op.a.dtype = op.b.dtype = op.d.dtype = p->c->dtype;
	op.flags = p->g->fp8 | (out_in(p) ? ZR_MM_TRANS_B : 0);
	op.n = to;
	op.k = from;
	forward = ops->matmul_work(ops, &op);

	op.flags = p->g->fp8_gradients | (out_in(p) ? 0 : ZR_MM_TRANS_B) | ZR_MM_ACCUMULATE;
	op.d.dtype = ZR_F32;
	op.n = from;
	op.k = to;
	return carver_max(forward, ops->matmul_work(ops, &op));
}

uint64_t products_work(const struct pass *p)
{
	uint64_t work;

	if (!p->g->fp8)
		return 0;

	work = map_work(p, p->H * p->D, p->C);
	if (has(p, QKV_W))
		work = carver_max(work, map_work(p, p->C, qkv_width(p)));
	else
		work = carver_max(work, map_work(p, p->C, p->H * p->D));
	if (has(p, GATE_UP_W))
		work = carver_max(work, map_work(p, p->C, 2 * p->F));
	else if (!p->o->experts)
		work = carver_max(work, map_work(p, p->C, p->F));
	if (!p->o->experts)
		work = carver_max(work, map_work(p, p->F, p->C));

	return (work + 63) / 64 * 64;
}

/* A product with flags of its operands, in 8 bits where they say so. */
static struct zr_op_matmul product_op(const struct pass *p, uint32_t flags)
{
	struct zr_op_matmul op = { .size = sizeof op, .flags = flags };
	if (flags & ZR_MM_FP8)
		op.work = p->c->work;
	return op;
}

static int map_forward(const struct pass *p, struct map l, uint32_t flags, const void *x, void *y,
		       void *pre)
{
	const int32_t t = p->c->dtype;
	struct zr_op_matmul op = product_op(p, flags | p->g->fp8);

	if (out_in(p))
		op.flags |= ZR_MM_TRANS_B;

	if (p->c->flags & ZR_CALL_EACH_ROW)
		op.flags |= ZR_MM_EACH_ROW;
	op.m = p->N;
	op.n = l.to;
	op.k = l.from;
	op.a = zr_array_at(t, x);
	op.lda = l.from;
	op.b = zr_array_at(t, p->c->param[l.weight]);
	op.ldb = out_in(p) ? l.from : l.to;
	if (l.bias >= 0)
		op.bias = p->c->param[l.bias];
	op.d = zr_array_at(t, y);
	op.ldd = l.stride ? l.stride : l.to;
	if (pre) {
		op.flags |= ZR_MM_GELU;
		op.pre = pre;
		op.activation = p->o->activation + 1;
	}

	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

int linear(const struct pass *p, struct map l, const void *x, void *y, void *pre)
{
	return map_forward(p, l, 0, x, y, pre);
}

int linear_again(const struct pass *p, struct map l, const void *x, void *y)
{
	if (p->g->fp8)
		return map_forward(p, l, ZR_MM_SAME_A, x, y, NULL);
	return map_forward(p, l, 0, x, y, NULL);
}

static struct zr_op_matmul dx_op(const struct pass *p, struct map l, const void *dy, void *dx)
{
	const int32_t t = p->c->dtype;
	struct zr_op_matmul op = product_op(p, p->g->fp8_gradients);

	if (!out_in(p))
		op.flags |= ZR_MM_TRANS_B;
	op.m = p->N;
	op.n = l.from;
	op.k = l.to;
	op.a = zr_array_at(t, dy);
	op.lda = l.to;
	op.b = zr_array_at(t, p->c->param[l.weight]);
	op.ldb = out_in(p) ? l.from : l.to;
	op.d = zr_array_at(t, dx);
	op.ldd = l.from;
	return op;
}

int linear_dx(const struct pass *p, struct map l, const void *dy, void *dx)
{
	struct zr_op_matmul op = dx_op(p, l, dy, dx);
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

/* sum = or += W^T dy, in fp32 */
static int linear_dx_add(const struct pass *p, struct map l, const void *dy, float *sum, int add)
{
	struct zr_op_matmul op = dx_op(p, l, dy, sum);
	if (add)
		op.flags |= ZR_MM_ACCUMULATE;
	op.d.dtype = ZR_F32;
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

static int bias_gradient(const struct pass *p, struct map l, const void *dy)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_bias_bwd op = { .size = sizeof op,
				     .dtype = c->dtype,
				     .rows = p->N,
				     .width = l.to,
				     .dy = dy,
				     .db = c->dparam[l.bias] };

	if (!op.db)
		return ZR_OK;
	if (c->accumulate[l.bias])
		op.flags = ZR_OP_ACCUMULATE;
	return c->ops->bias_bwd(c->ops, c->stream, &op);
}

static int weight_gradient(const struct pass *p, struct map l, const void *x, const void *dy)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul op = { .size = sizeof op, .flags = ZR_MM_TRANS_A };

	op.d = zr_array_at(ZR_F32, c->dparam[l.weight]);
	if (!op.d.data)
		return ZR_OK;
	if (c->accumulate[l.weight])
		op.flags |= ZR_MM_ACCUMULATE;

	op.k = p->N;
	if (out_in(p)) {
		op.m = op.lda = l.to;
		op.n = op.ldb = op.ldd = l.from;
		op.a = zr_array_at(c->dtype, dy);
		op.b = zr_array_at(c->dtype, x);
	} else {
		op.m = op.lda = l.from;
		op.n = op.ldb = op.ldd = l.to;
		op.a = zr_array_at(c->dtype, x);
		op.b = zr_array_at(c->dtype, dy);
	}

	return c->ops->matmul(c->ops, c->stream, &op);
}

int linear_dw(const struct pass *p, struct map l, const void *x, const void *dy)
{
	int rc = weight_gradient(p, l, x, dy);
	if (rc || l.bias < 0)
		return rc;

	return bias_gradient(p, l, dy);
}

int inputs_backward(const struct pass *p, const struct inputs *in, const void *x, float *sum,
		    void *dx)
{
	struct zr_op_cast round = { .size = sizeof round,
				    .n = p->N * p->C,
				    .src = zr_array_at(ZR_F32, sum),
				    .dst = zr_array_at(p->c->dtype, dx) };
	int i, rc = ZR_OK;

	for (i = 0; !rc && i < in->n; i++)
		rc = linear_dw(p, in->map[i], x, in->dy[i]);
	if (!rc && in->n == 1)
		return linear_dx(p, in->map[0], in->dy[0], dx);

	for (i = 0; !rc && i < in->n; i++)
		rc = linear_dx_add(p, in->map[i], in->dy[i], sum, i > 0);
	if (rc || !is16(p))
		return rc;

	return p->c->ops->cast(p->c->ops, p->c->stream, &round);
}

/* ---- norms ---- */

int norm_stats(const struct pass *p)
{
	if (p->f->norm_kind == NORM_LAYER)
		return 2;

	return 1;
}

static int layer_norm(const struct pass *p, int weight, const void *x, void *y, float *stats,
		      int64_t rows)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_layernorm op = { .size = sizeof op,
				      .dtype = c->dtype,
				      .rows = rows,
				      .width = p->C,
				      .eps = (float)p->o->norm_eps,
				      .x = x,
				      .gamma = c->param[weight],
				      .beta = c->param[weight + 1],
				      .y = y,
				      .mean = stats,
				      .rstd = stats + p->N };

	return c->ops->layernorm(c->ops, c->stream, &op);
}

static struct zr_op_rmsnorm rms_norm_op(const struct pass *p, int weight)
{
	return (struct zr_op_rmsnorm){ .size = sizeof(struct zr_op_rmsnorm),
				       .flags = p->f->norm_plus_one ? ZR_RMSNORM_PLUS_ONE : 0,
				       .dtype = p->c->dtype,
				       .width = p->C,
				       .eps = (float)p->o->norm_eps,
				       .gamma = p->c->param[weight] };
}

int norm(const struct pass *p, int weight, const void *x, void *y, float *stats, int64_t rows)
{
	struct zr_op_rmsnorm op;

	if (p->f->norm_kind == NORM_LAYER)
		return layer_norm(p, weight, x, y, stats, rows);

	op = rms_norm_op(p, weight);
	op.rows = rows;
	op.x = x;
	op.y = y;
	op.rstd = stats;
	return p->c->ops->rmsnorm(p->c->ops, p->c->stream, &op);
}

static int64_t row_heads(const struct pass *p, int64_t heads)
{
	return p->f->qk_norm_whole ? heads : 1;
}

int64_t heads_norm_stats(const struct pass *p, int64_t heads)
{
	return heads / row_heads(p, heads);
}

int heads_norm(const struct pass *p, int weight, int64_t heads, const void *x, void *y,
	       int64_t stride, float *stats)
{
	struct zr_op_rmsnorm op = rms_norm_op(p, weight);

	op.per_row = heads_norm_stats(p, heads);
	op.rows = p->N * op.per_row;
	op.width = row_heads(p, heads) * p->D;
	op.y_stride = stride;
	op.x_stride = heads * p->D;
	op.x = x;
	op.y = y;
	op.rstd = stats;
	return p->c->ops->rmsnorm(p->c->ops, p->c->stream, &op);
}

static struct zr_op_layernorm_bwd layer_norm_bwd_op(const struct pass *p)
{
	return (struct zr_op_layernorm_bwd){ .size = sizeof(struct zr_op_layernorm_bwd),
					     .dtype = p->c->dtype,
					     .rows = p->N,
					     .width = p->C };
}

static struct zr_op_rmsnorm_bwd rms_norm_bwd_op(const struct pass *p)
{
	return (struct zr_op_rmsnorm_bwd){ .size = sizeof(struct zr_op_rmsnorm_bwd),
					   .flags = p->f->norm_plus_one ? ZR_RMSNORM_PLUS_ONE : 0,
					   .dtype = p->c->dtype,
					   .rows = p->N,
					   .width = p->C };
}

static struct zr_op_rmsnorm_bwd heads_norm_bwd_op(const struct pass *p, int64_t heads)
{
	struct zr_op_rmsnorm_bwd op = rms_norm_bwd_op(p);
	op.flags |= ZR_RMSNORM_STORE;
	op.rows = p->N * heads_norm_stats(p, heads);
	op.width = row_heads(p, heads) * p->D;
	return op;
}

static int64_t max_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Before the operation's work lies what frozen weights would have got: it computes that in any
 * case. */
static uint64_t unwanted(const struct pass *p)
{
	int64_t width;

	if (has(p, Q_NORM_W))
		width = max_of(p->C, p->H * p->D);
	else
		width = p->C;

	return ((uint64_t)width * sizeof(float) + 63) / 64 * 64;
}

uint64_t norm_bwd_work(const struct pass *p)
{
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_layernorm_bwd layer = layer_norm_bwd_op(p);
	struct zr_op_rmsnorm_bwd rms = rms_norm_bwd_op(p), q = heads_norm_bwd_op(p, p->H),
				 k = heads_norm_bwd_op(p, p->K);
	uint64_t work;

	if (p->f->norm_kind == NORM_LAYER)
		return 2 * unwanted(p) + ops->layernorm_bwd_work(ops, &layer);

	work = ops->rmsnorm_bwd_work(ops, &rms);
	if (has(p, Q_NORM_W)) {
		work = carver_max(work, ops->rmsnorm_bwd_work(ops, &q));
		work = carver_max(work, ops->rmsnorm_bwd_work(ops, &k));
	}

	return unwanted(p) + work;
}

static int layer_norm_bwd(const struct pass *p, int weight, const void *dy, const void *x,
			  const float *stats, void *work)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_layernorm_bwd op = layer_norm_bwd_op(p);
	float *gone = work, *gone_too = (float *)((char *)work + unwanted(p));

	/* a unit is accumulated as a whole: beta as gamma */
	op.flags = c->accumulate[weight] ? ZR_OP_ACCUMULATE : 0;
	op.dy = dy;
	op.x = x;
	op.gamma = c->param[weight];
	op.mean = stats;
	op.rstd = stats + p->N;
	op.dx = c->grad;
	if (c->dparam[weight])
		op.dgamma = c->dparam[weight];
	else
		op.dgamma = gone;
	if (c->dparam[weight + 1])
		op.dbeta = c->dparam[weight + 1];
	else
		op.dbeta = gone_too;
	op.work = (char *)work + 2 * unwanted(p);
	return c->ops->layernorm_bwd(c->ops, c->stream, &op);
}

static int rms_norm_bwd(const struct pass *p, struct zr_op_rmsnorm_bwd *op, int weight,
			const void *dy, const void *x, const float *stats, void *dx, void *work)
{
	const struct zr_layer_call *c = p->c;
	if (c->accumulate[weight])
		op->flags |= ZR_OP_ACCUMULATE;
	op->dy = dy;
	op->x = x;
	op->gamma = c->param[weight];
	op->rstd = stats;
	op->dx = dx;
	if (c->dparam[weight])
		op->dgamma = c->dparam[weight];
	else
		op->dgamma = work;
	op->work = (char *)work + unwanted(p);
	return c->ops->rmsnorm_bwd(c->ops, c->stream, op);
}

int norm_bwd(const struct pass *p, int weight, const void *dy, const void *x, const float *stats,
	     void *work)
{
	struct zr_op_rmsnorm_bwd op = rms_norm_bwd_op(p);
	if (p->f->norm_kind == NORM_LAYER)
		return layer_norm_bwd(p, weight, dy, x, stats, work);
	return rms_norm_bwd(p, &op, weight, dy, x, stats, p->c->grad, work);
}

int norm_bwd_in_place(const struct pass *p, int weight, void *dy, const void *x, const float *stats,
		      void *work)
{
	struct zr_op_rmsnorm_bwd op = rms_norm_bwd_op(p);
	op.flags |= ZR_RMSNORM_STORE;
	return rms_norm_bwd(p, &op, weight, dy, x, stats, dy, work);
}

int heads_norm_bwd(const struct pass *p, int weight, int64_t heads, void *dy, const void *x,
		   const float *stats, void *work)
{
	struct zr_op_rmsnorm_bwd op = heads_norm_bwd_op(p, heads);
	return rms_norm_bwd(p, &op, weight, dy, x, stats, dy, work);
}

/* ---- the rest ---- */

static const struct rope *rope_of(const struct pass *p)
{
	if (p->o->rope_local_theta > 0 && is_local(p->g, block_of(p)))
		return &p->g->rope[ROPE_LOCAL];
	return &p->g->rope[p->sequence > p->o->rope_original_context ? ROPE_FAR : ROPE_GLOBAL];
}

int rotate(const struct pass *p, uint32_t flags, void *x, int64_t heads, int64_t stride,
	   int64_t head)
{
	const struct rope *r = rope_of(p);
	struct zr_op_rotary op = { .size = sizeof op,
				   .flags = flags,
				   .dtype = p->c->dtype,
				   .batch = p->B,
				   .length = p->T,
				   .heads = heads,
				   .head_dim = p->D,
				   .stride = stride,
				   .x = x,
				   .out = x,
				   .position = p->c->positions,
				   .rotary_dim = p->g->rope_dim,
				   .head_stride = head,
				   .gain = r->gain };

	memcpy(op.frequency, r->frequency, (size_t)p->g->rope_dim / 2 * sizeof *op.frequency);
	return p->c->ops->rotary(p->c->ops, p->c->stream, &op);
}

struct zr_rng site(const struct pass *p, int n)
{
	struct zr_rng r = p->c->rng;
	r.site = (uint32_t)p->c->layer * 8 + (uint32_t)n;
	return r;
}

int residual(const struct pass *p, int n, const void *a, const void *b, void *out)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = p->c->dtype,
				     .dropout = p->dropout,
				     .n = p->N * p->C,
				     .rng = site(p, n),
				     .a = a,
				     .b = b,
				     .out = out,
				     .gain = (float)p->o->residual_gain,
				     .first = p->c->slot_first * p->C };

	return p->c->ops->residual(p->c->ops, p->c->stream, &op);
}

int add(const struct pass *p, const void *a, float gain, const void *b, void *out)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = p->c->dtype,
				     .n = p->N * p->C,
				     .a = a,
				     .b = b,
				     .out = out,
				     .gain = gain };

	return p->c->ops->residual(p->c->ops, p->c->stream, &op);
}
