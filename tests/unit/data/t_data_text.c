/* SPDX-License-Identifier: Apache-2.0
 *
 * t_data_text.c - data/text: what is held out, compressed files, and which files are refused.
 */
#include "data_fixture.h"

#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZLIB
#include <unistd.h>
#include <zlib.h>
#endif

#define ANY "content", "any" /* these bytes are no text */

static int chunk_of(int i)
{
	return i / 4096;
}

static int noise(int i)
{
	return (int)((uint32_t)i * 2654435761u >> 13) & 0xff;
}

/* Counts the tokens of a whole epoch of a split by value. */
static void count_values(struct data *d, int32_t split, int64_t windows, int64_t length,
			 int count[256])
{
	int64_t i, g;
	memset(count, 0, 256 * sizeof *count);
	for (g = 0; g < windows; g++) {
		struct zr_batch b = request(split, 0, g, windows, 1, length);
		get(d, &b);
		for (i = 0; i < length; i++)
			count[inputs[i]]++;
	}
}

static void every_20th_chunk_is_held_out(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text"), "order", "sequential", NULL };
	struct zr_data_info info;
	int count[256], i;
	struct data d;
	(void)state;
	write_text("text", 45 * 4096 + 100, chunk_of);
	data_prepared(&d, "data/text", o, 64);
	info = info_of(&d);
	assert_int_equal(info.vocabulary, 256);
	assert_int_equal(info.val_tokens, 2 * 4096);
	assert_int_equal(info.train_tokens, 43 * 4096 + 100);
	assert_string_equal(info.describe, "text: 184.4 K bytes, 4.4 % held out");
	count_values(&d, ZR_SPLIT_TRAIN, 43 * 64 + 1, 64, count);
	for (i = 0; i < 45; i++)
		assert_int_equal(count[i], i % 20 == 19 ? 0 : 4096);
	count_values(&d, ZR_SPLIT_VAL, 127, 64, count);
	assert_int_equal(count[19], 4096);
	assert_int_equal(count[39], 4096 - 64); /* the last window lacks its last target */
	assert_int_equal(test_bytes(host), 45 * 4096 + 100);
	data_close(&d);
}

static void a_started_20th_chunk_is_held_out_too(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text"), NULL };
	struct data d;
	(void)state;
	write_text("text", 19 * 4096 + 100, chunk_of);
	data_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).val_tokens, 100);
	data_close(&d);
	write_text("text", 19 * 4096, chunk_of);
	data_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).val_tokens, 0);
	assert_string_equal(info_of(&d).describe, "text: 77.8 K bytes, no validation");
	data_close(&d);
}

static void chunks_are_counted_over_the_concatenated_text(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text-?"), NULL };
	int count[256];
	struct data d;
	(void)state;
	/* chunk 19 starts in the second file's ninth, */
	write_text("text-1", 10 * 4096 + 96, chunk_of);
	write_text("text-2", 12 * 4096 - 96, chunk_of); /* 96 bytes before its end */
	data_prepared(&d, "data/text", o, 63);
	assert_int_equal(info_of(&d).val_tokens, 4096);
	count_values(&d, ZR_SPLIT_VAL, 65, 63, count);
	assert_int_equal(count[8], 96);
	assert_int_equal(count[9], 4095 - 96);
	data_close(&d);
}

static void val_path_leaves_all_of_path_for_training(void **state)
{
	const char *const o[] = {
		ANY, "path", in_dir("text"), "val_path", in_dir("valtext"), NULL
	};
	struct data d;
	(void)state;
	write_text("text", 45 * 4096, chunk_of);
	write_text("valtext", 1000, noise);
	data_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).train_tokens, 45 * 4096);
	assert_int_equal(info_of(&d).val_tokens, 1000);
	data_close(&d);
}

/* The value of a chunk of 4 KiB; each 64th differs from the one 64 before. */
static int far_apart(int i)
{
	return (i / 4096 + i / (64 * 4096)) % 251;
}

