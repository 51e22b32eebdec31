/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax.c - cross entropy of one row of logits x[V] against a target t, and its gradient in
 * place:
 *
 *   loss = log(sum over j of exp(x[j] - max)) + max - x[t]
 *   x[j] = (exp(x[j] - max) / sum - (j == t)) * scale        with backward
 *
 * softmax_part makes the gradient of a few columns alone, from the two numbers that the row left.
 * softmax_sums and softmax_end find these two from one block of columns after another.
 * softmax_right says whether t is the likeliest: of several largest logits the first one is.
 * The sum runs in eight interleaved lanes, added pairwise at the end: V reaches 50,000 and one
 * chain of fp32 additions would lose digits.
 */
#include "softmax.h"

#define LANES 8

zr_real ZR_SCALAR(softmax_loss)(zr_real *x, int64_t vocabulary, int32_t target, int backward,
				zr_real scale, zr_real *stats)
{
	zr_real lane[LANES] = { 0 }, max = x[0], sum, loss, factor;

	for (int64_t j = 1; j < vocabulary; j++)
		max = x[j] > max || x[j] != x[j] ? x[j] : max;
	loss = max - x[target];
	for (int64_t j = 0; j < vocabulary; j++) {
		zr_real e = zr_exp(x[j] - max);
		lane[j % LANES] += e;
		if (backward)
			x[j] = e;
	}

	sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
	      ((lane[4] + lane[5]) + (lane[6] + lane[7]));
	loss += zr_ln(sum);
	if (backward) {
		factor = scale / sum;
		for (int64_t j = 0; j < vocabulary; j++)
			x[j] *= factor;
		x[target] -= scale;
		if (stats) {
			stats[0] = max;
			stats[1] = factor;
		}
	}
	return loss;
}

void ZR_SCALAR(softmax_sums)(zr_real *x, int64_t n, int add, zr_real *stats)
{
	zr_real sum = 0, max = x[0];

	for (int64_t j = 1; j < n; j++)
		max = x[j] > max || x[j] != x[j] ? x[j] : max;
	for (int64_t j = 0; j < n; j++)
		sum += zr_exp(x[j] - zr_softmax_base(max));
	zr_softmax_join(stats, add, max, sum);
}

zr_real ZR_SCALAR(softmax_end)(zr_real *stats, zr_real target, zr_real scale)
{
	const zr_real loss = stats[0] - target + zr_ln(stats[1]);

	stats[1] = scale / stats[1];
	return loss;
}

void ZR_SCALAR(softmax_part)(zr_real *x, int64_t n, int64_t target, zr_real scale,
			     const zr_real *stats)
{
	for (int64_t j = 0; j < n; j++)
		x[j] = zr_exp(x[j] - stats[0]) * stats[1];
	if (target >= 0 && target < n)
		x[target] -= scale;
}

int ZR_SCALAR(softmax_right)(const zr_real *x, int64_t vocabulary, int32_t target)
{
	for (int64_t j = 0; j < vocabulary; j++)
		if (x[j] > x[target] || (j < target && x[j] == x[target]))
			return 0;
	return 1;
}
