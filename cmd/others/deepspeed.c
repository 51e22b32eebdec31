/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed.c - what all of DeepSpeed's checkpoints have (0.19.8, runtime/engine.py,
 * _save_checkpoint): the steps, the shapes of parameters, the loss scale.
 */
#include <string.h>

#include "cmd/others/others.h"

const char *zr_other_model(const struct zr_others *o)
{
	return zr_other_has(o, ZR_OTHER_MODEL) ? ZR_OTHER_MODEL : ZR_OTHER_MODEL_STAGE3;
}

int zr_other_steps(struct zr_others *o, const struct zr_torch *model, struct zr_error *err)
{
	int64_t skipped = 0;

	if (!zr_py_whole(zr_py_get(model->root, "global_steps"), &o->step) || o->step < 0)
		return zr_err(err, ZR_EINVAL, "%s: global_steps is no number of steps",
			      model->path);

	zr_py_whole(zr_py_get(model->root, "skipped_steps"), &skipped);
	if (skipped < 0 || skipped > o->step)
		return zr_err(err, ZR_EINVAL, "%s: skipped_steps is no number of them",
			      model->path);

	o->applied = o->step - skipped;
	return 0;
}

static int add_shape(struct zr_others *o, const struct zr_torch *file, const struct zr_py *name,
		     const struct zr_py *size, int32_t group, struct zr_error *err)
{
	int64_t dims[ZR_OTHER_DIMS];
	int32_t ndim;

	if (!zr_py_text(name) || strchr(zr_py_text(name), '/') ||
	    !zr_other_sizes(size, &ndim, dims))
		return zr_err(err, ZR_EINVAL, "%s: a parameter without a name or a shape",
			      file->path);

	struct zr_other_tensor *t = zr_other_add(o, zr_py_text(name), ndim, dims, err);
	if (!t)
		return ZR_ENOMEM;

	t->group = group;
	return 0;
}

static int add_shapes(struct zr_others *o, const struct zr_torch *model, const struct zr_py *shapes,
		      int32_t group, struct zr_error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < zr_py_count(shapes); i++)
		rc = add_shape(o, model, shapes->at[2 * i], shapes->at[2 * i + 1], group, err);
	return rc;
}

int zr_other_shapes(struct zr_others *o, const struct zr_torch *model, struct zr_error *err)
{
	const struct zr_py *groups = zr_py_get(model->root, "param_shapes");
	int rc = 0;

	if (!zr_py_count(groups))
		return zr_err(err, ZR_EINVAL, "%s: param_shapes is missing", model->path);

	for (size_t k = 0; !rc && k < zr_py_count(groups); k++)
		rc = add_shapes(o, model, zr_py_member(groups, k), (int32_t)k, err);
	return rc;
}

int zr_other_check_step(const struct zr_others *o, const struct zr_torch *file,
			const struct zr_py *step, struct zr_error *err)
{
	double applied;
	int rc = zr_torch_number(file, step, "step", &applied, err);

	if (rc || applied == (double)o->applied)
		return rc;
	return zr_err(err, ZR_EINVAL, "%s: its optimizer has counted %g updates, the engine %lld",
		      file->path, applied, (long long)o->applied);
}

/* An attribute of a loss scaler that is a whole number. */
static int count(const struct zr_torch *file, const struct zr_py *scaler, const char *name,
		 int64_t *out, struct zr_error *err)
{
	if (zr_py_whole(zr_py_attribute(scaler, name), out))
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: its loss scaler has no %s", file->path, name);
}

/* The scale follows the same rule as that of [precision] fp16. */
static int take_dynamic(struct zr_others *o, const struct zr_torch *file,
			const struct zr_py *scaler, struct zr_error *err)
{
	int rc = count(file, scaler, "cur_iter", &o->scale.step, err);
	if (!rc)
		rc = count(file, scaler, "last_overflow_iter", &o->scale.last_overflow, err);
	if (!rc)
		rc = count(file, scaler, "cur_hysteresis", &o->scale.hysteresis, err);
	if (!rc)
		rc = count(file, scaler, "scale_window", &o->window, err);
	if (!rc)
		rc = count(file, scaler, "delayed_shift", &o->hysteresis, err);
	if (!zr_py_number(zr_py_attribute(scaler, "min_scale"), &o->floor))
		o->floor = 0;
	o->scaled = !rc;
	return rc;
}

int zr_other_scale(struct zr_others *o, const struct zr_torch *file, const struct zr_py *scaler,
		   struct zr_error *err)
{
	const char *dynamic = "deepspeed.runtime.fp16.loss_scaler DynamicLossScaler";

	if (!scaler || scaler->kind != ZR_PY_OBJECT)
		return 0;
	if (!zr_py_number(zr_py_attribute(scaler, "cur_scale"), &o->scale.scale))
		return zr_err(err, ZR_EINVAL, "%s: its loss scaler has no cur_scale", file->path);
	if (zr_py_is(scaler, dynamic))
		return take_dynamic(o, file, scaler, err);

	o->scale.step = o->step;
	o->scale.last_overflow = -1;
	o->scale.hysteresis = 1;
	o->scaled = o->scale.scale != 1; /* 1: without fp16 */
	return 0;
}
