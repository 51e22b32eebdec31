/* SPDX-License-Identifier: Apache-2.0
 *
 * t_joins.c - long words, and words in parts that no merge joins, have the ids of `tokenizers`
 * (tests/golden/make_words.py); the parts have the ids of the whole, remembered or not. So do the
 * words of a text that Unigram takes one by one, and what is between two spaces where that has ids
 * of its own; and tokens of Unigram that are longer than what is looked ahead.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

#define MOST 8192

struct ids {
	int32_t id[MOST];
	size_t n;
};

static FILE *golden(const char *name, const char *end, char path[4096])
{
	const char *src = getenv("ZR_SRCDIR");
	snprintf(path, 4096, "%s/tests/golden/tokenizers/%s%s", src ? src : ".", name, end);
	return fopen(path, "r");
}

/* NULL: this build cannot read it. */
static struct zr_tokenizer *open_golden(const char *name)
{
	char path[4096];
	struct zr_tokenizer *t = NULL;
	struct zr_error err = { 0 };
	FILE *f = golden(name, ".json", path);
	assert_non_null(f);
	fclose(f);
	int rc = zr_tokenizer_open(path, &t, &err);
	if (rc && !strstr(err.text, "which this build lacks"))
		fail_msg("%s", err.text);
	return t;
}

static int keep(void *arg, const int32_t *ids, size_t n)
{
	struct ids *to = arg;
	assert_true(n <= MOST - to->n);
	memcpy(to->id + to->n, ids, n * sizeof *ids);
	to->n += n;
	return 0;
}

static int keep_word(void *arg, const int32_t *ids, size_t count, uint64_t start, size_t n)
{
	(void)start, (void)n;
	return keep(arg, ids, count);
}

static void encode(const struct zr_tokenizer *t, const char *text, size_t n, struct ids *to)
{
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	to->n = 0;
	assert_int_equal(zr_encoder_open(t, keep, to, &e, &err), 0);
	assert_int_equal(zr_encode(e, text, n, &err), 0);
	assert_int_equal(zr_encode_end(e, &err), 0);
	zr_encoder_close(e);
}

/* A line: name "text" id id ... Whether this build could look; *t: the tokenizer of `name`, that of
 * the line before. */
static int check_line(char *line, struct zr_tokenizer **t, char name[64])
{
	static struct ids got;
	char *text = strchr(line, ' '), *rest;
	*text++ = 0;
	json_error_t why;
	json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &why);
	assert_non_null(v);
	if (strcmp(name, line)) {
		zr_tokenizer_close(*t);
		*t = open_golden(line);
		snprintf(name, 64, "%s", line);
	}
	if (!*t)
		return json_decref(v), 0;
	encode(*t, json_string_value(v), json_string_length(v), &got);
	rest = text + why.position;
	for (size_t i = 0; i < got.n; i++)
		if (strtol(rest, &rest, 10) != got.id[i])
			fail_msg("%s: %s: token %zu is %d", line, text, i, got.id[i]);
	assert_string_equal(rest, "\n");
	json_decref(v);
	return 1;
}

static void test_golden(void **unused)
{
	char path[4096], name[64] = "", *line = NULL;
	struct zr_tokenizer *t = NULL;
	size_t room = 0;
	int lines = 0;
	FILE *f = golden("words", ".txt", path);
	(void)unused;
	assert_non_null(f);
	while (getline(&line, &room, f) > 0)
		lines += check_line(line, &t, name);
	zr_tokenizer_close(t);
	free(line);
	fclose(f);
	if (!lines)
		skip();
}

static uint64_t state = 1;

static size_t draw(size_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(state >> 33) % n;
}

/* Text of tokens, and of characters that have none. */
static size_t random_text(const struct zr_tokenizer *t, char *to, size_t room)
{
	static const char *const others[] = { " ",  "\u2581", "\u0416", "\U0001f600",
					      "\n", "\u4eba", "x" };
	size_t n = 0, len;
	while (n + 64 < room) {
		int64_t id = (int64_t)draw((size_t)zr_tokenizer_size(t));
		const char *p = zr_tokenizer_bytes(t, id, &len);
		if (!p || !draw(4)) {
			p = others[draw(sizeof others / sizeof *others)];
			len = strlen(p);
		}
		len = len < 64 ? len : 0;
		memcpy(to + n, p, len);
		n += len;
	}
	return n;
}

