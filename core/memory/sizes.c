/* SPDX-License-Identifier: Apache-2.0
 *
 * sizes.c - sizes of the regions and offsets inside them; see plan.h. Which store has a region says
 * ways.c, what an update stages staging.c.
 */
#include "core/base/numbers.h"
#include "core/memory/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/exec/boundary.h"
#include "core/memory/subgroup.h"
#include "core/setup.h"
#include "core/update/clip.h"

static struct zr_spot take(struct zr_plan *p, int region, int64_t blocks, int32_t dtype)
{
	struct zr_spot spot = { .region = region, .at = p->region[region].bytes };
	p->region[region].bytes += (uint64_t)blocks * zr_dtype_block(dtype);
	return spot;
}

static struct zr_spot inside(struct zr_spot spot, int64_t blocks, int32_t dtype)
{
	spot.at += (uint64_t)blocks * zr_dtype_block(dtype);
	return spot;
}

/* The master of a unit, in the format in which it is kept. */
static struct zr_spot place_master(const struct zr_setup_facts *f, struct zr_plan *p, int32_t unit,
				   int fp32)
{
	int64_t blocks = p->unit[unit].held.per;
	switch (fp32 ? ZR_MASTER_FP32 : zr_unit_master(f, unit)) {
	case ZR_MASTER_NONE:
		return take(p, ZR_R_MASTER, 0, ZR_F32);
	case ZR_MASTER_SPLIT24:
		return take(p, ZR_R_MASTER, blocks, ZR_U8);
	case ZR_MASTER_SPLIT:
		return take(p, ZR_R_MASTER, blocks, ZR_BF16);
	default:
		return take(p, ZR_R_MASTER, blocks, ZR_F32);
	}
}

/* The compute copy of a unit, what this rank holds of it, and the master. In fp32 the master serves
 * as the compute copy wherever both are split alike and in the same tier, and where they are not of
 * one size is a part of it. What is frozen has a compute copy alone. */
static void place_values(const struct zr_setup_facts *f, struct zr_plan *p, int32_t unit)
{
	const struct zr_groups *g = &f->groups[unit];
	struct zr_unit_memory *m = &p->unit[unit];
	int region = m->offloaded ? ZR_R_PARAM_OFFLOADED : ZR_R_PARAM;
	int32_t type = zr_unit_dtype(f, unit);
	int fp32 = type == ZR_F32 && !f->frozen_unit[unit];
	int serves = fp32 && p->region[region].tier == p->region[ZR_R_MASTER].tier;
	int apart = zr_unit_apart(f, unit), part = serves && !apart && g->param != g->state;
	int64_t before = 0; /* blocks of the copy that others hold */
	if (g->param == ZR_GROUP_SELF)
		before = f->mesh.group[g->state].rank * m->held.per;

	if (!part)
		m->master = place_master(f, p, unit, fp32);
	if (serves && !apart && !part)
		m->param = m->master;
	else
		m->param = take(p, region, m->param_per, type);

	if (!apart)
		m->held_copy = inside(m->param, before, type);
	else if (serves)
		m->held_copy = m->master;
	else
		m->held_copy = take(p, region, m->held.per, type);
	if (part)
		m->master = m->held_copy;
}

/* Which blocks of a unit this rank has for which purpose. */
static void share_unit(const struct zr_setup_facts *f, struct zr_unit_memory *m, int32_t unit)
{
	const struct zr_groups *g = &f->groups[unit];
	int64_t blocks = f->layout.unit[unit].blocks;
	int32_t world = f->process.world, rank = f->process.rank;
	int32_t part = zr_rank_part(f->mesh.group[g->state].n, world, rank);
	m->own = zr_share_of(blocks, world, rank);
	m->held = zr_unit_share(f, unit, g->state, rank);
	m->counted = zr_share_of(blocks, world, part);
	m->param_per = zr_unit_share(f, unit, g->param, rank).per;
	m->offloaded = zr_unit_offloaded(f, unit);
}

/* The sum of a unit's gradient, its parts so far, and this rank's own sum. own: the sum becomes a
 * buffer when the last micro-batch is lowered. */
static void place_gradient(const struct zr_setup_facts *f, struct zr_plan *p, int32_t unit, int own)
{
	struct zr_unit_memory *m = &p->unit[unit];
	int64_t whole = f->process.world * m->own.per;
	m->grad = take(p, ZR_R_GRAD, m->held.per, ZR_F32);
	if (own)
		m->grad.at = 0;
	m->part = zr_unit_part(f, unit);
	if (m->part)
		m->parts = take(p, ZR_R_PARTS, whole, ZR_F32);
	if (zr_sums_locally(f))
		m->local = take(p, ZR_R_LOCAL, whole, ZR_F32);
	if (p->device_sums)
		m->micro_sum = take(p, ZR_R_MICRO_SUMS, m->own.per, ZR_F32);
	m->waiting = take(p, ZR_R_WAITING, m->own.per * zr_sums_waiting(f), ZR_F32);
}

