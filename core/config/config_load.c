/* SPDX-License-Identifier: Apache-2.0
 *
 * config_load.c - a config is read, its `auto` resolved, and freed.
 */
#include <stdlib.h>
#include <string.h>

#include "core/config/config_impl.h"
#include "core/plugin/host.h"

int zr_config_load(const char *ini_path, const char *const *overrides, int n_overrides,
		   struct zr_config **out, struct zr_error *err)
{
	struct zr_config *cfg = calloc(1, sizeof *cfg);
	if (!cfg || (ini_path && !(cfg->path = strdup(ini_path)))) {
		free(cfg);
		return zr_no_memory(err);
	}
	int rc = zr_layers_read(cfg, overrides, n_overrides, err);
	if (!rc)
		rc = zr_layers_pretrained(cfg, err);
	if (!rc)
		rc = zr_sections_make(cfg, err);
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
	for (struct zr_given *g = cfg->given, *next; g; g = next) {
		next = g->next;
		free(g->section);
		free(g->key);
		free(g->value);
		free(g->place);
		free(g);
	}

	zr_model_json_close(&cfg->model_json);
	free(cfg->part);
	free(cfg->path);
	free(cfg);
}

/* What was `auto` must now be a value in range. */
static int check_resolved(const struct zr_config *cfg, struct zr_config_part *p,
			  const uint8_t *was_auto, struct zr_error *err)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		struct zr_error e = { 0 };
		int still = zr_value_is_auto(o, p->s.opts);
		if (!was_auto[i - 1] || (still && o->flags & ZR_O_STAYS_AUTO))
			continue;
		if (still)
			return zr_config_blame(cfg, p->s.name, ZR_EINVAL, err,
					       "%s: `auto` could not be resolved; give a value",
					       o->name);
		if (zr_value_check(o, p->s.opts, &e))
			return zr_config_blame(cfg, p->s.name, ZR_EINVAL, err, "%s = auto: %s",
					       o->name, e.text);

		*zr_part_source(p, o) = "auto";
	}
	return 0;
}

int zr_config_resolve(struct zr_config *cfg, const char *section, const struct zr_facts *facts,
		      struct zr_error *err)
{
	struct zr_config_part *p = zr_part_find(cfg, section);
	struct zr_process process = { .world = facts->world,
				      .local_world = facts->world,
				      .cfg = cfg };
	struct zr_instance it;
	const struct zr_opt *o;
	int rc = 0;
	if (!p || !p->s.plugin)
		return zr_err(err, ZR_EINTERNAL, "no section [%s] to resolve", section);

	uint8_t *was_auto = calloc(p->s.table.n + 1u, 1);
	if (!was_auto)
		return zr_no_memory(err);

	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));)
		was_auto[i - 1] = (uint8_t)zr_value_is_auto(o, p->s.opts);
	zr_host_init(&it, &process, &p->s);
	it.host.workers = facts->workers;
	if (p->s.plugin->desc->resolve)
		rc = zr_instance_failed(&it, p->s.plugin->desc->resolve(&it.host, facts, p->s.opts),
					"resolve", err);
	if (!rc)
		rc = check_resolved(cfg, p, was_auto, err);
	if (!rc && p->s.plugin->desc->check)
		rc = zr_instance_failed(&it, p->s.plugin->desc->check(&it.host, p->s.opts), "check",
					err);
	free(was_auto);
	return rc;
}
