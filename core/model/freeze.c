/* SPDX-License-Identifier: Apache-2.0
 *
 * freeze.c - see optimizers.h. What is frozen needs other memory than what training changes, so a
 * unit of both becomes several, each a run of its tensors of one kind. Tensors keep their order and
 * numbers, and a layer gets those of its units one after the other, as the model declares them.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/setup.h"

/* All tensors of the model, in canonical order. */
struct tensors {
	const struct zr_tensor **at;
	size_t n;
};

static int list_tensors(const struct zr_model_decl *m, struct tensors *all, struct zr_error *err)
{
	size_t n = 0;
	for (uint32_t u = 0; u < m->n_units; u++)
		n += zr_unit_at(m, u)->n_tensors;
	all->at = calloc(n + 1, sizeof *all->at);
	if (!all->at)
		return zr_err(err, ZR_ENOMEM, "out of memory for the units of the model");
	for (uint32_t u = 0; u < m->n_units; u++)
		for (uint32_t i = 0; i < zr_unit_at(m, u)->n_tensors; i++)
			all->at[all->n++] = zr_tensor_at(m, zr_unit_at(m, u), i);
	return 0;
}

/* ---- which ---- */

static int freeze(struct zr_setup *s, const struct tensors *all, const char *word, size_t len, struct zr_error *err)
{
	char pattern[ZR_PATTERN];
	size_t fits = 0;
	if ((size_t)snprintf(pattern, sizeof pattern, "%.*s", (int)len, word) >= sizeof pattern)
		return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
				       "freeze: a pattern of more than %d bytes", ZR_PATTERN - 1);
	for (size_t n = 0; n < all->n; n++)
		if (!fnmatch(pattern, all->at[n]->name, 0)) {
			s->frozen[n] = 1;
			fits++;
		}
	return fits ? 0 : zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
					  "freeze: no tensor has a name like %s", pattern);
}

/* What training does not change: what the model itself says, and [train] freeze. */
static int freeze_all(struct zr_setup *s, const struct tensors *all, struct zr_error *err)
{
	const char *list = s->train->freeze, *word;
	size_t len;
	int rc = 0;
	for (size_t n = 0; n < all->n; n++)
		s->frozen[n] = zr_tensor_flags(&s->decl, all->at[n]) & ZR_TENSOR_FROZEN;
	while (!rc && (word = zr_next_word(&list, &len)))
		rc = freeze(s, all, word, len, err);
	if (!rc && !memchr(s->frozen, 0, all->n))
		rc = zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
				     "freeze: all tensors are frozen: nothing is left to train");
	return rc;
}

/* Whether values are drawn or read makes no difference to what [model] store stores. */
static int store(struct zr_setup *s, const struct tensors *all, struct zr_error *err)
{
	static const int32_t types[] = { 0, ZR_BF16, ZR_INT8, ZR_NF4 }; /* by zr_section.store */
	int known = s->decl.tensor_stride >= sizeof **all->at;
	size_t stored = 0;
	s->stored = types[s->model.section->store];
	for (size_t n = 0; n < all->n && s->stored && known; n++)
		if (s->frozen[n] && all->at[n]->map != ZR_MAP_NONE) {
			s->frozen[n] = 2;
			stored++;
		}
	return !s->stored || stored ? 0 : zr_config_blame(s->cfg, "model", ZR_EINVAL, err,
		"store: no linear map of the model is frozen: it needs [adapter], or [train] freeze");
}

/* ---- units of one kind ---- */

struct parts {
	struct zr_unit *unit;
	struct zr_layer *layer;
	int32_t *list; /* the units of all layers */
	char *name;
	size_t units, listed, letters;
};

