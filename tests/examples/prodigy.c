/* SPDX-License-Identifier: Apache-2.0
 *
 * prodigy.c - Prodigy (Mishchenko, Defazio 2023): sums over all parameters say how far steps go.
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o prodigy.so prodigy.c
 */
#include <zeroth/elementwise.h>

struct prodigy {
	double lr, betas[2], beta3, eps, weight_decay, d0, d_coef, growth_rate;
	uint8_t use_bias_correction, safeguard_warmup;
	int32_t states;
};

#define REAL(f, def, doc) ZR_OPT_REAL(struct prodigy, f, def, doc)
#define FLAG(f, doc)      ZR_OPT(struct prodigy, f, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "", doc)
static const struct zr_opt options[] = {
	ZR_OPT_LR(struct prodigy, "1"),
	ZR_OPT(struct prodigy, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.9, 0.999", 0, 1, "",
	       "Decay of both averages per step."),
	REAL(beta3, "0", "Decay of sums; 0: the root of the second of betas."),
	REAL(eps, "1e-8", "Added to the root."),
	REAL(weight_decay, "0", "Share, times the length of a step, that it takes away."),
	REAL(d0, "1e-6", "First estimate of the length; not 0."),
	REAL(d_coef, "1", "Factor of the estimate."),
	REAL(growth_rate, "0", "Most growth of it per step; 0: any."),
	FLAG(use_bias_correction, "Corrects as Adam does."),
	FLAG(safeguard_warmup, "Leaves lr out of the sum below the estimate."),
	ZR_OPT_STATES(struct prodigy),
};

ZR_ELEMENTWISE_WITH_TOTALS(
	enum { M, V, S, P0, STATES }; enum { B1, C1, B2, C2, B3, C3, EPS, KEEP, DLR, CONSTANTS };
	enum { DOT, L1, SUMS }; static float update(const float *k, float g, float p, float *s) {
		s[M] = k[B1] * s[M] + k[C1] * g;
		s[V] = k[B2] * s[V] + k[C2] * (g * g);
		s[S] = k[B3] * s[S] + k[C3] * g;
		return p * k[KEEP] - k[DLR] * (s[M] / (zr_sqrt(s[V]) + k[EPS]));
	} static void measure(const float *k, float g, float p, const float *s, double *sum) {
		sum[DOT] = (double)g * (s[P0] - p);
		sum[L1] = zr_abs(k[B3] * s[S] + k[C3] * g);
	})

static const struct zr_elementwise_state states[] = { ZR_STATE("exp_avg"),
						      ZR_STATE_ROOT("exp_avg_sq"),
						      ZR_STATE_F32("s"), ZR_STATE_PARAM("p0"),
						      ZR_NO_STATE };
enum { D, D_MAX, NUMERATOR, RUN };
static const char *const run_names[] = { "d", "d_max", "d_numerator" };

#define BETA3(o) ((o)->beta3 > 0 ? (o)->beta3 : zr_sqrt64((o)->betas[1]))
/* What update t multiplies with, and the estimate d, which was `run`. */
static double length(const struct prodigy *o, double lr, int64_t t, const double *run, double *d)
{
	const double b1 = zr_power(o->betas[0], t), b2 = zr_power(o->betas[1], t);
	*d = t > 1 ? run[D] : o->d0;
	return *d * lr * (o->use_bias_correction ? zr_sqrt64(1 - b2) / (1 - b1) : 1);
}
static void advance(const struct prodigy *o, const struct zr_opt_update *u, double *run)
{
	double d, dlr = length(o, u->lr[0], u->step, run, &d), hat;
	run[D_MAX] = u->step > 1 ? run[D_MAX] : d;
	run[NUMERATOR] = BETA3(o) * run[NUMERATOR] + d / o->d0 * dlr * u->sums[DOT];
	hat = u->sums[L1] > 0 ? o->d_coef * run[NUMERATOR] / u->sums[L1] : d;
	run[D_MAX] = hat > run[D_MAX] ? hat : run[D_MAX];
	d = d == o->d0 && hat > d ? hat : d;
	run[D] = o->growth_rate > 0 && d * o->growth_rate < run[D_MAX] ? d * o->growth_rate :
									 run[D_MAX];
}
static void constants(const struct prodigy *o, const struct zr_opt_step *s, float *k)
{
	double d, dlr = length(o, s->lr, s->step, s->run_before, &d);
	const double b1 = o->betas[0], b2 = o->betas[1], add = o->safeguard_warmup ? d : dlr;
	zr_round((double[]){ b1, d * (1 - b1), b2, d * d * (1 - b2), BETA3(o), d / o->d0 * add,
			     s->run[D] * o->eps, 1 - dlr * o->weight_decay, dlr },
		 CONSTANTS, k);
}
ZR_ELEMENTWISE_RUN_OPTIMIZER(struct prodigy, .id = "prodigy", .version = "1",
			     .license = "Apache-2.0", .summary = "Prodigy.");
