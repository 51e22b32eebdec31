/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl_freeze.c - unfrozen_parameters: expressions of Python for the names of the parameters
 * that are trained. Axolotl 0.18 matches them at the start of a name (re.match), takes a dot as a
 * dot unless a + is behind it, and cuts [N], [N:M] off an expression: rows of a parameter. Which
 * tensors they fit is written as [train] freeze.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/axolotl.h"
#include "cmd/import/tensors.h"
#include "core/pretrained/pretrained.h"
#include "core/setup.h"
#include "files/tokenizer/regex.h"

#define NAME ZR_TENSORS_NAME

/* The parameter's name in transformers 4: with what the files may leave out before it. */
static void old_name(const struct zr_tensors *m, int32_t tensor, char out[NAME])
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(m->setup->roles.model.section->plugin);
	const char *prefix = v ? v->prefix : "", *name = zr_tensors_name(m, tensor);
	const int whole = !strncmp(name, prefix, strlen(prefix)) || !strcmp(name, "lm_head.weight");
	snprintf(out, NAME, "%s%s", whole ? "" : prefix, name);
}

/* The same in transformers 5, which has another name for GPT-NeoX's head and for the block of
 * experts in Mixtral, and one parameter for the maps of all experts. */
static void new_name(const char *old, char out[NAME])
{
	static const char block[] = ".block_sparse_moe.", experts[] = ".experts.";
	char text[NAME];
	const char *at = strstr(old, block);

	if (!strcmp(old, "embed_out.weight"))
		old = "lm_head.weight";
	if (at)
		snprintf(text, sizeof text, "%.*s.mlp.%s", (int)(at - old), old,
			 at + strlen(block));
	else
		snprintf(text, sizeof text, "%s", old);

	at = strstr(text, experts);
	if (!at) {
		snprintf(out, NAME, "%s", text);
		return;
	}

	const int is_down = strstr(at, ".w2.") || strstr(at, ".down_proj.");
	snprintf(out, NAME, "%.*s%s%s", (int)(at - text), text, experts,
		 is_down ? "down_proj" : "gate_up_proj");
}

/* ---- expressions ---- */

/* Whether it ends with [N], [N:], [:M], [N:M] or []. */
static int has_rows(const char *text)
{
	const char *at = strrchr(text, '[');
	if (!at || at == text)
		return 0;

	at += 1 + strspn(at + 1, "0123456789");
	if (*at == ':')
		at += 1 + strspn(at + 1, "0123456789");
	return !strcmp(at, "]");
}

/* A set has no other in it in Python, where [ is a character there. */
static int has_nested_set(const char *text)
{
	int inside = 0;

	for (const char *c = text; *c; c++) {
		if (*c == '\\' && c[1])
			c++;
		else if (*c == '[' && inside)
			return 1;
		else if (*c == '[' || *c == ']')
			inside = *c == '[';
	}

	return 0;
}

/* What Axolotl gives to re.match; what it matches begins at the start without a ^, too. Owned. */
static char *with_dots(const char *text)
{
	char *out = malloc(2 * strlen(text) + 1), *to = out;
	if (!out)
		return NULL;

	for (const char *c = text + (*text == '^'); *c; c++) {
		if (*c == '.' && c[1] != '+')
			*to++ = '\\';
		*to++ = *c;
	}

	*to = 0;
	return out;
}

static int compile(const char *text, struct zr_regex **out, struct zr_error *err)
{
	if (has_rows(text))
		return zr_err(err, ZR_ENOTSUP, "tensors are trained whole: without rows of them");

	char *expression = with_dots(text);
	if (!expression)
		return zr_no_memory(err);

	int rc = 0;
	if (has_nested_set(expression))
		rc = zr_err(err, ZR_ENOTSUP, "a [ in a set is not supported");
	else
		rc = zr_regex_compile(expression, 0, out, err);
	free(expression);
	return rc;
}

