/* SPDX-License-Identifier: Apache-2.0
 *
 * cost.c - see forecast.h: what each instruction of a program takes on its queue. Layers are called
 * with operations that compute nothing, and with addresses that nothing lies at: a model may not
 * read what they point to.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/exec/exec.h"
#include "core/memory/subgroup.h"
#include "core/memory/tier.h"
#include "train/forecast/forecast.h"
#include "train/forecast/tally.h"

#define DISPATCH 1e-6 /* seconds that the executor takes for an instruction */
/* what AdamW touches of a parameter: its gradient, and both ways its master, m and v */
#define ADAMW_BYTES 28.0
#define FOLD_BYTES  12.0 /* per element of one contribution in fp32 */

/* Elements of parameters come from memory: the rate is that of so many, whatever the caches hold.
 */
#define COLD 8388608.0

struct costs {
	struct zr_setup *s;
	const struct zr_lowered *p;
	struct zr_tally tally;
	struct zr_forecast *f;
	const void **param; /* of a layer */
	float **dparam;
	const float **persistent; /* NULL: no tensor of the model has any */
	uint8_t *accumulate;
	int both_ways; /* the program reads and writes stores */
	int backward;  /* a backward of it was met */
};

/* An address at which nothing lies, far from the others. */
static void *nowhere(uint64_t n)
{
	return (void *)(uintptr_t)((n + 1) << 40);
}

static const float *persistent_of(const struct costs *c, int32_t tensor)
{
	if (c->s->facts.layout.tensor[tensor].persistent)
		return nowhere(13);
	return NULL;
}

/* A layer's n-th tensor, which is the given one of the model. grad: of the tensor's unit. */
static void point_tensor(const struct costs *c, int n, int32_t tensor,
			 const struct zr_operand *grad)
{
	c->param[n] = nowhere(64 + 2 * (uint64_t)n);
	c->dparam[n] = NULL;
	if (grad->bytes)
		c->dparam[n] = nowhere(65 + 2 * (uint64_t)n);
	c->accumulate[n] = (grad->access & ZR_READS) != 0;
	if (c->persistent)
		c->persistent[n] = persistent_of(c, tensor);
}

static void point_tensors(const struct costs *c, const struct zr_instr *i)
{
	const struct zr_operand *o = &c->p->operand[i->first];
	const struct zr_layer *l = zr_layer_at(&c->s->facts.decl, i->number);
	int n = 0;

	for (uint32_t k = 0; k < l->n_units; k++) {
		const struct zr_unit_place *u = &c->s->facts.layout.unit[l->units[k]];
		const struct zr_operand *grad = &o[zr_in_pair(ZR_O_LAYER_EACH_DPARAM, k)];
		for (int32_t t = 0; t < u->count; t++)
			point_tensor(c, n++, u->first + t, grad);
	}
}

/* A part of a layer whose experts are placed: as if all experts had as many rows. */
static struct zr_home_call home_part(const struct costs *c, const struct zr_instr *i)
{
	static const uint8_t never[ZR_EXPERTS];
	const struct zr_setup_facts *f = &c->s->facts;
	struct zr_home_call part;

	zr_home_part(f, i, &part);
	part.came = part.tokens * f->layer_bytes[i->number].experts_per_token;
	part.offsets = nowhere(21);
	part.later = never;
	part.sent_rows = nowhere(22);
	part.sent_grads = nowhere(23);
	part.sent_weights = nowhere(24);
	part.rows = nowhere(25);
	part.grads = nowhere(26);
	part.weights = nowhere(27);
	part.made = nowhere(28);
	part.made_weights = nowhere(29);
	part.back = nowhere(30);
	part.back_weights = nowhere(31);
	return part;
}

/* Whether it is computed again, and nobody reads its output. */
static int ends_early(const struct costs *c, const struct zr_instr *i)
{
	return i->flags & ZR_F_LEAN && c->p->operand[i->first + ZR_O_LAYER_OUT].region < 0;
}

