/* SPDX-License-Identifier: Apache-2.0
 *
 * post.c - operations as callers post them and wait for them: checked, and led to the GPUs or to
 * the messages of the host.
 */
#define _GNU_SOURCE
#include "nccl.h"
#include "plugins/comm/sum.h"

#include <string.h>

/* ---- checks ---------------------------------------------------------------------- */

/* Whether p is memory that the host alone has; nobody asks for memory of 0 bytes. */
static int is_host_memory(struct zr_inst *c, const void *p, int *out)
{
	struct cudaPointerAttributes about;
	int rc = nn_cuda(c, cudaPointerGetAttributes(&about, p), "cudaPointerGetAttributes");
	*out = about.type == cudaMemoryTypeUnregistered || about.type == cudaMemoryTypeHost;
	return rc;
}

/* All segments of an operation lie in memory of one kind. */
static int lies_on_host(struct zr_inst *c, const struct zr_comm_op *op, int *out)
{
	*out = 1;
	for (int32_t i = 0; i < op->n_seg && op->kind < ZR_COMM_BARRIER; i++)
		if (op->seg[i].count)
			return is_host_memory(c, op->seg[i].send, out);
	return ZR_OK;
}

static int check_sum(struct zr_inst *c, const struct zr_comm_op *op, int on_host)
{
	if (!nn_adds(op->kind) || op->dtype == ZR_F32 || op->dtype == ZR_I64 ||
	    (on_host && op->dtype == ZR_F64))
		return ZR_OK;
	return zr_fail(c->h, ZR_ENOTSUP, "%s adds f32 and i64, and in host memory f64 too, not %s",
		       comm_kind_name(op->kind), comm_dtype_name(op->dtype));
}

static int check_op(struct zr_inst *c, const struct zr_comm_op *op)
{
	if (op->kind < ZR_COMM_ALL_GATHER || op->kind > ZR_COMM_FENCE || !nn_is_group(c, op->group))
		return zr_fail(c->h, ZR_EINVAL, "unknown kind of operation %d or group %d",
			       op->kind, op->group);

	const struct nn_group *g = &c->group[op->group];
	if (op->n_seg < 0 || (op->n_seg && !comm_dtype_bytes(op->dtype)))
		return zr_fail(c->h, ZR_EINVAL, "%d segments of type %d", op->n_seg, op->dtype);
	if (op->kind == ZR_COMM_BROADCAST && (op->root < 0 || op->root >= g->size))
		return zr_fail(c->h, ZR_EINVAL, "broadcast from rank %d of %d", op->root, g->size);

	for (int32_t i = 0; i < op->n_seg; i++)
		if (op->seg[i].count < 0 ||
		    (op->seg[i].count && !comm_placed_well(op, g->rank, g->size, &op->seg[i])))
			return zr_fail(c->h, ZR_EINVAL,
				       "segment %d: the result would overwrite what is sent", i);
	return ZR_OK;
}

static int check_exchange(struct zr_inst *c, const struct zr_comm_exchange *x)
{
	if (!nn_is_group(c, x->group))
		return zr_fail(c->h, ZR_EINVAL, "exchange over unknown group %d", x->group);

	const struct nn_group *g = &c->group[x->group];
	return comm_check_exchange(c->h, x, g->size, g->rank);
}

/* ---- places for operations ------------------------------------------------------- */

static int until_over(struct zr_inst *c, const struct nn_pend *p)
{
	const double start = nn_now();
	cudaError_t e;

	while ((e = cudaEventQuery(p->over)) == cudaErrorNotReady)
		nn_doze(c, nn_now() - start);
	if (c->broken)
		return nn_stopped(c);
	return nn_cuda(c, e, "cudaEventQuery");
}

/* cudaErrorNotReady also of one that nobody has waited for yet. */
static cudaError_t state_of(const struct nn_pend *p)
{
	if (!p->used)
		return cudaSuccess;
	if (!p->waited)
		return cudaErrorNotReady;
	return cudaEventQuery(p->over);
}

/* An entry that is over, the oldest one if all are under way. */
static int take_pend(struct zr_inst *c, struct nn_pend **out)
{
	struct nn_pend *oldest = NULL;

	for (int i = 0; i < NN_WINDOW; i++) {
		struct nn_pend *p = &c->pend[i];
		cudaError_t e = state_of(p);
		if (e != cudaErrorNotReady) {
			*out = p;
			return nn_cuda(c, e, "cudaEventQuery");
		}
		if (p->waited && (!oldest || p->since < oldest->since))
			oldest = p;
	}

	*out = oldest;
	if (!oldest)
		return ZR_EAGAIN;
	return until_over(c, oldest);
}

