/* SPDX-License-Identifier: Apache-2.0
 *
 * sizes.c - sizes of the regions and offsets inside them; see plan.h.
 */
#include "core/memory/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/exec/boundary.h"
#include "core/memory/subgroup.h"
#include "core/program/route.h"
#include "core/setup.h"

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
	int32_t kept = fp32 ? ZR_MASTER_FP32 : zr_unit_master(f, unit);
	int serves = fp32 && p->region[region].tier == p->region[ZR_R_MASTER].tier;
	int apart = zr_unit_apart(f, unit), part = serves && !apart && g->param != g->state;
	if (!part)
		m->master = take(p, ZR_R_MASTER, kept == ZR_MASTER_NONE ? 0 : m->held.per,
				 kept == ZR_MASTER_SPLIT24 ? ZR_U8 :
				 kept == ZR_MASTER_SPLIT   ? ZR_BF16 :
							     ZR_F32);
	m->param = serves && !apart && !part ? m->master : take(p, region, m->param_per, type);
	int64_t before = g->param == ZR_GROUP_SELF ? f->mesh.group[g->state].rank * m->held.per : 0;
	m->held_copy = !apart ? inside(m->param, before, type) :
		       serves ? m->master :
				take(p, region, m->held.per, type);
	if (part)
		m->master = m->held_copy;
}

static void place_unit(const struct zr_setup *s, struct zr_plan *p, int32_t unit)
{
	const struct zr_setup_facts *f = &s->facts;
	const struct zr_unit_place *u = &f->layout.unit[unit];
	const struct zr_groups *g = &f->groups[unit];
	struct zr_unit_memory *m = &p->unit[unit];
	int32_t world = f->process.world, rank = f->process.rank;
	m->own = zr_share_of(u->blocks, world, rank);
	m->held = zr_unit_share(f, unit, g->state, rank);
	int32_t part = zr_rank_part(f->mesh.group[g->state].n, world, rank);
	m->counted = zr_share_of(u->blocks, world, part);
	m->param_per = zr_unit_share(f, unit, g->param, rank).per;
	m->offloaded = zr_unit_offloaded(f, unit);
	place_values(f, p, unit);
	if (f->mode == ZR_MODE_SAMPLE || f->frozen_unit[unit])
		return;

	m->grad = take(p, ZR_R_GRAD, m->held.per, ZR_F32);
	if (s->programs.recorded[ZR_PROG_LAST_MICRO].own_sums) /* a buffer, when that is lowered */
		m->grad.at = 0;
	if ((m->part = zr_unit_part(f, unit)))
		m->parts = take(p, ZR_R_PARTS, world * m->own.per, ZR_F32);
	if (zr_sums_locally(f))
		m->local = take(p, ZR_R_LOCAL, world * m->own.per, ZR_F32);
}

/* The largest sub-group that a program updates: blocks. */
static uint64_t subgroup_blocks(const struct zr_plan *p, const struct zr_program *prog)
{
	int64_t most = 1;
	for (int32_t i = 0; i < prog->n; i++) {
		const struct zr_pop *op = &prog->op[i];
		for (int32_t k = 0; op->kind == ZR_P_UPDATE && k < op->n; k++) {
			int32_t unit = prog->unit[op->first + k];
			int64_t held = p->unit[unit].held.per,
				n = 1 + (op->subgroup - 1) / ZR_BLOCK;
			n = op->subgroup > 0 && n < held ? n : held;
			most = n > most ? n : most;
		}
	}
	return (uint64_t)most;
}

/* With which the disk works between updates in the backward. All ranks choose alike. */
static int sets_of_layers(const struct zr_setup_facts *f, const struct zr_staging *g)
{
	int64_t group = g->blocks * ZR_BLOCK * (int64_t)g->ranks;
	int64_t most[] = { f->layout.blocks * ZR_BLOCK / group / 4,
			   (1 << 30) / (int64_t)g->set_bytes, 64 };
	int64_t sets = 3 * ((f->typical_unit + group - 1) / group);
	for (int i = 0; i < 3; i++)
		sets = sets < most[i] ? sets : most[i];
	return (int)sets;
}

