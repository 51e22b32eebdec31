/* SPDX-License-Identifier: Apache-2.0
 *
 * eos.c - see eos.h.
 */
#include "cmd/sample/eos.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

struct eos {
	const struct zr_token_text *text;
	int64_t vocabulary;
	int32_t *id;
	int most, n;
};

static void add_id(struct eos *e, int64_t id)
{
	if (id >= 0 && id < e->vocabulary && e->n < e->most)
		e->id[e->n++] = (int32_t)id;
}

static void add_token(struct eos *e, const char *content)
{
	if (content && e->text->tokenizer)
		add_id(e, zr_tokenizer_added(e->text->tokenizer, content));
}

/* The object in a file of the model; *j = NULL: there is no such file. */
static int load(const char *run, const char *name, json_t **j, struct zr_error *err)
{
	char file[ZR_MODEL_FILE];

	*j = NULL;
	if (!zr_model_file(run, name, file))
		return 0;

	return zr_json_file_if_there(file, 64u << 20, j, err);
}

/* eos_token_id is a number or a list of them. */
static int add_ids(struct eos *e, const char *run, const char *name, struct zr_error *err)
{
	json_t *j, *item;
	size_t i;
	int rc = load(run, name, &j, err);

	json_t *ids = json_object_get(j, "eos_token_id");
	if (json_is_integer(ids))
		add_id(e, json_integer_value(ids));
	json_array_foreach(ids, i, item) if (json_is_integer(item))
		add_id(e, json_integer_value(item));
	json_decref(j);
	return rc;
}

/* eos_token is a text or an object that has it. */
static int add_named(struct eos *e, const char *run, struct zr_error *err)
{
	json_t *j;
	int rc = load(run, "tokenizer_config.json", &j, err);
	json_t *token = json_object_get(j, "eos_token");

	add_token(e, json_string_value(json_is_object(token) ? json_object_get(token, "content") :
							       token));
	json_decref(j);
	return rc;
}

static int look(struct eos *e, const char *run, struct zr_error *err)
{
	if (!e->text->tokenizer && zr_token_text_known(e->text))
		return 0;

	int rc = add_ids(e, run, "generation_config.json", err);
	rc = rc || e->n ? rc : add_ids(e, run, "config.json", err);
	rc = rc || e->n ? rc : add_named(e, run, err);
	if (!rc && !e->n)
		add_token(e, "<|endoftext|>");
	return rc;
}

int zr_eos_find(const char *given, const char *run, const struct zr_token_text *t,
		int64_t vocabulary, int32_t *eos, int most, int *n, struct zr_error *err)
{
	struct eos e = { t, vocabulary, eos, most, 0 };
	char *end;
	int rc = given ? 0 : look(&e, run, err);

	if (given && strcmp(given, "none")) {
		add_token(&e, given);
		if (!e.n && *given) {
			long long id = strtoll(given, &end, 10);
			add_id(&e, *end ? -1 : id);
		}

		if (!e.n)
			rc = zr_err(err, ZR_EINVAL,
				    "--eos %s: is neither an added token of the tokenizer nor a "
				    "number below %lld, nor none",
				    given, (long long)vocabulary);
	}

	*n = e.n;
	return rc;
}
