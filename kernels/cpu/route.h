/* SPDX-License-Identifier: Apache-2.0
 *
 * route.h - the routing of one token, and its gradient: the scalar kernels of experts.c, and those
 * of CUDA. Sums run over ascending experts, or over the k chosen ones in order.
 */
#ifndef ZEROTH_KERNELS_CPU_ROUTE_H
#define ZEROTH_KERNELS_CPU_ROUTE_H

#include "scalar.h"

/* The k experts with the largest logits, descending; also of NaNs k different ones. */
ZR_INLINE void zr_choose(const zr_real *logits, int64_t experts, int64_t k, int32_t *ids)
{
	uint32_t taken[ZR_EXPERTS / 32] = { 0 };

	for (int64_t j = 0; j < k; j++) {
		int64_t best = -1;
		for (int64_t e = 0; e < experts; e++)
			if (!(taken[e / 32] >> e % 32 & 1) &&
			    (best < 0 || logits[e] > logits[best]))
				best = e;
		taken[best / 32] |= 1u << best % 32;
		ids[j] = (int32_t)best;
	}
}

/* Token r: p, lse, ids, weights. */
ZR_INLINE void zr_route_token(const struct zr_op_route *op, int64_t r)
{
	zr_real *p = zr_reals(op->logits) + r * op->experts;
	zr_real *weights = zr_reals(op->weights) + r * op->k, max = p[0], sum = 0, chosen = 0;
	int32_t *ids = op->ids + r * op->k;

	zr_choose(p, op->experts, op->k, ids);
	for (int64_t e = 1; e < op->experts; e++)
		max = p[e] > max || p[e] != p[e] ? p[e] : max;
	for (int64_t e = 0; e < op->experts; e++) {
		p[e] = zr_exp(p[e] - max);
		sum += p[e];
	}
	for (int64_t j = 0; j < op->k; j++)
		chosen += p[ids[j]];
	for (int64_t j = 0; j < op->k; j++)
		weights[j] = p[ids[j]] / (op->flags & ZR_ROUTE_NORMALISE ? chosen : sum);
	for (int64_t e = 0; e < op->experts; e++)
		p[e] /= sum;
	zr_reals(op->lse)[r] = max + zr_ln(sum);
}

/* Whether token r counts in the losses of routers. */
ZR_INLINE int zr_route_counts(const int32_t *targets, int64_t r)
{
	return !targets || targets[r] != ZR_PADDING;
}

/* What the loss of balance adds to the gradient w.r.t. p[e] of every token that counts. */
ZR_INLINE zr_real zr_route_pull(const struct zr_op_route_bwd *op, int64_t e)
{
	const zr_real *share = zr_reals(op->share);

	return (zr_real)op->balance * (zr_real)op->experts * share[e] / share[op->experts];
}

/* Token r: dlogits. A softmax turns a gradient g w.r.t. its result p into p (g - sum of g p). */
ZR_INLINE void zr_route_token_bwd(const struct zr_op_route_bwd *op, int64_t r)
{
	const int normalise = !!(op->flags & ZR_ROUTE_NORMALISE);
	const zr_real *p = zr_reals(op->p) + r * op->experts;
	const zr_real *weights = zr_reals(op->weights) + r * op->k;
	const zr_real *dweights = zr_reals(op->dweights) + r * op->k;
	const int32_t *ids = op->ids + r * op->k;
	const int counts = op->share && zr_route_counts(op->targets, r);
	const int balanced = counts && op->balance != 0;
	zr_real *dlogits = zr_reals(op->dlogits) + r * op->experts, mean = 0, pull = 0, z = 0;

	if (counts)
		z = 2 * (zr_real)op->z / zr_reals(op->share)[op->experts] * zr_reals(op->lse)[r];

	for (int64_t j = 0; j < op->k; j++)
		mean += dweights[j] * weights[j];
	if (balanced)
		for (int64_t e = 0; e < op->experts; e++)
			pull += zr_route_pull(op, e) * p[e];
	for (int64_t e = 0; e < op->experts; e++) {
		zr_real g = z - pull - (normalise ? 0 : mean);
		if (balanced)
			g += zr_route_pull(op, e);
		dlogits[e] = p[e] * g;
	}

	for (int64_t j = 0; j < op->k; j++)
		dlogits[ids[j]] += weights[j] * (normalise ? dweights[j] - mean : dweights[j]);
}

#endif
