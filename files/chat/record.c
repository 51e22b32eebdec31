/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - see record.h.
 */
#include "files/chat/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

static const char *const usual[ZR_FIELDS] = { "messages", "conversations", "role",
					      "content",  "from",          "value",
					      "prompt",   "completion",    "instruction",
					      "input",    "output",        "text",
					      "system",   "user",          "assistant" };

/* Other names that roles have in the wild; all of them are read. */
static const struct {
	const char *name;
	int role;
} roles[] = {
	{ "system", ZR_CHAT_SYSTEM }, { "user", ZR_CHAT_USER },
	{ "human", ZR_CHAT_USER },    { "assistant", ZR_CHAT_ASSISTANT },
	{ "gpt", ZR_CHAT_ASSISTANT }, { "model", ZR_CHAT_ASSISTANT },
};

/* Those that only templates of Jinja have. */
static const struct {
	const char *name;
	int role;
} rich_roles[] = {
	{ "tool", ZR_CHAT_TOOL },
	{ "observation", ZR_CHAT_TOOL },
	{ "developer", ZR_CHAT_DEVELOPER },
};

/* What a template of Jinja calls the roles. */
static const char *const role_names[] = { "system", "user", "assistant", "tool", "developer" };

#define FORMATS                                                                                    \
	"messages, conversations, prompt and completion, instruction and output, or text are "     \
	"read; --field names others"

struct reading {
	struct zr_conversation *c;
	const struct zr_chat_fields *f;
	const char **reason;
	struct zr_error *err;
	const json_t *record;
	struct zr_buf made; /* a text out of several */
	unsigned used;      /* bits of the record's fields that were read */
	int completion;     /* what is added now answers the prompt */
	/* the message that is added now, NULL: it is only a text; what it calls role and text */
	const json_t *message;
	const char *role_name, *text_name;
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
	return zr_no_memory(r->err);
}

/* ---- fields ---- */

static const char *name_of(const struct zr_chat_fields *f, int field)
{
	if (*f->name[field])
		return f->name[field];

	return usual[field];
}

static int set_field(struct zr_chat_fields *f, const char *p, size_t n, struct zr_error *err)
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
		      "system, user, assistant",
		      (int)n, p);
}

int zr_chat_fields_set(struct zr_chat_fields *f, const char *text, struct zr_error *err)
{
	int rc = 0;
	while (!rc && *(text += strspn(text, " ,\t"))) {
		size_t n = strcspn(text, " ,\t");
		rc = set_field(f, text, n, err);
		text += n;
	}

	return rc;
}

static int is(const json_t *text, const char *name)
{
	return json_string_length(text) == strlen(name) &&
	       !memcmp(json_string_value(text), name, strlen(name));
}

static const char *type_of(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",      [JSON_NULL] = "null",
	};

	return names[json_typeof(v)];
}

/* A member that is not null, NULL: none. */
static const json_t *get(struct reading *r, const json_t *o, int field)
{
	const json_t *v = json_object_get(o, name_of(r->f, field));

	if (o == r->record)
		r->used |= 1u << field;
	return json_is_null(v) ? NULL : v;
}

static const json_t *get_text(struct reading *r, int field, int *rc)
{
	const json_t *v = get(r, r->record, field);
	if (v && !json_is_string(v) && !*rc)
		*rc = wrong(r, "fields", "%s: expected a text, found %s", name_of(r->f, field),
			    type_of(v));

	return *rc ? NULL : v;
}

/* ---- what is not read ---- */

/* Fields that ask for another training than that of the messages beside them. */
static const struct {
	const char *name, *why;
} others[] = {
	{ "chosen", "preferences are another training than that of answers" },
	{ "rejected", "preferences are another training than that of answers" },
	{ "label", "answers that are good or bad are another training: keep the lines that are "
		   "good, without the label" },
	{ "images", "only text is read" },
	{ "image", "only text is read" },
	{ "videos", "only text is read" },
	{ "video", "only text is read" },
	{ "audios", "only text is read" },
	{ "audio", "only text is read" },
	{ "tools", "tools are not written to the text" },
	{ "functions", "tools are not written to the text" },
	{ "tool_calls", "calls of tools are not written to the text" },
	{ "function_call", "calls of tools are not written to the text" },
	{ "reasoning_content", "thoughts are not written to the text" },
	{ "reasoning", "thoughts are not written to the text" },
	{ "thinking", "thoughts are not written to the text" },
	{ "train_detail", "a message is learned as a whole, or not" },
};

