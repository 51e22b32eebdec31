/* SPDX-License-Identifier: Apache-2.0
 *
 * give_parts.c - the safetensors form of torch.distributed.checkpoint (PyTorch 2.15,
 * hf_storage.py, _hf_utils.py): the same tensors as give_dcp.c, under the same keys. It has no
 * place for options of parameter groups: they are in the files' metadata, for `zeroth checkpoint
 * import`.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/handover.h"
#include "cmd/others/others.h"
#include "core/base/json.h"
#include "core/base/text.h"

enum { WEIGHT = -1, STEP = -2 };

/* A tensor of the files. */
struct part {
	char *key;
	int32_t tensor;
	int32_t state; /* or WEIGHT, STEP */
	int32_t file;
};

struct job {
	struct zr_handover *h;
	struct part *part;
	int64_t n, room;
	int32_t files;
	uint64_t bytes; /* of the last file so far */
	uint64_t most;
	struct zr_st_writer w;
};

/* ---- which tensor is in which file ---- */

static struct zr_st_tensor tensor_of(const struct job *j, const struct part *p, uint64_t at)
{
	const struct zr_tensor *t = j->h->m->layout.tensor[p->tensor].decl;
	const int32_t ndim = p->state == STEP ? 0 : (int32_t)t->ndim;
	return zr_st_make(p->key, ZR_F32, ndim, t->dims, at);
}

/* Takes the key. */
static int add_part(struct job *j, char *key, int32_t tensor, int32_t state, struct zr_error *err)
{
	struct part p = { .key = key, .tensor = tensor, .state = state };

	if (key && j->n == j->room) {
		const int64_t room = 2 * j->room + 64;
		struct part *more = realloc(j->part, (size_t)room * sizeof *more);
		if (more) {
			j->part = more;
			j->room = room;
		}
	}

	if (!key || j->n == j->room) {
		free(key);
		return zr_no_memory(err);
	}

	const uint64_t bytes = tensor_of(j, &p, 0).bytes;
	if (j->bytes && j->bytes + bytes > j->most) {
		j->files++;
		j->bytes = 0;
	}

	j->bytes += bytes;
	p.file = j->files;
	j->part[j->n++] = p;
	return 0;
}

static int add_tensor(struct job *j, int32_t i, struct zr_error *err)
{
	const struct zr_handover *h = j->h;

	int rc = add_part(j, zr_text("model.%s", h->name[i]), i, WEIGHT, err);
	if (!rc && h->head && i == h->embedding)
		rc = add_part(j, zr_text("model.%s", h->head), i, WEIGHT, err);
	for (int32_t s = 0; !rc && s < zr_handover_states(h, i); s++)
		rc = add_part(j,
			      zr_text("optim.state.%s.%s", h->name[i], zr_handover_state(h, i, s)),
			      i, s, err);
	if (!rc && h->group[i] >= 0 && h->given[0].kind != ZR_GIVEN_SGD)
		rc = add_part(j, zr_text("optim.state.%s.step", h->name[i]), i, STEP, err);
	return rc;
}

static int add_tensors(struct job *j, struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < j->h->n; i++)
		rc = add_tensor(j, i, err);
	j->files++;
	return rc;
}

/* ---- metadata ---- */

static json_t *names_of(const struct zr_handover *h, int32_t group)
{
	json_t *names = json_array();
	for (int32_t i = 0; i < h->n; i++)
		if (h->group[i] == group)
			zr_json_add(&names, json_string(h->name[i]));
	return names;
}

static json_t *group_of(const struct zr_handover *h, int32_t k)
{
	const struct zr_given_group *g = &h->given[k];
	json_t *j = json_pack("{s:f, s:f, s:o}", "lr", g->next, "weight_decay", g->weight_decay,
			      "params", names_of(h, k));

	if (g->kind == ZR_GIVEN_SGD) {
		zr_json_put(&j, "momentum", json_real(g->momentum));
		return j;
	}

	zr_json_put(&j, "betas", json_pack("[f, f]", g->betas[0], g->betas[1]));
	zr_json_put(&j, "eps", json_real(g->eps));
	zr_json_put(&j, "decoupled_weight_decay", json_boolean(g->kind == ZR_GIVEN_ADAMW));
	return j;
}