/* How many sub-groups are under way: as the slowest store among the optimizer's and the
 * gradient's wishes; `copies` to a device are made while the next sub-group is computed. */
static void pipeline(const struct zr_setup *s, struct zr_staging *g, int copies)
{
	int buffers = 0, read = 0, write = copies, waits = copies; /* reads, for the last write */
	for (int i = 0; i < ZR_OFFLOADS; i++) {
		const struct zr_tier_info *t = &s->facts.tier[i];
		if (!t->size || t->direct)
			continue;
		buffers = t->buffers > (uint32_t)buffers ? (int)t->buffers : buffers;
		read |= t->pipeline_read != 0;
		write |= t->pipeline_write != 0;
		waits |= t->pipeline_write && !t->in_order;
	}

	int least = 1 + read + write;
	if (!buffers && read && g->set_bytes && s->programs.recorded[ZR_PROG_LAST_MICRO].updates)
		buffers = least + sets_of_layers(&s->facts, g);
	g->sets = !g->set_bytes ? 1 : buffers > least ? buffers : least;
	g->ahead = read && g->set_bytes ? g->sets - 1 - waits : 0;
}

static void size_staging(const struct zr_setup *s, struct zr_plan *p)
{
	const struct zr_program *backward = &s->programs.recorded[ZR_PROG_LAST_MICRO];
	int copies = 0, sums = p->region[ZR_R_GRAD].tier == ZR_TIER_DISK;
	struct zr_staging *g = &p->staging;
	g->n_data = ZR_D_STATE + (int32_t)s->roles.n_states;
	g->blocks = (int64_t)zr_max(subgroup_blocks(p, backward),
				    subgroup_blocks(p, &s->programs.recorded[ZR_PROG_UPDATE]));
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		int32_t unit = s->facts.layout.tensor[i].unit;
		struct zr_subgroup subgroup = { .unit = unit,
						.optimizer = zr_optimizer_of(&s->roles, i) };
		if (s->facts.frozen[i])
			continue;
		g->set_bytes = zr_max(g->set_bytes, zr_staged_at(s, &subgroup, g->n_data));
		g->ranks = zr_max(g->ranks,
				  (uint64_t)s->facts.mesh.group[s->facts.groups[unit].state].n);
		copies |= zr_datum_staged(s, unit, ZR_D_LOWP);
	}

	g->set_bytes = zr_up(g->set_bytes, ZR_PAGE);
	pipeline(s, g, copies);
	g->bytes = g->set_bytes * (uint64_t)g->sets;
	if (backward->updates && sums) /* which have two buffers of it */
		g->bytes = zr_max(g->bytes, 2 * (uint64_t)g->blocks * ZR_BLOCK * 4);
}

/* Whether comm adds what ranks send. A rank sends once per update: then the fold over ranks is
 * one sum of them in rank order, and in fp32 that is the sum of zeroth/comm.h, bit for bit
 * (invariant I1). */
static int adds_in_comm(const struct zr_setup_facts *f)
{
	int once = f->train->reduction == ZR_REDUCE_LOCAL || f->batch.accumulation == 1;
	return f->process.world > 1 && !f->peers && once && f->types.comm_dtype == ZR_F32;
}

/* What adds in an order of its own in a section's comm, or NULL. needs: what must change before
 * it adds at all, or NULL. */
static int ask_sums(const struct zr_setup *s, const char *section, const char *needs,
		    const char **sums, struct zr_error *err)
{
	const struct zr_section *sec = zr_config_find(s->cfg, section);
	const struct zr_comm_v1 *v = zr_plugin_iface(sec->plugin, "zr.comm/1", err);
	*sums = v && v->sums ? v->sums(sec->opts) : NULL;
	if (!*sums || !needs)
		return 0;
	return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
			       "sums: %s would add nothing: %s, or sums = ordered", *sums, needs);
}

/* Another order than that of the ranks is for who gave up, by reduction = local, that bits do
 * not depend on their number. */
