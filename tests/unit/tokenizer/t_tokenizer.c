/* SPDX-License-Identifier: Apache-2.0
 *
 * t_tokenizer.c - parts of files/tokenizer that the golden files of tokenize.sh do not reach:
 * broken bytes at every cut, which patterns pass, long pieces. (Damaged files:
 * tests/fuzz/fuzz_tokenizer.c.)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/pool.h"
#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

#define ROOM 65536

static void test_utf8(void **unused)
{
	/* as Python decodes with errors='replace' */
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{ "plain", "plain" },
		{ "\xc3\xa4\xe4\xba\xba\xf0\x9f\x98\x80", "\xc3\xa4\xe4\xba\xba\xf0\x9f\x98\x80" },
		{ "\xff", "?" },
		{ "a\xf0\x9f\x98z", "a?z" },
		{ "\xe4\xba", "?" },
		{ "\xed\xa0\x80", "???" },      /* a surrogate */
		{ "\xc0\x80", "??" },           /* longer than it need be */
		{ "\xf4\x90\x80\x80", "????" }, /* behind the last one */
		{ "\xe4\xba\xff\xe4\xba\xba", "??\xe4\xba\xba" },
		{ "\xf0\x80\x80", "???" },
		{ "\xc3\xc3\xa4", "?\xc3\xa4" },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *bytes = cases[i].bytes;
		for (size_t cut = 0; cut <= strlen(bytes); cut++) {
			struct zr_buf raw = { 0 }, out = { 0 }, wanted = { 0 };
			struct zr_utf8_bad is = { 0 };
			uint64_t bad = 0;
			const char *first = strchr(cases[i].text, '?');
			for (const char *p = cases[i].text; *p; p++, bad += p[-1] == '?')
				assert_int_equal(zr_buf_add(&wanted, *p == '?' ? "\xef\xbf\xbd" : p,
							    *p == '?' ? 3 : 1),
						 0);
			assert_int_equal(zr_buf_add(&raw, bytes, cut), 0);
			assert_int_equal(zr_utf8_lossy(&raw, 0, &out, &is), 0);
			assert_int_equal(zr_buf_add(&raw, bytes + cut, strlen(bytes + cut)), 0);
			assert_int_equal(zr_utf8_lossy(&raw, 1, &out, &is), 0);
			assert_int_equal(out.n, wanted.n);
			assert_memory_equal(out.p, wanted.p, out.n);
			assert_int_equal(is.places, bad);
			assert_int_equal(is.bytes, strlen(bytes));
			if (first)
				assert_int_equal(is.first, first - cases[i].text);
			zr_buf_free(&raw);
			zr_buf_free(&out);
			zr_buf_free(&wanted);
		}
	}
}

static void test_patterns(void **unused)
{
	static const char *const same[] = {
		"a|b*+c?+",        "(?i:'s|'T)",           "\\p{L}\\P{Nd}\\p{^Lu}{1,3}",
		"[^\\r\\n\\p{L}]", "(?=x)(?!y)(?>z)(?:w)", "a.b",
		"\\(\\[\\."
	};
	static const char *const refused[] = { "\\w",       "\\bx",    "\\h",         "\\p{Han}",
					       "\\p{L",     "\\pL",    "a{2}+",       "[a[^b]]",
					       "[a[]]",     "[a-[b]]", "[[:alpha:]]", "[a[b]",
					       "[a&&b]",    "^a",      "(?<=a)b",     "(?i)a",
					       "(*ACCEPT)", "[\\S]",   "a\\",         "[]a]",
					       "[a",        "x{,3}",   "\\1" };
	struct zr_error err = { 0 };
	char *text;
	(void)unused;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		assert_int_equal(zr_pattern_translate(same[i], 0, &text, &err), 0);
		assert_string_equal(text, same[i]);
		free(text);
	}
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct zr_error why = { 0 };
		if (!zr_pattern_translate(refused[i], 0, &text, &why))
			fail_msg("%s passes as %s", refused[i], text);
		assert_non_null(strstr(why.text, "pattern"));
	}
	assert_int_equal(zr_pattern_translate("\\d", 0, &text, &err), 0);
	assert_string_equal(text, "\\p{Nd}");
	free(text);
	assert_int_equal(zr_pattern_translate("[^a[b.]c]$", 0, &text, &err), 0);
	assert_string_equal(text, "[^ab.c](?m:$)");
	free(text);
	assert_int_equal(zr_pattern_translate("a.b-[", 1, &text, &err), 0);
	assert_string_equal(text, "a\\.b\\-\\[");
	free(text);
}

/* ---- a whole tokenizer ---- */

static char good[ROOM];
static size_t n_good;

static int load(const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/tests/golden/tokenizers/%s.json",
		 getenv("ZR_SRCDIR") ? getenv("ZR_SRCDIR") : ".", name);
	FILE *f = fopen(path, "r");
	if (!f)
		return -1;
	n_good = fread(good, 1, sizeof good - 1, f);
	good[n_good] = 0;
	fclose(f);
	return 0;
}

static int setup(void **unused)
{
	(void)unused;
	return load("llama3");
}

struct count {
	int64_t tokens, size;
};

static int count(void *arg, const int32_t *ids, size_t n)
{
	struct count *c = arg;
	c->tokens += (int64_t)n;
	for (size_t i = 0; i < n; i++)
		assert_in_range(ids[i], 0, c->size - 1);
	return 0;
}