static void a_text_of_some_MiB_is_kept_while_it_is_counted(void **state)
{
	enum { CHUNKS = 1500, LENGTH = 4096 }; /* twice as much room is needed two times */
	const char *const o[] = {
		ANY,          "path", in_dir("text"), "val_path", in_dir("valtext"), "order",
		"sequential", NULL
	};
	struct data d;
	(void)state;
	write_text("text", CHUNKS * 4096, far_apart);
	write_text("valtext", 5000, noise);
	data_prepared(&d, "data/text", o, LENGTH);
	assert_int_equal(info_of(&d).train_tokens, CHUNKS * 4096);
	for (int64_t g = 0; g < CHUNKS - 1; g++) {
		struct zr_batch b = request(ZR_SPLIT_TRAIN, 0, g, CHUNKS - 1, 1, LENGTH);
		get(&d, &b);
		assert_int_equal(inputs[0], far_apart((int)g * 4096));
		assert_int_equal(inputs[LENGTH - 1], far_apart((int)g * 4096));
	}

	struct zr_batch b = request(ZR_SPLIT_VAL, 0, 0, 1, 1, LENGTH);
	get(&d, &b);
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(inputs[i], noise(i));
	data_close(&d);
}

static void short_or_empty_text_is_refused(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text"), NULL };
	const char *const val[] = {
		ANY, "path", in_dir("text"), "val_path", in_dir("valtext"), NULL
	};
	struct data d;
	(void)state;
	write_text("text", 0, noise);
	assert_int_equal(data_open(&d, "data/text", o), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/text: is empty"));
	write_text("text", 100, noise);
	write_text("valtext", 50, noise);
	assert_int_equal(data_open(&d, "data/text", val), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 100, 256), ZR_EINVAL);
	assert_non_null(
		strstr(test_error(host), "/text: 100 bytes to train on, one sequence needs 101"));
	assert_int_equal(d.v->prepare(d.inst, 64, 256), ZR_EINVAL);
	assert_non_null(strstr(test_error(host),
			       "50 bytes for validation, one sequence needs 65: set val_path"));
	assert_int_equal(d.v->prepare(d.inst, 32, 97), ZR_EINVAL);
	assert_string_equal(test_error(host), "bytes need a model with a vocabulary of at least "
					      "256, this one has 97");
	data_close(&d);
}

static void refused_memory_is_an_error_and_leaves_nothing(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text"), NULL };
	struct data d;
	int nth;
	(void)state;
	write_text("text", 20 * 4096, noise);
	for (nth = 1; nth <= 2; nth++) {
		test_refuse(host, nth);
		assert_int_equal(data_open(&d, "data/text", o), ZR_ENOMEM);
		assert_non_null(strstr(test_error(host), "no memory for"));
		assert_int_equal(test_bytes(host), 0);
	}
	test_refuse(host, 0);
}

struct begin {
	const char *bytes;
	int n;
	const char *says; /* NULL: it is text */
};
#define BEGIN(text, says)                                                                          \
	{                                                                                          \
		text, sizeof text - 1, says                                                        \
	}

static const struct begin begins[] = {
	BEGIN("\x88\xd8\x34\x01\1\0\0\0", "a file of tokens with llm.c's header, not text: use"),
	BEGIN("\xa1\xd9\x34\x01\7\0\0\0", "a file of tokens with llm.c's header"),
	BEGIN("\x93NUMPY\1\0", "an array of NumPy"),
	BEGIN("\x28\xb5\x2f\xfd$", "compressed by zstd"),
	BEGIN("PK\3\4", "a zip archive"),
	BEGIN("PAR1", "a Parquet file"),
	BEGIN("\xff\xfeh\0e\0", "UTF-16"),
	BEGIN("some words\0and more", "binary (byte 10 is zero), not text: use [data]"),
	BEGIN("{\"text\": \"a\"}\n{\"text\": \"b\"}\n",
	      "JSON, not text: if it is conversations, use"),
	BEGIN("\xef\xbb\xbf\r\n[\n { \"a\\\"b\" :", "JSON"),
	BEGIN("{\"text\"", NULL),
	BEGIN("{\n\tint x = 1;\n}\n", NULL),
	BEGIN("{\"a\", \"b\"}", NULL),
	BEGIN("[1] \"A title\": a page", NULL),
	BEGIN("[", NULL),
	BEGIN("{\"\\", NULL),
	BEGIN("BZ", NULL),
	BEGIN("na\xefve in Latin-1", NULL),
	BEGIN("\xef\xbb\xbfin UTF-8", NULL),
};