static void test_parts(void **unused)
{
	static const char *const names[] = { "llama2", "metaspace", "across", "fused", "unknown" };
	static struct ids parts, whole;
	char text[600];
	(void)unused;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct zr_tokenizer *t = open_golden(names[i]);
		for (int k = 0; t && k < 100; k++) {
			size_t n = random_text(t, text, sizeof text);
			encode(t, text, n, &parts);
			struct zr_joins *joins = t->bpe.joins;
			assert_non_null(joins);
			t->bpe.joins = NULL;
			encode(t, text, n, &whole);
			t->bpe.joins = joins;
			assert_int_equal(parts.n, whole.n);
			assert_memory_equal(parts.id, whole.id, whole.n * sizeof *whole.id);
		}
		zr_tokenizer_close(t);
	}
}

/* Words that come again. Those of dots and dashes have two ways of the same sum, of which roundings
 * choose: another one behind one text in 20 or 40, so that they must not be remembered. */
static void test_words_apart(void **unused)
{
	static struct ids apart, whole;
	char text[1200];
	(void)unused;
	struct zr_tokenizer *t = open_golden("fallback");
	if (!t)
		skip();
	assert_true(t->apart);
	for (int k = 0; k < 200; k++) {
		size_t n = 0;
		while (n < sizeof text - 150) {
			n += (size_t)sprintf(text + n, " ... ----- ....... ......... ");
			n += random_text(t, text + n, 65 + draw(35));
		}
		t->apart = 1;
		encode(t, text, n, &apart);
		t->apart = 0;
		encode(t, text, n, &whole);
		assert_int_equal(apart.n, whole.n);
		assert_memory_equal(apart.id, whole.id, whole.n * sizeof *whole.id);
	}
	zr_tokenizer_close(t);
}

/* The same in pieces of any size. */
static void encode_pieces(const struct zr_tokenizer *t, const char *text, size_t n, size_t most,
			  struct ids *to)
{
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	to->n = 0;
	assert_int_equal(zr_encoder_open(t, keep, to, &e, &err), 0);
	for (size_t len; n; text += len, n -= len) {
		len = 1 + draw(most);
		len = len < n ? len : n;
		assert_int_equal(zr_encode(e, text, len, &err), 0);
	}
	assert_int_equal(zr_encode_end(e, &err), 0);
	zr_encoder_close(e);
}

static size_t random_chunk(char *to)
{
	static const char *const parts[] = {
		"the",
		"The",
		"Quick",
		"ing",
		",",
		".",
		"''",
		"-",
		"7",
		"\u00e9",
		"e\u0301",
		"\u4eba",
		"\u4e2d",
		"\u3000",
		"\u00a0",
		"\x01",
		"\x1c",
		"\u200b",
		"\ufffd",
		"\u0130",
		"<|a|>b",
		"caf\u00e9!",
		"\u212bngstrom",
		"<|endoftext|>",
		"\u0410\u0411",
		"\U0001f600",
		"\xc2\x85",
		"\u0301",
	};
	size_t n = 0;
	for (size_t k = draw(6) ? 1 + draw(3) : 12; k--;)
		n += (size_t)sprintf(to + n, "%s", parts[draw(sizeof parts / sizeof *parts)]);
	return n;
}

/* Text of some chunks that come again, one of them long, with gaps of any kind between. */
static size_t random_chunks(char *to, size_t room)
{
	static const char gaps[] = "  \n\t\r ";
	size_t n = 0;
	if (!draw(4)) {
		n = 4000 + draw(300);
		memset(to, draw(2) ? ',' : 'a', n);
	}
	while (n + 200 < room) {
		for (size_t k = draw(40) ? draw(3) : 9; k--;)
			to[n++] = gaps[draw(sizeof gaps - 1)];
		n += random_chunk(to + n);
	}
	return n;
}

