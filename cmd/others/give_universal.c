/* SPDX-License-Identifier: Apache-2.0
 *
 * give_universal.c - DeepSpeed's universal format (0.19.8, checkpoint/universal_checkpoint.py,
 * runtime/base_optimizer.py, runtime/zero/stage3.py): DIR/latest_universal names a directory with
 * the model states, zero/optimizer_state.pt, and zero/PARAMETER/{fp32,STATE,step}.pt.
 *
 * Stages 1 and 2 pair the parameter groups of a training with those of the file in turn, and read
 * no states of one without a partner; stage 3 gives all of them the options of the first. So the
 * file has a group for each parameter, all alike, with the options that all groups here share.
 * What they do not share the training says itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/others/handover.h"
#include "cmd/others/others.h"
#include "core/base/file.h"
#include "files/torch/writer.h"
#include "train/weights/export.h"

#define DS_VERSION "0.19.8" /* of DeepSpeed, as which these files are */

struct job {
	struct zr_handover *h;
	char dir[PATH_MAX]; /* of the checkpoint */
	struct zr_torch_writer w;
	int32_t dtype; /* of the compute copies */
};

/* ---- what the format cannot say ---- */

static int check_frozen(const struct zr_handover *h, struct zr_error *err)
{
	for (int32_t i = 0; i < h->n; i++)
		if (h->group[i] < 0)
			return zr_err(
				err, ZR_EINVAL,
				"%s: tensor %s is frozen: DeepSpeed takes no frozen parameter "
				"from a universal checkpoint; --to dcp has all of them",
				h->origin.saved.path, h->name[i]);

	return 0;
}

static int check_rates(const struct zr_handover *h, struct zr_error *err)
{
	for (int32_t k = 1; k < h->groups; k++)
		if (h->given[k].next != h->given[0].next)
			return zr_err(err, ZR_EINVAL,
				      "%s: its parameter groups have learning rates %.10g and "
				      "%.10g, and DeepSpeed pairs groups by their number alone; "
				      "--to dcp says whose they are",
				      h->origin.saved.path, h->given[0].next, h->given[k].next);

	return 0;
}

/* ---- directories ---- */

static int make_dir(const char *path, struct zr_error *err)
{
	if (!mkdir(path, 0777))
		return 0;
	return zr_err(err, ZR_EIO, "%s: cannot make the directory: %s", path, strerror(errno));
}

/* What was written in a directory stays there. */
static int keep_dir(const char *path, struct zr_error *err)
{
	const int fd = zr_dir_open(AT_FDCWD, path, 0);
	const int no = fd < 0 ? errno : zr_sync_dir(fd);

	if (fd >= 0)
		close(fd);
	return no ? zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no)) : 0;
}

static const char *path_of(const struct job *j, const char *name, char path[PATH_MAX])
{
	const int n = snprintf(path, PATH_MAX, "%s/%s", j->dir, name);
	if (n >= PATH_MAX) /* then nothing is there */
		*path = 0;
	return path;
}

/* ---- files ---- */

static void append(void *arg, const float *x, int64_t n)
{
	struct job *j = arg;
	zr_torch_append(&j->w, x, (size_t)n * sizeof *x);
}

/* The same in the type of compute copies. */
static void append_narrow(void *arg, const float *x, int64_t n)
{
	enum { SOME = 4096 };
	struct job *j = arg;
	uint16_t some[SOME];

	if (j->dtype == ZR_F32) {
		append(arg, x, n);
		return;
	}

	for (int64_t at = 0, now; at < n; at += now) {
		now = n - at < SOME ? n - at : SOME;
		zr_export_narrow(j->dtype, x + at, now, some);
		zr_torch_append(&j->w, some, (size_t)now * sizeof *some);
	}
}

/* A file without storages. */
static int write_small(struct job *j, const char *name, struct zr_pickler *p, struct zr_error *err)
{
	char path[PATH_MAX];

	zr_pickler_close(p);
	int rc = zr_torch_create(&j->w, path_of(j, name, path), err);
	if (!rc) {
		zr_torch_begin(&j->w, p);
		zr_torch_end(&j->w);
		rc = zr_torch_finish(&j->w, 0, err);
	}

	zr_pickler_free(p);
	return rc;
}

/* ---- zero/PARAMETER ---- */

