/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - what each token of a document is, for people who look at it. The messages are written
 * again with marks inside of their texts: characters that Unicode keeps for programs themselves,
 * which no data has. Where the template writes the same but for the marks, they stand where the
 * texts do; where it does not, the text is not marked, and what it became is shown as what the
 * template writes. What tools and calls add is the difference to a text without them, where that is
 * one piece. Nothing is guessed.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/parts.h"

/* U+FDD0 opens a mark and U+FDD1 closes it; U+FDE0 to U+FDEF behind them are digits. */
#define OPEN     "\xef\xb7\x90"
#define CLOSE    "\xef\xb7\x91"
#define SIGN     3 /* bytes of each */
#define DIGITS   4
#define MARK     (SIGN * (1 + DIGITS))
#define MOST     (1u << (4 * DIGITS)) /* marks of a conversation */
#define NO_PLACE SIZE_MAX

/* Where the marks of a text stand: at its ends; inside of the white space there, which most
 * templates trim; nowhere. */
enum { AT_ENDS, INSIDE, OFF };

/* A text of a message that may be marked. */
struct leaf {
	size_t message; /* SIZE_MAX: of a tool's definition */
	int kind;
	int marked; /* AT_ENDS, INSIDE, OFF */
};

/* Bytes [from, to) of the text. */
struct region {
	size_t from, to, message;
	int kind;
};

struct marking {
	struct zr_chat_encoder *e;
	const struct zr_chat_message *m;
	size_t n;
	struct zr_buf leaf; /* struct leaf each, in the order of the walk */
	size_t at;          /* the next one of a walk */
	struct zr_buf text; /* one that is being marked */
	struct zr_chat_text out;
	struct zr_buf region; /* struct region each, in the order of the text */
	struct zr_buf ends;   /* size_t of each message, see keep_ends */
	struct zr_buf part;   /* struct region each: without a gap between */
	int failed;           /* no memory */
	struct zr_error *err;
};

static struct leaf *leaves(const struct marking *k)
{
	return (struct leaf *)(void *)k->leaf.p;
}

static size_t count_leaves(const struct marking *k)
{
	return k->leaf.n / sizeof(struct leaf);
}

static struct region *regions(const struct zr_buf *b)
{
	return (struct region *)(void *)b->p;
}

static size_t count_regions(const struct zr_buf *b)
{
	return b->n / sizeof(struct region);
}

static void add(struct marking *k, struct zr_buf *b, const void *p, size_t n)
{
	k->failed |= zr_buf_add(b, p, n) != 0;
}

static void free_marking(struct marking *k)
{
	zr_buf_free(&k->leaf);
	zr_buf_free(&k->text);
	zr_buf_free(&k->region);
	zr_buf_free(&k->ends);
	zr_buf_free(&k->part);
	zr_chat_text_free(&k->out);
}

/* ---- marks ---- */

static void put_mark(struct marking *k, const char *sign, size_t number)
{
	add(k, &k->text, sign, SIGN);
	for (int shift = 4 * (DIGITS - 1); shift >= 0; shift -= 4) {
		const char digit[] = { '\xef', '\xb7', (char)(0xa0 + ((number >> shift) & 15)) };
		add(k, &k->text, digit, SIGN);
	}
}

static int is_mark(const char *p, size_t n, const char *sign)
{
	return n >= MARK && !memcmp(p, sign, SIGN);
}

static size_t number_of(const char *p)
{
	size_t number = 0;

	for (int i = 1; i <= DIGITS; i++)
		number = number << 4 | (size_t)((unsigned char)p[i * SIGN + 2] & 15);
	return number;
}

static int is_space(char c)
{
	return c && strchr(" \t\r\n\v\f", c);
}

static void put_piece(struct marking *k, const char *p, size_t n, size_t message, int kind)
{
	size_t from = 0, to = n;

	while (from < n && is_space(p[from]))
		from++;
	while (to > from && is_space(p[to - 1]))
		to--;
	if (from == to || k->at == MOST) {
		add(k, &k->text, p, n);
		return;
	}

	if (k->at == count_leaves(k)) {
		const struct leaf leaf = { .message = message, .kind = kind };
		add(k, &k->leaf, &leaf, sizeof leaf);
	}

	const size_t number = k->at++;
	const int marked = k->failed ? OFF : leaves(k)[number].marked;
	if (marked == AT_ENDS) {
		from = 0;
		to = n;
	}

	add(k, &k->text, p, from);
	if (marked != OFF)
		put_mark(k, OPEN, number);
	add(k, &k->text, p + from, to - from);
	if (marked != OFF)
		put_mark(k, CLOSE, number);
	add(k, &k->text, p + to, n - to);
}

