/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - optimizers of whole matrices: what of them comes together at an owner, the memory it
 * takes, and the call.
 */
#include "core/base/numbers.h"
#include "core/update/update.h"

static const struct zr_optimizer *optimizer_of(const struct zr_setup *s, int32_t tensor)
{
	return &s->roles.optimizer[zr_optimizer_of(&s->roles, tensor)];
}

uint32_t zr_whole_kinds(const struct zr_setup *s, int32_t tensor, int back)
{
	return optimizer_of(s, tensor)->n_states + (back ? 1 : 2);
}

uint64_t zr_whole_kind_bytes(const struct zr_setup *s, int32_t tensor, uint32_t kind)
{
	const struct zr_optimizer *o = optimizer_of(s, tensor);
	if (kind == 0 || kind > o->n_states)
		return ZR_BLOCK * 4;

	const struct zr_subgroup all = { .tensor = tensor };
	return zr_block_bytes(s, &all, ZR_D_STATE + (int)(o->first_state + kind - 1));
}

uint64_t zr_whole_kind_at(const struct zr_setup *s, int32_t tensor, int64_t blocks, uint32_t kind)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < kind; i++)
		zr_room(&at, (uint64_t)blocks * zr_whole_kind_bytes(s, tensor, i));
	return at;
}

/* ---- the plan ---- */

/* Whether all that ranks hold of a state ends where the next one may begin. */
static int fills(const struct zr_setup *s, int32_t tensor, uint32_t state)
{
	const uint64_t block = zr_whole_kind_bytes(s, tensor, state + 1);
	uint64_t over = (uint64_t)s->facts.layout.tensor[tensor].blocks * block % 64;
	if (block % 64 == 0)
		return 1;

	for (int r = 0; r < s->facts.process.world; r++)
		over |= (uint64_t)zr_rank_holds(&s->facts, tensor, r).n * block % 64;
	return !over;
}

static int check_tensor(const struct zr_setup *s, int32_t tensor, struct zr_error *err)
{
	const struct zr_optimizer *o = optimizer_of(s, tensor);
	for (uint32_t i = 0; i < o->n_states; i++) {
		if (fills(s, tensor, i))
			continue;
		return zr_err(err, ZR_EINVAL,
			      "plugin %s: state %s has %llu bytes per block; with step_whole() a "
			      "multiple of 64 fits every number of ranks; mend the plugin's table",
			      o->it.section->plugin->path, zr_optimizer_state(o, i)->name,
			      (unsigned long long)zr_whole_kind_bytes(s, tensor, i + 1));
	}
	return 0;
}

int zr_whole_check(const struct zr_setup *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < s->facts.layout.n_tensors; i++)
		if (zr_is_whole(optimizer_of(s, i)) && !s->facts.frozen[i])
			rc = check_tensor(s, i, err);
	return rc;
}

void zr_whole_place(struct zr_setup *s, struct zr_whole_plan *p, int64_t chunk)
{
	p->chunk = chunk;
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		int32_t k = zr_optimizer_of(&s->roles, i);
		if (!zr_is_whole(&s->roles.optimizer[k]) || s->facts.frozen[i])
			continue;
		const struct zr_place *t = &s->facts.layout.tensor[i];
		uint32_t kinds = zr_whole_kinds(s, i, 0);
		p->work = zr_max(p->work, zr_whole_kind_at(s, i, t->blocks, kinds));
		p->message = zr_max(p->message, zr_whole_kind_at(s, i, chunk, kinds));
		p->work_bytes =
			zr_max(p->work_bytes, zr_whole_work(&s->roles.optimizer[k], t->decl));
		p->tensor[p->n++] = i;
	}
}

int zr_step_whole(struct zr_session *s, int32_t tensor, struct zr_opt_step *step, char *matrix,
		  char *work, struct zr_error *err)
{
	const struct zr_place *t = &s->facts->layout.tensor[tensor];
	int32_t k = zr_optimizer_of(s->roles, tensor);
	struct zr_optimizer *o = &s->roles->optimizer[k];
	struct zr_seg seg = { .n = t->elements,
			      .param = tensor,
			      .ndim = t->decl->ndim,
			      .dims = t->decl->dims,
			      .name = t->decl->name };
	uint64_t grad = zr_whole_kind_at(s->setup, tensor, t->blocks, o->n_states + 1);

	step->master = zr_opt_buffer(s, matrix, t->blocks, ZR_F32);
	step->grad = zr_opt_buffer(s, matrix + grad, t->blocks, ZR_F32);
	for (uint32_t i = 0; i < o->n_states; i++) {
		char *data = matrix + zr_whole_kind_at(s->setup, tensor, t->blocks, i + 1);
		int32_t type = zr_setup_state(s->roles, o->first_state + i)->dtype;
		if (!zr_whole_kind_bytes(s->setup, tensor, i + 1))
			data = NULL;
		s->state_buf[i] = zr_opt_buffer(s, data, t->blocks, type);
	}
	step->seg = &seg;
	step->n_seg = 1;
	step->work = work;
	step->work_bytes = s->plan->whole.work_bytes;
	int rc = zr_optimizer_calls(o)->step_whole(o->it.inst, step);
	return zr_user_failed(s, &o->it, rc, "step_whole", err);
}

uint64_t zr_whole_work(const struct zr_optimizer *o, const struct zr_tensor *t)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	if (ZR_HAS(v, struct zr_optimizer_v1, whole_work) && v->whole_work)
		return v->whole_work(o->it.inst, t->dims, t->ndim);
	return 0;
}