/* Whether a value says nothing. A label is asked for by true and false alone: as a text or a number
 * it may be a class. */
static int says_nothing(const char *name, const json_t *v)
{
	if (!strcmp(name, "label"))
		return 0;
	if (json_is_string(v))
		return !json_string_length(v);
	if (json_is_array(v))
		return !json_array_size(v);
	if (json_is_object(v))
		return !json_object_size(v);

	return json_is_null(v) || json_is_false(v);
}

/* Fields that a template of Jinja writes, if it mentions one of the words. */
static const struct {
	const char *name, *words[2];
} written[] = {
	{ "tools", { "tools" } },
	{ "tool_calls", { "tool_calls" } },
	{ "reasoning_content", { "reasoning_content", "thinking" } },
	{ "reasoning", { "reasoning_content", "thinking" } },
	{ "thinking", { "reasoning_content", "thinking" } },
};

static int mentions(const struct reading *r, const char *word)
{
	const struct zr_jinja *with_tools = r->c->with_tools;

	if (!word)
		return 0;

	return zr_jinja_mentions(r->c->jinja, word) ||
	       (with_tools && zr_jinja_mentions(with_tools, word));
}

/* 1: the template of Jinja writes this field; 0: it is none of these; < 0: it does not mention it.
 */
static int is_written(struct reading *r, const char *of, const char *name)
{
	for (size_t i = 0; r->c->jinja && i < sizeof written / sizeof *written; i++) {
		const char *const *words = written[i].words;
		if (strcmp(name, written[i].name))
			continue;
		if (!mentions(r, words[0]) && !mentions(r, words[1]))
			return wrong(r, "fields", "%s%s: the chat template does not write it", of,
				     name);

		r->c->is_rich = 1;
		return 1;
	}

	return 0;
}

static int refuse_other(struct reading *r, const char *of, const char *name, const json_t *v)
{
	int is = says_nothing(name, v) ? 0 : is_written(r, of, name);
	if (is)
		return is < 0 ? is : 0;

	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcmp(name, others[i].name) || says_nothing(name, v))
			continue;
		if (!strcmp(name, "label") && !json_is_boolean(v))
			continue;
		return wrong(r, "fields", "%s%s: %s", of, name, others[i].why);
	}

	return 0;
}

static int is_used(const struct reading *r, const char *name)
{
	for (int i = 0; i < ZR_FIELDS; i++)
		if ((r->used >> i & 1) && !strcmp(name, name_of(r->f, i)))
			return 1;

	return 0;
}

/* Whether the user said that the data has this field in the place of a usual one. */
static int is_named(const struct reading *r, const char *name)
{
	for (int i = 0; i < ZR_FIELDS; i++)
		if (!strcmp(r->f->name[i], name))
			return 1;

	return 0;
}

/* Fields of the record that ask for another training. */
static int refuse_others(struct reading *r)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)r->record, name, v)
	{
		int rc = 0;
		if (!is_named(r, name))
			rc = refuse_other(r, "", name, v);
		if (rc)
			return rc;
	}

	return 0;
}

/* What the record has and nobody read. */
static void count_others(struct reading *r)
{
	const int is_alpaca = r->used >> ZR_FIELD_OUTPUT & 1;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)r->record, name,
			    v) if (!is_used(r, name) && !says_nothing(name, v) &&
				   !(is_alpaca && !strcmp(name, "history")) &&
				   !(r->c->tools && !strcmp(name, "tools")) &&
				   !(r->c->kwargs && !strcmp(name, "chat_template_kwargs")))
		zr_unread_see(&r->c->unread, "", name);
}

/* ---- messages ---- */

/* Takes a member into an object, where it keeps its place if it is there. */
static void put(json_t *to, const char *key, const json_t *v, int *failed)
{
	*failed |= !to || json_object_set(to, key, (json_t *)v);
}