static void test_chunks(void **unused)
{
	static const char *const names[] = { "bert", "cased" };
	static struct ids chunks, whole;
	static char text[6000];
	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct zr_tokenizer *t = open_golden(names[i]);
		if (!t)
			skip();
		char gap[sizeof t->gap];
		memcpy(gap, t->gap, sizeof gap);
		assert_true(gap[' '] && gap['\n'] && gap['\t'] && gap['\r']);
		for (int k = 0; k < 200; k++) {
			size_t n = random_chunks(text, k % 4 ? 1500 : sizeof text);
			memset(t->gap, 0, sizeof gap);
			encode(t, text, n, &whole);
			memcpy(t->gap, gap, sizeof gap);
			encode_pieces(t, text, n, k % 2 ? 7 : sizeof text, &chunks);
			assert_int_equal(chunks.n, whole.n);
			assert_memory_equal(chunks.id, whole.id, whole.n * sizeof *whole.id);
		}
		zr_tokenizer_close(t);
	}
}

/* Tokens of up to 40 times 'a', of the same score: the best way is of as few as can be. */
static void test_long_tokens(void **unused)
{
	enum { LONGEST = 40 };
	static char text[200];
	static double score[LONGEST + 1];
	static struct zr_trie_text texts[LONGEST];
	struct zr_tokenizer t = { .score = score, .unknown = LONGEST, .unknown_score = -1000 };
	struct zr_unigram_work w = { 0 };
	(void)unused;
	memset(text, 'a', sizeof text);
	for (int32_t i = 0; i < LONGEST; i++) {
		texts[i] = (struct zr_trie_text){ text, (uint32_t)i + 1, i, 0 };
		score[i] = -1;
	}
	assert_int_equal(zr_trie_build(&t.trie, texts, LONGEST), 0);
	for (size_t n = 1; n <= sizeof text; n++) {
		const int32_t *ids;
		size_t bytes = 0;
		w.sum = 0;
		int64_t count = zr_unigram_encode(&t, &w, text, n, &ids);
		assert_int_equal(count, (n + LONGEST - 1) / LONGEST);
		for (int64_t i = 0; i < count; i++)
			bytes += (size_t)ids[i] + 1;
		assert_int_equal(bytes, n);
		assert_true(w.sum == -(double)count);
	}
	free(w.place);
	free(w.ids.id);
	zr_trie_free(&t.trie);
}

/* More words than are remembered, each twice: those that are remembered, those that were, and those
 * that cannot be have the ids that the model gives them. */
static void test_forgotten(void **unused)
{
	const unsigned words = 140000;
	struct zr_tokenizer *t = open_golden("gpt2");
	(void)unused;
	if (!t)
		skip();
	static struct ids a;
	struct zr_model_work *w = zr_model_open(t, keep_word, &a);
	struct zr_bpe_work *b = zr_bpe_open(t);
	assert_non_null(w);
	assert_non_null(b);
	for (unsigned i = 0; i < 2 * words; i++) {
		char word[64];
		const int32_t *wanted;
		unsigned k = i < words ? i : (i - words) * 7919u % words;
		size_t n = (size_t)snprintf(word, sizeof word, " the%x%.*s", k, (int)(k % 40),
					    "andingtheofandingtheofandingtheofandingthe");
		a.n = 0;
		assert_int_equal(zr_model_put(w, word, n, i), 0);
		assert_int_equal(zr_model_flush(w), 0);
		assert_int_equal(a.n, zr_bpe_encode(b, word, n, &wanted));
		assert_memory_equal(a.id, wanted, a.n * sizeof *wanted);
	}
	zr_model_close(w);
	zr_bpe_close(b);
	zr_tokenizer_close(t);
}

