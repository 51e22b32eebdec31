/* SPDX-License-Identifier: Apache-2.0
 *
 * t_trie.c - the trie of many texts has these, their beginnings and nothing else: with children
 * that share a bit, with many, with characters behind U+FFFF.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

#define TEXTS 400
#define ROOM  32 /* bytes of a text */

static uint64_t state = 1;

static size_t draw(size_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(state >> 33) % n;
}

/* At most 4 characters; the first few are drawn often, so that many texts start alike. */
static uint32_t draw_text(char *to)
{
	static const int32_t some[] = { 'a',   'A',   0x81,   0xa1,    'b',
					0x431, 0x451, 0x4eba, 0x1f600, 0x1f620 };
	char *p = to;
	for (size_t n = draw(5); n--;)
		p = zr_utf8_put(p, draw(3) ? some[draw(10)] : (int32_t)(0x20 + draw(300)));
	return (uint32_t)(p - to);
}

static int starts(const struct zr_trie_text *a, const char *p, size_t n)
{
	return a->n >= n && !memcmp(a->p, p, n);
}

/* What the texts say of p[0..n): -2: none starts so, else the largest id of those that are so. */
static int32_t wanted(const struct zr_trie_text *text, const char *p, size_t n)
{
	int32_t id = -2;
	for (int i = 0; i < TEXTS; i++)
		if (starts(&text[i], p, n)) {
			int32_t is = text[i].n == n ? text[i].id : -1;
			id = is > id ? is : id;
		}
	return id;
}

static void check(const struct zr_trie *t, const struct zr_trie_text *text, const char *p, size_t n)
{
	uint32_t node = zr_trie_walk(t, p, n);
	int32_t id = wanted(text, p, n);
	assert_int_equal(n && !node ? -2 : t->node[node].id, id);
}

static void test_random(void **unused)
{
	static char bytes[TEXTS][ROOM];
	static struct zr_trie_text text[TEXTS];
	char other[ROOM];
	(void)unused;
	for (int round = 0; round < 5; round++) {
		struct zr_trie t = { 0 };
		for (int32_t i = 0; i < TEXTS; i++)
			text[i] = (struct zr_trie_text){ bytes[i], draw_text(bytes[i]), i, 0 };
		assert_int_equal(zr_trie_build(&t, text, TEXTS), 0);
		for (int i = 0; i < TEXTS; i++) {
			for (size_t n = 0, len; n < text[i].n; n += len) {
				check(&t, text, text[i].p, n);
				zr_utf8_read(text[i].p + n, &len);
			}
			check(&t, text, text[i].p, text[i].n);
			check(&t, text, other, draw_text(other));
		}
		zr_trie_free(&t);
	}
}

static void test_empty(void **unused)
{
	struct zr_trie t = { 0 };
	struct zr_trie_text text = { "", 0, 7, 0 };
	(void)unused;
	assert_int_equal(zr_trie_build(&t, &text, 1), 0);
	assert_int_equal(t.node[0].id, 7);
	assert_int_equal(zr_trie_walk(&t, "a", 1), 0);
	assert_int_equal(zr_trie_walk(&t, "\U0001f600", 4), 0);
	zr_trie_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_empty),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
