/* SPDX-License-Identifier: Apache-2.0
 *
 * late.c - writes to a store that go on when their program is over. Before whatever touches their
 * bytes, in any program, they are over: nothing may read what they write, nor write what they read
 * or write. Where an instruction wrote such bytes, the next one comes after that and need not wait.
 * A read that its store keeps behind the write need not wait either; what comes after it does.
 */
#include "core/lower/spans.h"
#include "core/setup.h"

/* What late writes of a program read and write: a span has all of its readers. */
static int add_late(struct zr_spans *t, const struct zr_lowered *p)
{
	int rc = 0;
	for (int32_t k = 0; !rc && k < 2 * p->n; k++) {
		const struct zr_instr *in = &p->instr[k / 2];
		if (!(in->flags & ZR_F_LATE))
			continue;
		struct zr_operand o = p->operand[in->first + k % 2];
		o.access = ZR_READS;
		rc = zr_spans_touch(t, &o, k / 2 * ZR_LOWERED + p->id, ZR_Q_STORE);
	}
	return rc;
}

/* For operand o of instruction j. */
static int add_waits(struct zr_spans *t, struct zr_lowered *p, int32_t j, struct zr_operand o)
{
	int stored = o.region >= 0 && t->setup->plan.region[o.region].store > ZR_STORE_HOST;
	int touch = o.access & ZR_WRITES;
	o.access = 0;
	if (stored || touch)
		o.access = ZR_WRITES;

	t->n_found = 0;
	int rc = zr_spans_find(t, &o);
	for (int32_t k = 0; !rc && k < t->n_found; k++) {
		int32_t late = t->found[k].instr;
		const struct zr_lowered *of = &t->setup->programs.lowered[late % ZR_LOWERED];
		if (zr_kept_behind(t->setup, of, late / ZR_LOWERED, p, j))
			touch = 0;
		else if (!(rc = zr_list_room(&p->wait, p->n_wait + 1, &p->cap_wait,
					     sizeof *p->wait)))
			p->wait[p->n_wait++] = (struct zr_late_wait){ j, late };
	}

	if (!rc && touch && t->n_found)
		return zr_spans_touch(t, &o, -1, ZR_Q_STORE);
	return rc;
}

int zr_late_waits(const struct zr_setup *s, struct zr_lowered *p, struct zr_error *err)
{
	struct zr_spans t = { .setup = s };
	int rc = 0;
	for (int32_t id = 0; !rc && id < ZR_LOWERED; id++)
		rc = add_late(&t, &s->programs.lowered[id]);
	p->n_wait = 0;
	for (int32_t j = 0; !rc && t.n_span && j < p->n; j++)
		for (int32_t k = 0; !rc && k < p->instr[j].n; k++)
			rc = add_waits(&t, p, j, p->operand[p->instr[j].first + k]);
	zr_spans_free(&t);
	if (rc)
		return zr_err(err, rc, "out of memory for the waits for late writes");
	return 0;
}