static const char *find(const char *p, size_t n, const char *word)
{
	return memmem(p, n, word, strlen(word));
}

/* A text in k->text, marked. Thoughts of an answer stand in tags, which templates take apart. */
static void mark_text(struct marking *k, const char *p, size_t n, size_t message, int kind,
		      int has_tags)
{
	static const char *const tag[] = { "<think>", "</think>" };
	const char *end = p + n;
	int inside = 0;

	k->text.n = 0;
	while (has_tags) {
		const char *at = find(p, (size_t)(end - p), tag[inside]);
		if (!at || (!inside && !find(at, (size_t)(end - at), tag[1])))
			break;
		put_piece(k, p, (size_t)(at - p), message, inside ? ZR_PART_THOUGHT : kind);
		add(k, &k->text, tag[inside], strlen(tag[inside]));
		p = at + strlen(tag[inside]);
		inside = !inside;
	}

	put_piece(k, p, (size_t)(end - p), message, kind);
}

/* The same string with marks. */
static json_t *marked_string(struct marking *k, const json_t *v, size_t message, int kind,
			     int has_tags)
{
	mark_text(k, json_string_value(v), json_string_length(v), message, kind, has_tags);
	if (k->failed)
		return NULL;

	json_t *made = k->text.n ? json_stringn(k->text.p, k->text.n) : json_string("");
	k->failed = !made;
	return made;
}

/* Marks a member of an object that is a text. */
static void mark_member(struct marking *k, json_t *of, const char *key, size_t message, int kind,
			int has_tags)
{
	const json_t *v = json_object_get(of, key);

	if (json_is_string(v))
		k->failed |= json_object_set_new(of, key,
						 marked_string(k, v, message, kind, has_tags)) != 0;
}

/* Marks all texts in a value; key: that of a member, NULL: all keys. */
static void mark_all(struct marking *k, json_t *v, const char *only, size_t message, int kind)
{
	const char *key;
	json_t *one;
	size_t i;
	void *next;

	json_array_foreach(v, i, one)
	{
		if (json_is_string(one) && !only)
			k->failed |=
				json_array_set_new(v, i, marked_string(k, one, message, kind, 0));
		else
			mark_all(k, one, only, message, kind);
	}

	json_object_foreach_safe(v, next, key, one)
	{
		if (!json_is_string(one))
			mark_all(k, one, only, message, kind);
		else if (!only || !strcmp(only, key))
			mark_member(k, v, key, message, kind, 0);
	}
}

static void mark_calls(struct marking *k, json_t *calls, size_t message)
{
	json_t *one;
	size_t i;

	json_array_foreach(calls, i, one)
	{
		json_t *function = json_object_get(one, "function");
		json_t *of = json_is_object(function) ? function : one;

		mark_member(k, of, "name", message, ZR_PART_CALL, 0);
		mark_member(k, of, "arguments", message, ZR_PART_CALL, 0);
		mark_all(k, json_object_get(of, "arguments"), NULL, message, ZR_PART_CALL);
	}
}

static void mark_message(struct marking *k, json_t *m, size_t i)
{
	static const char *const thoughts[] = { "reasoning_content", "reasoning", "thinking" };
	const int answers = k->m[i].role == ZR_CHAT_ASSISTANT;

	for (size_t t = 0; t < sizeof thoughts / sizeof *thoughts; t++)
		mark_member(k, m, thoughts[t], i, ZR_PART_THOUGHT, 0);
	mark_member(k, m, "content", i, ZR_PART_TEXT, answers);
	mark_all(k, json_object_get(m, "content"), "text", i, ZR_PART_TEXT);
	mark_calls(k, json_object_get(m, "tool_calls"), i);
}

static void mark_tools(struct marking *k, json_t *tools)
{
	json_t *one;
	size_t i;

	json_array_foreach(tools, i, one)
	{
		json_t *function = json_object_get(one, "function");

		mark_member(k, json_is_object(function) ? function : one, "name", SIZE_MAX,
			    ZR_PART_TOOLS, 0);
		mark_all(k, one, "description", SIZE_MAX, ZR_PART_TOOLS);
	}
}

/* ---- writing again ---- */

