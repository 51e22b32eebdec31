/* SPDX-License-Identifier: Apache-2.0
 *
 * give_dcp.c - a checkpoint of torch.distributed.checkpoint (PyTorch 2.15, filesystem.py,
 * metadata.py) of {"model": ..., "optim": ...}, as get_state_dict makes them: __0_0.distcp, in
 * which a file of torch.save for each value lies behind the one before, and .metadata, a pickle
 * that says where. Any number of ranks reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/handover.h"
#include "core/base/file.h"
#include "files/torch/writer.h"

#define DATA     "__0_0.distcp"
#define METADATA "torch.distributed.checkpoint.metadata"

/* One value: a tensor of `model`, of `optim`'s state, or an option of a parameter group. */
struct value {
	const char *name;  /* of the tensor; NULL: an option */
	const char *state; /* NULL: the weight */
	int32_t tensor;    /* -1: the count of updates */
	int32_t group;
	const char *option;
	uint64_t at, bytes; /* in the file */
};

struct job {
	struct zr_handover *h;
	struct zr_torch_writer w;
	struct value *value;
	int64_t n, room;
};

/* ---- the list of values ---- */

static int add_value(struct job *j, struct value v, struct zr_error *err)
{
	if (j->n == j->room) {
		const int64_t room = 2 * j->room + 64;
		struct value *more = realloc(j->value, (size_t)room * sizeof *more);
		if (!more)
			return zr_no_memory(err);
		j->value = more;
		j->room = room;
	}

	j->value[j->n++] = v;
	return 0;
}

static const char *key_of(const struct value *v, char key[1024])
{
	if (!v->name)
		snprintf(key, 1024, "optim.param_groups.%d.%s", v->group, v->option);
	else if (v->state)
		snprintf(key, 1024, "optim.state.%s.%s", v->name, v->state);
	else
		snprintf(key, 1024, "model.%s", v->name);
	return key;
}

/* ---- values ---- */

/* The last archive, which was begun, is that of a value. */
static int end_value(struct job *j, struct value v, struct zr_error *err)
{
	v.at = j->w.from;
	v.bytes = zr_torch_end(&j->w);
	return add_value(j, v, err);
}

static void append(void *arg, const float *x, int64_t n)
{
	struct job *j = arg;
	zr_torch_append(&j->w, x, (size_t)n * sizeof *x);
}

static void begin_tensor(struct job *j, int32_t ndim, const int64_t *dims, uint64_t elements)
{
	struct zr_pickler p;

	zr_pickler_open(&p);
	zr_pickle_tensor(&p, 0, ZR_F32, ndim, dims);
	zr_pickler_close(&p);
	zr_torch_begin(&j->w, &p);
	zr_torch_storage(&j->w, elements * sizeof(float));
	zr_pickler_free(&p);
}

/* state: -1: the weight. */
static int write_tensor(struct job *j, int32_t tensor, int32_t state, struct zr_error *err)
{
	const struct zr_place *t = &j->h->m->layout.tensor[tensor];
	struct value v = { .name = j->h->name[tensor], .tensor = tensor };

	if (state >= 0)
		v.state = zr_handover_state(j->h, tensor, state);
	begin_tensor(j, (int32_t)t->decl->ndim, t->decl->dims, (uint64_t)t->elements);
	int rc = zr_handover_give(j->h, tensor, state, append, j, err);
	if (rc)
		return rc;
	return end_value(j, v, err);
}

static int write_step(struct job *j, int32_t tensor, struct zr_error *err)
{
	const float step = (float)j->h->m->applied;

	begin_tensor(j, 0, NULL, 1);
	append(j, &step, 1);
	return end_value(
		j, (struct value){ .name = j->h->name[tensor], .state = "step", .tensor = -1 },
		err);
}