/* lean: as ZR_CALL_LEAN says. */
static int layer(struct costs *c, const struct zr_instr *i, int lean, double *seconds,
		 struct zr_error *err)
{
	struct zr_setup *s = c->s;
	struct zr_instance *it = zr_model_of(&s->roles);
	const struct zr_model_v1 *model = it->vtbl;
	const int backward = (i->flags & ZR_F_BACKWARD) != 0;
	const int documents = zr_has_documents(s->roles.source);
	const int positions = documents || zr_sliced(&s->facts.slices);
	struct zr_layer_call call = {
		.size = sizeof call,
		.layer = i->number,
		.training = 1,
		.dtype = s->facts.types.dtype,
		.batch = s->facts.batch.micro,
		.length = s->facts.batch.length,
		.slot_rows = s->facts.batch.micro * s->facts.batch.length,
		.tokens = nowhere(0),
		.targets = nowhere(1),
		.in = nowhere(2),
		.out = ends_early(c, i) ? NULL : nowhere(3),
		.saved = nowhere(4),
		.work = nowhere(5),
		.grad = backward ? nowhere(6) : NULL,
		.param = c->param,
		.dparam = c->dparam,
		.accumulate = c->accumulate,
		.persistent = c->persistent,
		.loss_rows = nowhere(7),
		.loss_sum = nowhere(8),
		.grad_scale = 1,
		.aux_scale = 1,
		.flags = zr_call_touches(&s->facts) | (lean ? ZR_CALL_LEAN : 0),
		.ops = &c->tally.ops,
		.first_row = i->block,
		.n_rows = i->blocks,
		.starts = documents ? nowhere(9) : NULL,
		.positions = positions ? nowhere(10) : NULL,
		.weights = documents ? nowhere(11) : NULL,
		.right_rows = nowhere(12),
		.keys = nowhere(14),
		.all_keys = nowhere(15),
		.key_sums = nowhere(16),
		.held = nowhere(17),
		.attended = nowhere(18),
		.dattended = nowhere(19),
		.kept = nowhere(20),
	};

	if (zr_sliced(&s->facts.slices))
		zr_slice_call(&s->facts, i, &call);

	struct zr_home_call part;
	if (i->from) {
		part = home_part(c, i);
		call.home = &part;
	}

	point_tensors(c, i);
	c->tally.seconds = 0;
	c->tally.on_host = i->queue == ZR_Q_HOST;
	int rc;
	if (backward)
		rc = model->backward(it->inst, &call);
	else
		rc = model->forward(it->inst, &call);
	*seconds = c->tally.seconds;
	c->tally.on_host = 0;
	return zr_instance_failed(it, rc, "layer", err);
}

/* Operations of a lean backward that its forward did before: its own, in *flops, without those of
 * the same backward where the forward kept what it made. */
static int made_again(struct costs *c, const struct zr_instr *i, double *flops,
		      struct zr_error *err)
{
	const double before = c->tally.flops, without = c->tally.without;
	double seconds;

	int rc = layer(c, i, 0, &seconds, err);
	*flops -= c->tally.flops - before;
	c->tally.flops = before;
	c->tally.without = without;
	return rc;
}

/* Operations of a layer that were computed before: a forward after the first backward, and what a
 * lean backward makes. flops: its own. */
static int add_again(struct costs *c, const struct zr_instr *i, double flops, struct zr_error *err)
{
	const int is_backward = (i->flags & ZR_F_BACKWARD) != 0;
	int rc = 0;

	c->backward |= is_backward;
	if (!c->backward || (is_backward && !(i->flags & ZR_F_LEAN)))
		return 0;
	if (is_backward)
		rc = made_again(c, i, &flops, err);
	c->f->again += flops;
	return rc;
}

/* ---- what moves ---------------------------------------------------------------------------- */

/* Seconds of work that host memory takes, or the device's. */
static double streamed(struct costs *c, const struct zr_instr *i, const char *name, double n)
{
	const double cold = n > COLD ? n : COLD;

	c->tally.on_host = i->queue == ZR_Q_HOST;
	const double s = zr_tally_seconds(&c->tally, n, name, 1, cold, 1, 1);
	c->tally.on_host = 0;
	return s;
}

static double touches(struct costs *c, const struct zr_instr *i, double bytes)
{
	return streamed(c, i, "copy", bytes / 2);
}

static double disk(struct costs *c, const char *name, double bytes)
{
	double s = zr_tally_seconds(&c->tally, bytes, name, 1, bytes, 1, 1);
	return s > 0 ? s : zr_tally_bytes(&c->tally, 2 * bytes);
}