static void what_is_no_text_is_refused_with_what_to_use_I7(void **state)
{
	const char *const o[] = { "path", in_dir("begin"), NULL };
	const char *const any[] = { "path", in_dir("begin"), "content", "any", NULL };
	const char *const second[] = { "path", in_dir("begi*"), NULL };
	struct data d;
	(void)state;
	write_file("begi0", "a text before it", 16);
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
		const struct begin *b = &begins[i];
		write_file("begin", b->bytes, (size_t)b->n);
		test_clear(host);
		int rc = data_open(&d, "data/text", o);
		if (rc != (b->says ? ZR_EINVAL : ZR_OK) ||
		    (b->says && !strstr(test_error(host), b->says)) ||
		    (b->says && !strstr(test_error(host), "begin: is ")))
			fail_msg("%.20s: %d: %s", b->bytes, rc, test_error(host));
		if (!rc)
			data_close(&d);
		assert_int_equal(data_open(&d, "data/text", second), b->says ? ZR_EINVAL : ZR_OK);
		if (!b->says)
			data_close(&d);
		assert_int_equal(data_open(&d, "data/text", any), ZR_OK);
		assert_int_equal(info_of(&d).train_tokens, b->n);
		data_close(&d);
	}
}

static void files_are_told_by_their_bytes(void **state)
{
	const char *const o[] = { "path", in_dir("t?"), "val_path", in_dir("val"), NULL };
	struct zr_data_file f[4] = { { .size = sizeof *f }, { .size = sizeof *f } };
	struct data d;
	(void)state;
	write_file("t1", "some text", 9);
	write_file("t2", "some tex", 8);
	write_file("val", "some text", 9);
	assert_int_equal(data_open(&d, "data/text", o), ZR_OK);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(d.v->file(d.inst, i, &f[i]), ZR_OK);
	assert_non_null(strstr(f[1].name, "/t2"));
	assert_null(f[3].name);
	assert_int_equal(f[1].bytes, 8);
	assert_true(f[0].hash == f[2].hash && f[0].hash != f[1].hash);
	data_close(&d);
}

static void bytes_are_tokens_and_back(void **state)
{
	static const char text[] = "A\377z";
	const struct zr_data_v1 *v = test_iface(test_plugin("data/text"), "zr.data/1");
	int32_t token[4] = { -1, -1, -1, -1 };
	char out[16];
	(void)state;
	assert_int_equal(v->encode(NULL, text, 3, token, 2), 3);
	assert_int_equal(token[1], 255);
	assert_int_equal(token[2], -1);
	assert_int_equal(v->decode(NULL, 255, out), 1);
	assert_int_equal((uint8_t)out[0], 255);
	assert_int_equal(v->decode(NULL, 256, out), 0);
	assert_int_equal(v->decode(NULL, -1, out), 0);
}

#ifdef HAVE_ZLIB
/* A member of bytes [from, to). */
static void write_member(const char *name, const char *mode, int from, int to)
{
	char *bytes = malloc((size_t)(to - from));
	gzFile f = gzopen(in_dir(name), mode);
	int i;
	assert_non_null(bytes);
	assert_non_null(f);
	for (i = from; i < to; i++)
		bytes[i - from] = (char)noise(i);
	assert_int_equal(gzwrite(f, bytes, (unsigned)(to - from)), to - from);
	assert_int_equal(gzclose(f), Z_OK);
	free(bytes);
}

static void write_gz(const char *name, int n, int cut)
{
	write_member(name, "w", 0, n);
	assert_int_equal(cut ? truncate(in_dir(name), cut) : 0, 0);
}

static void same_text(int members)
{
	const char *const plain[] = { ANY, "path", in_dir("text"), NULL };
	const char *const gz[] = { ANY, "path", in_dir("text.gz"), NULL };
	static int32_t want[64];
	struct data a, b;
	int step;
	write_text("text", 200000, noise);
	write_gz("text.gz", 200000 / members, 0);
	for (step = 1; step < members; step++)
		write_member("text.gz", "a", step * (200000 / members),
			     (step + 1) * (200000 / members));
	data_prepared(&a, "data/text", plain, 64);
	data_prepared(&b, "data/text", gz, 64);
	assert_int_equal(info_of(&a).train_tokens, info_of(&b).train_tokens);
	assert_int_equal(info_of(&a).val_tokens, info_of(&b).val_tokens);
	for (step = 0; step < 50; step++) {
		struct zr_batch r =
			request(step % 2 ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN, step, 0, 1, 1, 64);
		get(&a, &r);
		memcpy(want, targets, sizeof want);
		get(&b, &r);
		assert_memory_equal(targets, want, sizeof want);
	}
	data_close(&a);
	data_close(&b);
}

