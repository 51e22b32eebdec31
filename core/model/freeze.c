/* SPDX-License-Identifier: Apache-2.0
 *
 * freeze.c - see optimizers.h. What is frozen needs other memory than what training changes, so a
 * unit of both becomes several, each a run of its tensors of one kind. Tensors keep their order and
 * numbers, and a layer gets those of its units one after the other, as the model declares them.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/declared.h"
#include "core/setup.h"

/* ---- which ---- */

/* Gives the tensors whose names the pattern fits to `take`, and adds to *taken what that returns.
 * Returns how many there are. */
static int32_t match_tensors(struct zr_setup *s, const char *pattern, zr_match_fn *take,
			     int32_t *taken)
{
	const struct zr_layout *l = &s->facts.layout;
	int32_t fits = 0;
	for (int32_t i = 0; i < l->n_tensors; i++) {
		if (fnmatch(pattern, l->tensor[i].decl->name, 0))
			continue;
		fits++;
		*taken += take(s, i);
	}
	return fits;
}

int32_t zr_match_tensors(struct zr_setup *s, const char *section, const char *key, const char *list,
			 zr_match_fn *take, zr_match_fn *take_out, struct zr_error *err)
{
	const struct zr_layout *l = &s->facts.layout;
	const char *word;
	char pattern[256];
	int32_t taken = 0, last = l->n_tensors - 1;

	for (size_t len; (word = zr_next_word(&list, &len));) {
		const int out = take_out && *word == '!';
		int32_t by_word = 0;
		if (len >= sizeof pattern)
			return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
					       "%s: a pattern of more than %zu bytes", key,
					       sizeof pattern - 1);

		snprintf(pattern, sizeof pattern, "%.*s", (int)len, word);
		if (!match_tensors(s, pattern + out, out ? take_out : take, &by_word))
			return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
					       "%s: no tensor has a name like %s; their names are "
					       "like %s and %s",
					       key, pattern + out, l->tensor[0].decl->name,
					       l->tensor[last < 2 ? last : 2].decl->name);
		if (out && !by_word)
			return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
					       "%s: %s takes out no tensor that a pattern before "
					       "it names: put it behind one that does, as in * "
					       "%s",
					       key, pattern, pattern);

		taken += by_word;
	}
	return taken;
}

static int freeze(struct zr_setup *s, int32_t tensor)
{
	return s->facts.frozen[tensor] = 1;
}

/* Takes back what a pattern said, not what the model itself says. Returns whether it did. */
static int thaw(struct zr_setup *s, int32_t tensor)
{
	const uint8_t was = s->facts.frozen[tensor];
	s->facts.frozen[tensor] = s->facts.layout.tensor[tensor].flags & ZR_TENSOR_FROZEN;
	return s->facts.frozen[tensor] != was;
}

/* What training does not change: what the model itself says, and [train] freeze. */
static int freeze_all(struct zr_setup *s, struct zr_error *err)
{
	size_t n = (size_t)s->facts.layout.n_tensors;
	for (size_t i = 0; i < n; i++)
		s->facts.frozen[i] = s->facts.layout.tensor[i].flags & ZR_TENSOR_FROZEN;
	int rc = zr_match_tensors(s, "train", "freeze", s->facts.train->freeze, freeze, thaw, err);
	if (rc < 0)
		return rc;
	if (memchr(s->facts.frozen, 0, n))
		return 0;
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
			       "freeze: all tensors are frozen: nothing is left to train");
}

/* Whether values are drawn or read makes no difference to what [model] store stores. */
static int store(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	static const int32_t types[] = { 0, ZR_BF16, ZR_INT8, ZR_NF4 }; /* by zr_section.store */
	int known = ZR_TENSOR_HAS(&f->decl, map), stored = 0;
	f->stored = types[s->roles.model.section->store];
	for (int32_t i = 0; i < f->layout.n_tensors && f->stored && known; i++)
		if (f->frozen[i] && f->layout.tensor[i].decl->map != ZR_MAP_NONE)
			stored = f->frozen[i] = 2;
	if (!f->stored || stored)
		return 0;
	return zr_config_blame(s->cfg, "model", ZR_EINVAL, err,
			       "store: no linear map of the model is "
			       "frozen: it needs [adapter], or [train] "
			       "freeze");
}

/* ---- units of one kind ---- */

struct parts {
	struct zr_unit *unit;
	struct zr_layer *layer;
	int32_t *list;  /* the units of all layers */
	int32_t *first; /* [declared units + 1] part of each */
	char *name;
	size_t units, listed, letters;
};

/* A unit's parts; p->unit NULL: counts them. */
static void cut_unit(struct zr_setup_facts *f, struct parts *p, const struct zr_unit_place *u)
{
	const struct zr_place *t = &f->layout.tensor[u->first];
	const uint8_t *frozen = &f->frozen[u->first];
	size_t room = strlen(u->name) + 12;
	for (int32_t from = 0, to, k = 1; from < u->count; from = to, k++) {
		for (to = from + 1; to < u->count && frozen[to] == frozen[from];)
			to++;
		if (p->unit) {
			char *name = p->name + p->letters;
			snprintf(name, room, to - from == u->count ? "%s" : "%s/%d", u->name, k);
			p->unit[p->units] =
				(struct zr_unit){ name, t[from].decl, (uint32_t)(to - from), 0 };
			f->frozen_unit[p->units] = frozen[from];
		}

		p->units++;
		p->letters += room;
	}
}