/* Writes n messages of JSON. tools: NULL: none. */
static int write_json(struct marking *k, const struct zr_chat_message *m, size_t n,
		      const json_t *tools)
{
	struct zr_chat_encoder *e = k->e;
	struct zr_error again = { 0 };
	int rc = zr_chat_turns_begin(&e->turns, tools, e->c.kwargs, k->err);

	if (!rc)
		rc = zr_chat_write_again(e, m, n, &k->out, k->err);
	if (zr_chat_turns_begin(&e->turns, e->c.tools, e->c.kwargs, &again)) {
		k->failed = 1;
		return ZR_ENOMEM;
	}

	return rc;
}

static int write_marked_json(struct marking *k, size_t n)
{
	struct zr_chat_message *m = malloc((n + 1) * sizeof *m);
	json_t *list = json_array();
	json_t *tools = k->e->c.tools ? json_deep_copy(k->e->c.tools) : NULL;
	int rc = ZR_ENOMEM;

	k->failed |= !m || !list || (k->e->c.tools && !tools);
	if (!k->failed)
		mark_tools(k, tools); /* first: fewer messages have the same numbers then */
	for (size_t i = 0; !k->failed && i < n; i++) {
		m[i] = k->m[i];
		m[i].json = json_deep_copy(k->m[i].json);
		k->failed |= json_array_append_new(list, m[i].json) != 0;
		if (!k->failed)
			mark_message(k, m[i].json, i);
	}

	if (!k->failed)
		rc = write_json(k, m, n, tools);
	json_decref(tools);
	json_decref(list);
	free(m);
	return rc;
}

static int write_marked_texts(struct marking *k, size_t n)
{
	struct zr_chat_message *m = calloc(n + 1, sizeof *m);
	char **made = calloc(n + 1, sizeof *made);
	int rc = ZR_ENOMEM;

	k->failed |= !m || !made;
	for (size_t i = 0; !k->failed && i < n; i++) {
		m[i] = k->m[i];
		mark_text(k, m[i].text, m[i].n, i, ZR_PART_TEXT, m[i].role == ZR_CHAT_ASSISTANT);
		made[i] = malloc(k->text.n + 1);
		k->failed |= !made[i];
		if (k->failed)
			break;
		if (k->text.n)
			memcpy(made[i], k->text.p, k->text.n);
		made[i][k->text.n] = 0;
		m[i].text = made[i];
		m[i].n = k->text.n;
	}

	if (!k->failed)
		rc = zr_chat_write_again(k->e, m, n, &k->out, k->err);
	for (size_t i = 0; made && i < n; i++)
		free(made[i]);
	free(made);
	free(m);
	return rc;
}

/* Writes the first n messages to k->out, with marks of the leaves that are on. */
static int write_marked(struct marking *k, size_t n)
{
	k->at = 0;
	if (zr_chat_is_by_jinja(k->e))
		return write_marked_json(k, n);

	return write_marked_texts(k, n);
}

/* ---- where the marks are ---- */

static void keep_region(struct marking *k, size_t number, size_t from, size_t to)
{
	const struct leaf *leaf = &leaves(k)[number];
	const struct region r = { from, to, leaf->message, leaf->kind };

	if (from < to)
		add(k, &k->region, &r, sizeof r);
}

/* Takes the marks out of k->out, and keeps the regions that they stand around. */
static void take_marks(struct marking *k)
{
	struct zr_buf *text = &k->out.text;
	size_t to = 0, open = NO_PLACE, number = 0;

	k->region.n = 0;
	for (size_t at = 0; at < text->n;) {
		const char *p = text->p + at;
		const int opens = is_mark(p, text->n - at, OPEN);
		if (!opens && !is_mark(p, text->n - at, CLOSE)) {
			text->p[to++] = text->p[at++];
			continue;
		}

		const size_t is = number_of(p);
		if (!opens && open != NO_PLACE && is == number && is < count_leaves(k))
			keep_region(k, is, open, to);
		open = opens ? to : NO_PLACE;
		number = is;
		at += MARK;
	}

	text->n = to;
}

/* Whether the template writes the same with the marks that are on. */
static int is_same(struct marking *k)
{
	const struct zr_buf *text = &k->e->text.text;

	if (write_marked(k, k->n) || k->failed)
		return 0;

	take_marks(k);
	return k->out.text.n == text->n && !memcmp(k->out.text.p, text->p, text->n);
}

static void switch_leaves(struct marking *k, size_t from, size_t to, int marked)
{
	for (size_t i = from; i < to; i++)
		leaves(k)[i].marked = marked;
}

