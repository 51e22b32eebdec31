/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.c - see chat.h.
 */
#include "cmd/sample/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/sample/model.h"
#include "files/chat/chat.h"
#include "files/chat/template.h"

/* The conversation with one of them. */
struct talk {
	const char *name; /* NULL: there is no other */
	struct zr_generator *g;
	struct zr_chat *chat;
	const char *system;
	struct zr_chat_message *message; /* [n], with texts that are owned */
	size_t n, room;
	struct zr_chat_text text; /* of the conversation */
	struct zr_buf ids, reply; /* int32_t of it; what is drawn */
	size_t spaces;            /* leading ones still to drop: the template has them */
	struct zr_char_writer out;
	uint64_t turn;
	char *stop;         /* what ends an answer, if it is no single token */
	const char **stops; /* with those that the user gave */
	struct zr_error *err;
};

static int no_memory(struct talk *t)
{
	return zr_err(t->err, ZR_ENOMEM, "out of memory for the conversation");
}

/* ---- messages -------------------------------------------------------------------- */

static int add_message(struct talk *t, int role, const char *text, size_t n)
{
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 16;
		struct zr_chat_message *more = realloc(t->message, room * sizeof *more);
		if (!more)
			return no_memory(t);

		t->message = more;
		t->room = room;
	}

	/* what is written into a template is UTF-8 */
	char *copy = NULL;
	size_t bytes = 0;
	struct zr_char_writer w = { .f = open_memstream(&copy, &bytes), .utf8 = 1 };
	int bad = !w.f || zr_char_write(&w, text, n) || zr_char_end(&w);
	bad |= w.f && fclose(w.f);
	if (bad) {
		free(copy);
		return no_memory(t);
	}

	t->message[t->n++] = (struct zr_chat_message){ .role = role, .text = copy, .n = bytes };
	return 0;
}

/* Messages [from, to) go. */
static void forget(struct talk *t, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		free((char *)t->message[i].text);
	if (from < to) /* there may be no list yet */
		memmove(t->message + from, t->message + to, (t->n - to) * sizeof *t->message);
	t->n -= to - from;
}

static int restart(struct talk *t)
{
	forget(t, 0, t->n);
	if (t->system)
		return add_message(t, ZR_CHAT_SYSTEM, t->system, strlen(t->system));
	return 0;
}

/* ---- tokens ---------------------------------------------------------------------- */

static int take_ids(void *arg, const int32_t *ids, size_t n)
{
	return zr_buf_add(arg, ids, n * sizeof *ids);
}

static int encode(struct talk *t, const char *text, size_t n)
{
	t->ids.n = 0;
	int rc = zr_token_text_encode(t->g->text, text, n, take_ids, &t->ids, t->err);
	return rc && !t->err->text[0] ? no_memory(t) : rc;
}

static int64_t tokens(const struct talk *t)
{
	return (int64_t)(t->ids.n / sizeof(int32_t));
}

/* The tokens of the conversation up to where the answer begins. Where they and an answer do not fit
 * the model's window, the oldest question and its answer are left out. */
static int render(struct talk *t)
{
	int64_t most = t->g->context - t->g->context / 8;
	size_t first = t->system ? 1 : 0;

	for (;;) {
		int rc = zr_chat_write(t->chat, t->message, t->n, 1, &t->text, t->err);
		if (!rc)
			rc = encode(t, t->text.text.p, t->text.text.n);
		if (rc || tokens(t) <= most)
			return rc;
		if (t->n < first + 3)
			break;

		forget(t, first, first + 2);
		fprintf(stderr,
			"zeroth: %s%sthe oldest question and its answer are left out: the "
			"model sees %lld tokens\n",
			t->name ? t->name : "", t->name ? ": " : "", (long long)t->g->context);
	}

	fprintf(stderr, "zeroth: %s%sthis is %lld tokens long, the model sees %lld: ask shorter\n",
		t->name ? t->name : "", t->name ? ": " : "", (long long)tokens(t),
		(long long)t->g->context);
	t->ids.n = 0;
	return 0;
}

/* Whether an added token is last of the tokens; it becomes one that ends a text. */
static int ends_with_added(struct talk *t)
{
	struct zr_generator *g = t->g;
	int32_t last = ((const int32_t *)(const void *)t->ids.p)[tokens(t) - 1];
	char name[256];
	size_t n = 0;

	const char *p = zr_tokenizer_bytes(g->text->tokenizer, last, &n);
	if (!p || n >= sizeof name || g->n_eos == ZR_EOS_MOST)
		return 0;

	memcpy(name, p, n);
	name[n] = 0;
	if (zr_tokenizer_added(g->text->tokenizer, name) != last)
		return 0;

	g->eos[g->n_eos++] = last;
	return 1;
}

/* What a text has behind its last answer, up to the end of the turn. */
static size_t end_of_answer(const struct zr_chat_text *text, const char *said, const char **end)
{
	const size_t length = strlen(said);
	const char *stop = text->text.p + text->text.n, *at = NULL, *p = text->text.p;

	while (p < stop && (p = memmem(p, (size_t)(stop - p), said, length)))
		at = p = p + length;
	*end = at;
	if (!at)
		return 0;
	if (text->n)
		return (size_t)(text->text.p + text->span[text->n - 1].to - at);

	/* a template of Jinja: the first word, else all that is no white space */
	p = at;
	while (p < stop && !strchr(" \t\r\n", *p))
		p++;
	if (p > at)
		return (size_t)(p - at);
	while (stop > at && strchr(" \t\r\n", stop[-1]))
		stop--;

	return (size_t)(stop - at);
}

/* What the template puts behind an answer ends it when it is drawn: its last token, if that is an
 * added one, else its text. */
