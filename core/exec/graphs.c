/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs.c - graphs of a device: operations of several instructions that it enqueues at once.
 *
 * A stretch is a number of instructions in a row that ask the device for operations and for nothing
 * else. Between its instructions nobody waits for a copy, a request or a collective, nothing is
 * copied, sent or marked, and the host computes nothing. So a stretch ends
 *
 *   - before every instruction of another queue, unless that does nothing (SECURE without a save);
 *   - before something is waited for, by whatever instruction;
 *   - behind an instruction with a mark (ZR_F_MARK), which copies start after;
 *   - behind each instruction while somebody wants its time by the device's clock (s->alone);
 *   - with its program, and behind ZR_GRAPH_OPS operations, so that the device has something to do
 *     while the next ones are asked for.
 *
 * Layers, optimizers and core get a table of operations of our own (take()). In a stretch it keeps
 * each operation back with its argument struct by value, as long as what was asked for so far is
 * how a stretch that begins here went before. If all of it went so, the device launches a graph of
 * it, made when this happens for the first time: then all kernels are loaded and all algorithms
 * chosen. Otherwise what was kept back is enqueued as it was asked for, the rest as it comes, and
 * all of it is remembered. So no operation ever runs with other arguments than it was asked for
 * with, and none comes before one that was asked for earlier; a device that fails to make a graph
 * costs nothing but the graphs.
 *
 * Two calls are alike if all bytes of their structs are, but for what the operation does not read.
 * The structs of some differ in each step: dropout and stochastic rounding, by their place in the
 * generator; trees of many micro-batches, by their turn, since KEPT ways of a stretch are
 * remembered. An instruction that was not as before MISSES times in a row varies: a stretch with it
 * keeps all back, and its graph gets the new values by being made anew, as long as the operations
 * are the same ones. An instruction whose operations are not, MISSES times in a row, is in no
 * stretch any more; those around it are.
 *
 * Operations with a list in host memory (fold with `each`), updates by a function of one element
 * and copies within an instruction are enqueued at once, behind all that was kept back, and the
 * stretch has no graph. PARTIAL copies always, and is in no stretch. An optimizer that knows no
 * operations (struct zr_opt_step), and one that gets products of whole matrices from the device,
 * enqueue by other functions: their instructions are in no stretch. What enqueues by itself on the
 * device's stream would not be seen: the table's `native` is of no API that a plugin knows.
 */
#include "core/exec/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/exec/exec.h"
#include "core/memory/subgroup.h"
#include "core/plugin/loader.h"

#include <zeroth/optimizer.h>

#define KEPT   4 /* ways of a stretch that are remembered */
#define MISSES KEPT
#define ALIGN  16

/* ---- operations by number -------------------------------------------------------- */

enum {
#define OPERATION(name, ...) OP_##name,
#define QUERY(name, arg)
#include <ops.def>
	OPS
};

#define OPERATION(name, arg, ...)                                                                  \
	static int issue_##name(const struct zr_ops *ops, const void *op)                          \
	{                                                                                          \
		return ops->name(ops, NULL, op);                                                   \
	}
#define QUERY(name, arg)
#include <ops.def>

static int (*const issue[OPS])(const struct zr_ops *ops, const void *op) = {
#define OPERATION(name, ...) issue_##name,
#define QUERY(name, arg)
#include <ops.def>
};

/* ---- what is kept ---------------------------------------------------------------- */

/* Operations one behind the other: each a struct asked, then its argument struct. */
struct asked {
	uint64_t op, bytes; /* bytes: of both, a multiple of ALIGN */
};

struct list {
	char *at; /* owned */
	uint64_t used, room;
};

/* How a stretch went. */
struct way {
	struct list ops;        /* empty: none */
	struct zr_graph *graph; /* NULL: not made yet */
	uint64_t last;          /* number of the stretch that went so last */
};

/* One that begins with an instruction. */
struct stretch {
	struct way way[KEPT];
};

/* What is known of an instruction. */
struct known {
	uint8_t sees;   /* 1: all that it enqueues are operations */
	uint8_t joins;  /* 1: and it may be in a stretch */
	uint8_t varies; /* 1: whose graph is made anew then */
	uint8_t misses; /* so many times in a row it was not as before */
};

