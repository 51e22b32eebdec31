/* SPDX-License-Identifier: Apache-2.0
 *
 * activation.c - see activation.h. A buffer lives from the forward or recompute that writes it to the last use that reads
 * it before it is written again. So what is dropped needs no mark of its own: the schedule writes it a second time, and
 * its first life ends where it was last read.
 */
#include "core/activation.h"

#include <stdlib.h>

#include "core/lifetime.h"
#include "core/setup.h"

/* ---- the policy ---- */

/* Why an answer cannot be, or NULL. Parts of 0 bytes are kept by now. */
static const char *wrong(const struct zr_act_choice *c, const struct zr_act_layer *l)
{
	if (c->out < ZR_ACT_KEEP || c->out > ZR_ACT_OFFLOAD || c->saved < ZR_ACT_KEEP || c->saved > ZR_ACT_OFFLOAD)
		return "is neither kept nor recomputed nor offloaded";
	if (c->out == ZR_ACT_OFFLOAD || c->saved == ZR_ACT_OFFLOAD)
		return "is offloaded, which core cannot do";
	if (l->flags & ZR_LAYER_LOSS && (c->out || c->saved))
		return "is the loss layer, whose backward is its forward: nothing of it waits";
	if (c->out == ZR_ACT_RECOMPUTE && l->saved && c->saved != ZR_ACT_RECOMPUTE)
		return "drops its output but not what it saved: one forward makes both again";
	return NULL;
}

int zr_activation_ask(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_activation_v1 *policy = s->activation.vtbl;
	uint32_t n = s->decl.n_layers;
	struct zr_act_layer *l = calloc(n, sizeof *l);
	s->act = calloc(n, sizeof *s->act);
	int rc = l && s->act ? 0 : zr_err(err, ZR_ENOMEM, "out of memory for %u layers", n);
	for (uint32_t i = 0; !rc && i < n; i++)
		l[i] = (struct zr_act_layer){ .out = s->layer_bytes[i].out, .saved = s->layer_bytes[i].saved,
					      .flags = zr_layer_at(&s->decl, (int32_t)i)->flags };
	if (!rc && (rc = policy->choose(s->activation.inst, l, n, sizeof *l, s->act)))
		rc = zr_instance_failed(&s->activation, rc, "choose", err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		if (!l[i].out)
			s->act[i].out = ZR_ACT_KEEP;
		if (!l[i].saved)
			s->act[i].saved = ZR_ACT_KEEP;
		const char *why = wrong(&s->act[i], &l[i]);
		if (why)
			rc = zr_err(err, ZR_EINVAL, "[activation] %s: layer %s %s", s->activation.section->plugin->desc->id,
				    zr_layer_at(&s->decl, (int32_t)i)->name, why);
	}
	free(l);
	return rc;
}

/* ---- lives and places ---- */

/* Numbers of lives. */
struct use_lives {
	int32_t in, out, saved;
};

struct lives {
	struct zr_lifetime *life;
	int32_t n;
	struct use_lives *layer; /* [n_layers] the current ones; in is not used */
	struct use_lives *use;   /* [uses] */
};

static int32_t begin(struct lives *l, uint64_t bytes, int32_t use)
{
	l->life[l->n] = (struct zr_lifetime){ .bytes = bytes, .first = use, .last = use };
	return l->n++;
}

static int32_t extend(struct lives *l, int32_t life, int32_t use)
{
	l->life[life].last = use;
	return life;
}

static void walk(struct lives *l, const struct zr_layer_bytes *bytes, const struct zr_use *use, int32_t number)
{
	int32_t i = use->layer;
	const struct zr_layer_bytes *b = &bytes[i];
	struct use_lives *u = &l->use[number];
	int writes = use->phase != ZR_BACKWARD;
	if (i > 0)
		u->in = extend(l, l->layer[i - 1].out, number);
	if (writes)
		u->out = l->layer[i].out = begin(l, b->out, number);
	if (writes || l->layer[i].saved < 0) /* the loss layer had no forward */
		u->saved = l->layer[i].saved = begin(l, b->saved, number);
	else
		u->saved = extend(l, l->layer[i].saved, number);
}

int zr_activation_place(const struct zr_setup *s, const struct zr_schedule *uses, struct zr_use_place *place, uint64_t *bytes,
			struct zr_error *err)
{
	int32_t n = uses->n;
	uint64_t total = 0;
	struct lives l = { .life = calloc(2 * (size_t)n, sizeof *l.life), .layer = calloc(s->decl.n_layers, sizeof *l.layer),
			   .use = calloc((size_t)n, sizeof *l.use) };
	int rc = l.life && l.layer && l.use ? 0 : zr_err(err, ZR_ENOMEM, "out of memory while planning %d uses", n);
	for (uint32_t i = 0; !rc && i < s->decl.n_layers; i++)
		l.layer[i].saved = -1;
	for (int32_t i = 0; !rc && i < n; i++)
		walk(&l, s->layer_bytes, &uses->use[i], i);
	if (!rc)
		rc = zr_lifetime_assign(l.life, l.n, &total, err);
	for (int32_t i = 0; !rc && i < n; i++)
		place[i] = (struct zr_use_place){ .in = l.life[l.use[i].in].offset, .out = l.life[l.use[i].out].offset,
						  .saved = l.life[l.use[i].saved].offset };
	if (!rc && total > *bytes)
		*bytes = total;
	free(l.life);
	free(l.layer);
	free(l.use);
	return rc;
}
