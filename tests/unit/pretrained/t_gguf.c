/* SPDX-License-Identifier: Apache-2.0
 *
 * t_gguf.c - files of llama.cpp: blocks as its library makes them (golden/make_gguf.py), a file
 * that a small reader reads back, what is left where one is not written; SHA-256 by its standard's
 * examples; tokenizer.model, whole and cut.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/gguf/gguf.h"
#include "files/sha256.h"
#include "train/gguf/parts.h"

#include <cmocka.h> /* last: it defines fail() */

#define FILE_BYTES 65536 /* of the files that are read here */

static const char *golden_path(const char *name)
{
	static char path[PATH_MAX];
	const char *dir = getenv("ZR_SRCDIR");

	snprintf(path, sizeof path, "%s/tests/golden/gguf/%s", dir ? dir : ".", name);
	return path;
}

/* ---- types ---- */

static size_t from_hex(const char *text, unsigned char *to)
{
	size_t n = 0;
	unsigned byte;

	for (; sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
		to[n] = (unsigned char)byte;
	return n;
}

static void blocks_are_the_librarys(void **state)
{
	char x[512], q8[512], bf16[512];
	float value[32];
	unsigned char want[128], got[128];
	int64_t infinite = 0;
	int rows = 0;
	FILE *f = fopen(golden_path("blocks.txt"), "r");

	(void)state;
	assert_non_null(f);
	for (; fscanf(f, "%511s %511s %511s", x, q8, bf16) == 3; rows++) {
		assert_int_equal(from_hex(x, (unsigned char *)value), sizeof value);
		assert_int_equal(from_hex(q8, want), 34);
		assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, value, 32, got, &infinite), 0);
		assert_memory_equal(got, want, 34);
		assert_int_equal(from_hex(bf16, want), 64);
		assert_int_equal(zr_gguf_encode(ZR_GGUF_BF16, value, 32, got, &infinite), 0);
		assert_memory_equal(got, want, 64);
	}

	fclose(f);
	assert_int_equal(rows, 12);
	assert_int_equal(infinite, 0);
}

static void what_a_type_cannot_hold(void **state)
{
	float x[32] = { 1 };
	unsigned char to[128];
	int64_t infinite = 0;

	(void)state;
	x[7] = INFINITY;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, x, 32, to, &infinite), ZR_EINVAL);
	x[7] = NAN;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, x, 32, to, &infinite), ZR_EINVAL);
	x[7] = 127 * 65520.0f;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, x, 32, to, &infinite), ZR_EINVAL);
	x[7] = 127 * 65504.0f;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, x, 32, to, &infinite), 0);

	/* a scale that cannot be inverted */
	memset(x, 0, sizeof x);
	x[0] = 1e-40f;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_Q8_0, x, 32, to, &infinite), 0);
	assert_int_equal(to[2], 0);

	assert_int_equal(infinite, 0);
	x[0] = 70000;
	x[1] = INFINITY;
	assert_int_equal(zr_gguf_encode(ZR_GGUF_F16, x, 32, to, &infinite), 0);
	assert_int_equal(infinite, 1);
	assert_int_equal(zr_gguf_bytes(ZR_GGUF_Q8_0, 96), 102);
	assert_int_equal(zr_gguf_bytes(ZR_GGUF_F32, 96), 384);
}

/* ---- a file ---- */

static unsigned char file[FILE_BYTES];
static size_t at, end;

static uint64_t number(int bytes)
{
	uint64_t x = 0;

	assert_true(at + (size_t)bytes <= end);
	for (int i = bytes - 1; i >= 0; i--)
		x = x << 8 | file[at + (size_t)i];
	at += (size_t)bytes;
	return x;
}

static void expect_text(const char *text)
{
	const uint64_t n = number(8);

	assert_int_equal(n, strlen(text));
	assert_memory_equal(file + at, text, n);
	at += n;
}

static void expect_head(const char *key, uint64_t type)
{
	expect_text(key);
	assert_int_equal(number(4), type);
}

static void read_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	assert_non_null(f);
	end = fread(file, 1, sizeof file, f);
	at = 0;
	fclose(f);
}

