/* SPDX-License-Identifier: Apache-2.0
 *
 * order_fixture.c - see order_fixture.h. It shares nothing with core/lower but the instructions.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order_fixture.h"

/* Used unless the linker has the real one. */
__attribute__((weak)) const char *zr_instr_text(const struct zr_setup *s,
						const struct zr_lowered *p, int32_t i, char *buf,
						size_t size)
{
	(void)s;
	(void)p;
	snprintf(buf, size, "#%d", i);
	return buf;
}

static void *more(void *list, int32_t need, int32_t *cap, size_t size)
{
	if (need > *cap) {
		*cap = 2 * need + 16;
		list = realloc(list, (size_t)*cap * size);
		if (!list)
			abort();
	}
	return list;
}

void fixture_setup(struct zr_setup *s, uint64_t bytes, uint32_t inflight)
{
	memset(s, 0, sizeof *s);
	for (int i = 0; i < ZR_R_COUNT; i++)
		s->plan.region[i] = (struct zr_region){ .what = "a region",
							.bytes = bytes,
							.room = bytes,
							.offset = (uint64_t)i << 40 };
	s->plan.region[ZR_R_STATE].store = ZR_STORE_OPTIMIZER;
	s->plan.region[ZR_R_STATE].what = "the state";
	s->plan.region[ZR_R_ACT_OFFLOADED].store = ZR_STORE_ACTIVATION;
	s->facts.tier[0].max_inflight = inflight;
	s->facts.process.rank = 1;
	s->facts.process.world = 4;
}

int32_t fixture_add(struct zr_lowered *p, int kind, int queue)
{
	p->instr = more(p->instr, p->n + 1, &p->cap, sizeof *p->instr);
	p->instr[p->n] = (struct zr_instr){ .kind = (uint8_t)kind,
					    .queue = (uint8_t)queue,
					    .op = -1,
					    .unit = -1,
					    .first = p->n_operand,
					    .after = p->n_dep };
	return p->n++;
}

void fixture_touch(struct zr_lowered *p, uint32_t access, int32_t region, int32_t whose,
		   uint64_t at, uint64_t bytes)
{
	p->operand = more(p->operand, p->n_operand + 1, &p->cap_operand, sizeof *p->operand);
	p->operand[p->n_operand++] = (struct zr_operand){ .region = region,
							  .whose = whose,
							  .access = access,
							  .unit = -1,
							  .at = at,
							  .bytes = bytes };
	p->instr[p->n - 1].n++;
}

void fixture_depend(struct zr_lowered *p, int32_t on)
{
	p->dep = more(p->dep, p->n_dep + 1, &p->cap_dep, sizeof *p->dep);
	p->dep[p->n_dep++] = on;
	if (p->instr[on].queue == ZR_Q_COMPUTE)
		p->instr[on].flags |= ZR_F_MARK;
	p->instr[p->n - 1].n_after++;
}

void fixture_free(struct zr_lowered *p)
{
	free(p->instr);
	free(p->operand);
	free(p->dep);
	memset(p, 0, sizeof *p);
}

int fixture_waits(const struct zr_lowered *p, int32_t j, int32_t i)
{
	for (int32_t k = 0; k < p->instr[j].n_after; k++)
		if (p->dep[p->instr[j].after + k] == i)
			return 1;
	return 0;
}

struct fixture_cut fixture_take(struct zr_lowered *p, int32_t instr, int32_t k)
{
	struct zr_instr *in = &p->instr[instr];
	struct fixture_cut cut = { instr, in->after + k, p->dep[in->after + k] };
	p->dep[cut.at] = p->dep[in->after + --in->n_after];
	return cut;
}

void fixture_put_back(struct zr_lowered *p, struct fixture_cut cut)
{
	struct zr_instr *in = &p->instr[cut.instr];
	p->dep[in->after + in->n_after++] = p->dep[cut.at];
	p->dep[cut.at] = cut.dep;
}

/* ---- random programs ---- */

uint32_t fixture_random(uint64_t *state, uint32_t n)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) >> 32) % n;
}

