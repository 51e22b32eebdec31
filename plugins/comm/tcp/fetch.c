/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.c - reads what another rank of the machine lends, where it lies.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

#define ITEM (512u << 10) /* bytes per item of parallel() */

struct fetching {
	pid_t pid;
	uint64_t from, bytes;
	char *to;
	_Atomic int why; /* errno of one that failed */
};

static void fetch_item(void *arg, int64_t item, int32_t worker)
{
	struct fetching *f = arg;
	uint64_t at = (uint64_t)item * ITEM;
	const uint64_t end = f->bytes - at < ITEM ? f->bytes : at + ITEM;
	(void)worker;
	while (at < end) {
		struct iovec here = { f->to + at, end - at };
		struct iovec there = { (void *)(uintptr_t)(f->from + at), end - at };
		ssize_t n = process_vm_readv(f->pid, &here, 1, &there, 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			atomic_store(&f->why, n ? errno : EFAULT);
			return;
		}
		at += (uint64_t)n;
	}
}

/* What was read counts only if the rank had neither ended nor said that it stops: until then it
 * leaves its buffers alone, and its number names no other process. */
static int check_lender(struct zr_inst *c, int32_t rank)
{
	struct pollfd ends = { .fd = c->peer[rank].ends, .events = POLLIN };
	if (poll(&ends, 1, 0) > 0)
		return tc_lost(c, rank, 0);
	return tc_read_notes_of(c, rank);
}

int tc_fetch(struct zr_inst *c, int32_t rank, uint64_t from, char *to, uint64_t bytes)
{
	struct fetching f = { .pid = c->peer[rank].pid, .from = from, .to = to, .bytes = bytes };
	c->h->parallel(c->h, (int64_t)((bytes + ITEM - 1) / ITEM), fetch_item, &f);

	int rc = check_lender(c, rank);
	if (rc)
		return rc;
	if (!f.why)
		return 0;
	if (f.why == ESRCH) /* its memory goes before its connections do */
		return tc_lost(c, rank, 0);
	return tc_stop(c, "rank %d cannot read the memory of rank %d: %s", c->rank, rank,
		       strerror(f.why));
}
