/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.c - see spans.h. The spans of all memory are one skip list, sorted by key: the number of a
 * store's object or of an arena, whether it is memory of others, and below these the offset.
 * Nothing ever touches the end of such a range: its last span says what is true of the next range,
 * too.
 */
#include "core/lower/spans.h"

#include <stdlib.h>

#include "core/base/numbers.h"
#include "core/setup.h"

int zr_operand_others(const struct zr_setup_facts *f, const struct zr_operand *o)
{
	return o->whose != ZR_MINE && o->whose != f->process.rank;
}

static int touches(const struct zr_operand *o)
{
	return o->region >= 0 && o->bytes && o->access;
}

uint64_t zr_operand_base(const struct zr_plan *p, const struct zr_operand *o)
{
	const struct zr_region *r = &p->region[o->region];
	return r->store <= ZR_STORE_HOST ? r->offset : 0;
}

#define OFFSETS ((uint64_t)1 << 56)

/* Regions of one arena may share memory: they count as one. */
static uint64_t start_of(const struct zr_spans *t, const struct zr_operand *o)
{
	int store = t->setup->plan.region[o->region].store;
	int object = store <= ZR_STORE_HOST ? ZR_R_COUNT + store : o->region;
	uint64_t range = 2 * (uint64_t)object + (uint64_t)zr_operand_others(&t->setup->facts, o);
	return range * OFFSETS + zr_operand_base(&t->setup->plan, o) + o->at;
}

/* Room for two more spans. At first there is one, which nobody has touched. */
static int room(struct zr_spans *t)
{
	int rc = zr_list_room(&t->span, t->n_span + 3, &t->cap_span, sizeof *t->span);
	if (!rc && !t->n_span)
		t->span[t->n_span++] = (struct zr_span){ 0, -1, { -1, -1 }, -1, { 0 } };
	return rc;
}

/* The span that has the byte `at`. On each level, back: the last one that begins there or
 * before. */
static int32_t span_at(const struct zr_spans *t, uint64_t at, int32_t *back)
{
	int32_t i = 0;
	for (int k = ZR_SPAN_LEVELS - 1; k >= 0; k--) {
		for (int32_t n; (n = t->span[i].next[k]) && t->span[n].at <= at;)
			i = n;
		back[k] = i;
	}
	return i;
}

/* ---- whom an operand has to come after ---- */

int zr_spans_found(struct zr_spans *t, uint64_t at, int32_t instr)
{
	if (t->n_found && t->found[t->n_found - 1].instr == instr)
		return 0;
	int rc = zr_list_room(&t->found, t->n_found + 1, &t->cap_found, sizeof *t->found);
	if (!rc)
		t->found[t->n_found++] = (struct zr_conflict){ at, instr };
	return rc;
}

static int find_in(struct zr_spans *t, const struct zr_span *v, const struct zr_operand *o)
{
	uint64_t at = zr_max(v->at, start_of(t, o)) % OFFSETS;
	int rc = 0;
	if (v->writer >= 0 || (o->access & ZR_READS))
		rc = zr_spans_found(t, at, v->writer);
	if (!(o->access & ZR_WRITES))
		return rc;

	for (int q = 0; !rc && q < ZR_Q_IN_ORDER; q++) {
		if (v->reader[q] >= 0)
			rc = zr_spans_found(t, at, v->reader[q]);
	}
	for (int32_t r = v->others; !rc && r >= 0; r = t->reader[r].next)
		rc = zr_spans_found(t, at, t->reader[r].instr);
	return rc;
}

int zr_spans_find(struct zr_spans *t, const struct zr_operand *o)
{
	if (!touches(o))
		return 0;
	if (room(t))
		return ZR_ENOMEM;

	uint64_t start = start_of(t, o), end = start + o->bytes;
	int32_t back[ZR_SPAN_LEVELS], i = span_at(t, start, back);
	int rc;
	do {
		rc = find_in(t, &t->span[i], o);
		i = t->span[i].next[0];
	} while (!rc && i && t->span[i].at < end);
	return rc;
}

/* ---- what an instruction has touched ---- */

/* The span that begins at `at`: splits one, if there is none. There is room. Of the spans one in
 * four is on the second level, too, one in sixteen on the third, and so on. */
static int32_t cut(struct zr_spans *t, uint64_t at)
{
	int32_t back[ZR_SPAN_LEVELS], from = span_at(t, at, back), i = t->unused;
	if (t->span[from].at == at)
		return from;
	if (i)
		t->unused = t->span[i].next[0];
	else
		i = t->n_span++;
	t->span[i] = t->span[from];
	t->span[i].at = at;
	uint64_t random = t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	for (int k = 0; k < ZR_SPAN_LEVELS; k++, random <<= 2) {
		t->span[i].next[k] = t->span[back[k]].next[k];
		t->span[back[k]].next[k] = i;
		if (random >> 62)
			break;
	}
	return i;
}

/* From span i to `end` there is one span now. */
static void written(struct zr_spans *t, int32_t i, uint64_t end, int32_t instr)
{
	struct zr_span *list = t->span;
	int32_t back[ZR_SPAN_LEVELS], n;
	span_at(t, list[i].at, back);
	for (int k = ZR_SPAN_LEVELS - 1; k >= 0; k--)
		while ((n = list[back[k]].next[k]) && list[n].at < end) {
			list[back[k]].next[k] = list[n].next[k];
			if (k > 0)
				continue;
			list[n].next[0] = t->unused;
			t->unused = n;
		}
	list[i].writer = instr;
	list[i].reader[0] = list[i].reader[1] = list[i].others = -1;
}

static int was_read(struct zr_spans *t, struct zr_span *v, int32_t instr, int queue)
{
	if (queue < ZR_Q_IN_ORDER) {
		v->reader[queue] = instr;
		return 0;
	}
	if (zr_list_room(&t->reader, t->n_reader + 1, &t->cap_reader, sizeof *t->reader))
		return ZR_ENOMEM;
	t->reader[t->n_reader] = (struct zr_reader){ instr, v->others };
	v->others = t->n_reader++;
	return 0;
}

int zr_spans_touch(struct zr_spans *t, const struct zr_operand *o, int32_t instr, int queue)
{
	if (!touches(o))
		return 0;
	if (room(t))
		return ZR_ENOMEM;

	uint64_t start = start_of(t, o), end = start + o->bytes;
	int32_t i = cut(t, start), after = cut(t, end);
	int rc = 0;
	if (o->access & ZR_WRITES)
		written(t, i, end, instr);
	else
		for (; !rc && i != after; i = t->span[i].next[0])
			rc = was_read(t, &t->span[i], instr, queue);
	return rc;
}

int zr_spans_add(struct zr_spans *t, const struct zr_lowered *p, int32_t i)
{
	const struct zr_instr *in = &p->instr[i];
	int rc = 0;
	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = zr_spans_touch(t, &p->operand[in->first + k], i, in->queue);
	return rc;
}

void zr_spans_free(struct zr_spans *t)
{
	free(t->span);
	free(t->reader);
	free(t->found);
}
