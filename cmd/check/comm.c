/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - tests of what moves data between ranks: each operation against plain loops, on ranks
 * that are processes of this machine, in one node and in several.
 */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "cmd/check/check.h"
#include "core/base/dtype.h"

enum { SEGMENTS = 5, AT_ONCE = 8, ROUNDS = 20, NODE = 2 };
static const int64_t counts[SEGMENTS] = { 5, 0, 4099, 1, 20001 };

/* A rank. */
struct comm {
	struct zr_try t;
	const struct zr_comm_v1 *v;
	int32_t rank, world;
};

static const char *kind_name(int32_t kind)
{
	static const char *const name[] = { "",           "all_gather", "reduce_scatter",
					    "all_reduce", "broadcast",  "all_to_all",
					    "barrier",    "fence" };
	return name[kind];
}

static int32_t size_of(const struct comm *m, int32_t group)
{
	if (group == ZR_GROUP_SELF)
		return 1;
	if (group == ZR_GROUP_NODE)
		return m->t.h->local_world;
	return m->world;
}

static int32_t first_of(const struct comm *m, int32_t group)
{
	if (group == ZR_GROUP_SELF)
		return m->rank;
	if (group == ZR_GROUP_NODE)
		return m->rank - m->t.h->local_rank;
	return 0;
}

static void open_comm(struct zr_check *c, struct comm *m, int32_t rank, int32_t world,
		      int32_t per_node)
{
	*m = (struct comm){ .v = c->vtbl,
			    .rank = rank,
			    .world = world,
			    .t = { .rank = rank, .world = world, .per_node = per_node } };
	if (m->v->mem && !(m->v->mem & ZR_MEM_HOST))
		zr_check_skip(c, "it moves no host memory");
	zr_try_open(c, &m->t);
}

/* ---- one operation --------------------------------------------------------------- */

struct spec {
	int32_t kind, group, dtype, root, in_place;
	int32_t op; /* its number */
	int n;
	const int64_t *count;
};

struct buffers {
	struct zr_comm_seg seg[SEGMENTS];
	void *area[SEGMENTS][2];
};

static int adds(const struct spec *s)
{
	return s->kind == ZR_COMM_REDUCE_SCATTER || s->kind == ZR_COMM_ALL_REDUCE;
}

static int is_wide(const struct spec *s, int sent)
{
	return s->kind == ZR_COMM_ALL_TO_ALL ||
	       s->kind == (sent ? ZR_COMM_REDUCE_SCATTER : ZR_COMM_ALL_GATHER);
}

/* Elements from `first` on of what a rank sends in segment i: any bits, or numbers to be added. */
static void fill(const struct spec *s, void *to, int32_t rank, int i, int64_t first, int64_t n)
{
	const uint64_t bytes = (uint64_t)zr_dtype_bytes(s->dtype);

	for (int64_t k = 0; k < n; k++) {
		uint64_t x = (uint64_t)(first + k) * 1000003 + (uint64_t)rank * 977 +
			     (uint64_t)(s->op * SEGMENTS + i) * 31 + 1;
		x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
		x = (x ^ x >> 32) * 0x94d049bb133111ebu;
		const double number = ((double)(x >> 40) - 0x1p23) * (double)(1u << (x & 15));
		const float single = (float)number;
		if (adds(s) && s->dtype == ZR_F32)
			memcpy((float *)to + k, &single, 4);
		else if (adds(s) && s->dtype == ZR_F64)
			memcpy((double *)to + k, &number, 8);
		else
			memcpy((char *)to + (uint64_t)k * bytes, &x, bytes);
	}
}

