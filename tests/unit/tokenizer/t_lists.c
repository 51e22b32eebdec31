/* SPDX-License-Identifier: Apache-2.0
 *
 * t_lists.c - the vocabulary and the merges of a tokenizer.json, which are not read by jansson: the
 * same texts are good, and what is wrong is said in the same words. What is passed over ends where
 * it does, whatever its strings have.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/tokenizer/parts.h"

#include <cmocka.h> /* last: it defines fail() */

static int open_text(const char *text, struct zr_tokenizer **t, struct zr_error *err)
{
	static int fd = -1;
	char path[64];
	if (fd < 0)
		fd = memfd_create("tokenizer.json", 0);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	*t = NULL;
	return zr_tokenizer_open(path, t, err);
}

static void test_strings(void **unused)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
		{ "\"\"", "" },
		{ " \"a b\"", "a b" },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
		{ "\"\\u0041\\u00e4\\u4eBa\\uD83D\\ude00!\"", "A\u00e4\u4eba\U0001f600!" },
		{ "\"\u2581\U0001f600\"", "\u2581\U0001f600" },
		{ "\"\\uffff\\uDBFF\\uDFFF\"", "\uffff\U0010ffff" },
		{ "\"a", NULL },
		{ "\"\n\"", NULL },
		{ "\"\\", NULL },
		{ "\"\\x\"", NULL },
		{ "\"\\u00g0\"", NULL },
		{ "\"\\u12", NULL },
		{ "\"\\u0000\"", NULL },
		{ "\"\\ud83d\"", NULL },
		{ "\"\\ude00\"", NULL },
		{ "\"\\ud83d\\n\"", NULL },
		{ "\"\\ud83d\\u0041\"", NULL },
		{ "a", NULL },
		{ "", NULL },
	};
	struct zr_buf to = { 0 };
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *json = cases[i].json, *end;
		to.n = 0;
		end = zr_list_string(json, &to);
		assert_ptr_equal(end, cases[i].text ? json + strlen(json) : NULL);
		json_t *same = json_loads(json, JSON_DECODE_ANY, NULL);
		assert_int_equal(end != NULL, same != NULL);
		if (end) {
			assert_int_equal(to.n, strlen(cases[i].text));
			assert_memory_equal(to.p, cases[i].text, to.n);
			assert_string_equal(json_string_value(same), cases[i].text);
		}
		json_decref(same);
	}
	zr_buf_free(&to);
}

static void test_numbers(void **unused)
{
	/* As tokenizers 0.23.3 writes the scores of a Unigram that it has read. */
	static const struct {
		const char *text;
		double value;
	} cases[] = {
		{ "-9.527064173986698137", -0x1.30ddb5afc550dp+3 }, /* the nearest ends in e */
		{ "-5.97272598634241092", -0x1.7e41247ed3d71p+2 },  /* in 0 */
		{ "-11.276879091854591", -0x1.68dc318a8ec5ep+3 },   /* in d */
		{ "-13.245792068510020556005", -0x1.a7dd8753fbbc3p+3 },
		{ "-1e-7", -0x1.ad7f29abcaf48p-24 },
		{ "-1e25", -0x1.08b2a2c280291p+83 },
		{ "-0.00000000000000000000000000012345", -0x1.38fba1828c79bp-93 },
		{ "-123456789012345678901234567890.5", -0x1.8ee90ff6c373ep+96 },
		{ "-18446744073709551615.5", -0x1p+64 },
		{ "-12", -12 },
		{ "0", 0 },
		{ "2.50E+1", 25 },
	};
	static const char *const wrong[] = { "",   "-",  "+1",  "01",   "-00", "1.",
					     ".5", "1e", "1e+", "1.e5", "x" };
	static const char *const integers[] = { "-1", "0", "1200", "123456789012345678" };
	static const char *const not_integers[] = { "01", "1.0", "1e3", "-",
						    "1234567890123456789" };
	double x;
	int64_t n;
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *text = cases[i].text;
		assert_ptr_equal(zr_list_number(text, &x), text + strlen(text));
		assert_memory_equal(&x, &cases[i].value, sizeof x);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_null(zr_list_number(wrong[i], &x));
	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
		assert_non_null(zr_list_integer(integers[i], &n));
		assert_int_equal(n, strtoll(integers[i], NULL, 10));
	}
	for (size_t i = 0; i < sizeof not_integers / sizeof *not_integers; i++)
		assert_null(zr_list_integer(not_integers[i], &n));
}

/* Texts of JSON, with ' for ". */
#define BPE(vocab, merges)                                                                         \
	"{ 'added_tokens': [], 'model': {'vocab': " vocab ", 'merges':" merges " } }"
#define UNIGRAM(vocab, more) "{'model':{'vocab':" vocab ",'type':'Unigram','unk_id':0" more "}}"
#define AB                   "{'a':0, 'b' : 2,'ab':1,'\\u0061bb':3}"

