/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_mpi.c - one rank of comm/mpi under mpirun, or of COMM and BOOT, plugins of these roles;
 * mpi.sh and tcp.sh run several. `kinds` compares every kind of operation with a reference on each
 * rank and ends with 0 if all agree. The others are ways to fail: each rank prints the reason it
 * got. A third argument is the value of the option sums. `device` compares what a plugin does with
 * memory of a GPU: see tests/doubles/nccl/.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "comm_fixture.h"

#define SEGMENTS 4

static struct zr_inst *boot;
static const struct zr_boot_v1 *boot_v;
static const struct zr_desc *boot_desc, *comm_desc;
static void *boot_opts, *comm_opts;
static int bad, mpi_adds, on_device;

static void expect(struct rank *r, int good, const char *what)
{
	if (!good)
		fprintf(stderr, "rank %d: %s (%s)\n", r->rank, what, test_error(r->h));
	bad |= !good;
}

/* ---- kinds ---- */

struct spec {
	int kind, group, dtype, in_place;
};

static int wide(int kind, int sent)
{
	return kind == ZR_COMM_ALL_TO_ALL ||
	       kind == (sent ? ZR_COMM_REDUCE_SCATTER : ZR_COMM_ALL_GATHER);
}

static void add(int dtype, void *acc, const void *x, int64_t n)
{
	for (int64_t k = 0; k < n; k++) {
		if (dtype == ZR_F32)
			((float *)acc)[k] = ((float *)acc)[k] + ((const float *)x)[k];
		else if (dtype == ZR_F64)
			((double *)acc)[k] = ((double *)acc)[k] + ((const double *)x)[k];
		else
			((uint64_t *)acc)[k] += ((const uint64_t *)x)[k];
	}
}

/* What the segment must hold after the operation, in want; x is room for count elements. */
static void reference(const struct spec *s, int i, int64_t count, int n, int first, int me,
		      char *want, char *x)
{
	uint64_t bytes = (uint64_t)count * fixture_esz(s->dtype);
	for (int k = 0; k < n; k++) {
		fixture_fill(x, s->dtype, first + k, i, wide(s->kind, 1) ? me * count : 0, count);
		if (wide(s->kind, 0))
			memcpy(want + (uint64_t)k * bytes, x, bytes);
		else if (s->kind == ZR_COMM_BROADCAST ? k == n - 1 : k == 0)
			memcpy(want, x, bytes);
		else if (s->kind != ZR_COMM_BROADCAST)
			add(s->dtype, want, x, count);
	}
}

/* In whichever order R numbers are added, the sum is less than (R - 1) half units in the last place
 * of the sum of their sizes away from the exact one. */
static int is_near(const struct spec *s, int i, int64_t count, int n, int first, int me,
		   const char *want, const char *got, char *x)
{
	double half = s->dtype == ZR_F32 ? 0x1p-24 : 0x1p-53,
	       *sizes = calloc((size_t)count + 1, sizeof *sizes);
	int near = 1;
	for (int k = 0; k < n; k++) {
		fixture_fill(x, s->dtype, first + k, i, me * count, count);
		for (int64_t j = 0; j < count; j++)
			sizes[j] += fabs(s->dtype == ZR_F32 ? (double)((float *)x)[j] :
							      ((double *)x)[j]);
	}
	for (int64_t j = 0; j < count; j++) {
		double a = s->dtype == ZR_F32 ? (double)((const float *)want)[j] :
						((const double *)want)[j];
		double b = s->dtype == ZR_F32 ? (double)((const float *)got)[j] :
						((const double *)got)[j];
		near &= fabs(a - b) <= 2 * (n - 1) * half * sizes[j];
	}
	free(sizes);
	return near;
}