static void lay(struct comm *m, const struct spec *s, struct buffers *b)
{
	const int32_t n = size_of(m, s->group), me = m->rank - first_of(m, s->group);
	const uint64_t bytes = (uint64_t)zr_dtype_bytes(s->dtype);

	for (int i = 0; i < s->n; i++) {
		const uint64_t each = (uint64_t)s->count[i] * bytes, own = each * (uint64_t)me;
		const uint64_t in = is_wide(s, 1) ? each * (uint64_t)n : each;
		const uint64_t out = is_wide(s, 0) ? each * (uint64_t)n : each;
		char *send = zr_area_new(m->t.c, "what is sent", in ? in : bytes, bytes),
		     *recv = send;
		b->area[i][0] = send;
		b->area[i][1] = NULL;
		if (!s->in_place) {
			recv = zr_area_new(m->t.c, "what is received", out ? out : bytes, bytes);
			b->area[i][1] = recv;
			memset(recv, 0xa5, out);
		} else if (s->kind == ZR_COMM_ALL_GATHER) {
			zr_area_free(m->t.c, send);
			recv = zr_area_new(m->t.c, "what is received", out ? out : bytes, bytes);
			b->area[i][0] = recv;
			memset(recv, 0xa5, out);
			send = recv + own;
		} else if (s->kind == ZR_COMM_REDUCE_SCATTER) {
			recv = send + own;
		}
		fill(s, send, m->rank, i, 0, s->count[i] * (is_wide(s, 1) ? n : 1));
		if (!s->in_place)
			zr_area_protect(m->t.c, send, 1);
		b->seg[i] = (struct zr_comm_seg){ send, recv, s->count[i] };
	}
}

static void free_buffers(struct comm *m, const struct spec *s, struct buffers *b)
{
	for (int i = 0; i < s->n; i++) {
		zr_area_free(m->t.c, b->area[i][0]);
		if (b->area[i][1])
			zr_area_free(m->t.c, b->area[i][1]);
	}
}

static void add_elements(int32_t dtype, void *sum, const void *x, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		if (dtype == ZR_F32)
			((float *)sum)[k] += ((const float *)x)[k];
		else if (dtype == ZR_F64)
			((double *)sum)[k] += ((const double *)x)[k];
		else
			((uint64_t *)sum)[k] += ((const uint64_t *)x)[k];
}

/* What segment i must receive: *want is malloced. Returns its bytes. */
static uint64_t expect(struct comm *m, const struct spec *s, int i, char **want)
{
	const int32_t n = size_of(m, s->group), first = first_of(m, s->group);
	const int64_t count = s->count[i], me = m->rank - first;
	const uint64_t bytes = (uint64_t)count * (uint64_t)zr_dtype_bytes(s->dtype);
	const int apart = s->kind == ZR_COMM_ALL_GATHER || s->kind == ZR_COMM_ALL_TO_ALL;
	const int64_t from =
		s->kind == ZR_COMM_REDUCE_SCATTER || s->kind == ZR_COMM_ALL_TO_ALL ? me * count : 0;

	char *x = malloc(bytes + 1), *to = *want = malloc(bytes * (uint64_t)n + 1);
	if (!x || !to)
		zr_check_lacks(m->t.c, "memory");
	for (int32_t k = 0; k < n; k++) {
		fill(s, x, first + k, i, from, count);
		if (apart)
			memcpy(to + (uint64_t)k * bytes, x, bytes);
		else if (s->kind == ZR_COMM_BROADCAST ? k == s->root : k == 0)
			memcpy(to, x, bytes);
		else if (s->kind != ZR_COMM_BROADCAST)
			add_elements(s->dtype, to, x, count);
	}

	free(x);
	return apart ? bytes * (uint64_t)n : bytes;
}

/* Where a library adds in an order of its own, rounding is what differs. */
static int is_close(const struct spec *s, const void *a, const void *b, uint64_t bytes)
{
	const double room = s->dtype == ZR_F32 ? 64 : 1e-6; /* of sums of numbers up to 2^38 */

	for (uint64_t k = 0; k * 4 < bytes && s->dtype == ZR_F32; k++)
		if (!(fabs((double)((const float *)a)[k] - (double)((const float *)b)[k]) <
		      room * 0x1p13))
			return 0;
	for (uint64_t k = 0; k * 8 < bytes && s->dtype == ZR_F64; k++)
		if (!(fabs(((const double *)a)[k] - ((const double *)b)[k]) < room * 0x1p13))
			return 0;
	return s->dtype != ZR_I64 || !memcmp(a, b, bytes);
}

