/* SPDX-License-Identifier: Apache-2.0
 *
 * universal.c - DeepSpeed's universal checkpoints, as ds_to_universal.py makes them (0.19.8,
 * checkpoint/ds_to_universal.py): zero/PARAMETER/{fp32,STATE,step}.pt, zero/optimizer_state.pt, and
 * the model states.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/others/others.h"

struct job {
	struct zr_others *o;
	struct zr_torch file; /* the one that is read */
};

static int open_at(struct job *j, const char *name, struct zr_error *err)
{
	char path[PATH_MAX];

	zr_torch_close(&j->file);
	return zr_torch_open(zr_other_path(j->o, name, path), &j->file, err);
}

/* The file of a datum of a parameter, if it is there. */
static const char *file_of(const struct zr_other_tensor *t, const char *datum, char name[PATH_MAX])
{
	snprintf(name, PATH_MAX, "zero/%s/%s.pt", t->name, datum);
	return name;
}

static int read_model(struct job *j, struct zr_error *err)
{
	int rc = open_at(j, zr_other_model(j->o), err);
	if (!rc)
		rc = zr_other_steps(j->o, &j->file, err);
	if (!rc)
		rc = zr_other_shapes(j->o, &j->file, err);
	return rc;
}

static int read_optimizer(struct job *j, struct zr_error *err)
{
	int rc = open_at(j, "zero/optimizer_state.pt", err);
	if (rc)
		return rc;

	const struct zr_py *groups = zr_py_get(j->file.root, ZR_OTHER_GIVEN_GROUPS);
	if (!groups)
		groups = zr_py_get(j->file.root, "param_groups");
	if (!zr_py_count(groups))
		return zr_others_missing(j->o, "param_groups of zero/optimizer_state.pt", err);

	for (size_t k = 0; !rc && k < zr_py_count(groups); k++)
		rc = zr_other_group(j->o, &j->file, zr_py_member(groups, k), err);
	if (!rc)
		rc = zr_other_scale(j->o, &j->file, zr_py_get(j->file.root, "loss_scaler"), err);
	return rc;
}

static int check_shape(const struct job *j, const struct zr_other_tensor *t, const struct zr_py *x,
		       struct zr_error *err)
{
	if (x && x->kind == ZR_PY_TENSOR && x->elements == t->elements)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: it has not as many elements as parameter %s",
		      j->file.path, t->name);
}

/* what: fp32, or the name of a state. */
static int read_datum(struct job *j, struct zr_other_tensor *t, const char *what, const char *datum,
		      struct zr_error *err)
{
	char name[PATH_MAX];

	int rc = open_at(j, file_of(t, what, name), err);
	if (rc)
		return rc;

	const struct zr_py *x = zr_py_get(j->file.root, "param");
	rc = check_shape(j, t, x, err);
	if (rc)
		return rc;
	return zr_other_put_flat(j->o, t, datum, &j->file, x, 0, 0, t->elements, err);
}

static int read_step(struct job *j, const struct zr_other_tensor *t, struct zr_error *err)
{
	char name[PATH_MAX];

	if (!zr_other_has(j->o, file_of(t, "step", name)))
		return 0;

	int rc = open_at(j, name, err);
	if (rc)
		return rc;
	return zr_other_check_step(j->o, &j->file, j->file.root, err);
}

static int read_parameter(struct job *j, struct zr_other_tensor *t, struct zr_error *err)
{
	const char *const *state = zr_other_states;
	char name[PATH_MAX];

	int rc = read_datum(j, t, "fp32", ZR_OTHER_MASTER, err);
	if (rc || j->o->weights_only)
		return rc;

	for (; !rc && *state; state++)
		if (zr_other_has(j->o, file_of(t, *state, name)))
			rc = read_datum(j, t, *state, *state, err);
	if (!rc)
		rc = read_step(j, t, err);
	return rc;
}

int zr_others_universal(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	struct job j = { .o = o };

	(void)setup;
	int rc = read_model(&j, err);
	if (!rc && !o->weights_only)
		rc = read_optimizer(&j, err);
	for (int64_t i = 0; !rc && i < o->n; i++)
		rc = read_parameter(&j, &o->tensor[i], err);
	zr_torch_close(&j.file);
	return rc;
}
