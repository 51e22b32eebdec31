/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - collectives between ranks of any machines over TCP, where there is no MPI; see tcp.h.
 */
#define _GNU_SOURCE
#include "tcp.h"
#include "plugins/descriptor.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int take_groups(struct zr_inst *c, const struct zr_host *h)
{
	int rc = comm_check_place(h);
	if (rc)
		return rc;

	c->rank = h->rank;
	c->world = h->world;
	c->group[ZR_GROUP_SELF] = (struct tc_group){ .first = h->rank, .size = 1 };
	c->group[ZR_GROUP_NODE] = (struct tc_group){ .first = h->rank - h->local_rank,
						     .size = h->local_world,
						     .rank = h->local_rank };
	c->group[ZR_GROUP_WORLD] = (struct tc_group){ .size = h->world, .rank = h->rank };
	return 0;
}

/* For two groups, of which that of the node may be of any size; those of listed ranks take theirs
 * when they are made. */
static uint64_t tcp_held(const void *opts, int32_t world, int32_t workers)
{
	(void)opts, (void)workers;
	return world > 1 ? 2 * tc_most_staged(world) : 0;
}

static int take_memory(struct zr_inst *c)
{
	const size_t world = (size_t)c->world;
	c->peer = calloc(world, sizeof *c->peer);
	c->poll = malloc(world * CHANNELS * sizeof *c->poll);
	c->source = malloc((size_t)c->h->workers * world * sizeof *c->source);
	c->staging = c->h->alloc(c->h, tcp_held(c->o, c->world, c->h->workers), "comm");
	if (!c->peer || !c->poll || !c->source || !c->staging)
		return zr_fail(c->h, ZR_ENOMEM, "no memory for connections with %d ranks",
			       c->world);

	char *at = c->staging;
	for (int k = ZR_GROUP_NODE; k <= ZR_GROUP_WORLD; k++) {
		struct tc_group *g = &c->group[k];
		g->staging = at;
		at += tc_staging_bytes(g->size);
	}
	for (int32_t r = 0; r < c->world; r++) {
		struct tc_peer *peer = &c->peer[r];
		peer->ends = -1;
		for (int k = 0; k < CHANNELS; k++) {
			peer->fd[k] = -1;
			peer->in[k].seq = peer->out[k].seq = 1;
		}
	}
	return 0;
}

static int is_outstanding(const struct zr_inst *c)
{
	for (int i = 0; i < WINDOW; i++)
		if (c->pend[i].ticket)
			return 1;
	return 0;
}

/* Ends well if all ranks come to this with nothing outstanding. */
static void leave(struct zr_inst *c)
{
	if (c->broken || tc_enter(c))
		return;
	if (is_outstanding(c))
		tc_stop(c, "rank %d stopped with operations outstanding", c->rank);
	else
		tc_goodbye(c);
}

static void close_connections(struct zr_inst *c)
{
	for (int32_t r = 0; c->peer && r < c->world; r++) {
		for (int k = 0; k < CHANNELS; k++)
			if (c->peer[r].fd[k] >= 0)
				close(c->peer[r].fd[k]);
		if (c->peer[r].ends >= 0)
			close(c->peer[r].ends);
	}
}

static void tcp_free(struct zr_inst *c)
{
	for (int i = 0; i < WINDOW; i++) {
		free(c->pend[i].all);
		free(c->pend[i].pair);
	}
	for (int k = ZR_GROUP_SEQUENCE; k < GROUPS; k++) {
		free(c->group[k].ranks);
		c->h->release(c->h, c->group[k].staging);
	}
	close_connections(c);
	c->h->release(c->h, c->staging);
	free(c->source);
	free(c->poll);
	free(c->peer);
	free(c);
}

/* A launcher kills all ranks once one has failed: the one with the cause should be the first to
 * end. */
static void tcp_destroy(struct zr_inst *c)
{
	if (c->peer)
		leave(c);
	if (c->follows)
		nanosleep(&(struct timespec){ 1, 0 }, NULL);
	tcp_free(c);
}

static int tcp_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *c = calloc(1, sizeof *c);
	if (!c)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	c->h = h;
	c->o = opts;
	int rc = take_groups(c, h);
	if (!rc && c->world > 1)
		rc = take_memory(c);
	if (!rc && c->world > 1)
		rc = tc_connect(c);
	if (!rc && c->group[ZR_GROUP_NODE].size > 1)
		rc = tc_try_lending(c);
	if (rc) {
		tcp_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* [any] Carried out by the next call of the training thread, or the wait in progress. */
static void tcp_abort(struct zr_inst *c, const char *why)
{
	int none = 0;
	if (!atomic_compare_exchange_strong(&c->abort_state, &none, 1))
		return;
	snprintf(c->abort_why, sizeof c->abort_why, "%s", why);
	atomic_store(&c->abort_state, 2);
}

static uint64_t tcp_bytes_sent(struct zr_inst *c)
{
	return atomic_load_explicit(&c->received, memory_order_relaxed);
}

static const struct zr_comm_v1 vtbl = {
	.size = sizeof vtbl,
	.post = tc_post,
	.test = tc_test,
	.wait = tc_wait,
	.abort = tcp_abort,
	.bytes_sent = tcp_bytes_sent,
	.held = tcp_held,
	.exchange = tc_exchange,
	.group = tc_group,
};

static const char *const cross_reads[] = { "auto", "off", NULL };

static const struct zr_opt opts[] = {
	ZR_OPT(struct tcp_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others ends the run, naming them."),
	ZR_OPT(struct tcp_opts, interface, ZR_T_STR, 0, "", 0, 0, "",
	       "Network interface that ranks reach this one by, as eth0. Without one, all of this "
	       "machine's are tried."),
	ZR_OPT_ENUM(struct tcp_opts, cross_read, 0, "auto", cross_reads,
		    "auto: ranks of one machine read each other's memory where the kernel permits "
		    "that; off: all goes over the network."),
};

PLUGIN(comm, "tcp", &vtbl, .version = "1",
       .summary = "Ranks on one or many machines, over TCP, without MPI.",
       PLUGIN_OPTIONS(struct tcp_opts, opts), .create = tcp_create, .destroy = tcp_destroy);
