/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - where everything lies in its arena: first what always has data, then what has a place of
 * its own in some programs, behind it the buffers of each program, which share bytes wherever they do
 * not live at the same time. What lies in a section [offload.X] is an object of its own.
 */
#include <stdlib.h>

#include "core/memory/lifetime.h"
#include "core/setup.h"

/* When something is needed. Nothing of it outlives a program. */
enum phase { EVAL, MICRO, UPDATE, VALUES, OUTSIDE, PHASES };

static const uint8_t phase_of[ZR_LOWERED] = {
	[ZR_S_FIRST] = MICRO, [ZR_S_MICRO] = MICRO,   [ZR_S_LAST] = MICRO, [ZR_S_BOUNDARY] = MICRO,
	[ZR_S_MEET] = EVAL,   [ZR_S_UPDATE] = UPDATE, [ZR_S_EVAL] = EVAL,  [ZR_S_VALUES] = VALUES
};

/* How a region gets its place. */
enum kind { ALWAYS, IN_PHASES, BUFFERS };

struct placing {
	struct zr_setup *s;
	struct zr_region *region;
	uint8_t kind[ZR_R_COUNT];
	uint64_t start[ZR_STORES][PHASES]; /* of buffers in a phase, behind what is always there */
	struct zr_error *err;
};

static int in_arena(const struct zr_region *r)
{
	return r->store <= ZR_STORE_HOST;
}

/* Phases of a region with a place of its own, 0: it is always needed. Updates in the backward bring
 * forward what an update needs. */
static int phases_of(const struct zr_setup *s, int region, struct zr_lifetime *l)
{
	int early = zr_program_updates(&s->program[ZR_PROG_LAST_MICRO]);
	int staged = region == ZR_R_STAGING || region == ZR_R_CHUNK, batch = region == ZR_R_BATCH;
	l->first = batch ? EVAL : staged && early ? MICRO : UPDATE;
	l->last = batch ? MICRO : staged ? OUTSIDE : UPDATE;
	return batch || staged || region == ZR_R_WHOLE;
}

static void find_kinds(struct placing *p)
{
	struct zr_lifetime l;
	for (int i = 0; i < ZR_R_COUNT; i++)
		p->kind[i] = in_arena(&p->region[i]) && phases_of(p->s, i, &l) ? IN_PHASES : ALWAYS;
	for (int id = 0; id < ZR_LOWERED; id++)
		for (int32_t i = 0; i < p->s->lowered[id].n_buffer; i++)
			p->kind[p->s->lowered[id].buffer[i].region] = BUFFERS;
}

static void place_always(struct placing *p)
{
	uint64_t *arena = p->s->plan.arena;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		r->bytes = p->kind[i] == BUFFERS ? 0 : zr_up(r->bytes, ZR_PAGE);
		if (p->kind[i] != ALWAYS)
			continue;
		r->room = r->added = r->bytes;
		r->offset = in_arena(r) ? arena[r->store] : 0;
		if (in_arena(r))
			arena[r->store] += r->bytes;
	}
}

/* ---- what has a place of its own in some programs ---- */

static int place_phases(struct placing *p, int store, uint64_t *total)
{
	struct zr_lifetime l[ZR_R_COUNT] = { { 0 } };
	struct zr_region *which[ZR_R_COUNT];
	int n = 0;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		which[n] = &p->region[i];
		l[n].bytes = which[n]->bytes;
		n += p->kind[i] == IN_PHASES && which[n]->store == store && phases_of(p->s, i, &l[n]);
	}
	int rc = zr_lifetime_assign(l, n, total, p->err);
	for (int k = 0; !rc && k < n; k++) {
		which[k]->offset = p->s->plan.arena[store] + l[k].offset;
		which[k]->room = l[k].bytes;
		for (int phase = l[k].first; phase <= l[k].last; phase++)
			p->start[store][phase] = zr_max(p->start[store][phase], l[k].offset + l[k].bytes);
	}
	return rc;
}

/* ---- buffers ---- */

