/* SPDX-License-Identifier: Apache-2.0
 *
 * t_comm.c - comm/local against a reference: every kind, over the world and over nodes, in and out
 * of place, in memory of every sort. How it fails is in t_comm_fail.c.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/sanitize.h"
#include "comm_fixture.h"

#define SEGMENTS 5

static const int worlds[] = { 1, 2, 3, 4, 6 };
static const int64_t counts[SEGMENTS] = { 5, 0, 4099, 20001, 1 };

static void run(const struct fixture *fixture, void (*fn)(struct rank *))
{
	if (fixture_run(fixture, fn, -1))
		fail_msg("%s", fixture_failure());
}

/* Runs fn as threads and as processes, for every world. */
static void everywhere(struct fixture fixture, void (*fn)(struct rank *))
{
	fixture.plugin = "comm/local";
	for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
		for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++) {
			fixture.world = worlds[i];
			run(&fixture, fn);
		}
}

/* ---- every kind against the reference ---- */

struct buffers {
	char *memory; /* all of them */
	uint64_t bytes;
	struct zr_comm_seg seg[SEGMENTS];
};

struct spec {
	int kind, group, dtype, in_place, shared; /* shared: memory of mem_alloc */
	int32_t root;
	const int64_t *count;
	int n;
};

static int group_size(const struct rank *r, int group)
{
	return group == ZR_GROUP_SELF ? 1 : group == ZR_GROUP_NODE ? r->per_node : r->world;
}

static int group_first(const struct rank *r, int group)
{
	return group == ZR_GROUP_SELF ? r->rank :
	       group == ZR_GROUP_NODE ? r->rank / r->per_node * r->per_node :
					0;
}

static int64_t many(const struct spec *s, int ranks, int sent)
{
	int wide = s->kind == ZR_COMM_ALL_TO_ALL ||
		   s->kind == (sent ? ZR_COMM_REDUCE_SCATTER : ZR_COMM_ALL_GATHER);
	return wide ? ranks : 1;
}

static void lay(struct rank *r, const struct spec *s, struct buffers *b)
{
	int n = group_size(r, s->group), me = r->rank - group_first(r, s->group);
	uint64_t esz = fixture_esz(s->dtype), total = 64;
	for (int i = 0; i < s->n; i++)
		total += ((uint64_t)s->count[i] * esz * (uint64_t)n + 64) * 2;
	void *m = NULL;
	if (s->shared)
		CHECK(r, r->v->mem_alloc(r->c, total, &m) == 0);
	else
		m = malloc(total);
	if (!m)
		abort();
	b->memory = m;
	b->bytes = total;
	memset(b->memory, 0xa5, total);
	uint64_t at = esz; /* not aligned to anything better than elements */
	for (int i = 0; i < s->n; i++) {
		uint64_t send = (uint64_t)(s->count[i] * many(s, n, 1)) * esz,
			 recv = (uint64_t)(s->count[i] * many(s, n, 0)) * esz;
		char *p = b->memory + at, *q = p + send;
		uint64_t own = (uint64_t)s->count[i] * (uint64_t)me * esz;
		if (s->in_place && s->kind == ZR_COMM_ALL_GATHER)
			q = p, p = q + own;
		else if (s->in_place && s->kind == ZR_COMM_REDUCE_SCATTER)
			q = p + own;
		else if (s->in_place)
			q = p;
		b->seg[i] = (struct zr_comm_seg){ p, q, s->count[i] };
		fixture_fill(p, s->dtype, r->rank, i, 0, s->count[i] * many(s, n, 1));
		at += send + recv + esz;
	}
}

static void free_buffers(struct rank *r, const struct spec *s, struct buffers *b)
{
	if (s->shared)
		r->v->mem_free(r->c, b->memory);
	else
		free(b->memory);
}

#define ADD(T)                                                                                     \
	for (int64_t k = 0; k < n; k++)                                                            \
		((T *)acc)[k] = ((T *)acc)[k] + ((const T *)x)[k];

static void add(int dtype, void *acc, const void *x, int64_t n)
{
	if (dtype == ZR_F32)
		ADD(float)
	else if (dtype == ZR_F64)
		ADD(double)
	else
		ADD(uint64_t)
}

