/* SPDX-License-Identifier: Apache-2.0
 *
 * generate.c - see generate.h.
 */
#include "cmd/sample/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/options.h"
#include "core/session.h"

const char *const zr_ended_names[] = { "length", "eos", "stop" };

/* LongRoPE turns all keys by other wavelengths as soon as there are more tokens than this: what the
 * cache has of fewer then fits no more. */
static int64_t most_near(const struct zr_section *model)
{
	const struct zr_opt *scaling = zr_table_find(&model->table, "rope_scaling");
	const struct zr_opt *original = zr_table_find(&model->table, "rope_original_context");
	char text[64];

	if (!scaling || !original)
		return INT64_MAX;

	zr_value_format(scaling, model->opts, text, sizeof text);
	if (strcmp(text, "longrope"))
		return INT64_MAX;

	zr_value_format(original, model->opts, text, sizeof text);
	int64_t most = strtoll(text, NULL, 10);
	return most > 0 ? most : INT64_MAX; /* auto is the context */
}

int zr_generator_open(struct zr_generator *g, struct zr_error *err)
{
	const struct zr_setup *p = g->session->setup;

	g->context = p->facts.batch.length;
	g->window = calloc((size_t)g->context, sizeof *g->window);
	g->logits = calloc((size_t)p->facts.decl.vocabulary, sizeof *g->logits);
	g->best = calloc((size_t)p->facts.decl.vocabulary, sizeof *g->best);
	g->stops.held = malloc(zr_stops_room(&g->stops));
	g->near = most_near(p->roles.model.section);
	g->cached = p->plan.region[ZR_R_CACHE].bytes > 0;
	if (g->window && g->logits && g->best && g->stops.held)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory for the tokens and their logits");
}

void zr_generator_close(struct zr_generator *g)
{
	free(g->window);
	free(g->logits);
	free(g->best);
	free(g->stops.held);
}

static void push(struct zr_generator *g, int32_t token)
{
	if (g->n == g->context) {
		/* keep the newer half: the window moves rarely, so that positions stay as in
		 * training */
		int64_t keep = g->context / 2;
		memmove(g->window, g->window + g->n - keep, (size_t)keep * sizeof *g->window);
		g->n = keep;
		g->kept = 0; /* at other positions */
	}

	if (g->kept > g->n && g->window[g->n] != token)
		g->kept = g->n;
	g->window[g->n++] = token;
}

void zr_generator_begin(struct zr_generator *g, const int32_t *tokens, int64_t n)
{
	g->n = 0;
	zr_token_text_begin(g->text, 1);
	for (int64_t i = 0; i < n; i++)
		push(g, tokens[i]);
}

/* Logits behind the window. The last token is always run. */
static int look(struct zr_generator *g, struct zr_error *err)
{
	if ((g->n > g->near) != g->far)
		g->kept = 0;
	g->far = g->n > g->near;
	int64_t past = 0;
	if (g->cached)
		past = g->kept < g->n ? g->kept : g->n - 1;
	int rc = zr_session_logits(g->session, g->window + past, past, g->n - past, g->logits, err);
	g->kept = rc ? 0 : g->n;
	return rc;
}

static int is_eos(const struct zr_generator *g, int32_t token)
{
	for (int i = 0; i < g->n_eos; i++)
		if (g->eos[i] == token)
			return 1;
	return 0;
}

/* The text of a token; *stopped: a stop string is complete. */
static int put(struct zr_generator *g, struct zr_drawn *d, int32_t token, int *stopped)
{
	char scratch[16];
	const char *found = NULL;
	size_t n;
	const char *p = zr_token_text_next(g->text, token, &n, scratch);
	int rc = 0;
	if (p)
		rc = zr_stops_write(&g->stops, p, n, d->sink, d->arg, &found);

	*stopped = found != NULL;
	return rc;
}

/* What waited for more tokens, and what the stop strings held back. */
static int put_rest(struct zr_generator *g, struct zr_drawn *d, int *stopped)
{
	const char *found = NULL;
	size_t n;
	const char *p = zr_token_text_rest(g->text, &n);
	int rc = 0;
	if (n)
		rc = zr_stops_write(&g->stops, p, n, d->sink, d->arg, &found);

	*stopped = found != NULL;
	return rc || found ? rc : zr_stops_end(&g->stops, d->sink, d->arg);
}

int zr_generate(struct zr_generator *g, struct zr_drawn *d, struct zr_error *err)
{
	int rc = 0, stopped = 0;

	d->n = 0;
	d->ended = ZR_ENDED_LENGTH;
	g->stops.n_held = 0;
	while (!rc && !stopped && d->n < g->most) {
		if ((rc = look(g, err)))
			return rc;

		int32_t token = zr_draw_token(&g->draw, g->logits, g->text->tokens,
					      d->number << 32 | (uint64_t)d->n, g->best);
		if (is_eos(g, token)) {
			d->ended = ZR_ENDED_EOS;
			break;
		}

		push(g, token);
		if (d->tokens)
			d->tokens[d->n] = token;
		d->n++;
		rc = put(g, d, token, &stopped);
	}

	if (!rc && !stopped)
		rc = put_rest(g, d, &stopped);
	if (stopped)
		d->ended = ZR_ENDED_STOP;
	if (rc)
		return zr_err(err, ZR_EIO, "cannot write the text: %s", strerror(errno));
	return 0;
}
