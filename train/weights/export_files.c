/* SPDX-License-Identifier: Apache-2.0
 *
 * export_files.c - see export.h: exports what a run left at its end, or PEFT's files merged.
 */
#include <limits.h>
#include <stdio.h>

#include "core/base/log.h"
#include "files/checkpoint/checkpoint.h"
#include "files/pretrained/tensors.h"
#include "train/adapter.h"
#include "train/rundir.h"
#include "train/weights.h"
#include "train/weights/base.h"
#include "train/weights/declare.h"
#include "train/weights/export.h"
#include "train/weights/merge.h"

struct files {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_weights_files weights;
	struct zr_base base; /* frozen tensors as training had them */
	int trained;         /* the files have them as they were before that */
};

static int read_files(void *arg, int32_t i, int64_t first, int64_t n, float *x,
		      struct zr_error *err)
{
	struct files *f = arg;
	if (zr_weights_files_have(&f->weights, i))
		return zr_weights_files_read(&f->weights, i, first, n, x, err);
	return zr_err(err, ZR_EINVAL, "tensor %s is in no file",
		      f->setup->facts.layout.tensor[i].decl->name);
}

static int read_values(void *arg, int32_t i, int64_t first, int64_t n, float *x,
		       struct zr_error *err)
{
	struct files *f = arg;
	const uint32_t flags = f->setup->facts.layout.tensor[i].flags;

	if (f->trained && flags & ZR_TENSOR_FROZEN)
		return zr_base_read(&f->base, i, first, n, x, err);

	int rc = read_files(f, i, first, n, x, err);
	/* The file has exactly what the codes mean; training computed with less. */
	for (int64_t k = 0; !rc && f->setup->facts.frozen[i] > 1 && k < n; k++)
		x[k] = zr_export_rounded(f->base.dtype, x[k]);
	return rc;
}

/* A model's directory with adapters, as a configuration. [data] must have a path, although it is
 * not read. */
static int load_pair(struct files *f, const struct zr_export_from *from, struct zr_error *err)
{
	char model[PATH_MAX + 16], path[PATH_MAX + 16], id[64], plugin[96];
	const char *o[ZR_EXPORT_OPTIONS + 5] = { model, plugin, path, "data.plugin=tokens",
						 "data.path=none" };
	int n = 5, rc = zr_adapter_plugin(from->adapter, id, sizeof id, err);

	snprintf(model, sizeof model, "model.path=%s", from->model);
	snprintf(path, sizeof path, "adapter.path=%s", from->adapter);
	snprintf(plugin, sizeof plugin, "adapter.plugin=%s", id);
	for (int i = 0; i < from->options; i++)
		o[n++] = from->option[i];
	f->trained = 1;
	if (rc)
		return rc;
	return zr_config_load(NULL, o, n, &f->cfg, err);
}

/* Its model beside config.ini is whole: config.json and the tokenizer come from [model] path, if
 * that is still there. */
static int load_whole(struct files *f, const char *ini, struct zr_error *err)
{
	static const char *const own = "model.path=";
	struct zr_error why = { 0 };

	if (!zr_run_config(ini, NULL, 0, &f->cfg, &why))
		return 0;

	int rc = zr_run_config(ini, &own, 1, &f->cfg, err);
	if (!rc)
		zr_logf(ZR_LOG_WARN, "export",
			"%s: config.json is made anew, and files of a tokenizer are left out",
			why.text);
	return rc;
}

/* A run that ended: its adapters are beside config.ini, and so is its model, unless that is in
 * [model] path. */
static int load_run(struct files *f, const char *from, struct zr_error *err)
{
	char ini[PATH_MAX], path[PATH_MAX + 16];
	const struct zr_dir_kind kind = zr_dir_look(from);
	const char *const o[] = { path, "model.path=" };

	zr_dir_has(from, "config.ini", ini);
	snprintf(path, sizeof path, "adapter.path=%s", from);
	f->trained = !kind.weights;
	if (kind.adapters)
		return zr_run_config(ini, o, kind.weights ? 2 : 1, &f->cfg, err);
	return load_whole(f, ini, err);
}

