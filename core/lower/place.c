/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - where regions lie in their arenas: what is always needed one after the other; behind it one place for what is needed
 * at different times. What lies in a section [offload.X] is an object of its own.
 */
#include "core/program/lifetime.h"
#include "core/setup.h"

#define PAGE 4096u

/* When something is needed. Nothing of it outlives a program. */
enum phase { EVAL, MICRO, UPDATE, VALUES, OUTSIDE };

/* 0: always. Updates in the backward bring forward what an update needs. */
static int needed(const struct zr_setup *s, const struct zr_plan *p, int region, struct zr_lifetime *l)
{
	static const struct { int first, last; } when[ZR_R_COUNT] = {
		[ZR_R_GRAD_BUFFER] = { MICRO, MICRO }, [ZR_R_COMM] = { MICRO, MICRO },	[ZR_R_FOLD] = { MICRO, MICRO },
		[ZR_R_GATHER] = { EVAL, VALUES },      [ZR_R_SLOT] = { EVAL, VALUES },	[ZR_R_ACT] = { EVAL, MICRO },
		[ZR_R_WORK] = { EVAL, MICRO },	       [ZR_R_BATCH] = { EVAL, MICRO },	[ZR_R_WHOLE] = { UPDATE, UPDATE },
		[ZR_R_SUMS] = { MICRO, MICRO },	       [ZR_R_STAGING] = { UPDATE, OUTSIDE }, [ZR_R_CHUNK] = { UPDATE, OUTSIDE },
	};
	int early = zr_program_updates(&s->program[ZR_PROG_LAST_MICRO]);
	l->first = when[region].first >= UPDATE && early ? MICRO : when[region].first;
	l->last = when[region].last;
	return l->last > EVAL && p->region[region].bytes;
}

/* What is not always needed, behind the rest of an arena. */
static int share(const struct zr_setup *s, struct zr_plan *p, int store, struct zr_error *err)
{
	struct zr_lifetime l[ZR_R_COUNT];
	int which[ZR_R_COUNT], n = 0;
	uint64_t total, water = 0;
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (p->region[i].store == store && needed(s, p, i, &l[n])) {
			l[n].bytes = p->region[i].bytes;
			which[n++] = i;
		}
	int rc = zr_lifetime_assign(l, n, &total, err);
	for (int k = 0; !rc && k < n; k++) {
		struct zr_region *r = &p->region[which[k]];
		uint64_t end = l[k].offset + r->bytes;
		r->offset = p->arena[store] + l[k].offset;
		r->added = end > water ? end - water : 0;
		water = end > water ? end : water;
	}
	p->arena[store] += rc ? 0 : total;
	return rc;
}

int zr_place_regions(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	struct zr_lifetime l;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		struct zr_region *r = &p->region[i];
		int apart = r->store > ZR_STORE_HOST;
		r->bytes = (r->bytes + PAGE - 1) / PAGE * PAGE;
		if (!apart && needed(s, p, i, &l))
			continue;
		r->added = r->bytes;
		r->offset = apart ? 0 : p->arena[r->store];
		p->arena[apart ? 0 : r->store] += apart ? 0 : r->bytes;
	}
	int rc = share(s, p, ZR_STORE_DEVICE, err);
	return rc ? rc : share(s, p, ZR_STORE_HOST, err);
}