struct zr_graphs {
	struct zr_ops ops; /* our own; dev is the struct itself */
	struct zr_native native;
	const struct zr_ops *real;
	struct zr_session *s;
	struct known *known[ZR_LOWERED];     /* [instructions] */
	struct stretch *stretch[ZR_LOWERED]; /* [instructions] */
	int failed;                          /* 1: the device makes no graphs */

	/* the stretch that is open, NULL: none; its program, and its instructions so far; its
	 * number among all, from 1 on */
	struct stretch *open;
	int32_t program, first, last;
	uint64_t began;
	struct list list; /* what it asked for */
	int64_t n;        /* operations of it */
	uint64_t issued;  /* bytes of the list that the device has got */
	unsigned alike;   /* bit k: way k begins with the list */
	int anew;         /* 1: all of it is kept back, like before or not */
	int apart;        /* 1: the device got something else */
	struct zr_graph_counts counts;
};

static const struct asked *asked_at(const struct list *l, uint64_t at)
{
	return (const struct asked *)(const void *)(l->at + at);
}

static int make_room(struct list *l, uint64_t bytes)
{
	if (l->used + bytes <= l->room)
		return 0;

	const uint64_t room = 2 * (l->used + bytes) + 4096;
	char *at = realloc(l->at, room);
	if (!at)
		return ZR_ENOMEM;

	l->at = at;
	l->room = room;
	return 0;
}

static void forget(const struct zr_graphs *g, struct way *w)
{
	const struct zr_instance *it = &g->s->roles->device;

	if (w->graph)
		((const struct zr_device_v1 *)it->vtbl)->graph_free(it->inst, w->graph);
	free(w->ops.at);
	*w = (struct way){ 0 };
}

/* ---- what is asked for ----------------------------------------------------------- */

/* A copy of an argument struct loses what the operation does not read. */
static void drop_unread(uint32_t op, void *args)
{
	static const struct zr_rng none = { 0 };
	struct zr_op_residual *residual = args;
	struct zr_op_attention *attention = args;
	struct zr_op_attention_bwd *backward = args;
	struct zr_op_matmul_low_rank *low_rank = args;

	if (op == OP_residual && !(residual->dropout > 0))
		residual->rng = none;
	if (op == OP_attention && !(attention->dropout > 0))
		attention->rng = none;
	if (op == OP_attention_bwd && !(backward->fwd.dropout > 0))
		backward->fwd.rng = none;
	if (op == OP_matmul_low_rank && !(low_rank->dropout > 0))
		low_rank->rng = none;
}

/* Whether an argument struct refers to host memory of the caller. */
static int is_callers(uint32_t op, const void *args)
{
	return op == OP_fold && ((const struct zr_op_fold *)args)->each;
}

/* What was kept back is enqueued. */
static int issue_kept(struct zr_graphs *g)
{
	int rc = ZR_OK;

	while (!rc && g->issued < g->list.used) {
		const struct asked *a = asked_at(&g->list, g->issued);
		rc = issue[a->op](g->real, a + 1);
		g->issued += a->bytes;
		g->counts.alone++;
	}
	return rc;
}

/* The device gets something else than operations: no graph can have the open stretch. */
static int set_apart(struct zr_graphs *g)
{
	if (!g->open || g->apart)
		return ZR_OK;

	g->apart = 1;
	return issue_kept(g);
}

static int add_to_list(struct zr_graphs *g, uint32_t op, const void *args, size_t size)
{
	const uint64_t bytes = (sizeof(struct asked) + size + ALIGN - 1) / ALIGN * ALIGN;
	if (make_room(&g->list, bytes))
		return ZR_ENOMEM;

	struct asked *a = (void *)(g->list.at + g->list.used);
	memset(a, 0, bytes);
	a->op = op;
	a->bytes = bytes;
	memcpy(a + 1, args, size);
	drop_unread(op, a + 1);
	g->list.used += bytes;
	g->n++;
	return 0;
}

/* The ways that do not go on with what was added last are out. */
static void compare(struct zr_graphs *g, uint64_t from)
{
	const uint64_t bytes = g->list.used - from;

	for (int k = 0; k < KEPT; k++) {
		const struct list *l = &g->open->way[k].ops;
		if (l->used < g->list.used || memcmp(l->at + from, g->list.at + from, bytes))
			g->alike &= ~(1u << k);
	}
}

