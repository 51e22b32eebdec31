/* SPDX-License-Identifier: Apache-2.0
 *
 * t_layout.c - blocks, shards, schedule and lifetimes: what the step is built from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/lifetime.h"
#include "core/model/layout.h"
#include "core/model/mesh.h"
#include "core/model/slices.h"
#include "core/model/schedule.h"
#include "core/setup.h"

#include <cmocka.h> /* last: it defines fail() */

/* A model of three units, the first tied: used by the input and the loss layer. */
static const struct zr_tensor tied_t[] = { { .name = "tied", .dims = { 5, 7, 1, 1 }, .ndim = 2 } };
static const struct zr_tensor mid_t[] = { { .name = "mid.a", .dims = { 2048, 1, 1, 1 }, .ndim = 1 },
					  { .name = "mid.b", .dims = { 3, 1000, 1, 1 }, .ndim = 2 },
					  { .name = "mid.c", .dims = { 1, 1, 1, 1 }, .ndim = 1 } };
static const struct zr_tensor end_t[] = { { .name = "end", .dims = { 4096, 1, 1, 1 }, .ndim = 1 } };
static const struct zr_unit units[] = { { "tied", tied_t, 1, 0 },
					{ "mid", mid_t, 3, 0 },
					{ "end", end_t, 1, 0 } };
static const int32_t in_units[] = { 0 }, mid_units[] = { 1 }, out_units[] = { 2, 0 };
static const struct zr_layer layers[] = {
	{ .name = "in", .units = in_units, .n_units = 1, .flags = ZR_LAYER_INPUT },
	{ .name = "mid", .units = mid_units, .n_units = 1 },
	{ .name = "out", .units = out_units, .n_units = 2, .flags = ZR_LAYER_LOSS }
};
static const struct zr_model_decl model = {
	.size = sizeof model,
	.n_units = 3,
	.n_layers = 3,
	.unit_stride = sizeof units[0],
	.layer_stride = sizeof layers[0],
	.tensor_stride = sizeof tied_t[0],
	.units = units,
	.layers = layers,
};

static void tensors_start_on_blocks(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_layout l;
	assert_int_equal(zr_layout_make(&model, &l, &err), 0);
	assert_int_equal(l.n_tensors, 5);
	assert_int_equal(l.parameters, 35 + 2048 + 3000 + 1 + 4096);
	assert_int_equal(l.blocks, 1 + (1 + 2 + 1) + 2);
	assert_int_equal(l.tensor[2].offset, 2048);
	assert_int_equal(l.tensor[3].offset, 3 * 2048);
	assert_int_equal(l.tensor[3].block, 4);
	assert_int_equal(l.unit[1].elements, 4 * 2048);
	assert_int_equal(l.unit[2].block, 5);
	zr_layout_free(&l);
}

static void shards_cover_every_block_once(void **unused)
{
	(void)unused;
	for (int64_t blocks = 1; blocks < 20; blocks++)
		for (int world = 1; world <= 8; world++) {
			int64_t at = 0, per = (blocks + world - 1) / world;
			for (int r = 0; r < world; r++) {
				struct zr_share s = zr_share_of(blocks, world, r);
				assert_true(s.n >= 0 && s.n <= per);
				if (s.n)
					assert_int_equal(s.first, at);
				at += s.n;
			}
			assert_int_equal(at, blocks);
		}
}

static struct zr_mesh mesh_with(int32_t rank, int32_t world, int32_t node, int32_t sequence)
{
	struct zr_boot_info i = { .rank = rank,
				  .world = world,
				  .local_rank = rank % node,
				  .local_world = node,
				  .node = rank / node,
				  .nodes = world / node };
	return zr_mesh_of(&i, sequence, 1);
}

static struct zr_mesh mesh_of(int32_t rank, int32_t world, int32_t node)
{
	return mesh_with(rank, world, node, 1);
}