/* Marks those of the leaves [from, to), which are off, where that changes nothing. */
static void try_leaves(struct marking *k, size_t from, size_t to)
{
	for (int marked = AT_ENDS; marked < OFF && !k->failed; marked++) {
		switch_leaves(k, from, to, marked);
		if (is_same(k))
			return;
	}

	switch_leaves(k, from, to, OFF);
	if (to - from < 2 || k->failed)
		return;

	const size_t half = from + (to - from) / 2;
	try_leaves(k, from, half);
	try_leaves(k, half, to);
}

/* Whether a text has characters that marks are made of. */
static int has_signs(const struct zr_buf *text)
{
	for (const char *p = text->p, *end = p + text->n; p < end; p++) {
		p = memchr(p, '\xef', (size_t)(end - p));
		if (!p)
			return 0;
		if (end - p >= SIGN && p[1] == '\xb7' && (unsigned char)p[2] >= 0x90 &&
		    (unsigned char)p[2] <= 0xaf)
			return 1;
	}

	return 0;
}

static void find_regions(struct marking *k)
{
	const int is_marked = is_same(k), signs = has_signs(&k->e->text.text);
	const size_t n = count_leaves(k);

	if (k->failed || (is_marked && !signs))
		return;
	if (signs) {
		switch_leaves(k, 0, n, OFF);
		k->region.n = 0;
		return;
	}

	switch_leaves(k, 0, n, OFF);
	try_leaves(k, 0, n);
	if (k->failed || is_same(k))
		return;

	switch_leaves(k, 0, n, OFF);
	k->region.n = 0;
}

/* ---- calls and tools ---- */

/* One call, or all tools, are one region: what stands between their texts is theirs. */
static void join_regions(struct marking *k)
{
	struct region *r = regions(&k->region);
	size_t n = 0;

	for (size_t i = 0; i < count_regions(&k->region); i++) {
		struct region *last = n ? &r[n - 1] : NULL;
		const int joins = r[i].kind == ZR_PART_CALL || r[i].kind == ZR_PART_TOOLS;
		if (joins && last && last->kind == r[i].kind && last->message == r[i].message)
			last->to = r[i].to;
		else
			r[n++] = r[i];
	}

	k->region.n = n * sizeof *r;
}

/* The one piece that the text has more than k->out, as far to the left as it may stand. */
static int find_added(const struct marking *k, size_t *from, size_t *to)
{
	const struct zr_buf *text = &k->e->text.text, *less = &k->out.text;
	size_t before = 0, behind = 0;

	if (less->n >= text->n)
		return 0;
	while (before < less->n && text->p[before] == less->p[before])
		before++;
	while (behind < less->n && text->p[text->n - 1 - behind] == less->p[less->n - 1 - behind])
		behind++;
	if (before + behind < less->n)
		return 0;

	*from = less->n - behind;
	*to = text->n - behind;
	return 1;
}

/* Makes a region of what `kind` adds, in place of those in it. */
static void widen(struct marking *k, size_t message, int kind, size_t from, size_t to)
{
	const struct region wide = { from, to, message, kind };
	struct zr_buf old = k->region;
	int placed = 0;

	for (size_t i = 0; i < count_regions(&old); i++) {
		const struct region *r = &regions(&old)[i];
		const int inside = r->from >= from && r->to <= to;
		if (inside ? r->kind != kind || r->message != message :
			     r->from < to && r->to > from)
			return; /* it is not theirs alone */
	}

	k->region = (struct zr_buf){ 0 };
	for (size_t i = 0; i < count_regions(&old); i++) {
		const struct region *r = &regions(&old)[i];
		if (!placed && r->to > from) {
			add(k, &k->region, &wide, sizeof wide);
			placed = 1;
		}
		if (r->from < from || r->to > to)
			add(k, &k->region, r, sizeof *r);
	}

	if (!placed)
		add(k, &k->region, &wide, sizeof wide);
	zr_buf_free(&old);
}

static void widen_calls(struct marking *k, struct zr_chat_message *m, size_t i)
{
	json_t *whole = m[i].json, *less = json_deep_copy(whole);
	size_t from, to;

	k->failed |= !less || json_object_del(less, "tool_calls");
	m[i].json = less;
	if (!k->failed && !zr_chat_write_again(k->e, m, k->n, &k->out, k->err) &&
	    find_added(k, &from, &to))
		widen(k, i, ZR_PART_CALL, from, to);
	m[i].json = whole;
	json_decref(less);
}

