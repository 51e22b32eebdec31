/* SPDX-License-Identifier: Apache-2.0
 *
 * encode.c - see parts.h. What is too long is left out, or loses its oldest turns: the system
 * message stays, the last turn of a user and what answers it are never cut.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/parts.h"

#define PIECE (1 << 20) /* bytes encoded at a time */
#define SMALL (1 << 22) /* bytes that may stay in a buffer */

static void shrink(struct zr_buf *b)
{
	if (b->room > SMALL)
		zr_buf_free(b);
}

static size_t count(const struct zr_chat_encoder *e)
{
	return e->ids.n / sizeof(int32_t);
}

static int keep_ids(void *arg, const int32_t *ids, size_t n)
{
	struct zr_chat_encoder *e = arg;
	return zr_buf_add(&e->ids, ids, n * sizeof *ids);
}

static int encode_bytes(struct zr_chat_encoder *e, const char *p, size_t n, struct zr_error *err)
{
	int rc = 0;

	for (size_t at = 0, m; !rc && at < n; at += m) {
		m = n - at;
		if (m > PIECE)
			m = PIECE;
		rc = zr_encode(e->e, p + at, m, err);
	}

	if (!rc)
		rc = zr_encode_end(e->e, err);
	if (!rc)
		return 0;

	zr_encoder_close(e->e); /* another one takes its place */
	e->e = NULL;
	if (rc == ZR_ENOMEM)
		return zr_no_memory(err);

	/* without a token, or of what the pre-tokenizer does not split */
	e->reason = rc == ZR_ENOTSUP ? ZR_CHAT_NO_TOKEN : ZR_CHAT_LONG;
	return ZR_EINVAL;
}

static int encode_text(struct zr_chat_encoder *e, struct zr_error *err)
{
	e->ids.n = 0;
	int rc = encode_bytes(e, e->text.text.p, e->text.text.n, err);
	if (!e->o->look)
		shrink(&e->text.text);
	return rc;
}

/* ---- what is learned ---- */

/* Whether an answer calls tools, or has thoughts. */
static int has_calls(const struct zr_chat_message *m)
{
	return json_array_size(json_object_get(m->json, "tool_calls")) > 0;
}

static int has_thoughts(const struct zr_chat_message *m)
{
	return json_string_length(json_object_get(m->json, "reasoning_content")) > 0;
}

static int is_learned(const struct zr_chat_encoder *e, const struct zr_chat_message *m, int is_last)
{
	if (m->ignored)
		return 0;

	switch (e->s->train_on) {
	case ZR_TRAIN_ASSISTANT:
		return 1;
	case ZR_TRAIN_COMPLETION:
		return m->completion;
	case ZR_TRAIN_LAST:
		return is_last;
	case ZR_TRAIN_CALLS:
		return has_calls(m);
	case ZR_TRAIN_THOUGHTS:
		return has_thoughts(m);
	default:
		return 0;
	}
}

/* Keeps the spans that are learned. */
static void choose_spans(struct zr_chat_encoder *e, const struct zr_chat_message *m)
{
	size_t n = 0;

	for (size_t i = 0; i < e->text.n; i++)
		if (is_learned(e, &m[e->text.span[i].message], i + 1 == e->text.n))
			n++;
		else
			e->text.span[i].to = e->text.span[i].from;
	for (size_t i = 0, k = 0; i < e->text.n; i++)
		if (e->text.span[i].to > e->text.span[i].from)
			e->text.span[k++] = e->text.span[i];
	e->text.n = n;
}

/* Flags of the tokens that have none yet. */
static int add_flags(struct zr_chat_encoder *e, int learned, struct zr_error *err)
{
	const size_t n = count(e), has = e->learned.n;
	if (n <= has)
		return 0;
	if (zr_buf_reserve(&e->learned, n - has))
		return zr_no_memory(err);

	memset(e->learned.p + has, learned, n - has);
	e->learned.n = n;
	return 0;
}

