/* SPDX-License-Identifier: Apache-2.0
 *
 * token_text.c - the text of tokens, and the tokens of a text; see token_text.h.
 */
#include "cmd/sample/token_text.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zeroth/data.h>

#include "core/config/ini.h"
#include "core/plugin/loader.h"
#include "files/tokenizer/utf8.h"

/* ---- where it comes from ---- */

static int use_tokenizer(struct zr_token_text *t, const struct zr_token_source *from,
			 const char *path, struct zr_error *err)
{
	char file[ZR_TOKENIZER_PATH];
	int rc = zr_tokenizer_find(path, file, err);

	path = rc ? path : file;
	if (!rc)
		rc = zr_tokenizer_open_with(path, from->add_tokens, &t->tokenizer, err);
	int64_t n = rc ? 0 : zr_tokenizer_size(t->tokenizer);
	if (!rc && from->vocabulary && n > from->vocabulary)
		rc = zr_err(
			err, ZR_EINVAL,
			"%s: has %lld tokens, the model of %s knows %lld: it learned from another "
			"one",
			path, (long long)n, from->dir, (long long)from->vocabulary);
	if (!rc) {
		t->tokens = n;
		t->add_tokens = from->add_tokens;
		snprintf(t->file, sizeof t->file, "%s", path);
		/* without one, tokens have their bytes */
		if (zr_decoder_open(t->tokenizer, &t->decoder, &(struct zr_error){ 0 }))
			t->decoder = NULL;
		return 0;
	}

	zr_tokenizer_close(t->tokenizer);
	t->tokenizer = NULL;
	return rc;
}

/* [model] path of a run's config.ini, which nothing else here reads. */
static int find_path(void *arg, const char *section, const char *key, const char *value, int line)
{
	(void)line;
	if (key && !strcmp(section, "model") && !strcmp(key, "path"))
		snprintf(arg, PATH_MAX, "%s", value);
	return 0;
}

static int is_there(char file[ZR_MODEL_FILE], const char *dir, const char *in, const char *name)
{
	return *dir && snprintf(file, ZR_MODEL_FILE, "%s/%s%s", dir, in, name) < ZR_MODEL_FILE &&
	       !access(file, F_OK);
}

int zr_model_file(const char *run, const char *name, char file[ZR_MODEL_FILE])
{
	char path[PATH_MAX] = "";

	snprintf(file, ZR_MODEL_FILE, "%s/config.ini", run);
	/* a directory of Hugging Face has no config.ini */
	zr_ini_read(file, file, find_path, path, NULL);
	return is_there(file, run, "", name) || is_there(file, run, "model-16bit/", name) ||
	       is_there(file, path, "", name);
}

static void look_for_tokenizer(struct zr_token_text *t, const struct zr_token_source *from)
{
	char file[ZR_MODEL_FILE];
	struct zr_error err = { 0 };

	if (!zr_model_file(from->dir, "tokenizer.json", file))
		return;

	const int rc = use_tokenizer(t, from, file, &err);
	if (from->quiet)
		return;
	if (rc)
		fprintf(stderr,
			"zeroth: tokens are numbers here, since their tokenizer cannot be used: "
			"%s\n",
			err.text);
	else
		fprintf(stderr, "tokenizer   %s\n", file);
}

int zr_token_text_open(const struct zr_token_source *from, struct zr_token_text *t,
		       struct zr_error *err)
{
	*t = (struct zr_token_text){ .tokens = from->vocabulary };
	if (from->data) {
		t->data = zr_plugin_iface(from->data->plugin, "zr.data/1", err);
		t->data_opts = from->data->opts;
	}

	if (from->tokenizer)
		return use_tokenizer(t, from, from->tokenizer, err);
	if (from->dir && !zr_token_text_known(t))
		look_for_tokenizer(t, from);
	return 0;
}

void zr_token_text_close(struct zr_token_text *t)
{
	zr_decoder_close(t->decoder);
	zr_tokenizer_close(t->tokenizer);
	t->tokenizer = NULL;
	t->decoder = NULL;
}

/* ---- tokens and bytes ---- */

int zr_token_text_known(const struct zr_token_text *t)
{
	return t->tokenizer ||
	       (t->data && ZR_HAS(t->data, struct zr_data_v1, decode) && t->data->decode);
}

const char *zr_token_text_bytes(struct zr_token_text *t, int32_t token, size_t *n, char scratch[16])
{
	*n = 0;
	if (t->tokenizer)
		return zr_tokenizer_bytes(t->tokenizer, token, n);
	if (zr_token_text_known(t))
		*n = (size_t)t->data->decode(t->data_opts, token, scratch);
	else
		*n = (size_t)snprintf(scratch, 16, "%d ", token);
	return scratch;
}

