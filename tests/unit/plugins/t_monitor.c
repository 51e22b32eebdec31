/* SPDX-License-Identifier: Apache-2.0
 *
 * t_monitor.c - csv and jsonl: the bytes they leave in their files.
 */
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zeroth/monitor.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "tests/lib/testhost.h"

static struct zr_host *host;
static char dir[] = "/tmp/t_monitor.XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static const char *content(const char *name)
{
	static char text[65536];
	FILE *f = fopen(in_dir(name), "r");
	size_t n;
	assert_non_null(f);
	n = fread(text, 1, sizeof text - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

struct monitor {
	const struct zr_desc *desc;
	const struct zr_monitor_v1 *v;
	struct zr_inst *inst;
	void *opts;
};

static int open_monitor(struct monitor *m, const char *plugin, const char *path,
			const char *columns)
{
	test_clear(host);
	m->desc = test_plugin(plugin);
	m->v = test_iface(m->desc, "zr.monitor/1");
	m->opts = test_options(m->desc);
	if (path)
		assert_int_equal(test_set(m->desc, m->opts, "path", path), 0);
	if (columns)
		assert_int_equal(test_set(m->desc, m->opts, "columns", columns), 0);
	return test_create(host, m->desc, m->opts, &m->inst);
}

static void close_monitor(struct monitor *m)
{
	m->desc->destroy(m->inst);
	free(m->opts);
}

static void csv_has_a_header_and_empty_fields_for_what_was_not_measured(void **state)
{
	const struct zr_metric first[] = { { "lr", 3e-4 }, { "loss", 5.5 } };
	const struct zr_metric second[] = { { "loss", 2.25 },
					    { "val_loss", 1.875 },
					    { "lr", 1e-3 } };
	struct monitor m;
	(void)state;
	assert_int_equal(open_monitor(&m, "monitor/csv", "a.csv", "loss val_loss lr"), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, first, 2), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 2, second, 3), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 3, NULL, 0), ZR_OK);
	assert_string_equal(content("a.csv"),
			    "step,loss,val_loss,lr\n1,5.5,,0.0003\n2,2.25,1.875,0.001\n3,,,\n");
	assert_int_equal(m.v->flush(m.inst), ZR_OK);
	close_monitor(&m);
}

static void csv_tells_once_of_a_metric_without_a_column_I7(void **state)
{
	const struct zr_metric x[] = { { "loss", 1 }, { "surprise", 2 } };
	struct monitor m;
	(void)state;
	assert_int_equal(open_monitor(&m, "monitor/csv", "b.csv", "loss"), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, 2), ZR_OK);
	assert_non_null(strstr(test_log(host), "no column for \"surprise\""));
	test_clear(host);
	assert_int_equal(m.v->metrics(m.inst, 2, x, 2), ZR_OK);
	assert_string_equal(test_log(host), "");
	close_monitor(&m);
}

static void csv_of_a_resumed_run_goes_on_under_the_same_header(void **state)
{
	const struct zr_metric x[] = { { "loss", 1.5 } };
	struct monitor m;
	(void)state;
	write_file("c.csv", "step,loss\n1,2\n");
	assert_int_equal(open_monitor(&m, "monitor/csv", "c.csv", "loss"), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 2, x, 1), ZR_OK);
	close_monitor(&m);
	assert_string_equal(content("c.csv"), "step,loss\n1,2\n2,1.5\n");
}

static void csv_goes_on_under_the_columns_of_an_older_program(void **state)
{
	const struct zr_metric x[] = { { "step_seconds", 0.5 }, { "lr", 1.5 }, { "surprise", 2 } };
	struct monitor m;
	(void)state;
	write_file("old.csv", "step,lr,loss\n1,2,3\n");
	assert_int_equal(open_monitor(&m, "monitor/csv", "old.csv", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 2, x, 3), ZR_OK);
	close_monitor(&m);
	assert_string_equal(content("old.csv"), "step,lr,loss\n1,2,3\n2,1.5,\n");
	assert_int_equal(open_monitor(&m, "monitor/csv", "new.csv", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, 3), ZR_OK);
	close_monitor(&m);
	assert_string_equal(content("new.csv"),
			    "step,loss,val_loss,lr,grad_norm,loss_scale,tokens_per_s,memory,"
			    "step_seconds,elapsed,tokens,epoch,skipped\n1,,,1.5,,,,,0.5,,,,\n");
	assert_string_equal(test_log(host), "");
}

static void csv_refuses_a_file_with_other_columns(void **state)
{
	struct monitor m;
	(void)state;
	write_file("d.csv", "step,lr\n1,2\n");
	assert_int_equal(open_monitor(&m, "monitor/csv", "d.csv", "loss"), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "d.csv: has the columns \"step,lr\""));
	free(m.opts);
	assert_string_equal(content("d.csv"), "step,lr\n1,2\n");
}

