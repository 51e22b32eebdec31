/* SPDX-License-Identifier: Apache-2.0
 *
 * t_plan_experts.c - what a rank holds and receives of a mixture of experts, against formulas that
 * know the model and ZeRO but not core, to the byte (I2): each expert is a unit, and a block keeps
 * its routing and what its places need. ledger.sh compares plans with what is allocated.
 *
 * B(u) blocks of unit u, N ranks: a unit split over N ranks takes N equal shares of ceil(B/N)
 * blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/plan_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

/* The model of mixture.ini, in bf16. */
enum { LAYERS = 2, E = 5, K = 2, C = 48, H = 2, KV = 1, D = 24, F = 40, T = 40, V = 256 };
enum { UNITS = 1 + LAYERS * (1 + E) + 2 };

static int64_t blocks_of(int64_t elements)
{
	return (elements + 2047) / 2048;
}

static int is_expert(int unit)
{
	return unit >= 1 && unit <= LAYERS * (1 + E) && (unit - 1) % (1 + E);
}

static int64_t unit_blocks(int unit)
{
	int64_t attention = 2 * blocks_of(H * D * C) + 2 * blocks_of(KV * D * C);
	if (unit == 0 || unit == UNITS - 1)
		return blocks_of(V * C); /* the embedding, and the output projection */
	if (unit == UNITS - 2)
		return blocks_of(C);
	return is_expert(unit) ? 3 * blocks_of(F * C) :
				 2 * blocks_of(C) + attention + blocks_of(E * C);
}

/* Bytes of one rank's part, of elements of `size` bytes. */
static uint64_t share(int unit, int64_t ranks, int size)
{
	return (uint64_t)((unit_blocks(unit) + ranks - 1) / ranks * 2048 * size);
}

static uint64_t shares(int64_t ranks, int size)
{
	uint64_t sum = 0;
	for (int u = 0; u < UNITS; u++)
		sum += share(u, ranks, size);
	return sum;
}

/* A block and all its experts: a token may go to any. */
static uint64_t block_and_experts(int64_t ranks, int size)
{
	return (share(1, ranks, size) + E * share(2, ranks, size)) * (uint64_t)ranks;
}

static struct zr_setup *open_case(const char *stage, int world, const char *more)
{
	char zero[32], node[32];
	const char *o[] = { zero,
			    node,
			    "precision.plugin=bf16",
			    more,
			    "zero.reduce_bucket_size=1",
			    "zero.allgather_bucket_size=1",
			    "train.gradient_accumulation_steps=3",
			    strcmp(stage, "stage3") ? NULL : "zero.persistence_threshold=0",
			    "zero.prefetch_bucket_size=0",
			    "zero.max_live_parameters=0",
			    "zero.max_reuse_distance=0",
			    NULL };
	snprintf(zero, sizeof zero, "zero.plugin=%s", stage);
	snprintf(node, sizeof node, "boot.ranks_per_node=%d", world > 1 ? world / 2 : 1);
	plan_ini = "mixture.ini";
	return plan_open(world, o);
}

static void every_expert_is_a_unit(void **unused)
{
	struct zr_setup *s = open_case("stage3", 4, "train.seed=1");
	(void)unused;
	assert_int_equal(s->facts.layout.n_units, UNITS);
	for (int u = 0; u < UNITS; u++)
		assert_int_equal(s->facts.layout.unit[u].blocks, unit_blocks(u));
	plan_close(s);
}

static void expect(const struct zr_setup *s, int world, int region, uint64_t want)
{
	if (s->plan.region[region].bytes != want)
		fail_msg("%d ranks: %s %llu bytes, not %llu", world, s->plan.region[region].what,
			 (unsigned long long)s->plan.region[region].bytes,
			 (unsigned long long)want);
}

static void I2_split_experts_take_shares_and_one_block_is_gathered(void **unused)
{
	(void)unused;
	for (int N = 2; N <= 6; N += 2) {
		struct zr_setup *s = open_case("stage3", N, "train.seed=1");
		expect(s, N, ZR_R_PARAM, shares(N, 2));
		expect(s, N, ZR_R_MASTER, shares(N, 2));
		expect(s, N, ZR_R_GRAD, shares(N, 4));
		expect(s, N, ZR_R_GATHER, block_and_experts(N, 2));
		plan_close(s);
	}
}

/* Of each unit what the other ranks have: two gathers, but one of the last norm and projection, and
 * the fp32 contributions of one micro-batch. */
static void bytes_received_count_every_expert(void **unused)
{
	(void)unused;
	for (int N = 2; N <= 6; N += 2) {
		struct zr_setup *s = open_case("stage3", N, "train.seed=1");
		uint64_t once = share(UNITS - 2, N, 2) + share(UNITS - 1, N, 2);
		uint64_t n = (uint64_t)N - 1;
		assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_EVAL]),
				 n * shares(N, 2));
		assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_MICRO]),
				 n * (2 * shares(N, 2) - once + shares(N, 4)));
		plan_close(s);
	}
}

static uint64_t up(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Two statistics of norms and attention's of each head; q, k, v, attention, x2; of the router p,
 * the log-sum, and for each place its weight, expert, place in order and back; gate and up. */
static void I2_a_block_keeps_its_routing(void **unused)
{
	const uint64_t kept = 2 * up(T * 4) + up(H * T * 4) + 3 * up(T * C * 2) +
			      2 * up(T * KV * D * 2) + up(T * E * 4) + up(T * 4) +
			      4 * up(T * K * 4) + up((E + 1) * 4) + 2 * up(T * K * F * 2);
	struct zr_setup *s = open_case("stage0", 1, "train.seed=1");
	(void)unused;
	assert_int_equal(s->facts.layer_bytes[1].saved, kept);
	assert_int_equal(s->facts.layer_bytes[1].out, up(T * C * 2));
	plan_close(s);
}

/* Sums of the routers pass behind what layers give, fp64: two of each expert and one. */
static void I2_losses_of_routers_need_their_sums(void **unused)
{
	struct zr_setup *s = open_case("stage0", 1, "model.router_aux_loss_coef=0.1");
	const uint64_t out = up(T * C * 2) + up((2 * E + 1) * 8);
	(void)unused;
	for (int l = 0; l <= LAYERS; l++) {
		assert_int_equal(s->facts.layer_bytes[l].out, out);
		assert_int_equal(s->facts.layer_bytes[l].grad, out);
	}
	assert_int_equal(s->facts.decl.aux_loss, 1);
	assert_int_equal(s->plan.loss_bytes, 2 * sizeof(double));
	plan_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_expert_is_a_unit),
		cmocka_unit_test(I2_split_experts_take_shares_and_one_block_is_gathered),
		cmocka_unit_test(bytes_received_count_every_expert),
		cmocka_unit_test(I2_a_block_keeps_its_routing),
		cmocka_unit_test(I2_losses_of_routers_need_their_sums),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
