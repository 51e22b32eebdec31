/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.c - numbers of 8 bits, in bf16, of rows and of columns, scalar.
 */
#include "narrow.h"

/* n elements, `step` apart in both matrices. */
static uint32_t most_of(const uint16_t *from, int64_t n, int64_t step)
{
	uint32_t most = 0;
	for (int64_t i = 0; i < n; i++) {
		const uint32_t magnitude = (uint32_t)(from[i * step] & 0x7fffu) << 16;
		most = magnitude > most ? magnitude : most;
	}
	return most;
}

static void narrow(const struct zr_narrowing *n, const uint16_t *from, int64_t from_step,
		   uint16_t *to, int64_t to_step, int64_t length)
{
	const struct zr_narrow_kind kind = zr_narrow_kind_of(n->e5m2);
	const uint32_t most = most_of(from, length, from_step);
	const int32_t power = zr_narrow_power(kind, most);

	for (int64_t i = 0; i < length; i++) {
		float x = zr_from_bits((uint32_t)from[i * from_step] << 16);
		if (zr_narrow_is_finite(most))
			x = zr_narrow_round(kind, x * zr_power_of_two(power)) *
			    zr_power_of_two(-power);
		else
			x = zr_from_bits(0x7fc00000u);
		to[i * to_step] = (uint16_t)(zr_bits(x) >> 16); /* exact */
	}
}

void ZR_SCALAR(narrow_rows)(const struct zr_narrowing *n, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		narrow(n, (const uint16_t *)n->from + r * n->ld, 1,
		       (uint16_t *)n->to + r * n->width, 1, n->width);
}

void ZR_SCALAR(narrow_columns)(const struct zr_narrowing *n, int64_t lo, int64_t hi)
{
	for (int64_t c = lo; c < hi; c++)
		narrow(n, (const uint16_t *)n->from + c, n->ld, (uint16_t *)n->to + c, n->width,
		       n->rows);
}
