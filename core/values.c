/* SPDX-License-Identifier: Apache-2.0
 *
 * values.c - see values.h and session.h: everything that comes or goes passes through masters in
 * host memory, so many at a time.
 */
#include "core/values.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/numbers.h"
#include "core/exec/exec.h"
#include "core/persistent.h"

struct zr_chunk {
	float x[ZR_CHUNK * ZR_BLOCK];
	uint16_t work[2 * ZR_CHUNK * ZR_BLOCK]; /* what is kept of them in 16 bits and below */
	zr_values_fn *in;
	zr_masters_fn *out;
	void *arg;
	int begins;           /* states that begin as the parameters are what comes in */
	struct zr_error *err; /* of the call that goes on */
};

struct zr_chunk *zr_chunk_new(void)
{
	struct zr_chunk *c = aligned_alloc(64, zr_up(sizeof *c, 64));
	if (c)
		c->begins = 0;
	return c;
}

int zr_pass(struct zr_session *s, struct zr_spot spot, void *memory, uint64_t bytes, int write,
	    struct zr_error *err)
{
	char *at = NULL;
	uint64_t ticket;
	if (zr_addressed(s, spot.region))
		at = zr_at(s, spot);
	if (at && write)
		return zr_copy(s, at, memory, bytes, err);
	if (at)
		return zr_copy(s, memory, at, bytes, err);

	int rc = zr_writes_settle(s, err);
	if (!rc)
		rc = zr_request(s, spot, memory, bytes, write, &ticket, err);
	if (rc)
		return rc;
	return zr_requested(s, spot.region, ticket, err);
}

int zr_datum_pass(struct zr_session *s, const struct zr_subgroup *p, int d, void *memory, int write,
		  struct zr_error *err)
{
	if (!zr_subgroup_has(s->setup, p, d))
		return 0;

	const struct zr_spot spot = zr_datum_spot(s->setup, p, d);
	const uint64_t block = zr_block_bytes(s->setup, p, d);
	return zr_pass(s, spot, memory, (uint64_t)p->n * block, write, err);
}

/* All masters of a sub-group to x. work: room for as many bytes as at x. */
static int read_masters(struct zr_session *s, const struct zr_subgroup *p, float *x, uint16_t *work,
			struct zr_error *err)
{
	int32_t kept = zr_unit_master(s->facts, p->unit);
	uint16_t *rem = work + p->n * ZR_BLOCK;
	struct zr_masters m = { s->roles->host_ops, (char *)rem, (char *)work };
	if (kept == ZR_MASTER_FP32)
		return zr_datum_pass(s, p, ZR_D_MASTER, x, 0, err);
	if (zr_unit_dtype(s->facts, p->unit) == ZR_F32)
		return zr_datum_pass(s, p, ZR_D_LOWP, x, 0, err);

	int rc = zr_datum_pass(s, p, ZR_D_LOWP, work, 0, err);
	if (!rc && kept != ZR_MASTER_NONE)
		rc = zr_datum_pass(s, p, ZR_D_MASTER, rem, 0, err);
	if (rc)
		return rc;
	return zr_master_convert(s, p, &m, p->n, x, 0, err);
}

/* The compute copy in work, where it has but values that codes have; these come behind it. */
static int round_copy(struct zr_session *s, const struct zr_subgroup *p, uint16_t *work,
		      struct zr_error *err)
{
	const struct zr_ops *ops = s->roles->host_ops;
	const struct zr_array copy = zr_array_at(s->facts->types.dtype, work);
	const struct zr_array codes = zr_array_at(ZR_MXINT8, work + p->n * ZR_BLOCK);
	struct zr_op_cast in = { .size = sizeof in, .n = p->n * ZR_BLOCK, .src = copy };
	struct zr_op_cast out = { .size = sizeof out, .n = p->n * ZR_BLOCK, .src = codes };
	if (!zr_rounds_parameters(s->facts, p->unit))
		return 0;