static int new_pend(struct zr_inst *c, int32_t group, const struct comm_header *own, int on_host,
		    struct nn_pend **out)
{
	int rc = take_pend(c, out);
	if (rc)
		return rc;

	struct nn_pend *p = *out;
	*p = (struct nn_pend){
		.over = p->over, .since = nn_now(), .group = group, .own = *own, .on_host = on_host
	};
	return ZR_OK;
}

static zr_ticket ticket_of(struct zr_inst *c, struct nn_pend *p)
{
	p->used = 1;
	atomic_fetch_add_explicit(&c->moved, p->bytes, memory_order_relaxed);
	return (zr_ticket)(p - c->pend) + 1;
}

/* ---- memory of GPUs -------------------------------------------------------------- */

/* The stream goes on once what was given to the compute stream so far is done. */
static int follow_compute(struct zr_inst *c)
{
	int rc = nn_cuda(c, cudaEventRecord(c->ready, c->compute), "cudaEventRecord");
	if (rc)
		return rc;
	return nn_cuda(c, cudaStreamWaitEvent(c->stream, c->ready, 0), "cudaStreamWaitEvent");
}

/* Ranks compare it when they next meet on the host. */
static void sign(struct nn_group *g, const struct comm_header *own)
{
	const uint64_t words[] = { (uint64_t)own->kind << 32 | (uint32_t)own->dtype,
				   (uint64_t)own->root << 32 | (uint32_t)own->n_seg,
				   (uint64_t)own->op << 32 | (uint32_t)own->unit,
				   (uint64_t)own->step, own->counts };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		g->before = (g->before ^ words[i]) * 0x9e3779b97f4a7c15u;
		g->before ^= g->before >> 29;
	}
}

static int post_on_device(struct zr_inst *c, const struct zr_comm_op *op, struct nn_pend *p)
{
	int rc = nn_host_settle(c, op->group);
	if (rc)
		return rc;

	p->bytes = nn_bytes_of(c, op);
	c->posting = p;
	rc = follow_compute(c);
	if (!rc)
		rc = nn_move(c, op);
	if (!rc)
		rc = nn_cuda(c, cudaEventRecord(p->over, c->stream), "cudaEventRecord");
	c->posting = NULL;
	sign(&c->group[op->group], &p->own);
	return rc;
}

/* ---- memory of the host ---------------------------------------------------------- */

static int post_on_host(struct zr_inst *c, const struct zr_comm_op *op, struct nn_pend *p)
{
	p->bytes = nn_bytes_of(c, op);
	p->seg = op->seg;
	nn_host_post(c, p);
	return nn_host_advance(c);
}

int nn_host_run(struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct comm_header own = comm_header_of(op);
	struct nn_pend *p;
	int rc = new_pend(c, op->group, &own, 1, &p);
	if (!rc)
		rc = post_on_host(c, op, p);
	if (rc)
		return rc;
	return nn_host_wait(c, p);
}

/* ---- post ------------------------------------------------------------------------ */

int nn_enter(struct zr_inst *c)
{
	if (c->broken)
		nn_tell(c);
	if (c->broken)
		return nn_stopped(c);
	if (c->world == 1)
		return ZR_OK;
	return nn_cuda(c, cudaSetDevice(c->gpu), "cudaSetDevice");
}

/* A group of one rank, in host memory. */
static void copy_alone(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && op->kind < ZR_COMM_BARRIER; i++)
		if (op->seg[i].count && op->seg[i].send != op->seg[i].recv)
			memcpy(op->seg[i].recv, op->seg[i].send,
			       (uint64_t)op->seg[i].count * comm_dtype_bytes(op->dtype));
}

static int post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	const struct comm_header own = comm_header_of(op);
	struct nn_pend *p;
	int on_host = 1;
	int rc = nn_enter(c);
	if (!rc && c->world > 1)
		rc = lies_on_host(c, op, &on_host);
	if (!rc)
		rc = check_sum(c, op, on_host);
	if (rc)
		return rc;

	if (on_host && c->group[op->group].size == 1) {
		copy_alone(op);
		return ZR_OK;
	}

	rc = new_pend(c, op->group, &own, on_host, &p);
	if (rc)
		return rc;

	rc = on_host ? post_on_host(c, op, p) : post_on_device(c, op, p);
	if (rc)
		return rc;

	*out = ticket_of(c, p);
	return ZR_OK;
}

