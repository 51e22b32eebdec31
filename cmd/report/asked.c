/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.c - see asked.h. A document of a sequence is a conversation: what it has that is learned,
 * behind something that is not, is an answer. The last answer of each is asked for.
 */
#include "cmd/report/asked.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/look/look.h"
#include "cmd/report/html.h"
#include "cmd/sample/forms.h"
#include "cmd/sample/token_text.h"
#include "cmd/sequence.h"
#include "core/setup.h"
#include "train/rundir.h"
#include "train/weights/declare.h"

/* that are looked through at most */
#define SEQUENCES 64
#define DOCUMENTS 256

struct asking {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_token_text text;
	struct zr_batch b; /* one sequence */
	int32_t *tokens;   /* [length + 1] of a document */
	uint8_t *learned;  /* [length + 1] */
	int64_t n;
	struct zr_asked_list *out;
	int most;
};

/* ---- the data ---- */

/* One sequence at a time, on one rank, whatever the run was trained with. */
static int open_data(struct asking *a, const char *run, struct zr_error *err)
{
	const struct zr_dir_kind kind = zr_dir_look(run);
	const char *o[8];
	char ini[PATH_MAX];
	int n = 0;

	o[n++] = "train.micro_batch_size=1";
	o[n++] = "train.train_batch_size=auto";
	o[n++] = "train.gradient_accumulation_steps=auto";
	o[n++] = "boot.ranks_per_node=auto";
	if (kind.weights)
		o[n++] = "model.path=";
	snprintf(ini, sizeof ini, "%s/config.ini", run);
	int rc = zr_run_config(ini, o, n, &a->cfg, err);
	if (rc)
		return rc;
	return zr_setup_open(a->cfg, ZR_MODE_EVAL, ZR_SETUP_ALONE, 1, &a->setup, err);
}

static int open_text(struct asking *a, const char *run, struct zr_error *err)
{
	struct zr_chat_options forms = { 0 };

	zr_forms_of_run(&forms, a->cfg);
	const struct zr_token_source from = { .tokenizer = forms.tokenizer,
					      .dir = run,
					      .data = zr_config_find(a->cfg, "data"),
					      .vocabulary = a->setup->facts.decl.vocabulary,
					      .add_tokens =
						      zr_config_find(a->cfg, "model")->add_tokens,
					      .quiet = 1 };
	return zr_token_text_open(&from, &a->text, err);
}

static int make_batch(struct asking *a, struct zr_error *err)
{
	const int64_t rows = a->setup->facts.batch.length;
	const int32_t split = a->out->held_out ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN;

	a->tokens = calloc((size_t)rows + 1, sizeof *a->tokens);
	a->learned = calloc((size_t)rows + 1, 1);
	if (!a->tokens || !a->learned)
		return zr_no_memory(err);

	return zr_sequence_batch(a->setup, split, SEQUENCES, &a->b, err);
}

/* ---- a document ---- */

static int is_target(const struct zr_batch *b, int64_t row)
{
	return b->targets[row] >= 0 && (!b->weights || b->weights[row] > 0);
}

/* Whether the row is the last one of its document. */
static int ends(const struct zr_batch *b, int64_t row)
{
	return row + 1 == b->length || (b->starts && b->starts[row + 1] != b->starts[row]);
}

/* The tokens of the document that starts at a row; returns the row behind it. */
static int64_t take_document(struct asking *a, int64_t row)
{
	const struct zr_batch *b = &a->b;

	a->n = 1;
	a->tokens[0] = b->inputs[row];
	a->learned[0] = 0;
	for (;; row++) {
		const int last = ends(b, row);
		const int target = is_target(b, row);
		if (!last || target) {
			a->tokens[a->n] = target ? b->targets[row] : b->inputs[row + 1];
			a->learned[a->n++] = (uint8_t)target;
		}
		if (last)
			return row + 1;
	}
}

/* Tokens [*from, *to) are the answer; 0: there is none. */
static int find_answer(const struct asking *a, int64_t *from, int64_t *to)
{
	int64_t end = a->n;
	while (end > 1 && !a->learned[end - 1])
		end--;

	int64_t start = end;
	while (start > 1 && a->learned[start - 1])
		start--;
	if (start == end)
		return 0;

	/* all of it is learned: a text, of which the beginning is the question */
	if (start == 1) {
		start = a->n / 2 < ZR_ASKED_BEGIN ? a->n / 2 : ZR_ASKED_BEGIN;
		if (start < 1 || start >= end)
			return 0;
	}

	*from = start;
	*to = end;
	return 1;
}

/* ---- texts ---- */

/* NULL: out of memory. */
static char *text_of(struct asking *a, int64_t from, int64_t to)
{
	char *text = NULL, scratch[16];
	size_t bytes = 0;
	struct zr_char_writer w = { .f = open_memstream(&text, &bytes), .utf8 = 1 };
	int bad = !w.f;

	for (int64_t i = from; !bad && i < to; i++) {
		size_t n;
		const char *p = zr_token_text_bytes(&a->text, a->tokens[i], &n, scratch);
		bad = p && zr_char_write(&w, p, n);
	}

	bad = bad || zr_char_end(&w);
	bad |= w.f && fclose(w.f);
	if (!bad)
		return text;

	free(text);
	return NULL;
}

