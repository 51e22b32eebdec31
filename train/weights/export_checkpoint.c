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
#include <xxhash.h>

#include "files/checkpoint/dir.h"
#include "files/pretrained/tensors.h"
#include "train/adapter.h"
#include "train/weights/base.h"
#include "train/weights/declare.h"
#include "train/weights/export.h"
#include "train/weights/merge.h"

/* All files of a checkpoint with their entries. Each of them may have parts of a tensor. */
struct source {
	struct zr_manifest m;
	char path[PATH_MAX];
	struct zr_st *file; /* [world] */
	struct zr_ckpt_entry **entry;
	int64_t *n, *next; /* entries of each file; number of the one that was read last */
	int32_t opened;
	const struct zr_ckpt_entry *have; /* what buf has; NULL: nothing */
	float *buf;
	struct zr_tensor_files *began;    /* the tensors that are left out; NULL: not opened yet */
	const struct zr_layout *declared; /* knows which tensors an adapter added; NULL: none is */
	struct zr_base base;              /* the same as training had them */
};

static int open_source(struct source *s, struct zr_error *err)
{
	struct rlimit most;
	int rc = 0;

	/* a checkpoint has a file for every rank that wrote it */
	if (!getrlimit(RLIMIT_NOFILE, &most)) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}

	s->file = calloc((size_t)s->m.world, sizeof *s->file);
	s->entry = calloc((size_t)s->m.world, sizeof *s->entry);
	s->n = calloc((size_t)s->m.world, sizeof *s->n);
	s->next = calloc((size_t)s->m.world, sizeof *s->next);
	s->buf = malloc((size_t)s->m.entry_blocks * ZR_BLOCK * sizeof *s->buf);
	if (!s->file || !s->entry || !s->n || !s->next || !s->buf)
		return zr_no_memory(err);

	for (int32_t r = 0; !rc && r < s->m.world; r++) {
		rc = zr_ckpt_open(&s->m, s->path, r, &s->file[r], err);
		if (rc)
			break;

		s->opened++;
		s->entry[r] = zr_entries(&s->m, r, &s->n[r]);
		if (!s->entry[r])
			rc = zr_no_memory(err);
	}

	return rc;
}

static void close_source(struct source *s)
{
	for (int32_t r = 0; r < s->opened; r++) {
		zr_st_close(&s->file[r]);
		free(s->entry[r]);
	}

	free(s->file);
	free(s->entry);
	free(s->n);
	free(s->next);
	free(s->buf);
	zr_base_close(&s->base);
	zr_tensor_files_close(s->began);
	zr_manifest_free(&s->m);
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
	const char *path = json_string_value(json_object_get(s->m.meta, ZR_META_PATH));
	const char *prefix = json_string_value(json_object_get(s->m.meta, ZR_META_PREFIX));
	const char *ignored = json_string_value(json_object_get(s->m.meta, ZR_META_IGNORED));
	char all[PATH_MAX];

	if (!path)
		return zr_err(err, ZR_EINVAL,
			      "%s: it leaves frozen tensors out, and does not say where they are",
			      s->path);

	snprintf(all, sizeof all, "* %s", ignored ? ignored : "");
	return zr_tensor_files_open_grown(path, s->declared ? s->declared : &s->m.layout,
					  s->declared ? ZR_FILES_MODEL : ZR_FILES_WHOLE,
					  prefix ? prefix : "", all, zr_export_rows(s->m.meta),
					  &s->began, err);
}

static int read_began(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		      struct zr_error *err)
{
	struct source *s = arg;

	int rc = s->began ? 0 : open_began(s, err);
	if (!rc && !zr_tensor_files_have(s->began, tensor))
		rc = zr_err(err, ZR_EINVAL, "%s: tensor %s is left out, and no file has it",
			    s->path, s->m.layout.tensor[tensor].decl->name);
	if (rc)
		return rc;
	return zr_tensor_files_read(s->began, tensor, first, n, x, err);
}

