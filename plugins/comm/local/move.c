/* SPDX-License-Identifier: Apache-2.0
 *
 * move.c - the data of an operation, read straight from where the peers hold it.
 *
 * Each reads what it needs. Sums: each rank adds its own part of all ranks, in rank order. An
 * all_reduce then gathers the parts, unless all results are in memory that all can write: there
 * each rank writes its part to everybody, which saves reading it once more. Nobody else writes into
 * another rank. Work is cut into pieces for the host's threads.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#define PIECE  (512u << 10) /* bytes of result per item of parallel() */
#define STREAM (4u << 20)   /* results of at least so many bytes go around the caches */

/* One copy, or one sum into several places. */
struct job {
	struct zr_inst *c;
	const struct source *from; /* [ranks] */
	char *to, *const *all;     /* of a copy; [n_to] of a sum */
	int32_t n_to;
	uint64_t bytes;
	int32_t ranks, dtype; /* ranks 1: a copy */
	int stream;
};

/* Reads bytes of another process; a failure is remembered, not returned: pieces run on any
 * thread. */
static void fetch(struct zr_inst *c, pid_t pid, const char *from, char *to, uint64_t bytes)
{
	while (bytes) {
		struct iovec here = { to, bytes }, there = { (void *)(uintptr_t)from, bytes };
		ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			atomic_store(&c->why_unread, n ? errno : EFAULT);
			atomic_store(&c->unread, pid);
			return;
		}
		to += n;
		from += n;
		bytes -= (uint64_t)n;
	}
}

static void copy_piece(void *arg, int64_t item, int32_t worker)
{
	struct job *j = arg;
	uint64_t at = (uint64_t)item * PIECE, n = zl_least(PIECE, j->bytes - at);
	(void)worker;
	if (j->from->pid)
		fetch(j->c, j->from->pid, j->from->p + at, j->to + at, n);
	else
		zl_copy(j->to + at, j->from->p + at, n, j->stream);
}

/* A chunk of a sum with what other processes hold fetched first. */
static void sum_chunk(struct job *j, uint64_t at, uint64_t n, int32_t worker)
{
	const char *from[MAX_RANKS];
	char *to[MAX_RANKS];
	for (int32_t k = 0; k < j->n_to; k++)
		to[k] = j->all[k] + at;
	for (int32_t r = 0; r < j->ranks; r++) {
		from[r] = j->from[r].p + at;
		if (j->from[r].pid) {
			char *mine =
				j->c->fetch +
				((uint64_t)worker * (uint64_t)j->c->world + (uint64_t)r) * FETCH;
			fetch(j->c, j->from[r].pid, from[r], mine, n);
			from[r] = mine;
		}
	}

	zl_sum(j->dtype, to, j->n_to, from, j->ranks, n, j->stream);
}

static void sum_piece(void *arg, int64_t item, int32_t worker)
{
	struct job *j = arg;
	uint64_t at = (uint64_t)item * PIECE, end = zl_least(j->bytes, at + PIECE);
	for (; at < end; at += FETCH)
		sum_chunk(j, at, zl_least(FETCH, end - at), worker);
}

static void run(struct job *j)
{
	void (*fn)(void *, int64_t, int32_t) = j->ranks == 1 ? copy_piece : sum_piece;
	int64_t pieces = (int64_t)((j->bytes + PIECE - 1) / PIECE);
	if (pieces > 1 && j->c->h->workers > 1)
		j->c->h->parallel(j->c->h, pieces, fn, j);
	else
		for (int64_t i = 0; i < pieces; i++)
			fn(j, i, 0);
}

static void copy_all(struct zr_inst *c, const struct source *from, char *to, uint64_t bytes,
		     int stream)
{
	struct job j = {
		.c = c, .from = from, .to = to, .bytes = bytes, .ranks = 1, .stream = stream
	};
	run(&j);
}

static void sum_into(struct zr_inst *c, int32_t dtype, char *const *to, int32_t n_to,
		     uint64_t bytes, int32_t ranks, int stream)
{
	struct job j = { .c = c,
			 .from = c->source,
			 .all = to,
			 .n_to = n_to,
			 .bytes = bytes,
			 .ranks = ranks,
			 .dtype = dtype,
			 .stream = stream };
	run(&j);
}

