/* SPDX-License-Identifier: Apache-2.0
 *
 * handover_groups.c - see handover.h: parameter groups and their options, where torch has an
 * optimizer that means the same by them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/others/handover.h"
#include "cmd/others/others.h"

static int refuse(const struct zr_handover *h, const struct zr_section *s, const char *what,
		  struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: [%s] %s; without --to its weights are exported",
		      h->origin.saved.path, s->name, what);
}

/* ZR_GIVEN_*; -1: torch has no such optimizer. */
static int kind_of(const struct zr_section *s)
{
	const char *id = s->plugin->desc->id;

	if (!strcmp(id, "sgd"))
		return ZR_GIVEN_SGD;
	if (!strcmp(id, "adam"))
		return ZR_GIVEN_ADAM;
	if (!strcmp(id, "adamw"))
		return ZR_GIVEN_ADAMW;
	if (strcmp(id, "cpu_adam"))
		return -1;
	return zr_section_number(s, "adamw_mode", 0) == 0 ? ZR_GIVEN_ADAM : ZR_GIVEN_ADAMW;
}

static int find_kind(const struct zr_handover *h, const struct zr_section *s,
		     enum zr_given_kind *kind, struct zr_error *err)
{
	const int known = kind_of(s);

	if (known < 0)
		return zr_err(err, ZR_EINVAL,
			      "%s: [%s] plugin = %s: --to knows the states of adamw, adam, "
			      "cpu_adam and sgd, as torch and DeepSpeed have them; without --to "
			      "its weights are exported",
			      h->origin.saved.path, s->name, s->plugin->desc->id);
	if (zr_section_number(s, "bias_correction", 0) == 0)
		return refuse(h, s, "bias_correction = no, which torch's optimizers do not have",
			      err);

	*kind = (enum zr_given_kind)known;
	return 0;
}

/* An option, or 0 where the optimizer has none of that name. */
static double number(const struct zr_section *s, const char *name, int i)
{
	const double v = zr_section_number(s, name, i);
	return isnan(v) ? 0 : v;
}

static int add_group(struct zr_handover *h, int32_t number_of, struct zr_error *err)
{
	const struct zr_param_group *p = &h->setup->roles.param_group[number_of];
	const struct zr_section *s = p->section;
	struct zr_given_group *g = &h->given[h->groups];

	if (h->groups == ZR_HANDOVER_GROUPS)
		return refuse(h, s, "and others are more than 64 parameter groups", err);

	*g = (struct zr_given_group){
		.number = number_of,
		.lr = p->lr,
		.betas = { number(s, "betas", 0), number(s, "betas", 1) },
		.eps = number(s, "eps", 0),
		.weight_decay = number(s, "weight_decay", 0),
		.momentum = number(s, "momentum", 0),
		.dampening = number(s, "dampening", 0),
		.nesterov = number(s, "nesterov", 0) != 0,
	};
	int rc = find_kind(h, s, &g->kind, err);
	if (!rc)
		rc = zr_other_next_rate(h->setup, number_of, h->m->applied, &g->next, err);
	if (!rc && g->kind != h->given[0].kind)
		rc = refuse(h, s, "has another optimizer than others: torch has one for all", err);
	if (rc)
		return rc;

	h->groups++;
	return 0;
}

static int32_t find_group(const struct zr_handover *h, int32_t number_of)
{
	int32_t k = 0;
	while (k < h->groups && h->given[k].number != number_of)
		k++;
	return k;
}

static int is_used(const struct zr_handover *h, int32_t number_of)
{
	for (int32_t i = 0; i < h->n; i++)
		if (!zr_manifest_frozen(h->m, i) && h->setup->roles.group_of[i] == number_of)
			return 1;

	return 0;
}

int zr_handover_find_groups(struct zr_handover *h, struct zr_error *err)
{
	const struct zr_setup_roles *r = &h->setup->roles;
	int rc = 0;

	h->group = calloc((size_t)h->n + 1, sizeof *h->group);
	if (!h->group)
		return zr_no_memory(err);

	for (int32_t k = 0; !rc && k < r->n_param_groups; k++)
		if (is_used(h, k))
			rc = add_group(h, k, err);
	for (int32_t i = 0; i < h->n; i++)
		h->group[i] = zr_manifest_frozen(h->m, i) ? -1 : find_group(h, r->group_of[i]);
	return rc;
}