int zr_token_lengths(const struct zr_token_source *from, uint16_t **out, struct zr_error *err)
{
	struct zr_token_text text;
	char scratch[16];
	size_t bytes;
	int rc = zr_token_text_open(from, &text, err);

	*out = NULL;
	if (!rc && zr_token_text_known(&text)) {
		*out = calloc((size_t)from->vocabulary + 1, sizeof **out);
		for (int64_t i = 0; *out && i < from->vocabulary && i < text.tokens; i++) {
			if (text.tokenizer && zr_tokenizer_special(text.tokenizer, i))
				continue;

			zr_token_text_bytes(&text, (int32_t)i, &bytes, scratch);
			(*out)[i] = (uint16_t)(bytes < UINT16_MAX ? bytes : UINT16_MAX);
		}

		if (!*out)
			rc = zr_err(err, ZR_ENOMEM, "out of memory for %lld tokens",
				    (long long)from->vocabulary);
	}

	zr_token_text_close(&text);
	return rc;
}

const char *zr_token_text_next(struct zr_token_text *t, int32_t token, size_t *n, char scratch[16])
{
	if (!t->decoder)
		return zr_token_text_bytes(t, token, n, scratch);
	return zr_decode(t->decoder, token, n);
}

const char *zr_token_text_rest(struct zr_token_text *t, size_t *n)
{
	*n = 0;
	return t->decoder ? zr_decode_end(t->decoder, n) : NULL;
}

void zr_token_text_begin(struct zr_token_text *t, int behind_text)
{
	if (t->decoder)
		zr_decoder_begin(t->decoder, behind_text);
}

static int encode_by_tokenizer(const struct zr_token_text *t, const char *text, size_t n,
			       zr_token_sink *sink, void *arg, struct zr_error *err)
{
	struct zr_encoder *e;

	int rc = zr_encoder_open(t->tokenizer, sink, arg, &e, err);
	if (rc)
		return rc;

	rc = zr_encode(e, text, n, err);
	if (!rc)
		rc = zr_encode_end(e, err);
	zr_encoder_close(e);
	return rc;
}

int zr_token_text_encode(const struct zr_token_text *t, const char *text, size_t n,
			 zr_token_sink *sink, void *arg, struct zr_error *err)
{
	const struct zr_data_v1 *d = t->data;

	if (t->tokenizer)
		return encode_by_tokenizer(t, text, n, sink, arg, err);
	if (!d || !ZR_HAS(d, struct zr_data_v1, encode) || !d->encode)
		return zr_err(err, ZR_EINVAL,
			      "nothing here knows the text of its tokens: --prompt needs a "
			      "--tokenizer");

	int64_t tokens = d->encode(t->data_opts, text, (int64_t)n, NULL, 0);
	int32_t *id = malloc((size_t)(tokens > 0 ? tokens : 1) * sizeof *id);
	if (!id)
		return zr_err(err, ZR_ENOMEM, "out of memory for the prompt");

	d->encode(t->data_opts, text, (int64_t)n, id, tokens);
	int rc = tokens > 0 ? sink(arg, id, (size_t)tokens) : 0;
	free(id);
	return rc;
}

/* ---- characters ---- */

/* Writes one character, or n bytes that are not UTF-8. */
static int write_char(const struct zr_char_writer *w, const char *p, size_t n, int is_char)
{
	unsigned char c = (unsigned char)*p;
	if (w->terminal && is_char && ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f))
		p = "?";
	else if ((w->terminal || w->utf8) && !is_char)
		p = "\xef\xbf\xbd", n = 3;
	return fwrite(p, 1, n, w->f) == n ? 0 : -1;
}

int zr_char_write(struct zr_char_writer *w, const char *p, size_t n)
{
	int rc = 0, len;

	for (; !rc && n; n--) {
		w->held[w->n_held++] = *p++;
		while (!rc && w->n_held && (len = zr_utf8_at(w->held, w->n_held)) != 0) {
			rc = write_char(w, w->held, (size_t)abs(len), len > 0);
			w->n_held -= (size_t)abs(len);
			memmove(w->held, w->held + abs(len), w->n_held);
		}
	}

	return rc;
}

int zr_char_end(struct zr_char_writer *w)
{
	int rc = 0;
	if (w->n_held)
		rc = write_char(w, w->held, w->n_held, 0);
	w->n_held = 0;
	return rc;
}
