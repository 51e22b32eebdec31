/* SPDX-License-Identifier: Apache-2.0
 *
 * t_import.c - configurations of other programs as trees with line numbers, and values as an INI
 * has them. tests/system/import.sh has what becomes of keys.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"

#include <cmocka.h> /* last: it defines fail() */

static int read_json(const char *text, struct zr_tree *t, struct zr_error *err)
{
	*t = (struct zr_tree){ 0 };
	*err = (struct zr_error){ 0 };
	return zr_tree_json(text, strlen(text), "x.json", t, err);
}

static void done(struct zr_tree *t)
{
	json_decref(t->root);
	free(t->line);
}

/* What the text is as JSON, in one line with sorted keys. */
static void check_json(const char *text, const char *want)
{
	struct zr_tree t;
	struct zr_error err;
	if (read_json(text, &t, &err))
		fail_msg("%s: %s", text, err.text);
	char *got = zr_json_dump(t.root, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(got, want);
	free(got);
	done(&t);
}

static void comments(void **state)
{
	(void)state;
	check_json("{ \"a\": 1 // one\n }", "{\"a\":1}");
	check_json("{ # before\n \"a\": /* in \n between */ 1 }", "{\"a\":1}");
	check_json("// first\n{ \"a\": \"http://x#y/*z*/\" }", "{\"a\":\"http://x#y/*z*/\"}");
	check_json("{ \"a\": \"\\\"// no comment\" } // last", "{\"a\":\"\\\"// no comment\"}");
	check_json("{ \"a\": \"\\\\\" /* behind a backslash */ }", "{\"a\":\"\\\\\"}");
	check_json("{ \"a\": 1 } /* not closed", "{\"a\":1}");
}

static void commas(void **state)
{
	(void)state;
	check_json("{ \"a\": [1, 2, ], }", "{\"a\":[1,2]}");
	check_json("{ \"a\": { \"b\": 1, // last\n }\n,\n}", "{\"a\":{\"b\":1}}");
	check_json("{ \"a\": \",}\", }", "{\"a\":\",}\"}");
}

static void refusals(void **state)
{
	static const char *const bad[][2] = {
		{ "{ \"a\": 1,, }", "x.json:1:" },
		{ "{\n\n \"a\" 1 }", "x.json:3:" },
		{ "{ \"a\": 1,\n\"a\": 2 }", "x.json:2:" },
		{ "{ \"a\": 'b' }", "x.json:1:" },
		{ "{ \"a\": \"not closed\n }", "x.json:1:" },
		{ "[1]", "x.json: not a JSON object" },
		{ "", "x.json:1:" },
		{ "{ \"a\": 1 } {", "x.json:1:" },
	};
	struct zr_tree t;
	struct zr_error err;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(read_json(bad[i][0], &t, &err), ZR_EINVAL);
		if (strncmp(err.text, bad[i][1], strlen(bad[i][1])))
			fail_msg("%s: %s", bad[i][0], err.text);
		done(&t);
	}
}

static void check_settings(const struct zr_tree *t, const char *want)
{
	struct zr_import_source s = { 0 };
	struct zr_error err = { 0 };
	char got[1024] = "";
	assert_int_equal(zr_settings_read(&s, t, &err), 0);
	for (int i = 0; i < s.n; i++) {
		size_t n = strlen(got);
		snprintf(got + n, sizeof got - n, "%s:%d ", s.settings[i].path, s.settings[i].line);
		free(s.settings[i].path);
	}
	free(s.settings);
	assert_string_equal(got, want);
}

static void lines(void **state)
{
	struct zr_tree t;
	struct zr_error err;
	(void)state;
	assert_int_equal(read_json("{ // the first\n"
				   "\"a\": 1, \"b\":\n"
				   "{ \"c\": [ { \"in\": 1,\n"
				   "\"list\": 2 } ], /* two\n"
				   "lines */ \"d\": {} },\n"
				   "\"e\": \"x:y\" }",
				   &t, &err),
			 0);
	t.file = (char *)"x.json";
	check_settings(&t, "a:2 b.c[0].in:3 b.c[0].list:4 b.d:5 e:6 ");
	done(&t);
}

static void check_text(const char *json, const char *want)
{
	struct zr_tree t;
	struct zr_error err;
	char *text, *got;
	assert_true(asprintf(&text, "{ \"v\": %s }", json) > 0);
	assert_int_equal(read_json(text, &t, &err), 0);
	assert_int_equal(zr_import_text(json_object_get(t.root, "v"), &got), 0);
	assert_string_equal(got, want);
	free(got);
	free(text);
	done(&t);
}

static void numbers(void **state)
{
	(void)state;
	check_text("5e8", "500000000");
	check_text("0.94e6", "940000");
	check_text("1E9", "1000000000");
	check_text("3e-5", "3e-05");
	check_text("0.1", "0.1");
	check_text("1.0", "1");
	check_text("-1", "-1");
	check_text("[0.9, 0.999]", "0.9, 0.999");
	check_text("true", "yes");
	check_text("false", "no");
	check_text("\"auto\"", "auto");
	check_text("[\"a\", \"b\"]", "a, b");
	check_text("15099494.4", "15099494.4");
}

static void yaml(void **state)
{
	static const char text[] = "a: 1\n"
				   "b:\n"
				   "  - x: 1e-4\n"
				   "    y: no\n"
				   "c: &one {d: '1', e: }\n"
				   "f: *one\n"
				   "g: 0.5\n"
				   "h: plain text\n";
	struct zr_tree t = { .file = (char *)"x.yml" };
	struct zr_error err = { 0 };
	(void)state;
	if (zr_tree_yaml(text, sizeof text - 1, "x.yml", &t, &err)) {
		assert_non_null(strstr(err.text, "built without libyaml"));
		skip();
	}
	char *got = zr_json_dump(t.root, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(got, "{\"a\":1,\"b\":[{\"x\":0.0001,\"y\":false}],"
				 "\"c\":{\"d\":\"1\",\"e\":null},\"f\":{\"d\":\"1\",\"e\":null},"
				 "\"g\":0.5,\"h\":\"plain text\"}");
	free(got);
	check_settings(&t, "a:1 b[0].x:3 b[0].y:4 c.d:5 c.e:5 f.d:5 f.e:5 g:7 h:8 ");
	done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comments), cmocka_unit_test(commas),  cmocka_unit_test(refusals),
		cmocka_unit_test(lines),    cmocka_unit_test(numbers), cmocka_unit_test(yaml),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