static int open_text(const char *text, size_t n, struct zr_tokenizer **t, struct zr_error *err)
{
	static int fd = -1;
	char path[64];
	if (fd < 0)
		fd = memfd_create("tokenizer.json", 0);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, n, 0), (ssize_t)n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return zr_tokenizer_open(path, t, err);
}

/* Whether this build can: without PCRE2 there is nothing to test. */
static int there(struct zr_tokenizer **t)
{
	struct zr_error err = { 0 };
	int rc = open_text(good, n_good, t, &err);
	assert_int_equal(rc ? strstr(err.text, "needs PCRE2") != NULL : 1, 1);
	return !rc;
}

static void test_long(void **unused)
{
	struct zr_tokenizer *t;
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	size_t n = (size_t)ZR_TOKENIZER_PIECE + 1;
	(void)unused;
	if (!there(&t))
		skip();
	struct count c = { 0, zr_tokenizer_size(t) };
	char *text = malloc(n);
	assert_non_null(text);
	memset(text, 'a', n);
	assert_int_equal(zr_encoder_open(t, count, &c, &e, &err), 0);
	assert_int_equal(zr_encode(e, text, n - 1, &err), 0);
	assert_int_equal(zr_encode(e, text, 1, &err), ZR_EINVAL);
	assert_string_equal(err.text,
			    "more than 16 MiB of text that the pre-tokenizer does not split");
	zr_encoder_close(e);

	/* A long one in small pieces; and much white space, of which only the end decides. */
	assert_int_equal(zr_encoder_open(t, count, &c, &e, &err), 0);
	for (size_t i = 0; i < 2000; i++)
		assert_int_equal(zr_encode(e, text, 100, &err), 0);
	memset(text, ' ', n);
	for (size_t i = 0; i < 2000; i++)
		assert_int_equal(zr_encode(e, text, 100, &err), 0);
	assert_int_equal(zr_encode_end(e, &err), 0);
	assert_true(c.tokens > 100);
	zr_encoder_close(e);
	zr_tokenizer_close(t);
	free(text);
}

struct following {
	const struct zr_tokenizer *t;
	const char *at; /* where the tokens so far end in the text */
};

static int follow(void *arg, const int32_t *ids, size_t n)
{
	struct following *f = arg;
	for (size_t i = 0, len; i < n; i++, f->at += len) {
		const char *p = zr_tokenizer_bytes(f->t, ids[i], &len);
		assert_memory_equal(p, f->at, len);
	}
	return 0;
}

/* " aaaa", " aaab" and so on. */
static char *put_word(char *p, unsigned i)
{
	*p++ = ' ';
	for (unsigned k = 0; k < 4; k++, i /= 26)
		*p++ = (char)('a' + i % 26);
	return p;
}

/* More words than are remembered, and again in another order: their tokens have their bytes. */
static void test_many_words(void **unused)
{
	const unsigned words = 150000;
	struct following f = { 0 };
	struct zr_tokenizer *t;
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	char *text = malloc(2 * 5 * words), *p = text;
	(void)unused;
	assert_non_null(text);
	if (!there(&t)) {
		free(text);
		skip();
	}
	for (unsigned i = 0; i < 2 * words; i++)
		p = put_word(p, i < words ? i : i * 7919u % words);
	f = (struct following){ t, text };
	assert_int_equal(zr_encoder_open(t, follow, &f, &e, &err), 0);
	assert_int_equal(zr_encode(e, text, (size_t)(p - text), &err), 0);
	assert_int_equal(zr_encode_end(e, &err), 0);
	assert_ptr_equal(f.at, p);
	zr_encoder_close(e);
	zr_tokenizer_close(t);
	free(text);
}

/* ---- threads that share a tokenizer ---- */

#define SHARED 32

struct sharing {
	const struct zr_tokenizer *t;
	uint64_t hash[SHARED]; /* of the ids that each got */
};

static int add_to_hash(void *arg, const int32_t *ids, size_t n)
{
	uint64_t *hash = arg;
	for (size_t i = 0; i < n; i++)
		*hash = *hash * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)ids[i] + 1;
	return 0;
}

static void encode_shared(void *arg, int64_t item, int32_t worker)
{
	static const char text[] = "caf\u00e9, \u4eba\u5de5 \u0661\u0662 it's\u3000 na\u00efve ";
	struct sharing *s = arg;
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	(void)worker;
	int rc = zr_encoder_open(s->t, add_to_hash, &s->hash[item], &e, &err);
	if (rc)
		return;
	for (int i = 0; !rc && i < 5000; i++)
		rc = zr_encode(e, text, sizeof text - 1, &err);
	if (rc || zr_encode_end(e, &err))
		s->hash[item] = 0;
	zr_encoder_close(e);
}

static void test_shared(void **unused)
{
	struct sharing s = { 0 };
	struct zr_tokenizer *t;
	struct zr_pool *pool;
	(void)unused;
	if (!there(&t))
		skip();
	s.t = t;
	assert_int_equal(zr_pool_new(4, &pool), 0);
	zr_pool_run(pool, SHARED, encode_shared, &s);
	assert_int_not_equal(s.hash[0], 0);
	for (int i = 1; i < SHARED; i++)
		assert_int_equal(s.hash[i], s.hash[0]);
	zr_pool_free(pool);
	zr_tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8),   cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_long),   cmocka_unit_test(test_many_words),
		cmocka_unit_test(test_shared),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, NULL);
}
