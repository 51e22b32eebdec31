/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl_freeze.c - unfrozen_parameters: expressions of Python for the names of the parameters
 * that are trained. Axolotl 0.18 matches them at the start of a name (re.match), takes a dot as a
 * dot unless a + is behind it, and cuts [N], [N:M] off an expression: rows of a parameter. Which
 * tensors they fit is written as [train] freeze.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/axolotl.h"
#include "core/pretrained/pretrained.h"
#include "core/setup.h"
#include "files/tokenizer/regex.h"

#define NAME 256 /* bytes of a name or a pattern of [train] freeze */

struct model {
	struct zr_config *cfg;
	struct zr_setup *setup;
	uint8_t *trained, *written; /* [n_tensors] */
};

/* ---- the model and the names of its parameters ---- */

static int open_model(struct model *m, const char *dir, struct zr_error *err)
{
	char path[4096];
	const char *const options[] = { path, "data.plugin=tokens", "data.path=none",
					"device.plugin=cpu" };
	const int n = (int)(sizeof options / sizeof *options);

	if ((size_t)snprintf(path, sizeof path, "model.path=%s", dir) >= sizeof path)
		return zr_err(err, ZR_EINVAL, "--model: the path is too long");

	int rc = zr_config_load(NULL, options, n, &m->cfg, err);
	if (!rc)
		rc = zr_setup_open(m->cfg, ZR_MODE_SAMPLE, 0, 1, &m->setup, err);
	if (rc)
		return rc;

	m->trained = calloc((size_t)m->setup->facts.layout.n_tensors + 1, 2);
	if (!m->trained)
		return zr_no_memory(err);

	m->written = m->trained + m->setup->facts.layout.n_tensors;
	return 0;
}

static void close_model(struct model *m)
{
	free(m->trained);
	zr_setup_close(m->setup);
	zr_config_free(m->cfg);
}

static const char *name_of(const struct model *m, int32_t tensor)
{
	return m->setup->facts.layout.tensor[tensor].decl->name;
}

/* The parameter's name in transformers 4: with what the files may leave out before it. */
static void old_name(const struct model *m, int32_t tensor, char out[NAME])
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(m->setup->roles.model.section->plugin);
	const char *prefix = v ? v->prefix : "", *name = name_of(m, tensor);
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
static int mark(struct model *m, const struct zr_regex *re, struct zr_match *match,
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
		m->trained[i] |= (uint8_t)by_old;
	}

	return 0;
}

static int mark_all(struct model *m, const json_t *list, struct zr_error *err)
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

/* How many tensors a pattern fits; 0: one that is not trained is among them. */
static int32_t reach(const struct model *m, const char *pattern)
{
	int32_t n = 0;

	for (int32_t i = 0; i < m->setup->facts.layout.n_tensors; i++) {
		if (fnmatch(pattern, name_of(m, i), 0))
			continue;
		if (!m->trained[i])
			return 0;

		n++;
	}

	return n;
}

static void prefer(const struct model *m, const char *pattern, char best[NAME], int32_t *most)
{
	const int32_t n = reach(m, pattern);
	if (n <= *most)
		return;

	*most = n;
	snprintf(best, NAME, "%s", pattern);
}

/* The name with a * for each number that is a part of it. */
static void any_number(const char *name, char out[NAME])
{
	size_t n = 0;

	for (const char *c = name; *c && n + 1 < NAME;) {
		const size_t digits = strspn(c, "0123456789");
		const int is_part = digits && c != name && c[-1] == '.' && c[digits] == '.';
		out[n++] = *c;
		if (is_part)
			out[n - 1] = '*';
		c += is_part ? digits : 1;
	}

	out[n] = 0;
}

/* A pattern that fits this tensor and many that are trained, and none that is not. */
static void pattern_for(const struct model *m, const char *name, char best[NAME])
{
	char pattern[NAME];
	int32_t most = 1;

	snprintf(best, NAME, "%s", name);
	any_number(name, pattern);
	prefer(m, pattern, best, &most);
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		snprintf(pattern, sizeof pattern, "%.*s*", (int)(dot - name) + 1, name);
		prefer(m, pattern, best, &most);
	}
}

/* Returns the value, owned, or NULL. */
static char *freeze_text(struct model *m)
{
	char *text = NULL;
	size_t bytes = 0;

	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;

	fputs("*", out);
	for (int32_t i = 0; i < m->setup->facts.layout.n_tensors; i++) {
		char pattern[NAME];
		if (!m->trained[i] || m->written[i])
			continue;

		pattern_for(m, name_of(m, i), pattern);
		fprintf(out, " !%s", pattern);
		for (int32_t k = i; k < m->setup->facts.layout.n_tensors; k++)
			m->written[k] |= !fnmatch(pattern, name_of(m, k), 0);
	}

	if (!fclose(out))
		return text;

	free(text);
	return NULL;
}

static int write_freeze(struct zr_import *im, struct zr_setting *s, const char *to, struct model *m)
{
	const size_t n = (size_t)m->setup->facts.layout.n_tensors;
	if (!memchr(m->trained, 1, n))
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "no parameter of %s has a name that begins so", im->model);
	if (!memchr(m->trained, 0, n))
		return zr_import_no_effect(s, "it names all parameters");

	char *text = freeze_text(m);
	const int rc = text ? zr_import_put(im, s, to, text, NULL) : ZR_ENOMEM;
	free(text);
	return rc;
}

IMPORT_MAP(ax_unfrozen)
{
	struct zr_error err = { 0 };
	struct model m = { 0 };

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

	int rc = open_model(&m, im->model, &err);
	if (!rc)
		rc = mark_all(&m, s->value, &err);
	if (!rc)
		rc = write_freeze(im, s, k->to, &m);
	else if (rc != ZR_ENOMEM)
		rc = zr_import_fate(s, ZR_FATE_REFUSED, "%s", err.text);
	close_model(&m);
	return rc;
}
