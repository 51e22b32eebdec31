/* SPDX-License-Identifier: Apache-2.0
 *
 * t_marks.c - bytes of a text and the tokens that have them: the tokens lie one behind the other in
 * the text, whatever comes between text and token, and however the text is cut into pieces.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/tokenizer.h"

#include <cmocka.h> /* last: it defines fail() */

#define ROOM 1024

struct run {
	int32_t id[ROOM];
	uint64_t token[ROOM]; /* of each byte of the text */
	size_t n;
};

static int take(void *arg, const int32_t *ids, size_t n)
{
	struct run *r = arg;
	assert_true(r->n + n <= ROOM);
	memcpy(r->id + r->n, ids, n * sizeof *ids);
	r->n += n;
	return 0;
}

/* NULL: this build cannot. */
static struct zr_tokenizer *open_family(const char *family)
{
	char path[4096];
	struct zr_error err = { 0 };
	struct zr_tokenizer *t = NULL;
	snprintf(path, sizeof path, "%s/tests/golden/tokenizers/%s.json", getenv("ZR_SRCDIR"),
		 family);
	if (zr_tokenizer_open(path, &t, &err) && err.code != ZR_ENOTSUP)
		fail_msg("%s", err.text);
	return t;
}

/* Every `step`th byte is marked; the text comes in pieces. */
static void encode_some(const struct zr_tokenizer *t, const char *text, size_t piece, size_t step,
			struct run *r)
{
	struct zr_error err = { 0 };
	struct zr_encoder *e;
	size_t n = strlen(text);
	r->n = 0;
	assert_int_equal(zr_encoder_open(t, take, r, &e, &err), 0);
	for (int twice = 0; twice < 2; twice++) { /* a document before changes nothing */
		r->n = 0;
		for (size_t i = 0; i < n; i += step)
			assert_int_equal(zr_encode_mark(e, i, 0, &err), 0);
		for (size_t i = 0; i < n; i += piece)
			assert_int_equal(
				zr_encode(e, text + i, piece < n - i ? piece : n - i, &err), 0);
		assert_int_equal(zr_encode_end(e, &err), 0);
		for (size_t i = 0; i < n; i += step)
			r->token[i] = zr_encoder_marked(e, i / step);
	}
	zr_encoder_close(e);
}

static void encode(const struct zr_tokenizer *t, const char *text, size_t piece, struct run *r)
{
	encode_some(t, text, piece, 1, r);
}

#define TEXT                                                                                       \
	"Hello,  world\n\n\ncaf\u00e9 \U0001f600 <|endoftext|> \u4eba\u5de5\u667a\u80fd it's  a "  \
	"<mask> \n x<right>\u3000 y"

/* Where no byte is lost or made: a byte's token is the one whose bytes it is among. */
static void check_tokens(const struct zr_tokenizer *t, const char *text, struct run *r)
{
	size_t at = 0, n;
	encode(t, text, 1000, r);
	for (size_t i = 0; i < r->n; i++) {
		zr_tokenizer_bytes(t, r->id[i], &n);
		for (size_t j = 0; j < n; j++)
			assert_int_equal(r->token[at + j], i);
		at += n;
	}
	assert_int_equal(at, strlen(text));
}

static void test_byte_level(void **unused)
{
	(void)unused;
	for (int k = 0; k < 2; k++) {
		struct zr_tokenizer *t = open_family(k ? "llama3" : "gpt2");
		struct run r, cut;
		if (!t)
			skip();
		const char *text = "Hello,  world\n\n\ncaf\u00e9 \U0001f600 \u4eba\u5de5 it's  a";
		check_tokens(t, text, &r);
		for (size_t piece = 1; piece < 9; piece++) {
			encode(t, text, piece, &cut);
			assert_int_equal(cut.n, r.n);
			assert_memory_equal(cut.token, r.token, strlen(text) * sizeof *r.token);
		}
		zr_tokenizer_close(t);
	}
}