/* What segment i must hold after the operation. */
static void expect(struct rank *r, const struct spec *s, int i, char *want)
{
	int n = group_size(r, s->group), first = group_first(r, s->group), me = r->rank - first;
	int64_t count = s->count[i];
	uint64_t bytes = (uint64_t)count * fixture_esz(s->dtype);
	char *x = malloc(bytes + 1);
	if (!x)
		abort();
	for (int k = 0; k < n; k++) {
		int64_t from = s->kind == ZR_COMM_REDUCE_SCATTER || s->kind == ZR_COMM_ALL_TO_ALL ?
				       me * count :
				       0;
		fixture_fill(x, s->dtype, first + k, i, from, count);
		if (s->kind == ZR_COMM_ALL_GATHER || s->kind == ZR_COMM_ALL_TO_ALL)
			memcpy(want + (uint64_t)k * bytes, x, bytes);
		else if (s->kind == ZR_COMM_BROADCAST ? k == s->root : k == 0)
			memcpy(want, x, bytes);
		else if (s->kind != ZR_COMM_BROADCAST)
			add(s->dtype, want, x, count);
	}
	free(x);
}

/* Bytes that the operation must read from others, as comm.h and the parts of an all_reduce say. */
static uint64_t must_read(struct rank *r, const struct spec *s)
{
	int64_t n = group_size(r, s->group), me = r->rank - group_first(r, s->group), sum = 0;
	for (int i = 0; i < s->n; i++) {
		int64_t c = s->count[i], part = ((c + n - 1) / n + 15) / 16 * 16,
			left = c - me * part;
		left = left < 0 ? 0 : left < part ? left : part;
		if (s->kind == ZR_COMM_ALL_REDUCE)
			sum += (n - 1) * left + c - left;
		else
			sum += s->kind == ZR_COMM_BROADCAST ? (me == s->root ? 0 : c) : (n - 1) * c;
	}
	return n == 1 ? 0 : (uint64_t)sum * fixture_esz(s->dtype);
}

static void check_spec(struct rank *r, const struct spec *s)
{
	struct buffers b;
	int n = group_size(r, s->group);
	uint64_t sent = r->v->bytes_sent(r->c);
	lay(r, s, &b);
	struct zr_comm_op op = fixture_op(s->kind, s->group, s->dtype, b.seg, s->n);
	op.root = s->root;
	CHECK(r, fixture_do(r, &op) == 0);
	char *got = malloc(b.bytes);
	if (!got)
		abort();
	memcpy(got, b.memory, b.bytes);
	memset(b.memory, 0x5a, b.bytes); /* after wait, no peer reads it any more */
	CHECK(r, r->v->bytes_sent(r->c) - sent == must_read(r, s));
	for (int i = 0; i < s->n; i++) {
		uint64_t bytes = (uint64_t)(s->count[i] * many(s, n, 0)) * fixture_esz(s->dtype);
		char *want = calloc(1, bytes + 1);
		if (!want)
			abort();
		expect(r, s, i, want);
		CHECK(r, memcmp(want, got + ((char *)b.seg[i].recv - b.memory), bytes) == 0);
		free(want);
	}
	free(got);
	CHECK(r, fixture_barrier(r, 1, 0) == 0);
	free_buffers(r, s, &b);
}

static void kinds(struct rank *r, int group, int shared)
{
	static const int sums[] = { ZR_F32, ZR_F64, ZR_I64 }, moves[] = { ZR_U8, ZR_BF16, ZR_F32 };
	for (int kind = ZR_COMM_ALL_GATHER; kind <= ZR_COMM_ALL_TO_ALL; kind++)
		for (int d = 0; d < 3; d++)
			for (int in_place = 0; in_place <= (kind <= ZR_COMM_ALL_REDUCE);
			     in_place++) {
				int adds = kind == ZR_COMM_REDUCE_SCATTER ||
					   kind == ZR_COMM_ALL_REDUCE;
				struct spec s = { .kind = kind,
						  .group = group,
						  .dtype = adds ? sums[d] : moves[d],
						  .in_place = in_place,
						  .shared = shared,
						  .count = counts,
						  .n = SEGMENTS };
				s.root = group_size(r, group) - 1;
				check_spec(r, &s);
			}
}

static void kinds_private(struct rank *r)
{
	kinds(r, ZR_GROUP_WORLD, 0);
}

static void kinds_shared(struct rank *r)
{
	kinds(r, ZR_GROUP_WORLD, 1);
}

static void kinds_nodes(struct rank *r)
{
	kinds(r, ZR_GROUP_NODE, 0);
	kinds(r, ZR_GROUP_NODE, 1);
	kinds(r, ZR_GROUP_WORLD, 1);
	kinds(r, ZR_GROUP_SELF, 0);
}

static void every_kind_matches_the_reference(void **state)
{
	(void)state;
	everywhere((struct fixture){ .workers = 2 }, kinds_private);
}

