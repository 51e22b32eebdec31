/* SPDX-License-Identifier: Apache-2.0
 *
 * zero.c - DeepSpeed's checkpoints of ZeRO 1 to 3 (0.19.8): model states of rank 0, and a file of
 * each rank with its part of the flattened groups, of the weights in fp32 and of each state.
 *
 * In stages 1 and 2 param_slice_mappings say which elements of a rank's part are whose
 * (runtime/zero/stage_1_and_2.py, utils/tensor_fragment.py). In stage 3 each parameter is cut into
 * as many equal parts as there are ranks, the last one padded, and a rank has its part of each in
 * the order of param_shapes (utils/zero_to_fp32.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/others.h"

#define RANKS_MOST 16384

struct job {
	struct zr_others *o;
	struct zr_torch model, file; /* file: of the rank that is read */
	const struct zr_py *of;      /* its optimizer_state_dict */
	const char *flat, *states;   /* names of the weights and of the states in there */
	int64_t world;
	int stage3;
	int64_t rank;
};

/* Where a rank reads on, in stage 3: element `at` of flat group k. */
struct cursor {
	size_t k;
	int64_t at;
};

static int missing(const struct job *j, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: not as DeepSpeed 0.19 writes it: %s is missing",
		      j->file.path ? j->file.path : j->model.path, what);
}

/* ---- files ---- */

static int open_model(struct job *j, struct zr_error *err)
{
	const char *name = zr_other_model(j->o);
	char path[PATH_MAX];

	j->stage3 = !strcmp(name, ZR_OTHER_MODEL_STAGE3);
	return zr_torch_open(zr_other_path(j->o, name, path), &j->model, err);
}

/* The file of a rank, by which of these names rank 0 has one. */
static int open_rank(struct job *j, int64_t rank, struct zr_error *err)
{
	static const char *const prefixes[] = { "", "bf16_", "fp16_" };
	char name[96], path[PATH_MAX];

	zr_torch_close(&j->file);
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		snprintf(name, sizeof name, "%szero_pp_rank_%lld_mp_rank_00_optim_states.pt",
			 prefixes[i], (long long)rank);
		if (zr_other_has(j->o, name))
			break;
	}

	int rc = zr_torch_open(zr_other_path(j->o, name, path), &j->file, err);
	j->rank = rank;
	if (rc)
		return rc;

	j->of = zr_py_get(j->file.root, "optimizer_state_dict");
	return j->of ? 0 : missing(j, "optimizer_state_dict", err);
}

static int refuse_parallel(const struct job *j, struct zr_error *err)
{
	if (zr_other_has(j->o, "mp_rank_01_model_states.pt") ||
	    zr_other_has(j->o, "zero_pp_rank_0_mp_rank_01_model_states.pt"))
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor parallel ranks: convert it with DeepSpeed's "
			      "ds_to_universal.py, and import that",
			      j->o->path);
	if (zr_py_count(zr_py_get(j->model.root, "frozen_param_shapes")))
		return zr_err(
			err, ZR_EINVAL,
			"%s: frozen parameters are not imported from ZeRO's files: convert it "
			"with DeepSpeed's ds_to_universal.py, or zero_to_fp32.py for the "
			"weights alone",
			j->o->path);
	return 0;
}

/* ---- how many ranks there are ---- */

/* The ranks of the first group, or 0. */
static int64_t ranks_of(const struct zr_py *count)
{
	int64_t n = 0;
	if (!zr_py_whole(count, &n))
		zr_py_whole(zr_py_member(count, 0), &n);

	return n;
}

static int read_world(struct job *j, struct zr_error *err)
{
	j->world = ranks_of(zr_py_get(j->of, "partition_count"));
	if (j->world >= 1 && j->world <= RANKS_MOST)
		return 0;

	return missing(j, "partition_count", err);
}

/* Whether all groups of the rank's file are split over all ranks. */
static int check_world(const struct job *j, struct zr_error *err)
{
	const struct zr_py *count = zr_py_get(j->of, "partition_count");
	int same = ranks_of(count) == j->world;

	for (size_t k = 1; same && k < zr_py_count(count); k++)
		same = ranks_of(zr_py_member(count, k)) == j->world;
	if (same)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: a group that is not split over %lld ranks: the file is of another "
		      "training, or of experts, which are not imported",
		      j->file.path, (long long)j->world);
}

static void choose_names(struct job *j)
{
	j->flat = j->stage3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
	j->states = j->stage3 ? "optimizer_state_dict" : "base_optimizer_state";
}

/* ---- groups ---- */

static int add_groups(struct job *j, struct zr_error *err)
{
	const struct zr_py *groups = zr_py_get(zr_py_get(j->of, j->states), "param_groups");
	int rc = 0;

	if (zr_py_count(groups) != zr_py_count(zr_py_get(j->model.root, "param_shapes")))
		return missing(j, "param_groups", err);

	for (size_t k = 0; !rc && k < zr_py_count(groups); k++)
		rc = zr_other_group(j->o, &j->file, zr_py_member(groups, k), err);
	return rc;
}

/* ---- values ---- */

