/* SPDX-License-Identifier: Apache-2.0
 *
 * lives.c - see activation.h. A buffer lives from the forward or recompute that writes it to the
 * last use that reads it before it is written again. So what is dropped needs no mark of its own:
 * the schedule writes it a second time, and its first life ends where it was last read.
 */
#include "core/base/numbers.h"
#include "core/model/activation.h"

#include <stdlib.h>
#include <string.h>

#include "core/program/route.h"
#include "core/setup.h"

/* ---- the policy ---- */

static int offloads(const struct zr_act_choice *c)
{
	return c->out == ZR_ACT_OFFLOAD || c->saved == ZR_ACT_OFFLOAD;
}

/* Why an answer cannot be, or NULL. Parts of 0 bytes are kept by now. */
static const char *wrong(const struct zr_setup_facts *f, const struct zr_act_choice *c,
			 const struct zr_act_layer *l)
{
	if (c->out < ZR_ACT_KEEP || c->out > ZR_ACT_OFFLOAD || c->saved < ZR_ACT_KEEP ||
	    c->saved > ZR_ACT_OFFLOAD)
		return "is neither kept nor recomputed nor offloaded";
	if (offloads(c) && !zr_offloaded(f, ZR_STORE_ACTIVATION)) {
		if (f->device_info.unified)
			return "is to wait in another memory, but device and host are one here: "
			       "add [offload.activation] with a plugin for disk and its path, or "
			       "give the device a memory of its own ([device] memory = ...), or "
			       "choose another [activation] plugin";
		return "is offloaded, but no section [offload.activation] says where to: "
		       "add it with a plugin";
	}

	if (l->flags & ZR_LAYER_LOSS && (c->out || c->saved))
		return "is the loss layer, whose backward is its forward: nothing of it waits";
	if (c->out == ZR_ACT_RECOMPUTE && l->saved && c->saved != ZR_ACT_RECOMPUTE)
		return "drops its output but not what it saved: one forward makes both again";
	return NULL;
}

/* What is offloaded where no section says where to: the section of the defaults, host memory. */
static int need_store(struct zr_setup *s, struct zr_error *err)
{
	int needed = 0;
	for (uint32_t i = 0; i < s->facts.decl.n_layers; i++)
		needed |= offloads(&s->programs.act[i]);
	if (!needed || s->facts.device_info.unified)
		return 0;
	int rc = zr_config_demand(s->cfg, "offload.activation", err);
	if (rc)
		return rc;
	return zr_offloads_start(s, err);
}

/* What the policy chose for the layers l: parts of 0 bytes are kept, the rest is checked. */
static int take_choices(struct zr_setup *s, const struct zr_act_layer *l, struct zr_error *err)
{
	const uint32_t n = s->facts.decl.n_layers;
	struct zr_act_choice *act = s->programs.act;
	for (uint32_t i = 0; i < n; i++) {
		if (!l[i].out)
			act[i].out = ZR_ACT_KEEP;
		if (!l[i].saved)
			act[i].saved = ZR_ACT_KEEP;
	}

	int rc = need_store(s, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		const char *why = wrong(&s->facts, &act[i], &l[i]);
		if (why)
			rc = zr_err(err, ZR_EINVAL, "[activation] %s: layer %s %s",
				    s->roles.activation.section->plugin->desc->id,
				    zr_layer_at(&s->facts.decl, (int32_t)i)->name, why);
	}
	return rc;
}

int zr_activation_ask(struct zr_setup *s, struct zr_error *err)
{
	uint32_t n = s->facts.decl.n_layers;
	struct zr_act_layer *l = calloc(n, sizeof *l);
	s->programs.act = calloc(n, sizeof *s->programs.act);
	int rc = 0;
	if (!l || !s->programs.act)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for %u layers", n);
	for (uint32_t i = 0; !rc && i < n; i++)
		l[i] = (struct zr_act_layer){
			.out = s->facts.layer_bytes[i].out,
			.saved = s->facts.layer_bytes[i].saved,
			.flags = zr_layer_at(&s->facts.decl, (int32_t)i)->flags
		};
	if (!rc)
		rc = ZR_ASK(&s->roles.activation, activation, choose, err, l, n, sizeof *l,
			    s->programs.act);
	if (!rc)
		rc = take_choices(s, l, err);
	free(l);
	return rc;
}

/* ---- lives ---- */

enum { OUT, SAVED };

/* One part of a layer as it is now. */
struct part {
	int32_t life; /* -1: not written yet */
	/* 1: it was written by a forward, and the policy has it wait in the other tier */
	int32_t leaves;
};

struct lives {
	struct zr_activations *out;
	int32_t *last;           /* [lives] the last use so far that reads it */
	struct part (*layer)[2]; /* [n_layers] */
	int32_t ahead;           /* hops of what returns, but for the last one */
};

static int32_t begin_life(struct lives *l, uint64_t bytes, int32_t use)
{
	l->last[l->out->n_lives] = use;
	l->out->life_bytes[l->out->n_lives] = bytes;
	return l->out->n_lives++;
}

/* After its last reader so far a buffer leaves beside the next use; beside the use before `reader`
 * it returns. What comes back in several hops takes the last one there: the others before that need
 * no place. All that leave do so in forward and return in backward: they are away together, each in
 * a place of its own. */