static void place_unit(const struct zr_setup *s, struct zr_plan *p, int32_t unit)
{
	const struct zr_setup_facts *f = &s->facts;
	share_unit(f, &p->unit[unit], unit);
	place_values(f, p, unit);
	if (f->mode != ZR_MODE_SAMPLE && !f->frozen_unit[unit])
		place_gradient(f, p, unit, s->programs.recorded[ZR_PROG_LAST_MICRO].own_sums);
}

static void place_scores(const struct zr_setup *s, struct zr_plan *p, uint64_t *end)
{
	const uint64_t bytes = (uint64_t)p->clip.scores * sizeof(float);

	p->clip.largest = zr_room(end, bytes);
	p->clip.arrived = zr_room(end, bytes * (uint64_t)s->facts.process.world);
	if (!s->facts.device_info.host_ops)
		zr_room(&p->region[ZR_R_SCORES].bytes, bytes);
}

/* Block sums are first, so that a device which cannot write to host memory has them at the same
 * places of ZR_R_MEASURE. */
static void place_tables(const struct zr_setup *s, struct zr_plan *p, uint64_t *end)
{
	uint64_t blocks = (uint64_t)s->facts.layout.blocks,
		 ranks = (uint64_t)s->facts.process.world;
	uint64_t groups = (uint64_t)s->roles.n_param_groups;
	p->sumsq = zr_room(end, blocks * 8);
	p->nonfinite = zr_room(end, blocks * 4);
	if (!s->facts.device_info.host_ops && p->region[ZR_R_GRAD].store == ZR_STORE_DEVICE)
		p->region[ZR_R_MEASURE].bytes = *end;
	p->exchange = zr_room(end, sizeof(struct zr_boundary) * ranks);
	p->decided = zr_room(end, sizeof(struct zr_decided) + groups * sizeof(double));
	p->clip.factor = groups * sizeof(struct zr_scalars);
	p->scalars_bytes = p->clip.factor + (uint64_t)p->clip.factors * sizeof(float);
	p->scalars = zr_room(end, p->scalars_bytes);
	place_scores(s, p, end);
	*end = zr_partial_place(s, &p->partial, *end);
}

static void place_batch(const struct zr_setup *s, struct zr_plan *p)
{
	uint64_t rows = (uint64_t)(s->facts.batch.micro * s->facts.batch.length), at = 0;
	int sample = s->facts.mode == ZR_MODE_SAMPLE;
	int positions = sample || zr_sliced(&s->facts.slices);
	uint64_t apart = 0, placed;
	for (int32_t i = 0; i < s->roles.n_sources; i++)
		if (zr_has_documents(&s->roles.source[i]))
			apart = rows * 4;

	p->tokens = zr_room(&at, rows * 4);
	p->targets = zr_room(&at, rows * 4);
	if (sample)
		apart = rows * 4;
	p->starts = zr_room(&at, apart);
	placed = apart;
	if (positions)
		placed = rows * 4;
	p->positions = zr_room(&at, placed);
	p->weights = zr_room(&at, apart);
	p->loss_rows = zr_room(&at, rows * 4);
	p->right_rows = zr_room(&at, rows * 4);

	if (sample)
		p->loss_bytes = (uint64_t)s->facts.decl.vocabulary * 4;
	else
		p->loss_bytes = (uint64_t)s->facts.slices.here * (1 + s->facts.decl.aux_loss) * 8;
	p->loss_sum = zr_room(&at, p->loss_bytes);
	if (s->facts.device_info.host_access)
		at = 0;
	p->host_batch = zr_room(&p->region[ZR_R_HOST].bytes, at);
}

/* Layers read the persistent numbers in device memory, the model writes them in host memory. */
static void place_persistent(const struct zr_setup_facts *f, struct zr_plan *p)
{
	const uint64_t bytes = (uint64_t)f->layout.persistent * sizeof(float);

	zr_room(&p->region[ZR_R_PERSISTENT].bytes, bytes);
	if (!f->device_info.host_access)
		p->host_persistent = zr_room(&p->region[ZR_R_HOST].bytes, bytes);
}

