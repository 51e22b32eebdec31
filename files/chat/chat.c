/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.c - see chat.h: files in batches of lines, which threads encode and whose documents are
 * handed on in order. Memory is that of a batch, or of the longest line.
 */
#include "files/chat/chat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "files/chat/input.h"
#include "files/chat/json_list.h"
#include "files/chat/parts.h"

#define READ       (1 << 18)
#define BATCH      (4 << 20)    /* bytes of lines that are encoded at a time */
#define ITEM       (1 << 16)    /* of them, by one thread at a time */
#define LINE_MOST  (256u << 20) /* bytes of a line */
#define START      8            /* bytes of a file that say what it is */
#define TOOLS_MOST (16u << 20)  /* bytes of a file of tools */
#define SHOWN      5            /* bad lines that are told one by one */

/* Lines that follow one another, and what became of them. */
struct item {
	char *p;
	size_t n;
	int64_t line;                      /* the number of the first one */
	struct zr_buf ids, learned, sizes; /* of all documents; sizes: size_t each */
	struct zr_chat_counts counts;
	int rc;
	struct zr_error err;   /* of the line that ends all */
	char note[SHOWN][600]; /* lines that were left out */
	int notes;
};

struct zr_chat {
	struct zr_chat_options o;
	struct zr_chat_setup s;
	char file[ZR_TOKENIZER_PATH]; /* the tokenizer.json */
	struct zr_tokenizer *tokenizer;
	json_t *tools;                   /* of zr_chat_write; NULL: none */
	struct zr_chat_encoder *encoder; /* [threads] */
	struct item *item;
	int64_t items, room;
	const char *path; /* of the file under way */
	struct zr_input *in;
	struct zr_buf text;       /* of it */
	struct zr_json_list list; /* that it is */
	int64_t line;
	uint64_t at;
	int shown;
	struct zr_chat_counts counts;
};

const char *zr_chat_reason(int reason)
{
	static const char *const words[] = { "json",     "fields",    "roles",
					     "too_long", "no_target", "no_token" };
	return words[reason];
}

/* ---- a thread ---- */

/* What is there goes behind what is kept; if that is nothing, in its place. */
static int move_all(struct zr_buf *to, struct zr_buf *from)
{
	struct zr_buf empty = *to;
	if (to->n)
		return zr_buf_add(to, from->p, from->n);

	*to = *from;
	*from = empty;
	return 0;
}

static int keep_record(struct item *k, struct zr_chat_encoder *e)
{
	size_t n = e->learned.n;

	k->counts.documents++;
	k->counts.tokens += (int64_t)n;
	k->counts.targets += e->targets;
	k->counts.truncated += e->truncated;
	if ((int64_t)n > k->counts.longest)
		k->counts.longest = (int64_t)n;
	if (move_all(&k->ids, &e->ids) || move_all(&k->learned, &e->learned) ||
	    zr_buf_add(&k->sizes, &n, sizeof n))
		return zr_no_memory(&k->err);

	return 0;
}

static int is_blank(const char *p, size_t n)
{
	while (n && strchr(" \t\r", *p) && *p)
		p++, n--;
	return !n;
}

/* Shows a document, or why a record is none. */
static int show(struct zr_chat *c, struct zr_chat_encoder *e, int64_t line, const char *why)
{
	struct zr_chat_look look = { .path = c->path, .line = line, .why = why, .encoder = e };

	if (!c->o.look)
		return 0;
	if (!why) {
		look.ids = (const int32_t *)(void *)e->ids.p;
		look.learned = (const uint8_t *)e->learned.p;
		look.n = e->learned.n;
		look.whole = e->whole;
		look.lost = e->lost;
	}

	return c->o.look(c->o.arg, &look);
}

/* Too long and without a target are no mistakes of a line. */
static int leave_out(struct zr_chat *c, struct item *k, int reason, int64_t line,
		     const struct zr_error *why)
{
	int mistake = reason != ZR_CHAT_LONG && reason != ZR_CHAT_NO_TARGET;
	if (mistake && !c->s.skip)
		return zr_err(&k->err, ZR_EINVAL,
			      "%s:%lld: %s (on_bad = skip, or --on-bad skip, leaves such lines "
			      "out)",
			      c->path, (long long)line, why->text);
	if (k->notes < SHOWN)
		snprintf(k->note[k->notes++], sizeof *k->note, "%.200s:%lld: left out: %.300s",
			 c->path, (long long)line, why->text);
	k->counts.dropped[reason]++;
	return show(c, NULL, line, why->text);
}