static void leave(struct lives *l, int32_t layer, int32_t saved, int32_t reader)
{
	struct zr_activations *a = l->out;
	struct part *part = &l->layer[layer][saved];
	struct zr_act_move m = { .use = l->last[part->life],
				 .layer = layer,
				 .saved = saved,
				 .life = part->life,
				 .offloaded = a->offloaded_bytes,
				 .bytes = a->life_bytes[part->life] };

	a->move[a->n_moves++] = m;
	a->offloaded_bytes += m.bytes;
	part->life = begin_life(l, m.bytes, reader - 1);
	m.use = reader - 1 - l->ahead;
	m.back = 1;
	m.life = part->life;
	a->move[a->n_moves++] = m;
}

static int32_t read_life(struct lives *l, int32_t layer, int32_t saved, const struct zr_use *use,
			 int32_t number)
{
	struct part *part = &l->layer[layer][saved];
	if (part->leaves && use->phase != ZR_FORWARD) {
		if (number - l->last[part->life] > ZR_ACT_NEAR)
			leave(l, layer, saved, number);
		part->leaves = 0; /* once back it stays */
	}
	l->last[part->life] = number;
	return part->life;
}

static int32_t write_life(struct lives *l, int32_t layer, int32_t saved, uint64_t bytes,
			  const struct zr_use *use, int32_t number, int32_t choice)
{
	l->layer[layer][saved].leaves = use->phase == ZR_FORWARD && choice == ZR_ACT_OFFLOAD;
	return l->layer[layer][saved].life = begin_life(l, bytes, number);
}

/* Places are whole multiples of what the other tier likes to move, and so are sizes. */
uint32_t zr_activation_align(const struct zr_setup_facts *f)
{
	uint64_t align = f->tier[ZR_STORE_ACTIVATION - ZR_STORE_OPTIMIZER].align;
	if (align > 64)
		return (uint32_t)zr_up(align, 64);
	return 64;
}

static void walk(struct lives *l, const struct zr_setup_facts *f, const struct zr_use *use,
		 int32_t number, const struct zr_act_choice *act, struct zr_use_place *u)
{
	int32_t i = use->layer;
	uint64_t align = zr_activation_align(f);
	uint64_t out = zr_up(f->layer_bytes[i].out, align),
		 saved = zr_up(f->layer_bytes[i].saved, align);
	int writes = use->phase != ZR_BACKWARD;
	struct zr_act_choice choice = { ZR_ACT_KEEP, ZR_ACT_KEEP };
	if (act)
		choice = act[i];

	if (i > 0)
		u->in = read_life(l, i - 1, OUT, use, number);
	u->out = -1;
	if (writes && !(use->phase == ZR_RECOMPUTE && f->layer_bytes[i].is_lean))
		u->out = write_life(l, i, OUT, out, use, number, choice.out);
	if (writes || l->layer[i][SAVED].life < 0) /* the loss layer had no forward */
		u->saved = write_life(l, i, SAVED, saved, use, number, choice.saved);
	else
		u->saved = read_life(l, i, SAVED, use, number);
}

static int by_time(const void *a, const void *b)
{
	const struct zr_act_move *x = a, *y = b;
	int64_t at = 2 * (int64_t)x->use + !x->back, bt = 2 * (int64_t)y->use + !y->back;
	if (at != bt)
		return (at > bt) - (at < bt);
	if (x->layer != y->layer)
		return x->layer - y->layer;
	return x->saved - y->saved;
}

/* A life for each part that a use writes, and one for each return: of a layer's output and of what
 * its forward saved. */
static int allocate(struct lives *l, size_t layers, size_t uses, struct zr_error *err)
{
	struct zr_activations *a = l->out;
	size_t lives = 2 * (uses + layers);
	l->last = calloc(lives, sizeof *l->last);
	l->layer = calloc(layers, sizeof *l->layer);
	a->use = calloc(uses, sizeof *a->use);
	a->move = calloc(4 * layers, sizeof *a->move);
	a->life_bytes = calloc(lives, sizeof *a->life_bytes);
	for (size_t i = 0; l->layer && i < layers; i++)
		l->layer[i][OUT].life = l->layer[i][SAVED].life = -1;
	if (l->last && l->layer && a->use && a->move && a->life_bytes)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory while planning %zu uses", uses);
}

int zr_activation_place(const struct zr_setup *s, const struct zr_schedule *uses, int training,
			struct zr_activations *out, struct zr_error *err)
{
	struct lives l = { .out = out, .ahead = zr_route_move(&s->facts, 1).n - 1 };
	memset(out, 0, sizeof *out);
	int rc = allocate(&l, s->facts.decl.n_layers, (size_t)uses->n, err);
	for (int32_t i = 0; !rc && i < uses->n; i++)
		walk(&l, &s->facts, &uses->use[i], i, training ? s->programs.act : NULL,
		     &out->use[i]);
	if (!rc && training && zr_offloaded(&s->facts, ZR_STORE_ACTIVATION) && !out->n_moves)
		rc = zr_err(err, ZR_EINVAL,
			    "[offload.activation] does nothing: with [activation] "
			    "%s every activation stays, or returns at once; take the section out",
			    s->roles.activation.section->plugin->desc->id);
	free(l.last);
	free(l.layer);
	if (rc)
		zr_activation_free(out);
	else
		qsort(out->move, (size_t)out->n_moves, sizeof *out->move, by_time);
	return rc;
}

void zr_activation_free(struct zr_activations *a)
{
	free(a->use);
	free(a->move);
	free(a->life_bytes);
	memset(a, 0, sizeof *a);
}
