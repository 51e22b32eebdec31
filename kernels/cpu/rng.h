/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.h - Philox4x32-10 (Salmon et al., SC'11) keyed by struct zr_rng, and what kernels make of its
 * words: dropout and normals. Included by scalar.h only.
 */
#ifndef ZEROTH_KERNELS_CPU_RNG_H
#define ZEROTH_KERNELS_CPU_RNG_H

#define ZR_PHILOX_M0 0xD2511F53u
#define ZR_PHILOX_M1 0xCD9E8D57u
#define ZR_PHILOX_W0 0x9E3779B9u
#define ZR_PHILOX_W1 0xBB67AE85u

/* c, a counter of four words, becomes the block of four random words of key (k0, k1). */
ZR_INLINE void zr_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)ZR_PHILOX_M0 * c[0], b = (uint64_t)ZR_PHILOX_M1 * c[2];
		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
		c[1] = (uint32_t)b;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
		c[3] = (uint32_t)a;
		k0 += ZR_PHILOX_W0;
		k1 += ZR_PHILOX_W1;
	}
}

/* The two words of the key. The low halves of seed and step are words of their own, so that no two
 * of them share a stream; a product spreads the high halves, which hardly any run has. */
ZR_INLINE uint32_t zr_rng_key0(const struct zr_rng *g)
{
	return (uint32_t)g->seed + (uint32_t)(g->step >> 32) * ZR_PHILOX_W1;
}
ZR_INLINE uint32_t zr_rng_key1(const struct zr_rng *g)
{
	return (uint32_t)g->step + (uint32_t)(g->seed >> 32) * ZR_PHILOX_W0;
}

/* Words of elements [4*block, 4*block + 4) of the stream. */
ZR_INLINE void zr_rng_block(const struct zr_rng *g, uint64_t block, uint32_t w[4])
{
	w[0] = (uint32_t)block;
	w[1] = (uint32_t)(block >> 32);
	w[2] = g->slot;
	w[3] = g->site;
	zr_philox(w, zr_rng_key0(g), zr_rng_key1(g));
}

/* Word of one element. */
ZR_INLINE uint32_t zr_rng_word(const struct zr_rng *g, uint64_t element)
{
	uint32_t w[4], word;
	zr_rng_block(g, element / 4, w);
	/* registers have no index */
	if (element & 2)
		word = element & 1 ? w[3] : w[2];
	else
		word = element & 1 ? w[1] : w[0];
	return word;
}

/* N(0,1) from two words: Box-Muller, the radius from a in (0, 1), the angle from b. |result| <
 * 6.8. */
ZR_INLINE double zr_normal(uint32_t a, uint32_t b)
{
	return sqrt(-2 * zr_logd(((double)a + 0.5) * 0x1p-32)) * zr_cos_turn(b);
}

/* U(-1,1) from a word. */
ZR_INLINE double zr_centered(uint32_t a)
{
	return ((double)a + 0.5) * 0x1p-31 - 1;
}

/* Dropout with probability p in [0, 1): an element is kept if its word >= zr_drop_below(p), and
 * then multiplied by zr_drop_scale(p). */
ZR_INLINE uint32_t zr_drop_below(float p)
{
	return (uint32_t)((double)p * 4294967296.0);
}
ZR_INLINE zr_real zr_drop_scale(float p)
{
	return (zr_real)(1.0 / (1.0 - (double)p));
}

#endif