/* Of the units of a layer's experts, or beside them, that begin at `from`. */
static int some_are_cut(const struct parts *p, const struct zr_layer *l, int32_t from)
{
	const int32_t *unit = l->units + from;

	for (int32_t g = 0; g < l->n_experts; g++)
		if (p->first[unit[g] + 1] - p->first[unit[g]] > 1)
			return 1;
	return 0;
}

static void cut_layer(struct zr_setup_facts *f, struct parts *p, uint32_t i)
{
	const struct zr_layer *l = zr_layer_at(&f->decl, (int32_t)i);
	size_t first = p->listed, tensors = 0;
	const int known_experts = zr_says_experts(&f->decl) && l->n_experts;
	int32_t experts = 0, beside = 0;
	for (uint32_t k = 0; k < l->n_units; k++) {
		tensors += (size_t)f->layout.unit[l->units[k]].count;
		if (known_experts && k == (uint32_t)l->first_expert)
			experts = (int32_t)(p->listed - first);
		if (known_experts && k && k == (uint32_t)l->first_beside)
			beside = (int32_t)(p->listed - first);
		for (int32_t u = p->first[l->units[k]]; u < p->first[l->units[k] + 1];
		     u++, p->listed++)
			if (p->unit)
				p->list[p->listed] = u;
	}

	if (tensors > f->most_tensors)
		f->most_tensors = tensors;
	if (!p->unit)
		return;

	/* a model of before may say less of a layer */
	size_t known = f->decl.layer_stride;
	if (known > sizeof *l)
		known = sizeof *l;
	p->layer[i] = (struct zr_layer){ 0 };
	memcpy(&p->layer[i], l, known);
	p->layer[i].units = p->list + first;
	p->layer[i].n_units = (uint32_t)(p->listed - first);
	if (!known_experts)
		return;

	p->layer[i].first_expert = experts;
	p->layer[i].first_beside = beside;
	if (some_are_cut(p, l, l->first_expert) ||
	    (l->first_beside && some_are_cut(p, l, l->first_beside)))
		p->layer[i].first_expert = -1; /* they are none any more */
}

static void cut(struct zr_setup_facts *f, struct parts *p)
{
	p->units = p->listed = p->letters = 0;
	for (int32_t u = 0; u < f->layout.n_units; u++) {
		p->first[u] = (int32_t)p->units;
		cut_unit(f, p, &f->layout.unit[u]);
	}
	p->first[f->layout.n_units] = (int32_t)p->units;
	for (uint32_t i = 0; i < f->decl.n_layers; i++)
		cut_layer(f, p, i);
}

/* The declaration with the parts as its units. */
static int take_parts(struct zr_setup_facts *f, struct parts *p, struct zr_error *err)
{
	struct zr_model_decl *m = &f->decl;
	cut(f, p);
	size_t layers = m->n_layers * sizeof *p->layer, lists = p->listed * sizeof *p->list;
	f->frozen_unit = calloc(p->units + 1, 1);
	p->unit = f->parts = malloc((p->units + 1) * sizeof *p->unit + layers + lists + p->letters);
	if (!f->frozen_unit || !f->parts)
		return zr_err(err, ZR_ENOMEM, "out of memory for the units of the model");

	p->layer = (struct zr_layer *)(p->unit + p->units + 1);
	p->list = (int32_t *)((char *)p->layer + layers);
	p->name = (char *)p->list + lists;
	cut(f, p);
	f->units_whole = p->units == (size_t)f->layout.n_units;
	m->units = p->unit;
	m->n_units = (uint32_t)p->units;
	m->unit_stride = sizeof *p->unit;
	m->layers = p->layer;
	m->layer_stride = sizeof *p->layer;
	return 0;
}

int zr_frozen_find(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	int trains = f->mode == ZR_MODE_TRAIN;
	struct parts p = { 0 };
	f->frozen = calloc((size_t)f->layout.n_tensors + 1, 1);
	p.first = calloc((size_t)f->decl.n_units + 1, sizeof *p.first);
	int rc = 0;
	if (!f->frozen || !p.first)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the units of the model");
	if (!rc && (trains || s->roles.model.section->store))
		rc = freeze_all(s, err);
	if (!rc)
		rc = store(s, err);
	for (int32_t i = 0; i < f->layout.n_tensors && !rc && !trains; i++)
		if (f->frozen[i] <= 1)
			f->frozen[i] = f->mode == ZR_MODE_EVAL;
	if (!rc)
		rc = take_parts(f, &p, err);
	free(p.first);
	zr_layout_free(&f->layout);
	if (rc)
		return rc;
	return zr_layout_make(&f->decl, &f->layout, err);
}

int64_t zr_trained_elements(const struct zr_setup *s)
{
	int64_t n = 0;

	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		if (!s->facts.frozen[i])
			n += s->facts.layout.tensor[i].elements;
	return n;
}
