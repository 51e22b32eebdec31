/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax.simd.c - softmax cross entropy of one row, as softmax.c, in two passes over the logits:
 * the maximum; exponentials and their sum. The gradient scales in a third. Four vectors of sums.
 */
#include "simd.h"
#include "softmax.h"

#define SUMS 4

static float row_max(const float *x, int64_t n)
{
	vf m[SUMS];
	int64_t j = 0;
	int i;

	for (i = 0; i < SUMS; i++)
		m[i] = vset(x[0]);
	for (; j + SUMS * ZR_W <= n; j += SUMS * ZR_W)
		for (i = 0; i < SUMS; i++)
			m[i] = vmax(vload_f32(x + j + i * ZR_W), m[i]);
	for (; j < n; j += ZR_W) {
		int lanes = vlanes(n - j);
		m[0] = vmax(vfirst(vload_f32_n(x + j, lanes), lanes, m[0]), m[0]);
	}
	return vmaxh(vmax(vmax(m[0], m[1]), vmax(m[2], m[3])));
}

/* Sum of exp(x - max); with store they replace x. */
ZR_INLINE float row_exp(float *x, int64_t n, float max, const int store)
{
	vf s[SUMS], e, c = vset(max);
	int64_t j = 0;
	int i;

	for (i = 0; i < SUMS; i++)
		s[i] = vset(0);
	for (; j + SUMS * ZR_W <= n; j += SUMS * ZR_W)
		for (i = 0; i < SUMS; i++) {
			e = vexp(vload_f32(x + j + i * ZR_W) - c);
			s[i] = s[i] + e;
			if (store)
				vstore_f32(x + j + i * ZR_W, e);
		}
	for (; j < n; j += ZR_W) {
		int lanes = vlanes(n - j);
		e = vfirst(vexp(vload_f32_n(x + j, lanes) - c), lanes, vset(0));
		s[0] = s[0] + e;
		if (store)
			vstore_f32_n(x + j, e, lanes);
	}
	return vsum((s[0] + s[1]) + (s[2] + s[3]));
}

static void row_scale(float *x, int64_t n, float factor)
{
	vf f = vset(factor);
	int64_t j = 0;
	for (; j + ZR_W <= n; j += ZR_W)
		vstore_f32(x + j, vload_f32(x + j) * f);
	if (j < n)
		vstore_f32_n(x + j, vload_f32_n(x + j, (int)(n - j)) * f, (int)(n - j));
}

float ZR_SIMD(softmax_loss)(float *x, int64_t vocabulary, int32_t target, int backward, float scale,
			    float *stats)
{
	float max = row_max(x, vocabulary), loss = max - x[target], sum;
	if (!backward)
		return loss + zr_ln(row_exp(x, vocabulary, max, 0));

	sum = row_exp(x, vocabulary, max, 1);
	row_scale(x, vocabulary, scale / sum);
	x[target] -= scale;
	if (stats) {
		stats[0] = max;
		stats[1] = scale / sum;
	}
	return loss + zr_ln(sum);
}

void ZR_SIMD(softmax_sums)(float *x, int64_t n, int add, float *stats)
{
	const float max = row_max(x, n);
	zr_softmax_join(stats, add, max, row_exp(x, n, zr_softmax_base(max), 0));
}

void ZR_SIMD(softmax_part)(float *x, int64_t n, int64_t target, float scale, const float *stats)
{
	row_exp(x, n, stats[0], 1);
	row_scale(x, n, stats[1]);
	if (target >= 0 && target < n)
		x[target] -= scale;
}

int ZR_SIMD(softmax_right)(const float *x, int64_t vocabulary, int32_t target)
{
	return (target == 0 || row_max(x, target) < x[target]) &&
	       row_max(x + target, vocabulary - target) <= x[target];
}