/* What transformers calls thoughts; NULL: none. */
static const json_t *thoughts_of(const json_t *message)
{
	static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const json_t *v = json_object_get(message, names[i]);
		if (v && !json_is_null(v))
			return v;
	}

	return NULL;
}

/* A message as a template of Jinja sees it: without what is null, with thoughts by both of their
 * names, and with the usual names of role and content. message: what the data has, NULL: only a
 * text. The result is owned by the conversation; NULL: no memory. */
static json_t *as_written(struct reading *r, int role, const json_t *message, const json_t *text,
			  const char *role_name, const char *text_name)
{
	const json_t *thoughts = thoughts_of(message);
	json_t *to = json_object(), *name = json_string(role_names[role]);
	int failed = !name;
	const char *key;
	json_t *v;

	if (thoughts)
		put(to, "thinking", thoughts, &failed);
	json_object_foreach((json_t *)message, key, v)
	{
		if (!strcmp(key, role_name))
			put(to, "role", name, &failed);
		else if (!strcmp(key, text_name) && !json_is_null(v))
			put(to, "content", v, &failed);
		else if (!json_is_null(v))
			put(to, key, v, &failed);
	}

	put(to, "role", name, &failed);
	if (!message)
		put(to, "content", text, &failed);
	if (thoughts)
		put(to, "reasoning_content", thoughts, &failed);
	json_decref(name);
	if (!failed && !json_array_append(r->c->made, to)) {
		json_decref(to);
		return to;
	}

	json_decref(to);
	return NULL;
}

static int keep_message(struct reading *r, int role, const json_t *text, int ignored)
{
	struct zr_conversation *c = r->c;
	const char *p = text ? json_string_value(text) : "";
	size_t n = json_string_length(text);
	if (c->n == c->room) {
		size_t room = c->room ? 2 * c->room : 16;
		struct zr_chat_message *more = realloc(c->m, room * sizeof *more);
		if (!more)
			return no_memory(r);

		c->m = more;
		c->room = room;
	}

	json_t *json = NULL;
	if (c->jinja) {
		json = as_written(r, role, r->message, text, r->role_name, r->text_name);
		if (!json)
			return no_memory(r);
	}

	c->m[c->n++] = (struct zr_chat_message){ .role = role,
						 .completion = r->completion,
						 .ignored = ignored,
						 .text = p,
						 .n = n,
						 .json = json };
	return 0;
}

static int role_of(struct reading *r, const json_t *v)
{
	for (int i = ZR_FIELD_SYSTEM; i <= ZR_FIELD_ASSISTANT; i++)
		if (*r->f->name[i] && is(v, r->f->name[i]))
			return i - ZR_FIELD_SYSTEM;

	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (is(v, roles[i].name))
			return roles[i].role;

	for (size_t i = 0; r->c->jinja && i < sizeof rich_roles / sizeof *rich_roles; i++)
		if (is(v, rich_roles[i].name)) {
			r->c->is_rich = 1;
			return rich_roles[i].role;
		}

	return wrong(r, "roles",
		     "message %zu: role \"%.40s\"; system, user (human) and assistant (gpt, model) "
		     "are known, and what --field user=NAME and the like name",
		     r->c->n + 1, json_string_value(v));
}

/* The text in r->made, which lives as long as the record. */
static const json_t *keep_made(struct reading *r)
{
	json_t *text = json_stringn_nocheck(r->made.p, r->made.n);
	if (text && !json_array_append_new(r->c->made, text))
		return text;

	return NULL;
}

/* The texts of a list of parts as one; NULL: r->err says why not. */
static const json_t *join(struct reading *r, const json_t *list, int *rc)
{
	json_t *part;
	size_t i;

	r->made.n = 0;
	json_array_foreach((json_t *)list, i, part)
	{
		const json_t *type = json_object_get(part, "type");
		const json_t *text = json_object_get(part, "text");
		if ((type && !is(type, "text")) || !json_is_string(text)) {
			*rc = wrong(r, "fields",
				    "message %zu: a part that is not {\"type\": \"text\", "
				    "\"text\": ...}; only text is read",
				    r->c->n + 1);
			return NULL;
		}

		if (zr_buf_add(&r->made, json_string_value(text), json_string_length(text)))
			break;
	}

	const json_t *all = NULL;
	if (i >= json_array_size(list))
		all = keep_made(r);
	if (all)
		*rc = 0;
	else
		*rc = no_memory(r);

	return all;
}

