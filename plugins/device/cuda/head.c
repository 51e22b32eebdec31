/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection fused with softmax cross entropy, in chunks of rows: fp32 logits
 * of a chunk, their gradient in the type of the operands beside them, both products with it. The
 * logits of a whole batch never exist.
 */
#include "cuda.h"

#define CHUNK_BYTES (1ll << 30) /* of logits and their gradient */
#define CHUNK_MIN 64
#define LINE 64 /* elements: rows of logits start on this multiple, which cuBLASLt's kernels want */

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t stride_of(const struct zr_op_head_loss *o)
{
	return (o->vocabulary + LINE - 1) / LINE * LINE;
}

static int64_t size_of(int32_t dtype)
{
	return dtype == ZR_F32 ? 4 : 2;
}

/* Rows of a chunk, of nearly equal chunks. */
static int64_t chunk_rows(const struct zr_op_head_loss *o)
{
	int64_t fit = CHUNK_BYTES / (stride_of(o) * (4 + size_of(o->dtype)));
	int64_t rows = min64(fit > CHUNK_MIN ? fit : CHUNK_MIN, o->rows > 0 ? o->rows : 1),
		chunks = (o->rows + rows - 1) / rows;
	return chunks > 1 ? (o->rows + chunks - 1) / chunks : rows;
}

uint64_t cuda_head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	(void)ops;
	return (uint64_t)(chunk_rows(o) * stride_of(o) * (4 + size_of(o->dtype)));
}

struct chunk {
	const struct zr_op_head_loss *op;
	int64_t first, rows;
	float *logits, *right; /* right: NULL: not wanted */
	void *grad; /* of them, in op->dtype */
};

static const void *x_of(const struct chunk *c)
{
	return (const char *)c->op->x + c->first * c->op->width * size_of(c->op->dtype);
}

/* logits = x w^T */
static int project(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_B, .a_dtype = o->dtype, .b_dtype = o->dtype,
		.d_dtype = ZR_F32, .m = c->rows, .n = o->vocabulary, .k = o->width, .a = x_of(c),
		.lda = o->width, .b = o->w, .ldb = o->width, .d = c->logits, .ldd = stride_of(o),
	};
	return cuda_matmul(ops, s, &mm);
}

/* dx = dlogits w */
static int grad_x(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .a_dtype = o->dtype, .b_dtype = o->dtype, .d_dtype = o->dtype,
		.m = c->rows, .n = o->width, .k = o->vocabulary,
		.a = c->grad, .lda = stride_of(o),
		.b = o->w, .ldb = o->width,
		.d = (char *)o->dx + c->first * o->width * size_of(o->dtype), .ldd = o->width,
	};
	return cuda_matmul(ops, s, &mm);
}

/* dw = or += dlogits^T x */
static int grad_w(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	int add = c->first > 0 || o->flags & ZR_OP_ACCUMULATE;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_A | (add ? ZR_MM_ACCUMULATE : 0),
		.a_dtype = o->dtype, .b_dtype = o->dtype, .d_dtype = ZR_F32,
		.m = o->vocabulary, .n = o->width, .k = c->rows,
		.a = c->grad, .lda = stride_of(o),
		.b = x_of(c), .ldb = o->width,
		.d = o->dw, .ldd = o->width,
	};
	return cuda_matmul(ops, s, &mm);
}

static int run_chunk(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_cuda_softmax softmax = { .rows = c->rows,
					   .vocabulary = o->vocabulary,
					   .ld = stride_of(o),
					   .ldd = stride_of(o),
					   .dtype = o->dtype,
					   .scale = o->scale,
					   .gain = o->logit_gain != 0 ? o->logit_gain : 1,
					   .softcap = o->softcap,
					   .logits = c->logits,
					   .targets = o->targets + c->first,
					   .weights = o->weights ? o->weights + c->first : NULL,
					   .loss = o->loss + c->first,
					   .right = c->right ? c->right + c->first : NULL,
					   .grad = o->dx ? c->grad : NULL };
	int rc = project(ops, s, c);
	if (!rc)
		rc = cuda_result(ops->dev, zr_cuda_softmax_loss(&softmax, cuda_stream(ops->dev, s)),
				 "head_loss");
	if (rc || !o->dx)
		return rc;
	rc = grad_x(ops, s, c);
	return rc || !o->dw ? rc : grad_w(ops, s, c);
}

int cuda_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *o)
{
	int64_t most = chunk_rows(o);
	struct chunk c = { .op = o, .logits = o->work,
			   .grad = (float *)o->work + most * stride_of(o) };
	if (ZR_HAS(o, struct zr_op_head_loss, right) && !o->dx)
		c.right = o->right;
	int rc = zr_check_head(ops->dev->h, "head_loss", o);
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = min64(most, o->rows - c.first);
		rc = run_chunk(ops, s, &c);
	}
	if (!rc)
		rc = cuda_result(
			ops->dev,
			zr_cuda_loss_sum(o->loss, o->rows, o->loss_sum, cuda_stream(ops->dev, s)),
			"head_loss");
	ops->dev->last = "head_loss";
	return rc;
}
