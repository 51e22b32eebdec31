/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_ways.c - which way gradients take, and where they, their sums and what ranks send lie:
 * what the files ask that lower a reduce.
 */
#include "core/base/numbers.h"
#include "core/lower/reduce.h"

uint64_t zr_low_fp32_bytes(int64_t blocks)
{
	return (uint64_t)blocks * ZR_BLOCK * 4;
}

int zr_low_alone(const struct zr_lowering *l)
{
	return l->f->process.world == 1;
}

int zr_low_on_device_first(const struct zr_lowering *l)
{
	return l->plan->device_sums && !l->summed;
}

int zr_low_sum_region(const struct zr_lowering *l)
{
	return zr_low_on_device_first(l) ? ZR_R_MICRO_SUMS : ZR_R_GRAD;
}

int zr_low_sums_on_host(const struct zr_lowering *l)
{
	return l->plan->region[zr_low_sum_region(l)].store != ZR_STORE_DEVICE;
}

int zr_low_by_host(const struct zr_lowering *l)
{
	return !l->f->device_info.host_ops && (zr_low_sums_on_host(l) || zr_comm_on_host(l->f));
}

int zr_low_stores(const struct zr_lowering *l)
{
	return l->summed || l->store || zr_sums_locally(l->f);
}

int zr_low_sends(const struct zr_lowering *l)
{
	return !zr_low_alone(l) && (l->last || !zr_sums_locally(l->f));
}

int zr_low_by_node(const struct zr_lowering *l)
{
	return l->f->node_sum > 1;
}

int zr_low_contributions(const struct zr_lowering *l)
{
	if (l->plan->scatter || l->summed)
		return 1;
	return l->f->process.world / l->f->node_sum;
}

int32_t zr_low_contribution_type(const struct zr_lowering *l)
{
	int goes = zr_low_by_host(l) && !l->slice.per;
	if (!l->summed && zr_codes_gradients(l->f))
		return ZR_MXINT8;
	if (l->f->peers || l->summed || (zr_low_alone(l) && !goes))
		return ZR_F32;
	return l->f->types.comm_dtype;
}

int zr_low_is_on_host(const struct zr_lowering *l, const struct zr_operand *o)
{
	return zr_low_queue(l, o->region) == ZR_Q_HOST;
}

struct zr_operand zr_low_whole_gradient(struct zr_lowering *l, int32_t u)
{
	return zr_operand_part(zr_low_gradient(l, u), 0,
			       zr_low_fp32_bytes(l->f->layout.unit[u].blocks));
}

struct zr_operand zr_low_local_sum(const struct zr_lowering *l, int32_t u)
{
	return zr_of_spot(l->plan->unit[u].local, (uint64_t)zr_unit_padded_elements(l->f, u) * 4);
}

struct zr_operand zr_low_owned_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	struct zr_operand o = zr_of_spot(m->grad, bytes);
	o.at += zr_low_fp32_bytes(skip);
	if (zr_sums_way(l->f, u) == ZR_SUMS_MEET) /* beside those of the others */
		o.at += zr_low_fp32_bytes(l->f->process.rank * m->own.per);
	return o;
}

struct zr_operand zr_low_first_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes)
{
	struct zr_operand o;
	if (!zr_low_on_device_first(l))
		return zr_low_owned_sum(l, u, skip, bytes);

	o = zr_of_spot(l->plan->unit[u].micro_sum, bytes);
	o.at += zr_low_fp32_bytes(skip);
	return o;
}

int32_t zr_low_message_region(int on_host)
{
	return on_host ? ZR_R_GRAD_BOUNCE : ZR_R_COMM;
}

struct zr_operand zr_low_message(struct zr_lowering *l, int on_host, uint64_t bytes)
{
	return zr_low_buffer(l, zr_low_message_region(on_host), bytes, 64);
}

/* The place of a layer's expert number g in memory of all of them: what a home has of one of its
 * experts, for all ranks, follows each other. */
static int32_t place_of_expert(const struct zr_homes *h, int32_t g, int32_t experts)
{
	const int32_t here = zr_experts_here(h, experts);
	return g % here * h->ranks + g / here;
}

struct zr_operand zr_low_room_for_expert(struct zr_lowering *l, int32_t i, int32_t experts,
					 int32_t region, uint64_t bytes)
{
	const uint64_t place = (uint64_t)place_of_expert(&l->f->homes, i, experts);
	if (!i)
		l->experts = zr_low_buffer(l, region, bytes * (uint64_t)experts, 64);
	return zr_operand_part(l->experts, place * bytes, bytes);
}

/* Of all experts of a layer. */
static void take_gradients(struct zr_lowering *l, const struct zr_home_unit *u, uint64_t bytes)
{
	const int32_t n = zr_layer_experts(l->f, u->layer);

	for (int32_t g = 0; g < n; g++)
		l->grad[zr_expert_unit(l->f, u->layer, u->beside, g)] =
			zr_low_room_for_expert(l, g, n, ZR_R_GRAD_BUFFER, bytes);
}

/* Whether a gradient that the host makes goes on from there. */
static int stays_on_host(const struct zr_lowering *l, int32_t unit)
{
	if (!zr_computes_on_host(&l->f->homes, unit) || l->f->homes.ranks > 1)
		return 0;
	if (l->plan->unit[unit].part || zr_sliced(&l->f->slices) || zr_sums_locally(l->f))
		return 0;
	return zr_low_by_host(l) && (zr_low_alone(l) || zr_comm_on_host(l->f));
}

struct zr_operand zr_low_gradient(struct zr_lowering *l, int32_t unit)
{
	uint64_t bytes = (uint64_t)zr_unit_padded_elements(l->f, unit) * 4;
	struct zr_operand *o = &l->grad[unit];
	if (l->plan->direct)
		return zr_of_spot(l->plan->unit[unit].grad, bytes);
	if (!o->buffer && zr_is_divided(&l->f->homes, unit))
		take_gradients(l, &l->f->homes.unit[unit], bytes);
	if (!o->buffer)
		*o = zr_low_buffer(l, stays_on_host(l, unit) ? ZR_R_GRAD_BOUNCE : ZR_R_GRAD_BUFFER,
				   bytes, 64);
	return *o;
}