/* Whether a message is not to be learned: 1, 0 or < 0. */
static int is_ignored(struct reading *r, const json_t *message)
{
	const json_t *weight = json_object_get(message, "weight");
	const json_t *train = json_object_get(message, "train");
	const double number = json_number_value(weight);

	if (json_is_number(weight) && number != 0 && number != 1)
		return wrong(r, "fields", "message %zu: weight: expected 0 or 1, found %g",
			     r->c->n + 1, number);
	if (train && !json_is_boolean(train) && !json_is_null(train))
		return wrong(r, "fields", "message %zu: train: expected true or false, found %s",
			     r->c->n + 1, type_of(train));
	if (json_is_number(weight) && number == 0)
		return 1;

	return json_is_false(weight) || json_is_false(train);
}

/* Whether a template of Jinja gets a field and looks at it. */
static int is_passed(const struct reading *r, const char *name)
{
	return r->c->jinja && !r->c->has_forms && mentions(r, name);
}

/* What a message has beside its role, its text and whether it is learned. */
static int look_at_message(struct reading *r, const json_t *message, const char *role_name,
			   const char *text_name)
{
	char of[40];
	const char *name;
	json_t *v;

	snprintf(of, sizeof of, "message %zu: ", r->c->n + 1);
	json_object_foreach((json_t *)message, name, v)
	{
		if (!strcmp(name, role_name) || !strcmp(name, text_name) ||
		    !strcmp(name, "weight") || !strcmp(name, "train") || says_nothing(name, v))
			continue;

		int rc = refuse_other(r, of, name, v);
		if (rc)
			return rc;

		if (!is_passed(r, name))
			zr_unread_see(&r->c->unread, "messages.", name);
	}

	return 0;
}

/* The text of message v, which is a text or a list of parts; NULL: *rc says why. */
static const json_t *text_of_message(struct reading *r, const json_t *content,
				     const char *text_name, int *rc)
{
	if (json_is_array(content))
		return join(r, content, rc);
	if (json_is_string(content))
		return content;

	*rc = wrong(r, "fields", "message %zu: %s: expected a text, found %s", r->c->n + 1,
		    text_name, type_of(content));
	return NULL;
}

/* Calls as OpenAI writes them, of the text of one or of a list, {name, arguments} each; NULL: *rc
 * says why. Owned by the conversation. */
static const json_t *read_calls(struct reading *r, const json_t *text, int *rc)
{
	json_t *list = json_array(), *calls, *one;
	json_error_t why;
	size_t i;

	if (!list || json_array_append_new(r->c->made, list)) {
		*rc = no_memory(r);
		return NULL;
	}

	calls = zr_json_load(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL,
			     &why);
	if (!calls) {
		*rc = wrong(r, "fields", "message %zu: function_call: not JSON: byte %d: %s",
			    r->c->n + 1, why.position, why.text);
		return NULL;
	}

	if (json_is_object(calls))
		calls = json_pack("[o]", calls);
	json_array_foreach(calls, i, one)
	{
		if (!json_is_string(json_object_get(one, "name")) ||
		    !json_object_get(one, "arguments"))
			*rc = wrong(r, "fields",
				    "message %zu: function_call: expected {name, arguments}, or a "
				    "list of them",
				    r->c->n + 1);
		else if (json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function",
							       "function", one)))
			*rc = no_memory(r);
		if (*rc)
			break;
	}

	json_decref(calls);
	return *rc ? NULL : list;
}

