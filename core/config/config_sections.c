/* SPDX-License-Identifier: Apache-2.0
 *
 * config_sections.c - from lines to sections: each gets the plugin that its lines name, and every
 * value by the table of core or of that plugin. config_names.c says which sections may be there.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/config/config_impl.h"

/* ---- which sections there are ----------------------------------------------------- */

/* The first line of the section in the highest layer that has one. */
static const struct zr_given *first_line(const struct zr_config *cfg, const char *section)
{
	const struct zr_given *first = NULL;
	for (const struct zr_given *g = cfg->given; g; g = g->next)
		if (!strcmp(g->section, section) && (!first || g->layer > first->layer))
			first = g;
	return first;
}

/* role NULL: a section of core. */
static void add_part(struct zr_config *cfg, const char *name, const struct zr_role *role)
{
	if (zr_part_find(cfg, name))
		return;

	struct zr_config_part *p = &cfg->part[cfg->n++];
	p->s = (struct zr_section){ .name = name, .sequences = ZR_AUTO_COUNT };
	if (role)
		p->s.role = role->name;
	else
		p->s.table = zr_core_table_of(name)->table;
	p->first = first_line(cfg, name);
}

/* Of the role, those with a name or the one without. A section of a list, as [offload.param], that
 * only the defaults have is there on demand: see zr_config_demand. */
static void add_parts_of(struct zr_config *cfg, const struct zr_role *role, int with_a_name)
{
	for (const struct zr_given *g = cfg->given; g; g = g->next) {
		const int has_a_name = strchr(g->section, '.') != NULL;
		const int on_demand = role->has_no_plain && g->layer == ZR_LAYER_DEFAULTS;
		if (zr_section_role(g->section) == role && has_a_name == with_a_name && !on_demand)
			add_part(cfg, g->section, role);
	}
}

/* Core's own, then role by role, the one without a name first. */
static int list_parts(struct zr_config *cfg, struct zr_error *err)
{
	for (const struct zr_given *g = cfg->given; g; g = g->next)
		if (zr_section_check(g, err))
			return ZR_EINVAL;

	cfg->part = calloc((size_t)cfg->n_given + 8, sizeof *cfg->part);
	if (!cfg->part)
		return zr_no_memory(err);

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		add_part(cfg, t->section, NULL);
	for (const struct zr_role *r = zr_roles; r->name; r++) {
		add_parts_of(cfg, r, 0);
		add_parts_of(cfg, r, 1);
	}
	return 0;
}

/* ---- the plugin of a section ------------------------------------------------------ */

/* Whether it is a parameter group, [optimizer.NAME]. */
static int is_group(const struct zr_config_part *p)
{
	return p->s.role && !strncmp(p->s.name, "optimizer.", 10);
}

static int is_model(const struct zr_config_part *p)
{
	return !strcmp(p->s.name, "model");
}

/* The line that names the plugin: a parameter group without one has that of [optimizer]. */
static const struct zr_given *choice_of(const struct zr_config *cfg, const struct zr_config_part *p)
{
	const struct zr_given *own = zr_given_last(cfg, ZR_LAYER_AUTO, p->s.name, "plugin");
	if (own || !is_group(p))
		return own;
	return zr_part_find(cfg, "optimizer")->chosen;
}

static int no_plugin(const struct zr_config *cfg, const struct zr_config_part *p,
		     struct zr_error *err)
{
	char hint[256] = ": add plugin = ID; `zeroth plugin list` shows the IDs";
	for (const struct zr_given *g = cfg->given; zr_spelling && g; g = g->next)
		if (g->key && !strcmp(g->section, p->s.name))
			zr_spelling(g->section, g->key, g->value, hint, sizeof hint);
	return zr_given_bad(p->first, err, "no plugin%s", hint);
}

static int load_plugin(struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	struct zr_error e = { 0 };
	char hint[256] = "";
	p->chosen = choice_of(cfg, p);
	if (!p->chosen)
		return no_plugin(cfg, p, err);

	if (zr_plugin_load(p->s.role, p->chosen->value, &p->s.plugin, &e)) {
		if (zr_spelling)
			zr_spelling(p->s.role, "plugin", p->chosen->value, hint, sizeof hint);
		return zr_given_bad(p->chosen, err, "%s%s", e.text, hint);
	}

	p->s.table = zr_table_of(p->s.plugin->desc);
	return 0;
}

/* ---- values before any line ------------------------------------------------------- */

/* The first optimizer's section before `p` with the same plugin; NULL: none. Sections of a role are
 * made in order: those before are complete. */
static const struct zr_config_part *first_with(const struct zr_config *cfg,
					       const struct zr_config_part *p)
{
	for (const struct zr_config_part *o = zr_part_find(cfg, "optimizer"); o < p; o++)
		if (o->s.plugin == p->s.plugin)
			return o;
	return NULL;
}