static void test_every_family(void **unused)
{
	static const char *const family[] = { "gpt2",      "llama3", "qwen2",       "gpt4",
					      "joined",    "llama2", "mistral",     "gemma",
					      "metaspace", "across", "falcon",      "t5",
					      "fallback",  "bert",   "unknown",     "neox",
					      "lacking",   "behind", "behind_whole" };
	(void)unused;
	for (size_t k = 0; k < sizeof family / sizeof *family; k++) {
		struct zr_tokenizer *t = open_family(family[k]);
		struct run r, cut;
		if (!t)
			continue;
		encode(t, TEXT, 1000, &r);
		for (size_t i = 1; i < strlen(TEXT); i++)
			if (r.token[i] < r.token[i - 1] || r.token[i] > r.n)
				fail_msg("%s: byte %zu", family[k], i);
		int32_t mask = zr_tokenizer_added(t, "<mask>");
		size_t at = (size_t)(strstr(TEXT, "<mask>") - TEXT);
		if (mask >= 0)
			assert_int_equal(r.id[r.token[at]], mask);
		encode(t, TEXT, 7, &cut);
		assert_memory_equal(cut.token, r.token, strlen(TEXT) * sizeof *r.token);
		for (size_t step = 2; step < 40; step++) { /* words without a mark between */
			encode_some(t, TEXT, 1000, step, &cut);
			for (size_t i = 0; i < strlen(TEXT); i += step)
				assert_int_equal(cut.token[i], r.token[i]);
		}
		zr_tokenizer_close(t);
	}
}

/* A mark is not the start of a token, but inside one; and where NFC joins characters, both are in
 * what they become. */
static void test_inside(void **unused)
{
	struct zr_tokenizer *t = open_family("qwen2");
	struct run r;
	(void)unused;
	if (!t)
		skip();
	encode(t, "x\n\nfoo", 100, &r);
	assert_int_equal(r.token[1], r.token[2]);
	assert_true(r.token[3] > r.token[2]);
	encode(t, "e\u0301 people", 100, &r);
	assert_int_equal(r.token[0], 0);
	assert_int_equal(r.token[1], 0);
	assert_int_equal(r.token[3], r.token[4]);
	zr_tokenizer_close(t);
}

/* The token of byte `at`, or the first that is its. */
static uint64_t token_of(const struct zr_tokenizer *t, const char *text, size_t at, int first,
			 struct run *r)
{
	struct zr_error err = { 0 };
	struct zr_encoder *e;
	r->n = 0;
	assert_int_equal(zr_encoder_open(t, take, r, &e, &err), 0);
	assert_int_equal(zr_encode_mark(e, at, first, &err), 0);
	assert_int_equal(zr_encode(e, text, strlen(text), &err), 0);
	assert_int_equal(zr_encode_end(e, &err), 0);
	uint64_t token = zr_encoder_marked(e, 0);
	zr_encoder_close(e);
	return token;
}

/* Text behind an added token begins with a space that is put there, a token of its own; a character
 * without a token has one for each of its bytes. */
static void test_first(void **unused)
{
	static const char *const spaced[] = { "llama2", "metaspace" };
	const char *text = "<|endoftext|>\u4e80";
	struct run r;
	(void)unused;
	for (int k = 0; k < 2; k++) {
		struct zr_tokenizer *t = open_family(spaced[k]);
		if (!t)
			skip();
		assert_int_equal(token_of(t, text, 13, 0, &r), 2);
		assert_int_equal(token_of(t, text, 13, 1, &r), 1);
		assert_int_equal(token_of(t, "<|endoftext|>x\u2603", 14, 1, &r), 3);
		zr_tokenizer_close(t);
	}
	struct zr_tokenizer *t = open_family("fallback");
	if (!t)
		skip();
	assert_int_equal(token_of(t, text, 13, 0, &r), 3);
	assert_int_equal(token_of(t, text, 13, 1, &r), 1);
	zr_tokenizer_close(t);
}