static int write_states(struct job *j, int32_t tensor, struct zr_error *err)
{
	int rc = 0;

	for (int32_t s = 0; !rc && s < zr_handover_states(j->h, tensor); s++)
		rc = write_tensor(j, tensor, s, err);
	if (rc || j->h->group[tensor] < 0 || j->h->given[0].kind == ZR_GIVEN_SGD)
		return rc;
	return write_step(j, tensor, err);
}

static int write_tensors(struct job *j, struct zr_error *err)
{
	int rc = 0;

	for (int32_t i = 0; !rc && i < j->h->n; i++) {
		rc = write_tensor(j, i, -1, err);
		struct value head = j->n ? j->value[j->n - 1] : (struct value){ 0 };
		head.name = j->h->head;
		if (!rc && j->h->head && i == j->h->embedding) /* the same bytes */
			rc = add_value(j, head, err);
		if (!rc)
			rc = write_states(j, i, err);
	}

	return rc;
}

/* ---- options of parameter groups ---- */

static void pickle_names(struct zr_pickler *p, const struct zr_handover *h, int32_t group)
{
	zr_pickle_open_list(p);
	for (int32_t i = 0; i < h->n; i++)
		if (h->group[i] == group)
			zr_pickle_text(p, h->name[i]);
	zr_pickle_close_list(p);
}

static void pickle_betas(struct zr_pickler *p, const double betas[2])
{
	zr_pickle_open_tuple(p);
	zr_pickle_real(p, betas[0]);
	zr_pickle_real(p, betas[1]);
	zr_pickle_close_tuple(p);
}

/* What an option is: a number of the group, the answer yes or no, or None. */
enum is { IS_NUMBER, IS_BETAS, IS_YES, IS_NO, IS_NONE, IS_PARAMETERS };

struct option {
	const char *name;
	enum is is;
	double value;
};

static int write_option(struct job *j, int32_t k, const struct option *o, struct zr_error *err)
{
	struct zr_pickler p;

	zr_pickler_open(&p);
	if (o->is == IS_NUMBER)
		zr_pickle_real(&p, o->value);
	else if (o->is == IS_BETAS)
		pickle_betas(&p, j->h->given[k].betas);
	else if (o->is == IS_PARAMETERS)
		pickle_names(&p, j->h, k);
	else if (o->is == IS_NONE)
		zr_pickle_none(&p);
	else
		zr_pickle_bool(&p, o->is == IS_YES);
	zr_pickler_close(&p);
	zr_torch_begin(&j->w, &p);
	zr_pickler_free(&p);
	return end_value(j, (struct value){ .group = k, .option = o->name, .tensor = -1 }, err);
}

static enum is yes_or_no(int yes)
{
	return yes ? IS_YES : IS_NO;
}

/* All options that torch.optim's classes have, so that a training finds each of its own, and
 * initial_lr, which schedulers add. */
static int write_group(struct job *j, int32_t k, struct zr_error *err)
{
	const struct zr_given_group *g = &j->h->given[k];
	const struct option all[] = {
		{ "lr", IS_NUMBER, g->next },
		{ "initial_lr", IS_NUMBER, g->lr },
		{ "weight_decay", IS_NUMBER, g->weight_decay },
		{ "maximize", IS_NO, 0 },
		{ "foreach", IS_NONE, 0 },
		{ "differentiable", IS_NO, 0 },
		{ "fused", IS_NONE, 0 },
		{ "params", IS_PARAMETERS, 0 },
	};
	const struct option adam[] = {
		{ "betas", IS_BETAS, 0 },
		{ "eps", IS_NUMBER, g->eps },
		{ "amsgrad", IS_NO, 0 },
		{ "capturable", IS_NO, 0 },
		{ "decoupled_weight_decay", yes_or_no(g->kind == ZR_GIVEN_ADAMW), 0 },
	};
	const struct option sgd[] = {
		{ "momentum", IS_NUMBER, g->momentum },
		{ "dampening", IS_NUMBER, g->dampening },
		{ "nesterov", yes_or_no(g->nesterov), 0 },
	};
	const int is_sgd = g->kind == ZR_GIVEN_SGD;
	const struct option *own = is_sgd ? sgd : adam;
	const size_t n = is_sgd ? sizeof sgd / sizeof *sgd : sizeof adam / sizeof *adam;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
		rc = write_option(j, k, &all[i], err);
	for (size_t i = 0; !rc && i < n; i++)
		rc = write_option(j, k, &own[i], err);
	return rc;
}

