/* SPDX-License-Identifier: Apache-2.0
 *
 * entry_data.c - see checkpoint.h: entries from and to wherever a session keeps what they hold.
 */
#include <stdlib.h>

#include "core/values.h"
#include "files/checkpoint/checkpoint.h"
#include "files/pretrained/tensors.h"

static int visible(const struct zr_session *s, int32_t region)
{
	const struct zr_setup *p = s->setup;
	return zr_addressed(s, region) && (p->plan.region[region].store != ZR_STORE_DEVICE ||
					   p->facts.device_info.host_access);
}

/* Blocks [from, from + n) of an entry as a sub-group of its unit; this rank holds them, so there is
 * a run that has them, unless nothing updates them. */
static struct zr_subgroup subgroup_of(const struct zr_session *s, const struct zr_ckpt_entry *e,
				      int64_t from, int64_t n)
{
	const struct zr_plan *plan = &s->setup->plan;
	const struct zr_place *t = &s->setup->facts.layout.tensor[e->tensor];
	int64_t first = t->offset / ZR_BLOCK + e->first + from;
	const struct zr_block_run *r = &plan->run[plan->first_run[t->unit]],
				  none = { .unit = t->unit, .optimizer = ZR_ANY, .first = first };

	if (s->setup->facts.frozen[e->tensor])
		return zr_subgroup_in(&s->setup->plan, &none, first, n);

	while (first >= r->first + r->n)
		r++;

	return zr_subgroup_in(&s->setup->plan, r, first, n);
}

static int datum_of(const struct zr_session *s, const struct zr_ckpt_entry *e)
{
	const struct zr_setup *p = s->setup;
	if (e->state < 0)
		return ZR_D_MASTER;
	return ZR_D_STATE +
	       (int)p->roles.optimizer[zr_optimizer_of(&p->roles, e->tensor)].first_state +
	       e->state;
}

int zr_entries_visible(const struct zr_session *s)
{
	const struct zr_setup *p = s->setup;
	int all = p->roles.n_states == 0 || visible(s, ZR_R_STATE);

	for (int32_t u = 0; all && u < p->facts.layout.n_units; u++) {
		struct zr_subgroup subgroup = { .unit = u, .optimizer = ZR_ANY };
		int32_t kept = zr_unit_master(&p->facts, u);
		all = (kept == ZR_MASTER_NONE ||
		       visible(s, zr_datum_spot(p, &subgroup, ZR_D_MASTER).region)) &&
		      (kept == ZR_MASTER_FP32 ||
		       visible(s, zr_datum_spot(p, &subgroup, ZR_D_LOWP).region));
	}

	return all;
}

uint64_t zr_entry_offset(const struct zr_session *s, const struct zr_ckpt_entry *e, int64_t blocks)
{
	const struct zr_subgroup all = { .tensor = e->tensor };
	uint64_t block = ZR_BLOCK * 4;

	if (e->state >= 0)
		block = zr_block_bytes(s->setup, &all, datum_of(s, e));
	uint64_t bytes = (uint64_t)blocks * block;
	if (bytes < e->bytes)
		return bytes;

	return e->bytes;
}

const void *zr_spot_get(struct zr_session *s, struct zr_spot spot, uint64_t bytes, void *buf,
			struct zr_error *err)
{
	if (visible(s, spot.region))
		return zr_at(s, spot);
	if (zr_pass(s, spot, buf, bytes, 0, err))
		return NULL;

	return buf;
}

/* One kind of a sub-group's data. */
static const void *raw(struct zr_session *s, const struct zr_subgroup *p, int d, void *buf,
		       struct zr_error *err)
{
	return zr_spot_get(s, zr_datum_spot(s->setup, p, d),
			   (uint64_t)p->n * zr_block_bytes(s->setup, p, d), buf, err);
}

/* As struct zr_op_master says. Not the device's operation: that may run on the training thread
 * only. */
static void join(const uint16_t *lowp, const void *rem, int32_t bits, int64_t n, uint32_t *out)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t low;
		if (bits == 8)
			low = (uint32_t)((const uint8_t *)rem)[i] << 8;
		else if (bits)
			low = ((const uint16_t *)rem)[i];
		else
			low = 0;
		out[i] = (lowp[i] - (low >> 15)) << 16 | low;
	}
}

const void *zr_entry_get(struct zr_session *s, const struct zr_ckpt_entry *e, int64_t from,
			 int64_t n, void *out, void *work, struct zr_error *err)
{
	struct zr_subgroup p = subgroup_of(s, e, from, n);
	int32_t kept = zr_unit_master(&s->setup->facts, p.unit),
		type = zr_unit_dtype(&s->setup->facts, p.unit);
	if (e->state >= 0 || kept == ZR_MASTER_FP32)
		return raw(s, &p, datum_of(s, e), out, err);
	if (type == ZR_F32) /* frozen: there is only the copy */
		return raw(s, &p, ZR_D_LOWP, out, err);

	const uint16_t *lowp = raw(s, &p, ZR_D_LOWP, work, err);
	const int whole = kept == ZR_MASTER_NONE;
	const void *rem = NULL;
	if (lowp && !whole)
		rem = raw(s, &p, ZR_D_MASTER, (uint16_t *)work + n * ZR_BLOCK, err);
	if (!lowp || (!rem && !whole))
		return NULL;
	if (type == ZR_F16)
		zr_widen_f16(lowp, n * ZR_BLOCK, out);
	else
		join(lowp, rem, zr_unit_rem_bits(&s->setup->facts, p.unit), n * ZR_BLOCK, out);

	return out;
}

/* In chunks, where there is another format to pass through. */
static int put_masters(struct zr_session *s, const struct zr_ckpt_entry *e, int64_t from, int64_t n,
		       float *x, struct zr_error *err)
{
	int32_t unit = s->setup->facts.layout.tensor[e->tensor].unit;
	int64_t step = ZR_CHUNK;

	if (zr_unit_dtype(&s->setup->facts, unit) == ZR_F32)
		step = n;
	uint16_t *work = malloc(ZR_CHUNK * ZR_BLOCK * sizeof *x);
	int rc = 0;
	if (!work)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for a chunk of weights");
	for (int64_t at = 0; !rc && at < n; at += step) {
		struct zr_subgroup p = subgroup_of(s, e, from + at, n - at < step ? n - at : step);
		rc = zr_master_in(s, &p, x + at * ZR_BLOCK, work, err);
	}

	free(work);
	return rc;
}

int zr_entry_put(struct zr_session *s, const struct zr_ckpt_entry *e, int64_t from, int64_t n,
		 void *data, struct zr_error *err)
{
	struct zr_subgroup p = subgroup_of(s, e, from, n);
	if (e->state < 0)
		return put_masters(s, e, from, n, data, err);

	return zr_datum_pass(s, &p, datum_of(s, e), data, 1, err);
}
