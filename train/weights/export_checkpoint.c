/* SPDX-License-Identifier: Apache-2.0
 *
 * export_checkpoint.c - see export.h: exports from the files of a checkpoint, without a session.
 * Frozen tensors that a checkpoint leaves out come from the directory that training started from.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "files/checkpoint/dir.h"
#include "files/pretrained/tensors.h"
#include "train/adapter.h"
#include "train/weights/base.h"
#include "train/weights/declare.h"
#include "train/weights/export.h"
#include "train/weights/merge.h"
#include "train/weights/saved.h"

/* What is exported. */
struct source {
	struct zr_saved saved;
	struct zr_tensor_files *began;    /* the tensors that are left out; NULL: not opened yet */
	const struct zr_layout *declared; /* knows which tensors an adapter added; NULL: none is */
	struct zr_base base;              /* the same as training had them */
};

static void close_source(struct source *s)
{
	zr_base_close(&s->base);
	zr_tensor_files_close(s->began);
	zr_saved_close(&s->saved);
}

/* The values that training kept of a tensor that is left out: the compute copy. Before units were
 * cut, one with trainable tensors, too, had a master of all of them. */
static int32_t type_of(const struct zr_manifest *m, int32_t tensor)
{
	const struct zr_unit_place *u = &m->layout.unit[m->layout.tensor[tensor].unit];
	int whole = 1;

	for (int32_t i = u->first; i < u->first + u->count; i++)
		whole &= zr_manifest_frozen(m, i) != 0;

	const int32_t kept = zr_dtype_find(0, m->dtype)->id;
	return whole && (kept == ZR_BF16 || kept == ZR_F16) ? kept : ZR_F32;
}

/* Opens the files with the tensors that the checkpoint leaves out. */
static int open_began(struct source *s, struct zr_error *err)
{
	const char *path = json_string_value(json_object_get(s->saved.m.meta, ZR_META_PATH));
	const char *prefix = json_string_value(json_object_get(s->saved.m.meta, ZR_META_PREFIX));
	const char *ignored = json_string_value(json_object_get(s->saved.m.meta, ZR_META_IGNORED));
	char all[PATH_MAX];

	if (!path)
		return zr_err(err, ZR_EINVAL,
			      "%s: it leaves frozen tensors out, and does not say where they are",
			      s->saved.path);

	snprintf(all, sizeof all, "* %s", ignored ? ignored : "");
	return zr_tensor_files_open_grown(path, s->declared ? s->declared : &s->saved.m.layout,
					  s->declared ? ZR_FILES_MODEL : ZR_FILES_WHOLE,
					  prefix ? prefix : "", all,
					  zr_export_rows(s->saved.m.meta), &s->began, err);
}

static int read_began(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		      struct zr_error *err)
{
	struct source *s = arg;

	int rc = s->began ? 0 : open_began(s, err);
	if (!rc && !zr_tensor_files_have(s->began, tensor))
		rc = zr_err(err, ZR_EINVAL, "%s: tensor %s is left out, and no file has it",
			    s->saved.path, s->saved.m.layout.tensor[tensor].decl->name);
	if (rc)
		return rc;
	return zr_tensor_files_read(s->began, tensor, first, n, x, err);
}

static int open_base(struct source *s, const struct zr_setup *declared, struct zr_error *err)
{
	s->base = (struct zr_base){
		.layout = &s->saved.m.layout, .kept = declared, .fn = read_began, .arg = s
	};
	return zr_base_open(&s->base, err);
}

/* Elements of a tensor that the checkpoint leaves out. Behind the last one the hash is compared. */
static int read_left_out(struct source *s, int32_t tensor, int64_t first, int64_t n, float *x,
			 struct zr_error *err)
{
	s->base.dtype = type_of(&s->saved.m, tensor);
	int rc = zr_base_read(&s->base, tensor, first, n, x, err);
	if (rc || first + n < s->saved.m.layout.tensor[tensor].elements ||
	    zr_base_hash(&s->base) == s->saved.m.source[tensor])
		return rc;
	return zr_base_changed(s->saved.path, s->saved.m.layout.tensor[tensor].decl->name,
			       json_string_value(json_object_get(s->saved.m.meta, ZR_META_PATH)),
			       err);
}