static void check_group(int32_t world, int32_t node, int32_t group, int64_t blocks)
{
	int64_t held = 0, counted = 0;
	for (int32_t r = 0; r < world; r++) {
		struct zr_mesh m = mesh_of(r, world, node);
		struct zr_mesh other = mesh_of((r + 1) % world, world, node);
		struct zr_share s = zr_mesh_share(&m, group, blocks, r);
		struct zr_share same = zr_mesh_share(&other, group, blocks, r);
		int32_t n = m.group[group].n;
		struct zr_share part = zr_share_of(blocks, world, zr_rank_part(n, world, r));
		assert_true(m.even && s.per * n >= blocks);
		assert_true(s.first == same.first && s.n == same.n && s.per == same.per);
		if (part.n)
			assert_true(part.first >= s.first && part.first + part.n <= s.first + s.n);
		counted += part.n;
		held += r / n ? 0 : s.n;
	}
	assert_true(held == blocks && counted == blocks);
}

/* Whatever the group: its ranks have every block once, and each answers for a part that it has. */
static void groups_cover_every_block_once(void **unused)
{
	(void)unused;
	for (int32_t world = 1; world <= 12; world++)
		for (int32_t node = 1; node <= world; node++)
			for (int32_t group = 0; group < 3 && world % node == 0; group++)
				for (int64_t blocks = 1; blocks < 30; blocks++)
					check_group(world, node, group, blocks);
}

/* Three ranks on nodes of two and one: at least one node's ranks see it. */
static void nodes_of_two_sizes(void **unused)
{
	struct zr_boot_info one = {
		.rank = 1, .world = 3, .local_rank = 1, .local_world = 2, .nodes = 2
	};
	struct zr_boot_info two = {
		.rank = 2, .world = 3, .local_world = 1, .node = 1, .nodes = 2
	};
	struct zr_mesh a = zr_mesh_of(&one, 1, 1), b = zr_mesh_of(&two, 1, 1);
	(void)unused;
	assert_true(!a.even && !b.even);
}

/* Every micro-batch of the global batch is computed by all ranks of one sequence, and by no
 * other. */
static void ranks_of_a_sequence_share_a_slot(void **unused)
{
	const int32_t world = 8, accumulation = 3;
	(void)unused;
	for (int32_t sequence = 1; sequence <= world; sequence *= 2) {
		int64_t slots = accumulation * world / sequence;
		int32_t computed[24] = { 0 };
		for (int32_t rank = 0; rank < world; rank++) {
			struct zr_mesh m = mesh_with(rank, world, world, sequence);
			for (int32_t micro = 0; micro < accumulation; micro++) {
				int64_t slot = zr_mesh_slot(&m, micro);
				assert_true(slot >= 0 && slot < slots);
				assert_int_equal(slot, micro * world / sequence + rank / sequence);
				computed[slot]++;
			}
		}

		for (int64_t slot = 0; slot < slots; slot++)
			assert_int_equal(computed[slot], sequence);
	}
}

/* The leaves of a rank's node of the tree are the slices that it has. */
static void ranks_have_leaves_in_a_row(void **unused)
{
	(void)unused;
	for (int32_t n = 2; n <= 64; n *= 2)
		for (int32_t ranks = 1; ranks <= n; ranks *= 2)
			for (int32_t rank = 0; rank < ranks; rank++) {
				const struct zr_slices z = {
					.n = n, .ranks = ranks, .rank = rank, .here = n / ranks
				};
				uint8_t has[64] = { 0 };

				for (int32_t i = 0; i < z.here; i++) {
					const int32_t leaf = rank * z.here + i;
					const int32_t slice = zr_slice_of_leaf(&z, leaf);
					const int32_t place = zr_slice_place(&z, slice);
					assert_in_range(place, 0, z.here - 1);
					assert_int_equal(zr_slice_at(&z, place), slice);
					assert_false(has[place]);
					has[place] = 1;
				}
				for (int32_t i = 1; i < z.here; i++)
					assert_true(zr_slice_at(&z, i - 1) < zr_slice_at(&z, i));
			}
}

static void impossible_shapes_are_refused(void **unused)
{
	(void)unused;
	struct zr_tensor t = { .name = "huge", .dims = { INT64_MAX / 2, 3, 1, 1 }, .ndim = 2 };
	struct zr_unit u = { "u", &t, 1, 0 };
	struct zr_model_decl m = model;
	struct zr_error err = { 0 };
	struct zr_layout l;
	m.n_units = 1;
	m.units = &u;
	assert_int_equal(zr_layout_make(&m, &l, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "huge"));
}