static void pickle_datum(struct zr_pickler *p, const struct zr_tensor *t)
{
	zr_pickler_open(p);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "cat_dim"); /* where tensor parallel ranks would cut it */
	zr_pickle_whole(p, 0);
	zr_pickle_text(p, "param");
	zr_pickle_tensor(p, 0, ZR_F32, (int32_t)t->ndim, t->dims);
	zr_pickle_close_dict(p);
	zr_pickler_close(p);
}

/* state: -1: the weight. */
static int write_datum(struct job *j, int32_t tensor, int32_t state, const char *name,
		       struct zr_error *err)
{
	const struct zr_place *t = &j->h->m->layout.tensor[tensor];
	char path[PATH_MAX], file[PATH_MAX];
	struct zr_pickler p;

	snprintf(file, sizeof file, "zero/%.255s/%.128s.pt", j->h->name[tensor], name);
	int rc = zr_torch_create(&j->w, path_of(j, file, path), err);
	if (rc)
		return rc;

	pickle_datum(&p, t->decl);
	zr_torch_begin(&j->w, &p);
	zr_torch_storage(&j->w, (uint64_t)t->elements * sizeof(float));
	rc = zr_handover_give(j->h, tensor, state, append, j, err);
	zr_torch_end(&j->w);
	zr_pickler_free(&p);
	return zr_torch_finish(&j->w, rc, err);
}

/* How many updates there were, as torch's optimizers count them: in fp32. */
static int write_step(struct job *j, int32_t tensor, struct zr_error *err)
{
	const float step = (float)j->h->m->applied;
	char path[PATH_MAX], file[PATH_MAX];
	struct zr_pickler p;

	snprintf(file, sizeof file, "zero/%.255s/step.pt", j->h->name[tensor]);
	int rc = zr_torch_create(&j->w, path_of(j, file, path), err);
	if (rc)
		return rc;

	zr_pickler_open(&p);
	zr_pickle_tensor(&p, 0, ZR_F32, 0, NULL);
	zr_pickler_close(&p);
	zr_torch_begin(&j->w, &p);
	zr_torch_storage(&j->w, sizeof step);
	zr_torch_append(&j->w, &step, sizeof step);
	zr_torch_end(&j->w);
	zr_pickler_free(&p);
	return zr_torch_finish(&j->w, 0, err);
}

static int write_parameter(struct job *j, int32_t tensor, struct zr_error *err)
{
	char file[PATH_MAX], path[PATH_MAX];

	snprintf(file, sizeof file, "zero/%.255s", j->h->name[tensor]);
	int rc = make_dir(path_of(j, file, path), err);
	if (!rc)
		rc = write_datum(j, tensor, -1, "fp32", err);
	for (int32_t s = 0; !rc && s < zr_handover_states(j->h, tensor); s++)
		rc = write_datum(j, tensor, s, zr_handover_state(j->h, tensor, s), err);
	if (!rc && j->h->given[0].kind != ZR_GIVEN_SGD)
		rc = write_step(j, tensor, err);
	if (!rc)
		rc = keep_dir(path, err);
	return rc;
}

/* ---- zero/optimizer_state.pt ---- */

static void pickle_number(struct zr_pickler *p, const char *name, double value)
{
	zr_pickle_text(p, name);
	zr_pickle_real(p, value);
}

static void pickle_count(struct zr_pickler *p, const char *name, int64_t value)
{
	zr_pickle_text(p, name);
	zr_pickle_whole(p, value);
}

static void pickle_answer(struct zr_pickler *p, const char *name, int yes)
{
	zr_pickle_text(p, name);
	zr_pickle_bool(p, yes);
}

static void pickle_betas(struct zr_pickler *p, const double betas[2])
{
	zr_pickle_text(p, "betas");
	zr_pickle_open_tuple(p);
	zr_pickle_real(p, betas[0]);
	zr_pickle_real(p, betas[1]);
	zr_pickle_close_tuple(p);
}

/* All that a group says, for `zeroth checkpoint import`. */
static void pickle_group(struct zr_pickler *p, const struct zr_given_group *g)
{
	zr_pickle_open_dict(p);
	pickle_number(p, "lr", g->next);
	pickle_number(p, "weight_decay", g->weight_decay);
	if (g->kind == ZR_GIVEN_SGD) {
		pickle_number(p, "momentum", g->momentum);
	} else {
		pickle_betas(p, g->betas);
		pickle_number(p, "eps", g->eps);
		pickle_answer(p, "decoupled_weight_decay", g->kind == ZR_GIVEN_ADAMW);
	}
	zr_pickle_close_dict(p);
}

