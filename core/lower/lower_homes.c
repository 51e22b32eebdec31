/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_homes.c - a call of a layer, of all rows or of a slice, whose experts are divided among
 * ranks (core/model/homes.h): the parts of struct zr_home_call, and the rows that go between ranks.
 *
 *   SORT; who has how many rows for which expert comes to all; tables of all rounds
 *   of each round: SEND; rows go to their experts; HOME; what these made comes back; TAKE
 *   END
 *
 * A home has memory for the rows of a round at the most; so the plan knows it, and no row is lost.
 * Where experts compute on the host, HOME has its memory there: rows come from the device, and what
 * experts make of them, and their gradients, return to it.
 */
#include "core/base/numbers.h"
#include "core/lower/layer_call.h"

/* The experts of a use. */
struct experts {
	struct zr_low_call call;
	struct zr_low_home part;
	const struct zr_layer_bytes *bytes;
	int32_t n, here, rounds;
	uint64_t element; /* bytes of an activation */
	int backward, on_host;
	struct zr_operand tables, offsets;        /* of all rounds */
	struct zr_operand work;                   /* of HOME */
	struct zr_operand memory[ZR_HOME_MEMORY]; /* of the round */
};

static struct zr_operand room(struct zr_lowering *l, int32_t region, uint64_t bytes)
{
	return zr_low_buffer(l, region, bytes, 64);
}

/* A region of buffers in host memory. */
static int32_t host_region(const struct zr_lowering *l)
{
	return l->f->device_info.host_access ? ZR_R_WORK : ZR_R_BOUNCE;
}

static void call(struct zr_lowering *l, struct experts *x, int32_t part)
{
	struct zr_low_call c = x->call;

	x->part.part = part;
	x->part.on_host = x->on_host && part == ZR_HOME_HOME;
	x->part.gradient = l->there;
	if (part == ZR_HOME_HOME)
		c.work = x->work;
	zr_low_call(l, &c);
}

/* ---- who has which tokens -------------------------------------------------------- */

static uint64_t offsets_bytes(const struct experts *x, int32_t experts)
{
	return (uint64_t)x->rounds * (uint64_t)(experts + 1) * sizeof(int32_t);
}

/* Those of all ranks, which the forward left. */
static struct zr_operand gather_offsets(struct zr_lowering *l, const struct experts *x)
{
	const int32_t ranks = l->f->homes.ranks;
	const uint64_t bytes = offsets_bytes(x, x->n);
	struct zr_operand own =
		zr_operand_part(zr_low_saved(l, &x->call), x->bytes->offsets_at, bytes);
	struct zr_operand all;

	if (ranks == 1) {
		all = room(l, host_region(l), bytes);
		zr_low_move(l, own, all);
		return all;
	}

	all = room(l, ZR_R_COMM, bytes * (uint64_t)ranks);
	l->part[0] = (struct zr_sent_received){ own, all };
	zr_low_collective(l, ZR_COMM_ALL_GATHER, ZR_GROUP_EXPERT, ZR_U8, 0, 1);
	if (l->f->device_info.host_access)
		return all;

	struct zr_operand host = room(l, host_region(l), all.bytes);
	zr_low_move(l, all, host);
	return host;
}

static void make_tables(struct zr_lowering *l, struct experts *x)
{
	const struct zr_home_table t = zr_home_table_of(&l->f->homes, x->n);
	struct zr_operand all = gather_offsets(l, x);
	struct zr_operand offsets = room(l, host_region(l), offsets_bytes(x, x->n));

	x->tables = room(l, host_region(l), t.bytes * (uint64_t)x->rounds);
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_HOST,
					  .number = ZR_H_HOMES,
					  .blocks = x->call.use->layer });
	zr_low_operand(l, ZR_O_HOMES_ALL, all, ZR_READS);
	zr_low_operand(l, ZR_O_HOMES_TABLES, x->tables, ZR_WRITES);
	zr_low_operand(l, ZR_O_HOMES_OFFSETS, offsets, ZR_WRITES);

	x->offsets = offsets;
	if (l->f->device_info.host_access || x->on_host)
		return;
	x->offsets = room(l, ZR_R_WORK, offsets.bytes);
	zr_low_move(l, offsets, x->offsets);
}

/* ---- rounds ---------------------------------------------------------------------- */

static struct zr_operand of_round(struct zr_operand all, int32_t round, int32_t rounds)
{
	const uint64_t bytes = all.bytes / (uint64_t)rounds;
	return zr_operand_part(all, (uint64_t)round * bytes, bytes);
}

