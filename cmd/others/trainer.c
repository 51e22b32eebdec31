/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - checkpoints of transformers' Trainer: model.safetensors, optimizer.pt, scheduler.pt,
 * scaler.pt and trainer_state.json (transformers 5.24, trainer.py, _save_checkpoint). The optimizer
 * numbers its parameters group by group, each in the order of the model's modules; with FSDP and
 * whole states, in optimizer.bin, it has their names (accelerate 1.15, utils/fsdp_utils.py).
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/model.h>

#include "core/base/json.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "cmd/others/order.h"
#include "cmd/others/others.h"

struct job {
	struct zr_others *o;
	struct zr_setup *setup;
	struct zr_torch file; /* optimizer.pt */
	int32_t *order;       /* the trained tensors in their order */
	int32_t n;
	uint8_t *taken; /* [n] */
	double applied; /* updates, by the states; -1: none was seen */
};

/* ---- trainer_state.json ---- */

static int read_steps(struct zr_others *o, struct zr_error *err)
{
	char path[PATH_MAX];
	json_t *root = NULL;

	zr_other_path(o, "trainer_state.json", path);
	int rc = zr_json_file(path, ZR_MODEL_JSON_MAX, &root, err);
	const json_t *step = json_object_get(root, "global_step");
	if (!rc && (!json_is_integer(step) || json_integer_value(step) < 0))
		rc = zr_err(err, ZR_EINVAL, "%s: global_step is no number of steps", path);
	if (!rc)
		o->step = json_integer_value(step);
	json_decref(root);
	return rc;
}

static int open_weights(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(setup->roles.model.section->plugin);

	return zr_tensor_files_open(o->path, &setup->facts.layout, ZR_FILES_WHOLE,
				    v ? v->prefix : "", v ? v->ignored : "", &o->weights, err);
}

/* ---- optimizer.pt: which parameter a number means ---- */

/* The trained tensors, in the order of the model's modules. */
static int make_order(struct job *j, struct zr_error *err)
{
	const struct zr_layout *l = &j->setup->facts.layout;
	int32_t all;

	j->order = calloc((size_t)l->n_tensors + 1, sizeof *j->order);
	j->taken = calloc((size_t)l->n_tensors + 1, sizeof *j->taken);
	if (!j->order || !j->taken)
		return zr_no_memory(err);

	all = zr_their_order(l, j->order, err);
	if (all < 0)
		return err->code;

	for (int32_t i = 0; i < all; i++)
		if (!j->setup->facts.frozen[j->order[i]])
			j->order[j->n++] = j->order[i];
	return 0;
}

/* Whether a tensor is in group k of `groups`: the Trainer has one for what is decayed and one for
 * the rest. */
static int is_in_group(const struct job *j, int32_t tensor, int32_t k)
{
	const struct zr_tensor *t = j->setup->facts.layout.tensor[tensor].decl;
	return j->o->groups == 1 || zr_is_not_decayed(t) == k;
}

static int same_shape(const struct zr_tensor *t, const struct zr_py *x)
{
	if (!x || x->kind != ZR_PY_TENSOR || x->ndim != (int32_t)t->ndim)
		return 0;

	return !memcmp(x->dims, t->dims, t->ndim * sizeof *x->dims);
}

/* ---- the states of a parameter ---- */

static int count_update(struct job *j, const struct zr_py *step, const char *name,
			struct zr_error *err)
{
	double applied;
	int rc = zr_torch_number(&j->file, step, "step", &applied, err);
	if (rc)
		return rc;
	if (j->applied >= 0 && applied != j->applied)
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s: %g updates, but others have %g: one number counts "
			      "them all here; --weights takes the weights alone",
			      j->file.path, name, applied, j->applied);

	j->applied = applied;
	return 0;
}