static int write_data(struct job *j, const char *dir, struct zr_error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/" DATA, dir);
	int rc = zr_torch_create(&j->w, path, err);
	if (rc)
		return rc;

	rc = write_tensors(j, err);
	for (int32_t k = 0; !rc && k < j->h->groups; k++)
		rc = write_group(j, k, err);
	return zr_torch_finish(&j->w, rc, err);
}

/* ---- .metadata ---- */

static const int64_t zeros[8];

static void pickle_shape(const struct job *j, const struct value *v, int32_t *ndim,
			 const int64_t **dims)
{
	*ndim = 0;
	*dims = zeros;
	if (v->tensor < 0)
		return;

	const struct zr_tensor *t = j->h->m->layout.tensor[v->tensor].decl;
	*ndim = (int32_t)t->ndim;
	*dims = t->dims;
}

/* dtype, layout, requires_grad, memory format, pinned: their form of five, which all read. */
static void pickle_properties(struct zr_pickler *p)
{
	zr_pickle_name(p, METADATA, "TensorProperties");
	zr_pickle_object(p);
	zr_pickle_open_tuple(p);
	zr_pickle_name(p, "torch", "float32");
	zr_pickle_name(p, "torch.serialization", "_get_layout");
	zr_pickle_open_tuple(p);
	zr_pickle_text(p, "torch.strided");
	zr_pickle_close_tuple(p);
	zr_pickle_call(p);
	zr_pickle_bool(p, 0);
	zr_pickle_name(p, METADATA, "_MEM_FORMAT_ENCODING");
	zr_pickle_open_tuple(p);
	zr_pickle_whole(p, 0);
	zr_pickle_close_tuple(p);
	zr_pickle_call(p);
	zr_pickle_bool(p, 0);
	zr_pickle_close_tuple(p);
	zr_pickle_set(p);
}

/* A tensor is in one part, which is all of it. */
static void pickle_tensor(struct zr_pickler *p, const struct job *j, const struct value *v)
{
	const int64_t *dims;
	int32_t ndim;

	pickle_shape(j, v, &ndim, &dims);
	zr_pickle_name(p, METADATA, "TensorStorageMetadata");
	zr_pickle_object(p);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "properties");
	pickle_properties(p);
	zr_pickle_text(p, "size");
	zr_pickle_size(p, ndim, dims);
	zr_pickle_text(p, "chunks");
	zr_pickle_open_list(p);
	zr_pickle_name(p, METADATA, "ChunkStorageMetadata");
	zr_pickle_object(p);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "offsets");
	zr_pickle_size(p, ndim, zeros);
	zr_pickle_text(p, "sizes");
	zr_pickle_size(p, ndim, dims);
	zr_pickle_close_dict(p);
	zr_pickle_set(p);
	zr_pickle_close_list(p);
	zr_pickle_close_dict(p);
	zr_pickle_set(p);
}

static void pickle_what(struct zr_pickler *p, const struct job *j)
{
	char key[1024];

	zr_pickle_text(p, "state_dict_metadata");
	zr_pickle_open_dict(p);
	for (int64_t i = 0; i < j->n; i++) {
		zr_pickle_text(p, key_of(&j->value[i], key));
		if (j->value[i].name) {
			pickle_tensor(p, j, &j->value[i]);
			continue;
		}

		zr_pickle_name(p, METADATA, "BytesStorageMetadata");
		zr_pickle_object(p);
	}
	zr_pickle_close_dict(p);
}