static void look(struct comm *m, const struct spec *s, const struct buffers *b)
{
	const uint64_t size = (uint64_t)zr_dtype_bytes(s->dtype);
	const int own_order = s->kind == ZR_COMM_REDUCE_SCATTER &&
			      ZR_HAS(m->v, struct zr_comm_v1, sums) && m->v->sums &&
			      m->v->sums(m->t.opts);

	for (int i = 0; i < s->n; i++) {
		char *want;
		const char *got = b->seg[i].recv;
		const uint64_t bytes = expect(m, s, i, &want);
		uint64_t at = 0;
		while (at < bytes && got[at] == want[at])
			at++;
		if (at < bytes && !(own_order && is_close(s, got, want, bytes))) {
			const int64_t k = (int64_t)(at / size), n = s->count[i];
			zr_check_fail(m->t.c,
				      "%s%s over %d ranks: segment %d of %" PRId64
				      " elements of %" PRIu64 " bytes is not what it must be "
				      "from element %" PRId64 " of part %" PRId64 " on%s",
				      kind_name(s->kind), s->in_place ? " in place" : "",
				      size_of(m, s->group), i, n, size, k % n, k / n,
				      adds(s) ? "; sums run over the ranks in ascending order" :
						"");
		}

		free(want);
	}
}

static zr_ticket post(struct comm *m, const struct spec *s, const struct zr_comm_seg *seg)
{
	struct zr_check *c = m->t.c;
	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = s->kind,
				       .group = s->group,
				       .dtype = s->dtype,
				       .root = s->root,
				       .n_seg = s->n,
				       .seg = seg,
				       .tag = { 1, s->op, -1 } };
	const struct zr_comm_op *lent = zr_lend(c, "struct zr_comm_op", &op, sizeof op, sizeof op);
	zr_ticket ticket = 0;

	m->t.code = 0;
	zr_must(&m->t, ZR_CALL(c, ZR_STEP, "post", m->v->post(m->t.inst, lent, &ticket)));
	zr_area_free(c, lent);
	return ticket;
}

static void wait_for(struct comm *m, zr_ticket ticket)
{
	zr_must(&m->t, ZR_CALL(m->t.c, ZR_STEP, "wait", m->v->wait(m->t.inst, ticket)));
}

static void barrier(struct comm *m, int32_t op)
{
	const struct spec s = { .kind = ZR_COMM_BARRIER, .group = ZR_GROUP_WORLD, .op = op };
	wait_for(m, post(m, &s, NULL));
}

static void run_spec(struct comm *m, const struct spec *s)
{
	struct buffers b;
	lay(m, s, &b);
	wait_for(m, post(m, s, b.seg));
	look(m, s, &b);
	free_buffers(m, s, &b); /* at once: no other rank needs them any more */
}

static void run_kinds(struct comm *m, int32_t group)
{
	static const int32_t sums[] = { ZR_F32, ZR_F64, ZR_I64 };
	static const int32_t moves[] = { ZR_U8, ZR_BF16, ZR_F32 };
	struct spec s = { .group = group, .n = SEGMENTS, .count = counts };

	for (s.kind = ZR_COMM_ALL_GATHER; s.kind <= ZR_COMM_ALL_TO_ALL; s.kind++)
		for (int d = 0; d < 6; d++) {
			s.in_place = d & 1;
			s.dtype = adds(&s) ? sums[d / 2] : moves[d / 2];
			s.root = d > 1 ? size_of(m, group) - 1 : 0;
			if (!s.in_place || s.kind <= ZR_COMM_ALL_REDUCE)
				run_spec(m, &s);
			s.op++;
		}
}

/* One segment of half a megabyte to more than one, about where comms add in other ways. */
static void run_large(struct comm *m, int32_t group)
{
	static const int64_t large[] = { 131072, 262144, 262145, 300001 };
	struct spec s = { .group = group, .n = 1, .dtype = ZR_F32, .op = 100 };

	for (size_t i = 0; i < sizeof large / sizeof *large; i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			s.kind = ZR_COMM_ALL_REDUCE;
			s.in_place = in_place;
			s.count = &large[i];
			run_spec(m, &s);
			s.op++;
		}
}

