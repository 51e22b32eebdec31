/* SPDX-License-Identifier: Apache-2.0
 *
 * t_data_tokens.c - data/tokens: the order of sequences, which data/text shares, and which files
 * are refused. Files hold their own positions as tokens, so that a window tells where it came from.
 */
#include "data_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* First token of sequence g of the run, of a stream of positions; the window must go on from
 * there. */
static int32_t window(struct data *d, uint64_t seed, int64_t g, int64_t length)
{
	struct zr_batch b = request(ZR_SPLIT_TRAIN, g, 0, 1, 1, length);
	int64_t i;
	b.seed = seed;
	get(d, &b);
	for (i = 0; i < length; i++) {
		assert_int_equal(inputs[i], inputs[0] + i);
		assert_int_equal(targets[i], inputs[0] + i + 1);
	}
	return inputs[0];
}

/* ---- the order of sequences ---- */

static void an_epoch_visits_every_window_once(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	int tokens, i, n;
	(void)state;
	for (tokens = 8; tokens < 700; tokens += tokens < 100 ? 1 : 97) {
		char seen[128] = { 0 };
		int32_t phase;
		struct data d;
		write_tokens("u32", 0, tokens, 4, -1);
		data_prepared(&d, "data/tokens", o, 7);
		n = (tokens - 1) / 7 > 1 ? (tokens - 1) / 7 - 1 : 1;
		phase = window(&d, 5, 0, 7) % 7;
		for (i = 0; i < n; i++) {
			int32_t at = window(&d, 5, i, 7) - phase;
			assert_true(at >= 0 && at % 7 == 0 && at / 7 < n);
			assert_int_equal(seen[at / 7]++, 0);
		}
		data_close(&d);
	}
}

static void epochs_and_seeds_differ_in_order_and_phase(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	int same_order = 0, same_seed = 0, phases = 0, g;
	char phase[7] = { 0 };
	struct data d;
	(void)state;
	write_tokens("u32", 0, 1000, 4, -1); /* 141 windows of 7 */
	data_prepared(&d, "data/tokens", o, 7);
	for (g = 0; g < 141; g++) {
		same_order += window(&d, 1, g, 7) / 7 == window(&d, 1, 141 + g, 7) / 7;
		same_seed += window(&d, 1, g, 7) / 7 == window(&d, 2, g, 7) / 7;
	}
	assert_true(same_order < 10 && same_seed < 10); /* 1 is expected */
	for (g = 0; g < 60; g++)
		phases += !phase[window(&d, 1, 141 * g, 7) % 7]++;
	assert_int_equal(phases, 7);
	data_close(&d);
}

/* A checkpoint names a step only; what these give must never change. From an independent
 * calculation. */
static void the_order_is_pinned(void **state)
{
	static const int32_t want[] = { 695, 303, 961, 114, 604, 632, 359, 471 };
	static const int32_t later[][2] = {
		{ 141, 149 }, { 142, 338 }, { 281, 954 }, { 282, 321 }, { 100000, 637 }
	};
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	struct data d;
	int i;
	(void)state;
	write_tokens("u32", 0, 1000, 4, -1);
	data_prepared(&d, "data/tokens", o, 7);
	for (i = 0; i < 8; i++)
		assert_int_equal(window(&d, 1234, i, 7), want[i]);
	for (i = 0; i < 5; i++)
		assert_int_equal(window(&d, 1234, later[i][0], 7), later[i][1]);
	assert_int_equal(window(&d, 1235, 0, 7), 646);
	data_close(&d);
}

static void sequences_depend_on_step_slot_and_row_only_I1(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	int64_t step, slot, row;
	int32_t of_slot[3 * 2];
	struct zr_batch b;
	struct data d;
	(void)state;
	write_tokens("u32", 0, 1000, 4, -1);
	data_prepared(&d, "data/tokens", o, 7);
	for (step = 30; step-- > 0;) { /* backwards: nothing remembers */
		for (slot = 0; slot < 3; slot++) {
			b = request(ZR_SPLIT_TRAIN, step, slot, 3, 2, 7);
			get(&d, &b);
			of_slot[slot * 2] = inputs[0];
			of_slot[slot * 2 + 1] = inputs[7];
		}
		for (row = 0; row < 6; row++)
			assert_int_equal(window(&d, 1234, step * 6 + row, 7), of_slot[row]);
	}
	data_close(&d);
}

