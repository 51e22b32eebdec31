/* SPDX-License-Identifier: Apache-2.0
 *
 * t_report.c - the parts of `zeroth report`: rows of metrics, fewer points of a curve, ticks, text
 * in HTML.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/report/chart.h"
#include "cmd/report/decimate.h"
#include "cmd/report/html.h"
#include "cmd/report/plot.h"
#include "cmd/report/rows.h"

#include <cmocka.h> /* after the headers with members that its macros name */

static void json(struct zr_rows *r, const char *line)
{
	assert_int_equal(zr_rows_json(r, line, strlen(line)), 0);
}

static void csv(struct zr_rows *r, const char *line)
{
	assert_int_equal(zr_rows_csv(r, line, strlen(line)), 0);
}

static void rows_of_json_have_what_was_measured(void **state)
{
	struct zr_rows r = { 0 };
	(void)state;
	json(&r, "{\"step\":1,\"loss\":5.5,\"lr\":0.001}");
	json(&r, "{\"step\":2,\"lr\":1e-05,\"loss\":null,\"late\":-2.5E+3}");
	json(&r, " { \"step\" : 3 , \"loss\" : 0.30000000000000004 } ");
	assert_int_equal(r.n, 3);
	assert_int_equal(r.columns, 4);
	assert_true(zr_rows_find(&r, "loss")[0] == 5.5);
	assert_true(isinf(zr_rows_find(&r, "loss")[1]));
	assert_true(zr_rows_find(&r, "loss")[2] == 0.30000000000000004);
	assert_true(zr_rows_find(&r, "lr")[1] == 1e-5);
	assert_true(isnan(zr_rows_find(&r, "late")[0]));
	assert_true(zr_rows_find(&r, "late")[1] == -2500);
	assert_null(zr_rows_find(&r, "lat"));
	assert_int_equal(r.bad, 0);
	zr_rows_free(&r);
}

static void lines_that_are_no_row_are_counted(void **state)
{
	static const char *const bad[] = { "{",
					   "{\"step\"",
					   "{\"step\":}",
					   "{\"step\":1,\"a\":\"x\"}",
					   "{\"loss\":1}",
					   "{\"step\":4}x",
					   "[1]",
					   "{\"step\":-1}",
					   "{\"a\\",
					   "{\"step\":null}" };
	struct zr_rows r = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json(&r, bad[i]);
		assert_int_equal(r.bad, i + 1);
		assert_int_equal(r.n, 0);
	}
	json(&r, "{\"step\":1}");
	assert_int_equal(r.n, 1);
	zr_rows_free(&r);
}

static void a_step_that_is_trained_again_takes_the_place_of_what_came_after(void **state)
{
	struct zr_rows r = { 0 };
	(void)state;
	csv(&r, "step,loss");
	csv(&r, "1,10");
	csv(&r, "2,20");
	csv(&r, "3,30");
	csv(&r, "2,21");
	csv(&r, "3,");
	csv(&r, "4,inf\r");
	csv(&r, "5,x");
	assert_int_equal(r.n, 4);
	assert_true(zr_rows_find(&r, "loss")[1] == 21);
	assert_true(isnan(zr_rows_find(&r, "loss")[2]));
	assert_true(isinf(zr_rows_find(&r, "loss")[3]));
	assert_int_equal(r.bad, 1);
	zr_rows_free(&r);
}

static void numbers_are_those_that_strtod_reads(void **state)
{
	static const char *const text[] = { "0",
					    "-0",
					    "12345678",
					    "0.1",
					    "3.141592653589793",
					    "1e300",
					    "2.2250738585072014e-308",
					    "123456789012345678901234567890",
					    "0.000000000000000000000012345",
					    "9007199254740993",
					    "-7.5e-10" };
	struct zr_rows r = { 0 };
	(void)state;
	csv(&r, "step,x");
	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		char line[80];
		double want = strtod(text[i], NULL), got;
		snprintf(line, sizeof line, "%zu,%s", i, text[i]);
		csv(&r, line);
		got = zr_rows_find(&r, "x")[i];
		assert_true(fabs(got - want) <= 4e-16 * fabs(want)); /* the last digit may differ */
	}
	zr_rows_free(&r);
}

