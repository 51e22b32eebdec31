/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.c - the safetensors form of torch.distributed.checkpoint (PyTorch 2.15,
 * HuggingFaceStorageWriter with save_distributed): a file shard-N-model-... of each rank, whose
 * metadata say where in its tensor each part lies. It has tensors alone: of a model, or of
 * {"model": ..., "optim": ...}. Options of parameter groups are in the metadata of ours; without
 * them only weights are taken.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/others.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "files/pretrained/tensors.h"
#include "files/safetensors.h"

#define INFO   "DCP_SHARDING_INFO"
#define MODEL  "model."
#define STATES "optim.state."

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

/* All of them. */
struct parts {
	struct zr_others *o;
	int nested;      /* keys begin with what of the two they are of */
	json_t *groups;  /* NULL: not told */
	int64_t applied; /* -1: not known yet */
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

/* ---- what a key means ---- */

struct meaning {
	char *name;        /* of the tensor; owned */
	const char *datum; /* of it, static; NULL: none that is known */
	int steps;         /* it is the count of its updates */
};

static int begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Whether it is wanted; *out is set then, and its name has to be freed. */
static int find_meaning(const struct parts *a, const char *key, struct meaning *out)
{
	*out = (struct meaning){ .datum = ZR_OTHER_MASTER };
	if (!a->nested || begins(key, MODEL)) {
		out->name = strdup(key + (a->nested ? strlen(MODEL) : 0));
		return 1;
	}

	const char *dot = strrchr(key, '.');
	if (a->o->weights_only || !begins(key, STATES) || dot < key + strlen(STATES))
		return 0;

	key += strlen(STATES);
	out->name = strndup(key, (size_t)(dot - key));
	out->datum = zr_other_state(dot + 1);
	out->steps = !strcmp(dot, ".step");
	return 1;
}

/* ---- sizes ---- */

/* A tensor is as large as its parts reach: whether that is its size, the model says. */
static int widen(struct zr_others *o, const char *name, const struct zr_other_box *b,
		 struct zr_error *err)
{
	struct zr_other_tensor *t = zr_other_named(o, name);
	int64_t dims[ZR_OTHER_DIMS];

	for (int32_t d = 0; d < b->ndim; d++) {
		dims[d] = b->offset[d] + b->dims[d];
		if (t && d < t->ndim && t->dims[d] > dims[d])
			dims[d] = t->dims[d];
	}

	if (!t)
		return zr_other_add(o, name, b->ndim, dims, err) ? 0 : ZR_ENOMEM;
	return zr_other_resize(o, t, b->ndim, dims, err);
}

/* ---- values ---- */

static int read_steps(struct parts *a, const struct part *p, const struct zr_st_tensor *t,
		      struct zr_error *err)
{
	float applied = -1;
	int rc = 0;

	if (t->elements == 1 && t->dtype == ZR_F32)
		rc = zr_tensor_values(&p->st, t, 0, 1, &applied, err);
	if (rc)
		return rc;
	if (!(applied >= 0) || (a->applied >= 0 && applied != (float)a->applied))
		return zr_err(
			err, ZR_EINVAL,
			"%s: tensor %s: no count of updates, or another one than others have; "
			"--weights takes the weights alone",
			p->st.path, t->name);

	a->applied = (int64_t)applied;
	return 0;
}

static int put(struct zr_others *o, const struct part *p, const struct zr_st_tensor *from,
	       const struct meaning *is, const struct zr_other_box *b, struct zr_error *err)
{
	const struct zr_other_piece where = { .file = zr_other_file(o, p->st.path, err),
					      .dtype = from->dtype,
					      .at = p->st.data + from->at };
	if (where.file < 0)
		return err->code;
	if (!is->datum)
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s: a state that no optimizer here has; --weights takes "
			      "the weights alone",
			      p->st.path, from->name);

	return zr_other_put_box(o, zr_other_named(o, is->name), is->datum, where, b, err);
}

/* values: their sizes are known. */
static int read_tensor(struct parts *a, const struct part *p, const struct zr_st_tensor *t,
		       int values, struct zr_error *err)
{
	struct zr_other_box b;
	struct meaning is;

	if (!find_meaning(a, t->name, &is))
		return 0;

	int rc = is.name ? box_of(p, t, &b, err) : zr_no_memory(err);
	if (!rc && is.steps)
		rc = values ? read_steps(a, p, t, err) : 0;
	else if (!rc)
		rc = values ? put(a->o, p, t, &is, &b, err) : widen(a->o, is.name, &b, err);
	free(is.name);
	return rc;
}