static void make_keys(struct zr_gguf_keys *k)
{
	zr_gguf_text(k, "a.text", "words");
	zr_gguf_u32(k, "a.number", 4000000000u);
	zr_gguf_f32(k, "a.real", 0.5f);
	zr_gguf_bool(k, "a.switch", 7);
	zr_gguf_texts(k, "a.texts", 2);
	zr_gguf_add(k, "a\0b", 3);
	zr_gguf_add(k, "", 0);
	zr_gguf_i32s(k, "a.numbers", (const int32_t[]){ -1, 2 }, 2);
	zr_gguf_f32s(k, "a.reals", (const float[]){ 1, -2 }, 2);
}

static void expect_keys(void)
{
	expect_head("a.text", 8);
	expect_text("words");
	expect_head("a.number", 4);
	assert_int_equal(number(4), 4000000000u);
	expect_head("a.real", 6);
	assert_int_equal(number(4), 0x3f000000);
	expect_head("a.switch", 7);
	assert_int_equal(number(1), 1);

	expect_head("a.texts", 9);
	assert_int_equal(number(4), 8);
	assert_int_equal(number(8), 2);
	assert_int_equal(number(8), 3);
	assert_memory_equal(file + at, "a\0b", 3);
	at += 3;
	expect_text("");

	expect_head("a.numbers", 9);
	assert_int_equal(number(4), 5);
	assert_int_equal(number(8), 2);
	assert_int_equal(number(8), 0x2ffffffffu);
	expect_head("a.reals", 9);
	assert_int_equal(number(4), 6);
	assert_int_equal(number(8), 2);
	assert_int_equal(number(8), 0xc00000003f800000u);
}

static int is_there(const char *path)
{
	return !access(path, F_OK);
}

static void create(struct zr_gguf_writer *w, const char *path)
{
	struct zr_gguf_keys keys = { 0 };
	struct zr_gguf_tensor t[2];
	struct zr_error err = { 0 };

	make_keys(&keys);
	zr_gguf_make(&t[0], "one", ZR_GGUF_F16, 2, (const int64_t[]){ 3, 5 });
	zr_gguf_make(&t[1], "two", ZR_GGUF_F32, 1, (const int64_t[]){ 2 });
	assert_int_equal(zr_gguf_create(w, path, &keys, t, 2, &err), 0);
	zr_gguf_keys_free(&keys);
}

static void a_file_reads_back(void **state)
{
	struct zr_gguf_writer w;
	struct zr_gguf_keys none = { 0 };
	struct zr_error err = { 0 };
	const char ones[30] = { 1, 1 }, twos[8] = { 2, 2 };

	(void)state;
	create(&w, "t.gguf");
	zr_gguf_append(&w, ones, sizeof ones);
	zr_gguf_pad(&w);
	zr_gguf_append(&w, twos, sizeof twos);
	zr_gguf_pad(&w);
	assert_false(is_there("t.gguf"));
	assert_int_equal(zr_gguf_finish(&w, 1, &err), 0);
	assert_false(is_there("t.gguf.tmp"));

	read_file("t.gguf");
	assert_memory_equal(file, "GGUF", 4);
	at = 4;
	assert_int_equal(number(4), 3);
	assert_int_equal(number(8), 2);
	assert_int_equal(number(8), 7);
	expect_keys();

	expect_text("one");
	assert_int_equal(number(4), 2);
	assert_int_equal(number(8), 5);
	assert_int_equal(number(8), 3);
	assert_int_equal(number(4), ZR_GGUF_F16);
	assert_int_equal(number(8), 0);
	expect_text("two");
	assert_int_equal(number(4), 1);
	assert_int_equal(number(8), 2);
	assert_int_equal(number(4), ZR_GGUF_F32);
	assert_int_equal(number(8), 32);

	at = (at + 31) / 32 * 32;
	assert_memory_equal(file + at, ones, sizeof ones);
	assert_memory_equal(file + at + 32, twos, sizeof twos);
	assert_int_equal(end, at + 64);

	assert_int_equal(zr_gguf_create(&w, "t.gguf", &none, NULL, 0, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "t.gguf exists already"));
	unlink("t.gguf");
}

