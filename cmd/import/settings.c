/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - see import.h: a tree as a list of settings, and what their values say.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/base/list.h"
#include "core/base/text.h"
#include "core/config/options.h"

struct walk {
	struct zr_import_source *to;
	const struct zr_tree *tree;
	int32_t key; /* the number of the next key */
};

static int add_setting(struct walk *w, const char *path, const json_t *value, int line)
{
	struct zr_import_source *to = w->to;

	char *copy = strdup(path);
	if (!copy || zr_list_room(&to->settings, to->n + 1, &to->room, sizeof *to->settings)) {
		free(copy);
		return ZR_ENOMEM;
	}

	to->settings[to->n++] = (struct zr_setting){
		.path = copy, .value = value, .file = w->tree->file, .line = line, .from = to
	};
	return 0;
}

/* What is below a value has no settings, but its keys have numbers, too. */
static void count_keys(struct walk *w, const json_t *list)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_array(list))
		json_array_foreach(list, i, value) count_keys(w, value);
	else if (json_is_object(list))
		json_object_foreach((json_t *)list, key, value)
		{
			w->key++;
			count_keys(w, value);
		}
}

static int walk(struct walk *w, const char *path, const json_t *object);

static int has_objects(const json_t *list)
{
	size_t i;
	json_t *value;
	json_array_foreach(list, i, value) if (json_is_object(value)) return 1;
	return 0;
}

/* The keys of a list's objects are settings of their own, "datasets[0].path". */
static int walk_list(struct walk *w, const char *path, const json_t *list, int line)
{
	size_t i;
	json_t *value;
	int rc = 0;

	json_array_foreach(list, i, value)
	{
		char *own = NULL;
		if (asprintf(&own, "%s[%zu]", path, i) < 0)
			return ZR_ENOMEM;
		if (json_is_object(value) && json_object_size(value)) {
			rc = walk(w, own, value);
		} else {
			rc = add_setting(w, own, value, line);
			count_keys(w, value);
		}

		free(own);
		if (rc)
			return rc;
	}

	return 0;
}

static int walk(struct walk *w, const char *path, const json_t *object)
{
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach((json_t *)object, key, value)
	{
		const int line = w->key < w->tree->n ? w->tree->line[w->key] : 0;
		char *own = NULL;
		w->key++;
		if (asprintf(&own, "%s%s%s", path, *path ? "." : "", key) < 0)
			return ZR_ENOMEM;
		if (json_is_object(value) && json_object_size(value)) {
			rc = walk(w, own, value);
		} else if (json_is_array(value) && has_objects(value)) {
			rc = walk_list(w, own, value, line);
		} else {
			rc = add_setting(w, own, value, line);
			count_keys(w, value);
		}

		free(own);
		if (rc)
			return rc;
	}

	return 0;
}

int zr_settings_read(struct zr_import_source *to, const struct zr_tree *t, struct zr_error *err)
{
	struct walk w = { .to = to, .tree = t };
	if (walk(&w, "", t->root))
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", t->file);
	return 0;
}

struct zr_setting *zr_import_find(struct zr_import *im, const struct zr_import_kind *kind,
				  const char *path)
{
	for (int i = 0; i < im->n_sources; i++)
		for (int j = 0; im->source[i].kind == kind && j < im->source[i].n; j++)
			if (!strcmp(im->source[i].settings[j].path, path) &&
			    !json_is_null(im->source[i].settings[j].value))
				return &im->source[i].settings[j];
	return NULL;
}

int zr_import_is(const json_t *value, const char *text)
{
	return json_is_string(value) && !strcmp(json_string_value(value), text);
}

const char *zr_import_word(const struct zr_setting *s)
{
	if (s && json_is_string(s->value))
		return json_string_value(s->value);
	return "";
}

