/* SPDX-License-Identifier: Apache-2.0
 *
 * t_program.c - what the stages record, walked again by code that shares nothing with the recorder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/plan_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

enum { WTE, WPE, H0, H1, LN_F, UNITS };

struct interval {
	int32_t first, last;
	uint64_t at, bytes;
};

static int32_t wait_of(const struct zr_program *p, int32_t op)
{
	int32_t found = -1;
	for (int32_t i = 0; i < p->n; i++)
		if (p->op[i].kind == ZR_P_WAIT && p->op[i].target == op) {
			assert_int_equal(found, -1);
			found = i;
		}
	assert_true(found > op);
	return found;
}

static void check_disjoint(const struct interval *v, int n, uint64_t bytes)
{
	for (int i = 0; i < n; i++) {
		assert_true(v[i].at % 64 == 0 && v[i].at + v[i].bytes <= bytes);
		for (int k = 0; k < i; k++)
			if (v[i].bytes && v[k].bytes && v[i].first <= v[k].last &&
			    v[k].first <= v[i].last)
				assert_true(v[i].at + v[i].bytes <= v[k].at ||
					    v[k].at + v[k].bytes <= v[i].at);
	}
}

static const struct zr_use *use_of(const struct zr_setup *s, const struct zr_program *p, int32_t op)
{
	return &(p->id == ZR_PROG_EVAL ? &s->programs.eval_uses : &s->programs.train_uses)
			->use[p->op[op].use];
}

/* ---- buffers of what was lowered ---- */

/* From the first instruction that touches a buffer to the last one; where it lies in its memory. */
static struct interval life_of(const struct zr_setup *s, const struct zr_lowered *p, int32_t number)
{
	const struct zr_buffer *b = &p->buffer[number - 1];
	struct interval v = { -1, -1, s->plan.region[b->region].offset + b->offset, b->bytes };
	for (int32_t i = 0; i < p->n; i++)
		for (int32_t k = p->instr[i].first; k < p->instr[i].first + p->instr[i].n; k++) {
			const struct zr_operand *o = &p->operand[k];
			if (o->buffer != number)
				continue;
			assert_int_equal(o->region, b->region);
			assert_true(o->at >= b->offset && o->at + o->bytes <= b->offset + b->bytes);
			v.first = v.first < 0 ? i : v.first;
			v.last = i;
		}
	return v;
}

/* No two that live at the same time share a byte. */
static void walk_buffers(const struct zr_setup *s, const struct zr_lowered *p)
{
	for (int store = ZR_STORE_DEVICE; store <= ZR_STORE_HOST; store++) {
		struct interval v[512];
		int n = 0;
		for (int32_t i = 0; i < p->n_buffer; i++) {
			if (s->plan.region[p->buffer[i].region].store != store)
				continue;
			assert_true(n < 512);
			v[n] = life_of(s, p, i + 1);
			n += v[n].first >= 0;
		}
		check_disjoint(v, n, s->plan.arena[store]);
	}
}

/* What layers are given: a full copy of each unit, and room for gradients of equal shares. */
static void walk_layers(const struct zr_setup *s, const struct zr_lowered *p)
{
	uint64_t size = zr_bytes_of(s->facts.types.dtype, 1);
	for (int32_t i = 0; i < p->n; i++) {
		const struct zr_instr *in = &p->instr[i];
		if (in->kind != ZR_I_LAYER)
			continue;
		const struct zr_operand *o = &p->operand[in->first];
		const struct zr_layer *layer = zr_layer_at(&s->facts.decl, in->number);
		for (uint32_t k = 0; k < layer->n_units; k++) {
			int64_t blocks = s->facts.layout.unit[layer->units[k]].blocks;
			int64_t N = s->facts.process.world;
			const struct zr_operand *full = &o[zr_in_pair(ZR_O_LAYER_EACH_PARAM, k)];
			const struct zr_operand *grad = &o[zr_in_pair(ZR_O_LAYER_EACH_DPARAM, k)];
			assert_true(full->whose != ZR_MINE ||
				    full->bytes >= (uint64_t)blocks * 2048 * size);
			if (in->flags & ZR_F_BACKWARD && grad->region == ZR_R_GRAD_BUFFER)
				assert_int_equal(grad->bytes, (blocks + N - 1) / N * N * 8192);
		}
	}
}

