/* SPDX-License-Identifier: Apache-2.0
 *
 * onward.c - the update of a step inside the forward of the next one: the operations of the update
 * program, in their order, between those of the first micro-batch. A unit is updated as late as it
 * may be, so that its data comes and goes beside the layers before: right before the first
 * operation that needs its new values. All is updated before the first backward, which changes
 * gradients.
 */
#include <stdlib.h>
#include <xxhash.h>

#include "core/program/recorder.h"

struct merge {
	const struct zr_setup *s;
	const struct zr_program *update, *micro;
	struct zr_program *to;
	/* [n_units] operations of the update up to the one that updates it; whether its new values
	 * are published; scratch */
	int32_t *until, *published, *some;
	int32_t *went; /* [micro->n] where its operations are now: what others wait for */
	int32_t done;  /* operations of the update so far */
};

/* Whether a step's update is to be inside the next forward, where that changes anything. */
static int wanted(const struct zr_setup *s)
{
	const struct zr_setup_facts *f = &s->facts;
	const int chosen = f->train->update_in_forward;
	if (chosen != ZR_ONWARD_AUTO)
		return chosen == ZR_ONWARD_YES;

	for (int i = 0; i < ZR_OFFLOADS; i++) {
		const int near = f->tier[i].direct && f->device_info.unified;
		if (i != ZR_STORE_ACTIVATION - ZR_STORE_OPTIMIZER && f->tier[i].size && !near)
			return 1;
	}
	return 0;
}

static int append(struct merge *m, struct zr_pop op, const int32_t *units, int32_t n)
{
	struct zr_program *to = m->to;
	if (zr_list_room(&to->op, to->n + 1, &to->cap, sizeof *to->op) ||
	    zr_list_room(&to->unit, to->n_unit + n, &to->cap_unit, sizeof *to->unit))
		return ZR_ENOMEM;

	op.first = to->n_unit;
	op.n = n;
	for (int32_t k = 0; k < n; k++)
		to->unit[to->n_unit++] = units[k];
	to->op[to->n++] = op;
	return 0;
}

/* Of a list that the stage publishes, what is updated by now. */
static int publish(struct merge *m, const struct zr_pop *op)
{
	struct zr_pop part = { .kind = ZR_P_PUBLISH };
	const int32_t *units = m->update->unit + op->first;
	int32_t n = 0;
	for (int32_t k = 0; k < op->n; k++) {
		const int32_t u = units[k];
		if (m->published[u] || m->until[u] > m->done)
			continue;
		m->published[u] = 1;
		m->some[n++] = u;
		part.bytes += zr_published_bytes(&m->s->facts, u);
	}
	if (!n)
		return 0;

	struct zr_pop wait = { .kind = ZR_P_WAIT, .target = m->to->n };
	int rc = append(m, part, m->some, n);
	if (rc)
		return rc;
	return append(m, wait, NULL, 0);
}

/* The update goes on until so many of its operations are done. */
static int go_on(struct merge *m, int32_t until)
{
	const struct zr_program *p = m->update;
	int rc = 0;
	if (until <= m->done)
		return 0;

	for (; !rc && m->done < until; m->done++)
		if (p->op[m->done].kind == ZR_P_UPDATE)
			rc = append(m, p->op[m->done], p->unit + p->op[m->done].first,
				    p->op[m->done].n);
	for (int32_t i = 0; !rc && i < p->n; i++)
		if (p->op[i].kind == ZR_P_PUBLISH && !p->op[i].once)
			rc = publish(m, &p->op[i]);
	if (m->done == p->n)
		m->to->updated = m->to->n;
	return rc;
}

/* Operations of the update up to the last one that changes some of these units. */
static int32_t until_all(const struct merge *m, const int32_t *units, int32_t n)
{
	int32_t most = 0;

	for (int32_t k = 0; k < n; k++)
		if (m->until[units[k]] > most)
			most = m->until[units[k]];
	return most;
}

/* What an operation of the micro-batch needs of the update. */
static int32_t needed(const struct merge *m, const struct zr_pop *op)
{
	const struct zr_use *use = &m->s->programs.train_uses.use[op->use];

	switch (op->kind) {
	case ZR_P_REDUCE:
		return m->update->n;
	case ZR_P_GATHER:
		return until_all(m, m->micro->unit + op->first, op->n);
	case ZR_P_LAYER:
		if (use->phase != ZR_FORWARD)
			return m->update->n;
		return until_all(m, use->units, (int32_t)use->n_units);
	default:
		return 0;
	}
}

static void find_updates(struct merge *m)
{
	const struct zr_program *p = m->update;

	for (int32_t i = 0; i < p->n; i++) {
		const struct zr_pop *op = &p->op[i];
		for (int32_t k = 0; op->kind == ZR_P_UPDATE && k < op->n; k++)
			m->until[p->unit[op->first + k]] = i + 1;
	}
}

/* An operation of the micro-batch follows, when what it needs is updated. */
static int follow(struct merge *m, int32_t i)
{
	struct zr_pop op = m->micro->op[i];
	int rc = go_on(m, needed(m, &op));
	if (rc)
		return rc;

	m->went[i] = m->to->n;
	if (op.kind == ZR_P_WAIT || op.kind == ZR_P_HOP)
		op.target = m->went[op.target];
	return append(m, op, m->micro->unit + op.first, op.n);
}

static int merge(struct merge *m)
{
	int rc = 0;

	find_updates(m);
	for (int32_t i = 0; !rc && i < m->micro->n; i++)
		rc = follow(m, i);
	if (rc)
		return rc;
	return go_on(m, m->update->n);
}

/* Whether it updates and publishes, and no more: what else a stage does then has its place
 * there. */
static int updates_alone(const struct zr_program *p)
{
	for (int32_t i = 0; i < p->n; i++) {
		const struct zr_pop *op = &p->op[i];
		if (op->kind == ZR_P_WAIT)
			op = &p->op[op->target];
		if (op->kind != ZR_P_UPDATE && op->kind != ZR_P_PUBLISH)
			return 0;
	}

	return p->updates;
}

/* The first micro-batch of a step, which is perhaps its last. */
static const struct zr_program *first_micro(const struct zr_setup *s)
{
	if (s->facts.batch.accumulation > 1)
		return &s->programs.recorded[ZR_PROG_MICRO];
	return &s->programs.recorded[ZR_PROG_LAST_MICRO];
}

static int make_tables(struct merge *m)
{
	const size_t units = (size_t)m->s->facts.layout.n_units;

	m->until = calloc(3 * units + (size_t)m->micro->n + 1, sizeof *m->until);
	if (!m->until)
		return ZR_ENOMEM;

	m->published = m->until + units;
	m->some = m->published + units;
	m->went = m->some + units;
	return 0;
}

int zr_program_onward(struct zr_setup *s, struct zr_error *err)
{
	struct zr_program *recorded = s->programs.recorded, *to = &recorded[ZR_PROG_ONWARD];
	struct merge m = {
		.s = s, .update = &recorded[ZR_PROG_UPDATE], .micro = first_micro(s), .to = to
	};

	if (!wanted(s) || !updates_alone(m.update) || recorded[ZR_PROG_LAST_MICRO].updates)
		return 0;

	to->id = ZR_PROG_ONWARD;
	to->updates = 1;
	int rc = make_tables(&m);
	if (!rc)
		rc = merge(&m);
	free(m.until);
	if (rc)
		return zr_err(err, rc, "out of memory while recording a program");

	to->hash = XXH3_64bits(to->op, (size_t)to->n * sizeof *to->op);
	return 0;
}