/* A document of a line, or why there is none. */
static int take_document(struct zr_chat *c, struct item *k, struct zr_chat_encoder *e, int64_t line,
			 int rc, const struct zr_error *err)
{
	if (rc && (rc != ZR_EINVAL || err->code == ZR_ENOMEM))
		return zr_err(&k->err, rc, "%s:%lld: %s", c->path, (long long)line, err->text);
	if (rc)
		return leave_out(c, k, e->reason, line, err);

	rc = show(c, e, line, NULL);
	if (rc)
		return rc;

	return keep_record(k, e);
}

static int line_of(struct zr_chat *c, struct zr_chat_encoder *e, struct item *k, char *p, size_t n,
		   int64_t line)
{
	struct zr_error err = { 0 };

	if (is_blank(p, n))
		return 0;

	k->counts.records++;
	k->counts.bytes += n;
	const int64_t before = k->counts.documents;
	int rc = zr_chat_encode(e, p, n, &err);
	if (!rc)
		zr_unread_add(&k->counts.unread, &e->c.unread);
	rc = take_document(c, k, e, line, rc, &err);
	while (!rc && zr_chat_has_more(e)) {
		err.code = 0;
		rc = take_document(c, k, e, line, zr_chat_encode_more(e, &err), &err);
	}

	k->counts.used += k->counts.documents > before;
	return rc;
}

static void encode_item(void *arg, int64_t i, int32_t worker)
{
	struct zr_chat *c = arg;
	struct item *k = &c->item[i];
	struct zr_chat_encoder *e = &c->encoder[worker];
	int64_t line = k->line;

	for (char *p = k->p, *end = p + k->n, *next; !k->rc && p < end; p = next, line++) {
		char *stop = memchr(p, '\n', (size_t)(end - p));
		next = stop ? stop + 1 : end;
		k->rc = line_of(c, e, k, p, (size_t)((stop ? stop : end) - p), line);
	}

	if (k->n > BATCH)
		zr_chat_encoder_shrink(e);
}

/* ---- batches ---- */

static void add_counts(struct zr_chat_counts *to, const struct zr_chat_counts *from)
{
	to->records += from->records;
	to->documents += from->documents;
	to->used += from->used;
	to->tokens += from->tokens;
	to->targets += from->targets;
	to->truncated += from->truncated;
	to->bytes += from->bytes;
	zr_unread_add(&to->unread, &from->unread);
	if (from->longest > to->longest)
		to->longest = from->longest;
	for (int i = 0; i < ZR_CHAT_REASONS; i++)
		to->dropped[i] += from->dropped[i];
}

static int hand_on(struct zr_chat *c, struct item *k, struct zr_error *err)
{
	const int32_t *ids = (const int32_t *)k->ids.p;
	const uint8_t *learned = (const uint8_t *)k->learned.p;
	int rc = 0;

	add_counts(&c->counts, &k->counts);
	for (size_t i = 0, n; !rc && i < k->sizes.n; i += sizeof n, ids += n, learned += n) {
		memcpy(&n, k->sizes.p + i, sizeof n);
		rc = c->o.sink(c->o.arg, ids, learned, n);
	}

	for (int i = 0; i < k->notes && c->shown < SHOWN && c->o.note; i++, c->shown++)
		c->o.note(c->o.arg, k->note[i]);
	if (rc)
		return rc;
	if (k->rc)
		return zr_err(err, k->rc, "%s", k->err.text);

	return 0;
}

/* Makes room for more than twice as many items. */
static int grow_items(struct zr_chat *c)
{
	int64_t room = 2 * c->room + 16;
	struct item *more = realloc(c->item, (size_t)room * sizeof *more);
	if (!more)
		return ZR_ENOMEM;

	memset(more + c->room, 0, (size_t)(room - c->room) * sizeof *more);
	c->item = more;
	c->room = room;
	return 0;
}

