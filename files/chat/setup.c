/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c - see parts.h: the template that options and tokenizer_config.json ask for. A text of
 * Jinja that renders like forms is written by those, which are faster; any other by jinja/.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "files/chat/parts.h"

#define MOST (64 << 20) /* bytes of a configuration */

struct setup {
	const struct zr_chat_options *o;
	const struct zr_tokenizer *t;
	struct zr_chat_setup *s;
	struct zr_error *err;
	json_t *config; /* tokenizer_config.json; NULL: none */
	char *path;     /* its path */
};

/* A template as a text of Jinja. */
struct jinja_text {
	const char *text; /* NULL: there is none */
	size_t n;
	const char *with_tools; /* of conversations with tools; NULL: the same */
	char *path;             /* owned */
};

static void note(const struct setup *u, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct setup *u, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	zr_one_line(text); /* tokens of a file may have line ends */
	if (u->o->note)
		u->o->note(u->o->arg, text);
}

/* ---- files beside the tokenizer ---- */

static int beside(const struct setup *u, const char *name, char **path)
{
	const char *tokenizer = u->o->tokenizer, *slash = strrchr(tokenizer, '/');
	int dir = slash ? (int)(slash - tokenizer) + 1 : 0;

	*path = zr_text("%.*s%s", dir, tokenizer, name);
	if (*path)
		return 0;

	return zr_no_memory(u->err);
}

/* *text: NULL where there is none. */
static int read_beside(const struct setup *u, const char *name, char **path, char **text, size_t *n)
{
	int rc = beside(u, name, path);
	if (rc)
		return rc;

	int no = zr_file_text(AT_FDCWD, *path, 1, MOST, text, n);
	if (no && no != ENOENT)
		return zr_file_failed(u->err, *path, "cannot read", no);

	return 0;
}

static int read_config(struct setup *u)
{
	char *text = NULL;
	size_t n = 0;
	int rc = read_beside(u, "tokenizer_config.json", &u->path, &text, &n);
	if (!rc && text)
		rc = zr_json_object(text, n, u->path, &u->config, u->err);
	free(text);
	return rc;
}

/* Of a list of named templates the one of this name, NULL: none. */
static const char *named(const json_t *list, const char *wanted)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));
		if (name && !strcmp(name, wanted))
			return json_string_value(json_object_get(one, "template"));
	}

	return NULL;
}

/* The text of a chat template of Jinja, NULL: none; owned by the configuration or owned[0]. */
static int find_jinja(struct setup *u, struct jinja_text *to)
{
	const json_t *v = json_object_get(u->config, "chat_template");
	int rc = read_beside(u, "chat_template.jinja", &to->path, &u->s->owned[0], &to->n);

	to->text = u->s->owned[0];
	if (rc || to->text)
		return rc;

	free(to->path);
	to->path = zr_text("%s: chat_template", u->path);
	if (!to->path)
		return zr_no_memory(u->err);

	to->text = json_string_value(v);
	if (!to->text)
		to->text = named(v, "default");
	to->with_tools = named(v, "tool_use");
	if (to->text)
		to->n = strlen(to->text);
	return 0;
}

/* A file that the user names. */
static int read_jinja(struct setup *u, const char *path, struct jinja_text *to)
{
	int no = zr_file_text(AT_FDCWD, path, 1, ZR_JINJA_TEXT, &u->s->owned[0], &to->n);
	if (no)
		return zr_file_failed(u->err, path, "cannot read", no);

	to->text = u->s->owned[0];
	to->path = strdup(path);
	if (to->path)
		return 0;

	return zr_no_memory(u->err);
}