static int open_files(struct files *f, const char *from, struct zr_error *err)
{
	char path[PATH_MAX];

	int rc = zr_declare(f->cfg, &f->setup, err);
	if (!rc && f->setup->roles.adapter.inst)
		rc = zr_weights_files_open(f->setup, &f->weights, err);
	if (!rc && !f->weights.model && zr_dir_has(from, "model.safetensors", path))
		rc = zr_tensor_files_open(path, &f->setup->facts.layout, ZR_FILES_WHOLE, "", "",
					  &f->weights.model, err);
	f->base = (struct zr_base){ .layout = rc ? NULL : &f->setup->facts.layout,
				    .dtype = rc ? 0 : f->setup->facts.types.dtype,
				    .kept = f->setup,
				    .fn = read_files,
				    .arg = f };
	if (rc)
		return rc;
	return zr_base_open(&f->base, err);
}

static int write_model(struct files *f, const char *dir, const struct zr_export_how *how,
		       struct zr_error *err)
{
	struct zr_layout own = f->setup->facts.layout;
	struct zr_export *x = NULL;
	json_t *meta = json_object();

	own.n_tensors = zr_declared_own(&own);
	zr_describe_model(f->setup, &meta);
	int rc;
	if (meta)
		rc = zr_export_open(dir, &own, meta, how, &x, err);
	else
		rc = zr_no_memory(err);
	if (!rc) {
		struct zr_setup *merged = f->setup->roles.adapter.inst ? f->setup : NULL;
		rc = zr_merge_put(merged, &own, read_values, f, x, err);
		rc = zr_export_done(x, rc, err);
	}

	json_decref(meta);
	return rc;
}

static int write_merged(struct files *f, const struct zr_export_from *from, const char *dir,
			const struct zr_export_how *how, struct zr_error *err)
{
	struct zr_export_how named = *how;
	const char *base = f->setup->roles.model.section->path;

	named.base = base ? base : from->model;
	named.store = zr_declared_store(f->setup);
	named.adapter = from->adapter ? from->adapter : from->model;
	int rc = write_model(f, dir, &named, err);
	if (!rc)
		printf("merged      %s%s%s with %s, to %s\n", named.base, named.store ? " in " : "",
		       named.store ? named.store : "", named.adapter, dir);
	return rc;
}

/* Of a run: its model, or its adapters alone. */
static int write_run(struct files *f, const char *run, const char *dir,
		     const struct zr_export_how *how, struct zr_error *err)
{
	const int adapted = f->setup->roles.adapter.inst != NULL;
	const long long step = zr_run_steps(run);

	const struct zr_model_json *config = zr_config_model_json(f->cfg);

	int rc = adapted ? zr_export_adapters_alone(how, err) : 0;
	if (!rc && adapted)
		rc = zr_adapter_check_rows(f->setup, config && config->rows.from, err);
	if (!rc && !adapted)
		rc = write_model(f, dir, how, err);
	else if (!rc)
		rc = zr_adapter_export(f->setup, dir, f->setup->roles.model.section->path,
				       read_values, f, err);
	if (rc)
		return rc;

	printf("exported    %s%s", adapted ? "the adapters of " : "", step < 0 ? "" : "step ");
	if (step >= 0)
		printf("%lld of ", step);
	printf("%s/%s to %s\n", run, adapted ? "adapter_model.safetensors" : "model.safetensors",
	       dir);
	return 0;
}

int zr_export_files(const struct zr_export_from *from, const char *dir,
		    const struct zr_export_how *how, struct zr_error *err)
{
	struct files f = { 0 };

	int rc;
	if (from->adapter)
		rc = load_pair(&f, from, err);
	else
		rc = load_run(&f, from->model, err);
	if (!rc)
		rc = open_files(&f, from->model, err);
	if (!rc && how->merge && !f.setup->roles.adapter.inst)
		rc = zr_err(err, ZR_EINVAL, "%s: --merge: there are no adapters in it",
			    from->model);
	if (!rc)
		rc = how->merge || from->adapter ? write_merged(&f, from, dir, how, err) :
						   write_run(&f, from->model, dir, how, err);
	zr_base_close(&f.base);
	zr_weights_files_close(&f.weights);
	zr_setup_close(f.setup);
	zr_config_free(f.cfg);
	return rc;
}
