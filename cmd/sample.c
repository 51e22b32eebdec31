/* SPDX-License-Identifier: Apache-2.0
 *
 * sample.c - zeroth sample RUN: texts from a trained model, token by token.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/sample/chat.h"
#include "cmd/sample/forms.h"
#include "cmd/sample/model.h"
#include "cmd/sample/prompts.h"
#include "cmd/sample/samples_file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "train/run/outlet.h"
#include "train/rundir.h"

#define STOPS 64 /* most --stop */

/* A model and what it is called where there are two. */
struct voice {
	struct zr_sample_model model;
	char name[PATH_MAX + 16];
};

struct sampler {
	const char *run, *beside, *adapter, *prompt, *prompts, *tokenizer, *eos;
	struct zr_chat_options forms; /* of --chat */
	struct zr_generator g;        /* what both draw by */
	const char *overrides[ZR_CMD_OVERRIDES], *stop[STOPS];
	int n_overrides, json, no_cache, chat, keep;
	int samples;
	struct voice voice[2]; /* of RUN, and of BASE */
	int voices;
	struct voice *now; /* whose text it is */
	struct zr_prompts list;
	struct zr_char_writer out; /* where a text goes, but for --json; and */
	struct zr_kept_text kept;  /* with --keep a second time */
	int32_t *tokens, *drawn;   /* of a prompt, [most] of a text */
	int64_t n_tokens, room;
	int64_t n_before; /* tokens that the model's tokenizer puts before a text */
	int started;      /* a text is printed */
};

/* ---- the command line ---- */

#define AT(member) offsetof(struct sampler, member)

static const struct zr_cmd_option options[] = {
	{ 'p', "prompt", "TEXT",
	  "text to continue (default: a newline; with a tokenizer that has it <|endoftext|>)",
	  .kind = ZR_CMD_TEXT, .at = AT(prompt) },
	{ 0, "prompts", "FILE", "a prompt a line, or JSONL with \"prompt\"; -: standard input",
	  .kind = ZR_CMD_TEXT, .at = AT(prompts) },
	{ 0, "samples", "N", "texts of each prompt (default 1)", .kind = ZR_CMD_INT,
	  .at = AT(samples), .least = 1, .most = 1e6, .counts = "a number of texts" },
	{ 0, "adapter", "DIR",
	  "adapters of PEFT for a model's directory: adapter_config.json and "
	  "adapter_model.safetensors",
	  .kind = ZR_CMD_TEXT, .at = AT(adapter) },
	{ 0, "chat", NULL,
	  "a conversation: reads a line of standard input, answers, and so on; /reset, /quit",
	  .kind = ZR_CMD_FLAG, .at = AT(chat) },
	{ 0, "beside", "BASE",
	  "a second model, which continues or answers the same: a run, a checkpoint or a model's "
	  "directory; each text stands below its name",
	  .kind = ZR_CMD_TEXT, .at = AT(beside) },
	{ 0, "template", "NAME",
	  "how --chat writes it: auto, or a name of tokenize --chat; default here and below: what "
	  "[data] of RUN has, else auto",
	  .kind = ZR_CMD_TEXT, .at = AT(forms.template) },
	{ 0, "system", "TEXT", "system message of --chat", .kind = ZR_CMD_TEXT,
	  .at = AT(forms.system) },
	ZR_JINJA_OPTIONS(struct sampler, forms),
	{ 0, "tools", "FILE", "a JSON list of tools that the chat template writes",
	  .kind = ZR_CMD_TEXT, .at = offsetof(struct sampler, forms.tools) },
	ZR_FORM_OPTIONS(struct sampler, forms),
	{ 0, "bos", "TOKEN", "the first token of a text, for {bos}; --eos for {eos}",
	  .kind = ZR_CMD_TEXT, .at = AT(forms.bos) },
	{ 'T', "tokenizer", "FILE",
	  "tokenizer.json that the model's tokens are from, or its directory (default: bytes, "
	  "where "
	  "those of [data] are, else the one of [data], in RUN or in the directory of [model] "
	  "path, "
	  "if it is there)",
	  .kind = ZR_CMD_TEXT, .at = AT(tokenizer) },
	{ 'n', "tokens", "N", "most tokens to draw (default 400)", .kind = ZR_CMD_WHOLE,
	  .at = AT(g.most), .least = 1, .most = 1e9, .counts = "a number of tokens" },
	{ 0, "eos", "TOKEN|none",
	  "token that ends a text, by its text or number (default: what the model's files say)",
	  .kind = ZR_CMD_TEXT, .at = AT(forms.eos) },
	{ 0, "stop", "TEXT", "ends a text too, and is not printed; may be given again",
	  .kind = ZR_CMD_LIST, .at = AT(stop), .most = STOPS, .count = AT(g.stops.n) },
	{ 't', "temperature", "T", "0 takes the likeliest token (default 0.8)",
	  .kind = ZR_CMD_NUMBER, .at = AT(g.draw.temperature), .most = 100 },
	{ 'k', "top-k", "K", "draws among the K likeliest only; 0: all (default 40)",
	  .kind = ZR_CMD_WHOLE, .at = AT(g.draw.top_k), .most = 1e9,
	  .counts = "a number of tokens" },
	{ 0, "top-p", "P",
	  "of these among the likeliest that have P of the probability (default 1: all)",
	  .kind = ZR_CMD_NUMBER, .at = AT(g.draw.top_p), .most = 1 },
	{ 's', "seed", "S", "another seed, another text (default 1)", .kind = ZR_CMD_WHOLE,
	  .at = AT(g.draw.seed), .most = 9e15, .counts = "a whole number" },
	{ 0, "json", NULL, "a line of JSON per text: prompt, sample, text, tokens, end",
	  .kind = ZR_CMD_FLAG, .at = AT(json) },
	{ 0, "keep", NULL,
	  "appends the texts to " ZR_SAMPLES_FILE " of RUN too, which zeroth report shows",
	  .kind = ZR_CMD_FLAG, .at = AT(keep) },
	{ 0, "no-cache", NULL, "computes all tokens again for each new one: slower, less memory",
	  .kind = ZR_CMD_FLAG, .at = AT(no_cache) },
	{ 'o', "option", "section.key=value",
	  "sets an option over the run's, e.g. device.threads=1", .kind = ZR_CMD_LIST,
	  .at = AT(overrides), .most = ZR_CMD_OVERRIDES, .count = AT(n_overrides) },
	{ 0 },
};