/* The last instruction so far is where it did not go as before. */
static void count_miss(struct zr_graphs *g)
{
	struct known *k = &g->known[g->program][g->last];

	k->misses++;
	if (k->misses < MISSES)
		return;

	k->misses = 0;
	k->joins = !k->varies;
	k->varies = 1;
}

static int take(const struct zr_ops *ops, uint32_t op, const void *args, size_t size)
{
	struct zr_graphs *g = (void *)ops->dev;
	const uint64_t from = g->list.used;
	const unsigned before = g->alike;

	if (g->open && (is_callers(op, args) || add_to_list(g, op, args, size))) {
		int rc = set_apart(g);
		if (rc)
			return rc;
	}
	if (!g->open || g->list.used == from) {
		g->counts.alone++;
		return issue[op](g->real, args);
	}

	compare(g, from);
	if ((g->alike || g->anew) && !g->apart)
		return ZR_OK;
	if (before && !g->apart)
		count_miss(g);
	return issue_kept(g);
}

/* ---- the table ------------------------------------------------------------------- */

#define OPERATION(name, arg, ...)                                                                  \
	static int take_##name(const struct zr_ops *ops, struct zr_stream *s,                      \
			       const struct zr_op_##arg *op)                                       \
	{                                                                                          \
		struct zr_graphs *g = (void *)ops->dev;                                            \
		if (!s)                                                                            \
			return take(ops, OP_##name, op, sizeof *op);                               \
		int rc = set_apart(g);                                                             \
		if (rc)                                                                            \
			return rc;                                                                 \
		return g->real->name(g->real, s, op);                                              \
	}
#define QUERY(name, arg)                                                                           \
	static uint64_t ask_##name(const struct zr_ops *ops, const struct zr_op_##arg *op)         \
	{                                                                                          \
		const struct zr_graphs *g = (void *)ops->dev;                                      \
		return g->real->name(g->real, op);                                                 \
	}
#include <ops.def>

/* Its kernel is of the plugin's own, and its numbers are of the step. */
static int take_elementwise(const struct zr_opt_step *given, const struct zr_elementwise *e)
{
	char *native = (char *)(uintptr_t)given->native;
	struct zr_graphs *g = (void *)(native - offsetof(struct zr_graphs, native));
	struct zr_opt_step s = { 0 };
	int rc = set_apart(g);
	if (rc)
		return rc;

	memcpy(&s, given, given->size < sizeof s ? given->size : sizeof s);
	s.native = g->real->native;
	return g->real->elementwise(&s, e);
}

static void fill_table(struct zr_graphs *g)
{
	const struct zr_ops *real = g->real;

	g->ops = (struct zr_ops){ .size = sizeof g->ops, .dev = (void *)g };
#define OPERATION(name, ...)                                                                       \
	if (ZR_HAS(real, struct zr_ops, name) && real->name)                                       \
		g->ops.name = take_##name;
#define QUERY(name, arg)                                                                           \
	if (ZR_HAS(real, struct zr_ops, name) && real->name)                                       \
		g->ops.name = ask_##name;
#include <ops.def>
	if (ZR_HAS(real, struct zr_ops, native) && real->native) {
		g->native = (struct zr_native){ .size = sizeof g->native,
						.api = UINT32_MAX,
						.device = real->native->device };
		g->ops.native = &g->native;
	}
	if (g->ops.native && ZR_HAS(real, struct zr_ops, elementwise) && real->elementwise)
		g->ops.elementwise = take_elementwise;
}

const struct zr_ops *zr_ops_for(const struct zr_session *s, const struct zr_instr *i)
{
	const struct zr_graphs *g = s->graphs;

	if (i->queue == ZR_Q_HOST)
		return s->roles->host_ops;
	if (!g || !s->running || !g->known[s->running->id][i - s->running->instr].sees)
		return s->roles->ops;
	return &g->ops;
}

/* ---- graphs ---------------------------------------------------------------------- */

/* Once: without graphs the training goes on. */
static void give_up(struct zr_graphs *g, int rc)
{
	struct zr_error err = { 0 };

	g->failed = 1;
	zr_instance_failed(&g->s->roles->device, rc, "graph_begin", &err);
	zr_logf(ZR_LOG_WARN, "device",
		"graphs = yes: %s; operations are enqueued one by one from now on", err.text);
}

static void make_graph(struct zr_graphs *g, struct way *w)
{
	const struct zr_instance *it = &g->s->roles->device;
	const struct zr_device_v1 *device = it->vtbl;
	const int anew = w->graph != NULL;

	int rc = device->graph_begin(it->inst), end = rc;
	for (uint64_t at = 0; !rc && at < w->ops.used; at += asked_at(&w->ops, at)->bytes)
		rc = issue[asked_at(&w->ops, at)->op](g->real, asked_at(&w->ops, at) + 1);
	if (!end)
		end = device->graph_end(it->inst, &w->graph);
	if (!rc)
		rc = end;
	if (!rc) {
		g->counts.graphs += !anew;
		g->counts.anew += anew;
		return;
	}

	give_up(g, rc);
	if (w->graph)
		device->graph_free(it->inst, w->graph);
	w->graph = NULL;
}

static void count_hit(struct zr_graphs *g)
{
	for (int32_t n = g->first; n <= g->last; n++)
		g->known[g->program][n].misses = 0;
}

static int launch(struct zr_graphs *g, struct way *w)
{
	const struct zr_instance *it = &g->s->roles->device;

	w->last = g->began;
	count_hit(g);
	if (!w->graph && !g->failed)
		make_graph(g, w);
	if (!w->graph)
		return issue_kept(g);

	g->counts.launches++;
	g->counts.within += g->n;
	return ((const struct zr_device_v1 *)it->vtbl)->graph_launch(it->inst, w->graph);
}

/* In place of the way that was not gone for longest. */
static void remember(struct zr_graphs *g)
{
	struct way *w = &g->open->way[0];

	for (int k = 1; k < KEPT; k++)
		if (g->open->way[k].last < w->last)
			w = &g->open->way[k];
	forget(g, w);
	w->ops.at = malloc(g->list.used);
	if (!w->ops.at)
		return;

	memcpy(w->ops.at, g->list.at, g->list.used);
	w->ops.used = w->ops.room = g->list.used;
	w->last = g->began;
}

/* The way that the open stretch went, NULL: another one. */
static struct way *way_gone(const struct zr_graphs *g)
{
	for (int k = 0; k < KEPT; k++)
		if (g->alike & 1u << k && g->open->way[k].ops.used == g->list.used)
			return &g->open->way[k];
	return NULL;
}

static int are_same_operations(const struct list *a, const struct list *b)
{
	if (a->used != b->used)
		return 0;
	for (uint64_t at = 0; at < a->used; at += asked_at(a, at)->bytes)
		if (asked_at(a, at)->op != asked_at(b, at)->op)
			return 0;
	return 1;
}

/* The way whose graph gets the values of the open stretch, which are its own then. NULL: none has
 * the same operations. */
static struct way *renew(struct zr_graphs *g)
{
	struct way *w = NULL;

	for (int k = 0; k < KEPT && !w; k++)
		if (are_same_operations(&g->open->way[k].ops, &g->list))
			w = &g->open->way[k];
	if (!w)
		return NULL;

	memcpy(w->ops.at, g->list.at, g->list.used);
	if (w->graph)
		make_graph(g, w);
	return w;
}

static int end_open(struct zr_graphs *g)
{
	if (!g->n || g->apart)
		return issue_kept(g);

	struct way *w = way_gone(g);
	if (!w && g->anew)
		w = renew(g);
	if (w)
		return launch(g, w);

	if (g->alike || g->anew) /* it ends where another one did not, or has other operations */
		count_miss(g);
	int rc = issue_kept(g);
	if (!rc)
		remember(g);
	return rc;
}

int zr_graph_end(struct zr_session *s, struct zr_error *err)
{
	struct zr_graphs *g = s->graphs;
	if (!g || !g->open)
		return 0;

	int rc = end_open(g);
	g->open = NULL;
	return zr_instance_failed(&s->roles->device, rc, "graph_launch", err);
}

void zr_graph_drop(struct zr_session *s)
{
	if (s->graphs)
		s->graphs->open = NULL;
}

int zr_graph_apart(struct zr_session *s, struct zr_error *err)
{
	if (!s->graphs)
		return 0;
	return zr_instance_failed(&s->roles->device, set_apart(s->graphs), "operation", err);
}

/* ---- instructions ---------------------------------------------------------------- */

int zr_graph_begin(struct zr_session *s, const struct zr_lowered *p, int32_t n,
		   struct zr_error *err)
{
	struct zr_graphs *g = s->graphs;

	if (!g || (p->instr[n].kind == ZR_I_SECURE && !s->before_update))
		return 0;
	if (g->failed || !g->known[p->id][n].joins)
		return zr_graph_end(s, err);
	g->last = n;
	if (g->open) {
		g->anew |= g->alike && g->known[p->id][n].varies;
		return 0;
	}

	g->open = &g->stretch[p->id][n];
	g->program = p->id;
	g->first = n;
	g->began++;
	g->n = 0;
	g->list.used = g->issued = 0;
	g->alike = 0;
	g->apart = 0;
	for (int k = 0; k < KEPT; k++)
		if (g->open->way[k].ops.used)
			g->alike |= 1u << k;
	g->anew = g->alike && g->known[p->id][n].varies;
	return 0;
}

int zr_graph_began(struct zr_session *s, const struct zr_instr *i, struct zr_error *err)
{
	const struct zr_graphs *g = s->graphs;

	if (!g || !g->open)
		return 0;
	if (s->alone || i->flags & ZR_F_MARK || g->n >= ZR_GRAPH_OPS)
		return zr_graph_end(s, err);
	return 0;
}

/* ---- opening --------------------------------------------------------------------- */

/* Which optimizer an instruction calls, NULL: none. */
static const struct zr_optimizer *optimizer_of(const struct zr_session *s,
					       const struct zr_lowered *p, const struct zr_instr *i)
{
	struct zr_setup_roles *r = s->roles;

	if (i->kind == ZR_I_OPTIMIZE || i->kind == ZR_I_PARTIAL)
		return &r->optimizer[p->subgroup[i->number].optimizer];
	if (i->kind == ZR_I_WHOLE)
		return &r->optimizer[r->param_group[r->group_of[i->number]].optimizer];
	return NULL;
}

static struct known what_is_known(const struct zr_session *s, const struct zr_lowered *p,
				  const struct zr_instr *i)
{
	const struct zr_ops *real = s->roles->ops;
	const struct zr_optimizer *o = optimizer_of(s, p, i);
	struct known k = { 0 };

	if (i->queue != ZR_Q_COMPUTE || i->kind == ZR_I_PARTIAL)
		return k;
	if (o && !zr_draft_fits(o->it.section->plugin->entry, ZR_OF_DEVICE))
		return k;
	if (i->kind == ZR_I_WHOLE && ZR_HAS(real, struct zr_ops, matrices) && real->matrices)
		return k;

	k.sees = k.joins = 1;
	return k;
}

int zr_graphs_open(struct zr_session *s, struct zr_error *err)
{
	if (!s->facts->device_info.graphs || s->facts->mode != ZR_MODE_TRAIN)
		return 0;

	struct zr_graphs *g = calloc(1, sizeof *g);
	if (!g)
		return zr_no_memory(err);

	s->graphs = g;
	g->s = s;
	g->real = s->roles->ops;
	fill_table(g);
	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs->lowered[id];
		g->known[id] = calloc((size_t)p->n + 1, sizeof *g->known[id]);
		g->stretch[id] = calloc((size_t)p->n + 1, sizeof *g->stretch[id]);
		if (!g->known[id] || !g->stretch[id])
			return zr_no_memory(err);
		for (int32_t n = 0; n < p->n; n++)
			g->known[id][n] = what_is_known(s, p, &p->instr[n]);
	}
	return 0;
}

void zr_graphs_close(struct zr_session *s)
{
	struct zr_graphs *g = s->graphs;
	if (!g)
		return;

	for (int id = 0; id < ZR_LOWERED; id++) {
		for (int32_t n = 0; g->stretch[id] && n < s->programs->lowered[id].n; n++)
			for (int k = 0; k < KEPT; k++)
				forget(g, &g->stretch[id][n].way[k]);
		free(g->known[id]);
		free(g->stretch[id]);
	}
	free(g->list.at);
	free(g);
	s->graphs = NULL;
}

const struct zr_graph_counts *zr_graphs_counts(const struct zr_session *s)
{
	return s->graphs ? &s->graphs->counts : NULL;
}
