/* SPDX-License-Identifier: Apache-2.0
 *
 * t_data.c - data/tokens and data/text: which tokens a request gets, and which files are refused. Most
 * files hold their own positions as tokens, so that a window tells where it came from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include <zeroth/data.h>

#include "testhost.h"

#include <cmocka.h> /* after the headers with members that its macros name */

static struct zr_host *host;
static char dir[] = "/tmp/t_data.XXXXXX";

/* ---- files --------------------------------------------------------------------------------------- */

static char *in_dir(const char *name)
{
	static char path[8][300];
	static int next;
	char *p = path[next++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static void write_file(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(in_dir(name), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

/* Tokens first, first + 1, ...; width 2 or 4; header: the number of tokens that one of llm.c announces,
 * -1 without a header. */
static void write_tokens(const char *name, uint32_t first, int n, int width, int header)
{
	char *bytes = calloc(1, 1024 + (size_t)n * 4), *p = bytes;
	int32_t head[3] = { width == 2 ? 20240520 : 20240801, width == 2 ? 1 : 7, header };
	int i;
	assert_non_null(bytes);
	if (header >= 0) {
		memcpy(bytes, head, sizeof head);
		p += 1024;
	}
	for (i = 0; i < n; i++, p += width) {
		uint32_t v = first + (uint32_t)i;
		memcpy(p, &v, (size_t)width);
	}
	write_file(name, bytes, (size_t)(p - bytes));
	free(bytes);
}

/* n bytes of text; byte i is fn(i) */
static void write_text(const char *name, int n, int (*fn)(int))
{
	char *bytes = malloc((size_t)n);
	int i;
	assert_non_null(bytes);
	for (i = 0; i < n; i++)
		bytes[i] = (char)fn(i);
	write_file(name, bytes, (size_t)n);
	free(bytes);
}

static int chunk_of(int i)
{
	return i / 4096;
}

static int noise(int i)
{
	return (int)((uint32_t)i * 2654435761u >> 13) & 0xff;
}

/* ---- instances ----------------------------------------------------------------------------------- */

struct data {
	const struct zr_desc *desc;
	const struct zr_data_v1 *v;
	struct zr_inst *inst;
	void *opts;
};

/* options: name, text, ..., NULL */
static int data_open(struct data *d, const char *plugin, const char *const *options)
{
	int rc;
	test_clear(host);
	d->desc = test_plugin(plugin);
	d->v = test_iface(d->desc, "zr.data/1");
	d->opts = test_options(d->desc);
	for (; *options; options += 2)
		assert_int_equal(test_set(d->desc, d->opts, options[0], options[1]), 0);
	rc = test_create(host, d->desc, d->opts, &d->inst);
	if (rc)
		free(d->opts);
	return rc;
}

static void data_close(struct data *d)
{
	d->desc->destroy(d->inst);
	free(d->opts);
}

static struct zr_data_info info_of(struct data *d)
{
	struct zr_data_info info = { .size = sizeof info };
	assert_int_equal(d->v->info(d->inst, &info), ZR_OK);
	return info;
}

static void open_prepared(struct data *d, const char *plugin, const char *const *options, int64_t length)
{
	if (data_open(d, plugin, options))
		fail_msg("%s", test_error(host));
	if (d->v->prepare(d->inst, length, 1 << 20))
		fail_msg("%s", test_error(host));
}

#define MAX_BATCH 65536
static int32_t inputs[MAX_BATCH], targets[MAX_BATCH];

static struct zr_batch request(int32_t split, int64_t step, int64_t slot, int64_t slots, int64_t sequences,
			       int64_t length)
{
	struct zr_batch b = { .size = sizeof b, .split = split, .seed = 1234, .step = step, .slot = slot,
			      .slots = slots, .sequences = sequences, .length = length, .inputs = inputs,
			      .targets = targets };
	assert_true(sequences * length <= MAX_BATCH);
	return b;
}

static void get(struct data *d, const struct zr_batch *b)
{
	memset(inputs, 0xff, sizeof inputs);
	memset(targets, 0xff, sizeof targets);
	if (d->v->batch(d->inst, b))
		fail_msg("%s", test_error(host));
}

/* First token of sequence g of the run, of a stream of positions; the window must go on from there. */
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

/* ---- the order of sequences ---------------------------------------------------------------------- */

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
		open_prepared(&d, "data/tokens", o, 7);
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
	open_prepared(&d, "data/tokens", o, 7);
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

/* A checkpoint names a step only; what these give must never change. From an independent calculation. */
static void the_order_is_pinned(void **state)
{
	static const int32_t want[] = { 695, 303, 961, 114, 604, 632, 359, 471 };
	static const int32_t later[][2] = { { 141, 149 }, { 142, 338 }, { 281, 954 }, { 282, 321 }, { 100000, 637 } };
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	struct data d;
	int i;
	(void)state;
	write_tokens("u32", 0, 1000, 4, -1);
	open_prepared(&d, "data/tokens", o, 7);
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
	open_prepared(&d, "data/tokens", o, 7);
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
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", "order", "sequential", NULL };
	struct data d;
	int g;
	(void)state;
	write_tokens("u32", 0, 100, 4, -1); /* 14 windows of 7 */
	open_prepared(&d, "data/tokens", o, 7);
	for (g = 0; g < 30; g++)
		assert_int_equal(window(&d, 9, g, 7), g % 14 * 7);
	data_close(&d);
}

static void validation_runs_in_order_and_wraps(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "val_path", in_dir("val"), "format", "uint32", NULL };
	struct zr_batch b;
	struct data d;
	int64_t slot;
	(void)state;
	write_tokens("u32", 0, 100, 4, -1);
	write_tokens("val", 5000, 24, 4, -1); /* 3 windows of 7 */
	open_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(info_of(&d).val_tokens, 24);
	for (slot = 0; slot < 5; slot++) {
		b = request(ZR_SPLIT_VAL, 0, slot, 1, 2, 7);
		get(&d, &b);
		assert_int_equal(inputs[0], 5000 + slot * 2 % 3 * 7);
		assert_int_equal(inputs[7], 5000 + (slot * 2 + 1) % 3 * 7);
		assert_int_equal(targets[6], inputs[6] + 1);
	}
	data_close(&d);
}

/* ---- token files --------------------------------------------------------------------------------- */

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
		open_prepared(&d, "data/tokens", o, 79);
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
	open_prepared(&d, "data/tokens", o, 499);
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
	refused(llmc, "/bad: has no header of llm.c (magic 20240520 version 1, or 20240801 version 7)");
	write_file("bad", "12345", 5);
	refused(u16, "/bad: 5 bytes are not a multiple of 2, the size of a token in format = uint16");
	refused(u32, "/bad: 5 bytes are not a multiple of 4");
	write_file("bad", "", 0);
	refused(u16, "/bad: is empty");
}

static void missing_files_are_refused_by_name(void **state)
{
	const char *const missing[] = { "path", in_dir("nothing"), NULL };
	const char *const pattern[] = { "path", in_dir("no*such"), NULL };
	const char *const folder[] = { "path", dir, NULL };
	const char *const val[] = { "path", in_dir("raw"), "format", "uint16", "val_path", in_dir("nothing"), NULL };
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
	const char *const o[] = { "path", in_dir("part-*"), "format", "uint32", "order", "sequential", NULL };
	struct data d;
	int g;
	(void)state;
	write_tokens("part-b", 10, 3, 4, -1);
	write_tokens("part-c", 13, 40, 4, -1);
	write_tokens("part-B", 0, 10, 4, -1);
	open_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(info_of(&d).train_tokens, 53);
	assert_string_equal(info_of(&d).describe, "3 files: 53 tokens, no validation");
	for (g = 0; g < 7; g++)
		assert_int_equal(window(&d, 1, g, 7), g * 7); /* windows 1 and 2 cross joins */
	data_close(&d);
	unlink(in_dir("part-b"));
	unlink(in_dir("part-c"));
	unlink(in_dir("part-B"));
}

static void a_name_with_pattern_characters_is_found(void **state)
{
	const char *const o[] = { "path", in_dir("raw[1]"), "format", "uint16", NULL };
	struct data d;
	(void)state;
	write_tokens("raw[1]", 0, 50, 2, -1);
	open_prepared(&d, "data/tokens", o, 7);
	data_close(&d);
	unlink(in_dir("raw[1]"));
}

static void a_token_outside_the_vocabulary_names_file_and_position_I7(void **state)
{
	const char *const o[] = { "path", in_dir("voc-*"), "format", "uint32", "order", "sequential", NULL };
	struct zr_batch b = request(ZR_SPLIT_TRAIN, 1, 0, 1, 1, 7);
	struct data d;
	(void)state;
	write_tokens("voc-1", 0, 9, 4, -1);
	write_tokens("voc-2", 90, 30, 4, -1);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 7, 93), ZR_OK);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/voc-2: token 93 at position 3 is not below the vocabulary of 93"));
	data_close(&d);
	unlink(in_dir("voc-1"));
	unlink(in_dir("voc-2"));
}