/* Bytes that others must send, as comm/local counts them. */
static uint64_t must_receive(int kind, int64_t c, int n, int me, uint64_t esz)
{
	int64_t part = ((c + n - 1) / n + 15) / 16 * 16, own = c - me * part;
	own = own < 0 ? 0 : own < part ? own : part;
	if (n == 1)
		return 0;
	if (kind == ZR_COMM_ALL_REDUCE)
		return (uint64_t)((n - 1) * own + c - own) * esz;
	return (uint64_t)(kind == ZR_COMM_BROADCAST ? (me == n - 1 ? 0 : c) : (n - 1) * c) * esz;
}

static void one_kind(struct rank *r, const struct spec *s)
{
	static const int64_t counts[SEGMENTS] = { 5, 0, 40009, 1 };
	int n = s->group == ZR_GROUP_NODE ? r->per_node : r->world,
	    first = s->group == ZR_GROUP_NODE ? r->rank / n * n : 0;
	int me = r->rank - first;
	struct zr_comm_seg seg[SEGMENTS];
	char *memory[SEGMENTS];
	uint64_t esz = fixture_esz(s->dtype), before = r->v->bytes_sent(r->c), want_bytes = 0;
	for (int i = 0; i < SEGMENTS; i++) {
		uint64_t all = (uint64_t)counts[i] * esz * (uint64_t)n,
			 own = (uint64_t)counts[i] * esz * (uint64_t)me;
		char *p = memory[i] = malloc(2 * all + 64), *q = p + all + esz;
		if (s->in_place)
			q = p;
		seg[i] = (struct zr_comm_seg){
			s->in_place && s->kind == ZR_COMM_ALL_GATHER ? p + own : p,
			s->in_place && s->kind == ZR_COMM_REDUCE_SCATTER ? p + own : q, counts[i]
		};
		fixture_fill((void *)(uintptr_t)seg[i].send, s->dtype, r->rank, i, 0,
			     counts[i] * (wide(s->kind, 1) ? n : 1));
		want_bytes += must_receive(s->kind, counts[i], n, me, esz);
	}
	struct zr_comm_op op = fixture_op(s->kind, s->group, s->dtype, seg, SEGMENTS);
	op.root = n - 1;
	expect(r, fixture_do(r, &op) == 0, "the operation");
	expect(r, r->v->bytes_sent(r->c) - before == want_bytes, "bytes received");
	for (int i = 0; i < SEGMENTS; i++) {
		uint64_t bytes = (uint64_t)counts[i] * esz;
		char *want = calloc(1, bytes * (uint64_t)n + 8), *x = malloc(bytes + 8);
		reference(s, i, counts[i], n, first, me, want, x);
		if (mpi_adds && s->kind == ZR_COMM_REDUCE_SCATTER && s->dtype != ZR_I64)
			expect(r, is_near(s, i, counts[i], n, first, me, want, seg[i].recv, x),
			       "a sum by MPI");
		else
			expect(r,
			       !memcmp(want, seg[i].recv,
				       bytes * (wide(s->kind, 0) ? (uint64_t)n : 1)),
			       "a result");
		free(want);
		free(x);
		free(memory[i]);
	}
}

static void kinds(struct rank *r)
{
	/* no GPU adds fp64 in order */
	const int sums[] = { ZR_F32, on_device ? ZR_F32 : ZR_F64, ZR_I64 };
	static const int moves[] = { ZR_U8, ZR_BF16, ZR_F32 };
	for (int group = ZR_GROUP_NODE; group <= ZR_GROUP_WORLD; group++)
		for (int kind = ZR_COMM_ALL_GATHER; kind <= ZR_COMM_ALL_TO_ALL; kind++)
			for (int d = 0; d < 3; d++)
				for (int at = 0; at <= (kind <= ZR_COMM_ALL_REDUCE); at++) {
					int adds = kind == ZR_COMM_REDUCE_SCATTER ||
						   kind == ZR_COMM_ALL_REDUCE;
					struct spec s = { kind, group, adds ? sums[d] : moves[d],
							  at };
					one_kind(r, &s);
				}
}

/* All tickets at once, waited for in another order on odd ranks; the sums need a second exchange
 * each. */