static int take_defaults(struct zr_config_part *p, struct zr_error *err)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		if (!o->def)
			continue;
		*zr_part_source(p, o) = "default";
		if (zr_value_parse(o, o->def, p->s.opts, err))
			return ZR_EINVAL;
	}
	return 0;
}

static int make_values(const struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	p->s.opts = calloc(1, p->s.table.size + 8u);
	p->source = calloc(p->s.table.n + 1u, sizeof *p->source);
	if (!p->s.opts || !p->source)
		return zr_no_memory(err);

	const struct zr_config_part *like = NULL;
	if (is_group(p))
		like = first_with(cfg, p);
	if (!like)
		return take_defaults(p, err);

	p->s.like = &like->s;
	memcpy(p->s.opts, like->s.opts, p->s.table.size);
	memcpy(p->source, like->source, p->s.table.n * sizeof *p->source);
	return 0;
}

/* ---- a line ----------------------------------------------------------------------- */

/* Core's key among those of the plugin, NULL: none; that of the model is beside its path. */
static const struct zr_opt *own_key(const struct zr_config_part *p)
{
	if (is_model(p))
		return zr_model_table.table.opts + 1;
	if (is_group(p))
		return zr_group_table.table.opts;
	if (p->s.role && zr_section_is_eval(p->s.name))
		return zr_eval_table.table.opts;
	return NULL;
}

/* Whether a line was written for the plugin that a layer below the chosen one's names. */
static int is_for_another_plugin(const struct zr_config *cfg, const struct zr_config_part *p,
				 const struct zr_given *g)
{
	const struct zr_given *chosen = p->chosen;
	if (!chosen || g->layer >= chosen->layer)
		return 0;

	const struct zr_given *below = zr_given_last(cfg, g->layer, chosen->section, "plugin");
	return below && strcmp(below->value, chosen->value) &&
	       strcmp(below->value, p->s.plugin->desc->id);
}

/* What the plugin of -o does not have of the options that the file gives to another one. */
static int leave_out(struct zr_config_part *p, const struct zr_given *g)
{
	char one[512];
	snprintf(one, sizeof one, "%s (%s)", g->key, g->place);
	zr_text_add(p->left_out, sizeof p->left_out, ", ", one);
	return 0;
}

/* The name of an option that the key may have meant; NULL: none. */
static const char *nearest_key(const struct zr_config_part *p, const char *key)
{
	const struct zr_opt *own = own_key(p);
	const char *near = zr_table_nearest(&p->s.table, key);
	if (near || !own)
		return near;

	const char *names[] = { own->name, "path", "ignore_keys", "add_tokens" };
	return zr_nearest(key, names, is_model(p) ? 4 : 1);
}

static int unknown_key(const struct zr_config_part *p, const struct zr_given *g,
		       struct zr_error *err)
{
	const char *near = nearest_key(p, g->key);
	char hint[512] = "";
	if (near)
		snprintf(hint, sizeof hint, "; did you mean %s?", near);
	else if (p->s.plugin)
		snprintf(hint, sizeof hint, "; `zeroth plugin info %s/%s` lists the keys",
			 p->s.role, p->s.plugin->desc->id);
	if (zr_spelling)
		zr_spelling(g->section, g->key, g->value, hint, sizeof hint);

	if (g->layer == ZR_LAYER_OVERRIDE)
		return zr_given_bad(g, err, "unknown key%s", hint);
	return zr_err(err, ZR_EINVAL, "%s: [%s] %s: unknown key%s", g->place, g->section, g->key,
		      hint);
}

/* An option that belongs to the plugin's one instance, in a group that shares it: names those that
 * may be here. */
static int not_of_groups(const struct zr_config_part *p, const struct zr_given *g,
			 struct zr_error *err)
{
	char list[512] = "";
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, ZR_O_GROUP, &i));)
		zr_text_add(list, sizeof list, ", ", o->name);
	return zr_given_bad(g, err,
			    "one value serves all groups of %s: give it in [%s]; a group "
			    "may have its own %s",
			    p->s.plugin->desc->id, p->s.like->name, *list ? list : "match only");
}

static int set_own(struct zr_config_part *p, const struct zr_given *g, struct zr_error *err)
{
	const struct zr_opt *own = own_key(p);
	struct zr_error e = { 0 };
	p->own = g;
	if (own->type == ZR_T_GLOBS && !g->value[strspn(g->value, " \t")])
		return zr_given_bad(g, err, "expected patterns of tensors' names");
	if (zr_value_parse(own, g->value, &p->s, &e))
		return zr_given_bad(g, err, "%s", e.text);
	return 0;
}

