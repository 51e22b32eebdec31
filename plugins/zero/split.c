/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c - the policy for parameters that are split over ranks: gather what a use needs, then what
 * later uses need as far as the limits go; after a use, drop what none needs soon.
 *
 * At every point at most max(max_live_parameters, elements of one node of the schedule) are
 * gathered. Prefetch strictly follows the order of the schedule, so that a unit gathered for a
 * later node never displaces one that an earlier node needs.
 */
#include "policy.h"

static int64_t most(uint64_t limit)
{
	return limit < INT64_MAX ? (int64_t)limit : INT64_MAX;
}

static int is_used(const struct zr_point *p, int32_t unit)
{
	uint32_t i;
	for (i = 0; i < p->n_units; i++)
		if (p->units[i] == unit)
			return 1;

	return 0;
}

static void no_longer_ahead(struct zr_inst *inst, const struct zr_stage *s, int32_t unit)
{
	if (!inst->ahead[unit])
		return;
	inst->ahead[unit] = 0;
	inst->elements_ahead -= s->elements(s, unit);
}

/* The full unit that is needed last among those the current use does not need, -1 if there is
 * none. */
static int32_t idlest(const struct zr_inst *inst, const struct zr_point *p,
		      const struct zr_stage *s)
{
	int32_t u, next, last = -1, found = -1;

	for (u = 0; u < s->n_units; u++) {
		if (!inst->full[u] || is_used(p, u))
			continue;

		next = s->next_use(s, u, p->use);
		if (next > last) {
			last = next;
			found = u;
		}
	}

	return found;
}

/* Drops units kept for reuse until `missing` more elements fit. None is ahead: had there been room
 * for one, what this use needs would be full. */
static int make_room(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s,
		     int64_t missing)
{
	int32_t u;
	int rc = ZR_OK;
	while (!rc && missing > most(inst->o->max_live_parameters) - s->live_elements(s)) {
		u = idlest(inst, p, s);
		if (u < 0)
			break;

		inst->full[u] = 0;
		rc = s->drop(s, &u, 1);
	}

	return rc;
}

static int gather_needed(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int64_t missing = 0;
	uint32_t i;
	int rc;

	for (i = 0; i < p->n_units; i++) {
		int32_t u = p->units[i];
		no_longer_ahead(inst, s, u);
		if (!inst->full[u] && !inst->whole[u])
			missing += s->elements(s, u);
	}

	if (missing)
		rc = make_room(inst, p, s, missing);
	else
		rc = ZR_OK;
	bucket_open(&inst->list, s->gather, inst->o->allgather_bucket_size);
	for (i = 0; i < p->n_units && !rc; i++) {
		int32_t u = p->units[i];
		if (inst->full[u] || inst->whole[u])
			continue;

		inst->full[u] = 1;
		rc = bucket_add(&inst->list, s, u);
	}

	if (rc)
		return rc;

	return bucket_close(&inst->list, s);
}

/* Takes the units of one later use; those full already cost no gather, only room. *more: whether
 * all fitted. */
static int prefetch_use(struct zr_inst *inst, const struct zr_stage *s, const struct zr_use *use,
			int64_t *live, int *more)
{
	uint32_t i;
	int rc = ZR_OK;

	for (i = 0; i < use->n_units && !rc; i++) {
		int32_t u = use->units[i];
		int64_t elements = s->elements(s, u), added = inst->full[u] ? 0 : elements;
		if (inst->whole[u] || inst->ahead[u])
			continue;

		*more = elements <= most(inst->o->prefetch_bucket_size) - inst->elements_ahead &&
			added <= most(inst->o->max_live_parameters) - *live;
		if (!*more)
			break;

		inst->ahead[u] = 1;
		inst->elements_ahead += elements;
		*live += added;
		if (!inst->full[u])
			rc = bucket_add(&inst->list, s, u);
		inst->full[u] = 1;
	}

	/* one list per use: waiting for it must not mean waiting for the use after it */
	if (rc)
		return rc;

	return bucket_close(&inst->list, s);
}

static int prefetch(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int64_t live = s->live_elements(s);
	int32_t i;
	int more = 1, rc = ZR_OK;

	for (i = p->use + 1; i < s->n_uses && more && !rc; i++)
		rc = prefetch_use(inst, s, s->use(s, i), &live, &more);

	return rc;
}

/* Whether uses with fewer than max_reuse_distance elements lie before the unit's next one. */
static int is_used_soon(const struct zr_inst *inst, const struct zr_point *p,
			const struct zr_stage *s, int32_t unit)
{
	int32_t i, next = s->next_use(s, unit, p->use);
	int64_t between = 0;
	uint32_t k;

	for (i = p->use + 1; i < next && between < most(inst->o->max_reuse_distance); i++) {
		const struct zr_use *use = s->use(s, i);
		for (k = 0; k < use->n_units; k++)
			between += s->elements(s, use->units[k]);
	}

	return next >= 0 && between < most(inst->o->max_reuse_distance);
}

static int drop_used(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int64_t live = s->live_elements(s);
	uint32_t i;
	int rc = ZR_OK;

	bucket_open(&inst->list, s->drop, UINT64_MAX);
	for (i = 0; i < p->n_units && !rc; i++) {
		int32_t u = p->units[i];
		if (!inst->full[u] || inst->ahead[u])
			continue;
		if (live <= most(inst->o->max_live_parameters) && is_used_soon(inst, p, s, u))
			continue;

		inst->full[u] = 0;
		live -= s->elements(s, u);
		rc = bucket_add(&inst->list, s, u);
	}

	if (rc)
		return rc;

	return bucket_close(&inst->list, s);
}

int split_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc;

	switch (p->at) {
	case ZR_AT_BEFORE:
		rc = gather_needed(inst, p, s);
		if (rc)
			return rc;
		return prefetch(inst, p, s);
	case ZR_AT_AFTER:
		rc = drop_used(inst, p, s);
		if (rc)
			return rc;
		return policy_at(inst, p, s);
	}

	return policy_at(inst, p, s);
}
