/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - see clock.h.
 */
#include "train/run/clock.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/error.h"

#define MOST 65536 /* of marks, and of what the host did */
/* ns: after a longer pause between steps clocks are set anew, as they drift and devices say times
 * between marks with 24 bits */
#define PAUSE 1000000000

struct mark {
	struct zr_clock_mark what;
	double asked;  /* zr_now() */
	int64_t at;    /* ns of the device's clock, since the first mark */
	double passed; /* zr_now() */
};

struct did {
	double until; /* zr_now() */
	uint8_t part;
};

/* Marks and what was done have numbers from 1 on; number n is at n % room, or n % room_did. */
struct zr_clock {
	struct zr_instance *device;
	uint32_t room, room_did;
	struct mark *mark; /* [room] owned */
	uint64_t made;     /* marks */
	uint64_t known;    /* of these the device has passed so many */
	uint64_t counted;  /* and so many have been added */
	struct did *did;   /* [room_did] owned */
	uint64_t n_did, seen;
	double apart, apart_before; /* seconds from the device's clock to ours: last two readings */
	struct zr_parts sum;        /* that nobody has read */
	double update;
	int failed;
};

static const struct zr_device_v1 *table(const struct zr_clock *c)
{
	return c->device->vtbl;
}

static struct mark *mark_at(const struct zr_clock *c, uint64_t number)
{
	return &c->mark[number % c->room];
}

static uint32_t slot(const struct zr_clock *c, uint64_t number)
{
	return (uint32_t)(number % c->room);
}

/* ---- opening --------------------------------------------------------------------- */

int zr_clock_has(const struct zr_instance *device)
{
	const struct zr_device_v1 *v = device->vtbl;
	return ZR_HAS(v, struct zr_device_v1, time_between) && v->time_open && v->time_mark &&
	       v->time_copies && v->time_between;
}

static uint32_t room_of(int64_t n)
{
	return (uint32_t)(n < MOST ? n : MOST);
}

int zr_clock_open(struct zr_instance *device, const struct zr_clock_room *room,
		  struct zr_clock **out, struct zr_error *err)
{
	*out = NULL;
	struct zr_clock *c = calloc(1, sizeof *c);
	if (!c)
		return zr_no_memory(err);

	c->device = device;
	c->room = room_of(room->marks);
	c->room_did = room_of(room->did);
	c->mark = calloc(c->room, sizeof *c->mark);
	c->did = calloc(c->room_did, sizeof *c->did);
	c->apart = c->apart_before = -INFINITY;
	int rc = 0;
	if (!c->mark || !c->did)
		rc = zr_no_memory(err);
	if (!rc)
		rc = ZR_ASK(device, device, time_open, err, c->room + (uint32_t)room->copies);
	if (rc)
		zr_clock_close(c);
	else
		*out = c;
	return rc;
}

void zr_clock_close(struct zr_clock *c)
{
	if (!c)
		return;

	free(c->mark);
	free(c->did);
	free(c);
}

/* ---- what is added up -------------------------------------------------------------- */

/* The host is the reason for `took` seconds from `from` on without anything to compute, as far as
 * it had not asked for what came next. */
static void name_idle(struct zr_clock *c, double from, double asked, double took)
{
	const double until = fmin(from + took, asked);
	double left = took;

	if (c->n_did - c->seen >= c->room_did)
		c->seen = c->n_did - c->room_did + 1;
	while (c->seen < c->n_did && c->did[(c->seen + 1) % c->room_did].until <= from)
		c->seen++;
	for (uint64_t n = c->seen + 1; n <= c->n_did && from < until; n++) {
		const struct did *d = &c->did[n % c->room_did];
		const double end = fmin(d->until, until);
		c->sum.of[d->part] += end - from;
		left -= end - from;
		from = end;
	}

	c->sum.of[ZR_PART_LAUNCH] += fmax(left, 0);
	c->sum.idle += took;
}

static void count_one(struct zr_clock *c, const struct mark *before, struct mark *m)
{
	const double took = 1e-9 * (double)(m->at - before->at);
	const struct zr_clock_mark *what = &m->what;

	if (what->between == ZR_CLOCK_NO_STEP)
		return;

	if (what->between == ZR_CLOCK_NOTHING)
		name_idle(c, before->passed, m->asked, took);
	else
		c->sum.of[what->part] += took;
	if (what->between == ZR_CLOCK_RANKS)
		c->sum.idle += took;
	if (what->update)
		c->update += took;
}

