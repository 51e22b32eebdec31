/* SPDX-License-Identifier: Apache-2.0
 *
 * t_program.c - what the stages record, walked again by code that shares nothing with the recorder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/plan_rig.h"

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
			if (v[i].bytes && v[k].bytes && v[i].first <= v[k].last && v[k].first <= v[i].last)
				assert_true(v[i].at + v[i].bytes <= v[k].at || v[k].at + v[k].bytes <= v[i].at);
	}
}

static uint64_t copy_bytes(const struct zr_setup *s, int32_t unit, int64_t ranks, int size)
{
	return ranks == 1 ? 0 : (uint64_t)((s->layout.unit[unit].blocks + ranks - 1) / ranks * ranks * 2048 * size);
}

static const struct zr_use *use_of(const struct zr_setup *s, const struct zr_program *p, int32_t op)
{
	return &(p->id == ZR_PROG_EVAL ? &s->eval_uses : &s->train_uses)->use[p->op[op].use];
}

/* ---- ways of several legs: of [offload.param] beside a device that only copies reach ---- */

static int is_far(const struct zr_setup *s)
{
	return !s->device_info.host_access && s->offload[ZR_STORE_PARAM - ZR_STORE_OPTIMIZER].it.section;
}

static int is_disk(const struct zr_setup *s)
{
	return is_far(s) && !s->offload[ZR_STORE_PARAM - ZR_STORE_OPTIMIZER].info.direct;
}

/* The relay that begins leg `n` of an operation, or its wait; the operation itself begins the first. */
static int32_t leg_begins(const struct zr_program *p, int32_t op, int n)
{
	int32_t i = op;
	while (n > 0) {
		i++;
		assert_true(i < p->n);
		if (p->op[i].target == op && p->op[i].kind == ZR_P_WAIT)
			break;
		n -= p->op[i].target == op && p->op[i].kind == ZR_P_RELAY;
	}
	return i;
}

/* Where ranks meet there, a slot has room for all shares, else for what comes from disk. It lives until the wait. */
static void walk_slots(const struct zr_setup *s, const struct zr_program *p)
{
	struct interval v[128];
	int n = 0, size = s->types.dtype == ZR_F32 ? 4 : 2;
	for (int32_t i = 0; i < p->n; i++) {
		int gather = p->op[i].kind == ZR_P_GATHER;
		uint64_t bytes = 0;
		for (int32_t k = 0; k < p->op[i].n; k++) {
			int32_t u = p->unit[p->op[i].first + k];
			int64_t ranks = gather ? zr_group_ranks(s, s->groups[u].param) : s->process.world;
			if (gather && ranks == 1)
				bytes += is_disk(s) ? (uint64_t)s->layout.unit[u].blocks * 2048 * (uint64_t)size : 0;
			else if (gather || (p->op[i].kind == ZR_P_PUBLISH && s->groups[u].param == ZR_GROUP_NODE))
				bytes += copy_bytes(s, u, ranks, size);
		}
		assert_true(n < 128);
		if (bytes) {
			assert_true(p->op[i].slot % 4096 == 0);
			v[n++] = (struct interval){ i, wait_of(p, i), p->op[i].slot, bytes };
		}
	}
	check_disjoint(v, n, p->slot_bytes);
	assert_true(p->slot_bytes <= s->plan.region[ZR_R_SLOT].bytes);
}

/* Every copy lives from its gather, or the leg that brings it to the device, to its drop; a published one, where nodes keep a
 * share, to the wait. */
static void walk_gathered(const struct zr_setup *s, const struct zr_program *p)
{
	struct interval v[256];
	int n = 0;
	for (int32_t i = 0; i < p->n; i++)
		for (int32_t k = 0; k < p->op[i].n; k++) {
			int32_t slot = p->op[i].first + k, u = p->unit[slot];
			int gather = p->op[i].kind == ZR_P_GATHER;
			if (!gather && !(p->op[i].kind == ZR_P_PUBLISH && s->groups[u].param == ZR_GROUP_NODE))
				continue;
			int64_t ranks = gather && s->groups[u].param == ZR_GROUP_NODE ? s->process.local_world : s->process.world;
			int32_t from = gather && is_far(s) ? leg_begins(p, i, is_disk(s) + (ranks > 1)) : i;
			if (!gather && is_far(s))
				continue; /* in the slot */
			if (gather && s->views)
				continue; /* nothing is copied */
			assert_true(n < 256);
			v[n++] = (struct interval){ from, gather ? first_after(p, i, ZR_P_DROP, u) : wait_of(p, i), p->place[slot],
						    is_far(s) && ranks == 1 ? (uint64_t)s->layout.unit[u].blocks * 2048 * (s->types.dtype == ZR_F32 ? 4 : 2) :
									      copy_bytes(s, u, ranks, s->types.dtype == ZR_F32 ? 4 : 2) };
			assert_true(v[n - 1].last < p->n);
		}
	check_disjoint(v, n, p->gather_bytes);
}

