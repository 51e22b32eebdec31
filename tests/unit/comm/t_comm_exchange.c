/* SPDX-License-Identifier: Apache-2.0
 *
 * t_comm_exchange.c - comm/local and comm/tcp: exchanges with counts of each pair, and groups of
 * listed ranks.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "comm_fixture.h"

enum { ROUNDS = 12 };

static const int32_t all[] = { 0, 1, 2, 3, 4, 5 };

static void run(const struct fixture *fixture, void (*fn)(struct rank *))
{
	if (fixture_run(fixture, fn, -1))
		fail_msg("%s", fixture_failure());
}

static void over_tcp(void (*fn)(struct rank *), int world, int per_node)
{
	struct fixture f = { .plugin = "comm/tcp", .world = world, .per_node = per_node };
	run(&f, fn);
	f.as = PROCESSES;
	run(&f, fn);
	f.option[0][0] = "cross_read";
	f.option[0][1] = "off";
	run(&f, fn);
}

/* As threads and as processes of comm/local and comm/tcp, which read each other's memory, and which
 * do not. */
static void everywhere(void (*fn)(struct rank *), int world, int per_node)
{
	struct fixture f = { .plugin = "comm/local", .world = world, .per_node = per_node };
	over_tcp(fn, world, per_node);
	run(&f, fn);
	f.as = PROCESSES;
	run(&f, fn);
	f.option[0][0] = "cross_read";
	f.option[0][1] = "off";
	f.option[1][0] = "staging";
	f.option[1][1] = "64K";
	run(&f, fn);
}

/* Says what is wrong with an exchange, if anything is. */
static void exchange(struct rank *r, int group, const int32_t *ranks, int32_t n, int round)
{
	const char *why = fixture_exchange(r, group, ranks, n, round);
	if (why)
		fixture_say(r, __FILE__, __LINE__, why, test_error(r->h));
}

static void over_the_world(struct rank *r)
{
	for (int round = 0; round < ROUNDS; round++)
		exchange(r, ZR_GROUP_WORLD, all, r->world, round);
}

static void an_exchange_brings_what_each_rank_sends(void **unused)
{
	(void)unused;
	everywhere(over_the_world, 1, 0);
	everywhere(over_the_world, 2, 0);
	everywhere(over_the_world, 5, 0);
}

static void over_the_node(struct rank *r)
{
	for (int round = 0; round < ROUNDS; round++) {
		exchange(r, ZR_GROUP_NODE, all + r->rank / 2 * 2, 2, round);
		exchange(r, ZR_GROUP_WORLD, all, r->world, round);
		exchange(r, ZR_GROUP_SELF, all + r->rank, 1, round);
	}
}

static void groups_of_nodes_exchange_beside_the_world(void **unused)
{
	(void)unused;
	everywhere(over_the_node, 4, 2);
}

/* ---- groups of listed ranks ---- */

/* Every kind that adds or moves, over a group: what the ranks of the list sent. */
static void gather_and_add(struct rank *r, int group, const int32_t *ranks, int32_t n)
{
	int64_t own[3] = { r->rank, 10 * r->rank, 7 }, gathered[3 * 6] = { 0 }, sum[3];
	const struct zr_comm_seg gather = { own, gathered, 3 }, add = { own, sum, 3 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_GATHER, group, ZR_I64, &gather, 1);
	CHECK(r, fixture_do(r, &op) == 0);
	op = fixture_op(ZR_COMM_ALL_REDUCE, group, ZR_I64, &add, 1);
	CHECK(r, fixture_do(r, &op) == 0);

	int64_t total = 0;
	for (int32_t k = 0; k < n; k++) {
		CHECK(r, gathered[3 * k] == ranks[k]);
		total += ranks[k];
	}
	CHECK(r, sum[0] == total && sum[1] == 10 * total && sum[2] == 7 * n);
}

/* Neighbours share a sequence; ranks of the same parity are one expert group. */
static void listed(struct rank *r)
{
	const int32_t pair[] = { r->rank / 2 * 2, r->rank / 2 * 2 + 1 };
	int32_t stride[3], n = 0;
	for (int32_t k = r->rank % 2; k < r->world; k += 2)
		stride[n++] = k;
	CHECK(r, fixture_group(r, ZR_GROUP_SEQUENCE, pair, 2) == 0);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, stride, n) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		exchange(r, ZR_GROUP_EXPERT, stride, n, round);
		exchange(r, ZR_GROUP_SEQUENCE, pair, 2, round);
		exchange(r, ZR_GROUP_WORLD, all, r->world, round);
	}
	gather_and_add(r, ZR_GROUP_EXPERT, stride, n);
	gather_and_add(r, ZR_GROUP_SEQUENCE, pair, 2);
}

static void groups_of_listed_ranks_do_what_others_do(void **unused)
{
	(void)unused;
	everywhere(listed, 4, 0);
	everywhere(listed, 6, 2);
}

