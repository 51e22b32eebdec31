/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.c - matrix products through cuBLASLt, bias and, in 16 bits, GELU's tanh form as its
 * epilogues; the other form is a pass of its own over the result, which is rounded before.
 * cuBLASLt counts columns first: it is asked for D^T[N, M] = op(B)^T op(A)^T, where every matrix as
 * stored is its own transpose, and N of ours is m of its.
 *
 * Deterministic: the algorithm is one of cuBLASLt's proposals for a shape, types and alignment, by
 * a rule that looks at nothing else, asked for once; the workspace is always the same; sums split
 * along K are added by a kernel of their own, in order. What cuBLASLt has no algorithm for, our own
 * kernel computes.
 *
 * A low-rank update is a product of its own, into D, to which the large one is added: so the small
 * term is rounded to D's type, and the sum once more with bias and GELU. Where it has dropout our
 * kernel computes it.
 */
#include "matmul.h"

#include <string.h>

#define PROPOSALS 8  /* that cuBLASLt is asked for */
#define WAVES     12 /* as often as tiles have to fill the GPU to be preferred */

static cudaDataType_t type_of(int32_t dtype)
{
	if (dtype == ZR_BF16)
		return CUDA_R_16BF;
	if (dtype == ZR_F16)
		return CUDA_R_16F;
	return CUDA_R_32F;
}

/* ---- the product as cuBLASLt describes it ---------------------------------------- */

cublasStatus_t cuda_product_set(struct product *p, cublasLtMatmulDescAttributes_t what,
				const void *value, size_t size)
{
	return cublasLtMatmulDescSetAttribute(&p->desc, what, value, size);
}

static cublasLtEpilogue_t epilogue_of(const struct zr_op_matmul *op)
{
	if (!(op->flags & ZR_MM_GELU))
		return op->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
	if (op->pre)
		return op->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
	return op->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
}

cublasStatus_t cuda_product_epilogue(struct product *p, const struct zr_op_matmul *op)
{
	const int aux = op->flags & ZR_MM_GELU && op->pre;
	cublasLtEpilogue_t e = epilogue_of(op);
	cudaDataType_t bias_type = type_of(op->b.dtype);
	cublasStatus_t s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
	if (!s && op->bias)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &op->bias,
				     sizeof op->bias);
	if (!s && op->bias)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type,
				     sizeof bias_type);
	if (!s && aux)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &op->pre,
				     sizeof op->pre);
	if (!s && aux) /* of the type of the result, which is what it means if none is said */
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &op->ldd,
				     sizeof op->ldd);
	return s;
}

cublasStatus_t cuda_product_layout(cublasLtMatrixLayoutOpaque_t *l, int32_t dtype, int64_t rows,
				   int64_t cols, int64_t ld, int trans)
{
	if (trans)
		return cublasLtMatrixLayoutInit(l, type_of(dtype), (uint64_t)cols, (uint64_t)rows,
						ld);
	return cublasLtMatrixLayoutInit(l, type_of(dtype), (uint64_t)rows, (uint64_t)cols, ld);
}

static cublasStatus_t describe(const struct zr_inst *d, struct product *p,
			       const struct zr_op_matmul *op)
{
	int ta = !!(op->flags & ZR_MM_TRANS_A), tb = !!(op->flags & ZR_MM_TRANS_B);
	const cublasOperation_t trans_a = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
	const cublasOperation_t trans_b = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasComputeType_t type = CUBLAS_COMPUTE_32F;
	if (d->tf32 && op->a.dtype == ZR_F32 && op->b.dtype == ZR_F32)
		type = CUBLAS_COMPUTE_32F_FAST_TF32;

	cublasStatus_t s = cublasLtMatmulDescInit(&p->desc, type, CUDA_R_32F);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a, sizeof trans_a);
	if (!s)
		s = cuda_product_set(p, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b, sizeof trans_b);
	if (!s)
		s = cuda_product_epilogue(p, op);
	if (!s)
		s = cuda_product_layout(&p->a, op->b.dtype, op->n, op->k, op->ldb, tb);
	if (!s)
		s = cuda_product_layout(&p->b, op->a.dtype, op->k, op->m, op->lda, ta);
	if (s)
		return s;
	return cuda_product_layout(&p->d, op->d.dtype, op->n, op->m, op->ldd, 0);
}

