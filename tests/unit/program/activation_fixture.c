/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_fixture.c - see activation_fixture.h.
 */
#define _GNU_SOURCE
#include "activation_fixture.h"

#include "core/program/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* last: it defines fail() */

struct zr_act_choice planted[LAYERS];

uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

struct zr_setup *six(const char *option)
{
	const char *o[] = { SIX, option, NULL };
	return plan_open(1, o);
}

/* ---- the policy ---- */

void plant(int i)
{
	memset(planted, 0, sizeof planted);
	for (int layer = 0; layer <= L; layer++, i /= 3) {
		planted[layer].saved = layer && i % 3 ? ZR_ACT_RECOMPUTE : ZR_ACT_KEEP;
		planted[layer].out = i % 3 == 2 ? ZR_ACT_RECOMPUTE : ZR_ACT_KEEP;
	}
}

void plant_any(uint32_t seed)
{
	static const struct zr_act_choice any[] = {
		{ ZR_ACT_KEEP, ZR_ACT_KEEP },           { ZR_ACT_KEEP, ZR_ACT_RECOMPUTE },
		{ ZR_ACT_KEEP, ZR_ACT_OFFLOAD },        { ZR_ACT_OFFLOAD, ZR_ACT_KEEP },
		{ ZR_ACT_OFFLOAD, ZR_ACT_RECOMPUTE },   { ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD },
		{ ZR_ACT_RECOMPUTE, ZR_ACT_RECOMPUTE },
	};
	memset(planted, 0, sizeof planted);
	for (int layer = 0; layer <= L; layer++) {
		seed = seed * 1664525 + 1013904223;
		planted[layer] = any[(seed >> 16) % (sizeof any / sizeof *any)];
	}
}

static int planted_choose(struct zr_inst *inst, const struct zr_act_layer *layers, uint32_t n,
			  uint32_t stride, struct zr_act_choice *choice)
{
	(void)inst, (void)layers, (void)stride;
	memcpy(choice, planted, n * sizeof *choice);
	return 0;
}

int ask_again(struct zr_setup *s, struct zr_error *err)
{
	static const struct zr_activation_v1 policy = { .size = sizeof policy,
							.choose = planted_choose };
	const void *real = s->roles.activation.vtbl;
	free(s->programs.act);
	free(s->facts.layer_bytes);
	free(s->facts.slice_bytes);
	zr_schedule_free(&s->programs.train_uses);
	zr_activation_free(&s->programs.train_act);
	zr_plan_free(&s->plan);
	s->roles.activation.vtbl = &policy;
	int rc = zr_setup_size_layers(s, err);
	if (!rc)
		rc = zr_activation_ask(s, err);
	s->roles.activation.vtbl = real;
	if (!rc)
		rc = zr_setup_size_dropped(s, err);
	if (!rc)
		rc = zr_schedule_make(&s->facts.decl, 1, NULL, s->programs.act,
				      &s->programs.train_uses, err);
	if (!rc)
		rc = zr_activation_place(s, &s->programs.train_uses, 1, &s->programs.train_act,
					 err);
	for (int32_t id = 0; !rc && id < 4; id++) {
		zr_program_free(&s->programs.recorded[id]);
		rc = zr_program_record(s, id, &s->programs.recorded[id], err);
	}
	if (rc)
		return rc;
	return zr_plan_make(s, err);
}

void schedule_text(const struct zr_schedule *uses, char *buf)
{
	*buf = 0;
	for (int32_t i = 0; i < uses->n; i++)
		buf += sprintf(buf, "%s%c%d", i ? " " : "", "frb"[uses->use[i].phase],
			       uses -> use[i].layer);
}

/* ---- the store ---- */

enum { REQUESTS = 16 };

static struct {
	char *data; /* of the one object */
	uint64_t bytes, moved, align;
	int64_t fail_in;
	struct {
		char *memory;
		const char *source; /* of a write */
		uint64_t off, bytes;
		int used;
	} request[REQUESTS];
} store;

static int store_make(struct zr_inst *inst, const char *key, uint64_t bytes, uint64_t *object)
{
	(void)inst;
	assert_string_equal(key, "activation");
	store.data = calloc(1, bytes);
	store.bytes = bytes;
	*object = 7;
	return store.data ? 0 : ZR_ENOMEM;
}

static int store_discard(struct zr_inst *inst, uint64_t object)
{
	(void)inst;
	assert_int_equal(object, 7);
	free(store.data);
	store.data = NULL;
	return 0;
}

static int post(uint64_t object, uint64_t off, char *memory, const char *source, uint64_t bytes,
		uint64_t *ticket)
{
	assert_int_equal(object, 7);
	assert_true(off + bytes <= store.bytes && off % store.align == 0 &&
		    bytes % store.align == 0);
	for (int i = 0; i < REQUESTS; i++) {
		if (store.request[i].used)
			continue;
		store.request[i].memory = memory;
		store.request[i].source = source;
		store.request[i].off = off;
		store.request[i].bytes = bytes;
		store.request[i].used = 1;
		*ticket = (uint64_t)i + 1;
		return 0;
	}
	return ZR_EAGAIN;
}

