/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.simd.c - narrow.c with vectors, same bits.
 */
#include "narrow.h"

#include "simd.h"

#define PARTS (ZR_NARROW_COLUMNS / ZR_W)

ZR_INLINE vi magnitude_of(vf x)
{
	return vishr(vishl(vbits(x), 1), 1);
}

/* The scaled x, rounded. */
ZR_INLINE vf rounded(vf x, struct zr_narrow_kind kind)
{
	const vf power = vfrom_bits(vishl(vishr(magnitude_of(x), 23), 23));
	const vf magic =
		vmax(power, vset(zr_power_of_two(kind.normal))) * vset(zr_narrow_magic(kind));
	return (x + magic) - magic;
}

ZR_INLINE uint32_t most_of_row(const uint16_t *row, int64_t width)
{
	vi most = viset(0);
	for (int64_t i = 0; i < width; i += ZR_W)
		most = vimax(most, magnitude_of(vload_n(row, i, ZR_BF16, vlanes(width - i))));
	return vimaxh(most);
}

ZR_INLINE void row_of(const uint16_t *from, uint16_t *to, int64_t width, struct zr_narrow_kind kind)
{
	const uint32_t most = most_of_row(from, width);
	const int32_t power = zr_narrow_power(kind, most);
	vf up, down;

	if (!zr_narrow_is_finite(most)) {
		for (int64_t i = 0; i < width; i++)
			to[i] = 0x7fc0;
		return;
	}

	up = vset(zr_power_of_two(power));
	down = vset(zr_power_of_two(-power));
	for (int64_t i = 0; i < width; i += ZR_W) {
		const int n = vlanes(width - i);
		vstore_n(to, i, ZR_BF16, rounded(vload_n(from, i, ZR_BF16, n) * up, kind) * down,
			 n);
	}
}

void ZR_SIMD(narrow_rows)(const struct zr_narrowing *n, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		row_of((const uint16_t *)n->from + r * n->ld, (uint16_t *)n->to + r * n->width,
		       n->width, zr_narrow_kind_of(n->e5m2));
}

/* What columns are multiplied by before they are rounded, and after. */
struct powers {
	vf up[PARTS], down[PARTS];
};

/* Lanes of a part of `columns` columns. */
ZR_INLINE int lanes(int64_t columns, int part)
{
	const int64_t left = columns - part * ZR_W;
	return left > 0 ? vlanes(left) : 0;
}

ZR_INLINE void find_powers(const struct zr_narrowing *n, int64_t first, int64_t columns,
			   struct zr_narrow_kind kind, struct powers *p)
{
	uint32_t most[ZR_NARROW_COLUMNS];
	float up[ZR_NARROW_COLUMNS], down[ZR_NARROW_COLUMNS];
	vi v[PARTS];

	UNROLL for (int k = 0; k < PARTS; k++) v[k] = viset(0);
	for (int64_t r = 0; r < n->rows; r++) {
		const int64_t at = r * n->ld + first;
		UNROLL for (int k = 0; k < PARTS; k++)
			v[k] = vimax(v[k], magnitude_of(vload_n(n->from, at + k * ZR_W, ZR_BF16,
								lanes(columns, k))));
	}

	UNROLL for (int k = 0; k < PARTS; k++) vistore(most + k * ZR_W, v[k]);
	for (int c = 0; c < ZR_NARROW_COLUMNS; c++) {
		const int32_t power = zr_narrow_power(kind, most[c]);
		const int finite = zr_narrow_is_finite(most[c]);
		up[c] = finite ? zr_power_of_two(power) : zr_from_bits(0x7fc00000u);
		down[c] = finite ? zr_power_of_two(-power) : 1;
	}
	UNROLL for (int k = 0; k < PARTS; k++)
	{
		p->up[k] = vload_f32(up + k * ZR_W);
		p->down[k] = vload_f32(down + k * ZR_W);
	}
}

ZR_INLINE void columns_of(const struct zr_narrowing *n, int64_t first, int64_t columns,
			  struct zr_narrow_kind kind)
{
	struct powers p;
	find_powers(n, first, columns, kind, &p);

	for (int64_t r = 0; r < n->rows; r++) {
		const int64_t from = r * n->ld + first, to = r * n->width + first;
		UNROLL for (int k = 0; k < PARTS; k++)
		{
			const int at = k * ZR_W, left = lanes(columns, k);
			const vf x = vload_n(n->from, from + at, ZR_BF16, left) * p.up[k];
			vstore_n(n->to, to + at, ZR_BF16, rounded(x, kind) * p.down[k], left);
		}
	}
}

void ZR_SIMD(narrow_columns)(const struct zr_narrowing *n, int64_t lo, int64_t hi)
{
	const struct zr_narrow_kind kind = zr_narrow_kind_of(n->e5m2);
	for (int64_t c = lo; c < hi; c += ZR_NARROW_COLUMNS) {
		if (hi - c >= ZR_NARROW_COLUMNS)
			columns_of(n, c, ZR_NARROW_COLUMNS, kind);
		else
			columns_of(n, c, hi - c, kind);
	}
}
