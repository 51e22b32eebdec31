/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - optimizers of whole matrices: a tensor's master, states and gradient come together at an owner, which is
 * the same for every stage, are updated there and go back to who holds them. As many tensors at a time as there are
 * ranks, so that all owners compute at once. They travel in chunks, so that no rank needs room for more than one.
 */
#include "core/piece.h"
#include "core/replay.h"

static int32_t group_of(const struct zr_setup *s, int32_t tensor)
{
	return s->group_of[tensor];
}

static int32_t optimizer_of(const struct zr_setup *s, int32_t tensor)
{
	return s->param_group[group_of(s, tensor)].optimizer;
}

/* ---- blocks together: of the master, then of each state, then of the gradient ---- */

enum { TO_OWNER, BACK };

/* Kinds of data that travel: back go all but the gradient. */
static uint32_t kinds(const struct zr_setup *s, int32_t k, int way)
{
	return s->optimizer[k].n_states + (way == BACK ? 1 : 2);
}

static uint64_t kind_bytes(const struct zr_setup *s, int32_t k, uint32_t kind)
{
	const struct zr_optimizer *o = &s->optimizer[k];
	return kind == 0 || kind > o->n_states ? ZR_BLOCK * 4 : zr_state_bytes(zr_setup_state(s, o->first_state + kind - 1));
}

/* Where a kind begins in `blocks` blocks; of one more than there are: where they end. */
static uint64_t kind_at(const struct zr_setup *s, int32_t k, int64_t blocks, uint32_t kind)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < kind; i++)
		at += ((uint64_t)blocks * kind_bytes(s, k, i) + 63) / 64 * 64;
	return at;
}

/* ---- the plan ---- */

static uint64_t messages(const struct zr_setup *s, int32_t k, int64_t blocks, int64_t chunk, int way)
{
	return (uint64_t)(blocks / chunk) * kind_at(s, k, chunk, kinds(s, k, way)) + kind_at(s, k, blocks % chunk, kinds(s, k, way));
}

/* What this rank receives for the w-th whole tensor: the parts that others hold, and the result. */
static uint64_t received(const struct zr_setup *s, const struct zr_whole_plan *p, int32_t w)
{
	const struct zr_place *t = &s->layout.tensor[p->tensor[w]];
	int world = s->process.world, owner = w % world, me = s->process.rank;
	int32_t k = optimizer_of(s, p->tensor[w]);
	uint64_t sum = me != owner ? messages(s, k, t->blocks, p->chunk, BACK) : 0;
	for (int r = 0; s->groups[t->unit].state != ZR_GROUP_SELF && r < world; r++) {
		int64_t first, n;
		zr_rank_holds_of(s, p->tensor[w], r, &first, &n);
		sum += r != owner && r != me ? messages(s, k, n, p->chunk, TO_OWNER) : 0;
	}
	return sum;
}

uint64_t zr_whole_place(struct zr_setup *s, struct zr_whole_plan *p, int64_t chunk)
{
	uint64_t matrix = 0, message = 0;
	p->chunk = chunk;
	for (int32_t i = 0; i < s->layout.n_tensors; i++) {
		int32_t k = optimizer_of(s, i);
		if (!zr_is_whole(&s->optimizer[k]) || s->frozen[i])
			continue;
		uint64_t all = kind_at(s, k, s->layout.tensor[i].blocks, kinds(s, k, TO_OWNER));
		uint64_t part = kind_at(s, k, chunk, kinds(s, k, TO_OWNER)), work = zr_whole_work(&s->optimizer[k], s->layout.tensor[i].decl);
		matrix = all > matrix ? all : matrix;
		message = part > message ? part : message;
		p->work_bytes = work > p->work_bytes ? work : p->work_bytes;
		p->tensor[p->n++] = i;
	}
	for (int32_t w = 0; w < p->n; w++)
		p->received += received(s, p, w);
	p->work = matrix;
	p->message = p->work + (p->work_bytes + 63) / 64 * 64;
	return p->message + message;
}

/* ---- chunks ---- */

/* Blocks [first, first + n) of a tensor's unit, together at `x`. */
struct chunk {
	int32_t tensor;
	int64_t first, n;
	char *x;
};

static char *message(const struct zr_session *s)
{
	return s->region[ZR_R_WHOLE] + s->setup->plan.whole.message;
}

