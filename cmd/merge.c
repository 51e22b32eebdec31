/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - see merge.h.
 */
#include "cmd/merge.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/adapter.h"
#include "cmd/base.h"
#include "cmd/declare.h"
#include "cmd/rundir.h"
#include "cmd/weights.h"
#include "files/checkpoint/checkpoint.h"
#include "files/pretrained/tensors.h"

#define CHUNK (1 << 20) /* values at a time, or a row */

/* What is merged into one tensor. */
struct with {
	int32_t n, tensor[ZR_MERGE_WITH];
	float *values[ZR_MERGE_WITH];
};

static int read_with(const struct zr_setup *s, zr_values_fn *fn, void *arg, struct with *w,
		     struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < w->n; i++) {
		const int64_t n = s->layout.tensor[w->tensor[i]].elements;
		w->values[i] = malloc((size_t)n * sizeof(float));
		rc = w->values[i] ? fn(arg, w->tensor[i], 0, n, w->values[i], err) :
				    zr_err(err, ZR_ENOMEM, "out of memory for an adapter");
	}
	return rc;
}

static int put_tensor(struct zr_setup *s, const struct zr_place *t, int32_t tensor,
		      const struct with *w, zr_values_fn *fn, void *arg, struct zr_export *x,
		      struct zr_error *err)
{
	const int64_t rows = w->n ? t->decl->dims[0] : t->elements, row = t->elements / rows;
	const int64_t most = row < CHUNK ? CHUNK / row : 1;
	float *buf = malloc((size_t)(most * row) * sizeof *buf);
	int rc = buf ? 0 : zr_err(err, ZR_ENOMEM, "out of memory for a row of %s", t->decl->name);
	for (int64_t at = 0, n; !rc && at < rows; at += n) {
		n = rows - at < most ? rows - at : most;
		const struct zr_merge g = { .size = sizeof g, .tensor = tensor, .first = at, .n = n,
					    .rows = buf, .with = (const float *const *)w->values };
		rc = fn(arg, tensor, at * row, n * row, buf, err);
		if (!rc && w->n)
			rc = zr_instance_failed(&s->adapter,
						zr_adapter_files(s)->merge(s->adapter.inst, &g),
						"merge", err);
		if (!rc)
			zr_export_put(x, buf, n * row);
	}
	free(buf);
	return rc;
}

int zr_merge_put(struct zr_setup *s, const struct zr_layout *layout, zr_values_fn *fn, void *arg,
		 struct zr_export *x, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = s ? zr_adapter_files(s) : NULL;
	int rc = 0;
	if (s && !(v && ZR_HAS(v, struct zr_adapter_v1, merge) && v->merge_with && v->merge))
		return zr_err(err, ZR_ENOTSUP, "[adapter] %s: what it trains cannot be merged",
			      s->adapter.section->plugin->desc->id);
	for (int32_t i = 0; !rc && i < layout->n_tensors; i++) {
		struct with w = { 0 };
		w.n = s ? v->merge_with(s->adapter.inst, i, w.tensor) : 0;
		rc = w.n ? read_with(s, fn, arg, &w, err) : 0;
		rc = rc ? rc : put_tensor(s, &layout->tensor[i], i, &w, fn, arg, x, err);
		for (int32_t k = 0; k < w.n; k++)
			free(w.values[k]);
	}
	return rc;
}

/* ---- from files ----------------------------------------------------------------------------- */

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
	return zr_weights_files_have(&f->weights, i) ?
		       zr_weights_files_read(&f->weights, i, first, n, x, err) :
		       zr_err(err, ZR_EINVAL, "tensor %s is in no file",
			      f->setup->layout.tensor[i].decl->name);
}

static int read_values(void *arg, int32_t i, int64_t first, int64_t n, float *x,
		       struct zr_error *err)
{
	struct files *f = arg;
	const uint32_t flags = f->setup->layout.tensor[i].flags;
	return f->trained && flags & ZR_TENSOR_FROZEN ?
		       zr_base_read(&f->base, i, first, n, x, err) :
		       read_files(f, i, first, n, x, err);
}