/* Where in the nested dictionaries a value is. */
static void pickle_path(struct zr_pickler *p, const struct value *v)
{
	zr_pickle_open_tuple(p);
	zr_pickle_text(p, v->name && !v->state ? "model" : "optim");
	if (!v->name) {
		zr_pickle_text(p, "param_groups");
		zr_pickle_whole(p, v->group);
		zr_pickle_text(p, v->option);
	} else if (v->state) {
		zr_pickle_text(p, "state");
		zr_pickle_text(p, v->name);
		zr_pickle_text(p, v->state);
	} else {
		zr_pickle_text(p, v->name);
	}
	zr_pickle_close_tuple(p);
}

static void pickle_paths(struct zr_pickler *p, const struct job *j)
{
	char key[1024];

	zr_pickle_text(p, "planner_data");
	zr_pickle_open_dict(p);
	for (int64_t i = 0; i < j->n; i++) {
		zr_pickle_text(p, key_of(&j->value[i], key));
		pickle_path(p, &j->value[i]);
	}
	zr_pickle_close_dict(p);
}

static void pickle_index(struct zr_pickler *p, const struct job *j, const struct value *v)
{
	char key[1024];
	const int64_t *dims;
	int32_t ndim;

	pickle_shape(j, v, &ndim, &dims);
	zr_pickle_name(p, METADATA, "MetadataIndex");
	zr_pickle_object(p);
	zr_pickle_open_dict(p);
	zr_pickle_text(p, "fqn");
	zr_pickle_text(p, key_of(v, key));
	if (v->name) {
		zr_pickle_text(p, "offset");
		zr_pickle_size(p, ndim, zeros);
	}
	zr_pickle_text(p, "index");
	zr_pickle_none(p);
	zr_pickle_close_dict(p);
	zr_pickle_set(p);
}

static void pickle_places(struct zr_pickler *p, const struct job *j)
{
	zr_pickle_text(p, "storage_data");
	zr_pickle_open_dict(p);
	for (int64_t i = 0; i < j->n; i++) {
		const struct value *v = &j->value[i];
		pickle_index(p, j, v);
		zr_pickle_name(p, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
		zr_pickle_object(p);
		zr_pickle_open_dict(p);
		zr_pickle_text(p, "relative_path");
		zr_pickle_text(p, DATA);
		zr_pickle_text(p, "offset");
		zr_pickle_whole(p, (int64_t)v->at);
		zr_pickle_text(p, "length");
		zr_pickle_whole(p, (int64_t)v->bytes);
		zr_pickle_close_dict(p);
		zr_pickle_set(p);
	}
	zr_pickle_close_dict(p);
}

static void pickle_metadata(struct zr_pickler *p, const struct job *j)
{
	zr_pickler_open(p);
	zr_pickle_name(p, METADATA, "Metadata");
	zr_pickle_object(p);
	zr_pickle_open_dict(p);
	pickle_what(p, j);
	pickle_paths(p, j);
	pickle_places(p, j);
	zr_pickle_text(p, "storage_meta");
	zr_pickle_none(p);
	zr_pickle_text(p, "version");
	zr_pickle_text(p, "1.0.0");
	zr_pickle_close_dict(p);
	zr_pickle_set(p);
	zr_pickler_close(p);
}

static int write_metadata(const struct job *j, const char *dir, struct zr_error *err)
{
	struct zr_pickler p;
	char path[PATH_MAX];
	int no = ENOMEM;

	snprintf(path, sizeof path, "%s/.metadata", dir);
	pickle_metadata(&p, j);
	if (!p.failed)
		no = zr_file_put(AT_FDCWD, path, p.bytes, p.n);
	zr_pickler_free(&p);
	return no ? zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no)) : 0;
}

int zr_give_dcp(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		struct zr_error *err)
{
	struct job j = { .h = h };

	(void)how;
	int rc = zr_handover_check_scale(h, err);
	if (!rc)
		rc = write_data(&j, dir, err);
	if (!rc)
		rc = write_metadata(&j, dir, err);
	free(j.value);
	return rc;
}