static void count_targets(struct zr_chat_encoder *e)
{
	e->targets = 0;
	for (size_t i = 1; i < e->learned.n; i++)
		e->targets += e->learned.p[i];
}

static int learn(struct zr_chat_encoder *e, int all, struct zr_error *err)
{
	size_t n = count(e);

	e->learned.n = 0;
	int rc = add_flags(e, all, err);
	if (rc)
		return rc;

	for (size_t i = 0; !all && i < e->text.n; i++)
		for (uint64_t k = zr_encoder_marked(e->e, 2 * i);
		     k < n && k <= zr_encoder_marked(e->e, 2 * i + 1); k++)
			e->learned.p[k] = 1;
	count_targets(e);
	return 0;
}

/* ---- documents ---- */

static int encode_part(struct zr_chat_encoder *e, size_t from, size_t to, int learned,
		       struct zr_error *err)
{
	int rc = 0;

	if (from < to)
		rc = encode_bytes(e, e->text.text.p + from, to - from, err);
	if (rc)
		return rc;

	return add_flags(e, learned, err);
}

/* Each answer, and what stands before it, as a text of its own (ZR_CHAT_APART). */
static int encode_apart(struct zr_chat_encoder *e, const struct zr_chat_message *m, int all,
			struct zr_error *err)
{
	const int32_t *before;
	const int has = zr_tokenizer_template(e->t, 0, &before, err);
	size_t at = 0;
	int rc = has < 0 ? has : 0;

	e->ids.n = e->learned.n = 0;
	if (!rc && has && zr_buf_add(&e->ids, before, (size_t)has * sizeof *before))
		return zr_no_memory(err);

	for (size_t i = 0; !rc && i < e->text.n; i++) {
		const struct zr_chat_span *s = &e->text.span[i];
		const int last = i + 1 == e->text.n;
		rc = encode_part(e, at, s->from, all, err);
		if (!rc)
			rc = encode_part(e, s->from, s->to,
					 all || is_learned(e, &m[s->message], last), err);
		at = s->to;
	}

	if (!rc)
		rc = encode_part(e, at, e->text.text.n, all, err);
	if (!rc)
		count_targets(e);

	return rc;
}

/* Tokenizes the text, of which the spans are learned, or all. */
static int encode_spans(struct zr_chat_encoder *e, int all, struct zr_error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && !all && i < e->text.n; i++) {
		rc = zr_encode_mark(e->e, e->text.span[i].from, 1, err);
		if (!rc)
			rc = zr_encode_mark(e->e, e->text.span[i].to - 1, 0, err);
	}

	if (!rc)
		rc = encode_text(e, err);
	if (rc)
		return rc;

	return learn(e, all, err);
}

static struct zr_chat_template template_of(const struct zr_chat_encoder *e)
{
	struct zr_chat_template t = e->s->template;

	if (e->c.input && t.with_input)
		t.no_system = t.with_input;
	return t;
}

static int encode_messages(struct zr_chat_encoder *e, const struct zr_chat_message *m, size_t n,
			   struct zr_error *err)
{
	const struct zr_chat_template t = template_of(e);
	int all = e->s->train_on == ZR_TRAIN_ALL;

	e->written = m;
	int rc = zr_chat_render(&t, m, n, 0, &e->text, err);
	if (rc)
		return rc;
	if (!e->o->max_length && !e->o->look)
		zr_conversation_drop(&e->c); /* it is not looked at again */
	if (t.rules & ZR_CHAT_APART)
		return encode_apart(e, m, all, err);

	choose_spans(e, m);
	return encode_spans(e, all, err);
}

/* ---- by a template of Jinja ---- */

int zr_chat_is_by_jinja(const struct zr_chat_encoder *e)
{
	return e->s->jinja.usual && (!e->s->has_forms || e->c.is_rich);
}

