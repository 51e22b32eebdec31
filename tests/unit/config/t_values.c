/* SPDX-License-Identifier: Apache-2.0
 *
 * t_values.c - the lines of an INI file, and texts of values by option table.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/config/config.h"
#include "core/config/ini.h"
#include "core/config/options.h"

#include <cmocka.h> /* last: it defines fail() */

static char path[64]; /* of the file in test */

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* ---- lines ---- */

struct line {
	char all[2048];
};

static int note(void *arg, const char *section, const char *key, const char *v, int number_)
{
	struct line *l = arg;
	size_t len = strlen(l->all);
	snprintf(l->all + len, sizeof l->all - len, "%d:%s.%s=%s|", number_, section,
		 key ? key : "", v ? v : "");
	return 0;
}

static const char *lines(const char *t)
{
	static struct line l;
	struct zr_error err = { 0 };
	memset(&l, 0, sizeof l);
	write_file(t);
	if (zr_ini_read(path, "F", note, &l, &err))
		snprintf(l.all, sizeof l.all, "%s", err.text);
	return l.all;
}

static void lines_are_numbered_and_trimmed(void **unused)
{
	(void)unused;
	assert_string_equal(lines("; c\n\n[a]\r\nk=v\r\n deep = x y \n# c\n[b.c] ; c\nlast = 1"),
			    "3:a.=|4:a.k=v|5:a.deep=x y|7:b.c.=|8:b.c.last=1|");
	assert_string_equal(lines("\xef\xbb\xbf[a]\nk = v\n"), "1:a.=|2:a.k=v|");
	assert_string_equal(lines(""), "");
}

static void comments_begin_after_a_blank(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = 1 ; c\nl = a;b#c # d\nm = ; c\nn=\to\t#\n"),
			    "1:a.=|2:a.k=1|3:a.l=a;b#c|4:a.m=|5:a.n=o|");
}

static void quotes_keep_what_is_in_them(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = \"  a ; b # c \" ; d\nl = \"say \\\"x\\\" \\\\ ;\"\nm "
				  "= a\"b\"\nn = \"\"\n"),
			    "1:a.=|2:a.k=  a ; b # c |3:a.l=say \"x\" \\ ;|4:a.m=a\"b\"|5:a.n=|");
	assert_string_equal(lines("[a]\nk = \"open ; b\n"),
			    "F:2: a value whose quotes are not closed");
	assert_string_equal(lines("[a]\nk = \"a\" b\n"), "F:2: text after the closing quote");
}

