/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8.c - products in 8 bits. cuBLASLt multiplies codes of E4M3 (of E5M2 times E4M3), summed in
 * fp32 without its faster, shorter sums; K of both operands lies together, as its kernels want it.
 * Where it takes a scale for each row and column (Hopper) it scales the sums; elsewhere a kernel of
 * ours does. A GPU that has no such products, a shape that is no multiple of 16, or what cuBLASLt
 * refuses: the same numbers are multiplied in bf16.
 *
 * Scales are powers of two: scaling is exact wherever it is done.
 */
#include "matmul.h"

#include <narrow_work.h>

#include <string.h>

#define MULTIPLE 16 /* of M's, N's and K's elements, and of bytes */

/* Where an operation's work has what. It has room for both operands in bf16; codes take half of it,
 * and leave room for their scales and for sums, of which there may be some rows at once. */
struct fp8_work {
	float *scale_a, *scale_b;
	float *sums; /* [rows][n] */
	int64_t rows;
};

/* Whether the GPU multiplies numbers of 8 bits, and whether cuBLASLt scales their sums by rows and
 * columns there. */
static int multiplies(const struct zr_inst *d)
{
	return d->capability >= 89;
}

static int scales_rows(const struct zr_inst *d)
{
	return CUDA_SCALES_ROWS && d->capability == 90 && cublasLtGetVersion() >= 120900;
}

/* Behind n codes of an operand and `lines` scales, where the operand would have ended in bf16:
 * bytes that are free, less than 0 if those do not fit. */
static int64_t room_behind(int64_t n, int64_t lines)
{
	const uint64_t used = zr_narrow_up((uint64_t)n) + zr_narrow_up(zr_bytes_of(ZR_F32, lines));
	return (int64_t)zr_narrow_bytes(n) - (int64_t)used;
}

static struct fp8_work carve(const struct zr_op_matmul *op)
{
	const int64_t of_a = op->m * op->k, of_b = op->k * op->n;
	const int64_t room_a = room_behind(of_a, op->m), room_b = room_behind(of_b, op->n);
	const int64_t room = room_a > room_b ? room_a : room_b;
	char *a = op->work, *b = zr_narrowing_of_b(op).to;
	struct fp8_work w = { 0 };

	if (room_a < 0 || room_b < 0)
		return w;

	w.scale_a = (float *)(void *)(a + zr_narrow_up((uint64_t)of_a));
	w.scale_b = (float *)(void *)(b + zr_narrow_up((uint64_t)of_b));
	if (room_a > room_b)
		w.sums = (float *)(void *)((char *)w.scale_a +
					   zr_narrow_up(zr_bytes_of(ZR_F32, op->m)));
	else
		w.sums = (float *)(void *)((char *)w.scale_b +
					   zr_narrow_up(zr_bytes_of(ZR_F32, op->n)));
	w.rows = room / 4 / op->n / MULTIPLE * MULTIPLE;
	if (w.rows > op->m)
		w.rows = op->m;
	return w;
}

uint64_t cuda_matmul_work(const struct zr_ops *ops, const struct zr_op_matmul *op)
{
	(void)ops;
	return zr_narrow_work(op);
}

/* ---- operands -------------------------------------------------------------------- */

/* Both, as codes or in bf16; op(A) as it is if the call before left it so. */
static cudaError_t narrow(struct zr_inst *d, cudaStream_t s, const struct zr_op_matmul *op,
			  const struct fp8_work *w, int codes)
{
	struct zr_cuda_narrowing a = { .of = zr_narrowing_of_a(op) };
	struct zr_cuda_narrowing b = { .of = zr_narrowing_of_b(op) };
	cudaError_t e = cudaSuccess;

	a.to = a.of.to;
	b.to = b.of.to;
	b.part = (uint32_t *)(void *)cuda_parts(d);
	if (codes) {
		a.scale = w->scale_a;
		b.scale = w->scale_b;
	}
	if (!(op->flags & ZR_MM_SAME_A) || d->codes != codes)
		e = zr_cuda_narrow_rows(&a, s);
	d->codes = codes;
	if (e != cudaSuccess)
		return e;
	if (op->flags & ZR_MM_TRANS_B)
		return zr_cuda_narrow_rows(&b, s);
	return zr_cuda_narrow_columns(&b, s);
}

