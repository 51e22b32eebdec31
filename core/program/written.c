/* SPDX-License-Identifier: Apache-2.0
 *
 * written.c - operations as they are written down: waits, and the bytes that come by each.
 */
#include "core/program/recorder.h"
#include "core/program/route.h"

const char *zr_rec_stage(const struct recorder *r)
{
	return r->setup->roles.zero.section->plugin->desc->id;
}

/* "before the forward of h.0 in program micro" into buf, which it returns. */
const char *zr_rec_point(const struct recorder *r, char *buf, size_t n)
{
	static const char *const at[] = { "at the begin",
					  "at the end",
					  "before",
					  "after",
					  "once gradients are complete after",
					  "at the update" };
	const char *program = zr_program_name[r->p->id];
	if (r->at.use < 0) {
		snprintf(buf, n, "%s in program %s", at[r->at.at], program);
		return buf;
	}

	const struct zr_use *use = &r->uses->use[r->at.use];
	snprintf(buf, n, "%s the %s of %s in program %s", at[r->at.at], zr_phase_name[use->phase],
		 zr_layer_at(&r->f->decl, use->layer)->name, program);
	return buf;
}

int zr_rec_refuse(struct recorder *r, const char *what, int32_t unit)
{
	char point[160];
	return zr_err(r->err, ZR_ESTATE, "stage %s, %s: unit %s %s", zr_rec_stage(r),
		      zr_rec_point(r, point, sizeof point), r->f->layout.unit[unit].name, what);
}

void zr_rec_must(struct recorder *r, int *rc, int right, const char *what, int32_t unit)
{
	if (!*rc && !right)
		*rc = zr_rec_refuse(r, what, unit);
}

int zr_rec_emit(struct recorder *r, struct zr_pop op, const int32_t *units, int32_t n)
{
	struct zr_program *p = r->p;
	if (zr_list_room(&p->op, p->n + 1, &p->cap, sizeof *p->op) ||
	    zr_list_room(&p->unit, p->n_unit + n, &p->cap_unit, sizeof *p->unit))
		return zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");

	op.first = p->n_unit;
	op.n = n;
	for (int32_t i = 0; i < n; i++)
		p->unit[p->n_unit++] = units[i];
	p->op[p->n++] = op;
	p->updates |= op.kind == ZR_P_UPDATE;
	return 0;
}

int zr_rec_wait(struct recorder *r, int32_t target)
{
	r->p->op[target].hops = 0;
	return zr_rec_emit(r,
			   (struct zr_pop){ .kind = ZR_P_WAIT,
					    .target = target,
					    .once = r->p->op[target].once },
			   NULL, 0);
}

int32_t zr_rec_under_way(struct recorder *r, int32_t i)
{
	while (i < r->p->n && !r->p->op[i].hops)
		i++;
	return i;
}

int zr_rec_advance(struct recorder *r, int32_t kind)
{
	int rc = 0;
	r->first = zr_rec_under_way(r, r->first);
	for (int32_t i = r->first; !rc && (i = zr_rec_under_way(r, i)) < r->p->n; i++) {
		struct zr_pop *op = &r->p->op[i], hop = { .kind = ZR_P_HOP, .target = i };
		if (op->kind == kind && op->hops > 1) {
			op->hops--;
			rc = zr_rec_emit(r, hop, NULL, 0);
		} else if (op->kind == kind && kind != ZR_P_GATHER) {
			rc = zr_rec_wait(r, i);
		}
	}
	return rc;
}

int zr_rec_wait_gather(struct recorder *r, int32_t unit)
{
	int32_t op = r->gather[unit];
	if (op < 0)
		return 0;
	for (int32_t i = 0; i < r->p->op[op].n; i++)
		r->gather[r->p->unit[r->p->op[op].first + i]] = -1;
	return zr_rec_wait(r, op);
}

int zr_rec_wait_reduce(struct recorder *r)
{
	if (r->reducing < 0)
		return 0;
	int rc = zr_rec_wait(r, r->reducing);
	r->reducing = -1;
	return rc;
}

/* ---- bytes ---- */

/* Bytes of a block of it, as ranks send each other its parameters. */
static uint64_t sent_block(const struct zr_setup_facts *f, int32_t unit)
{
	if (zr_sends_codes(f, unit))
		return zr_dtype_block(ZR_MXINT8);
	return zr_unit_block(f, unit);
}

/* Bytes of a unit's all-gather over a group that this rank receives: everybody else's share. */
static uint64_t received(const struct zr_setup_facts *f, int32_t unit, int32_t group,
			 uint64_t block)
{
	struct zr_share share = zr_unit_share(f, unit, group, f->process.rank);
	return (uint64_t)((zr_group_ranks(f, group) - 1) * share.per) * block;
}

uint64_t zr_gathered_bytes(const struct zr_setup_facts *f, int32_t unit)
{
	if (zr_unit_view(f, unit))
		return 0;
	const int codes = !zr_is_divided(&f->homes, unit); /* of others, what homes get is plain */
	return received(f, unit, f->groups[unit].param,
			codes ? sent_block(f, unit) : zr_unit_block(f, unit));
}

/* Contributions that others send for a unit's share: each rank's; or those of the node for all
 * ranks of this place in their nodes, and then the sums of other nodes. */
static int64_t contributions(const struct zr_setup_facts *f)
{
	const int64_t node = zr_group_ranks(f, ZR_GROUP_NODE);
	const int64_t nodes = zr_group_ranks(f, ZR_GROUP_CROSS);
	if (f->node_sum == 1)
		return f->process.world - 1;
	return (node - 1) * nodes + (nodes - 1) * (node / f->node_sum);
}

uint64_t zr_reduced_bytes(const struct recorder *r, int32_t unit)
{
	const struct zr_setup_facts *f = r->f;
	const int last = r->p->id == ZR_PROG_LAST_MICRO;
	int32_t type = f->peers && !zr_codes_gradients(f) ? ZR_F32 : f->types.comm_dtype;
	int64_t per = zr_unit_share(f, unit, ZR_GROUP_WORLD, f->process.rank).per;
	uint64_t bytes = 0;
	if (last || !zr_sums_locally(f))
		bytes += (uint64_t)(contributions(f) * per) * zr_dtype_block(type);
	/* the sums, to all who hold masters */
	if (last && zr_sums_way(f, unit))
		bytes += received(f, unit, ZR_GROUP_WORLD, ZR_BLOCK * 4);
	return bytes;
}

uint64_t zr_published_bytes(const struct zr_setup_facts *f, int32_t unit)
{
	const struct zr_groups *g = &f->groups[unit];
	if (g->param == g->state)
		return 0;
	return received(f, unit, g->state, sent_block(f, unit));
}