/* Tokens that go on with a word have two bytes, ##, that the text has not. */
static void test_wordpiece(void **unused)
{
	const char *text = "quickly lazyfox";
	struct zr_tokenizer *t = open_family("bert");
	struct run r;
	(void)unused;
	if (!t)
		skip();
	encode(t, text, 100, &r);
	size_t at = 0, n;
	for (size_t i = 0; i < r.n; i++) {
		const char *p = zr_tokenizer_bytes(t, r.id[i], &n);
		n -= n > 2 && !memcmp(p, "##", 2) ? 2 : 0;
		at += text[at] == ' ';
		for (size_t j = 0; j < n; j++)
			assert_int_equal(r.token[at + j], i);
		at += n;
	}
	assert_int_equal(at, strlen(text));
	zr_tokenizer_close(t);
}

/* Steps behind Metaspace see three bytes where the text has a space. */
static void test_behind_metaspace(void **unused)
{
	struct zr_tokenizer *t = open_family("behind");
	struct run r;
	(void)unused;
	if (!t)
		skip();
	check_tokens(t, " the quick 12 a  34 b", &r);
	zr_tokenizer_close(t);
}

/* Bytes without a token are unknown ones, each of one byte. */
static void test_unknown(void **unused)
{
	static const uint64_t wanted[] = { 0, 1, 2, 3 };
	struct zr_tokenizer *t = open_family("lacking");
	struct run r;
	(void)unused;
	if (!t)
		skip();
	encode(t, "b!!c", 100, &r);
	assert_int_equal(r.n, 4);
	assert_int_equal(r.id[1], r.id[2]);
	assert_memory_equal(r.token, wanted, sizeof wanted);
	zr_tokenizer_close(t);
}

/* ---- no memory: malloc and its family are this program's own ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static long left = -1; /* allocations until one fails; -1: none does */

#ifndef SANITIZED
#define EXPORT __attribute__((visibility("default")))
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static int fails(void)
{
	if (left < 0 || left--)
		return 0;
	errno = ENOMEM;
	return 1;
}

EXPORT void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}
#endif

/* The first code that is none of success; the marks of a text with every byte marked. */
static int encode_or_fail(const struct zr_tokenizer *t, const char *text, struct run *r)
{
	struct zr_error err = { 0 };
	struct zr_encoder *e;
	size_t n = strlen(text);
	r->n = 0;
	int rc = zr_encoder_open(t, take, r, &e, &err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < n; i++)
		rc = zr_encode_mark(e, i, 0, &err);
	if (!rc)
		rc = zr_encode(e, text, n, &err);
	if (!rc)
		rc = zr_encode_end(e, &err);
	for (size_t i = 0; !rc && i < n; i++)
		r->token[i] = zr_encoder_marked(e, i);
	zr_encoder_close(e);
	return rc;
}

/* Whichever allocation fails: an error, or the marks that there are with memory. */
static void test_no_mark_is_lost_without_memory(void **unused)
{
	static const char *const family[] = { "qwen2", "bert", "t5", "llama2" };
	(void)unused;
#ifdef SANITIZED
	skip();
#endif
	for (size_t k = 0; k < sizeof family / sizeof *family; k++) {
		struct zr_tokenizer *t = open_family(family[k]);
		struct run whole, r;
		long last = 0, failed = 0;
		if (!t)
			continue;
		assert_int_equal(encode_or_fail(t, TEXT, &whole), 0);
		for (long n = 0; left < 0 && n < 100000; n++) {
			left = last = n;
			int rc = encode_or_fail(t, TEXT, &r);
			const int over = left >= 0; /* there are fewer */
			left = -1;
			failed += rc != 0;
			if (rc)
				assert_int_equal(rc, ZR_ENOMEM);
			if (!rc && (r.n != whole.n ||
				    memcmp(r.token, whole.token, strlen(TEXT) * sizeof *r.token)))
				fail_msg("%s: allocation %ld", family[k], n);
			if (over)
				break;
		}
		assert_true(failed > 10 && last > failed);
		zr_tokenizer_close(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_byte_level),
		cmocka_unit_test(test_every_family),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_wordpiece),
		cmocka_unit_test(test_behind_metaspace),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_no_mark_is_lost_without_memory),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