	in.dst = codes;
	out.dst = copy;
	int rc = zr_op_failed(s, ops, ops->cast(ops, NULL, &in), "encode", err);
	if (rc)
		return rc;
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &out), "decode", err);
}

int zr_master_in(struct zr_session *s, const struct zr_subgroup *p, float *x, uint16_t *work,
		 struct zr_error *err)
{
	int wide = zr_unit_dtype(s->facts, p->unit) == ZR_F32;
	int split = zr_unit_rem_bits(s->facts, p->unit) != 0;
	uint16_t *rem = work + p->n * ZR_BLOCK;
	struct zr_masters m = { s->roles->host_ops, (char *)rem, (char *)work };
	void *master = x, *copy = x;
	int rc = 0;
	if (split)
		master = rem;
	if (!wide) {
		copy = work;
		rc = zr_master_convert(s, p, &m, p->n, x, 1, err);
	}

	if (!rc)
		rc = round_copy(s, p, work, err);
	if (!rc)
		rc = zr_datum_pass(s, p, ZR_D_MASTER, master, 1, err);
	if (rc)
		return rc;
	return zr_datum_pass(s, p, ZR_D_LOWP, copy, 1, err);
}

/* States that begin as the parameters are what is at x, of a chunk's part of a run. */
static int state_from_param(struct zr_session *s, const struct zr_subgroup *p,
			    const struct zr_block_run *r, float *x, struct zr_error *err)
{
	const struct zr_optimizer *o = &s->roles->optimizer[r->optimizer];
	int64_t from = p->first, end = p->first + p->n;
	int rc = 0;
	if (!zr_intersect(r->first, r->first + r->n, &from, &end))
		return 0;

	const struct zr_subgroup part = zr_subgroup_in(s->plan, r, from, end - from);
	float *values = x + (from - p->first) * ZR_BLOCK;
	for (uint32_t i = 0; !rc && i < o->n_states; i++)
		if (zr_state_flags(o, i) & ZR_STATE_FROM_PARAM)
			rc = zr_datum_pass(s, &part, ZR_D_STATE + (int)(o->first_state + i), values,
					   1, err);
	return rc;
}

static int states_from_params(struct zr_session *s, const struct zr_subgroup *p, float *x,
			      struct zr_error *err)
{
	int rc = 0;
	for (int32_t r = s->plan->first_run[p->unit]; !rc && r < s->plan->first_run[p->unit + 1];
	     r++)
		rc = state_from_param(s, p, &s->plan->run[r], x, err);
	return rc;
}

/* Calls fn for a rank's share of a unit, chunk by chunk. */
typedef int chunk_fn(struct zr_session *s, const struct zr_subgroup *p, int32_t rank);
static int each_chunk(struct zr_session *s, int32_t unit, int32_t rank, chunk_fn *fn)
{
	struct zr_share share = zr_unit_share(s->facts, unit, s->facts->groups[unit].state, rank);
	struct zr_block_run all = { .unit = unit, .optimizer = ZR_ANY };
	int rc = 0;
	for (int64_t at = 0; !rc && at < share.n; at += ZR_CHUNK) {
		int64_t n = zr_fewer(share.n - at, ZR_CHUNK);
		struct zr_subgroup subgroup = zr_subgroup_in(s->plan, &all, share.first + at, n);
		rc = fn(s, &subgroup, rank);
	}
	return rc;
}

/* What is at the chunk's x, after `in` has written to it. */
static int take_in(struct zr_session *s, const struct zr_subgroup *p)
{
	struct zr_chunk *c = s->chunk;
	uint64_t count = zr_cut_segments(s, p->unit, p->first, p->n, s->seg);
	int rc = 0;
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + count; g++)
		rc = c->in(c->arg, g->param, g->param_off, g->n, c->x + g->off, c->err);
	if (!rc && c->begins)
		rc = states_from_params(s, p, c->x, c->err);
	if (rc)
		return rc;
	return zr_master_in(s, p, c->x, c->work, c->err);
}

