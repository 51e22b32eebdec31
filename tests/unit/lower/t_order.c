/* SPDX-License-Identifier: Apache-2.0
 *
 * t_order.c - what instructions wait for, and the proof that it suffices: programs with known
 * answers, random ones against brute force, in many orders, and with each dependency taken away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "order_fixture.h"
#include <cmocka.h> /* last: it defines fail() */

#define R ZR_READS
#define W ZR_WRITES

static struct zr_setup setup;
static struct zr_lowered program;

/* Before each test, and after the last. */
static int fresh(void **unused)
{
	(void)unused;
	fixture_setup(&setup, 1 << 20, 0);
	fixture_free(&program);
	return 0;
}

/* One instruction with one operand, in this rank's memory. */
static int32_t one(int queue, uint32_t access, int32_t region, uint64_t at, uint64_t bytes)
{
	static const int kind[ZR_QUEUES] = { ZR_I_LAYER, ZR_I_HOST, ZR_I_COPY, ZR_I_READ,
					     ZR_I_COLLECTIVE };
	int32_t i = fixture_add(&program, kind[queue], queue);
	fixture_touch(&program, access, region, ZR_MINE, at, bytes);
	return i;
}

static void order(void)
{
	struct zr_error err = { 0 };
	if (zr_order(&setup, &program, &err) || zr_verify(&setup, &program, &err))
		fail_msg("%s", err.text);
}

/* Instruction j waits for those listed, ending with -1, and for nothing else. */
static void waits(int32_t j, ...)
{
	va_list ap;
	int32_t n = 0;
	va_start(ap, j);
	for (int32_t i; (i = va_arg(ap, int)) >= 0; n++)
		assert_true(fixture_waits(&program, j, i));
	va_end(ap);
	assert_int_equal(program.instr[j].n_after, n);
}

static void refused(const char *const *words)
{
	struct zr_error err = { 0 };
	assert_int_equal(zr_verify(&setup, &program, &err), ZR_ESTATE);
	assert_int_equal(err.code, ZR_ESTATE);
	for (; *words; words++)
		if (!strstr(err.text, *words))
			fail_msg("no \"%s\" in: %s", *words, err.text);
}
#define REFUSED(...) refused((const char *const[]){ __VA_ARGS__, NULL })

/* ---- known answers ---- */

static void read_after_write(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 100);
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 99, 1);
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 100, 1);
	one(ZR_Q_HOST, R, ZR_R_PARAM, 0, 1);
	one(ZR_Q_HOST, R, ZR_R_MASTER, 0, 1);
	order();
	waits(0, -1);
	waits(1, 0, -1);
	waits(2, -1);
	waits(3, 0, -1);
	waits(4, -1);
}

static void write_after_read(void **unused)
{
	(void)unused;
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 4, 8);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 8, 8);
	one(ZR_Q_HOST, W, ZR_R_PARAM, 0, 8);
	order();
	waits(3, -1);
	waits(5, 1, 2, 3, -1); /* of those that compute the later one stands for both */
}

static void write_after_write(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 7, 8);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 15);
	order();
	waits(1, 0, -1);
	waits(2, 1, -1); /* which waited for the first */
}

static void partial_overlap(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 10);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 10, 10);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 20, 10);
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 9, 2);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 5, 20);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 5);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 30);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 2, 0);
	order();
	waits(3, 0, 1, -1);
	waits(4, 2, 3, -1);
	waits(5, 0, -1);
	waits(6, 4, -1); /* after 3, so after 0 */
	waits(7, -1);
}

static void queues_in_order(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMPUTE, R, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMPUTE, R | W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMPUTE, W, ZR_R_MASTER, 0, 8);
	one(ZR_Q_HOST, R, ZR_R_MASTER, 0, 8);
	one(ZR_Q_HOST, R | W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMM, R, ZR_R_MASTER, 0, 8);
	one(ZR_Q_COMM, R, ZR_R_MASTER, 0, 8);
	one(ZR_Q_COMM, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMM, W, ZR_R_PARAM, 0, 8);
	order();
	waits(2, -1);
	waits(4, 3, -1);
	waits(5, -1); /* 4 has waited for 3, which came after 2 */
	waits(6, 3, -1);
	waits(8, 5, -1);
	waits(9, 8, -1); /* posted in order is not done in order */
}