static void every_kind_in_shared_memory(void **state)
{
	(void)state;
	everywhere((struct fixture){ 0 }, kinds_shared);
}

static void every_kind_staged(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .as = PROCESSES };
	(void)state;
	fixture.option[0][0] = "cross_read", fixture.option[0][1] = "off";
	fixture.option[1][0] = "staging", fixture.option[1][1] = "64K";
	for (fixture.world = 2; fixture.world <= 4; fixture.world++)
		run(&fixture, kinds_private);
}

static void groups_of_played_nodes(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 4, .per_node = 2 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, kinds_nodes);
}

/* Of threads or of processes more than 4 MiB: results go around the caches where none of them is a
 * source. */
static void large(struct rank *r)
{
	static const int64_t big[2][3] = { { 400003, 17, 150000 }, { 800003, 17, 300000 } };
	for (int kind = ZR_COMM_ALL_GATHER; kind <= ZR_COMM_ALL_TO_ALL; kind++)
		for (int in_place = 0; in_place <= (kind <= ZR_COMM_ALL_REDUCE); in_place++)
			for (int shared = 0; shared < 2; shared++) {
				if (sanitized() && (kind + in_place + shared) % 2)
					continue;
				struct spec s = { .kind = kind,
						  .group = ZR_GROUP_WORLD,
						  .dtype = ZR_F32,
						  .in_place = in_place,
						  .shared = shared,
						  .n = 3 };
				s.count = big[(kind + in_place + shared + r->fixture->as) % 2];
				check_spec(r, &s);
			}
}

static void large_operations_use_all_workers(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 3, .workers = 3 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, large);
}

/* ---- order of sums ---- */

static void ordered(struct rank *r)
{
	static const float x[4] = { 1e8f, 1.0f, -1e8f, 0.5f };
	float mine[2] = { x[r->rank], -0.0f }, got[2], want = x[0], zero = -0.0f;
	struct zr_comm_seg seg = { mine, got, 2 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_F32, &seg, 1);
	for (int k = 1; k < r->world; k++)
		want = want + x[k];
	CHECK(r, fixture_do(r, &op) == 0);
	CHECK(r, memcmp(&got[0], &want, 4) == 0);
	CHECK(r, memcmp(&got[1], &zero, 4) == 0);
}

static void sums_run_in_rank_order(void **state)
{
	struct fixture fixture = { .plugin = "comm/local" };
	(void)state;
	for (fixture.world = 1; fixture.world <= 4; fixture.world++)
		for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
			run(&fixture, ordered);
}

/* ---- many at once ---- */

static void outstanding(struct rank *r)
{
	enum { N = 64 };
	int64_t in[N], out[N][4], extra;
	struct zr_comm_seg seg[N], more = { in, &extra, 1 };
	zr_ticket t[N], full = 0;
	for (int i = 0; i < N; i++) {
		int node = i % 3 == 1;
		in[i] = r->rank * 100 + i;
		seg[i] = (struct zr_comm_seg){ &in[i], out[i], 1 };
		struct zr_comm_op op = fixture_op(ZR_COMM_ALL_GATHER,
						  node ? ZR_GROUP_NODE : ZR_GROUP_WORLD, ZR_I64,
						  &seg[i], 1);
		op.tag.op = i;
		CHECK(r, r->v->post(r->c, &op, &t[i]) == 0);
	}
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_I64, &more, 1);
	CHECK(r, r->v->post(r->c, &op, &full) == ZR_EAGAIN);
	for (int k = 0; k < N; k++) {
		int i = r->rank & 1 ? k : N - 1 - k; /* ranks may wait in different orders */
		int node = i % 3 == 1, n = node ? r->per_node : r->world,
		    first = node ? r->rank / r->per_node * r->per_node : 0;
		CHECK(r, r->v->wait(r->c, t[i]) == 0);
		for (int j = 0; j < n; j++)
			CHECK(r, out[i][j] == (first + j) * 100 + i);
	}
	CHECK(r, fixture_do(r, &op) == 0 && extra == 600);
}

static void full_ring_says_again_and_tickets_wait_in_any_order(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 4, .per_node = 2 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, outstanding);
}

