/* SPDX-License-Identifier: Apache-2.0
 *
 * sample.c - zeroth sample RUN: text from a trained model, token by token.
 *
 * The next token is drawn from softmax(logits / temperature) over the top-k; each draw uses one
 * word of a counter-based generator, so a seed gives the same text again.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/fit.h"
#include "cmd/token_text.h"
#include "cmd/weights.h"
#include "core/session.h"

static const char usage[] =
	"usage: zeroth sample [options] RUN\n"
	"\n"
	"Prints text that the model of run directory RUN continues, as it is drawn. RUN may\n"
	"also be a model's directory of Hugging Face, with config.json and safetensors.\n"
	"\n"
	"  -p, --prompt TEXT       text to continue (default: a newline; with a tokenizer that has "
	"it <|endoftext|>)\n"
	"  -T, --tokenizer FILE    tokenizer.json that the model's tokens are from (default: "
	"bytes, where those of [data]\n"
	"                          are, else the one in RUN or in the directory of [model] path, "
	"if it is there)\n"
	"  -n, --tokens N          tokens to draw (default 400)\n"
	"  -t, --temperature T     0 takes the likeliest token (default 0.8)\n"
	"  -k, --top-k K           draws among the K likeliest only; 0: all (default 40)\n"
	"  -s, --seed S            another seed, another text (default 1)\n"
	"  -o, --option section.key=value  sets an option over the run's, e.g. device.threads=1\n"
	"  -h, --help              shows this\n"
	"\n"
	"Tokens without a text are printed as numbers; control bytes appear as ? on a terminal.\n";

struct sampler {
	const char *run, *prompt, *tokenizer;
	const char *overrides[66];
	int n_overrides;
	long tokens, top_k, seed;
	double temperature;
	struct zr_setup *setup;
	struct zr_session *session;
	struct zr_token_text text;
	struct zr_char_writer out;
	int64_t vocabulary, context;
	int32_t *window; /* [context] the tokens that the model sees */
	int64_t n;
	float *logits;
	int32_t *order;
};

static int number(const char *text, double min, double max, double *out, const char *name)
{
	char *end;
	errno = 0;
	*out = strtod(text, &end);
	if (!*text || *end || errno || !(*out >= min && *out <= max)) {
		fprintf(stderr, "zeroth sample: --%s %s: expected a number in [%g, %g]\n", name,
			text, min, max);
		return -1;
	}
	return 0;
}

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct sampler *s)
{
	static const struct option longs[] = {
		{ "prompt", 1, NULL, 'p' },
		{ "tokens", 1, NULL, 'n' },
		{ "temperature", 1, NULL, 't' },
		{ "top-k", 1, NULL, 'k' },
		{ "seed", 1, NULL, 's' },
		{ "option", 1, NULL, 'o' },
		{ "help", 0, NULL, 'h' },
		{ "tokenizer", 1, NULL, 'T' },
		{ NULL, 0, NULL, 0 },
	};
	double v;
	int c;
	optind = 1;
	while ((c = getopt_long(argc, argv, "p:T:n:t:k:s:o:h", longs, NULL)) != -1) {
		if (c == 'p')
			s->prompt = optarg;
		else if (c == 'T')
			s->tokenizer = optarg;
		else if (c == 'n' && !number(optarg, 1, 1e9, &v, "tokens"))
			s->tokens = (long)v;
		else if (c == 't' && !number(optarg, 0, 100, &v, "temperature"))
			s->temperature = v;
		else if (c == 'k' && !number(optarg, 0, 1e9, &v, "top-k"))
			s->top_k = (long)v;
		else if (c == 's' && !number(optarg, 0, 9e15, &v, "seed"))
			s->seed = (long)v;
		else if (c == 'o' && s->n_overrides < 63)
			s->overrides[s->n_overrides++] = optarg;
		else if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		} else {
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		return 2;
	}
	s->run = argv[optind];
	return -1;
}

static int put_token(struct sampler *s, int32_t token)
{
	char scratch[16];
	size_t n;
	const char *p = zr_token_text_bytes(&s->text, token, &n, scratch);
	return p ? zr_char_write(&s->out, p, n) : 0;
}

static void push(struct sampler *s, int32_t token)
{
	if (s->n == s->context) {
		/* keep the newer half: the window moves rarely, so that positions stay as in
		 * training */
		int64_t keep = s->context / 2 > 0 ? s->context / 2 : 1;
		memmove(s->window, s->window + s->n - keep, (size_t)keep * sizeof *s->window);
		s->n = keep;
	}
	s->window[s->n++] = token;
}

static int take_prompt(void *arg, const int32_t *ids, size_t n)
{
	struct sampler *s = arg;
	int rc = 0;
	for (size_t i = 0; i < n; i++) {
		push(s, ids[i]);
		rc = rc || !s->prompt ? rc : put_token(s, ids[i]);
	}
	return rc;
}

