/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection fused with softmax cross entropy, in chunks of rows: fp32 logits
 * of a chunk, their gradient in the type of the operands beside them, both products with it. The
 * logits of a whole batch never exist.
 *
 * Products with an odd side are several times slower (6 times for GPT-2's head on an H200): where
 * the vocabulary is no multiple of LINE, w is copied with rows of zeros behind it, logits and
 * gradients have as many more columns, and the gradients there are 0.
 */
#include "cuda.h"

#define CHUNK_BYTES (1ll << 30) /* of logits and their gradient */
#define CHUNK_MIN   64
#define CHUNK_STEP  128 /* rows of chunks are multiples of, where there are several */
/* elements: rows of logits start on a multiple of it, which cuBLASLt's kernels want */
#define LINE 64

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
	return (int64_t)zr_bytes_of(dtype, 1);
}

/* Rows of a chunk, of nearly equal chunks. */
static int64_t chunk_rows(const struct zr_op_head_loss *o)
{
	const int64_t fit = CHUNK_BYTES / (stride_of(o) * (4 + size_of(o->dtype)));
	const int64_t most = fit > CHUNK_MIN ? fit : CHUNK_MIN;
	if (o->rows < 1)
		return 1;
	if (o->rows <= most)
		return o->rows;

	const int64_t chunks = (o->rows + most - 1) / most;
	const int64_t rows = (o->rows + chunks - 1) / chunks;
	if (rows + CHUNK_STEP > fit)
		return rows;
	return (rows + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
}

/* Whether w gets rows of zeros: not for a few rows, which cost less than the copy. */
static int is_padded(const struct zr_op_head_loss *o)
{
	return stride_of(o) != o->vocabulary && o->rows >= CHUNK_MIN;
}

static int64_t columns_of(const struct zr_op_head_loss *o)
{
	return is_padded(o) ? stride_of(o) : o->vocabulary;
}

/* Of logits and their gradient. */
static int64_t chunk_bytes(const struct zr_op_head_loss *o)
{
	return chunk_rows(o) * stride_of(o) * (4 + size_of(o->dtype));
}

uint64_t cuda_head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	int64_t bytes = chunk_bytes(o);
	(void)ops;
	if (is_padded(o))
		bytes += stride_of(o) * o->width * size_of(o->dtype);
	return (uint64_t)bytes;
}

struct chunk {
	const struct zr_op_head_loss *op;
	const void *w; /* the op's or its padded copy */
	int64_t first, rows;
	float *logits, *right; /* right: NULL: not wanted */
	void *grad;            /* of them, in op->dtype */
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
		.size = sizeof mm,
		.flags = ZR_MM_TRANS_B,
		.m = c->rows,
		.n = columns_of(o),
		.k = o->width,
		.a = zr_array_at(o->dtype, x_of(c)),
		.lda = o->width,
		.b = zr_array_at(o->dtype, c->w),
		.ldb = o->width,
		.d = zr_array_at(ZR_F32, c->logits),
		.ldd = stride_of(o),
	};
	return cuda_matmul(ops, s, &mm);
}

/* dx = dlogits w */
static int grad_x(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm,
		.m = c->rows,
		.n = o->width,
		.k = columns_of(o),
		.a = zr_array_at(o->dtype, c->grad),
		.lda = stride_of(o),
		.b = zr_array_at(o->dtype, c->w),
		.ldb = o->width,
		.d = zr_array_at(o->dtype, (char *)o->dx + c->first * o->width * size_of(o->dtype)),
		.ldd = o->width,
	};
	return cuda_matmul(ops, s, &mm);
}

/* dw = or += dlogits^T x, of rows [first, first + n) of dw */
static int grad_rows(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c,
		     int64_t first, int64_t n)
{
	const struct zr_op_head_loss *o = c->op;
	int add = c->first > 0 || o->flags & ZR_OP_ACCUMULATE;
	struct zr_op_matmul mm = {
		.size = sizeof mm,
		.flags = ZR_MM_TRANS_A | (add ? ZR_MM_ACCUMULATE : 0),
		.m = n,
		.n = o->width,
		.k = c->rows,
		.a = zr_array_at(o->dtype, (const char *)c->grad + first * size_of(o->dtype)),
		.lda = stride_of(o),
		.b = zr_array_at(o->dtype, x_of(c)),
		.ldb = o->width,
		.d = zr_array_at(ZR_F32, o->dw + first * o->width),
		.ldd = o->width,
	};
	return cuda_matmul(ops, s, &mm);
}

/* Rows that fill no eight are a product of their own. */
static int grad_w(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const int64_t rows = c->op->vocabulary, whole = rows / 8 * 8;
	int rc = grad_rows(ops, s, c, 0, whole);
	if (rc)
		return rc;
	return grad_rows(ops, s, c, whole, rows - whole);
}

static int run_chunk(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_cuda_softmax softmax = { .rows = c->rows,
					   .vocabulary = o->vocabulary,
					   .ld = stride_of(o),
					   .ldd = stride_of(o),
					   .filled = columns_of(o),
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
	if (rc || !o->dw)
		return rc;
	return grad_w(ops, s, c);
}

/* w and rows of zeros behind it, in the work. */
static int pad(const struct zr_ops *ops, struct zr_stream *s, struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	const size_t row = (size_t)(o->width * size_of(o->dtype)),
		     all = (size_t)o->vocabulary * row;
	char *to = (char *)o->work + chunk_bytes(o);
	if (!is_padded(o))
		return ZR_OK;

	c->w = to;
	int rc = cuda_copy(ops->dev, s, to, o->w, all);
	if (rc)
		return rc;
	return cuda_result(ops->dev,
			   cudaMemsetAsync(to + all, 0,
					   (size_t)(stride_of(o) - o->vocabulary) * row,
					   cuda_stream(ops->dev, s)),
			   "head_loss: zeros");
}

int cuda_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *o)
{
	int64_t most = chunk_rows(o);
	struct chunk c = { .op = o,
			   .w = o->w,
			   .logits = o->work,
			   .grad = (float *)o->work + most * stride_of(o) };
	if (ZR_HAS(o, struct zr_op_head_loss, right) && !o->dx)
		c.right = o->right;
	int rc = zr_check_head(ops->dev->h, "head_loss", o);
	if (!rc && zr_head_rank(o))
		rc = zr_fail(
			ops->dev->h, ZR_ENOTSUP,
			"head_loss: adapters of the head are not computed on this device: take "
			"the head out of [adapter] targets");
	if (!rc)
		rc = pad(ops, s, &c);
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = min64(most, o->rows - c.first);
		rc = run_chunk(ops, s, &c);
	}
	if (!rc)
		rc = cuda_result(ops->dev,
				 zr_cuda_loss_sum(o->loss, o->rows, o->loss_sum,
						  cuda_stream(ops->dev, s)),
				 "head_loss");
	ops->dev->last = "head_loss";
	return rc;
}