static int put_state(struct job *j, struct zr_other_tensor *t, const char *name,
		     const struct zr_py *x, struct zr_error *err)
{
	struct zr_other_piece p = { .n = t->elements, .dtype = x->dtype };

	int rc = zr_torch_place(&j->file, x, t->name, &p.at, err);
	if (rc)
		return rc;

	p.file = zr_other_file(j->o, j->file.path, err);
	if (p.file < 0)
		return err->code;
	return zr_other_put(j->o, t, name, p, err);
}

static int add_state(struct job *j, struct zr_other_tensor *t, const struct zr_tensor *decl,
		     const char *key, const struct zr_py *x, struct zr_error *err)
{
	const char *name = zr_other_state(key);

	if (!strcmp(key, "step"))
		return count_update(j, x, t->name, err);
	if (!name)
		return zr_err(
			err, ZR_EINVAL,
			"%s: tensor %s: a state \"%.100s\", which no optimizer here has "
			"(state1, state2: 8 bits of bitsandbytes); --weights takes the weights "
			"alone",
			j->file.path, t->name, key);
	if (x->kind == ZR_PY_NONE) /* of SGD without momentum */
		return 0;
	if (same_shape(decl, x))
		return put_state(j, t, name, x, err);
	return zr_err(err, ZR_EINVAL,
		      "%s: its %s of parameter %s has another shape than the model: is it of "
		      "another model, or of an optimizer with other groups?",
		      j->file.path, key, t->name);
}

static int add_parameter(struct job *j, int32_t tensor, int32_t group, const struct zr_py *states,
			 struct zr_error *err)
{
	const struct zr_tensor *decl = j->setup->facts.layout.tensor[tensor].decl;
	struct zr_other_tensor *t =
		zr_other_add(j->o, decl->name, (int32_t)decl->ndim, decl->dims, err);
	int rc = 0;

	if (!t)
		return ZR_ENOMEM;

	t->group = group;
	for (size_t i = 0; !rc && i < zr_py_count(states); i++) {
		const char *key = zr_py_text(states->at[2 * i]);
		if (!key)
			return zr_err(err, ZR_EINVAL, "%s: a state without a name", j->file.path);
		rc = add_state(j, t, decl, key, states->at[2 * i + 1], err);
	}

	return rc;
}

/* The next tensor of group k; j->n: there is none. */
static int32_t next_of_group(const struct job *j, int32_t next, int32_t k)
{
	while (next < j->n && (j->taken[next] || !is_in_group(j, j->order[next], k)))
		next++;
	return next;
}

/* Parameters of a group in turn: the tensors of the group, in their order. */
static int add_group(struct job *j, const struct zr_py *group, int32_t k, struct zr_error *err)
{
	const struct zr_py *params = zr_py_get(group, "params"),
			   *state = zr_py_get(j->file.root, "state");
	int32_t next = 0;
	int64_t number;
	int rc = 0;

	for (size_t i = 0; !rc && i < zr_py_count(params); i++) {
		next = next_of_group(j, next, k);
		if (next == j->n || !zr_py_whole(zr_py_member(params, i), &number))
			return zr_err(err, ZR_EINVAL,
				      "%s: parameter group %d has %zu parameters, and the model "
				      "fewer of that kind: the optimizer has other groups than the "
				      "Trainer's; --weights takes the weights alone",
				      j->file.path, k, zr_py_count(params));

		j->taken[next] = 1;
		rc = add_parameter(j, j->order[next], k, zr_py_at(state, number), err);
	}

	return rc;
}

static int check_all_taken(const struct job *j, struct zr_error *err)
{
	for (int32_t i = 0; i < j->n; i++)
		if (!j->taken[i])
			return zr_err(
				err, ZR_EINVAL,
				"%s: it has no parameter for tensor %s, which is trained: is it "
				"frozen there? [train] freeze says so here",
				j->file.path,
				j->setup->facts.layout.tensor[j->order[i]].decl->name);

	return 0;
}

