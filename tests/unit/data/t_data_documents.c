/* SPDX-License-Identifier: Apache-2.0
 *
 * t_data_documents.c - data/tokens with files that know their documents: what a batch holds, what
 * is held out, and which files are refused. Token t of document d is 100 d + t, so that a row tells
 * where it came from.
 */
#include "data_fixture.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH 16
#define ROWS   (4 * LENGTH)

static int32_t starts[ROWS], positions[ROWS];
static float weights[ROWS];

/* ---- files ---- */

/* A header, and three arrays behind it. */
static void write_parts(const char *name, const char *header, const uint16_t *tokens, int n,
			const uint8_t *learned, const int64_t *offsets, int documents)
{
	static char bytes[1 << 20];
	uint64_t size = strlen(header);
	char *p = bytes;
	memcpy(p, &size, 8);
	memcpy(p += 8, header, size);
	memcpy(p += size, tokens, (size_t)n * 2);
	memcpy(p += n * 2, learned, (size_t)n);
	memcpy(p += n, offsets, (size_t)(documents + 1) * 8);
	write_file(name, bytes, (size_t)(p + (documents + 1) * 8 - bytes));
}

#define META                                                                                       \
	"\"__metadata__\":{\"format\":\"zeroth.documents/1\",\"vocabulary\":\"9000\","             \
	"\"truncated\":\"3\",\"dropped.too long\":\"2\"}"

static const char *header_of(int n, int documents)
{
	static char text[600];
	snprintf(text, sizeof text,
		 "{" META ",\"tokens\":{\"dtype\":\"U16\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
		 "\"learned\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
		 "\"documents\":{\"dtype\":\"I64\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
		 n, n * 2, n, n * 2, n * 3, documents + 1, n * 3, n * 3 + (documents + 1) * 8);
	return text;
}

/* Documents first, first + 1, ... of these numbers of tokens; every third token is no target. */
static void write_documents(const char *name, int first, int documents, const int *lengths)
{
	static uint16_t tokens[1 << 16];
	static uint8_t learned[1 << 16];
	static int64_t offsets[1000];
	int n = 0;
	for (int d = 0; d < documents; d++) {
		for (int t = 0; t < lengths[d]; t++, n++) {
			tokens[n] = (uint16_t)((first + d) * 100 + t);
			learned[n] = t % 3 != 0;
		}
		offsets[d + 1] = n;
	}
	write_parts(name, header_of(n, documents), tokens, n, learned, offsets, documents);
}

/* ---- batches ---- */

static void get_documents(struct data *d, struct zr_batch *b)
{
	b->starts = starts;
	b->positions = positions;
	b->weights = weights;
	get(d, b);
}

/* Checks a batch row by row and counts the targets of each token in seen[]. */
static void check_rows(const struct zr_batch *b, uint8_t *seen)
{
	for (int64_t r = 0; r < b->sequences * b->length; r++) {
		int64_t t = r % b->length;
		assert_int_equal(positions[r], t - starts[r]);
		if (positions[r])
			assert_int_equal(starts[r], starts[r - 1]);
		assert_true(weights[r] == (targets[r] >= 0));
		if (positions[r] && targets[r] >= 0)
			assert_int_equal(inputs[r], inputs[r - 1] + 1);
		if (targets[r] < 0)
			continue;
		assert_int_equal(targets[r], inputs[r] + 1);
		assert_true(targets[r] % 100 % 3 != 0);
		seen[targets[r]]++;
	}
}

static double sum_of(struct data *d, int32_t split, int64_t step, int64_t slot, int64_t slots)
{
	struct zr_batch b = request(split, step, slot, slots, 2, LENGTH);
	double sum = -1;
	b.inputs = b.targets = NULL;
	assert_int_equal(d->v->targets(d->inst, &b, &sum), ZR_OK);
	return sum;
}

