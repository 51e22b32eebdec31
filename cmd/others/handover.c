/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.c - see handover.h: what is opened, how tensors are called there, and their values.
 */
#include "cmd/others/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zeroth/model.h>

#include "core/base/text.h"
#include "core/pretrained/pretrained.h"
#include "train/weights/declare.h"

void zr_handover_close(struct zr_handover *h)
{
	for (int32_t i = 0; h->name && i < h->n; i++)
		free(h->name[i]);
	free(h->name);
	free(h->group);
	free(h->head);
	free(h->x);
	if (h->m)
		zr_origin_close(&h->origin);
	zr_setup_close(h->setup);
	zr_config_free(h->cfg);
	*h = (struct zr_handover){ 0 };
}

/* ---- what is refused ---- */

static int refuse(const struct zr_handover *h, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: %s; without --to its weights are exported",
		      h->origin.saved.path, what);
}

static int check_manifest(const struct zr_handover *h, struct zr_error *err)
{
	const char *misfit = json_string_value(json_object_get(h->m->meta, ZR_META_MISFIT));

	if (json_object_get(h->m->plugins, "adapter"))
		return refuse(h, "[adapter]: states of adapters are not exported", err);
	if (!h->m->config)
		return refuse(h, "it has no configuration: an older zeroth wrote it", err);
	if (!h->m->applied)
		return refuse(h, "it has had no update: there are no states to go on from", err);
	if (h->m->layout.persistent)
		return refuse(h, "its model has persistent numbers, which no optimizer has", err);
	if (!misfit)
		return 0;
	return zr_err(err, ZR_EINVAL, "no class of transformers computes this model: [model] %s",
		      misfit);
}

static int check_experts(const struct zr_handover *h, struct zr_error *err)
{
	for (int32_t i = 0; i < h->n; i++)
		if (strstr(h->name[i], ".experts."))
			return zr_err(
				err, ZR_EINVAL,
				"%s: tensor %s: transformers has all experts of a block in "
				"one parameter, for which --to does not join moments; without "
				"--to its weights are exported",
				h->origin.saved.path, h->name[i]);

	return 0;
}

/* ---- names ---- */

/* What some files of a model have before its names stands in transformers before all of them, but
 * for the head. */
static char *name_there(const struct zr_pretrained_v1 *v, const char *name)
{
	const char *prefix = v && v->prefix ? v->prefix : "";

	if (!strncmp(name, prefix, strlen(prefix)) || !strcmp(name, "lm_head.weight"))
		return strdup(name);
	return zr_text("%s%s", prefix, name);
}

static int32_t tensor_named(const struct zr_handover *h, const char *name, size_t n)
{
	for (int32_t i = 0; i < h->n; i++) {
		const char *is = h->m->layout.tensor[i].decl->name;
		if (strlen(is) == n && !memcmp(is, name, n))
			return i;
	}

	return -1;
}

/* "HEAD=TENSOR" among what the model's files may have: the head of a model without one. */
static int find_head(struct zr_handover *h, const struct zr_pretrained_v1 *v, struct zr_error *err)
{
	const char *words = v && v->ignored ? v->ignored : "", *word;
	size_t n;

	while ((word = zr_next_word(&words, &n))) {
		const char *of = memchr(word, '=', n);
		const size_t head = of ? (size_t)(of - word) : 0;
		if (!of || tensor_named(h, word, head) >= 0)
			continue;

		h->embedding = tensor_named(h, of + 1, n - head - 1);
		if (h->embedding < 0)
			continue;

		h->head = strndup(word, head);
		return h->head ? 0 : zr_no_memory(err);
	}

	return 0;
}

static int find_names(struct zr_handover *h, struct zr_error *err)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(h->setup->roles.model.section->plugin);

	h->name = calloc((size_t)h->n + 1, sizeof *h->name);
	for (int32_t i = 0; h->name && i < h->n; i++) {
		h->name[i] = name_there(v, h->m->layout.tensor[i].decl->name);
		if (!h->name[i])
			return zr_no_memory(err);
	}

	if (!h->name)
		return zr_no_memory(err);
	return find_head(h, v, err);
}