static struct item *add_item(struct zr_chat *c)
{
	if (c->items == c->room && grow_items(c))
		return NULL;

	struct item *k = &c->item[c->items++];
	k->ids.n = k->learned.n = k->sizes.n = 0;
	k->counts = (struct zr_chat_counts){ 0 };
	k->rc = k->notes = 0;
	k->err.code = 0;
	return k;
}

static int64_t count_lines(const char *p, size_t n)
{
	const char *end = p + n;
	int64_t lines = 0;

	for (; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;

	return lines;
}

/* Whole lines of ITEM bytes or more, but the last. */
static int cut_items(struct zr_chat *c, char *p, size_t n)
{
	c->items = 0;
	for (char *end = p + n; p < end; p += c->item[c->items - 1].n) {
		struct item *k = add_item(c);
		if (!k)
			return ZR_ENOMEM;

		size_t left = (size_t)(end - p), size = left < ITEM ? left : ITEM;
		const char *stop = memchr(p + size - 1, '\n', left - size + 1);
		k->p = p;
		k->n = left;
		if (stop)
			k->n = (size_t)(stop - p) + 1;
		k->line = c->line;
		c->line += count_lines(p, k->n);
	}

	return 0;
}

static void shrink(struct zr_buf *b, size_t most)
{
	if (b->room > most)
		zr_buf_free(b);
}

/* After a long line: gives the memory back that it needed. */
static void shrink_all(struct zr_chat *c)
{
	if (!c->text.n)
		shrink(&c->text, 2 * BATCH);
	for (int64_t i = 0; i < c->items; i++) {
		shrink(&c->item[i].ids, BATCH);
		shrink(&c->item[i].learned, BATCH);
	}
}

static int run_batch(struct zr_chat *c, size_t n, struct zr_error *err)
{
	int rc = 0;

	if (cut_items(c, c->text.p, n))
		rc = zr_no_memory(err);
	if (!rc)
		c->o.parallel(c->o.of, c->items, encode_item, c);
	for (int64_t i = 0; !rc && i < c->items; i++)
		rc = hand_on(c, &c->item[i], err);
	zr_buf_drop(&c->text, n);
	if (n > 2 * BATCH)
		shrink_all(c);

	return rc;
}

/* ---- files ---- */

/* A line that is not held: what is left of it goes. */
static int skip_line(struct zr_chat *c, struct zr_error *err)
{
	struct zr_error why = { 0 };
	struct item k = { 0 };
	size_t got = 1;

	zr_err(&why, ZR_EINVAL, "a line of more than %u MiB", LINE_MOST >> 20);
	int rc = leave_out(c, &k, ZR_CHAT_JSON, c->line, &why);
	if (rc)
		return zr_err(err, rc, "%s", k.err.text);

	k.counts.records = 1;
	hand_on(c, &k, err);
	char *stop = NULL;
	while (!rc && got && !stop) {
		c->text.n = 0;
		rc = zr_input_read(c->in, c->text.p, READ, &got, err);
		if (got)
			stop = memchr(c->text.p, '\n', got);
		else
			stop = NULL;
		c->text.n = got;
	}

	if (stop)
		zr_buf_drop(&c->text, (size_t)(stop - c->text.p) + 1);
	else
		c->text.n = 0;
	c->line++;
	return rc;
}

static const char *last_line_end(const char *p, size_t n)
{
	while (n && p[n - 1] != '\n')
		n--;
	return n ? p + n - 1 : NULL;
}

static int read_on(struct zr_chat *c, size_t *got, struct zr_error *err)
{
	static const char nothing[READ];
	size_t n = c->text.n;

	if (zr_buf_add(&c->text, nothing, READ))
		return zr_no_memory(err);

	int rc = zr_input_read(c->in, c->text.p + n, READ, got, err);
	c->text.n = n + *got;
	c->at = zr_input_at(c->in);
	return rc;
}

/* Files of tables that people take for lines of JSON. */
static int refuse_tables(const struct zr_chat *c, struct zr_error *err)
{
	static const struct {
		const char *bytes, *is, *reader;
	} tables[] = {
		{ "PAR1", "a Parquet file", "read_parquet" },
		{ "ARROW1", "an Arrow file", "read_feather" },
		{ "FEA1", "a Feather file", "read_feather" },
	};

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		const size_t n = strlen(tables[i].bytes);
		if (c->text.n >= n && !memcmp(c->text.p, tables[i].bytes, n))
			return zr_err(err, ZR_EINVAL,
				      "%s: is %s, not JSON lines: pandas.%s(FILE)"
				      ".to_json(OUT, orient=\"records\", lines=True) makes them",
				      c->path, tables[i].is, tables[i].reader);
	}

	return 0;
}