static void a_stream_shorter_than_a_window_is_refused(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "val_path", in_dir("val"), "format", "uint32", NULL };
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

static void a_batch_that_was_not_prepared_is_refused(void **state)
{
	const char *const o[] = { "path", in_dir("u32"), "format", "uint32", NULL };
	struct zr_batch b = request(ZR_SPLIT_TRAIN, 0, 0, 1, 1, 8);
	struct data d;
	(void)state;
	write_tokens("u32", 0, 64, 4, -1);
	open_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_ESTATE);
	b = request(ZR_SPLIT_VAL, 0, 0, 1, 1, 7);
	assert_int_equal(d.v->batch(d.inst, &b), ZR_ESTATE);
	assert_string_equal(test_error(host), "validation batches of length 7 were not prepared");
	data_close(&d);
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* Counts the tokens of a whole epoch of a split by value. */
static void count_values(struct data *d, int32_t split, int64_t windows, int64_t length, int count[256])
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
	const char *const o[] = { "path", in_dir("text"), "order", "sequential", NULL };
	struct zr_data_info info;
	int count[256], i;
	struct data d;
	(void)state;
	write_text("text", 45 * 4096 + 100, chunk_of);
	open_prepared(&d, "data/text", o, 64);
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
	const char *const o[] = { "path", in_dir("text"), NULL };
	struct data d;
	(void)state;
	write_text("text", 19 * 4096 + 100, chunk_of);
	open_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).val_tokens, 100);
	data_close(&d);
	write_text("text", 19 * 4096, chunk_of);
	open_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).val_tokens, 0);
	assert_string_equal(info_of(&d).describe, "text: 77.8 K bytes, no validation");
	data_close(&d);
}

