/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise_texts.h"

ZR_ELEMENTWISE(enum { M, V, STATES }; enum { KEEP, STEP, ROOT, EPS, B1, B1C, B2, B2C, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[M] = k[B1] * s[M] + k[B1C] * g;
		       s[V] = k[B2] * s[V] + k[B2C] * g * g;
		       return p * k[KEEP] - k[STEP] * s[M] / (zr_sqrt(s[V]) * k[ROOT] + k[EPS]);
	       })

static void constants(int64_t step, double lr, float *k)
{
	k[KEEP] = (float)(1 - lr * TEXT_DECAY);
	k[STEP] = (float)(lr / (1 - zr_power(TEXT_BETA1, step)));
	k[ROOT] = (float)(1 / zr_sqrt64(1 - zr_power(TEXT_BETA2, step)));
	k[EPS] = (float)TEXT_EPS;
	k[B1] = (float)TEXT_BETA1;
	k[B1C] = (float)(1 - TEXT_BETA1);
	k[B2] = (float)TEXT_BETA2;
	k[B2C] = (float)(1 - TEXT_BETA2);
}

const struct text text_adamw = { &zr_ew_, 1u << V, constants };