/* A merge that has a token of a byte, as none has that is published: nothing is known then. */
static void test_merged_bytes(void **unused)
{
	struct zr_merges merges = { 0 };
	struct zr_token token[4] = {
		{ "a", 1, 1, 0 }, { "b", 1, 1, 0 }, { "\n", 1, 0, 0 }, { "b\n", 2, 1, 0 }
	};
	int32_t *character = malloc(ZR_BMP * sizeof *character), id[ZR_JOINS_IDS];
	struct zr_tokenizer t = { .token = token, .size = 4, .unknown = -1 };
	int count;
	struct zr_joins *j;
	(void)unused;
	assert_non_null(character);
	memset(character, 0xff, ZR_BMP * sizeof *character);
	memset(t.byte, 0xff, sizeof t.byte);
	character['a'] = 0;
	character['b'] = 1;
	assert_int_equal(zr_merges_room(&merges, 1, 4), 0);
	zr_merges_put(&merges, 1, 2, 3);
	assert_int_equal(zr_merges_ready(&merges), 0);
	t.bpe = (struct zr_bpe){ .merges = merges, .character = character };
	assert_int_equal(zr_joins_open(&t, &j), 0);
	assert_int_equal(zr_joins_part(j, "ab\n", 3, id, &count), 1);
	assert_int_equal(count, 1);
	assert_int_equal(id[0], 0);
	assert_int_equal(zr_joins_part(j, "b\na", 3, id, &count), 3);
	assert_int_equal(count, 0);
	zr_joins_close(j);
	t.byte['\n'] = 2;
	assert_int_equal(zr_joins_open(&t, &j), 0);
	assert_null(j);
	zr_merges_free(&merges);
	free(character);
}

/* Characters that nothing joins come together with their tokens, up to a number of them. What has
 * no token is cut off where nothing else has its id: with those beside it where they are unknown
 * together; but not beside some bytes with tokens, or where a merge has it. */
#define LAST                                                                                       \
	{ 22, 22, 2 },                                                                             \
	{                                                                                          \
		4, 4, 2                                                                            \
	}
static void test_single_characters(void **unused)
{
	struct zr_token token[5] = { { "<unk>", 5, 1, 0 },
				     { "a", 1, 1, 0 },
				     { "b", 1, 1, 0 },
				     { "ab", 2, 1, 0 },
				     { "a<unk>", 6, 1, 0 } };
	static const struct {
		int fuse, byte, merged;
		struct {
			size_t n;
			int count, id;
		} part[8];
	} cases[] = {
		{ 0, 0, 0, { { 2, 0, 0 }, { 3, 1, 0 }, { 3, 1, 0 }, { 2, 0, 0 }, LAST } },
		{ 1, 0, 0, { { 2, 0, 0 }, { 6, 1, 0 }, { 2, 0, 0 }, LAST } },
		{ 0, 1, 0, { { 10, 0, 0 }, LAST } },
		{ 1, 0, 1, { { 10, 0, 0 }, LAST } },
	};
	int32_t *character = malloc(ZR_BMP * sizeof *character), id[ZR_JOINS_IDS];
	(void)unused;
	assert_non_null(character);
	memset(character, 0xff, ZR_BMP * sizeof *character);
	character['a'] = 1;
	character['b'] = 2;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *p = "ab\u4eba\u4e2dabbbbbbbbbbbbbbbbbbbbbbbbbbb", *end = p + strlen(p);
		struct zr_merges merges = { 0 };
		struct zr_tokenizer t = { .token = token, .size = 5 };
		struct zr_joins *j;
		memset(t.byte, 0xff, sizeof t.byte);
		t.byte['x'] = cases[i].byte ? 4 : -1;
		assert_int_equal(zr_merges_room(&merges, 2, 5), 0);
		zr_merges_put(&merges, 1, 2, 3);
		if (cases[i].merged)
			zr_merges_put(&merges, 1, 0, 4);
		assert_int_equal(zr_merges_ready(&merges), 0);
		t.bpe = (struct zr_bpe){ .merges = merges,
					 .character = character,
					 .fuse_unknown = cases[i].fuse };
		assert_int_equal(zr_joins_open(&t, &j), 0);
		for (int k = 0, count; p < end; p += cases[i].part[k++].n) {
			size_t n = zr_joins_part(j, p, (size_t)(end - p), id, &count);
			assert_int_equal(n, cases[i].part[k].n);
			assert_int_equal(count, cases[i].part[k].count);
			for (int m = 0; m < count; m++)
				assert_int_equal(id[m], cases[i].part[k].id);
		}
		zr_joins_close(j);
		zr_merges_free(&merges);
	}
	free(character);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),       cmocka_unit_test(test_parts),
		cmocka_unit_test(test_words_apart),  cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_long_tokens),  cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_merged_bytes), cmocka_unit_test(test_single_characters),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