static void chunks_are_counted_over_the_concatenated_text(void **state)
{
	const char *const o[] = { "path", in_dir("text-?"), NULL };
	int count[256];
	struct data d;
	(void)state;
	write_text("text-1", 10 * 4096 + 96, chunk_of);  /* chunk 19 starts in the second file's ninth, */
	write_text("text-2", 12 * 4096 - 96, chunk_of); /* 96 bytes before its end */
	open_prepared(&d, "data/text", o, 63);
	assert_int_equal(info_of(&d).val_tokens, 4096);
	count_values(&d, ZR_SPLIT_VAL, 65, 63, count);
	assert_int_equal(count[8], 96);
	assert_int_equal(count[9], 4095 - 96);
	data_close(&d);
	unlink(in_dir("text-1"));
	unlink(in_dir("text-2"));
}

static void val_path_leaves_all_of_path_for_training(void **state)
{
	const char *const o[] = { "path", in_dir("text"), "val_path", in_dir("valtext"), NULL };
	struct data d;
	(void)state;
	write_text("text", 45 * 4096, chunk_of);
	write_text("valtext", 1000, noise);
	open_prepared(&d, "data/text", o, 64);
	assert_int_equal(info_of(&d).train_tokens, 45 * 4096);
	assert_int_equal(info_of(&d).val_tokens, 1000);
	data_close(&d);
}

static void short_or_empty_text_is_refused(void **state)
{
	const char *const o[] = { "path", in_dir("text"), NULL };
	const char *const val[] = { "path", in_dir("text"), "val_path", in_dir("valtext"), NULL };
	struct data d;
	(void)state;
	write_text("text", 0, noise);
	assert_int_equal(data_open(&d, "data/text", o), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/text: is empty"));
	write_text("text", 100, noise);
	write_text("valtext", 50, noise);
	assert_int_equal(data_open(&d, "data/text", val), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, 100, 256), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/text: 100 bytes to train on, one sequence needs 101"));
	assert_int_equal(d.v->prepare(d.inst, 64, 256), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "50 bytes for validation, one sequence needs 65: set val_path"));
	assert_int_equal(d.v->prepare(d.inst, 32, 97), ZR_EINVAL);
	assert_string_equal(test_error(host), "bytes need a model with a vocabulary of at least 256, this one has 97");
	data_close(&d);
}

