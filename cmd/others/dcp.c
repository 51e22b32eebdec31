/* SPDX-License-Identifier: Apache-2.0
 *
 * dcp.c - checkpoints of torch.distributed.checkpoint (PyTorch 2.15): .metadata, a pickle that says
 * where each part of each tensor lies in the *.distcp files, which are files of torch.save one
 * behind the other. What a key means says the path in planner_data: the weights of a model are
 * (..., NAME), states (..., "state", NAME, STATE), the options of parameter groups (...,
 * "param_groups", NUMBER, OPTION), as get_state_dict makes them. Other values, such as those of a
 * scheduler, are no part of the import.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/others/others.h"

struct job {
	struct zr_others *o;
	const char *dir;
	int what; /* ZR_OTHER_WEIGHTS, ZR_OTHER_STATES */
	struct zr_torch metadata;
	const struct zr_py *tensors, *paths, *storage; /* of the metadata */
	int64_t applied;                               /* -1: not known yet */
};

/* What an entry of the storage is. */
struct entry {
	const char *key;
	const struct zr_py *of, *path, *offset, *info;
	struct zr_torch file; /* its part of a file, opened */
};

static int bad_entry(const struct job *j, const char *key, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: %.200s: %s", j->metadata.path, key, what);
}

/* ---- paths ---- */

static const char *path_text(const struct zr_py *path, size_t i)
{
	return zr_py_text(zr_py_member(path, i));
}

/* Where in a path a name is, with so many members behind it; 0: nowhere. */
static size_t behind(const struct zr_py *path, const char *name, size_t members)
{
	const size_t n = zr_py_count(path);
	if (n < members + 2)
		return 0;

	const size_t at = n - members - 1;
	const char *is = path_text(path, at);
	return is && !strcmp(is, name) ? at : 0;
}

/* ---- parts of tensors ---- */

/* Opens the part of a file that has an entry. */
static int open_entry(const struct job *j, struct entry *e, struct zr_error *err)
{
	const char *file = zr_py_text(zr_py_attribute(e->info, "relative_path"));
	char path[PATH_MAX];
	int64_t offset, length;

	if (!file || *file == '.' || strchr(file, '/') ||
	    !zr_py_whole(zr_py_attribute(e->info, "offset"), &offset) || offset < 0 ||
	    !zr_py_whole(zr_py_attribute(e->info, "length"), &length) || length < 0)
		return bad_entry(j, e->key, "it does not say where it is", err);
	if (zr_py_attribute(e->info, "transform_descriptors"))
		return bad_entry(j, e->key, "it is compressed: save it without extensions", err);
	if (snprintf(path, sizeof path, "%s/%s", j->dir, file) >= (int)sizeof path)
		return bad_entry(j, e->key, "a path too long", err);

	return zr_torch_open_at(path, (uint64_t)offset, (uint64_t)length, &e->file, err);
}

static int box_of(const struct entry *e, struct zr_other_box *b)
{
	const struct zr_py *x = e->file.root;
	int good = x && x->kind == ZR_PY_TENSOR && zr_py_count(e->offset) == (size_t)x->ndim;

	*b = (struct zr_other_box){ .ndim = good ? x->ndim : 0 };
	for (int32_t d = 0; good && d < b->ndim; d++) {
		b->dims[d] = x->dims[d];
		good = zr_py_whole(zr_py_member(e->offset, (size_t)d), &b->offset[d]);
	}

	return good;
}

static int put_part(struct job *j, struct zr_other_tensor *t, const char *what,
		    const struct entry *e, struct zr_error *err)
{
	const char *name = zr_other_datum_name(what);
	struct zr_other_piece p = { 0 };
	struct zr_other_box b;

	if (!name)
		return bad_entry(j, e->key,
				 "a state that no optimizer here has; --weights takes the weights "
				 "alone",
				 err);
	if (!box_of(e, &b))
		return bad_entry(j, e->key, "a part that is not one of its tensor", err);

	int rc = zr_torch_place(&e->file, e->file.root, e->key, &p.at, err);
	if (rc)
		return rc;

	p.dtype = e->file.root->dtype;
	p.file = zr_other_file(j->o, e->file.path, err);
	if (p.file < 0)
		return err->code;
	return zr_other_put_box(j->o, t, name, p, &b, err);
}

