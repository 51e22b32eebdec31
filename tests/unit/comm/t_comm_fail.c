/* SPDX-License-Identifier: Apache-2.0
 *
 * t_comm_fail.c - I5: how comm/local ends when ranks differ, hang, die, leave or give up: soon,
 * everywhere, and with a text that names the rank and what it was doing.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm_fixture.h"

static void run(struct fixture fixture, void (*fn)(struct rank *), int dead)
{
	fixture.plugin = "comm/local";
	for (fixture.as = dead >= 0 ? PROCESSES : THREADS; fixture.as <= PROCESSES; fixture.as++)
		if (fixture_run(&fixture, fn, dead))
			fail_msg("%s", fixture_failure());
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int says(struct rank *r, const char *text)
{
	return strstr(test_error(r->h), text) != NULL;
}

/* ---- ranks that differ ---- */

/* All ranks post a good operation; rank 2 changes it by `spoil`. */
static void differ(struct rank *r, void (*spoil)(struct zr_comm_op *), const char *what,
		   const char *good, const char *bad)
{
	float in[64] = { 0 }, out[64];
	struct zr_comm_seg seg[2] = { { in, out, 4 }, { in + 16, out + 16, 3 } };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_F32, seg, 2);
	op.tag = (struct zr_comm_tag){ 3, 17, 2 };
	CHECK(r, fixture_barrier(r, 1, 1) == 0);
	if (r->rank == 2)
		spoil(&op);
	CHECK(r, fixture_do(r, &op) == ZR_EPEER);
	CHECK(r, says(r, what));
	CHECK(r, says(r, good));
	CHECK(r, says(r, bad));
	CHECK(r, says(r, "rank 2 calls"));
	CHECK(r, says(r, "; all others call what rank ") && !says(r, "what rank 2 calls"));
	CHECK(r, fixture_do(r, &op) == ZR_EPEER); /* for good */
}

static const char good[] =
	"calls all_reduce over the world (step 3, op 17, unit 2) of 7 f32 in 2 segments";

static void other_kind(struct zr_comm_op *op)
{
	op->kind = ZR_COMM_ALL_GATHER;
}

static void differ_kind(struct rank *r)
{
	differ(r, other_kind, "differ in the kind of operation", good,
	       "rank 2 calls all_gather over the world (step 3, op 17, unit 2) of 7 f32 in 2 "
	       "segments");
}

static void other_count(struct zr_comm_op *op)
{
	((struct zr_comm_seg *)(uintptr_t)op->seg)[1].count = 5;
}

static void differ_count(struct rank *r)
{
	differ(r, other_count, "differ in the number of elements", good,
	       "rank 2 calls all_reduce over the world (step 3, op 17, unit 2) of 9 f32 in 2 "
	       "segments");
}

static void other_tag(struct zr_comm_op *op)
{
	op->tag.op = 18;
	op->tag.unit = -1;
}

static void differ_tag(struct rank *r)
{
	differ(r, other_tag, "differ in the place in the program", good,
	       "rank 2 calls all_reduce over the world (step 3, op 18) of 7 f32 in 2 segments");
}

static void other_type(struct zr_comm_op *op)
{
	op->dtype = ZR_I64;
}

static void differ_type(struct rank *r)
{
	differ(r, other_type, "differ in the type of elements", good,
	       "rank 2 calls all_reduce over the world (step 3, op 17, unit 2) of 7 i64");
}

static void other_length(struct zr_comm_op *op)
{
	op->n_seg = 1;
}

static void differ_length(struct rank *r)
{
	differ(r, other_length, "differ in the number of segments", good, "of 4 f32 in 1 segment");
}

static void differ_root(struct rank *r)
{
	int64_t x = 0, y;
	struct zr_comm_seg seg = { &x, &y, 1 };
	struct zr_comm_op op = fixture_op(ZR_COMM_BROADCAST, ZR_GROUP_WORLD, ZR_I64, &seg, 1);
	op.root = r->rank == 2;
	CHECK(r, fixture_do(r, &op) == ZR_EPEER);
	CHECK(r, says(r, "differ in the root") && says(r, "from rank 0 of") &&
			 says(r, "from rank 1 of"));
}

/* Two against two: nobody is the odd one. */
static void differ_in_halves(struct rank *r)
{
	CHECK(r, fixture_barrier(r, 1, r->rank % 2) == ZR_EPEER);
	CHECK(r, says(r, "differ in the place in the program") && !says(r, "all others"));
}

static void differ_memory(struct rank *r)
{
	void *m;
	CHECK(r, r->v->mem_alloc(r->c, r->rank == 1 ? 100 : 200, &m) == ZR_EPEER);
	CHECK(r, says(r, "mem_alloc over the node of 100 u8") && says(r, "rank 1 calls"));
}

static void differing_operations_name_both_ranks(void **state)
{
	static void (*const all[])(struct rank *) = { differ_kind,   differ_count,    differ_tag,
						      differ_type,   differ_length,   differ_root,
						      differ_memory, differ_in_halves };
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		run((struct fixture){ .world = 4 }, all[i], -1);
}