static void schedule_runs_forward_then_backward(void **unused)
{
	(void)unused;
	static const int32_t layer[] = { 0, 1, 2, 1, 0 }, phase[] = { 0, 0, 2, 2, 2 };
	struct zr_error err = { 0 };
	struct zr_schedule s;
	assert_int_equal(zr_schedule_make(&model, 1, NULL, NULL, &s, &err), 0);
	assert_int_equal(s.n, 5);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(s.use[i].layer, layer[i]);
		assert_int_equal(s.use[i].phase, phase[i]);
	}
	zr_schedule_free(&s);
	assert_int_equal(zr_schedule_make(&model, 0, NULL, NULL, &s, &err), 0);
	assert_int_equal(s.n, 3);
	zr_schedule_free(&s);
}

static void tied_units_complete_once_at_their_last_use(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_schedule s;
	assert_int_equal(zr_schedule_make(&model, 1, NULL, NULL, &s, &err), 0);
	assert_int_equal(s.first_grad[0], 2);
	assert_int_equal(s.first_grad[1], 3);
	assert_int_equal(s.first_grad[2], 2);
	assert_int_equal(s.grad_first[5], 3);
	assert_int_equal(s.grad_unit[s.grad_first[2]], 2); /* end: after the loss layer */
	assert_int_equal(s.grad_unit[s.grad_first[3]], 1);
	assert_int_equal(s.grad_unit[s.grad_first[4]], 0); /* tied: after the input layer */
	assert_int_equal(zr_schedule_next(&s, 0, 0), 2);
	assert_int_equal(zr_schedule_next(&s, 0, 4), -1);
	zr_schedule_free(&s);
}

static int assign(struct zr_buffer *l, int n, uint64_t *total, struct zr_error *err)
{
	struct zr_buffer *list[60];
	for (int i = 0; i < n; i++)
		list[i] = &l[i];
	return zr_lifetime_assign(list, n, total, err);
}

static void buffers_that_live_together_do_not_overlap(void **unused)
{
	(void)unused;
	uint32_t x = 1;
	for (int round = 0; round < 100; round++) {
		struct zr_buffer l[40];
		struct zr_error err = { 0 };
		uint64_t total, sum = 0;
		for (int i = 0; i < 40; i++) {
			x = x * 1664525u + 1013904223u;
			l[i] = (struct zr_buffer){ .bytes = x >> 20,
						   .first = (int)(x % 30),
						   .last = (int)(x % 30 + (x >> 8) % 10) };
			sum += (l[i].bytes + 63) / 64 * 64;
		}
		assert_int_equal(assign(l, 40, &total, &err), 0);
		assert_true(total <= sum);
		for (int i = 0; i < 40; i++) {
			assert_int_equal(l[i].offset % 64, 0);
			assert_true(l[i].offset + l[i].bytes <= total);
			for (int j = 0; j < i; j++)
				if (l[i].first <= l[j].last && l[j].first <= l[i].last)
					assert_true(l[i].offset + l[i].bytes <= l[j].offset ||
						    l[j].offset + l[j].bytes <= l[i].offset);
		}
	}
}

static int together(const struct zr_buffer *x, const struct zr_buffer *y)
{
	return x->first <= y->last && y->first <= x->last;
}

/* Whether x at `at` meets none of those before it in the order of sizes. */
static int is_free(const struct zr_buffer *l, int n, int x, uint64_t at)
{
	for (int i = 0; i < n; i++)
		if ((l[i].bytes > l[x].bytes || (l[i].bytes == l[x].bytes && i < x)) &&
		    together(&l[i], &l[x]) && at < l[i].offset + l[i].bytes &&
		    l[i].offset < at + l[x].bytes)
			return 0;
	return 1;
}

/* Few sizes and short lives, as gathers have: many buffers, one after the other, at one offset. */
static void buffers_lie_as_low_as_they_can(void **unused)
{
	(void)unused;
	uint32_t x = 1;
	for (int round = 0; round < 50; round++) {
		struct zr_buffer l[60];
		struct zr_error err = { 0 };
		uint64_t total;
		for (int i = 0; i < 60; i++) {
			x = x * 1664525u + 1013904223u;
			l[i] = (struct zr_buffer){ .bytes = 64 + (x >> 30) * 64,
						   .first = (int)((x >> 8) % 90) };
			l[i].last = l[i].first + (int)((x >> 16) % (round % 2 ? 4 : 40));
			if (round % 5 == 2 && i % 2) { /* from a layer's forward to its backward */
				l[i].first = i;
				l[i].last = 120 - i;
			}
			if (round % 3 == 1) { /* many points of time */
				l[i].first *= 100;
				l[i].last = l[i].last * 100 + (int)((x >> 12) % 100);
			}
		}
		assert_int_equal(assign(l, 60, &total, &err), 0);
		for (int i = 0; i < 60; i++)
			for (uint64_t at = 0; at <= l[i].offset; at += 64)
				assert_int_equal(is_free(l, 60, i, at), at == l[i].offset);
	}
}

