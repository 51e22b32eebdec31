/* SPDX-License-Identifier: Apache-2.0
 * ademamix.c - AdEMAMix (Pagliardini et al. 2024): AdamW with a second, slow average, warmed up. */
#include <zeroth/elementwise.h>
#include <math.h>
struct mix {
	double lr, betas[3], alpha, eps, weight_decay;
	uint64_t warmup;
	int32_t states;
};
static const struct zr_opt options[] = {
	ZR_OPT_LR(struct mix, "1e-3"),
	ZR_OPT(struct mix, betas, ZR_T_F64S, ZR_O_PER_GROUP | ZR_O_MIN_OPEN | ZR_O_MAX_OPEN,
	       "0.9, 0.999, 0.9999", 0, 1, "", "Decay of the averages: fast, of squares, slow."),
	ZR_OPT_REAL(struct mix, alpha, "5", "Weight of the slow average."),
	ZR_OPT_REAL(struct mix, eps, "1e-8", "Added to the root of the averaged square."),
	ZR_OPT_REAL(struct mix, weight_decay, "0", "Share, times lr, that a step takes away."),
	ZR_OPT(struct mix, warmup, ZR_T_COUNT, ZR_O_PER_GROUP, "0", 0, ZR_HI, "updates",
	       "Until alpha and the decay of the slow average have reached their values."),
	ZR_OPT_STATES(struct mix),
};
ZR_ELEMENTWISE(enum { M, SLOW, V, STATES };
	       enum { LR, KEEP, B1, C1, B2, C2, B3, C3, FAST, ALPHA, ROOT, EPS, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[M] = k[B1] * s[M] + k[C1] * g;
		       s[SLOW] = k[B3] * s[SLOW] + k[C3] * g;
		       s[V] = k[B2] * s[V] + k[C2] * (g * g);
		       float both = s[M] * k[FAST] + k[ALPHA] * s[SLOW];
		       return p * k[KEEP] - k[LR] * (both / (zr_sqrt(s[V]) * k[ROOT] + k[EPS]));
	       })
static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"), ZR_STATE("exp_avg_slow"),
						      ZR_STATE_ROOT("exp_avg_sq"), ZR_NO_STATE };
static void constants(const struct mix *o, const struct zr_opt_step *s, float *k)
{
	const double *b = o->betas, w = (double)o->warmup, x = s->step < w ? s->step / w : 1;
	const double l1 = log(b[0]), l3 = log(b[2]), b3 = exp(l1 * l3 / ((1 - x) * l3 + x * l1));
	zr_round((double[]){ s->lr, 1 - s->lr * o->weight_decay, b[0], 1 - b[0], b[1], 1 - b[1], b3,
			     1 - b3, 1 / (1 - zr_power(b[0], s->step)), o->alpha * x,
			     1 / sqrt(1 - zr_power(b[1], s->step)), o->eps },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_OPTIMIZER(struct mix, .id = "ademamix", .version = "1", .license = "Apache-2.0",
			 .summary = "AdamW with a second, slow average.");
