/* SPDX-License-Identifier: Apache-2.0 */
#include "elementwise_texts.h"

ZR_ELEMENTWISE_WITH_SUMS_AND_RANDOM(
	enum { STATES }; enum { SCALE, CONSTANTS }; enum { P, SUMS };

	static void measure(const float *k, float g, float p, const float *s, double *sum) {
		(void)k;
		(void)g;
		(void)s;
		sum[P] = p;
	}

	static void use(float *k, const double *total) { k[SCALE] = (float)(0x1p-31 * total[P]); }

	static float update(const float *k, float g, float p, float *s, uint32_t random) {
		(void)g;
		(void)p;
		(void)s;
		return (float)(((double)random + 0.5) * k[SCALE] - 1);
	})

static void constants(int64_t step, double lr, float *k)
{
	(void)step;
	(void)lr;
	k[SCALE] = 0;
}

const struct text text_both = { &zr_ew_, 0, constants };
