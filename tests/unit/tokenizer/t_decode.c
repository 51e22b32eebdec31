/* SPDX-License-Identifier: Apache-2.0
 *
 * t_decode.c - ids back to text, as tests/golden/make_decoded.py has it of the library.
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

#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

static json_t *golden(const char *name, const char *end)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/tests/golden/tokenizers/%s%s", getenv("ZR_SRCDIR"), name,
		 end);
	json_t *j = json_load_file(path, 0, NULL);
	assert_non_null(j);
	return j;
}

static void normalize_added(json_t *root)
{
	json_t *token;
	size_t i;
	json_array_foreach(json_object_get(root, "added_tokens"), i, token)
		json_object_set_new(token, "normalized", json_true());
}

/* The tokenizer of a case; NULL: this build cannot. normalized: its added tokens are. */
static struct zr_tokenizer *open_with(const char *name, json_t *decoder, int normalized)
{
	struct zr_tokenizer *t = NULL;
	struct zr_error err = { 0 };
	json_t *root = golden(name, ".json");
	int fd = memfd_create("tokenizer.json", 0);
	char path[64];
	assert_true(fd >= 0);
	json_object_set(root, "decoder", decoder);
	if (normalized)
		normalize_added(root);
	assert_int_equal(json_dumpfd(root, fd, 0), 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (zr_tokenizer_open(path, &t, &err))
		assert_int_equal(err.code, ZR_ENOTSUP);
	close(fd);
	json_decref(root);
	return t;
}

static int32_t id_at(const json_t *ids, size_t i)
{
	return (int32_t)json_integer_value(json_array_get(ids, i));
}

static void add(struct zr_buf *to, const char *p, size_t n)
{
	assert_non_null(p);
	assert_int_equal(zr_buf_add(to, p, n), 0);
}

static void check(const struct zr_tokenizer *t, const json_t *one)
{
	const json_t *ids = json_object_get(one, "ids"), *wanted = json_object_get(one, "text");
	struct zr_buf text = { 0 }, lossy = { 0 };
	struct zr_error err = { 0 };
	struct zr_decoder *d;
	struct zr_utf8_bad bad = { 0 };
	const char *p;
	size_t n;
	assert_int_equal(zr_decoder_open(t, &d, &err), 0);
	for (int twice = 0; twice < 2; twice++) { /* a text before changes nothing */
		text.n = lossy.n = 0;
		zr_decoder_begin(d, 0);
		for (size_t i = 0; i < json_array_size(ids); i++) {
			p = zr_decode(d, id_at(ids, i), &n);
			add(&text, p, n);
		}
		p = zr_decode_end(d, &n);
		add(&text, p, n);
		assert_int_equal(zr_utf8_lossy(&text, 1, &lossy, &bad), 0);
		assert_int_equal(lossy.n, json_string_length(wanted));
		assert_memory_equal(lossy.p, json_string_value(wanted), lossy.n);
	}
	zr_decoder_close(d);
	zr_buf_free(&text);
	zr_buf_free(&lossy);
}

static void test_decoded(void **unused)
{
	json_t *all = golden("decoded", ".json"), *one;
	size_t i, done = 0;
	(void)unused;
	json_array_foreach(all, i, one)
	{
		const char *file = json_string_value(json_object_get(one, "file"));
		int normalized = json_is_true(json_object_get(one, "normalized"));
		struct zr_tokenizer *t =
			open_with(file, json_object_get(one, "decoder"), normalized);
		if (t)
			check(t, one), done++;
		zr_tokenizer_close(t);
	}
	json_decref(all);
	if (!done)
		skip(); /* without PCRE2 */
}

/* Without a decoder a token of a byte is that byte, which alone is no character. */
static void test_none(void **unused)
{
	struct zr_error err = { 0 };
	struct zr_decoder *d;
	struct zr_tokenizer *t = open_with("llama2", NULL, 0);
	size_t n;
	(void)unused;
	if (!t)
		skip();
	assert_int_equal(zr_decoder_open(t, &d, &err), 0);
	for (int byte = 0; byte < 256; byte++) {
		const char *p = zr_decode(d, 3 + byte, &n);
		assert_non_null(p);
		assert_int_equal(n, 1);
		assert_int_equal((unsigned char)*p, byte);
	}
	zr_decoder_close(d);
	zr_tokenizer_close(t);
}

/* A decoder that is not known: tokens can be made, but no text of them. */
static void test_unknown(void **unused)
{
	static const char *const decoders[] = {
		"{\"type\":\"CTC\"}",
		"{\"type\":\"WordPiece\"}",
		"{\"type\":\"Strip\",\"content\":\" \"}",
		("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},"
		 "{\"type\":\"Fuse\"}]}"),
	};
	(void)unused;
	for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
		struct zr_error err = { 0 };
		struct zr_decoder *d;
		json_t *decoder = json_loads(decoders[i], 0, NULL);
		struct zr_tokenizer *t = open_with("llama2", decoder, 0);
		json_decref(decoder);
		if (!t)
			skip();
		assert_int_equal(zr_decoder_open(t, &d, &err), ZR_ENOTSUP);
		assert_non_null(strstr(err.text, "decoder"));
		zr_tokenizer_close(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decoded),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_unknown),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
