/* SPDX-License-Identifier: Apache-2.0
 *
 * special.c - see parts.h: tokens that mark places, whether they are added to a text, and chat
 * templates: as llama.cpp's converter gathers them from tokenizer.json, tokenizer_config.json and
 * config.json.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "train/gguf/parts.h"

enum { BEGIN, END, UNKNOWN, SEPARATOR, PADDING, CLASS, MASK, TURN_END, MESSAGE_END, MARKS };

/* Their names in the files, and the keys of their ids; NULL: there is no key. */
static const struct {
	const char *name, *id, *added;
} marks[MARKS] = {
	[BEGIN] = { "bos", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token" },
	[END] = { "eos", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token" },
	[UNKNOWN] = { "unk", "tokenizer.ggml.unknown_token_id", NULL },
	[SEPARATOR] = { "sep", "tokenizer.ggml.seperator_token_id",
			"tokenizer.ggml.add_sep_token" },
	[PADDING] = { "pad", "tokenizer.ggml.padding_token_id", NULL },
	[CLASS] = { "cls", NULL, NULL },
	[MASK] = { "mask", "tokenizer.ggml.mask_token_id", NULL },
	[TURN_END] = { "eot", "tokenizer.ggml.eot_token_id", NULL },
	[MESSAGE_END] = { "eom", "tokenizer.ggml.eom_token_id", NULL },
};

struct special {
	const struct zr_gguf_tokens *t;
	const char *text[MARKS]; /* NULL: none */
	int wanted[MARKS];       /* whether its id is looked for */
	int added[MARKS];        /* negative: nobody says it */
	int64_t id[MARKS];       /* negative: none */
};

/* A token is a text or an object that has it. */
static const char *content(const json_t *token)
{
	return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static const json_t *setting(const struct special *s, const char *form, int mark)
{
	char key[32];

	snprintf(key, sizeof key, form, marks[mark].name);
	return json_object_get(s->t->settings, key);
}

static int same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* ---- what is put around a text: tokenizer.json's post_processor ---- */

static const char *mark_at(const json_t *list, size_t i)
{
	const json_t *one = json_array_get(list, i);
	return json_string_value(json_object_get(json_object_get(one, "SpecialToken"), "id"));
}

static const char *sequence_at(const json_t *list, size_t i)
{
	const json_t *one = json_array_get(list, i);
	return json_string_value(json_object_get(json_object_get(one, "Sequence"), "id"));
}

static void take_first(struct special *s, const char *first)
{
	const char **begin = &s->text[BEGIN], **class = &s->text[CLASS];

	if (!same(first, *begin) && !same(first, *class)) {
		if (!*begin)
			*begin = first;
		if (!*class)
			*class = first;
	}

	s->added[BEGIN] = same(first, *begin) || same(first, *class);
}

/* Where another token than the one that ends a text is put behind it, that one ends a turn. */
static void take_last(struct special *s, const char *last)
{
	if (s->t->settings && !same(last, s->text[END])) {
		const int mark = s->wanted[TURN_END] ? MESSAGE_END : TURN_END;
		s->wanted[mark] = 1;
		s->text[mark] = s->text[END];
	}

	s->text[END] = last;
	s->added[END] = 1;
}

/* Whether a token stands between two texts: A, one or two tokens, B. */
static void take_pair(struct special *s, const json_t *pair, const char *first, const char *last)
{
	size_t from = 0, end = json_array_size(pair);
	if (end && first && same(mark_at(pair, 0), first))
		from++;
	if (end && last && same(mark_at(pair, end - 1), last))
		end--;
	if (end < from + 3 || !same(sequence_at(pair, from), "A") ||
	    !same(sequence_at(pair, end - 1), "B"))
		return;

	const char *one = mark_at(pair, from + 1), *two = mark_at(pair, from + 2);
	int is = !last && (same(one, s->text[SEPARATOR]) || same(one, s->text[END]));
	if (end == from + 4)
		is |= same(two, s->text[SEPARATOR]) || same(two, s->text[END]);
	s->added[SEPARATOR] = is;
	if (is && !s->text[SEPARATOR])
		s->text[SEPARATOR] = s->text[END];
}

static void take_template(struct special *s, const json_t *processor)
{
	const json_t *single = json_object_get(processor, "single");
	const size_t n = json_array_size(single);
	const char *first = n > 1 ? mark_at(single, 0) : NULL;
	const char *last = n > 1 ? mark_at(single, n - 1) : NULL;

	if (first)
		take_first(s, first);
	if (last)
		take_last(s, last);
	take_pair(s, json_object_get(processor, "pair"), first, last);
}

static void take_processor(struct special *s, const json_t *processor)
{
	const char *type = json_string_value(json_object_get(processor, "type"));

	if (same(type, "TemplateProcessing"))
		take_template(s, processor);
	if (same(type, "RobertaProcessing"))
		s->added[BEGIN] = s->added[END] = s->added[SEPARATOR] = 1;
	if (!same(type, "ByteLevel"))
		return;

	if (s->added[BEGIN] < 0)
		s->added[BEGIN] = 0;
	if (s->added[END] < 0)
		s->added[END] = 0;
}

static void look_around(struct special *s)
{
	const json_t *processor = json_object_get(s->t->json, "post_processor"), *one;
	const json_t *several = json_object_get(processor, "processors");
	size_t i;

	if (!s->text[BEGIN])
		s->text[BEGIN] = s->text[CLASS];
	if (!s->text[END])
		s->text[END] = s->text[SEPARATOR];

	if (!several)
		take_processor(s, processor);
	json_array_foreach((json_t *)several, i, one)
	{
		take_processor(s, one);
	}
}

/* ---- ids ---- */

static int64_t added_id(const struct special *s, const char *text)
{
	const json_t *list = json_object_get(s->t->json, "added_tokens"), *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one)
	{
		if (same(content(one), text))
			return json_integer_value(json_object_get(one, "id"));
	}

	return -1;
}

static void set_id(struct special *s, int mark, int64_t id)
{
	if (s->id[mark] < 0 && id >= 0 && id < s->t->vocabulary)
		s->id[mark] = id;
}

static void look_up(struct special *s)
{
	char key[32];

	for (int i = 0; s->t->settings && i < MARKS; i++) {
		const json_t *added = setting(s, "add_%s_token", i);
		if (s->wanted[i] && s->added[i] < 0 && json_is_boolean(added))
			s->added[i] = json_is_true(added);
		if (s->wanted[i] && s->text[i])
			set_id(s, i, added_id(s, s->text[i]));
	}

	for (int i = 0; i < MARKS; i++) {
		snprintf(key, sizeof key, "%s_token_id", marks[i].name);
		const json_t *id = json_object_get(s->t->config, key);
		if (s->wanted[i] && json_is_integer(id))
			set_id(s, i, json_integer_value(id));
	}

	if (s->t->turn_end >= 0)
		set_id(s, TURN_END, s->t->turn_end);
}

static void put_ids(const struct special *s)
{
	for (int i = 0; i < MARKS; i++) {
		if (s->id[i] >= 0 && marks[i].id)
			zr_gguf_u32(s->t->keys, marks[i].id, (uint32_t)s->id[i]);
		if (s->added[i] >= 0 && marks[i].added)
			zr_gguf_bool(s->t->keys, marks[i].added, s->added[i]);
	}
}

/* ---- chat templates ---- */

/* Letters, digits and underscores of a name. */
static void plain_name(const char *name, char out[64])
{
	size_t n = 0;

	for (; *name && n < 63; name++) {
		const int letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
		if ((*name & 0xc0) == 0x80) /* within a character */
			continue;
		out[n++] = letter || (*name >= '0' && *name <= '9') ? *name : '_';
	}

	out[n] = 0;
}

/* Several templates with names: `default` is the one without a name in its key. */
static void put_templates(struct zr_gguf_keys *k, const json_t *list)
{
	const json_t *one;
	char name[64], key[96];
	size_t i, named = 0;

	json_array_foreach((json_t *)list, i, one)
	{
		const char *text = json_string_value(json_object_get(one, "template"));
		const char *theirs = json_string_value(json_object_get(one, "name"));
		if (!text || !theirs || !*theirs)
			continue;

		plain_name(theirs, name);
		snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
		if (!strcmp(name, "default"))
			zr_gguf_text(k, "tokenizer.chat_template", text);
		else
			zr_gguf_text(k, key, text);
		named += strcmp(name, "default") != 0;
	}

	if (named)
		zr_gguf_texts(k, "tokenizer.chat_templates", named);
	json_array_foreach((json_t *)list, i, one)
	{
		const char *theirs = json_string_value(json_object_get(one, "name"));
		if (!json_is_string(json_object_get(one, "template")) || !theirs || !*theirs)
			continue;

		plain_name(theirs, name);
		if (strcmp(name, "default"))
			zr_gguf_add(k, name, strlen(name));
	}
}

static int put_template_file(const struct zr_gguf_tokens *t, int *found, struct zr_error *err)
{
	char *text, path[PATH_MAX + 64];
	size_t bytes;
	int rc = zr_gguf_beside_text(t->dir, "chat_template.jinja", &text, &bytes, err);

	*found = text != NULL;
	if (rc || !text)
		return rc;

	if (*text)
		zr_gguf_text(t->keys, "tokenizer.chat_template", text);
	free(text);
	snprintf(path, sizeof path, "%s/additional_chat_templates", t->dir);
	if (!access(path, F_OK))
		zr_logf(ZR_LOG_WARN, "export", "%s: its templates are left out", path);
	return 0;
}

static int put_template(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	const json_t *here = json_object_get(t->settings, "chat_template");
	json_t *beside = NULL;
	int found = 0, rc = 0;

	if (!t->settings) /* then the converter looks for none */
		return 0;

	if (!here)
		rc = put_template_file(t, &found, err);
	if (!here && !rc && !found) {
		rc = zr_gguf_beside(t->dir, "chat_template.json", &beside, err);
		here = json_object_get(beside, "chat_template");
	}

	if (!rc && json_is_array(here))
		put_templates(t->keys, here);
	else if (!rc && json_string_length(here))
		zr_gguf_text(t->keys, "tokenizer.chat_template", json_string_value(here));
	json_decref(beside);
	return rc;
}

/* ---- all of it ---- */

int zr_gguf_special(const struct zr_gguf_tokens *t, int begins, struct zr_error *err)
{
	struct special s = { .t = t };

	for (int i = 0; i < MARKS; i++) {
		s.wanted[i] = i != TURN_END && i != MESSAGE_END;
		s.added[i] = -1;
		s.id[i] = -1;
		s.text[i] = content(setting(&s, "%s_token", i));
		if (s.text[i] && !*s.text[i])
			s.text[i] = NULL;
	}

	if (t->json)
		look_around(&s);
	look_up(&s);
	if (s.added[BEGIN] < 0)
		s.added[BEGIN] = begins;
	if (t->never_begins)
		s.added[BEGIN] = 0;
	put_ids(&s);
	return put_template(t, err);
}
