/* SPDX-License-Identifier: Apache-2.0
 *
 * t_jinja.c - templates of Jinja render as in Hugging Face's transformers, or fail where it fails
 * (tests/golden/make_jinja.py); what is not in the subset is refused by name, with file and line;
 * no template takes more than its bounds. With ZR_JINJA_TEMPLATE it renders lines that it reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/jinja.h"

#include <cmocka.h> /* last: it defines fail() */

static struct zr_jinja_work work;

static json_t *spans_of(const struct zr_jinja_work *w)
{
	json_t *list = json_array();

	for (size_t i = 0; i < w->spans.n; i += sizeof(struct zr_jinja_span)) {
		struct zr_jinja_span s;
		memcpy(&s, w->spans.p + i, sizeof s);
		json_array_append_new(list,
				      json_pack("[II]", (json_int_t)s.from, (json_int_t)s.to));
	}

	return list;
}

/* ---- golden ---- */

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* What we make of a template: 0 where it is as wanted. */
static int differs(const json_t *wanted, const json_t *variables, int64_t days)
{
	const char *template = text_of(wanted, "template");
	const json_t *text = json_object_get(wanted, "text");
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	int rc = zr_jinja_open("t", template, strlen(template), &t, &err);
	if (!rc)
		rc = zr_jinja_render(t, variables, days, &work, &err);
	zr_jinja_close(t);
	if (rc && strstr(err.text, "needs utf8proc, which this build has not"))
		return 0;
	if (rc || !text) {
		const int same = rc && !text && !strncmp(err.text, "t:", 2);
		if (!same)
			print_message("%s\n  %s\n", template, rc ? err.text : "renders");
		return !same;
	}

	json_t *spans = spans_of(&work);
	const int same =
		json_string_length(text) == work.text.n &&
		!memcmp(json_string_value(text), work.text.p ? work.text.p : "", work.text.n) &&
		json_equal(spans, json_object_get(wanted, "spans"));
	if (!same)
		print_message("%s\n  ours:   %.*s\n  wanted: %s\n", template, (int)work.text.n,
			      work.text.p, json_string_value(text));
	json_decref(spans);
	return !same;
}

static void as_transformers(void **state)
{
	char path[4096], *line = NULL;
	size_t room = 0;
	int differ = 0, n = 0;

	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/chat/jinja.jsonl", getenv("ZR_SRCDIR"));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_true(getline(&line, &room, f) > 0);
	json_t *head = json_loads(line, JSON_ALLOW_NUL, NULL);
	assert_non_null(head);
	for (; getline(&line, &room, f) > 0; n++) {
		json_t *wanted = json_loads(line, JSON_ALLOW_NUL, NULL);
		assert_non_null(wanted);
		differ += differs(wanted, json_object_get(head, "variables"),
				  json_integer_value(json_object_get(head, "days")));
		json_decref(wanted);
	}

	fclose(f);
	free(line);
	json_decref(head);
	assert_true(n > 150);
	assert_int_equal(differ, 0);
}

/* ---- refusals ---- */

static void refused(const char *template, int code, const char *wanted)
{
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	assert_int_equal(zr_jinja_open("chat_template.jinja", template, strlen(template), &t, &err),
			 code);
	assert_string_equal(err.text, wanted);
}

static void outside_of_the_subset(void **state)
{
	(void)state;
	refused("a\n{{ x|wordwrap }}", ZR_ENOTSUP,
		"chat_template.jinja:2: filter wordwrap: not in the subset of Jinja that Zeroth "
		"has");
	refused("{{ x is\n  sameas y }}", ZR_ENOTSUP,
		"chat_template.jinja:2: test sameas: not in the subset of Jinja that Zeroth has");
	refused("\n\n{% include 'x' %}", ZR_ENOTSUP,
		"chat_template.jinja:3: statement include: not in the subset of Jinja that Zeroth "
		"has, or nothing that it ends is open");
	refused("{{ s.format(1) }}", ZR_ENOTSUP,
		"chat_template.jinja:1: method format: not in the subset of Jinja that Zeroth has");
	refused("{{ lipsum() }}", ZR_ENOTSUP,
		"chat_template.jinja:1: lipsum: not in the subset of Jinja that Zeroth has");
	refused("{{ x|tojson(cls=1) }}", ZR_ENOTSUP,
		"chat_template.jinja:1: filter tojson: its argument cls is not in the subset");
	refused("{% for x in y recursive %}{% endfor %}", ZR_ENOTSUP,
		"chat_template.jinja:1: for ... recursive: not in the subset");
	refused("\xff", ZR_EINVAL, "chat_template.jinja: a chat template that is no UTF-8 text");
}