static char *quote(const char *text, char to[256])
{
	snprintf(to, 256, "%s", text);
	for (char *p = to; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	return to;
}

static void test_files(void **unused)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ BPE(AB, "[]"), NULL },
		{ BPE(AB, "['a b' , [ 'ab', 'b' ]]"), NULL },
		{ BPE(AB, "['a b',['\\u0061b','b'] ]"), NULL },
		{ "{'model':{'merges':[['a','b']],'type':'BPE','vocab':" AB "}}", NULL },
		{ "{'model':{'merges':[['a','b']],'type':'B\\u0050E','vocab':" AB "}}", NULL },
		{ "{'a':{'model':{}},'m\\u006fdel':{'m\\u0065rges':[],'voca\\u0062':" AB "}}",
		  NULL },
		{ BPE("{}", "[]"), NULL },
		{ BPE("[]", "[]"), "model.vocab: expected an object, found []" },
		{ BPE("null", "[]"), "model.vocab: expected an object, found null" },
		{ BPE("'}\\''", "[]"), "model.vocab: expected an object, found '}\\''" },
		{ "{'model':{}}", "model.vocab: expected an object, found nothing" },
		{ "{'model':[]}", "model: expected an object, found []" },
		{ BPE(AB, "{}"), "model.merges: expected an array, found {}" },
		{ BPE("{'a':0,'b':-1}", "[]"),
		  "model.vocab: expected an id in [0, 4194303], found -1" },
		{ BPE("{'a':4194304}", "[]"),
		  "model.vocab: expected an id in [0, 4194303], found 4194304" },
		{ BPE("{'a':1.0}", "[]"),
		  "model.vocab: expected an id in [0, 4194303], found 1.0" },
		{ BPE("{'a':[{'b':2}]}", "[]"), "expected an id in [0, 4194303], found [{'b':2}]" },
		{ BPE("{'a':0,'b':0}", "[]"), "model.vocab: two tokens have id 0" },
		{ BPE("{'a':0,'\\u0061':1}", "[]"), ":1:56: not JSON: duplicate object key" },
		{ BPE("{'a':0,}", "[]"), ": not JSON: " },
		{ BPE("{'a':0 'b':1}", "[]"), ": not JSON: " },
		{ BPE("{'a' 0}", "[]"), ": not JSON: " },
		{ BPE("{'a':00}", "[]"), ": not JSON: " },
		{ BPE("{'a\xff':0}", "[]"), ": not JSON: " },
		{ BPE("{'\\u0000':0}", "[]"), ": not JSON: " },
		{ BPE("{'a':0", "[]"), ": not JSON: " },
		{ BPE(AB, "['a b'"), ": not JSON: " },
		{ BPE(AB, "['a b'}"), ": not JSON: " },
		{ BPE(AB, "['a b',]"), ": not JSON: " },
		{ BPE(AB, "['a b' 'a b']"), ": not JSON: " },
		{ BPE(AB, "['a b'],'x':tru"), ":1:103: not JSON: " },
		{ BPE(AB, "['a b'],'vocab':{}"), ": not JSON: duplicate object key" },
		{ BPE(AB, "['a b','ab']"),
		  "model.merges[1]: expected 'a b' or ['a', 'b'], found 'ab'" },
		{ BPE(AB, "['a b c']"), "model.merges[0]: expected 'a b' or" },
		{ BPE(AB, "[['a','b','c']]"), "found ['a','b','c']" },
		{ BPE(AB, "[['a']]"),
		  "model.merges[0]: expected 'a b' or ['a', 'b'], found ['a']" },
		{ BPE(AB, "[7]"), "model.merges[0]: expected 'a b' or ['a', 'b'], found 7" },
		{ BPE(AB, "['a b','a c']"), "model.merges[1]: c is not in the vocabulary" },
		{ BPE(AB, "['b a']"), "model.merges[0]: ba is not in the vocabulary" },
		{ UNIGRAM("[['a',0.5]]", ",'merges':[}]"), ": not JSON: " },
		{ UNIGRAM("[['a',0]]", ""), NULL },
		{ UNIGRAM("[['a',0],['a',-1.5e0]]", ""), NULL },
		{ UNIGRAM("[['a',0],['b']]", ""),
		  "model.vocab[1]: expected a token and its score, found ['b']" },
		{ UNIGRAM("[['a',0,1]]", ""),
		  "model.vocab[0]: expected a token and its score, found ['a',0,1]" },
		{ UNIGRAM("[['a','0']]", ""),
		  "model.vocab[0]: expected a token and its score, found ['a','0']" },
		{ UNIGRAM("[['a',1e999]]", ""), ": not JSON: " },
		{ UNIGRAM("[ ]", ""),
		  "model.vocab: expected a list of tokens with their scores, found []" },
		{ "", ": not JSON: " },
		{ "[]", ": not a JSON object" },
		{ "{'model':{'vocab':", ": not JSON: " },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256], wanted[256];
		struct zr_tokenizer *t;
		struct zr_error err = { 0 };
		quote(cases[i].text, text);
		quote(cases[i].error ? cases[i].error : "", wanted);
		int rc = open_text(text, &t, &err);
		if (rc ? !*wanted || !strstr(err.text, wanted) : *wanted != 0)
			fail_msg("%s: %s", text, rc ? err.text : "is read");
		if (!rc)
			zr_tokenizer_close(t);
	}
}