int nn_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	int rc = check_op(c, op);
	*out = 0;
	if (rc)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = post(c, op, out);
	if (c->broken)
		nn_tell(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- exchanges ------------------------------------------------------------------- */

/* What comes from the others. */
static uint64_t exchange_bytes(const struct nn_group *g, const struct zr_comm_exchange *x)
{
	uint64_t sum = 0;

	for (int32_t r = 0; r < g->size; r++)
		if (r != g->rank)
			sum += (uint64_t)x->recv_count[r] * comm_dtype_bytes(x->dtype);
	return sum;
}

static int exchange_on_host(struct zr_inst *c, const struct zr_comm_exchange *x, int *out)
{
	const int32_t ranks = c->group[x->group].size;
	*out = 1;
	for (int32_t r = 0; r < ranks && c->world > 1; r++) {
		if (x->send_count[r])
			return is_host_memory(c, x->send, out);
		if (x->recv_count[r])
			return is_host_memory(c, x->recv, out);
	}

	return ZR_OK;
}

static int exchange_alone(struct zr_inst *c, const struct zr_comm_exchange *x, int on_host)
{
	const size_t bytes = (size_t)x->send_count[0] * comm_dtype_bytes(x->dtype);
	if (bytes && on_host)
		memcpy(x->recv, x->send, bytes);
	if (!bytes || on_host)
		return ZR_OK;
	return nn_cuda(c, cudaMemcpyAsync(x->recv, x->send, bytes, cudaMemcpyDefault, c->compute),
		       "cudaMemcpyAsync");
}

static int exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out)
{
	const struct nn_group *g = &c->group[x->group];
	const struct comm_header own = comm_header_of_exchange(x);
	struct nn_pend *p;
	int on_host;
	int rc = nn_enter(c);
	if (!rc)
		rc = exchange_on_host(c, x, &on_host);
	if (!rc && g->size == 1)
		return exchange_alone(c, x, on_host);
	if (!rc)
		rc = new_pend(c, x->group, &own, on_host, &p);
	if (!rc && !on_host)
		rc = follow_compute(c);
	if (rc)
		return rc;

	p->bytes = exchange_bytes(g, x);
	p->exchange = *x;
	nn_host_post(c, p);
	rc = nn_host_advance(c);
	if (rc)
		return rc;

	*out = ticket_of(c, p);
	return ZR_OK;
}

int nn_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out)
{
	int rc = check_exchange(c, x);
	*out = 0;
	if (rc)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = exchange(c, x, out);
	if (c->broken)
		nn_tell(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- tickets --------------------------------------------------------------------- */

static int begins_with_message(const struct nn_pend *p)
{
	return p->on_host || p->own.kind == COMM_EXCHANGE;
}

static int finish(struct zr_inst *c, struct nn_pend *p)
{
	int rc = nn_enter(c);
	if (!rc && begins_with_message(p))
		rc = nn_host_wait(c, p);
	p->waited = 1;
	if (rc || p->on_host) {
		p->used = rc != 0;
		return rc;
	}

	return nn_cuda(c, cudaStreamWaitEvent(c->compute, p->over, 0), "cudaStreamWaitEvent");
}

static int find(struct zr_inst *c, zr_ticket ticket, struct nn_pend **out)
{
	*out = &c->pend[(ticket - 1) % NN_WINDOW];
	if (ticket > NN_WINDOW || !(*out)->used || (*out)->waited)
		return zr_fail(c->h, ZR_ESTATE, "ticket %llu is not outstanding",
			       (unsigned long long)ticket);
	return ZR_OK;
}

int nn_wait(struct zr_inst *c, zr_ticket ticket)
{
	struct nn_pend *p;
	if (!ticket)
		return ZR_OK;

	int rc = find(c, ticket, &p);
	if (rc)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = finish(c, p);
	if (c->broken)
		nn_tell(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* 1: over; 0: not yet. */
static int is_over(struct zr_inst *c, const struct nn_pend *p)
{
	int rc = nn_enter(c);
	if (!rc && begins_with_message(p))
		rc = nn_host_advance(c);
	if (rc)
		return rc;
	if (begins_with_message(p) && p->stage != NN_OVER)
		return 0;
	if (p->on_host)
		return 1;

	cudaError_t e = cudaEventQuery(p->over);
	if (e == cudaErrorNotReady)
		return 0;
	if (e == cudaSuccess)
		return 1;
	return nn_cuda(c, e, "cudaEventQuery");
}

int nn_test(struct zr_inst *c, zr_ticket ticket)
{
	struct nn_pend *p;
	if (!ticket)
		return 1;

	int rc = find(c, ticket, &p);
	if (rc)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = is_over(c, p);
	if (c->broken)
		nn_tell(c);
	pthread_mutex_unlock(&c->lock);
	return rc;
}
