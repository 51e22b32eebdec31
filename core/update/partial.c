/* SPDX-License-Identifier: Apache-2.0
 *
 * partial.c - sums over whole parameters, for optimizers that ask for them: a pass over what
 * this rank counts before any of them is updated. What partial() says of each block is added as
 * an integer, on this rank and then over all: no cut, order or number of ranks changes a sum
 * (invariant I1).
 */
#include <string.h>

#include "core/base/numbers.h"
#include "core/memory/tier.h"
#include "core/update/update.h"

uint64_t zr_partial_place(const struct zr_setup *s, struct zr_partial_plan *p, uint64_t at)
{
	uint64_t segments = ZR_CHUNK;
	for (int32_t k = 0; k < s->roles.n_optimizers; k++)
		p->width = (uint32_t)zr_max(p->width,
					    zr_optimizer_calls(&s->roles.optimizer[k])->n_partial);
	if (!p->width)
		return at;

	for (int32_t u = 0; u < s->facts.layout.n_units; u++)
		segments = zr_max(segments, (uint64_t)s->facts.layout.unit[u].count);
	uint64_t sums = (uint64_t)s->facts.layout.n_tensors * p->width;
	uint64_t ranks = (uint64_t)s->facts.process.world;
	p->sums = zr_room(&at, sums * sizeof(struct zr_exact));
	p->totals = zr_room(&at, sums * sizeof(double));
	p->call = zr_room(&at, segments * p->width * sizeof(double));
	p->arrived = at;
	if (ranks > 1)
		at += ranks * ZR_SUMS_AT_ONCE * sizeof(struct zr_exact);
	return at;
}

static int call_partial(struct zr_session *s, const struct zr_opt_data *d, struct zr_opt_step *step)
{
	const struct zr_partial_plan *p = &s->plan->partial;
	struct zr_optimizer *o = &s->roles->optimizer[d->subgroup->optimizer];
	struct zr_exact *sums = zr_host_table(s, p->sums);
	double *out = zr_host_table(s, p->call);
	uint32_t n = zr_optimizer_calls(o)->n_partial;
	uint64_t bytes = step->n_seg * n * sizeof *out;

	memset(out, 0, (size_t)bytes);
	int rc = 0;
	if (d->sums != out)
		rc = zr_copy(s, d->sums, out, bytes, d->err);
	if (rc)
		return rc;

	rc = zr_optimizer_calls(o)->partial(o->it.inst, step, d->sums);
	if (rc)
		return zr_user_failed(s, &o->it, rc, "partial", d->err);
	if (d->sums != out)
		rc = zr_copy(s, out, d->sums, bytes, d->err);
	for (uint64_t i = 0; !rc && i < step->n_seg; i++)
		for (uint32_t k = 0; k < n; k++)
			zr_exact_add(&sums[(uint32_t)ZR_SEG(step, i)->param * p->width + k],
				     out[i * n + k]);
	return rc;
}

/* Blocks [at, at + n) of a sub-group, each a segment of its own. */
static int add_blocks(struct zr_session *s, const struct zr_opt_data *d, int64_t at, int64_t n)
{
	struct zr_opt_blocks b = { .data = d, .from = at, .n = n, .master = (char *)d->chunk };
	const struct zr_subgroup *p = d->subgroup;
	uint64_t count = 0;
	int rc = 0;
	if (d->chunk)
		rc = zr_master_get(s, p, &d->kept, at, n, d->chunk, d->err);
	else
		b.master = d->kept.master + at * ZR_BLOCK * 4;
	for (int64_t i = 0; i < n; i++) {
		count += zr_cut_segments(s, p->unit, p->first + at + i, 1, s->seg + count);
		s->seg[count - 1].off = i * ZR_BLOCK;
	}
	if (rc)
		return rc;
	return zr_opt_each_group(s, &b, count, call_partial);
}

int zr_partial_subgroup(struct zr_session *s, const struct zr_opt_data *d)
{
	int64_t at, end;
	int rc = 0;
	for (zr_counted(s->plan, d->subgroup, &at, &end); !rc && at < end; at += ZR_CHUNK)
		rc = add_blocks(s, d, at, zr_fewer(end - at, ZR_CHUNK));
	return rc;
}

int zr_partial_totals(struct zr_session *s, const struct zr_opt_data *d, struct zr_opt_step *step)
{
	const struct zr_partial_plan *p = &s->plan->partial;
	const double *totals = zr_host_table(s, p->totals);
	double *out = zr_host_table(s, p->call);
	uint32_t n = zr_optimizer_calls(&s->roles->optimizer[d->subgroup->optimizer])->n_partial;
	for (uint64_t i = 0; i < step->n_seg; i++)
		for (uint32_t k = 0; k < n; k++)
			out[i * n + k] = totals[(uint32_t)ZR_SEG(step, i)->param * p->width + k];
	step->partials = n ? d->sums : NULL;
	if (n && d->sums != out)
		return zr_copy(s, d->sums, out, step->n_seg * n * sizeof *out, d->err);
	return 0;
}