/* A token of the configuration: a text, or an object with one. */
static const char *token_of(const struct setup *u, const char *key)
{
	json_t *v = json_object_get(u->config, key);
	return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

/* ---- the template ---- */

static void list_names(char *text, size_t room)
{
	const char *name;
	size_t n = 0;
	*text = 0;
	for (size_t i = 0; (name = zr_chat_template_name(i)) && n < room; i++)
		n += (size_t)snprintf(text + n, room - n, "%s%s", i ? ", " : "", name);
}

static int is_jinja_file(const char *name)
{
	const size_t n = name ? strlen(name) : 0, end = strlen(".jinja");
	return n > end && !strcmp(name + n - end, ".jinja");
}

static int open_jinja(struct setup *u, const struct jinja_text *jinja)
{
	struct zr_chat_jinja *to = &u->s->jinja;
	int rc = zr_jinja_open(jinja->path, jinja->text, jinja->n, &to->usual, u->err);
	if (rc || !jinja->with_tools)
		return rc;

	return zr_jinja_open(jinja->path, jinja->with_tools, strlen(jinja->with_tools),
			     &to->with_tools, u->err);
}

/* Forms for what is known to render like them, and the Jinja text for all else. */
static int take_jinja(struct setup *u, const struct jinja_text *jinja)
{
	struct zr_error why = { 0 }, *err = u->err;
	uint64_t hash;
	const struct zr_chat_template *t = zr_chat_recognize(jinja->text, jinja->n, &hash);

	u->s->has_forms = t != NULL;
	if (!t) {
		u->s->template = (struct zr_chat_template){ .name = "of Jinja" };
		return open_jinja(u, jinja);
	}

	u->s->template = *t;
	u->err = &why; /* without it tools are refused, as all that forms do not write */
	int rc = open_jinja(u, jinja);
	u->err = err;
	if (rc == ZR_ENOMEM)
		return zr_no_memory(err);

	return 0;
}

static int recognize(struct setup *u)
{
	struct jinja_text jinja = { 0 };
	char names[512];
	int rc;

	if (is_jinja_file(u->o->template))
		rc = read_jinja(u, u->o->template, &jinja);
	else
		rc = find_jinja(u, &jinja);
	list_names(names, sizeof names);
	if (!rc && !jinja.text)
		rc = zr_err(u->err, ZR_EINVAL,
			    "%s: has no chat_template: name one of %s, a file NAME.jinja, or give "
			    "--user-form and --assistant-form",
			    u->path, names);
	if (!rc)
		rc = take_jinja(u, &jinja);
	free(jinja.path);
	return rc;
}

static int choose(struct setup *u)
{
	const struct zr_chat_options *o = u->o;
	const struct zr_chat_template *t;
	const int own = o->user_form || o->assistant_form;
	char names[512];

	u->s->has_forms = 1;
	if (!o->template && own) {
		u->s->template = (struct zr_chat_template){ .name = "of forms" };
		return 0;
	}

	if (!o->template || !strcmp(o->template, "auto") || is_jinja_file(o->template))
		return recognize(u);

	t = zr_chat_template_find(o->template);
	list_names(names, sizeof names);
	if (!t)
		return zr_err(u->err, ZR_EINVAL,
			      "template %s: expected auto, or one of %s, a file NAME.jinja, or "
			      "none with --user-form and --assistant-form",
			      o->template, names);

	u->s->template = *t;
	return 0;
}

/* Each {trim} has a {/trim} behind it, before the next one. */
static int is_paired(const char *form)
{
	int open = 0;

	for (const char *p = form; (p = strstr(p, "trim}")); p += strlen("trim}")) {
		int opens = p > form && p[-1] == '{';
		int closes = p > form + 1 && p[-1] == '/' && p[-2] == '{';
		if (opens ? open : closes && !open)
			return 0;

		open = opens || (open && !closes);
	}

	return !open;
}

/* The character that is meant by one behind a backslash; 0: the backslash means itself. */
static char escaped(char c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case '\\':
		return '\\';
	default:
		return 0;
	}
}

/* A copy with \n, \t and \\ as what they mean. */
static int copy_form(struct setup *u, int i, const char *form, const char **to)
{
	if (!form)
		return 0;
	if (!is_paired(form))
		return zr_err(u->err, ZR_EINVAL,
			      "form %s: expected a {/trim} behind each {trim}, and no other", form);

	char *q = u->s->owned[i] = strdup(form);
	if (!q)
		return zr_no_memory(u->err);

	*to = q;
	for (const char *p = q; *p; p++, q++) {
		*q = *p;
		if (*p == '\\' && escaped(p[1]))
			*q = escaped(*++p);
	}

	*q = 0;
	return 0;
}

