/* SPDX-License-Identifier: Apache-2.0
 *
 * config_pretrained.c - the directory of [model] path as lines of [model]: the plugin, unless one
 * is given, and every option that its config.json determines. A line of the user's that says
 * otherwise is an error that names both places.
 */
#include <string.h>

#include <zeroth/model.h>

#include "core/base/text.h"
#include "core/config/config_impl.h"

struct apply {
	struct zr_config *cfg;
	struct zr_table table;
};

static const struct zr_given *last_of(const struct zr_config *cfg, const char *key)
{
	return zr_given_last(cfg, ZR_LAYER_AUTO, "model", key);
}

/* Whether two texts are one value of an option. One that does not parse is left to who applies
 * it. */
static int same_value(const struct zr_opt *o, const char *x, const char *y)
{
	_Alignas(8) char value[2][8 * ZR_LIST_MAX] = { { 0 } };
	struct zr_opt at = *o;
	struct zr_error unused = { 0 };
	at.offset = 0;
	if (zr_value_parse(&at, x, value[0], &unused) || zr_value_parse(&at, y, value[1], &unused))
		return 1;
	if (zr_value_text(&at, value[0]))
		return !strcmp(x, y);
	return !memcmp(value[0], value[1], o->width);
}

static int add_option(void *arg, const struct zr_config_key *k, const char *value,
		      struct zr_error *err)
{
	const struct apply *a = arg;
	const char *path = a->cfg->model_json.path, *option = k->option, *key = k->name;
	const struct zr_given *was = last_of(a->cfg, option);
	const struct zr_opt *o = zr_table_find(&a->table, option);
	char place[4400];
	if (!o)
		return zr_err(err, ZR_EINVAL,
			      "%s: %s is to set option %s, which the plugin does not have", path,
			      key, option);

	const int differs = was && strcmp(was->value, "auto") && !same_value(o, was->value, value);
	if (differs && k->flags & ZR_KEY_DEFAULT)
		return 0;
	if (differs && was->layer == ZR_LAYER_PRETRAINED)
		return zr_err(err, ZR_EINVAL, "%s: %s means %s = %s, but %s says %s", path, key,
			      option, value, was->place, was->value);
	if (differs)
		return zr_given_bad(was, err,
				    "%s has %s = %s; take the option out, or choose "
				    "another [model] path",
				    path, key, value);

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
		const struct zr_given *g = last_of(a->cfg, name);
		const struct zr_opt *o = zr_table_find(&a->table, name);
		if (g && o && o->def && !same_value(o, g->value, o->def))
			return zr_given_bad(g, err,
					    "%s says what the model is; take the option out",
					    a->cfg->model_json.path);
	}
	return 0;
}

/* The plugin that reads the config.json. */
static int find_plugin(struct zr_config *cfg, const struct zr_plugin **p, struct zr_error *err)
{
	struct zr_error e = { 0 };
	char id[ZR_PLUGIN_ID], place[4400];
	int rc = zr_pretrained_find(&cfg->model_json, id, err);
	if (!rc && zr_plugin_load("model", id, p, &e))
		rc = zr_err(err, ZR_EINVAL, "%s: %s", cfg->model_place, e.text);
	snprintf(place, sizeof place, "%s (model_type)", cfg->model_json.path);
	if (rc)
		return rc;
	return zr_layers_add(cfg, ZR_LAYER_PRETRAINED, "model", "plugin", id, place, err);
}

/* What nobody reads may be what makes it another model. */
static int check_unknown(const struct zr_config *cfg, const struct zr_plugin *p,
			 const struct zr_pretrained_v1 *v, struct zr_error *err)
{
	char unknown[400];
	zr_pretrained_unknown(&cfg->model_json, v, unknown, sizeof unknown);
	if (!*unknown)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: [model] plugin = %s does not know: %s; take it out of "
		      "the file, or, if it changes nothing that is computed, name it in [model] "
		      "ignore_keys",
		      cfg->model_json.path, p->desc->id, unknown);
}

/* Tokens that [model] add_tokens adds; NULL: none. */
static const struct zr_given *added_tokens(const struct zr_config *cfg)
{
	const struct zr_given *g = last_of(cfg, "add_tokens");
	if (!g || !g->value[strspn(g->value, " \t")])
		return NULL;
	return g;
}

/* Tokens belong to the path that stands beside them: where -o takes that out they say what the
 * tokenizer has, and nothing grows. */
static int check_no_tokens(const struct zr_config *cfg, struct zr_error *err)
{
	const struct zr_given *tokens = added_tokens(cfg);
	if (!tokens || (cfg->path_taken && tokens->layer < ZR_LAYER_OVERRIDE))
		return 0;
	return zr_given_bad(tokens, err,
			    "tokens are added to those of a model that was trained: needs [model] "
			    "path; a model of its own begins with a tokenizer that has them, and "
			    "[model] vocabulary");
}

static int grow(struct zr_config *cfg, const struct zr_pretrained_v1 *v, struct zr_error *err)
{
	const struct zr_given *tokens = added_tokens(cfg);
	struct zr_error e = { 0 };
	if (!tokens || !zr_pretrained_grow(&cfg->model_json, v, tokens->value, &e))
		return 0;
	return zr_given_bad(tokens, err, "%s", e.text);
}

int zr_layers_pretrained(struct zr_config *cfg, struct zr_error *err)
{
	const struct zr_given *path = last_of(cfg, "path"), *chosen = last_of(cfg, "plugin");
	const struct zr_pretrained_v1 *v;
	const struct zr_plugin *p = NULL;
	struct apply a = { .cfg = cfg };
	struct zr_error e = { 0 };
	if (!path || !*path->value)
		return check_no_tokens(cfg, err);
	if (chosen && zr_plugin_load("model", chosen->value, &p, &e))
		return zr_given_bad(chosen, err, "%s", e.text);
	if (p)
		a.table = zr_table_of(p->desc);
	if (zr_table_find(&a.table, "path"))
		return check_no_tokens(cfg, err); /* an option of the plugin itself */
	cfg->model_path = path->value;

	cfg->model_place = path->place;
	if (zr_model_json_open(path->value, &cfg->model_json, &e))
		return zr_given_bad(path, err, "%s", e.text);

	const struct zr_given *ignored = last_of(cfg, "ignore_keys");
	cfg->model_json.ignored = ignored ? ignored->value : NULL;
	int rc = 0;
	if (!p)
		rc = find_plugin(cfg, &p, err);
	if (!rc)
		rc = zr_pretrained_tables(&cfg->model_json, p, &v, err);
	if (rc)
		return rc;

	rc = check_unknown(cfg, p, v, err);
	if (rc)
		return rc;

	a.table = zr_table_of(p->desc);
	rc = zr_pretrained_untie(&cfg->model_json, v, err);
	if (!rc)
		rc = grow(cfg, v, err);
	if (!rc)
		rc = zr_pretrained_options(&cfg->model_json, p, add_option, &a, err);
	if (rc)
		return rc;
	return check_presets(&a, v->presets, err);
}