/* Rows of a file before and after a run went on behind step 4. */
static const char *const cuts[][2] = {
	{ "", "" },
	{ "1,1\n2,1\n", "1,1\n2,1\n" },
	{ "3,1\n4,1\n5,1\n6,1\n", "3,1\n4,1\n" },
	{ "5,1\n6,1\n", "" },
	{ "40,1\n400,1\n", "" },
	/* two trainings that were left, as an older zeroth appended them: the later row counts */
	{ "1,1\n2,1\n3,1\n4,1\n2,2\n3,2\n4,2\n5,2\n3,3\n4,3\n5,3\n", "1,1\n2,2\n3,3\n4,3\n" },
	{ "1,1\n2,1\n3,1\n4,1\n5,1\n2,2\n", "1,1\n2,2\n" },
	/* what is no row of a step stays */
	{ "1,1\na note\n5,1\n7 bits\n6,1\n", "1,1\na note\n7 bits\n" },
};

static void a_resumed_run_has_every_step_once(void **state)
{
	const struct zr_metric x[] = { { "loss", 9 } };
	(void)state;
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		char text[256], want[256];
		struct monitor m;
		snprintf(text, sizeof text, "step,loss\n%s", cuts[i][0]);
		snprintf(want, sizeof want, "step,loss\n%s5,9\n", cuts[i][1]);
		write_file("cut.csv", text);
		assert_int_equal(open_monitor(&m, "monitor/csv", "cut.csv", "loss"), ZR_OK);
		assert_int_equal(m.v->resume(m.inst, 4), ZR_OK);
		assert_int_equal(strstr(test_log(host), "took out") != NULL,
				 strcmp(cuts[i][0], cuts[i][1]) != 0);
		assert_int_equal(m.v->metrics(m.inst, 5, x, 1), ZR_OK);
		close_monitor(&m);
		assert_string_equal(content("cut.csv"), want);
		assert_int_not_equal(access(in_dir("cut.csv.tmp"), F_OK), 0);
	}
}

static void jsonl_of_a_resumed_run_has_every_step_once(void **state)
{
	struct monitor m;
	(void)state;
	write_file("cut.jsonl", "{\"step\":4,\"a\":5}\n{\"step\":5,\"a\":4}\n{\"step\":6}\n");
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "cut.jsonl", NULL), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 4), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 5, NULL, 0), ZR_OK);
	close_monitor(&m);
	assert_string_equal(content("cut.jsonl"), "{\"step\":4,\"a\":5}\n{\"step\":5}\n");
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "/dev/null", NULL), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 4), ZR_OK);
	close_monitor(&m);
}

static void jsonl_writes_one_object_per_line(void **state)
{
	const struct zr_metric x[] = { { "loss", 3.25 },
				       { "tokens_per_s", 12345 },
				       { "memory", 2147483648.0 } };
	struct monitor m;
	(void)state;
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "a.jsonl", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 7, x, 3), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 8, NULL, 0), ZR_OK);
	assert_string_equal(content("a.jsonl"), "{\"step\":7,\"loss\":3.25,\"tokens_per_s\":12345,"
						"\"memory\":2147483648}\n{\"step\":8}\n");
	assert_int_equal(m.v->flush(m.inst), ZR_OK);
	close_monitor(&m);
}

static void jsonl_has_null_where_json_has_no_number(void **state)
{
	const struct zr_metric x[] = { { "a", NAN }, { "b", INFINITY }, { "c", -INFINITY } };
	struct monitor m;
	(void)state;
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "nan.jsonl", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, 3), ZR_OK);
	assert_string_equal(content("nan.jsonl"),
			    "{\"step\":1,\"a\":null,\"b\":null,\"c\":null}\n");
	close_monitor(&m);
}

static void numbers_read_back_as_the_same_double(void **state)
{
	static const double v[] = { 0.1,  1.0 / 3,       5e-324,        DBL_MAX, -2.5e-7,
				    1e15, 123456789.125, 0x1.fffffep-3, 1e22,    -0.0 };
	const uint32_t n = sizeof v / sizeof *v;
	struct zr_metric x[sizeof v / sizeof *v];
	struct monitor m;
	const char *p;
	uint32_t i;
	(void)state;
	for (i = 0; i < n; i++)
		x[i] = (struct zr_metric){ "x", v[i] };
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "numbers.jsonl", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, n), ZR_OK);
	close_monitor(&m);
	p = content("numbers.jsonl");
	assert_non_null(strstr(p, "\"x\":0.1,")); /* shortest: not 0.10000000000000001 */
	for (i = 0; i < n; i++) {
		double got;
		p = strstr(p, "\"x\":");
		assert_non_null(p);
		p += 4;
		got = strtod(p, NULL);
		assert_memory_equal(&got, &v[i], sizeof got);
	}
}

static void a_line_that_was_not_finished_is_cut_off(void **state)
{
	struct monitor m;
	(void)state;
	write_file("torn.jsonl", "{\"step\":1}\n{\"step\":2,\"lo");
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "torn.jsonl", NULL), ZR_OK);
	assert_non_null(strstr(test_log(host), "torn.jsonl: cutting off"));
	assert_int_equal(m.v->metrics(m.inst, 2, NULL, 0), ZR_OK);
	close_monitor(&m);
	assert_string_equal(content("torn.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

static void a_file_that_is_not_lines_is_left_alone(void **state)
{
	static char blob[20000];
	struct monitor m;
	(void)state;
	memset(blob, 'x', sizeof blob - 1);
	write_file("blob", blob);
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "blob", NULL), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "is not a text of lines"));
	free(m.opts);
	assert_int_equal(strlen(content("blob")), sizeof blob - 1);
}

