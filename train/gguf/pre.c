/* SPDX-License-Identifier: Apache-2.0
 *
 * pre.c - see parts.h: how a tokenizer cuts text before its merges. llama.cpp has names for the
 * ways, and its converter tells them by the ids of one text, which follow from the way and the
 * tokens. A tokenizer of other tokens has the name of a way that its tokenizer.json spells out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "files/sha256.h"
#include "files/tokenizer/tokenizer.h"
#include "train/gguf/parts.h"

/* The text of which llama.cpp's converter takes the ids. */
static const char sample[] =
	"\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\xe2\x80\x8d"
	"🌫\xef\xb8\x8f"
	" "
	"(multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 "
	"33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 "
	"?我想在apple工作1314151天～ ------======= "
	"нещо на Български ''''''```````\"\"\"\"......!!!!!!?\?\?\?\?\? I've been "
	"'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some "
	"tea? We'Ve a'lL";

/* ---- by the ids of the sample ---- */

struct ids {
	char *text; /* as Python prints a list of them; owned; NULL: no memory */
	size_t n;
};

static void add_id(struct ids *to, int32_t id)
{
	char *more = zr_text("%s%s%d", to->text ? to->text : "[", to->n ? ", " : "", id);

	free(to->text);
	to->text = more;
	to->n++;
}

static int add_ids(void *arg, const int32_t *id, size_t n)
{
	struct ids *to = arg;

	for (size_t i = 0; i < n; i++) {
		add_id(to, id[i]);
		if (!to->text)
			return ZR_ENOMEM;
	}

	return 0;
}

static int add_template(const struct zr_tokenizer *k, int after, struct ids *to,
			struct zr_error *err)
{
	const int32_t *id;
	const int n = zr_tokenizer_template(k, after, &id, err);

	if (n < 0)
		return n;
	return add_ids(to, id, (size_t)n);
}

static int encode_sample(const struct zr_tokenizer *k, struct ids *to, struct zr_error *err)
{
	struct zr_encoder *e = NULL;

	int rc = add_template(k, 0, to, err);
	if (!rc)
		rc = zr_encoder_open(k, add_ids, to, &e, err);
	if (!rc)
		rc = zr_encode(e, sample, sizeof sample - 1, err);
	if (!rc)
		rc = zr_encode_end(e, err);
	zr_encoder_close(e);
	if (!rc)
		rc = add_template(k, 1, to, err);
	return rc;
}

/* The name of ids as text, without the bracket that ends them; NULL: nobody has given one. *failed:
 * there is no memory. */
static const char *name_of(const char *ids, int32_t first, int *failed)
{
	char digest[65];
	char *text = first < 0 ? zr_text("%s]", ids) : zr_text("[%d, %s]", first, ids + 1);

	*failed |= !text;
	if (!text)
		return NULL;

	zr_sha256(text, strlen(text), digest);
	free(text);
	return zr_gguf_known(digest);
}

/* The first token that tokenizer_config.json wants before a text, as some classes of tokenizers put
 * it there where tokenizer.json does not; -1: none. */
static int32_t wanted_first(const struct zr_gguf_tokens *t, const struct zr_tokenizer *k)
{
	const json_t *token = json_object_get(t->settings, "bos_token");
	const char *text = json_string_value(
		json_is_object(token) ? json_object_get(token, "content") : token);

	if (!text || !json_is_true(json_object_get(t->settings, "add_bos_token")))
		return -1;
	return zr_tokenizer_added(k, text);
}

