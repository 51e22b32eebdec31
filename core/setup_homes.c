/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_homes.c - ranks that divide experts (core/model/homes.h): what can be, and which units are
 * experts.
 */
#include <stdlib.h>
#include <string.h>

#include "core/model/declared.h"
#include "core/setup.h"

static int refuse_on_host(const struct zr_setup *s, struct zr_error *err, const char *why)
{
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, err, "experts_on = host: %s", why);
}

/* Names the option by which experts are a part by themselves. */
static int refuse(const struct zr_setup *s, struct zr_error *err, const char *why)
{
	if (s->facts.homes.ranks == 1)
		return refuse_on_host(s, err, why);
	return zr_config_blame(s->cfg, "zero", ZR_EINVAL, err, "expert_ranks = %d: %s",
			       s->facts.homes.ranks, why);
}

/* The option of the stage; 1 where it has none. */
static uint64_t asked_ranks(const struct zr_setup *s)
{
	const struct zr_section *sec = zr_config_find(s->cfg, "zero");
	const struct zr_opt *o = sec ? zr_table_find(&sec->table, "expert_ranks") : NULL;

	if (!o || o->type != ZR_T_COUNT)
		return 1;
	return *(const uint64_t *)(const void *)((const char *)sec->opts + o->offset);
}

int zr_homes_choose(struct zr_setup *s, int32_t ranks, int32_t rank, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const uint64_t asked = asked_ranks(s);

	f->homes.on_host = f->train->experts_on == ZR_EXPERTS_ON_HOST;
	if (asked == 1)
		return 0;
	if (asked > (uint64_t)ranks || (uint64_t)ranks % asked)
		return zr_config_blame(s->cfg, "zero", ZR_EINVAL, err,
				       "expert_ranks = %llu: it must divide the number of ranks, "
				       "%d",
				       (unsigned long long)asked, ranks);

	f->homes.ranks = (int32_t)asked;
	f->homes.rank = rank % f->homes.ranks;
	if (f->train->reduction == ZR_REDUCE_LOCAL)
		return refuse(s, err,
			      "reduction = local adds what ranks compute in another order; "
			      "take one of both out");
	return 0;
}

/* What is read from where it lies has to lie in host memory, or come there. */
static int check_on_host(const struct zr_setup *s, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;

	if (!f->homes.on_host)
		return 0;
	if (f->device_info.host_ops)
		return refuse_on_host(s, err,
				      "[device] computes on host memory already; take it out");
	if (!zr_config_find(s->cfg, "offload.param"))
		return refuse_on_host(s, err,
				      "the weights of experts are in the memory of the device; "
				      "add [offload.param], or take it out");
	return 0;
}

int zr_homes_check(const struct zr_setup *s, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;
	const char *model = s->roles.model.section->plugin->desc->id;

	if (!zr_experts_apart(&f->homes))
		return 0;
	if (f->decl.expert_ranks == f->homes.ranks && zr_has_experts(&f->decl))
		return check_on_host(s, err);
	if (f->homes.ranks == 1)
		return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
				       "experts_on = host: model %s has no experts, or computes "
				       "them with the rest of a layer; take it out",
				       model);
	return zr_config_blame(
		s->cfg, "zero", ZR_EINVAL, err,
		"expert_ranks = %d: model %s has no experts, or a number of them that "
		"%d does not divide",
		f->homes.ranks, model, f->homes.ranks);
}

/* ---- experts --------------------------------------------------------------------- */

int32_t zr_layer_experts(const struct zr_setup_facts *f, int32_t layer)
{
	if (!zr_experts_apart(&f->homes) || !zr_says_experts(&f->decl))
		return 0;
	return zr_layer_at(&f->decl, layer)->n_experts;
}

int32_t zr_expert_unit(const struct zr_setup_facts *f, int32_t layer, int32_t beside, int32_t g)
{
	const struct zr_layer *l = zr_layer_at(&f->decl, layer);
	return l->units[(beside ? l->first_beside : l->first_expert) + g];
}

int32_t zr_home_of(const struct zr_setup_facts *f, int32_t unit)
{
	const struct zr_home_unit *u = &f->homes.unit[unit];
	return u->number / zr_experts_here(&f->homes, zr_layer_experts(f, u->layer));
}

int zr_is_elsewhere(const struct zr_setup_facts *f, int32_t unit)
{
	return zr_is_expert(&f->homes, unit) && zr_home_of(f, unit) != f->homes.rank;
}

/* Experts of a layer have one form, and are frozen or trained together. */
static int are_alike(const struct zr_setup_facts *f, int32_t a, int32_t b)
{
	const struct zr_unit_place *x = &f->layout.unit[a], *y = &f->layout.unit[b];
	if (x->count != y->count || x->elements != y->elements || x->blocks != y->blocks)
		return 0;
	return f->frozen_unit[a] == f->frozen_unit[b];
}