static int read_part(struct parts *a, const char *name, int values, struct zr_error *err)
{
	struct part p;
	int rc = open_part(a->o, name, &p, err);
	if (rc)
		return rc;

	for (int64_t i = 0; !rc && i < p.st.n; i++)
		rc = read_tensor(a, &p, &p.st.tensor[i], values, err);
	close_part(&p);
	return rc;
}

/* ---- parameter groups ---- */

static void take_number(const json_t *from, const char *name, double *to)
{
	const json_t *x = json_object_get(from, name);
	if (json_is_number(x))
		*to = json_number_value(x);
}

static struct zr_other_group group_of(const json_t *from)
{
	struct zr_other_group g = zr_other_no_group();
	const json_t *betas = json_object_get(from, "betas");
	const json_t *decoupled = json_object_get(from, "decoupled_weight_decay");

	take_number(from, "lr", &g.lr);
	take_number(from, "eps", &g.eps);
	take_number(from, "weight_decay", &g.weight_decay);
	take_number(from, "momentum", &g.momentum);
	for (size_t i = 0; i < 2 && json_is_number(json_array_get(betas, i)); i++)
		g.betas[i] = json_number_value(json_array_get(betas, i));
	if (json_is_boolean(decoupled))
		g.decoupled = json_is_true(decoupled);
	return g;
}

static int take_group(struct parts *a, const json_t *from, struct zr_error *err)
{
	const json_t *names = json_object_get(from, "params");

	if (a->o->groups == ZR_OTHER_GROUPS)
		return zr_err(err, ZR_EINVAL, "%s: more than %d parameter groups", a->o->path,
			      ZR_OTHER_GROUPS);

	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));
		struct zr_other_tensor *t = name ? zr_other_named(a->o, name) : NULL;
		if (!t)
			return zr_err(err, ZR_EINVAL,
				      "%s: a parameter group has %.200s, which is not there",
				      a->o->path, name ? name : "what is no name");
		t->group = a->o->groups;
	}

	a->o->group[a->o->groups++] = group_of(from);
	return 0;
}

static int take_groups(struct parts *a, struct zr_error *err)
{
	int rc = 0;

	if (a->o->weights_only)
		return 0;
	if (!json_array_size(a->groups) || a->applied < 0)
		return zr_err(err, ZR_EINVAL,
			      "%s: safetensors of torch.distributed.checkpoint have no parameter "
			      "groups: --weights takes the weights alone",
			      a->o->path);

	for (size_t k = 0; !rc && k < json_array_size(a->groups); k++)
		rc = take_group(a, json_array_get(a->groups, k), err);
	a->o->step = a->o->applied = a->applied;
	return rc;
}

/* ---- all of it ---- */

/* What the keys and the metadata of a file say of all of them. */
static int look_at(struct parts *a, const char *name, struct zr_error *err)
{
	struct part p;
	json_error_t why;
	int rc = open_part(a->o, name, &p, err);
	if (rc)
		return rc;

	const char *groups = zr_st_meta(&p.st, ZR_OTHER_GIVEN_GROUPS);
	for (int64_t i = 0; i < p.st.n; i++)
		a->nested |= begins(p.st.tensor[i].name, STATES);
	if (groups && !a->groups)
		a->groups = zr_json_load(groups, strlen(groups), 0, &why);
	close_part(&p);
	return 0;
}

static int read_parts(struct parts *a, struct dirent **e, int n, struct zr_error *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < n; i++)
		rc = look_at(a, e[i]->d_name, err);
	for (int i = 0; !rc && i < 2 * n; i++)
		rc = read_part(a, e[i % n]->d_name, i >= n, err);
	if (!rc)
		rc = take_groups(a, err);
	return rc;
}

int zr_others_parts(struct zr_others *o, struct zr_error *err)
{
	struct parts a = { .o = o, .applied = -1 };
	struct dirent **e;

	const int n = scandir(o->path, &e, is_part, alphasort);
	if (n < 0)
		return zr_file_failed(err, o->path, "read", errno);

	int rc = read_parts(&a, e, n, err);
	for (int i = 0; i < n; i++)
		free(e[i]);
	free(e);
	json_decref(a.groups);
	return rc;
}