static void chains(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMM, R, ZR_R_PARAM, 0, 8);
	fixture_touch(&program, W, ZR_R_MASTER, ZR_MINE, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_MASTER, 0, 8);
	fixture_touch(&program, W, ZR_R_GRAD, ZR_MINE, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_GRAD, 0, 8);
	fixture_touch(&program, R, ZR_R_PARAM, ZR_MINE, 0, 8);
	fixture_touch(&program, W, ZR_R_MASTER, ZR_MINE, 0, 8);
	one(ZR_Q_COMPUTE, W, ZR_R_GRAD, 0, 8);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_GRAD, 0, 8);
	fixture_touch(&program, W, ZR_R_PARAM, ZR_MINE, 0, 8);
	order();
	waits(1, 0, -1);
	waits(2, 1, -1);
	waits(3, 2, -1);
	waits(4, 3, -1);
	waits(5, 3, -1);
	waits(6, 4, 5, -1);
}

static void operands_of_one(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 8);
	fixture_touch(&program, W, ZR_R_PARAM, ZR_MINE, 4, 8);
	fixture_touch(&program, R | W, ZR_R_PARAM, ZR_MINE, 0, 20);
	fixture_touch(&program, W, -1, ZR_MINE, 0, 20);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 20);
	order();
	waits(0, -1);
	waits(1, 0, -1);
}

/* What other ranks have is one memory, which a fence has written. */
static void others_memory(void **unused)
{
	(void)unused;
	one(ZR_Q_COMPUTE, W, ZR_R_PARAM, 0, 8);
	fixture_add(&program, ZR_I_COLLECTIVE, ZR_Q_COMM);
	fixture_touch(&program, R, ZR_R_PARAM, 1, 0, 8); /* this rank */
	fixture_touch(&program, W, ZR_R_PARAM, ZR_OTHERS, 0, 8);
	fixture_add(&program, ZR_I_COPY, ZR_Q_COPY);
	fixture_touch(&program, R, ZR_R_PARAM, 3, 4, 4);
	fixture_add(&program, ZR_I_LAYER, ZR_Q_COMPUTE);
	fixture_touch(&program, R, ZR_R_PARAM, ZR_VIEW, 0, 8);
	fixture_add(&program, ZR_I_COLLECTIVE, ZR_Q_COMM);
	fixture_touch(&program, W, ZR_R_PARAM, ZR_OTHERS, 0, 8);
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	order();
	waits(1, 0, -1);
	waits(2, 1, -1);
	waits(3, 1, -1);
	waits(4, 3, 2, -1);
	waits(5, 1, -1);
}

/* A request of 8 bytes to the store of the state. */
static void request(int write, uint64_t at)
{
	fixture_add(&program, write ? ZR_I_WRITE : ZR_I_READ, ZR_Q_STORE);
	if (write)
		fixture_touch(&program, R, ZR_R_PARAM, ZR_MINE, at, 8);
	fixture_touch(&program, write ? W : R, ZR_R_STATE, ZR_MINE, at, 8);
	if (!write)
		fixture_touch(&program, W, ZR_R_PARAM, ZR_MINE, at, 8);
}

static void requests(void **unused)
{
	(void)unused;
	setup.facts.tier[0].max_inflight = 2;
	request(0, 0);
	request(0, 8);
	request(1, 16); /* 2: one too many */
	one(ZR_Q_COMPUTE, R | W, ZR_R_PARAM, 8, 8);
	request(1, 8);  /* 4: 1 is over, as 3 was issued; 2 and 4 under way */
	request(0, 16); /* 5: waits for 2 anyway */
	request(0, 24); /* 6 */
	fixture_add(&program, ZR_I_WRITE, ZR_Q_STORE);
	fixture_touch(&program, R, ZR_R_PARAM, ZR_MINE, 0, 8);
	fixture_touch(&program, W, ZR_R_ACT_OFFLOADED, ZR_MINE, 0, 8); /* 7: another store */
	order();
	waits(2, 0, -1);
	waits(3, 1, -1);
	waits(4, 3, -1);
	waits(5, 2, -1);
	waits(6, 4, -1);
	waits(7, 0, -1);
	setup.facts.tier[0].max_inflight = 1;
	REFUSED("#1 (instruction 1)", "#0 (instruction 0)", "request");
	setup.facts.tier[0].max_inflight = 0;
	order();
	waits(2, -1);
	waits(6, -1);
}