/* Draws sequences 2 by 2 until an epoch is over. */
static void see_epoch(struct data *d, int32_t split, int64_t sequences, uint8_t *seen)
{
	for (int64_t g = 0; g < sequences; g += 2) {
		double sum = 0;
		struct zr_batch b = split == ZR_SPLIT_VAL ? request(split, 0, g / 2, 1, 2, LENGTH) :
							    request(split, g / 2, 0, 1, 2, LENGTH);
		get_documents(d, &b);
		check_rows(&b, seen);
		for (int r = 0; r < 2 * LENGTH; r++)
			sum += (double)weights[r];
		assert_true(sum == sum_of(d, split, b.step, b.slot, 1));
	}
}

static const int twelve[] = { 5, 30, 2, 17, 16, 50, 9, 3, 7, 12, 4, 33 };

static void every_target_is_learned_once_an_epoch(void **state)
{
	static const char *const kinds[] = { "bfd", "wrapped", "none" };
	(void)state;
	write_documents("twelve", 0, 12, twelve);
	for (int k = 0; k < 3; k++) {
		const char *const o[] = { "path", in_dir("twelve"), "packing", kinds[k], NULL };
		static uint8_t seen[9000];
		struct data d;
		memset(seen, 0, sizeof seen);
		data_prepared(&d, "data/tokens", o, LENGTH);
		struct zr_data_info info = info_of(&d);
		assert_int_equal(info.flags, ZR_DATA_DOCUMENTS);
		assert_int_equal(info.vocabulary, 9000);
		assert_int_equal(info.train_tokens, 188);
		assert_string_equal(info.describe,
				    "twelve: 188 tokens in 12 documents, no validation");
		assert_int_equal(info.train_sequences, k == 2 ? 17 : 11 /* 176 rows */);
		see_epoch(&d, ZR_SPLIT_TRAIN, info.train_sequences * 2, seen);
		for (int i = 0; i < 12; i++)
			for (int t = 0; t < twelve[i]; t++)
				assert_int_equal(seen[i * 100 + t], t % 3 ? 2 : 0);
		data_close(&d);
	}
}

/* What two slots of a step hold is what one of four sequences holds; an epoch ends anywhere. */
static void sequences_depend_on_step_slot_and_row_only_I1(void **state)
{
	const char *const o[] = { "path", in_dir("twelve"), NULL };
	int32_t was[2 * LENGTH];
	struct data d;
	(void)state;
	write_documents("twelve", 0, 12, twelve);
	data_prepared(&d, "data/tokens", o, LENGTH);
	for (int64_t step = 9; step-- > 0;) {
		struct zr_batch half = request(ZR_SPLIT_TRAIN, step, 1, 2, 2, LENGTH);
		struct zr_batch whole = request(ZR_SPLIT_TRAIN, step, 0, 1, 4, LENGTH);
		get_documents(&d, &half);
		memcpy(was, inputs, sizeof was);
		get_documents(&d, &whole);
		assert_memory_equal(inputs + 2 * LENGTH, was, sizeof was);
		double sum = 0;
		for (int r = 0; r < ROWS; r++)
			sum += (double)weights[r];
		assert_true(sum == sum_of(&d, ZR_SPLIT_TRAIN, step, 0, 2));
	}
	data_close(&d);
}

static void files_of_a_pattern_are_joined(void **state)
{
	const char *const o[] = { "path",    in_dir("join-*"), "order", "sequential",
				  "packing", "none",           NULL };
	static const int lengths[] = { 3, 4, 5 };
	struct zr_batch b = request(ZR_SPLIT_TRAIN, 0, 0, 1, 4, LENGTH);
	struct zr_data_count c = { .size = sizeof c };
	struct data d;
	(void)state;
	write_documents("join-a", 0, 2, lengths);
	write_documents("join-b", 2, 3, lengths);
	data_prepared(&d, "data/tokens", o, LENGTH);
	get_documents(&d, &b);
	for (int i = 0; i < 4; i++)
		assert_int_equal(inputs[i * LENGTH], i * 100);
	int found = 0;
	for (uint32_t i = 0; !d.v->count(d.inst, ZR_SPLIT_TRAIN, i, &c) && c.name; i++)
		found += (!strcmp(c.name, "truncated") && c.value == 6) ||
			 (!strcmp(c.name, "dropped.too long") && c.value == 4) ||
			 (!strcmp(c.name, "rows of padding") && c.value == 5 * LENGTH - 14) ||
			 (!strcmp(c.name, "documents") && c.value == 5);
	assert_int_equal(found, 4);
	data_close(&d);
}