static void collectives(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;

	(void)shared;
	open_comm(c, &m, rank, world, world % NODE ? 0 : NODE);
	const uint64_t before = m.v->bytes_sent(m.t.inst);
	run_kinds(&m, ZR_GROUP_WORLD);
	zr_blame(c, "bytes_sent");
	if (world > 1 && m.v->bytes_sent(m.t.inst) <= before)
		zr_check_fail(c, "no byte was counted");
	if (world % NODE == 0)
		run_kinds(&m, ZR_GROUP_NODE);
	run_kinds(&m, ZR_GROUP_SELF);
	run_large(&m, ZR_GROUP_WORLD);
	zr_try_close(&m.t);
}

void zr_test_collectives(struct zr_check *c)
{
	zr_check_ranks(c, 1, NULL, collectives);
	zr_check_ranks(c, 3, NULL, collectives);
	zr_check_ranks(c, 4, NULL, collectives);
	zr_check_ranks(c, 2, NULL, collectives);
}

/* ---- exchanges and listed groups -------------------------------------------------- */

/* A group, by the ranks in it. */
struct listed {
	int32_t group, n;
	int32_t rank[16];
};

static struct listed whole_world(const struct comm *m)
{
	struct listed l = { .group = ZR_GROUP_WORLD, .n = m->world };
	for (int32_t k = 0; k < m->world; k++)
		l.rank[k] = k;
	return l;
}

/* The ranks as odd or as even as this one. */
static struct listed every_other(const struct comm *m)
{
	struct listed l = { .group = ZR_GROUP_EXPERT };
	for (int32_t k = m->rank % 2; k < m->world; k += 2)
		l.rank[l.n++] = k;
	return l;
}

/* Elements that one rank sends to another; in the last round no rank sends any. */
static int64_t exchanged(int32_t from, int32_t to, int round)
{
	static const int64_t some[] = { 0, 3, 5001, 1, 0, 300 };
	return round == ROUNDS - 1 ? 0 : some[(from * 7 + to * 3 + round) % 6];
}

static char exchanged_byte(int32_t from, int32_t to, int round, uint64_t k)
{
	return (char)(k * 7 + (uint64_t)(from * 50 + to * 11 + round));
}

/* Posts an exchange and waits; the code of what fails. */
static int attempt_exchange(struct comm *m, const struct zr_comm_exchange *x)
{
	struct zr_check *c = m->t.c;
	const struct zr_comm_exchange *lent =
		zr_lend(c, "struct zr_comm_exchange", x, sizeof *x, sizeof *x);
	zr_ticket ticket = 0;
	m->t.code = 0;
	int rc = ZR_CALL(c, ZR_STEP, "exchange", m->v->exchange(m->t.inst, lent, &ticket));
	if (!zr_may_fail(&m->t, rc)) {
		rc = ZR_CALL(c, ZR_STEP, "wait", m->v->wait(m->t.inst, ticket));
		zr_may_fail(&m->t, rc);
	}
	zr_area_free(c, lent);
	return rc;
}

/* Runs an exchange of bytes in the group and looks at what came. `more`: elements that this rank
 * expects beyond those that the first rank of the group sends. */