void zl_sum_all(struct zr_inst *c, int32_t dtype, char *to, uint64_t bytes, int32_t ranks,
		int stream)
{
	sum_into(c, dtype, &to, 1, bytes, ranks, stream);
}

/* A process that dies loses its memory a while before its end can be seen: longer the more it had,
 * and the busier the machine is. */
static void await_death(struct zr_inst *c, int32_t pid)
{
	const int most = (int)zl_least(INT_MAX, (uint64_t)(c->o->timeout * 1e3));
	for (int32_t r = 0; r < c->world; r++)
		if (atomic_load(&c->area->seat[r].pid) == pid && c->watch[r].fd >= 0)
			poll(&c->watch[r], 1, most);
}

static int unread(struct zr_inst *c)
{
	int32_t pid = atomic_exchange(&c->unread, 0);
	if (!pid)
		return 0;

	if (atomic_load(&c->why_unread) == ESRCH)
		await_death(c, pid);
	int rc = zl_check_alive(c, -1);
	if (rc)
		return rc;
	return zl_stop(c, "%s: rank %d cannot read the memory of process %d: %s", zl_doing(c),
		       c->rank, pid, strerror(atomic_load(&c->why_unread)));
}

int64_t zl_part(int64_t count, int32_t ranks)
{
	return ((count + ranks - 1) / ranks + 15) / 16 * 16;
}

/* ---- one segment ----------------------------------------------------------------- */

/* A segment of one operation, seen by this rank. */
struct view {
	struct zr_inst *c;
	const struct pend *p;
	const struct group *g;
	const struct slot *own;
	int32_t i;                    /* number of the segment */
	const struct shared_seg *seg; /* the own one */
	uint64_t esz, bytes;          /* of an element, of count elements */
	int stream;
};

static struct source source_at(const struct zr_inst *c, int32_t world_rank, uint64_t raw,
			       uint64_t at, uint64_t offset)
{
	const char *here = NULL;
	if (at)
		here = zl_mem_here(c, at);
	if (here)
		return (struct source){ here + offset, 0 };

	pid_t pid = atomic_load(&c->area->seat[world_rank].pid);
	if (pid == c->pid)
		pid = 0;
	return (struct source){ (const char *)(uintptr_t)raw + offset, pid };
}

/* Byte `offset` of what rank r of the group sends. */
static struct source sent_by(const struct view *v, int32_t r, uint64_t offset)
{
	const struct lane *l = lane_of(v->c, v->p->group, r);
	const struct shared_seg *s = seg_of(l, slot_of(l, v->p->seq), v->i);
	return source_at(v->c, rank_in_world(v->g, r), s->send, s->send_at, offset);
}

static struct source result_of(const struct view *v, int32_t r, uint64_t offset)
{
	const struct lane *l = lane_of(v->c, v->p->group, r);
	const struct shared_seg *s = seg_of(l, slot_of(l, v->p->seq), v->i);
	return source_at(v->c, rank_in_world(v->g, r), s->recv, s->recv_at, offset);
}

static void copy(const struct view *v, int32_t r, struct source from, char *to, uint64_t bytes)
{
	if (from.pid == 0 && from.p == to)
		return;
	copy_all(v->c, &from, to, bytes, v->stream);
	if (r != v->g->rank)
		atomic_fetch_add_explicit(&v->c->sent, bytes, memory_order_relaxed);
}

static void sum(const struct view *v, uint64_t offset, char *const *to, int32_t n_to,
		uint64_t bytes)
{
	for (int32_t r = 0; r < v->g->size; r++)
		v->c->source[r] = sent_by(v, r, offset);
	sum_into(v->c, v->own->dtype, to, n_to, bytes, v->g->size, v->stream);
	atomic_fetch_add_explicit(&v->c->sent, (uint64_t)(v->g->size - 1) * bytes,
				  memory_order_relaxed);
}

/* The part of an all_reduce that rank r sums: [lo, hi) in bytes. */
static void part_of(const struct view *v, int32_t r, uint64_t *lo, uint64_t *hi)
{
	uint64_t part = (uint64_t)zl_part(v->seg->count, v->g->size) * v->esz;
	*lo = zl_least(part * (uint64_t)r, v->bytes);
	*hi = zl_least(*lo + part, v->bytes);
}