/* ---- algorithms ------------------------------------------------------------------ */

/* log2 of the bytes that p is aligned to, at most 16; of nothing: 16. */
static uint32_t aligned_log2(const void *p)
{
	uint32_t n = 0;
	while (n < 4 && (uintptr_t)p % (2u << n) == 0)
		n++;
	return n;
}

struct cuda_shape cuda_shape_of(const struct zr_op_matmul *op)
{
	struct cuda_shape s;
	memset(&s, 0, sizeof s); /* padding too: it is hashed */
	s.m = op->m;
	s.n = op->n;
	s.k = op->k;
	s.lda = op->lda;
	s.ldb = op->ldb;
	s.ldd = op->ldd;
	s.flags = op->flags | (op->bias ? 1u << 30 : 0) | (op->pre ? 1u << 31 : 0);
	s.types = (uint32_t)op->a.dtype | (uint32_t)op->b.dtype << 8 | (uint32_t)op->d.dtype << 16;
	s.aligned = aligned_log2(op->a.data) | aligned_log2(op->b.data) << 5 |
		    aligned_log2(op->d.data) << 10 | aligned_log2(op->bias) << 15 |
		    aligned_log2(op->pre) << 20;
	s.used = 1;
	return s;
}

static uint64_t hash_of(const struct cuda_shape *s)
{
	const unsigned char *p = (const unsigned char *)s;
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
	for (size_t i = 0; i < sizeof *s; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h ^ h >> 32;
}

struct cuda_choice *cuda_choice_of(const struct zr_inst *d, const struct cuda_shape *shape)
{
	uint64_t at = hash_of(shape);
	for (int i = 0; i < 16; i++) {
		struct cuda_choice *c = &d->choice[(at + (uint64_t)i) % CUDA_SHAPES];
		if (!c->shape.used || !memcmp(&c->shape, shape, sizeof *shape))
			return c;
	}
	return &d->choice[at % CUDA_SHAPES];
}

cublasStatus_t cuda_product_prefer(cublasLtMatmulPreferenceOpaque_t *p,
				   const struct zr_op_matmul *op)
{
	const size_t room = CUDA_WORKSPACE;
	/* parts in the workspace, then added in order */
	const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	const uint32_t a = 1u << aligned_log2(op->b.data), b = 1u << aligned_log2(op->a.data),
		       d = 1u << aligned_log2(op->d.data);
	cublasStatus_t s = cublasLtMatmulPreferenceInit(p);
	if (!s)
		s = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
	if (!s)
		s = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
	if (!s)
		s = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
	if (!s)
		s = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
	if (!s)
		s = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof d);
	if (s)
		return s;
	return cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
						    &d, sizeof d);
}

static int choose_own(const struct zr_inst *d, const struct zr_op_matmul *op, struct cuda_choice *c,
		      cublasStatus_t s, const char *lacks)
{
	zr_log(d->h, ZR_LOG_WARN,
	       "rank %d, GPU %d, matmul of %lld x %lld x %lld: cuBLASLt has no %s (%s): a kernel "
	       "of ours computes it, without tensor cores",
	       d->h->rank, d->device, (long long)op->m, (long long)op->n, (long long)op->k, lacks,
	       cublasLtGetStatusName(s));
	c->own = 1;
	return ZR_OK;
}