static int store_read(struct zr_inst *inst, uint64_t object, uint64_t off, void *dst,
		      uint64_t bytes, uint64_t *ticket)
{
	(void)inst;
	memset(dst, 0xff, bytes); /* NaN */
	return post(object, off, dst, NULL, bytes, ticket);
}

static int store_write(struct zr_inst *inst, uint64_t object, uint64_t off, const void *src,
		       uint64_t bytes, uint64_t *ticket)
{
	(void)inst;
	return post(object, off, NULL, src, bytes, ticket);
}

static int store_wait(struct zr_inst *inst, uint64_t ticket)
{
	(void)inst;
	uint64_t i = ticket - 1;
	assert_true(i < REQUESTS && store.request[i].used);
	store.request[i].used = 0;
	if (store.fail_in && !--store.fail_in)
		return ZR_EIO;
	char *far = store.data + store.request[i].off;
	if (store.request[i].source)
		memcpy(far, store.request[i].source, store.request[i].bytes);
	else
		memcpy(store.request[i].memory, far, store.request[i].bytes);
	store.moved += store.request[i].bytes;
	return 0;
}

static int store_drain(struct zr_inst *inst)
{
	(void)inst;
	for (int i = 0; i < REQUESTS; i++)
		store.request[i].used = 0;
	return 0;
}

void plant_store(struct zr_setup *s, uint64_t align)
{
	static const struct zr_offload_v1 vtbl = { .size = sizeof vtbl,
						   .make = store_make,
						   .discard = store_discard,
						   .read = store_read,
						   .write = store_write,
						   .wait = store_wait,
						   .drain = store_drain };
	const int number = ZR_STORE_ACTIVATION - ZR_STORE_OPTIMIZER;
	struct zr_instance *it = &s->roles.offload[number];
	struct zr_tier_info *tier = &s->facts.tier[number];
	store.moved = 0;
	store.fail_in = 0;
	store.align = align;
	it->section = s->roles.activation.section; /* any: its name is in messages */
	it->vtbl = &vtbl;
	it->process = &s->facts.process;
	*tier = (struct zr_tier_info){ .size = sizeof *tier,
				       .mem_ok = ZR_MEM_HOST,
				       .max_inflight = REQUESTS,
				       .align = align };
}

int store_outstanding(void)
{
	int n = 0;
	for (int i = 0; i < REQUESTS; i++)
		n += store.request[i].used;
	return n;
}

uint64_t store_moved(void)
{
	return store.moved;
}

void store_fail(int64_t nth)
{
	store.fail_in = nth;
}

/* ---- the walk ---- */

#define SLOT 64u

/* plus the layer: who wrote a slot */
enum { NOTHING = 0, OUT_OF = 1000, SAVED_OF = 2000, OTHER = 3000 };

struct memory {
	int *slot;
	uint64_t bytes;
};

/* Both arenas, and the object of [offload.activation]. */
enum { FAR = 2, MEMORIES };

struct walk {
	const struct zr_setup *s;
	const struct zr_lowered *p;
	struct memory memory[MEMORIES];
};

/* Where an operand is, NULL: in none of these; *at counts from the start of that. */
static struct memory *memory_of(struct walk *w, const struct zr_operand *o, uint64_t *at)
{
	if (o->region < 0 || o->whose != ZR_MINE || !o->bytes)
		return NULL;
	const struct zr_region *r = &w->s->plan.region[o->region];
	*at = r->offset + o->at;
	return r->store <= ZR_STORE_HOST       ? &w->memory[r->store] :
	       o->region == ZR_R_ACT_OFFLOADED ? &w->memory[FAR] :
						 NULL;
}

static void mark(struct walk *w, const struct zr_operand *o, int who)
{
	uint64_t at;
	struct memory *m = memory_of(w, o, &at);
	if (!m)
		return;
	assert_true((who == OTHER || at % SLOT == 0) && at + o->bytes <= m->bytes);
	for (uint64_t i = at / SLOT; i < (at + o->bytes + SLOT - 1) / SLOT; i++)
		m->slot[i] = who;
}

static void expect(struct walk *w, const struct zr_operand *o, uint64_t bytes, int who)
{
	uint64_t at = 0;
	struct memory *m = memory_of(w, o, &at);
	assert_true(!bytes ||
		    (m && bytes <= o->bytes && at % SLOT == 0 && at + o->bytes <= m->bytes));
	for (uint64_t i = at / SLOT; bytes && i < (at + bytes + SLOT - 1) / SLOT; i++)
		if (m->slot[i] != who)
			fail_msg("at %llu: %d, not %d", (unsigned long long)(i * SLOT), m->slot[i],
				 who);
}