/* The tensor of a name, which is added when it is first seen. */
static struct zr_other_tensor *tensor_of(struct job *j, const char *name, const struct zr_py *of,
					 struct zr_error *err)
{
	struct zr_other_tensor *t = zr_other_named(j->o, name);
	int64_t dims[ZR_OTHER_DIMS];
	int32_t ndim;

	if (t)
		return t;
	if (!zr_other_sizes(zr_py_attribute(of, "size"), &ndim, dims)) {
		bad_entry(j, name, "an impossible shape", err);
		return NULL;
	}

	return zr_other_add(j->o, name, ndim, dims, err);
}

/* ---- entries ---- */

static int read_step(struct job *j, const struct entry *e, struct zr_error *err)
{
	double applied;
	int rc = zr_torch_number(&e->file, e->file.root, e->key, &applied, err);
	if (rc)
		return rc;
	if (j->applied >= 0 && applied != (double)j->applied)
		return bad_entry(j, e->key,
				 "other tensors have had another number of updates: one number "
				 "counts them all here; --weights takes the weights alone",
				 err);

	j->applied = (int64_t)applied;
	return 0;
}

static int read_state(struct job *j, const struct entry *e, size_t at, struct zr_error *err)
{
	const char *name = path_text(e->path, at + 1), *state = path_text(e->path, at + 2);

	if (!name || !state)
		return bad_entry(j, e->key, "a state without a name: save it by get_state_dict",
				 err);
	if (!strcmp(state, "step"))
		return read_step(j, e, err);

	struct zr_other_tensor *t = tensor_of(j, name, e->of, err);
	if (!t)
		return err->code;
	return put_part(j, t, state, e, err);
}

static int read_weight(struct job *j, const struct entry *e, struct zr_error *err)
{
	const char *name = path_text(e->path, zr_py_count(e->path) - 1);
	struct zr_other_tensor *t = name ? tensor_of(j, name, e->of, err) : NULL;

	if (!name)
		return bad_entry(j, e->key, "a tensor without a name", err);
	if (!t)
		return err->code;
	return put_part(j, t, ZR_OTHER_MASTER, e, err);
}

/* A part of a tensor. */
static int read_tensor(struct job *j, struct entry *e, struct zr_error *err)
{
	const size_t at = behind(e->path, "state", 2);

	if (!(j->what & (at ? ZR_OTHER_STATES : ZR_OTHER_WEIGHTS)))
		return 0;

	int rc = open_entry(j, e, err);
	if (!rc)
		rc = at ? read_state(j, e, at, err) : read_weight(j, e, err);
	zr_torch_close(&e->file);
	return rc;
}

/* ---- parameter groups ---- */

static int give_group(struct job *j, const struct zr_py *names, int32_t group, struct zr_error *err)
{
	for (size_t i = 0; i < zr_py_count(names); i++) {
		const char *name = zr_py_text(zr_py_member(names, i));
		struct zr_other_tensor *t = name ? zr_other_named(j->o, name) : NULL;
		if (!t)
			return bad_entry(
				j, name ? name : "params",
				"a parameter group has it, but no state or weight is there", err);
		t->group = group;
	}

	return 0;
}

/* An option of group k, or the names of its parameters. */
static int take_option(struct job *j, const struct entry *e, int64_t k, const char *option,
		       struct zr_error *err)
{
	while (j->o->groups <= k)
		j->o->group[j->o->groups++] = zr_other_no_group();
	if (!strcmp(option, "params"))
		return give_group(j, e->file.root, (int32_t)k, err);
	return zr_other_take(&j->o->group[k], &e->file, option, e->file.root, err);
}