int cuda_product_is_refusal(cublasStatus_t s)
{
	return s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE ||
	       s == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* Of what an epilogue reads and writes beside the result cuBLASLt promises kernels for 16 bytes
 * only: its kernels for GELU's operand want rows that are multiples of 8, too. */
static int is_crooked(const struct zr_op_matmul *op)
{
	return aligned_log2(op->bias) < 4 || aligned_log2(op->pre) < 4 || (op->pre && op->ldd % 8);
}

/* Tiles that make large products 1.02 to 1.27 times as fast on Hopper as cuBLASLt's first proposal,
 * where they fill the GPU often enough; the best first. */
static const int32_t good_tile[] = { CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_MATMUL_TILE_176x128,
				     CUBLASLT_MATMUL_TILE_168x128 };

static int has_tile(const cublasLtMatmulHeuristicResult_t *found, int32_t tile)
{
	int32_t its = 0, split = 0;
	size_t n;
	return !found->state && found->wavesCount >= WAVES &&
	       !cublasLtMatmulAlgoConfigGetAttribute(&found->algo, CUBLASLT_ALGO_CONFIG_TILE_ID,
						     &its, sizeof its, &n) &&
	       !cublasLtMatmulAlgoConfigGetAttribute(&found->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
						     &split, sizeof split, &n) &&
	       its == tile && split == 1;
}

/* Which of n proposals. */
static int best_of(const struct zr_inst *d, const cublasLtMatmulHeuristicResult_t *found, int n)
{
	if (d->capability != 90)
		return 0;
	for (size_t k = 0; k < sizeof good_tile / sizeof *good_tile; k++)
		for (int i = 0; i < n; i++)
			if (has_tile(&found[i], good_tile[k]))
				return i;
	return 0;
}

/* cuBLASLt has no algorithm for some shapes, and no description of others: both are ours then. */
static int choose(const struct zr_inst *d, struct product *p, const struct zr_op_matmul *op,
		  struct cuda_choice *c, cublasStatus_t described)
{
	cublasLtMatmulPreferenceOpaque_t preference;
	cublasLtMatmulHeuristicResult_t found[PROPOSALS];
	int n = 0, best = 0;
	if (described)
		return choose_own(d, op, c, described, "description of it");
	if (is_crooked(op))
		return choose_own(d, op, c, CUBLAS_STATUS_NOT_SUPPORTED, "description of it");

	cublasStatus_t s = cuda_product_prefer(&preference, op);
	if (s)
		return cuda_blas_result(d, s, "matmul: preferences");

	s = cublasLtMatmulAlgoGetHeuristic(d->lt, &p->desc, &p->a, &p->b, &p->d, &p->d, &preference,
					   PROPOSALS, found, &n);
	if (s && !cuda_product_is_refusal(s))
		return cuda_blas_result(d, s, "matmul: choosing an algorithm");

	if (!s && n < 1)
		s = CUBLAS_STATUS_NOT_SUPPORTED;
	if (!s) {
		best = best_of(d, found, n);
		s = found[best].state;
	}
	if (s)
		return choose_own(d, op, c, s, "algorithm for it");

	c->own = 0;
	c->algo = found[best].algo;
	return ZR_OK;
}

/* ---- the operation --------------------------------------------------------------- */

/* update: it is that of this operation, with its gain; else NULL. */
static int own(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op,
	       const struct zr_op_matmul_low_rank *update)
{
	cudaStream_t stream = cuda_stream(d, s);
	cudaError_t e;
	d->last = "matmul";
	if (update)
		e = zr_cuda_low_rank_update(update, stream);
	else
		e = zr_cuda_matmul(op, stream);
	return cuda_result(d, e, "matmul");
}

/* Of any type, with D added or not; neither M nor N is 0, and no GELU where D is fp32. */
static int multiply(struct zr_inst *d, struct zr_stream *stream, const struct zr_op_matmul *op,
		    const struct zr_op_matmul_low_rank *update)
{
	const float gain = update ? update->gain : 1;
	const float beta = op->flags & ZR_MM_ACCUMULATE ? 1 : 0;
	struct cuda_shape shape = cuda_shape_of(op);
	struct cuda_choice *c;
	struct product p;
	int rc;
	if (op->k < 1 || op->a.dtype != op->b.dtype || (update && update->dropout > 0))
		return own(d, stream, op, update);

	cublasStatus_t described = describe(d, &p, op);
	c = cuda_choice_of(d, &shape);
	if (memcmp(&c->shape, &shape, sizeof shape)) {
		rc = choose(d, &p, op, c, described);
		if (rc)
			return rc;

		c->shape = shape;
	}

	if (c->own)
		return own(d, stream, op, update);
	if (described)
		return cuda_blas_result(d, described, "matmul: describing it");

	d->last = "matmul";
	cublasStatus_t e = cublasLtMatmul(d->lt, &p.desc, &gain, op->b.data, &p.a, op->a.data, &p.b,
					  &beta, op->d.data, &p.d, op->d.data, &p.d, &c->algo,
					  d->scratch, CUDA_WORKSPACE, cuda_stream(d, stream));
	if (!cuda_product_is_refusal(e))
		return cuda_blas_result(d, e, "matmul");

	rc = choose_own(d, op, c, e, "use for its own algorithm");
	if (rc)
		return rc;
	return own(d, stream, op, update);
}

/* Of 8 bits, or of any type. */
static int multiply_any(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op)
{
	struct zr_op_matmul rest;
	int rc;
	if (!(op->flags & ZR_MM_FP8))
		return multiply(d, s, op, NULL);

	rc = cuda_fp8(d, s, op, &rest);
	if (rc || !rest.size)
		return rc;
	return multiply(d, s, &rest, NULL);
}

/* low: its product is op; NULL: none */
static int with_update(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op,
		       const struct zr_op_matmul_low_rank *low)
{
	if (!low)
		return multiply_any(d, s, op);
	const struct zr_op_matmul update = zr_low_rank_update(low);
	struct zr_op_matmul rest = *op;
	rest.flags |= ZR_MM_ACCUMULATE;
	int rc = multiply(d, s, &update, low);
	if (rc)
		return rc;
	return multiply_any(d, s, &rest);
}

/* cuBLASLt's GELU is the tanh form, made for 16 bits: an fp32 result keeps all of its own. */
static int takes_gelu(const struct zr_op_matmul *op)
{
	if (op->flags & ZR_MM_FP8)
		return 0;
	return op->d.dtype != ZR_F32 && op->activation != ZR_ACT_GELU_ERF;
}

static int then_gelu(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op,
		     const struct zr_op_matmul_low_rank *low)
{
	struct zr_op_matmul_low_rank update;
	struct zr_op_matmul sum = *op;
	sum.flags &= ~ZR_MM_GELU;
	if (op->pre)
		sum.d.data = op->pre;
	sum.pre = NULL;
	if (low) {
		update = *low;
		update.product = sum;
		low = &update;
	}

	int rc = with_update(d, s, &sum, low);
	if (rc)
		return rc;

	const struct zr_cuda_gelu_args gelu = {
		.rows = op->m,
		.width = op->n,
		.ld = op->ldd,
		.dtype = op->d.dtype,
		.activation = op->activation ? op->activation : ZR_ACT_GELU_TANH,
		.from = sum.d.data,
		.to = op->d.data,
	};
	return cuda_result(d, zr_cuda_gelu(&gelu, cuda_stream(d, s)), "matmul, GELU");
}

static int run(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op,
	       const struct zr_op_matmul_low_rank *low)
{
	int rc = zr_check_matmul(d->h, op);
	if (rc || op->m < 1 || op->n < 1)
		return rc;
	if (op->flags & ZR_MM_GELU && !takes_gelu(op))
		return then_gelu(d, s, op, low);
	return with_update(d, s, op, low);
}

int cuda_matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	return run(ops->dev, s, op, NULL);
}

int cuda_matmul_low_rank(const struct zr_ops *ops, struct zr_stream *s,
			 const struct zr_op_matmul_low_rank *low)
{
	int rc = zr_check_first(ops->dev->h, "matmul_low_rank", low->first);
	if (rc)
		return rc;
	return run(ops->dev, s, &low->product, low);
}