static void tested(struct rank *r)
{
	int64_t x = r->rank + 1, sum = 0;
	struct zr_comm_seg seg = { &x, &sum, 1 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_I64, &seg, 1);
	zr_ticket t;
	int rc = 0;
	if (r->rank == 1)
		fixture_meet(r->world); /* all others have looked once */
	CHECK(r, r->v->post(r->c, &op, &t) == 0);
	if (r->rank != 1) {
		CHECK(r, r->v->test(r->c, t) == 0);
		fixture_meet(r->world);
	}
	while (rc == 0) {
		rc = r->v->test(r->c, t);
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
	}
	CHECK(r, rc == 1 && sum == 6);
	CHECK(r, r->v->wait(r->c, t) == 0);
	CHECK(r, r->v->wait(r->c, t) == ZR_ESTATE);
	CHECK(r, r->v->test(r->c, 0) == 1 && r->v->wait(r->c, 0) == 0);
}

static void test_never_blocks_and_completes(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 3 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, tested);
}

static void flood(struct rank *r)
{
	static struct zr_comm_seg none[4096];
	struct zr_comm_op op = fixture_op(ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, none, 4096);
	for (int i = 0; i < 40; i++)
		CHECK(r, fixture_do(r, &op) == 0);
	for (int i = 0; i < 1000; i++)
		CHECK(r, fixture_barrier(r, i, 0) == 0);
}

static void long_lists_and_many_fences_reuse_the_ring(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 3 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, flood);
}

/* Rank 1 executes what rank 0 has only posted, which must not take that for room in its ring. */
static void unhurried(struct rank *r)
{
	enum { N = 64, BYTES = 8192 };
	static char in[N][BYTES], out[N][2][BYTES];
	struct zr_comm_seg seg[N];
	zr_ticket t[N] = { 0 };
	int64_t one[2] = { r->rank };
	struct zr_comm_seg small = { one, one, 1 };
	struct zr_comm_op first = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_I64, &small, 1);
	CHECK(r, fixture_do(r, &first) == 0); /* the last one does not fit behind the others */
	for (int i = 0; i < N; i++) {
		memset(in[i], r->rank * N + i, BYTES);
		seg[i] = (struct zr_comm_seg){ in[i], out[i], BYTES };
		struct zr_comm_op op =
			fixture_op(ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_U8, &seg[i], 1);
		op.tag.op = i + 1;
		if (i == N - 1) {
			if (r->rank == 1)
				for (int k = 0; k < i; k++)
					CHECK(r, r->v->wait(r->c, t[k]) == 0);
			fixture_meet(r->world);
		}
		int rc = r->v->post(r->c, &op, &t[i]);
		for (int k = 0; rc == ZR_EAGAIN && r->rank == 0 && k < i; k++, t[k - 1] = 0)
			CHECK(r, r->v->wait(r->c, t[k]) == 0);
		rc = rc == ZR_EAGAIN ? r->v->post(r->c, &op, &t[i]) : rc;
		CHECK(r, rc == 0);
	}
	for (int i = r->rank ? N - 1 : 0; i < N; i++)
		CHECK(r, r->v->wait(r->c, t[i]) == 0);
	for (int i = 0; i < N; i++)
		CHECK(r, out[i][0][0] == (char)i && out[i][1][BYTES - 1] == (char)(N + i));
}

static void a_rank_that_has_not_executed_keeps_its_data(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 2, .as = PROCESSES };
	(void)state;
	run(&fixture, unhurried);
}

/* Four such lists fill the ring to the last segment: one more would overwrite what a peer has yet
 * to read. */
static void filled(struct rank *r)
{
	static struct zr_comm_seg none[4096];
	struct zr_comm_op op = fixture_op(ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, none, 4096);
	struct zr_comm_op more = fixture_op(ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, none, 1);
	for (int round = 0; round < 3; round++) {
		zr_ticket t[4], refused;
		for (int i = 0; i < 4; i++)
			CHECK(r, r->v->post(r->c, &op, &t[i]) == 0);
		int rc = r->v->post(r->c, &more, &refused);
		CHECK(r, rc == ZR_EAGAIN);
		if (rc != ZR_EAGAIN)
			return; /* so do all: nobody has executed any of them */
		fixture_meet((2 * round + 1) * r->world);
		for (int i = 0; i < 4; i++)
			CHECK(r, r->v->wait(r->c, t[i]) == 0);
		CHECK(r, fixture_do(r, &more) == 0); /* the next round begins at another segment */
		fixture_meet((2 * round + 2) * r->world);
	}
}

static void segments_fill_the_ring_to_the_last(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 3 };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, filled);
}

/* A program that all ranks derive from the same numbers: kinds, groups, sizes and waits in any
 * order. */