/* Marks that are known get the host's time. */
static void count(struct zr_clock *c)
{
	const double apart = fmax(c->apart, c->apart_before);

	while (c->counted < c->known) {
		struct mark *m = mark_at(c, c->counted + 1);
		const struct mark *before = mark_at(c, c->counted);
		m->passed = 1e-9 * (double)m->at + apart;
		if (c->counted && before->passed > m->passed)
			m->passed = before->passed;
		if (c->counted)
			count_one(c, before, m);
		c->counted++;
	}
}

/* The device passes the first mark when it says 0. */
static int passes_next(struct zr_clock *c)
{
	struct mark *m = mark_at(c, c->known + 1);
	int64_t ns = 0;

	m->at = 0;
	if (!c->known)
		return 1;

	int rc = table(c)->time_between(c->device->inst, slot(c, c->known), slot(c, c->known + 1),
					&ns);
	c->failed = rc && rc != ZR_EAGAIN;
	m->at = mark_at(c, c->known)->at + ns;
	if (!rc && m->what.between == ZR_CLOCK_NO_STEP && ns > PAUSE) {
		count(c);
		c->apart = c->apart_before = -INFINITY;
	}
	return !rc;
}

static void advance(struct zr_clock *c)
{
	const uint64_t known = c->known;

	while (!c->failed && c->known < c->made && passes_next(c)) {
		const struct mark *m = mark_at(c, ++c->known);
		c->apart = fmax(c->apart, m->asked - 1e-9 * (double)m->at);
	}
	count(c);
	if (c->known == known)
		return;

	c->apart_before = c->apart;
	c->apart = -INFINITY;
}

void zr_clock_read(struct zr_clock *c, struct zr_parts *add, double *update)
{
	advance(c);
	for (int i = 0; i < ZR_PARTS; i++)
		add->of[i] += c->sum.of[i];
	add->idle += c->sum.idle;
	*update += c->update;
	c->sum = (struct zr_parts){ 0 };
	c->update = 0;
}

static int is_kept(const struct zr_clock *c, uint64_t mark)
{
	return mark && mark <= c->counted && c->made - mark < c->room;
}

double zr_clock_passed(const struct zr_clock *c, uint64_t mark)
{
	return is_kept(c, mark) ? mark_at(c, mark)->passed : NAN;
}

double zr_clock_copied(const struct zr_clock *c, int64_t copy)
{
	const uint32_t mark = c->room + (uint32_t)copy;
	int64_t ns;

	if (c->failed || !c->counted)
		return NAN;
	if (table(c)->time_between(c->device->inst, mark, slot(c, c->counted), &ns))
		return NAN;
	return mark_at(c, c->counted)->passed - 1e-9 * (double)ns;
}

/* ---- what is noted ---------------------------------------------------------------- */

/* The device has more marks to pass than there is room for: that many operations were never ahead
 * of a device. */
static void make_room(struct zr_clock *c)
{
	if (c->made - c->counted < c->room - 1)
		return;

	table(c)->sync(c->device->inst, NULL);
	advance(c);
}

uint64_t zr_clock_mark(struct zr_clock *c, struct zr_clock_mark what, double now)
{
	if (c->failed)
		return 0;

	make_room(c);
	uint64_t number = c->made + 1;
	c->failed = table(c)->time_mark(c->device->inst, NULL, slot(c, number));
	if (c->failed)
		return 0;

	*mark_at(c, number) = (struct mark){ .what = what, .asked = now, .passed = NAN };
	c->made = number;
	return number;
}

void zr_clock_did(struct zr_clock *c, enum zr_operand_part part, double now)
{
	c->did[++c->n_did % c->room_did] = (struct did){ now, (uint8_t)part };
}

void zr_clock_copies(struct zr_clock *c, int64_t copy)
{
	uint32_t begin = ZR_TIME_NONE, end = ZR_TIME_NONE;

	if (copy >= 0) {
		begin = c->room + (uint32_t)copy;
		end = begin + 1;
	}
	table(c)->time_copies(c->device->inst, begin, end);
}
