/* SPDX-License-Identifier: Apache-2.0
 *
 * ew_adamw.c - AdamW by an update of one element, for comparison with optimizer/adamw: the same
 * bits.
 */
#include <zeroth/elementwise.h>

struct adamw {
	double lr, betas[2], eps, weight_decay;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct adamw, "1e-3"),
	ZR_OPT(struct adamw, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.999", 0, 1, "",
	       "Decay per step of the averages of the gradient and of its square."),
	ZR_OPT_REAL(struct adamw, eps, "1e-8", "Added to the root of the averaged square."),
	ZR_OPT_REAL(struct adamw, weight_decay, "0", "Share, times lr, that a step takes away."),
	ZR_OPT_STATES(struct adamw),
};

ZR_ELEMENTWISE(enum { M, V, STATES }; enum { KEEP, STEP, ROOT, EPS, B1, C1, B2, C2, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[M] = k[B1] * s[M] + k[C1] * g;
		       s[V] = k[B2] * s[V] + k[C2] * g * g;
		       return p * k[KEEP] - k[STEP] * s[M] / (zr_sqrt(s[V]) * k[ROOT] + k[EPS]);
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"),
						      ZR_STATE_ROOT("exp_avg_sq"), ZR_NO_STATE };

static void constants(const struct adamw *o, const struct zr_opt_step *s, float *k)
{
	const double *b = o->betas, lr = (float)s->lr;
	zr_round((double[]){ 1 - lr * o->weight_decay, lr / (1 - zr_power(b[0], s->step)),
			     1 / zr_sqrt64(1 - zr_power(b[1], s->step)), o->eps, b[0], 1 - b[0],
			     b[1], 1 - b[1] },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_OPTIMIZER(struct adamw, .id = "ew_adamw", .version = "1", .license = "Apache-2.0",
			 .summary = "AdamW by an update of one element.");
