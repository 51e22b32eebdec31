/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - see record.h.
 */
#include "files/chat/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual[ZR_FIELDS] = { "messages", "conversations", "role",   "content",
					      "from",	  "value",	   "prompt", "completion",
					      "instruction", "input",	   "output", "text",
					      "system",	  "user",	   "assistant" };

/* Other names that roles have in the wild; all of them are read. */
static const struct {
	const char *name;
	int role;
} roles[] = {
	{ "system", ZR_CHAT_SYSTEM },	{ "user", ZR_CHAT_USER }, { "human", ZR_CHAT_USER },
	{ "assistant", ZR_CHAT_ASSISTANT }, { "gpt", ZR_CHAT_ASSISTANT },
	{ "model", ZR_CHAT_ASSISTANT },
};

#define FORMATS \
	"messages, conversations, prompt and completion, instruction and output, or text are " \
	"read; --field names others"

struct reading {
	struct zr_conversation *c;
	const struct zr_chat_fields *f;
	const char **reason;
	struct zr_error *err;
	const struct zr_json_value *record;
	int completion; /* what is added now answers the prompt */
};

static int wrong(struct reading *r, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int wrong(struct reading *r, const char *reason, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	*r->reason = reason;
	return zr_err(r->err, ZR_EINVAL, "%s", text);
}

static int no_memory(struct reading *r)
{
	return zr_err(r->err, ZR_ENOMEM, "out of memory");
}

/* ---- fields ---- */

static const char *name_of(const struct zr_chat_fields *f, int field)
{
	return *f->name[field] ? f->name[field] : usual[field];
}

static int set(struct zr_chat_fields *f, const char *p, size_t n, struct zr_error *err)
{
	const char *equals = memchr(p, '=', n);
	size_t key = equals ? (size_t)(equals - p) : 0, value = equals ? n - key - 1 : 0;
	for (int i = 0; i < ZR_FIELDS && key; i++) {
		if (strlen(usual[i]) != key || memcmp(usual[i], p, key) || !value ||
		    value >= sizeof f->name[i])
			continue;
		memcpy(f->name[i], equals + 1, value);
		f->name[i][value] = 0;
		return 0;
	}
	return zr_err(err, ZR_EINVAL,
		      "%.*s: expected NAME=FIELD, NAME one of messages, conversations, role, "
		      "content, from, value, prompt, completion, instruction, input, output, text, "
		      "system, user, assistant", (int)n, p);
}

int zr_chat_fields_set(struct zr_chat_fields *f, const char *text, struct zr_error *err)
{
	int rc = 0;
	while (!rc && *(text += strspn(text, " ,\t"))) {
		size_t n = strcspn(text, " ,\t");
		rc = set(f, text, n, err);
		text += n;
	}
	return rc;
}

static int is(const char *p, size_t n, const char *name)
{
	return strlen(name) == n && !memcmp(p, name, n);
}

/* A member that is not null, NULL: none. One that is there twice is refused. */
static const struct zr_json_value *get(struct reading *r, const struct zr_json_value *o, int field,
				       int *rc)
{
	const struct zr_json_value *found = NULL, *v = zr_json_child(&r->c->line, o);
	const char *name = name_of(r->f, field);
	for (; v; v = zr_json_next(&r->c->line, v)) {
		if (!is(v->key, v->key_n, name))
			continue;
		if (found && !*rc)
			*rc = wrong(r, "fields", "%s is there twice", name);
		found = v;
	}
	return found && found->type != ZR_JSON_NULL ? found : NULL;
}

static const struct zr_json_value *get_text(struct reading *r, int field, int *rc)
{
	const struct zr_json_value *v = get(r, r->record, field, rc);
	if (v && v->type != ZR_JSON_TEXT && !*rc)
		*rc = wrong(r, "fields", "%s: expected a text, found %s", name_of(r->f, field),
			    zr_json_type(v));
	return *rc ? NULL : v;
}

/* ---- messages ---- */

static int add(struct reading *r, int role, const char *p, size_t n, int ignored)
{
	struct zr_conversation *c = r->c;
	if (c->n == c->room) {
		size_t room = c->room ? 2 * c->room : 16;
		struct zr_chat_message *more = realloc(c->m, room * sizeof *more);
		if (!more)
			return no_memory(r);
		c->m = more;
		c->room = room;
	}
	c->m[c->n++] = (struct zr_chat_message){ role, r->completion, ignored, p, n };
	return 0;
}

static int role_of(struct reading *r, const struct zr_json_value *v)
{
	for (int i = ZR_FIELD_SYSTEM; i <= ZR_FIELD_ASSISTANT; i++)
		if (*r->f->name[i] && is(v->p, v->n, r->f->name[i]))
			return i - ZR_FIELD_SYSTEM;
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (is(v->p, v->n, roles[i].name))
			return roles[i].role;
	return wrong(r, "roles",
		     "message %zu: role \"%.*s\"; system, user (human) and assistant (gpt, model) "
		     "are known, and what --field user=NAME and the like name", r->c->n + 1,
		     (int)(v->n < 40 ? v->n : 40), v->p);
}

/* The texts of a list of parts, moved together where they lie. */
static int join(struct reading *r, const struct zr_json_value *list, const char **p, size_t *n)
{
	const struct zr_json_line *l = &r->c->line;
	char *to = NULL;
	*p = "";
	*n = 0;
	for (const struct zr_json_value *v = zr_json_child(l, list); v; v = zr_json_next(l, v)) {
		const struct zr_json_value *text = NULL, *k = zr_json_child(l, v);
		int known = 1;
		for (; k && v->type == ZR_JSON_OBJECT; k = zr_json_next(l, k)) {
			if (is(k->key, k->key_n, "type"))
				known = k->type == ZR_JSON_TEXT && is(k->p, k->n, "text");
			else if (is(k->key, k->key_n, "text") && k->type == ZR_JSON_TEXT)
				text = k;
		}
		if (!known || !text)
			return wrong(r, "fields",
				     "message %zu: a part that is not {\"type\": \"text\", "
				     "\"text\": ...}; only text is read", r->c->n + 1);
		if (!to)
			*p = to = (char *)text->p;
		memmove(to, text->p, text->n);
		to += text->n;
		*n += text->n;
	}
	return 0;
}

static int add_message(struct reading *r, const struct zr_json_value *v, int share)
{
	const struct zr_json_line *l = &r->c->line;
	const char *p = NULL, *text_name = name_of(r->f, share ? ZR_FIELD_VALUE : ZR_FIELD_CONTENT);
	size_t n = 0;
	int rc = 0, ignored = 0;
	if (v->type != ZR_JSON_OBJECT)
		return wrong(r, "fields", "message %zu: expected an object, found %s", r->c->n + 1,
			     zr_json_type(v));
	const struct zr_json_value *role = get(r, v, share ? ZR_FIELD_FROM : ZR_FIELD_ROLE, &rc);
	const struct zr_json_value *content =
		get(r, v, share ? ZR_FIELD_VALUE : ZR_FIELD_CONTENT, &rc);
	for (const struct zr_json_value *k = zr_json_child(l, v); k; k = zr_json_next(l, k)) {
		if (is(k->key, k->key_n, "tool_calls") && k->type != ZR_JSON_NULL &&
		    zr_json_child(l, k))
			return wrong(r, "fields", "message %zu: tool_calls are not supported",
				     r->c->n + 1);
		if (is(k->key, k->key_n, "weight"))
			ignored = !k->truth;
	}
	if (rc)
		return rc;
	if (!role || role->type != ZR_JSON_TEXT || !content)
		return wrong(r, "fields", "message %zu: has no %s; it needs %s and %s",
			     r->c->n + 1, !content ? text_name : "role",
			     name_of(r->f, share ? ZR_FIELD_FROM : ZR_FIELD_ROLE), text_name);
	int is_role = role_of(r, role);
	if (is_role < 0)
		return is_role;
	if (content->type == ZR_JSON_TEXT)
		p = content->p, n = content->n;
	else if (content->type == ZR_JSON_LIST)
		rc = join(r, content, &p, &n);
	else
		rc = wrong(r, "fields", "message %zu: %s: expected a text, found %s", r->c->n + 1,
			   text_name, zr_json_type(content));
	return rc ? rc : add(r, is_role, p, n, ignored);
}

static int add_messages(struct reading *r, const struct zr_json_value *list, int field, int share)
{
	const struct zr_json_line *l = &r->c->line;
	int rc = 0;
	if (list->type != ZR_JSON_LIST)
		return wrong(r, "fields", "%s: expected a list of messages, found %s",
			     name_of(r->f, field), zr_json_type(list));
	const struct zr_json_value *v = zr_json_child(l, list);
	for (; v && !rc; v = zr_json_next(l, v))
		rc = add_message(r, v, share);
	return rc;
}

/* ---- formats ---- */

/* Of messages, what comes behind the last one of a user answers. */
static void mark_completion(struct zr_conversation *c)
{
	for (size_t i = c->n; i && c->m[i - 1].role == ZR_CHAT_ASSISTANT; i--)
		c->m[i - 1].completion = 1;
}

static int read_messages(struct reading *r, const struct zr_json_value *list, int field, int share)
{
	int rc = add_messages(r, list, field, share);
	mark_completion(r->c);
	return rc;
}

/* A text, or a list of messages. */
static int read_side(struct reading *r, const struct zr_json_value *v, int field, int role)
{
	if (v->type == ZR_JSON_TEXT)
		return add(r, role, v->p, v->n, 0);
	return add_messages(r, v, field, 0);
}

static int read_pair(struct reading *r, const struct zr_json_value *prompt,
		     const struct zr_json_value *completion)
{
	if (!completion)
		return wrong(r, "fields", "has %s and no %s", name_of(r->f, ZR_FIELD_PROMPT),
			     name_of(r->f, ZR_FIELD_COMPLETION));
	int rc = read_side(r, prompt, ZR_FIELD_PROMPT, ZR_CHAT_USER);
	r->completion = 1;
	return rc ? rc : read_side(r, completion, ZR_FIELD_COMPLETION, ZR_CHAT_ASSISTANT);
}

static int read_alpaca(struct reading *r, const struct zr_json_value *instruction)
{
	int rc = 0;
	struct zr_buf *made = &r->c->made;
	const struct zr_json_value *input = get_text(r, ZR_FIELD_INPUT, &rc);
	const struct zr_json_value *output = get_text(r, ZR_FIELD_OUTPUT, &rc);
	const char *p = instruction->p, *heading = r->c->headed ? "\n\n### Input:\n" : "\n";
	size_t n = instruction->n;
	if (rc)
		return rc;
	if (!output)
		return wrong(r, "fields", "has %s and no %s", name_of(r->f, ZR_FIELD_INSTRUCTION),
			     name_of(r->f, ZR_FIELD_OUTPUT));
	made->n = 0;
	if (input && input->n) {
		if (zr_buf_add(made, p, n) || zr_buf_add(made, heading, strlen(heading)) ||
		    zr_buf_add(made, input->p, input->n))
			return no_memory(r);
		p = made->p;
		n = made->n;
	}
	rc = add(r, ZR_CHAT_USER, p, n, 0);
	r->completion = 1;
	return rc ? rc : add(r, ZR_CHAT_ASSISTANT, output->p, output->n, 0);
}

static int read_record(struct reading *r)
{
	const struct zr_json_value *v;
	int rc = 0;
	if ((v = get(r, r->record, ZR_FIELD_MESSAGES, &rc)) || rc)
		return rc ? rc : read_messages(r, v, ZR_FIELD_MESSAGES, 0);
	if ((v = get(r, r->record, ZR_FIELD_CONVERSATIONS, &rc)) || rc)
		return rc ? rc : read_messages(r, v, ZR_FIELD_CONVERSATIONS, 1);
	if ((v = get(r, r->record, ZR_FIELD_PROMPT, &rc)) || rc)
		return rc ? rc : read_pair(r, v, get(r, r->record, ZR_FIELD_COMPLETION, &rc));
	if ((v = get_text(r, ZR_FIELD_INSTRUCTION, &rc)) || rc)
		return rc ? rc : read_alpaca(r, v);
	v = get_text(r, ZR_FIELD_TEXT, &rc);
	if (rc)
		return rc;
	if (!v)
		return wrong(r, "fields", "has none of the fields that are read: " FORMATS);
	r->c->plain = 1;
	r->completion = 1;
	return add(r, ZR_CHAT_ASSISTANT, v->p, v->n, 0);
}

/* A system message that is not among the messages comes first. */
static int add_system(struct reading *r, const char *otherwise)
{
	struct zr_conversation *c = r->c;
	int rc = 0;
	const struct zr_json_value *v = get(r, r->record, ZR_FIELD_SYSTEM, &rc);
	const char *p = v && v->type == ZR_JSON_TEXT ? v->p : otherwise;
	if (rc || !p || c->plain || !c->n || c->m[0].role == ZR_CHAT_SYSTEM)
		return rc;
	r->completion = 0;
	rc = add(r, ZR_CHAT_SYSTEM, p, p == otherwise ? strlen(p) : v->n, 0);
	if (rc)
		return rc;
	struct zr_chat_message first = c->m[c->n - 1];
	memmove(c->m + 1, c->m, (c->n - 1) * sizeof *c->m);
	c->m[0] = first;
	return 0;
}

int zr_conversation_read(struct zr_conversation *c, char *p, size_t n,
			 const struct zr_chat_fields *f, const char *system, const char **reason,
			 struct zr_error *err)
{
	struct reading r = { .c = c, .f = f, .reason = reason, .err = err };
	c->n = 0;
	c->plain = 0;
	int rc = zr_json_line(&c->line, p, n);
	if (rc == ZR_ENOMEM)
		return no_memory(&r);
	if (rc)
		return wrong(&r, "json", "not JSON: %s", c->line.why);
	r.record = c->line.v;
	if (r.record->type == ZR_JSON_LIST)
		return wrong(&r, "json", "a list; a line is one object: jq -c '.[]' FILE makes "
					 "lines of a list");
	if (r.record->type != ZR_JSON_OBJECT)
		return wrong(&r, "json", "expected an object, found %s", zr_json_type(r.record));
	rc = read_record(&r);
	rc = rc ? rc : add_system(&r, system);
	if (!rc && !c->n)
		rc = wrong(&r, "fields", "there is no message in it");
	return rc;
}

void zr_conversation_free(struct zr_conversation *c)
{
	free(c->m);
	zr_buf_free(&c->made);
	zr_json_line_free(&c->line);
	*c = (struct zr_conversation){ 0 };
}