static void refused_memory_is_an_error_and_leaves_nothing(void **state)
{
	const char *const o[] = { "path", in_dir("text"), NULL };
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
static void write_gz(const char *name, int n, int cut)
{
	char *bytes = malloc((size_t)n);
	gzFile f = gzopen(in_dir(name), "w");
	int i;
	assert_non_null(bytes);
	assert_non_null(f);
	for (i = 0; i < n; i++)
		bytes[i] = (char)noise(i);
	assert_int_equal(gzwrite(f, bytes, (unsigned)n), n);
	assert_int_equal(gzclose(f), Z_OK);
	free(bytes);
	assert_int_equal(cut ? truncate(in_dir(name), cut) : 0, 0);
}

static void compressed_text_is_the_same_text(void **state)
{
	const char *const plain[] = { "path", in_dir("text"), NULL }, *const gz[] = { "path", in_dir("text.gz"), NULL };
	static int32_t want[64];
	struct data a, b;
	int step;
	(void)state;
	write_text("text", 200000, noise);
	write_gz("text.gz", 200000, 0);
	open_prepared(&a, "data/text", plain, 64);
	open_prepared(&b, "data/text", gz, 64);
	assert_int_equal(info_of(&a).train_tokens, info_of(&b).train_tokens);
	assert_int_equal(info_of(&a).val_tokens, info_of(&b).val_tokens);
	for (step = 0; step < 50; step++) {
		struct zr_batch r = request(step % 2 ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN, step, 0, 1, 1, 64);
		get(&a, &r);
		memcpy(want, targets, sizeof want);
		get(&b, &r);
		assert_memory_equal(targets, want, sizeof want);
	}
	data_close(&a);
	data_close(&b);
}

static void a_damaged_gz_is_refused(void **state)
{
	const char *const o[] = { "path", in_dir("text.gz"), NULL };
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
	assert_int_equal(test_bytes(host), 0);
}
#else
static void without_zlib_a_gz_is_refused_with_what_to_install_I7(void **state)
{
	const char *const o[] = { "path", in_dir("text.gz"), NULL };
	struct data d;
	(void)state;
	write_file("text.gz", "\037\213\010\000compressed", 14);
	assert_int_equal(data_open(&d, "data/text", o), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(host), "/text.gz: is compressed and this build has no zlib"));
	assert_non_null(strstr(test_error(host), "install zlib1g-dev"));
}
#endif

static int setup(void **state)
{
	(void)state;
	host = test_host(1);
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const made[] = { "u32", "val", "llmc", "raw", "bad", "text", "valtext", "text.gz" };
	size_t i;
	(void)state;
	for (i = 0; i < sizeof made / sizeof *made; i++)
		unlink(in_dir(made[i]));
	test_host_free(host);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_epoch_visits_every_window_once),
		cmocka_unit_test(epochs_and_seeds_differ_in_order_and_phase),
		cmocka_unit_test(the_order_is_pinned),
		cmocka_unit_test(sequences_depend_on_step_slot_and_row_only_I1),
		cmocka_unit_test(sequential_order_starts_at_the_start),
		cmocka_unit_test(validation_runs_in_order_and_wraps),
		cmocka_unit_test(llmc_headers_of_both_widths_are_read),
		cmocka_unit_test(raw_uint16_is_read_when_told),
		cmocka_unit_test(files_that_are_not_what_they_say_are_refused_I7),
		cmocka_unit_test(missing_files_are_refused_by_name),
		cmocka_unit_test(files_of_a_pattern_are_one_stream_in_order_of_names),
		cmocka_unit_test(a_name_with_pattern_characters_is_found),
		cmocka_unit_test(a_token_outside_the_vocabulary_names_file_and_position_I7),
		cmocka_unit_test(a_stream_shorter_than_a_window_is_refused),
		cmocka_unit_test(a_batch_that_was_not_prepared_is_refused),
		cmocka_unit_test(every_20th_chunk_is_held_out),
		cmocka_unit_test(a_started_20th_chunk_is_held_out_too),
		cmocka_unit_test(chunks_are_counted_over_the_concatenated_text),
		cmocka_unit_test(val_path_leaves_all_of_path_for_training),
		cmocka_unit_test(short_or_empty_text_is_refused),
		cmocka_unit_test(refused_memory_is_an_error_and_leaves_nothing),
		cmocka_unit_test(bytes_are_tokens_and_back),
#ifdef HAVE_ZLIB
		cmocka_unit_test(compressed_text_is_the_same_text),
		cmocka_unit_test(a_damaged_gz_is_refused),
#else
		cmocka_unit_test(without_zlib_a_gz_is_refused_with_what_to_install_I7),
#endif
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