/* Padding is zero and stays so. */
static int fill(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	(void)rank;
	memset(s->chunk->x, 0, (size_t)p->n * ZR_BLOCK * sizeof *s->chunk->x);
	return take_in(s, p);
}

static int change(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	struct zr_chunk *c = s->chunk;
	(void)rank;

	int rc = read_masters(s, p, c->x, c->work, c->err);
	if (rc)
		return rc;
	return take_in(s, p);
}

/* What is at x changes places with the weights for evaluation, of a chunk's part of a run. */
static int exchange_part(struct zr_session *s, const struct zr_subgroup *p,
			 const struct zr_block_run *r, struct zr_chunk *c)
{
	const struct zr_optimizer *o = &s->roles->optimizer[r->optimizer];
	const int32_t state = zr_eval_state(o);
	float *other = (float *)(void *)c->work;
	int64_t from = p->first, end = p->first + p->n;
	if (state < 0 || !zr_intersect(r->first, r->first + r->n, &from, &end))
		return 0;

	const struct zr_subgroup part = zr_subgroup_in(s->plan, r, from, end - from);
	const int d = ZR_D_STATE + (int)o->first_state + state;
	float *x = c->x + (from - p->first) * ZR_BLOCK;
	if (s->before_update)
		s->before_update(s->before_update_arg, &part);

	int rc = zr_datum_pass(s, &part, d, other, 0, c->err);
	if (!rc)
		rc = zr_datum_pass(s, &part, d, x, 1, c->err);
	if (!rc)
		memcpy(x, other, (size_t)part.n * ZR_BLOCK * sizeof *x);
	return rc;
}

static int exchange(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	struct zr_chunk *c = s->chunk;
	const int32_t end = s->plan->first_run[p->unit + 1];
	(void)rank;

	if (s->facts->frozen_unit[p->unit])
		return 0;
	int rc = read_masters(s, p, c->x, c->work, c->err);
	for (int32_t r = s->plan->first_run[p->unit]; !rc && r < end; r++)
		rc = exchange_part(s, p, &s->plan->run[r], c);
	if (rc)
		return rc;
	return zr_master_in(s, p, c->x, c->work, c->err);
}

/* All that this rank holds, by fill(), change() or exchange(). */
static int write_all(struct zr_session *s, chunk_fn *how, zr_values_fn *fn, void *arg,
		     struct zr_error *err)
{
	int rc = zr_settle(s, err);
	s->chunk->err = err;
	s->chunk->in = fn;
	s->chunk->arg = arg;
	for (int32_t u = 0; !rc && u < s->facts->layout.n_units; u++)
		rc = each_chunk(s, u, s->facts->process.rank, how);
	if (rc || s->facts->mode == ZR_MODE_SAMPLE)
		return rc;
	return zr_run_program(s, ZR_S_VALUES, err);
}

int zr_session_fill(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	return write_all(s, fill, fn, arg, err);
}

int zr_session_change(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	return write_all(s, change, fn, arg, err);
}

int zr_session_exchange(struct zr_session *s, struct zr_error *err)
{
	if (!zr_has_eval_weights(s->setup))
		return 0;
	return write_all(s, exchange, NULL, NULL, err);
}

int zr_init_values(void *arg, int32_t i, int64_t first, int64_t n, float *x, struct zr_error *err)
{
	struct zr_session *s = arg;
	const struct zr_tensor *decl = s->facts->layout.tensor[i].decl;
	/* a key that depends on the seed alone, at a step that no run reaches */
	const uint64_t key = ~(uint64_t)s->facts->train->seed;
	struct zr_op_init op = { .size = sizeof op,
				 .mean = decl->mean,
				 .std = decl->init == ZR_INIT_CONST ? 0 : decl->std,
				 .flags = decl->init == ZR_INIT_UNIFORM ? ZR_INIT_OP_UNIFORM : 0,
				 .rng = { .seed = (uint32_t)key,
					  .step = key >> 32,
					  .slot = (uint32_t)i,
					  .site = UINT32_MAX },
				 .first = first,
				 .n = n,
				 .dst = x };
	int rc = s->roles->host_ops->init(s->roles->host_ops, NULL, &op);
	return zr_op_failed(s, s->roles->host_ops, rc, "init", err);
}