/* ---- what is refused ---- */

static void refuses_unordered(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 6, 8);
	fixture_depend(&program, 0);
	one(ZR_Q_COMM, W, ZR_R_PARAM, 9, 1);
	REFUSED("#1 (instruction 1)", "#2 (instruction 2)", "byte 9 of a region");
	fixture_depend(&program, 1);
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	fixture_add(&program, ZR_I_COPY, ZR_Q_COPY);
	fixture_touch(&program, R, ZR_R_PARAM, 2, 0, 8);
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	fixture_add(&program, ZR_I_COPY, ZR_Q_COPY);
	fixture_touch(&program, W, ZR_R_PARAM, 3, 0, 8);
	REFUSED("#3", "#4", "byte 0 of a region of other ranks");
}

static void refuses_unwritten(void **unused)
{
	const uint32_t all = (1u << ZR_R_COUNT) - 1;
	uint32_t refuses[2] = { 0 }; /* without a buffer, in one */
	(void)unused;
	for (int32_t r = 0, in = 0; r < ZR_R_COUNT; r += in, in ^= 1) {
		struct zr_buffer b = { r, 0, 1, 64, 16, 0 };
		fixture_free(&program);
		one(ZR_Q_COMPUTE, W, r, 0, 8);
		one(ZR_Q_COMPUTE, R, r, 4, 8);
		program.buffer = &b;
		program.operand[0].buffer = program.operand[1].buffer = in;
		refuses[in] |= zr_verify(&setup, &program, NULL) ? 1u << r : 0;
		program.operand[1].whose = program.operand[0].whose = 0;
		assert_int_equal(zr_verify(&setup, &program, NULL), 0);
		program.buffer = NULL;
	}
	assert_int_equal(refuses[0], 1u << ZR_R_ACT_OFFLOADED | 1u << ZR_R_PARTS);
	assert_int_equal(refuses[1], all & ~(1u << ZR_R_GRAD));
}

/* What another buffer left in its bytes does not count. */
static void refuses_what_a_buffer_did_not_write(void **unused)
{
	struct zr_buffer buffer[2] = { { ZR_R_WORK, 0, 1, 64, 16, 64 },
				       { ZR_R_ACT, 0, 1, 64, 16, 64 } };
	(void)unused;
	one(ZR_Q_COMPUTE, W, ZR_R_WORK, 64, 16);
	one(ZR_Q_COMPUTE, R, ZR_R_WORK, 64, 8);
	program.n_buffer = 2;
	program.buffer = buffer;
	program.operand[0].buffer = program.operand[1].buffer = 1;
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	program.operand[0].buffer = 2;
	REFUSED("#1 (instruction 1) reads byte 64 of a region, which nothing before it writes");
	program.operand[0].buffer = 1;
	program.operand[0].bytes = 17;
	REFUSED("#0 (instruction 0) leaves its buffer");
	program.buffer = NULL;
}

/* A copy starts after the instruction of the compute queue that it depends on, and after the whole
 * queue up to there. */
static void copies_start_after_marks(void **unused)
{
	(void)unused;
	one(ZR_Q_COMPUTE, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COMPUTE, W, ZR_R_PARAM, 8, 8);
	one(ZR_Q_COMPUTE, W, ZR_R_MASTER, 0, 8);
	one(ZR_Q_COPY, R, ZR_R_PARAM, 0, 16);
	one(ZR_Q_COPY, R, ZR_R_MASTER, 8, 8);
	order();
	waits(3, 1, -1);
	waits(4, -1);
	for (int32_t i = 0; i < 3; i++)
		assert_int_equal(program.instr[i].flags & ZR_F_MARK, i == 1 ? ZR_F_MARK : 0);

	program.dep[program.instr[3].after] = 2; /* later is safe, where there is a mark */
	REFUSED("#3 (instruction 3) starts after 2, which has no mark");
	program.instr[2].flags |= ZR_F_MARK;
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	program.dep[program.instr[3].after] = 0; /* too early */
	program.instr[0].flags |= ZR_F_MARK;
	REFUSED("#1 (instruction 1) and #3 (instruction 3) touch byte 8 of a region");
}