static json_t *groups_of(const struct zr_handover *h)
{
	json_t *groups = json_array();
	for (int32_t k = 0; k < h->groups; k++)
		zr_json_add(&groups, group_of(h, k));
	return groups;
}

/* Each tensor is in one part, which begins at its first element. */
static json_t *offsets_of(const struct job *j, int32_t file)
{
	json_t *all = json_object();

	for (int64_t i = 0; i < j->n; i++) {
		const struct part *p = &j->part[i];
		const struct zr_st_tensor t = tensor_of(j, p, 0);
		json_t *offsets = json_array();
		for (int32_t d = 0; d < t.ndim; d++)
			zr_json_add(&offsets, json_integer(0));
		if (p->file == file)
			zr_json_put(&all, p->key, json_pack("{s:o}", "saved_offsets", offsets));
		else
			json_decref(offsets);
	}

	return all;
}

static void put_text(json_t **meta, const char *key, json_t *value)
{
	char *text = value ? zr_json_dump(value, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
	zr_json_put(meta, key, text ? json_string(text) : NULL);
	free(text);
	json_decref(value);
}

static json_t *meta_of(const struct job *j, int32_t file)
{
	json_t *meta = json_pack("{s:s, s:s}", "format", "pt", "DCP_VERSION", "1.0");
	put_text(&meta, "DCP_SHARDING_INFO", offsets_of(j, file));
	put_text(&meta, ZR_OTHER_GIVEN_GROUPS, groups_of(j->h));
	return meta;
}

/* ---- files ---- */

static void append(void *arg, const float *x, int64_t n)
{
	struct job *j = arg;
	zr_st_append(&j->w, x, (size_t)n * sizeof *x);
}

static int write_part(struct job *j, const struct part *p, struct zr_error *err)
{
	const float step = (float)j->h->m->applied;

	if (p->state != STEP)
		return zr_handover_give(j->h, p->tensor, p->state, append, j, err);
	append(j, &step, 1);
	return 0;
}

static int open_file(struct job *j, const char *path, int32_t file, struct zr_error *err)
{
	struct zr_st_tensor *t = calloc((size_t)j->n + 1, sizeof *t);
	json_t *meta = meta_of(j, file);
	uint64_t at = 0;
	int64_t n = 0;

	for (int64_t i = 0; t && i < j->n; i++) {
		if (j->part[i].file != file)
			continue;

		t[n] = tensor_of(j, &j->part[i], at);
		at += t[n++].bytes;
	}

	int rc = t && meta ? zr_st_create(&j->w, path, t, n, meta, err) : zr_no_memory(err);
	json_decref(meta);
	free(t);
	return rc;
}

static int write_file(struct job *j, const char *dir, int32_t file, struct zr_error *err)
{
	char path[PATH_MAX];
	int kept;

	snprintf(path, sizeof path, "%.3900s/shard-00001-model-%05d-of-%05d.safetensors", dir,
		 file + 1, j->files);
	int rc = open_file(j, path, file, err);
	if (rc)
		return rc;

	for (int64_t i = 0; !rc && i < j->n; i++)
		if (j->part[i].file == file)
			rc = write_part(j, &j->part[i], err);
	kept = zr_st_finish(&j->w, !rc, err);
	return rc ? rc : kept;
}

int zr_give_parts(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		  struct zr_error *err)
{
	struct job j = { .h = h, .most = how->shard_bytes };

	int rc = zr_handover_check_scale(h, err);
	if (!rc)
		rc = add_tensors(&j, err);
	for (int32_t k = 0; !rc && k < j.files; k++)
		rc = write_file(&j, dir, k, err);
	for (int64_t i = 0; i < j.n; i++)
		free(j.part[i].key);
	free(j.part);
	return rc;
}