/* First values of one state of a run. Memory and objects of stores are zero already. */
static int init_state(struct zr_session *s, const struct zr_block_run *r, uint32_t i,
		      struct zr_error *err)
{
	const struct zr_state *st = zr_setup_state(s->roles, i);
	int rc = 0;
	if (st->init == 0)
		return 0;

	for (int64_t k = 0; k < ZR_CHUNK * ZR_BLOCK; k++)
		s->chunk->x[k] = (float)st->init;
	for (int64_t at = 0; !rc && at < r->n; at += ZR_CHUNK) {
		int64_t n = zr_fewer(r->n - at, ZR_CHUNK);
		struct zr_subgroup p = zr_subgroup_in(s->plan, r, r->first + at, n);
		rc = zr_datum_pass(s, &p, ZR_D_STATE + (int)i, s->chunk->x, 1, err);
	}
	return rc;
}

int zr_session_begin(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	int rc = 0;
	for (int32_t r = 0; r < s->plan->n_runs; r++) {
		const struct zr_optimizer *o = &s->roles->optimizer[s->plan->run[r].optimizer];
		for (uint32_t i = 0; !rc && i < o->n_states; i++)
			rc = init_state(s, &s->plan->run[r], o->first_state + i, err);
	}
	if (!rc)
		rc = zr_persistent_renew(s, 0, err);
	if (rc)
		return rc;

	s->chunk->begins = 1;
	rc = zr_session_fill(s, fn, arg, err);
	s->chunk->begins = 0;
	return rc;
}

/* From who holds it to its group. */
static int send_chunk(struct zr_session *s, const struct zr_subgroup *p, int32_t rank, float *x)
{
	int32_t group = s->facts->groups[p->unit].state;
	int32_t ranks = (int32_t)zr_group_ranks(s->facts, group);
	struct zr_comm_seg seg = { .send = x, .recv = x, .count = p->n * ZR_BLOCK };
	struct zr_comm_op o = { .size = sizeof o,
				.kind = ZR_COMM_BROADCAST,
				.group = group,
				.dtype = ZR_F32,
				.root = rank % ranks,
				.n_seg = 1,
				.seg = &seg,
				.tag = { .step = s->step + 1, .op = -1, .unit = p->unit } };
	if (ranks == 1)
		return 0;
	return zr_comm_run(s, &o, s->chunk->err);
}

static int hand_out(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	const struct zr_setup_facts *f = s->facts;
	struct zr_chunk *c = s->chunk;
	uint64_t count = 0;
	int rc = 0;
	if (c->out)
		count = zr_cut_segments(s, p->unit, p->first, p->n, s->seg);
	if (rank == f->process.rank)
		rc = read_masters(s, p, c->x, c->work, c->err);
	if (!rc)
		rc = send_chunk(s, p, rank, c->x);
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + count; g++)
		rc = c->out(c->arg, &f->layout.tensor[g->param], g->param_off, g->n, c->x + g->off);
	return rc;
}

int zr_session_masters(struct zr_session *s, zr_masters_fn *fn, void *arg, struct zr_error *err)
{
	const struct zr_setup_facts *f = s->facts;
	int rc = zr_settle(s, err);
	s->chunk->err = err;
	s->chunk->out = fn;
	s->chunk->arg = arg;
	for (int32_t u = 0; !rc && u < f->layout.n_units; u++) {
		const struct zr_axis *a = &f->mesh.group[f->groups[u].state];
		for (int32_t r = 0; !rc && r < a->n; r++)
			rc = each_chunk(s, u, f->process.rank - a->rank + r, hand_out);
	}
	return rc;
}