static void refuses_strange(void **unused)
{
	(void)unused;
	one(ZR_Q_COPY, W, ZR_R_PARAM, 0, 8);
	one(ZR_Q_COPY, W, ZR_R_MASTER, (1 << 20) - 8, 8);
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	fixture_depend(&program, 1);
	REFUSED("#1 (instruction 1) waits for 1, which does not come before it");
	program.dep[0] = 2;
	REFUSED("#1 (instruction 1) waits for");
	program.dep[0] = -1;
	REFUSED("#1 (instruction 1) waits for");
	program.dep[0] = 0;
	program.operand[1].bytes = 9;
	REFUSED("#1 (instruction 1)", "a region", "1048576");
	program.operand[1].bytes = UINT64_MAX - 4;
	REFUSED("#1 (instruction 1)", "a region");
	program.operand[1].whose = ZR_VIEW;
	REFUSED("#1 (instruction 1)", "a region");
	program.operand[1].bytes = 8;
	program.operand[1].region = ZR_R_COUNT;
	REFUSED("#1 (instruction 1)", "region");
	program.operand[1].region = -1;
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	program.instr[0].kind = ZR_I_COLLECTIVE;
	REFUSED("#0 (instruction 0)", "queue");
	program.instr[0].queue = ZR_QUEUES;
	REFUSED("#0 (instruction 0)", "queue");
	program.instr[0].queue = ZR_Q_COMM;
	assert_int_equal(zr_verify(&setup, &program, NULL), 0);
	program.instr[1].n_after = 2;
	REFUSED("#1 (instruction 1)", "do not exist");
}

/* ---- random programs ---- */

static void all_orders_compute_the_same(void **unused)
{
	uint64_t random = 1;
	(void)unused;
	for (int n = 0; n < 60; n++) {
		fixture_afresh(&setup, &program, &random);
		fixture_random_program(&program, &random, 300, 1);
		order();
		struct fixture_run expected = fixture_in_order(&setup, &program);
		for (uint64_t seed = 0; seed < 6; seed++) {
			struct fixture_run run;
			run = fixture_shuffled(&setup, &program, random + seed, -1, -1);
			assert_true(run.memory == expected.memory);
			assert_true(run.reading == expected.reading);
		}
	}
}

/* Whether i is over before j without the dependency that is being cut. */
static int still_before(int32_t i, int32_t j)
{
	struct fixture_truth t;
	fixture_truth_make(&t, &program);
	int is = fixture_before(&t, i, j);
	fixture_truth_free(&t);
	return is;
}

static int some_differ(int32_t i, int32_t j, struct fixture_run expected, int *memory)
{
	int reading = 0;
	for (uint64_t seed = 0; seed < 4 && !*memory; seed++) {
		struct fixture_run run = fixture_shuffled(&setup, &program, seed, i, j);
		reading |= run.reading != expected.reading;
		*memory |= run.memory != expected.memory;
	}
	return reading || *memory;
}

struct cuts {
	int all, limits, refused, differ, memory;
};

static void cut_each(struct cuts *c)
{
	struct fixture_run expected = fixture_in_order(&setup, &program);
	for (int32_t j = 0; j < program.n; j++)
		for (int32_t k = 0; k < program.instr[j].n_after; k++) {
			struct fixture_cut cut = fixture_take(&program, j, k);
			int conflict = fixture_conflict(&setup, &program, cut.dep, j), memory = 0;
			assert_false(still_before(cut.dep, j));
			c->all++;
			c->limits += !conflict;
			c->refused += zr_verify(&setup, &program, NULL) == ZR_ESTATE;
			c->differ += conflict && some_differ(cut.dep, j, expected, &memory);
			c->memory += memory;
			fixture_put_back(&program, cut);
		}
}

