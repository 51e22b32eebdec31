/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - see update.h: the call of an optimizer for each parameter group that has some of a
 * sub-group.
 */
#include "core/update/update.h"

#include <string.h>

struct zr_buf zr_opt_buffer(const struct zr_session *s, char *base, int64_t blocks, int32_t dtype)
{
	uint64_t in_arena = (uintptr_t)base - (uintptr_t)s->arena[ZR_STORE_DEVICE];
	int apart = in_arena < s->plan->arena[ZR_STORE_DEVICE] &&
		    !s->facts->device_info.host_access;
	return (struct zr_buf){ .data = base,
				.count = base ? (uint64_t)(blocks * ZR_BLOCK) : 0,
				.dtype = dtype,
				.mem = apart ? ZR_MEM_DEVICE : ZR_MEM_HOST };
}

struct zr_opt_step zr_opt_step_of(const struct zr_session *s, int32_t group,
				  const struct zr_ops *ops, const struct zr_scalars *scalars)
{
	const struct zr_optimizer *o = &s->roles->optimizer[s->roles->param_group[group].optimizer];
	const struct zr_entry *e = o->it.section->plugin->entry;
	const int knows = zr_draft_fits(e, ZR_OF_DEVICE);
	struct zr_opt_step step = {
		.size = sizeof(struct zr_opt_step),
		.n_state = o->n_states,
		/* 48 bytes until it could grow */
		.seg_stride = e->abi_minor < 4 ? 48 : sizeof(struct zr_seg),
		.step = s->decided->update,
		.lr = s->decided->lr[group],
		.grad_mult = s->decided->grad_mult,
		.opts = s->roles->param_group[group].section->opts,
		.state = s->state_buf,
		.seed = (uint64_t)s->facts->train->seed,
		.ops = knows ? ops : NULL,
		.scalars = knows ? scalars + group : NULL,
		.native = ops->native,
		.elementwise = ops->elementwise,
		.matrices = ZR_HAS(ops, struct zr_ops, matrices) ? ops->matrices : NULL,
	};

	zr_run_point(s, s->roles->param_group[group].optimizer, &step);
	return step;
}

/* The segments of one group, of those that s->seg holds, `stride` apart; their number. */
static uint64_t of_group(const struct zr_session *s, int32_t group, uint64_t n, uint32_t stride)
{
	uint64_t count = 0;
	for (uint64_t i = 0; i < n; i++)
		if (s->roles->group_of[s->seg[i].param] == group)
			memcpy((char *)s->group_seg + count++ * stride, &s->seg[i], stride);
	return count;
}

/* The optimizer's states of blocks [from, from + n) of a sub-group. */
static void point_states(struct zr_session *s, const struct zr_opt_data *d, int64_t from, int64_t n)
{
	const struct zr_optimizer *o = &s->roles->optimizer[d->subgroup->optimizer];
	for (uint32_t i = 0; i < o->n_states; i++) {
		uint32_t number = o->first_state + i;
		const uint64_t block =
			zr_block_bytes(s->setup, d->subgroup, ZR_D_STATE + (int)number);
		char *data = d->state[i] + (uint64_t)from * block;
		s->state_buf[i] =
			zr_opt_buffer(s, data, n, zr_setup_state(s->roles, number)->dtype);
	}
}

int zr_opt_each_group(struct zr_session *s, const struct zr_opt_blocks *b, uint64_t segments,
		      zr_opt_fn *fn)
{
	const struct zr_opt_data *d = b->data;
	int rc = 0;
	point_states(s, d, b->from, b->n);
	for (int32_t g = 0; !rc && g < s->roles->n_param_groups; g++) {
		struct zr_opt_step o = zr_opt_step_of(s, g, d->kept.ops, d->scalars);
		o.master = zr_opt_buffer(s, b->master, b->n, ZR_F32);
		o.grad = zr_opt_buffer(s, d->grad + b->from * ZR_BLOCK * 4, b->n, ZR_F32);
		o.seg = s->group_seg;
		o.n_seg = of_group(s, g, segments, o.seg_stride);
		if (b->lowp)
			o.lowp = zr_opt_buffer(s, b->lowp, b->n,
					       zr_unit_dtype(s->facts, d->subgroup->unit));
		o.rem = NULL;
		o.rem_bits = 0;
		if (!b->master) {
			o.rem = d->kept.master;
			o.rem_bits = (uint32_t)zr_unit_rem_bits(s->facts, d->subgroup->unit);
		}
		if (o.n_seg)
			rc = fn(s, d, &o);
	}
	return rc;
}
