/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize_rows.c - see tokenize_rows.h.
 */
#include "cmd/tokenize_rows.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cmd/tokenize.h"
#include "core/base/json.h"
#include "files/chat/json_list.h"
#include "files/tokenizer/buf.h"

#define READ  (1 << 18)
#define MOST  (256u << 20) /* bytes of a line */
#define START 8            /* bytes of a file that say what it is */

struct reading {
	struct zr_text_rows *r;
	struct zr_input *in;
	struct zr_json_list list;
	struct zr_buf text; /* from the start of a line */
	struct zr_error *err;
	int begun, ended;
};

static int wrong(struct reading *g, const char *what)
{
	return zr_err(g->err, ZR_EINVAL, "%s:%lld: %s", g->r->name, (long long)g->r->line, what);
}

/* What the row has where its text should be. */
static int no_text(struct reading *g, const json_t *row, const json_t *found)
{
	char what[512];

	if (found) {
		snprintf(what, sizeof what, "field %s: expected a text, found %s", g->r->field,
			 json_is_null(found) ? "null" : "another type of JSON");
		return wrong(g, what);
	}

	int n = snprintf(what, sizeof what, "has no field %s, but", g->r->field);
	for (void *i = json_object_iter((json_t *)row); i && n < (int)sizeof what - 64;
	     i = json_object_iter_next((json_t *)row, i))
		n += snprintf(what + n, sizeof what - (size_t)n, " %.48s", json_object_iter_key(i));
	if (n < (int)sizeof what)
		snprintf(what + n, sizeof what - (size_t)n, ": --field text=NAME reads another");
	return wrong(g, what);
}

static int row(struct reading *g, const char *p, size_t n)
{
	json_error_t why;
	char what[JSON_ERROR_TEXT_LENGTH + 32];

	json_t *one = zr_json_load(p, n, JSON_ALLOW_NUL, &why);
	if (!one && errno == ENOMEM)
		return zr_no_memory(g->err);
	if (!one) {
		snprintf(what, sizeof what, "not JSON: %s", why.text);
		return wrong(g, what);
	}

	int rc;
	const json_t *text = json_object_get(one, g->r->field);
	if (!json_is_object(one))
		rc = wrong(g, "expected an object of JSON");
	else if (!json_is_string(text))
		rc = no_text(g, one, text);
	else
		rc = g->r->take(g->r->arg, g->r, json_string_value(text), json_string_length(text));
	json_decref(one);
	return rc;
}

/* A line, without its end. */
static int line(struct reading *g, const char *p, size_t n)
{
	size_t blank = 0;
	while (blank < n && p[blank] && strchr(" \t\r", p[blank]))
		blank++;

	int rc = 0;
	if (blank < n)
		rc = row(g, p, n);
	if (!rc)
		g->r->line++;
	return rc;
}

/* The lines that are whole, and at the end what is left. */
static int lines(struct reading *g, size_t seen)
{
	const char *p = g->text.p, *end = p + g->text.n, *stop;
	int rc = 0;

	for (const char *from = p + seen; !rc && (stop = memchr(from, '\n', (size_t)(end - from)));
	     from = p = stop + 1)
		rc = line(g, p, (size_t)(stop - p));
	if (!rc && g->ended && p < end) {
		rc = line(g, p, (size_t)(end - p));
		p = end;
	}

	zr_buf_drop(&g->text, (size_t)(p - g->text.p));
	if (!rc && g->text.n > MOST)
		rc = wrong(g, "a line of more than 256 MiB");
	return rc;
}

/* The first bytes of a file say whether it is a list. */
static void begin(struct reading *g)
{
	if (g->text.n >= 3 && !memcmp(g->text.p, "\xef\xbb\xbf", 3))
		zr_buf_drop(&g->text, 3);

	zr_json_list_begin(&g->list, g->text.p, g->text.n);
	g->begun = 1;
}

static int read_on(struct reading *g)
{
	size_t got = 0, seen = g->begun ? g->text.n : 0;

	if (zr_buf_reserve(&g->text, READ))
		return zr_no_memory(g->err);

	int rc = zr_input_read(g->in, g->text.p + g->text.n, READ, &got, g->err);
	if (rc)
		return rc;

	g->text.n += got;
	g->ended = !got;
	if (!g->begun && g->text.n < START && got)
		return 0;
	if (!g->begun)
		begin(g);

	const char *why = zr_json_list_cut(&g->list, g->text.p + seen, g->text.n - seen, g->ended);
	if (why)
		return zr_err(g->err, ZR_EINVAL, "%s: %s", g->r->name, why);
	return lines(g, seen);
}

int zr_text_rows_read(struct zr_text_rows *r, const char *path, uint64_t *read,
		      struct zr_error *err)
{
	struct reading g = { .r = r, .err = err };

	r->name = zr_tokenize_name(path);
	r->line = 1;
	int rc = zr_input_open(path, &g.in, err);
	r->in = g.in;
	while (!rc && !g.ended)
		rc = read_on(&g);

	*read = rc ? 0 : zr_input_at(g.in);
	zr_input_close(g.in);
	zr_buf_free(&g.text);
	return rc;
}
