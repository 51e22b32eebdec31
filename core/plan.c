/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - sizes of the regions and offsets inside them; see plan.h.
 */
#include "core/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/lifetime.h"
#include "core/boundary.h"
#include "core/setup.h"

#define PAGE 4096u

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Activations that are kept: an output lives until the next layer's backward has read it, what a layer saved
 * until its own backward. In evaluation an output lives until the next layer has run. */
static int place_activations(struct zr_setup *s, int training, struct zr_layer_place *place, uint64_t *bytes,
			     struct zr_error *err)
{
	int32_t layers = (int32_t)s->decl.n_layers, last = layers - 1;
	struct zr_lifetime *l = calloc(2 * (size_t)layers, sizeof *l);
	if (!l)
		return zr_err(err, ZR_ENOMEM, "out of memory while planning %d layers", layers);
	for (int32_t i = 0; i < layers; i++) {
		const struct zr_layer_bytes *b = &s->layer_bytes[i];
		int32_t next_back = 2 * last - (i + 1), back = 2 * last - i;
		l[2 * i] = (struct zr_lifetime){ .bytes = b->out, .first = i, .last = training && i < last ? next_back : i + 1 };
		l[2 * i + 1] = (struct zr_lifetime){ .bytes = b->saved, .first = training && i == last ? back : i,
						     .last = training ? back : i };
	}
	uint64_t total;
	int rc = zr_lifetime_assign(l, 2 * layers, &total, err);
	for (int32_t i = 0; !rc && i < layers; i++)
		place[i] = (struct zr_layer_place){ .out = l[2 * i].offset, .saved = l[2 * i + 1].offset };
	if (!rc)
		*bytes = max(*bytes, total);
	free(l);
	return rc;
}

static void size_work(const struct zr_setup *s, struct zr_plan *p)
{
	int sampling = s->mode == ZR_SETUP_SAMPLE;
	uint64_t grad = 0;
	for (uint32_t i = 0; i < s->decl.n_layers; i++) {
		const struct zr_layer_bytes *b = &s->layer_bytes[i];
		int loss = zr_layer_at(&s->decl, (int32_t)i)->flags & ZR_LAYER_LOSS;
		p->work_bytes = max(p->work_bytes, b->work_fwd);
		if (!sampling || loss)
			p->work_bytes = max(p->work_bytes, b->work_bwd);
		grad = max(grad, b->grad);
	}
	p->work_bytes = up(p->work_bytes, 64);
	p->region[ZR_R_WORK].bytes = p->work_bytes + (sampling ? 0 : grad);
}

static struct zr_spot take(struct zr_plan *p, int region, int64_t blocks, int32_t dtype)
{
	struct zr_spot spot = { .region = region, .at = p->region[region].bytes };
	p->region[region].bytes += (uint64_t)(blocks * ZR_BLOCK * zr_dtype_bytes(dtype));
	return spot;
}

static struct zr_spot inside(struct zr_spot spot, int64_t blocks, int32_t dtype)
{
	spot.at += (uint64_t)(blocks * ZR_BLOCK * zr_dtype_bytes(dtype));
	return spot;
}

/* In fp32 the master serves as the compute copy wherever both are split alike. */
static void place_unit(const struct zr_setup *s, struct zr_plan *p, int32_t unit)
{
	const struct zr_unit_place *u = &s->layout.unit[unit];
	const struct zr_groups *g = &s->groups[unit];
	struct zr_unit_memory *m = &p->unit[unit];
	int64_t world = s->process.world, ranks = zr_group_ranks(s, g->param);
	int32_t type = s->types.dtype;
	m->per = (u->blocks + world - 1) / world;
	zr_layout_shard(u, s->process.rank, (int)world, &m->first, &m->n);
	m->param_per = (u->blocks + ranks - 1) / ranks;
	int64_t whole = world * m->per, mine = s->process.rank * m->per;
	int whole_state = g->state == ZR_GROUP_SELF, whole_param = g->param == ZR_GROUP_SELF;
	int64_t held = whole_state ? whole : m->per;
	if (type == ZR_F32 && whole_param && !whole_state) {
		m->param = take(p, ZR_R_PARAM, whole, type);
		m->master = m->home = inside(m->param, mine, type);
	} else {
		m->master = take(p, ZR_R_MASTER, held, ZR_F32);
		if (type == ZR_F32)
			m->home = whole_state ? inside(m->master, mine, type) : m->master;
		if (type == ZR_F32 && g->param == g->state)
			m->param = m->master;
		else
			m->param = take(p, ZR_R_PARAM, whole_param ? whole : m->param_per, type);
		if (type != ZR_F32)
			m->home = whole_param ? inside(m->param, mine, type) :
				  g->param == ZR_GROUP_WORLD ? m->param : take(p, ZR_R_PARAM, m->per, type);
	}
	if (s->mode == ZR_SETUP_SAMPLE)
		return;
	m->grad = take(p, ZR_R_GRAD, held, ZR_F32);
	if (zr_sums_locally(s))
		m->local = take(p, ZR_R_LOCAL, whole, ZR_F32);
	m->state_block = p->state_blocks;
	p->state_blocks += held;
}

/* The contributions to the largest bucket, sent and received, where they cannot be read in place; in 16 bits also one
 * rank's share of a unit widened again. */
