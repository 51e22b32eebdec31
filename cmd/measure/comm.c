/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - collectives by the comm plugin, and the copies that each of them must make at least.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/session.h"

#define LARGEST (8ull << 20) /* bytes of the whole */

struct exchange {
	struct zr_bench *b;
	struct zr_comm_op op;
	struct zr_comm_seg seg;
};

static int exchange(void *arg)
{
	struct exchange *x = arg;
	struct zr_setup *s = x->b->s;
	zr_ticket t = 0;

	x->op.tag.op++;
	int rc = ZR_ASK(&s->roles.comm, comm, post, x->b->err, &x->op, &t);
	return rc || !t ? rc : ZR_ASK(&s->roles.comm, comm, wait, x->b->err, t);
}

/* What an all-gather must copy: each rank the parts of the others. */
static int copy_parts(void *arg)
{
	struct exchange *x = arg;
	const struct zr_bench_job *job = x->b->job;
	const uint64_t part = LARGEST / (uint64_t)job->ranks;

	for (int k = 1; k < job->ranks; k++) {
		const int r = (x->b->rank + k) % job->ranks;
		memcpy((char *)x->seg.recv + (uint64_t)r * part,
		       job->copied + (uint64_t)r * ZR_BENCH_COPY, part);
	}

	return 0;
}

static int collectives(struct exchange *x, char *send, char *recv, double limit)
{
	static const struct {
		const char *name;
		int kind;
		int parts_sent, parts_received; /* 1: a part per rank, 0: one part */
	} kinds[] = { { "all_gather", ZR_COMM_ALL_GATHER, 0, 1 },
		      { "reduce_scatter", ZR_COMM_REDUCE_SCATTER, 1, 0 },
		      { "all_to_all", ZR_COMM_ALL_TO_ALL, 1, 1 },
		      { "all_reduce", ZR_COMM_ALL_REDUCE, 1, 1 },
		      { "broadcast", ZR_COMM_BROADCAST, 1, 1 } };
	static const uint64_t sizes[] = { 4096, 1 << 16, 1 << 20, LARGEST };
	const uint64_t ranks = (uint64_t)x->b->job->ranks;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (int i = 0; i < 4; i++) {
			const int whole = kinds[k].kind == ZR_COMM_ALL_REDUCE ||
					  kinds[k].kind == ZR_COMM_BROADCAST;
			const uint64_t count = sizes[i] / 4 / (whole ? 1 : ranks);
			const double at = (double)(4 * count * (whole ? 1 : ranks));
			x->op = (struct zr_comm_op){ .size = sizeof x->op,
						     .kind = kinds[k].kind,
						     .group = ZR_GROUP_WORLD,
						     .dtype = ZR_F32,
						     .n_seg = 1,
						     .seg = &x->seg };
			x->seg = (struct zr_comm_seg){ send, recv, (int64_t)count };
			double t = zr_bench_time(x->b, exchange, x);
			zr_bench_note(x->b, kinds[k].name, &at, 1, at, t, "B/s",
				      kinds[k].kind == ZR_COMM_ALL_GATHER && i == 3 ? limit : 0,
				      i == 0 || i == 3);
			if (t <= 0)
				return x->b->err->code;
		}
	return 0;
}

/* Latency: nothing is moved. */
static int meetings(struct exchange *x, char *send)
{
	static const int kinds[] = { ZR_COMM_BARRIER, ZR_COMM_FENCE };
	const double one = 1;

	for (int i = 0; i < 2; i++) {
		x->seg = (struct zr_comm_seg){ send, NULL, 1024 };
		x->op = (struct zr_comm_op){ .size = sizeof x->op,
					     .kind = kinds[i],
					     .group = ZR_GROUP_WORLD,
					     .dtype = ZR_F32,
					     .n_seg = i,
					     .seg = &x->seg };
		double t = zr_bench_time(x->b, exchange, x);
		zr_bench_note(x->b, i ? "fence" : "barrier", &one, 1, 1, t, "op/s", 0, 1);
		if (t <= 0)
			return x->b->err->code;
	}

	return 0;
}

static int measure_comm(struct zr_bench *b)
{
	const struct zr_comm_v1 *comm = b->s->roles.comm.vtbl;
	struct exchange x = { .b = b };
	void *own = NULL, *host = NULL;
	int rc = 0;

	if (b->s->facts.peers) /* as the memory of a training */
		rc = ZR_ASK(&b->s->roles.comm, comm, mem_alloc, b->err, 2 * LARGEST, &own);
	else if (!b->s->facts.device_comm && !(host = aligned_alloc(4096, 2 * LARGEST)))
		rc = zr_no_memory(b->err);
	if (rc)
		return rc;
	if (host)
		memset(host, 0, 2 * LARGEST);
	char *send = own ? own : host;
	if (!send)
		send = zr_bench_take(b, 2 * LARGEST);
	char *recv = send + LARGEST;
	double limit = 0;
	if (b->s->facts.peers) {
		const double at = LARGEST;
		memset(send, 0, 2 * LARGEST);
		memset(b->job->copied + (uint64_t)b->rank * ZR_BENCH_COPY, 1,
		       LARGEST / (uint64_t)b->job->ranks);
		x.seg.recv = recv;
		double t = zr_bench_time(b, copy_parts, &x);
		zr_bench_note(b, "limit.shared_copy", &at, 1, at, t, "B/s", 0, 1);
		limit = t > 0 ? at / t : 0;
	}

	rc = b->err->code;
	if (!rc)
		rc = meetings(&x, send);
	if (!rc)
		rc = collectives(&x, send, recv, limit);
	zr_bench_meet(b);
	if (own)
		comm->mem_free(b->s->roles.comm.inst, own);
	free(host);
	return rc;
}

const struct zr_bench_subject zr_bench_comm = {
	.name = "comm",
	.summary = "collectives between ranks",
	.run = measure_comm,
	.room = 2 * LARGEST,
	.seconds = 0.05,
	.least_ranks = 2,
};
