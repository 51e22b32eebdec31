/* SPDX-License-Identifier: Apache-2.0
 *
 * double_simd.h - functions of elementary.h in vectors of fp64, by the same operations in the same
 * order.
 */
#ifndef ZEROTH_KERNELS_CPU_DOUBLE_SIMD_H
#define ZEROTH_KERNELS_CPU_DOUBLE_SIMD_H

#include "simd.h"

typedef uint64_t vq __attribute__((vector_size(sizeof(vd)))); /* as many integers */

/* Lanes below 2^52 as doubles, exactly: they become the low bits of 2^52 and more. */
ZR_INLINE vd unsigned_to_double(vq x)
{
	return (vd)(x | 0x4330000000000000u) - 0x1p52;
}

/* The low `bits` of each lane as a signed number. */
ZR_INLINE vd signed_to_double(vq x, int bits)
{
	const uint64_t sign = 1ull << (bits - 1);
	return unsigned_to_double((x & (2 * sign - 1)) ^ sign) - (double)sign;
}

/* Bits of zr_logd. */
ZR_INLINE vd vlogd(vd x)
{
	const vq u = (vq)x, e = (u - 0x3fe6a09e667f3bcdu) >> 52;
	const vd m = (vd)(u - (e << 52)), f = (m - 1.0) / (m + 1.0), s = f * f;
	const vd p = ZR_LOG_SERIES(vdset(1.0 / 17), s);
	return signed_to_double(e, 12) * 0x1.62e42fefa39efp-1 + (2.0 * f + 2.0 * f * (s * p));
}

/* Bits of zr_cos_turn, of the low 32 bits of each lane. */
ZR_INLINE vd vcos_turn(vq w)
{
	const vq t = w + 0x40000000u, far = -((t ^ t << 1) >> 31 & 1);
	const vd x = signed_to_double((t ^ far) + (far & 0x80000001u), 32) * 0x1.921fb54442d18p-30,
		 s = x * x;
	const vd p = ZR_SINE_SERIES(vdset(1.0 / 355687428096000.0), s);
	return x + x * (s * p);
}

#endif
