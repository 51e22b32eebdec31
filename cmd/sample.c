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
#include <zeroth/data.h>

#include "cmd/cmd.h"
#include "cmd/fit.h"
#include "cmd/weights.h"
#include "core/config/ini.h"
#include "core/session.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokenizer/utf8.h"

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
	int terminal; /* stdout is one */
	double temperature;
	struct zr_setup *setup;
	struct zr_session *session;
	/* for the text of tokens, without an instance; NULL: tokens are numbers */
	const struct zr_data_v1 *data;
	const void *data_opts;
	struct zr_tokenizer *text; /* NULL: the text of a token is that of `data` */
	char held[4];              /* bytes of a character that is not complete */
	size_t n_held;
	int64_t vocabulary, context;
	/* only tokens below this are drawn: those that have a text, if that is known */
	int64_t drawn;
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

/* Prints one character, or n bytes that are not UTF-8. To a terminal it sends no control bytes,
 * which a model without much training may draw. */
static int put_char(const struct sampler *s, const char *p, size_t n, int is_char)
{
	unsigned char c = (unsigned char)*p;
	if (s->terminal && is_char && ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f))
		p = "?";
	else if (s->terminal && !is_char)
		p = "\xef\xbf\xbd", n = 3;
	return fwrite(p, 1, n, stdout) == n ? 0 : -1;
}

/* Prints the bytes of a token after those of a character that was not complete. Holds back a
 * character that is still not complete. */
static int put_bytes(struct sampler *s, const char *p, size_t n)
{
	int rc = 0, len;
	for (; !rc && n; n--) {
		s->held[s->n_held++] = *p++;
		while (!rc && s->n_held && (len = zr_utf8_at(s->held, s->n_held)) != 0) {
			rc = put_char(s, s->held, (size_t)abs(len), len > 0);
			s->n_held -= (size_t)abs(len);
			memmove(s->held, s->held + abs(len), s->n_held);
		}
	}
	return rc;
}

