/* SPDX-License-Identifier: Apache-2.0
 *
 * load_values.c - how values of tokenizer.json are read, and what is said of one that is another.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "files/tokenizer/parts.h"

int zr_load_fail(const struct zr_tokenizer_loading *l, int code, const char *place, const char *fmt,
		 ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return zr_err(l->err, code, "%s: %s: %s", l->file, place, text);
}

int zr_load_found(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		  const json_t *found)
{
	const char *what = "nothing";
	char *text = NULL;

	if (found) {
		text = zr_json_dump(found, JSON_ENCODE_ANY | JSON_COMPACT);
		what = text ? text : "?";
	}

	int rc = zr_load_fail(l, ZR_EINVAL, place, "expected %s, found %.60s", wanted, what);
	free(text);
	return rc;
}

int zr_load_unread(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		   const char *found)
{
	json_t *v = NULL;
	int rc = zr_json_object(l->text, l->bytes, l->file, &v, l->err);
	if (rc)
		return rc;

	json_decref(v);
	json_error_t why;
	if (found)
		v = json_loads(found, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &why);
	else
		v = NULL;
	rc = zr_load_found(l, place, wanted, v);
	json_decref(v);
	return rc;
}

int zr_load_flag(const struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		 const char *key, int otherwise, int *out)
{
	const json_t *v = json_object_get(o, key);
	char at[128];

	if (v)
		*out = json_is_true(v);
	else
		*out = otherwise;
	if (!v || json_is_boolean(v))
		return 0;

	snprintf(at, sizeof at, "%s.%s", place, key);
	return zr_load_found(l, at, "true or false", v);
}

const char *zr_load_type(const json_t *o)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	if (type)
		return type;
	return "";
}

static const json_t *nth(const json_t *o, const char *list, size_t *i)
{
	const json_t *found = NULL, *steps = json_object_get(o, list);
	if (strcmp(zr_load_type(o), "Sequence")) {
		if (!o || json_is_null(o) || (*i)--)
			return NULL;

		return o;
	}

	for (size_t k = 0; !found && k < json_array_size(steps); k++)
		found = nth(json_array_get(steps, k), list, i);

	return found;
}

const json_t *zr_load_step(const json_t *o, const char *list, size_t i)
{
	return nth(o, list, &i);
}

int zr_load_regex(struct zr_tokenizer_loading *l, const char *place, const char *pattern,
		  int literal, struct zr_regex **out)
{
	struct zr_error why = { 0 };
	int rc = zr_regex_compile(pattern, literal, out, &why);
	if (rc)
		return zr_load_fail(l, rc, place, "%s", why.text);

	return 0;
}
