/* SPDX-License-Identifier: Apache-2.0
 *
 * signum.c - Signum (Bernstein et al. 2018), the sign of the momentum: an update of one element.
 */
#include <zeroth/elementwise.h>

struct signum {
	double lr, momentum;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct signum, "1e-4"),
	ZR_OPT_REAL(struct signum, momentum, "0.9", "Share of the last direction that is kept."),
	ZR_OPT_STATES(struct signum),
};

ZR_ELEMENTWISE(enum { M, STATES }; enum { LR, KEEP, FRESH, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[M] = k[KEEP] * s[M] + k[FRESH] * g;
		       return p - k[LR] * zr_sign(s[M]);
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE("momentum"), ZR_NO_STATE };

static void constants(const struct signum *o, const struct zr_opt_step *s, float *k)
{
	zr_round((double[]){ s->lr, o->momentum, 1 - o->momentum }, CONSTANTS, k);
}

ZR_ELEMENTWISE_OPTIMIZER(struct signum, .id = "signum", .version = "1", .license = "Apache-2.0",
			 .summary = "The sign of the momentum.");