const struct zr_cmd_usage zr_sample_usage = {
	.command = "sample",
	.form = { { NULL, "RUN", NULL } },
	.about = "Prints text that the model of run directory RUN continues, as it is drawn. RUN "
		 "may\n"
		 "also be a checkpoint, or a model's directory of Hugging Face, with config.json "
		 "and\n"
		 "safetensors.\n",
	.option = options,
	.more = "Tokens without a text are printed as numbers; control bytes appear as ? on a "
		"terminal.\n"
		"Several texts are separated by a line with ---.\n",
	.is_long = 1,
};

static int wrong(const char *what)
{
	return zr_cmd_refuse(&zr_sample_usage, "%s", what);
}

/* -1 to continue, else the exit code. */
static int check(const struct sampler *s)
{
	for (int i = 0; i < s->g.stops.n; i++)
		if (!*s->stop[i])
			return wrong("--stop must not be empty");
	if (s->prompt && s->prompts)
		return wrong("--prompt and --prompts: give one of them");
	if (s->chat && (s->prompt || s->prompts || s->json || s->samples > 1))
		return wrong("--chat reads standard input, and answers once: not with --prompt, "
			     "--prompts, --samples or --json");
	if (s->keep && (s->chat || !zr_dir_look(s->run).run))
		return wrong("--keep is for texts of a run, which go into its " ZR_SAMPLES_FILE);
	if (s->keep && s->beside)
		return wrong("--keep is for texts of a run alone: not with --beside");
	if (s->beside && !s->adapter && !strcmp(s->run, s->beside))
		return wrong("--beside names the model that it would stand beside");
	if (!s->chat && zr_form_given(&s->forms))
		return wrong("--system, --template, --bos and the forms are for --chat");
	return -1;
}

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct sampler *s)
{
	struct zr_cmd_operands operands;

	int rc = zr_cmd_parse(argc, argv, &zr_sample_usage, NULL, s, &operands);
	if (rc >= 0)
		return rc;

	s->run = operands.at[0];
	s->eos = s->forms.eos;
	if (s->eos && (!strcmp(s->eos, "none") || isdigit((unsigned char)*s->eos)))
		s->forms.eos = NULL; /* no text for {eos} */
	return check(s);
}