static void of_one(struct rank *r)
{
	const int32_t own[] = { r->rank };
	CHECK(r, fixture_group(r, ZR_GROUP_CROSS, own, 1) == 0);
	exchange(r, ZR_GROUP_CROSS, own, 1, 2);
	gather_and_add(r, ZR_GROUP_CROSS, own, 1);
}

static void a_group_may_have_one_rank(void **unused)
{
	(void)unused;
	everywhere(of_one, 1, 0);
	everywhere(of_one, 3, 0);
}

/* ---- what is refused ---- */

static int post(struct rank *r, const int64_t *sent, const int64_t *received)
{
	char send[64] = { 0 }, recv[64];
	const struct zr_comm_exchange x = { .size = sizeof x,
					    .group = ZR_GROUP_WORLD,
					    .dtype = ZR_U8,
					    .send = send,
					    .recv = recv,
					    .send_count = sent,
					    .recv_count = received,
					    .tag = { 3, 14, 1 } };
	zr_ticket t = 0;
	int rc = r->v->exchange(r->c, &x, &t);
	return rc ? rc : r->v->wait(r->c, t);
}

/* Rank 2 expects of rank 0 one byte more than comes; rank 1's own pairs are as they should be. */
static void counts_that_differ(struct rank *r)
{
	const int64_t five[] = { 5, 5, 5 }, six[] = { 6, 5, 5 };
	CHECK(r, post(r, five, r->rank == 2 ? six : five) == ZR_EPEER);
	CHECK(r, strstr(test_error(r->h),
			"ranks differ in what they exchange: rank 0 sends 5 u8 to rank 2, which "
			"expects 6, in exchange over the world (step 3, op 14, unit 1)"));
}

static void a_pair_of_counts_that_differs_is_named(void **unused)
{
	(void)unused;
	everywhere(counts_that_differ, 3, 0);
}

static void wrong_exchanges(struct rank *r)
{
	const int64_t none[] = { 0, 0 }, negative[] = { 0, -1 };
	int64_t own[] = { 0, 0 };
	own[r->rank] = 1;
	CHECK(r, post(r, negative, none) == ZR_EINVAL);
	CHECK(r, post(r, own, none) == ZR_EINVAL);
	CHECK(r, strstr(test_error(r->h), "sends 1 elements to itself, and expects 0"));
	CHECK(r, post(r, none, none) == 0);
}

static void exchanges_that_no_group_could_run_are_refused(void **unused)
{
	(void)unused;
	everywhere(wrong_exchanges, 2, 0);
}

static void wrong_lists(struct rank *r)
{
	const int32_t own[] = { r->rank }, other[] = { 1 - r->rank }, falling[] = { 1, 0 };
	const int32_t outside[] = { r->rank, 2 };
	const struct zr_comm_op op = fixture_op(ZR_COMM_BARRIER, ZR_GROUP_EXPERT, 0, NULL, 0);
	CHECK(r, fixture_group(r, ZR_GROUP_WORLD, own, 1) == ZR_EINVAL);
	CHECK(r, fixture_group(r, ZR_GROUP_CROSS + 1, own, 1) == ZR_EINVAL);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, other, 1) == ZR_EINVAL);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, falling, 2) == ZR_EINVAL);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, outside, 2) == ZR_EINVAL);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, own, 0) == ZR_EINVAL);
	CHECK(r, fixture_do(r, &op) == ZR_EINVAL); /* it was not made */
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, all, 2) == 0);
	CHECK(r, fixture_do(r, &op) == 0);
	CHECK(r, fixture_group(r, ZR_GROUP_EXPERT, all, 2) == ZR_EINVAL); /* it is made once */
}

static void lists_that_are_no_group_are_refused(void **unused)
{
	(void)unused;
	everywhere(wrong_lists, 2, 0);
}

/* Rank 0 thinks that rank 1 is with it; rank 1 thinks that it is alone. */
static void lists_that_differ(struct rank *r)
{
	const int32_t alone[] = { 1 };
	int rc = r->rank ? fixture_group(r, ZR_GROUP_SEQUENCE, alone, 1) :
			   fixture_group(r, ZR_GROUP_SEQUENCE, all, 2);
	if (!r->rank) {
		CHECK(r, rc == ZR_EPEER);
		CHECK(r, strstr(test_error(r->h), "rank 0 and rank 1 give other lists of ranks for "
						  "the sequence group"));
	}
}

static void lists_that_differ_between_ranks_are_named(void **unused)
{
	(void)unused;
	everywhere(lists_that_differ, 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exchange_brings_what_each_rank_sends),
		cmocka_unit_test(groups_of_nodes_exchange_beside_the_world),
		cmocka_unit_test(groups_of_listed_ranks_do_what_others_do),
		cmocka_unit_test(a_group_may_have_one_rank),
		cmocka_unit_test(a_pair_of_counts_that_differs_is_named),
		cmocka_unit_test(exchanges_that_no_group_could_run_are_refused),
		cmocka_unit_test(lists_that_are_no_group_are_refused),
		cmocka_unit_test(lists_that_differ_between_ranks_are_named),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
