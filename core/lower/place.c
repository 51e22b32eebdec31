/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - where everything lies in its arena: first what always has data, behind it the buffers
 * of each program, which share bytes wherever they do not live at the same time. What lies in a
 * section [offload.X] is an object of its own.
 */
#include <stdlib.h>

#include "core/base/numbers.h"
#include "core/memory/lifetime.h"
#include "core/setup.h"

struct placing {
	struct zr_setup *s;
	struct zr_region *region;
	uint8_t buffers[ZR_R_COUNT]; /* 1: its places are those of buffers */
	struct zr_error *err;
};

static int in_arena(const struct zr_region *r)
{
	return r->store <= ZR_STORE_HOST;
}

static void place_always(struct placing *p)
{
	uint64_t *arena = p->s->plan.arena;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		if (p->buffers[i])
			r->bytes = 0;
		else
			r->bytes = zr_up(r->bytes, ZR_PAGE);
		r->room = r->added = r->bytes;
		r->offset = 0;
		if (in_arena(r)) {
			r->offset = arena[r->store];
			arena[r->store] += r->bytes;
		}
	}
}

/* Of one program: those of a region, or, -1, of all of an arena. */
static int place_program(struct placing *p, struct zr_lowered *prog, int store, int region,
			 uint64_t *most)
{
	uint64_t total;
	struct zr_buffer **list = calloc((size_t)prog->n_buffer + 1, sizeof *list);
	int32_t n = 0;
	if (!list)
		return zr_err(p->err, ZR_ENOMEM, "out of memory for the places of %d buffers",
			      prog->n_buffer);

	for (int32_t i = 0; i < prog->n_buffer; i++) {
		struct zr_buffer *b = &prog->buffer[i];
		int same = b->region == region;
		if (region < 0)
			same = p->region[b->region].store == store;
		if (b->first >= 0 && same)
			list[n++] = b;
	}

	int rc = zr_lifetime_assign(list, n, &total, p->err);
	if (!rc && n)
		*most = zr_max(*most, total);
	free(list);
	return rc;
}

static int place_buffers(struct placing *p, int store, int region, uint64_t *most)
{
	int rc = 0;
	for (int id = 0; !rc && id < ZR_LOWERED; id++)
		rc = place_program(p, &p->s->programs.lowered[id], store, region, most);
	return rc;
}

/* Bytes that each kind of buffers would take alone: its places, if it is an object of a store. */
static int place_kinds(struct placing *p)
{
	int rc = 0;
	for (int i = 0; !rc && i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		if (!p->buffers[i])
			continue;
		rc = place_buffers(p, r->store, i, &r->bytes);
		if (!in_arena(r))
			r->bytes = r->room = r->added = zr_up(r->bytes, ZR_PAGE);
	}
	return rc;
}

/* Bytes that regions have in turn count once; what lies between buffers counts for the last
 * region. */
static void share(struct placing *p, int store, uint64_t bytes)
{
	uint64_t left = bytes;
	struct zr_region *last = NULL;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		if (!p->buffers[i] || r->store != store || !r->bytes)
			continue;
		last = r;
		r->added = zr_min(r->bytes, left);
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
	int rc = place_buffers(p, store, -1, &most);
	most = zr_up(most, ZR_PAGE);
	for (int i = 0; !rc && i < ZR_R_COUNT; i++)
		if (p->buffers[i] && p->region[i].store == store) {
			p->region[i].offset = *arena;
			p->region[i].room = most;
		}
	share(p, store, most);
	*arena += most;
	return rc;
}

/* Operands count from where their memory begins now. */
static void settle(struct zr_setup_programs *p)
{
	for (int id = 0; id < ZR_LOWERED; id++)
		for (int32_t i = 0; i < p->lowered[id].n_operand; i++) {
			struct zr_operand *o = &p->lowered[id].operand[i];
			if (o->buffer)
				o->at += p->lowered[id].buffer[o->buffer - 1].offset;
		}
}

int zr_place_all(struct zr_setup *s, struct zr_error *err)
{
	struct placing p = { .s = s, .region = s->plan.region, .err = err };
	for (int id = 0; id < ZR_LOWERED; id++)
		for (int32_t i = 0; i < s->programs.lowered[id].n_buffer; i++)
			p.buffers[s->programs.lowered[id].buffer[i].region] = 1;
	place_always(&p);
	int rc = place_kinds(&p);
	if (!rc)
		rc = place_arena(&p, ZR_STORE_DEVICE);
	if (!rc)
		rc = place_arena(&p, ZR_STORE_HOST);
	if (!rc)
		settle(&s->programs);
	return rc;
}