/* Up to `width` bytes anywhere. */
static void random_operand(struct zr_lowered *p, uint64_t *state, uint32_t access, int32_t region,
			   uint32_t width)
{
	static const int32_t whose[] = { ZR_MINE, ZR_MINE, ZR_MINE, 1, ZR_OTHERS, ZR_VIEW, 2 };
	int32_t who = whose[fixture_random(state, 7)];
	uint32_t bytes = fixture_random(state, width + 1);
	uint32_t at = fixture_random(state, FIXTURE_BYTES - bytes + 1);
	fixture_touch(p, access, region, who, at, bytes);
}

static void random_request(struct zr_lowered *p, uint64_t *state, uint32_t width)
{
	int write = (int)fixture_random(state, 2);
	fixture_add(p, write ? ZR_I_WRITE : ZR_I_READ, ZR_Q_STORE);
	random_operand(p, state, ZR_READS, write ? ZR_R_PARAM : ZR_R_STATE, width);
	random_operand(p, state, ZR_WRITES, write ? ZR_R_STATE : ZR_R_PARAM, width);
}

/* inside: what does not outlive the program is written first, and mostly so otherwise. */
void fixture_afresh(struct zr_setup *s, struct zr_lowered *p, uint64_t *state)
{
	fixture_setup(s, FIXTURE_BYTES, fixture_random(state, 4));
	fixture_free(p);
}

void fixture_random_program(struct zr_lowered *p, uint64_t *state, int32_t n, int inside)
{
	static const int32_t region[] = { ZR_R_PARAM, ZR_R_MASTER, ZR_R_PARTS };
	static const int kind[ZR_QUEUES] = { ZR_I_LAYER, ZR_I_HOST, ZR_I_COPY, ZR_I_READ,
					     ZR_I_COLLECTIVE };
	uint32_t width = 1 + fixture_random(state, 24), ordered = fixture_random(state, 4);
	if (inside || fixture_random(state, 4)) {
		fixture_add(p, ZR_I_HOST, ZR_Q_HOST);
		fixture_touch(p, ZR_WRITES, ZR_R_PARTS, ZR_MINE, 0, FIXTURE_BYTES);
	}
	while (p->n < n) {
		int queue = (int)fixture_random(state, ZR_QUEUES);
		if (queue < ZR_Q_IN_ORDER && fixture_random(state, 4) > ordered)
			continue; /* in some programs these are few */
		if (queue == ZR_Q_STORE) {
			random_request(p, state, width);
			continue;
		}
		fixture_add(p, kind[queue], queue);
		for (uint32_t k = 1 + fixture_random(state, 3); k > 0; k--) {
			uint32_t access = 1 + fixture_random(state, 3);
			random_operand(p, state, access, region[fixture_random(state, 3)], width);
		}
	}
}

/* ---- by brute force ---- */

int fixture_before(const struct fixture_truth *t, int32_t i, int32_t j)
{
	return t->bits[(size_t)j * (size_t)t->words + (size_t)i / 64] >> (i % 64) & 1;
}

static void after(struct fixture_truth *t, int32_t i, int32_t j)
{
	uint64_t *x = t->bits + (size_t)i * (size_t)t->words;
	uint64_t *y = t->bits + (size_t)j * (size_t)t->words;
	y[i / 64] |= (uint64_t)1 << (i % 64);
	for (int32_t w = 0; w < t->words; w++)
		y[w] |= x[w];
}

void fixture_truth_make(struct fixture_truth *t, const struct zr_lowered *p)
{
	t->n = p->n;
	t->words = p->n / 64 + 1;
	t->bits = calloc((size_t)t->n * (size_t)t->words + 1, 8);
	if (!t->bits)
		abort();
	for (int32_t j = 0; j < p->n; j++) {
		int queue = p->instr[j].queue;
		for (int32_t i = 0; queue < ZR_Q_IN_ORDER && i < j; i++)
			if (p->instr[i].queue == queue)
				after(t, i, j);
		for (int32_t k = 0; k < p->instr[j].n_after; k++)
			after(t, p->dep[p->instr[j].after + k], j);
	}
}

void fixture_truth_free(struct fixture_truth *t)
{
	free(t->bits);
}

static int others(const struct zr_setup *s, const struct zr_operand *o)
{
	return o->whose != ZR_MINE && o->whose != s->facts.process.rank;
}

static int meet(const struct zr_setup *s, const struct zr_operand *a, const struct zr_operand *b)
{
	if (a->region < 0 || a->region != b->region || others(s, a) != others(s, b))
		return 0;
	return a->at < b->at + b->bytes && b->at < a->at + a->bytes && a->bytes && b->bytes &&
	       ((a->access | b->access) & ZR_WRITES);
}

