/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise_texts.h"

ZR_ELEMENTWISE_WITH_RANDOM(enum { A, B, C, D, E, F, G, H, STATES }; enum { RATE, HALF, CONSTANTS };
			   static float update(const float *k, float g, float p, float *s,
					       uint32_t random) {
				   s[A] = s[A] * k[HALF] + g;
				   s[B] = zr_exp(s[A] * k[HALF]);
				   s[C] = zr_min(s[B], zr_abs(g));
				   s[D] = zr_max(s[C], s[D]);
				   s[E] = zr_sign(s[A]) * zr_uniform(random);
				   s[F] = zr_sqrt(s[D] + s[F]);
				   s[G] = s[G] * k[HALF] + s[E] / (s[F] + k[HALF]);
				   s[H] = g > 0 ? s[G] * p : s[H] - p;
				   return p - k[RATE] * (s[G] + s[H]);
			   })

static void constants(int64_t step, double lr, float *k)
{
	(void)step;
	k[RATE] = (float)lr;
	k[HALF] = 0.5f;
}

const struct text text_many = { &zr_ew_, 1u << B | 1u << C | 1u << F, constants };