/* The whole tensor, at the start of the region. */
static struct chunk matrix(const struct zr_session *s, int32_t tensor)
{
	const struct zr_place *t = &s->setup->layout.tensor[tensor];
	return (struct chunk){ tensor, t->offset / ZR_BLOCK, t->blocks, s->region[ZR_R_WHOLE] };
}

/* The blocks that both have, from one to the other. */
static int copy(struct zr_session *s, const struct chunk *to, const struct chunk *from, int way)
{
	const struct zr_setup *p = s->setup;
	int32_t k = optimizer_of(p, to->tensor);
	int64_t lo = to->first > from->first ? to->first : from->first;
	int64_t hi = to->first + to->n < from->first + from->n ? to->first + to->n : from->first + from->n;
	int rc = 0;
	for (uint32_t i = 0; !rc && i < kinds(p, k, way); i++) {
		uint64_t bytes = kind_bytes(p, k, i);
		rc = zr_copy(s, to->x + kind_at(p, k, to->n, i) + (uint64_t)(lo - to->first) * bytes,
			     from->x + kind_at(p, k, from->n, i) + (uint64_t)(lo - from->first) * bytes, (uint64_t)(hi - lo) * bytes);
	}
	return rc;
}

/* The piece of a chunk's blocks [first, first + n), all of which this rank holds. */
static struct zr_piece piece_of(const struct zr_session *s, const struct chunk *c, int64_t first, int64_t n)
{
	const struct zr_plan *p = &s->setup->plan;
	const struct zr_run *r = &p->run[p->first_run[s->setup->layout.tensor[c->tensor].unit]];
	while (r->first + r->n <= first)
		r++;
	return zr_piece_of_run(s, r, first, n);
}

static uint32_t sources(const struct zr_session *s)
{
	return ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_GRAD) | ZR_WITH_STATES |
	       (s->setup->types.master != ZR_MASTER_FP32 ? ZR_WITH(ZR_D_LOWP) : 0);
}

/* A chunk from where this rank holds it. */
static int load(struct zr_session *s, const struct chunk *c)
{
	const struct zr_setup *setup = s->setup;
	int32_t k = optimizer_of(setup, c->tensor);
	const struct zr_optimizer *o = &setup->optimizer[k];
	struct zr_piece p = piece_of(s, c, c->first, c->n);
	int rc = zr_piece_read(s, &p, sources(s)), done = zr_piece_done(s, p.set);
	rc = rc ? rc : done;
	if (!rc)
		rc = zr_master_get(s, &p, 0, c->n, (float *)c->x);
	for (uint32_t i = 1; !rc && i < kinds(setup, k, TO_OWNER); i++)
		rc = zr_copy(s, c->x + kind_at(setup, k, c->n, i),
			     zr_piece_data(s, &p, i > o->n_states ? ZR_D_GRAD : ZR_D_STATE + (int)(o->first_state + i - 1)),
			     (uint64_t)c->n * kind_bytes(setup, k, i));
	return rc;
}

/* What this rank holds of a chunk, to there; with its compute copy. */
static int store(struct zr_session *s, const struct chunk *c)
{
	const struct zr_setup *setup = s->setup;
	int32_t k = optimizer_of(setup, c->tensor);
	int64_t first, n;
	zr_rank_holds_of(setup, c->tensor, setup->process.rank, &first, &n);
	int64_t lo = first > c->first ? first : c->first, hi = first + n < c->first + c->n ? first + n : c->first + c->n;
	if (lo >= hi)
		return 0;
	struct zr_piece p = piece_of(s, c, lo, hi - lo);
	if (s->before_update)
		s->before_update(s->before_update_arg, &p);
	int rc = zr_master_put(s, &p, 0, p.n, (float *)c->x + (lo - c->first) * ZR_BLOCK, 1);
	for (uint32_t i = 1; !rc && i < kinds(setup, k, BACK); i++)
		rc = zr_copy(s, zr_piece_data(s, &p, ZR_D_STATE + (int)(setup->optimizer[k].first_state + i - 1)),
			     c->x + kind_at(setup, k, c->n, i) + (uint64_t)(lo - c->first) * kind_bytes(setup, k, i),
			     (uint64_t)p.n * kind_bytes(setup, k, i));
	if (!rc)
		rc = zr_piece_write(s, &p, ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_LOWP) | ZR_WITH_STATES);
	int done = zr_piece_done(s, p.set);
	return rc ? rc : done;
}