/* ---- ranks that do not come ---- */

static void late(struct rank *r)
{
	struct zr_comm_op op = fixture_op(ZR_COMM_BARRIER, ZR_GROUP_WORLD, 0, NULL, 0);
	op.tag = (struct zr_comm_tag){ 8, 4, -1 };
	CHECK(r, fixture_barrier(r, 7, 3) == 0);
	if (r->rank == 1) {
		fixture_meet(r->world); /* computes until all others have given up */
		CHECK(r, fixture_do(r, &op) == ZR_EPEER);
	} else {
		CHECK(r, fixture_do(r, &op) == ZR_EPEER);
		fixture_meet(r->world);
	}
	CHECK(r, says(r, "timeout: barrier over the world (step 8, op 4) of rank"));
	CHECK(r, says(r, " s for rank 1 (computing after barrier over the world (step 7, op 3))"));
}

static void a_timeout_names_the_missing_rank_and_what_it_does(void **state)
{
	struct fixture fixture = { .world = 3 };
	(void)state;
	fixture.option[0][0] = "timeout", fixture.option[0][1] = "0.3";
	run(fixture, late, -1);
}

static void elsewhere(struct rank *r)
{
	struct zr_comm_op world = fixture_op(ZR_COMM_BARRIER, ZR_GROUP_WORLD, 0, NULL, 0),
			  node = world;
	node.group = ZR_GROUP_NODE;
	CHECK(r, fixture_do(r, r->rank < 2 ? &node : &world) == (r->rank < 2 ? 0 : ZR_EPEER));
	fixture_meet(r->world);
	if (r->rank >= 2) {
		CHECK(r, says(r, "rank 0 (computing after barrier over the node (step 1, op 6))"));
		CHECK(r, says(r, "rank 1 (computing after barrier over the node (step 1, op 6))"));
	}
}

static void a_timeout_names_every_missing_rank(void **state)
{
	struct fixture fixture = { .world = 4, .per_node = 2 };
	(void)state;
	fixture.option[0][0] = "timeout", fixture.option[0][1] = "0.3";
	run(fixture, elsewhere, -1);
}

/* ---- ranks that are gone ---- */

static void dying(struct rank *r)
{
	CHECK(r, fixture_barrier(r, 5, 2) == 0);
	double start = now();
	if (r->rank == 1)
		raise(SIGKILL);
	CHECK(r, fixture_barrier(r, 5, 3) == ZR_EPEER);
	CHECK(r, now() - start < 5);
	CHECK(r, says(r, "rank 1 (pid ") &&
			 says(r, ") died after barrier over the world (step 5, op 2)"));
}

static void a_killed_rank_is_noticed_before_its_parent_reaps_it(void **state)
{
	(void)state;
	run((struct fixture){ .world = 4 }, dying, 1);
}

static void *die_late(void *unused)
{
	nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 500000000 }, NULL);
	raise(SIGKILL);
	return unused;
}

static void die(void)
{
	raise(SIGKILL);
}

/* The process loses its memory when its first thread ends, and ends with its last one: as it does
 * where the memory is large and the machine is busy. */
static void die_slowly(void)
{
	pthread_t other;
	if (!pthread_create(&other, NULL, die_late, NULL))
		pthread_exit(NULL);
}

/* Rank 1 dies while it has data outstanding that the others go on to read. */
static void with_data_outstanding(struct rank *r, void (*die_in_this_way)(void))
{
	enum { N = 1 << 20 };
	float *x = calloc(N, sizeof *x), *y = calloc(N, 3 * sizeof *y);
	struct zr_comm_seg seg = { x, y, N };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_F32, &seg, 1);
	zr_ticket t;
	CHECK(r, r->v->post(r->c, &op, &t) == 0);
	fixture_meet(r->world);
	if (r->rank == 1)
		die_in_this_way();
	CHECK(r, r->v->wait(r->c, t) == ZR_EPEER);
	CHECK(r, says(r, "rank 1 (pid ") && says(r, "died"));
	free(x);
	free(y);
}

static void dying_inside(struct rank *r)
{
	with_data_outstanding(r, die);
}

static void dying_slowly(struct rank *r)
{
	with_data_outstanding(r, die_slowly);
}

static void a_rank_killed_with_data_outstanding_is_noticed(void **state)
{
	(void)state;
	run((struct fixture){ .world = 3 }, dying_inside, 1);
}

static void a_rank_whose_memory_goes_long_before_its_end_is_noticed(void **state)
{
	(void)state;
	run((struct fixture){ .world = 3 }, dying_slowly, 1);
}

static void leaving(struct rank *r)
{
	CHECK(r, fixture_barrier(r, 5, 2) == 0);
	if (r->rank != 1)
		CHECK(r, fixture_barrier(r, 5, 3) == ZR_EPEER &&
				 says(r, "rank 1 has left; barrier over the world (step 5, op 3)"));
}