/* Whether every rank can write the results of all: memory of mem_alloc is mapped by everybody. */
static int shared_results(const struct view *v)
{
	for (int32_t r = 0; r < v->g->size; r++) {
		const struct lane *l = lane_of(v->c, v->p->group, r);
		if (!seg_of(l, slot_of(l, v->p->seq), v->i)->recv_at)
			return 0;
	}
	return 1;
}

static void reduce_part(const struct view *v)
{
	char *to[MAX_RANKS] = { (char *)(uintptr_t)v->seg->recv };
	int32_t n = 1;
	uint64_t lo, hi;
	part_of(v, v->g->rank, &lo, &hi);
	if (hi <= lo)
		return;

	to[0] += lo;
	for (int32_t k = 1; shared_results(v) && k < v->g->size; k++, n++) {
		int32_t r = (v->g->rank + k) % v->g->size;
		to[k] = (char *)(uintptr_t)result_of(v, r, lo).p;
	}
	sum(v, lo, to, n, hi - lo);
}

/* Of an exchange: what a segment behind those that are sent receives. */
static void receive(const struct view *v, char *recv)
{
	const int32_t r = v->i - v->g->size;
	if (r < 0)
		return;

	const struct lane *l = lane_of(v->c, v->p->group, r);
	const struct shared_seg *s = seg_of(l, slot_of(l, v->p->seq), v->g->rank);
	copy(v, r, source_at(v->c, rank_in_world(v->g, r), s->send, s->send_at, 0), recv, v->bytes);
}

static void first_pass(const struct view *v)
{
	char *recv = (char *)(uintptr_t)v->seg->recv;
	uint64_t own = (uint64_t)v->g->rank * v->bytes;
	switch (v->own->kind) {
	case ZR_COMM_ALL_GATHER:
	case ZR_COMM_ALL_TO_ALL:
		for (int32_t k = 0; k < v->g->size; k++) { /* everybody starts at another rank */
			int32_t r = (v->g->rank + k) % v->g->size;
			uint64_t from = v->own->kind == ZR_COMM_ALL_TO_ALL ? own : 0;
			copy(v, r, sent_by(v, r, from), recv + (uint64_t)r * v->bytes, v->bytes);
		}
		break;
	case ZR_COMM_REDUCE_SCATTER:
		sum(v, own, &recv, 1, v->bytes);
		break;
	case ZR_COMM_ALL_REDUCE:
		reduce_part(v);
		break;
	case ZR_COMM_BROADCAST:
		copy(v, v->own->root, sent_by(v, v->own->root, 0), recv, v->bytes);
		break;
	case COMM_EXCHANGE:
		receive(v, recv);
		break;
	}
}

static void second_pass(const struct view *v)
{
	int arrived = shared_results(v);
	uint64_t lo, hi;
	for (int32_t k = 1; k < v->g->size; k++) {
		int32_t r = (v->g->rank + k) % v->g->size;
		part_of(v, r, &lo, &hi);
		if (hi > lo && arrived)
			atomic_fetch_add_explicit(&v->c->sent, hi - lo, memory_order_relaxed);
		else if (hi > lo)
			copy(v, r, result_of(v, r, lo), (char *)(uintptr_t)v->seg->recv + lo,
			     hi - lo);
	}
}

static int for_segments(struct zr_inst *c, const struct pend *p, void (*pass)(const struct view *))
{
	const struct group *g = &c->group[p->group];
	const struct lane *l = lane_of(c, p->group, g->rank);
	const struct slot *s = slot_of(l, p->seq);
	struct view v = { .c = c, .p = p, .g = g, .own = s, .esz = comm_dtype_bytes(s->dtype) };
	uint64_t total = 0;
	for (int32_t i = 0; i < s->n_seg; i++)
		total += (uint64_t)seg_of(l, s, i)->count * v.esz;
	v.stream = total >= STREAM;
	for (v.i = 0; v.i < s->n_seg; v.i++) {
		v.seg = seg_of(l, s, v.i);
		v.bytes = (uint64_t)v.seg->count * v.esz;
		if (v.bytes)
			pass(&v);
	}
	return unread(c);
}

int zl_move(struct zr_inst *c, const struct pend *p)
{
	return for_segments(c, p, first_pass);
}

int zl_move_rest(struct zr_inst *c, const struct pend *p)
{
	return for_segments(c, p, second_pass);
}
