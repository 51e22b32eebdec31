/* SPDX-License-Identifier: Apache-2.0
 *
 * windows.c - windows over a stream and their order: a permutation that is computed, not stored.
 */
#include "windows.h"

#include <string.h>

const char *const windows_orders[] = { "random", "sequential", NULL };

/* Finalizer of splitmix64 (Steele, Lea and Flood 2014): a bijection whose every output bit depends
 * on every input bit. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t windows_key(uint64_t a, uint64_t b)
{
	return mix(mix(a + 0x9e3779b97f4a7c15u) ^ (b + 0xd1b54a32d192ed03u));
}

/* A permutation of [0, 4^half): a Feistel network of two halves of `half` bits. */
static uint64_t feistel(uint64_t x, int half, uint64_t key)
{
	uint64_t mask = (UINT64_C(1) << half) - 1, left = x >> half, right = x & mask;
	uint64_t round, t;

	for (round = 0; round < 6; round++) {
		t = left ^ (windows_key(key + round, right) & mask);
		left = right;
		right = t;
	}

	return left << half | right;
}

/* Walks the cycle of the wider one until it is back inside (Black and Rogaway 2002). 4^half < 4 n:
 * fewer than four steps are expected. */
int64_t windows_permute(int64_t x, int64_t n, uint64_t key)
{
	uint64_t y = (uint64_t)x;
	int half = 1;
	while (half < 31 && (INT64_C(1) << 2 * half) < n)
		half++;
	do
		y = feistel(y, half, key);
	while (y >= (uint64_t)n);
	return (int64_t)y;
}

int64_t windows_cut(struct windows *w, int64_t tokens, int64_t length, int order)
{
	w->length = length;
	w->shuffled = order == ORDER_RANDOM;
	w->n = (tokens - 1) / length;
	w->tail = tokens > length ? (tokens - 1) % length : 0;
	w->phases = 1;
	if (tokens <= length) {
		w->n = 0;
		return length + 1;
	}

	if (w->shuffled) {
		if (w->n > 1)
			w->n--; /* room for every phase */
		w->phases = tokens - w->n * length;
		if (w->phases > length)
			w->phases = length;
	}

	return 0;
}

/* Where the window of sequence g starts in the stream. */
static int64_t windows_start(const struct windows *w, uint64_t seed, int64_t g)
{
	uint64_t key = windows_key(seed, (uint64_t)(g / w->n));
	int64_t i = g % w->n;

	if (!w->shuffled)
		return i * w->length;

	return (int64_t)(mix(key) % (uint64_t)w->phases) +
	       windows_permute(i, w->n, key) * w->length;
}

/* The window behind the last whole one: what is behind the last token is no target. */
static int read_tail(const struct windows *v, const struct zr_batch *b, int64_t i,
		     windows_read *read, struct zr_inst *inst)
{
	int32_t *in = b->inputs + i * b->length, *out = b->targets + i * b->length;
	int rc = read(inst, b->split, v->n * v->length, v->tail, in);
	if (!rc)
		rc = read(inst, b->split, v->n * v->length + 1, v->tail, out);
	for (int64_t t = v->tail; t < b->length; t++) {
		in[t] = 0;
		out[t] = ZR_NO_TARGET;
	}

	return rc;
}

/* Sequence i of a batch from a window that starts at `at`. */
static int read_window(const struct zr_batch *b, int64_t i, int64_t at, windows_read *read,
		       struct zr_inst *inst)
{
	const int64_t n = b->length;
	int32_t *in = b->inputs + i * n, *out = b->targets + i * n;

	int rc = read(inst, b->split, at, n, in);
	if (!rc)
		rc = read(inst, b->split, at + n, 1, out + n - 1);
	if (!rc)
		memcpy(out, in + 1, (size_t)(n - 1) * sizeof *out);

	return rc;
}

int windows_batch(const struct zr_host *h, const struct windows w[2], const struct zr_batch *b,
		  windows_read *read, struct zr_inst *inst)
{
	const int val = b->split == ZR_SPLIT_VAL,
		  once = ZR_HAS(b, struct zr_batch, once) && b->once;
	const struct windows *v = &w[val];
	int64_t first = b->slot * b->sequences;
	int rc = ZR_OK;

	if (v->n == 0 || v->length != b->length)
		return zr_fail(h, ZR_ESTATE, "%s batches of length %lld were not prepared",
			       windows_split(b->split), (long long)b->length);

	if (!val)
		first += b->step * b->slots * b->sequences;
	for (int64_t i = 0; i < b->sequences && !rc; i++) {
		if (once && first + i == v->n && v->tail)
			rc = read_tail(v, b, i, read, inst);
		else
			rc = read_window(b, i, windows_start(v, b->seed, first + i), read, inst);
	}

	return rc;
}
