/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter.c - see adapter.h. PEFT's names are "base_model.model." and those of the model's files.
 */
#include "train/adapter.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "train/rundir.h"
#include "train/weights.h"

#define PEFT "base_model.model."

const struct zr_adapter_v1 *zr_adapter_files(const struct zr_setup *s)
{
	struct zr_error unused = { 0 };
	const struct zr_section *sec = s->roles.adapter.section;
	const struct zr_adapter_v1 *v =
		sec ? zr_plugin_iface(sec->plugin, "zr.adapter/1", &unused) : NULL;
	return ZR_HAS(v, struct zr_adapter_v1, config) ? v : NULL;
}

int zr_adapter_is_all(const struct zr_setup *s)
{
	const struct zr_adapter_v1 *v = zr_adapter_files(s);
	return v && v->config && v->path && zr_config_model_json(s->cfg);
}

void zr_adapter_prefix(const struct zr_setup *s, char *out, size_t room)
{
	struct zr_error unused = { 0 };
	const struct zr_pretrained_v1 *v =
		zr_plugin_iface(s->roles.model.section->plugin, "zr.pretrained/1", &unused);
	const char *prefix = v && v->prefix ? v->prefix : "";

	/* files may have it themselves: those of GPT-2 beside a head of its own */
	int has = !strncmp(s->facts.layout.tensor[0].decl->name, prefix, strlen(prefix));
	snprintf(out, room, PEFT "%s", has ? "" : prefix);
}

int zr_adapter_open(struct zr_setup *s, struct zr_tensor_files **out, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = zr_adapter_files(s);
	const char *dir = v && v->path ? v->path(s->roles.adapter.inst) : NULL;
	char path[PATH_MAX], prefix[256], copies[1024];

	*out = NULL;
	if (!dir || !*dir)
		return 0;

	zr_adapter_prefix(s, prefix, sizeof prefix);
	zr_adapter_copies(s, copies, sizeof copies);
	snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
	return zr_tensor_files_open(path, &s->facts.layout, ZR_FILES_ADAPTER, prefix, copies, out,
				    err);
}

int zr_adapter_settle(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = zr_adapter_files(s);
	const struct zr_checkpoint_opts *c = zr_config_find(s->cfg, "checkpoint")->opts;
	const int elsewhere = (s->roles.adapter.inst || s->facts.stored) &&
			      zr_config_model_json(s->cfg);
	const char *save = elsewhere ? "trainable" : "all";
	int rc;
	if (c->save != ZR_AUTO_ENUM)
		rc = 0;
	else
		rc = zr_config_set_auto(s->cfg, "checkpoint", "save", save, err);

	if (!v || !ZR_HAS(v, struct zr_adapter_v1, options) || !v->options)
		return rc;

	for (const char *const *o = v->options(s->roles.adapter.inst); !rc && *o; o += 2)
		rc = zr_config_set_auto(s->cfg, s->roles.adapter.section->name, o[0], o[1], err);
	return rc;
}

void zr_adapter_announce(const struct zr_setup *s, FILE *out)
{
	const struct zr_section *sec = s->roles.adapter.section;
	const struct zr_opt *o;

	if (!sec)
		return;

	fprintf(out, "adapter %s, %.3f M parameters trained", sec->plugin->desc->id,
		(double)zr_trained_elements(s) / 1e6);
	for (uint32_t i = 0; (o = zr_table_next(&sec->table, 0, &i));) {
		const char *text = zr_value_text(o, sec->opts);
		char value[640];
		if (!text)
			zr_value_format(o, sec->opts, value, sizeof value);
		if (text ? *text : 1)
			fprintf(out, ", %s = %s", o->name, text ? text : value);
	}

	putc('\n', out);
}

