/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.c - gradients: a reduce brings each contribution to its home and folds there in rank order, which with ascending
 * micro-batches is slot order. Where ranks can read each other's memory the home reads the contributions in place,
 * between two fences; elsewhere an all-to-all brings them. Where a rank sends once per update, comm may add them on their way:
 * a reduce-scatter brings their sum, which is folded as if it were the one contribution (core/plan.c: adds_in_comm).
 * From a device that only copies reach they pass through host memory if the sums are there, or the other ranks. Such a reduce
 * ends in two steps, so that the device does not wait for the host: its wait ends what uses memory of the device; the rest
 * comes after the next layer was enqueued, while the next reduce's copies are under way. Two sets of host memory take turns.
 */
#include "core/replay.h"
#include "core/tier.h"

/* How contributions to a unit's sum are folded. */
struct folding {
	int32_t unit, type; /* type: what a contribution is rounded to */
	int store, measure; /* store: the first one; measure: the last one */
	int on_host;        /* the sum is on the host, and the contribution where the host's operations reach it */
};

static int run_fold(struct zr_session *s, const struct folding *f, const float *g, float *acc, int64_t n, int64_t block)
{
	struct zr_setup *p = s->setup;
	int blind = !f->on_host && !p->device_info.host_ops;
	const struct zr_ops *ops = f->on_host ? p->host_ops : p->ops;
	char *sumsq = blind ? s->region[ZR_R_MEASURE] + p->plan.measure.sumsq : s->region[ZR_R_HOST] + p->plan.sumsq;
	char *nonfinite = blind ? s->region[ZR_R_MEASURE] + p->plan.measure.nonfinite : s->region[ZR_R_HOST] + p->plan.nonfinite;
	struct zr_op_fold op = { .size = sizeof op, .flags = f->store ? 0 : ZR_OP_ACCUMULATE, .comm_dtype = f->type, .n = n, .g = g,
				 .acc = acc, .sumsq = f->measure ? (double *)sumsq + block : NULL,
				 .nonfinite = f->measure ? (uint32_t *)nonfinite + block : NULL };
	return zr_op_failed(s, ops, ops->fold(ops, NULL, &op), "fold");
}

/* Folds one contribution (blocks of a unit, from wherever they lie) into a sum of the same blocks. */
static int fold(struct zr_session *s, const struct folding *f, const float *contribution, float *sum, int64_t first, int64_t blocks)
{
	struct zr_setup *p = s->setup;
	const struct zr_unit_place *u = &p->layout.unit[f->unit];
	int64_t lo = first * ZR_BLOCK, hi = lo + blocks * ZR_BLOCK;
	int rc = 0;
	if (contribution == sum && !f->measure)
		return 0;
	for (int32_t i = u->first; !rc && i < u->first + u->count; i++) {
		const struct zr_place *t = &p->layout.tensor[i];
		int64_t from = t->offset > lo ? t->offset : lo;
		int64_t to = t->offset + t->elements < hi ? t->offset + t->elements : hi;
		if (from < to)
			rc = run_fold(s, f, contribution + (from - lo), sum + (from - lo), to - from, t->block + (from - t->offset) / ZR_BLOCK);
	}
	return rc;
}

static int sums_on_host(const struct zr_session *s)
{
	return s->setup->plan.region[ZR_R_GRAD].store != ZR_STORE_DEVICE;
}

static int stores(const struct zr_session *s)
{
	return s->slot_index == 0 || zr_sums_locally(s->setup);
}

static float *grad_buffer(const struct zr_session *s, int32_t unit)
{
	return (float *)(s->region[ZR_R_GRAD_BUFFER] + s->program->grad_buffer[unit]);
}

/* reduction = local: a micro-batch's gradient joins this rank's own sum, which the last one sends. */
static int fold_locally(struct zr_session *s, int32_t unit)
{
	struct folding f = { .unit = unit, .type = ZR_F32, .store = s->slot_index == 0 };
	return fold(s, &f, grad_buffer(s, unit), (float *)zr_at(s, s->setup->plan.unit[unit].local), 0, s->setup->layout.unit[unit].blocks);
}

/* Bytes of a unit on its way. */
static uint64_t bytes_of(const struct zr_session *s, int32_t unit)
{
	return (uint64_t)(zr_unit_padded_elements(s->setup, unit) * zr_dtype_bytes(s->setup->types.comm_dtype));
}

/* What comes for it: of each rank its contribution, or their sum. */
static int contributions(const struct zr_session *s)
{
	return s->setup->plan.scatter ? 1 : s->setup->process.world;
}

static uint64_t bytes_received(const struct zr_session *s, int32_t unit)
{
	return bytes_of(s, unit) / (uint64_t)s->setup->process.world * (uint64_t)contributions(s);
}