static int open_base(struct source *s, const struct zr_setup *declared, struct zr_error *err)
{
	s->base = (struct zr_base){
		.layout = &s->m.layout, .kept = declared, .fn = read_began, .arg = s
	};
	return zr_base_open(&s->base, err);
}

/* Elements of a tensor that the checkpoint leaves out. Behind the last one the hash is compared. */
static int read_left_out(struct source *s, int32_t tensor, int64_t first, int64_t n, float *x,
			 struct zr_error *err)
{
	s->base.dtype = type_of(&s->m, tensor);
	int rc = zr_base_read(&s->base, tensor, first, n, x, err);
	if (rc || first + n < s->m.layout.tensor[tensor].elements ||
	    zr_base_hash(&s->base) == s->m.source[tensor])
		return rc;
	return zr_base_changed(s->path, s->m.layout.tensor[tensor].decl->name,
			       json_string_value(json_object_get(s->m.meta, ZR_META_PATH)), err);
}

/* All of an entry to s->buf. */
static int read_entry(struct source *s, int32_t rank, const struct zr_ckpt_entry *e,
		      struct zr_error *err)
{
	struct zr_ckpt_found f;

	int rc = zr_ckpt_find(&s->m, &s->file[rank], e, &f, err);
	if (!rc)
		rc = zr_st_read(&s->file[rank], f.tensor, 0, e->bytes, s->buf, err);
	if (rc)
		return rc;
	return zr_ckpt_same(&s->file[rank], &f, XXH3_64bits(s->buf, e->bytes), err);
}

static int has(const struct zr_ckpt_entry *e, int32_t tensor, int64_t element)
{
	return e->tensor == tensor && e->state < 0 && e->first * ZR_BLOCK <= element &&
	       element < e->first * ZR_BLOCK + e->elements;
}

/* Reads the entry with that element of a tensor. A search begins behind the entry of its file that
 * was read last: most often that is the one. */
static int find_entry(struct source *s, int32_t tensor, int64_t element, struct zr_error *err)
{
	if (s->have && has(s->have, tensor, element))
		return 0;

	s->have = NULL;
	for (int32_t r = 0; r < s->m.world; r++)
		for (int64_t i = 0, k = s->next[r]; i < s->n[r]; i++, k++) {
			const struct zr_ckpt_entry *e = &s->entry[r][k % s->n[r]];
			if (!has(e, tensor, element))
				continue;

			s->next[r] = k % s->n[r];
			int rc = read_entry(s, r, e, err);
			s->have = rc ? NULL : e;
			return rc;
		}
	return zr_err(err, ZR_EINTERNAL, "%s: tensor %s: values are missing", s->path,
		      s->m.layout.tensor[tensor].decl->name);
}

/* A zr_values_fn. */
static int read_values(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		       struct zr_error *err)
{
	struct source *s = arg;
	int rc = 0;

	if (zr_manifest_frozen(&s->m, tensor) == ZR_FROZEN_LEFT_OUT)
		return read_left_out(s, tensor, first, n, x, err);

	while (!rc && n) {
		rc = find_entry(s, tensor, first, err);
		if (rc)
			break;

		const int64_t at = first - s->have->first * ZR_BLOCK, left = s->have->elements - at;
		const int64_t now = n < left ? n : left;
		memcpy(x, s->buf + at, (size_t)now * sizeof *x);
		x += now;
		first += now;
		n -= now;
	}

	return rc;
}

/* ---- with an adapter ------------------------------------------------------------------------ */

