/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_sums.c - sums of tiles by the processor, to be compared with bf16_pairs.h.
 */
#include "bf16_pairs.h"
#include "tiles.h"

void zr_tile_sums_amx(float *sum, const uint16_t *a, const uint16_t *b)
{
	tiles_begin();
	TILE_LOAD(0, sum, 64);
	TILE_LOAD(1, a, 64);
	TILE_LOAD(2, b, 64);
	TILE_MULTIPLY_ADD(0, 1, 2);
	TILE_STORE(0, sum, 64);
	tiles_end();
}