static void buffers_share_bytes_when_they_can(void **unused)
{
	(void)unused;
	struct zr_buffer l[3] = { { .bytes = 128, .first = 0, .last = 1 },
				  { .bytes = 128, .first = 1, .last = 2 },
				  { .bytes = 128, .first = 2, .last = 3 } };
	struct zr_error err = { 0 };
	uint64_t total;
	assert_int_equal(assign(l, 3, &total, &err), 0);
	assert_int_equal(total, 256);
}

/* Else what comes and goes would have to fit below it or above it. */
static void what_lives_to_the_end_lies_below_the_others(void **unused)
{
	(void)unused;
	struct zr_buffer l[3] = { { .bytes = 192, .first = 0, .last = 0 },
				  { .bytes = 64, .first = 0, .last = INT32_MAX },
				  { .bytes = 128, .first = 1, .last = 1 } };
	struct zr_error err = { 0 };
	uint64_t total;
	assert_int_equal(assign(l, 3, &total, &err), 0);
	assert_int_equal(l[1].offset, 0);
	assert_int_equal(l[0].offset, 64);
	assert_int_equal(l[2].offset, 64);
	assert_int_equal(total, 256);
}

/* What is frozen changes a layer's units and nothing else that the model has said of it. */
static void layers_keep_their_places(void **unused)
{
	(void)unused;
	const struct zr_layer said[] = {
		{ .name = "in", .units = in_units, .n_units = 1, .flags = ZR_LAYER_INPUT },
		{ .name = "mid", .units = mid_units, .n_units = 1, .cut = ZR_CUT_KEYS },
		{ .name = "out",
		  .units = out_units,
		  .n_units = 2,
		  .flags = ZR_LAYER_LOSS,
		  .cut = ZR_CUT_ROWS },
	};
	struct zr_section section = { 0 };
	struct zr_setup s = { .roles.model.section = &section };
	struct zr_error err = { 0 };

	s.facts.mode = ZR_MODE_EVAL;
	s.facts.decl = model;
	s.facts.decl.layers = said;
	assert_int_equal(zr_layout_make(&s.facts.decl, &s.facts.layout, &err), 0);
	assert_int_equal(zr_frozen_find(&s, &err), 0);
	for (int32_t i = 0; i < 3; i++) {
		const struct zr_layer *l = zr_layer_at(&s.facts.decl, i);
		assert_string_equal(l->name, said[i].name);
		assert_int_equal(l->n_units, said[i].n_units);
		assert_int_equal(l->flags, said[i].flags);
		assert_int_equal(l->cut, said[i].cut);
	}

	zr_layout_free(&s.facts.layout);
	free(s.facts.frozen);
	free(s.facts.frozen_unit);
	free(s.facts.parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_start_on_blocks),
		cmocka_unit_test(shards_cover_every_block_once),
		cmocka_unit_test(groups_cover_every_block_once),
		cmocka_unit_test(nodes_of_two_sizes),
		cmocka_unit_test(ranks_of_a_sequence_share_a_slot),
		cmocka_unit_test(ranks_have_leaves_in_a_row),
		cmocka_unit_test(impossible_shapes_are_refused),
		cmocka_unit_test(schedule_runs_forward_then_backward),
		cmocka_unit_test(tied_units_complete_once_at_their_last_use),
		cmocka_unit_test(buffers_that_live_together_do_not_overlap),
		cmocka_unit_test(buffers_lie_as_low_as_they_can),
		cmocka_unit_test(buffers_share_bytes_when_they_can),
		cmocka_unit_test(what_lives_to_the_end_lies_below_the_others),
		cmocka_unit_test(layers_keep_their_places),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