/* A unit's parts; p->unit NULL: counts them. frozen: of its tensors. */
static void cut_unit(struct zr_setup *s, struct parts *p, const struct zr_unit *u, const uint8_t *frozen)
{
	size_t room = strlen(u->name) + 12;
	for (uint32_t from = 0, to, k = 1; from < u->n_tensors; from = to, k++) {
		for (to = from + 1; to < u->n_tensors && frozen[to] == frozen[from];)
			to++;
		if (p->unit) {
			char *name = p->name + p->letters;
			snprintf(name, room, to - from == u->n_tensors ? "%s" : "%s/%u", u->name, k);
			p->unit[p->units] = (struct zr_unit){ name, zr_tensor_at(&s->decl, u, from), to - from, 0 };
			s->frozen_unit[p->units] = frozen[from];
		}
		p->units++;
		p->letters += room;
	}
}

static void cut_layer(struct zr_setup *s, struct parts *p, uint32_t i)
{
	const struct zr_layer *l = zr_layer_at(&s->decl, (int32_t)i);
	size_t first = p->listed;
	for (uint32_t k = 0; k < l->n_units; k++)
		for (int32_t u = s->first_part[l->units[k]]; u < s->first_part[l->units[k] + 1]; u++, p->listed++)
			if (p->unit)
				p->list[p->listed] = u;
	if (p->unit)
		p->layer[i] = (struct zr_layer){ l->name, p->list + first, (uint32_t)(p->listed - first), l->flags };
}

static void cut(struct zr_setup *s, struct parts *p)
{
	const uint8_t *frozen = s->frozen;
	p->units = p->listed = p->letters = 0;
	for (uint32_t u = 0; u < s->decl.n_units; u++) {
		s->first_part[u] = (int32_t)p->units;
		cut_unit(s, p, zr_unit_at(&s->decl, u), frozen);
		frozen += zr_unit_at(&s->decl, u)->n_tensors;
	}
	s->first_part[s->decl.n_units] = (int32_t)p->units;
	for (uint32_t i = 0; i < s->decl.n_layers; i++)
		cut_layer(s, p, i);
}

/* The declaration with the parts as its units. */
static int take_parts(struct zr_setup *s, struct zr_error *err)
{
	struct zr_model_decl *m = &s->decl;
	struct parts p = { 0 };
	cut(s, &p);
	size_t layers = m->n_layers * sizeof *p.layer, lists = p.listed * sizeof *p.list;
	s->frozen_unit = calloc(p.units + 1, 1);
	p.unit = s->parts = malloc((p.units + 1) * sizeof *p.unit + layers + lists + p.letters);
	if (!s->frozen_unit || !s->parts)
		return zr_err(err, ZR_ENOMEM, "out of memory for the units of the model");
	p.layer = (struct zr_layer *)(p.unit + p.units + 1);
	p.list = (int32_t *)((char *)p.layer + layers);
	p.name = (char *)p.list + lists;
	cut(s, &p);
	s->model_units = (int32_t)m->n_units;
	m->units = p.unit;
	m->n_units = (uint32_t)p.units;
	m->unit_stride = sizeof *p.unit;
	m->layers = p.layer;
	m->layer_stride = sizeof *p.layer;
	return 0;
}

int64_t zr_model_unit(const struct zr_setup *s, int32_t unit)
{
	int64_t n = 0;
	for (int32_t u = s->first_part[unit]; u < s->first_part[unit + 1]; u++)
		n += s->layout.unit[u].elements;
	return n;
}

int zr_frozen_find(struct zr_setup *s, struct zr_error *err)
{
	struct tensors all = { 0 };
	int rc = list_tensors(&s->decl, &all, err), trains = !s->evaluates && s->mode != ZR_SETUP_SAMPLE;
	s->frozen = calloc(all.n + 1, 1);
	s->first_part = calloc((size_t)s->decl.n_units + 1, sizeof *s->first_part);
	if (!rc && (!s->frozen || !s->first_part))
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the units of the model");
	if (!rc && (trains || s->model.section->store))
		rc = freeze_all(s, &all, err);
	rc = rc ? rc : store(s, &all, err);
	for (size_t n = 0; n < all.n && !rc && !trains; n++)
		s->frozen[n] = s->frozen[n] > 1 ? 2 : (uint8_t)s->evaluates;
	free(all.at);
	return rc ? rc : take_parts(s, err);
}
