/* SPDX-License-Identifier: Apache-2.0
 *
 * lend.c - finds out whether the ranks of the node may read each other's memory: all, or none does
 * it. A node as boot names it may be several machines, or processes that do not see each other;
 * then a number of a process means another one, or none, and a nonce is not found there.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where a rank can be read. */
struct lender {
	int32_t pid, off;
	uint64_t nonce, at;
};

static int reads(struct tc_peer *peer, const struct lender *l)
{
	uint64_t got = ~l->nonce;
	struct iovec here = { &got, sizeof got };
	struct iovec there = { (void *)(uintptr_t)l->at, sizeof got };
	peer->pid = l->pid;
	peer->ends = (int)syscall(SYS_pidfd_open, l->pid, 0);
	return peer->ends >= 0 && !l->off &&
	       process_vm_readv(l->pid, &here, 1, &there, 1, 0) == sizeof got && got == l->nonce;
}

static char reads_all(struct zr_inst *c, const struct lender *all)
{
	const struct tc_group *g = &c->group[ZR_GROUP_NODE];
	for (int32_t k = 0; k < g->size; k++)
		if (k != g->rank && !reads(&c->peer[tc_in_world(g, k)], &all[k]))
			return 0;
	return 1;
}

/* all, each: [ranks of the node] */
static int try_all(struct zr_inst *c, struct lender *all, char *each)
{
	const struct lender own = {
		.pid = getpid(),
		.off = c->o->cross_read,
		.nonce = c->nonce,
		.at = (uintptr_t)&c->nonce,
	};
	char can;
	int rc = tc_gather(c, ZR_GROUP_NODE, &(struct zr_comm_seg){ &own, all, sizeof own }, 0);
	if (rc)
		return rc;

	can = reads_all(c, all);
	rc = tc_gather(c, ZR_GROUP_NODE, &(struct zr_comm_seg){ &can, each, sizeof can }, 1);
	if (rc)
		return rc;

	c->lends = 1;
	for (int32_t k = 0; k < c->group[ZR_GROUP_NODE].size; k++)
		c->lends &= each[k];
	return 0;
}

int tc_try_lending(struct zr_inst *c)
{
	const size_t ranks = (size_t)c->group[ZR_GROUP_NODE].size;
	if (getrandom(&c->nonce, sizeof c->nonce, 0) != sizeof c->nonce)
		return zr_fail(c->h, ZR_EIO, "no random numbers");

	struct lender *all = calloc(ranks, sizeof *all + 1);
	if (!all)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	int rc = try_all(c, all, (char *)(all + ranks));
	free(all);
	return rc;
}
