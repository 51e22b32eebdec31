/* SPDX-License-Identifier: Apache-2.0
 *
 * config_sections.c - from lines to sections: known names, their plugins, and every value by its
 * table.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/config/config_impl.h"

int (*zr_spelling)(const char *section, const char *key, const char *value, char *hint,
		   size_t room);

static const struct zr_core_table *core_table(const char *section)
{
	const struct zr_core_table *t = zr_core_tables;
	while (t->section && strcmp(t->section, section))
		t++;
	return t->section ? t : NULL;
}

static int is_eval(const char *section)
{
	return !strcmp(section, "eval") || !strncmp(section, "eval.", 5);
}

/* The role of "role" or "role.name"; NULL: none. */
static const char *role_of(const char *section)
{
	section = is_eval(section) ? "data" : section;
	size_t len = strcspn(section, ".");
	for (int i = 0; zr_roles[i]; i++)
		if (strlen(zr_roles[i]) == len && !strncmp(zr_roles[i], section, len))
			return zr_roles[i];
	return NULL;
}

static int unknown_section(const struct zr_given *g, struct zr_error *err)
{
	const char *names[32], *near;
	char head[64], hint[256] = "";
	int n = 0;
	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		names[n++] = t->section;
	for (int i = 0; zr_roles[i]; i++)
		names[n++] = zr_roles[i];
	snprintf(head, sizeof head, "%.*s", (int)strcspn(g->section, "."), g->section);
	near = zr_nearest(head, names, n);
	if (near)
		snprintf(hint, sizeof hint, "; did you mean [%s]?", near);
	else if (zr_spelling)
		zr_spelling(g->section, g->key, g->value, hint, sizeof hint);
	if (g->layer == ZR_LAYER_OVERRIDE && g->key)
		return zr_given_bad(g, err, "unknown section [%s]%s", g->section, hint);
	return zr_err(err, ZR_EINVAL, "%s: unknown section [%s]%s", g->place, g->section, hint);
}

const char *const zr_offload_sections[] = { "offload.optimizer", "offload.gradient",
					    "offload.param", "offload.activation", NULL };

static int is_store(const char *section)
{
	const char *const *name = zr_offload_sections;
	while (*name && strcmp(*name, section))
		name++;
	return *name != NULL;
}

