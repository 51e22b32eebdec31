/* SPDX-License-Identifier: Apache-2.0
 *
 * tiles.h - the tile registers of AMX: eight of 16 rows of 64 bytes. Numbers of registers are
 * constants. A test defines ZR_TILES_EMULATED as the name of a header that has the same in C.
 */
#ifndef ZEROTH_KERNELS_CPU_TILES_H
#define ZEROTH_KERNELS_CPU_TILES_H

#ifdef ZR_TILES_EMULATED
#include ZR_TILES_EMULATED
#else
#include <immintrin.h>
#include <stdint.h>

/* On this thread, between begin and end; end gives the registers back to the system. */
static inline void tiles_begin(void)
{
	/* static: gcc 12 believes that the instruction reads 8 bytes, and drops what else was
	 * stored */
	static const struct {
		uint8_t palette, start_row, rsv[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} config = { .palette = 1,
		     .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
		     .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };
	_tile_loadconfig(&config);
}
static inline void tiles_end(void)
{
	_tile_release();
}
#define TILE_ZERO(t)                 _tile_zero(t)
#define TILE_LOAD(t, from, stride)   _tile_loadd(t, from, stride) /* stride: bytes between rows */
/* the same of what is read once: the first-level cache keeps what it has */
#define TILE_STREAM(t, from, stride) _tile_stream_loadd(t, from, stride)
#define TILE_STORE(t, to, stride)    _tile_stored(t, to, stride)
/* c += a b: rows of pairs of bf16 in a, pairs of columns in the rows of b */
#define TILE_MULTIPLY_ADD(c, a, b)   _tile_dpbf16ps(c, a, b)
#endif

#endif
