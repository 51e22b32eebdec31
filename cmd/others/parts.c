/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.c - the safetensors form of torch.distributed.checkpoint (PyTorch 2.15,
 * HuggingFaceStorageWriter with save_distributed): a file shard-N-model-... of each rank, whose
 * metadata say where in its tensor each part lies. It has tensors alone, so that only weights are
 * taken of it.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/others.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "files/safetensors.h"

#define INFO "DCP_SHARDING_INFO"

static int is_part(const struct dirent *e)
{
	return !fnmatch("shard-*-model-*.safetensors", e->d_name, 0);
}

int zr_other_has_parts(const struct zr_others *o)
{
	struct dirent **e;
	const int n = scandir(o->path, &e, is_part, alphasort);

	for (int i = 0; i < n; i++)
		free(e[i]);
	if (n >= 0)
		free(e);
	return n > 0;
}

/* One file, and what its metadata say. */
struct part {
	struct zr_st st;
	json_t *info;
};

static int open_part(const struct zr_others *o, const char *name, struct part *p,
		     struct zr_error *err)
{
	char path[PATH_MAX];
	json_error_t why;

	*p = (struct part){ 0 };
	int rc = zr_st_open(zr_other_path(o, name, path), &p->st, err);
	if (rc)
		return rc;

	const char *text = zr_st_meta(&p->st, INFO);
	p->info = text ? zr_json_load(text, strlen(text), 0, &why) : NULL;
	if (json_is_object(p->info))
		return 0;

	json_decref(p->info);
	zr_st_close(&p->st);
	return zr_err(err, ZR_EINVAL, "%s: its metadata have no " INFO, path);
}

static void close_part(struct part *p)
{
	json_decref(p->info);
	zr_st_close(&p->st);
}

static int box_of(const struct part *p, const struct zr_st_tensor *t, struct zr_other_box *b,
		  struct zr_error *err)
{
	const json_t *offsets = json_object_get(json_object_get(p->info, t->name), "saved_offsets");

	*b = (struct zr_other_box){ .ndim = t->ndim };
	int good = json_array_size(offsets) == (size_t)t->ndim;
	for (int32_t d = 0; good && d < t->ndim; d++) {
		const json_t *at = json_array_get(offsets, (size_t)d);
		b->offset[d] = json_integer_value(at);
		b->dims[d] = t->dims[d];
		good = json_is_integer(at) && b->offset[d] >= 0 && b->offset[d] < INT32_MAX &&
		       b->dims[d] < INT32_MAX;
	}

	if (good)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: tensor %s: no saved_offsets in " INFO, p->st.path,
		      t->name);
}

/* A tensor is as large as its parts reach: whether that is its size, the model says. */
static int widen(struct zr_others *o, const struct zr_st_tensor *from, const struct zr_other_box *b,
		 struct zr_error *err)
{
	struct zr_other_tensor *t = zr_other_named(o, from->name);
	int64_t dims[ZR_OTHER_DIMS];

	for (int32_t d = 0; d < b->ndim; d++) {
		dims[d] = b->offset[d] + b->dims[d];
		if (t && d < t->ndim && t->dims[d] > dims[d])
			dims[d] = t->dims[d];
	}

	if (!t)
		return zr_other_add(o, from->name, b->ndim, dims, err) ? 0 : ZR_ENOMEM;
	return zr_other_resize(o, t, b->ndim, dims, err);
}

static int put(struct zr_others *o, const struct part *p, const struct zr_st_tensor *from,
	       const struct zr_other_box *b, struct zr_error *err)
{
	const struct zr_other_piece where = { .file = zr_other_file(o, p->st.path, err),
					      .dtype = from->dtype,
					      .at = p->st.data + from->at };
	if (where.file < 0)
		return err->code;

	return zr_other_put_box(o, zr_other_named(o, from->name), ZR_OTHER_MASTER, where, b, err);
}

/* values: their sizes are known. */
static int read_part(struct zr_others *o, const char *name, int values, struct zr_error *err)
{
	struct part p;
	struct zr_other_box b;
	int rc = open_part(o, name, &p, err);
	if (rc)
		return rc;

	for (int64_t i = 0; !rc && i < p.st.n; i++) {
		rc = box_of(&p, &p.st.tensor[i], &b, err);
		if (!rc)
			rc = values ? put(o, &p, &p.st.tensor[i], &b, err) :
				      widen(o, &p.st.tensor[i], &b, err);
	}

	close_part(&p);
	return rc;
}

int zr_others_parts(struct zr_others *o, struct zr_error *err)
{
	struct dirent **e;
	int rc = 0;

	if (!o->weights_only)
		return zr_err(err, ZR_EINVAL,
			      "%s: safetensors of torch.distributed.checkpoint have no parameter "
			      "groups: --weights takes the weights alone",
			      o->path);

	const int n = scandir(o->path, &e, is_part, alphasort);
	if (n < 0)
		return zr_file_failed(err, o->path, "read", errno);

	for (int i = 0; !rc && i < 2 * n; i++)
		rc = read_part(o, e[i % n]->d_name, i >= n, err);
	for (int i = 0; i < n; i++)
		free(e[i]);
	free(e);
	return rc;
}