/* beside: of the units of adapters. */
static int find_units(struct zr_setup *s, int32_t layer, int32_t beside, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const int32_t n = zr_layer_experts(f, layer), first = zr_expert_unit(f, layer, beside, 0);

	for (int32_t g = 0; g < n; g++) {
		const int32_t unit = zr_expert_unit(f, layer, beside, g);
		if (f->homes.ranks > 1 && !are_alike(f, unit, first))
			return refuse(s, err,
				      "[train] freeze has some experts of a block and not all; "
				      "freeze all of them, or none");
		f->homes.unit[unit] = (struct zr_home_unit){ layer, g, beside };
	}
	return 0;
}

static int find_in_layer(struct zr_setup *s, int32_t layer, struct zr_error *err)
{
	const struct zr_layer *l = zr_layer_at(&s->facts.decl, layer);

	if (!zr_layer_experts(&s->facts, layer))
		return 0;
	if (l->first_expert < 0)
		return refuse(s, err,
			      "[train] freeze cuts an expert into a part that is trained and one "
			      "that is not; freeze all of its tensors, or none");
	int rc = find_units(s, layer, 0, err);
	if (rc || !l->first_beside)
		return rc;
	return find_units(s, layer, 1, err);
}

int zr_homes_find(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const size_t n = (size_t)f->layout.n_units;
	int rc = 0;

	if (!zr_experts_apart(&f->homes))
		return 0;
	f->homes.unit = calloc(n + 1, sizeof *f->homes.unit);
	if (!f->homes.unit)
		return zr_err(err, ZR_ENOMEM, "out of memory for %zu units", n);

	for (size_t u = 0; u < n; u++)
		f->homes.unit[u].layer = -1;
	for (int32_t i = 0; !rc && i < (int32_t)f->decl.n_layers; i++)
		rc = find_in_layer(s, i, err);
	return rc;
}

/* Whether all experts of a layer, or what is beside them, are split over the same ranks. */
static int are_split_alike(const struct zr_setup_facts *f, int32_t layer, int32_t beside)
{
	const struct zr_groups *first = &f->groups[zr_expert_unit(f, layer, beside, 0)];

	for (int32_t g = 1; g < zr_layer_experts(f, layer); g++)
		if (memcmp(first, &f->groups[zr_expert_unit(f, layer, beside, g)], sizeof *first))
			return 0;
	return 1;
}

static int all_are_split_alike(const struct zr_setup_facts *f, int32_t layer)
{
	if (!zr_layer_experts(f, layer))
		return 1;
	if (!are_split_alike(f, layer, 0))
		return 0;
	return !zr_layer_at(&f->decl, layer)->first_beside || are_split_alike(f, layer, 1);
}

/* Whether what the ranks that divide experts add at a time is whole trees, or a node of one. */
static int has_whole_trees(const struct zr_setup_facts *f)
{
	const int32_t tree = zr_sums_tree(f), ranks = f->homes.ranks;
	const int32_t parts = tree / ranks;

	if (ranks % tree == 0)
		return 1;
	return tree % ranks == 0 && !(parts & (parts - 1));
}

/* Whether an expert is nothing that [offload.param] has. */
static int any_is_whole(const struct zr_setup_facts *f)
{
	for (int32_t u = 0; u < f->layout.n_units; u++)
		if (zr_is_expert(&f->homes, u) && !zr_unit_offloaded(f, u))
			return 1;
	return 0;
}

int zr_homes_fit(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;

	f->homes.tokens = f->batch.micro * f->batch.length;
	if (zr_sliced(&f->slices))
		f->homes.tokens = f->slices.rows;
	if (f->homes.on_host && any_is_whole(f))
		return refuse_on_host(
			s, err,
			"some experts are whole in the memory of the device, where "
			"[offload.param] does not have them; take a stage that splits "
			"them, and their names out of persistent");
	if (f->homes.ranks == 1)
		return 0;
	if (!has_whole_trees(f))
		return refuse(s, err,
			      "gradients of [train] sum_group micro-batches, of all ranks that "
			      "share them, are added as a tree, of which the ranks that divide "
			      "experts have neither whole ones nor a half, a quarter and so on; "
			      "take another number of one of both");
	for (int32_t i = 0; i < (int32_t)f->decl.n_layers; i++)
		if (!all_are_split_alike(f, i))
			return refuse(s, err,
				      "the stage splits some experts of a block and not all; "
				      "take their names out of persistent");
	return 0;
}
