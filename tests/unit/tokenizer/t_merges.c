/* SPDX-License-Identifier: Apache-2.0
 *
 * t_merges.c - merges are found by their pair, the last of those with the same one, and no pair is
 * found that has none; so are those of pairs whose hashes begin alike, unless there are too many.
 * Words that are merged in turns have the symbols of merging one by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

static uint64_t state = 1;

static uint32_t draw(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33) % n;
}

/* The rank of the merge of each pair of numbers below 512, in a table. */
#define SIDE 512
static uint32_t ranks[SIDE][SIDE];

static void test_found(void **unused)
{
	static const size_t counts[] = { 0, 1, 2, 7, 100, 30000 };
	(void)unused;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct zr_merges m = { 0 };
		for (size_t k = 0; k < SIDE * SIDE; k++)
			ranks[k / SIDE][k % SIDE] = ZR_NO_RANK;
		assert_int_equal(zr_merges_room(&m, counts[i], i % 2 ? SIDE : 1 << 22), 0);
		for (size_t rank = 0; rank < counts[i]; rank++) { /* some of them twice */
			uint32_t a = draw(SIDE), b = draw(SIDE);
			zr_merges_put(&m, a, b, a * SIDE + b);
			ranks[a][b] = (uint32_t)rank;
		}
		assert_int_equal(zr_merges_ready(&m), 0);
		for (uint32_t a = 0; a < SIDE; a++)
			for (uint32_t b = 0; b < SIDE; b++)
				assert_int_equal(zr_merges_find(&m, a, b), ranks[a][b]);
		for (uint32_t a = 0; a < SIDE; a++)
			for (uint32_t b = 0; b < SIDE; b++)
				if (ranks[a][b] != ZR_NO_RANK)
					assert_int_equal(m.id[ranks[a][b]], a * SIDE + b);
		for (uint32_t a = 0; a < SIDE; a++) /* at the ends of words */
			assert_true(zr_merges_find(&m, zr_merges_no_id(&m), a) == ZR_NO_RANK &&
				    zr_merges_find(&m, a, zr_merges_no_id(&m)) == ZR_NO_RANK);
		zr_merges_free(&m);
	}
}

/* n pairs, of which the hash of the first try begins with zeros, or n times the same one. */
static int put_alike(struct zr_merges *m, size_t n, int same)
{
	const struct zr_merges first = { .factor = UINT64_C(0x9e3779b97f4a7c15) };
	uint32_t pair = 0;
	*m = (struct zr_merges){ 0 };
	assert_int_equal(zr_merges_room(m, n, (1 << 22) - 1), 0);
	while (m->n < n)
		if (zr_merges_hash(&first, ++pair) >> 54 == 0)
			zr_merges_put(m, 0, same ? 5 : pair, pair);
	return zr_merges_ready(m);
}

static void test_alike(void **unused)
{
	struct zr_merges m;
	(void)unused;
	for (int same = 0; same < 2; same++) {
		assert_int_equal(put_alike(&m, 200, same), 0);
		assert_true(zr_merges_find(&m, 0, 5) == (same ? 199 : ZR_NO_RANK));
		zr_merges_free(&m);
	}
	assert_int_equal(put_alike(&m, 300, 0), 0); /* by another hash */
	zr_merges_free(&m);
	assert_int_equal(put_alike(&m, 300, 1), ZR_EINVAL);
	zr_merges_free(&m);
}

/* ---- words ---- */

#define IDS 40

/* The lowest rank first, of several the leftmost, one by one. */
static size_t merge(const struct zr_merges *m, int32_t *id, size_t n)
{
	for (;;) {
		uint32_t best = ZR_NO_RANK;
		size_t at = 0;
		for (size_t i = 0; i + 1 < n; i++) {
			uint32_t rank = zr_merges_find(m, (uint32_t)id[i], (uint32_t)id[i + 1]);
			if (rank < best) {
				best = rank;
				at = i;
			}
		}
		if (best == ZR_NO_RANK)
			return n;
		id[at] = (int32_t)m->id[best];
		for (size_t i = at + 1; i + 1 < n; i++)
			id[i] = id[i + 1];
		n--;
	}
}

/* Words of 0 to 62 symbols, fewer and more than have turns. */
static void test_words(void **unused)
{
	static struct zr_merging turns[ZR_MERGING_TURNS];
	static int32_t id[64][ZR_MERGING_MOST], wanted[64][ZR_MERGING_MOST];
	struct zr_merging_word word[64];
	struct zr_merges m = { 0 };
	size_t n[64], merged = 0;
	(void)unused;
	assert_int_equal(zr_merges_room(&m, 300, IDS), 0);
	for (int i = 0; i < 300; i++) /* any of any, some of them with the symbol they make */
		zr_merges_put(&m, draw(IDS), draw(IDS), draw(IDS));
	assert_int_equal(zr_merges_ready(&m), 0);
	for (size_t words = 0; words <= 64; words += words < 20 ? 1 : 11) {
		for (size_t k = 0; k < words; k++) {
			size_t symbols = draw(ZR_MERGING_MOST + 1);
			symbols = k == 3 ? ZR_MERGING_MOST : symbols;
			for (size_t i = 0; i < symbols; i++)
				id[k][i] = wanted[k][i] = (int32_t)draw(IDS);
			word[k] = (struct zr_merging_word){ id[k], symbols };
			n[k] = merge(&m, wanted[k], symbols);
			merged += symbols - n[k];
		}
		zr_merge_word(turns, &m, word, words);
		for (size_t k = 0; k < words; k++) {
			assert_int_equal(word[k].n, n[k]);
			assert_memory_equal(id[k], wanted[k], n[k] * sizeof **id);
		}
	}
	assert_true(merged > 1000);
	zr_merges_free(&m);
}

/* A merge is a number of 64 bits: the more ids there are, the fewer ranks. */
static void test_most(void **unused)
{
	struct zr_merges m = { 0 };
	(void)unused;
	assert_int_equal(zr_merges_most(1000), ZR_MERGES_MOST);
	assert_int_equal(zr_merges_most((1 << 20) - 1), ZR_MERGES_MOST);
	assert_int_equal(zr_merges_most((1 << 22) - 1), 1 << 20);
	assert_int_equal(zr_merges_most(1 << 22), 1 << 18);
	assert_int_equal(zr_merges_room(&m, 1 << 18, 1 << 22), 0);
	for (uint32_t rank = 0; rank < 1 << 18; rank++) /* the largest ids */
		zr_merges_put(&m, (1 << 22) - 1 - rank, (1 << 22) - 1, rank);
	assert_int_equal(zr_merges_ready(&m), 0);
	for (uint32_t rank = 0; rank < 1 << 18; rank++)
		assert_int_equal(zr_merges_find(&m, (1 << 22) - 1 - rank, (1 << 22) - 1), rank);
	assert_true(zr_merges_find(&m, (1 << 22) - 1, (1 << 22) - 2) == ZR_NO_RANK);
	zr_merges_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_most),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