static void many(struct rank *r)
{
	enum { N = 64 };
	int64_t in[N], out[N], want;
	struct zr_comm_seg seg[N];
	zr_ticket t[N + 1];
	struct zr_comm_op op;
	for (int i = 0; i < N; i++) {
		in[i] = r->rank * 1000 + i;
		seg[i] = (struct zr_comm_seg){ &in[i], &out[i], 1 };
		op = fixture_op(ZR_COMM_ALL_REDUCE, i % 3 == 1 ? ZR_GROUP_NODE : ZR_GROUP_WORLD,
				ZR_I64, &seg[i], 1);
		op.tag.op = i;
		expect(r, r->v->post(r->c, &op, &t[i]) == 0, "post");
	}
	expect(r, r->v->post(r->c, &op, &t[N]) == ZR_EAGAIN, "a full window says again");
	for (int k = 0; k < N; k++) {
		int i = r->rank & 1 ? k : N - 1 - k, n = i % 3 == 1 ? r->per_node : r->world;
		int first = i % 3 == 1 ? r->rank / n * n : 0;
		expect(r, r->v->wait(r->c, t[i]) == 0, "wait");
		for (want = 0, n += first; n > first; n--)
			want += (n - 1) * 1000 + i;
		expect(r, out[i] == want, "a sum");
	}
	expect(r, r->v->wait(r->c, t[0]) == ZR_ESTATE, "a ticket is waited for once");
	struct zr_comm_seg wrong = { in, in + 1, 4 };
	op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_BF16, &wrong, 1);
	expect(r, r->v->post(r->c, &op, &t[0]) == ZR_ENOTSUP, "sums of bf16 are refused");
	op.dtype = ZR_I64;
	expect(r, r->v->post(r->c, &op, &t[0]) == ZR_EINVAL, "overlapping buffers are refused");
}

/* Reduce_scatters of many pieces, over both groups, beside an all_reduce; waited for in another
 * order on odd ranks. */
static void pieces(struct rank *r)
{
	enum { N = 5, COUNT = 700001 };
	struct zr_comm_seg seg[N][3];
	zr_ticket t[N];
	for (int i = 0; i < N; i++) {
		struct zr_comm_op op =
			fixture_op(i == 2 ? ZR_COMM_ALL_REDUCE : ZR_COMM_REDUCE_SCATTER,
				   i == 1 ? ZR_GROUP_NODE : ZR_GROUP_WORLD, ZR_F32, seg[i], 3);
		int n = i == 1 ? r->per_node : r->world;
		op.tag.op = i;
		for (int k = 0; k < 3; k++) { /* the second one is empty */
			int64_t count = k == 1 ? 0 : i == 2 ? 5 : COUNT + k * 20000;
			seg[i][k] = (struct zr_comm_seg){ malloc((size_t)(n * count) * 4 + 4),
							  malloc((size_t)count * 4 + 4), count };
			fixture_fill((void *)(uintptr_t)seg[i][k].send, ZR_F32, r->rank, i * 3 + k,
				     0, i == 2 ? count : n * count);
		}
		expect(r, r->v->post(r->c, &op, &t[i]) == 0, "post");
	}
	for (int k = 0; k < N; k++) {
		int i = r->rank & 1 ? k : N - 1 - k, n = i == 1 ? r->per_node : r->world,
		    first = i == 1 ? r->rank / n * n : 0;
		struct spec s = { i == 2 ? ZR_COMM_ALL_REDUCE : ZR_COMM_REDUCE_SCATTER, 0, ZR_F32,
				  0 };
		expect(r, r->v->wait(r->c, t[i]) == 0, "wait");
		for (int j = 0; j < 3; j++) {
			const struct zr_comm_seg *g = &seg[i][j];
			char *want = calloc((size_t)g->count + 1, 4),
			     *x = malloc((size_t)g->count * 4 + 4);
			reference(&s, i * 3 + j, g->count, n, first, r->rank - first, want, x);
			expect(r, !memcmp(want, g->recv, (size_t)g->count * 4), "a sum of pieces");
			free(want);
			free(x);
			free((void *)(uintptr_t)g->send);
			free(g->recv);
		}
	}
}