static int run_exchange(struct comm *m, const struct listed *l, int round, int64_t more)
{
	struct zr_check *c = m->t.c;
	int64_t sent[16], expected[16];
	uint64_t to = 0, from = 0, at = 0;
	for (int32_t k = 0; k < l->n; k++) {
		sent[k] = exchanged(m->rank, l->rank[k], round);
		expected[k] = exchanged(l->rank[k], m->rank, round) + (k ? 0 : more);
		to += (uint64_t)sent[k];
		from += (uint64_t)expected[k];
	}

	char *send = zr_area_new(c, "what is sent", to ? to : 1, 1);
	char *recv = zr_area_new(c, "what is received", from ? from : 1, 1);
	memset(recv, 0xa5, from);
	for (int32_t k = 0; k < l->n; k++)
		for (uint64_t j = 0; j < (uint64_t)sent[k]; j++)
			send[at++] = exchanged_byte(m->rank, l->rank[k], round, j);
	zr_area_protect(c, send, 1);

	const struct zr_comm_exchange x = { .size = sizeof x,
					    .group = l->group,
					    .dtype = ZR_U8,
					    .send = send,
					    .recv = recv,
					    .send_count = sent,
					    .recv_count = expected,
					    .tag = { 2, round, -1 } };
	const int rc = attempt_exchange(m, &x);
	at = 0;
	for (int32_t k = 0; k < l->n; k++)
		for (uint64_t j = 0; j < (uint64_t)expected[k]; j++, at++) {
			const char want = rc ? (char)0xa5 :
					       exchanged_byte(l->rank[k], m->rank, round, j);
			if (recv[at] == want || (rc && !more))
				continue;
			if (rc)
				zr_check_fail(c, "an exchange whose counts differ wrote into recv");
			zr_check_fail(c,
				      "an exchange over %d ranks: element %" PRIu64 " of those of "
				      "rank %d is not what it sent",
				      l->n, j, l->rank[k]);
		}
	zr_area_free(c, send);
	zr_area_free(c, recv);
	return rc;
}

static void need_exchange(struct comm *m)
{
	if (!ZR_HAS(m->v, struct zr_comm_v1, exchange) || !m->v->exchange)
		zr_check_skip(m->t.c, "it has no exchange");
}

static void need_group(struct comm *m)
{
	if (!ZR_HAS(m->v, struct zr_comm_v1, group) || !m->v->group)
		zr_check_skip(m->t.c, "it makes no groups");
}

static void exchange(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;
	(void)shared;
	open_comm(c, &m, rank, world, 0);
	need_exchange(&m);
	const struct listed all = whole_world(&m);
	const uint64_t before = m.v->bytes_sent(m.t.inst);
	for (int round = 0; round < ROUNDS; round++)
		zr_must(&m.t, run_exchange(&m, &all, round, 0));
	zr_blame(c, "bytes_sent");
	if (world > 1 && m.v->bytes_sent(m.t.inst) <= before)
		zr_check_fail(c, "no byte of an exchange was counted");
	zr_try_close(&m.t);
}

/* The last rank expects one element more of rank 0 than that sends. */
static void exchange_differs(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	const int more = rank == world - 1;
	struct comm m;
	(void)shared;
	open_comm(c, &m, rank, world, 0);
	need_exchange(&m);
	const struct listed all = whole_world(&m);
	if (!run_exchange(&m, &all, 1, more))
		zr_check_fail(c,
			      "rank %d expects one element more than rank 0 sends to it, and the "
			      "exchange succeeded",
			      world - 1);
	zr_try_close(&m.t);
}

void zr_test_exchange(struct zr_check *c)
{
	zr_check_ranks(c, 1, NULL, exchange);
	zr_check_ranks(c, 4, NULL, exchange);
	zr_check_ranks(c, 3, NULL, exchange_differs);
}

/* Makes the group; the code. */
static int make_group(struct comm *m, const struct listed *l)
{
	m->t.code = 0;
	return ZR_CALL(m->t.c, ZR_MAIN, "group", m->v->group(m->t.inst, l->group, l->rank, l->n));
}

static void group(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;
	(void)shared;
	open_comm(c, &m, rank, world, 0);
	need_group(&m);
	const struct listed half = every_other(&m);
	int32_t gathered[16] = { 0 };
	zr_must(&m.t, make_group(&m, &half));

	const struct zr_comm_seg seg = { &m.rank, gathered, 1 };
	const struct spec gather = {
		.kind = ZR_COMM_ALL_GATHER, .group = half.group, .dtype = ZR_I32, .n = 1
	};
	wait_for(&m, post(&m, &gather, &seg));
	for (int32_t k = 0; k < half.n; k++)
		if (gathered[k] != half.rank[k])
			zr_check_fail(c, "place %d of a group of rank %d has what rank %d sent", k,
				      half.rank[k], gathered[k]);
	if (ZR_HAS(m.v, struct zr_comm_v1, exchange) && m.v->exchange)
		zr_must(&m.t, run_exchange(&m, &half, 2, 0));
	zr_try_close(&m.t);
}

