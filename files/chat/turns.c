/* SPDX-License-Identifier: Apache-2.0
 *
 * turns.c - see turns.h.
 */
#include "files/chat/turns.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- renderings ---- */

/* Copies of what all conversations share: no count of users is shared by threads. */
static int copy_variables(struct zr_chat_turns *t, const json_t *kwargs, struct zr_error *err)
{
	if (t->has_own || kwargs || !t->variables) {
		json_decref(t->variables);
		t->variables = json_deep_copy(t->of->variables);
	}

	t->has_own = kwargs != NULL;
	if (!t->variables || (kwargs && json_object_update(t->variables, (json_t *)kwargs)))
		return zr_no_memory(err);

	return 0;
}

int zr_chat_turns_begin(struct zr_chat_turns *t, const json_t *tools, const json_t *kwargs,
			struct zr_error *err)
{
	const struct zr_chat_jinja *of = t->of;
	int rc = copy_variables(t, kwargs, err);

	t->of_starts = NULL;
	if (rc)
		return rc;

	t->template = of->usual;
	if (tools && of->with_tools)
		t->template = of->with_tools;
	if (json_object_set_new(t->variables, "documents", json_null()))
		return zr_no_memory(err);
	if (tools && json_object_set(t->variables, "tools", (json_t *)tools))
		return zr_no_memory(err);
	if (!tools && json_object_set_new(t->variables, "tools", json_null()))
		return zr_no_memory(err);

	return 0;
}

static int set_messages(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
			int prompt, struct zr_error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append(list, m[i].json)) {
			json_decref(list);
			return zr_no_memory(err);
		}

	if (json_object_set_new(t->variables, "messages", list) ||
	    json_object_set_new(t->variables, "add_generation_prompt", json_boolean(prompt)))
		return zr_no_memory(err);

	return 0;
}

static int render(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n, int prompt,
		  struct zr_error *err)
{
	int rc = set_messages(t, m, n, prompt, err);
	if (rc)
		return rc;

	return zr_jinja_render(t->template, t->variables, t->of->date, &t->work, err);
}

/* Moves what was rendered to a text of its own. */
static void take(struct zr_buf *to, struct zr_buf *from)
{
	const struct zr_buf empty = *to;

	*to = *from;
	*from = empty;
	from->n = 0;
}

int zr_chat_turns_text(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		       int prompt, struct zr_chat_text *out, struct zr_error *err)
{
	int rc = render(t, m, n, prompt, err);
	if (rc)
		return rc;

	out->n = out->spaces = 0;
	out->messages = n;
	take(&out->text, &t->work.text);
	return 0;
}

/* ---- spans ---- */

/* A rendering of the first messages, as its length and hash: many texts are compared with it. */
struct start {
	int known;
	size_t n;
	XXH128_hash_t hash;
};

/* Forgets renderings of other messages than these. */
static int prepare_starts(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
			  struct zr_error *err)
{
	const size_t bytes = 2 * (n + 1) * sizeof(struct start);

	if (t->of_starts == m && t->n_starts == n)
		return 0;

	t->starts.n = 0;
	if (zr_buf_reserve(&t->starts, bytes))
		return zr_no_memory(err);

	memset(t->starts.p, 0, bytes);
	t->starts.n = bytes;
	t->of_starts = m;
	t->n_starts = n;
	return 0;
}

/* Whether the text begins as the first n messages are rendered, and to which byte. */
static int begins_with(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		       int prompt, const struct zr_buf *text, int *is, size_t *to,
		       struct zr_error *err)
{
	struct start *s = (struct start *)(void *)t->starts.p + 2 * n + (size_t)prompt;

	if (!s->known) {
		int rc = render(t, m, n, prompt, err);
		if (rc)
			return rc;

		s->n = t->work.text.n;
		s->hash = XXH3_128bits(t->work.text.p, s->n);
		s->known = 1;
	}

	*to = s->n;
	*is = s->n <= text->n && XXH128_isEqual(s->hash, XXH3_128bits(text->p, s->n));
	return 0;
}

