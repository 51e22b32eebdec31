/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - optimizers of whole matrices: what of them comes together at an owner, the memory it takes, and the call.
 */
#include "core/update/update.h"

int zr_whole_brings(const struct zr_setup *s, int32_t unit, int rank, int owner)
{
	int32_t n = (int32_t)zr_group_ranks(s, s->groups[unit].state);
	return rank / n == owner / n;
}

uint32_t zr_whole_kinds(const struct zr_setup *s, int32_t k, int back)
{
	return s->optimizer[k].n_states + (back ? 1 : 2);
}

uint64_t zr_whole_kind_bytes(const struct zr_setup *s, int32_t k, uint32_t kind)
{
	const struct zr_optimizer *o = &s->optimizer[k];
	return kind == 0 || kind > o->n_states ? ZR_BLOCK * 4 : zr_state_bytes(zr_setup_state(s, o->first_state + kind - 1));
}

uint64_t zr_whole_kind_at(const struct zr_setup *s, int32_t k, int64_t blocks, uint32_t kind)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < kind; i++)
		at += ((uint64_t)blocks * zr_whole_kind_bytes(s, k, i) + 63) / 64 * 64;
	return at;
}

/* ---- the plan ---- */

enum { TO_OWNER, BACK };

static uint64_t messages(const struct zr_setup *s, int32_t k, int64_t blocks, int64_t chunk, int way)
{
	return (uint64_t)(blocks / chunk) * zr_whole_kind_at(s, k, chunk, zr_whole_kinds(s, k, way == BACK)) + zr_whole_kind_at(s, k, blocks % chunk, zr_whole_kinds(s, k, way == BACK));
}

/* What this rank receives for the w-th whole tensor: the parts that others hold, and the result. */
static uint64_t received(const struct zr_setup *s, const struct zr_whole_plan *p, int32_t w)
{
	const struct zr_place *t = &s->layout.tensor[p->tensor[w]];
	int world = s->process.world, owner = w % world, me = s->process.rank;
	int32_t k = zr_optimizer_of(s, p->tensor[w]);
	uint64_t sum = me != owner ? messages(s, k, t->blocks, p->chunk, BACK) : 0;
	for (int r = 0; r < world; r++) {
		int64_t first, n;
		if (!zr_whole_brings(s, t->unit, r, owner))
			continue;
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
		int32_t k = zr_optimizer_of(s, i);
		if (!zr_is_whole(&s->optimizer[k]) || s->frozen[i])
			continue;
		uint64_t all = zr_whole_kind_at(s, k, s->layout.tensor[i].blocks, zr_whole_kinds(s, k, 0));
		uint64_t part = zr_whole_kind_at(s, k, chunk, zr_whole_kinds(s, k, 0)), work = zr_whole_work(&s->optimizer[k], s->layout.tensor[i].decl);
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

int zr_step_whole(struct zr_session *s, int32_t tensor, char *matrix, char *work)
{
	struct zr_setup *p = s->setup;
	const struct zr_tensor *decl = p->layout.tensor[tensor].decl;
	struct zr_optimizer *o = &p->optimizer[zr_optimizer_of(p, tensor)];
	int64_t n = p->layout.tensor[tensor].blocks;
	int32_t k = zr_optimizer_of(p, tensor);
	struct zr_seg seg = { .n = p->layout.tensor[tensor].elements, .param = tensor, .ndim = decl->ndim, .dims = decl->dims,
			      .name = decl->name };
	struct zr_opt_step step = zr_opt_step_of(s, p->group_of[tensor]);
	step.master = zr_opt_buffer(s, matrix, n, ZR_F32);
	step.grad = zr_opt_buffer(s, matrix + zr_whole_kind_at(p, k, n, o->n_states + 1), n, ZR_F32);
	for (uint32_t i = 0; i < o->n_states; i++)
		s->state_buf[i] = zr_opt_buffer(s, matrix + zr_whole_kind_at(p, k, n, i + 1), n, zr_setup_state(p, o->first_state + i)->dtype);
	step.seg = &seg;
	step.n_seg = 1;
	step.work = work;
	step.work_bytes = p->plan.whole.work_bytes;
	int rc = ((const struct zr_optimizer_v1 *)o->it.vtbl)->step_whole(o->it.inst, &step);
	return zr_user_failed(s, &o->it, rc, "step_whole");
}