/* A model's directory with adapters, as a configuration. [data] must have a path, although it is
 * not read. */
static int load_pair(struct files *f, const struct zr_merge_from *from, struct zr_error *err)
{
	char model[PATH_MAX + 16], path[PATH_MAX + 16], id[64], plugin[96];
	const char *o[ZR_MERGE_OPTIONS + 5] = { model, plugin, path, "data.plugin=tokens",
						"data.path=none" };
	int n = 5, rc = zr_adapter_plugin(from->adapter, id, sizeof id, err);
	snprintf(model, sizeof model, "model.path=%s", from->model);
	snprintf(path, sizeof path, "adapter.path=%s", from->adapter);
	snprintf(plugin, sizeof plugin, "adapter.plugin=%s", id);
	for (int i = 0; i < from->options; i++)
		o[n++] = from->option[i];
	f->trained = 1;
	return rc ? rc : zr_config_load(NULL, o, n, &f->cfg, err);
}

/* A run that ended: its adapters are beside config.ini, and so is its model, unless that is in
 * [model] path. */
static int load_run(struct files *f, const char *from, struct zr_error *err)
{
	char ini[PATH_MAX], path[PATH_MAX + 16];
	const int whole = zr_dir_kind(from).weights;
	const char *const o[] = { path, "model.path=" };
	zr_dir_has(from, "config.ini", ini);
	snprintf(path, sizeof path, "adapter.path=%s", from);
	f->trained = !whole;
	return zr_run_config(ini, o, whole ? 2 : 1, &f->cfg, err);
}

static int open_files(struct files *f, const char *from, struct zr_error *err)
{
	char path[PATH_MAX];
	int rc = zr_declare(f->cfg, &f->setup, err);
	if (!rc && !f->setup->adapter.inst)
		rc = zr_err(err, ZR_EINVAL, "%s: the run has no adapters", from);
	rc = rc ? rc : zr_weights_files_open(f->setup, &f->weights, err);
	if (!rc && !f->weights.model && zr_dir_has(from, "model.safetensors", path))
		rc = zr_tensor_files_open(path, &f->setup->layout, ZR_FILES_WHOLE, "", "",
					  &f->weights.model, err);
	f->base = (struct zr_base){ .layout = rc ? NULL : &f->setup->layout,
				    .dtype = rc ? 0 : f->setup->types.dtype, .kept = f->setup,
				    .fn = read_files, .arg = f };
	return rc ? rc : zr_base_open(&f->base, err);
}

static int write_model(struct files *f, const char *dir, const struct zr_export_how *how,
		       struct zr_error *err)
{
	struct zr_layout own = f->setup->layout;
	struct zr_export *x = NULL;
	json_t *meta = json_object();
	own.n_tensors = zr_declared_own(&own);
	zr_describe_model(f->setup, &meta);
	int rc = meta ? zr_export_open(dir, &own, meta, how, &x, err) :
			zr_err(err, ZR_ENOMEM, "out of memory");
	if (!rc) {
		rc = zr_merge_put(f->setup, &own, read_values, f, x, err);
		rc = zr_export_done(x, rc, err);
	}
	json_decref(meta);
	return rc;
}

int zr_merge_files(const struct zr_merge_from *from, const char *dir,
		   const struct zr_export_how *how, struct zr_error *err)
{
	struct files f = { 0 };
	struct zr_export_how named = *how;
	int rc = from->adapter ? load_pair(&f, from, err) : load_run(&f, from->model, err);
	rc = rc ? rc : open_files(&f, from->model, err);
	if (!rc) {
		const char *base = f.setup->model.section->path;
		named.base = base ? base : from->model;
		named.store = zr_declared_store(f.setup);
		named.adapter = from->adapter ? from->adapter : from->model;
		rc = write_model(&f, dir, &named, err);
	}
	if (!rc)
		printf("merged      %s%s%s with %s, to %s\n", named.base,
		       named.store ? " in " : "", named.store ? named.store : "", named.adapter,
		       dir);
	zr_base_close(&f.base);
	zr_weights_files_close(&f.weights);
	zr_setup_close(f.setup);
	zr_config_free(f.cfg);
	return rc;
}