/* All that calls and tools add, where the template writes it as one piece. */
static void widen_regions(struct marking *k)
{
	struct zr_chat_message *m = malloc((k->n + 1) * sizeof *m);
	size_t from, to;

	k->failed |= !m;
	if (!k->failed)
		memcpy(m, k->m, k->n * sizeof *m);
	for (size_t i = 0; !k->failed && i < k->n; i++)
		if (json_array_size(json_object_get(m[i].json, "tool_calls")))
			widen_calls(k, m, i);
	if (!k->failed && k->e->c.tools && !write_json(k, m, k->n, NULL) &&
	    find_added(k, &from, &to))
		widen(k, SIZE_MAX, ZR_PART_TOOLS, from, to);
	free(m);
}

/* ---- which message the text between them is of ---- */

/* Where message i ends: behind its last region stands what the template writes behind it where it
 * is the last message. NO_PLACE: nobody can tell. */
static size_t end_of_message(struct marking *k, size_t i, size_t last)
{
	const struct zr_buf *text = &k->e->text.text;
	const struct zr_buf found = k->region;
	size_t end = NO_PLACE;

	k->region = (struct zr_buf){ 0 };
	if (!write_marked(k, i + 1) && !k->failed)
		take_marks(k);
	for (size_t r = count_regions(&k->region); r-- > 0;)
		if (regions(&k->region)[r].message == i) {
			const size_t from = regions(&k->region)[r].to;
			const size_t n = k->out.text.n - from;
			if (n <= text->n - last && !memcmp(k->out.text.p + from, text->p + last, n))
				end = last + n;
			break;
		}

	zr_buf_free(&k->region);
	k->region = found;
	return end;
}

static void add_part(struct marking *k, size_t from, size_t to, size_t message, int kind)
{
	const struct region r = { from, to, message, kind };

	if (from < to)
		add(k, &k->part, &r, sizeof r);
}

/* Where the last text of each message ends, as its marks have it. */
static void keep_ends(struct marking *k)
{
	const size_t none = NO_PLACE;

	for (size_t i = 0; i < k->n; i++)
		add(k, &k->ends, &none, sizeof none);
	for (size_t r = 0; !k->failed && r < count_regions(&k->region); r++) {
		const struct region *is = &regions(&k->region)[r];
		if (is->message < k->n)
			((size_t *)(void *)k->ends.p)[is->message] = is->to;
	}
}

/* The text between two regions: of the message before up to where that ends, then of the next. */
static void add_gap(struct marking *k, size_t from, size_t to, size_t before, size_t ends,
		    size_t next)
{
	if (before == next) {
		add_part(k, from, to, before, ZR_PART_TEMPLATE);
		return;
	}

	if (ends == NO_PLACE || ends < from || ends > to) {
		add_part(k, from, to, SIZE_MAX, ZR_PART_TEMPLATE);
		return;
	}

	add_part(k, from, ends, before, ZR_PART_TEMPLATE);
	add_part(k, ends, to, next == before + 1 ? next : SIZE_MAX, ZR_PART_TEMPLATE);
}

/* The message of the first region from the i-th on that is no tool's; k->n: there is none. */
static size_t next_message(const struct marking *k, size_t i)
{
	for (; i < count_regions(&k->region); i++)
		if (regions(&k->region)[i].message != SIZE_MAX)
			return regions(&k->region)[i].message;

	return k->n;
}

/* Where the first message begins: what the template writes before its text is what it writes before
 * a second one like it. NO_PLACE: nobody can tell. from: where its text begins. Tools are left out,
 * as they are written once. */
static size_t start_of_first(struct marking *k, size_t from)
{
	struct zr_chat_encoder *e = k->e;
	const struct zr_chat_message twice[] = { k->m[0], k->m[0] };
	const json_t *tools = e->c.tools;
	struct marking again = { .e = e, .m = twice, .err = k->err };
	const struct zr_buf *both = &again.out.text;
	struct zr_buf once = { 0 };
	size_t start = NO_PLACE;

	e->c.tools = NULL;
	int rc = write_marked(&again, 1);
	take_marks(&again);
	if (rc || again.failed || !again.region.n)
		goto out;

	const size_t text = regions(&again.region)[0].from, n = both->n, behind = n - text;
	add(&again, &once, both->p, n);
	rc = write_marked(&again, 2);
	take_marks(&again);
	if (rc || again.failed || both->n < n + behind || both->n - n - behind > from)
		goto out;

	const size_t head = both->n - n - behind;
	if (!memcmp(both->p, once.p, n) &&
	    !memcmp(both->p + both->n - behind, once.p + text, behind) &&
	    !memcmp(both->p + n, e->text.text.p + from - head, head))
		start = from - head;
out:
	e->c.tools = tools;
	k->failed |= again.failed;
	free_marking(&again);
	zr_buf_free(&once);
	return start;
}

