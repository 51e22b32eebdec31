/* SPDX-License-Identifier: Apache-2.0
 *
 * t_merges.c - merges are found by their pair, the last of those with the same one, and no pair is
 * found that has none; so are those of pairs whose hashes begin alike, unless there are too many.
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

/* A merge of each pair of numbers below 512, in a table. */
#define SIDE 512
static uint64_t made[SIDE][SIDE];

static void test_found(void **unused)
{
	static const size_t counts[] = { 0, 1, 2, 7, 100, 30000 };
	(void)unused;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct zr_merges m = { 0 };
		for (size_t k = 0; k < SIDE * SIDE; k++)
			made[k / SIDE][k % SIDE] = ZR_NO_MERGE;
		assert_int_equal(zr_merges_room(&m, counts[i]), 0);
		for (size_t rank = 0; rank < counts[i]; rank++) { /* some of them twice */
			uint32_t a = draw(SIDE), b = draw(SIDE), id = draw(1 << 22);
			zr_merges_put(&m, a, b, id);
			made[a][b] = (uint64_t)rank << 32 | id;
		}
		assert_int_equal(zr_merges_ready(&m), 0);
		for (uint32_t a = 0; a < SIDE; a++)
			for (uint32_t b = 0; b < SIDE; b++)
				assert_int_equal(zr_merges_find(&m, a, b), made[a][b]);
		zr_merges_free(&m);
	}
}

/* n pairs, of which the hash of the first try begins with zeros, or n times the same one. */
static int put_alike(struct zr_merges *m, size_t n, int same)
{
	const struct zr_merges first = { .factor = UINT64_C(0x9e3779b97f4a7c15) };
	uint32_t pair = 0;
	*m = (struct zr_merges){ 0 };
	assert_int_equal(zr_merges_room(m, n), 0);
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
		assert_true(zr_merges_find(&m, 0, 5) >> 32 == (same ? 199 : UINT32_MAX));
		zr_merges_free(&m);
	}
	assert_int_equal(put_alike(&m, 300, 0), 0); /* by another hash */
	zr_merges_free(&m);
	assert_int_equal(put_alike(&m, 300, 1), ZR_EINVAL);
	zr_merges_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_alike),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