/* ---- the product of codes -------------------------------------------------------- */

/* A product of codes, of which cuBLASLt stores D as op says, or the sums in fp32. */
static cublasStatus_t describe(const struct zr_inst *d, struct product *p,
			       const struct zr_op_matmul *op, const struct fp8_work *w)
{
	cudaDataType_t type_a = CUDA_R_8F_E4M3;
	const cublasOperation_t turned = CUBLAS_OP_T;
	const int8_t fast = 0;
	if (op->flags & ZR_MM_E5M2_A)
		type_a = CUDA_R_8F_E5M2;

	cublasStatus_t s = cublasLtMatmulDescInit(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
	if (!s)
		s = cublasLtMatrixLayoutInit(&p->a, CUDA_R_8F_E4M3, (uint64_t)op->k,
					     (uint64_t)op->n, op->k);
	if (!s)
		s = cublasLtMatrixLayoutInit(&p->b, type_a, (uint64_t)op->k, (uint64_t)op->m,
					     op->k);
	if (s)
		return s;
	if (!scales_rows(d))
		return cublasLtMatrixLayoutInit(&p->d, CUDA_R_32F, (uint64_t)op->n, (uint64_t)op->m,
						op->n);

	s = cuda_product_epilogue(p, op);
#if CUDA_SCALES_ROWS
	const int32_t by_row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &by_row, sizeof by_row);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &by_row, sizeof by_row);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w->scale_b,
				     sizeof w->scale_b);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &w->scale_a,
				     sizeof w->scale_a);
#else
	(void)w;
#endif
	if (s)
		return s;
	return cuda_product_layout(&p->d, op->d.dtype, op->n, op->m, op->ldd, 0);
}

static int takes(const struct zr_inst *d, const struct zr_op_matmul *op, const struct fp8_work *w)
{
	return multiplies(d) && w->sums && (scales_rows(d) || w->rows > 0) && op->k > 0 &&
	       op->k % MULTIPLE == 0 && op->n % MULTIPLE == 0 && op->m % MULTIPLE == 0 &&
	       op->ldd % MULTIPLE == 0 && (uintptr_t)op->d.data % MULTIPLE == 0 &&
	       (uintptr_t)op->bias % MULTIPLE == 0;
}

static cublasStatus_t choose(const struct zr_inst *d, struct product *p,
			     const struct zr_op_matmul *op, struct cuda_choice *c)
{
	cublasLtMatmulPreferenceOpaque_t preference;
	cublasLtMatmulHeuristicResult_t found;
	int n = 0;
	cublasStatus_t s = cuda_product_prefer(&preference, op);
	if (!s)
		s = cublasLtMatmulAlgoGetHeuristic(d->lt, &p->desc, &p->a, &p->b, &p->d, &p->d,
						   &preference, 1, &found, &n);
	if (!s && n < 1)
		s = CUBLAS_STATUS_NOT_SUPPORTED;
	if (!s)
		s = found.state;
	if (!s)
		c->algo = found.algo;
	return s;
}

/* Of a shape that cuBLASLt refuses: once. */
static void refused(const struct zr_inst *d, const struct zr_op_matmul *op, struct cuda_choice *c,
		    cublasStatus_t s)
{
	zr_log(d->h, ZR_LOG_WARN,
	       "rank %d, GPU %d, matmul of %lld x %lld x %lld in 8 bits: cuBLASLt refuses it (%s): "
	       "the same numbers are multiplied in bf16",
	       d->h->rank, d->device, (long long)op->m, (long long)op->n, (long long)op->k,
	       cublasLtGetStatusName(s));
	c->own = 1;
}