int fixture_conflict(const struct zr_setup *s, const struct zr_lowered *p, int32_t i, int32_t j)
{
	const struct zr_operand *x = p->operand + p->instr[i].first;
	const struct zr_operand *y = p->operand + p->instr[j].first;
	for (int32_t a = 0; a < p->instr[i].n; a++)
		for (int32_t b = 0; b < p->instr[j].n; b++)
			if (meet(s, &x[a], &y[b]))
				return 1;
	return 0;
}

static int all_ordered(const struct zr_setup *s, const struct zr_lowered *p)
{
	struct fixture_truth t;
	int good = 1;
	fixture_truth_make(&t, p);
	for (int32_t j = 0; good && j < p->n; j++)
		for (int32_t i = 0; good && i < j; i++)
			good = fixture_before(&t, i, j) || !fixture_conflict(s, p, i, j);
	fixture_truth_free(&t);
	return good;
}

/* In these programs WORK alone does not outlive one. */
static int all_written(const struct zr_setup *s, const struct zr_lowered *p)
{
	char written[FIXTURE_BYTES] = { 0 };
	for (int32_t i = 0; i < p->n; i++)
		for (int writes = 0; writes < 2; writes++)
			for (int32_t k = 0; k < p->instr[i].n; k++) {
				const struct zr_operand *o = &p->operand[p->instr[i].first + k];
				if (o->region != ZR_R_PARTS || others(s, o))
					continue;
				for (uint64_t b = o->at; b < o->at + o->bytes; b++)
					if (writes)
						written[b] |= (o->access & ZR_WRITES) != 0;
					else if ((o->access & ZR_READS) && !written[b])
						return 0;
			}
	return 1;
}

/* Requests are on the store's queue. With j those are under way that nothing up to j waits for. */
static int all_taken(const struct zr_setup *s, const struct zr_lowered *p)
{
	uint32_t most = s->facts.tier[0].max_inflight;
	for (int32_t j = 0; most && j < p->n; j++) {
		uint32_t under_way = 1;
		for (int32_t i = 0; i < j; i++) {
			int32_t k = i + 1;
			while (k <= j && !fixture_waits(p, k, i))
				k++;
			under_way += k > j && p->instr[i].queue == ZR_Q_STORE;
		}
		if (p->instr[j].queue == ZR_Q_STORE && under_way > most)
			return 0;
	}
	return 1;
}

int fixture_right(const struct zr_setup *s, const struct zr_lowered *p)
{
	return all_ordered(s, p) && all_written(s, p) && all_taken(s, p);
}

/* ---- what a program computes ---- */

enum { WAITS, RUNS, OVER };

struct machine {
	const struct zr_setup *s;
	const struct zr_lowered *p;
	uint8_t memory[ZR_R_COUNT][2][FIXTURE_BYTES];
	uint64_t *read;  /* [n] hash of what each read */
	uint8_t *state;  /* [n] */
	uint8_t *late;   /* [n] 1: reads at its start, writes at its end; 2: both at its end */
	uint8_t *urgent; /* [n] first needs it */
	uint64_t random;
	int lazy; /* nothing ends while anything can start */
	int32_t last, first;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdu;
	return h ^ (h >> 32);
}

static void do_read(struct machine *m, int32_t i)
{
	const struct zr_instr *in = &m->p->instr[i];
	uint64_t h = mix(1, (uint64_t)i);
	for (int32_t k = 0; k < in->n; k++) {
		const struct zr_operand *o = &m->p->operand[in->first + k];
		for (uint64_t b = 0; (o->access & ZR_READS) && b < o->bytes; b++)
			h = mix(h, m->memory[o->region][others(m->s, o)][o->at + b]);
	}
	m->read[i] = h;
}

static void do_write(struct machine *m, int32_t i)
{
	const struct zr_instr *in = &m->p->instr[i];
	for (int32_t k = 0; k < in->n; k++) {
		const struct zr_operand *o = &m->p->operand[in->first + k];
		for (uint64_t b = 0; (o->access & ZR_WRITES) && b < o->bytes; b++)
			m->memory[o->region][others(m->s, o)][o->at + b] =
				(uint8_t)mix(m->read[i], 64 * (uint64_t)k + b);
	}
}

