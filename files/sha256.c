/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.c - see sha256.h.
 */
#include "files/sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_key[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2
};

static uint32_t turned(uint32_t x, int by)
{
	return x >> by | x << (32 - by);
}

/* The 16 words of a block and the 48 that follow from them. */
static void expand(const unsigned char *block, uint32_t w[64])
{
	for (int i = 0; i < 16; i++, block += 4)
		w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 |
		       (uint32_t)block[2] << 8 | block[3];

	for (int i = 16; i < 64; i++) {
		const uint32_t a = w[i - 15], b = w[i - 2];
		const uint32_t s0 = turned(a, 7) ^ turned(a, 18) ^ a >> 3;
		const uint32_t s1 = turned(b, 17) ^ turned(b, 19) ^ b >> 10;
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
	uint32_t w[64], s[8];

	expand(block, w);
	memcpy(s, state, sizeof s);
	for (int i = 0; i < 64; i++) {
		const uint32_t sum1 = turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25);
		const uint32_t chosen = (s[4] & s[5]) ^ (~s[4] & s[6]);
		const uint32_t first = s[7] + sum1 + chosen + round_key[i] + w[i];

		const uint32_t sum0 = turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22);
		const uint32_t most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);

		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += first;
		s[0] = first + sum0 + most;
	}

	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void zr_sha256(const void *data, size_t n, char hex[65])
{
	/* the same of the square roots of the first 8 */
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const unsigned char *at = data;
	unsigned char last[128] = { 0 };
	size_t left = n;

	for (; left >= 64; left -= 64, at += 64)
		take_block(state, at);

	/* the rest, a bit, zeros, and the number of bits in 8 bytes */
	const size_t bytes = left < 56 ? 64 : 128;
	const uint64_t bits = (uint64_t)n * 8;
	if (left)
		memcpy(last, at, left);
	last[left] = 0x80;
	for (size_t i = 0; i < 8; i++)
		last[bytes - 1 - i] = (unsigned char)(bits >> 8 * i);
	for (size_t i = 0; i < bytes; i += 64)
		take_block(state, last + i);

	for (int i = 0; i < 8; i++)
		snprintf(hex + 8 * i, 9, "%08x", (unsigned)state[i]);
}