static int put_states(struct job *j, struct zr_other_tensor *t, size_t k, int64_t from,
		      int64_t first, int64_t n, struct zr_error *err)
{
	const struct zr_py *state =
		zr_py_at(zr_py_get(zr_py_get(j->of, j->states), "state"), (int64_t)k);
	int rc = 0;

	for (size_t i = 0; !rc && i < zr_py_count(state); i++) {
		const char *key = zr_py_text(state->at[2 * i]);
		const struct zr_py *x = state->at[2 * i + 1];
		if (!key)
			return missing(j, "the name of a state", err);
		if (!strcmp(key, "step"))
			rc = zr_other_check_step(j->o, &j->file, x, err);
		else
			rc = zr_other_put_flat(j->o, t, key, &j->file, x, from, first, n, err);
	}

	return rc;
}

/* Elements [from, from + n) of flat group k are elements [first, first + n) of a tensor. */
static int put_part(struct job *j, struct zr_other_tensor *t, size_t k, int64_t from, int64_t first,
		    int64_t n, struct zr_error *err)
{
	const struct zr_py *flat = zr_py_member(zr_py_get(j->of, j->flat), k);

	int rc = zr_other_put_flat(j->o, t, ZR_OTHER_MASTER, &j->file, flat, from, first, n, err);
	if (rc || j->o->weights_only)
		return rc;
	return put_states(j, t, k, from, first, n, err);
}

/* ---- stages 1 and 2 ---- */

/* Ranks have the parts of a tensor in their order. */
static int64_t elements_so_far(const struct zr_other_tensor *t)
{
	const struct zr_other_datum *d = zr_other_datum(t, ZR_OTHER_MASTER);
	if (!d)
		return 0;

	return d->piece[d->n - 1].first + d->piece[d->n - 1].n;
}

static int put_slice(struct job *j, size_t k, const struct zr_py *name, const struct zr_py *address,
		     struct zr_error *err)
{
	const char *text = zr_py_text(name);
	struct zr_other_tensor *t = text ? zr_other_named(j->o, text) : NULL;
	int64_t n, start;

	if (!t || !zr_py_whole(zr_py_attribute(address, "numel"), &n) ||
	    !zr_py_whole(zr_py_attribute(address, "start"), &start))
		return missing(j, "the place of a parameter", err);

	return put_part(j, t, k, start, elements_so_far(t), n, err);
}

static int put_slices(struct job *j, struct zr_error *err)
{
	const struct zr_py *groups = zr_py_get(j->of, "param_slice_mappings");
	int rc = 0;

	if (!zr_py_count(groups))
		return missing(j, "param_slice_mappings", err);

	for (size_t k = 0; k < zr_py_count(groups); k++) {
		const struct zr_py *slices = zr_py_member(groups, k);
		for (size_t i = 0; !rc && i < zr_py_count(slices); i++)
			rc = put_slice(j, k, slices->at[2 * i], slices->at[2 * i + 1], err);
	}

	return rc;
}

/* ---- stage 3 ---- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The next `part` elements of a rank, of which n are the tensor's and the others padding. */
static int put_next(struct job *j, struct cursor *c, struct zr_other_tensor *t, int64_t part,
		    int64_t n, struct zr_error *err)
{
	const struct zr_py *groups = zr_py_get(j->of, j->flat);
	int64_t first = j->rank * part;
	int rc = 0;

	while (!rc && part) {
		const struct zr_py *flat = zr_py_member(groups, c->k);
		if (!flat || flat->kind != ZR_PY_TENSOR)
			return missing(j, t->name, err);

		const int64_t now = least(part, flat->elements - c->at), real = least(now, n);
		if (real)
			rc = put_part(j, t, c->k, c->at, first, real, err);
		first += real;
		part -= now;
		n -= real;
		c->at += now;
		if (c->at == flat->elements)
			*c = (struct cursor){ .k = c->k + 1 };
	}

	return rc;
}

static int put_parts(struct job *j, struct zr_error *err)
{
	struct cursor c = { 0 };
	int rc = 0;

	for (int64_t i = 0; !rc && i < j->o->n; i++) {
		struct zr_other_tensor *t = &j->o->tensor[i];
		const int64_t part = (t->elements + j->world - 1) / j->world;
		const int64_t left = t->elements - least(t->elements, j->rank * part);
		rc = put_next(j, &c, t, part, least(part, left), err);
	}

	return rc;
}

/* ---- all of it ---- */

static int read_first(struct job *j, struct zr_error *err)
{
	int rc = open_rank(j, 0, err);
	if (!rc)
		rc = read_world(j, err);
	choose_names(j);
	if (!rc && !j->o->weights_only)
		rc = add_groups(j, err);
	if (!rc && !j->o->weights_only)
		rc = zr_other_scale(j->o, &j->file, zr_py_get(j->of, "loss_scaler"), err);
	return rc;
}

static int read_ranks(struct job *j, struct zr_error *err)
{
	int rc = 0;

	for (int64_t rank = 0; !rc && rank < j->world; rank++) {
		rc = rank ? open_rank(j, rank, err) : 0;
		if (!rc)
			rc = check_world(j, err);
		if (!rc)
			rc = j->stage3 ? put_parts(j, err) : put_slices(j, err);
	}

	return rc;
}

int zr_others_zero(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	struct job j = { .o = o };

	(void)setup;
	int rc = open_model(&j, err);
	if (!rc)
		rc = refuse_parallel(&j, err);
	if (!rc)
		rc = zr_other_steps(o, &j.model, err);
	if (!rc)
		rc = zr_other_shapes(o, &j.model, err);
	if (!rc)
		rc = read_first(&j, err);
	if (!rc)
		rc = read_ranks(&j, err);
	zr_torch_close(&j.file);
	zr_torch_close(&j.model);
	return rc;
}