/* Whether it fits at the start of the name; or a negative code. */
static int fits(const struct zr_regex *re, struct zr_match *match, const char *name,
		struct zr_error *err)
{
	size_t start = 0, stop = 0;
	const int found = zr_regex_find(re, match, name, strlen(name), 0, 0, &start, &stop, err);
	if (found < 0)
		return found;
	return found == ZR_REGEX_FOUND && !start;
}

/* Marks what it fits. */
static int mark(struct zr_tensors *m, const struct zr_regex *re, struct zr_match *match,
		struct zr_error *err)
{
	for (int32_t i = 0; i < m->setup->facts.layout.n_tensors; i++) {
		char old[NAME], new[NAME];
		old_name(m, i, old);
		new_name(old, new);
		const int by_old = fits(re, match, old, err);
		if (by_old < 0)
			return by_old;

		const int by_new = fits(re, match, new, err);
		if (by_new < 0)
			return by_new;
		if (by_old != by_new)
			return zr_err(err, ZR_ENOTSUP,
				      "it fits one of %s, as transformers 4 calls a parameter, and "
				      "%s, as 5 does; give [train] freeze",
				      old, new);
		m->chosen[i] |= (uint8_t)by_old;
	}

	return 0;
}

static int mark_all(struct zr_tensors *m, const json_t *list, struct zr_error *err)
{
	struct zr_match *match = NULL;
	size_t i;
	json_t *item;
	int rc = zr_match_open(&match, err);

	json_array_foreach((json_t *)list, i, item)
	{
		struct zr_regex *re = NULL;
		struct zr_error why = { 0 };
		const char *text = json_string_value(item);
		if (!rc)
			rc = text ? compile(text, &re, &why) :
				    zr_err(&why, ZR_EINVAL, "expected a text");
		if (!rc)
			rc = mark(m, re, match, &why);
		zr_regex_free(re);
		if (!rc)
			continue;
		if (*why.text)
			rc = zr_err(err, why.code, "%s: %s", text ? text : "an item", why.text);
		break;
	}

	zr_match_close(match);
	return rc;
}

/* ---- as [train] freeze ---- */

/* Returns the value, owned, or NULL. */
static char *freeze_text(struct zr_tensors *m)
{
	char *text = NULL;
	size_t bytes = 0;

	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;

	fputs("*", out);
	zr_tensors_write(m, " !", out);
	if (!fclose(out))
		return text;

	free(text);
	return NULL;
}

static int write_freeze(struct zr_import *im, struct zr_setting *s, const char *to,
			struct zr_tensors *m)
{
	const size_t n = (size_t)m->setup->facts.layout.n_tensors;
	if (!memchr(m->chosen, 1, n))
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "no parameter of %s has a name that begins so", im->model);
	if (!memchr(m->chosen, 0, n))
		return zr_import_no_effect(s, "it names all parameters");

	char *text = freeze_text(m);
	const int rc = text ? zr_import_put(im, s, to, text, NULL) : ZR_ENOMEM;
	free(text);
	return rc;
}

IMPORT_MAP(ax_unfrozen)
{
	struct zr_error err = { 0 };
	struct zr_tensors m = { 0 };

	if (json_is_null(s->value) || (json_is_array(s->value) && !json_array_size(s->value)))
		return zr_import_no_effect(s, "none");
	if (!json_is_array(s->value))
		return zr_import_impossible(s, "expected a list of expressions");
	if (zr_import_is_on(im, im->source[0].kind, "adapter"))
		return zr_import_impossible(s,
					    "with an adapter that alone is trained: "
					    "give [adapter] modules_to_save, or take adapter out");
	if (!im->model)
		return zr_import_impossible(s, "import with --model DIR: the "
					       "expressions are for the names of its tensors");

	int rc = zr_tensors_open(&m, im->model, &err);
	if (!rc)
		rc = mark_all(&m, s->value, &err);
	if (!rc)
		rc = write_freeze(im, s, k->to, &m);
	else if (rc != ZR_ENOMEM)
		rc = zr_import_fate(s, ZR_FATE_REFUSED, "%s", err.text);
	zr_tensors_close(&m);
	return rc;
}