int zr_adapter_plugin(const char *dir, char *id, size_t room, struct zr_error *err)
{
	char path[PATH_MAX];
	json_t *root = NULL;
	size_t n = 0;

	snprintf(path, sizeof path, "%s/adapter_config.json", dir);
	int rc = zr_json_file(path, ZR_MODEL_JSON_MAX, &root, err);
	const char *type = json_string_value(json_object_get(root, "peft_type"));
	for (; type && isalnum((unsigned char)type[n]) && n + 1 < room; n++)
		id[n] = (char)tolower((unsigned char)type[n]);
	id[n] = 0;
	if (!rc && (!type || !n || type[n]))
		rc = zr_err(err, ZR_EINVAL, "%s: peft_type names no kind of adapter", path);
	json_decref(root);
	return rc;
}

static int write_config(struct zr_setup *s, const char *base, const char *dir, struct zr_error *err)
{
	char path[PATH_MAX], whole[PATH_MAX];

	if (base && *base && realpath(base, whole))
		base = whole;
	const char *text = zr_adapter_files(s)->config(s->roles.adapter.inst, base ? base : "");
	if (!text)
		return zr_err(err, ZR_ENOMEM, "out of memory for the text of adapter_config.json");

	snprintf(path, sizeof path, "%s/adapter_config.json", dir);
	return zr_put_text(path, text, err);
}

int zr_adapter_save(struct zr_session *s, const char *dir, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = zr_adapter_files(s->setup);
	char path[PATH_MAX], prefix[256];

	if (!v || !v->config)
		return 0;

	zr_adapter_prefix(s->setup, prefix, sizeof prefix);
	snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
	int rc = zr_weights_save_adapter(s, path, prefix, err);
	if (rc || s->setup->facts.process.rank)
		return rc;
	return write_config(s->setup, s->setup->roles.model.section->path, dir, err);
}

const char *zr_adapter_frozen_rows(const struct zr_setup *s)
{
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		const struct zr_place *t = &s->facts.layout.tensor[i];
		const int is_row = t->decl->ndim && t->decl->dims[0] == s->facts.decl.vocabulary;
		if (is_row && s->facts.frozen[i] && !(t->flags & ZR_TENSOR_ADDED))
			return t->decl->name;
	}

	return NULL;
}

int zr_adapter_check_rows(const struct zr_setup *s, int grown, struct zr_error *err)
{
	const char *name = grown ? zr_adapter_frozen_rows(s) : NULL;

	if (!name)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "adapters alone have no rows for the tokens of [model] add_tokens: %s, which "
		      "they do not train, got some, and the model that they are for has none: "
		      "--merge writes all of it; with [adapter] modules_to_save they have it",
		      name);
}

int zr_adapter_export(struct zr_setup *s, const char *dir, const char *base, zr_values_fn *fn,
		      void *arg, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = zr_adapter_files(s);
	char tmp[PATH_MAX], path[PATH_MAX + 32], prefix[256];

	if (!v || !v->config)
		return zr_err(err, ZR_ENOTSUP, "[adapter] %s: it has no files of its own",
			      s->roles.adapter.section->plugin->desc->id);
	if (strlen(dir) + 40 > PATH_MAX)
		return zr_err(err, ZR_EINVAL, "%s: a path too long", dir);

	zr_adapter_prefix(s, prefix, sizeof prefix);
	snprintf(tmp, sizeof tmp, "%s", dir);
	for (size_t n = strlen(tmp); n > 1 && tmp[n - 1] == '/'; n--)
		tmp[n - 1] = 0;
	strcat(tmp, ".tmp");
	int rc = zr_new_dir_make(dir, tmp, 0, err);
	if (rc)
		return rc;

	snprintf(path, sizeof path, "%s/adapter_model.safetensors", tmp);
	rc = zr_weights_write_adapter(s, path, prefix, fn, arg, err);
	if (!rc)
		rc = write_config(s, base, tmp, err);
	if (!rc)
		rc = zr_new_dir_take(dir, tmp, 0, err);
	if (rc)
		zr_remove(AT_FDCWD, tmp);
	return rc;
}