static void walk_lowered(const struct zr_setup *s)
{
	assert_true(s->programs.lowered[ZR_S_LAST].n_buffer > 0 &&
		    s->programs.lowered[ZR_S_EVAL].n_buffer > 0);
	for (int id = 0; id < ZR_LOWERED; id++) {
		walk_buffers(s, &s->programs.lowered[id]);
		walk_layers(s, &s->programs.lowered[id]);
	}
}

/* Disks want whole pages; so much passes through host memory at a time. */
static void walk_slots(const struct zr_setup *s, const struct zr_lowered *p)
{
	for (int32_t i = 0; i < p->n_buffer; i++)
		if (p->buffer[i].region == ZR_R_BOUNCE) {
			assert_int_equal(p->buffer[i].offset % 4096, 0);
			assert_true(p->buffer[i].bytes <= s->plan.region[ZR_R_BOUNCE].bytes);
		}
}

/* ---- operations ---- */

/* No layer runs before its units are there; at most one reduce is under way; everything posted is
 * waited for. */
static void walk_order(const struct zr_setup *s, const struct zr_program *p)
{
	int there[UNITS], reducing = 0;
	for (int u = 0; u < UNITS; u++)
		there[u] = s->facts.groups[u].param == ZR_GROUP_SELF;
	for (int32_t i = 0; i < p->n; i++) {
		const struct zr_pop *op = &p->op[i], *target = &p->op[op->target];
		if (op->kind == ZR_P_GATHER || op->kind == ZR_P_REDUCE || op->kind == ZR_P_PUBLISH)
			wait_of(p, i);
		reducing += op->kind == ZR_P_REDUCE;
		assert_true(reducing <= 1);
		reducing -= op->kind == ZR_P_WAIT && target->kind == ZR_P_REDUCE;
		for (int32_t k = 0;
		     op->kind == ZR_P_WAIT && target->kind == ZR_P_GATHER && k < target->n; k++)
			there[p->unit[target->first + k]] = 1;
		for (int32_t k = 0; op->kind == ZR_P_DROP && k < op->n; k++)
			there[p->unit[op->first + k]]--;
		for (uint32_t k = 0; op->kind == ZR_P_LAYER && k < use_of(s, p, i)->n_units; k++)
			assert_int_equal(there[use_of(s, p, i)->units[k]], 1);
	}
	for (int u = 0; u < UNITS; u++)
		assert_int_equal(there[u], s->facts.groups[u].param == ZR_GROUP_SELF);
}

static void walk_update(const struct zr_program *p)
{
	for (int32_t u = 0; u < UNITS; u++) {
		int32_t update = first_after(p, 0, ZR_P_UPDATE, u),
			publish = first_after(p, 0, ZR_P_PUBLISH, u);
		assert_true(update < publish && publish < p->n);
		assert_int_equal(first_after(p, update + 1, ZR_P_UPDATE, u), p->n);
		assert_int_equal(first_after(p, publish + 1, ZR_P_PUBLISH, u), p->n);
	}
}

#define KEEP      "activation.plugin=keep"
#define RECOMPUTE "activation.plugin=recompute" /* of two blocks the first runs again */

static void walk_case(int world, const char *const *options)
{
	struct zr_setup *s = plan_open(world, options);
	for (int id = 0; id < 4; id++)
		walk_order(s, &s->programs.recorded[id]);
	walk_lowered(s);
	walk_update(&s->programs.recorded[ZR_PROG_UPDATE]);
	plan_close(s);
}