static int allocate_tables(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	const size_t states = (size_t)s->facts.layout.n_tensors * s->roles.n_states;
	p->unit = calloc((size_t)s->facts.layout.n_units + 1, sizeof *p->unit);
	p->whole.tensor = calloc((size_t)s->facts.layout.n_tensors + 1, sizeof *p->whole.tensor);
	p->run = calloc((size_t)s->facts.layout.n_tensors + 1, sizeof *p->run);
	p->first_run = calloc((size_t)s->facts.layout.n_units + 1, sizeof *p->first_run);
	p->state = calloc(states + 1, sizeof *p->state);
	p->state_bytes = calloc(states + 1, sizeof *p->state_bytes);
	if (!p->unit || !p->whole.tensor || !p->run || !p->first_run || !p->state ||
	    !p->state_bytes)
		return zr_err(err, ZR_ENOMEM, "out of memory for the plan");
	return 0;
}

/* What layers hand to each other in the backward, and what they keep when sampling. */
static void size_layers(const struct zr_setup_facts *f, struct zr_plan *p)
{
	for (uint32_t i = 0; i < f->decl.n_layers; i++) {
		const struct zr_layer_bytes *b = &f->layer_bytes[i];
		if (f->mode != ZR_MODE_SAMPLE)
			p->act_grad_bytes = zr_max(p->act_grad_bytes, b->grad);
		if (f->flags & ZR_SETUP_CACHED)
			zr_room(&p->region[ZR_R_CACHE].bytes, b->cache);
	}
}

/* All that has a place of its own. */
static int size_regions(struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	for (int32_t u = 0; u < s->facts.layout.n_units; u++)
		place_unit(s, p, u);
	p->region[ZR_R_ACT_OFFLOADED].bytes = s->programs.train_act.offloaded_bytes;
	size_layers(&s->facts, p);
	if (s->facts.mode == ZR_MODE_SAMPLE) {
		place_batch(s, p);
		return 0;
	}

	zr_runs_place(s, p);
	int rc = zr_whole_check(s, err);
	if (!rc)
		rc = zr_clip_place(s, &p->clip, err);
	if (rc)
		return rc;

	place_tables(s, p, &p->region[ZR_R_HOST].bytes);
	place_batch(s, p);
	place_persistent(&s->facts, p);
	zr_staging_size(s, p);

	/* what is staged travels by way of one set */
	int64_t chunk = ZR_CHUNK;
	if (p->staging.set_bytes)
		chunk = zr_fewer(chunk, p->staging.blocks);
	zr_whole_place(s, &p->whole, chunk);
	return 0;
}

static int check_parts(const struct zr_setup *s, const struct zr_plan *p, struct zr_error *err)
{
	int given = s->facts.train->gradient_part_size &&
		    s->facts.train->gradient_part_size != ZR_AUTO_COUNT;
	if (s->facts.mode != ZR_MODE_TRAIN || !given || p->region[ZR_R_PARTS].bytes)
		return 0;
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
			       "gradient_part_size: it does "
			       "nothing here: it is for an embedding or output projection of more "
			       "elements, needs [offload.gradient] and a device that computes "
			       "rows of a gradient, and is not for reduction = local nor slices; "
			       "take it out");
}

static int check_device_sums(const struct zr_setup *s, const struct zr_plan *p,
			     struct zr_error *err)
{
	const char *why = zr_why_no_device_sums(&s->facts, p);
	if (s->facts.mode != ZR_MODE_TRAIN || !why ||
	    s->facts.train->accumulate_on != ZR_ACCUMULATE_DEVICE)
		return 0;
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
			       "accumulate_on = device: it does nothing here: %s; take it out",
			       why);
}

int zr_plan_make(struct zr_setup *s, struct zr_error *err)
{
#define NAME(id, what) what,
	static const char *const name[] = { ZR_REGIONS(NAME) };
	struct zr_plan *p = &s->plan;
	for (int i = 0; i < ZR_R_COUNT; i++)
		p->region[i].what = name[i];
	zr_stores_choose(s, p);
	int rc = allocate_tables(s, p, err);
	if (!rc)
		rc = zr_sums_choose(s, p, err);
	if (!rc)
		rc = size_regions(s, p, err);
	if (!rc)
		rc = check_parts(s, p, err);
	if (!rc)
		rc = check_device_sums(s, p, err);
	if (!rc)
		rc = zr_lower_all(s, err);
	for (int i = 0; !rc && i < ZR_R_COUNT; i++)
		if (p->region[i].store > ZR_STORE_HOST)
			p->kept += p->region[i].bytes / ZR_PAGE *
				   s->facts.tier[p->region[i].store - ZR_STORE_OPTIMIZER].kept;
	return rc;
}

void zr_plan_free(struct zr_plan *p)
{
	void *const table[] = { p->unit,  p->whole.tensor, p->run,       p->first_run,
				p->state, p->state_bytes,  p->clip.layer };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		free(table[i]);
	memset(p, 0, sizeof *p);
}
