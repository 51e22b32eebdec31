/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - zeroth data show CONF: sequences as they will be learned, and what the data consists of.
 *
 * A token is learned if it is the target of the row before it. What is not is dimmed on a terminal
 * and stands between [- and -] elsewhere, and where NO_COLOR is set (no-color.org).
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/look/look.h"
#include "cmd/sample/token_text.h"
#include "cmd/sequence.h"
#include "core/setup.h"

struct show {
	const char *conf, *tokenizer;
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides;
	const char *html;
	int samples, held_out, sequences; /* samples < 0: the usual number */
	int64_t from;
	int32_t split;
	struct zr_setup *setup;
	struct zr_token_text text;
	struct zr_char_writer out;
	int dims;          /* what is no target, with codes of a terminal */
	int masked;        /* what is written now */
	struct zr_batch b; /* one sequence */
};

#define AT(member) offsetof(struct show, member)

static const struct zr_cmd_option options[] = {
	{ 'n', "samples", "N", "default 3, of a page 50; 0: counts only", .kind = ZR_CMD_INT,
	  .at = AT(samples), .most = 1 << 30, .counts = "a number of conversations or sequences" },
	{ 0, "from", "K", "conversations from the K-th on; default 1", .kind = ZR_CMD_WHOLE,
	  .at = AT(from), .least = 1, .most = 0x1p53, .counts = "a number of a conversation" },
	{ 0, "val", NULL, "those of the part that is held out", .kind = ZR_CMD_FLAG,
	  .at = AT(held_out) },
	{ 0, "sequences", NULL, "of conversations, too, the sequences that they are packed into",
	  .kind = ZR_CMD_FLAG, .at = AT(sequences) },
	{ 0, "html", "FILE", "writes conversations to an HTML page that needs nothing else",
	  .kind = ZR_CMD_TEXT, .at = AT(html), .place = ZR_CMD_OR },
	{ 'T', "tokenizer", "FILE",
	  "tokenizer.json that the tokens are from, or its directory (default: what [data] says, "
	  "else the one in [model] path)",
	  .kind = ZR_CMD_TEXT, .at = AT(tokenizer) },
	ZR_CMD_OPTION_SET(struct show, "sets an option over CONF; the last of several wins"),
	{ 0 },
};

const struct zr_cmd_usage zr_data_usage = {
	.command = "data",
	.form = { { "show", "CONF", NULL } },
	.about =
		"Prints the first N sequences that `zeroth train` would learn from: each "
		"document in "
		"lines\n"
		"of its own, tokens that are no targets dimmed (where this is no terminal, or "
		"NO_COLOR is set,\n"
		"between [- and -]).\n"
		"Conversations are shown as they were rendered, in the order of their files: "
		"roles, thoughts,\n"
		"calls and definitions of tools, what is learned, where they are cut and why, "
		"their lengths.\n"
		"Then counts: documents, tokens, targets, padding, and what was cut or left out.\n",
	.option = options,
};

/* ---- a sequence ---- */

static void mask(struct show *s, int masked)
{
	static const char *const mark[2][2] = { { "-]", "[-" }, { "\033[0m", "\033[2m" } };

	if (masked == s->masked)
		return;

	zr_char_end(&s->out);
	fputs(mark[s->dims][masked], stdout);
	s->masked = masked;
}

static void put_token(struct show *s, int32_t token, int masked)
{
	char scratch[16];
	size_t n;
	const char *p = zr_token_text_bytes(&s->text, token, &n, scratch);

	mask(s, masked);
	if (p)
		zr_char_write(&s->out, p, n);
}

/* Row r is the last one of its document. */
static int ends(const struct zr_batch *b, int64_t r)
{
	return r + 1 == b->length || (b->starts && b->starts[r + 1] != b->starts[r]);
}

static int is_target(const struct zr_batch *b, int64_t r)
{
	return b->targets[r] >= 0 && (!b->weights || b->weights[r] > 0);
}

/* A row without a target that is a document of its own. */
static int is_padding(const struct zr_batch *b, int64_t r)
{
	return b->starts && b->starts[r] == r && ends(b, r) && !is_target(b, r);
}