static int take_forms(struct setup *u)
{
	const struct zr_chat_options *o = u->o;
	struct zr_chat_template *t = &u->s->template;
	const struct {
		const char *given, **to;
	} form[] = {
		{ o->begin, &t->begin },
		{ o->system_form, &t->system },
		{ o->user_form, &t->user },
		{ o->first_form, &t->first },
		{ o->assistant_form, &t->assistant },
		{ o->between, &t->between },
		{ o->end, &t->end },
	};

	int given = 0;
	for (size_t i = 0; i < sizeof form / sizeof *form; i++)
		given |= form[i].given != NULL;
	if (!u->s->has_forms && given)
		return zr_err(
			u->err, ZR_EINVAL,
			"%s: its chat_template is written by Jinja, and has no forms that "
			"others could take the place of: name a template, or give --user-form "
			"and --assistant-form alone",
			u->path);
	if (!u->s->has_forms)
		return 0;

	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		int rc = copy_form(u, (int)i + 1, form[i].given, form[i].to);
		if (rc)
			return rc;
	}

	if (o->system_form) {
		t->later = t->system;
		t->no_system = NULL;
		t->rules &= ~(unsigned)ZR_CHAT_NO_SYSTEM;
	}

	if (!t->system && !t->first)
		t->rules |= ZR_CHAT_NO_SYSTEM;
	if (t->user && strstr(t->user, "{content") && t->assistant &&
	    strstr(t->assistant, "{content"))
		return 0;

	return zr_err(u->err, ZR_EINVAL,
		      "--user-form and --assistant-form: both are needed, with {content} in "
		      "each, as in '<|user|>\\n{content}<|end|>\\n'");
}

/* ---- tokens ---- */

static int uses(const struct zr_chat_template *t, const char *what)
{
	const char *const forms[] = { t->begin,   t->system,    t->user, t->first,
				      t->between, t->assistant, t->end };

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (forms[i] && strstr(forms[i], what))
			return 1;

	return 0;
}

static int choose_token(struct setup *u, const char *key, const char *given, const char **to)
{
	static const char *const usual[] = { "<|endoftext|>", "</s>" };
	const char *found = given;
	if (!given)
		found = token_of(u, key);
	const char *what = *key == 'b' ? "{bos}" : "{eos}";
	int end = *key == 'e';
	if (found)
		*to = found;
	int wanted = !found && end && (!*to || zr_tokenizer_added(u->t, *to) < 0);
	for (size_t i = 0; i < 2 && wanted; i++)
		if (zr_tokenizer_added(u->t, usual[i]) >= 0)
			*to = usual[i];
	if (!uses(&u->s->template, what))
		return 0;
	if (!*to)
		return zr_err(u->err, ZR_EINVAL,
			      "template %s has %s, and %s names no %s: give --%.3s",
			      u->s->template.name, what, u->path, key, key);
	if (**to && zr_tokenizer_added(u->t, *to) < 0)
		note(u, "%s is no added token of %s: it is written as several tokens", *to,
		     u->o->tokenizer);

	return 0;
}

/* ---- what a template of Jinja reads ---- */

/* Texts of the configuration whose names end so are tokens, as bos_token. */
static int is_token_key(const char *key)
{
	const size_t n = strlen(key), end = strlen("_token");
	return n > end && !strcmp(key + n - end, "_token");
}

static int put_text(json_t *to, const char *key, const char *text)
{
	return text && json_object_set_new(to, key, json_string(text));
}

/* A token that the forms write, where nothing else names it: Jinja writes the same one. */
static int put_known(const struct setup *u, json_t *to, const char *key, const char *word,
		     const char *token)
{
	if (!u->s->has_forms || !uses(&u->s->template, word) || json_object_get(to, key))
		return 0;

	return put_text(to, key, token);
}

/* What the user gave beside them. */
static int take_kwargs(const struct setup *u, json_t *to)
{
	const char *text = u->o->template_kwargs;
	json_t *given = NULL;

	if (!text)
		return 0;

	int rc = zr_json_object(text, strlen(text), "template_kwargs", &given, u->err);
	if (!rc && json_object_update(to, given))
		rc = zr_no_memory(u->err);
	json_decref(given);
	return rc;
}

