/* SPDX-License-Identifier: Apache-2.0
 *
 * cards_time.c - the clock of the double of cards: it counts what was computed, so that tests know
 * what it says. An operation takes CARD_OPERATION ns, a mark CARD_MARK, a copy beside CARD_COPY.
 */
#include "cards.h"

#include <stdlib.h>

#define CARD_OPERATION 1000
#define CARD_MARK      10
#define CARD_COPY      300

struct card_time {
	int64_t at; /* ns */
	int passed;
};

struct mark_later {
	struct zr_inst *d;
	uint32_t mark;
};

static void pass(struct zr_inst *d, uint32_t mark, int64_t at)
{
	d->time[mark] = (struct card_time){ at, 1 };
}

static int run_mark(const struct zr_ops *ops, const void *op)
{
	const struct mark_later *m = op;
	(void)ops;
	m->d->clock += CARD_MARK;
	pass(m->d, m->mark, m->d->clock);
	return ZR_OK;
}

int card_is_mark(int (*run)(const struct zr_ops *, const void *))
{
	return run == run_mark;
}

void card_time_passes(struct zr_inst *d)
{
	d->clock += CARD_OPERATION;
}

void card_time_copied(struct zr_inst *d, uint32_t begin, uint32_t end)
{
	if (begin != ZR_TIME_NONE)
		pass(d, begin, d->clock);
	if (end != ZR_TIME_NONE)
		pass(d, end, d->clock + CARD_COPY);
}

void card_time_end(struct zr_inst *d)
{
	free(d->time);
}

/* ---- interface ------------------------------------------------------------------- */

int card_time_open(struct zr_inst *d, uint32_t n)
{
	if (d->time)
		return zr_fail(d->h, ZR_ESTATE, "time_open is called twice");
	d->time = calloc(n, sizeof *d->time);
	d->n_time = n;
	return d->time ? ZR_OK : zr_fail(d->h, ZR_ENOMEM, "no memory for marks");
}

static int check_mark(const struct zr_inst *d, uint32_t mark)
{
	if (mark < d->n_time)
		return ZR_OK;
	return zr_fail(d->h, ZR_EINVAL, "mark %u: there are %u", mark, d->n_time);
}

int card_time_mark(struct zr_inst *d, struct zr_stream *s, uint32_t mark)
{
	const struct mark_later m = { d, mark };
	int rc = check_mark(d, mark);
	(void)s;
	if (!rc)
		rc = card_graph_none(d, "time_mark");
	if (rc)
		return rc;

	d->time[mark].passed = 0;
	if (d->later)
		return card_enqueue(d, run_mark, &m, sizeof m);
	return run_mark(NULL, &m);
}

int card_time_copies(struct zr_inst *d, uint32_t begin, uint32_t end)
{
	int rc = begin == ZR_TIME_NONE ? ZR_OK : check_mark(d, begin);
	if (!rc && end != ZR_TIME_NONE)
		rc = check_mark(d, end);
	if (rc)
		return rc;

	d->copy_begins = begin;
	d->copy_ends = end;
	return ZR_OK;
}

int card_time_between(struct zr_inst *d, uint32_t from, uint32_t to, int64_t *ns)
{
	int rc = check_mark(d, from);
	if (!rc)
		rc = check_mark(d, to);
	if (rc)
		return rc;
	if (!d->time[from].passed || !d->time[to].passed)
		return ZR_EAGAIN;

	*ns = d->time[to].at - d->time[from].at;
	return ZR_OK;
}