static void waits_are_where_they_must_be_and_buffers_do_not_overlap(void **unused)
{
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1",
					      "zero.plugin=stage2", "zero.plugin=stage3",
					      "zero.plugin=hpz",    "zero.plugin=mics" };
	static const char *const lists[] = { "1", "6000", "60000", "1e9" };
	static const char *const limits[] = { "0", "2048", "50000", "70000", "1e9" };
	char text[6][48];
	(void)unused;
	for (int i = 0; i < 6 * 4 * 5 * 4; i++) {
		const char *o[12] = { "model.layers=2", "train.gradient_accumulation_steps=2",
				      stages[i % 6], i % 7 < 4 ? RECOMPUTE : KEEP };
		int list = i / 6 % 4, limit = i / 24 % 5, more = i / 120, n = 4;
		snprintf(text[0], sizeof *text, "zero.reduce_bucket_size=%s", lists[list]);
		snprintf(text[1], sizeof *text, "zero.allgather_bucket_size=%s",
			 lists[(list + more) % 4]);
		snprintf(text[2], sizeof *text, "zero.prefetch_bucket_size=%s", limits[limit]);
		snprintf(text[3], sizeof *text, "zero.max_live_parameters=%s",
			 limits[(limit + more) % 5]);
		snprintf(text[4], sizeof *text, "zero.max_reuse_distance=%s",
			 limits[(limit + 2 * more) % 5]);
		snprintf(text[5], sizeof *text, "zero.persistence_threshold=%s",
			 more & 1 ? "0" : "3000");
		for (int k = 0; k < (i % 6 < 3 ? 2 : 6); k++)
			o[n++] = text[k];
		o[n] = more & 2 ? "boot.ranks_per_node=2" : NULL;
		walk_case(i % 3 ? 4 : 6, o);
	}
}

static void what_passes_through_host_memory_has_its_own_place_there(void **unused)
{
	static const char *const ahead[] = { "0", "2048", "50000", "1e9" };
	char text[2][48];
	(void)unused;
	for (int i = 0; i < 2 * 2 * 2 * 4; i++) {
		const char *o[] = { "model.layers=2",
				    "device.memory=1G",
				    "offload.optimizer.plugin=cpu",
				    "zero.persistence_threshold=0",
				    "zero.max_live_parameters=1e9",
				    i & 1 ? "zero.plugin=hpz" : "zero.plugin=stage3",
				    i & 2 ? "precision.plugin=bf16" : "precision.plugin=fp32",
				    text[0],
				    text[1],
				    i & 4 ? "offload.param.plugin=cpu" :
					    "offload.param.plugin=nvme",
				    i & 4 ? NULL : "offload.param.path=/tmp",
				    NULL };
		snprintf(text[0], sizeof *text, "zero.prefetch_bucket_size=%s", ahead[i / 8]);
		snprintf(text[1], sizeof *text, "zero.allgather_bucket_size=%s",
			 ahead[(i / 8 + 1) % 4 + !((i / 8 + 1) % 4)]);
		for (int world = 1; world <= 3; world++) {
			struct zr_setup *s = plan_open(world, o);
			for (int id = 0; id < 4; id++)
				walk_order(s, &s->programs.recorded[id]);
			for (int id = 0; id < ZR_LOWERED; id++)
				walk_slots(s, &s->programs.lowered[id]);
			walk_lowered(s);
			plan_close(s);
		}
	}
}

static uint64_t hash_of(const char *option, int id)
{
	const char *o[] = { "zero.plugin=stage3", "train.gradient_accumulation_steps=2",
			    "device.memory=1G", option, NULL };
	struct zr_setup *s = plan_open(4, o);
	uint64_t h = s->programs.recorded[id].hash;
	plan_close(s);
	return h;
}

static void the_hash_is_of_the_program(void **unused)
{
	static const char *const micro[] = { "zero.reduce_bucket_size=1",
					     "zero.prefetch_bucket_size=0",
					     "zero.max_reuse_distance=0",
					     "zero.overlap_comm=no",
					     "zero.persistence_threshold=0",
					     "precision.plugin=bf16",
					     RECOMPUTE,
					     "model.layers=3",
					     "model.width=96",
					     "boot.ranks_per_node=2" };
	(void)unused;
	for (int id = 0; id < 4; id++)
		assert_true(hash_of(NULL, id) == hash_of(NULL, id));
	for (size_t i = 0; i + 1 < sizeof micro / sizeof *micro; i++)
		if (hash_of(NULL, ZR_PROG_MICRO) == hash_of(micro[i], ZR_PROG_MICRO))
			fail_msg("%s changes nothing", micro[i]);
	assert_true(hash_of(NULL, ZR_PROG_UPDATE) !=
		    hash_of("zero.allgather_bucket_size=1e9", ZR_PROG_UPDATE));
	assert_true(hash_of(NULL, ZR_PROG_EVAL) !=
		    hash_of("zero.prefetch_bucket_size=0", ZR_PROG_EVAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_where_they_must_be_and_buffers_do_not_overlap),
		cmocka_unit_test(what_passes_through_host_memory_has_its_own_place_there),
		cmocka_unit_test(the_hash_is_of_the_program),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