static int add_span(struct zr_chat_text *out, size_t from, size_t to, size_t message,
		    struct zr_error *err)
{
	if (out->n == out->room) {
		const size_t room = 2 * out->room + 4;
		struct zr_chat_span *more = realloc(out->span, room * sizeof *more);
		if (!more)
			return zr_no_memory(err);

		out->span = more;
		out->room = room;
	}

	out->span[out->n++] = (struct zr_chat_span){ from, to, message };
	return 0;
}

/* The end of a span without the white space at its end, but for a span of nothing else. */
static size_t without_spaces(const struct zr_buf *text, size_t from, size_t to)
{
	const size_t end = to;

	while (to > from && strchr(" \t\n\r", text->p[to - 1]) && text->p[to - 1])
		to--;

	return to > from ? to : end;
}

/* Where answer i stands in the text of out: behind the prompt for it; where that is not how the
 * template writes it, behind the message before, if there is one. *is: it is written there as where
 * it is last. */
static int find_answer(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t i,
		       const struct zr_chat_text *out, struct zr_chat_span *at, int *is,
		       struct zr_error *err)
{
	int rc = 0;

	*is = 0;
	at->message = i;
	for (int prompt = 1; !rc && !*is && prompt >= (i == 0); prompt--)
		rc = begins_with(t, m, i, prompt, &out->text, is, &at->from, err);
	if (rc || !*is)
		return rc;

	rc = begins_with(t, m, i + 1, 0, &out->text, is, &at->to, err);
	*is = *is && at->to > at->from;
	if (!rc && *is && !t->of->like_trl)
		at->to = without_spaces(&out->text, at->from, at->to);

	return rc;
}

/* The answers that are wanted and stand in the text of `end` messages. */
static int find_answers(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t end,
			const uint8_t *state, struct zr_chat_text *out, struct zr_error *err)
{
	const int each = t->of->turns == ZR_TURNS_EACH;
	int rc = 0;

	for (size_t i = each ? end - 1 : 0; !rc && i < end; i++) {
		struct zr_chat_span at = { 0 };
		int is = 0;
		if (state[i] != ZR_TURN_WANTED)
			continue;
		rc = find_answer(t, m, i, out, &at, &is, err);
		if (!rc && is)
			rc = add_span(out, at.from, at.to, i, err);
	}

	return rc;
}

static int cannot_tell(size_t i, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL,
		      "message %zu: what the template writes of it does not come behind what it "
		      "writes without it, so that nobody can tell what is learned; a template with "
		      "generation blocks says that itself",
		      i + 1);
}

/* With turns = whole each answer is learned in the text of all. */
static int check_whole(const struct zr_chat_turns *t, size_t n, const uint8_t *state,
		       const struct zr_chat_text *out, struct zr_error *err)
{
	size_t k = 0;

	for (size_t i = 0; t->of->turns == ZR_TURNS_WHOLE && i < n; i++) {
		if (state[i] != ZR_TURN_WANTED)
			continue;
		if (k < out->n && out->span[k].message == i) {
			k++;
			continue;
		}

		return zr_err(err, ZR_EINVAL,
			      "message %zu: the template writes it in another way where others "
			      "follow: turns = auto, or each, learns it in a text of its own",
			      i + 1);
	}

	return 0;
}

/* By the difference of renderings. last: the last answer that is wanted. */
static int by_difference(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
			 size_t last, const uint8_t *state, struct zr_chat_text *out,
			 struct zr_error *err)
{
	const size_t ends[] = { t->of->turns == ZR_TURNS_EACH ? last + 1 : n, last + 1 };
	int rc = prepare_starts(t, m, n, err);

	for (int k = 0; !rc && k < 2; k++) {
		rc = zr_chat_turns_text(t, m, ends[k], 0, out, err);
		if (!rc)
			rc = find_answers(t, m, ends[k], state, out, err);
		if (!rc)
			rc = check_whole(t, n, state, out, err);
		if (rc)
			return rc;
		if (out->n && out->span[out->n - 1].message == last)
			return 0;
	}

	if (rc)
		return rc;

	return cannot_tell(last, err);
}