/* ShareGPT's function_call: an assistant's message that calls tools. */
static int add_call(struct reading *r, const json_t *text)
{
	int rc = is_written(r, "", "tool_calls");
	const json_t *calls = NULL;
	if (rc < 0)
		return rc;

	rc = 0;
	if (!json_is_string(text))
		return wrong(r, "fields", "message %zu: function_call: expected a text",
			     r->c->n + 1);

	calls = read_calls(r, text, &rc);
	if (rc)
		return rc;

	json_t *message = json_pack("{s:s, s:O}", "role", "assistant", "tool_calls", calls);
	if (!message || json_array_append_new(r->c->made, message))
		return no_memory(r);

	r->message = message;
	r->role_name = "role";
	r->text_name = "content";
	rc = keep_message(r, ZR_CHAT_ASSISTANT, NULL, 0);
	r->message = NULL;
	return rc;
}

static int add_message(struct reading *r, const json_t *v, int share)
{
	int field = share ? ZR_FIELD_VALUE : ZR_FIELD_CONTENT;
	const char *role_name = name_of(r->f, share ? ZR_FIELD_FROM : ZR_FIELD_ROLE);
	const char *text_name = name_of(r->f, field);

	if (!json_is_object(v))
		return wrong(r, "fields", "message %zu: expected an object, found %s", r->c->n + 1,
			     type_of(v));

	int rc = look_at_message(r, v, role_name, text_name);
	if (rc)
		return rc;

	const json_t *role = json_object_get(v, role_name), *content = get(r, v, field);
	const char *missing = content ? "role" : text_name;
	const int has_calls = r->c->jinja && json_is_array(json_object_get(v, "tool_calls"));
	if (!json_is_string(role) || (!content && !has_calls))
		return wrong(r, "fields", "message %zu: has no %s; it needs %s and %s", r->c->n + 1,
			     missing, role_name, text_name);

	if (r->c->jinja && is(role, "function_call"))
		return add_call(r, content);

	int is_role = role_of(r, role);
	if (is_role < 0)
		return is_role;

	if (content)
		content = text_of_message(r, content, text_name, &rc);
	if (rc)
		return rc;

	int ignored = is_ignored(r, v);
	if (ignored < 0)
		return ignored;

	r->message = v;
	r->role_name = role_name;
	r->text_name = text_name;
	rc = keep_message(r, is_role, content, ignored);
	r->message = NULL;
	return rc;
}

static int add_messages(struct reading *r, const json_t *list, int field, int share)
{
	int rc = 0;

	if (!json_is_array(list))
		return wrong(r, "fields", "%s: expected a list of messages, found %s",
			     name_of(r->f, field), type_of(list));
	for (size_t i = 0; !rc && i < json_array_size(list); i++)
		rc = add_message(r, json_array_get(list, i), share);

	return rc;
}

/* ---- formats ---- */

/* Of messages, what comes behind the last one of a user answers. */
static void mark_completion(struct zr_conversation *c)
{
	for (size_t i = c->n; i && c->m[i - 1].role == ZR_CHAT_ASSISTANT; i--)
		c->m[i - 1].completion = 1;
}

static int read_messages(struct reading *r, const json_t *list, int field, int share)
{
	int rc = add_messages(r, list, field, share);
	mark_completion(r->c);
	return rc;
}

/* A text, or a list of messages. */
static int read_side(struct reading *r, const json_t *v, int field, int role)
{
	if (json_is_string(v))
		return keep_message(r, role, v, 0);
	return add_messages(r, v, field, 0);
}

static int read_pair(struct reading *r, const json_t *prompt, const json_t *completion)
{
	if (!completion)
		return wrong(r, "fields", "has %s and no %s", name_of(r->f, ZR_FIELD_PROMPT),
			     name_of(r->f, ZR_FIELD_COMPLETION));
	int rc = read_side(r, prompt, ZR_FIELD_PROMPT, ZR_CHAT_USER);
	r->completion = 1;
	if (rc)
		return rc;

	return read_side(r, completion, ZR_FIELD_COMPLETION, ZR_CHAT_ASSISTANT);
}

