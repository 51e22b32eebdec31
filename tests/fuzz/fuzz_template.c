/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_template.c - templates: forms and tokens of one's own, a line each, over a template that the
 * first line names, or tokenizer_config.json, if it begins with {. What is made of messages has its
 * answers where it says, and what a model is asked is how the same conversation begins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/parts.h"
#include "fuzz.h"

static struct zr_tokenizer *tokenizer; /* NULL: this build has none */

static void cleanup(void)
{
	zr_tokenizer_close(tokenizer);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct zr_error err = { 0 };
	(void)argc, (void)argv;
	fuzz_quiet();
	if (zr_tokenizer_open(fuzz_golden_path("chat/bytes.json"), &tokenizer, &err))
		fuzz_check(strstr(err.text, "this build")); /* lacks a library */
	atexit(cleanup);
	return 0;
}

static void note(void *arg, const char *text)
{
	struct zr_error line = { .code = ZR_EINVAL };
	(void)arg;
	snprintf(line.text, sizeof line.text, "%s", text);
	fuzz_refused(&line);
}

/* ---- texts ---- */

static const struct zr_chat_message messages[] = {
	{ .role = ZR_CHAT_SYSTEM, .text = " be\n", .n = 4 },
	{ .role = ZR_CHAT_USER, .text = "\u3000who {content}", .n = 16 },
	{ .role = ZR_CHAT_ASSISTANT, .text = "\nI ", .n = 3 },
	{ .role = ZR_CHAT_USER, .text = "", .n = 0 },
	{ .role = ZR_CHAT_ASSISTANT, .text = "x\0y", .n = 3 },
	{ .role = ZR_CHAT_SYSTEM, .text = "", .n = 0 },
	{ .role = ZR_CHAT_ASSISTANT, .text = " ", .n = 1 },
};
#define N_MESSAGES ((int)(sizeof messages / sizeof *messages))

static void check_spans(const struct zr_chat_text *text, int n)
{
	size_t at = 0;
	for (size_t i = 0; i < text->n; i++) {
		const struct zr_chat_span *s = &text->span[i];
		fuzz_check(at <= s->from && s->from < s->to && s->to <= text->text.n);
		fuzz_check(s->message < (size_t)n && (!i || s[-1].message <= s->message));
		at = s->to;
	}
}

/* A text of n messages begins as what asks for the last of them. */
static void check_prompt(const struct zr_chat_template *t, const struct zr_chat_message *m,
			 size_t n, const struct zr_chat_text *all)
{
	struct zr_chat_text asked = { 0 };
	struct zr_error err = { 0 };
	if (n < 2 || m[n - 1].role != ZR_CHAT_ASSISTANT || t->rules & ZR_CHAT_SYSTEM_LAST ||
	    strstr(t->assistant, "{trim}") || strstr(t->assistant, "{/trim}"))
		return;
	fuzz_check(!zr_chat_render(t, m, n - 1, 1, &asked, &err));
	fuzz_check(asked.text.n <= all->text.n);
	fuzz_check(!asked.text.n || !memcmp(asked.text.p, all->text.p, asked.text.n));
	zr_chat_text_free(&asked);
}

/* By a template of Jinja: whatever it makes of them. */
static void render_jinja(const struct zr_chat_jinja *j)
{
	struct zr_chat_turns turns = { .of = j, .work.most_steps = 1 << 16 };
	struct zr_chat_message m[N_MESSAGES];
	struct zr_chat_text text = { 0 };
	uint8_t state[N_MESSAGES] = { 0 };
	struct zr_error err = { 0 };

	for (int i = 0; i < N_MESSAGES; i++) {
		m[i] = messages[i];
		m[i].json = json_pack("{s:s, s:s#}", "role", m[i].role == 1 ? "user" : "assistant",
				      "content", m[i].text, (int)m[i].n);
		state[i] = m[i].role == ZR_CHAT_ASSISTANT ? ZR_TURN_WANTED : ZR_TURN_LEFT;
	}
	fuzz_check(!zr_chat_turns_begin(&turns, NULL, NULL, &err));
	while (!err.code && memchr(state, ZR_TURN_WANTED, sizeof state)) {
		if (zr_chat_turns_next(&turns, m, (size_t)N_MESSAGES, state, &text, &err))
			fuzz_refused(&err);
		else
			check_spans(&text, N_MESSAGES);
	}
	for (int i = 0; i < N_MESSAGES; i++)
		json_decref(m[i].json);
	zr_chat_text_free(&text);
	zr_chat_turns_free(&turns);
}

static void render(const struct zr_chat_template *t)
{
	struct zr_chat_text text = { 0 };
	for (int from = 0; from < N_MESSAGES; from++)
		for (int n = 1; from + n <= N_MESSAGES; n++) {
			struct zr_error err = { 0 };
			if (zr_chat_render(t, messages + from, (size_t)n, 0, &text, &err)) {
				fuzz_refused(&err);
				continue;
			}
			check_spans(&text, n);
			check_prompt(t, messages + from, (size_t)n, &text);
		}
	zr_chat_text_free(&text);
}

/* ---- templates ---- */

/* The next line of a text, which ends it with 0; NULL: it is empty, or there is none. */
static char *line(char **rest)
{
	char *at = *rest;
	*rest = at + strcspn(at, "\n");
	if (**rest)
		*(*rest)++ = 0;
	return *at ? at : NULL;
}

static void use(const struct zr_chat_options *o)
{
	struct zr_chat_setup s = { 0 };
	struct zr_error err = { 0 };
	int rc = zr_chat_prepare(o, tokenizer, &s, &err);
	fuzz_check(!rc == !err.code);
	if (rc) {
		fuzz_refused(&err);
	} else {
		if (s.has_forms)
			render(&s.template);
		else
			render_jinja(&s.jinja);
		fuzz_usable++;
	}
	zr_chat_setup_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 8192 || !tokenizer)
		return 0;
	int config = size && *data == '{';
	struct zr_chat_options o = { .note = note, .template = "auto" };
	char *text = malloc(size + 1), *rest = text;
	fuzz_check(text);
	memcpy(text, data, size);
	text[size] = 0;
	fuzz_file("tokenizer_config.json", config ? text : "{}", config ? size : 2);
	o.tokenizer = fuzz_file("tokenizer.json", "", 0);
	if (!config) {
		const char **const to[] = { &o.template,    &o.user_form,  &o.assistant_form,
					    &o.system_form, &o.first_form, &o.begin,
					    &o.between,     &o.end,        &o.bos,
					    &o.eos };
		for (size_t i = 0; i < sizeof to / sizeof *to; i++)
			*to[i] = line(&rest);
	}
	use(&o);
	o.template = "chatml"; /* and a configuration for its tokens alone */
	if (config)
		use(&o);
	free(text);
	return 0;
}