/* Rank 0 lists the last rank, which lists itself alone. */
static void group_differs(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;
	(void)shared;
	open_comm(c, &m, rank, world, 0);
	need_group(&m);
	struct listed l = { .group = ZR_GROUP_SEQUENCE, .n = 1, .rank = { rank } };
	if (!rank)
		l = (struct listed){ .group = l.group, .n = 2, .rank = { 0, world - 1 } };
	const int rc = make_group(&m, &l);
	if (!zr_may_fail(&m.t, rc) && !rank)
		zr_check_fail(c,
			      "rank 0 lists rank %d, which lists itself alone, and both succeeded",
			      world - 1);
	zr_try_close(&m.t);
}

void zr_test_listed_groups(struct zr_check *c)
{
	zr_check_ranks(c, 1, NULL, group);
	zr_check_ranks(c, 4, NULL, group);
	zr_check_ranks(c, 2, NULL, group_differs);
}

/* ---- several at once ------------------------------------------------------------- */

static void outstanding(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;
	struct buffers b[AT_ONCE];
	zr_ticket ticket[AT_ONCE];

	(void)shared;
	open_comm(c, &m, rank, world, 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct spec s[AT_ONCE];
		int64_t count[AT_ONCE][2];
		for (int i = 0; i < AT_ONCE; i++) {
			count[i][0] = (round * 37 + i * 11) % 300;
			count[i][1] = 1000 * (i == 3);
			s[i] = (struct spec){ .kind = 1 + (round + i) % 5,
					      .group = ZR_GROUP_WORLD,
					      .dtype = ZR_F32,
					      .root = i % world,
					      .n = 2,
					      .op = round * AT_ONCE + i,
					      .count = count[i] };
			lay(&m, &s[i], &b[i]);
			ticket[i] = post(&m, &s[i], b[i].seg);
		}

		for (int k = 0; k < AT_ONCE; k++) { /* each rank in an order of its own */
			const int i = rank & 1 ? k : AT_ONCE - 1 - k;
			int done = 1;
			if (round & 1)
				done = ZR_CALL(c, ZR_STEP, "test", m.v->test(m.t.inst, ticket[i]));
			if (done < 0 || done > 1)
				zr_check_fail(c, "it returned %d, expected 0 or 1", done);
			wait_for(&m, ticket[i]);
			look(&m, &s[i], &b[i]);
			free_buffers(&m, &s[i], &b[i]);
		}
	}

	zr_try_close(&m.t);
}

void zr_test_outstanding(struct zr_check *c)
{
	zr_check_ranks(c, 3, NULL, outstanding);
}

/* ---- barriers and fences --------------------------------------------------------- */

/* Whoever comes first must wait for the others: all have counted themselves before they post. */
static void meeting(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	_Atomic int *came = shared;
	struct comm m;

	open_comm(c, &m, rank, world, 0);
	for (int32_t i = 0; i < ROUNDS; i++) {
		const struct spec s = { .kind = i & 1 ? ZR_COMM_FENCE : ZR_COMM_BARRIER,
					.group = ZR_GROUP_WORLD,
					.op = i };
		if (i % world == rank)
			nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
		atomic_fetch_add(&came[i], 1);
		wait_for(&m, post(&m, &s, NULL));
		if (atomic_load(&came[i]) != world)
			zr_check_fail(c, "a %s was over when %d of %d ranks had come",
				      kind_name(s.kind), atomic_load(&came[i]), world);
	}

	zr_try_close(&m.t);
}

void zr_test_meeting(struct zr_check *c)
{
	zr_check_ranks(c, 3, zr_check_shared(c, ROUNDS * sizeof(int)), meeting);
}

/* ---- memory of others ------------------------------------------------------------ */

