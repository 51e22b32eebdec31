/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - option tables and texts of values; see numbers.c for those that are numbers.
 */
#include "core/config/options.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"

struct zr_table zr_table_of(const struct zr_desc *desc)
{
	return (struct zr_table){ desc->opts, desc->n_opts, desc->opt_stride, desc->opts_size };
}

const struct zr_opt *zr_table_next(const struct zr_table *t, uint32_t flags, uint32_t *i)
{
	while (*i < t->n) {
		const void *at = (const char *)t->opts + (size_t)(*i)++ * t->stride;
		const struct zr_opt *o = at;
		if ((o->flags & flags) == flags)
			return o;
	}
	return NULL;
}

const struct zr_opt *zr_table_find(const struct zr_table *t, const char *name)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(t, 0, &i)) && strcmp(o->name, name);)
		;
	return o;
}

const char *zr_table_nearest(const struct zr_table *t, const char *word)
{
	const char *names[256];
	const struct zr_opt *o;
	int n = 0;
	for (uint32_t i = 0; n < 255 && (o = zr_table_next(t, 0, &i));)
		names[n++] = o->name;
	return zr_nearest(word, names, n);
}

static uint32_t width_of(const struct zr_opt *o)
{
	if (o->type == ZR_T_F64S && o->width && o->width % 8 == 0 && o->width <= 8 * ZR_LIST_MAX)
		return o->width;
	if (o->type == ZR_T_BOOL)
		return 1;
	if (o->type == ZR_T_ENUM)
		return 4;
	return 8;
}

static int check_entry(const struct zr_table *t, const struct zr_opt *o, struct zr_error *err)
{
	_Alignas(8) char value[8 * ZR_LIST_MAX];
	struct zr_opt at = *o;
	struct zr_error e = { 0 };
	if (!o->name || !o->doc || !o->unit)
		return zr_err(err, ZR_EINVAL, "an option without name, doc or unit");
	if (o->type < ZR_T_BOOL || o->type > ZR_T_GLOBS)
		return zr_err(err, ZR_EINVAL, "option %s: unknown type %d", o->name, o->type);
	if (o->flags >= ZR_O_STAYS_AUTO << 1)
		return zr_err(err, ZR_EINVAL, "option %s: unknown flags 0x%x", o->name, o->flags);
	if (o->type == ZR_T_ENUM && !o->choices)
		return zr_err(err, ZR_EINVAL, "option %s: no choices", o->name);
	if (o->width != width_of(o) || (uint64_t)o->offset + o->width > t->size)
		return zr_err(err, ZR_EINVAL,
			      "option %s: %u bytes at offset %u, expected %u "
			      "within the %u of its struct",
			      o->name, o->width, o->offset, width_of(o), t->size);
	if (!o->def) {
		if (o->flags & ZR_O_REQUIRED)
			return 0;
		return zr_err(err, ZR_EINVAL,
			      "option %s: no default and not "
			      "required",
			      o->name);
	}

	at.offset = 0;
	if (zr_value_parse(&at, o->def, value, &e))
		return zr_err(err, ZR_EINVAL, "option %s: default '%s': %s", o->name, o->def,
			      e.text);
	return 0;
}

int zr_table_check(const struct zr_table *t, struct zr_error *err)
{
	const struct zr_opt *o;
	const size_t least = offsetof(struct zr_opt, width) + 4; /* of minor 0 */
	if (t->n && (!t->opts || t->stride < least))
		return zr_err(err, ZR_EINVAL,
			      "option table with a stride of %u bytes, expected at least %zu",
			      t->stride, least);

	for (uint32_t i = 0; (o = zr_table_next(t, 0, &i));)
		if (check_entry(t, o, err))
			return ZR_EINVAL;
	return 0;
}

static int is_text(const struct zr_opt *o)
{
	return o->type == ZR_T_STR || o->type == ZR_T_PATH || o->type == ZR_T_GLOBS;
}