/* ---- the models ---- */

/* What is given holds for both models; what is not, each has of its own. */
static int open_voice(struct sampler *s, const char *path, const char *adapter,
		      struct zr_error *err)
{
	const struct zr_sample_source from = { .path = path,
					       .adapter = adapter,
					       .tokenizer = s->tokenizer,
					       .eos = s->eos,
					       .override = s->overrides,
					       .n_overrides = s->n_overrides,
					       .no_cache = s->no_cache };
	struct voice *v = &s->voice[s->voices++];

	snprintf(v->name, sizeof v->name, "%s%s%s", path, adapter ? " with " : "",
		 adapter ? adapter : "");
	zr_one_line(v->name);
	v->model.forms = s->forms;
	v->model.g = s->g;
	v->model.g.stops.text = s->stop;

	int rc = zr_sample_model_open(&v->model, &from, err);
	if (rc && s->beside)
		zr_sample_blame(path, err);
	return rc;
}

static int open_voices(struct sampler *s, struct zr_error *err)
{
	int rc = zr_sample_model_look(s->run, err);
	if (!rc && s->beside)
		rc = zr_sample_model_look(s->beside, err);
	if (!rc)
		rc = open_voice(s, s->run, s->adapter, err);
	if (!rc && s->beside)
		rc = open_voice(s, s->beside, NULL, err);
	if (rc || !s->json)
		return rc;

	s->drawn = malloc((size_t)s->g.most * sizeof *s->drawn);
	if (!s->drawn)
		return zr_err(err, ZR_ENOMEM, "out of memory for --tokens");
	return 0;
}

static int converse(struct sampler *s, struct zr_error *err)
{
	struct zr_speaker speaker[2];

	for (int i = 0; i < s->voices; i++) {
		struct voice *v = &s->voice[i];
		speaker[i] = (struct zr_speaker){ .name = s->beside ? v->name : NULL,
						  .g = &v->model.g,
						  .forms = &v->model.forms };
	}

	return zr_converse(speaker, s->voices, err);
}

/* ---- prompts ---- */

static int take_tokens(void *arg, const int32_t *ids, size_t n)
{
	struct sampler *s = arg;

	if (s->n_tokens + (int64_t)n > s->room) {
		int64_t room = 2 * (s->n_tokens + (int64_t)n);
		int32_t *more = realloc(s->tokens, (size_t)room * sizeof *more);
		if (!more)
			return ZR_ENOMEM;

		s->tokens = more;
		s->room = room;
	}

	memcpy(s->tokens + s->n_tokens, ids, n * sizeof *ids);
	s->n_tokens += (int64_t)n;
	return 0;
}

/* What the tokenizer of a model's directory puts before a text, as the model has learned it. */
static int put_before(struct sampler *s)
{
	const int32_t *before;
	const struct zr_tokenizer *tokenizer = s->now->model.text.tokenizer;
	int n = 0;

	if (s->now->model.is_model && tokenizer)
		n = zr_tokenizer_template(tokenizer, 0, &before, &(struct zr_error){ 0 });

	s->n_before = n > 0 ? n : 0;
	return n > 0 ? take_tokens(s, before, (size_t)n) : 0;
}

/* Drops what put_before() has put where the prompt begins with the same tokens. */
static void drop_twice(struct sampler *s)
{
	int64_t n = s->n_before;

	size_t bytes = (size_t)n * sizeof *s->tokens;
	if (s->n_tokens < 2 * n || memcmp(s->tokens, s->tokens + n, bytes))
		return;

	s->n_tokens -= n;
	memmove(s->tokens, s->tokens + n, (size_t)s->n_tokens * sizeof *s->tokens);
	s->n_before = 0;
}