static void fence(struct comm *m, char *mine, uint64_t bytes, int32_t op)
{
	const struct zr_comm_seg seg = { mine, NULL, (int64_t)bytes };
	const struct spec s = {
		.kind = ZR_COMM_FENCE, .group = ZR_GROUP_WORLD, .dtype = ZR_U8, .op = op, .n = 1
	};
	wait_for(m, post(m, &s, &seg));
}

static void show(struct comm *m, const char *function, const char *at, uint64_t bytes, int32_t rank,
		 int round)
{
	zr_blame(m->t.c, function);
	for (uint64_t k = 0; k < bytes; k++)
		if (at[k] != (char)(k * 7 + (uint64_t)rank * 50 + (uint64_t)round))
			zr_check_fail(m->t.c,
				      "byte %" PRIu64 " of the memory of rank %d is not "
				      "what it wrote before the fence",
				      k, rank);
}

static void memory(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct comm m;
	const uint64_t bytes = 4 * (uint64_t)sysconf(_SC_PAGESIZE);

	(void)shared;
	open_comm(c, &m, rank, world, 0);
	if (!m.v->mem_alloc || !ZR_HAS(m.v, struct zr_comm_v1, mem_free) || !m.v->mem_free)
		zr_check_skip(c, "it has no memory that others can address");
	for (int round = 0; round < 4; round++) {
		void *out = NULL, *view = NULL;
		zr_must(&m.t,
			ZR_CALL(c, ZR_MAIN, "mem_alloc", m.v->mem_alloc(m.t.inst, bytes, &out)));
		char *mine = out;
		for (uint64_t k = 0; k < bytes; k++)
			if (mine[k])
				zr_check_fail(c, "new memory is not zero at byte %" PRIu64, k);
		for (uint64_t k = 0; k < bytes; k++)
			mine[k] = (char)(k * 7 + (uint64_t)rank * 50 + (uint64_t)round);
		fence(&m, mine, bytes, 2 * round);
		for (int32_t r = 0; r < world && m.v->mem_peer; r++) {
			const char *at = m.v->mem_peer(m.t.inst, mine, ZR_GROUP_WORLD, r);
			if (at)
				show(&m, "mem_peer", at, bytes, r, round);
		}

		m.t.code = 0;
		int rc = ZR_ENOTSUP;
		if (ZR_HAS(m.v, struct zr_comm_v1, mem_view) && m.v->mem_view)
			rc = ZR_CALL(c, ZR_MAIN, "mem_view",
				     m.v->mem_view(m.t.inst, mine, bytes, ZR_GROUP_WORLD, &view));
		if (rc != ZR_ENOTSUP)
			zr_must(&m.t, rc);
		for (int32_t r = 0; r < world && !rc; r++)
			show(&m, "mem_view", (char *)view + (uint64_t)r * bytes, bytes, r, round);
		barrier(&m, 2 * round + 1);
		ZR_CALL_VOID(c, ZR_MAIN, "mem_free", m.v->mem_free(m.t.inst, mine));
	}

	zr_try_close(&m.t);
}

void zr_test_memory(struct zr_check *c)
{
	zr_check_ranks(c, 3, NULL, memory);
}

/* ---- memory that is lent --------------------------------------------------------- */

/* Every rank's number, gathered in memory that is lent. */
static void gather_in(struct comm *m, int32_t *all, int32_t op)
{
	const struct zr_comm_seg seg = { all + m->rank, all, 1 };
	const struct spec s = { .kind = ZR_COMM_ALL_GATHER,
				.group = ZR_GROUP_WORLD,
				.dtype = ZR_I32,
				.op = op,
				.n = 1 };
	all[m->rank] = m->rank + op;
	wait_for(m, post(m, &s, &seg));
	for (int32_t r = 0; r < m->world; r++)
		if (all[r] != r + op)
			zr_check_fail(m->t.c,
				      "an all_gather in memory that is lent: rank %d sent %d and "
				      "%d came",
				      r, r + op, all[r]);
}