/* ---- states of other types ---- */

static const struct zr_optimizer *optimizer_of(const struct zr_handover *h, int32_t tensor)
{
	const struct zr_setup_roles *r = &h->setup->roles;
	return &r->optimizer[zr_optimizer_of(r, tensor)];
}

/* An entry of a state in fp32: the optimizer makes it of what it was kept in. */
static int convert(void *arg, const struct zr_ckpt_entry *e, void *raw, float *to,
		   struct zr_error *err)
{
	struct zr_handover *h = arg;
	const struct zr_ckpt_optimizer *was = &h->m->optimizer[h->m->optimizer_of[e->tensor]];
	const struct zr_ckpt_state *st = &was->state[e->state];
	struct zr_setup_roles *r = &h->setup->roles;
	struct zr_optimizer *o = &r->optimizer[zr_optimizer_of(r, e->tensor)];
	const struct zr_optimizer_v1 *v = o->it.vtbl;
	struct zr_buf old[ZR_STATES_MAX] = { 0 }, now[ZR_STATES_MAX] = { 0 };
	const uint64_t n = (uint64_t)(e->blocks * ZR_BLOCK);

	if (st->dtype == ZR_F32 && was->state_version == v->state_version) {
		memcpy(to, raw, (size_t)e->elements * sizeof *to);
		return 0;
	}

	old[e->state] = (struct zr_buf){ raw, n, st->dtype == ZR_U8 ? 0 : st->dtype, ZR_MEM_HOST };
	now[e->state] = (struct zr_buf){ to, n, ZR_F32, ZR_MEM_HOST };
	return zr_instance_failed(&o->it,
				  v->upgrade(o->it.inst, was->state_version, old, o->n_states, now),
				  "upgrade", err);
}

/* The optimizers keep their states in fp32 here: what they make of others is that. */
static int widen_states(struct zr_handover *h, struct zr_error *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < zr_config_count(h->cfg); i++) {
		const struct zr_section *s = zr_config_at(h->cfg, i);
		const struct zr_opt *o = s->role && !strcmp(s->role, "optimizer") && !s->like ?
						 zr_table_find(&s->table, "states") :
						 NULL;
		if (o)
			rc = zr_value_parse(o, "fp32", s->opts, err);
	}

	return rc;
}

/* Whether the optimizers have here what the checkpoint has of them. */
static int check_states(const struct zr_handover *h, int32_t tensor, struct zr_error *err)
{
	const struct zr_ckpt_optimizer *was = &h->m->optimizer[h->m->optimizer_of[tensor]];
	const struct zr_optimizer *o = optimizer_of(h, tensor);
	const struct zr_optimizer_v1 *v = o->it.vtbl;
	int same = was->state_version == v->state_version;
	int alike = was->n_states == (int32_t)o->n_states;

	for (int32_t i = 0; alike && i < was->n_states; i++) {
		const struct zr_state *st = zr_optimizer_state(o, (uint32_t)i);
		alike = !strcmp(was->state[i].name, st->name) && st->dtype == ZR_F32;
		same &= was->state[i].dtype == ZR_F32;
	}

	if (alike && (same || (ZR_HAS(v, struct zr_optimizer_v1, upgrade) && v->upgrade)))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s: states of optimizer %s that are not in fp32, and which the "
		      "plugin that is here does not convert; without --to its weights are exported",
		      h->origin.saved.path, h->name[tensor], was->id);
}

/* ---- all of it ---- */