/* One member, and several that follow each other, which are read in another way. */
static void compressed_text_is_the_same_text(void **state)
{
	(void)state;
	same_text(1);
	same_text(4);
}

/* 64 MiB of zeros are 64 KiB: they are counted before memory is taken, and no further than the
 * limit. */
static void what_expands_beyond_the_limit_is_refused_I7(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("zeros.gz"), "max_bytes", "1M", NULL };
	const char *const as_large[] = {
		ANY, "path", in_dir("zeros.gz"), "max_bytes", "64M", NULL
	};
	const char *const both[] = {
		ANY,   "path", in_dir("zeros.gz"), "val_path", in_dir("zeros.gz"), "max_bytes",
		"64M", NULL
	};
	static const char zeros[1 << 20];
	struct data d;
	gzFile f;
	int i;
	(void)state;
	write_file("zeros.gz", "", 0); /* so that it is removed */
	f = gzopen(in_dir("zeros.gz"), "w");
	assert_non_null(f);
	for (i = 0; i < 64; i++)
		assert_int_equal(gzwrite(f, zeros, sizeof zeros), sizeof zeros);
	assert_int_equal(gzclose(f), Z_OK);
	test_refuse(host, 1); /* what asks for memory ends with another code */
	assert_int_equal(data_open(&d, "data/text", o), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/zeros.gz: with it the text has more than "
						 "1048576 bytes, which is max_bytes; raise that"));
	assert_int_equal(data_open(&d, "data/text", both), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "more than 67108864 bytes"));
	test_refuse(host, 0);
	assert_int_equal(data_open(&d, "data/text", as_large), ZR_OK);
	data_close(&d);
}

static void a_damaged_gz_is_refused(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text.gz"), NULL };
	struct data d;
	FILE *f;
	(void)state;
	write_gz("text.gz", 200000, 2000);
	assert_int_not_equal(data_open(&d, "data/text", o), ZR_OK);
	assert_non_null(strstr(test_error(host), "/text.gz: the compressed file is truncated"));
	write_gz("text.gz", 200000, 0);
	f = fopen(in_dir("text.gz"), "r+");
	assert_non_null(f);
	fseek(f, 3000, SEEK_SET);
	fwrite("not what was there", 1, 18, f);
	fclose(f);
	assert_int_not_equal(data_open(&d, "data/text", o), ZR_OK);
	assert_non_null(strstr(test_error(host), "/text.gz: incorrect data check"));
	write_file("text.gz", "plain text under a wrong name", 29);
	assert_int_equal(data_open(&d, "data/text", o), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/text.gz: is not a gzip file"));
	assert_int_equal(test_bytes(host), 0);
}
#else
static void without_zlib_a_gz_is_refused_with_what_to_install_I7(void **state)
{
	const char *const o[] = { ANY, "path", in_dir("text.gz"), NULL };
	struct data d;
	(void)state;
	write_file("text.gz", "\037\213\010\000compressed", 14);
	assert_int_equal(data_open(&d, "data/text", o), ZR_ENOTSUP);
	assert_non_null(
		strstr(test_error(host), "/text.gz: is compressed and this build has no zlib"));
	assert_non_null(strstr(test_error(host), "install zlib1g-dev"));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_20th_chunk_is_held_out),
		cmocka_unit_test(a_started_20th_chunk_is_held_out_too),
		cmocka_unit_test(chunks_are_counted_over_the_concatenated_text),
		cmocka_unit_test(val_path_leaves_all_of_path_for_training),
		cmocka_unit_test(a_text_of_some_MiB_is_kept_while_it_is_counted),
		cmocka_unit_test(short_or_empty_text_is_refused),
		cmocka_unit_test(refused_memory_is_an_error_and_leaves_nothing),
		cmocka_unit_test(what_is_no_text_is_refused_with_what_to_use_I7),
		cmocka_unit_test(files_are_told_by_their_bytes),
		cmocka_unit_test(bytes_are_tokens_and_back),
#ifdef HAVE_ZLIB
		cmocka_unit_test(compressed_text_is_the_same_text),
		cmocka_unit_test(what_expands_beyond_the_limit_is_refused_I7),
		cmocka_unit_test(a_damaged_gz_is_refused),
#else
		cmocka_unit_test(without_zlib_a_gz_is_refused_with_what_to_install_I7),
#endif
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
