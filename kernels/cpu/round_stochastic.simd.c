/* SPDX-License-Identifier: Apache-2.0
 *
 * round_stochastic.simd.c - round_stochastic.c with vectors, same bits. One batch of random words
 * serves 4 vectors; it starts on a whole block of the stream, so the first one may begin up to 3
 * words in.
 */
#include "simd.h"
#include "table.h"

#define BATCH (4 * ZR_W) /* words that one vrng makes */

void ZR_SIMD(round_stochastic)(const struct zr_op_round_stochastic *op, int64_t lo, int64_t hi)
{
	uint32_t word[BATCH + ZR_W] = { 0 }; /* the last ZR_W: lanes past the end load something */
	vi v[4];

	for (int64_t i = lo; i < hi;) {
		int64_t skip = (op->first + i) % 4,
			n = hi - i < BATCH - skip ? hi - i : BATCH - skip;
		vrng(&op->rng, (uint64_t)(op->first + i) / 4, v);
		for (int k = 0; k < 4; k++)
			vistore(word + k * ZR_W, v[k]);
		for (int64_t k = 0; k < n; k += ZR_W) {
			int lanes = vlanes(n - k);
			vi add = vishr(viload(word + skip + k), 16);
			vhstore_n(op->dst + i + k,
				  vnarrow_with(vload_n(op->src, i + k, ZR_F32, lanes), add), lanes);
		}

		i += n;
	}
}