/* prompt NULL: none. */
static int encode(struct sampler *s, const struct zr_prompt *prompt, struct zr_error *err)
{
	const struct zr_token_text *known = &s->now->model.text;
	const char *text = prompt ? prompt->text : "\n";
	int32_t start = zr_token_text_known(known) ? -1 : 0;
	if (known->tokenizer)
		start = zr_tokenizer_added(known->tokenizer, "<|endoftext|>");
	size_t bytes = prompt ? prompt->bytes : 1;

	s->n_tokens = 0;
	int rc = put_before(s);
	if (!rc && (prompt || !s->n_before))
		rc = !prompt && start >= 0 ?
			     take_tokens(s, &start, 1) :
			     zr_token_text_encode(known, text, bytes, take_tokens, s, err);
	if (!rc && s->n_before)
		drop_twice(s);
	if (rc && !err->text[0])
		return zr_err(err, rc, "out of memory for the prompt");
	if (rc || s->n_tokens)
		return rc;
	return zr_err(err, ZR_EINVAL, "a prompt must not be empty");
}

/* ---- texts ---- */

static int put(void *arg, const char *p, size_t n)
{
	struct sampler *s = arg;
	int bad = s->kept.out.f && zr_char_write(&s->kept.out, p, n);
	return bad || (s->out.f && (zr_char_write(&s->out, p, n) || zr_outlet_push()));
}

static int put_prompt(struct sampler *s)
{
	struct zr_token_text *text = &s->now->model.text;
	char scratch[16];
	int rc = 0;

	zr_token_text_begin(text, 0);
	for (int64_t i = s->n_before; !rc && i < s->n_tokens; i++) {
		size_t n;
		const char *p = zr_token_text_next(text, s->tokens[i], &n, scratch);
		rc = p ? put(s, p, n) : 0;
	}

	return rc;
}

static int write_failed(struct zr_error *err)
{
	return zr_err(err, ZR_EIO, "cannot write the text: %s", strerror(errno));
}

/* What stands between two texts, or before each of two models' own. */
static int put_heading(struct sampler *s)
{
	int bad = 0;

	if (s->beside)
		bad = printf("--- %s\n", s->now->name) < 0;
	else if (s->started)
		bad = puts("---") < 0;
	s->started = 1;
	return bad;
}

static int print_text(struct sampler *s, const struct zr_prompt *prompt, uint64_t number,
		      struct zr_error *err)
{
	struct zr_drawn d = { .sink = put, .arg = s, .number = number };
	int rc = s->keep ? zr_kept_begin(&s->kept, err) : 0;

	s->out = (struct zr_char_writer){ .f = stdout, .terminal = isatty(1) };
	if (!rc && (put_heading(s) || (prompt && put_prompt(s))))
		rc = write_failed(err);
	if (!rc)
		rc = zr_generate(&s->now->model.g, &d, err);
	if (!rc && (zr_char_end(&s->out) || putchar('\n') < 0))
		rc = write_failed(err);
	if (s->kept.out.f)
		return zr_kept_end(&s->kept, s->run, &s->g.draw, rc, err);
	return rc;
}

/* The characters of n bytes, what is none of them as U+FFFD. */
static json_t *json_text(const char *p, size_t n)
{
	char *text = NULL;
	size_t bytes = 0;
	struct zr_char_writer w = { .f = open_memstream(&text, &bytes), .utf8 = 1 };
	int bad = !w.f || zr_char_write(&w, p, n) || zr_char_end(&w);

	bad |= w.f && fclose(w.f);
	json_t *j = bad ? NULL : json_stringn(text, bytes);
	free(text);
	return j;
}

static json_t *json_tokens(const struct zr_drawn *d)
{
	json_t *list = json_array();
	for (int64_t i = 0; i < d->n; i++)
		zr_json_add(&list, json_integer(d->tokens[i]));
	return list;
}

static int keep(void *arg, const char *p, size_t n)
{
	return fwrite(p, 1, n, arg) == n ? 0 : -1;
}

