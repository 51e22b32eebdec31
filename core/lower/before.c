/* SPDX-License-Identifier: Apache-2.0
 *
 * before.c - see before.h.
 */
#include "core/lower/before.h"

#include <stdlib.h>
#include <string.h>

#include "core/setup.h"

int zr_before_new(struct zr_before *b, const struct zr_setup *s, const struct zr_lowered *p)
{
	size_t n = (size_t)p->n + 1;
	int32_t *row = calloc(6 * n, sizeof *row);
	*b = (struct zr_before){
		.setup = s, .p = p, .lane = row, .collective = -1, .search = INT32_MAX
	};
	b->over = calloc(n, sizeof *b->over);
	if (!row || !b->over)
		return ZR_ENOMEM;

	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		b->next[q] = row += n;
	b->seen = row += n;
	b->waited = row += n;
	b->stack = row + n;
	for (size_t i = 0; i < n; i++)
		b->next[0][i] = b->next[1][i] = b->seen[i] = INT32_MAX;
	return 0;
}

void zr_before_free(struct zr_before *b)
{
	free(b->over);
	free(b->lane);
}

int32_t zr_before_switch(struct zr_before *b, int32_t j)
{
	const struct zr_instr *in = b->p->instr;
	int32_t last = b->collective, first = b->run;
	if (!b->setup->facts.two_comms || in[j].kind != ZR_I_COLLECTIVE)
		return j;
	b->collective = j;
	if (last < 0 || !((in[last].flags ^ in[j].flags) & ZR_F_DEVICE))
		return j;
	b->run = j;
	return first;
}

int zr_store_of(const struct zr_plan *plan, const struct zr_lowered *p, int32_t i)
{
	const struct zr_instr *in = &p->instr[i];
	if ((in->kind != ZR_I_READ && in->kind != ZR_I_WRITE) || in->n <= zr_stored(in))
		return -1;
	int32_t region = p->operand[in->first + zr_stored(in)].region;
	if (region < 0 || plan->region[region].store < ZR_STORE_OPTIMIZER)
		return -1;
	return plan->region[region].store - ZR_STORE_OPTIMIZER;
}

int zr_before_request(const struct zr_before *b, int32_t i)
{
	if (b->waited[i])
		return -1;
	return zr_store_of(&b->setup->plan, b->p, i);
}

void zr_before_enter(struct zr_before *b, int32_t j)
{
	int q = b->p->instr[j].queue, store = zr_before_request(b, j);
	if (store >= 0)
		b->requests[store]++;
	b->lane[j] = -1;
	if (q >= ZR_Q_IN_ORDER)
		return;
	if (b->count[q])
		memcpy(b->over[j], b->over[b->last[q]], sizeof b->over[j]);
	b->over[j][q] = ++b->count[q];
	b->lane[j] = q;
	b->last[q] = j;
}

/* What comes after all of a lane may follow there. */
void zr_before_leave(struct zr_before *b, int32_t j)
{
	for (int l = ZR_Q_IN_ORDER; l < ZR_LANES && b->lane[j] < 0; l++)
		if (b->over[j][l] == b->count[l]) {
			b->over[j][l] = ++b->count[l];
			b->lane[j] = l;
		}
}

static int32_t visit(struct zr_before *b, int32_t *mark, int32_t value, int32_t d, int32_t n)
{
	if (b->p->instr[d].queue < ZR_Q_IN_ORDER || mark[d] <= value)
		return n;
	mark[d] = value;
	b->stack[n] = d;
	return n + 1;
}

/* Marks d and what it waits for, directly or through others, none of them on an in-order queue nor
 * before `from`. A mark that is not above the value says that all this was done there. */
static void mark_back(struct zr_before *b, int32_t *mark, int32_t value, int32_t d, int32_t from)
{
	if (d < from)
		return;

	int32_t n = visit(b, mark, value, d, 0);
	while (n > 0) {
		const struct zr_instr *in = &b->p->instr[b->stack[--n]];
		for (int32_t k = 0; k < in->n_after; k++) {
			d = b->p->dep[in->after + k];
			if (d >= from)
				n = visit(b, mark, value, d, n);
		}
	}
}

void zr_before_wait(struct zr_before *b, int32_t j, int32_t i)
{
	int queue = b->p->instr[j].queue, store = zr_before_request(b, i);
	if (store >= 0)
		b->requests[store]--;
	b->waited[i] = 1;
	for (int l = 0; l < ZR_LANES; l++)
		if (b->over[i][l] > b->over[j][l])
			b->over[j][l] = b->over[i][l];
	if (queue < ZR_Q_IN_ORDER)
		mark_back(b, b->next[queue], b->over[j][queue], i, 0);
}

int zr_is_before(struct zr_before *b, int32_t i, int32_t j)
{
	const struct zr_instr *in = &b->p->instr[j];
	int l = b->lane[i];
	if (l >= 0)
		return b->over[i][l] <= b->over[j][l];

	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		if (b->next[q][i] <= b->over[j][q])
			return 1;
	if (in->queue < ZR_Q_IN_ORDER)
		return 0;

	b->search--;
	for (int32_t k = 0; k < in->n_after && b->seen[i] != b->search; k++)
		mark_back(b, b->seen, b->search, b->p->dep[in->after + k], i);
	return b->seen[i] == b->search;
}