/* What it writes that is no activation. */
static void mark_others(struct walk *w, const struct zr_instr *i)
{
	for (int32_t k = i->first; k < i->first + i->n; k++)
		if (w->p->operand[k].access & ZR_WRITES && w->p->operand[k].region != ZR_R_ACT)
			mark(w, &w->p->operand[k], OTHER);
}

/* Computed again, it has no output where nobody reads that. */
static int ends_early(const struct zr_instr *in, const struct zr_operand *o)
{
	return in->flags & ZR_F_LEAN && o[ZR_O_LAYER_OUT].region < 0;
}

/* What a use reads is there before and after it wrote: it must not write over that, nor one result
 * over the other. */
static void walk_use(struct walk *w, const struct zr_instr *in)
{
	const struct zr_operand *o = &w->p->operand[in->first];
	int32_t i = in->number;
	const struct zr_layer_bytes *b = &w->s->facts.layer_bytes[i];
	int backward = (in->flags & ZR_F_BACKWARD) != 0;
	int loss = i == (int32_t)w->s->facts.decl.n_layers - 1;
	for (int after = 0; after < 2; after++) {
		if (i > 0)
			expect(w, &o[ZR_O_LAYER_IN], w->s->facts.layer_bytes[i - 1].out,
			       OUT_OF + i - 1);
		if (backward && !loss)
			expect(w, &o[ZR_O_LAYER_SAVED], b->saved, SAVED_OF + i);
		if (after)
			break;
		mark_others(w, in);
		if (!backward)
			mark(w, &o[ZR_O_LAYER_OUT], OUT_OF + i);
		if (!backward || loss)
			mark(w, &o[ZR_O_LAYER_SAVED], SAVED_OF + i);
		if (!backward && !ends_early(in, o))
			expect(w, &o[ZR_O_LAYER_OUT], b->out, OUT_OF + i);
	}
}

/* Of a move of activations, a hop. */
static void walk_hop(struct walk *w, const struct zr_instr *in, const struct zr_act_move *m)
{
	const struct zr_layer_bytes *b = &w->s->facts.layer_bytes[m->layer];
	const struct zr_operand *o = &w->p->operand[in->first];
	int who = (m->saved ? SAVED_OF : OUT_OF) + m->layer;
	assert_int_equal(in->n, 2);
	expect(w, &o[ZR_O_COPY_FROM], m->saved ? b->saved : b->out, who);
	mark(w, &o[ZR_O_COPY_TO], who);
}

static const struct zr_act_move *move_of(const struct walk *w, const struct zr_instr *in)
{
	const struct zr_program *r = zr_record_of(&w->s->programs, w->p->id);
	const struct zr_pop *op = r && in->op >= 0 ? &r->op[in->op] : NULL;
	return op && (op->kind == ZR_P_SPILL || op->kind == ZR_P_FETCH) ?
		       &w->s->programs.train_act.move[op->use] :
		       NULL;
}

void walk_program(const struct zr_setup *s, int32_t id)
{
	struct walk w = { .s = s, .p = &s->programs.lowered[id] };
	assert_true(w.p->n > 0);
	for (int i = 0; i < MEMORIES; i++) {
		struct memory *m = &w.memory[i];
		m->bytes = i == FAR ? s->plan.region[ZR_R_ACT_OFFLOADED].bytes : s->plan.arena[i];
		m->slot = calloc(m->bytes / SLOT + 1, sizeof *m->slot);
		assert_non_null(m->slot);
	}
	for (int32_t i = 0; i < w.p->n; i++) {
		const struct zr_instr *in = &w.p->instr[i];
		const struct zr_act_move *m = move_of(&w, in);
		if (in->kind == ZR_I_LAYER)
			walk_use(&w, in);
		else if (m)
			walk_hop(&w, in, m);
		else
			mark_others(&w, in);
	}
	for (int i = 0; i < MEMORIES; i++)
		free(w.memory[i].slot);
}

/* ---- training ---- */

struct bits train_bits(struct training t)
{
	const char *o[] = { SIX, "device.threads=1", t.option[0], t.option[1], NULL };
	struct zr_error err = { 0 };
	struct zr_setup *s = plan_try(0, 0, o, &err);
	struct zr_session *session = NULL;
	struct zr_step_result r;
	struct bits b = { { 0 }, { 0 } };
	int rc = s ? 0 : err.code;
	if (!rc && t.align)
		plant_store(s, t.align);
	if (!rc && t.apart)
		s->facts.device_info.unified = s->facts.device_info.host_access = 0;
	if (!rc && t.planted)
		rc = ask_again(s, &err);
	if (!rc)
		rc = zr_session_open(s, &session, &err);
	if (!rc)
		rc = zr_session_begin(session, zr_init_values, session, &err);
	for (int i = 0; !rc && i < 2; i++) {
		rc = zr_session_step(session, 0, &r, &err);
		assert_true(rc || !store_outstanding());
		b.loss[i] = r.loss;
		b.norm[i] = r.grad_norm;
	}
	if (rc)
		fail_msg("%s", err.text);
	zr_session_close(session);
	plan_close(s);
	return b;
}