static int may_start(const struct machine *m, int32_t i)
{
	const struct zr_instr *in = &m->p->instr[i];
	if (m->state[i] != WAITS)
		return 0;
	for (int32_t k = 0; k < in->n_after; k++)
		if (m->state[m->p->dep[in->after + k]] != OVER)
			return 0;
	int32_t last = i - 1; /* on the same queue */
	while (last >= 0 && m->p->instr[last].queue != in->queue)
		last--;
	if (last < 0 || in->queue == ZR_Q_COPY || in->queue == ZR_Q_STORE)
		return 1;
	return in->queue == ZR_Q_COMM ? m->state[last] != WAITS : m->state[last] == OVER;
}

static void start(struct machine *m, int32_t i)
{
	m->late[i] = m->first == i ? 0 : m->last == i ? 2 : (uint8_t)fixture_random(&m->random, 3);
	m->state[i] = RUNS;
	if (m->late[i] < 2)
		do_read(m, i);
	if (!m->late[i])
		do_write(m, i);
}

static void end(struct machine *m, int32_t i)
{
	if (m->late[i] == 2)
		do_read(m, i);
	if (m->late[i])
		do_write(m, i);
	m->state[i] = OVER;
}

/* How soon something is to happen to instruction i; negative: never, as yet. */
static int64_t rank(struct machine *m, int32_t i)
{
	int64_t any = 1 + fixture_random(&m->random, 1000);
	if (m->state[i] == OVER || (m->state[i] == WAITS && !may_start(m, i)))
		return -1;
	if (m->first >= 0 && m->state[m->first] != OVER)
		return i == m->last ? 0 : m->urgent[i] ? 5000 + any : any;
	return m->lazy && m->state[i] == WAITS ? 2000 + any : any;
}

static void run(struct machine *m)
{
	for (;;) {
		int32_t best = -1;
		int64_t most = -1;
		for (int32_t i = 0; i < m->p->n; i++) {
			int64_t r = rank(m, i);
			best = r > most ? i : best;
			most = r > most ? r : most;
		}
		if (best < 0)
			return;
		if (m->state[best] == WAITS)
			start(m, best);
		else
			end(m, best);
	}
}

static void find_urgent(struct machine *m)
{
	struct fixture_truth t;
	if (m->first < 0)
		return;
	fixture_truth_make(&t, m->p);
	for (int32_t i = 0; i <= m->first; i++)
		m->urgent[i] = i == m->first || fixture_before(&t, i, m->first);
	fixture_truth_free(&t);
}

static struct fixture_run finish(struct machine *m)
{
	struct fixture_run r = { 0, 0 };
	for (int32_t i = 0; i < m->p->n; i++) {
		assert(m->state[i] == OVER);
		r.reading = mix(r.reading, m->read[i]);
	}
	for (size_t i = 0; i < sizeof m->memory; i++)
		r.memory = mix(r.memory, (&m->memory[0][0][0])[i]);
	free(m->read);
	free(m->state);
	return r;
}

static struct machine begin(const struct zr_setup *s, const struct zr_lowered *p)
{
	struct machine m = { .s = s, .p = p, .first = -1, .last = -1 };
	m.read = calloc((size_t)p->n + 1, sizeof *m.read);
	m.state = calloc(3, (size_t)p->n + 1);
	if (!m.read || !m.state)
		abort();
	m.late = m.state + p->n + 1;
	m.urgent = m.late + p->n + 1;
	for (size_t i = 0; i < sizeof m.memory; i++)
		(&m.memory[0][0][0])[i] = (uint8_t)mix(7, i);
	return m;
}

struct fixture_run fixture_in_order(const struct zr_setup *s, const struct zr_lowered *p)
{
	struct machine m = begin(s, p);
	for (int32_t i = 0; i < p->n; i++) {
		do_read(&m, i);
		do_write(&m, i);
		m.state[i] = OVER;
	}
	return finish(&m);
}

struct fixture_run fixture_shuffled(const struct zr_setup *s, const struct zr_lowered *p,
				    uint64_t seed, int32_t last, int32_t first)
{
	struct machine m = begin(s, p);
	m.random = seed;
	m.lazy = (int)fixture_random(&m.random, 2);
	m.last = last;
	m.first = first;
	find_urgent(&m);
	run(&m);
	return finish(&m);
}