/* A token that is one of the tokenizer's added ones, as <|im_end|> is; else -1. */
static int32_t special(const struct asking *a, int32_t token)
{
	char name[256];
	size_t n = 0;

	if (!a->text.tokenizer)
		return -1;

	const char *p = zr_tokenizer_bytes(a->text.tokenizer, token, &n);
	if (!p || n >= sizeof name)
		return -1;

	memcpy(name, p, n);
	name[n] = 0;
	return zr_tokenizer_added(a->text.tokenizer, name) == token ? token : -1;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Keeps the document as a question whose answer is [from, to). html: a stream for it. */
static struct zr_asked *keep(struct asking *a, int64_t from, int64_t to, size_t *bytes, FILE **html)
{
	struct zr_asked *q = &a->out->at[a->out->n++];

	*q = (struct zr_asked){ .n = from, .most = ZR_ASKED_ANSWER, .end = -1 };
	if (a->learned[from - 1]) /* a text goes on as far as that of the data */
		q->most = least(to - from, ZR_ASKED_ANSWER);
	for (int64_t i = from; i < to && q->end < 0; i++)
		q->end = special(a, a->tokens[i]);
	q->tokens = malloc((size_t)from * sizeof *q->tokens);
	*html = q->tokens ? open_memstream(&q->html, bytes) : NULL;
	if (!*html)
		return NULL;

	memcpy(q->tokens, a->tokens, (size_t)from * sizeof *q->tokens);
	return q;
}

/* ---- documents of which nobody knows the messages ---- */

static int write_plain(struct asking *a, int64_t from, int64_t to, FILE *f)
{
	char *prompt = text_of(a, 0, from);
	char *wanted = text_of(a, from, least(to, from + ZR_ASKED_ANSWER));
	const int bad = !prompt || !wanted;

	if (!bad) {
		fputs("<div class=\"words\">", f);
		zr_html_text(f, prompt);
		fputs("<ins>", f);
		zr_html_text(f, wanted);
		fputs("</ins></div>\n", f);
	}

	free(prompt);
	free(wanted);
	return bad;
}

static int add_document(struct asking *a, struct zr_error *err)
{
	int64_t from, to;
	size_t bytes;
	FILE *html;

	if (!find_answer(a, &from, &to))
		return 0;
	if (!keep(a, from, to, &bytes, &html))
		return zr_no_memory(err);

	int bad = write_plain(a, from, to, html);
	bad |= fclose(html);
	return bad ? zr_no_memory(err) : 0;
}

static int look_through(struct asking *a, int64_t sequences, struct zr_error *err)
{
	const int64_t last = sequences > 0 ? least(sequences, SEQUENCES) : SEQUENCES;
	int rc = 0;

	for (; !rc && a->b.slot < last && a->out->n < a->most; a->b.slot++) {
		rc = ZR_ASK(&a->setup->roles.source->it, data, batch, err, &a->b);
		for (int64_t row = 0; !rc && row < a->b.length && a->out->n < a->most;) {
			row = take_document(a, row);
			rc = add_document(a, err);
		}
	}

	return rc;
}

/* ---- those that the data shows with their messages ---- */

/* A zr_look's `seen`. Questions that the model does not see as a whole are passed over. */
static int take_seen(void *arg, const struct zr_seen *seen)
{
	struct asking *a = arg;
	struct zr_look_out out = { .text = &a->text };
	int64_t from, to;
	size_t bytes;

	if (seen->why || !seen->number || a->out->n == a->most || seen->n > a->b.length + 1)
		return 0;

	a->n = seen->n;
	memcpy(a->tokens, seen->ids, (size_t)a->n * sizeof *a->tokens);
	memcpy(a->learned, seen->learned, (size_t)a->n);
	if (!find_answer(a, &from, &to))
		return 0;
	if (!keep(a, from, to, &bytes, &out.f))
		return ZR_ENOMEM;

	int rc = zr_look_page_messages(&out, seen);
	if (fclose(out.f) && !rc)
		rc = ZR_ENOMEM;
	free(out.bytes.p);
	return rc;
}

static int ask(struct asking *a, const char *run, struct zr_error *err)
{
	int rc = open_data(a, run, err);
	if (!rc)
		rc = open_text(a, run, err);
	if (rc)
		return rc;

	const struct zr_data_info *info = &a->setup->roles.source->info;
	a->out->held_out = info->val_tokens > 0;
	rc = make_batch(a, err);
	if (rc)
		return rc;
	if (zr_look_can(a->setup))
		return zr_look_through(a->setup, a->b.split, DOCUMENTS, take_seen, a, err);
	return look_through(a, a->out->held_out ? info->val_sequences : info->train_sequences, err);
}

int zr_asked_of_run(const char *run, int most, struct zr_asked_list *out, struct zr_error *err)
{
	struct asking a = { .out = out, .most = most };

	*out = (struct zr_asked_list){ .at = calloc((size_t)most, sizeof *out->at) };
	int rc = out->at ? ask(&a, run, err) : zr_no_memory(err);
	free(a.b.inputs);
	free(a.tokens);
	free(a.learned);
	zr_token_text_close(&a.text);
	zr_setup_close(a.setup);
	zr_config_free(a.cfg);
	return rc;
}

void zr_asked_free(struct zr_asked_list *l)
{
	for (int i = 0; i < l->n; i++) {
		free(l->at[i].tokens);
		free(l->at[i].html);
	}

	free(l->at);
	*l = (struct zr_asked_list){ 0 };
}
