/* SPDX-License-Identifier: Apache-2.0
 *
 * exact.c - see exact.h. Digit i weighs 2^(32 i - 1088).
 */
#include "core/base/exact.h"

#include <math.h>
#include <string.h>

#define BIAS        1088
#define CARRY_AFTER (1 << 30)

/* Brings every limb but the top one into [0, 2^32): the number is unchanged. */
static void carry(struct zr_exact *e)
{
	for (int i = 0; i < ZR_EXACT_LIMBS - 1; i++) {
		int64_t up = e->limb[i] >> 32; /* floor: arithmetic shift */
		e->limb[i] -= up * ((int64_t)1 << 32);
		e->limb[i + 1] += up;
	}
	e->adds = 0;
}

void zr_exact_add(struct zr_exact *e, double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	int exponent = (int)(bits >> 52 & 0x7ff);
	uint64_t mantissa = bits & 0xfffffffffffffu;
	if (exponent == 0x7ff) {
		e->nonfinite++;
		return;
	}
	if (exponent)
		mantissa |= (uint64_t)1 << 52;
	else
		exponent = 1;
	int shift = exponent - 1075 + BIAS; /* value = mantissa * 2^(shift - BIAS), shift >= 14 */
	int digit = shift / 32;
	unsigned __int128 wide = (unsigned __int128)mantissa << (shift % 32); /* < 2^85 */
	int64_t sign = bits >> 63 ? -1 : 1;

	for (int i = 0; i < 3; i++)
		e->limb[digit + i] += sign * (int64_t)(uint32_t)(wide >> (32 * i));
	if (++e->adds == CARRY_AFTER)
		carry(e);
}

void zr_exact_merge(struct zr_exact *e, const struct zr_exact *other)
{
	struct zr_exact o = *other;
	carry(&o);
	for (int i = 0; i < ZR_EXACT_LIMBS; i++)
		e->limb[i] += o.limb[i];
	e->nonfinite += o.nonfinite;
	if (++e->adds == CARRY_AFTER)
		carry(e);
}

/* Magnitude with all digits in [0, 2^32): rounds the top 53 bits, sticky bits below included. */
static double round_digits(const struct zr_exact *e)
{
	int top = ZR_EXACT_LIMBS - 1;
	while (top >= 0 && !e->limb[top])
		top--;
	if (top < 0)
		return 0;

	unsigned __int128 head = 0; /* the top three digits: at least 65 bits of precision */
	for (int i = top; i > top - 3; i--) {
		head <<= 32;
		if (i >= 0)
			head |= (uint64_t)e->limb[i];
	}

	int sticky = 0;
	for (int i = top - 3; i >= 0; i--)
		sticky |= e->limb[i] != 0;
	/* the conversion rounds once: what is below the top digits cannot be but the last bit */
	return ldexp((double)(head | (unsigned)sticky), 32 * (top - 2) - BIAS);
}

double zr_exact_value(struct zr_exact *e)
{
	if (e->nonfinite)
		return NAN;

	carry(e);
	if (e->limb[ZR_EXACT_LIMBS - 1] >= 0)
		return round_digits(e);

	struct zr_exact neg = *e;
	for (int i = 0; i < ZR_EXACT_LIMBS; i++)
		neg.limb[i] = -neg.limb[i];
	carry(&neg);
	return -round_digits(&neg);
}