static void random_program(struct rank *r)
{
	unsigned seed = 7, pace = (unsigned)r->rank + 1;
	for (int step = 0; step < 60; step++) {
		int64_t count = rand_r(&seed) % 3000;
		int pick = rand_r(&seed) % 5,
		    group = rand_r(&seed) % 2 ? ZR_GROUP_WORLD : ZR_GROUP_NODE;
		int at = rand_r(&seed) % 2;
		struct spec s = { .kind = pick + 1,
				  .group = group,
				  .dtype = ZR_F32,
				  .in_place = at && pick < 3,
				  .count = &count,
				  .n = 1 };
		if (rand_r(&pace) % 4 == 0)
			nanosleep(&(struct timespec){ 0, rand_r(&pace) % 300000 }, NULL);
		check_spec(r, &s);
	}
}

static void random_programs_agree(void **state)
{
	struct fixture fixture = {
		.plugin = "comm/local", .world = 4, .per_node = 2, .workers = 2
	};
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, random_program);
}

/* ---- shared memory ---- */

static void peers(struct rank *r)
{
	enum { N = 100000 };
	int me = r->rank % r->per_node, first = r->rank - me;
	void *m = NULL, *second = NULL;
	CHECK(r, r->v->mem_alloc(r->c, N * sizeof(float), &m) == 0);
	CHECK(r, r->v->mem_alloc(r->c, 100, &second) == 0);
	float *mine = m;
	CHECK(r, mine && mine[0] == 0 && mine[N - 1] == 0);
	for (int round = 1; mine && round < 4; round++) {
		for (int i = 0; i < N; i++)
			mine[i] = (float)(r->rank * 1000 + round);
		struct zr_comm_seg seg = { mine, NULL, N };
		struct zr_comm_op op = fixture_op(ZR_COMM_FENCE, ZR_GROUP_NODE, ZR_F32, &seg, 1);
		CHECK(r, fixture_do(r, &op) == 0);
		for (int k = 0; k < r->per_node; k++) {
			const float *theirs = r->v->mem_peer(r->c, mine + 5, ZR_GROUP_NODE, k);
			CHECK(r, theirs && theirs[0] == (float)((first + k) * 1000 + round) &&
					 theirs[N - 6] == theirs[0]);
		}
		CHECK(r, fixture_do(r, &op) == 0);
	}
	CHECK(r, r->v->mem_peer(r->c, mine, ZR_GROUP_NODE, me) == m);
	CHECK(r, r->v->mem_peer(r->c, mine, ZR_GROUP_SELF, 0) == m);
	CHECK(r, r->v->mem_peer(r->c, mine, ZR_GROUP_WORLD, r->rank) == m);
	CHECK(r, r->v->mem_peer(r->c, &r, ZR_GROUP_NODE, me) == NULL);
	int other = (r->rank + r->per_node) % r->world; /* of another node, if there is one */
	CHECK(r, (r->v->mem_peer(r->c, mine, ZR_GROUP_WORLD, other) == NULL) ==
			 (r->per_node < r->world));
	CHECK(r, r->v->bytes_sent(r->c) == 0);
	r->v->mem_free(r->c, m);
	CHECK(r, r->v->mem_peer(r->c, second, ZR_GROUP_NODE, 0) != NULL);
}

static void peers_see_what_was_written_before_the_fence(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 4, .per_node = 2 };
	(void)state;
	everywhere((struct fixture){ 0 }, peers);
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++)
		run(&fixture, peers);
}

static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static int maps_of_ours(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;
	while (f && fgets(line, sizeof line, f))
		n += strstr(line, "memfd:zeroth") != NULL;
	fclose(f);
	return n;
}

static void nothing_is_left_behind(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 4, .as = THREADS };
	(void)state;
	int before = count_descriptors();
	run(&fixture, kinds_shared);
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(maps_of_ours(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_matches_the_reference),
		cmocka_unit_test(every_kind_in_shared_memory),
		cmocka_unit_test(every_kind_staged),
		cmocka_unit_test(groups_of_played_nodes),
		cmocka_unit_test(large_operations_use_all_workers),
		cmocka_unit_test(sums_run_in_rank_order),
		cmocka_unit_test(full_ring_says_again_and_tickets_wait_in_any_order),
		cmocka_unit_test(test_never_blocks_and_completes),
		cmocka_unit_test(long_lists_and_many_fences_reuse_the_ring),
		cmocka_unit_test(a_rank_that_has_not_executed_keeps_its_data),
		cmocka_unit_test(segments_fill_the_ring_to_the_last),
		cmocka_unit_test(random_programs_agree),
		cmocka_unit_test(peers_see_what_was_written_before_the_fence),
		cmocka_unit_test(nothing_is_left_behind),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