/* The first bytes of a file, which are in c->text. */
static int look_at_start(struct zr_chat *c, struct zr_error *err)
{
	if (c->text.n >= 3 && !memcmp(c->text.p, "\xef\xbb\xbf", 3))
		zr_buf_drop(&c->text, 3);

	zr_json_list_begin(&c->list, c->text.p, c->text.n);
	return refuse_tables(c, err);
}

/* Reads on, a list as lines. *from: where what is new begins. */
static int read_next(struct zr_chat *c, int *begun, size_t *from, size_t *got, struct zr_error *err)
{
	*from = *begun ? c->text.n : 0;
	int rc = read_on(c, got, err);
	if (!rc && !*begun && (c->text.n >= START || !*got)) {
		*begun = 1;
		rc = look_at_start(c, err);
	}

	if (rc || !*begun)
		return rc;

	const char *why = zr_json_list_cut(&c->list, c->text.p + *from, c->text.n - *from, !*got);
	if (why)
		return zr_err(err, ZR_EINVAL, "%s: %s", c->path, why);

	return 0;
}

static int read_lines(struct zr_chat *c, struct zr_error *err)
{
	size_t got = 1, complete = 0; /* complete: bytes of whole lines */
	int rc = 0, begun = 0;
	while (!rc && got) {
		size_t n;
		rc = read_next(c, &begun, &n, &got, err);
		const char *end = last_line_end(c->text.p + n, c->text.n - n);
		if (end)
			complete = (size_t)(end - c->text.p) + 1;
		if (!rc && complete && complete >= BATCH) {
			rc = run_batch(c, complete, err);
			complete = 0;
		}

		if (!rc && !complete && c->text.n > LINE_MOST)
			rc = skip_line(c, err);
	}

	if (rc || !c->text.n)
		return rc;

	return run_batch(c, c->text.n, err);
}

int zr_chat_file(struct zr_chat *c, const char *path, struct zr_error *err)
{
	c->path = strcmp(path, "-") ? path : "standard input";
	c->line = 1;
	c->text.n = 0;
	int rc = zr_input_open(path, &c->in, err);
	if (!rc)
		rc = read_lines(c, err);
	zr_input_close(c->in);
	c->in = NULL;
	return rc;
}

/* ---- life ---- */

/* One for each thread. */
static int open_encoders(struct zr_chat *c, struct zr_error *err)
{
	const struct zr_chat_encoder *end = c->encoder + c->o.threads;
	int rc = 0;

	for (struct zr_chat_encoder *e = c->encoder; !rc && e < end; e++) {
		e->s = &c->s;
		e->o = &c->o;
		e->t = c->tokenizer;
		rc = zr_chat_encoder_open(e, err);
	}

	return rc;
}

static int open_tokenizer(struct zr_chat *c, const char *path, struct zr_error *err)
{
	if (!*path)
		return zr_err(err, ZR_EINVAL, "tokenizer: names no file");

	int rc = zr_tokenizer_find(path, c->file, err);
	c->o.tokenizer = c->file;
	if (!rc)
		rc = zr_tokenizer_open_with(c->file, c->o.add_tokens, &c->tokenizer, err);

	return rc;
}

/* The tools of a file, where the template writes such. */
static int read_tools(struct zr_chat *c, struct zr_error *err)
{
	const char *path = c->o.tools;
	json_error_t why;
	char *text = NULL;
	size_t n = 0;

	if (!path)
		return 0;
	if (!c->s.jinja.usual || !zr_jinja_mentions(c->s.jinja.usual, "tools"))
		return zr_err(err, ZR_EINVAL, "%s: template %s writes no tools", path,
			      c->s.template.name);

	int no = zr_file_text(AT_FDCWD, path, 1, TOOLS_MOST, &text, &n);
	if (no)
		return zr_file_failed(err, path, "cannot read", no);

	c->tools = zr_json_load(text, n, 0, &why);
	free(text);
	if (!c->tools)
		return zr_err(err, ZR_EINVAL, "%s:%d: not JSON: %s", path, why.line, why.text);
	if (!json_is_array(c->tools) || !json_array_size(c->tools))
		return zr_err(err, ZR_EINVAL, "%s: expected a list of tools", path);

	return 0;
}