/* ---- generation blocks ---- */

static size_t count_spans(const struct zr_chat_turns *t)
{
	return t->work.spans.n / sizeof(struct zr_jinja_span);
}

/* How many generation blocks the first n messages have. */
static int count_blocks(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
			size_t *to, struct zr_error *err)
{
	int rc = 0;

	*to = 0;
	if (n)
		rc = render(t, m, n, 0, err);
	if (!rc && n)
		*to = count_spans(t);

	return rc;
}

/* Which message each block is of, where that matters: the answers among [0, n) in their order, as
 * many blocks as each adds. */
static int assign_blocks(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
			 struct zr_chat_text *out, struct zr_error *err)
{
	size_t at = 0, has;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		if (m[i].role != ZR_CHAT_ASSISTANT)
			continue;
		rc = count_blocks(t, m, i + 1, &has, err);
		if (!rc && (has < at || has > out->n))
			break;
		for (; !rc && at < has; at++)
			out->span[at].message = i;
	}

	if (!rc && at < out->n)
		return zr_err(err, ZR_EINVAL,
			      "the generation blocks of the template do not follow the answers, so "
			      "that some of them alone cannot be learned");

	return rc;
}

static int has_all(const struct zr_chat_message *m, size_t n, const uint8_t *state)
{
	for (size_t i = 0; i < n; i++)
		if (m[i].role == ZR_CHAT_ASSISTANT && state[i] != ZR_TURN_WANTED)
			return 0;

	return 1;
}

/* Only the blocks of answers that are wanted stay. */
static void keep_wanted(struct zr_chat_text *out, const uint8_t *state, size_t only)
{
	size_t n = 0;

	for (size_t i = 0; i < out->n; i++) {
		const size_t message = out->span[i].message;
		if (state[message] == ZR_TURN_WANTED && (only == SIZE_MAX || message == only))
			out->span[n++] = out->span[i];
	}

	out->n = n;
}

static int by_blocks(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		     size_t last, uint8_t *state, struct zr_chat_text *out, struct zr_error *err)
{
	const int each = t->of->turns == ZR_TURNS_EACH;
	const size_t end = each ? last + 1 : n;
	int rc = render(t, m, end, 0, err);

	if (rc)
		return rc;
	if (t->work.lost)
		return zr_err(err, ZR_EINVAL,
			      "a generation block of the template is in a macro or in a block of "
			      "set: where its text stands is not known");

	out->n = out->spaces = 0;
	out->messages = end;
	for (size_t i = 0; !rc && i < count_spans(t); i++) {
		struct zr_jinja_span s;
		memcpy(&s, t->work.spans.p + i * sizeof s, sizeof s);
		rc = add_span(out, s.from, s.to, last, err);
	}

	take(&out->text, &t->work.text);
	if (!rc && (each || !has_all(m, n, state))) {
		rc = assign_blocks(t, m, end, out, err);
		if (!rc)
			keep_wanted(out, state, each ? last : SIZE_MAX);
	}

	if (rc)
		return rc;

	for (size_t i = 0; i < n; i++)
		if (state[i] == ZR_TURN_WANTED && (!each || i == last))
			state[i] = ZR_TURN_TAKEN;

	return 0;
}

int zr_chat_turns_next(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		       uint8_t *state, struct zr_chat_text *out, struct zr_error *err)
{
	size_t last = n;

	while (last && state[last - 1] != ZR_TURN_WANTED)
		last--;
	if (!last)
		return zr_chat_turns_text(t, m, n, 0, out, err);
	if (zr_jinja_generates(t->template))
		return by_blocks(t, m, n, last - 1, state, out, err);

	int rc = by_difference(t, m, n, last - 1, state, out, err);
	for (size_t i = 0; !rc && i < out->n; i++)
		state[out->span[i].message] = ZR_TURN_TAKEN;

	return rc;
}

void zr_chat_turns_free(struct zr_chat_turns *t)
{
	json_decref(t->variables);
	zr_jinja_work_free(&t->work);
	zr_buf_free(&t->starts);
	*t = (struct zr_chat_turns){ 0 };
}
