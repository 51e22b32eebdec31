/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/experts.h - DRAFT. Of the operations of <zeroth/device.h>, whose rules hold here too,
 * those of a mixture of experts (Shazeer et al. 2017): a token's feed-forward part is that of the k
 * likeliest of its experts, weighed. Place i = token * k + j stands for the j-th expert of a token.
 * Sorted by expert, and in an expert by token, the places are the rows of the experts' products.
 * How many an expert has is known to device memory alone.
 */
#ifndef ZEROTH_EXPERTS_H
#define ZEROTH_EXPERTS_H

#include <zeroth/array.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_DEVICE
#define ZR_USES_DEVICE ZR_DRAFT_DEVICE

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_EXPERTS 256 /* at most */

/* p = softmax(logits) of each token. ids: the experts with the k largest logits, descending, the
 * lowest of equal ones first, and weights: their p, with ZR_ROUTE_NORMALISE divided by the sum of
 * these k. order[offsets[e] .. offsets[e + 1]) are the places of expert e, ascending, and where is
 * the inverse: order[where[i]] = i. With `sums`, added to those of `before`, what router_losses
 * needs of the rows that count, which are all whose target is not ZR_PADDING: sums[e] = places of
 * e, sums[experts + e] = sum of p[e], sums[2 experts] = sum of lse^2, sums[2 experts + 1] = their
 * number. GROWABLE. */
#define ZR_ROUTE_NORMALISE 1u
struct zr_op_route {
	uint32_t size, flags;
	int64_t rows, experts, k; /* tokens; k <= experts <= ZR_EXPERTS; rows * k < 2^31 */
	float *logits;            /* [rows, experts]; on return p */
	float *lse;               /* [rows]: log of the sum of exponentials */
	int32_t *ids;             /* [rows, k] */
	float *weights;           /* [rows, k] */
	int32_t *offsets;         /* [experts + 1] */
	int32_t *order, *where;   /* [rows * k] */
	const double *before;     /* [2 experts + 2]; NULL: 0 */
	double *sums;             /* the same; NULL: not wanted */
	const int32_t *targets;   /* [rows]; NULL: all rows count */
};

/* The losses of routers, from sums over `blocks` blocks of the same tokens:
 *   *loss = balance * experts * sum over e of f[e] P[e] + z * mean of lse^2
 * (Fedus et al. 2022, as transformers counts; Zoph et al. 2022), where f[e] is the number of places
 * of e per token, whose sum is k, and P[e] the mean of p[e]. All are 0 where no token counts. The
 * sums may be those of `parts` of the tokens, which are added in order first. GROWABLE. */
struct zr_op_router_losses {
	uint32_t size, flags;
	int64_t blocks, experts;
	float balance, z;
	const double *sums; /* [parts][2 experts + 2] */
	float *share;       /* [experts + 1]: f, and the tokens of each block */
	double *loss;
	int64_t parts; /* 0: 1 */
};

/* dlogits = gradient w.r.t. the logits of sum(dweights * weights) + balance * experts * sum of
 * share * P + z * mean of lse^2, P and mean over those of these tokens that count. GROWABLE. */
struct zr_op_route_bwd {
	uint32_t size, flags; /* as in the forward, like all that is read */
	int64_t rows, experts, k;
	float balance, z;
	const float *p;         /* [rows, experts] */
	const float *lse;       /* [rows] */
	const int32_t *ids;     /* [rows, k] */
	const float *weights;   /* [rows, k] */
	const float *share;     /* [experts + 1]; NULL where balance and z are 0 */
	const float *dweights;  /* [rows, k] */
	float *dlogits;         /* [rows, experts]; may be p */
	const int32_t *targets; /* [rows]; as in the forward */
};

/* out[s] = x[order[s] / k], s < rows * k: the tokens of each expert. GROWABLE. */
struct zr_op_expert_rows {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, k, width; /* rows of x */
	const int32_t *order;   /* [rows * k] */
	const void *x;          /* [rows, width] */
	void *out;              /* [rows * k, width] */
};

/* out[r] = sum over j = 0 .. k-1, in this order, of weights[r][j] * y[where[r * k + j]], in fp32
 * and rounded once. Without weights all are 1: the backward of expert_rows. GROWABLE. */
struct zr_op_expert_combine {
	uint32_t size, flags;
	int32_t dtype, out_dtype; /* of y, of out */
	int64_t rows, k, width;   /* rows of out */
	const int32_t *where;     /* [rows * k] */
	const float *weights;     /* [rows, k] or NULL */
	const void *y;            /* [rows * k, width] */
	void *out;                /* [rows, width] */
};

/* The backward of y[s] = weight of s * x[s], where i = order[s] is the place:
 *   dweights[i] = x[s] . dy[s];  x[s] *= weights[i];  dy[s] *= weights[i].
 * The dot product is in fp32: element c is added to lane c % 16, the lanes pairwise, half to half.
 * GROWABLE. */
struct zr_op_expert_weigh {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t places, width;
	const int32_t *order; /* [places]; NULL: order[s] = s */
	const float *weights; /* [places] by i */
	void *x, *dy;         /* [places, width] by s */
	float *dweights;      /* [places] by i */
};

/* For each expert e, D = or += A op(B[e]) in rows [offsets[e], offsets[e + 1]). Flags are
 * ZR_MM_TRANS_B and ZR_MM_ACCUMULATE. What a row gets depends on its row of A, on B[e], N and K
 * only. GROWABLE. */
struct zr_op_matmul_grouped {
	uint32_t size, flags;
	struct zr_array a, d; /* [rows, k], [rows, n] */
	int32_t b_dtype, rsv;
	int64_t rows, experts, n, k;
	const int32_t *offsets;    /* [experts + 1], device memory; the last at most `rows` */
	const void *b[ZR_EXPERTS]; /* [k, n], or with ZR_MM_TRANS_B [n, k]; NULL past the last */
};

/* For each expert e, dw[e] = or += (with ZR_OP_ACCUMULATE) dy^T x over its rows; NULL: not wanted.
 * Rows of tokens [c * ZR_EXPERT_CHUNK, (c + 1) * ZR_EXPERT_CHUNK) are summed from zero for each c,
 * and these sums are added with c ascending; chunks of which an expert has no token add nothing. Of
 * an expert without tokens dw is 0, or stays. GROWABLE. */
#define ZR_EXPERT_CHUNK 2048
struct zr_op_matmul_grouped_dw {
	uint32_t size, flags;
	int32_t dtype, rsv; /* of dy and x */
	int64_t rows, experts, m, n;
	int64_t k;              /* places of a token */
	const int32_t *offsets; /* [experts + 1] */
	const int32_t *order;   /* [rows]; NULL: all rows are of one chunk */
	const void *dy, *x;     /* [rows, m], [rows, n] */
	float *dw[ZR_EXPERTS];  /* [m, n]; NULL past the last */
};

#ifdef __cplusplus
}
#endif
#endif