static void every_dependency_counts(void **unused)
{
	struct cuts c = { 0 };
	uint64_t random = 2;
	(void)unused;
	for (int n = 0; n < 12; n++) {
		fixture_afresh(&setup, &program, &random);
		fixture_random_program(&program, &random, 100, 1);
		order();
		cut_each(&c);
	}
	printf("# %d dependencies cut: %d refused; of %d that are for bytes %d change what is "
	       "read or left, %d what is left\n",
	       c.all, c.refused, c.all - c.limits, c.differ, c.memory);
	assert_true(c.all > 1000 && c.limits > 0);
	assert_int_equal(c.refused, c.all);
	assert_true(c.differ > (c.all - c.limits) * 9 / 10);
}

/* Two instructions that a refusal names are a conflict that nothing orders. */
static int names_a_conflict(const char *text)
{
	int i, j;
	const char *at = strchr(text, '#');
	if (!at || sscanf(at, "#%*d (instruction %d) and #%*d (instruction %d)", &i, &j) != 2)
		return 1;
	return fixture_conflict(&setup, &program, i, j) && !still_before(i, j);
}

/* Programs that are right, nearly right and wrong. */
static void verify_agrees_with_brute_force(void **unused)
{
	int right = 0, wrong = 0;
	uint64_t random = 3;
	(void)unused;
	for (int n = 0; n < 1500; n++) {
		fixture_afresh(&setup, &program, &random);
		int32_t size = 4 + (int32_t)fixture_random(&random, 60);
		fixture_random_program(&program, &random, size, fixture_random(&random, 3) > 0);
		assert_int_equal(zr_order(&setup, &program, NULL), 0);
		for (uint32_t cuts = fixture_random(&random, 3); cuts > 0; cuts--) {
			int32_t j = (int32_t)fixture_random(&random, (uint32_t)program.n);
			uint32_t waits_for = (uint32_t)program.instr[j].n_after;
			if (waits_for)
				fixture_take(&program, j,
					     (int32_t)fixture_random(&random, waits_for));
		}
		setup.facts.tier[0].max_inflight += fixture_random(&random, 8) ? 0 : 1;
		int is = fixture_right(&setup, &program);
		struct zr_error err = { 0 };
		if ((zr_verify(&setup, &program, &err) == 0) != is || !names_a_conflict(err.text))
			fail_msg("program %d is %s: %s", n, is ? "right" : "wrong", err.text);
		right += is;
		wrong += !is;
	}
	printf("# %d right programs, %d wrong ones\n", right, wrong);
	assert_true(right > 300 && wrong > 300);
}

/* Dependencies that nobody has thought about: many, at random. */
static void verify_agrees_on_random_dependencies(void **unused)
{
	int right = 0, wrong = 0;
	uint64_t random = 4;
	(void)unused;
	for (int n = 0; n < 1500; n++) {
		struct zr_lowered all = { 0 };
		int32_t size = 3 + (int32_t)fixture_random(&random, 20);
		fixture_setup(&setup, FIXTURE_BYTES, fixture_random(&random, 4));
		fixture_random_program(&all, &random, size, 1);
		uint32_t some = 2 + fixture_random(&random, 8);
		for (int32_t j = 0; j < all.n; j++) {
			all.instr[j].after = all.n_dep;
			struct zr_lowered tail = all;
			tail.n = j + 1;
			for (int32_t i = 0; i < j; i++)
				if (fixture_random(&random, 10) < some)
					fixture_depend(&tail, i);
			all.dep = tail.dep;
			all.n_dep = tail.n_dep;
			all.cap_dep = tail.cap_dep;
		}
		int is = fixture_right(&setup, &all);
		assert_int_equal(zr_verify(&setup, &all, NULL) == 0, is);
		right += is;
		wrong += !is;
		fixture_free(&all);
	}
	printf("# %d right programs, %d wrong ones\n", right, wrong);
	assert_true(right > 100 && wrong > 100);
}

/* ---- size ---- */

static void two(int kind, int queue, int32_t from, uint64_t from_at, int32_t to, uint64_t to_at,
		uint64_t bytes)
{
	fixture_add(&program, kind, queue);
	fixture_touch(&program, R, from, ZR_MINE, from_at, bytes);
	fixture_touch(&program, W, to, ZR_MINE, to_at, bytes);
}

/* A layer: parts of its parameters come from a store and from other ranks, activations leave and
 * return, gradients go. */
