/* SPDX-License-Identifier: Apache-2.0
 *
 * config_layers.c - reads the layers, lowest first, into one list of lines. Nothing is judged here
 * but their form and keys given twice in one file.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config_impl.h"
#include "core/config/ini.h"
#include "core/plugin/plugin_file.h"
#include "core/plugin/prefix.h"

struct reader {
	struct zr_config *cfg;
	enum zr_given_layer layer;
	const char *name; /* of the file, in places */
	struct zr_error *err;
};

int zr_data_dir(const char **dir, struct zr_error *err)
{
	const char *env = zr_trusted_env("ZEROTH_DATA_PATH");
	if (env)
		*dir = env;
	else
		*dir = zr_installed_data();
	if (**dir != '/')
		return zr_err(err, ZR_EINVAL, "ZEROTH_DATA_PATH: '%s' is not an absolute path",
			      *dir);
	return 0;
}

int zr_given_bad(const struct zr_given *g, struct zr_error *err, const char *fmt, ...)
{
	char text[768];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (g->layer == ZR_LAYER_OVERRIDE && g->key)
		return zr_err(err, ZR_EINVAL, "-o %s.%s=%s: %s", g->section, g->key, g->value,
			      text);
	if (!g->key)
		return zr_err(err, ZR_EINVAL, "%s: [%s] %s", g->place, g->section, text);
	return zr_err(err, ZR_EINVAL, "%s: [%s] %s = %s: %s", g->place, g->section, g->key,
		      g->value, text);
}

struct zr_given *zr_given_last(const struct zr_config *cfg, enum zr_given_layer most,
			       const char *section, const char *key)
{
	struct zr_given *last = NULL;
	for (struct zr_given *g = cfg->given; g; g = g->next)
		if (g->layer <= most && g->key && !strcmp(g->key, key) &&
		    !strcmp(g->section, section))
			last = g;
	return last;
}

int zr_layers_add(struct zr_config *cfg, enum zr_given_layer layer, const char *section,
		  const char *key, const char *value, const char *place, struct zr_error *err)
{
	struct zr_given *g = calloc(1, sizeof *g);
	if (!g)
		return zr_no_memory(err);

	if (cfg->last)
		cfg->last->next = g;
	else
		cfg->given = g;
	cfg->last = g;
	cfg->n_given++;
	g->layer = layer;
	g->section = strdup(section);
	g->place = strdup(place);
	if (key) {
		g->key = strdup(key);
		g->value = strdup(value);
	}
	if (!g->section || !g->place || (key && (!g->key || !g->value)))
		return zr_no_memory(err);
	return 0;
}

static int line(void *arg, const char *section, const char *key, const char *value, int number)
{
	struct reader *r = arg;
	char place[4200];
	snprintf(place, sizeof place, "%s:%d", r->name, number);
	const struct zr_given *g = NULL;
	if (key)
		g = zr_given_last(r->cfg, r->layer, section, key);
	if (g && g->layer == r->layer)
		return zr_err(r->err, ZR_EINVAL, "%s: [%s] %s: given twice, first at %s", place,
			      section, key, g->place);
	return zr_layers_add(r->cfg, r->layer, section, key, value, place, r->err);
}

/* -o section.key= takes back what gives the key. Where nothing does it stays, to be checked. */
static int unset(struct reader *r, const char *section, const char *key)
{
	struct zr_given *g;
	int any = !strcmp(key, "plugin");
	while ((g = zr_given_last(r->cfg, r->layer, section, key)) &&
	       g->layer > ZR_LAYER_DEFAULTS) {
		free(g->key);
		g->key = NULL;
		any = 1;
	}
	r->cfg->path_taken |= !strcmp(section, "model") && !strcmp(key, "path");
	return zr_layers_add(r->cfg, r->layer, section, any ? NULL : key, "", "-o", r->err);
}

static char *trim(char *text)
{
	size_t len = strlen(text += strspn(text, " \t"));
	while (len && isblank((unsigned char)text[len - 1]))
		text[--len] = 0;
	return text;
}

static int override(struct reader *r, const char *text)
{
	char *copy = strdup(text), *dot = NULL;
	int rc = 0;
	if (!copy)
		return zr_no_memory(r->err);

	char *equals = strchr(copy, '=');
	if (equals) {
		*equals = 0;
		dot = strrchr(copy, '.');
	}

	for (const char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c))
			rc = zr_err(r->err, ZR_EINVAL, "-o %s: a control character", text);
	if (!rc && (!dot || dot == copy || dot + 1 == equals))
		rc = zr_err(r->err, ZR_EINVAL, "-o %s: expected section.key=value", text);
	if (!rc) {
		*dot = 0;
		char *section = trim(copy), *key = trim(dot + 1), *value = trim(equals + 1);
		if (!*value)
			rc = unset(r, section, key);
		else
			rc = zr_layers_add(r->cfg, r->layer, section, key, value, "-o", r->err);
	}

	free(copy);
	return rc;
}

/* The lowest layer of all, without which nothing has a value. */
static int read_defaults(struct reader *r, const char *dir)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/defaults.ini", dir);
	if (access(path, F_OK))
		return zr_err(r->err, ZR_EINVAL,
			      "%s: %s: make install puts it there, and ZEROTH_DATA_PATH names "
			      "another directory, as conf of the sources",
			      path, strerror(errno));
	return zr_ini_read(path, path, line, r, r->err);
}

int zr_layers_read(struct zr_config *cfg, const char *const *overrides, int n_overrides,
		   struct zr_error *err)
{
	struct reader r = { cfg, ZR_LAYER_DEFAULTS, "defaults.ini", err };
	const char *dir;
	int rc = zr_data_dir(&dir, err);
	if (rc)
		return rc;

	rc = read_defaults(&r, dir);
	if (!rc && cfg->path) {
		r.layer = ZR_LAYER_FILE;
		r.name = cfg->path;
		rc = zr_ini_read(cfg->path, cfg->path, line, &r, err);
	}
	r.layer = ZR_LAYER_OVERRIDE;
	for (int i = 0; !rc && i < n_overrides; i++)
		rc = override(&r, overrides[i]);
	return rc;
}