static void a_rank_that_left_is_not_waited_for(void **state)
{
	struct fixture fixture = { .world = 3 };
	(void)state;
	/* who waits says so before the fixture ends it */
	fixture.option[0][0] = "timeout", fixture.option[0][1] = "10";
	run(fixture, leaving, -1);
}

/* ---- giving up ---- */

static void giving_up(struct rank *r)
{
	int64_t x = 1, y[4];
	struct zr_comm_seg seg = { &x, y, 1 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_I64, &seg, 1);
	zr_ticket t = 0;
	CHECK(r, fixture_barrier(r, 1, 1) == 0);
	if (r->rank == 2) {
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
		r->v->abort(r->c, "disk full");
		r->v->abort(r->c, "another reason comes too late");
	} else {
		CHECK(r, r->v->post(r->c, &op, &t) == 0 || says(r, "disk full"));
		CHECK(r, !t || r->v->wait(r->c, t) == ZR_EPEER);
		CHECK(r, says(r, "rank 2 stopped: disk full"));
	}
	CHECK(r, r->v->post(r->c, &op, &t) == ZR_EPEER);
	CHECK(r, says(r, "rank 2 stopped: disk full"));
	CHECK(r, !t || r->v->test(r->c, t) < 0);
}

static void an_abort_ends_what_is_pending_everywhere(void **state)
{
	(void)state;
	run((struct fixture){ .world = 4 }, giving_up, -1);
}

/* ---- wrong calls ---- */

static void refused(struct rank *r, struct zr_comm_op op, const char *why)
{
	zr_ticket t = 99;
	CHECK(r, r->v->post(r->c, &op, &t) < 0);
	CHECK(r, says(r, why));
	CHECK(r, t == 99);
}

static void wrong(struct rank *r)
{
	float x[64] = { 0 };
	struct zr_comm_seg seg = { x, x + 32, 4 }, bad = { x, x + 1, 4 },
			   negative = { x, x + 32, -1 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_F32, &seg, 1), o;
	o = op, o.kind = 8;
	refused(r, o, "unknown kind of operation 8");
	o = op, o.group = 3;
	refused(r, o, "unknown group 3");
	o = op, o.dtype = ZR_BF16;
	refused(r, o, "all_reduce adds f32, f64 and i64, not bf16");
	o = op, o.kind = ZR_COMM_BROADCAST, o.root = r->world;
	refused(r, o, "broadcast from rank 2 of 2");
	o = op, o.kind = ZR_COMM_ALL_GATHER, o.dtype = 77;
	refused(r, o, "unknown type 77");
	o = op, o.seg = &negative;
	refused(r, o, "segment 0 of all_reduce has -1 elements");
	for (int kind = ZR_COMM_ALL_GATHER; kind <= ZR_COMM_ALL_TO_ALL; kind++) {
		bad.recv = kind == ZR_COMM_REDUCE_SCATTER ? x + 3 - 2 * r->rank :
			   kind == ZR_COMM_ALL_TO_ALL     ? x :
							    x + 1;
		o = fixture_op(kind, ZR_GROUP_WORLD, ZR_F32, &bad, 1), o.root = r->rank;
		refused(r, o, "would overwrite what peers read");
	}
	CHECK(r, r->v->wait(r->c, 5) == ZR_ESTATE && says(r, "ticket 5 is not outstanding"));
	CHECK(r, fixture_barrier(r, 1, 1) == 0); /* nothing was harmed */
}

static void wrong_calls_are_refused_at_post(void **state)
{
	(void)state;
	run((struct fixture){ .world = 2 }, wrong, -1);
}

static void without_a_boot_ranks_cannot_meet(void **state)
{
	const struct zr_desc *desc = test_plugin("comm/local");
	struct zr_host *h = test_host(1);
	void *opts = test_options(desc);
	struct zr_inst *c;
	(void)state;
	h->world = h->local_world = 2;
	assert_int_equal(test_create(h, desc, opts, &c), ZR_ENOTSUP);
	assert_string_equal(test_error(h),
			    "boot offers no key-value area through which 2 ranks could meet");
	h->rank = 2;
	assert_int_equal(test_create(h, desc, opts, &c), ZR_EINVAL);
	test_host_free(h);
	free(opts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differing_operations_name_both_ranks),
		cmocka_unit_test(a_timeout_names_the_missing_rank_and_what_it_does),
		cmocka_unit_test(a_timeout_names_every_missing_rank),
		cmocka_unit_test(a_killed_rank_is_noticed_before_its_parent_reaps_it),
		cmocka_unit_test(a_rank_killed_with_data_outstanding_is_noticed),
		cmocka_unit_test(a_rank_whose_memory_goes_long_before_its_end_is_noticed),
		cmocka_unit_test(a_rank_that_left_is_not_waited_for),
		cmocka_unit_test(an_abort_ends_what_is_pending_everywhere),
		cmocka_unit_test(wrong_calls_are_refused_at_post),
		cmocka_unit_test(without_a_boot_ranks_cannot_meet),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
