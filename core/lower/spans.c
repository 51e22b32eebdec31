/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.c - see spans.h.
 */
#include "core/lower/spans.h"

#include <stdlib.h>
#include <string.h>

#include "core/setup.h"

int zr_operand_others(const struct zr_setup *s, const struct zr_operand *o)
{
	return o->whose != ZR_MINE && o->whose != s->process.rank;
}

static int touches(const struct zr_operand *o)
{
	return o->region >= 0 && o->bytes && o->access;
}

/* Regions of one arena may share memory: they count as one. */
static int in_arena(const struct zr_spans *t, const struct zr_operand *o)
{
	return t->setup->plan.region[o->region].store <= ZR_STORE_HOST;
}

uint64_t zr_operand_base(const struct zr_setup *s, const struct zr_operand *o)
{
	const struct zr_region *r = &s->plan.region[o->region];
	return r->store <= ZR_STORE_HOST ? r->offset : 0;
}

static uint64_t start_of(const struct zr_spans *t, const struct zr_operand *o)
{
	return zr_operand_base(t->setup, o) + o->at;
}

static uint64_t end_of(const struct zr_spans *t, const struct zr_operand *o)
{
	uint64_t start = start_of(t, o);
	return o->bytes > UINT64_MAX - start ? UINT64_MAX : start + o->bytes;
}

/* NULL: no memory. It begins as one span that nobody has touched; cut() makes two more at most. */
static struct zr_span_list *list_of(struct zr_spans *t, const struct zr_operand *o)
{
	int number = in_arena(t, o) ? ZR_R_COUNT + t->setup->plan.region[o->region].store : o->region;
	struct zr_span_list *l = &t->list[number][zr_operand_others(t->setup, o)];
	struct zr_span *span = zr_list_grow(l->span, l->n + 2, &l->cap, sizeof *span);
	if (!span)
		return NULL;
	l->span = span;
	if (!l->n)
		l->span[l->n++] = (struct zr_span){ 0, -1, { -1, -1 }, -1 };
	return l;
}

/* The span that has the byte `at`. */
static int32_t span_at(const struct zr_span_list *l, uint64_t at)
{
	int32_t low = 0, high = l->n;
	while (high - low > 1) {
		int32_t middle = low + (high - low) / 2;
		if (l->span[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* ---- whom an operand has to come after ---- */

int zr_spans_found(struct zr_spans *t, uint64_t at, int32_t instr)
{
	if (t->n_found && t->found[t->n_found - 1].instr == instr)
		return 0;
	struct zr_conflict *list = zr_list_grow(t->found, t->n_found + 1, &t->cap_found,
						sizeof *list);
	if (!list)
		return ZR_ENOMEM;
	t->found = list;
	t->found[t->n_found++] = (struct zr_conflict){ at, instr };
	return 0;
}

static int find_in(struct zr_spans *t, const struct zr_span *v, const struct zr_operand *o)
{
	uint64_t from = start_of(t, o), at = v->at > from ? v->at : from;
	int rc = v->writer >= 0 || (o->access & ZR_READS) ? zr_spans_found(t, at, v->writer) : 0;
	if (!(o->access & ZR_WRITES))
		return rc;
	for (int q = 0; !rc && q < ZR_Q_IN_ORDER; q++)
		rc = v->reader[q] >= 0 ? zr_spans_found(t, at, v->reader[q]) : 0;
	for (int32_t r = v->others; !rc && r >= 0; r = t->reader[r].next)
		rc = zr_spans_found(t, at, t->reader[r].instr);
	return rc;
}

int zr_spans_find(struct zr_spans *t, const struct zr_operand *o)
{
	struct zr_span_list *l = touches(o) ? list_of(t, o) : NULL;
	if (!l)
		return touches(o) ? ZR_ENOMEM : 0;
	int rc = 0;
	for (int32_t i = span_at(l, start_of(t, o)); !rc && i < l->n && l->span[i].at < end_of(t, o); i++)
		rc = find_in(t, &l->span[i], o);
	return rc;
}

/* ---- what an instruction has touched ---- */

/* The span that begins at `at`: splits one, if there is none. There is room. */
static int32_t cut(struct zr_span_list *l, uint64_t at)
{
	int32_t i = span_at(l, at);
	if (l->span[i].at == at)
		return i;
	memmove(&l->span[i + 1], &l->span[i], (size_t)(l->n++ - i) * sizeof *l->span);
	l->span[i + 1].at = at;
	return i + 1;
}

static void written(struct zr_span_list *l, int32_t low, int32_t high, int32_t instr)
{
	uint64_t at = l->span[low].at;
	l->span[low] = (struct zr_span){ at, instr, { -1, -1 }, -1 };
	memmove(&l->span[low + 1], &l->span[high], (size_t)(l->n - high) * sizeof *l->span);
	l->n -= high - low - 1;
}

static int was_read(struct zr_spans *t, struct zr_span *v, int32_t instr, int queue)
{
	if (queue < ZR_Q_IN_ORDER) {
		v->reader[queue] = instr;
		return 0;
	}
	struct zr_reader *list = zr_list_grow(t->reader, t->n_reader + 1, &t->cap_reader,
					      sizeof *list);
	if (!list)
		return ZR_ENOMEM;
	t->reader = list;
	t->reader[t->n_reader] = (struct zr_reader){ instr, v->others };
	v->others = t->n_reader++;
	return 0;
}

static int add(struct zr_spans *t, const struct zr_operand *o, int32_t instr, int queue)
{
	struct zr_span_list *l = list_of(t, o);
	if (!l)
		return ZR_ENOMEM;
	int32_t low = cut(l, start_of(t, o)), high = cut(l, end_of(t, o));
	if (o->access & ZR_WRITES) {
		written(l, low, high, instr);
		return 0;
	}
	int rc = 0;
	for (; !rc && low < high; low++)
		rc = was_read(t, &l->span[low], instr, queue);
	return rc;
}

int zr_spans_add(struct zr_spans *t, const struct zr_lowered *p, int32_t i)
{
	const struct zr_instr *in = &p->instr[i];
	int rc = 0;
	for (int32_t k = 0; !rc && k < in->n; k++)
		if (touches(&p->operand[in->first + k]))
			rc = add(t, &p->operand[in->first + k], i, in->queue);
	return rc;
}

void zr_spans_free(struct zr_spans *t)
{
	for (int r = 0; r < ZR_R_COUNT + 2; r++)
		for (int k = 0; k < 2; k++)
			free(t->list[r][k].span);
	free(t->reader);
	free(t->found);
}
