/* SPDX-License-Identifier: Apache-2.0
 *
 * half.h - fp16 from its definition (IEEE 754 binary16), in double arithmetic: what the conversions
 * of the kernels, which work on bits, are held to.
 */
#ifndef ZR_TESTS_HALF_H
#define ZR_TESTS_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2^e of a normal double. ldexp() would be most of the time of tests that read many elements. */
static inline double power_of_two(int e)
{
	const uint64_t bits = (uint64_t)(1023 + e) << 52;
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* Ties to even. */
static inline uint16_t half_of(double x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	uint64_t bits;
	double units;
	int e;
	if (isnan(x))
		return sign | 0x7e00;
	if (isinf(x))
		return sign | 0x7c00;
	memcpy(&bits, &x, sizeof bits);
	/* |x| = m 2^e, 1/2 <= m < 1, but for subnormal doubles */
	e = (int)(bits >> 52 & 2047) - 1022;
	/* a unit of the last place is 2^(e-11), subnormals have the smallest's */
	e = e < -13 ? -13 : e;
	/* 1024 to 2048, less if subnormal; 2048 carries into the exponent */
	units = rint(fabs(x) * power_of_two(11 - e));
	return (uint16_t)(sign | (e > 16 ? 0x7c00 : (e + 14) * 1024 + (int)units - 1024));
}

static inline double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double x = e == 31 ? (m ? NAN : INFINITY) :
		   e       ? (1024 + m) * power_of_two(e - 25) :
			     m * 0x1p-24;
	return h & 0x8000 ? -x : x;
}

#endif