static int set_option(struct zr_config_part *p, const struct zr_opt *o, const struct zr_given *g,
		      struct zr_error *err)
{
	struct zr_error e = { 0 };
	const int unset_that_no_line_gave = g->layer == ZR_LAYER_OVERRIDE && !*g->value;
	if (unset_that_no_line_gave)
		return 0;
	if (zr_value_parse(o, g->value, p->s.opts, &e))
		return zr_given_bad(g, err, "%s", e.text);

	if (o->flags & ZR_O_DEPRECATED)
		zr_logf(ZR_LOG_WARN, g->place, "[%s] %s is deprecated: %s", g->section, g->key,
			o->doc);
	*zr_part_source(p, o) = g->place;
	return 0;
}

/* Core's keys in [model], beside the one in own_key: whether the line gives one of them. */
static int takes_model_key(struct zr_config_part *p, const struct zr_given *g)
{
	if (!is_model(p))
		return 0;
	if (!strcmp(g->key, "path")) /* config_pretrained.c has read it */
		return !zr_table_find(&p->s.table, "path");
	if (!strcmp(g->key, "ignore_keys"))
		p->s.ignore_keys = g->value;
	else if (!strcmp(g->key, "add_tokens"))
		p->s.add_tokens = g->value[strspn(g->value, " \t")] ? g->value : NULL;
	else
		return 0;

	return 1;
}

static int apply_line(const struct zr_config *cfg, struct zr_config_part *p,
		      const struct zr_given *g, struct zr_error *err)
{
	const struct zr_opt *own = own_key(p);
	const int names_plugin = p->s.role && !strcmp(g->key, "plugin");
	const int for_another = is_for_another_plugin(cfg, p, g);
	if (names_plugin || (for_another && g->layer == ZR_LAYER_DEFAULTS))
		return 0;
	if (takes_model_key(p, g))
		return 0;
	if (own && !strcmp(g->key, own->name))
		return set_own(p, g, err);

	const struct zr_opt *o = zr_table_find(&p->s.table, g->key);
	const int may_give = o && zr_section_gives(&p->s, o);
	if (for_another && !may_give)
		return leave_out(p, g);
	if (!o)
		return unknown_key(p, g, err);
	if (!may_give)
		return not_of_groups(p, g, err);
	return set_option(p, o, g, err);
}

/* ---- a whole section -------------------------------------------------------------- */

static int apply_lines(const struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	for (const struct zr_given *g = cfg->given; g; g = g->next) {
		if (!g->key || strcmp(g->section, p->s.name))
			continue;
		int rc = apply_line(cfg, p, g, err);
		if (rc)
			return rc;
	}

	if (*p->left_out)
		zr_logf(ZR_LOG_INFO, NULL,
			"-o %s.plugin=%s: [%s] goes without what it does not have: %s",
			p->chosen->section, p->chosen->value, p->s.name, p->left_out);
	return 0;
}

static int check_nothing_is_missing(const struct zr_config_part *p, struct zr_error *err)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		if (*zr_part_source(p, o))
			continue;
		return zr_err(err, ZR_EINVAL, "%s: [%s] %s: missing, plugin %s requires it: %s",
			      p->first->layer == ZR_LAYER_OVERRIDE ? "-o" : p->first->place,
			      p->s.name, o->name, p->s.plugin->desc->id, o->doc);
	}
	return 0;
}

static int make_part(struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	int rc = 0;
	if (p->s.role)
		rc = load_plugin(cfg, p, err);
	if (!rc)
		rc = make_values(cfg, p, err);
	if (!rc)
		rc = apply_lines(cfg, p, err);
	if (rc)
		return rc;

	if (is_group(p) && !p->own)
		return zr_err(err, ZR_EINVAL, "%s: [%s] match: missing: %s", p->first->place,
			      p->s.name, zr_group_table.table.opts->doc);
	if (is_model(p) && cfg->model_path) {
		p->s.path = cfg->model_path;
		rc = zr_pretrained_accepts(&cfg->model_json, p->s.plugin, p->s.opts, err);
		if (rc)
			return rc;
	}
	return check_nothing_is_missing(p, err);
}

int zr_sections_make(struct zr_config *cfg, struct zr_error *err)
{
	int rc = list_parts(cfg, err);
	if (!rc)
		rc = zr_sections_check_all_there(cfg, err);
	for (int i = 0; !rc && i < cfg->n; i++)
		rc = make_part(cfg, &cfg->part[i], err);
	return rc;
}

int zr_config_demand(struct zr_config *cfg, const char *section, struct zr_error *err)
{
	const struct zr_given *g = zr_given_last(cfg, ZR_LAYER_AUTO, section, "plugin");
	if (!g || zr_part_find(cfg, section))
		return 0;

	add_part(cfg, g->section, zr_section_role(section));
	return make_part(cfg, &cfg->part[cfg->n - 1], err);
}