static void sequential_order_starts_at_the_start(void **state)
{
	const char *const o[] = { "path",  in_dir("u32"), "format", "uint32",
				  "order", "sequential",  NULL };
	struct data d;
	int g;
	(void)state;
	write_tokens("u32", 0, 100, 4, -1); /* 14 windows of 7 */
	data_prepared(&d, "data/tokens", o, 7);
	for (g = 0; g < 30; g++)
		assert_int_equal(window(&d, 9, g, 7), g % 14 * 7);
	data_close(&d);
}

/* 3 windows of 7 and one more target: the last window has that alone. */
static void a_tail_of_one_target_is_evaluated(void **state)
{
	const char *const o[] = { "path",   in_dir("u32"), "val_path", in_dir("tail"),
				  "format", "uint32",      NULL };
	struct data d;
	struct zr_batch b;

	(void)state;
	write_tokens("u32", 0, 53, 4, -1);
	write_tokens("tail", 5000, 23, 4, -1);
	assert_int_equal(data_open(&d, "data/tokens", o), 0);
	assert_int_equal(d.v->prepare(d.inst, 7, 6000), ZR_OK);
	assert_int_equal(info_of(&d).val_sequences, 4);

	b = request(ZR_SPLIT_VAL, 0, 3, 1, 1, 7);
	b.once = 1;
	get(&d, &b);
	assert_int_equal(inputs[0], 5021);
	assert_int_equal(targets[0], 5022);
	for (int t = 1; t < 7; t++)
		assert_int_equal(targets[t], ZR_NO_TARGET);
	data_close(&d);
}

static void validation_runs_in_order_and_wraps(void **state)
{
	const char *const o[] = { "path",   in_dir("u32"), "val_path", in_dir("val"),
				  "format", "uint32",      NULL };
	struct zr_batch b;
	struct data d;
	int64_t slot;
	(void)state;
	write_tokens("u32", 0, 100, 4, -1);
	write_tokens("val", 5000, 24, 4, -1); /* 3 windows of 7 */
	data_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(info_of(&d).val_tokens, 24);
	for (slot = 0; slot < 5; slot++) {
		b = request(ZR_SPLIT_VAL, slot * 100, slot, 4, 2, 7); /* the slot alone counts */
		get(&d, &b);
		assert_int_equal(inputs[0], 5000 + slot * 2 % 3 * 7);
		assert_int_equal(inputs[7], 5000 + (slot * 2 + 1) % 3 * 7);
		assert_int_equal(targets[6], inputs[6] + 1);
	}
	data_close(&d);
}

/* ---- token files ---- */

static void llmc_headers_of_both_widths_are_read(void **state)
{
	static const int widths[] = { 2, 4 };
	const char *const o[] = { "path", in_dir("llmc"), NULL };
	struct zr_data_info info;
	struct data d;
	int i;
	(void)state;
	for (i = 0; i < 2; i++) {
		write_tokens("llmc", 300, 80, widths[i], 80);
		data_prepared(&d, "data/tokens", o, 79);
		info = info_of(&d);
		assert_int_equal(info.train_tokens, 80);
		assert_int_equal(info.val_tokens, 0);
		assert_int_equal(info.vocabulary, 0);
		assert_string_equal(info.describe, "llmc: 80 tokens, no validation");
		assert_int_equal(window(&d, 1, 3, 79), 300);
		data_close(&d);
	}
	assert_int_equal(test_bytes(host), 0);
}

