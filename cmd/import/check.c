/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - see import.h: the lines that were made against the tables of options, as loading the
 * INI would.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/config/config.h"

/* What defaults.ini names for the sections that an import may leave without a plugin. */
static const char *const defaults[][2] = {
	{ "optimizer", "adamw" }, { "scheduler", "constant" }, { "zero", "stage0" },
	{ "precision", "fp32" },  { "activation", "keep" },    { "boot", "local" },
	{ NULL, NULL },
};

/* The options of a section. 0: not known here, as those of a model before its config.json is read.
 */
static int table_of(const struct zr_import *im, const char *section, const char **plugin,
		    struct zr_table *out)
{
	const struct zr_plugin *loaded;
	struct zr_error ignored = { 0 };
	char role[32], to[80];

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		if (!strcmp(t->section, section))
			return *out = t->table, *plugin = section, 1;
	snprintf(role, sizeof role, "%.*s", (int)strcspn(section, "."), section);
	snprintf(to, sizeof to, "%s.plugin", section);
	*plugin = zr_import_given(im, to);
	for (int i = 0; !*plugin && defaults[i][0]; i++)
		if (!strcmp(section, defaults[i][0]))
			*plugin = defaults[i][1];
	if (!*plugin || !strcmp(role, "model") || zr_plugin_load(role, *plugin, &loaded, &ignored))
		return 0;

	*out = zr_table_of(loaded->desc);
	return 1;
}

static int check_line(const struct zr_import *im, const struct zr_import_line *l,
		      struct zr_error *why)
{
	struct zr_table table;
	const struct zr_opt *o;
	const char *plugin;
	void *opts;
	int rc;

	if (!strcmp(l->key, "plugin") || !strcmp(l->key, "match") ||
	    !table_of(im, l->section, &plugin, &table))
		return 0;

	o = zr_table_find(&table, l->key);
	if (!o)
		return zr_err(why, ZR_EINVAL, "[%s] plugin = %s has no %s; take it out", l->section,
			      plugin, l->key);

	opts = calloc(1, table.size + 8u);
	if (opts)
		rc = zr_value_parse(o, l->value, opts, why);
	else
		rc = ZR_ENOMEM;
	free(opts);
	return rc;
}

/* A line of a section that needs a plugin, and no line names one. */
static int is_idle(const struct zr_import *im, const struct zr_import_line *l)
{
	static const char *const roles[] = { "adapter", "offload.", "monitor.", "data" };
	char to[80];

	snprintf(to, sizeof to, "%s.plugin", l->section);
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (!strncmp(l->section, roles[i], strlen(roles[i])))
			return !zr_import_given(im, to);
	return 0;
}

/* Takes these lines out: what they are for is off. */
static int drop_idle(struct zr_import *im)
{
	int rc = 0;

	for (int i = 0; !rc && i < im->n_lines; i++) {
		const struct zr_import_line *l = &im->lines[i];
		char to[128];
		if (!is_idle(im, l))
			continue;
		if (l->from)
			rc = zr_import_fate(l->from, ZR_FATE_NONE, "nothing asks for [%s]",
					    l->section);
		snprintf(to, sizeof to, "%s.%s", l->section, l->key);
		zr_import_drop(im, to);
		i = -1;
	}

	return rc;
}

int zr_import_check(struct zr_import *im)
{
	int rc = drop_idle(im);
	for (int i = 0; !rc && i < im->n_lines; i++) {
		struct zr_error why = { 0 };
		struct zr_setting *s = im->lines[i].from;
		const int bad = check_line(im, &im->lines[i], &why);
		if (bad == ZR_ENOMEM)
			rc = ZR_ENOMEM;
		else if (bad && s)
			rc = zr_import_fate(s, ZR_FATE_REFUSED, "%s", why.text);
		else if (bad)
			rc = zr_err(im->err, ZR_EINVAL, "%s: [%s] %s = %s: %s", im->lines[i].note,
				    im->lines[i].section, im->lines[i].key, im->lines[i].value,
				    why.text);
	}

	return rc;
}