/* The trained tensor of a name, also with the model's prefix before it; j->n: none. */
static int32_t tensor_named(const struct job *j, const char *name)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(j->setup->roles.model.section->plugin);
	const char *prefix = v && v->prefix ? v->prefix : "";
	const size_t n = strlen(prefix);
	int32_t i = 0;

	for (; i < j->n; i++) {
		const char *is = j->setup->facts.layout.tensor[j->order[i]].decl->name;
		if (!strcmp(is, name) || (!strncmp(name, prefix, n) && !strcmp(is, name + n)))
			break;
	}

	return i;
}

/* Parameters of a group that has their names. */
static int add_named(struct job *j, const struct zr_py *group, int32_t k, struct zr_error *err)
{
	const struct zr_py *params = zr_py_get(group, "params"),
			   *state = zr_py_get(j->file.root, "state");
	int rc = 0;

	for (size_t i = 0; !rc && i < zr_py_count(params); i++) {
		const char *name = zr_py_text(zr_py_member(params, i));
		const int32_t at = name ? tensor_named(j, name) : j->n;
		if (at == j->n || j->taken[at])
			return zr_err(err, ZR_EINVAL,
				      "%s: parameter group %d has %.200s, which is no trained "
				      "tensor of the model, or is there twice",
				      j->file.path, k, name ? name : "what is no name");

		j->taken[at] = 1;
		rc = add_parameter(j, j->order[at], k, zr_py_get(state, name), err);
	}

	return rc;
}

static int has_names(const struct zr_py *group)
{
	return zr_py_text(zr_py_member(zr_py_get(group, "params"), 0)) != NULL;
}

static int read_groups(struct job *j, const struct zr_py *groups, struct zr_error *err)
{
	const int named = has_names(zr_py_member(groups, 0));
	int rc = 0;

	for (size_t k = 0; !rc && k < zr_py_count(groups); k++)
		rc = zr_other_group(j->o, &j->file, zr_py_member(groups, k), err);

	/* which tensors the first has depends on how many there are */
	for (size_t k = 0; !rc && k < zr_py_count(groups); k++)
		rc = named ? add_named(j, zr_py_member(groups, k), (int32_t)k, err) :
			     add_group(j, zr_py_member(groups, k), (int32_t)k, err);
	return rc;
}

static int read_optimizer(struct job *j, struct zr_error *err)
{
	const struct zr_py *groups = zr_py_get(j->file.root, "param_groups");
	const size_t n = zr_py_count(groups);

	if (!n || (n > 2 && !has_names(zr_py_member(groups, 0))))
		return zr_err(err, ZR_EINVAL,
			      "%s: %zu parameter groups: the Trainer has two, decayed and not, and "
			      "other optimizers one; --weights takes the weights alone",
			      j->file.path, n);

	int rc = make_order(j, err);
	if (!rc)
		rc = read_groups(j, groups, err);
	if (!rc)
		rc = check_all_taken(j, err);
	return rc;
}

static int open_optimizer(struct job *j, struct zr_error *err)
{
	const char *name = zr_other_has(j->o, "optimizer.bin") ? "optimizer.bin" : "optimizer.pt";
	char path[PATH_MAX];

	if (!zr_other_has(j->o, name))
		return zr_err(err, ZR_EINVAL,
			      "%s: it has no optimizer.pt (save_only_model?): --weights takes the "
			      "weights alone",
			      j->o->path);

	int rc = zr_torch_open(zr_other_path(j->o, name, path), &j->file, err);
	if (!rc)
		rc = read_optimizer(j, err);
	return rc;
}

/* ---- scheduler.pt and scaler.pt ---- */

/* Updates as the scheduler counted them must be those of the optimizer: one number here. */
static int check_scheduler(const struct zr_others *o, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_torch file;
	int64_t last;

	if (!zr_other_has(o, "scheduler.pt"))
		return 0;

	int rc = zr_torch_open(zr_other_path(o, "scheduler.pt", path), &file, err);
	if (rc)
		return rc;
	if (zr_py_whole(zr_py_get(file.root, "last_epoch"), &last) && last != o->applied)
		rc = zr_err(
			err, ZR_EINVAL,
			"%s: the scheduler has seen %lld updates, the optimizer %lld: one number "
			"counts both here; --weights takes the weights alone",
			path, (long long)last, (long long)o->applied);
	zr_torch_close(&file);
	return rc;
}