static void raw_uint16_is_read_when_told(void **state)
{
	const char *const o[] = { "path", in_dir("raw"), "format", "uint16", NULL };
	struct data d;
	(void)state;
	write_tokens("raw", 65000, 500, 2, -1);
	data_prepared(&d, "data/tokens", o, 499);
	assert_int_equal(window(&d, 1, 0, 499), 65000);
	data_close(&d);
}

static void refused(const char *const *options, const char *text)
{
	struct data d;
	if (!data_open(&d, "data/tokens", options))
		fail_msg("accepted; wanted: %s", text);
	if (!strstr(test_error(host), text))
		fail_msg("got: %s; wanted: %s", test_error(host), text);
	assert_int_equal(test_errors(host), 1);
}

static void files_that_are_not_what_they_say_are_refused_I7(void **state)
{
	const char *const plain[] = { "path", in_dir("bad"), NULL };
	const char *const u16[] = { "path", in_dir("bad"), "format", "uint16", NULL };
	const char *const u32[] = { "path", in_dir("bad"), "format", "uint32", NULL };
	const char *const llmc[] = { "path", in_dir("bad"), "format", "llmc", NULL };
	(void)state;
	write_tokens("bad", 0, 80, 2, 100);
	refused(plain, "/bad: the header says 100 tokens, the file holds 80: it is truncated");
	write_tokens("bad", 0, 80, 2, 7);
	refused(plain, "/bad: the header says 7 tokens, the file holds 80: it is too long");
	refused(u16, "/bad: has llm.c's header of uint16 tokens: set format = auto");
	write_tokens("bad", 0, 80, 2, -1);
	refused(plain, "set format = uint16 or uint32 if it holds raw tokens");
	refused(llmc,
		"/bad: has no header of llm.c (magic 20240520 version 1, or 20240801 version 7)");
	write_file("bad", "12345", 5);
	refused(u16,
		"/bad: 5 bytes are not a multiple of 2, the size of a token in format = uint16");
	refused(u32, "/bad: 5 bytes are not a multiple of 4");
	write_file("bad", "", 0);
	refused(u16, "/bad: is empty");
}

static void missing_files_are_refused_by_name(void **state)
{
	const char *const missing[] = { "path", in_dir("nothing"), NULL };
	const char *const pattern[] = { "path", in_dir("no*such"), NULL };
	const char *const folder[] = { "path", dir, NULL };
	const char *const val[] = { "path",     in_dir("raw"),     "format", "uint16",
				    "val_path", in_dir("nothing"), NULL };
	(void)state;
	write_tokens("raw", 0, 500, 2, -1);
	refused(missing, "path = ");
	refused(missing, "/nothing: No such file or directory");
	refused(pattern, "/no*such: no file matches");
	refused(folder, "is not a regular file");
	refused(val, "val_path = ");
}

static void files_of_a_pattern_are_one_stream_in_order_of_names(void **state)
{
	const char *const o[] = { "path",  in_dir("part-*"), "format", "uint32",
				  "order", "sequential",     NULL };
	struct data d;
	int g;
	(void)state;
	write_tokens("part-b", 10, 3, 4, -1);
	write_tokens("part-c", 13, 40, 4, -1);
	write_tokens("part-B", 0, 10, 4, -1);
	data_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(info_of(&d).train_tokens, 53);
	assert_string_equal(info_of(&d).describe, "3 files: 53 tokens, no validation");
	for (g = 0; g < 7; g++)
		assert_int_equal(window(&d, 1, g, 7), g * 7); /* windows 1 and 2 cross joins */
	data_close(&d);
}

static void a_name_with_pattern_characters_is_found(void **state)
{
	const char *const o[] = { "path", in_dir("raw[1]"), "format", "uint16", NULL };
	struct data d;
	(void)state;
	write_tokens("raw[1]", 0, 50, 2, -1);
	data_prepared(&d, "data/tokens", o, 7);
	data_close(&d);
}

