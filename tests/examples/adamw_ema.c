/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw_ema.c - AdamW (Loshchilov, Hutter 2019), whose models are evaluated with a moving average
 * of the parameters ([train] eval_weights).
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o adamw_ema.so adamw_ema.c
 */
#include <zeroth/elementwise.h>

struct adamw {
	double lr, betas[2], eps, weight_decay, ema_decay;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct adamw, "1e-3"),
	ZR_OPT(struct adamw, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.999", 0, 1, "",
	       "Decay of both averages per step."),
	ZR_OPT_REAL(struct adamw, eps, "1e-8", "Added to the root."),
	ZR_OPT_REAL(struct adamw, weight_decay, "0.01", "Share, times lr, that a step takes away."),
	ZR_OPT(struct adamw, ema_decay, ZR_T_F64, ZR_O_PER_GROUP, "0.999", 0, 1, "",
	       "Decay of the average of parameters per step."),
	ZR_OPT_STATES(struct adamw),
};

ZR_ELEMENTWISE(enum { M, V, EMA, STATES };
	       enum { B1, C1, B2, C2, FIX2, EPS, KEEP, LR, SHARE, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[M] = k[B1] * s[M] + k[C1] * g;
		       s[V] = k[B2] * s[V] + k[C2] * (g * g);
		       p = p * k[KEEP] - k[LR] * (s[M] / (zr_sqrt(s[V] / k[FIX2]) + k[EPS]));
		       s[EMA] += k[SHARE] * (p - s[EMA]);
		       return p;
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"),
						      ZR_STATE_ROOT("exp_avg_sq"),
						      ZR_STATE_EVAL("ema"), ZR_NO_STATE };

static void constants(const struct adamw *o, const struct zr_opt_step *s, float *k)
{
	const double b1 = o->betas[0], b2 = o->betas[1];
	zr_round((double[]){ b1, 1 - b1, b2, 1 - b2, 1 - zr_power(b2, s->step), o->eps,
			     1 - s->lr * o->weight_decay, s->lr / (1 - zr_power(b1, s->step)),
			     1 - o->ema_decay },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_OPTIMIZER(struct adamw, .id = "adamw_ema", .version = "1", .license = "Apache-2.0",
			 .summary = "AdamW with an average of the parameters.");