static int send(struct zr_session *s, const struct chunk *c, int root, int way)
{
	int32_t k = optimizer_of(s->setup, c->tensor);
	struct zr_comm_seg seg = { .send = c->x, .recv = c->x, .count = (int64_t)(kind_at(s->setup, k, c->n, kinds(s->setup, k, way)) / 4) };
	zr_ticket ticket;
	if (zr_alone(s))
		return 0;
	int rc = zr_broadcast(s, s->setup->layout.tensor[c->tensor].unit, root, &seg, &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

/* ---- a tensor ---- */

/* What rank `from` holds of a tensor, to its owner. */
static int bring_part(struct zr_session *s, int32_t tensor, int from, int owner)
{
	int me = s->setup->process.rank, rc = 0;
	int64_t first, n, step = s->setup->plan.whole.chunk;
	struct chunk all = matrix(s, tensor);
	zr_rank_holds_of(s->setup, tensor, from, &first, &n);
	for (int64_t at = 0; !rc && at < n; at += step) {
		struct chunk c = { tensor, first + at, n - at < step ? n - at : step, message(s) };
		if (me == from)
			rc = load(s, &c);
		if (!rc && from != owner)
			rc = send(s, &c, from, TO_OWNER);
		if (!rc && me == owner)
			rc = copy(s, &all, &c, TO_OWNER);
	}
	return rc;
}

static int bring(struct zr_session *s, int32_t tensor, int owner)
{
	const struct zr_setup *p = s->setup;
	int whole = p->groups[p->layout.tensor[tensor].unit].state == ZR_GROUP_SELF, rc = 0;
	for (int r = 0; !rc && r < p->process.world; r++)
		if (!whole || (r == owner && r == p->process.rank))
			rc = bring_part(s, tensor, r, owner);
	return rc;
}

static int update(struct zr_session *s, int32_t tensor)
{
	struct zr_setup *p = s->setup;
	const struct zr_tensor *decl = p->layout.tensor[tensor].decl;
	struct zr_optimizer *o = &p->optimizer[optimizer_of(p, tensor)];
	struct chunk m = matrix(s, tensor);
	int32_t k = optimizer_of(p, tensor);
	struct zr_seg seg = { .n = p->layout.tensor[tensor].elements, .param = tensor, .ndim = decl->ndim, .dims = decl->dims,
			      .name = decl->name };
	struct zr_opt_step step = zr_opt_step_of(s, group_of(p, tensor));
	step.master = zr_opt_buffer(s, m.x, m.n, ZR_F32);
	step.grad = zr_opt_buffer(s, m.x + kind_at(p, k, m.n, o->n_states + 1), m.n, ZR_F32);
	for (uint32_t i = 0; i < o->n_states; i++)
		s->state_buf[i] = zr_opt_buffer(s, m.x + kind_at(p, k, m.n, i + 1), m.n, zr_setup_state(p, o->first_state + i)->dtype);
	step.seg = &seg;
	step.n_seg = 1;
	step.work = s->region[ZR_R_WHOLE] + p->plan.whole.work;
	step.work_bytes = p->plan.whole.work_bytes;
	int rc = ((const struct zr_optimizer_v1 *)o->it.vtbl)->step_whole(o->it.inst, &step);
	return zr_user_failed(s, &o->it, rc, "step_whole");
}

static int give_back(struct zr_session *s, int32_t tensor, int owner)
{
	struct chunk all = matrix(s, tensor);
	int64_t step = s->setup->plan.whole.chunk;
	int rc = 0;
	for (int64_t at = 0; !rc && at < all.n; at += step) {
		struct chunk c = { tensor, all.first + at, all.n - at < step ? all.n - at : step, message(s) };
		if (s->setup->process.rank == owner)
			rc = copy(s, &c, &all, BACK);
		if (!rc)
			rc = send(s, &c, owner, BACK);
		if (!rc)
			rc = store(s, &c);
	}
	return rc;
}

int zr_whole_update(struct zr_session *s)
{
	const struct zr_whole_plan *p = &s->setup->plan.whole;
	int world = s->setup->process.world, rank = s->setup->process.rank, rc = 0;
	for (int32_t first = 0; !rc && first < p->n; first += world) {
		int n = p->n - first < world ? p->n - first : world;
		for (int i = 0; !rc && i < n; i++)
			rc = bring(s, p->tensor[first + i], i);
		if (!rc && rank < n)
			rc = update(s, p->tensor[first + rank]);
		for (int i = 0; !rc && i < n; i++)
			rc = give_back(s, p->tensor[first + i], i);
	}
	return rc;
}
