/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - see model.h.
 */
#include "cmd/sample/model.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/sample/eos.h"
#include "cmd/sample/forms.h"
#include "files/checkpoint/manifest.h"
#include "train/adapter.h"
#include "train/fit.h"
#include "train/rundir.h"
#include "train/weights.h"
#include "train/weights/base_check.h"
#include "train/weights/declare.h"
#include "train/weights/saved.h"

/* What is set over the configuration, and where the weights come from. */
struct opening {
	const struct zr_sample_source *from;
	struct zr_dir_kind kind;
	int is_checkpoint;
	const char *override[ZR_CMD_OVERRIDES + 8]; /* room for this file's own */
	int n_overrides;
	char model[PATH_MAX + 16], adapter[PATH_MAX + 16], plugin[80]; /* some of these */
};

static void set(struct opening *o, const char *text)
{
	o->override[o->n_overrides++] = text;
}

void zr_sample_blame(const char *name, struct zr_error *err)
{
	const struct zr_error was = *err;

	if (!strncmp(was.text, name, strlen(name)))
		return;

	*err = (struct zr_error){ 0 };
	zr_err(err, was.code, "%s: %s", name, was.text);
}

/* What is at a path; the kind is of what is no checkpoint. */
static int look(const char *path, int *is_checkpoint, struct zr_dir_kind *kind,
		struct zr_error *err)
{
	*is_checkpoint = zr_dir_has(path, "manifest.json", NULL);
	*kind = (struct zr_dir_kind){ 0 };
	return *is_checkpoint ? 0 : zr_dir_with_model(path, kind, err);
}

int zr_sample_model_look(const char *path, struct zr_error *err)
{
	struct zr_dir_kind kind;
	int is_checkpoint;

	return look(path, &is_checkpoint, &kind, err);
}

/* ---- the configuration ---- */

/* Where the files of a checkpoint's run are: above the checkpoint, or where the run was. */
static void find_run(struct zr_sample_model *m, const char *checkpoint)
{
	const char *run = zr_rundir(m->cfg);

	if (snprintf(m->dir, sizeof m->dir, "%s/../..", checkpoint) < (int)sizeof m->dir &&
	    zr_dir_look(m->dir).run)
		return;
	if (zr_dir_look(run).run)
		snprintf(m->dir, sizeof m->dir, "%s", run);
}

/* What training began with is needed only where the checkpoint leaves it out. */
static int load_checkpoint_config(struct zr_sample_model *m, struct opening *o,
				  struct zr_error *err)
{
	const char *path = o->from->path;
	struct zr_manifest manifest;

	int rc = zr_manifest_read(path, &manifest, err);
	if (rc)
		return rc;

	if (!zr_saved_leaves_out(&manifest))
		set(o, "model.path=");
	if (json_object_get(manifest.plugins, "adapter"))
		set(o, "adapter.path=");
	if (manifest.config)
		rc = zr_declare_config(manifest.config, path, o->override, o->n_overrides, &m->cfg,
				       err);
	else
		rc = zr_err(err, ZR_EINVAL, "%s: it has no configuration", path);
	zr_manifest_free(&manifest);
	if (!rc)
		find_run(m, path);
	return rc;
}

static int use_adapter(struct opening *o, struct zr_error *err)
{
	const struct zr_sample_source *from = o->from;
	const char *dir = from->adapter;
	const size_t at = strlen("adapter.plugin=");

	if (dir && !o->kind.model)
		return zr_err(err, ZR_EINVAL,
			      "--adapter: %s is a run, not a model's directory: it "
			      "has what it was trained with",
			      from->path);
	if (dir) {
		strcpy(o->plugin, "adapter.plugin=");
		int rc = zr_adapter_plugin(dir, o->plugin + at, sizeof o->plugin - at, err);
		if (rc)
			return rc;
		set(o, o->plugin);
	}

	if (!dir && o->kind.adapters)
		dir = from->path;
	if (dir) {
		snprintf(o->adapter, sizeof o->adapter, "adapter.path=%s", dir);
		set(o, o->adapter);
	}

	return 0;
}