const char *zr_value_text(const struct zr_opt *o, const void *opts)
{
	if (!is_text(o))
		return NULL;

	const char *text = *(const char *const *)((const char *)opts + o->offset);
	return text ? text : "";
}

static void store_auto(const struct zr_opt *o, void *at)
{
	if (o->type == ZR_T_ENUM)
		*(int32_t *)at = ZR_AUTO_ENUM;
	else if (o->type == ZR_T_I64)
		*(int64_t *)at = ZR_AUTO_I64;
	else if (o->type == ZR_T_COUNT || o->type == ZR_T_BYTES)
		*(uint64_t *)at = ZR_AUTO_COUNT;
	else
		*(double *)at = NAN;
}

int zr_value_is_auto(const struct zr_opt *o, const void *opts)
{
	const void *at = (const char *)opts + o->offset;
	int count = o->type == ZR_T_COUNT || o->type == ZR_T_BYTES;
	int real = o->type == ZR_T_F64 || o->type == ZR_T_F64S;
	if (o->type == ZR_T_ENUM)
		return *(const int32_t *)at == ZR_AUTO_ENUM;
	if (o->type == ZR_T_I64)
		return *(const int64_t *)at == ZR_AUTO_I64;
	if (count)
		return *(const uint64_t *)at == ZR_AUTO_COUNT;
	return real && isnan(*(const double *)at);
}

static int parse_enum(const struct zr_opt *o, const char *text, int32_t *out, struct zr_error *err)
{
	char list[512] = "";
	const char *near;
	int n;
	for (n = 0; o->choices[n]; n++) {
		if (!strcmp(o->choices[n], text)) {
			*out = n;
			return 0;
		}
		zr_text_add(list, sizeof list, ", ", o->choices[n]);
	}

	near = zr_nearest(text, o->choices, n);
	if (near)
		return zr_err(err, ZR_EINVAL, "'%s' is none of %s; did you mean %s?", text, list,
			      near);
	return zr_err(err, ZR_EINVAL, "'%s' is none of %s", text, list);
}

static int parse_bool(const char *text, uint8_t *out, struct zr_error *err)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
	for (int i = 0; i < 8; i++)
		if (!strcmp(words[i], text)) {
			*out = i & 1;
			return 0;
		}
	return zr_err(err, ZR_EINVAL, "expected yes or no, found '%s'", text);
}

int zr_value_parse(const struct zr_opt *o, const char *text, void *opts, struct zr_error *err)
{
	void *at = (char *)opts + o->offset;
	if (is_text(o)) {
		*(const char **)at = text;
		return 0;
	}
	if (o->type == ZR_T_BOOL)
		return parse_bool(text, at, err);
	if (!strcmp(text, "auto") && o->flags & ZR_O_AUTO) {
		store_auto(o, at);
		return 0;
	}
	if (o->type == ZR_T_ENUM)
		return parse_enum(o, text, at, err);
	return zr_number_parse(o, text, at, err);
}

int zr_value_check(const struct zr_opt *o, const void *opts, struct zr_error *err)
{
	const void *at = (const char *)opts + o->offset;
	if (is_text(o) || o->type == ZR_T_BOOL || zr_value_is_auto(o, opts))
		return 0;
	if (o->type != ZR_T_ENUM)
		return zr_number_check(o, at, err);

	for (int32_t i = 0; i <= *(const int32_t *)at; i++)
		if (!o->choices[i])
			return zr_err(err, ZR_EINVAL, "%d is not the number of a choice",
				      *(const int32_t *)at);
	return 0;
}

int zr_value_format(const struct zr_opt *o, const void *opts, char *out, size_t size)
{
	const void *at = (const char *)opts + o->offset;
	const char *text = zr_value_text(o, opts);
	if (zr_value_is_auto(o, opts))
		text = "auto";
	else if (o->type == ZR_T_BOOL)
		text = *(const uint8_t *)at ? "yes" : "no";
	else if (o->type == ZR_T_ENUM)
		text = o->choices[*(const int32_t *)at];
	if (text)
		return snprintf(out, size, "%s", text);
	return zr_number_format(o, at, out, size);
}