/* What the entries say is what is read. */
static void test_entries(void **unused)
{
	struct zr_tokenizer *t;
	struct zr_error err = { 0 };
	size_t n;
	(void)unused;
	char text[256];
	quote(BPE(AB, "['a b',['ab','b']]"), text);
	assert_int_equal(open_text(text, &t, &err), 0);
	assert_int_equal(zr_tokenizer_size(t), 4);
	assert_string_equal(zr_tokenizer_bytes(t, 3, &n), "abb");
	assert_string_equal(zr_tokenizer_bytes(t, 2, &n), "b");
	struct zr_bpe_work *w = zr_bpe_open(t);
	const int32_t *ids;
	assert_non_null(w);
	assert_int_equal(zr_bpe_encode(w, "babba", 5, &ids), 3);
	assert_int_equal(ids[0], 2);
	assert_int_equal(ids[1], 3);
	assert_int_equal(ids[2], 0);
	zr_bpe_close(w);
	zr_tokenizer_close(t);
}

/* ---- what is passed over ---- */

static uint32_t draw(uint32_t n)
{
	static uint64_t state = 1;
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33) % n;
}

static void put(struct zr_buf *to, const char *text)
{
	assert_int_equal(zr_buf_add(to, text, strlen(text)), 0);
}

/* A string of what could be taken for its end, for brackets or for commas. */
static void put_string(struct zr_buf *to)
{
	static const char *const parts[] = { "\\\"", "\\\\", "]", "[", "}", "{", ",", "a", "▁" };
	put(to, "\"");
	for (uint32_t n = draw(12); n; n--)
		put(to, parts[draw(sizeof parts / sizeof *parts)]);
	put(to, "\"");
}

/* An array of `entries`; of other arrays down to `depth`. */
static void put_array(struct zr_buf *to, uint32_t entries, int depth)
{
	put(to, "[");
	for (uint32_t i = 0; i < entries; i++) {
		put(to, i ? draw(2) ? "," : " ,\n        " : draw(2) ? "" : "  ");
		if (depth && i == 0)
			put_array(to, 1 + draw(3), depth - 1);
		else
			put_string(to);
	}
	put(to, "]");
}

static void test_passed(void **unused)
{
	struct zr_buf text = { 0 };
	(void)unused;
	for (int i = 0; i < 600; i++) {
		struct zr_lists s = { 0 };
		uint32_t entries = 1 + draw(40);
		text.n = 0;
		put(&text, "{\"a\":");
		put_array(&text, 1 + draw(3), i % 150 == 0 ? 260 : (int)draw(4));
		put(&text, ",\"model\":{\"b\":");
		put_string(&text);
		put(&text, ", \"vocab\":");
		size_t from = text.n;
		put_array(&text, entries, i % 100 == 0 ? 120 : (int)draw(3));
		size_t to = text.n;
		put(&text, ",\"merges\":[\"]\",\"}\"]},\"c\":0}");
		assert_int_equal(zr_buf_add(&text, "", 1), 0);
		assert_int_equal(zr_lists_find(&s, text.p, text.n - 1), 0);
		assert_ptr_equal(s.vocab.text, text.p + from);
		assert_int_equal(s.vocab.bytes, to - from);
		assert_int_equal(s.vocab.entries, entries);
		assert_int_equal(s.merges.entries, 2);
		assert_int_equal(s.merges.bytes, 9);
		zr_buf_free(&s.rest);
		if (i % 60)
			continue;
		for (size_t n = from + 1; n < to; n++) { /* a file that ends in it */
			struct zr_buf end = { 0 };
			assert_int_equal(zr_buf_add(&end, text.p, n), 0);
			assert_int_equal(zr_buf_add(&end, "", 1), 0);
			s = (struct zr_lists){ .rest = { 0 } };
			assert_int_equal(zr_lists_find(&s, end.p, n), 0);
			assert_null(s.vocab.text);
			zr_buf_free(&s.rest);
			zr_buf_free(&end);
		}
	}
	zr_buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_files),   cmocka_unit_test(test_entries),
		cmocka_unit_test(test_passed),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