static int same_betas(const struct zr_handover *h)
{
	int same = h->given[0].kind != ZR_GIVEN_SGD;
	for (int32_t k = 1; k < h->groups; k++)
		same &= h->given[k].betas[0] == h->given[0].betas[0] &&
			h->given[k].betas[1] == h->given[0].betas[1];
	return same;
}

static int same_eps(const struct zr_handover *h)
{
	int same = h->given[0].kind != ZR_GIVEN_SGD;
	for (int32_t k = 1; k < h->groups; k++)
		same &= h->given[k].eps == h->given[0].eps;
	return same;
}

static int same_decay(const struct zr_handover *h)
{
	int same = 1;
	for (int32_t k = 1; k < h->groups; k++)
		same &= h->given[k].weight_decay == h->given[0].weight_decay;
	return same;
}

/* What all groups say. parameter: its only one; -1: none. */
static void pickle_common(struct zr_pickler *p, const struct zr_handover *h, int32_t parameter)
{
	const struct zr_given_group *g = &h->given[0];

	zr_pickle_open_dict(p);
	pickle_number(p, "lr", g->next);
	if (same_betas(h))
		pickle_betas(p, g->betas);
	if (same_eps(h))
		pickle_number(p, "eps", g->eps);
	if (same_decay(h))
		pickle_number(p, "weight_decay", g->weight_decay);
	if (g->kind == ZR_GIVEN_SGD)
		pickle_number(p, "momentum", g->momentum);
	zr_pickle_text(p, "params");
	zr_pickle_open_list(p);
	if (parameter >= 0)
		zr_pickle_whole(p, parameter);
	zr_pickle_close_list(p);
	zr_pickle_close_dict(p);
}

/* How a scale moves. */
static void pickle_rule(struct zr_pickler *p, const struct zr_section *s)
{
	pickle_number(p, "scale_factor", 2);
	pickle_count(p, "scale_window", (int64_t)zr_section_number(s, "loss_scale_window", 0));
	pickle_number(p, "min_scale", zr_section_number(s, "min_loss_scale", 0));
	pickle_count(p, "delayed_shift", (int64_t)zr_section_number(s, "hysteresis", 0));
	pickle_answer(p, "consecutive_hysteresis",
		      zr_section_number(s, "consecutive_hysteresis", 0) != 0);
	pickle_answer(p, "raise_error_at_min_scale", 1);
}

/* An object of DeepSpeed's runtime/fp16/loss_scaler.py with the scale and its rule. */
static void pickle_scaler(struct zr_pickler *p, const struct zr_handover *h, int moves)
{
	const struct zr_scale *scale = &h->m->scale;

	zr_pickle_name(p, "deepspeed.runtime.fp16.loss_scaler",
		       moves ? "DynamicLossScaler" : "LossScaler");
	zr_pickle_object(p);
	zr_pickle_open_dict(p);
	pickle_number(p, "cur_scale", scale->scale);
	pickle_answer(p, "dynamic", moves);
	if (moves) {
		pickle_count(p, "cur_iter", scale->step);
		pickle_count(p, "last_overflow_iter", scale->last_overflow);
		pickle_count(p, "cur_hysteresis", scale->hysteresis);
		pickle_rule(p, h->setup->roles.precision.section);
	}
	zr_pickle_text(p, "dtype");
	zr_pickle_name(p, "torch", "float16");
	zr_pickle_close_dict(p);
	zr_pickle_set(p);
}

/* Without one, that of the training that goes on stays. */
static void pickle_scale(struct zr_pickler *p, const struct zr_handover *h)
{
	const struct zr_section *s = h->setup->roles.precision.section;
	const int moves = !(zr_section_number(s, "loss_scale", 0) > 0);

	if (!zr_handover_scale(h))
		return;

	zr_pickle_text(p, "loss_scaler");
	pickle_scaler(p, h, moves);
	pickle_answer(p, "dynamic_loss_scale", moves);
}

/* What stage 3 reads: {'state': {0: {'step': ...}}, 'param_groups': [...]}. */
static void pickle_stage3(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "optimizer_state_dict");
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "state");
	zr_pickle_open_dict(p);
	zr_pickle_whole(p, 0);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "step");
	zr_pickle_tensor(p, 0, ZR_F32, 0, NULL);
	zr_pickle_close_dict(p);
	zr_pickle_close_dict(p);
	zr_pickle_text(p, "param_groups");
	zr_pickle_open_list(p);
	pickle_common(p, h, -1);
	zr_pickle_close_list(p);
	zr_pickle_close_dict(p);
}