/* ---- validation ---- */

static void whole_documents_are_held_out(void **state)
{
	const char *const o[] = { "path", in_dir("many"), "split", "0.25", NULL };
	static int lengths[80];
	static uint8_t train[9000], val[9000];
	struct data d;
	int held = 0;
	(void)state;
	for (int i = 0; i < 80; i++)
		lengths[i] = 2 + i * 7 % 15;
	write_documents("many", 0, 80, lengths);
	data_prepared(&d, "data/tokens", o, LENGTH);
	struct zr_data_info info = info_of(&d);
	see_epoch(&d, ZR_SPLIT_TRAIN, info.train_sequences * 2, train);
	see_epoch(&d, ZR_SPLIT_VAL, info.val_sequences * 2, val);
	for (int i = 0; i < 80; i++) {
		held += val[i * 100 + 1] > 0;
		for (int t = 0; t < lengths[i]; t++) {
			assert_int_equal(train[i * 100 + t] + val[i * 100 + t], t % 3 ? 2 : 0);
			assert_true(!val[i * 100 + t] || val[i * 100 + 1]);
		}
	}
	assert_true(held > 10 && held < 30);
	data_close(&d);
}

static void the_end_of_a_stream_is_held_out(void **state)
{
	const char *const o[] = { "path", in_dir("raw"), "format",     "uint32", "split",
				  "0.3",  "order",       "sequential", NULL };
	struct zr_batch b = request(ZR_SPLIT_VAL, 0, 0, 1, 1, 7);
	struct data d;
	(void)state;
	write_tokens("raw", 0, 100, 4, -1);
	data_prepared(&d, "data/tokens", o, 7);
	assert_int_equal(info_of(&d).train_tokens, 70);
	assert_int_equal(info_of(&d).val_tokens, 30);
	assert_int_equal(info_of(&d).train_sequences, 9);
	assert_int_equal(info_of(&d).val_sequences, 5); /* the last one has a target only */
	get(&d, &b);
	assert_int_equal(inputs[0], 70);
	b = request(ZR_SPLIT_VAL, 0, 4, 1, 1, 7); /* goes round */
	get(&d, &b);
	assert_int_equal(inputs[0], 70);
	b.once = 1;
	get(&d, &b);
	assert_int_equal(inputs[0], 98);
	assert_int_equal(targets[0], 99);
	for (int i = 1; i < 7; i++)
		assert_int_equal(targets[i], ZR_NO_TARGET);
	b = request(ZR_SPLIT_TRAIN, 9, 0, 1, 1, 7);
	get(&d, &b);
	assert_int_equal(inputs[0], 0);
	data_close(&d);
}

/* ---- what is refused ---- */

static void refused(const char *const *options, const char *text)
{
	struct data d;
	if (!data_open(&d, "data/tokens", options))
		fail_msg("accepted; wanted: %s", text);
	if (!strstr(test_error(host), text))
		fail_msg("got: %s; wanted: %s", test_error(host), text);
	assert_int_equal(test_errors(host), 1);
}

/* The header of 6 tokens in 2 documents with one text replaced. */
static void damaged(const char *what, const char *by, const char *text)
{
	static const uint16_t tokens[6];
	static const uint8_t learned[6];
	static const int64_t offsets[] = { 0, 2, 6 };
	const char *const o[] = { "path", in_dir("bad"), NULL };
	const char *good = header_of(6, 2), *at = strstr(good, what);
	char header[800];
	assert_non_null(at);
	snprintf(header, sizeof header, "%.*s%s%s", (int)(at - good), good, by, at + strlen(what));
	write_parts("bad", header, tokens, 6, learned, offsets, 2);
	refused(o, text);
}

