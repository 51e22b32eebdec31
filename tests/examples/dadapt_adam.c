/* SPDX-License-Identifier: Apache-2.0
 *
 * dadapt_adam.c - Adam by D-Adaptation (Defazio, Mishchenko 2023), with decoupled decay: how far a
 * step goes is learned from sums over all parameters. lr scales that; leave it at 1.
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o dadapt_adam.so dadapt_adam.c
 */
#include <zeroth/elementwise.h>

struct dadapt {
	double lr, betas[2], eps, weight_decay, d0, growth_rate;
	uint8_t use_bias_correction;
	int32_t states;
};

static const struct zr_opt options[] = {
	ZR_OPT_LR(struct dadapt, "1"),
	ZR_OPT(struct dadapt, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.999", 0, 1, "",
	       "Decay of both averages per step."),
	ZR_OPT_REAL(struct dadapt, eps, "1e-8", "Added to the root."),
	ZR_OPT_REAL(struct dadapt, weight_decay, "0", "Share, times a step's length, taken away."),
	ZR_OPT_REAL(struct dadapt, d0, "1e-6", "First estimate of the length; not 0."),
	ZR_OPT_REAL(struct dadapt, growth_rate, "0", "Most growth of it per step; 0: any."),
	ZR_OPT(struct dadapt, use_bias_correction, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Corrects as Adam does."),
	ZR_OPT_STATES(struct dadapt),
};

ZR_ELEMENTWISE_WITH_TOTALS(
	enum { M, V, S, STATES }; enum { B1, C1, B2, C2, B3, C3, EPS, KEEP, CONSTANTS };
	enum { DOT, L1, SUMS }; static float update(const float *k, float g, float p, float *s) {
		s[M] = k[B1] * s[M] + k[C1] * g;
		s[V] = k[B2] * s[V] + k[C2] * (g * g);
		s[S] = k[B3] * s[S] + k[C3] * g;
		return p * k[KEEP] - s[M] / (zr_sqrt(s[V]) + k[EPS]);
	} static void measure(const float *k, float g, float p, const float *s, double *sum) {
		sum[DOT] = (double)g * (s[S] / (zr_sqrt(s[V]) + k[EPS])) + 0 * p;
		sum[L1] = zr_abs(k[B3] * s[S] + k[C3] * g);
	})

static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"),
						      ZR_STATE_ROOT("exp_avg_sq"),
						      ZR_STATE_F32("s"), ZR_NO_STATE };
enum { D, NUMERATOR, RUN };
static const char *const run_names[] = { "d", "numerator_weighted" };

/* What update t multiplies with, and the estimate d, which was `run`. */
static double length(const struct dadapt *o, double lr, int64_t t, const double *run, double *d)
{
	const double b1 = zr_power(o->betas[0], t), b2 = zr_power(o->betas[1], t);
	*d = t > 1 ? run[D] : o->d0;
	return *d * lr * (o->use_bias_correction ? zr_sqrt64(1 - b2) / (1 - b1) : 1);
}
static void advance(const struct dadapt *o, const struct zr_opt_update *u, double *run)
{
	double d, dlr = length(o, u->lr[0], u->step, run, &d), b3 = zr_sqrt64(o->betas[1]), hat;
	run[D] = d;
	if (!(u->sums[L1] > 0))
		return;
	run[NUMERATOR] = b3 * run[NUMERATOR] + (1 - b3) * dlr * u->sums[DOT];
	hat = run[NUMERATOR] / ((1 - b3) * u->sums[L1]);
	hat = o->growth_rate > 0 && d * o->growth_rate < hat ? d * o->growth_rate : hat;
	run[D] = hat > d ? hat : d;
}
static void constants(const struct dadapt *o, const struct zr_opt_step *s, float *k)
{
	double d, dlr = length(o, s->lr, s->step, s->run_before, &d);
	const double b1 = o->betas[0], b2 = o->betas[1], b3 = zr_sqrt64(b2);
	zr_round((double[]){ b1, dlr * (1 - b1), b2, 1 - b2, b3, dlr * (1 - b3), o->eps,
			     1 - dlr * o->weight_decay },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_RUN_OPTIMIZER(struct dadapt, .id = "dadapt_adam", .version = "1",
			     .license = "Apache-2.0",
			     .summary = "D-Adaptation: Adam that learns its step size.");