static int take_variables(const struct setup *u)
{
	json_t *to = u->s->jinja.variables = json_object(), *v;
	const char *key;
	int failed = !to;

	json_object_foreach(u->config, key, v)
	{
		if (is_token_key(key))
			failed |= put_text(to, key, token_of(u, key));
	}

	failed |= put_text(to, "bos_token", u->o->bos) || put_text(to, "eos_token", u->o->eos);
	failed |= put_known(u, to, "bos_token", "{bos}", u->s->template.bos);
	failed |= put_known(u, to, "eos_token", "{eos}", u->s->template.eos);
	if (failed)
		return zr_no_memory(u->err);

	return take_kwargs(u, to);
}

/* Tokens that a template writes are named, or the class of the tokenizer would name them. */
static int check_tokens(const struct setup *u)
{
	static const char *const keys[] = { "bos_token", "eos_token" };
	const struct zr_chat_jinja *j = &u->s->jinja;
	const char *class = json_string_value(json_object_get(u->config, "tokenizer_class"));
	const int has_none = class && (!strcmp(class, "PreTrainedTokenizerFast") ||
				       !strcmp(class, "TokenizersBackend"));

	for (size_t i = 0; i < 2 && !has_none && !u->s->has_forms; i++)
		if (zr_jinja_mentions(j->usual, keys[i]) &&
		    !json_object_get(j->variables, keys[i]) && !json_object_get(u->config, keys[i]))
			return zr_err(
				u->err, ZR_EINVAL,
				"the chat template writes %s, and %s names none: give --%.3s, "
				"empty for none",
				keys[i], u->path, keys[i]);

	return 0;
}

/* Days since 1970-01-01 of YYYY-MM-DD. */
static int read_date(const struct setup *u, int64_t *days)
{
	const char *text = u->o->date;
	struct tm day = { 0 };

	*days = INT64_MIN;
	if (!text)
		return 0;

	const char *end = strptime(text, "%Y-%m-%d", &day);
	if (!end || *end || strlen(text) != 10)
		return zr_err(u->err, ZR_EINVAL, "date %s: expected YYYY-MM-DD", text);

	const struct tm given = day;
	*days = timegm(&day) / (24 * 60 * 60);
	if (day.tm_mday != given.tm_mday || day.tm_mon != given.tm_mon)
		return zr_err(u->err, ZR_EINVAL, "date %s: there is no such day", text);

	return 0;
}

static int prepare_jinja(const struct setup *u)
{
	struct zr_chat_jinja *j = &u->s->jinja;
	int rc = read_date(u, &j->date);
	if (!rc && !j->usual && u->o->template_kwargs)
		rc = zr_err(u->err, ZR_EINVAL, "template_kwargs: template %s takes none",
			    u->s->template.name);
	if (rc || !j->usual)
		return rc;

	rc = take_variables(u);
	if (rc)
		return rc;

	return check_tokens(u);
}

/* What looks like a special token in a template is one of the tokenizer, or people are told. */
static void check_markers(const struct setup *u)
{
	const struct zr_chat_template *t = &u->s->template;
	const char *const forms[] = { t->user, t->assistant };
	char token[64];

	for (size_t i = 0; i < 2; i++) {
		for (const char *p = forms[i]; p && (p = strchr(p, '<')); p++) {
			size_t n = strcspn(p, "> \n");
			if (p[n] != '>' || n + 2 > sizeof token)
				continue;

			snprintf(token, sizeof token, "%.*s", (int)n + 1, p);
			if (zr_tokenizer_added(u->t, token) < 0) {
				note(u,
				     "%s of template %s is no added token of %s: it is written "
				     "as several tokens",
				     token, t->name, u->o->tokenizer);
				return;
			}
		}
	}
}

/* Which of the words an option names; the first one without it. */
static int choice(const struct setup *u, const char *option, const char *text,
		  const char *const *words, const char *expected, int *to)
{
	*to = 0;
	if (!text)
		return 0;

	for (int i = 0; words[i]; i++)
		if (!strcmp(text, words[i])) {
			*to = i;
			return 0;
		}

	return zr_err(u->err, ZR_EINVAL, "%s %s: expected %s", option, text, expected);
}