static void bad_offsets(int64_t a, int64_t b, int64_t c, const char *text)
{
	static const uint16_t tokens[6];
	static const uint8_t learned[6];
	const int64_t offsets[] = { a, b, c };
	const char *const o[] = { "path", in_dir("bad"), NULL };
	write_parts("bad", header_of(6, 2), tokens, 6, learned, offsets, 2);
	refused(o, text);
}

static void damaged_files_are_refused_by_name_I7(void **state)
{
	const char *const o[] = { "path", in_dir("bad"), NULL };
	char bytes[200];
	(void)state;
	damaged("zeroth.documents/1", "pt",
		"/bad: is a file of safetensors without documents "
		"(metadata format = pt, wanted zeroth.documents/1)");
	damaged("\"tokens\"", "\"tokeny\"", "/bad: has no tensor tokens");
	damaged("\"documents\"", "\"documenty\"", "/bad: has no tensor documents");
	damaged("U16", "U32", "/bad: tensor tokens of 6 elements lies at bytes 0 to 12 of 42");
	damaged("U16", "F16", "/bad: tensor tokens is no list of numbers U8, U16, U32 or I64");
	damaged("\"U8\",\"shape\":[6]", "\"U8\",\"shape\":[2,3]",
		"/bad: tensor learned is no list");
	damaged("\"U8\",\"shape\":[6],\"data_offsets\":[12,18]",
		"\"U8\",\"shape\":[5],\"data_offsets\":[12,17]",
		"/bad: 6 tokens, of which 5 are said to be learned or not, and 3 offsets");
	damaged("[18,42]", "[18,50]",
		"/bad: tensor documents of 3 elements lies at bytes 18 to 50");
	damaged("[18,42]", "[-6,18]",
		"/bad: tensor documents of 3 elements lies at bytes -6 to 18");
	/* no longer one of safetensors */
	damaged("{\"__", "[\"__", "/bad: has no header of llm.c");
	damaged("\"U16\"", "\"U16", "/bad: the header is no JSON: ");
	bad_offsets(0, 7, 6, "/bad: document 0 ends at token 7; it begins at 0, and there are 6");
	bad_offsets(0, 0, 6, "/bad: document 0 ends at token 0; it begins at 0, and there are 6");
	bad_offsets(0, 4, 3, "/bad: document 1 ends at token 3; it begins at 4, and there are 6");
	bad_offsets(1, 4, 6, "/bad: the first document begins at token 1, not at 0");
	bad_offsets(0, 4, 5, "/bad: the last document ends at token 5, and there are 6");
	memcpy(bytes, "\x40\x42\x0f\0\0\0\0\0{", 10);
	write_file("bad", bytes, sizeof bytes);
	refused(o, "/bad: a header of 1000000 bytes in a file of 200: it is truncated");
}

static void kinds_are_not_mixed(void **state)
{
	const char *a = in_dir("mix-a"), *b = in_dir("mix-b");
	const char *const both[] = { "path", in_dir("mix-*"), NULL };
	const char *const val[] = { "path", a, "val_path", b, NULL };
	const char *const raw[] = { "path", a, "format", "uint16", NULL };
	const char *const twice[] = { "path", a, "val_path", a, "split", "0.1", NULL };
	const char *const none[] = { "path", a, "split", "0.000001", NULL };
	(void)state;
	write_documents("mix-a", 0, 12, twelve);
	write_tokens("mix-b", 0, 80, 2, 80);
	refused(both, "/mix-b: has no documents, ");
	refused(val, "mix-a has its: give files of one kind");
	refused(raw, "/mix-a: is a file with documents: set format = auto");
	refused(twice, "val_path and split: give one of them, not both");
	refused(none, "split = 1e-06 leaves 12 documents to train on and 0 for validation");
}

static void documents_without_a_target_are_refused(void **state)
{
	static const int ones[] = { 1, 1, 1 };
	const char *const o[] = { "path", in_dir("ones"), NULL };
	struct data d;
	(void)state;
	write_documents("ones", 0, 3, ones);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, LENGTH, 9000), ZR_EINVAL);
	assert_non_null(
		strstr(test_error(host), "/ones: training has no target among 3 documents"));
	data_close(&d);
}

