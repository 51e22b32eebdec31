/* SPDX-License-Identifier: Apache-2.0
 *
 * tiles_emulated.h - the tile registers of AMX in C, after the operations of Intel's Software
 * Developer's Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS. A register
 * that was not configured cannot be used.
 */
#ifndef ZR_TESTS_TILES_EMULATED_H
#define ZR_TESTS_TILES_EMULATED_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TILE_ROWS  16
#define TILE_BYTES 64

struct tile_register {
	unsigned char row[TILE_ROWS][TILE_BYTES];
};

static _Thread_local struct tile_register tile_registers[8];
static _Thread_local int tiles_configured;

static inline void tiles_begin(void)
{
	memset(tile_registers, 0, sizeof tile_registers);
	tiles_configured = 1;
}

static inline void tiles_end(void)
{
	tiles_configured = 0;
}

static inline struct tile_register *tile_at(int t)
{
	if (!tiles_configured)
		abort();
	return &tile_registers[t];
}

static inline void tile_load(int t, const void *from, int64_t stride)
{
	for (int i = 0; i < TILE_ROWS; i++)
		memcpy(tile_at(t)->row[i], (const char *)from + i * stride, TILE_BYTES);
}

static inline void tile_store(int t, void *to, int64_t stride)
{
	for (int i = 0; i < TILE_ROWS; i++)
		memcpy((char *)to + i * stride, tile_at(t)->row[i], TILE_BYTES);
}

static inline float tile_no_denormal(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Element n of a row of bf16, widened. */
static inline float tile_bf16(const unsigned char *row, int n)
{
	uint32_t u = (uint32_t)row[2 * n] << 16 | (uint32_t)row[2 * n + 1] << 24;
	float x;
	memcpy(&x, &u, sizeof x);
	return tile_no_denormal(x);
}

/* Even and odd elements have sums of their own, from 0; their sum is added to the destination. */
static inline void tile_multiply_add(int c, int a, int b)
{
	const struct tile_register *left = tile_at(a), *right = tile_at(b);
	float in_b[TILE_ROWS][2 * TILE_ROWS];
	for (int k = 0; k < TILE_ROWS; k++)
		for (int n = 0; n < 2 * TILE_ROWS; n++)
			in_b[k][n] = tile_bf16(right->row[k], n);
	for (int m = 0; m < TILE_ROWS; m++) {
		float sums[2 * TILE_ROWS] = { 0 }, dest[TILE_ROWS];
		for (int k = 0; k < TILE_BYTES / 4; k++) {
			const float pair[2] = { tile_bf16(left->row[m], 2 * k),
						tile_bf16(left->row[m], 2 * k + 1) };
			for (int n = 0; n < 2 * TILE_ROWS; n++)
				sums[n] = tile_no_denormal(fmaf(pair[n % 2], in_b[k][n], sums[n]));
		}
		memcpy(dest, tile_at(c)->row[m], sizeof dest);
		for (int n = 0; n < TILE_ROWS; n++) {
			float pair = tile_no_denormal(sums[2 * n] + sums[2 * n + 1]);
			dest[n] = tile_no_denormal(tile_no_denormal(dest[n]) + pair);
		}
		memcpy(tile_at(c)->row[m], dest, sizeof dest);
	}
}

#define TILE_ZERO(t)                 memset(tile_at(t), 0, sizeof(struct tile_register))
#define TILE_LOAD(t, from, stride)   tile_load(t, from, stride)
#define TILE_STREAM(t, from, stride) tile_load(t, from, stride)
#define TILE_STORE(t, to, stride)    tile_store(t, to, stride)
#define TILE_MULTIPLY_ADD(c, a, b)   tile_multiply_add(c, a, b)

#endif