static void lines_that_are_nothing_are_refused(void **unused)
{
	char longest[6000] = "[a]\nk = ";
	(void)unused;
	assert_string_equal(lines("[a]\nword\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("[a]\nk: v\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("[a]\n= v\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("\n[a\n"), "F:2: a section without its ]");
	assert_string_equal(lines("k = v\n"), "F:1: a key before the first [section]");
	assert_string_equal(lines("[a]\nk = \x01\n"),
			    "F:2: a control character; this is not a text file");
	assert_string_equal(
		lines("[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n"),
		"F:1: the section's name is too long");
	memset(longest + strlen(longest), 'x', 5000);
	assert_string_equal(lines(longest), "F:2: the line is too long");
}

/* libinih takes an indented line for more of the value before it; here it is a key. */
static void indented_keys_are_keys(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = 1\n l = 2\n\tm = 3\n"),
			    "1:a.=|2:a.k=1|3:a.l=2|4:a.m=3|");
}

/* ---- values ---- */

struct all {
	uint8_t b;
	int64_t i;
	double f;
	uint64_t bytes, count;
	double list[3];
	int32_t e;
	const char *s;
};

static const char *const choices[] = { "red", "green", "blue", NULL };
static const struct zr_opt all[] = {
	ZR_OPT(struct all, b, ZR_T_BOOL, 0, "no", 0, 0, "", "d"),
	ZR_OPT(struct all, i, ZR_T_I64, ZR_O_AUTO, "auto", -10, 1000, "", "d"),
	ZR_OPT(struct all, f, ZR_T_F64, ZR_O_AUTO | ZR_O_MAX_OPEN, "0.5", 0, 1, "", "d"),
	ZR_OPT(struct all, bytes, ZR_T_BYTES, ZR_O_AUTO, "1K", 0, ZR_HI, "bytes", "d"),
	ZR_OPT(struct all, count, ZR_T_COUNT, ZR_O_AUTO, "1", 1, ZR_HI, "", "d"),
	ZR_OPT(struct all, list, ZR_T_F64S, ZR_O_MIN_OPEN, "1,2,3", 0, ZR_HI, "", "d"),
	ZR_OPT_ENUM(struct all, e, 0, "red", choices, "d"),
	ZR_OPT(struct all, s, ZR_T_STR, 0, "", 0, 0, "", "d"),
};
static const struct zr_table table = { all, sizeof all / sizeof *all, sizeof *all,
				       sizeof(struct all) };

/* What name = text becomes when written again, or the error. */
static const char *again(const char *name, const char *t)
{
	static char out[1024];
	struct all v = { 0 };
	struct zr_error err = { 0 };
	const struct zr_opt *o = zr_table_find(&table, name);
	if (zr_value_parse(o, t, &v, &err))
		snprintf(out, sizeof out, "%s", err.text);
	else
		zr_value_format(o, &v, out, sizeof out);
	return out;
}

static void numbers_are_whole_texts_in_range(void **unused)
{
	(void)unused;
	assert_string_equal(again("f", "0.1"), "0.1");
	assert_string_equal(again("f", "1e-3"), "0.001");
	assert_string_equal(again("f", ".5"), "0.5");
	assert_string_equal(again("f", "auto"), "auto");
	assert_string_equal(again("f", "0.1x"), "expected a number, found '0.1x'");
	assert_string_equal(again("f", "abc"), "expected a number, found 'abc'");
	assert_string_equal(again("f", ""), "expected a number, found ''");
	assert_string_equal(again("f", "0,5"), "expected a number, found '0,5'");
	assert_string_equal(again("f", "nan"), "expected a number, found 'nan'");
	assert_string_equal(again("f", "inf"), "expected a number, found 'inf'");
	assert_string_equal(again("f", "0x1p-1"), "expected a number, found '0x1p-1'");
	assert_string_equal(again("f", "1e999"), "expected a number, found '1e999'");
	assert_string_equal(again("f", "1"), "1 is out of range [0, 1)");
	assert_string_equal(again("f", "-0.5"), "-0.5 is out of range [0, 1)");
	assert_string_equal(again("i", "-10"), "-10");
	assert_string_equal(again("i", "+7"), "7");
	assert_string_equal(again("i", "1e2"), "expected a whole number, found '1e2'");
	assert_string_equal(again("i", "1.0"), "expected a whole number, found '1.0'");
	assert_string_equal(again("i", "1001"), "1001 is out of range [-10, 1000]");
	assert_string_equal(again("i", "99999999999999999999"),
			    "99999999999999999999 does not fit 64 bits");
}

static void counts_and_bytes_may_be_written_short(void **unused)
{
	(void)unused;
	assert_string_equal(again("count", "5e8"), "500000000");
	assert_string_equal(again("count", "1.5e1"), "15");
	assert_string_equal(again("count", "18446744073709551614"), "18446744073709551614");
	assert_string_equal(again("count", "18446744073709551615"),
			    "18446744073709551615 is too large");
	assert_string_equal(again("count", "1.5"), "expected a whole number, found '1.5'");
	assert_string_equal(again("count", "1e17"), "1e17 is too large");
	assert_string_equal(again("count", "0"), "0 is out of range >= 1");
	assert_string_equal(again("count", "-3"), "-3 is out of range >= 1");
	assert_string_equal(again("bytes", "2G"), "2G");
	assert_string_equal(again("bytes", "2048"), "2K");
	assert_string_equal(again("bytes", "1.5M"), "1536K");
	assert_string_equal(again("bytes", "1000"), "1000");
	assert_string_equal(again("bytes", "0"), "0");
	assert_string_equal(again("bytes", "3T"), "3T");
	assert_string_equal(again("bytes", "2GB"), "expected bytes like 512M or 2G, found '2GB'");
	assert_string_equal(again("bytes", "2KiB"), "expected bytes like 512M or 2G, found '2KiB'");
	assert_string_equal(again("bytes", "G"), "expected bytes like 512M or 2G, found 'G'");
	assert_string_equal(again("bytes", "0.3K"), "expected bytes like 512M or 2G, found '0.3K'");
	assert_string_equal(again("bytes", "99999999999T"), "99999999999T is too large");
}

static void lists_have_their_length(void **unused)
{
	(void)unused;
	assert_string_equal(again("list", "1,2,3"), "1,2,3");
	assert_string_equal(again("list", " 0.1 2e5 , 3"), "0.1,200000,3");
	assert_string_equal(again("list", "1,2"), "expected 3 numbers, found 2 in '1,2'");
	assert_string_equal(again("list", "1,2,3,4"), "expected 3 numbers, found 4 in '1,2,3,4'");
	assert_string_equal(again("list", ""), "expected 3 numbers, found 0 in ''");
	assert_string_equal(again("list", "1,,3"), "expected a number, found ''");
	assert_string_equal(again("list", "1,2,"),
			    "expected a number after the last comma, found '1,2,'");
	assert_string_equal(again("list", "1,2,0"), "0 is out of range > 0");
	assert_string_equal(again("list", "1,nan,2"), "expected a number, found 'nan'");
	assert_string_equal(again("list", "auto"), "expected a number, found 'auto'");
}

static void words_are_from_their_list(void **unused)
{
	static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no",
										       "false",
										       "off", "0" };
	(void)unused;
	for (int i = 0; i < 4; i++) {
		assert_string_equal(again("b", yes[i]), "yes");
		assert_string_equal(again("b", no[i]), "no");
	}
	assert_string_equal(again("b", "maybe"), "expected yes or no, found 'maybe'");
	assert_string_equal(again("e", "blue"), "blue");
	assert_string_equal(again("e", "grene"),
			    "'grene' is none of red, green, blue; did you mean green?");
	assert_string_equal(again("e", "auto"), "'auto' is none of red, green, blue");
}

static void a_refused_value_changes_nothing(void **unused)
{
	struct all v = { .list = { 7, 8, 9 }, .f = 0.25 };
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_value_parse(zr_table_find(&table, "list"), "1,2,-3", &v, &err),
			 ZR_EINVAL);
	assert_true(v.list[0] == 7 && v.list[1] == 8 && v.list[2] == 9);
	assert_int_equal(zr_value_parse(zr_table_find(&table, "f"), "2", &v, &err), ZR_EINVAL);
	assert_true(v.f == 0.25);
}

