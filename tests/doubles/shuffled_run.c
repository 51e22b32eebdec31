/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffled_run.c - zr_run_program in another order, for the program `shuffled`, which is zeroth
 * otherwise:
 * any instruction whose dependencies are over may be the next one, but for the order of its queue
 * where that has one; what goes on beside others ends early or late, and half of the copies and
 * requests do not even begin before they end. A read that its store keeps behind writes may begin
 * once these have. Whatever the dependencies of a program leave open happens, so a missing one
 * changes bits. Half of the late writes go on when their program is over. SHUFFLE=SEED chooses the
 * order, of each rank its own. CUT=PROGRAM:NUMBER leaves one dependency out, to see that it does:
 * what was waited for comes last.
 */
#include <stdlib.h>
#include <string.h>

#include "core/exec/exec.h"

struct shuffle {
	struct zr_session *s;
	const struct zr_lowered *p;
	struct zr_error *err;
	int32_t *left; /* [n] dependencies that are not over */
	/* successors: next[first[i] .. first[i + 1]), ~j: a read that its store keeps behind i */
	int32_t *next, *first;
	int32_t *queue[ZR_QUEUES]; /* [n] instructions of each queue, in order */
	int32_t n_queue[ZR_QUEUES], head[ZR_QUEUES];
	int32_t *ready, n_ready; /* of queues without an order */
	int32_t *going, n_going; /* begun, not over */
	uint8_t *late;           /* [n] 1: begins when it ends */
	uint32_t requests[ZR_OFFLOADS];
	int32_t over;
	int32_t cut, last; /* a dependency that is left out, its instruction comes last; or -1 */
};

static uint64_t drawn;

static uint32_t draw(uint32_t n)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return (uint32_t)(drawn >> 33) % n;
}

static int has_order(int queue)
{
	return queue < ZR_Q_IN_ORDER || queue == ZR_Q_COMM;
}

/* Instruction i has begun, or it is over: for these of its successors. */
static void release(struct shuffle *h, int32_t i, int begun)
{
	for (int32_t k = h->first[i]; k < h->first[i + 1]; k++) {
		int32_t j = h->next[k] < 0 ? ~h->next[k] : h->next[k];
		if ((h->next[k] < 0) == begun && !--h->left[j] && !has_order(h->p->instr[j].queue))
			h->ready[h->n_ready++] = j;
	}
}

static void over(struct shuffle *h, int32_t i)
{
	h->over++;
	release(h, i, 0);
}

/* The store that an instruction is a request to, -1: none. */
static int store_of(const struct shuffle *h, int32_t i)
{
	const struct zr_instr *in = &h->p->instr[i];
	if (in->queue != ZR_Q_STORE)
		return -1;
	int32_t region = h->p->operand[in->first + zr_stored(in)].region;
	return h->s->setup->plan.region[region].store - ZR_STORE_OPTIMIZER;
}

/* Where a store takes no more requests, this one begins late. */
static int begins_late(struct shuffle *h, int32_t i)
{
	int store = store_of(h, i);
	if (h->p->instr[i].queue == ZR_Q_COMM)
		return 0;
	if (draw(2))
		return 1;
	return store >= 0 && h->requests[store] >= h->s->setup->facts.tier[store].max_inflight;
}

/* Late writes that it waits for are over. */
static int begin_now(struct shuffle *h, int32_t i)
{
	const struct zr_lowered *p = h->p;
	int rc = 0;
	for (int32_t k = 0; !rc && k < p->n_wait; k++)
		if (p->wait[k].instr == i)
			rc = zr_end_late(h->s, p->wait[k].late, h->err);
	if (!rc)
		rc = zr_begin(h->s, p, i, h->err);
	if (rc == ZR_EAGAIN && !(rc = zr_writes_settle(h->s, h->err)))
		rc = zr_begin(h->s, p, i, h->err);
	release(h, i, 1);
	return rc;
}

static int begin(struct shuffle *h, int32_t i)
{
	int store = store_of(h, i);
	if (h->p->instr[i].queue < ZR_Q_IN_ORDER || (h->p->instr[i].flags & ZR_F_LATE && draw(2))) {
		int rc = begin_now(h, i);
		h->s->late |= h->p->instr[i].flags & ZR_F_LATE;
		over(h, i);
		return rc;
	}
	h->going[h->n_going++] = i;
	h->late[i] = (uint8_t)begins_late(h, i);
	if (h->late[i])
		return 0;
	h->requests[store < 0 ? 0 : store] += store >= 0;
	return begin_now(h, i);
}

