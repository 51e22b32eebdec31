/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.c - see forms.h.
 */
#include "cmd/sample/forms.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Those of struct zr_chat_options that a run has in its [data], by the same name. */
#define FORM(member)                                                                               \
	{                                                                                          \
#member, offsetof(struct zr_chat_options, member)                                  \
	}
static const struct {
	const char *key;
	size_t at;
} forms[] = {
	FORM(template),    FORM(system),     FORM(user_form), FORM(assistant_form),
	FORM(system_form), FORM(first_form), FORM(begin),     FORM(between),
	FORM(end),         FORM(bos),        FORM(eos),       FORM(template_kwargs),
	FORM(date),
};
#define N_FORMS ((int)(sizeof forms / sizeof *forms))

static const char **text_at(struct zr_chat_options *o, size_t at)
{
	return (const char **)(void *)((char *)o + at);
}

/* Beside a template and its forms these mean the same. */
static int is_apart(const char *key)
{
	return !strcmp(key, "system") || !strcmp(key, "bos") || !strcmp(key, "eos") ||
	       !strcmp(key, "date") || !strcmp(key, "template_kwargs");
}

static int has_template(const struct zr_chat_options *o)
{
	for (int i = 0; i < N_FORMS; i++)
		if (!is_apart(forms[i].key) && *text_at((struct zr_chat_options *)o, forms[i].at))
			return 1;
	return 0;
}

int zr_form_given(const struct zr_chat_options *o)
{
	return o->system || o->bos || o->date || o->tools || o->template_kwargs || has_template(o);
}

/* Of [data], or of the first set that it mixes: the one whose plugin reads conversations. */
static const struct zr_section *conversations(const struct zr_config *cfg)
{
	for (int i = 0; i < zr_config_count(cfg); i++) {
		const struct zr_section *s = zr_config_at(cfg, i);
		if (s->role && !strcmp(s->role, "data") && !strncmp(s->name, "data", 4) &&
		    zr_table_find(&s->table, "user_form"))
			return s;
	}

	return NULL;
}

/* NULL: the section does not say. */
static const char *text_of(const struct zr_section *s, const char *key)
{
	const struct zr_opt *o = zr_table_find(&s->table, key);
	const char *text = o ? zr_value_text(o, s->opts) : NULL;
	return text && *text ? text : NULL;
}

void zr_forms_of_run(struct zr_chat_options *o, const struct zr_config *cfg)
{
	const struct zr_section *s = conversations(cfg);
	if (!s)
		return;

	int all = !has_template(o);
	for (int i = 0; i < N_FORMS; i++) {
		const char **to = text_at(o, forms[i].at);
		if (!*to && (all || is_apart(forms[i].key)))
			*to = text_of(s, forms[i].key);
	}

	const char *tokenizer = text_of(s, "tokenizer");
	if (!o->tokenizer && tokenizer && !access(tokenizer, F_OK))
		o->tokenizer = tokenizer;
}