static void numbers_read_back_to_the_same_bits(void **unused)
{
	uint64_t x = 88172645463325252u;
	(void)unused;
	for (int i = 0; i < 20000; i++) {
		double v, w;
		char t[40];
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&v, &x, sizeof v);
		if (!isfinite(v))
			continue;
		zr_format_double(v, t, sizeof t);
		assert_int_equal(zr_parse_double(t, &w), 0);
		assert_memory_equal(&v, &w, sizeof v);
	}
}

static void no_locale_changes_a_number(void **unused)
{
	static const char *const commas[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE",
					      "nl_NL.UTF-8" };
	char t[40];
	int found = 0;
	(void)unused;
	for (int i = 0; i < 4 && !found; i++)
		found = setlocale(LC_ALL, commas[i]) != NULL;
	zr_format_double(1.5, t, sizeof t);
	assert_string_equal(t, "1.5");
	assert_string_equal(again("f", "0.5"), "0.5");
	assert_string_equal(again("f", "0,5"), "expected a number, found '0,5'");
	setlocale(LC_ALL, "C");
	if (!found)
		print_message("# no locale with decimal commas is installed: the C locale was "
			      "tested\n");
}

static void nearest_is_near(void **unused)
{
	static const char *const keys[] = { "gradient_clipping", "train_batch_size", "lr", "steps",
					    "seed" };
	(void)unused;
	assert_string_equal(zr_nearest("gradient_clipp1ng", keys, 5), "gradient_clipping");
	assert_string_equal(zr_nearest("lrr", keys, 5), "lr");
	assert_string_equal(zr_nearest("rl", keys, 5), "lr");
	assert_string_equal(zr_nearest("batch_size", keys, 5), "train_batch_size");
	assert_string_equal(zr_nearest("sede", keys, 5), "seed");
	assert_null(zr_nearest("elephant", keys, 5));
	assert_null(zr_nearest("momentum", keys, 5));
	assert_null(zr_nearest("", keys, 5));
	static const char *const alike[] = { "stage1", "stage2", "stage2", "stage3" };
	assert_null(zr_nearest("stage4", alike, 4));
	assert_string_equal(zr_nearest("stage22", alike, 4), "stage2");
	/* the other is in two directories */
	assert_string_equal(zr_nearest("stage4", alike, 3), "stage1");
}