/* *name: NULL where nobody has given one to these ids. */
static int find_known(const struct zr_gguf_tokens *t, const char **name, struct zr_error *err)
{
	struct zr_tokenizer *k = NULL;
	struct zr_error why = { 0 };
	struct ids ids = { 0 };
	int failed = 0;

	int rc = zr_tokenizer_open(t->dir, &k, err);
	if (rc)
		return rc;

	/* where a byte has no token there are no ids to compare */
	rc = encode_sample(k, &ids, &why);
	const int32_t first = wanted_first(t, k);
	zr_tokenizer_close(k);
	if (!rc && ids.text)
		*name = name_of(ids.text, -1, &failed);
	if (!rc && ids.text && !*name && first >= 0)
		*name = name_of(ids.text, first, &failed);
	free(ids.text);
	if (rc == ZR_ENOTSUP)
		return 0;
	if (failed)
		return zr_no_memory(err);
	if (rc)
		return zr_err(err, rc, "%s", why.code ? why.text : "out of memory");
	return 0;
}

/* ---- by what tokenizer.json spells out ---- */

struct way {
	const char *name;
	const char *normalizer; /* its type; NULL: none */
	/* the step before ByteLevel: the pattern of Split, "digits" where each digit is cut off;
	 * NULL: none */
	const char *step;
	int as_gpt2;     /* ByteLevel cuts as GPT-2 does, else not at all */
	int whole_first; /* a piece that is a token stays one, whatever the merges say */
};

static const struct way ways[] = {
	{ "gpt-2", NULL, NULL, 1, 0 },
	{ "smollm", NULL, "digits", 1, 0 },
	{ "llama-bpe", NULL,
	  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
	  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
	  0, 1 },
	{ "qwen2", "NFC",
	  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
	  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
	  0, 0 },
};

static const char *type_of(const json_t *step)
{
	const char *type = json_string_value(json_object_get(step, "type"));
	return type ? type : "";
}

static int is(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text && !strcmp(text, value);
}

/* Whether a step before ByteLevel is that of the way. */
static int same_step(const json_t *step, const char *wanted)
{
	const json_t *pattern = json_object_get(step, "pattern");

	if (!strcmp(wanted, "digits"))
		return !strcmp(type_of(step), "Digits") &&
		       json_is_true(json_object_get(step, "individual_digits"));
	return !strcmp(type_of(step), "Split") && is(pattern, "Regex", wanted) &&
	       is(step, "behavior", "Isolated") && !json_is_true(json_object_get(step, "invert"));
}

static int same_bytes(const json_t *step, int as_gpt2)
{
	const json_t *cuts = json_object_get(step, "use_regex"); /* it does where nothing is said */

	return !strcmp(type_of(step), "ByteLevel") &&
	       json_is_false(json_object_get(step, "add_prefix_space")) &&
	       json_is_false(cuts) != as_gpt2;
}

static int same_way(const struct zr_gguf_tokens *t, const struct way *w)
{
	const json_t *model = json_object_get(t->json, "model");
	const json_t *pre = json_object_get(t->json, "pre_tokenizer");
	const json_t *steps = json_object_get(pre, "pretokenizers");
	const size_t n = steps ? json_array_size(steps) : 1;
	const json_t *first = steps ? json_array_get(steps, 0) : pre;
	const json_t *last = steps ? json_array_get(steps, n - 1) : pre;

	if (strcmp(type_of(json_object_get(t->json, "normalizer")),
		   w->normalizer ? w->normalizer : ""))
		return 0;
	if (json_is_true(json_object_get(model, "ignore_merges")) != w->whole_first)
		return 0;
	if (n != (w->step ? 2u : 1u) || !same_bytes(last, w->as_gpt2))
		return 0;
	return !w->step || same_step(first, w->step);
}

int zr_gguf_pre(const struct zr_gguf_tokens *t, const char **name, int *said, struct zr_error *err)
{
	*said = 0;
	*name = NULL;
	int rc = find_known(t, name, err);
	if (rc || *name)
		return rc;

	*said = 1;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (same_way(t, &ways[i])) {
			*name = ways[i].name;
			return 0;
		}

	return zr_err(err, ZR_EINVAL,
		      "--gguf: %s/tokenizer.json: how it cuts text (normalizer, pre_tokenizer, "
		      "ignore_merges) has no name in llama.cpp that is known here: export without "
		      "--gguf, and convert with a llama.cpp that knows the tokenizer",
		      t->dir);
}
