/* SPDX-License-Identifier: Apache-2.0
 *
 * schedulefree.c - Schedule-Free AdamW (Defazio et al. 2024): gradients are those at parameters
 * between the fast z and its average x, with which models are evaluated ([train] eval_weights).
 * Take [scheduler] plugin = constant: it needs no other.
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o schedulefree.so schedulefree.c
 */
#include <zeroth/elementwise.h>

struct free {
	double lr, betas[2], eps, weight_decay;
	int64_t warmup_steps, r, weight_lr_power;
	int32_t states;
};

#define WHOLE(f, def, doc) ZR_OPT(struct free, f, ZR_T_I64, ZR_O_NUMERIC, def, 0, ZR_HI, "", doc)
static const struct zr_opt options[] = {
	ZR_OPT_LR(struct free, "0.0025"),
	ZR_OPT(struct free, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.999", 0, 1, "",
	       "Share of x in the parameters; decay of the average of squares."),
	ZR_OPT_REAL(struct free, eps, "1e-8", "Added to the root."),
	ZR_OPT_REAL(struct free, weight_decay, "0", "Share, times lr, that a step takes away."),
	WHOLE(warmup_steps, "0", "Updates until lr is reached."),
	WHOLE(r, "0", "Power of the update by which x weighs it."),
	WHOLE(weight_lr_power, "2", "Power of the largest lr by which x weighs an update."),
	ZR_OPT_STATES(struct free),
};

ZR_ELEMENTWISE(enum { V, Z, X, STATES };
	       enum { B1, B2, C2, FIX2, EPS, DECAY, LR, SHARE, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[V] = k[B2] * s[V] + k[C2] * (g * g);
		       s[Z] -= k[LR] * (g / (zr_sqrt(s[V] / k[FIX2]) + k[EPS]) + k[DECAY] * p);
		       s[X] += k[SHARE] * (s[Z] - s[X]);
		       return s[Z] + k[B1] * (s[X] - s[Z]);
	       })

static const struct zr_elementwise_state states[] = { ZR_STATE_ROOT("exp_avg_sq"),
						      ZR_STATE_PARAM("z"), ZR_STATE_EVAL("x"),
						      ZR_NO_STATE };
enum { LR_MAX, WEIGHT_SUM, OF_LAST, RUN };
static const char *const run_names[] = { "lr_max", "weight_sum", "share" };

static double rate(const struct free *o, double lr, int64_t t)
{
	return t < o->warmup_steps ? lr * (double)t / (double)o->warmup_steps : lr;
}
static void advance(const struct free *o, const struct zr_opt_update *u, double *run)
{
	const double lr = rate(o, u->lr[0], u->step);
	run[LR_MAX] = lr > run[LR_MAX] ? lr : run[LR_MAX];
	const double weight =
		zr_power((double)u->step, o->r) * zr_power(run[LR_MAX], o->weight_lr_power);
	run[WEIGHT_SUM] += weight;
	run[OF_LAST] = weight > 0 ? weight / run[WEIGHT_SUM] : 0;
}
static void constants(const struct free *o, const struct zr_opt_step *s, float *k)
{
	const double b1 = o->betas[0], b2 = o->betas[1];
	zr_round((double[]){ b1, b2, 1 - b2, 1 - zr_power(b2, s->step), o->eps, o->weight_decay,
			     rate(o, s->lr, s->step), s->run[OF_LAST] },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_RUN_OPTIMIZER(struct free, .id = "schedulefree", .version = "1",
			     .license = "Apache-2.0", .summary = "Schedule-Free AdamW.");