static void words_are_separated_by_blanks(void **unused)
{
	const char *list = " wte.weight\t*.bias  x ", *word;
	char out[64] = "";
	size_t n;
	(void)unused;
	while ((word = zr_next_word(&list, &n)))
		sprintf(out + strlen(out), "<%.*s>", (int)n, word);
	assert_string_equal(out, "<wte.weight><*.bias><x>");
	assert_null(zr_next_word(&list, &n));
}

static void options_are_found_by_their_flags(void **unused)
{
	static const struct zr_opt opts[] = {
		{ .name = "a" },
		{ .name = "b", .flags = ZR_O_NUMERIC | ZR_O_AUTO },
		{ .name = "c", .flags = ZR_O_AUTO },
		{ .name = "d", .flags = ZR_O_NUMERIC },
	};
	const struct zr_table t = { opts, 4, sizeof *opts, 0 };
	uint32_t i = 0, all = 0;
	(void)unused;
	assert_ptr_equal(zr_table_next(&t, ZR_O_NUMERIC, &i), &opts[1]);
	assert_ptr_equal(zr_table_next(&t, ZR_O_NUMERIC, &i), &opts[3]);
	assert_null(zr_table_next(&t, ZR_O_NUMERIC, &i));
	while (zr_table_next(&t, 0, &all))
		;
	assert_int_equal(all, 4);
	i = 0;
	assert_ptr_equal(zr_table_next(&t, ZR_O_NUMERIC | ZR_O_AUTO, &i), &opts[1]);
	assert_null(zr_table_next(&t, ZR_O_NUMERIC | ZR_O_AUTO, &i));
}

static int setup(void **unused)
{
	int fd;
	(void)unused;
	strcpy(path, "/tmp/zeroth-test.XXXXXX");
	fd = mkstemp(path);
	return fd < 0 || close(fd);
}

static int teardown(void **unused)
{
	(void)unused;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_numbered_and_trimmed),
		cmocka_unit_test(comments_begin_after_a_blank),
		cmocka_unit_test(quotes_keep_what_is_in_them),
		cmocka_unit_test(lines_that_are_nothing_are_refused),
		cmocka_unit_test(indented_keys_are_keys),
		cmocka_unit_test(numbers_are_whole_texts_in_range),
		cmocka_unit_test(counts_and_bytes_may_be_written_short),
		cmocka_unit_test(lists_have_their_length),
		cmocka_unit_test(words_are_from_their_list),
		cmocka_unit_test(a_refused_value_changes_nothing),
		cmocka_unit_test(numbers_read_back_to_the_same_bits),
		cmocka_unit_test(no_locale_changes_a_number),
		cmocka_unit_test(nearest_is_near),
		cmocka_unit_test(words_are_separated_by_blanks),
		cmocka_unit_test(options_are_found_by_their_flags),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