/* A store is in host memory, or on a disk, which does less of each when it does both. */
static double transfer(struct costs *c, const struct zr_instr *i)
{
	const struct zr_operand *o = &c->p->operand[i->first];
	const int reads = i->kind == ZR_I_READ;
	const double bytes = (double)o->bytes;

	const int32_t region = o[zr_stored(i)].region;
	if (c->s->plan.region[region].tier != ZR_TIER_DISK)
		return zr_tally_bytes(&c->tally, 2 * bytes);

	*(reads ? &c->f->read : &c->f->written) += o->bytes;
	if (c->both_ways)
		return disk(c, "disk_mixed", bytes);
	return disk(c, reads ? "disk_read" : "disk_write", bytes);
}

/* A store that keeps checksums reads what it moves, with the processors that compute. */
static double checksums(struct costs *c, const struct zr_instr *i)
{
	const struct zr_operand *o = &c->p->operand[i->first + zr_stored(i)];
	const int store = c->s->plan.region[o->region].store;

	if (!c->s->facts.device_info.host_ops || store < ZR_STORE_OPTIMIZER)
		return 0;
	if (c->s->facts.tier[store - ZR_STORE_OPTIMIZER].kept)
		return zr_tally_bytes(&c->tally, (double)o->bytes);
	return 0;
}

/* The memory at an end of a copy. */
static int tier_of(const struct costs *c, const struct zr_instr *i, int32_t operand)
{
	return c->s->plan.region[c->p->operand[i->first + operand].region].tier;
}

/* Copies of a card go two ways at once, by where they end; others stay in its memory, or in that of
 * the host. */
static int queue_of(const struct costs *c, const struct zr_instr *i)
{
	if (i->kind != ZR_I_COPY || c->s->facts.device_info.host_ops)
		return i->queue;

	const int to = tier_of(c, i, ZR_O_COPY_TO);
	if (tier_of(c, i, ZR_O_COPY_FROM) == to)
		return i->queue;
	return to == ZR_TIER_DEVICE ? ZR_FQ_IN : ZR_FQ_OUT;
}

static double copy(struct costs *c, const struct zr_instr *i)
{
	static const char *const way[ZR_FORECAST_QUEUES] = {
		[ZR_FQ_IN] = "to_device", [ZR_FQ_OUT] = "from_device"
	};
	const double bytes = (double)(i->block * i->blocks);
	const char *name = way[queue_of(c, i)];
	double s = 0;

	c->f->copied += (uint64_t)(i->block * i->blocks);
	if (name)
		s = zr_tally_seconds(&c->tally, bytes, name, 1, bytes, 1, 1);
	if (s > 0)
		return s;

	c->tally.on_host = tier_of(c, i, ZR_O_COPY_TO) != ZR_TIER_DEVICE;
	s = zr_tally_bytes(&c->tally, 2 * bytes);
	c->tally.on_host = 0;
	return s;
}

/* Ranks of a collective, those of them on this machine, and how many machines they are on. */
struct span {
	double ranks, node, machines;
};

static struct span span_of(const struct costs *c, const struct zr_instr *i)
{
	/* ranks of one place in all machines share cards as all ranks do: each place does it */
	const int32_t group = i->group == ZR_GROUP_CROSS ? ZR_GROUP_WORLD : i->group;
	const double ranks = (double)zr_group_ranks(&c->s->facts, group);
	const double node = (double)zr_group_ranks(&c->s->facts, ZR_GROUP_NODE);

	if (ranks <= node)
		return (struct span){ ranks, ranks, 1 };
	return (struct span){ ranks, node, ranks / node };
}

/* Whether each rank sends each other one what is for that one alone: so do sums in rank order,
 * which are added where they are received. */
static int is_all_to_all(const struct costs *c, const struct zr_instr *i)
{
	return i->number == ZR_COMM_ALL_TO_ALL ||
	       (i->number == ZR_COMM_REDUCE_SCATTER && !c->s->plan.sums);
}

/* How often each link of a ring passes the bytes of a collective. */
static double times_round(int32_t collective, double ranks)
{
	switch (collective) {
	case ZR_COMM_BROADCAST:
		return 1;
	case ZR_COMM_ALL_REDUCE:
		return 2 * (ranks - 1) / ranks;
	default: /* what a rank has, or adds, it does not receive */
		return (ranks - 1) / ranks;
	}
}

/* By a rate that was measured on one machine, or by the links between its ranks: a ring passes all
 * bytes through each link; all to all, a rank sends each other one the part of that one. */