static int put_token(struct sampler *s, int32_t token)
{
	char text[16];
	size_t n = 0;
	if (s->text) {
		const char *p = zr_tokenizer_bytes(s->text, token, &n);
		return p ? put_bytes(s, p, n) : 0;
	}
	if (!s->data || !ZR_HAS(s->data, struct zr_data_v1, decode) || !s->data->decode)
		return printf("%d ", token) < 0 ? -1 : 0;
	return put_bytes(s, text, (size_t)s->data->decode(s->data_opts, token, text));
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

static int set_tokens(struct sampler *s, struct zr_error *err)
{
	struct zr_encoder *e;
	int32_t eot = zr_tokenizer_added(s->text, "<|endoftext|>");
	const char *text = s->prompt ? s->prompt : "\n";
	if (!s->prompt && eot >= 0)
		return take_prompt(s, &eot, 1);
	int rc = zr_encoder_open(s->text, take_prompt, s, &e, err);
	if (rc)
		return rc;
	rc = zr_encode(e, text, strlen(text), err);
	rc = rc ? rc : zr_encode_end(e, err);
	zr_encoder_close(e);
	return rc || s->n ? rc : zr_err(err, ZR_EINVAL, "--prompt must not be empty");
}

static int set_prompt(struct sampler *s, struct zr_error *err)
{
	if (s->text)
		return set_tokens(s, err);
	const struct zr_data_v1 *d = s->data;
	const char *text = s->prompt ? s->prompt : "\n";
	if (!d || !ZR_HAS(d, struct zr_data_v1, encode) || !d->encode) {
		if (s->prompt)
			return zr_err(
				err, ZR_EINVAL,
				"nothing here knows the text of its tokens: --prompt needs a "
				"--tokenizer");
		push(s, 0);
		return 0;
	}
	int64_t n = d->encode(s->data_opts, text, (int64_t)strlen(text), NULL, 0);
	int32_t *tokens = malloc((size_t)(n > 0 ? n : 1) * sizeof *tokens);
	if (!tokens)
		return zr_err(err, ZR_ENOMEM, "out of memory for the prompt");
	d->encode(s->data_opts, text, (int64_t)strlen(text), tokens, n);
	int rc = take_prompt(s, tokens, (size_t)(n > 0 ? n : 0));
	free(tokens);
	return n > 0 ? rc : zr_err(err, ZR_EINVAL, "--prompt must not be empty");
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
	int64_t k = s->top_k && s->top_k < s->drawn ? s->top_k : s->drawn;
	for (int64_t v = 0; v < s->drawn; v++)
		s->order[v] = (int32_t)v;
	sort_by = s->logits;
	qsort(s->order, (size_t)s->drawn, sizeof *s->order, by_logit);
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
	if (!rc && s->n_held)
		put_char(s, s->held, s->n_held, 0);
	if (!rc)
		putchar('\n');
	return rc;
}

static int use_tokenizer(struct sampler *s, const char *path, struct zr_error *err)
{
	int rc = zr_tokenizer_open(path, &s->text, err);
	int64_t n = rc ? 0 : zr_tokenizer_size(s->text);
	if (!rc && n > s->vocabulary)
		rc = zr_err(
			err, ZR_EINVAL,
			"%s: has %lld tokens, the model of %s knows %lld: it learned from another "
			"one",
			path, (long long)n, s->run, (long long)s->vocabulary);
	if (!rc) {
		s->drawn = n;
		return 0;
	}
	zr_tokenizer_close(s->text);
	s->text = NULL;
	return rc;
}

/* [model] path of a run's config.ini, which sampling itself does not read. */
static int find_path(void *arg, const char *section, const char *key, const char *value, int line)
{
	(void)line;
	if (key && !strcmp(section, "model") && !strcmp(key, "path"))
		snprintf(arg, PATH_MAX, "%s", value);
	return 0;
}

static int is_there(char file[PATH_MAX], const char *dir, const char *name)
{
	return *dir && snprintf(file, PATH_MAX, "%s/%s", dir, name) < PATH_MAX &&
	       !access(file, F_OK);
}

/* If [data] does not know the text of tokens, uses the tokenizer in the directory of the model, if
 * there is one. */
static void look_for_tokenizer(struct sampler *s)
{
	char file[PATH_MAX], dir[PATH_MAX] = "";
	struct zr_error err = { 0 };
	if (s->data && ZR_HAS(s->data, struct zr_data_v1, decode) && s->data->decode)
		return;
	snprintf(file, sizeof file, "%s/config.ini", s->run);
	/* a directory of Hugging Face has no config.ini */
	zr_ini_read(file, file, find_path, dir, NULL);
	if (!is_there(file, s->run, "tokenizer.json") &&
	    !is_there(file, s->run, "model-16bit/tokenizer.json") &&
	    !is_there(file, dir, "tokenizer.json"))
		return;
	if (use_tokenizer(s, file, &err))
		fprintf(stderr,
			"zeroth: tokens are numbers here, since their tokenizer cannot be used: "
			"%s\n",
			err.text);
	else
		fprintf(stderr, "tokenizer   %s\n", file);
}

static int open_tokenizer(struct sampler *s, struct zr_error *err)
{
	s->drawn = s->vocabulary;
	if (s->tokenizer)
		return use_tokenizer(s, s->tokenizer, err);
	look_for_tokenizer(s);
	return 0;
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
	const struct zr_section *data = is_model ? NULL : zr_config_find(*cfg, "data");
	if (!rc && data) {
		s->data = zr_plugin_iface(data->plugin, "zr.data/1",
					  offsetof(struct zr_data_v1, decode), err);
		s->data_opts = data->opts;
	}
	s->vocabulary = s->setup->decl.vocabulary;
	s->context = s->setup->batch.length;
	rc = rc ? rc : open_tokenizer(s, err);
	s->window = calloc((size_t)s->context, sizeof *s->window);
	s->logits = calloc((size_t)s->vocabulary, sizeof *s->logits);
	s->order = calloc((size_t)s->vocabulary, sizeof *s->order);
	if (!rc && (!s->window || !s->logits || !s->order))
		rc = zr_err(err, ZR_ENOMEM, "out of memory");
	return rc;
}

int zr_cmd_sample(int argc, char **argv)
{
	struct sampler s = {
		.tokens = 400, .temperature = 0.8, .top_k = 40, .seed = 1, .terminal = isatty(1)
	};
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
	zr_tokenizer_close(s.text);
	zr_session_close(s.session);
	zr_setup_close(s.setup);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