/* A group for each parameter, and what `zeroth checkpoint import` reads. */
static void pickle_groups(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "param_groups");
	zr_pickle_open_list(p);
	for (int32_t i = 0; i < h->n; i++)
		pickle_common(p, h, i);
	zr_pickle_close_list(p);

	zr_pickle_text(p, ZR_OTHER_GIVEN_GROUPS);
	zr_pickle_open_list(p);
	for (int32_t k = 0; k < h->groups; k++)
		pickle_group(p, &h->given[k]);
	zr_pickle_close_list(p);
}

static void pickle_optimizer(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickler_open(p);
	zr_pickle_open_dict(p);
	pickle_scale(p, h);
	pickle_answer(p, "overflow", 0);
	pickle_number(p, "clip_grad", h->setup->facts.train->gradient_clipping);
	zr_pickle_text(p, "ds_version");
	zr_pickle_text(p, DS_VERSION);
	pickle_stage3(p, h);
	pickle_groups(p, h);
	zr_pickle_close_dict(p);
	zr_pickler_close(p);
}

static int write_optimizer(struct job *j, struct zr_error *err)
{
	const float step = (float)j->h->m->applied;
	char path[PATH_MAX];
	struct zr_pickler p;

	int rc = zr_torch_create(&j->w, path_of(j, "zero/optimizer_state.pt", path), err);
	if (rc)
		return rc;

	pickle_optimizer(&p, j->h);
	zr_torch_begin(&j->w, &p);
	zr_torch_storage(&j->w, sizeof step);
	zr_torch_append(&j->w, &step, sizeof step);
	zr_torch_end(&j->w);
	zr_pickler_free(&p);
	return zr_torch_finish(&j->w, 0, err);
}

/* ---- model states ---- */

static void pickle_shapes_of(struct zr_pickler *p, const struct zr_handover *h, int32_t group)
{
	zr_pickle_open_ordered(p);
	for (int32_t i = 0; i < h->n; i++) {
		const struct zr_tensor *t = h->m->layout.tensor[i].decl;
		if (h->group[i] != group)
			continue;

		zr_pickle_text(p, h->name[i]);
		zr_pickle_size(p, (int32_t)t->ndim, t->dims);
	}
	zr_pickle_close_dict(p);
}

/* For each group of ours the names and sizes of its parameters. */
static void pickle_shapes(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "param_shapes");
	zr_pickle_open_list(p);
	for (int32_t k = 0; k < h->groups; k++)
		pickle_shapes_of(p, h, k);
	zr_pickle_close_list(p);
}

/* Those of DeepSpeed have the first, torch's LambdaLR, of which transformers' are, the rest. */
static void pickle_scheduler(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "lr_scheduler");
	zr_pickle_open_dict(p);
	pickle_count(p, "last_batch_iteration", h->m->applied - 1);
	pickle_count(p, "last_epoch", h->m->applied);
	pickle_count(p, "_step_count", h->m->applied + 1);
	zr_pickle_text(p, "lr_lambdas");
	zr_pickle_open_list(p);
	zr_pickle_close_list(p);
	zr_pickle_close_dict(p);
}

static void pickle_steps(struct zr_pickler *p, const struct zr_handover *h)
{
	const struct zr_manifest *m = h->m;

	pickle_count(p, "skipped_steps", m->step - m->applied);
	pickle_count(p, "global_steps", m->step);
	pickle_count(p, "global_samples", m->step * m->micro * m->slots);
	pickle_count(p, "dp_world_size", m->world);
	pickle_count(p, "mp_world_size", 1);
}

static void pickle_config(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "ds_config");
	zr_pickle_open_dict(p);
	pickle_count(p, "train_batch_size", h->m->micro * h->m->slots);
	pickle_count(p, "train_micro_batch_size_per_gpu", h->m->micro);
	pickle_number(p, "gradient_clipping", h->setup->facts.train->gradient_clipping);
	zr_pickle_close_dict(p);
	zr_pickle_text(p, "ds_version");
	zr_pickle_text(p, DS_VERSION);
}