static void put(const char *path, const char *text, const char *how)
{
	FILE *f = fopen(path, how);
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void a_file_is_followed_while_it_grows_and_when_it_is_replaced(void **state)
{
	char dir[] = "/tmp/t_report.XXXXXX", path[300], other[310];
	struct zr_rows_file f;
	struct zr_error err = { 0 };
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
	snprintf(other, sizeof other, "%s.tmp", path);
	assert_int_equal(zr_rows_open(&f, dir), 0);
	put(path, "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":2}\n{\"step\":3,", "w");
	assert_int_equal(zr_rows_open(&f, dir), 1);
	assert_int_equal(zr_rows_read(&f, &err), 1);
	assert_int_equal(f.rows.n, 2);
	assert_true(f.torn);
	assert_int_equal(zr_rows_read(&f, &err), 0);
	put(path, "\"a\":3}\n", "a");
	assert_int_equal(zr_rows_read(&f, &err), 1);
	assert_int_equal(f.rows.n, 3);
	assert_false(f.torn);
	/* cut behind step 1 and longer than before: the same file */
	put(path,
	    "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":7}\n{\"step\":3,\"a\":7}\n{\"step\":4,\"a\":7}"
	    "\n",
	    "w");
	assert_int_equal(zr_rows_read(&f, &err), 1);
	assert_int_equal(f.rows.n, 4);
	assert_true(zr_rows_find(&f.rows, "a")[1] == 7);
	/* another file of the name */
	put(other, "{\"step\":9,\"b\":7}\n", "w");
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(zr_rows_read(&f, &err), 1);
	assert_int_equal(f.rows.n, 1);
	assert_null(zr_rows_find(&f.rows, "a"));
	zr_rows_close(&f);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

static void fewer_points_have_the_same_extremes(void **state)
{
	enum { N = 10000, PARTS = 50 };
	double *y = malloc(N * sizeof *y);
	int64_t at[2 * PARTS + 2], n;
	int low = 0, high = 0;
	(void)state;
	for (int i = 0; i < N; i++)
		y[i] = i % 3 ? sin(i * 0.01) : NAN;
	y[5000] = 100; /* one step alone */
	y[7003] = -100;
	n = zr_decimate(y, N, PARTS, at);
	assert_in_range(n, PARTS, 2 * PARTS + 2);
	for (int64_t i = 0; i < n; i++) {
		assert_true(isfinite(y[at[i]]));
		assert_true(!i || at[i] > at[i - 1]);
		high += at[i] == 5000;
		low += at[i] == 7003;
	}
	assert_int_equal(high, 1);
	assert_int_equal(low, 1);
	assert_int_equal(at[0], 1);
	assert_int_equal(at[n - 1], 9998);
	assert_int_equal(zr_decimate(y, 5, PARTS, at), 3); /* 1, 2, 4 */
	assert_int_equal(at[1], 2);
	y[0] = NAN;
	assert_int_equal(zr_decimate(y, 1, PARTS, at), 0);
	assert_int_equal(zr_decimate(y, 0, PARTS, at), 0);
	free(y);
}

static void means_are_of_equal_parts(void **state)
{
	const double x[] = { 1, 2, 3, 4, 5, 6, 7 }, y[] = { 1, 3, NAN, 10, 20, INFINITY, 4 };
	double mx[3], my[3];
	(void)state;
	assert_int_equal(zr_part_means(x, y, 4, 9, mx, my), 3); /* no more than points */
	assert_int_equal(zr_part_means(x, y, 5, 2, mx, my), 2);
	assert_true(mx[0] == 1.5 && my[0] == 2);
	assert_true(mx[1] == 4.5 && my[1] == 15);
	assert_int_equal(zr_part_means(x, y, 0, 2, mx, my), 0);
}

static void ticks_are_round_numbers_in_the_range(void **state)
{
	double t[8];
	(void)state;
	assert_int_equal(zr_ticks(0, 1, ZR_CHART_NUMBER, 0, t), 6);
	assert_true(t[0] == 0 && !signbit(t[0]) && fabs(t[1] - 0.2) < 1e-12);
	assert_int_equal(zr_ticks(-0.001, 97, ZR_CHART_NUMBER, 0, t), 5);
	assert_true(t[0] == 0 && t[4] == 80);
	assert_int_equal(zr_ticks(0.004, 20, ZR_CHART_NUMBER, 1, t), 4);
	assert_true(fabs(t[0] - 0.01) < 1e-12 && t[3] == 10);
	assert_int_equal(zr_ticks(0, 3.5 * 1024 * 1024, ZR_CHART_BYTES, 0, t), 4);
	assert_true(t[3] == 3.0 * 1024 * 1024);
	assert_int_equal(zr_ticks(5, 5, ZR_CHART_NUMBER, 0, t), 1);
	assert_int_equal(zr_ticks(1e-300, 1e300, ZR_CHART_NUMBER, 1, t), 6);
}

static void text_cannot_leave_its_place_in_html(void **state)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	(void)state;
	zr_html_text(f, "<a href=\"x\">&'\x01\xff\xc3\xa9\xed\xa0\x80");
	putc('|', f);
	zr_html_json(f, "</script>\"\\\n&\xff");
	putc('|', f);
	zr_html_number(f, NAN);
	fclose(f);
	assert_string_equal(text, "&lt;a "
				  "href=&quot;x&quot;&gt;&amp;&#39;\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9"
				  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
				  "\"\\u003c/"
				  "script\\u003e\\u0022\\u005c\\u000a\\u0026\xef\xbf\xbd\"|null");
	free(text);
}

static void numbers_for_people(void **state)
{
	char t[ZR_NUMBER_ROOM];
	(void)state;
	assert_string_equal(zr_number(1234567, t), "1,234,567");
	assert_string_equal(zr_number(-1000, t), "-1,000");
	assert_string_equal(zr_number(999.4, t), "999.4");
	assert_string_equal(zr_number(NAN, t), "-");
	assert_string_equal(zr_number(3e-7, t), "3e-07");
	assert_string_equal(zr_number_bytes(1536, t), "1.50 KiB");
	assert_string_equal(zr_number_bytes(5e18, t), "4441 PiB");
	assert_string_equal(zr_number_seconds(0.00025, t), "250 us");
	assert_string_equal(zr_number_seconds(7500, t), "2 h 05 min");
}

static void a_curve_in_text_goes_from_point_to_point(void **state)
{
	static const char *const want[] = { "         up  3           ", /* rows of 16 places */
					    "       3           .....'",
					    "       0 .....'''''      ",
					    "         0              3" };
	const double x[] = { 0, 1, 2, 3 }, y[] = { 0, NAN, 2, 3 };
	char **line = zr_plot("up", x, y, 4, 2, 25, ZR_PLOT_ASCII);
	(void)state;
	assert_non_null(line);
	for (int i = 0; i < 4; i++)
		assert_string_equal(line[i], want[i]);
	zr_plot_free(line, 2);
	line = zr_plot("none", x, y, 0, 1, 24, ZR_PLOT_BRAILLE);
	assert_string_equal(line[0], "         none  no values");
	assert_string_equal(line[1], "                        ");
	zr_plot_free(line, 1);
	line = zr_plot("dot", x, y, 1, 1, 24, ZR_PLOT_BRAILLE);
	assert_string_equal(line[1], "       0 \xe2\xa0\x82              ");
	zr_plot_free(line, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_json_have_what_was_measured),
		cmocka_unit_test(lines_that_are_no_row_are_counted),
		cmocka_unit_test(a_step_that_is_trained_again_takes_the_place_of_what_came_after),
		cmocka_unit_test(numbers_are_those_that_strtod_reads),
		cmocka_unit_test(a_file_is_followed_while_it_grows_and_when_it_is_replaced),
		cmocka_unit_test(fewer_points_have_the_same_extremes),
		cmocka_unit_test(means_are_of_equal_parts),
		cmocka_unit_test(ticks_are_round_numbers_in_the_range),
		cmocka_unit_test(text_cannot_leave_its_place_in_html),
		cmocka_unit_test(numbers_for_people),
		cmocka_unit_test(a_curve_in_text_goes_from_point_to_point),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
