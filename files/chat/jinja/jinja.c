/* SPDX-License-Identifier: Apache-2.0
 *
 * jinja.c - see jinja.h: templates, and renderings from their variables to their text.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

/* ---- a rendering ---- */

/* Functions of Jinja and variables, by the number of their name. */
static int fill_globals(struct zj_run *r, const json_t *variables)
{
	const struct zr_jinja *t = r->t;
	int rc = zj_get(r, ((size_t)t->n_names + 1) * sizeof *r->global, &r->global);

	for (int i = 0; !rc && i < t->n_names; i++) {
		const json_t *v = json_object_get(variables, t->names[i]);
		const struct zj_function *f = zj_find_function(t->names[i], strlen(t->names[i]));
		if (v)
			rc = zj_from_json(r, v, &r->global[i]);
		else if (f)
			r->global[i] = (struct zj_value){ .kind = ZJ_FUNCTION, .function = f };
	}

	return rc;
}

int zr_jinja_render(const struct zr_jinja *t, const json_t *variables, int64_t date,
		    struct zr_jinja_work *w, struct zr_error *err)
{
	struct zj_run r = { .t = t, .w = w, .err = err, .date = date, .line = 1 };

	if (!w->memory)
		w->memory = calloc(1, sizeof *w->memory);
	if (!w->memory)
		return zr_no_memory(err);

	r.most_steps = ZR_JINJA_STEPS;
	if (w->most_steps)
		r.most_steps = w->most_steps;
	w->memory->most = ZR_JINJA_MEMORY;
	w->text.n = w->spans.n = 0;
	w->lost = 0;
	r.m = w->memory;
	int rc = zj_scope(&r, NULL, &r.root);
	r.scope = r.root;
	if (!rc)
		rc = fill_globals(&r, variables);
	if (!rc)
		rc = zj_execute(&r, t->body);
	zj_forget(w->memory);
	return rc;
}

void zr_jinja_work_free(struct zr_jinja_work *w)
{
	if (w->memory)
		zj_memory_free(w->memory);
	free(w->memory);
	zr_buf_free(&w->text);
	zr_buf_free(&w->spans);
	*w = (struct zr_jinja_work){ 0 };
}

/* ---- a template ---- */

/* Its source with \n for each line end, without the last one. */
static int copy_source(struct zr_jinja *t, const char *text, size_t n, size_t *out)
{
	size_t to = 0;

	t->source = malloc(n + 1);
	if (!t->source)
		return ZR_ENOMEM;

	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
			continue;
		t->source[to++] = text[i] == '\r' ? '\n' : text[i];
	}

	if (to && t->source[to - 1] == '\n')
		to--;
	t->source[to] = 0;
	*out = to;
	return 0;
}

int zr_jinja_open(const char *name, const char *text, size_t n, struct zr_jinja **out,
		  struct zr_error *err)
{
	struct zj_parser ps = { .err = err };

	if (n > ZR_JINJA_TEXT)
		return zr_err(err, ZR_EINVAL, "%s: a chat template of more than %u MiB", name,
			      ZR_JINJA_TEXT >> 20);
	if (zr_utf8_well_formed(text, n) < n || memchr(text, 0, n))
		return zr_err(err, ZR_EINVAL, "%s: a chat template that is no UTF-8 text", name);

	struct zr_jinja *t = calloc(1, sizeof *t);
	if (!t)
		return zr_no_memory(err);

	t->memory.most = 64 * (size_t)ZR_JINJA_TEXT;
	t->name = strdup(name);
	int rc = 0;
	if (!t->name || copy_source(t, text, n, &ps.n))
		rc = zr_no_memory(err);
	ps.t = t;
	ps.source = t->source;
	if (!rc)
		rc = zj_parse(&ps);
	if (rc)
		zr_jinja_close(t);
	else
		*out = t;

	return rc;
}

void zr_jinja_close(struct zr_jinja *t)
{
	if (!t)
		return;

	zj_memory_free(&t->memory);
	free(t->name);
	free(t->source);
	free(t);
}

int zr_jinja_generates(const struct zr_jinja *t)
{
	return t->generates;
}

int zr_jinja_mentions(const struct zr_jinja *t, const char *word)
{
	return strstr(t->source, word) != NULL;
}