/* Of one program: those of a region, or, -1, of all of an arena. */
static int place_program(struct placing *p, struct zr_lowered *prog, int store, int region, uint64_t *most)
{
	uint64_t start = region < 0 ? p->start[store][phase_of[prog->id]] : 0, total;
	struct zr_lifetime *l = calloc((size_t)prog->n_buffer + 1, sizeof *l);
	struct zr_buffer **which = calloc((size_t)prog->n_buffer + 1, sizeof *which);
	int32_t n = 0;
	int rc = l && which ? 0 : zr_err(p->err, ZR_ENOMEM, "out of memory for the places of %d buffers", prog->n_buffer);
	for (int32_t i = 0; !rc && i < prog->n_buffer; i++) {
		struct zr_buffer *b = &prog->buffer[i];
		if (b->first < 0 || (region < 0 ? p->region[b->region].store != store : b->region != region))
			continue;
		l[n] = (struct zr_lifetime){ .bytes = b->bytes, .align = b->align, .first = b->first, .last = b->last };
		which[n++] = b;
	}
	rc = rc ? rc : zr_lifetime_assign(l, n, &total, p->err);
	for (int32_t i = 0; !rc && i < n; i++)
		which[i]->offset = start + l[i].offset;
	if (!rc && n)
		*most = zr_max(*most, start + total);
	free(l);
	free(which);
	return rc;
}

static int place_buffers(struct placing *p, int store, int region, uint64_t *most)
{
	int rc = 0;
	for (int id = 0; !rc && id < ZR_LOWERED; id++)
		rc = place_program(p, &p->s->lowered[id], store, region, most);
	return rc;
}

/* Bytes that each kind of buffers would take alone: its places, if it is an object of a store. */
static int place_kinds(struct placing *p)
{
	int rc = 0;
	for (int i = 0; !rc && i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		if (p->kind[i] != BUFFERS)
			continue;
		rc = place_buffers(p, r->store, i, &r->bytes);
		if (!in_arena(r))
			r->bytes = r->room = r->added = zr_up(r->bytes, ZR_PAGE);
	}
	return rc;
}

/* Bytes that regions have in turn count once; what lies between buffers counts for the last region. */
static void share(struct placing *p, int store, uint64_t bytes)
{
	uint64_t left = bytes;
	struct zr_region *last = NULL;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		if (p->kind[i] == ALWAYS || r->store != store || !r->bytes)
			continue;
		last = r;
		r->added = r->bytes < left ? r->bytes : left;
		left -= r->added;
	}
	if (last) {
		last->added += left;
		last->bytes += left;
	}
}

static int place_arena(struct placing *p, int store)
{
	uint64_t most = 0, *arena = &p->s->plan.arena[store];
	int rc = place_phases(p, store, &most);
	rc = rc ? rc : place_buffers(p, store, -1, &most);
	most = zr_up(most, ZR_PAGE);
	for (int i = 0; !rc && i < ZR_R_COUNT; i++)
		if (p->kind[i] == BUFFERS && p->region[i].store == store) {
			p->region[i].offset = *arena;
			p->region[i].room = most;
		}
	share(p, store, most);
	*arena += most;
	return rc;
}

/* Operands count from where their memory begins now. */
static void settle(struct zr_setup *s)
{
	for (int id = 0; id < ZR_LOWERED; id++)
		for (int32_t i = 0; i < s->lowered[id].n_operand; i++) {
			struct zr_operand *o = &s->lowered[id].operand[i];
			o->at += o->buffer ? s->lowered[id].buffer[o->buffer - 1].offset : 0;
		}
	for (int32_t u = 0; u < s->layout.n_units; u++) {
		struct zr_spot *sum = &s->plan.unit[u].grad;
		sum->at += sum->buffer ? s->lowered[ZR_S_LAST].buffer[sum->buffer - 1].offset : 0;
		sum->buffer = 0;
	}
}

int zr_place_all(struct zr_setup *s, struct zr_error *err)
{
	struct placing p = { .s = s, .region = s->plan.region, .err = err };
	find_kinds(&p);
	place_always(&p);
	int rc = place_kinds(&p);
	rc = rc ? rc : place_arena(&p, ZR_STORE_DEVICE);
	rc = rc ? rc : place_arena(&p, ZR_STORE_HOST);
	if (!rc)
		settle(s);
	return rc;
}