/* A gradient lives from the first backward that adds to it to the wait of its reduce. */
static void walk_gradients(const struct zr_setup *s, const struct zr_program *p)
{
	struct interval v[UNITS];
	for (int32_t u = 0; u < UNITS; u++) {
		int32_t first = -1, last = -1, reduce = first_after(p, 0, ZR_P_REDUCE, u);
		for (int32_t i = 0; i < p->n; i++) {
			if (p->op[i].kind != ZR_P_LAYER || use_of(s, p, i)->phase != ZR_BACKWARD)
				continue;
			for (uint32_t k = 0; k < use_of(s, p, i)->n_units; k++)
				if (use_of(s, p, i)->units[k] == u) {
					first = first < 0 ? i : first;
					last = i;
				}
		}
		assert_true(first >= 0 && reduce > last && reduce < p->n);
		assert_int_equal(first_after(p, reduce + 1, ZR_P_REDUCE, u), p->n);
		v[u] = (struct interval){ first, wait_of(p, reduce), p->grad_buffer[u],
					  (uint64_t)((s->layout.unit[u].blocks + s->process.world - 1) / s->process.world * s->process.world) * 8192 };
	}
	check_disjoint(v, UNITS, p->grad_bytes);
}

/* No layer runs before its units are there; at most one reduce is under way; everything posted is waited for. */
static void walk_order(const struct zr_setup *s, const struct zr_program *p)
{
	int there[UNITS], reducing = 0;
	for (int u = 0; u < UNITS; u++)
		there[u] = s->groups[u].param == ZR_GROUP_SELF;
	for (int32_t i = 0; i < p->n; i++) {
		const struct zr_pop *op = &p->op[i], *target = &p->op[op->target];
		if (op->kind == ZR_P_GATHER || op->kind == ZR_P_REDUCE || op->kind == ZR_P_PUBLISH)
			wait_of(p, i);
		reducing += op->kind == ZR_P_REDUCE;
		assert_true(reducing <= 1);
		reducing -= op->kind == ZR_P_WAIT && target->kind == ZR_P_REDUCE;
		for (int32_t k = 0; op->kind == ZR_P_WAIT && target->kind == ZR_P_GATHER && k < target->n; k++)
			there[p->unit[target->first + k]] = 1;
		for (int32_t k = 0; op->kind == ZR_P_DROP && k < op->n; k++)
			there[p->unit[op->first + k]]--;
		for (uint32_t k = 0; op->kind == ZR_P_LAYER && k < use_of(s, p, i)->n_units; k++)
			assert_int_equal(there[use_of(s, p, i)->units[k]], 1);
	}
	for (int u = 0; u < UNITS; u++)
		assert_int_equal(there[u], s->groups[u].param == ZR_GROUP_SELF);
}

static void walk_update(const struct zr_program *p)
{
	for (int32_t u = 0; u < UNITS; u++) {
		int32_t update = first_after(p, 0, ZR_P_UPDATE, u), publish = first_after(p, 0, ZR_P_PUBLISH, u);
		assert_true(update < publish && publish < p->n);
		assert_int_equal(first_after(p, update + 1, ZR_P_UPDATE, u), p->n);
		assert_int_equal(first_after(p, publish + 1, ZR_P_PUBLISH, u), p->n);
	}
}

#define KEEP "activation.plugin=keep"
#define RECOMPUTE "activation.plugin=recompute" /* of two blocks the first runs again */

static void walk_case(int world, const char *const *options)
{
	struct zr_setup *s = plan_open(world, options);
	for (int id = 0; id < 4; id++) {
		walk_order(s, &s->program[id]);
		walk_gathered(s, &s->program[id]);
	}
	walk_gradients(s, &s->program[ZR_PROG_MICRO]);
	walk_gradients(s, &s->program[ZR_PROG_LAST_MICRO]);
	walk_update(&s->program[ZR_PROG_UPDATE]);
	plan_close(s);
}

