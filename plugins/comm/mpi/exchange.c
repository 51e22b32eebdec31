/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange.c - exchanges: all ranks tell each other what they send, and the data follow once each
 * pair of counts was found equal, as messages from rank to rank.
 */
#include "mpi.h"

#include <stdlib.h>
#include <string.h>

static int check_exchange(struct zr_inst *c, const struct zr_comm_exchange *x)
{
	if (!zm_is_group(c, x->group))
		return zr_fail(c->h, ZR_EINVAL, "exchange over unknown group %d", x->group);

	const struct zm_group *g = &c->group[x->group];
	return comm_check_exchange(c->h, x, g->size, g->rank);
}

/* What this rank keeps of its own data, which begin behind those for and of the ranks before. */
static void keep_own(const struct zr_comm_exchange *x, int32_t rank)
{
	const uint64_t esz = comm_dtype_bytes(x->dtype);
	int64_t from = 0, to = 0;
	for (int32_t r = 0; r < rank; r++) {
		from += x->send_count[r];
		to += x->recv_count[r];
	}

	if (x->send_count[rank])
		memcpy((char *)x->recv + (uint64_t)to * esz,
		       (const char *)x->send + (uint64_t)from * esz,
		       (uint64_t)x->send_count[rank] * esz);
}

/* Room for a message to and one from each rank. */
static int make_room(struct zr_inst *c, struct zm_pend *p)
{
	if (!p->all)
		p->all = malloc((size_t)c->world * sizeof *p->all);

	if (!p->counts)
		p->counts = malloc((size_t)c->world * sizeof *p->counts);

	if (p->req_room < 2 * c->world) {
		free(p->req);
		p->req = malloc(2 * (size_t)c->world * sizeof *p->req);
		p->req_room = p->req ? 2 * c->world : 0;
	}

	if (!p->all || !p->counts || !p->req)
		return zr_fail(c->h, ZR_ENOMEM, "no memory for exchange");
	return 0;
}

/* Tells all ranks the operation and the counts of what this one sends. */
static int launch(struct zr_inst *c, struct zm_pend *p, const struct zr_comm_exchange *x)
{
	p->group = x->group;
	p->stage = POSTED;
	p->told = p->in_pieces = p->begun = 0;
	p->exchange = *x;
	p->seg = NULL;
	p->own = comm_header_of_exchange(x);

	int rc = zm_announce(c, p);
	if (rc)
		return rc;

	p->n_req = 1;
	return zm_mpi_failed(c,
			     MPI_Ialltoall(x->send_count, 1, MPI_INT64_T, p->counts, 1, MPI_INT64_T,
					   c->group[x->group].meet, p->req),
			     "MPI_Ialltoall");
}

int zm_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out)
{
	int rc = zm_enter(c);
	if (!rc)
		rc = check_exchange(c, x);
	if (rc)
		return rc;

	if (c->group[x->group].size == 1) {
		keep_own(x, 0);
		*out = 0;
		return 0;
	}

	struct zm_pend *p = zm_free_pend(c);
	if (!p)
		return ZR_EAGAIN;

	rc = make_room(c, p);
	if (!rc)
		rc = launch(c, p, x);
	if (rc)
		return rc;

	*out = zm_ticket_for(c, p);
	return zm_enqueue(c, p);
}

static int counts_differ(struct zr_inst *c, const struct zm_pend *p, int32_t from)
{
	const struct zm_group *g = &c->group[p->group];
	char text[160];

	comm_op_text(&p->own, p->group, text, sizeof text);
	return zm_stop(c, COMM_PAIR_DIFFERS, zm_in_world(g, from), (long long)p->counts[from],
		       comm_dtype_name(p->own.dtype), c->rank,
		       (long long)p->exchange.recv_count[from], text);
}

int zm_exchange_data(struct zr_inst *c, struct zm_pend *p)
{
	const struct zm_group *g = &c->group[p->group];
	const struct zr_comm_exchange *x = &p->exchange;
	const uint64_t esz = comm_dtype_bytes(x->dtype);
	const char *send = x->send;
	char *recv = x->recv;
	for (int32_t r = 0; r < g->size; r++)
		if (p->counts[r] != x->recv_count[r])
			return counts_differ(c, p, r);

	keep_own(x, g->rank);
	p->n_req = 0;
	for (int32_t r = 0; r < g->size; r++) {
		const uint64_t to = (uint64_t)x->send_count[r] * esz;
		const uint64_t from = (uint64_t)x->recv_count[r] * esz;
		int rc = 0;
		if (from && r != g->rank)
			rc = zm_recv_part(c, p, recv, from, r);
		if (!rc && to && r != g->rank)
			rc = zm_send_part(c, p, send, to, r);
		if (rc)
			return rc;

		if (r != g->rank)
			atomic_fetch_add_explicit(&c->received, from, memory_order_relaxed);
		send += to;
		recv += from;
	}
	return 0;
}
