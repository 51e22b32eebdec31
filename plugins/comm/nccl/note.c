/* SPDX-License-Identifier: Apache-2.0
 *
 * note.c - what ranks say through boot when something fails: NCCL itself tells nobody why a rank
 * stops, nor who is missing (I5). Read only by those who wait for long.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <string.h>

#define HEAR   0.25 /* seconds of a wait before the others are asked, and between two times */
#define LISTEN 0.02 /* seconds that boot is given for a value that may not be there */
#define ANSWER 1.0  /* seconds that other ranks have to say where they wait, too */
#define GRACE  1.0  /* seconds for the last data of a rank that has left */

/* Where a rank waits that has run out of time. */
struct waits {
	struct comm_header at;
	int32_t group, rsv;
};

static void key_of(char *key, size_t room, const char *what, int32_t rank)
{
	snprintf(key, room, "nccl.%s.%d", what, rank);
}

void nn_tell(struct zr_inst *c)
{
	if (c->told || !c->boot)
		return;

	c->told = 1;
	c->boot->put(c->boot_inst, "nccl.stopped", c->why,
		     sizeof c->why); /* the first one counts */
	nn_stopped(c);               /* again, for boot may have complained */
}

void nn_tell_left(struct zr_inst *c)
{
	if (c->boot)
		c->boot->put(c->boot_inst, "nccl.left", &c->rank, sizeof c->rank);
}

int nn_ask_boot(struct zr_inst *c)
{
	char why[NN_WHY];
	if (c->broken)
		return nn_stopped(c);
	if (!ZR_HAS(c->boot, struct zr_boot_v1, stopped) || !c->boot->stopped ||
	    !c->boot->stopped(c->boot_inst, why, sizeof why))
		return ZR_OK;

	c->told = 1; /* the others ask boot, too */
	return nn_stop(c, ZR_EPEER, "%s", why);
}

/* Boot fails before its time is over if it knows itself that a rank has stopped. */
static int boot_says(struct zr_inst *c)
{
	int rc = nn_ask_boot(c);
	if (rc)
		return rc;

	snprintf(c->why, sizeof c->why, "another rank has stopped");
	c->broken = c->told = 1;
	c->code = ZR_EPEER;
	nn_abort_comms(c);
	return ZR_EPEER;
}

int nn_hear(struct zr_inst *c, double waited)
{
	const double now = nn_now();
	char why[NN_WHY];
	if (waited < HEAR || now - c->heard < HEAR)
		return ZR_OK;

	int rc = c->boot->get(c->boot_inst, "nccl.stopped", why, sizeof why, LISTEN);
	c->heard = nn_now();
	if (rc && c->heard - now < LISTEN / 2)
		return boot_says(c);
	if (rc)
		return ZR_OK;

	why[sizeof why - 1] = 0;
	c->told = 1;
	return nn_stop(c, ZR_EPEER, "%s", why);
}

static int is_in(const struct nn_group *g, int32_t rank)
{
	for (int32_t r = 0; r < g->size; r++)
		if (nn_in_world(g, r) == rank)
			return 1;
	return 0;
}

int nn_left_behind(struct zr_inst *c, const struct nn_pend *p, double waited)
{
	char text[160];
	if (waited < HEAR)
		return ZR_OK;
	if (!c->left_since) {
		if (c->left_asked && nn_now() - c->left_asked < HEAR)
			return ZR_OK;
		c->left_asked = nn_now();
		if (!c->boot->get(c->boot_inst, "nccl.left", &c->left, sizeof c->left, LISTEN))
			c->left_since = nn_now();
	}

	if (!c->left_since || nn_now() - c->left_since < GRACE || waited < GRACE ||
	    !is_in(&c->group[p->group], c->left))
		return ZR_OK;

	comm_op_text(&p->own, p->group, text, sizeof text);
	return nn_stop(c, ZR_EPEER, "rank %d has left; %s waits for it", c->left, text);
}

/* Adds a rank that does not say that it waits in p or in what follows. */
static void add_missing(struct zr_inst *c, const struct nn_pend *p, int32_t rank, double until,
			struct comm_missing *missing)
{
	const struct nn_group *g = &c->group[p->group];
	const double left = until - nn_now();
	struct waits w = { .group = -1 };
	char key[32];
	key_of(key, sizeof key, "waits", rank);
	int has = !c->boot->get(c->boot_inst, key, &w, sizeof w, left > LISTEN ? left : LISTEN);
	if (has && w.group == p->group && w.at.seq >= p->own.seq)
		return;

	comm_missing_add(missing, &(struct comm_seen){
					  .rank = rank,
					  .waits = has ? &w.at : NULL,
					  .waits_group = w.group,
					  .group = p->group,
					  .last = &g->talk->common,
				  });
}

int nn_late(struct zr_inst *c, const struct nn_pend *p, double waited)
{
	const struct nn_group *g = &c->group[p->group];
	const struct waits own = { p->own, p->group, 0 };
	const double share = c->o->timeout / 4;
	const double until = nn_now() + (share < ANSWER ? share : ANSWER);
	char key[32], op[160], text[800] = "";
	struct comm_missing missing = { .out = text, .room = sizeof text };
	key_of(key, sizeof key, "waits", c->rank);
	c->boot->put(c->boot_inst, key, &own, sizeof own);
	for (int32_t r = 0; r < g->size; r++)
		if (r != g->rank)
			add_missing(c, p, nn_in_world(g, r), until, &missing);

	comm_missing_end(&missing);
	comm_op_text(&p->own, p->group, op, sizeof op);
	return nn_stop(c, ZR_EPEER, "timeout: %s of rank %d waited %.3g s for %s", op, c->rank,
		       waited, text);
}