/* Once it is taken back it goes, and whoever looks at it faults. */
static void lent(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	const struct zr_comm_v1 *v = c->vtbl;
	const uint64_t bytes = 1 << 20;
	struct comm m;

	(void)shared;
	if (!ZR_HAS(v, struct zr_comm_v1, mem_take_back) || !v->mem_lend)
		zr_check_skip(c, "it is lent no memory");
	open_comm(c, &m, rank, world, world % NODE ? 0 : NODE);
	for (int32_t round = 0; round < 3; round++) {
		int32_t *all = zr_area_new(c, "what is lent", bytes, 64);
		m.t.code = 0;
		zr_must(&m.t, ZR_CALL(c, ZR_MAIN, "mem_lend", m.v->mem_lend(m.t.inst, all, bytes)));
		gather_in(&m, all, 2 * round);
		ZR_CALL_VOID(c, ZR_MAIN, "mem_take_back", m.v->mem_take_back(m.t.inst, all));
		zr_area_free(c, all);
		barrier(&m, 2 * round + 1);
	}

	zr_try_close(&m.t);
}

void zr_test_lent(struct zr_check *c)
{
	zr_check_ranks(c, 1, NULL, lent);
	zr_check_ranks(c, 4, NULL, lent);
}

/* ---- failures -------------------------------------------------------------------- */

/* Posts and waits; the code of what fails. */
static int attempt(struct comm *m, const struct zr_comm_op *op)
{
	struct zr_check *c = m->t.c;
	zr_ticket ticket = 0;

	m->t.code = 0;
	int rc = ZR_CALL(c, ZR_STEP, "post", m->v->post(m->t.inst, op, &ticket));
	if (!zr_may_fail(&m->t, rc)) {
		rc = ZR_CALL(c, ZR_STEP, "wait", m->v->wait(m->t.inst, ticket));
		zr_may_fail(&m->t, rc);
	}

	return rc;
}

static void differ(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	static const char *const what[] = { "a tag", "a kind", "a number of elements", "a type" };
	const int how = *(const int *)shared, other = rank == world - 1;
	int64_t sent[8] = { 0 }, received[8 * 4];
	const struct zr_comm_seg seg = { sent, received, how == 2 && other ? 7 : 8 };
	struct comm m;
	struct zr_comm_op op = { .size = sizeof op,
				 .kind = ZR_COMM_ALL_GATHER,
				 .group = ZR_GROUP_WORLD,
				 .dtype = ZR_F32,
				 .n_seg = 1,
				 .seg = &seg,
				 .tag = { 3, 14, 1 } };

	open_comm(c, &m, rank, world, 0);
	if (how == 0 && other)
		op.tag.op = 15;
	if (how == 1 && other)
		op.kind = ZR_COMM_ALL_REDUCE;
	if (how == 3 && other)
		op.dtype = ZR_I32; /* of as many bytes */
	if (!attempt(&m, &op))
		zr_check_fail(c,
			      "rank %d posted an operation with %s other than that of the "
			      "others, and it succeeded",
			      world - 1, what[how]);
	zr_try_close(&m.t);
}

void zr_test_differ(struct zr_check *c)
{
	int *how = zr_check_shared(c, sizeof *how);
	for (*how = 0; *how < 4; ++*how)
		zr_check_ranks(c, 2, how, differ);
}

static void stop(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = ZR_COMM_BARRIER,
				       .group = ZR_GROUP_WORLD,
				       .tag = { 1, 1, -1 } };
	struct comm m;

	(void)shared;
	open_comm(c, &m, rank, world, 0);
	barrier(&m, 0);
	if (!rank) {
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL); /* the others wait by now */
		ZR_CALL_VOID(c, ZR_MAIN, "abort", m.v->abort(m.t.inst, "the check says so"));
	}

	const int rc = attempt(&m, &op);
	if (rc != ZR_EPEER)
		zr_check_fail(c, "after abort on rank 0 a barrier returns %d, expected ZR_EPEER",
			      rc);
	if (rank && !strstr(m.t.text, "the check says so"))
		zr_check_fail(c, "after abort the text lacks why rank 0 stopped: %s", m.t.text);
	zr_try_close(&m.t);
}

void zr_test_abort(struct zr_check *c)
{
	zr_check_ranks(c, 3, NULL, stop);
}