/* The turns that came before: a list of [instruction, output]. */
static int read_history(struct reading *r)
{
	const json_t *list = json_object_get(r->record, "history");
	size_t i;
	json_t *turn;

	if (json_is_null(list))
		list = NULL;
	if (list && !json_is_array(list))
		return wrong(r, "fields", "history: expected a list of turns, found %s",
			     type_of(list));

	json_array_foreach((json_t *)list, i, turn)
	{
		const json_t *asked = json_array_get(turn, 0), *answer = json_array_get(turn, 1);
		if (json_array_size(turn) != 2 || !json_is_string(asked) || !json_is_string(answer))
			return wrong(r, "fields",
				     "history: turn %zu: expected a list of two "
				     "texts, an instruction and an output",
				     i + 1);

		int rc = keep_message(r, ZR_CHAT_USER, asked, 0);
		if (!rc)
			rc = keep_message(r, ZR_CHAT_ASSISTANT, answer, 0);
		if (rc)
			return rc;
	}

	return 0;
}

/* An instruction with its input, as Alpaca's trainer joins them; NULL: no memory. */
static const json_t *with_input(struct reading *r, const json_t *instruction, const json_t *input)
{
	const char *heading = r->c->headed ? "\n\n### Input:\n" : "\n";
	const char *p = json_string_value(instruction), *q = json_string_value(input);
	struct zr_buf *made = &r->made;

	made->n = 0;
	if (zr_buf_add(made, p, json_string_length(instruction)) ||
	    zr_buf_add(made, heading, strlen(heading)) ||
	    zr_buf_add(made, q, json_string_length(input)))
		return NULL;

	r->c->input = 1;
	return keep_made(r);
}

static int read_alpaca(struct reading *r, const json_t *instruction)
{
	int rc = read_history(r);
	const json_t *input = get_text(r, ZR_FIELD_INPUT, &rc);
	const json_t *output = get_text(r, ZR_FIELD_OUTPUT, &rc);

	if (rc)
		return rc;
	if (!output)
		return wrong(r, "fields", "has %s and no %s", name_of(r->f, ZR_FIELD_INSTRUCTION),
			     name_of(r->f, ZR_FIELD_OUTPUT));

	if (json_string_length(input))
		instruction = with_input(r, instruction, input);
	if (!instruction)
		return no_memory(r);

	rc = keep_message(r, ZR_CHAT_USER, instruction, 0);
	r->completion = 1;
	if (!rc)
		rc = keep_message(r, ZR_CHAT_ASSISTANT, output, 0);

	return rc;
}

static int read_plain(struct reading *r, const json_t *text)
{
	r->c->plain = 1;
	r->completion = 1;
	return keep_message(r, ZR_CHAT_ASSISTANT, text, 0);
}

static int read_record(struct reading *r)
{
	const json_t *v;
	int rc = 0;

	v = get(r, r->record, ZR_FIELD_MESSAGES);
	if (v)
		return read_messages(r, v, ZR_FIELD_MESSAGES, 0);

	v = get(r, r->record, ZR_FIELD_CONVERSATIONS);
	if (v)
		return read_messages(r, v, ZR_FIELD_CONVERSATIONS, 1);

	v = get(r, r->record, ZR_FIELD_PROMPT);
	if (v)
		return read_pair(r, v, get(r, r->record, ZR_FIELD_COMPLETION));

	v = get_text(r, ZR_FIELD_INSTRUCTION, &rc);
	if (rc)
		return rc;
	if (v)
		return read_alpaca(r, v);

	v = get_text(r, ZR_FIELD_TEXT, &rc);
	if (rc)
		return rc;
	if (v)
		return read_plain(r, v);

	return wrong(r, "fields", "has none of the fields that are read: " FORMATS);
}

/* A system message that is not among the messages comes first. */
static int add_system(struct reading *r, const char *otherwise)
{
	struct zr_conversation *c = r->c;
	if (c->plain || !c->n || c->m[0].role == ZR_CHAT_SYSTEM)
		return 0;

	const json_t *v = get(r, r->record, ZR_FIELD_SYSTEM);
	if (v && !json_is_string(v))
		return wrong(r, "fields", "%s: expected a text, found %s",
			     name_of(r->f, ZR_FIELD_SYSTEM), type_of(v));
	if (!v && !otherwise)
		return 0;

	r->completion = 0;
	if (!v) {
		r->made.n = 0;
		if (!zr_buf_add(&r->made, otherwise, strlen(otherwise)))
			v = keep_made(r);
		if (!v)
			return no_memory(r);
	}

	int rc = keep_message(r, ZR_CHAT_SYSTEM, v, 0);
	if (rc)
		return rc;

	struct zr_chat_message first = c->m[c->n - 1];

	memmove(c->m + 1, c->m, (c->n - 1) * sizeof *c->m);
	c->m[0] = first;
	return 0;
}

