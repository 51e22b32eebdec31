/* SPDX-License-Identifier: Apache-2.0
 *
 * render.c - see template.h: messages to text.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/template.h"
#include "files/tokenizer/utf8.h"

struct render {
	const struct zr_chat_template *t;
	const struct zr_chat_message *system; /* that {system} is; NULL: none */
	struct zr_chat_text *out;
	size_t content; /* where the last {content} ended */
	size_t start;   /* and began */
	int rc;
};

static void put_bytes(struct render *r, const char *p, size_t n)
{
	if (!r->rc)
		r->rc = zr_buf_add(&r->out->text, p, n);
}

static void put_text(struct render *r, const char *text)
{
	put_bytes(r, text ? text : "", text ? strlen(text) : 0);
}

/* ---- white space, as Python's str.strip has it ---- */

static int is_space(int32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

static size_t spaces_before(const char *p, size_t n)
{
	size_t at = 0;
	int len;
	while (at < n && (len = zr_utf8_at(p + at, n - at)) > 0 && is_space(zr_utf8_value(p + at)))
		at += (size_t)len;

	return at;
}

static size_t without_spaces_behind(const char *p, size_t from, size_t n)
{
	while (n > from) {
		size_t at = n - 1;
		while (at > from && ((unsigned char)p[at] & 0xc0) == 0x80)
			at--;
		if (zr_utf8_at(p + at, n - at) <= 0 || !is_space(zr_utf8_value(p + at)))
			break;

		n = at;
	}

	return n;
}

/* Where a place of the text is when n bytes from `from` on are gone and it ends at `end`. */
static size_t moved(size_t at, size_t from, size_t n, size_t end)
{
	if (at > from + n)
		at = at - n;
	else if (at > from)
		at = from;

	return at < end ? at : end;
}

/* Trims what the text has from `from` on. */
static void trim_from(struct render *r, size_t from)
{
	struct zr_buf *b = &r->out->text;
	if (r->rc || from >= b->n)
		return;

	b->n = without_spaces_behind(b->p, from, b->n);
	size_t spaces = spaces_before(b->p + from, b->n - from);
	memmove(b->p + from, b->p + from + spaces, b->n - from - spaces);
	b->n -= spaces;
	r->start = moved(r->start, from, spaces, b->n);
	r->content = moved(r->content, from, spaces, b->n);
}

/* ---- forms ---- */

static void put_content(struct render *r, const struct zr_chat_message *m, int trim)
{
	const char *p = m ? m->text : "";
	size_t n = m ? m->n : 0;

	if (trim) {
		size_t end = without_spaces_behind(p, 0, n), from = spaces_before(p, end);
		p += from;
		n = end - from;
	}

	r->start = r->out->text.n;
	put_bytes(r, p, n);
	r->content = r->out->text.n;
}

static const char *const roles[] = { "system", "user", "assistant", "tool", "developer" };

/* What braces of a form say. */
enum word { CONTENT, TRIMMED_CONTENT, SYSTEM, ROLE, BOS, EOS, TRIM, END_TRIM, NO_WORD };
static const char *const words[NO_WORD] = {
	[CONTENT] = "{content}", [TRIMMED_CONTENT] = "{content|trim}",
	[SYSTEM] = "{system}",   [ROLE] = "{role}",
	[BOS] = "{bos}",         [EOS] = "{eos}",
	[TRIM] = "{trim}",       [END_TRIM] = "{/trim}",
};

static enum word word_at(const char *form)
{
	enum word k = CONTENT;

	while (k < NO_WORD && strncmp(form, words[k], strlen(words[k])))
		k++;

	return k;
}

/* What a word of a form stands for. *trim: where {trim} was. */
static void put_word(struct render *r, enum word word, const struct zr_chat_message *m,
		     size_t *trim)
{
	switch (word) {
	case CONTENT:
	case TRIMMED_CONTENT:
		put_content(r, m, word == TRIMMED_CONTENT);
		break;
	case SYSTEM:
		if (r->system)
			put_bytes(r, r->system->text, r->system->n);
		break;
	case ROLE:
		put_text(r, roles[m ? m->role : ZR_CHAT_ASSISTANT]);
		break;
	case BOS:
		put_text(r, r->t->bos);
		break;
	case EOS:
		put_text(r, r->t->eos);
		break;
	case TRIM:
		*trim = r->out->text.n;
		break;
	case END_TRIM:
		trim_from(r, *trim);
		break;
	case NO_WORD:
		break;
	}
}

/* What `form` has up to `stop`, or to its end where that is NULL. */
static void put_form(struct render *r, const char *form, const char *stop,
		     const struct zr_chat_message *m)
{
	size_t trim = 0, n;

	if (!form)
		return;

	const char *end = stop ? stop : form + strlen(form);
	for (const char *p = form; p < end && !r->rc; p += n) {
		enum word word = word_at(p);
		if (word < NO_WORD) {
			put_word(r, word, m, &trim);
			n = strlen(words[word]);
			continue;
		}

		n = 1 + strcspn(p + 1, "{");
		if (n > (size_t)(end - p))
			n = (size_t)(end - p);
		put_bytes(r, p, n);
	}
}

/* Where what is learned of the answer begins. */
static size_t span_start(const struct render *r)
{
	const unsigned line = ZR_CHAT_LIKE_TRL | ZR_CHAT_TRL_LINE;

	if ((r->t->rules & line) != line || !r->start || r->out->text.p[r->start - 1] != '\n')
		return r->start;
	return r->start - 1;
}

/* And where it ends. */
static size_t span_end(const struct render *r)
{
	const struct zr_buf *text = &r->out->text;
	size_t to = text->n;

	if (r->t->rules & ZR_CHAT_LIKE_TRL)
		return to;

	while (to > r->content && strchr(" \t\r\n", text->p[to - 1]))
		to--;

	return to;
}

static void put_span(struct render *r, size_t message)
{
	struct zr_chat_text *o = r->out;

	if (r->rc)
		return;

	const size_t from = span_start(r), to = span_end(r);
	if (from == to)
		return;
	if (o->n == o->room) {
		size_t room = o->room ? 2 * o->room : 16;
		struct zr_chat_span *more = realloc(o->span, room * sizeof *more);
		if (!more) {
			r->rc = ZR_ENOMEM;
			return;
		}

		o->span = more;
		o->room = room;
	}

	o->span[o->n++] = (struct zr_chat_span){ from, to, message };
}

/* What stands behind all messages, n of them. */
static void put_end(struct render *r, size_t n)
{
	struct zr_chat_text *o = r->out;

	put_form(r, r->t->end, NULL, NULL);
	if (!(r->t->rules & ZR_CHAT_LIKE_TRL) || !o->n)
		return;

	struct zr_chat_span *last = &o->span[o->n - 1];
	if (last->message + 1 == n)
		last->to = o->text.n;
}

/* ---- conversations ---- */

static int check(const struct zr_chat_template *t, const struct zr_chat_message *m, size_t n,
		 struct zr_error *err)
{
	size_t first = m[0].role == ZR_CHAT_SYSTEM;
	if (first && (t->rules & ZR_CHAT_NO_SYSTEM))
		return zr_err(err, ZR_EINVAL, "template %s has no system message", t->name);

	for (size_t i = first; i < n; i++) {
		if (m[i].role > ZR_CHAT_ASSISTANT)
			return zr_err(err, ZR_EINVAL,
				      "message %zu is of role %s, which template %s has not", i + 1,
				      roles[m[i].role], t->name);

		int wanted = (i - first) % 2 ? ZR_CHAT_ASSISTANT : ZR_CHAT_USER;
		if ((t->rules & ZR_CHAT_ALTERNATES) && m[i].role != wanted)
			return zr_err(err, ZR_EINVAL,
				      "message %zu is of role %s, and template %s wants %s here",
				      i + 1, roles[m[i].role], t->name, roles[wanted]);
		if (m[i].role == ZR_CHAT_SYSTEM && !t->later)
			return zr_err(err, ZR_EINVAL,
				      "message %zu is of role system, which template %s has first "
				      "only",
				      i + 1, t->name);
	}

	return 0;
}

/* Whether {system} is written in message i. */
static int has_system(const struct render *r, size_t i, size_t n)
{
	int last = (r->t->rules & ZR_CHAT_SYSTEM_LAST) != 0;
	return r->t->first && r->system && i == (last ? n - 1 : 1);
}

static void put_message(struct render *r, const struct zr_chat_message *m, size_t i, size_t n)
{
	const struct zr_chat_template *t = r->t;

	if (m[i].role == ZR_CHAT_ASSISTANT) {
		r->start = r->content = r->out->text.n;
		put_form(r, t->assistant, NULL, &m[i]);
		put_span(r, i);
	} else if (m[i].role == ZR_CHAT_USER) {
		put_form(r, has_system(r, i, n) ? t->first : t->user, NULL, &m[i]);
	} else if (m[i].n || !(t->rules & ZR_CHAT_NO_EMPTY_SYSTEM)) {
		put_form(r, i ? t->later : t->system, NULL, &m[i]);
	}
}

/* What is between message i and the one before it, but for a system message that is in `first`. */
static void put_between(struct render *r, size_t i)
{
	if (i && !(i == 1 && r->system && r->t->first))
		put_form(r, r->t->between, NULL, NULL);
}

/* The beginning of an answer, without spaces at its end: those are counted. */
static void put_prompt(struct render *r, size_t n)
{
	const char *form = r->t->assistant, *stop = NULL;
	struct zr_chat_text *out = r->out;

	put_between(r, n);
	size_t from = out->text.n;
	if (form)
		stop = strstr(form, "{content");
	if (stop)
		put_form(r, form, stop, NULL);
	for (; out->text.n > from && out->text.p[out->text.n - 1] == ' '; out->spaces++)
		out->text.n--;
}

int zr_chat_render(const struct zr_chat_template *t, const struct zr_chat_message *m, size_t n,
		   int prompt, struct zr_chat_text *out, struct zr_error *err)
{
	struct render r = { .t = t, .out = out };
	int rc = check(t, m, n, err);
	if (rc)
		return rc;

	out->text.n = out->n = out->spaces = 0;
	out->messages = n;
	if (m[0].role == ZR_CHAT_SYSTEM)
		r.system = m;
	put_form(&r, t->begin, NULL, NULL);
	if (!r.system)
		put_form(&r, t->no_system, NULL, NULL);
	for (size_t i = 0; i < n; i++) {
		int placed = m[i].role == ZR_CHAT_SYSTEM && t->first;
		put_between(&r, i);
		if (!placed)
			put_message(&r, m, i, n);
	}

	if (prompt)
		put_prompt(&r, n);
	else
		put_end(&r, n);
	if (r.rc)
		return zr_no_memory(err);

	return 0;
}

void zr_chat_text_free(struct zr_chat_text *t)
{
	zr_buf_free(&t->text);
	free(t->span);
	*t = (struct zr_chat_text){ 0 };
}