/* Exchanges over the world and the node, of which rank r of the world waits in another order. */
static void exchanges(struct rank *r)
{
	int32_t all[16], pair[16], n = 0;
	for (int32_t k = 0; k < r->world; k++)
		all[k] = k;
	for (int32_t k = r->rank % 2; k < r->world; k += 2)
		pair[n++] = k;
	expect(r, fixture_group(r, ZR_GROUP_EXPERT, pair, n) == 0, "a group of listed ranks");
	for (int round = 0; round < 12; round++) {
		const char *why = fixture_exchange(r, ZR_GROUP_WORLD, all, r->world, round);
		expect(r, !why, why);
		why = fixture_exchange(r, ZR_GROUP_EXPERT, pair, n, round);
		expect(r, !why, why);
	}
}

/* Two exchanges at once and an all-gather behind them, waited for in another order on each rank;
 * rank 0 has waited for the first one when it posts the all-gather. */
static void exchanges_at_once(struct rank *r)
{
	enum { MOST = 16 };
	int64_t ones[MOST], sent[2][MOST], got[2][MOST], all[MOST], own = 7 * r->rank;
	const struct zr_comm_seg seg = { &own, all, 1 };
	const struct zr_comm_op op =
		fixture_op(ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_I64, &seg, 1);
	zr_ticket t[3] = { 0, 0, 0 };
	for (int k = 0; k < MOST; k++)
		ones[k] = 1;
	for (int i = 0; i < 2; i++) {
		struct zr_comm_exchange x = { .size = sizeof x,
					      .group = ZR_GROUP_WORLD,
					      .dtype = ZR_I64,
					      .send = sent[i],
					      .recv = got[i],
					      .send_count = ones,
					      .recv_count = ones,
					      .tag = { 4, i, -1 } };
		for (int k = 0; k < r->world; k++)
			sent[i][k] = 1000 * i + 100 * r->rank + k;
		expect(r, r->v->exchange(r->c, &x, &t[i]) == 0, "exchange");
	}

	if (!r->rank)
		expect(r, r->v->wait(r->c, t[0]) == 0, "wait");
	expect(r, r->v->post(r->c, &op, &t[2]) == 0, "post");
	for (int i = !r->rank; i < 3; i++)
		expect(r, r->v->wait(r->c, t[(i + r->rank) % 3]) == 0, "wait");
	for (int k = 0; k < r->world; k++)
		expect(r, all[k] == 7 * k, "what was gathered behind an exchange");
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < r->world; k++)
			expect(r, got[i][k] == 1000 * i + 100 * k + r->rank, "what was exchanged");
}

/* Values through boot. */
static void values(struct rank *r)
{
	char key[32], big[4096], got[4096];
	memset(big, 'a' + r->rank, sizeof big);
	snprintf(key, sizeof key, "big %d", r->rank);
	expect(r, boot_v->put(boot, key, big, sizeof big) == 0, "put");
	expect(r, boot_v->put(boot, key, big, sizeof big) == ZR_ESTATE,
	       "put of a key that is there");
	expect(r, boot_v->fence(boot, 30) == 0, "fence");
	for (int k = 0; k < r->world; k++) {
		snprintf(key, sizeof key, "big %d", k);
		expect(r, boot_v->get(boot, key, got, sizeof got, 0) == 0 && got[4095] == 'a' + k,
		       "get after a fence");
	}
	expect(r, boot_v->get(boot, "late", got, 1, 0.05) == ZR_EPEER, "get of nothing");

	expect(r, boot_v->fence(boot, 30) == 0, "fence after a get that was given up");

	/* it comes while others ask for nothing, and answers nothing but a get of its own */
	nanosleep(&(struct timespec){ 0, r->rank ? 200000000 : 0 }, NULL);
	if (r->rank == 0)
		expect(r, boot_v->put(boot, "late", "x", 1) == 0, "put of what others gave up");
	expect(r, boot_v->fence(boot, 30) == 0, "fence after what came late");
	expect(r, boot_v->get(boot, "big 0", got, sizeof got, 30) == 0 && got[0] == 'a',
	       "get after one that was given up");
	expect(r, boot_v->get(boot, "late", got, 1, 30) == 0 && *got == 'x', "late get");
}