static int choose_rest(struct setup *u)
{
	static const char *const train_on[] = { "assistant", "completion", "all", "last",
						"calls",     "thoughts",   NULL };
	static const char *const mask[] = { "turn", "trl", NULL };
	static const char *const on_bad[] = { "stop", "skip", NULL };
	static const char *const on_long[] = { "shorten", "drop", NULL };
	static const char *const turns[] = { "auto", "whole", "each", NULL };
	const struct zr_chat_options *o = u->o;
	unsigned *rules = &u->s->template.rules;
	int like_trl;

	int rc = choice(u, "train-on", o->train_on, train_on,
			"assistant, completion, all, last, calls or thoughts", &u->s->train_on);
	if (!rc)
		rc = choice(u, "mask", o->mask, mask, "turn or trl", &like_trl);
	if (rc)
		return rc;

	if (u->s->train_on >= ZR_TRAIN_CALLS && !u->s->jinja.usual)
		return zr_err(u->err, ZR_EINVAL,
			      "train-on %s: template %s writes no calls and no thoughts",
			      o->train_on, u->s->template.name);

	u->s->jinja.like_trl = like_trl;
	rc = choice(u, "turns", o->turns, turns, "auto, whole or each", &u->s->jinja.turns);
	if (rc)
		return rc;
	if (u->s->jinja.turns == ZR_TURNS_EACH && u->s->has_forms)
		return zr_err(
			u->err, ZR_EINVAL,
			"turns each: template %s writes earlier answers as it writes the last "
			"one: one text learns all of them",
			u->s->template.name);

	if (like_trl)
		*rules |= ZR_CHAT_LIKE_TRL;
	if (u->s->train_on == ZR_TRAIN_COMPLETION) /* whose prompt has that line end */
		*rules &= ~(unsigned)ZR_CHAT_TRL_LINE;
	rc = choice(u, "on-bad", o->on_bad, on_bad, "stop or skip", &u->s->skip);
	if (!rc)
		rc = choice(u, "on-long", o->on_long, on_long, "shorten or drop",
			    &u->s->drops_long);
	if (rc)
		return rc;

	u->s->headed = !strncmp(u->s->template.name, "alpaca", 6);
	if (u->s->template.rules & ZR_CHAT_SYSTEM_LAST)
		note(u,
		     "template %s writes a system message before a last user message only, as "
		     "the models' own: where an answer is last, it is left out",
		     u->s->template.name);
	if (o->fields)
		return zr_chat_fields_set(&u->s->fields, o->fields, u->err);

	return 0;
}

static int copy_token(struct setup *u, int i, const char **token)
{
	if (!*token)
		return 0;

	*token = u->s->owned[i] = strdup(*token);
	if (*token)
		return 0;

	return zr_no_memory(u->err);
}

int zr_chat_prepare(const struct zr_chat_options *o, const struct zr_tokenizer *t,
		    struct zr_chat_setup *s, struct zr_error *err)
{
	struct setup u = { .o = o, .t = t, .s = s, .err = err };
	int rc = read_config(&u);
	if (!rc)
		rc = choose(&u);
	if (!rc)
		rc = take_forms(&u);
	if (!rc)
		rc = choose_token(&u, "bos_token", o->bos, &s->template.bos);
	if (!rc)
		rc = choose_token(&u, "eos_token", o->eos, &s->template.eos);
	free(s->owned[0]); /* the Jinja text */
	s->owned[0] = NULL;
	if (!rc)
		rc = prepare_jinja(&u);
	if (!rc)
		rc = copy_token(&u, 0, &s->template.bos);
	if (!rc)
		rc = copy_token(&u, 8, &s->template.eos);
	if (!rc)
		rc = choose_rest(&u);
	if (!rc)
		check_markers(&u);
	json_decref(u.config);
	free(u.path);
	return rc;
}

void zr_chat_setup_free(struct zr_chat_setup *s)
{
	for (size_t i = 0; i < sizeof s->owned / sizeof *s->owned; i++)
		free(s->owned[i]);
	zr_jinja_close(s->jinja.usual);
	zr_jinja_close(s->jinja.with_tools);
	json_decref(s->jinja.variables);
}
