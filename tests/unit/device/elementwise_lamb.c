/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise_texts.h"

ZR_ELEMENTWISE_WITH_SUMS(
	enum { M, V, STATES }; enum { LR, DECAY, MEAN, ROOT, EPS, B1, B1C, B2, B2C, CONSTANTS };
	enum { P, R, SUMS };

	static float direction(const float *k, float g, float p, float *s) {
		s[M] = k[B1] * s[M] + k[B1C] * g;
		s[V] = k[B2] * s[V] + k[B2C] * g * g;
		return s[M] * k[MEAN] / (zr_sqrt(s[V]) * k[ROOT] + k[EPS]) + k[DECAY] * p;
	}

	static void measure(const float *k, float g, float p, const float *s, double *sum) {
		float next[STATES] = { s[M], s[V] };
		double r = direction(k, g, p, next);
		sum[P] = (double)p * p;
		sum[R] = r * r;
	}

	static void use(float *k, const double *total) {
		double p = zr_sqrt64(total[P]);
		double r = zr_sqrt64(total[R]);
		double trust = p > 0 && r > 0 ? p / r : 1;
		if (p > 0 && r > 0)
			trust = trust < 0.01 ? 0.01 : trust > 10 ? 10 : trust;
		k[LR] = (float)(k[LR] * trust);
	}

	static float update(const float *k, float g, float p, float *s) {
		return p - k[LR] * direction(k, g, p, s);
	})

static void constants(int64_t step, double lr, float *k)
{
	k[LR] = (float)lr;
	k[DECAY] = (float)TEXT_DECAY;
	k[MEAN] = (float)(1 / (1 - zr_power(TEXT_BETA1, step)));
	k[ROOT] = (float)(1 / zr_sqrt64(1 - zr_power(TEXT_BETA2, step)));
	k[EPS] = (float)TEXT_EPS;
	k[B1] = (float)TEXT_BETA1;
	k[B1C] = (float)(1 - TEXT_BETA1);
	k[B2] = (float)TEXT_BETA2;
	k[B2C] = (float)(1 - TEXT_BETA2);
}

const struct text text_lamb = { &zr_ew_, 1u << V, constants };