/* Far into a file, where no look at its start finds it. */
static void a_token_outside_the_vocabulary_names_file_and_position_I7(void **state)
{
	enum { FAR = 2000003 };
	const char *const o[] = { "path",  in_dir("voc-*"), "format", "uint32",
				  "order", "sequential",    NULL };
	struct zr_batch b = request(ZR_SPLIT_TRAIN, (9 + FAR) / 7, 0, 1, 1, 7);
	uint32_t *tokens = calloc(FAR + 20, sizeof *tokens);
	struct data d;
	(void)state;
	assert_non_null(tokens);
	tokens[FAR] = 93;
	write_tokens("voc-1", 0, 9, 4, -1);
	write_file("voc-2", tokens, (FAR + 20) * sizeof *tokens);
	free(tokens);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 7, 93), ZR_OK);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_EINVAL);
	assert_non_null(
		strstr(test_error(host),
		       "/voc-2: token 93 at position 2000003 is not below the vocabulary of 93"));
	b.step -= 2;
	assert_int_equal(d.v->batch(d.inst, &b), ZR_OK);
	data_close(&d);
}

/* A file of another tokenizer behind a long one of the right one. */
static void the_start_of_each_file_is_looked_at(void **state)
{
	enum { LONG = (1 << 20) + 5 };
	const char *const o[] = { "path", in_dir("start-*"), "format", "uint16", NULL };
	const uint16_t strange[] = { 1, 93, 1, 1, 1, 1, 1, 1 };
	uint16_t *tokens = calloc(LONG, sizeof *tokens);
	struct data d;
	(void)state;
	assert_non_null(tokens);
	write_file("start-1", tokens, LONG * sizeof *tokens);
	free(tokens);
	write_file("start-2", strange, sizeof strange);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 7, 93), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/start-2: token 93 at position 1 is not below"));
	data_close(&d);
}

static void a_stream_shorter_than_a_window_is_refused(void **state)
{
	const char *const o[] = { "path",   in_dir("u32"), "val_path", in_dir("val"),
				  "format", "uint32",      NULL };
	struct data d;
	(void)state;
	write_tokens("u32", 0, 64, 4, -1);
	write_tokens("val", 0, 20, 4, -1);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 64, 100), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/u32: 64 tokens, one sequence needs 65"));
	assert_int_equal(d.v->prepare(d.inst, 63, 100), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/val: 20 tokens, one sequence needs 64"));
	assert_int_equal(d.v->prepare(d.inst, 19, 100), ZR_OK);
	data_close(&d);
}

static struct zr_data_file told_of(const char *path, const char *val_path, uint32_t i,
				   uint32_t whole)
{
	const char *const o[] = { "path", path, "format", "uint16", "val_path", val_path, NULL };
	struct zr_data_file f = { .size = sizeof f, .whole = whole };
	struct data d;
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->file(d.inst, i, &f), ZR_OK);
	f.name = f.name ? "a name" : NULL;
	data_close(&d);
	return f;
}

static struct zr_data_file told(const char *path, const char *val_path, uint32_t i)
{
	return told_of(path, val_path, i, 0);
}

static void write_at(const char *name, int64_t at, const char *bytes)
{
	FILE *f = fopen(in_dir(name), "r+");
	assert_non_null(f);
	assert_int_equal(fseeko(f, at, SEEK_SET), 0);
	assert_int_equal(fputs(bytes, f) >= 0, 1);
	assert_int_equal(fclose(f), 0);
}

static void files_are_told_by_their_bytes(void **state)
{
	const char *one = in_dir("told-a"), *both = in_dir("told-?"), *val = in_dir("toldval");
	(void)state;
	write_tokens("told-a", 0, 3000, 2, -1);
	write_tokens("told-b", 0, 3000, 2, -1);
	write_tokens("toldval", 7, 40, 2, -1);
	struct zr_data_file a = told(one, "", 0), b = told(both, val, 1), v = told(both, val, 2);
	assert_int_equal(a.bytes, 6000);
	assert_int_equal(a.sampled, 0);
	assert_true(a.hash == b.hash); /* the same bytes under another name */
	assert_int_equal(v.bytes, 80);
	assert_null(told(one, "", 1).name);
	assert_null(told(both, val, 3).name);
	write_at("told-b", 4321, "x"); /* of the same size */
	assert_true(told(both, val, 1).hash != b.hash);
	assert_true(told(both, val, 0).hash == a.hash);
	assert_int_equal(truncate(one, 5998), 0);
	assert_true(told(one, "", 0).hash != a.hash);
}

