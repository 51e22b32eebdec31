/* SPDX-License-Identifier: Apache-2.0
 *
 * export_checkpoint.c - see export.h: exports from the files of a checkpoint, without a session.
 */
#include <stdio.h>
#include <string.h>

#include "train/adapter.h"
#include "train/weights/declare.h"
#include "train/weights/export.h"
#include "train/weights/merge.h"
#include "train/weights/origin.h"

/* ---- with an adapter ------------------------------------------------------------------------ */

/* Its model and its adapter, as its configuration has them; what they began with is not needed. */
static int open_declared(struct zr_origin *s, struct zr_config **cfg, struct zr_setup **setup,
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

static int export_model(struct zr_origin *s, struct zr_setup *adapted, const char *dir,
			const struct zr_export_how *how, struct zr_error *err)
{
	struct zr_layout own = s->saved.m.layout;
	struct zr_export *x = NULL;

	if (adapted)
		own.n_tensors = zr_declared_own(&adapted->facts.layout);
	int rc = zr_export_open(dir, &own, s->saved.m.meta, how, &x, err);
	if (rc)
		return rc;

	rc = zr_merge_put(adapted, &own, zr_origin_read, s, x, err);
	return zr_export_done(x, rc, err);
}

static int export_adapted(struct zr_origin *s, struct zr_setup *setup, const char *dir,
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
				  zr_adapter_export(setup, dir, base, zr_origin_read, s, err);
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
	struct zr_origin s = { 0 };
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
		rc = zr_origin_open_base(&s, setup, err);
	if (!rc)
		rc = adapted ? export_adapted(&s, setup, dir, how, err) :
			       export_model(&s, NULL, dir, how, err);
	if (!rc && !adapted)
		printf("exported    step %lld of %s to %s\n", (long long)s.saved.m.step, path, dir);
	zr_origin_close(&s);
	zr_setup_close(setup);
	zr_config_free(cfg);
	return rc;
}
