/* SPDX-License-Identifier: Apache-2.0
 *
 * config_pretrained.c - the directory of [model] path as lines of [model]: the plugin, unless one
 * is given, and every option that its config.json determines. A line of the user's that says
 * otherwise is an error that names both places.
 */
#include <stdlib.h>
#include <string.h>

#include <zeroth/model.h>

#include "core/config/config_impl.h"

struct apply {
	struct zr_config *cfg;
	struct zr_table table;
};

/* Whether two texts are one value of an option. One that does not parse is left to who applies
 * it. */
static int same_value(const struct zr_opt *o, const char *x, const char *y)
{
	_Alignas(8) char value[2][8 * ZR_LIST_MAX];
	char text[2][640];
	struct zr_opt at = *o;
	struct zr_error unused = { 0 };
	at.offset = 0;
	if (zr_value_parse(&at, x, value[0], &unused) || zr_value_parse(&at, y, value[1], &unused))
		return 1;
	zr_value_format(&at, value[0], text[0], sizeof text[0]);
	zr_value_format(&at, value[1], text[1], sizeof text[1]);
	return !strcmp(text[0], text[1]);
}

static int add_option(void *arg, const struct zr_config_key *k, const char *value,
		      struct zr_error *err)
{
	const struct apply *a = arg;
	const char *path = a->cfg->model_json.path, *option = k->option, *key = k->name;
	const struct zr_given *was = zr_given_last(a->cfg, "model", option);
	const struct zr_opt *o = zr_table_find(&a->table, option);
	char place[4400];
	if (!o)
		return zr_err(err, ZR_EINVAL,
			      "%s: %s is to set option %s, which the plugin does not have", path,
			      key, option);
	if (was && was->layer == ZR_LAYER_PRETRAINED && !same_value(o, was->value, value))
		return k->flags & ZR_KEY_DEFAULT ? 0 : zr_err(err, ZR_EINVAL,
							      "%s: %s means %s = %s, but %s says "
							      "%s", path, key, option, value,
							      was->place, was->value);
	if (was && strcmp(was->value, "auto") && !same_value(o, was->value, value))
		return k->flags & ZR_KEY_DEFAULT ? 0 : zr_given_bad(was, err,
								    "%s has %s = %s; take the "
								    "option out, or choose another "
								    "[model] path", path, key,
								    value);
	snprintf(place, sizeof place, "%s (%s)", path, key);
	return zr_layers_add(a->cfg, ZR_LAYER_PRETRAINED, "model", option, value, place, err);
}

/* Options that stand for several others must not be beside those. */
static int check_presets(const struct apply *a, const char *presets, struct zr_error *err)
{
	const char *word;
	char name[64];
	size_t n;
	while ((word = zr_next_word(&presets, &n))) {
		snprintf(name, sizeof name, "%.*s", (int)n, word);
		const struct zr_given *g = zr_given_last(a->cfg, "model", name);
		const struct zr_opt *o = zr_table_find(&a->table, name);
		if (g && o && o->def && !same_value(o, g->value, o->def))
			return zr_given_bad(g, err,
					    "%s says what the model is; take the option out",
					    a->cfg->model_json.path);
	}
	return 0;
}

static int load(struct zr_config *cfg, const struct zr_plugin **p, const char *id,
		const struct zr_given *by, struct zr_error *err)
{
	struct zr_error e = { 0 };
	if (zr_plugin_load("model", id, p, &e))
		return by ? zr_given_bad(by, err, "%s", e.text) :
			    zr_err(err, ZR_EINVAL, "%s: %s", cfg->model_place, e.text);
	return 0;
}

static int find_plugin(struct zr_config *cfg, const struct zr_plugin **p, struct zr_error *err)
{
	const struct zr_given *chosen = zr_given_last(cfg, "model", "plugin");
	char id[ZR_PLUGIN_ID], place[4400];
	if (chosen)
		return load(cfg, p, chosen->value, chosen, err);
	int rc = zr_pretrained_find(&cfg->model_json, id, err);
	rc = rc ? rc : load(cfg, p, id, NULL, err);
	snprintf(place, sizeof place, "%s (model_type)", cfg->model_json.path);
	return rc ? rc : zr_layers_add(cfg, ZR_LAYER_PRETRAINED, "model", "plugin", id, place, err);
}

/* Whether `path` is an option of the plugin itself, which keeps it. */
static int is_its_own(const struct zr_given *chosen)
{
	const struct zr_plugin *p;
	struct zr_error unused = { 0 };
	if (!chosen || zr_plugin_load("model", chosen->value, &p, &unused))
		return 0;
	struct zr_table t = zr_table_of(p->desc);
	return zr_table_find(&t, "path") != NULL;
}

int zr_layers_pretrained(struct zr_config *cfg, struct zr_error *err)
{
	const struct zr_given *path = zr_given_last(cfg, "model", "path");
	const struct zr_pretrained_v1 *v;
	const struct zr_plugin *p;
	struct apply a = { .cfg = cfg };
	struct zr_error e = { 0 };
	if (!path || !*path->value || is_its_own(zr_given_last(cfg, "model", "plugin")))
		return 0;
	cfg->model_path = path->value; /* texts stay where they are, lines do not */
	cfg->model_place = path->place;
	if (zr_model_json_open(path->value, &cfg->model_json, &e))
		return zr_given_bad(path, err, "%s", e.text);
	int rc = find_plugin(cfg, &p, err);
	rc = rc ? rc : zr_pretrained_tables(&cfg->model_json, p, &v, err);
	if (rc)
		return rc;
	a.table = zr_table_of(p->desc);
	rc = zr_pretrained_options(&cfg->model_json, p, add_option, &a, err);
	return rc ? rc : check_presets(&a, v->presets, err);
}
