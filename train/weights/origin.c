/* SPDX-License-Identifier: Apache-2.0
 *
 * origin.c - see origin.h.
 */
#include "train/weights/origin.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/weights/export.h"

void zr_origin_close(struct zr_origin *s)
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
static int open_began(struct zr_origin *s, struct zr_error *err)
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
	struct zr_origin *s = arg;

	int rc = s->began ? 0 : open_began(s, err);
	if (!rc && !zr_tensor_files_have(s->began, tensor))
		rc = zr_err(err, ZR_EINVAL, "%s: tensor %s is left out, and no file has it",
			    s->saved.path, s->saved.m.layout.tensor[tensor].decl->name);
	if (rc)
		return rc;
	return zr_tensor_files_read(s->began, tensor, first, n, x, err);
}

int zr_origin_open_base(struct zr_origin *s, const struct zr_setup *declared, struct zr_error *err)
{
	s->base = (struct zr_base){
		.layout = &s->saved.m.layout, .kept = declared, .fn = read_began, .arg = s
	};
	return zr_base_open(&s->base, err);
}

/* Elements of a tensor that the checkpoint leaves out. Behind the last one the hash is compared. */
static int read_left_out(struct zr_origin *s, int32_t tensor, int64_t first, int64_t n, float *x,
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

int zr_origin_read(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		   struct zr_error *err)
{
	struct zr_origin *s = arg;

	if (zr_manifest_frozen(&s->saved.m, tensor) == ZR_FROZEN_LEFT_OUT)
		return read_left_out(s, tensor, first, n, x, err);
	return zr_saved_read(&s->saved, tensor, first, n, x, err);
}