int zr_chat_open(const struct zr_chat_options *o, struct zr_chat **out, struct zr_error *err)
{
	struct zr_chat *c = calloc(1, sizeof *c);
	int rc = 0;

	if (!c)
		return zr_no_memory(err);

	c->o = *o;
	c->encoder = calloc((size_t)o->threads, sizeof *c->encoder);
	if (!c->encoder)
		rc = zr_no_memory(err);
	if (!rc)
		rc = open_tokenizer(c, o->tokenizer, err);
	if (!rc)
		rc = open_encoders(c, err);
	if (!rc)
		rc = zr_chat_prepare(&c->o, c->tokenizer, &c->s, err);
	if (!rc)
		rc = read_tools(c, err);
	if (rc)
		zr_chat_close(c);
	else
		*out = c;

	return rc;
}

void zr_chat_close(struct zr_chat *c)
{
	if (!c)
		return;

	for (int i = 0; c->encoder && i < c->o.threads; i++)
		zr_chat_encoder_close(&c->encoder[i]);
	for (int64_t i = 0; i < c->room; i++) {
		zr_buf_free(&c->item[i].ids);
		zr_buf_free(&c->item[i].learned);
		zr_buf_free(&c->item[i].sizes);
	}

	json_decref(c->tools);
	zr_chat_setup_free(&c->s);
	zr_tokenizer_close(c->tokenizer);
	zr_buf_free(&c->text);
	free(c->encoder);
	free(c->item);
	free(c);
}

const struct zr_tokenizer *zr_chat_tokenizer(const struct zr_chat *c)
{
	return c->tokenizer;
}

int64_t zr_chat_vocabulary(const struct zr_chat *c)
{
	return zr_tokenizer_size(c->tokenizer);
}

/* Messages as a template of Jinja sees them, owned by `list`. */
static int to_json(const struct zr_chat_message *m, size_t n, json_t *list,
		   struct zr_chat_message *out)
{
	static const char *const roles[] = { "system", "user", "assistant" };

	for (size_t i = 0; i < n; i++) {
		json_t *one = json_pack("{s:s, s:s%}", "role", roles[m[i].role], "content",
					m[i].text, m[i].n);
		out[i] = m[i];
		out[i].json = one;
		if (!one || json_array_append_new(list, one))
			return ZR_ENOMEM;
	}

	return 0;
}

static int write_jinja(struct zr_chat *c, const struct zr_chat_message *m, size_t n, int prompt,
		       struct zr_chat_text *out, struct zr_error *err)
{
	struct zr_chat_turns *t = &c->encoder[0].turns;
	struct zr_chat_message *with = calloc(n, sizeof *with);
	json_t *list = json_array();
	int rc = 0;

	t->of = &c->s.jinja;
	if (!with || !list || to_json(m, n, list, with))
		rc = zr_no_memory(err);
	if (!rc)
		rc = zr_chat_turns_begin(t, c->tools, NULL, err);
	if (!rc)
		rc = zr_chat_turns_text(t, with, n, prompt, out, err);
	json_decref(list);
	free(with);
	return rc;
}

int zr_chat_write(struct zr_chat *c, const struct zr_chat_message *m, size_t n, int prompt,
		  struct zr_chat_text *out, struct zr_error *err)
{
	if (c->s.has_forms && !c->tools)
		return zr_chat_render(&c->s.template, m, n, prompt, out, err);

	return write_jinja(c, m, n, prompt, out, err);
}

const char *zr_chat_template_of(const struct zr_chat *c)
{
	return c->s.template.name;
}

uint64_t zr_chat_at(const struct zr_chat *c)
{
	return c->at;
}

const struct zr_chat_counts *zr_chat_counts_of(const struct zr_chat *c)
{
	return &c->counts;
}
