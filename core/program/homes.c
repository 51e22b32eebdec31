/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.c - experts that ranks divide (core/model/homes.h). A stage says of each by itself when it
 * is gathered, dropped and reduced; all of a layer move by one exchange, which is written down when
 * the last one was named. So a copy is there from when all are gathered until all are dropped.
 */
#include "core/program/recorder.h"
#include "core/program/route.h"

/* All experts of a layer that move with one, in their order, in r->together. */
static int32_t list(struct recorder *r, int32_t unit)
{
	const struct zr_home_unit *u = &r->f->homes.unit[unit];
	const int32_t n = zr_layer_experts(r->f, u->layer);

	for (int32_t g = 0; g < n; g++)
		r->together[g] = zr_expert_unit(r->f, u->layer, u->beside, g);
	return n;
}

/* Where the recorder counts those of its layer. */
static int32_t count_of(const struct recorder *r, int32_t unit)
{
	const struct zr_home_unit *u = &r->f->homes.unit[unit];
	return 2 * u->layer + u->beside;
}

int zr_rec_gather_expert(struct recorder *r, int32_t unit)
{
	const int32_t at = count_of(r, unit), n = list(r, unit);
	struct zr_pop op = { .kind = ZR_P_GATHER };

	if (++r->experts_gathered[at] < n || r->experts_there[at])
		return 0;

	r->experts_there[at] = 1;
	op.bytes = zr_gathered_bytes(r->f, unit) * (uint64_t)zr_experts_here(&r->f->homes, n);
	for (int32_t g = 0; g < n; g++)
		r->gather[r->together[g]] = r->p->n;
	return zr_rec_emit(r, op, r->together, n);
}

void zr_rec_drop_expert(struct recorder *r, int32_t unit)
{
	const int32_t at = count_of(r, unit);

	if (!--r->experts_gathered[at])
		r->experts_there[at] = 0;
}

int zr_rec_reduce_expert(struct recorder *r, int32_t unit)
{
	const int32_t at = count_of(r, unit), n = list(r, unit);
	struct zr_pop op = { .kind = ZR_P_REDUCE };

	if (++r->experts_reduced[at] < n)
		return 0;

	op.bytes = zr_reduced_bytes(r, unit) * (uint64_t)n;
	int rc = zr_rec_wait_reduce(r);
	if (rc)
		return rc;

	r->reducing = r->p->n;
	return zr_rec_emit(r, op, r->together, n);
}

int zr_rec_is_reduced(const struct recorder *r, int32_t unit)
{
	if (!zr_is_divided(&r->f->homes, unit))
		return 1;

	const int32_t at = count_of(r, unit);
	return r->experts_reduced[at] == zr_layer_experts(r->f, at / 2);
}