/* torch.amp.GradScaler doubles with the update that makes `growth_interval` in a row, which is one
 * earlier than [precision] fp16 after an overflow: the count is set so that they agree from here to
 * the next overflow. */
/* Whether a factor is the one that [precision] fp16 has. */
static int check_factor(const struct zr_torch *file, const char *name, double here,
			struct zr_error *err)
{
	double there = here;

	if (!zr_py_number(zr_py_get(file->root, name), &there) || there == here)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: %s = %g, and [precision] fp16 knows %g alone: --weights takes the "
		      "weights alone",
		      file->path, name, there, here);
}

static int take_scaler(struct zr_others *o, const struct zr_torch *file, struct zr_error *err)
{
	int64_t calm;

	if (!zr_py_whole(zr_py_get(file->root, "_growth_tracker"), &calm) || calm < 0)
		return zr_err(err, ZR_EINVAL, "%s: _growth_tracker is no number of steps",
			      file->path);

	if (zr_py_whole(zr_py_get(file->root, "growth_interval"), &o->window) && o->window < 1)
		return zr_err(err, ZR_EINVAL, "%s: growth_interval is no number of steps",
			      file->path);

	o->scale.step = calm + 1;
	o->scale.last_overflow = -1;
	o->scale.hysteresis = o->hysteresis = 1;
	o->scaled = 1;
	return zr_torch_number(file, zr_py_get(file->root, "scale"), "scale", &o->scale.scale, err);
}

static int read_scaler(struct zr_others *o, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_torch file;

	if (!zr_other_has(o, "scaler.pt"))
		return 0;

	int rc = zr_torch_open(zr_other_path(o, "scaler.pt", path), &file, err);
	if (rc)
		return rc;

	rc = check_factor(&file, "growth_factor", 2, err);
	if (!rc)
		rc = check_factor(&file, "backoff_factor", 0.5, err);
	if (!rc)
		rc = take_scaler(o, &file, err);
	zr_torch_close(&file);
	return rc;
}

static int read_states(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	struct job j = { .o = o, .setup = setup, .applied = -1 };

	int rc = open_optimizer(&j, err);
	o->applied = j.applied < 0 ? o->step : (int64_t)j.applied;
	zr_torch_close(&j.file);
	free(j.order);
	free(j.taken);
	return rc;
}

/* ---- with FSDP: accelerate's directories of torch.distributed.checkpoint ---- */

#define SHARDED_WEIGHTS "pytorch_model_fsdp_0"
#define SHARDED_STATES  "optimizer_0"

static int read_sharded_states(struct zr_others *o, struct zr_error *err)
{
	char dir[PATH_MAX];
	int64_t applied;

	zr_other_path(o, SHARDED_STATES, dir);
	int rc = zr_other_dcp(o, dir, ZR_OTHER_STATES, &applied, err);
	o->applied = applied < 0 ? o->step : applied;
	return rc;
}

static int read_sharded(struct zr_others *o, struct zr_error *err)
{
	char dir[PATH_MAX];
	int64_t applied;

	zr_other_path(o, SHARDED_WEIGHTS, dir);
	int rc = zr_other_dcp(o, dir, ZR_OTHER_WEIGHTS, &applied, err);
	if (rc || o->weights_only)
		return rc;
	return read_sharded_states(o, err);
}

static int read_whole(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	int rc = open_weights(o, setup, err);
	if (rc || o->weights_only)
		return rc;
	return read_states(o, setup, err);
}

int zr_others_trainer(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	int rc = read_steps(o, err);
	if (!rc)
		rc = zr_other_has(o, SHARDED_WEIGHTS) ? read_sharded(o, err) :
							read_whole(o, setup, err);
	if (!rc && !o->weights_only)
		rc = check_scheduler(o, err);
	if (!rc && !o->weights_only)
		rc = read_scaler(o, err);
	return rc;
}
