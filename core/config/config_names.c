/* SPDX-License-Identifier: Apache-2.0
 *
 * config_names.c - which sections a configuration may have, which it must have, and of which role
 * each is. All of that is in the tables: core/plugin/roles.def and options_core.c.
 */
#include <string.h>

#include "core/config/config_impl.h"

int (*zr_spelling)(const char *section, const char *key, const char *value, char *hint,
		   size_t room);

#define IN_NAMES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

enum { LIST = 512, SECTIONS_MOST = 32 };

const struct zr_core_table *zr_core_table_of(const char *section)
{
	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		if (!strcmp(t->section, section))
			return t;
	return NULL;
}

int zr_section_is_eval(const char *section)
{
	return !strcmp(section, "eval") || !strncmp(section, "eval.", 5);
}

const struct zr_role *zr_section_role(const char *section)
{
	if (zr_section_is_eval(section))
		section = "data";
	return zr_role_find(section, strcspn(section, "."));
}

/* Whether the role has this further section, by its full name. */
static int has_section(const struct zr_role *role, const char *section)
{
	for (int i = 0; role->section[i]; i++)
		if (!strcmp(role->section[i], section))
			return 1;
	return 0;
}

/* ---- lists in messages ------------------------------------------------------------ */

static void append(char list[LIST], const char *before, const char *name, const char *after)
{
	const size_t n = strlen(list);
	snprintf(list + n, LIST - n, "%s[%s%s]", n ? before : "", name, after);
}

/* "[offload.optimizer], [offload.gradient], ..." */
static void list_further(const struct zr_role *role, char list[LIST])
{
	for (int i = 0; role->section[i]; i++)
		append(list, ", ", role->section[i], "");
}

/* Every section whose name has a point. */
static void list_named(char list[LIST])
{
	for (const struct zr_role *r = zr_roles; r->name; r++) {
		if (r->is_named)
			append(list, ", ", r->name, ".NAME");
		list_further(r, list);
	}
	append(list, ", ", "eval", ".NAME");
}

/* ---- checks ----------------------------------------------------------------------- */

static int unknown_section(const struct zr_given *g, struct zr_error *err)
{
	const char *names[SECTIONS_MOST];
	char head[64], hint[256] = "";
	int n = 0;
	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		names[n++] = t->section;
	for (const struct zr_role *r = zr_roles; r->name; r++)
		names[n++] = r->name;

	snprintf(head, sizeof head, "%.*s", (int)strcspn(g->section, "."), g->section);
	const char *near = zr_nearest(head, names, n);
	if (near)
		snprintf(hint, sizeof hint, "; did you mean [%s]?", near);
	else if (zr_spelling)
		zr_spelling(g->section, g->key, g->value, hint, sizeof hint);

	if (g->layer == ZR_LAYER_OVERRIDE && g->key)
		return zr_given_bad(g, err, "unknown section [%s]%s", g->section, hint);
	return zr_err(err, ZR_EINVAL, "%s: unknown section [%s]%s", g->place, g->section, hint);
}

/* A role that has only the sections of its list. */
static int not_listed(const struct zr_given *g, const struct zr_role *role, struct zr_error *err)
{
	char list[LIST] = "";
	list_further(role, list);
	return zr_err(err, ZR_EINVAL,
		      "%s: [%s] plugin: nothing lies in a section of this name; there are %s",
		      g->place, g->section, list);
}

static int not_named(const struct zr_given *g, const struct zr_role *role, struct zr_error *err)
{
	char list[LIST] = "";
	list_named(list);
	return zr_given_bad(g, err, "there is one section [%s]; sections with a name are %s",
			    role->name, list);
}

int zr_section_check(const struct zr_given *g, struct zr_error *err)
{
	const struct zr_role *role = zr_section_role(g->section);
	const char *dot = strchr(g->section, '.');
	if (zr_core_table_of(g->section))
		return 0;
	if (!role)
		return unknown_section(g, err);
	if (has_section(role, g->section))
		return 0;
	if (role->has_no_plain)
		return not_listed(g, role, err);
	if (!dot && zr_section_is_eval(g->section))
		return zr_given_bad(g, err, "a set to evaluate on has a name: [eval.NAME]");
	if (!dot)
		return 0;
	if (!role->is_named)
		return not_named(g, role, err);

	const char *name = dot + 1;
	if (!*name || name[strspn(name, IN_NAMES)])
		return zr_given_bad(g, err, "a section's name has letters, digits, _ and -");
	return 0;
}

/* What the installed defaults name is never missing. */
int zr_sections_check_all_there(const struct zr_config *cfg, struct zr_error *err)
{
	for (const struct zr_role *r = zr_roles; r->name; r++) {
		if (r->need != ZR_ROLE_REQUIRED || zr_part_find(cfg, r->name))
			continue;
		return zr_err(err, ZR_EINVAL,
			      "%s%sno [%s] section: add one with plugin = ID; `zeroth plugin "
			      "list` shows the IDs",
			      cfg->path ? cfg->path : "", cfg->path ? ": " : "", r->name);
	}
	return 0;
}