static void a_file_is_whole_or_absent(void **state)
{
	struct zr_gguf_writer w;
	struct zr_error err = { 0 };

	(void)state;
	create(&w, "t.gguf");
	assert_true(is_there("t.gguf.tmp"));
	assert_int_equal(zr_gguf_finish(&w, 0, &err), 0);
	assert_false(is_there("t.gguf.tmp") || is_there("t.gguf"));

	/* what was written is not what is there */
	create(&w, "t.gguf");
	assert_int_equal(truncate("t.gguf.tmp", 40), 0);
	assert_int_equal(zr_gguf_finish(&w, 1, &err), ZR_EIO);
	assert_non_null(strstr(err.text, "does not read back"));
	assert_false(is_there("t.gguf.tmp") || is_there("t.gguf"));

	/* another one has taken the name */
	create(&w, "t.gguf");
	fclose(fopen("t.gguf", "w"));
	assert_int_equal(zr_gguf_finish(&w, 1, &err), ZR_EIO);
	read_file("t.gguf");
	assert_int_equal(end, 0);
	assert_false(is_there("t.gguf.tmp"));
	unlink("t.gguf");

	assert_int_equal(zr_gguf_create(&w, "no/t.gguf", &(struct zr_gguf_keys){ 0 }, NULL, 0,
					&err),
			 ZR_EINVAL);
}

/* ---- what a tokenizer needs ---- */

static void sha256_by_its_standard(void **state)
{
	char hex[65], many[200];

	(void)state;
	zr_sha256("abc", 3, hex);
	assert_string_equal(hex,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	zr_sha256("", 0, hex);
	assert_string_equal(hex,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	zr_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	assert_string_equal(hex,
			    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(many, 'a', sizeof many);
	zr_sha256(many, sizeof many, hex);
	assert_string_equal(hex,
			    "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5");
}

static void pieces_of_a_model(void **state)
{
	struct zr_gguf_proto p;
	struct zr_error err = { 0 };

	(void)state;
	read_file(golden_path("tokenizer.model"));
	assert_int_equal(zr_gguf_proto_read((char *)file, end, "m", &p, &err), 0);
	assert_int_equal(p.n, 400);
	assert_int_equal(p.model, 2);
	assert_int_equal(p.piece[0].type, ZR_TOKEN_UNKNOWN);
	assert_int_equal(p.piece[1].type, ZR_TOKEN_CONTROL);
	assert_memory_equal(p.piece[1].text, "<s>", 3);
	assert_int_equal(p.piece[4].type, ZR_TOKEN_BYTE);
	free(p.piece);

	/* every beginning of it is read within its bytes */
	for (size_t n = 0; n < 400; n++) {
		char *cut = malloc(n + 1);
		memcpy(cut, file, n);
		int rc = zr_gguf_proto_read(cut, n, "m", &p, &err);
		if (!rc)
			free(p.piece);
		free(cut);
	}

	file[0] = 0xff;
	assert_int_equal(zr_gguf_proto_read((char *)file, end, "m", &p, &err), ZR_EINVAL);
	assert_string_equal(err.text, "m: not a model of SentencePiece");
}

int main(void)
{
	char dir[] = "/tmp/zeroth-gguf.XXXXXX";
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_the_librarys),
		cmocka_unit_test(what_a_type_cannot_hold),
		cmocka_unit_test(a_file_reads_back),
		cmocka_unit_test(a_file_is_whole_or_absent),
		cmocka_unit_test(sha256_by_its_standard),
		cmocka_unit_test(pieces_of_a_model),
	};
	char *source = realpath(getenv("ZR_SRCDIR") ? getenv("ZR_SRCDIR") : ".", NULL);

	/* the files of the tests are in a directory of their own */
	if (!source || setenv("ZR_SRCDIR", source, 1) || !mkdtemp(dir) || chdir(dir))
		return 99;
	free(source);

	cmocka_set_message_output(CM_OUTPUT_TAP);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (rmdir(dir))
		return 99;
	return failed;
}
