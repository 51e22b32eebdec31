/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_texts.h - updates of one element by which elementwise updates are tested.
 */
#ifndef ZR_TESTS_ELEMENTWISE_TEXTS_H
#define ZR_TESTS_ELEMENTWISE_TEXTS_H

#include <zeroth/elementwise.h>

struct text {
	const struct zr_elementwise *e;
	uint32_t roots;
	/* constants of update `step` with this rate */
	void (*constants)(int64_t step, double lr, float *k);
};

/* What all of them compute with. */
#define TEXT_BETA1 0.9
#define TEXT_BETA2 0.995
#define TEXT_EPS   1e-6
#define TEXT_DECAY 0.1

extern const struct text text_adamw;  /* zr_op_adamw */
extern const struct text text_lamb;   /* zr_op_lamb, trust limited to [0.01, 10] */
extern const struct text text_random; /* p becomes U(-1,1) of zr_op_init, of word e */
extern const struct text text_both;   /* text_random, times the sum of p */
extern const struct text text_many;   /* eight states, and every function that a text may call */

#endif