static uint64_t comm_bytes(const struct zr_setup *s, const struct zr_plan *p, const struct zr_program *prog)
{
	uint64_t most = 0;
	for (int32_t i = 0; !p->peers && s->process.world > 1 && i < prog->n; i++) {
		uint64_t sum = 0, wide = 0;
		for (int32_t k = 0; prog->op[i].kind == ZR_P_REDUCE && k < prog->op[i].n; k++) {
			uint64_t n = (uint64_t)zr_unit_padded_elements(s, prog->unit[prog->op[i].first + k]);
			sum += n * 4; /* fp32 received, or 16 bits sent and received */
			if (s->types.comm_dtype != ZR_F32)
				wide = max(wide, n / (uint64_t)s->process.world * 4);
		}
		most = max(most, sum + wide);
	}
	return most;
}

static void size_programs(const struct zr_setup *s, struct zr_plan *p)
{
	for (int i = 0; i < 4; i++) {
		const struct zr_program *prog = &s->program[i];
		if (!p->direct)
			p->region[ZR_R_GRAD_BUFFER].bytes = max(p->region[ZR_R_GRAD_BUFFER].bytes, prog->grad_bytes);
		p->region[ZR_R_GATHER].bytes = max(p->region[ZR_R_GATHER].bytes, prog->gather_bytes);
		p->region[ZR_R_COMM].bytes = max(p->region[ZR_R_COMM].bytes, comm_bytes(s, p, prog));
	}
}

static void place_state(const struct zr_setup *s, struct zr_plan *p)
{
	for (uint32_t i = 0; i < s->n_states; i++) {
		const struct zr_state *st = zr_setup_state(s, i);
		p->state_bytes[i] = st->bytes_per_block ? st->bytes_per_block : ZR_BLOCK * (st->dtype == ZR_F32 ? 4 : 2);
		p->state[i] = p->region[ZR_R_STATE].bytes;
		p->region[ZR_R_STATE].bytes += up((uint64_t)p->state_blocks * p->state_bytes[i], 64);
	}
}

static void place_batch(const struct zr_setup *s, struct zr_plan *p, uint64_t blocks)
{
	uint64_t rows = (uint64_t)(s->batch.micro * s->batch.length), at = 0;
	p->tokens = at;
	at += up(rows * 4, 64);
	p->targets = at;
	at += up(rows * 4, 64);
	p->loss_rows = at;
	at += up(rows * 4, 64);
	p->loss_sum = at;
	at += 64;
	p->sumsq = at;
	p->nonfinite = at;
	if (s->mode != ZR_SETUP_SAMPLE) {
		at += up(blocks * 8, 64);
		p->nonfinite = at;
		at += up(blocks * 4, 64);
		p->exchange = at;
		at += up(sizeof(struct zr_boundary) * ((uint64_t)s->process.world + 1), 64);
	}
	p->region[ZR_R_BATCH].bytes = at;
}

static int allocate_tables(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	p->unit = calloc((size_t)s->layout.n_units + 1, sizeof *p->unit);
	p->state = calloc(s->n_states + 1, sizeof *p->state);
	p->state_bytes = calloc(s->n_states + 1, sizeof *p->state_bytes);
	p->train = calloc(s->decl.n_layers, sizeof *p->train);
	p->eval = calloc(s->decl.n_layers, sizeof *p->eval);
	if (!p->unit || !p->state || !p->state_bytes || !p->train || !p->eval)
		return zr_err(err, ZR_ENOMEM, "out of memory for the plan");
	return 0;
}

int zr_plan_make(struct zr_setup *s, struct zr_plan *out, struct zr_error *err)
{
	static const char *const name[ZR_R_COUNT] = {
		[ZR_R_PARAM] = "parameters",	   [ZR_R_MASTER] = "master parameters", [ZR_R_GRAD] = "gradients",
		[ZR_R_GRAD_BUFFER] = "gradient buffers", [ZR_R_LOCAL] = "local gradients", [ZR_R_GATHER] = "gathered parameters",
		[ZR_R_STATE] = "optimizer state",  [ZR_R_ACT] = "activations",		[ZR_R_WORK] = "workspace",
		[ZR_R_COMM] = "communication",	   [ZR_R_BATCH] = "batch",
	};
	struct zr_plan p = { 0 };
	int train = s->mode != ZR_SETUP_SAMPLE;
	int rc = allocate_tables(s, &p, err);
	p.direct = s->batch.slots == 1 && s->types.comm_dtype == ZR_F32;
	p.peers = s->peers;
	for (int32_t u = 0; !rc && u < s->layout.n_units; u++)
		place_unit(s, &p, u);
	size_programs(s, &p);
	if (!rc && train) {
		place_state(s, &p);
		rc = place_activations(s, 1, p.train, &p.region[ZR_R_ACT].bytes, err);
	}
	if (!rc)
		rc = place_activations(s, 0, p.eval, &p.region[ZR_R_ACT].bytes, err);
	if (rc) {
		zr_plan_free(&p);
		return rc;
	}
	size_work(s, &p);
	place_batch(s, &p, (uint64_t)s->layout.blocks);
	for (int i = 0; i < ZR_R_COUNT; i++) {
		p.region[i].what = name[i];
		p.region[i].bytes = up(p.region[i].bytes, PAGE);
		p.region[i].offset = p.total;
		p.total += p.region[i].bytes;
	}
	*out = p;
	return 0;
}

void zr_plan_free(struct zr_plan *p)
{
	free(p->unit);
	free(p->state);
	free(p->state_bytes);
	free(p->train);
	free(p->eval);
	memset(p, 0, sizeof *p);
}
