/* SPDX-License-Identifier: Apache-2.0
 *
 * config_values.c - the config as others see it: its sections, who said what, and values that
 * follow.
 */
#include "core/config/config.h"

#include <ctype.h>
#include <string.h>

#include "core/config/config_impl.h"
#include "core/plugin/host.h"

const char *zr_config_path(const struct zr_config *cfg)
{
	return cfg->path;
}

const struct zr_model_json *zr_config_model_json(const struct zr_config *cfg)
{
	return cfg->model_path ? &cfg->model_json : NULL;
}

int zr_config_count(const struct zr_config *cfg)
{
	return cfg->n;
}

const struct zr_section *zr_config_at(const struct zr_config *cfg, int i)
{
	return &cfg->part[i].s;
}

const struct zr_section *zr_config_find(const struct zr_config *cfg, const char *name)
{
	const struct zr_config_part *p = zr_part_find(cfg, name);
	return p ? &p->s : NULL;
}

const char *zr_config_source(const struct zr_config *cfg, const char *section, const char *key)
{
	const struct zr_config_part *p = zr_part_find(cfg, section);
	if (!p)
		return NULL;

	const struct zr_opt *o = zr_table_find(&p->s.table, key);
	if (o)
		return *zr_part_source(p, o);
	if (p->own && !strcmp(key, p->own->key))
		return p->own->place;
	if (p->s.path && !strcmp(key, "path"))
		return cfg->model_place;
	if ((p->s.ignore_keys && !strcmp(key, "ignore_keys")) ||
	    (p->s.add_tokens && !strcmp(key, "add_tokens")))
		return zr_given_last(cfg, ZR_LAYER_AUTO, section, key)->place;
	if (p->chosen && !strcmp(key, "plugin"))
		return p->chosen->place;
	return NULL;
}

static int has_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		if ((at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
		    !(isalnum((unsigned char)at[len]) || at[len] == '_'))
			return 1;
	return 0;
}

static int is_a_line(const struct zr_config *cfg, const char *place)
{
	for (const struct zr_given *g = cfg->given; g; g = g->next)
		if (g->place == place)
			return 1;
	return 0;
}

/* The place of the line that a message is about: of the first key that it names and a line gives,
 * else of the section; NULL: no line of the user's is to blame. */
static const char *place_of(const struct zr_config *cfg, const struct zr_config_part *p,
			    const char *text)
{
	const struct zr_opt *o;
	int names_a_key = 0;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		const char *from = *zr_part_source(p, o);
		if (!from || !has_word(text, o->name))
			continue;
		if (is_a_line(cfg, from))
			return from;

		names_a_key = 1;
	}

	if (p->own && has_word(text, p->own->key))
		return p->own->place;
	if (!p->first || p->first->layer == ZR_LAYER_DEFAULTS)
		return NULL;

	/* what names a key that has its default is not about -o */
	if (names_a_key && p->first->layer == ZR_LAYER_OVERRIDE)
		return NULL;
	return p->first->place;
}

int zr_config_blame(const struct zr_config *cfg, const char *section, int code,
		    struct zr_error *err, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);

	const struct zr_config_part *p = zr_part_find(cfg, section);
	const char *place = place_of(cfg, p, text);
	if (place)
		return zr_err(err, code, "%s: [%s] %s", place, p->s.name, text);
	return zr_err(err, code, "[%s] %s", p->s.name, text);
}

int zr_config_set_auto(struct zr_config *cfg, const char *section, const char *key,
		       const char *text, struct zr_error *err)
{
	struct zr_config_part *p = zr_part_find(cfg, section);
	const struct zr_opt *o = NULL;
	struct zr_error e = { 0 };
	if (p)
		o = zr_table_find(&p->s.table, key);
	if (!o)
		return zr_err(err, ZR_EINTERNAL, "no option %s.%s to set", section, key);

	int rc = zr_layers_add(cfg, ZR_LAYER_AUTO, section, key, text, "auto", err);
	if (rc)
		return rc;
	if (zr_value_parse(o, cfg->last->value, p->s.opts, &e))
		return zr_err(err, ZR_EINVAL, "[%s] %s = %s, derived: %s", section, key, text,
			      e.text);

	*zr_part_source(p, o) = "auto";
	return 0;
}

struct zr_config_part *zr_part_find(const struct zr_config *cfg, const char *name)
{
	for (int i = 0; i < cfg->n; i++)
		if (!strcmp(cfg->part[i].s.name, name))
			return &cfg->part[i];
	return NULL;
}

const char **zr_part_source(const struct zr_config_part *p, const struct zr_opt *o)
{
	return &p->source[(size_t)((const char *)o - (const char *)p->s.table.opts) /
			  p->s.table.stride];
}
