/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c - see parts.h: the template that options and tokenizer_config.json ask for.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The text of the chat template, NULL: none; owned by the configuration or owned[0]. */
static int find_jinja(struct setup *u, const char **jinja, size_t *n)
{
	char *path = NULL;
	json_t *v = json_object_get(u->config, "chat_template"), *one;
	size_t i;
	int rc = read_beside(u, "chat_template.jinja", &path, &u->s->owned[0], n);

	free(path);
	*jinja = u->s->owned[0];
	if (rc || *jinja)
		return rc;

	json_array_foreach(v, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));
		if (name && !strcmp(name, "default"))
			*jinja = json_string_value(json_object_get(one, "template"));
	}

	if (json_is_string(v))
		*jinja = json_string_value(v);
	if (*jinja)
		*n = strlen(*jinja);
	else
		*n = 0;

	return 0;
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

static int recognize(struct setup *u, const struct zr_chat_template **t)
{
	const char *jinja;
	size_t n;
	uint64_t hash;
	char names[512];
	int rc = find_jinja(u, &jinja, &n);

	if (rc)
		return rc;

	list_names(names, sizeof names);
	if (!jinja)
		return zr_err(u->err, ZR_EINVAL,
			      "%s: has no chat_template: name one of %s, or give --user-form and "
			      "--assistant-form",
			      u->path, names);

	*t = zr_chat_recognize(jinja, n, &hash);
	if (!*t)
		return zr_err(u->err, ZR_ENOTSUP,
			      "%s: its chat_template (hash %016llx) is none that is known: name "
			      "one of %s, or give --user-form and --assistant-form",
			      u->path, (unsigned long long)hash, names);

	return 0;
}

static int choose(struct setup *u)
{
	const struct zr_chat_options *o = u->o;
	const struct zr_chat_template *t = NULL;
	int own = o->user_form || o->assistant_form, rc = 0;
	char names[512];

	if (!o->template && own) {
		u->s->template = (struct zr_chat_template){ .name = "of forms" };
		return 0;
	}

	if (!o->template || !strcmp(o->template, "auto"))
		rc = recognize(u, &t);
	else if (!(t = zr_chat_template_find(o->template)))
		list_names(names, sizeof names),
			rc = zr_err(u->err, ZR_EINVAL,
				    "template %s: expected auto, or one of %s, or none with "
				    "--user-form and --assistant-form",
				    o->template, names);
	if (!rc)
		u->s->template = *t;

	return rc;
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
	static const char *const train_on[] = { "assistant", "completion", "all", "last", NULL };
	static const char *const mask[] = { "turn", "trl", NULL };
	static const char *const on_bad[] = { "stop", "skip", NULL };
	static const char *const on_long[] = { "shorten", "drop", NULL };
	const struct zr_chat_options *o = u->o;
	unsigned *rules = &u->s->template.rules;
	int like_trl;

	int rc = choice(u, "train-on", o->train_on, train_on, "assistant, completion, all or last",
			&u->s->train_on);
	if (!rc)
		rc = choice(u, "mask", o->mask, mask, "turn or trl", &like_trl);
	if (rc)
		return rc;

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
}