static int declare(struct zr_handover *h, struct zr_error *err)
{
	static const char *const o[] = { "model.path=" };
	const char *path = h->origin.saved.path;

	int rc = zr_declare_config(h->m->config, path, o, 1, &h->cfg, err);
	if (!rc)
		rc = zr_declare(h->cfg, &h->setup, err);
	if (!rc)
		rc = zr_saved_fits(&h->origin.saved, &h->setup->facts.layout, err);
	if (!rc)
		rc = widen_states(h, err);
	if (!rc)
		rc = zr_declare_optimizers(h->setup, err);
	if (rc)
		return rc;

	h->origin.declared = &h->setup->facts.layout;
	h->origin.saved.convert = convert;
	h->origin.saved.convert_arg = h;
	return zr_origin_open_base(&h->origin, h->setup, err);
}

static int open_all(struct zr_handover *h, struct zr_error *err)
{
	int rc = check_manifest(h, err);
	if (!rc)
		rc = declare(h, err);
	if (!rc)
		rc = find_names(h, err);
	if (!rc)
		rc = check_experts(h, err);
	if (!rc)
		rc = zr_handover_find_groups(h, err);
	for (int32_t i = 0; !rc && i < h->n; i++)
		if (h->group[i] >= 0)
			rc = check_states(h, i, err);
	if (rc)
		return rc;

	h->x = malloc(ZR_HANDOVER_CHUNK * sizeof *h->x);
	return h->x ? 0 : zr_no_memory(err);
}

int zr_handover_open(const char *path, struct zr_handover *h, struct zr_error *err)
{
	*h = (struct zr_handover){ .percent = -1 };
	int rc = zr_saved_open(path, &h->origin.saved, err);
	if (rc)
		return rc;

	h->m = &h->origin.saved.m;
	h->n = h->m->layout.n_tensors;
	return open_all(h, err);
}

int32_t zr_handover_states(const struct zr_handover *h, int32_t tensor)
{
	if (h->group[tensor] < 0)
		return 0;
	return h->m->optimizer[h->m->optimizer_of[tensor]].n_states;
}

const char *zr_handover_state(const struct zr_handover *h, int32_t tensor, int32_t state)
{
	return h->m->optimizer[h->m->optimizer_of[tensor]].state[state].name;
}

static int read_some(struct zr_handover *h, int32_t tensor, int32_t state, int64_t first, int64_t n,
		     struct zr_error *err)
{
	if (h->group[tensor] >= 0)
		return zr_saved_read_state(&h->origin.saved, tensor, state, first, n, h->x, err);
	return zr_origin_read(&h->origin, tensor, first, n, h->x, err);
}

/* How far it is, for who looks at a terminal. */
static void show_progress(struct zr_handover *h, uint64_t bytes)
{
	h->done += bytes;
	const int now = h->all ? (int)(100.0 * (double)h->done / (double)h->all) : 100;
	if (now == h->percent || !isatty(STDERR_FILENO))
		return;

	h->percent = now;
	fprintf(stderr, "\r%3d %%\r", now);
}

int zr_handover_give(struct zr_handover *h, int32_t tensor, int32_t state, zr_given_fn *fn,
		     void *arg, struct zr_error *err)
{
	const int64_t all = h->m->layout.tensor[tensor].elements;
	int rc = 0;

	for (int64_t at = 0, n; !rc && at < all; at += n) {
		n = all - at < ZR_HANDOVER_CHUNK ? all - at : ZR_HANDOVER_CHUNK;
		rc = read_some(h, tensor, state, at, n, err);
		if (rc)
			break;

		fn(arg, h->x, n);
		show_progress(h, (uint64_t)n * sizeof *h->x);
	}

	return rc;
}

const struct zr_scale *zr_handover_scale(const struct zr_handover *h)
{
	return h->setup->facts.types.scaled ? &h->m->scale : NULL;
}

int zr_handover_check_scale(const struct zr_handover *h, struct zr_error *err)
{
	if (!zr_handover_scale(h))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: it has a loss scale, %g, for which torch.distributed.checkpoint has no "
		      "place; --to universal has one",
		      h->origin.saved.path, h->m->scale.scale);
}
