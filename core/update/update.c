/* SPDX-License-Identifier: Apache-2.0
 *
 * update.c - see update.h: a sub-group, group by group. Masters that are kept in another format
 * than fp32 pass through it in chunks.
 */
#include "core/update/update.h"

#include "core/base/numbers.h"
#include "core/memory/tier.h"

static int call_step(struct zr_session *s, const struct zr_opt_data *d, struct zr_opt_step *step)
{
	struct zr_optimizer *o = &s->roles->optimizer[d->subgroup->optimizer];
	int rc = zr_partial_totals(s, d, step);
	if (!rc)
		rc = zr_optimizer_calls(o)->step(o->it.inst, step);
	return zr_user_failed(s, &o->it, rc, "step", d->err);
}

/* Masters that are kept in another format are made, updated and taken apart while they are in
 * the cache, unless the optimizer takes them as they are. */
int zr_step_subgroup(struct zr_session *s, const struct zr_opt_data *d)
{
	const struct zr_subgroup *p = d->subgroup;
	const struct zr_masters *k = &d->kept;
	int plain = zr_unit_dtype(s->facts, p->unit) == ZR_F32, rc = 0;
	int split = zr_takes_split(&s->roles->optimizer[p->optimizer]) &&
		    zr_unit_rem_bits(s->facts, p->unit);
	float *chunk = d->chunk;
	int64_t step = p->n;
	if (split)
		chunk = NULL;
	if (chunk)
		step = ZR_CHUNK;

	for (int64_t at = 0; !rc && at < p->n; at += step) {
		int64_t n = zr_fewer(p->n - at, step);
		uint64_t segments = zr_cut_segments(s, p->unit, p->first + at, n, s->seg);
		struct zr_opt_blocks b = { .data = d, .from = at, .n = n };

		if (chunk)
			b.master = (char *)chunk;
		else if (!split)
			b.master = k->master;
		if (!chunk && !plain)
			b.lowp = k->lowp;

		if (chunk)
			rc = zr_master_get(s, p, k, at, n, chunk, d->err);
		if (!rc)
			rc = zr_opt_each_group(s, &b, segments, call_step);
		if (!rc && chunk)
			rc = zr_master_put(s, p, k, at, n, chunk, d->err);
	}

	if (rc || d->chunk || !plain || !k->lowp)
		return rc;
	return zr_copy(s, k->lowp, k->master, (uint64_t)(p->n * ZR_BLOCK * 4), d->err);
}