static int keep_text(struct sampler *s, const struct zr_prompt *prompt, const char *text,
		     size_t bytes, struct zr_error *err)
{
	int rc = zr_kept_begin(&s->kept, err);
	if (!rc && ((prompt && put_prompt(s)) || put(s, text, bytes)))
		rc = write_failed(err);
	if (s->kept.out.f)
		return zr_kept_end(&s->kept, s->run, &s->g.draw, rc, err);
	return rc;
}

static int print_json(struct sampler *s, const struct zr_prompt *prompt, uint64_t number,
		      struct zr_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	struct zr_drawn d = { .sink = keep, .arg = f, .number = number, .tokens = s->drawn };

	int rc;
	if (f)
		rc = zr_generate(&s->now->model.g, &d, err);
	else
		rc = zr_no_memory(err);
	if (f && fclose(f) && !rc)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the text");
	if (!rc) {
		json_t *j = json_object();
		if (s->beside)
			zr_json_put(&j, "model", zr_json_string(s->now->name, "(not UTF-8)"));
		json_int_t which = (json_int_t)(number % (uint64_t)s->samples);
		zr_json_put(&j, "prompt",
			    prompt ? json_text(prompt->text, prompt->bytes) : json_null());
		zr_json_put(&j, "sample", json_integer(which));
		zr_json_put(&j, "text", json_text(text, bytes));
		zr_json_put(&j, "tokens", json_tokens(&d));
		zr_json_put(&j, "end", json_string(zr_ended_names[d.ended]));
		char *line = zr_json_dump(j, JSON_COMPACT);
		json_decref(j);
		if (!line)
			rc = zr_err(err, ZR_ENOMEM, "out of memory for the text");
		else if (puts(line) < 0 || zr_outlet_push())
			rc = write_failed(err);
		else
			rc = 0;
		free(line);
	}

	if (!rc && s->keep)
		rc = keep_text(s, prompt, text, bytes, err);
	free(text);
	return rc;
}

/* The k-th text of the i-th prompt, of each model. */
static int sample_each(struct sampler *s, const struct zr_prompt *p, size_t i, int k,
		       struct zr_error *err)
{
	const uint64_t number = (uint64_t)i * (uint64_t)s->samples + (uint64_t)k;
	int rc = 0;

	for (int v = 0; !rc && v < s->voices; v++) {
		s->now = &s->voice[v];
		rc = encode(s, p, err);
		if (rc)
			break;

		zr_generator_begin(&s->now->model.g, s->tokens, s->n_tokens);
		rc = (s->json ? print_json : print_text)(s, p, number, err);
	}

	return rc;
}

static int sample(struct sampler *s, struct zr_error *err)
{
	struct zr_prompt one = { (char *)s->prompt, s->prompt ? strlen(s->prompt) : 0 };
	size_t n = s->prompts ? s->list.n : 1;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		const struct zr_prompt *p = s->prompt ? &one : NULL;
		if (s->prompts)
			p = &s->list.at[i];
		for (int k = 0; !rc && k < s->samples; k++)
			rc = sample_each(s, p, i, k, err);
	}

	return rc;
}

int zr_cmd_sample(int argc, char **argv)
{
	struct sampler s = {
		.samples = 1,
		.g = { .most = 400,
		       .draw = { .temperature = 0.8, .top_k = 40, .top_p = 1, .seed = 1 } }
	};
	struct zr_error err = { 0 };

	int rc = parse(argc, argv, &s);
	if (rc >= 0)
		return rc;

	if (s.prompts)
		rc = zr_prompts_read(s.prompts, &s.list, &err);
	else
		rc = 0;
	if (!rc)
		rc = open_voices(&s, &err);
	if (!rc)
		rc = s.chat ? converse(&s, &err) : sample(&s, &err);
	zr_prompts_free(&s.list);
	free(s.tokens);
	free(s.drawn);
	for (int i = 0; i < s.voices; i++)
		zr_sample_model_close(&s.voice[i].model);
	return rc ? zr_cmd_failed(&err) : 0;
}