/* What is to be learned of the conversation, when none of it is yet. */
static int want_answers(struct zr_chat_encoder *e, struct zr_error *err)
{
	const struct zr_conversation *c = &e->c;
	size_t last = c->n;

	e->state.n = 0;
	if (zr_buf_reserve(&e->state, c->n))
		return zr_no_memory(err);

	while (last && c->m[last - 1].role != ZR_CHAT_ASSISTANT)
		last--;
	for (size_t i = 0; i < c->n; i++) {
		const struct zr_chat_message *m = &c->m[i];
		const int wanted = m->role == ZR_CHAT_ASSISTANT && is_learned(e, m, i + 1 == last);
		e->state.p[i] = wanted ? ZR_TURN_WANTED : ZR_TURN_LEFT;
	}

	e->state.n = c->n;
	return 0;
}

static int encode_jinja(struct zr_chat_encoder *e, const struct zr_chat_message *m, size_t n,
			uint8_t *state, struct zr_error *err)
{
	e->written = m;
	int rc = zr_chat_turns_next(&e->turns, m, n, state, &e->text, err);
	if (rc) {
		e->reason = ZR_CHAT_ORDER;
		e->state.n = 0; /* what is left of the conversation goes, too */
		return rc;
	}

	return encode_spans(e, e->s->train_on == ZR_TRAIN_ALL, err);
}

/* Puts ids before those of the text, unless they are there. */
static int put_in_front(struct zr_chat_encoder *e, const int32_t *before, size_t count,
			struct zr_error *err)
{
	size_t bytes = count * sizeof *before, n = e->ids.n;

	if (!bytes || (n >= bytes && !memcmp(e->ids.p, before, bytes)))
		return 0;
	if (zr_buf_add(&e->ids, before, bytes))
		return zr_no_memory(err);

	memmove(e->ids.p + bytes, e->ids.p, n);
	memcpy(e->ids.p, before, bytes);
	return 0;
}

/* A text without template: what the tokenizer puts before one, the text, the last token. */
static int encode_plain(struct zr_chat_encoder *e, const struct zr_chat_message *m,
			struct zr_error *err)
{
	const char *eos = e->s->template.eos ? e->s->template.eos : "";
	size_t len = strlen(eos);
	const int32_t *before;
	int has = zr_tokenizer_template(e->t, 0, &before, err);
	if (has < 0)
		return has;

	if (len <= m->n && !memcmp(m->text + m->n - len, eos, len))
		len = 0; /* the text ends with it */
	e->text.text.n = 0;
	if (zr_buf_add(&e->text.text, m->text, m->n) || zr_buf_add(&e->text.text, eos, len))
		return zr_no_memory(err);

	e->written = NULL;
	if (!e->o->look)
		zr_conversation_drop(&e->c);
	int rc = encode_text(e, err);
	if (!rc)
		rc = put_in_front(e, before, (size_t)has, err);
	if (!rc)
		rc = learn(e, 1, err);

	return rc;
}

static int fits(const struct zr_chat_encoder *e)
{
	return !e->o->max_length || (int64_t)count(e) <= e->o->max_length;
}

/* Where the k-th turn of a user starts, from 0; n: there is none. */
static size_t turn(const struct zr_conversation *c, size_t k)
{
	size_t i = c->m[0].role == ZR_CHAT_SYSTEM;
	for (size_t turns = 0; i < c->n; i++)
		if (c->m[i].role == ZR_CHAT_USER && turns++ == k)
			return i;

	return c->n;
}

/* The conversation from its k-th turn on, with its system message. */
static int encode_from(struct zr_chat_encoder *e, size_t k, struct zr_error *err)
{
	const struct zr_conversation *c = &e->c;
	size_t from = turn(c, k), first = c->m[0].role == ZR_CHAT_SYSTEM;

	e->kept.n = e->kept_state.n = 0;
	if (zr_buf_add(&e->kept, c->m, first * sizeof *c->m) ||
	    zr_buf_add(&e->kept, c->m + from, (c->n - from) * sizeof *c->m))
		return zr_no_memory(err);
	if (!zr_chat_is_by_jinja(e))
		return encode_messages(e, (const void *)e->kept.p, first + c->n - from, err);

	if (zr_buf_add(&e->kept_state, e->asked.p, first) ||
	    zr_buf_add(&e->kept_state, e->asked.p + from, c->n - from))
		return zr_no_memory(err);

	return encode_jinja(e, (const void *)e->kept.p, first + c->n - from,
			    (uint8_t *)e->kept_state.p, err);
}