static void waits_are_where_they_must_be_and_buffers_do_not_overlap(void **unused)
{
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1", "zero.plugin=stage2", "zero.plugin=stage3",
					      "zero.plugin=hpz" };
	static const char *const lists[] = { "1", "6000", "60000", "1e9" };
	static const char *const limits[] = { "0", "2048", "50000", "70000", "1e9" };
	char text[6][48];
	(void)unused;
	for (int i = 0; i < 5 * 4 * 5 * 4; i++) {
		const char *o[12] = { "model.layers=2", "train.gradient_accumulation_steps=2", stages[i % 5], i % 7 < 4 ? RECOMPUTE : KEEP };
		int list = i / 5 % 4, limit = i / 20 % 5, more = i / 100, n = 4;
		snprintf(text[0], sizeof *text, "zero.reduce_bucket_size=%s", lists[list]);
		snprintf(text[1], sizeof *text, "zero.allgather_bucket_size=%s", lists[(list + more) % 4]);
		snprintf(text[2], sizeof *text, "zero.prefetch_bucket_size=%s", limits[limit]);
		snprintf(text[3], sizeof *text, "zero.max_live_parameters=%s", limits[(limit + more) % 5]);
		snprintf(text[4], sizeof *text, "zero.max_reuse_distance=%s", limits[(limit + 2 * more) % 5]);
		snprintf(text[5], sizeof *text, "zero.persistence_threshold=%s", more & 1 ? "0" : "3000");
		for (int k = 0; k < (i % 5 < 3 ? 2 : 6); k++)
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
		const char *o[] = { "model.layers=2", "device.memory=1G", "device.separate=yes", "offload.optimizer.plugin=cpu",
				    "zero.persistence_threshold=0", "zero.max_live_parameters=1e9", i & 1 ? "zero.plugin=hpz" : "zero.plugin=stage3",
				    i & 2 ? "precision.plugin=bf16" : "precision.plugin=fp32", text[0], text[1],
				    i & 4 ? "offload.param.plugin=cpu" : "offload.param.plugin=nvme", i & 4 ? NULL : "offload.param.path=/tmp", NULL };
		snprintf(text[0], sizeof *text, "zero.prefetch_bucket_size=%s", ahead[i / 8]);
		snprintf(text[1], sizeof *text, "zero.allgather_bucket_size=%s", ahead[(i / 8 + 1) % 4 + !((i / 8 + 1) % 4)]);
		for (int world = 1; world <= 3; world++) {
			struct zr_setup *s = plan_open(world, o);
			for (int id = 0; id < 4; id++) {
				walk_order(s, &s->program[id]);
				walk_gathered(s, &s->program[id]);
				walk_slots(s, &s->program[id]);
			}
			plan_close(s);
		}
	}
}

static uint64_t hash_of(const char *option, int id)
{
	const char *o[] = { "zero.plugin=stage3", "train.gradient_accumulation_steps=2", "device.memory=1G", option, NULL };
	struct zr_setup *s = plan_open(4, o);
	uint64_t h = s->program[id].hash;
	plan_close(s);
	return h;
}

static void the_hash_is_of_the_program(void **unused)
{
	static const char *const micro[] = { "zero.reduce_bucket_size=1", "zero.prefetch_bucket_size=0", "zero.max_reuse_distance=0",
					     "zero.overlap_comm=no", "zero.persistence_threshold=0", "precision.plugin=bf16",
					     RECOMPUTE, "model.layers=3", "model.width=96", "boot.ranks_per_node=2" };
	(void)unused;
	for (int id = 0; id < 4; id++)
		assert_true(hash_of(NULL, id) == hash_of(NULL, id));
	for (size_t i = 0; i + 1 < sizeof micro / sizeof *micro; i++)
		if (hash_of(NULL, ZR_PROG_MICRO) == hash_of(micro[i], ZR_PROG_MICRO))
			fail_msg("%s changes nothing", micro[i]);
	assert_true(hash_of(NULL, ZR_PROG_UPDATE) != hash_of("zero.allgather_bucket_size=1e9", ZR_PROG_UPDATE));
	assert_true(hash_of(NULL, ZR_PROG_EVAL) != hash_of("zero.prefetch_bucket_size=0", ZR_PROG_EVAL));
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