static int set_prompt(struct sampler *s, struct zr_error *err)
{
	const char *text = s->prompt ? s->prompt : "\n";
	int32_t start = s->text.tokenizer ?
				zr_tokenizer_added(s->text.tokenizer, "<|endoftext|>") :
			zr_token_text_known(&s->text) ? -1 : 0;
	if (!s->prompt && start >= 0)
		return take_prompt(s, &start, 1);
	int rc = zr_token_text_encode(&s->text, text, strlen(text), take_prompt, s, err);
	return rc || s->n ? rc : zr_err(err, ZR_EINVAL, "--prompt must not be empty");
}

static const float *sort_by;

static int by_logit(const void *a, const void *b)
{
	float x = sort_by[*(const int32_t *)a], y = sort_by[*(const int32_t *)b];
	if (x != y)
		return x < y ? 1 : -1;
	return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

/* A uniform number in [0, 1) from (seed, i): splitmix64's finaliser (Steele et al. 2014). */
static double uniform(uint64_t seed, uint64_t i)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int32_t draw(struct sampler *s, uint64_t i)
{
	int64_t k = s->top_k && s->top_k < s->text.tokens ? s->top_k : s->text.tokens;
	for (int64_t v = 0; v < s->text.tokens; v++)
		s->order[v] = (int32_t)v;
	sort_by = s->logits;
	qsort(s->order, (size_t)s->text.tokens, sizeof *s->order, by_logit);
	if (s->temperature == 0)
		return s->order[0];
	double sum = 0, top = s->logits[s->order[0]];
	for (int64_t j = 0; j < k; j++)
		sum += exp((s->logits[s->order[j]] - top) / s->temperature);
	double u = uniform((uint64_t)s->seed, i) * sum;
	for (int64_t j = 0; j < k; j++) {
		u -= exp((s->logits[s->order[j]] - top) / s->temperature);
		if (u < 0)
			return s->order[j];
	}
	return s->order[k - 1];
}

static int generate(struct sampler *s, struct zr_error *err)
{
	int rc = set_prompt(s, err);
	for (long i = 0; !rc && i < s->tokens; i++) {
		rc = zr_session_logits(s->session, s->window, s->n, s->logits, err);
		if (rc)
			break;
		int32_t token = draw(s, (uint64_t)i);
		if (put_token(s, token) || fflush(stdout))
			return zr_err(err, ZR_EIO, "cannot write the text: %s", strerror(errno));
		push(s, token);
	}
	if (!rc) {
		zr_char_end(&s->out);
		putchar('\n');
	}
	return rc;
}

static int is_there(char file[PATH_MAX], const char *dir, const char *name)
{
	return *dir && snprintf(file, PATH_MAX, "%s/%s", dir, name) < PATH_MAX &&
	       !access(file, F_OK);
}

static int open_run(struct sampler *s, struct zr_config **cfg, struct zr_error *err)
{
	/* the run has weights of its own */
	char path[PATH_MAX], model[PATH_MAX + 16] = "model.path=";
	int is_model = !is_there(path, s->run, "config.ini") &&
		       is_there(path, s->run, "config.json");
	if (is_model) {
		snprintf(model, sizeof model, "model.path=%s", s->run);
		/* [data] must have a path, although it is not read */
		s->overrides[s->n_overrides++] = "data.plugin=tokens";
		s->overrides[s->n_overrides++] = "data.path=none";
	}
	s->overrides[s->n_overrides++] = model;
	snprintf(path, sizeof path, "%s/config.ini", s->run);
	int rc = zr_config_load(is_model ? NULL : path, s->overrides, s->n_overrides, cfg, err);
	if (!rc)
		rc = zr_setup_open(*cfg, ZR_SETUP_SAMPLE, 1, &s->setup, err);
	if (!rc)
		rc = zr_plan_check(s->setup, 0, err);
	if (!rc)
		rc = zr_session_open(s->setup, &s->session, err);
	if (rc)
		return rc;
	snprintf(path, sizeof path, "%s/model.safetensors", s->run);
	rc = is_model ? zr_weights_begin(s->session, err) : zr_weights_load(s->session, path, err);
	s->vocabulary = s->setup->decl.vocabulary;
	s->context = s->setup->batch.length;
	struct zr_token_source from = { .tokenizer = s->tokenizer, .dir = s->run,
					.data = is_model ? NULL : zr_config_find(*cfg, "data"),
					.vocabulary = s->vocabulary };
	rc = rc ? rc : zr_token_text_open(&from, &s->text, err);
	s->window = calloc((size_t)s->context, sizeof *s->window);
	s->logits = calloc((size_t)s->vocabulary, sizeof *s->logits);
	s->order = calloc((size_t)s->vocabulary, sizeof *s->order);
	if (!rc && (!s->window || !s->logits || !s->order))
		rc = zr_err(err, ZR_ENOMEM, "out of memory");
	return rc;
}

int zr_cmd_sample(int argc, char **argv)
{
	struct sampler s = { .tokens = 400, .temperature = 0.8, .top_k = 40, .seed = 1,
			     .out = { .f = stdout, .terminal = isatty(1) } };
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	int rc = parse(argc, argv, &s);
	if (rc >= 0)
		return rc;
	rc = open_run(&s, &cfg, &err);
	if (!rc)
		rc = generate(&s, &err);
	free(s.window);
	free(s.logits);
	free(s.order);
	zr_token_text_close(&s.text);
	zr_session_close(s.session);
	zr_setup_close(s.setup);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