/* As few turns go as need to. */
static int shorten(struct zr_chat_encoder *e, struct zr_error *err)
{
	size_t low = 1, high = 1;
	while (turn(&e->c, high) < e->c.n)
		high++;
	const size_t turns = high;
	while (low < high) {
		size_t k = (low + high) / 2;
		int rc = encode_from(e, k, err);
		if (rc)
			return rc;
		if (fits(e))
			high = k;
		else
			low = k + 1;
	}

	e->truncated = low < turns;
	e->lost = turn(&e->c, low) - turn(&e->c, 0);
	if (low < turns)
		return encode_from(e, low, err);

	return 0;
}

/* Why a conversation that could not be read is left out. */
static int reason_of(const char *word)
{
	if (!word || !strcmp(word, "roles"))
		return ZR_CHAT_ORDER;
	if (!strcmp(word, "json"))
		return ZR_CHAT_JSON;

	return ZR_CHAT_FIELDS;
}

/* A document of the conversation: the first one, or the next. */
static int encode_one(struct zr_chat_encoder *e, struct zr_error *err)
{
	int rc;

	e->truncated = 0;
	e->whole = e->lost = 0;
	if (e->c.plain) {
		rc = encode_plain(e, e->c.m, err);
	} else if (zr_chat_is_by_jinja(e)) {
		e->asked.n = 0;
		if (zr_buf_add(&e->asked, e->state.p, e->state.n))
			return zr_no_memory(err);
		rc = encode_jinja(e, e->c.m, e->c.n, (uint8_t *)e->state.p, err);
	} else {
		rc = encode_messages(e, e->c.m, e->c.n, err);
	}

	const size_t before = count(e);
	if (!rc && !fits(e) && !e->c.plain && !e->s->drops_long)
		rc = shorten(e, err);
	if (rc)
		return rc;
	if (e->truncated)
		e->whole = before;

	if (!fits(e)) {
		e->reason = ZR_CHAT_LONG;
		return zr_err(err, ZR_EINVAL, "%zu tokens, more than the %lld that were asked for",
			      before, (long long)e->o->max_length);
	}

	e->reason = ZR_CHAT_NO_TARGET;
	if (e->targets)
		return 0;

	return zr_err(err, ZR_EINVAL, "nothing in it is learned");
}

int zr_chat_has_more(const struct zr_chat_encoder *e)
{
	if (e->c.plain || !zr_chat_is_by_jinja(e) || !e->c.record || !e->state.n)
		return 0;

	return memchr(e->state.p, ZR_TURN_WANTED, e->state.n) != NULL;
}

int zr_chat_encode_more(struct zr_chat_encoder *e, struct zr_error *err)
{
	int rc = 0;

	if (!e->e)
		rc = zr_chat_encoder_open(e, err);
	if (rc)
		return rc;

	return encode_one(e, err);
}

int zr_chat_encode(struct zr_chat_encoder *e, const char *p, size_t n, struct zr_error *err)
{
	const char *word = NULL;
	int rc = 0;

	e->c.headed = e->s->headed;
	e->c.jinja = e->s->jinja.usual;
	e->c.with_tools = e->s->jinja.with_tools;
	e->c.has_forms = e->s->has_forms;
	e->turns.of = &e->s->jinja;
	e->state.n = 0;
	if (!e->e)
		rc = zr_chat_encoder_open(e, err);
	if (rc)
		return rc;

	rc = zr_conversation_read(&e->c, p, n, &e->s->fields, e->o->system, &word, err);
	e->reason = reason_of(word);
	if (rc)
		return rc;

	if (!e->c.plain && zr_chat_is_by_jinja(e)) {
		rc = zr_chat_turns_begin(&e->turns, e->c.tools, e->c.kwargs, err);
		if (!rc)
			rc = want_answers(e, err);
	}

	if (rc)
		return rc;

	return encode_one(e, err);
}

