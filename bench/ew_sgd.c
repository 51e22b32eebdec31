/* SPDX-License-Identifier: Apache-2.0
 *
 * ew_sgd.c - SGD with momentum by an update of one element, for comparison with optimizer/sgd.
 */
#include <zeroth/elementwise.h>

struct sgd {
	double lr, momentum, weight_decay;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct sgd, "1e-3"),
	ZR_OPT_REAL(struct sgd, momentum, "0.9", "Share of the last direction that is kept."),
	ZR_OPT_REAL(struct sgd, weight_decay, "0", "Share that is added to the gradient."),
	ZR_OPT_STATES(struct sgd),
};

ZR_ELEMENTWISE(enum { M, STATES }; enum { LR, KEEP, DECAY, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       float d = g + k[DECAY] * p;
		       s[M] = k[KEEP] * s[M] + d;
		       return p - k[LR] * s[M];
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE("momentum_buffer"), ZR_NO_STATE };

static void constants(const struct sgd *o, const struct zr_opt_step *s, float *k)
{
	zr_round((double[]){ s->lr, o->momentum, o->weight_decay }, CONSTANTS, k);
}
ZR_ELEMENTWISE_OPTIMIZER(struct sgd, .id = "ew_sgd", .version = "1", .license = "Apache-2.0",
			 .summary = "SGD by an update of one element.");