/* Where the last reduce has its place in ZR_R_COMM, or in ZR_R_FOLD. */
static char *place(const struct zr_session *s, int region)
{
	const struct zr_plan *p = &s->setup->plan;
	return s->region[region] + (region == ZR_R_FOLD ? p->fold_first + (uint64_t)s->set * p->fold_set :
							  p->comm_first + (uint64_t)s->set * p->comm_set);
}

/* What this rank sends of a unit: its gradients, in place or rounded into *staging; room to receive behind. By way of the
 * host both are in *host, where the gradients begin to go. */
static int fill_segment(struct zr_session *s, const struct zr_pop *op, int32_t i, char **staging, char **host)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = &zr_segments_of(s, op)[i];
	int32_t u = zr_units_of(s, op)[i];
	uint64_t bytes = bytes_of(s, u);
	const void *send = zr_sums_locally(p) ? zr_at(s, p->plan.unit[u].local) : (char *)grad_buffer(s, u);
	*seg = (struct zr_comm_seg){ .send = send, .count = p->plan.unit[u].per * ZR_BLOCK };
	if (p->plan.peers)
		return 0;
	if (p->types.comm_dtype != ZR_F32) {
		struct zr_op_cast cast = { .size = sizeof cast, .dst_dtype = p->types.comm_dtype, .src_dtype = ZR_F32,
					   .n = p->layout.unit[u].elements, .src = send, .dst = *staging };
		int rc = zr_op_failed(s, p->ops, p->ops->cast(p->ops, NULL, &cast), "cast");
		if (rc)
			return rc;
		seg->send = *staging;
		*staging += bytes;
	}
	char **at = p->plan.wire ? host : staging, *copy = *at;
	seg->recv = *at + (p->plan.wire ? bytes : 0);
	*at = (char *)seg->recv + bytes_received(s, u);
	if (!p->plan.wire)
		return 0;
	send = seg->send;
	seg->send = copy;
	return zr_copy_start(s, copy, send, bytes, &s->arriving[op->first + i]);
}

/* Blocks [first, first + n) of rank r's gradients, or of what it sent; 16 bits are widened at the start of the memory they
 * came through. */
static int contribution(struct zr_session *s, const struct zr_pop *op, int32_t i, int32_t r, int64_t first, int64_t n, const float **out)
{
	struct zr_setup *p = s->setup;
	const struct zr_comm_seg *seg = &zr_segments_of(s, op)[i];
	int64_t size = zr_dtype_bytes(p->types.comm_dtype), at = (first - p->plan.unit[zr_units_of(s, op)[i]].first) * ZR_BLOCK;
	const struct zr_ops *ops = sums_on_host(s) ? p->host_ops : p->ops;
	if (p->plan.peers) {
		const float *theirs = zr_comm_of(s)->mem_peer(p->comm.inst, seg->send, ZR_GROUP_WORLD, r);
		*out = theirs + p->process.rank * seg->count + at;
		return 0;
	}
	*out = (const float *)((const char *)seg->recv + (r * seg->count + at) * size);
	if (p->types.comm_dtype == ZR_F32)
		return 0;
	struct zr_op_cast cast = { .size = sizeof cast, .dst_dtype = ZR_F32, .src_dtype = p->types.comm_dtype, .n = n * ZR_BLOCK,
				   .src = *out, .dst = s->region[p->plan.fold_first ? ZR_R_FOLD : ZR_R_COMM] };
	*out = cast.dst;
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &cast), "cast");
}

/* Whether gradients pass through host memory. */
static int by_host(const struct zr_session *s)
{
	return !s->setup->device_info.host_ops && (sums_on_host(s) || s->setup->plan.wire);
}

/* Whether what leaves the device is the sum so far, and goes straight to its place. */
static int goes_straight(const struct zr_session *s)
{
	return s->setup->plan.straight && stores(s);
}

/* Where the sum of a unit's home blocks is. */
static struct zr_spot home_sum(const struct zr_session *s, int32_t unit)
{
	const struct zr_unit_memory *m = &s->setup->plan.unit[unit];
	struct zr_spot spot = m->grad;
	if (s->setup->groups[unit].state == ZR_GROUP_SELF)
		spot.at += (uint64_t)m->first * ZR_BLOCK * 4;
	return spot;
}

/* Of a single rank: all of them in host memory as they are on the device. */
static float *handed_over(const struct zr_session *s, int32_t unit)
{
	return goes_straight(s) ? (float *)zr_at(s, home_sum(s, unit)) : (float *)(s->region[ZR_R_FOLD] + s->program->grad_buffer[unit]);
}

