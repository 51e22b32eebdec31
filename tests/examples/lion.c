/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.c - Lion (Chen et al. 2023) as an update of one element, for every device:
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o lion.so lion.c
 */
#include <zeroth/elementwise.h>

struct lion {
	double lr, betas[2], weight_decay;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct lion, "1e-4"),
	ZR_OPT(struct lion, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.99", 0, 1, "",
	       "Share of the average in the direction of a step, and its decay per step."),
	ZR_OPT_REAL(struct lion, weight_decay, "0", "Share, times lr, that a step takes away."),
	ZR_OPT_STATES(struct lion),
};

ZR_ELEMENTWISE(enum { M, STATES }; enum { LR, KEEP, B1, C1, B2, C2, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       float direction = zr_sign(k[B1] * s[M] + k[C1] * g);
		       s[M] = k[B2] * s[M] + k[C2] * g;
		       return p * k[KEEP] - k[LR] * direction;
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"), ZR_NO_STATE };

static void constants(const struct lion *o, const struct zr_opt_step *s, float *k)
{
	const double *b = o->betas, lr = (float)s->lr;
	zr_round((double[]){ lr, 1 - lr * o->weight_decay, b[0], 1 - b[0], b[1], 1 - b[1] },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_OPTIMIZER(struct lion, .id = "lion", .version = "1", .license = "Apache-2.0",
			 .summary = "Lion: the sign of an average.");
