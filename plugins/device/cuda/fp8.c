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

#include <string.h>

#define MULTIPLE 16 /* of M's, N's and K's elements, and of bytes */

/* Where an operation's work has what. */
struct fp8_work {
	void *a, *b;
	float *scale_a, *scale_b;
	uint32_t *part;
	float *sums; /* [m][n] */
	uint64_t bytes;
};

static void *take(struct fp8_work *w, uintptr_t base, uint64_t bytes)
{
	void *at = (void *)(base + w->bytes);
	w->bytes += (bytes + 255) / 256 * 256;
	return at;
}

/* Whether the GPU multiplies numbers of 8 bits, and whether cuBLASLt scales their sums by rows and
 * columns there. */
static int multiplies(const struct zr_inst *d)
{
	return d->capability >= 89;
}

static int scales_rows(const struct zr_inst *d)
{
	return CUDA_SCALES_ROWS && d->capability == 90;
}

static struct fp8_work carve(const struct zr_inst *d, const struct zr_op_matmul *op, void *base)
{
	const uintptr_t at = (uintptr_t)base;
	const int64_t parts = (op->k + ZR_CUDA_NARROW_PART - 1) / ZR_CUDA_NARROW_PART;
	struct fp8_work w = { 0 };

	w.a = take(&w, at, zr_bytes_of(ZR_BF16, op->m * op->k));
	w.scale_a = take(&w, at, zr_bytes_of(ZR_F32, op->m));
	w.b = take(&w, at, zr_bytes_of(ZR_BF16, op->k * op->n));
	w.scale_b = take(&w, at, zr_bytes_of(ZR_F32, op->n));
	if (!(op->flags & ZR_MM_TRANS_B))
		w.part = take(&w, at, (uint64_t)(parts * op->n) * sizeof *w.part);
	if (multiplies(d) && !scales_rows(d))
		w.sums = take(&w, at, zr_bytes_of(ZR_F32, op->m * op->n));
	return w;
}

uint64_t cuda_matmul_work(const struct zr_ops *ops, const struct zr_op_matmul *op)
{
	if (!(op->flags & ZR_MM_FP8))
		return 0;
	return carve(ops->dev, op, NULL).bytes;
}

/* ---- operands -------------------------------------------------------------------- */

/* Both, as codes or in bf16; op(A) as it is if the call before left it so. */
static cudaError_t narrow(struct zr_inst *d, cudaStream_t s, const struct zr_op_matmul *op,
			  const struct fp8_work *w, int codes)
{
	const int rows_of_b = (op->flags & ZR_MM_TRANS_B) != 0;
	const struct zr_cuda_narrowing a = { .of = { .rows = op->m,
						     .width = op->k,
						     .ld = op->lda,
						     .from = op->a.data,
						     .e5m2 = (op->flags & ZR_MM_E5M2_A) != 0 },
					     .to = w->a,
					     .scale = codes ? w->scale_a : NULL };
	const struct zr_cuda_narrowing b = { .of = { .rows = rows_of_b ? op->n : op->k,
						     .width = rows_of_b ? op->k : op->n,
						     .ld = op->ldb,
						     .from = op->b.data },
					     .to = w->b,
					     .scale = codes ? w->scale_b : NULL,
					     .part = w->part };
	cudaError_t e = cudaSuccess;

	if (!(op->flags & ZR_MM_SAME_A) || d->codes != codes)
		e = zr_cuda_narrow_rows(&a, s);
	d->codes = codes;
	if (e != cudaSuccess)
		return e;
	if (rows_of_b)
		return zr_cuda_narrow_rows(&b, s);
	return zr_cuda_narrow_columns(&b, s);
}

/* ---- the product of codes -------------------------------------------------------- */

/* A product of codes, of which cuBLASLt stores D as op says, or the sums in fp32. */
static cublasStatus_t describe(const struct zr_inst *d, struct product *p,
			       const struct zr_op_matmul *op, const struct fp8_work *w)
{
	const cudaDataType_t type_a = op->flags & ZR_MM_E5M2_A ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
	const cublasOperation_t turned = CUBLAS_OP_T;
	const int8_t fast = 0;
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

static int takes(const struct zr_inst *d, const struct zr_op_matmul *op)
{
	return multiplies(d) && op->k > 0 && op->k % MULTIPLE == 0 && op->n % MULTIPLE == 0 &&
	       op->m % MULTIPLE == 0 && op->ldd % MULTIPLE == 0 &&
	       (uintptr_t)op->d.data % MULTIPLE == 0 && (uintptr_t)op->bias % MULTIPLE == 0;
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
		    const struct fp8_work *w, const struct cuda_shape *shape, struct cuda_choice *c,
		    int *done)
{
	const int rows = scales_rows(d);
	const float one = 1, beta = rows && op->flags & ZR_MM_ACCUMULATE ? 1 : 0;
	void *to = rows ? op->d.data : w->sums;
	struct product p;

	cublasStatus_t e = describe(d, &p, op, w);
	if (memcmp(&c->shape, shape, sizeof *shape)) {
		c->shape = *shape;
		c->own = 0;
		if (!e)
			e = choose(d, &p, op, c);
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

/* op, its operands in its work. */
static struct zr_op_matmul narrowed(const struct zr_op_matmul *op, const struct fp8_work *w)
{
	struct zr_op_matmul to = *op;
	to.flags &= ~ZR_MM_SAME_A;
	to.a = zr_array_at(ZR_BF16, w->a);
	to.lda = op->k;
	to.b = zr_array_at(ZR_BF16, w->b);
	to.ldb = op->flags & ZR_MM_TRANS_B ? op->k : op->n;
	return to;
}

int cuda_fp8(struct zr_inst *d, struct zr_stream *stream, const struct zr_op_matmul *op,
	     struct zr_op_matmul *rest)
{
	const struct fp8_work w = carve(d, op, op->work);
	const struct zr_op_matmul in_work = narrowed(op, &w);
	const struct cuda_shape shape = cuda_shape_of(&in_work);
	struct cuda_choice *c = cuda_choice_of(d, &shape);
	const int known = !memcmp(&c->shape, &shape, sizeof shape);
	cudaStream_t s = cuda_stream(d, stream);
	int rc, done = 0;

	rest->size = 0;
	if (takes(d, op) && !(known && c->own)) {
		rc = cuda_result(d, narrow(d, s, op, &w, 1), "matmul: operands in 8 bits");
		if (!rc)
			rc = multiply(d, s, &in_work, &w, &shape, c, &done);
		if (rc || done)
			return rc;
	}

	*rest = in_work;
	rest->flags &= ~(ZR_MM_FP8 | ZR_MM_E5M2_A);
	return cuda_result(d, narrow(d, s, op, &w, 0), "matmul: operands of 8 bits");
}