/* A zr_values_fn. */
static int read_values(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		       struct zr_error *err)
{
	struct source *s = arg;

	if (zr_manifest_frozen(&s->saved.m, tensor) == ZR_FROZEN_LEFT_OUT)
		return read_left_out(s, tensor, first, n, x, err);
	return zr_saved_read(&s->saved, tensor, first, n, x, err);
}

/* ---- with an adapter ------------------------------------------------------------------------ */

/* Its model and its adapter, as its configuration has them; what they began with is not needed. */
static int open_declared(struct source *s, struct zr_config **cfg, struct zr_setup **setup,
			 struct zr_error *err)
{
	static const char *const o[] = { "model.path=", "adapter.path=" };

	if (!s->saved.m.config)
		return zr_err(err, ZR_EINVAL, "%s: it has no configuration", s->saved.path);

	const int adapted = json_object_get(s->saved.m.plugins, "adapter") != NULL;
	int rc = zr_declare_config(s->saved.m.config, s->saved.path, o, adapted ? 2 : 1, cfg, err);
	if (!rc)
		rc = zr_declare(*cfg, setup, err);
	if (!rc)
		rc = zr_saved_fits(&s->saved, &(*setup)->facts.layout, err);
	s->declared = rc ? NULL : &(*setup)->facts.layout;
	return rc;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int export_model(struct source *s, struct zr_setup *adapted, const char *dir,
			const struct zr_export_how *how, struct zr_error *err)
{
	struct zr_layout own = s->saved.m.layout;
	struct zr_export *x = NULL;

	if (adapted)
		own.n_tensors = zr_declared_own(&adapted->facts.layout);
	int rc = zr_export_open(dir, &own, s->saved.m.meta, how, &x, err);
	if (rc)
		return rc;

	rc = zr_merge_put(adapted, &own, read_values, s, x, err);
	return zr_export_done(x, rc, err);
}

static int export_adapted(struct source *s, struct zr_setup *setup, const char *dir,
			  const struct zr_export_how *how, struct zr_error *err)
{
	const char *base = json_string_value(json_object_get(s->saved.m.meta, ZR_META_PATH));
	struct zr_export_how named = *how;
	int rc = how->merge ? 0 : zr_export_adapters_alone(how, err);
	if (!rc && !how->merge)
		rc = zr_adapter_check_rows(setup, zr_export_rows(s->saved.m.meta).from > 0, err);

	named.base = base ? base : s->saved.path;
	named.store = zr_declared_store(setup);
	named.adapter = s->saved.path;
	if (!rc)
		rc = how->merge ? export_model(s, setup, dir, &named, err) :
				  zr_adapter_export(setup, dir, base, read_values, s, err);
	if (!rc && how->merge)
		printf("merged      %s%s%s with step %lld of %s, to %s\n", named.base,
		       named.store ? " in " : "", named.store ? named.store : "",
		       (long long)s->saved.m.step, s->saved.path, dir);
	else if (!rc)
		printf("exported    the adapters of step %lld of %s to %s\n",
		       (long long)s->saved.m.step, s->saved.path, dir);
	return rc;
}

/* Whether tensors are more than their names and values: an adapter's, or stored in codes. */
static int is_declared(const struct zr_manifest *m)
{
	return json_object_get(m->plugins, "adapter") ||
	       (m->config && strstr(m->config, "\nstore = "));
}

int zr_export_checkpoint(const char *path, const char *dir, const struct zr_export_how *how,
			 struct zr_error *err)
{
	struct source s = { 0 };
	struct zr_config *cfg = NULL;
	struct zr_setup *setup = NULL;

	int rc = zr_saved_open(path, &s.saved, err);
	if (rc)
		return rc;

	const int adapted = json_object_get(s.saved.m.plugins, "adapter") != NULL;
	if (how->merge && !adapted)
		rc = zr_err(err, ZR_EINVAL, "%s: --merge: there are no adapters in it", path);
	if (!rc && is_declared(&s.saved.m))
		rc = open_declared(&s, &cfg, &setup, err);
	if (!rc)
		rc = open_base(&s, setup, err);
	if (!rc)
		rc = adapted ? export_adapted(&s, setup, dir, how, err) :
			       export_model(&s, NULL, dir, how, err);
	if (!rc && !adapted)
		printf("exported    step %lld of %s to %s\n", (long long)s.saved.m.step, path, dir);
	close_source(&s);
	zr_setup_close(setup);
	zr_config_free(cfg);
	return rc;
}