static int choose_sums(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	const char *none;
	int local = s->facts.train->reduction == ZR_REDUCE_LOCAL;
	if (s->facts.process.world == 1)
		return 0;

	const char *why = "each rank must send one fp32 sum per update: set [train] reduction = "
			  "local and communication_data_type = fp32";
	int rc = ask_sums(s, "comm", p->scatter && local ? NULL : why, &p->sums, err);
	if (rc || !s->roles.host_comm.inst)
		return rc;
	return ask_sums(s, "comm.host", "gradients go through [comm]: set its sums", &none, err);
}

/* By which way gradients go. */
static void choose_ways(const struct zr_setup_facts *f, struct zr_plan *p)
{
	int leaves = !f->device_info.host_ops && p->region[ZR_R_GRAD].store != ZR_STORE_DEVICE;
	p->direct = f->batch.slots == 1 && f->types.comm_dtype == ZR_F32 &&
		    p->region[ZR_R_GRAD].store == ZR_STORE_DEVICE;
	p->scatter = f->mode != ZR_MODE_SAMPLE && adds_in_comm(f);
	p->stored_directly = leaves && !zr_comm_on_host(f) && f->types.comm_dtype == ZR_F32 &&
			     p->region[ZR_R_GRAD].tier != ZR_TIER_DISK &&
			     (f->process.world == 1 || p->scatter);
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
	p->scalars = zr_room(end, groups * sizeof(struct zr_scalars));
	*end = zr_partial_place(s, &p->partial, *end);
}

static void place_batch(const struct zr_setup *s, struct zr_plan *p)
{
	uint64_t rows = (uint64_t)(s->facts.batch.micro * s->facts.batch.length), at = 0;
	int sample = s->facts.mode == ZR_MODE_SAMPLE;
	uint64_t apart = sample ? rows * 4 : 0;
	for (int32_t i = 0; i < s->roles.n_sources; i++)
		apart = zr_has_documents(&s->roles.source[i]) ? rows * 4 : apart;
	p->tokens = zr_room(&at, rows * 4);
	p->targets = zr_room(&at, rows * 4);
	p->starts = zr_room(&at, apart);
	p->positions = zr_room(&at, apart);
	p->weights = zr_room(&at, apart);
	p->loss_rows = zr_room(&at, rows * 4);
	p->right_rows = zr_room(&at, rows * 4);
	p->loss_bytes = sample ? (uint64_t)s->facts.decl.vocabulary * 4 :
				 (1 + s->facts.decl.aux_loss) * 8;
	p->loss_sum = zr_room(&at, p->loss_bytes);
	p->host_batch =
		zr_room(&p->region[ZR_R_HOST].bytes, s->facts.device_info.host_access ? 0 : at);
}

/* That of the section [offload.X], if it is there. */
static int store_or(const struct zr_setup_facts *f, int store, int other)
{
	return zr_offloaded(f, store) ? store : other;
}

/* Whole matrices: on a device that does not reach the host, if all optimizers of them can be
 * there. */
static int store_whole(const struct zr_setup *s, int sums)
{
	int device = !s->facts.device_info.host_ops;
	for (const struct zr_optimizer *o = s->roles.optimizer;
	     o < s->roles.optimizer + s->roles.n_optimizers; o++)
		device &= !zr_is_whole(o) || (zr_optimizer_calls(o)->mem_ok & ZR_MEM_DEVICE);
	return device ? ZR_STORE_DEVICE : sums;
}