static struct zr_operand message(struct zr_lowering *l, uint64_t rows, uint64_t bytes)
{
	return room(l, ZR_R_COMM, rows * bytes);
}

/* Where a home has rows. */
static struct zr_operand at_home(struct zr_lowering *l, const struct experts *x, uint64_t rows,
				 uint64_t bytes)
{
	return room(l, x->on_host ? ZR_R_BOUNCE : ZR_R_COMM, rows * bytes);
}

/* Memory for the rows of a round, as many as there can be. */
static void take_memory(struct zr_lowering *l, struct experts *x)
{
	const struct zr_homes *h = &l->f->homes;
	const int64_t top = x->bytes->experts_per_token;
	const uint64_t width = (uint64_t)x->bytes->expert_width;
	const uint64_t places = (uint64_t)(zr_round_tokens(h, 0) * top);
	const uint64_t came = (uint64_t)zr_home_rows(h, 0, top, x->here);
	const uint64_t row = width * x->element, one = sizeof(float);
	const uint64_t made = x->backward ? width * one : row;
	struct zr_operand *m = x->memory;

	m[ZR_HOME_ROWS_SENT] = message(l, places, row);
	m[ZR_HOME_ROWS_CAME] = at_home(l, x, came, row);
	m[ZR_HOME_ROWS_MADE] = at_home(l, x, came, made);
	m[ZR_HOME_ROWS_BACK] = message(l, places, made);
	if (!x->backward)
		return;

	m[ZR_HOME_GRADS_SENT] = message(l, places, row);
	m[ZR_HOME_GRADS_CAME] = at_home(l, x, came, row);
	m[ZR_HOME_WEIGHTS_SENT] = message(l, places, one);
	m[ZR_HOME_WEIGHTS_CAME] = at_home(l, x, came, one);
	m[ZR_HOME_WEIGHTS_MADE] = at_home(l, x, came, one);
	m[ZR_HOME_WEIGHTS_BACK] = message(l, places, one);
}

/* A part with some of the memory: from one number to another. */
static void call_with(struct zr_lowering *l, struct experts *x, int32_t part, int32_t from,
		      int32_t to)
{
	const int32_t round = x->part.round;

	x->part = zr_low_no_home(round);
	for (int32_t k = from; k <= to; k++)
		x->part.memory[k] = x->memory[k];
	call(l, x, part);
}

/* Whether something is not where ranks exchange rows. */
static int is_beside(const struct zr_lowering *l, const struct zr_operand *o)
{
	return zr_low_queue(l, o->region) != zr_low_queue(l, zr_low_meeting_region(l));
}

/* Rows go to their experts, or what these made comes back. */
static void exchange(struct zr_lowering *l, const struct experts *x, int32_t type, int back,
		     int32_t from, int32_t to)
{
	const int one = from == ZR_HOME_WEIGHTS_SENT || from == ZR_HOME_WEIGHTS_MADE;
	const struct zr_operand *m = x->memory;
	struct zr_operand send = m[from], recv = m[to];

	if (l->f->homes.ranks == 1) {
		zr_low_move(l, send, recv);
		return;
	}
	if (!x->on_host) {
		zr_low_exchange_rows(l, type, one, back, m[ZR_HOME_TABLE], send, recv);
		return;
	}

	/* ranks meet in one memory: what is in the other one passes through it */
	if (is_beside(l, &send)) {
		send = room(l, zr_low_meeting_region(l), send.bytes);
		zr_low_move(l, m[from], send);
	}
	if (is_beside(l, &recv))
		recv = room(l, zr_low_meeting_region(l), recv.bytes);
	zr_low_exchange_rows(l, type, one, back, m[ZR_HOME_TABLE], send, recv);
	if (is_beside(l, &m[to]))
		zr_low_move(l, recv, m[to]);
}

static void send(struct zr_lowering *l, struct experts *x)
{
	const int32_t type = l->f->types.dtype;

	call_with(l, x, ZR_HOME_SEND, ZR_HOME_ROWS_SENT, ZR_HOME_WEIGHTS_SENT);
	exchange(l, x, type, 0, ZR_HOME_ROWS_SENT, ZR_HOME_ROWS_CAME);
	if (!x->backward)
		return;
	exchange(l, x, type, 0, ZR_HOME_GRADS_SENT, ZR_HOME_GRADS_CAME);
	exchange(l, x, ZR_F32, 0, ZR_HOME_WEIGHTS_SENT, ZR_HOME_WEIGHTS_CAME);
}