/* Regions and what stands between them. */
static void make_parts(struct marking *k)
{
	size_t at = 0, before = SIZE_MAX, ends = NO_PLACE;

	for (size_t i = 0; i < count_regions(&k->region); i++) {
		const struct region r = regions(&k->region)[i];
		if (r.message == SIZE_MAX)
			continue;
		if (!r.message)
			ends = start_of_first(k, r.from);
		break;
	}

	for (size_t i = 0; i < count_regions(&k->region) && !k->failed; i++) {
		const struct region r = regions(&k->region)[i];
		add_gap(k, at, r.from, before, ends, next_message(k, i));
		add_part(k, r.from, r.to, r.message, r.kind);
		at = r.to;
		if (r.message == SIZE_MAX)
			continue;
		if (r.message != before)
			ends = end_of_message(k, r.message,
					      ((size_t *)(void *)k->ends.p)[r.message]);
		before = r.message;
	}

	add_gap(k, at, k->e->text.text.n, before, ends, k->n);
}

/* ---- parts ---- */

static void keep_part(struct marking *k, size_t token, const struct region *r)
{
	static const char *const roles[] = { "system", "user", "assistant", "tool", "developer" };
	struct zr_part part = { .from = (int64_t)token, .kind = r->kind, .message = -1 };

	if (r->message < k->n) {
		part.role = roles[k->m[r->message].role];
		part.message = (int32_t)r->message;
	}

	add(k, &k->e->parts, &part, sizeof part);
}

/* From bytes to tokens. Parts without a token of their own go. */
static int keep_parts(struct marking *k)
{
	const struct region *r = regions(&k->part);
	const size_t n = count_regions(&k->part), tokens = k->e->learned.n;
	size_t *place = calloc(n + 1, sizeof *place);
	int rc = 0;

	if (!place)
		return zr_no_memory(k->err);

	for (size_t i = 0; i < n; i++)
		place[i] = r[i].from;
	rc = zr_chat_tokens_at(k->e, place, n, k->err);
	place[0] = 0;
	for (size_t i = 0; !rc && i < n; i++)
		if (place[i] < (i + 1 < n ? place[i + 1] : tokens))
			keep_part(k, place[i], &r[i]);
	free(place);
	return rc;
}

/* A text without template. */
static void keep_plain(struct marking *k)
{
	const struct zr_part part = { .kind = ZR_PART_TEXT, .message = -1 };
	add(k, &k->e->parts, &part, sizeof part);
}

static size_t count_unknown(const struct marking *k)
{
	size_t n = 0;

	for (size_t i = 0; i < count_leaves(k); i++)
		n += leaves(k)[i].marked == OFF;

	return n;
}

static int find_parts(struct marking *k)
{
	find_regions(k);
	const size_t unknown = count_unknown(k);
	if (!k->failed)
		keep_ends(k);
	join_regions(k);
	if (!k->failed && zr_chat_is_by_jinja(k->e))
		widen_regions(k);
	if (!k->failed)
		make_parts(k);
	k->at = unknown;
	if (k->failed)
		return zr_no_memory(k->err);

	return keep_parts(k);
}

int zr_chat_parts(const struct zr_chat_look *look, const struct zr_part **part, size_t *n,
		  size_t *unknown, struct zr_error *err)
{
	struct zr_chat_encoder *e = look->encoder;
	struct zr_error why = { 0 };
	struct marking k = { .e = e, .n = e->text.messages, .err = &why };
	int rc = 0;

	k.m = e->written;
	e->parts.n = 0;
	if (k.m)
		rc = find_parts(&k);
	else
		keep_plain(&k);
	if (!rc && k.failed)
		rc = zr_no_memory(&why);
	if (rc)
		zr_err(err, rc, "%s", why.text);

	*part = (const void *)e->parts.p;
	*n = e->parts.n / sizeof **part;
	*unknown = k.m ? k.at : 0;
	free_marking(&k);
	return rc;
}