/* op: its operands are the codes. *done: whether cuBLASLt takes such a product. */
static int multiply(struct zr_inst *d, cudaStream_t s, const struct zr_op_matmul *op,
		    const struct fp8_work *w, int *done)
{
	const int rows = scales_rows(d);
	const float one = 1, beta = rows && (op->flags & ZR_MM_ACCUMULATE) != 0;
	const struct cuda_shape shape = cuda_shape_of(op);
	struct cuda_choice *c = cuda_choice_of(d, &shape);
	void *to = w->sums;
	struct product p;

	if (rows)
		to = op->d.data;

	*done = 0;
	cublasStatus_t e = describe(d, &p, op, w);
	if (memcmp(&c->shape, &shape, sizeof shape)) {
		c->shape = shape;
		c->own = 0;
		if (!e)
			e = choose(d, &p, op, c);
	} else if (c->own) {
		return ZR_OK;
	}

	d->last = "matmul in 8 bits";
	if (!e)
		e = cublasLtMatmul(d->lt, &p.desc, &one, op->b.data, &p.a, op->a.data, &p.b, &beta,
				   to, &p.d, to, &p.d, &c->algo, d->scratch, CUDA_WORKSPACE, s);
	*done = !e;
	if (cuda_product_is_refusal(e)) {
		refused(d, op, c, e);
		return ZR_OK;
	}
	if (e || rows)
		return cuda_blas_result(d, e, "matmul in 8 bits");

	const struct zr_cuda_scaling scaling = {
		.op = *op, .sums = w->sums, .a = w->scale_a, .b = w->scale_b
	};
	return cuda_result(d, zr_cuda_scale_sums(&scaling, s), "matmul in 8 bits, scaling");
}

/* Rows [first, first + rows) of a product of codes. */
static struct zr_op_matmul rows_of(const struct zr_op_matmul *op, int64_t first, int64_t rows)
{
	struct zr_op_matmul part = *op;
	part.m = rows;
	part.a.data = (char *)op->a.data + first * op->k;
	part.d = zr_array_from(&op->d, first * op->ldd);
	return part;
}

/* All rows at once where cuBLASLt scales them, else as many as there is room for their sums. */
static int multiply_rows(struct zr_inst *d, cudaStream_t s, const struct zr_op_matmul *op,
			 const struct fp8_work *w, int *done)
{
	const int64_t most = scales_rows(d) ? op->m : w->rows;
	struct fp8_work at = *w;

	for (int64_t first = 0; first < op->m; first += most) {
		const int64_t left = op->m - first, rows = left < most ? left : most;
		const struct zr_op_matmul part = rows_of(op, first, rows);
		int rc;

		at.scale_a = w->scale_a + first;
		rc = multiply(d, s, &part, &at, done);
		if (rc)
			return rc;
		if (!*done && first)
			return zr_fail(d->h, ZR_EIO,
				       "matmul in 8 bits: cuBLASLt takes %lld rows of a product "
				       "and refuses %lld",
				       (long long)most, (long long)rows);
		if (!*done)
			return ZR_OK;
	}
	return ZR_OK;
}

int cuda_fp8(struct zr_inst *d, struct zr_stream *stream, const struct zr_op_matmul *op,
	     struct zr_op_matmul *rest)
{
	const struct fp8_work w = carve(op);
	struct zr_op_matmul codes = zr_narrowed(op);
	const int64_t parts = (op->k + ZR_CUDA_NARROW_PART - 1) / ZR_CUDA_NARROW_PART;
	cudaStream_t s = cuda_stream(d, stream);
	int rc, done = 0;

	rest->size = 0;
	codes.flags |= op->flags & (ZR_MM_FP8 | ZR_MM_E5M2_A);
	if (!(op->flags & ZR_MM_TRANS_B) && (uint64_t)(parts * op->n) * 4 > CUDA_PARTS)
		return zr_fail(d->h, ZR_ENOTSUP, "matmul in 8 bits: %lld x %lld are too many",
			       (long long)op->k, (long long)op->n);
	if (takes(d, op, &w)) {
		rc = cuda_result(d, narrow(d, s, op, &w, 1), "matmul: operands in 8 bits");
		if (!rc)
			rc = multiply_rows(d, s, &codes, &w, &done);
		if (rc || done)
			return rc;
	}

	*rest = zr_narrowed(op);
	return cuda_result(d, narrow(d, s, op, &w, 0), "matmul: operands of 8 bits");
}