static int check_name(const struct zr_given *g, struct zr_error *err)
{
	const char *role = role_of(g->section), *dot = strchr(g->section, '.');
	if (core_table(g->section))
		return 0;
	if (!role)
		return unknown_section(g, err);
	if (!strcmp(role, "codec"))
		return zr_given_bad(g, err,
				    "nothing encodes what ranks exchange yet; take the "
				    "section out");
	if (!dot && is_eval(g->section))
		return zr_given_bad(g, err, "a set to evaluate on has a name: [eval.NAME]");
	if (!strcmp(role, "offload") && !is_store(g->section))
		return zr_err(err, ZR_EINVAL,
			      "%s: [%s] plugin: nothing lies in a section of this "
			      "name; there are [offload.optimizer], [offload.gradient], "
			      "[offload.param] and [offload.activation]",
			      g->place, g->section);
	if (!dot || !strcmp(g->section, "device.host") || !strcmp(g->section, "comm.host"))
		return 0;
	if (!strstr("data monitor offload optimizer", role))
		return zr_given_bad(g, err,
				    "there is one section [%s]; only data, monitor, "
				    "offload, optimizer and eval have named ones, and "
				    "[device.host] and [comm.host]",
				    role);
	if (!dot[1] ||
	    strspn(dot + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
		    strlen(dot + 1))
		return zr_given_bad(g, err, "a section's name has letters, digits, _ and -");
	return 0;
}

static void add_part(struct zr_config *cfg, const char *name, const char *role)
{
	if (zr_part_find(cfg, name))
		return;
	struct zr_config_part *p = &cfg->part[cfg->n++];
	p->s = (struct zr_section){ .name = name, .role = role, .sequences = ZR_AUTO_COUNT };
	if (!role)
		p->s.table = core_table(name)->table;
	for (const struct zr_given *g = cfg->given; g; g = g->next)
		if (!strcmp(g->section, name) && (!p->first || g->layer > p->first->layer))
			p->first = g;
}

/* Core's own, then role by role, the nameless one first. A store that only the defaults have is
 * there on demand. */
static int list_parts(struct zr_config *cfg, struct zr_error *err)
{
	for (const struct zr_given *g = cfg->given; g; g = g->next)
		if (check_name(g, err))
			return ZR_EINVAL;
	cfg->part = calloc((size_t)cfg->n_given + 8, sizeof *cfg->part);
	if (!cfg->part)
		return zr_err(err, ZR_ENOMEM, "out of memory");

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		add_part(cfg, t->section, NULL);
	for (int r = 0; zr_roles[r]; r++)
		for (int named = 0; named <= 1; named++)
			for (const struct zr_given *g = cfg->given; g; g = g->next) {
				int waits = g->layer == ZR_LAYER_DEFAULTS &&
					    !strncmp(g->section, "offload.", 8);
				if (!waits && role_of(g->section) == zr_roles[r] &&
				    !strchr(g->section, '.') == !named)
					add_part(cfg, g->section, zr_roles[r]);
			}
	return 0;
}

/* A run needs these; what the installed defaults name is never missing. */
static int check_required(const struct zr_config *cfg, struct zr_error *err)
{
	for (int r = 0; zr_roles[r]; r++)
		if (!strstr("adapter comm offload codec monitor", zr_roles[r]) &&
		    !zr_part_find(cfg, zr_roles[r]))
			return zr_err(err, ZR_EINVAL,
				      "%s%sno [%s] section: add one with plugin = "
				      "ID; `zeroth plugin list` shows the IDs",
				      cfg->path ? cfg->path : "", cfg->path ? ": " : "",
				      zr_roles[r]);
	return 0;
}

static int is_group(const struct zr_config_part *p)
{
	return p->s.role && !strncmp(p->s.name, "optimizer.", 10);
}

static int is_model(const struct zr_config_part *p)
{
	return !strcmp(p->s.name, "model");
}

/* Core's key among those of the plugin, NULL: none; that of the model is beside its path. */
static const struct zr_opt *own_key(const struct zr_config_part *p)
{
	return is_model(p)                     ? zr_model_table.table.opts + 1 :
	       is_group(p)                     ? zr_group_table.table.opts :
	       p->s.role && is_eval(p->s.name) ? zr_eval_table.table.opts :
						 NULL;
}

/* Sections of a role are made in order: those before are complete. */
static const struct zr_config_part *first_with(const struct zr_config *cfg,
					       const struct zr_config_part *p)
{
	const struct zr_config_part *o = zr_part_find(cfg, "optimizer");
	while (o < p && o->s.plugin != p->s.plugin)
		o++;
	return o < p ? o : NULL;
}

static int load_plugin(struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	const struct zr_given *own = zr_given_last(cfg, ZR_LAYER_AUTO, p->s.name, "plugin");
	struct zr_error e = { 0 };
	char hint[256] = ": add plugin = ID; `zeroth plugin list` shows the IDs";
	p->chosen = own || !is_group(p) ? own : zr_part_find(cfg, "optimizer")->chosen;
	for (const struct zr_given *g = cfg->given; !p->chosen && zr_spelling && g; g = g->next)
		if (g->key && !strcmp(g->section, p->s.name))
			zr_spelling(g->section, g->key, g->value, hint, sizeof hint);
	if (!p->chosen)
		return zr_given_bad(p->first, err, "no plugin%s", hint);
	if (zr_plugin_load(p->s.role, p->chosen->value, &p->s.plugin, &e)) {
		*hint = 0;
		if (zr_spelling)
			zr_spelling(p->s.role, "plugin", p->chosen->value, hint, sizeof hint);
		return zr_given_bad(p->chosen, err, "%s%s", e.text, hint);
	}

	p->s.table = zr_table_of(p->s.plugin->desc);
	return 0;
}

static int make_values(const struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	const struct zr_config_part *like = is_group(p) ? first_with(cfg, p) : NULL;
	const struct zr_opt *o;
	p->s.opts = calloc(1, p->s.table.size + 8u);
	p->source = calloc(p->s.table.n + 1u, sizeof *p->source);
	if (!p->s.opts || !p->source)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	if (like) {
		p->s.like = &like->s;
		memcpy(p->s.opts, like->s.opts, p->s.table.size);
		memcpy(p->source, like->source, p->s.table.n * sizeof *p->source);
		return 0;
	}

	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		*zr_part_source(p, o) = o->def ? "default" : NULL;
		if (o->def && zr_value_parse(o, o->def, p->s.opts, err))
			return ZR_EINVAL;
	}
	return 0;
}

/* Whether a line was written for the plugin that a layer below the chosen one's names. */
static int is_others(const struct zr_config *cfg, const struct zr_config_part *p,
		     const struct zr_given *g)
{
	const struct zr_given *c = p->chosen, *below;
	if (!c || g->layer >= c->layer)
		return 0;
	below = zr_given_last(cfg, g->layer, c->section, "plugin");
	return below && strcmp(below->value, c->value) &&
	       strcmp(below->value, p->s.plugin->desc->id);
}

/* What the plugin of -o does not have of the options that the file gives to another one. */
static int leave_out(struct zr_config_part *p, const struct zr_given *g)
{
	size_t n = strlen(p->left_out), room = sizeof p->left_out - n;
	snprintf(p->left_out + n, room, "%s%s (%s)", n ? ", " : "", g->key, g->place);
	return 0;
}