static void layer(uint64_t l, int parts, int backward)
{
	uint64_t size = 1024, whole = size * (uint64_t)parts, at = l * whole, set = l % 3 * whole;
	for (int k = 0; k < parts; k++) {
		uint64_t part = (uint64_t)k * size;
		two(ZR_I_READ, ZR_Q_STORE, ZR_R_STATE, at + part, ZR_R_BOUNCE, set + part, size);
		two(ZR_I_COLLECTIVE, ZR_Q_COMM, ZR_R_BOUNCE, set + part, ZR_R_HOST_COMM, set + part,
		    size);
		two(ZR_I_COPY, ZR_Q_COPY, ZR_R_HOST_COMM, set + part, ZR_R_GATHER, set + part,
		    size);
	}
	if (backward)
		two(ZR_I_READ, ZR_Q_STORE, ZR_R_ACT_OFFLOADED, l * 4096, ZR_R_ACT, l % 4 * 4096,
		    4096);
	fixture_add(&program, ZR_I_LAYER, ZR_Q_COMPUTE);
	fixture_touch(&program, R, ZR_R_GATHER, ZR_MINE, set, whole);
	fixture_touch(&program, backward ? R : W, ZR_R_ACT, ZR_MINE, l % 4 * 4096, 4096);
	if (backward)
		fixture_touch(&program, W, ZR_R_GRAD_BUFFER, ZR_MINE, set, whole);
	else
		two(ZR_I_WRITE, ZR_Q_STORE, ZR_R_ACT, l % 4 * 4096, ZR_R_ACT_OFFLOADED, l * 4096,
		    4096);
	for (int k = 0; backward && k < parts; k++) {
		uint64_t part = (uint64_t)k * size;
		two(ZR_I_COLLECTIVE, ZR_Q_COMM, ZR_R_GRAD_BUFFER, set + part, ZR_R_COMM, set + part,
		    size);
		two(ZR_I_ACCUMULATE, ZR_Q_HOST, ZR_R_COMM, set + part, ZR_R_GRAD, at + part, size);
		two(ZR_I_WRITE, ZR_Q_STORE, ZR_R_GRAD, at + part, ZR_R_STATE, at + part, size);
	}
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void thousand_layers(void **unused)
{
	(void)unused;
	fixture_setup(&setup, 1u << 30, 4);
	setup.facts.tier[ZR_STORE_ACTIVATION - ZR_STORE_OPTIMIZER].max_inflight = 2;
	for (uint64_t l = 0; l < 1000; l++)
		layer(l, 5, 0);
	for (uint64_t l = 1000; l-- > 0;)
		layer(l, 5, 1);
	double t0 = seconds();
	assert_int_equal(zr_order(&setup, &program, NULL), 0);
	double t1 = seconds();
	struct zr_error err = { 0 };
	if (zr_verify(&setup, &program, &err))
		fail_msg("%s", err.text);
	printf("# %d instructions, %d operands, %d dependencies: ordered in %.3f s, verified in "
	       "%.3f s\n",
	       program.n, program.n_operand, program.n_dep, t1 - t0, seconds() - t1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(read_after_write, fresh),
		cmocka_unit_test_setup(write_after_read, fresh),
		cmocka_unit_test_setup(write_after_write, fresh),
		cmocka_unit_test_setup(partial_overlap, fresh),
		cmocka_unit_test_setup(queues_in_order, fresh),
		cmocka_unit_test_setup(chains, fresh),
		cmocka_unit_test_setup(operands_of_one, fresh),
		cmocka_unit_test_setup(others_memory, fresh),
		cmocka_unit_test_setup(requests, fresh),
		cmocka_unit_test_setup(refuses_unordered, fresh),
		cmocka_unit_test_setup(refuses_unwritten, fresh),
		cmocka_unit_test_setup(refuses_what_a_buffer_did_not_write, fresh),
		cmocka_unit_test_setup(copies_start_after_marks, fresh),
		cmocka_unit_test_setup(refuses_strange, fresh),
		cmocka_unit_test_setup(all_orders_compute_the_same, fresh),
		cmocka_unit_test_setup(every_dependency_counts, fresh),
		cmocka_unit_test_setup(verify_agrees_with_brute_force, fresh),
		cmocka_unit_test_setup(verify_agrees_on_random_dependencies, fresh),
		cmocka_unit_test_setup(thousand_layers, fresh),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, fresh);
}
