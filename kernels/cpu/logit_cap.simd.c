/* SPDX-License-Identifier: Apache-2.0
 *
 * logit_cap.simd.c - logit_cap.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void cap_lanes(float *x, float gain, float softcap, int n)
{
	vf y = vload_n(x, 0, ZR_F32, n) * vset(gain);

	if (softcap > 0)
		y = vset(softcap) * vtanh(y * vset(1 / softcap));
	vstore_n(x, 0, ZR_F32, y, n);
}

void ZR_SIMD(logit_cap)(const struct zr_op_logit_cap *op, int64_t lo, int64_t hi)
{
	const float gain = zr_gain(op->gain);
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		cap_lanes(op->x + i, gain, op->softcap, ZR_W);
	if (i < hi)
		cap_lanes(op->x + i, gain, op->softcap, (int)(hi - i));
}

/* x: what logit_cap left */
ZR_INLINE void slope_lanes(const float *x, float *grad, float gain, float softcap, int n)
{
	vf g = vload_n(grad, 0, ZR_F32, n), t;

	if (softcap > 0) {
		t = vload_n(x, 0, ZR_F32, n) * vset(1 / softcap);
		g = g * (vfma(vset(-1) * t, t, vset(1)) * vset(gain));
	} else {
		g = g * vset(gain);
	}
	vstore_n(grad, 0, ZR_F32, g, n);
}

void ZR_SIMD(logit_cap_bwd)(const struct zr_op_logit_cap *op, float *grad)
{
	const float gain = zr_gain(op->gain);
	int64_t i = 0;

	for (; i + ZR_W <= op->n; i += ZR_W)
		slope_lanes(op->x + i, grad + i, gain, op->softcap, ZR_W);
	if (i < op->n)
		slope_lanes(op->x + i, grad + i, gain, op->softcap, (int)(op->n - i));
}