static void all_kinds(struct rank *r)
{
	kinds(r);
	many(r);
	if (r->v->exchange) {
		exchanges(r);
		exchanges_at_once(r);
	}
	if (!mpi_adds)
		pieces(r);
	values(r);
}

static void device(struct rank *r)
{
	kinds(r);
	many(r);
	exchanges(r);
	exchanges_at_once(r);
	if (!mpi_adds)
		pieces(r);
}

/* ---- failures ---- */

static void differ(struct rank *r)
{
	float x[64] = { 0 };
	struct zr_comm_seg seg = { x, x + 32, r->rank == 1 ? 6 : 5 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_F32, &seg, 1);
	fixture_barrier(r, 1, 0);
	bad = fixture_do(r, &op) != ZR_EPEER;
	bad |= fixture_barrier(r, 1, 3) != ZR_EPEER; /* and so does everything later */
}

/* Rank 2 expects of rank 0 one byte more than comes. */
static void counts(struct rank *r)
{
	int64_t sent[] = { 5, 5, 5 }, expected[] = { r->rank == 2 ? 6 : 5, 5, 5 };
	char send[64] = { 0 }, recv[64];
	const struct zr_comm_exchange x = { .size = sizeof x,
					    .group = ZR_GROUP_WORLD,
					    .dtype = ZR_U8,
					    .send = send,
					    .recv = recv,
					    .send_count = sent,
					    .recv_count = expected,
					    .tag = { 1, 3, -1 } };
	zr_ticket t = 0;
	fixture_barrier(r, 1, 0);
	int rc = r->v->exchange(r->c, &x, &t);
	if (!rc)
		rc = r->v->wait(r->c, t);
	bad = rc != ZR_EPEER;
}

/* Rank 1 comes to a gather, and moves no more than the network takes at once. */
static void stuck(struct rank *r)
{
	const int64_t n = 32 << 20;
	char *send = calloc(1, (size_t)n), *recv = calloc(8, (size_t)n);
	const struct zr_comm_seg seg = { send, recv, n };
	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = ZR_COMM_ALL_GATHER,
				       .group = ZR_GROUP_WORLD,
				       .dtype = ZR_U8,
				       .n_seg = 1,
				       .seg = &seg,
				       .tag = { 1, 7, -1 } };
	zr_ticket t = 0;
	fixture_barrier(r, 1, 0);
	int rc = r->v->post(r->c, &op, &t);
	if (r->rank == 1)
		sleep(4);
	else if (!rc)
		rc = r->v->wait(r->c, t);
	bad = r->rank == 1 ? rc != 0 : rc != ZR_EPEER;
	free(send);
	free(recv);
}

/* Rank 1 posts another operation on memory of GPUs, which nobody compares there. */
static void before(struct rank *r)
{
	float x[64] = { 0 };
	const struct zr_comm_seg seg = { x, x + 32, 5 };
	struct zr_comm_op op = fixture_op(ZR_COMM_ALL_REDUCE, ZR_GROUP_WORLD, ZR_F32, &seg, 1);
	op.tag.op += r->rank == 1;
	fixture_barrier(r, 1, 0);
	bad = fixture_do(r, &op) != ZR_OK;
	bad |= fixture_barrier(r, 1, 7) != ZR_EPEER;
}