static void a_token_outside_the_vocabulary_names_file_and_position_I7(void **state)
{
	const char *const o[] = { "path", in_dir("twelve"), NULL };
	struct data d;
	(void)state;
	write_documents("twelve", 0, 12, twelve);
	assert_int_equal(data_open(&d, "data/tokens", o), ZR_OK);
	assert_int_equal(d.v->prepare(d.inst, LENGTH, 1105), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "/twelve: token 1105 at position 160 is not below "
						 "the vocabulary of 1105"));
	data_close(&d);
}

/* ---- mixtures of sets ----------------------------------------------------------------------- */

static struct data set[3];
static int sets;

/* The sets are called a, b and c. */
static const void *give_set(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	const int i = iface[strlen(iface) - 1] - 'a';
	(void)h;
	if (i < 0 || i >= sets)
		return NULL;
	*inst = set[i].inst;
	return set[i].v;
}

static void add_set(const char *const *options)
{
	assert_true(sets < 3);
	if (data_open(&set[sets], "data/tokens", options))
		fail_msg("%s", test_error(host));
	sets++;
}

static void mix_prepared(struct data *d, const char *weights)
{
	const char *const o[] = { "weights", weights, NULL };
	host->get = give_set;
	data_prepared(d, "data/mix", o, LENGTH);
}

static void close_mix(struct data *d)
{
	data_close(d);
	host->get = NULL;
	while (sets)
		data_close(&set[--sets]);
}

/* Tokens 0, 1, ... of set a and 5000, ... of set b, in their order. */
static void two_streams(void)
{
	const char *const a[] = { "path",     in_dir("stream-a"), "order", "sequential",
				  "val_path", in_dir("held-a"),   NULL };
	const char *const b[] = { "path", in_dir("stream-b"), "order", "sequential", NULL };
	write_tokens("stream-a", 0, 300 * LENGTH + 1, 2, 300 * LENGTH + 1);
	write_tokens("stream-b", 5000, 300 * LENGTH + 1, 2, 300 * LENGTH + 1);
	write_tokens("held-a", 100, 2 * LENGTH + 6, 2, 2 * LENGTH + 6);
	add_set(a);
	add_set(b);
}

/* Whichever seed was asked for before: each set goes on where it was, from its first sequence. */
static void check_streams(struct data *d, uint64_t seed)
{
	int next[2] = { 0, 5000 };
	for (int g = 0; g < 40; g++) {
		struct zr_batch b = request(ZR_SPLIT_TRAIN, g, 0, 1, 1, LENGTH);
		b.seed = seed;
		get(d, &b);
		const int k = inputs[0] >= 5000;
		assert_int_equal(inputs[0], next[k]);
		next[k] += LENGTH;
	}
	assert_int_equal(next[0], 28 * LENGTH); /* 7 of 10 */
}

static void a_mixture_is_a_function_of_the_seed_I1(void **state)
{
	struct data d;
	(void)state;
	two_streams();
	mix_prepared(&d, "a:0.7 b:0.3");
	for (uint64_t seed = 1; seed < 9; seed++)
		check_streams(&d, seed % 4);
	close_mix(&d);
}

static void weights_of_a_mixture_are_rounded(void **state)
{
	struct data d;
	(void)state;
	two_streams();
	mix_prepared(&d, "a:2.01 b:0.99"); /* 2.01e6 is 2009999.9999999998 */
	int of_a = 0;
	for (int g = 0; g < 100; g++) {
		struct zr_batch b = request(ZR_SPLIT_TRAIN, g, 0, 1, 1, LENGTH);
		get(&d, &b);
		of_a += inputs[0] < 5000;
	}
	assert_int_equal(of_a, 67);
	close_mix(&d);
}

