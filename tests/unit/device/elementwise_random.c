/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise_texts.h"

ZR_ELEMENTWISE_WITH_RANDOM(enum { STATES }; enum { SCALE, CONSTANTS };
			   static float update(const float *k, float g, float p, float *s,
					       uint32_t random) {
				   (void)g;
				   (void)p;
				   (void)s;
				   return (float)(((double)random + 0.5) * k[SCALE] - 1);
			   })

static void constants(int64_t step, double lr, float *k)
{
	(void)step;
	(void)lr;
	k[SCALE] = 0x1p-31f;
}

const struct text text_random = { &zr_ew_, 0, constants };