static void late(struct rank *r)
{
	fixture_barrier(r, 1, 0);
	if (r->rank == 1)
		sleep(4);
	else
		bad = fixture_barrier(r, 1, 7) != ZR_EPEER;
}

static void stop(struct rank *r)
{
	fixture_barrier(r, 1, 0);
	if (r->rank == 1)
		r->v->abort(r->c, "no disk");
	bad = fixture_barrier(r, 1, 7) != ZR_EPEER;
}

static void leave(struct rank *r)
{
	fixture_barrier(r, 1, 0);
	if (r->rank != 1)
		bad = fixture_barrier(r, 1, 7) != ZR_EPEER;
}

/* ---- main ---- */

/* Whether a test waits for the timeout. */
static int is_late(const char *test)
{
	return !strcmp(test, "late") || !strcmp(test, "stuck");
}

static const char *plugin_of(const char *variable, const char *usual)
{
	const char *given = getenv(variable);
	return given ? given : usual;
}

/* The only role that comm asks for. */
static const void *host_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	(void)h;
	*inst = boot;
	return strcmp(iface, "zr.boot/1") ? NULL : boot_v;
}

/* Options that only some plugins have. */
static int set_options(const char *per_node, const char *sums)
{
	if (!getenv("BOOT") && test_set(boot_desc, boot_opts, "ranks_per_node", per_node))
		return -1;
	if (strcmp(plugin_of("COMM", "comm/mpi"), "comm/mpi") && !strcmp(sums, "ordered"))
		return 0;
	return test_set(comm_desc, comm_opts, "sums", sums);
}

static int up(struct rank *r, const char *per_node, const char *timeout, const char *sums)
{
	struct zr_boot_info info = { .size = sizeof info };
	boot_desc = test_plugin(plugin_of("BOOT", "boot/mpi"));
	boot_v = test_iface(boot_desc, "zr.boot/1");
	boot_opts = test_options(boot_desc);
	comm_desc = test_plugin(plugin_of("COMM", "comm/mpi"));
	comm_opts = test_options(comm_desc);
	r->h = test_host(1);
	r->h->get = host_get;
	if (set_options(per_node, sums) || test_set(comm_desc, comm_opts, "timeout", timeout))
		return -1;
	if (test_create(r->h, boot_desc, boot_opts, &boot) || boot_v->info(boot, &info))
		return -1;
	r->h->rank = r->rank = info.rank;
	r->h->world = r->world = info.world;
	r->h->local_rank = info.local_rank;
	r->h->local_world = r->per_node = info.local_world;
	r->v = test_iface(comm_desc, "zr.comm/1");
	return test_create(r->h, comm_desc, comm_opts, &r->c);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(struct rank *);
	} tests[] = {
		{ "kinds", all_kinds }, { "device", device }, { "differ", differ },
		{ "counts", counts },   { "late", late },     { "stop", stop },
		{ "leave", leave },     { "before", before }, { "stuck", stuck },
	};
	struct rank r = { 0 };
	const char *reason;
	mpi_adds = argc == 4 && strcmp(argv[3], "ordered");
	on_device = argc > 1 && !strcmp(argv[1], "device");
	if (argc < 3 ||
	    up(&r, argv[2], is_late(argv[1]) ? "2" : "60", argc == 4 ? argv[3] : "ordered")) {
		fprintf(stderr, "%s\n",
			r.h ? test_error(r.h) : "usage: comm_mpi TEST RANKS_PER_NODE [SUMS]");
		return 2;
	}
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (!strcmp(tests[i].name, argv[1]))
			tests[i].fn(&r);
	reason = test_error(r.h);
	const int compares = !strcmp(argv[1], "kinds") || on_device;
	printf("rank %d: %s: %s\n", r.rank, bad ? "bad" : "good", compares ? "" : reason);
	fflush(stdout);
	comm_desc->destroy(r.c);
	boot_desc->destroy(boot);
	test_host_free(r.h);
	free(boot_opts);
	free(comm_opts);
	return bad;
}