int zr_import_is_on(struct zr_import *im, const struct zr_import_kind *kind, const char *path)
{
	const struct zr_setting *s = zr_import_find(im, kind, path);
	const json_t *v = s ? s->value : NULL;
	if (json_is_number(v))
		return json_number_value(v) != 0;
	return v && !json_is_false(v) && !zr_import_is(v, "auto") && !zr_import_is(v, "false");
}

double zr_import_number(const struct zr_setting *s, double otherwise)
{
	char *end;
	double v;

	if (!s || !json_is_string(s->value))
		return s && json_is_number(s->value) ? json_number_value(s->value) : otherwise;

	v = strtod(json_string_value(s->value), &end);
	return end > json_string_value(s->value) && !*end ? v : otherwise;
}

static int number_text(double v, char **text)
{
	char digits[64];
	if (v == floor(v) && fabs(v) >= 1e6 && fabs(v) < 1e15)
		return !(*text = zr_text("%.0f", v));

	zr_format_double(v, digits, sizeof digits);
	return !(*text = strdup(digits));
}

static int list_text(const json_t *list, char **text)
{
	size_t i, bytes;
	json_t *value;
	FILE *out = open_memstream(text, &bytes);
	int bad = !out;

	json_array_foreach(list, i, value)
	{
		char *one = NULL;
		bad = bad || zr_import_text(value, &one);
		if (!bad)
			fprintf(out, "%s%s", i ? ", " : "", one);
		free(one);
	}

	bad |= out && fclose(out);
	return bad || !*text;
}

int zr_import_text(const json_t *value, char **text)
{
	int bad;

	*text = NULL;
	if (json_is_string(value))
		bad = !(*text = strdup(json_string_value(value)));
	else if (json_is_integer(value))
		bad = !(*text = zr_text("%lld", (long long)json_integer_value(value)));
	else if (json_is_real(value))
		bad = number_text(json_real_value(value), text);
	else if (json_is_boolean(value))
		bad = !(*text = strdup(json_is_true(value) ? "yes" : "no"));
	else if (json_is_array(value))
		bad = list_text(value, text);
	else
		bad = !(*text = strdup(""));
	return bad ? ZR_ENOMEM : 0;
}

int zr_import_fate(struct zr_setting *s, enum zr_fate fate, const char *fmt, ...)
{
	va_list ap;
	int n;

	free(s->why);
	s->why = NULL;
	s->fate = fate;
	va_start(ap, fmt);
	n = vasprintf(&s->why, fmt, ap);
	va_end(ap);
	if (n < 0)
		s->why = NULL;
	return n < 0 ? ZR_ENOMEM : 0;
}

int zr_import_no_effect(struct zr_setting *s, const char *why)
{
	return zr_import_fate(s, ZR_FATE_NONE, "%s", why);
}

int zr_import_impossible(struct zr_setting *s, const char *why)
{
	return zr_import_fate(s, ZR_FATE_REFUSED, "%s", why);
}

int zr_import_differs(struct zr_setting *s, const char *why)
{
	if (s->fate == ZR_FATE_MAPPED)
		return zr_import_fate(s, ZR_FATE_PARTLY, "%s", why);
	return 0;
}

IMPORT_MAP(zr_import_none)
{
	return zr_import_no_effect(s, k->text);
}

/* Whether one of the words is the value's text. */
static int has_word(const char *words, const char *text)
{
	const size_t n = strlen(text);
	for (const char *at = words; n && (at = strstr(at, text)); at += n)
		if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return 1;
	return !n;
}

IMPORT_MAP(zr_import_refuse)
{
	char *text = NULL;
	int rc = zr_import_text(s->value, &text), off = 0;

	if (!rc && json_is_array(s->value))
		off = !json_array_size(s->value);
	else if (!rc)
		off = json_is_false(s->value) || (k->off && has_word(k->off, text));
	free(text);
	if (rc)
		return rc;
	if (off)
		return zr_import_no_effect(s, "off here, too");
	return zr_import_impossible(s, k->text);
}
