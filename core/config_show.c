/* SPDX-License-Identifier: Apache-2.0
 *
 * config_show.c - the whole config as INI text, which loads to the same values, or as JSON.
 */
#include <jansson.h>
#include <string.h>

#include "core/config_impl.h"
#include "core/ini.h"

static int is_text(const struct zr_opt *o)
{
	return o->type == ZR_T_STR || o->type == ZR_T_PATH || o->type == ZR_T_GLOBS;
}

/* NULL if the option is no text. */
static const char *text_of(const struct zr_part *p, const struct zr_opt *o)
{
	const char *text = is_text(o) ? *(const char *const *)((const char *)p->s.opts + o->offset) : NULL;
	return is_text(o) && !text ? "" : text;
}

/* As it would be given again: a path that was given stays one, from anywhere. */
static const char *plugin_text(const struct zr_part *p)
{
	return strchr(p->chosen->value, '/') ? p->s.plugin->path : p->chosen->value;
}

static void write_pair(FILE *out, const char *key, const char *value, const char *source)
{
	fprintf(out, "%s =%s", key, *value ? " " : "");
	zr_ini_write_value(out, value);
	if (source)
		fprintf(out, " ; %s", source);
	putc('\n', out);
}

int zr_config_write_ini(const struct zr_config *cfg, FILE *out, int sources)
{
	for (int i = 0; i < cfg->n; i++) {
		const struct zr_part *p = &cfg->part[i];
		fprintf(out, "%s[%s]\n", i ? "\n" : "", p->s.name);
		if (p->chosen)
			write_pair(out, "plugin", plugin_text(p), sources ? p->chosen->place : NULL);
		for (uint32_t j = 0; j < p->table.n; j++) {
			const struct zr_opt *o = zr_table_at(&p->table, j);
			const char *text = text_of(p, o);
			char value[640];
			if (!text)
				zr_value_format(o, p->s.opts, value, sizeof value);
			write_pair(out, o->name, text ? text : value, sources ? p->source[j] : NULL);
		}
	}
	return ferror(out) ? ZR_EIO : 0;
}

static json_t *json_list(const struct zr_opt *o, const double *v)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < o->width / 8; i++)
		json_array_append_new(list, json_real(v[i]));
	return list;
}

static json_t *json_of(const struct zr_part *p, const struct zr_opt *o)
{
	const void *at = (const char *)p->s.opts + o->offset;
	const char *text = text_of(p, o);
	char value[640];
	if (text)
		return json_string(text);
	if (!zr_value_is_auto(o, p->s.opts))
		switch (o->type) {
		case ZR_T_BOOL:
			return json_boolean(*(const uint8_t *)at);
		case ZR_T_I64:
			return json_integer(*(const int64_t *)at);
		case ZR_T_COUNT:
		case ZR_T_BYTES:
			return *(const uint64_t *)at > INT64_MAX ? json_real((double)*(const uint64_t *)at) :
								   json_integer((json_int_t) * (const uint64_t *)at);
		case ZR_T_F64:
			return json_real(*(const double *)at);
		case ZR_T_F64S:
			return json_list(o, at);
		}
	zr_value_format(o, p->s.opts, value, sizeof value);
	return json_string(value);
}

static void put(json_t *section, const char *key, json_t *value, const char *source)
{
	json_t *pair = json_object();
	json_object_set_new(pair, "value", value ? value : json_null()); /* a text that is not UTF-8 has no JSON */
	json_object_set_new(pair, "source", json_string(source ? source : ""));
	json_object_set_new(section, key, pair);
}

int zr_config_write_json(const struct zr_config *cfg, FILE *out)
{
	json_t *root = json_object();
	int rc;
	for (int i = 0; i < cfg->n; i++) {
		const struct zr_part *p = &cfg->part[i];
		json_t *section = json_object();
		if (p->chosen)
			put(section, "plugin", json_string(plugin_text(p)), p->chosen->place);
		for (uint32_t j = 0; j < p->table.n; j++)
			put(section, zr_table_at(&p->table, j)->name, json_of(p, zr_table_at(&p->table, j)), p->source[j]);
		json_object_set_new(root, p->s.name, section);
	}
	rc = json_dumpf(root, out, JSON_INDENT(2));
	putc('\n', out);
	json_decref(root);
	return rc || ferror(out) ? ZR_EIO : 0;
}