static void take_back(struct zr_lowering *l, struct experts *x)
{
	const int32_t type = x->backward ? ZR_F32 : l->f->types.dtype;

	exchange(l, x, type, 1, ZR_HOME_ROWS_MADE, ZR_HOME_ROWS_BACK);
	if (x->backward)
		exchange(l, x, ZR_F32, 1, ZR_HOME_WEIGHTS_MADE, ZR_HOME_WEIGHTS_BACK);
	call_with(l, x, ZR_HOME_TAKE, ZR_HOME_ROWS_BACK, ZR_HOME_WEIGHTS_BACK);
}

/* ---- on the host ----------------------------------------------------------------- */

/* Where HOME leaves gradients: with all rounds they are whole. */
static void take_gradients_there(struct zr_lowering *l, struct experts *x)
{
	const struct zr_use *use = x->call.use;

	x->part = (struct zr_low_home){ .part = ZR_HOME_HOME };
	for (uint32_t k = 0; k < use->n_units; k++) {
		const struct zr_operand to = zr_low_call_gradient(l, &x->call, k);
		l->there[k] = to;
		if (to.region >= 0 && zr_low_queue(l, to.region) == ZR_Q_COMPUTE)
			l->there[k] = room(l, ZR_R_BOUNCE, to.bytes);
	}
}

static void return_gradients(struct zr_lowering *l, struct experts *x)
{
	const struct zr_use *use = x->call.use;

	x->part = (struct zr_low_home){ .part = ZR_HOME_HOME };
	for (uint32_t k = 0; k < use->n_units; k++) {
		const struct zr_operand to = zr_low_call_gradient(l, &x->call, k);
		l->unit = use->units[k];
		if (to.region >= 0 && to.region != l->there[k].region)
			zr_low_move(l, l->there[k], to);
	}
}

/* Whether it computes what experts do, in a part by itself. */
static int needs_homes(const struct zr_lowering *l, const struct zr_low_call *c)
{
	if (!zr_layer_experts(l->f, c->use->layer))
		return 0;
	return !c->parts || c->parts & ZR_PART_AFTER;
}

/* Whether it is computed again for a backward, which needs nothing that experts make. */
static int ends_early(const struct zr_lowering *l, const struct zr_low_call *c)
{
	return c->use->phase == ZR_RECOMPUTE && l->act->use[c->number].out < 0;
}

static void call_in_parts(struct zr_lowering *l, const struct zr_low_call *c)
{
	const int32_t layer = c->use->layer, n = zr_layer_experts(l->f, layer);
	struct experts x = { .call = *c,
			     .bytes = &l->f->layer_bytes[layer],
			     .n = n,
			     .here = zr_experts_here(&l->f->homes, n),
			     .rounds = zr_home_rounds(&l->f->homes),
			     .element = (uint64_t)zr_dtype_bytes(l->f->types.dtype),
			     .backward = c->use->phase == ZR_BACKWARD,
			     .on_host = l->f->homes.on_host,
			     .work = c->work };

	x.call.home = &x.part;
	x.part = zr_low_no_home(0);
	for (int32_t k = 0; k < ZR_HOME_MEMORY; k++)
		x.memory[k] = zr_none();
	call(l, &x, ZR_HOME_SORT);
	if (ends_early(l, c))
		return;

	make_tables(l, &x);
	take_memory(l, &x);
	if (x.on_host) {
		x.work = room(l, ZR_R_BOUNCE, c->work.bytes);
		take_gradients_there(l, &x);
	}

	for (int32_t i = 0; i < x.rounds; i++) {
		x.part.round = i;
		x.memory[ZR_HOME_TABLE] = of_round(x.tables, i, x.rounds);
		x.memory[ZR_HOME_OFFSETS] = of_round(x.offsets, i, x.rounds);
		send(l, &x);
		call_with(l, &x, ZR_HOME_HOME, ZR_HOME_OFFSETS, ZR_HOME_WEIGHTS_MADE);
		take_back(l, &x);
	}

	if (x.on_host)
		return_gradients(l, &x);
	x.part = zr_low_no_home(0);
	call(l, &x, ZR_HOME_END);
}

void zr_low_calls(struct zr_lowering *l, const struct zr_low_call *c)
{
	if (needs_homes(l, c))
		call_in_parts(l, c);
	else
		zr_low_call(l, c);
}