/* A file with a hole, which takes neither time nor disk. */
static void large_files_are_told_by_samples(void **state)
{
	const int64_t size = (INT64_C(256) << 20) + 8192;
	const char *path = in_dir("large");
	(void)state;
	write_tokens("large", 0, 10, 2, -1);
	if (truncate(path, size))
		skip();
	struct zr_data_file was = told(path, "", 0);
	assert_int_equal(was.bytes, size);
	assert_int_equal(was.sampled, 1);
	write_at("large", size - 2, "x");
	struct zr_data_file end = told(path, "", 0);
	assert_true(end.hash != was.hash);
	write_at("large", 100, "x");
	assert_true(told(path, "", 0).hash != end.hash);
	/* one byte between two samples is seen by who asks for all of them */
	struct zr_data_file whole = told_of(path, "", 0, 1);
	was = told(path, "", 0);
	assert_int_equal(whole.sampled, 0);
	assert_true(whole.hash != was.hash);
	write_at("large", 5000, "x");
	assert_true(told(path, "", 0).hash == was.hash);
	assert_true(told_of(path, "", 0, 1).hash != whole.hash);
	assert_true(told_of(path, path, 1, 1).hash == told_of(path, "", 0, 1).hash);
	/* whatever is longer than the way from a sample to the next is seen */
	was = told(path, "", 0);
	for (int64_t at = size / 2; at < size / 2 + size / 1023 + 4096; at += 4096)
		write_at("large", at, "x");
	assert_true(told(path, "", 0).hash != was.hash);
	assert_int_equal(truncate(path, size - 4096), 0);
	assert_int_equal(told(path, "", 0).sampled, 1);
	assert_int_equal(unlink(path), 0);
	write_tokens("large", 0, 10, 2, -1);
}

static void a_batch_that_was_not_prepared_is_refused(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	struct zr_batch b = request(ZR_SPLIT_TRAIN, 0, 0, 1, 1, 8);
	struct data d;
	(void)state;
	write_tokens("u32", 0, 64, 4, -1);
	data_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_ESTATE);
	b = request(ZR_SPLIT_VAL, 0, 0, 1, 1, 7);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_ESTATE);
	assert_string_equal(test_error(host), "validation batches of length 7 were not prepared");
	data_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_epoch_visits_every_window_once),
		cmocka_unit_test(epochs_and_seeds_differ_in_order_and_phase),
		cmocka_unit_test(the_order_is_pinned),
		cmocka_unit_test(sequences_depend_on_step_slot_and_row_only_I1),
		cmocka_unit_test(sequential_order_starts_at_the_start),
		cmocka_unit_test(a_tail_of_one_target_is_evaluated),
		cmocka_unit_test(validation_runs_in_order_and_wraps),
		cmocka_unit_test(llmc_headers_of_both_widths_are_read),
		cmocka_unit_test(raw_uint16_is_read_when_told),
		cmocka_unit_test(files_that_are_not_what_they_say_are_refused_I7),
		cmocka_unit_test(missing_files_are_refused_by_name),
		cmocka_unit_test(files_of_a_pattern_are_one_stream_in_order_of_names),
		cmocka_unit_test(a_name_with_pattern_characters_is_found),
		cmocka_unit_test(a_token_outside_the_vocabulary_names_file_and_position_I7),
		cmocka_unit_test(the_start_of_each_file_is_looked_at),
		cmocka_unit_test(a_stream_shorter_than_a_window_is_refused),
		cmocka_unit_test(files_are_told_by_their_bytes),
		cmocka_unit_test(large_files_are_told_by_samples),
		cmocka_unit_test(a_batch_that_was_not_prepared_is_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