/* Device memory of a unit on its way to `to`, or straight to its sum. */
static int move_unit(struct zr_session *s, int32_t unit, char *to, const void *from, uint64_t bytes, uint64_t *ticket)
{
	return goes_straight(s) ? zr_write(s, home_sum(s, unit), from, bytes, ticket) : zr_copy_start(s, to, from, bytes, ticket);
}

/* All contributions to blocks [first, first + n) of unit i of the operation, into their sum. */
static int fold_range(struct zr_session *s, const struct zr_pop *op, int32_t i, int64_t first, int64_t n, float *sum)
{
	struct zr_setup *p = s->setup;
	int32_t u = zr_units_of(s, op)[i], ranks = contributions(s);
	struct folding f = { .unit = u, .type = p->types.comm_dtype, .on_host = sums_on_host(s) };
	int last = s->program->id == ZR_PROG_LAST_MICRO, rc = 0;
	f.store = stores(s);
	f.measure = last;
	if (zr_alone(s) && p->plan.direct)
		return fold(s, &f, sum, sum, first, n);
	if (zr_alone(s))
		return fold(s, &f, (by_host(s) ? handed_over(s, u) : grad_buffer(s, u)) + first * ZR_BLOCK, sum, first, n);
	for (int32_t r = 0; !rc && r < ranks; r++) {
		const float *from;
		rc = contribution(s, op, i, r, first, n, &from);
		f.store = stores(s) && r == 0;
		f.measure = last && r == ranks - 1;
		if (!rc)
			rc = fold(s, &f, from, sum, first, n);
	}
	return rc;
}

/* Sums on disk pass through two buffers: while one is folded the other is written and read ahead. */
static int fold_far(struct zr_session *s, const struct zr_pop *op, int32_t i, struct zr_spot spot, int64_t first, int64_t n)
{
	const uint64_t block = ZR_BLOCK * 4;
	int64_t step = s->setup->plan.staging.blocks;
	char *buf[2] = { s->region[ZR_R_STAGING], s->region[ZR_R_STAGING] + (uint64_t)step * block };
	uint64_t moving[2] = { 0 }, at = spot.at;
	int rc = 0, end;
	for (int64_t k = 0, b = 0; !rc && k < n; k += step, b ^= 1) {
		int64_t now = n - k < step ? n - k : step, next = n - k - now < step ? n - k - now : step;
		if (k == 0 && !stores(s))
			rc = zr_read(s, spot, buf[0], (uint64_t)now * block, &moving[0]);
		if (!rc)
			rc = zr_moved(s, spot.region, moving[b ^ 1]);
		moving[b ^ 1] = 0;
		spot.at = at + (uint64_t)(k + now) * block;
		if (!rc && next > 0 && !stores(s))
			rc = zr_read(s, spot, buf[b ^ 1], (uint64_t)next * block, &moving[b ^ 1]);
		end = zr_moved(s, spot.region, moving[b]);
		moving[b] = 0;
		rc = rc ? rc : end;
		if (!rc)
			rc = fold_range(s, op, i, first + k, now, (float *)buf[b]);
		spot.at = at + (uint64_t)k * block;
		if (!rc)
			rc = zr_write(s, spot, buf[b], (uint64_t)now * block, &moving[b]);
	}
	for (int b = 0; b < 2; b++) {
		end = zr_moved(s, spot.region, moving[b]);
		rc = rc ? rc : end;
	}
	return rc;
}

/* At home: everything where there is one rank. */
static int fold_unit(struct zr_session *s, const struct zr_pop *op, int32_t i)
{
	struct zr_setup *p = s->setup;
	int32_t u = zr_units_of(s, op)[i];
	const struct zr_unit_memory *m = &p->plan.unit[u];
	struct zr_spot spot = home_sum(s, u);
	s->unit = u;
	s->in_place += p->plan.peers ? (uint64_t)((p->process.world - 1) * m->n * ZR_BLOCK * 4) : 0;
	return zr_addressed(s, spot.region) ? fold_range(s, op, i, m->first, m->n, (float *)zr_at(s, spot)) :
					      fold_far(s, op, i, spot, m->first, m->n);
}

/* Ends the copy of the i-th unit that is on its way. */
static int arrive(struct zr_session *s, const struct zr_pop *op, int32_t i)
{
	uint64_t *copy = &s->arriving[op->first + i];
	int rc = zr_copied(s, *copy);
	*copy = 0;
	return rc;
}

/* Each when what was copied for it has arrived. */
static int fold_units(struct zr_session *s, const struct zr_pop *op)
{
	int rc = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int end = arrive(s, op, i);
		rc = rc ? rc : end;
		if (!rc)
			rc = fold_unit(s, op, i);
	}
	return rc;
}