static int read_option(struct job *j, struct entry *e, size_t at, struct zr_error *err)
{
	const char *option = path_text(e->path, at + 2);
	int64_t k;

	if (!option || !zr_py_whole(zr_py_member(e->path, at + 1), &k) || k < 0 ||
	    k >= ZR_OTHER_GROUPS)
		return bad_entry(j, e->key, "an option of no parameter group", err);

	int rc = open_entry(j, e, err);
	if (!rc)
		rc = take_option(j, e, k, option, err);
	zr_torch_close(&e->file);
	return rc;
}

/* ---- all of it ---- */

/* Entry i of the storage. */
static int find_entry(const struct job *j, size_t i, struct entry *e, struct zr_error *err)
{
	const struct zr_py *index = j->storage->at[2 * i];

	*e = (struct entry){ .key = zr_py_text(zr_py_attribute(index, "fqn")),
			     .offset = zr_py_attribute(index, "offset"),
			     .info = j->storage->at[2 * i + 1],
			     .file = { .fd = -1 } };
	if (!e->key)
		return bad_entry(j, "storage_data", "an entry without a key", err);

	e->of = zr_py_get(j->tensors, e->key);
	e->path = zr_py_get(j->paths, e->key);
	if (!e->of || !zr_py_count(e->path))
		return bad_entry(j, e->key, "nothing says what it is", err);
	return 0;
}

static int is_tensor(const struct entry *e)
{
	return zr_py_is(e->of, "torch.distributed.checkpoint.metadata TensorStorageMetadata");
}

/* Tensors first, which parameter groups then name. */
static int read_entries(struct job *j, int tensors, struct zr_error *err)
{
	struct entry e;
	int rc = 0;

	for (size_t i = 0; !rc && i < zr_py_count(j->storage); i++) {
		rc = find_entry(j, i, &e, err);
		if (rc)
			break;

		const size_t at = behind(e.path, "param_groups", 2);
		if (tensors && is_tensor(&e) && !at)
			rc = read_tensor(j, &e, err);
		else if (!tensors && at)
			rc = read_option(j, &e, at, err);
	}

	return rc;
}

static int open_metadata(struct job *j, struct zr_error *err)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/.metadata", j->dir) >= (int)sizeof path)
		return zr_err(err, ZR_EINVAL, "%.100s...: a path too long", j->dir);

	int rc = zr_pickle_open(path, &j->metadata, err);
	if (rc)
		return rc;

	j->tensors = zr_py_attribute(j->metadata.root, "state_dict_metadata");
	j->paths = zr_py_attribute(j->metadata.root, "planner_data");
	j->storage = zr_py_attribute(j->metadata.root, "storage_data");
	if (zr_py_count(j->tensors) && zr_py_count(j->paths) && zr_py_count(j->storage))
		return 0;
	return bad_entry(j, "Metadata", "it has no tensors, or does not say where they are", err);
}

int zr_other_dcp(struct zr_others *o, const char *dir, int what, int64_t *applied,
		 struct zr_error *err)
{
	struct job j = { .o = o, .dir = dir, .what = what, .applied = -1 };

	int rc = open_metadata(&j, err);
	if (!rc)
		rc = read_entries(&j, 1, err);
	if (!rc && (what & ZR_OTHER_STATES))
		rc = read_entries(&j, 0, err);
	zr_torch_close(&j.metadata);
	*applied = j.applied;
	return rc;
}

int zr_others_dcp(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	int64_t applied;

	(void)setup;
	const int states = o->weights_only ? 0 : ZR_OTHER_STATES;
	int rc = zr_other_dcp(o, o->path, ZR_OTHER_WEIGHTS | states, &applied, err);
	if (rc || o->weights_only)
		return rc;
	if (applied < 0)
		return zr_err(err, ZR_EINVAL,
			      "%s: it has no states of an optimizer: --weights takes the weights "
			      "alone",
			      o->path);

	o->step = o->applied = applied;
	return 0;
}