static void fails(const char *template, const char *wanted)
{
	json_t *variables = json_pack("{s:[s,s], s:s}", "l", "a", "b", "s", "text");
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	assert_int_equal(zr_jinja_open("t", template, strlen(template), &t, &err), 0);
	assert_int_equal(zr_jinja_render(t, variables, INT64_MIN, &work, &err), ZR_EINVAL);
	assert_string_equal(err.text, wanted);
	zr_jinja_close(t);
	json_decref(variables);
}

static void the_line_of_a_failure(void **state)
{
	(void)state;
	fails("a\n\n{{ nothing.x }}", "t:3: 'nothing' is undefined, and so has no x");
	fails("{% for x in l %}\n{{ raise_exception('only ' ~ x) }}\n{% endfor %}",
	      "t:2: the template refuses it: only a");
	fails("{{ strftime_now('%Y') }}",
	      "t:1: the template writes the day on which it is rendered: say which with date = "
	      "YYYY-MM-DD, or --date");
	fails("{{ l.append('c') }}",
	      "t:1: a method that changes a list, which the sandbox of templates forbids");
}

/* ---- bounds ---- */

#define TEN(x) x x x x x x x x x x
#define LOOP   "{% for a in range(100000) %}"

static void bounded(void **state)
{
	(void)state;
	fails("{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
	      "t:1: the template takes more than 67108864 steps");
	fails("{% set ns = namespace(x='0123456789') %}" LOOP
	      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
	      "t:1: the template takes more than 256 MiB of memory");
	fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
	      "t:1: more than 400 calls and expressions in one another");
	fails("{% set ns = namespace(x=[]) %}" LOOP "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
	      "t:1: values of more than 1000 levels are written");
	refused("{{ " TEN(TEN(TEN("("))), ZR_ENOTSUP,
		"chat_template.jinja:1: more than 200 expressions in one another");
	refused("{{ " TEN(TEN(TEN("not "))), ZR_ENOTSUP,
		"chat_template.jinja:1: more than 200 expressions in one another");
	refused(TEN(TEN(TEN("{% if x %}"))), ZR_ENOTSUP,
		"chat_template.jinja:1: more than 200 expressions in one another");
}

/* Where a generation block writes to a macro's text, its place is not known. */
static void lost_spans(void **state)
{
	static const char template[] = "{% macro f() %}{% generation %}a{% endgeneration %}"
				       "{% endmacro %}{{ f() }}";
	json_t *variables = json_object();
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	(void)state;
	assert_int_equal(zr_jinja_open("t", template, sizeof template - 1, &t, &err), 0);
	assert_int_equal(zr_jinja_render(t, variables, 0, &work, &err), 0);
	assert_true(work.lost && !work.spans.n && zr_jinja_generates(t));
	zr_jinja_close(t);
	json_decref(variables);
}

/* ---- templates of models ---- */

static void answer(const struct zr_jinja *t, const char *line, int64_t days)
{
	json_t *v = json_loads(line, JSON_ALLOW_NUL, NULL), *o = json_object();
	struct zr_error err = { 0 };

	if (zr_jinja_render(t, v, days, &work, &err)) {
		json_object_set_new(o, "error", json_string(err.text));
	} else {
		json_object_set_new(o, "text", json_stringn(work.text.p, work.text.n));
		json_object_set_new(o, "spans", spans_of(&work));
		json_object_set_new(o, "lost", json_boolean(work.lost));
	}

	char *text = json_dumps(o, 0);
	puts(text);
	free(text);
	json_decref(o);
	json_decref(v);
}

static int render_lines(const char *path)
{
	static char text[ZR_JINJA_TEXT];
	const char *days = getenv("ZR_JINJA_DAYS");
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;
	char *line = NULL;
	size_t room = 0;

	FILE *f = fopen(path, "r");
	if (!f || zr_jinja_open(path, text, fread(text, 1, sizeof text, f), &t, &err)) {
		fprintf(stderr, "%s\n", f ? err.text : path);
		return 1;
	}

	while (getline(&line, &room, stdin) > 0)
		answer(t, line, days ? atoll(days) : INT64_MIN);
	free(line);
	fclose(f);
	zr_jinja_close(t);
	zr_jinja_work_free(&work);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_transformers),
		cmocka_unit_test(outside_of_the_subset),
		cmocka_unit_test(the_line_of_a_failure),
		cmocka_unit_test(bounded),
		cmocka_unit_test(lost_spans),
	};

	if (getenv("ZR_JINJA_TEMPLATE"))
		return render_lines(getenv("ZR_JINJA_TEMPLATE"));

	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int rc = cmocka_run_group_tests(tests, NULL, NULL);
	zr_jinja_work_free(&work);
	return rc;
}
