/* SPDX-License-Identifier: Apache-2.0
 *
 * init.simd.c - init.c with vectors of random words and of fp64: the functions of rng.h and
 * elementary.h by the same operations in the same order, and so the same bits.
 */
#include "simd.h"
#include "table.h"

#define BATCH (2 * ZR_W) /* normals that one vrng makes */
#define LANES (ZR_W / 2) /* of doubles */

typedef uint64_t words __attribute__((vector_size(sizeof(vd))));

/* Lanes below 2^52 as doubles, exactly: they become the low bits of 2^52 and more. */
ZR_INLINE vd unsigned_to_double(words x)
{
	return (vd)(x | 0x4330000000000000u) - 0x1p52;
}

/* The low `bits` of each lane as a signed number. */
ZR_INLINE vd signed_to_double(words x, int bits)
{
	const uint64_t sign = 1ull << (bits - 1);
	return unsigned_to_double((x & (2 * sign - 1)) ^ sign) - (double)sign;
}

/* zr_logd() */
ZR_INLINE vd logarithm(vd x)
{
	const words u = (words)x, e = (u - 0x3fe6a09e667f3bcdu) >> 52;
	const vd m = (vd)(u - (e << 52)), f = (m - 1.0) / (m + 1.0), s = f * f;
	vd p = vdset(1.0 / 17);
	p = p * s + 1.0 / 15;
	p = p * s + 1.0 / 13;
	p = p * s + 1.0 / 11;
	p = p * s + 1.0 / 9;
	p = p * s + 1.0 / 7;
	p = p * s + 1.0 / 5;
	p = p * s + 1.0 / 3;
	return signed_to_double(e, 12) * 0x1.62e42fefa39efp-1 + (2.0 * f + 2.0 * f * (s * p));
}

/* zr_cos_turn() of lanes of 32 bits */
ZR_INLINE vd cosine(words w)
{
	const words t = w + 0x40000000u, far = -((t ^ t << 1) >> 31 & 1);
	const vd x = signed_to_double((t ^ far) + (far & 0x80000001u), 32) * 0x1.921fb54442d18p-30,
		 s = x * x;
	vd p = vdset(1.0 / 355687428096000.0);
	p = p * s - 1.0 / 1307674368000.0;
	p = p * s + 1.0 / 6227020800.0;
	p = p * s - 1.0 / 39916800.0;
	p = p * s + 1.0 / 362880.0;
	p = p * s - 1.0 / 5040.0;
	p = p * s + 1.0 / 120.0;
	p = p * s - 1.0 / 6.0;
	return x + x * (s * p);
}

/* zr_normal() or zr_centered() of pairs of random words */
ZR_INLINE vd draw(words pair, int uniform)
{
	const vd a = unsigned_to_double(pair & 0xffffffffu) + 0.5;
	if (uniform)
		return a * 0x1p-31 - 1.0;
	return vdsqrt(-2.0 * logarithm(a * 0x1p-32)) * cosine(pair >> 32);
}

void ZR_SIMD(init)(const struct zr_op_init *op, int64_t lo, int64_t hi)
{
	const int uniform = !!(op->flags & ZR_INIT_OP_UNIFORM);
	uint64_t pair[BATCH];
	float value[BATCH];
	vi v[4];

	for (int64_t i = lo; op->std == 0 && i < hi; i++)
		op->dst[i] = (float)op->mean;
	if (op->std == 0)
		return;
	for (int64_t i = lo; i < hi;) {
		int64_t odd = (op->first + i) % 2, n = hi - i < BATCH - odd ? hi - i : BATCH - odd;
		vrng(&op->rng, (uint64_t)(op->first + i) / 2, v);
		for (int k = 0; k < 4; k++)
			vistore((uint32_t *)pair + k * ZR_W, v[k]);
		for (int k = 0; k < BATCH; k += LANES) {
			words w;
			memcpy(&w, pair + k, sizeof w);
			vdnarrow(value + k, op->mean + op->std * draw(w, uniform));
		}
		memcpy(op->dst + i, value + odd, (size_t)n * sizeof *value);
		i += n;
	}
}
