/* SPDX-License-Identifier: Apache-2.0
 *
 * t_turns.c - the texts of conversations by templates of Jinja, and what of them is learned, equal
 * those of the same rule in Python, over what Hugging Face's transformers renders
 * (tests/golden/make_jinja.py). With ZR_TURNS_TEMPLATE it does so for lines that it reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/turns.h"

#include <cmocka.h> /* last: it defines fail() */

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static int role_of(const json_t *message)
{
	return strcmp(text_of(message, "role"), "assistant") ? ZR_CHAT_USER : ZR_CHAT_ASSISTANT;
}

/* The texts that are left, each with its spans, in `out`; < 0: it fails. */
static int collect(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		   uint8_t *state, json_t *out)
{
	struct zr_chat_text text = { 0 };
	struct zr_error err = { 0 };
	int rc;

	do {
		rc = zr_chat_turns_next(t, m, n, state, &text, &err);
		json_t *spans = json_array();
		for (size_t i = 0; !rc && i < text.n; i++)
			json_array_append_new(spans,
					      json_pack("[II]", (json_int_t)text.span[i].from,
							(json_int_t)text.span[i].to));
		json_array_append_new(out, json_pack("[s#, o]", text.text.p ? text.text.p : "",
						     (int)text.text.n, spans));
	} while (!rc && memchr(state, ZR_TURN_WANTED, n));

	zr_chat_text_free(&text);
	return rc;
}

/* What a line asks for, as JSON: a list, or null where it fails. */
static json_t *texts_of(const struct zr_jinja *template, const json_t *line, int64_t date)
{
	static const char *const modes[] = { "auto", "whole", "each" };
	const json_t *list = json_object_get(line, "messages");
	const size_t n = json_array_size(list);
	json_t *given = json_object_get(line, "variables");
	struct zr_chat_jinja j = { .usual = (struct zr_jinja *)template,
				   .date = date,
				   .variables = given ? json_incref(given) : json_object(),
				   .like_trl = json_is_true(json_object_get(line, "trl")) };
	struct zr_chat_turns t = { .of = &j };
	struct zr_chat_message m[64] = { 0 };
	struct zr_error err = { 0 };
	uint8_t state[64];
	json_t *out = json_array();

	assert_true(n && n <= 64);
	while (strcmp(modes[j.turns], text_of(line, "turns")))
		j.turns++;
	for (size_t i = 0; i < n; i++) {
		m[i].json = json_array_get(list, i);
		m[i].role = role_of(m[i].json);
		const json_t *weight = json_object_get(m[i].json, "weight");
		const int learned = m[i].role == ZR_CHAT_ASSISTANT &&
				    !(json_is_integer(weight) && !json_integer_value(weight));
		state[i] = learned ? ZR_TURN_WANTED : ZR_TURN_LEFT;
	}

	const json_t *tools = json_object_get(j.variables, "tools");
	const int rc = zr_chat_turns_begin(&t, json_is_array(tools) ? tools : NULL, NULL, &err);
	if (rc || collect(&t, m, n, state, out)) {
		json_decref(out);
		out = json_null();
	}

	zr_chat_turns_free(&t);
	json_decref(j.variables);
	return out;
}

static struct zr_jinja *open_template(const char *text)
{
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	if (zr_jinja_open("t", text, strlen(text), &t, &err))
		fail_msg("%s: %s", text, err.text);
	return t;
}

static void as_in_python(void **state)
{
	char path[4096], *line = NULL;
	struct zr_jinja *t = NULL;
	size_t room = 0;
	int differ = 0, n = 0;

	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/chat/turns.jsonl", getenv("ZR_SRCDIR"));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	for (; getline(&line, &room, f) > 0; n++) {
		json_t *wanted = json_loads(line, JSON_ALLOW_NUL, NULL), *got;
		assert_non_null(wanted);
		if (*text_of(wanted, "text")) {
			zr_jinja_close(t);
			t = open_template(text_of(wanted, "text"));
		}

		got = texts_of(t, wanted, 0);
		if (!json_equal(got, json_object_get(wanted, "texts"))) {
			char *ours = json_dumps(got, JSON_ENCODE_ANY);
			print_message("%s  ours: %s\n", line, ours);
			free(ours);
			differ++;
		}

		json_decref(got);
		json_decref(wanted);
	}

	fclose(f);
	free(line);
	zr_jinja_close(t);
	assert_true(n > 150);
	assert_int_equal(differ, 0);
}

/* ---- templates of models ---- */

static int read_lines(const char *path)
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

	while (getline(&line, &room, stdin) > 0) {
		json_t *asked = json_loads(line, JSON_ALLOW_NUL, NULL);
		json_t *got = texts_of(t, asked, days ? atoll(days) : INT64_MIN);
		char *said = json_dumps(got, JSON_ENCODE_ANY);
		puts(said);
		free(said);
		json_decref(got);
		json_decref(asked);
	}

	free(line);
	fclose(f);
	zr_jinja_close(t);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(as_in_python) };

	if (getenv("ZR_TURNS_TEMPLATE"))
		return read_lines(getenv("ZR_TURNS_TEMPLATE"));

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
