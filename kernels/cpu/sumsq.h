/* SPDX-License-Identifier: Apache-2.0
 *
 * sumsq.h - the sum of squares of a block, with the same bits in every variant: the square of an
 * fp32 is exact in fp64, element j of a block is added to chain j mod 16 in order, and the chains
 * are added as a tree (l and l+8, +4, +2, +1). In vectors the 16 chains are the lanes of 16 / ZR_W
 * pairs of double vectors.
 */
#ifndef ZEROTH_KERNELS_CPU_SUMSQ_H
#define ZEROTH_KERNELS_CPU_SUMSQ_H

#include "scalar.h"

#define ZR_CHAINS 16

/* Element j of the block. */
ZR_INLINE void zr_chain(double chain[ZR_CHAINS], int64_t j, zr_real x)
{
	chain[j % ZR_CHAINS] += (double)x * (double)x;
}

ZR_INLINE double zr_chains_meet(double chain[ZR_CHAINS])
{
	for (int half = ZR_CHAINS / 2; half > 0; half /= 2)
		for (int l = 0; l < half; l++)
			chain[l] += chain[l + half];
	return chain[0];
}

#ifdef ZEROTH_KERNELS_CPU_SIMD_H
#define ZR_PARTS (ZR_CHAINS / ZR_W) /* vectors of floats that make 16 elements */

struct vchains {
	vd chain[2 * ZR_PARTS];
};

ZR_INLINE struct vchains vchains_zero(void)
{
	struct vchains s;

	for (int k = 0; k < 2 * ZR_PARTS; k++)
		s.chain[k] = vdset(0);
	return s;
}

/* A vector of elements; `part` of its 16. */
ZR_INLINE void vchain(struct vchains *s, int part, vf x)
{
	vd low = vdlow(x), high = vdhigh(x);

	s->chain[2 * part] = s->chain[2 * part] + low * low;
	s->chain[2 * part + 1] = s->chain[2 * part + 1] + high * high;
}

ZR_INLINE double vchains_meet(const struct vchains *s)
{
	double chain[ZR_CHAINS];

	for (int k = 0; k < 2 * ZR_PARTS; k++)
		vdstore(chain + k * ZR_W / 2, s->chain[k]);
	return zr_chains_meet(chain);
}
#endif

#endif
