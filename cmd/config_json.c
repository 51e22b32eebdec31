/* SPDX-License-Identifier: Apache-2.0
 *
 * config_json.c - a config as JSON: {section: {key: {value, source}}}.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "core/base/json_text.h"
#include "core/base/json.h"
#include "core/config/options.h"

/* A text that is not UTF-8 has no JSON. */
static json_t *text_of(const char *text)
{
	json_t *j = zr_json_string(text, NULL);
	return j || errno == ENOMEM ? j : json_null();
}

static json_t *real_of(double v)
{
	if (isfinite(v))
		return json_real(v);
	return json_null();
}

static json_t *json_list(const struct zr_opt *o, const double *v)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < o->width / 8; i++)
		zr_json_add(&list, real_of(v[i]));
	return list;
}

static json_t *json_count(uint64_t v)
{
	if (v > INT64_MAX)
		return json_real((double)v);
	return json_integer((json_int_t)v);
}

static json_t *json_of(const struct zr_opt *o, const void *opts)
{
	const void *at = (const char *)opts + o->offset;
	char value[640];

	if (zr_value_text(o, opts))
		return text_of(zr_value_text(o, opts));
	if (!zr_value_is_auto(o, opts))
		switch (o->type) {
		case ZR_T_BOOL:
			return json_boolean(*(const uint8_t *)at);
		case ZR_T_I64:
			return json_integer(*(const int64_t *)at);
		case ZR_T_COUNT:
		case ZR_T_BYTES:
			return json_count(*(const uint64_t *)at);
		case ZR_T_F64:
			return real_of(*(const double *)at);
		case ZR_T_F64S:
			return json_list(o, at);
		}
	zr_value_format(o, opts, value, sizeof value);
	return text_of(value);
}

static void put(const struct zr_config *cfg, json_t **to, const struct zr_section *s,
		const char *key, json_t *value)
{
	const char *source = zr_config_source(cfg, s->name, key);
	json_t *pair = json_object();
	zr_json_put(&pair, "value", value);
	zr_json_put(&pair, "source", text_of(source ? source : ""));
	zr_json_put(to, key, pair);
}

static json_t *json_section(const struct zr_config *cfg, const struct zr_section *s)
{
	json_t *j = json_object();
	const struct zr_opt *o;

	if (s->plugin)
		put(cfg, &j, s, "plugin", text_of(zr_config_plugin_text(cfg, s)));
	if (s->path)
		put(cfg, &j, s, "path", text_of(s->path));
	if (s->store)
		put(cfg, &j, s, "store", text_of(zr_model_table.table.opts[1].choices[s->store]));
	if (s->ignore_keys)
		put(cfg, &j, s, "ignore_keys", text_of(s->ignore_keys));
	if (s->add_tokens)
		put(cfg, &j, s, "add_tokens", text_of(s->add_tokens));
	if (s->match)
		put(cfg, &j, s, "match", text_of(s->match));
	if (s->sequences != ZR_AUTO_COUNT)
		put(cfg, &j, s, "sequences", json_integer((json_int_t)s->sequences));
	for (uint32_t i = 0; (o = zr_table_next(&s->table, 0, &i));)
		if (zr_section_gives(s, o))
			put(cfg, &j, s, o->name, json_of(o, s->opts));
	return j;
}

int zr_cmd_config_json(const struct zr_config *cfg)
{
	json_t *root = json_object();
	int rc;

	for (int i = 0; i < zr_config_count(cfg); i++)
		zr_json_put(&root, zr_config_at(cfg, i)->name,
			    json_section(cfg, zr_config_at(cfg, i)));
	char *text = zr_json_text(root, JSON_INDENT(2));
	if (!text)
		errno = ENOMEM;
	rc = text && puts(text) != EOF ? 0 : -1;
	free(text);
	json_decref(root);
	return rc;
}