/* Prints the document that starts at row r; returns the row behind it. */
static int64_t put_document(struct show *s, int64_t r)
{
	const struct zr_batch *b = &s->b;
	int64_t end = r, targets = 0;

	do
		targets += is_target(b, end);
	while (!ends(b, end++));
	printf("--- row %lld: %lld rows, %lld targets\n", (long long)r, (long long)(end - r),
	       (long long)targets);
	put_token(s, b->inputs[r], 1);
	for (; r < end; r++)
		if (is_target(b, r))
			put_token(s, b->targets[r], 0);
		else if (r + 1 < end)
			put_token(s, b->inputs[r + 1], 1);
	mask(s, 0);
	zr_char_end(&s->out);
	putchar('\n');
	return end;
}

static void put_sequence(struct show *s, int64_t sequences)
{
	const struct zr_batch *b = &s->b;
	int64_t padding = 0;

	printf("=== sequence %lld", (long long)b->slot + 1);
	if (sequences)
		printf(" of %lld", (long long)sequences);
	putchar('\n');
	for (int64_t r = 0; r < b->length;) {
		if (is_padding(b, r))
			r++, padding++;
		else
			r = put_document(s, r);
	}

	if (padding)
		printf("--- %lld rows of padding\n", (long long)padding);
}

/* Micro-batches of one sequence: their slots are the numbers of the sequences of the run. */
static int put_sequences(struct show *s, struct zr_error *err)
{
	const struct zr_data_info *info = &s->setup->roles.source->info;
	int64_t n = s->split == ZR_SPLIT_VAL ? info->val_sequences : info->train_sequences;

	int rc = zr_sequence_batch(s->setup, s->split, s->samples, &s->b, err);
	if (!rc && s->split == ZR_SPLIT_VAL && !info->val_tokens)
		rc = zr_err(err, ZR_EINVAL, "[data] holds nothing out");
	for (; !rc && s->b.slot < s->samples; s->b.slot++) {
		rc = ZR_ASK(&s->setup->roles.source->it, data, batch, err, &s->b);
		if (!rc)
			put_sequence(s, n);
	}

	free(s->b.inputs);
	return rc;
}

/* ---- counts ---- */

static int put_counts(struct show *s, int32_t split, struct zr_error *err)
{
	const struct zr_data_v1 *data = s->setup->roles.source->it.vtbl;
	const struct zr_data_info *info = &s->setup->roles.source->info;
	int told = ZR_HAS(data, struct zr_data_v1, count) && data->count;
	int val = split == ZR_SPLIT_VAL;
	int64_t tokens = val ? info->val_tokens : info->train_tokens;
	int64_t sequences = val ? info->val_sequences : info->train_sequences;
	struct zr_data_count c = { .size = sizeof c };
	int rc = 0, any = 0;

	if (!tokens)
		return 0;

	printf("%s\n", val ? "validation" : "training");
	for (uint32_t i = 0; told && !rc; i++) {
		c = (struct zr_data_count){ .size = sizeof c };
		rc = ZR_ASK(&s->setup->roles.source->it, data, count, err, split, i, &c);
		if (rc || !c.name)
			break;

		printf("  %-30s %12lld", c.name, (long long)c.value);
		if (c.of > 0)
			printf("  %5.1f %%", 100.0 * (double)c.value / (double)c.of);
		putchar('\n');
		any = 1;
	}

	if (!any && !rc)
		printf("  %-30s %12lld\n", "tokens", (long long)tokens);
	if (!any && !rc && sequences)
		printf("  %-30s %12lld\n", "sequences", (long long)sequences);
	return rc;
}

/* Of a mixture, one of its sets: all have the same tokens. */
static const struct zr_section *who_decodes(const struct zr_setup *s)
{
	const struct zr_process *p = &s->facts.process;

	for (int i = 0; i < p->sources; i++) {
		const struct zr_data_v1 *v = p->source[i].vtbl;
		if (ZR_HAS(v, struct zr_data_v1, decode) && v->decode)
			return p->source[i].section;
	}

	return s->roles.source->it.section;
}