/* ---- looked at ---- */

int zr_chat_write_again(struct zr_chat_encoder *e, const struct zr_chat_message *m, size_t n,
			struct zr_chat_text *out, struct zr_error *err)
{
	if (zr_chat_is_by_jinja(e))
		return zr_chat_turns_text(&e->turns, m, n, 0, out, err);

	const struct zr_chat_template t = template_of(e);
	return zr_chat_render(&t, m, n, 0, out, err);
}

/* The tokens of those places that lie in [from, to), which is tokenized by itself: the first that
 * has no byte before the place. *k: the first
 * one; in the end, the first behind. */
static int places_in(struct zr_chat_encoder *e, size_t from, size_t to, size_t *place, size_t n,
		     size_t *k, struct zr_error *err)
{
	const size_t before = count(e), first = *k;
	int rc = 0;

	for (; !rc && *k < n && place[*k] < to; ++*k) {
		const size_t at = place[*k] - from;
		rc = zr_encode_mark(e->e, at - (at > 0), 0, err);
		if (!rc)
			rc = zr_encode_mark(e->e, at, 1, err);
	}

	if (!rc && from < to)
		rc = encode_bytes(e, e->text.text.p + from, to - from, err);
	for (size_t i = first; !rc && i < *k; i++) {
		const uint64_t last = zr_encoder_marked(e->e, 2 * (i - first));
		const uint64_t next = zr_encoder_marked(e->e, 2 * (i - first) + 1);
		const int is_shared = place[i] > from && last == next;
		place[i] = before + next + is_shared;
	}

	return rc;
}

int zr_chat_tokens_at(struct zr_chat_encoder *e, size_t *place, size_t n, struct zr_error *err)
{
	const int apart = !zr_chat_is_by_jinja(e) && (e->s->template.rules & ZR_CHAT_APART);
	const struct zr_buf ids = e->ids;
	size_t at = 0, k = 0;
	const int32_t *before;
	int rc = 0, has = 0;

	e->ids = (struct zr_buf){ 0 };
	if (apart)
		has = zr_tokenizer_template(e->t, 0, &before, err);
	if (has < 0)
		rc = has;
	if (!rc && has && zr_buf_add(&e->ids, before, (size_t)has * sizeof *before))
		rc = zr_no_memory(err);
	for (size_t i = 0; !rc && apart && i < e->text.n; i++) {
		const struct zr_chat_span *s = &e->text.span[i];
		rc = places_in(e, at, s->from, place, n, &k, err);
		if (!rc)
			rc = places_in(e, s->from, s->to, place, n, &k, err);
		at = s->to;
	}

	if (!rc)
		rc = places_in(e, at, e->text.text.n, place, n, &k, err);
	if (!rc && (e->ids.n != ids.n || memcmp(e->ids.p, ids.p, ids.n)))
		rc = zr_err(err, ZR_ESTATE, "the same text gave other tokens");
	zr_buf_free(&e->ids);
	e->ids = ids;
	return rc;
}

/* ---- life ---- */

int zr_chat_encoder_open(struct zr_chat_encoder *e, struct zr_error *err)
{
	return zr_encoder_open(e->t, keep_ids, e, &e->e, err);
}

void zr_chat_encoder_shrink(struct zr_chat_encoder *e)
{
	shrink(&e->ids);
	shrink(&e->learned);
	zr_conversation_free(&e->c);
}

void zr_chat_encoder_close(struct zr_chat_encoder *e)
{
	zr_encoder_close(e->e);
	zr_conversation_free(&e->c);
	zr_chat_text_free(&e->text);
	zr_chat_turns_free(&e->turns);
	zr_buf_free(&e->state);
	zr_buf_free(&e->asked);
	zr_buf_free(&e->kept);
	zr_buf_free(&e->kept_state);
	zr_buf_free(&e->parts);
	zr_buf_free(&e->ids);
	zr_buf_free(&e->learned);
}