/* A set that holds nothing out is not asked for it; of a stream's tail each target comes once. */
static void a_mixture_evaluates_what_is_held_out(void **state)
{
	const char *const c[] = { "path", in_dir("docs"), "val_path", in_dir("docs-val"), NULL };
	static const int few[] = { 9, 4 };
	double sum = 0;
	struct data d;
	(void)state;
	two_streams();
	write_documents("docs", 0, 12, twelve);
	write_documents("docs-val", 80, 2, few);
	add_set(c);
	mix_prepared(&d, "a b c");
	struct zr_data_info info = info_of(&d);
	assert_int_equal(info.val_sequences, 3 + 1);
	for (int g = 0; g < 4; g++) {
		struct zr_batch b = request(ZR_SPLIT_VAL, 0, g, 1, 1, LENGTH);
		b.once = 1;
		get_documents(&d, &b);
		assert_true(inputs[0] < 5000 || inputs[0] >= 8000);
		for (int t = 0; t < LENGTH; t++) {
			assert_true(weights[t] == (targets[t] >= 0));
			assert_int_equal(positions[t], t - starts[t]);
			sum += (double)weights[t];
		}
	}
	/* every third token of a document is no target */
	assert_true(sum == 2 * LENGTH + 5 + 6 + 2);
	for (int g = 0; g < 8; g++) { /* by weights, and round again */
		struct zr_batch b = request(ZR_SPLIT_VAL, 0, g, 1, 1, LENGTH);
		get_documents(&d, &b);
		assert_true(inputs[0] < 5000 || inputs[0] >= 8000);
	}
	close_mix(&d);
}

static const struct zr_data_v1 *telling;

static int tell_no_sequences(struct zr_inst *inst, struct zr_data_info *info)
{
	const int rc = telling->info(inst, info);
	info->train_sequences = info->val_sequences = 0;
	return rc;
}

/* What one set does not tell nobody knows of all. */
static void sequences_of_a_mixture_are_of_all_sets(void **state)
{
	struct zr_data_v1 quiet;
	struct data d;
	(void)state;
	two_streams();
	mix_prepared(&d, "a b");
	assert_int_equal(info_of(&d).train_sequences, 600);
	assert_int_equal(info_of(&d).val_sequences, 3);
	close_mix(&d);
	two_streams();
	telling = set[0].v;
	quiet = *telling;
	quiet.info = tell_no_sequences;
	set[0].v = &quiet;
	mix_prepared(&d, "a b");
	assert_int_equal(info_of(&d).train_sequences, 0);
	assert_int_equal(info_of(&d).val_sequences, 0);
	close_mix(&d);
}

static void counts_of_a_mixture_name_their_set(void **state)
{
	const char *const o[] = { "path", in_dir("docs"), NULL };
	const char *const p[] = { "path", in_dir("stream-a"), NULL };
	struct zr_data_count n = { .size = sizeof n };
	int of[3] = { 0 };
	struct data d;
	(void)state;
	write_documents("docs", 0, 12, twelve);
	write_tokens("stream-a", 0, 300, 2, 300);
	add_set(o);
	add_set(p);
	add_set(o);
	mix_prepared(&d, "a b c");
	for (uint32_t i = 0; !d.v->count(d.inst, ZR_SPLIT_TRAIN, i, &n) && n.name; i++)
		of[n.name[0] - 'a']++;
	assert_int_equal(of[1], 0);
	assert_int_equal(of[0], of[2]);
	assert_true(of[0] > 8);
	close_mix(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_target_is_learned_once_an_epoch),
		cmocka_unit_test(sequences_depend_on_step_slot_and_row_only_I1),
		cmocka_unit_test(files_of_a_pattern_are_joined),
		cmocka_unit_test(whole_documents_are_held_out),
		cmocka_unit_test(the_end_of_a_stream_is_held_out),
		cmocka_unit_test(damaged_files_are_refused_by_name_I7),
		cmocka_unit_test(kinds_are_not_mixed),
		cmocka_unit_test(documents_without_a_target_are_refused),
		cmocka_unit_test(a_token_outside_the_vocabulary_names_file_and_position_I7),
		cmocka_unit_test(a_mixture_is_a_function_of_the_seed_I1),
		cmocka_unit_test(weights_of_a_mixture_are_rounded),
		cmocka_unit_test(a_mixture_evaluates_what_is_held_out),
		cmocka_unit_test(sequences_of_a_mixture_are_of_all_sets),
		cmocka_unit_test(counts_of_a_mixture_name_their_set),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