static double within_machine(struct costs *c, const struct zr_instr *i, struct span g, double bytes)
{
	const int all_to_all = is_all_to_all(c, i);
	if (all_to_all)
		bytes *= g.node / g.ranks;

	const double work = bytes > 0 ? bytes : 1;
	double s = 0;
	if (g.node > 1)
		s = zr_tally_seconds(&c->tally, work, zr_collective_name[i->number], 1, work, 1, 1);
	if (s > 0)
		return s;

	const double passed = bytes * times_round(i->number, all_to_all ? g.node : g.ranks);
	return zr_tally_seconds(&c->tally, passed, "link.node", 1, 1, 1, 1) +
	       zr_tally_seconds(&c->tally, g.node - 1, "hop.node", 1, 1, 1, 1);
}

/* Seconds of the network cards of a machine, over which its ranks share what goes elsewhere. A ring
 * enters and leaves each machine once, whatever the number of its ranks; all to all, each of these
 * sends its own bytes. */
static double between_machines(struct costs *c, const struct zr_instr *i, struct span g,
			       double bytes)
{
	const double hops = zr_tally_seconds(&c->tally, g.machines - 1, "hop.world", 1, 1, 1, 1);
	double passed = bytes * times_round(i->number, g.ranks);
	if (is_all_to_all(c, i))
		passed = g.node * bytes * (g.ranks - g.node) / g.ranks;

	const double network = c->tally.rates->network;
	if (network > 0)
		return passed / network + hops;
	return zr_tally_seconds(&c->tally, passed / g.node, "link.world", 1, 1, 1, 1) + hops;
}

/* What goes within a machine and what goes between machines go at the same time. */
static double exchange(struct costs *c, const struct zr_instr *i, double bytes)
{
	const struct span g = span_of(c, i);
	const double near = within_machine(c, i, g, bytes);

	if (g.machines <= 1)
		return near;

	const double far = between_machines(c, i, g, bytes);
	return near > far ? near : far;
}

static double collective(struct costs *c, const struct zr_instr *i)
{
	const struct zr_operand *o = i->n ? &c->p->operand[i->first] : NULL;
	double sent = 0, got = 0;

	if (i->number == ZR_COMM_BARRIER || i->number == ZR_COMM_FENCE)
		return exchange(c, i, 0);

	for (int64_t k = 0; k < i->blocks; k++) {
		sent += (double)o[zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k)].bytes;
		got += (double)zr_arriving(i, o, k);
	}

	if (i->flags & ZR_F_ROWS)
		return exchange(c, i, got);
	return exchange(c, i, sent > got ? sent : got);
}

/* ---- what is computed ---------------------------------------------------------------------- */

static uint64_t touched(const struct costs *c, const struct zr_instr *i)
{
	uint64_t bytes = 0;

	for (int32_t k = i->first; k < i->first + i->n; k++) {
		const struct zr_operand *o = &c->p->operand[k];
		const uint32_t ways = o->access & (ZR_READS | ZR_WRITES);
		if (o->region >= 0)
			bytes += o->bytes * (ways == (ZR_READS | ZR_WRITES) ? 2 : ways != 0);
	}

	return bytes;
}

/* By the bytes of AdamW that the sizes of operands make more or fewer, or by those of 8 bits. */
static double optimize(struct costs *c, const struct zr_instr *i)
{
	const struct zr_subgroup *p = &c->p->subgroup[i->number];
	const double n = (double)p->n * ZR_BLOCK;
	const struct zr_optimizer *o = p->optimizer >= 0 ? &c->s->roles.optimizer[p->optimizer] :
							   NULL;
	const int narrow = o && o->n_states && zr_optimizer_state(o, 0)->bytes_per_block > 0;

	double s = streamed(c, i, narrow ? "adamw.8bit" : "adamw.fp32", n);
	if (!(s > 0))
		return touches(c, i, (double)touched(c, i));
	return narrow ? s : s * (double)touched(c, i) / (n * ADAMW_BYTES);
}

/* All contributions in one pass over them and the sum, by the bytes of a fold of one. */
static double accumulate(struct costs *c, const struct zr_instr *i)
{
	const double n = (double)i->blocks * ZR_BLOCK;
	const double each = (double)zr_dtype_block(i->from) / ZR_BLOCK;
	const double bytes = (double)i->number * each + (i->flags & ZR_F_STORE ? 4 : 8);

	double s = c->s->facts.device_info.host_ops ? streamed(c, i, "fold.fp32", n) : 0;
	if (s > 0)
		return s * (bytes + (i->flags & ZR_F_STORE ? 4 : 0)) / FOLD_BYTES;
	return touches(c, i, n * bytes);
}