static int unknown_key(const struct zr_config_part *p, const struct zr_given *g,
		       struct zr_error *err)
{
	const char *near = zr_table_nearest(&p->s.table, g->key),
		   *own[] = { own_key(p) ? own_key(p)->name : "", "path", "ignore_keys" };
	char hint[512] = "";
	if (!near && own_key(p))
		near = zr_nearest(g->key, own, is_model(p) ? 3 : 1);
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
	size_t len = 0;
	for (uint32_t i = 0; len < sizeof list && (o = zr_table_next(&p->s.table, ZR_O_GROUP, &i));)
		len += (size_t)snprintf(list + len, sizeof list - len, len ? ", %s" : "%s",
					o->name);
	return zr_given_bad(g, err,
			    "one value serves all groups of %s: give it in [%s]; a group "
			    "may have its own %s",
			    p->s.plugin->desc->id, p->s.like->name, *list ? list : "match only");
}

static int apply(const struct zr_config *cfg, struct zr_config_part *p, const struct zr_given *g,
		 struct zr_error *err)
{
	struct zr_error e = { 0 };
	const struct zr_opt *o, *own = own_key(p);
	int other = is_others(cfg, p, g);
	if (!g->key || strcmp(g->section, p->s.name) || (p->s.role && !strcmp(g->key, "plugin")) ||
	    (other && g->layer == ZR_LAYER_DEFAULTS))
		return 0;
	if (is_model(p) && !strcmp(g->key, "path") && !zr_table_find(&p->s.table, "path"))
		return 0; /* config_pretrained.c has read it */
	if (is_model(p) && !strcmp(g->key, "ignore_keys")) {
		p->s.ignore_keys = g->value;
		return 0;
	}
	if (own && !strcmp(g->key, own->name)) {
		p->own = g;
		if (own->type == ZR_T_GLOBS && !g->value[strspn(g->value, " \t")])
			return zr_given_bad(g, err, "expected patterns of tensors' names");
		return zr_value_parse(own, g->value, &p->s, &e) ?
			       zr_given_bad(g, err, "%s", e.text) :
			       0;
	}

	o = zr_table_find(&p->s.table, g->key);
	if (other && (!o || !zr_section_gives(&p->s, o)))
		return leave_out(p, g);
	if (!o)
		return unknown_key(p, g, err);
	if (!zr_section_gives(&p->s, o))
		return not_of_groups(p, g, err);
	if (g->layer == ZR_LAYER_OVERRIDE && !*g->value)
		return 0; /* unset, and no line gave it */
	if (zr_value_parse(o, g->value, p->s.opts, &e))
		return zr_given_bad(g, err, "%s", e.text);
	if (o->flags & ZR_O_DEPRECATED)
		zr_logf(ZR_LOG_WARN, g->place, "[%s] %s is deprecated: %s", g->section, g->key,
			o->doc);
	*zr_part_source(p, o) = g->place;
	return 0;
}

static int make_part(struct zr_config *cfg, struct zr_config_part *p, struct zr_error *err)
{
	const struct zr_opt *o;
	int rc = p->s.role ? load_plugin(cfg, p, err) : 0;
	if (!rc)
		rc = make_values(cfg, p, err);
	for (const struct zr_given *g = cfg->given; !rc && g; g = g->next)
		rc = apply(cfg, p, g, err);
	if (!rc && *p->left_out)
		zr_logf(ZR_LOG_INFO, NULL,
			"-o %s.plugin=%s: [%s] goes without what it does not have: %s",
			p->chosen->section, p->chosen->value, p->s.name, p->left_out);
	if (!rc && is_group(p) && !p->own)
		return zr_err(err, ZR_EINVAL, "%s: [%s] match: missing: %s", p->first->place,
			      p->s.name, zr_group_table.table.opts->doc);
	if (!rc && is_model(p) && cfg->model_path) {
		p->s.path = cfg->model_path;
		rc = zr_pretrained_accepts(&cfg->model_json, p->s.plugin, p->s.opts, err);
	}
	for (uint32_t i = 0; !rc && (o = zr_table_next(&p->s.table, 0, &i));)
		if (!*zr_part_source(p, o))
			rc = zr_err(err, ZR_EINVAL,
				    "%s: [%s] %s: missing, plugin %s requires it: %s",
				    p->first->layer == ZR_LAYER_OVERRIDE ? "-o" : p->first->place,
				    p->s.name, o->name, p->s.plugin->desc->id, o->doc);
	return rc;
}

int zr_sections_make(struct zr_config *cfg, struct zr_error *err)
{
	int rc = list_parts(cfg, err);
	if (!rc)
		rc = check_required(cfg, err);
	for (int i = 0; !rc && i < cfg->n; i++)
		rc = make_part(cfg, &cfg->part[i], err);
	return rc;
}

int zr_config_demand(struct zr_config *cfg, const char *section, struct zr_error *err)
{
	const struct zr_given *g = zr_given_last(cfg, ZR_LAYER_AUTO, section, "plugin");
	if (!g || zr_part_find(cfg, section))
		return 0;
	add_part(cfg, g->section, role_of(g->section));
	return make_part(cfg, &cfg->part[cfg->n - 1], err);
}