/* What a section says of its tokens' tokenizer.json; NULL: nothing. */
static const char *tokenizer_in(const struct zr_section *s)
{
	const struct zr_opt *o = zr_table_find(&s->table, "tokenizer");
	const char *text = NULL;

	if (o)
		text = zr_value_text(o, s->opts);
	if (!text || !*text)
		return NULL;

	return text;
}

/* Of [data], or of the first set that it mixes which names one. */
static const char *tokenizer_of(const struct zr_setup *s)
{
	const struct zr_process *p = &s->facts.process;
	const char *name = tokenizer_in(s->roles.source->it.section);

	for (int i = 0; i < p->sources && !name; i++)
		name = tokenizer_in(p->source[i].section);

	return name;
}

/* NO_COLOR counts if it is there and not empty: dimming is a look, too. */
static int may_dim(int terminal)
{
	const char *no_color = getenv("NO_COLOR");

	return terminal && !(no_color && *no_color);
}

/* Conversations, or sequences where there are none or those are asked for. */
static int put_samples(struct show *s, struct zr_error *err)
{
	const struct zr_look_request request = { .setup = s->setup,
						 .text = &s->text,
						 .split = s->split,
						 .from = s->from - 1,
						 .n = s->samples,
						 .conf = s->conf,
						 .html = s->html,
						 .colours = s->dims };

	if (!s->sequences && zr_look_can(s->setup))
		return zr_look_show(&request, err);
	if (s->html && s->sequences)
		return zr_err(err, ZR_EINVAL, "--html: writes conversations, not --sequences");
	if (s->html)
		return zr_err(err, ZR_EINVAL,
			      "--html: no plugin of [data] has conversations to show, as data/chat "
			      "has");
	if (s->from > 1)
		return zr_err(
			err, ZR_EINVAL,
			"--from: no plugin of [data] has conversations to count, as data/chat "
			"has");
	if (!s->samples)
		return 0;

	return put_sequences(s, err);
}

static int show(struct show *s, struct zr_error *err)
{
	const struct zr_section *model = s->setup->roles.model.section;
	const char *tokenizer = s->tokenizer;

	if (!tokenizer)
		tokenizer = tokenizer_of(s->setup);

	const struct zr_token_source from = { .tokenizer = tokenizer,
					      .dir = model->path,
					      .data = who_decodes(s->setup),
					      .vocabulary = s->setup->facts.decl.vocabulary,
					      .add_tokens = model->add_tokens };
	int rc = zr_token_text_open(&from, &s->text, err);

	s->out = (struct zr_char_writer){ .f = stdout, .terminal = isatty(STDOUT_FILENO) == 1 };
	s->dims = may_dim(s->out.terminal);
	if (!rc)
		rc = put_samples(s, err);
	if (rc || s->html) {
		zr_token_text_close(&s->text);
		return rc;
	}

	if (s->samples)
		putchar('\n');
	if (!rc)
		printf("%s\n", s->setup->roles.source->info.describe);
	if (!rc)
		rc = put_counts(s, ZR_SPLIT_TRAIN, err);
	if (!rc)
		rc = put_counts(s, ZR_SPLIT_VAL, err);
	zr_token_text_close(&s->text);
	return rc;
}

int zr_cmd_data(int argc, char **argv)
{
	struct show s = { .samples = -1, .from = 1 };
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	struct zr_cmd_operands operands;
	int rc;

	const struct zr_cmd_form *form = zr_cmd_verb(argc, argv, &zr_data_usage, &rc);
	if (!form)
		return rc;

	rc = zr_cmd_parse(argc - 1, argv + 1, &zr_data_usage, form, &s, &operands);
	if (rc >= 0)
		return rc;

	s.conf = operands.at[0];
	if (s.samples < 0)
		s.samples = s.html ? 50 : 3;
	if (s.held_out)
		s.split = ZR_SPLIT_VAL;
	rc = zr_config_load(s.conf, s.overrides, s.n_overrides, &cfg, &err);
	if (!rc)
		zr_cmd_log(cfg);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, 1, &s.setup, &err);
	if (!rc)
		rc = show(&s, &err);
	zr_setup_close(s.setup);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