/* As five iterations of Newton and Schulz on a matrix take (Jordan 2024). */
static double whole(struct costs *c, const struct zr_instr *i)
{
	const int64_t *d = c->s->facts.layout.tensor[i->number].decl->dims;
	const double a = (double)(d[0] < d[1] ? d[0] : d[1]),
		     b = (double)(d[0] < d[1] ? d[1] : d[0]);
	const double flops = 5 * (4 * a * a * b + 2 * a * a * a);
	return zr_tally_seconds(&c->tally, flops, "matmul.fp32.nn", 3, a, b, a);
}

static double seconds_of(struct costs *c, const struct zr_instr *i)
{
	switch (i->kind) {
	case ZR_I_COPY:
		return copy(c, i);
	case ZR_I_READ:
	case ZR_I_WRITE:
		return transfer(c, i);
	case ZR_I_COLLECTIVE:
		return collective(c, i);
	case ZR_I_OPTIMIZE:
		return optimize(c, i);
	case ZR_I_ACCUMULATE:
		return accumulate(c, i);
	case ZR_I_WHOLE:
		return whole(c, i);
	case ZR_I_CAST:
	case ZR_I_ENCODE:
	case ZR_I_DECODE:
	case ZR_I_JOIN:
	case ZR_I_TREE:
	case ZR_I_CLEAR:
	case ZR_I_ARRANGE:
	case ZR_I_REGROUP:
	case ZR_I_PARTIAL:
	case ZR_I_LOAD:
	case ZR_I_STORE:
		return touches(c, i, (double)touched(c, i));
	default: /* HOST, SECURE: a few numbers */
		return 0;
	}
}

static int begin(struct costs *c)
{
	const size_t most = c->s->facts.most_tensors + 1;

	c->param = malloc(most * sizeof *c->param);
	c->dparam = malloc(most * sizeof *c->dparam);
	c->accumulate = malloc(most);
	if (c->s->facts.layout.persistent)
		c->persistent = malloc(most * sizeof *c->persistent);
	int reads = 0, writes = 0;
	for (int32_t n = 0; n < c->p->n; n++) {
		reads |= c->p->instr[n].kind == ZR_I_READ;
		writes |= c->p->instr[n].kind == ZR_I_WRITE;
	}

	c->both_ways = reads && writes;
	if (c->s->facts.layout.persistent && !c->persistent)
		return 0;

	return c->param && c->dparam && c->accumulate;
}

static void end(struct costs *c)
{
	free(c->param);
	free(c->dparam);
	free(c->persistent);
	free(c->accumulate);
}

int zr_forecast_costs(struct zr_setup *s, const struct zr_rates *rates, const struct zr_lowered *p,
		      struct zr_cost *cost, struct zr_forecast *f, struct zr_error *err)
{
	struct costs c = { .s = s, .p = p, .f = f };
	const int card = !*rates->device; /* one rank each */
	int rc = 0;

	if (!begin(&c))
		rc = zr_no_memory(err);
	zr_tally_open(&c.tally, s->roles.ops, rates, card ? 1 : zr_machine_ranks(&s->facts),
		      card || !s->facts.process.pool ? 1 : zr_pool_size(s->facts.process.pool));
	c.tally.streams = !s->facts.device_info.host_ops;

	for (int32_t n = 0; !rc && n < p->n; n++) {
		const struct zr_instr *i = &p->instr[n];
		cost[n] = (struct zr_cost){ .queue = queue_of(&c, i) };

		if (i->kind == ZR_I_LAYER) {
			const double before = c.tally.flops;
			rc = layer(&c, i, i->flags & ZR_F_LEAN, &cost[n].seconds, err);
			if (!rc)
				rc = add_again(&c, i, c.tally.flops - before, err);
		} else {
			cost[n].seconds = seconds_of(&c, i);
		}

		cost[n].seconds += DISPATCH;
		if (i->queue == ZR_Q_STORE)
			cost[n].beside = checksums(&c, i);
		f->queue[cost[n].queue] += cost[n].seconds;
	}

	f->flops += c.tally.flops;
	f->guessed += c.tally.without;
	end(&c);
	return rc;
}