/* Whether the plugins still declare what the checkpoint has. */
static int same_layout(const struct source *s, const struct zr_layout *l, struct zr_error *err)
{
	const struct zr_layout *was = &s->m.layout;
	int same = l->n_tensors == was->n_tensors;

	for (int32_t i = 0; same && i < l->n_tensors; i++) {
		const struct zr_tensor *a = l->tensor[i].decl, *b = was->tensor[i].decl;
		same = !strcmp(a->name, b->name) && a->ndim == b->ndim &&
		       !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims);
	}

	if (same)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: its [model] and [adapter] declare other tensors "
		      "than it has: an older zeroth wrote it, or another plugin",
		      s->path);
}

/* Its model and its adapter, as its configuration has them; what they began with is not needed. */
static int open_declared(struct source *s, struct zr_config **cfg, struct zr_setup **setup,
			 struct zr_error *err)
{
	static const char *const o[] = { "model.path=", "adapter.path=" };

	if (!s->m.config)
		return zr_err(err, ZR_EINVAL, "%s: it has no configuration", s->path);

	const int adapted = json_object_get(s->m.plugins, "adapter") != NULL;
	int rc = zr_declare_config(s->m.config, s->path, o, adapted ? 2 : 1, cfg, err);
	if (!rc)
		rc = zr_declare(*cfg, setup, err);
	if (!rc)
		rc = same_layout(s, &(*setup)->facts.layout, err);
	s->declared = rc ? NULL : &(*setup)->facts.layout;
	return rc;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int export_model(struct source *s, struct zr_setup *adapted, const char *dir,
			const struct zr_export_how *how, struct zr_error *err)
{
	struct zr_layout own = s->m.layout;
	struct zr_export *x = NULL;

	if (adapted)
		own.n_tensors = zr_declared_own(&adapted->facts.layout);
	int rc = zr_export_open(dir, &own, s->m.meta, how, &x, err);
	if (rc)
		return rc;

	rc = zr_merge_put(adapted, &own, read_values, s, x, err);
	return zr_export_done(x, rc, err);
}

static int export_adapted(struct source *s, struct zr_setup *setup, const char *dir,
			  const struct zr_export_how *how, struct zr_error *err)
{
	const char *base = json_string_value(json_object_get(s->m.meta, ZR_META_PATH));
	struct zr_export_how named = *how;
	int rc = how->merge ? 0 : zr_export_adapters_alone(how, err);
	if (!rc && !how->merge)
		rc = zr_adapter_check_rows(setup, zr_export_rows(s->m.meta).from > 0, err);

	named.base = base ? base : s->path;
	named.store = zr_declared_store(setup);
	named.adapter = s->path;
	if (!rc)
		rc = how->merge ? export_model(s, setup, dir, &named, err) :
				  zr_adapter_export(setup, dir, base, read_values, s, err);
	if (!rc && how->merge)
		printf("merged      %s%s%s with step %lld of %s, to %s\n", named.base,
		       named.store ? " in " : "", named.store ? named.store : "",
		       (long long)s->m.step, s->path, dir);
	else if (!rc)
		printf("exported    the adapters of step %lld of %s to %s\n", (long long)s->m.step,
		       s->path, dir);
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

	snprintf(s.path, sizeof s.path, "%s", path);
	int rc = zr_ckpt_check(path, 0, NULL, NULL, &s.m, err);
	if (rc)
		return rc;

	const int adapted = json_object_get(s.m.plugins, "adapter") != NULL;
	if (how->merge && !adapted)
		rc = zr_err(err, ZR_EINVAL, "%s: --merge: there are no adapters in it", path);
	if (!rc)
		rc = open_source(&s, err);
	if (!rc && is_declared(&s.m))
		rc = open_declared(&s, &cfg, &setup, err);
	if (!rc)
		rc = open_base(&s, setup, err);
	if (!rc)
		rc = adapted ? export_adapted(&s, setup, dir, how, err) :
			       export_model(&s, NULL, dir, how, err);
	if (!rc && !adapted)
		printf("exported    step %lld of %s to %s\n", (long long)s.m.step, s.path, dir);
	close_source(&s);
	zr_setup_close(setup);
	zr_config_free(cfg);
	return rc;
}
