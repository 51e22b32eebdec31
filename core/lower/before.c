/* SPDX-License-Identifier: Apache-2.0
 *
 * before.c - see before.h.
 */
#include "core/lower/before.h"

#include <limits.h>
#include <stdlib.h>

#include "core/setup.h"

int zr_before_new(struct zr_before *b, const struct zr_setup *s, const struct zr_lowered *p)
{
	size_t n = (size_t)p->n + 1;
	int32_t *row = calloc(8 * n, sizeof *row);
	*b = (struct zr_before){ .setup = s, .p = p, .position = row, .search = INT32_MAX };
	if (!row)
		return ZR_ENOMEM;
	for (int q = 0; q < ZR_Q_IN_ORDER; q++) {
		b->over[q] = row += n;
		b->next[q] = row += n;
	}
	b->seen = row += n;
	b->waited = row += n;
	b->stack = row + n;
	for (size_t i = 0; i < n; i++)
		b->next[0][i] = b->next[1][i] = b->seen[i] = INT32_MAX;
	return 0;
}

void zr_before_free(struct zr_before *b)
{
	free(b->position);
}

static int in_order(const struct zr_before *b, int32_t i)
{
	return b->p->instr[i].queue < ZR_Q_IN_ORDER;
}

int zr_before_request(const struct zr_before *b, int32_t i)
{
	const struct zr_instr *in = &b->p->instr[i];
	int at = in->kind == ZR_I_WRITE;
	if (b->waited[i] || (in->kind != ZR_I_READ && in->kind != ZR_I_WRITE) || in->n <= at)
		return -1;
	int32_t region = b->p->operand[in->first + at].region;
	int store = region < 0 ? -1 : b->setup->plan.region[region].store;
	return store < ZR_STORE_OPTIMIZER ? -1 : store - ZR_STORE_OPTIMIZER;
}

void zr_before_enter(struct zr_before *b, int32_t j)
{
	int q = b->p->instr[j].queue, store = zr_before_request(b, j);
	if (store >= 0)
		b->requests[store]++;
	if (q >= ZR_Q_IN_ORDER)
		return;
	for (int k = 0; b->count[q] && k < ZR_Q_IN_ORDER; k++)
		b->over[k][j] = b->over[k][b->last[q]];
	b->position[j] = b->count[q]++;
	b->over[q][j] = b->count[q];
	b->last[q] = j;
}

static int32_t visit(struct zr_before *b, int32_t *mark, int32_t value, int32_t d, int32_t n)
{
	if (in_order(b, d) || mark[d] <= value)
		return n;
	mark[d] = value;
	b->stack[n] = d;
	return n + 1;
}

/* Marks d and what it waits for, directly or through others, none of them on an in-order queue nor
 * before `from`. A mark that is not above the value says that all this was done there. */
static void mark_back(struct zr_before *b, int32_t *mark, int32_t value, int32_t d, int32_t from)
{
	int32_t n = d < from ? 0 : visit(b, mark, value, d, 0);
	while (n > 0) {
		const struct zr_instr *in = &b->p->instr[b->stack[--n]];
		for (int32_t k = 0; k < in->n_after; k++) {
			d = b->p->dep[in->after + k];
			n = d < from ? n : visit(b, mark, value, d, n);
		}
	}
}

void zr_before_wait(struct zr_before *b, int32_t j, int32_t i)
{
	int queue = b->p->instr[j].queue, store = zr_before_request(b, i);
	if (store >= 0)
		b->requests[store]--;
	b->waited[i] = 1;
	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		if (b->over[q][i] > b->over[q][j])
			b->over[q][j] = b->over[q][i];
	if (queue < ZR_Q_IN_ORDER)
		mark_back(b, b->next[queue], b->position[j], i, 0);
}

int zr_before(struct zr_before *b, int32_t i, int32_t j)
{
	const struct zr_instr *in = &b->p->instr[j];
	if (in_order(b, i))
		return b->position[i] < b->over[b->p->instr[i].queue][j];
	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		if (b->next[q][i] < b->over[q][j])
			return 1;
	if (in_order(b, j))
		return 0;
	b->search--;
	for (int32_t k = 0; k < in->n_after && b->seen[i] != b->search; k++)
		mark_back(b, b->seen, b->search, b->p->dep[in->after + k], i);
	return b->seen[i] == b->search;
}