static int find_end(struct talk *t)
{
	static const char said[] = "Zq";
	const struct zr_chat_message two[] = {
		{ .role = ZR_CHAT_USER, .text = "a", .n = 1 },
		{ .role = ZR_CHAT_ASSISTANT, .text = said, .n = sizeof said - 1 },
	};
	struct zr_generator *g = t->g;
	const char *end;
	size_t n;

	int rc = zr_chat_write(t->chat, two, 2, 0, &t->text, t->err);
	if (rc)
		return rc;

	n = end_of_answer(&t->text, said, &end);
	rc = n ? encode(t, end, n) : 0;
	if (rc || !n)
		return rc;
	if (ends_with_added(t))
		return 0;

	t->stop = strndup(end, n);
	t->stops = calloc((size_t)g->stops.n + 1, sizeof *t->stops);
	if (!t->stop || !t->stops)
		return no_memory(t);

	for (int i = 0; i < g->stops.n; i++)
		t->stops[i] = g->stops.text[i];
	t->stops[g->stops.n++] = t->stop;
	g->stops.text = t->stops;
	char *held = realloc(g->stops.held, zr_stops_room(&g->stops));
	g->stops.held = held ? held : g->stops.held;
	return held ? 0 : no_memory(t);
}

/* ---- turns ----------------------------------------------------------------------- */

static int hear(void *arg, const char *p, size_t n)
{
	struct talk *t = arg;
	for (; t->spaces && n && *p == ' '; t->spaces--)
		p++, n--;
	t->spaces = n ? 0 : t->spaces;
	return zr_buf_add(&t->reply, p, n) || zr_char_write(&t->out, p, n) || fflush(stdout);
}

static int answer(struct talk *t)
{
	struct zr_drawn d = { .sink = hear, .arg = t, .number = t->turn++ };

	int rc = render(t);
	if (rc || !t->ids.n) {
		forget(t, t->n - 1, t->n); /* as if it had not been asked */
		return rc;
	}

	if (t->name && printf("--- %s\n", t->name) < 0)
		return zr_err(t->err, ZR_EIO, "cannot write the text: %s", strerror(errno));

	t->reply.n = 0;
	t->spaces = t->text.spaces;
	zr_generator_begin(t->g, (const int32_t *)(const void *)t->ids.p, tokens(t));
	rc = zr_generate(t->g, &d, t->err);
	if (rc)
		return rc;
	if (zr_char_end(&t->out) || putchar('\n') < 0 || fflush(stdout))
		return zr_err(t->err, ZR_EIO, "cannot write the text: %s", strerror(errno));
	return add_message(t, ZR_CHAT_ASSISTANT, t->reply.n ? t->reply.p : "", t->reply.n);
}

/* Those who answer. */
struct table {
	struct talk *talk; /* [n] */
	int n;
};

static int restart_all(const struct table *all)
{
	int rc = 0;

	for (int i = 0; !rc && i < all->n; i++)
		rc = restart(&all->talk[i]);
	return rc;
}

static int ask_all(const struct table *all, const char *line, size_t n)
{
	int rc = 0;

	for (int i = 0; !rc && i < all->n; i++) {
		struct talk *t = &all->talk[i];
		rc = add_message(t, ZR_CHAT_USER, line, n);
		if (!rc)
			rc = answer(t);
	}

	return rc;
}

static int converse(const struct table *all)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	int people = isatty(0) && isatty(1), rc = restart_all(all);
	while (!rc && (!people || (fputs("> ", stdout) >= 0 && !fflush(stdout))) &&
	       (n = getline(&line, &room, stdin)) >= 0) {
		while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
			line[--n] = 0;
		if (!strcmp(line, "/quit"))
			break;
		if (!strcmp(line, "/reset"))
			rc = restart_all(all);
		else if (n)
			rc = ask_all(all, line, (size_t)n);
	}

	free(line);
	return rc;
}

static void note(void *arg, const char *text)
{
	const struct talk *t = arg;
	fprintf(stderr, "zeroth: %s%s%s\n", t->name ? t->name : "", t->name ? ": " : "", text);
}

static int open_talk(struct talk *t, const struct zr_speaker *of, struct zr_error *err)
{
	struct zr_chat_options o = *of->forms;

	*t = (struct talk){ .name = of->name,
			    .g = of->g,
			    .system = of->forms->system,
			    .err = err,
			    .out = { .f = stdout, .terminal = isatty(1) } };
	o.tokenizer = t->g->text->file;
	o.add_tokens = t->g->text->add_tokens;
	o.threads = 1;
	o.note = note;
	o.arg = t;
	int rc = 0;
	if (!t->g->text->tokenizer)
		rc = zr_err(err, ZR_EINVAL,
			    "--chat needs a tokenizer.json beside the model, or --tokenizer");
	if (!rc)
		rc = zr_chat_open(&o, &t->chat, err);
	if (!rc)
		rc = find_end(t);
	if (rc && t->name)
		zr_sample_blame(t->name, err);
	return rc;
}

static void close_talk(struct talk *t)
{
	forget(t, 0, t->n);
	free(t->message);
	free(t->stop);
	free(t->stops);
	zr_chat_text_free(&t->text);
	zr_buf_free(&t->ids);
	zr_buf_free(&t->reply);
	zr_chat_close(t->chat);
}

int zr_converse(const struct zr_speaker *speaker, int n, struct zr_error *err)
{
	struct table all = { .talk = calloc((size_t)n, sizeof *all.talk) };
	int rc = all.talk ? 0 : zr_no_memory(err);

	while (!rc && all.n < n) {
		rc = open_talk(&all.talk[all.n], &speaker[all.n], err);
		all.n++;
	}

	if (!rc)
		rc = converse(&all);
	while (all.n)
		close_talk(&all.talk[--all.n]);
	free(all.talk);
	return rc;
}