static int sends(const struct zr_session *s)
{
	return !zr_alone(s) && (s->program->id == ZR_PROG_LAST_MICRO || !zr_sums_locally(s->setup));
}

static int post_exchange(struct zr_session *s, const struct zr_pop *op)
{
	int32_t kind = s->setup->plan.scatter ? ZR_COMM_REDUCE_SCATTER : ZR_COMM_ALL_TO_ALL;
	return zr_post(s, op, kind, ZR_GROUP_WORLD, s->setup->types.comm_dtype, op->n);
}

int zr_run_reduce(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	int rc = 0;
	s->set ^= 1;
	char *host = place(s, ZR_R_FOLD), *staging = place(s, ZR_R_COMM);
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		if (zr_alone(s))
			rc = !by_host(s) ? fold_unit(s, op, i) :
					   move_unit(s, u, (char *)handed_over(s, u), grad_buffer(s, u), (uint64_t)p->layout.unit[u].blocks *
						     ZR_BLOCK * 4, &s->arriving[op->first + i]);
		else if (zr_sums_locally(p))
			rc = fold_locally(s, u);
		if (!rc && sends(s))
			rc = fill_segment(s, op, i, &staging, &host);
	}
	if (rc || !sends(s) || p->plan.wire)
		return rc;
	return p->plan.peers ? zr_post(s, op, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, op->n) : post_exchange(s, op);
}

/* After the last fold a stage that updates everything everywhere needs all sums. */
static int share_sums(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = zr_segments_of(s, op);
	zr_ticket ticket;
	int32_t n = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (p->groups[u].state != ZR_GROUP_SELF)
			continue;
		float *sums = (float *)zr_at(s, m->grad);
		seg[n++] = (struct zr_comm_seg){ .send = sums + p->process.rank * m->per * ZR_BLOCK, .recv = sums, .count = m->per * ZR_BLOCK };
	}
	if (!n)
		return 0;
	int rc = zr_collective(s, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_F32, seg, n, zr_number_of(s, op), zr_units_of(s, op)[0], &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

/* What was received begins to go to another place. */
static int move_received(struct zr_session *s, const struct zr_pop *op, char *to)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		struct zr_comm_seg *seg = &zr_segments_of(s, op)[i];
		int32_t u = zr_units_of(s, op)[i];
		uint64_t bytes = bytes_received(s, u);
		rc = move_unit(s, u, to, seg->recv, bytes, &s->arriving[op->first + i]);
		seg->recv = goes_straight(s) ? zr_at(s, home_sum(s, u)) : to;
		to += bytes;
	}
	return rc;
}

/* Ends what uses buffers on the device that the next layers or the next reduce will use. */
static int leave_device(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_plan *p = &s->setup->plan;
	int rc = 0;
	if (!zr_alone(s) && !p->wire) {
		rc = zr_complete(s, s->posted[zr_number_of(s, op)]);
		return rc ? rc : move_received(s, op, place(s, ZR_R_FOLD));
	}
	for (int32_t i = 0; !rc && i < op->n; i++)
		rc = arrive(s, op, i);
	return rc || zr_alone(s) ? rc : post_exchange(s, op);
}

int zr_end_reduce(struct zr_session *s)
{
	const struct zr_pop *op = s->late;
	const struct zr_plan *p = &s->setup->plan;
	int rc = p->wire ? zr_complete(s, s->posted[zr_number_of(s, op)]) : 0;
	if (!rc && !sums_on_host(s))
		rc = move_received(s, op, s->region[ZR_R_COMM] + p->comm_back);
	if (!rc)
		rc = fold_units(s, op);
	s->late = NULL;
	return rc || s->program->id != ZR_PROG_LAST_MICRO || zr_alone(s) ? rc : share_sums(s, op);
}

int zr_wait_reduce(struct zr_session *s, const struct zr_pop *op)
{
	zr_ticket ticket;
	if (zr_alone(s) ? !by_host(s) : !sends(s))
		return 0;
	if (by_host(s)) {
		int rc = s->late ? zr_end_reduce(s) : 0;
		s->late = op;
		return rc ? rc : leave_device(s, op);
	}
	int rc = zr_complete(s, s->posted[zr_number_of(s, op)]);
	if (!rc)
		rc = fold_units(s, op);
	if (!rc && s->setup->plan.peers) { /* nobody writes into a buffer that a home still reads */
		rc = zr_collective(s, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, NULL, 0, zr_number_of(s, op), zr_units_of(s, op)[0], &ticket);
		if (!rc)
			rc = zr_complete(s, ticket);
	}
	return rc || s->program->id != ZR_PROG_LAST_MICRO ? rc : share_sums(s, op);
}