static int end(struct shuffle *h, int32_t k)
{
	int32_t i = h->going[k];
	int store = store_of(h, i);
	h->going[k] = h->going[--h->n_going];
	if (!h->late[i])
		h->requests[store < 0 ? 0 : store] -= store >= 0;
	int rc = h->late[i] ? begin_now(h, i) : 0;
	if (!rc)
		rc = zr_end(h->s, h->p, i, h->err);
	over(h, i);
	return rc;
}

/* Something that can be done now. */
static int do_one(struct shuffle *h)
{
	int32_t can[ZR_QUEUES], n = 0;
	for (int q = 0; q < ZR_QUEUES; q++)
		if (has_order(q) && h->head[q] < h->n_queue[q] && !h->left[h->queue[q][h->head[q]]])
			can[n++] = q;
	const int32_t all = n + h->n_ready + h->n_going;
	int32_t choice = (int32_t)draw((uint32_t)all), i = -1;
	for (int k = 0; k < all; k++, choice = (choice + 1) % all) {
		i = choice < n              ? h->queue[can[choice]][h->head[can[choice]]] :
		    choice < n + h->n_ready ? h->ready[choice - n] :
					      h->going[choice - n - h->n_ready];
		if (i != h->last)
			break;
	}
	if (choice >= n + h->n_ready)
		return end(h, choice - n - h->n_ready);
	if (choice < n)
		h->head[can[choice]]++;
	else
		h->ready[choice - n] = h->ready[--h->n_ready];
	return begin(h, i);
}

static void count_successors(struct shuffle *h)
{
	const struct zr_lowered *p = h->p;
	for (int32_t k = 0; k < p->n_dep; k++)
		h->first[p->dep[k] + 1] += k != h->cut;
	for (int32_t i = 0; i < p->n; i++)
		h->first[i + 1] += h->first[i];
	int32_t *free_place = malloc(((size_t)p->n + 1) * sizeof *free_place);
	if (!free_place)
		abort();
	memcpy(free_place, h->first, (size_t)p->n * sizeof *free_place);
	for (int32_t j = 0; j < p->n; j++) {
		const struct zr_instr *in = &p->instr[j];
		const int32_t behind = in->after + in->n_after - in->n_behind;
		h->left[j] = in->n_after;
		for (int32_t k = in->after; k < in->after + in->n_after; k++)
			if (k == h->cut)
				h->left[j]--;
			else
				h->next[free_place[p->dep[k]]++] = k < behind ? j : ~j;
	}
	free(free_place);
}

static void prepare(struct shuffle *h)
{
	const struct zr_lowered *p = h->p;
	const char *cut = getenv("CUT"), *number = cut ? strchr(cut, ':') : NULL;
	h->cut = number && atoi(cut) == p->id ? atoi(number + 1) : -1;
	h->last = h->cut < 0 ? -1 : p->dep[h->cut];
	count_successors(h);
	for (int32_t i = 0; i < p->n; i++) {
		int q = p->instr[i].queue;
		if (has_order(q))
			h->queue[q][h->n_queue[q]++] = i;
		else if (!h->left[i])
			h->ready[h->n_ready++] = i;
	}
}

static void *table(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);
	if (!p)
		abort();
	return p;
}

int zr_run_program(struct zr_session *s, int32_t id, struct zr_error *err)
{
	struct shuffle h = { .s = s, .p = &s->setup->programs.lowered[id], .err = err };
	size_t n = (size_t)h.p->n + 1;
	int rc = 0;
	if (!drawn)
		drawn = (uint64_t)atoll(getenv("SHUFFLE") ? getenv("SHUFFLE") : "1") *
				0x9e3779b97f4a7c15u +
			(uint64_t)s->setup->facts.process.rank + 1;
	h.left = table(n, sizeof *h.left);
	h.first = table(n + 1, sizeof *h.first);
	h.next = table((size_t)h.p->n_dep, sizeof *h.next);
	h.ready = table(n, sizeof *h.ready);
	h.going = table(n, sizeof *h.going);
	h.late = table(n, 1);
	for (int q = 0; q < ZR_QUEUES; q++)
		h.queue[q] = table(n, sizeof *h.queue[q]);
	s->running = h.p;
	rc = zr_mark(s, &s->marks.program, err);
	prepare(&h);
	while (!rc && h.over < h.p->n)
		rc = do_one(&h);
	if (!rc)
		rc = zr_end_stretch(s, err);
	if (!rc)
		rc = zr_beside_settle(s, err);
	s->in_place += h.p->in_place;
	s->running = NULL;
	void *all[] = { h.left,     h.first,    h.next,     h.ready,    h.going,   h.late,
			h.queue[0], h.queue[1], h.queue[2], h.queue[3], h.queue[4] };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	return rc;
}