static int load_config(struct zr_sample_model *m, struct opening *o, struct zr_error *err)
{
	const char *path = o->from->path;
	char ini[PATH_MAX];

	int rc = look(path, &o->is_checkpoint, &o->kind, err);
	if (rc)
		return rc;

	m->is_model = o->kind.model;
	if (m->is_model) {
		snprintf(o->model, sizeof o->model, "model.path=%s", path);
		/* [data] must have a path, although it is not read */
		set(o, "data.plugin=tokens");
		set(o, "data.path=none");
	} else {
		strcpy(o->model, "model.path=");
	}

	rc = use_adapter(o, err);
	if (rc)
		return rc;
	if (o->is_checkpoint)
		return load_checkpoint_config(m, o, err);

	if (m->is_model || o->kind.weights)
		set(o, o->model);
	if (m->is_model)
		return zr_config_load(NULL, o->override, o->n_overrides, &m->cfg, err);

	snprintf(ini, sizeof ini, "%s/config.ini", path);
	return zr_run_config(ini, o->override, o->n_overrides, &m->cfg, err);
}

/* ---- weights ---- */

static int open_weights(struct zr_sample_model *m, const struct opening *o, struct zr_error *err)
{
	const char *path = o->from->path;
	char file[PATH_MAX];
	int rc = zr_session_open(m->setup, &m->g.session, err);

	if (rc)
		return rc;

	if (o->is_checkpoint) {
		rc = zr_weights_load_checkpoint(m->g.session, path, err);
	} else if (o->kind.weights) {
		snprintf(file, sizeof file, "%s/model.safetensors", path);
		return zr_weights_load(m->g.session, file, err);
	} else {
		rc = zr_weights_begin(m->g.session, err);
	}

	/* what is frozen is as it was in training */
	if (rc || m->is_model)
		return rc;
	return zr_base_check(m->g.session, path, err);
}

/* ---- tokens ---- */

static int open_text(struct zr_sample_model *m, const struct opening *o, struct zr_error *err)
{
	const struct zr_sample_source *from = o->from;
	const char *tokenizer = from->tokenizer;

	zr_forms_of_run(&m->forms, m->cfg);
	if (!tokenizer && m->forms.tokenizer) {
		tokenizer = m->forms.tokenizer;
		if (!from->quiet)
			fprintf(stderr, "tokenizer   %s\n", tokenizer);
	}

	const struct zr_token_source source = {
		.tokenizer = tokenizer,
		.dir = m->dir,
		.data = m->is_model ? NULL : zr_config_find(m->cfg, "data"),
		.vocabulary = m->setup->facts.decl.vocabulary,
		.add_tokens = zr_config_find(m->cfg, "model")->add_tokens,
		.quiet = from->quiet,
	};
	int rc = zr_token_text_open(&source, &m->text, err);
	m->g.text = &m->text;
	if (rc)
		return rc;

	return zr_eos_find(from->eos, m->dir, &m->text, source.vocabulary, m->g.eos, ZR_EOS_MOST,
			   &m->g.n_eos, err);
}

static int open_model(struct zr_sample_model *m, struct opening *o, struct zr_error *err)
{
	const uint32_t flags = o->from->no_cache ? 0 : ZR_SETUP_CACHED;

	int rc = load_config(m, o, err);
	if (!rc)
		rc = zr_setup_open(m->cfg, ZR_MODE_SAMPLE, flags, 1, &m->setup, err);
	if (!rc)
		rc = zr_plan_check(m->setup, 0, err);
	if (!rc)
		rc = open_weights(m, o, err);
	if (!rc)
		rc = open_text(m, o, err);
	if (!rc)
		rc = zr_generator_open(&m->g, err);
	return rc;
}

int zr_sample_model_open(struct zr_sample_model *m, const struct zr_sample_source *from,
			 struct zr_error *err)
{
	struct opening o = { .from = from };

	for (int i = 0; i < from->n_overrides; i++)
		set(&o, from->override[i]);
	snprintf(m->dir, sizeof m->dir, "%s", from->path);
	return open_model(m, &o, err);
}

void zr_sample_model_close(struct zr_sample_model *m)
{
	zr_generator_close(&m->g);
	zr_token_text_close(&m->text);
	zr_session_close(m->g.session);
	zr_setup_close(m->setup);
	zr_config_free(m->cfg);
}