/* All but the weights. */
static void pickle_rest(struct zr_pickler *p, const struct zr_handover *h)
{
	zr_pickle_text(p, "buffer_names");
	zr_pickle_open_list(p);
	zr_pickle_close_list(p);
	zr_pickle_text(p, "optimizer");
	zr_pickle_none(p);
	pickle_shapes(p, h);
	zr_pickle_text(p, "shared_params");
	zr_pickle_open_dict(p);
	if (h->head) {
		zr_pickle_text(p, h->head);
		zr_pickle_text(p, h->name[h->embedding]);
	}
	zr_pickle_close_dict(p);
	pickle_scheduler(p, h);
	pickle_steps(p, h);
	pickle_config(p, h);
}

/* The weights, each in a storage with its number; the head of a tied model has that of the
 * embedding. */
static void pickle_module(struct zr_pickler *p, const struct job *j)
{
	const struct zr_handover *h = j->h;

	for (int32_t i = 0; i < h->n; i++) {
		const struct zr_tensor *t = h->m->layout.tensor[i].decl;
		zr_pickle_text(p, h->name[i]);
		zr_pickle_tensor(p, i, j->dtype, (int32_t)t->ndim, t->dims);
	}

	if (!h->head)
		return;

	const struct zr_tensor *t = h->m->layout.tensor[h->embedding].decl;
	zr_pickle_text(p, h->head);
	zr_pickle_tensor(p, h->embedding, j->dtype, (int32_t)t->ndim, t->dims);
}

static int write_module(struct job *j, struct zr_error *err)
{
	int rc = 0;

	for (int32_t i = 0; !rc && i < j->h->n; i++) {
		const int64_t n = j->h->m->layout.tensor[i].elements;
		zr_torch_storage(&j->w, (uint64_t)(n * zr_dtype_bytes(j->dtype)));
		rc = zr_handover_give(j->h, i, -1, append_narrow, j, err);
	}

	return rc;
}

static void pickle_model(struct zr_pickler *p, const struct job *j, int weights)
{
	zr_pickler_open(p);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "module");
	zr_pickle_open_ordered(p);
	if (weights)
		pickle_module(p, j);
	zr_pickle_close_dict(p);
	pickle_rest(p, j->h);
	zr_pickle_close_dict(p);
}

static int write_model(struct job *j, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_pickler p;

	int rc = zr_torch_create(&j->w, path_of(j, ZR_OTHER_MODEL, path), err);
	if (rc)
		return rc;

	pickle_model(&p, j, 1);
	zr_pickler_close(&p);
	zr_torch_begin(&j->w, &p);
	rc = write_module(j, err);
	zr_torch_end(&j->w);
	zr_pickler_free(&p);
	rc = zr_torch_finish(&j->w, rc, err);
	if (rc)
		return rc;

	/* stage 3 takes all weights from zero/ */
	pickle_model(&p, j, 0);
	return write_small(j, ZR_OTHER_MODEL_STAGE3, &p, err);
}

/* ---- all of it ---- */

static int write_latest(const char *dir, const char *tag, struct zr_error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/latest_universal", dir);
	const int no = zr_file_put(AT_FDCWD, path, tag, strlen(tag));
	return no ? zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no)) : 0;
}

static int write_files(struct job *j, struct zr_error *err)
{
	char path[PATH_MAX];

	int rc = make_dir(j->dir, err);
	if (!rc)
		rc = make_dir(path_of(j, "zero", path), err);
	if (!rc)
		rc = write_model(j, err);
	if (!rc)
		rc = write_optimizer(j, err);
	for (int32_t i = 0; !rc && i < j->h->n; i++)
		rc = write_parameter(j, i, err);
	if (!rc)
		rc = keep_dir(path, err);
	if (!rc)
		rc = keep_dir(j->dir, err);
	return rc;
}

int zr_give_universal(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		      struct zr_error *err)
{
	struct job j = { .h = h, .dtype = zr_dtype_find(0, h->m->dtype)->id };
	char tag[48];

	(void)how;
	snprintf(tag, sizeof tag, "global_step%lld_universal", (long long)h->m->step);
	snprintf(j.dir, sizeof j.dir, "%.3900s/%s", dir, tag);
	int rc = check_frozen(h, err);
	if (!rc)
		rc = check_rates(h, err);
	if (!rc)
		rc = write_files(&j, err);
	if (!rc)
		rc = write_latest(dir, tag, err);
	return rc;
}
