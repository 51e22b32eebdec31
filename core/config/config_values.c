/* SPDX-License-Identifier: Apache-2.0
 *
 * config_values.c - the config as others see it: loading, looking up, resolving `auto`.
 */
#define _GNU_SOURCE
#include "core/config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config_impl.h"
#include "core/plugin/host.h"

int zr_config_load(const char *ini_path, const char *const *overrides, int n_overrides, struct zr_config **out,
		   struct zr_error *err)
{
	struct zr_config *cfg = calloc(1, sizeof *cfg);
	if (!cfg || (ini_path && !(cfg->path = strdup(ini_path)))) {
		free(cfg);
		return zr_err(err, ZR_ENOMEM, "out of memory");
	}
	int rc = zr_layers_read(cfg, overrides, n_overrides, err);
	rc = rc ? rc : zr_layers_pretrained(cfg, err);
	rc = rc ? rc : zr_sections_make(cfg, err);
	if (rc)
		zr_config_free(cfg);
	else
		*out = cfg;
	return rc;
}

void zr_config_free(struct zr_config *cfg)
{
	if (!cfg)
		return;
	for (int i = 0; i < cfg->n; i++) {
		free(cfg->part[i].s.opts);
		free(cfg->part[i].source);
	}
	for (int i = 0; i < cfg->n_given; i++) {
		free(cfg->given[i].section);
		free(cfg->given[i].key);
		free(cfg->given[i].value);
		free(cfg->given[i].place);
	}
	for (struct zr_text *t = cfg->texts, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	zr_model_json_close(&cfg->model_json);
	free(cfg->part);
	free(cfg->given);
	free(cfg->path);
	free(cfg);
}

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
	const struct zr_part *p = zr_part_find(cfg, name);
	return p ? &p->s : NULL;
}

const char *zr_config_source(const struct zr_config *cfg, const char *section, const char *key)
{
	const struct zr_part *p = zr_part_find(cfg, section);
	const struct zr_opt *o = p ? zr_table_find(&p->s.table, key) : NULL;
	if (o)
		return *zr_part_source(p, o);
	if (p && p->own && !strcmp(key, p->own->key))
		return p->own->place;
	if (p && p->s.path && !strcmp(key, "path"))
		return cfg->model_place;
	return p && p->chosen && !strcmp(key, "plugin") ? p->chosen->place : NULL;
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

int zr_config_blame(const struct zr_config *cfg, const char *section, int code,
		    struct zr_error *err, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	const struct zr_part *p = zr_part_find(cfg, section);
	const struct zr_opt *o;
	const char *place = NULL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (uint32_t i = 0; !place && (o = zr_table_next(&p->s.table, 0, &i));)
		for (int j = 0; !place && j < cfg->n_given; j++)
			if (*zr_part_source(p, o) == cfg->given[j].place && has_word(text, o->name))
				place = cfg->given[j].place;
	if (!place && p->own && has_word(text, p->own->key))
		place = p->own->place;
	if (!place && p->first && p->first->layer != ZR_LAYER_DEFAULTS)
		place = p->first->place;
	return zr_err(err, code, "%s%s[%s] %s", place ? place : "", place ? ": " : "", p->s.name, text);
}

/* What was `auto` must now be a value in range. */
static int check_resolved(const struct zr_config *cfg, struct zr_part *p, const uint8_t *was_auto, struct zr_error *err)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		struct zr_error e = { 0 };
		int still = zr_value_is_auto(o, p->s.opts);
		if (!was_auto[i - 1] || (still && o->flags & ZR_O_STAYS_AUTO))
			continue;
		if (still || zr_value_check(o, p->s.opts, &e))
			return zr_config_blame(cfg, p->s.name, ZR_EINVAL, err, "%s%s%s", o->name,
					       still ? ": `auto` could not be resolved; give a value" :
						       " = auto: ", e.text);
		*zr_part_source(p, o) = "auto";
	}
	return 0;
}

int zr_config_resolve(struct zr_config *cfg, const char *section, const struct zr_facts *facts, struct zr_error *err)
{
	struct zr_part *p = zr_part_find(cfg, section);
	struct zr_process process = { .world = facts->world, .local_world = facts->world, .cfg = cfg };
	struct zr_instance it;
	const struct zr_opt *o;
	int rc = 0;
	if (!p || !p->s.plugin)
		return zr_err(err, ZR_EINTERNAL, "no section [%s] to resolve", section);
	uint8_t *was_auto = calloc(p->s.table.n + 1u, 1);
	if (!was_auto)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));)
		was_auto[i - 1] = (uint8_t)zr_value_is_auto(o, p->s.opts);
	zr_host_init(&it, &process, &p->s);
	it.host.workers = facts->workers;
	if (p->s.plugin->desc->resolve)
		rc = zr_instance_failed(&it, p->s.plugin->desc->resolve(&it.host, facts, p->s.opts), "resolve", err);
	rc = rc ? rc : check_resolved(cfg, p, was_auto, err);
	if (!rc && p->s.plugin->desc->check)
		rc = zr_instance_failed(&it, p->s.plugin->desc->check(&it.host, p->s.opts), "check", err);
	free(was_auto);
	return rc;
}

int zr_config_set_auto(struct zr_config *cfg, const char *section, const char *key, const char *text,
		       struct zr_error *err)
{
	struct zr_part *p = zr_part_find(cfg, section);
	const struct zr_opt *o = p ? zr_table_find(&p->s.table, key) : NULL;
	struct zr_error e = { 0 };
	if (!o)
		return zr_err(err, ZR_EINTERNAL, "no option %s.%s to set", section, key);
	struct zr_text *t = malloc(sizeof *t + strlen(text) + 1);
	if (!t)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	strcpy(t->text, text);
	t->next = cfg->texts;
	cfg->texts = t;
	if (zr_value_parse(o, t->text, p->s.opts, &e))
		return zr_err(err, ZR_EINVAL, "[%s] %s = %s, derived: %s", section, key, text, e.text);
	*zr_part_source(p, o) = "auto";
	return 0;
}