static void failures_name_the_file_and_the_cause(void **state)
{
	struct monitor m;
	(void)state;
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "no/such/dir/x", NULL), ZR_EINVAL);
	assert_non_null(
		strstr(test_error(host), "no/such/dir/x: cannot open: No such file or directory"));
	free(m.opts);
	assert_int_equal(open_monitor(&m, "monitor/jsonl", "/dev/full", NULL), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, NULL, 0), ZR_EAGAIN);
	assert_string_equal(test_error(host), "/dev/full: cannot write: No space left on device");
	close_monitor(&m);
}

static void nothing_is_allocated_after_create_I3(void **state)
{
	static const char *const plugins[] = { "monitor/csv", "monitor/jsonl" };
	const struct zr_metric x[] = { { "loss", 1.0 / 3 }, { "lr", 1e-300 }, { "unlisted", 2 } };
	int i, step;
	(void)state;
	for (i = 0; i < 2; i++) {
		struct monitor m;
		struct mallinfo2 before;
		int64_t allocs;
		assert_int_equal(open_monitor(&m, plugins[i], "i3", NULL), ZR_OK);
		before = mallinfo2();
		allocs = test_allocs(host);
		for (step = 1; step <= 100; step++)
			assert_int_equal(m.v->metrics(m.inst, step, x, 3), ZR_OK);
		assert_true(mallinfo2().uordblks == before.uordblks);
		assert_int_equal(test_allocs(host), allocs);
		close_monitor(&m);
		unlink(in_dir("i3"));
	}
}

static int setup(void **state)
{
	(void)state;
	host = test_host(1);
	if (!mkdtemp(dir))
		return -1;
	host->run_dir = dir;
	return 0;
}

static int teardown(void **state)
{
	static const char *const made[] = { "a.csv",   "b.csv",     "c.csv",         "d.csv",
					    "a.jsonl", "nan.jsonl", "numbers.jsonl", "torn.jsonl",
					    "blob",    "cut.csv",   "cut.jsonl" };
	size_t i;
	(void)state;
	for (i = 0; i < sizeof made / sizeof *made; i++)
		unlink(in_dir(made[i]));
	rmdir(dir);
	test_host_free(host);
	return 0;
}

/* A line that the disk has no room for is not there, in whole or in part, and comes again. */
static void a_full_disk_tears_no_line(void **state)
{
	static const char *const plugin[] = { "monitor/jsonl", "monitor/csv" }, *const name[] = {
		"full.jsonl", "full.csv"
	};
	const struct zr_metric x[] = { { "loss", 5.5 } };
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct monitor m;
		char before[256];
		const char *columns = i ? "loss" : NULL;
		assert_int_equal(open_monitor(&m, plugin[i], name[i], columns), ZR_OK);
		assert_int_equal(m.v->metrics(m.inst, 1, x, 1), ZR_OK);
		snprintf(before, sizeof before, "%s", content(name[i]));
		for (int more = 0; more < 4; more++) {
			test_clear(host);
			test_file_limit((int64_t)strlen(before) + more);
			assert_int_equal(m.v->metrics(m.inst, 2, x, 1), ZR_EAGAIN);
			test_file_limit(-1);
			assert_non_null(strstr(test_error(host), "cannot write: File too large"));
			assert_string_equal(content(name[i]), before);
		}
		assert_int_equal(m.v->metrics(m.inst, 2, x, 1), ZR_OK);
		close_monitor(&m);
		assert_string_equal(content(name[i]),
				    i ? "step,loss\n1,5.5\n2,5.5\n" :
					"{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"loss\":5.5}\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_has_a_header_and_empty_fields_for_what_was_not_measured),
		cmocka_unit_test(csv_tells_once_of_a_metric_without_a_column_I7),
		cmocka_unit_test(csv_of_a_resumed_run_goes_on_under_the_same_header),
		cmocka_unit_test(csv_goes_on_under_the_columns_of_an_older_program),
		cmocka_unit_test(csv_refuses_a_file_with_other_columns),
		cmocka_unit_test(a_resumed_run_has_every_step_once),
		cmocka_unit_test(jsonl_of_a_resumed_run_has_every_step_once),
		cmocka_unit_test(jsonl_writes_one_object_per_line),
		cmocka_unit_test(jsonl_has_null_where_json_has_no_number),
		cmocka_unit_test(numbers_read_back_as_the_same_double),
		cmocka_unit_test(a_line_that_was_not_finished_is_cut_off),
		cmocka_unit_test(a_file_that_is_not_lines_is_left_alone),
		cmocka_unit_test(a_full_disk_tears_no_line),
		cmocka_unit_test(failures_name_the_file_and_the_cause),
		cmocka_unit_test(nothing_is_allocated_after_create_I3),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
