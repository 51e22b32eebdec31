/* SPDX-License-Identifier: Apache-2.0
 *
 * state8.c - states of 8 bits (moments8.h) to fp32 and back; and random words of elements.
 */
#include "moments8.h"
#include "table.h"

void ZR_SCALAR(state8_get)(const void *codes, int root, float *x, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP)
		zr_get8(codes, i, zr_group8(i, hi), root, x + (i - lo));
}

void ZR_SCALAR(state8_put)(void *codes, int root, const float *x, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP)
		zr_put8(codes, i, zr_group8(i, hi), root, x + (i - lo));
}

void ZR_SCALAR(random_words)(const struct zr_rng *rng, uint32_t *w, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i += 4) {
		uint32_t four[4];
		zr_rng_block(rng, (uint64_t)i / 4, four);
		for (int k = 0; k < 4 && i + k < hi; k++)
			w[i - lo + k] = four[k];
	}
}