/* Sums lie where the optimizer runs, unless they have a section of their own. */
static void choose_stores(const struct zr_setup *s, struct zr_plan *p)
{
	const struct zr_setup_facts *f = &s->facts;
	int offloaded = zr_offloaded(f, ZR_STORE_OPTIMIZER);
	int state = offloaded ? ZR_STORE_OPTIMIZER : ZR_STORE_DEVICE,
	    host = f->device_info.unified ? ZR_STORE_DEVICE : ZR_STORE_HOST;
	p->region[ZR_R_MASTER].store = p->region[ZR_R_STATE].store = state;
	int sums = offloaded ? host : ZR_STORE_DEVICE;
	p->region[ZR_R_GRAD].store = store_or(f, ZR_STORE_GRADIENT, sums);
	p->region[ZR_R_PARTS].store = p->region[ZR_R_GRAD].store;
	/* an update takes them at once */
	if (s->programs.recorded[ZR_PROG_LAST_MICRO].own_sums &&
	    zr_on_disk(f, p->region[ZR_R_GRAD].store))
		p->region[ZR_R_GRAD].store = sums;
	p->region[ZR_R_PARAM_OFFLOADED].store = store_or(f, ZR_STORE_PARAM, ZR_STORE_DEVICE);
	p->region[ZR_R_ACT_OFFLOADED].store = store_or(f, ZR_STORE_ACTIVATION, ZR_STORE_DEVICE);
	p->region[ZR_R_HOST].store = p->region[ZR_R_STAGING].store = host;
	p->region[ZR_R_CHUNK].store = sums;
	p->region[ZR_R_WHOLE].store = store_whole(s, sums);
	p->region[ZR_R_GRAD_BOUNCE].store = p->region[ZR_R_HOST_COMM].store =
		p->region[ZR_R_BOUNCE].store = host;
	for (int i = 0; i < ZR_R_COUNT; i++)
		p->region[i].tier = zr_store_tier(f, p->region[i].store);
}

static int allocate_tables(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	p->unit = calloc((size_t)s->facts.layout.n_units + 1, sizeof *p->unit);
	p->whole.tensor = calloc((size_t)s->facts.layout.n_tensors + 1, sizeof *p->whole.tensor);
	p->run = calloc((size_t)s->facts.layout.n_tensors + 1, sizeof *p->run);
	p->first_run = calloc((size_t)s->facts.layout.n_units + 1, sizeof *p->first_run);
	p->state = calloc(s->roles.n_states + 1, sizeof *p->state);
	p->state_bytes = calloc(s->roles.n_states + 1, sizeof *p->state_bytes);
	if (!p->unit || !p->whole.tensor || !p->run || !p->first_run || !p->state ||
	    !p->state_bytes)
		return zr_err(err, ZR_ENOMEM, "out of memory for the plan");
	return 0;
}

/* All that has a place of its own. */
static int size_regions(struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	int train = s->facts.mode != ZR_MODE_SAMPLE;
	for (int32_t u = 0; u < s->facts.layout.n_units; u++)
		place_unit(s, p, u);
	int rc = train ? zr_runs_place(s, p, err) : 0;
	if (rc)
		return rc;

	p->region[ZR_R_ACT_OFFLOADED].bytes = s->programs.train_act.offloaded_bytes;
	for (uint32_t i = 0; i < s->facts.decl.n_layers; i++) {
		p->act_grad_bytes =
			zr_max(p->act_grad_bytes, train ? s->facts.layer_bytes[i].grad : 0);
		zr_room(&p->region[ZR_R_CACHE].bytes,
			s->facts.flags & ZR_SETUP_CACHED ? s->facts.layer_bytes[i].cache : 0);
	}
	if (train)
		place_tables(s, p, &p->region[ZR_R_HOST].bytes);
	place_batch(s, p);
	if (train) { /* what is staged travels by way of one set */
		size_staging(s, p);
		int few = p->staging.set_bytes && p->staging.blocks < ZR_CHUNK;
		zr_whole_place(s, &p->whole, few ? p->staging.blocks : ZR_CHUNK);
	}
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
			       "elements, needs [offload.gradient] and a device that computes rows "
			       "of a gradient, and is not for reduction = local; take it out");
}

int zr_plan_make(struct zr_setup *s, struct zr_error *err)
{
#define NAME(id, what) what,
	static const char *const name[] = { ZR_REGIONS(NAME) };
	struct zr_plan *p = &s->plan;
	for (int i = 0; i < ZR_R_COUNT; i++)
		p->region[i].what = name[i];
	choose_stores(s, p);
	choose_ways(&s->facts, p);
	int rc = allocate_tables(s, p, err);
	if (!rc)
		rc = choose_sums(s, p, err);
	if (!rc)
		rc = size_regions(s, p, err);
	if (!rc)
		rc = check_parts(s, p, err);
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
	void *const table[] = { p->unit,      p->whole.tensor, p->run,
				p->first_run, p->state,        p->state_bytes };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		free(table[i]);
	memset(p, 0, sizeof *p);
}
