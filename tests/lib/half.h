/* SPDX-License-Identifier: Apache-2.0
 *
 * half.h - fp16 from its definition (IEEE 754 binary16), in double arithmetic: what the conversions
 * of the kernels, which work on bits, are held to.
 */
#ifndef ZR_TESTS_HALF_H
#define ZR_TESTS_HALF_H

#include <math.h>
#include <stdint.h>

/* Ties to even. */
static inline uint16_t half_of(double x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	double units;
	int e;
	if (isnan(x))
		return sign | 0x7e00;
	if (isinf(x))
		return sign | 0x7c00;
	/* |x| = m 2^e, 1/2 <= m < 1; a unit of the last place is 2^(e-11), subnormals have the
	 * smallest's */
	frexp(x, &e);
	e = x == 0 || e < -13 ? -13 : e;
	/* 1024 to 2048, less if subnormal; 2048 carries into the exponent */
	units = rint(ldexp(fabs(x), 11 - e));
	return (uint16_t)(sign | (e > 16 ? 0x7c00 : (e + 14) * 1024 + (int)units - 1024));
}

static inline double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h & 0x8000 ? -x : x;
}

#endif