/* Takes the object that a line is. */
static int parse(struct reading *r, const char *p, size_t n)
{
	struct zr_conversation *c = r->c;
	json_error_t why;

	zr_conversation_drop(c);
	json_t *record = zr_json_load(p, n, JSON_ALLOW_NUL, &why);
	int no = errno;
	c->made = json_array();
	r->record = c->record = record;
	if (!record && no == ENOMEM)
		return no_memory(r);
	if (!record)
		return wrong(r, "json", "not JSON: byte %d: %s", why.position, why.text);
	if (json_is_array(record))
		return wrong(r, "json", "a list; a line is one object, or the file is one list");
	if (!json_is_object(record))
		return wrong(r, "json", "expected an object, found %s", type_of(record));
	if (!c->made)
		return no_memory(r);

	return 0;
}

/* The field tools: a list, or the text of one. */
static int read_tools(struct reading *r)
{
	const json_t *v = json_object_get(r->record, "tools");
	json_error_t why;

	r->c->tools = NULL;
	if (!v || says_nothing("tools", v) || !r->c->jinja)
		return 0;

	if (json_is_string(v)) {
		json_t *list = zr_json_load(json_string_value(v), json_string_length(v),
					    JSON_ALLOW_NUL, &why);
		if (!list)
			return wrong(r, "fields", "tools: not JSON: byte %d: %s", why.position,
				     why.text);
		v = list;
		if (json_array_append_new(r->c->made, list))
			return no_memory(r);
	}

	if (!json_is_array(v))
		return wrong(r, "fields", "tools: expected a list, found %s", type_of(v));
	if (json_array_size(v))
		r->c->tools = v;
	return 0;
}

/* The field chat_template_kwargs: variables of the template, as TRL has them. */
static int read_kwargs(struct reading *r)
{
	const json_t *v = json_object_get(r->record, "chat_template_kwargs");

	if (!v || says_nothing("chat_template_kwargs", v) || !r->c->jinja)
		return 0;
	if (!json_is_object(v))
		return wrong(r, "fields", "chat_template_kwargs: expected an object, found %s",
			     type_of(v));

	r->c->kwargs = v;
	r->c->is_rich = 1;
	return 0;
}

static int read_line(struct reading *r, const char *p, size_t n, const char *system)
{
	int rc = parse(r, p, n);
	if (!rc)
		rc = refuse_others(r);
	if (!rc)
		rc = read_tools(r);
	if (!rc)
		rc = read_kwargs(r);
	if (!rc)
		rc = read_record(r);
	if (!rc)
		rc = add_system(r, system);
	if (!rc)
		count_others(r);

	return rc;
}

int zr_conversation_read(struct zr_conversation *c, const char *p, size_t n,
			 const struct zr_chat_fields *f, const char *system, const char **reason,
			 struct zr_error *err)
{
	struct reading r = { .c = c, .f = f, .reason = reason, .err = err };

	c->n = 0;
	c->plain = c->input = c->is_rich = 0;
	c->tools = c->kwargs = NULL;
	c->unread = (struct zr_unread){ 0 };
	int rc = read_line(&r, p, n, system);
	if (!rc && !c->n)
		rc = wrong(&r, "fields", "there is no message in it");
	zr_buf_free(&r.made);
	return rc;
}

void zr_conversation_drop(struct zr_conversation *c)
{
	json_decref(c->record);
	json_decref(c->made);
	c->record = c->made = NULL;
}

void zr_conversation_free(struct zr_conversation *c)
{
	free(c->m);
	zr_conversation_drop(c);
	*c = (struct zr_conversation){ 0 };
}
