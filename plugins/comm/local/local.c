/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - collectives between ranks on one machine, over memory that they share; see local.h.
 * Ranks are processes, or threads of one.
 */
#define _GNU_SOURCE
#include "local.h"
#include "plugins/descriptor.h"

#include <stdlib.h>
#include <unistd.h>

static int local_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	if (op->kind >= COMM_MEM)
		return zr_fail(c->h, ZR_EINVAL, "unknown kind of operation %d", op->kind);
	return zl_post(c, op, out);
}

static void local_abort(struct zr_inst *c, const char *why)
{
	char text[900];
	snprintf(text, sizeof text, "rank %d stopped: %s", c->rank, why);
	zl_abort(c, text);
}

static uint64_t local_bytes_sent(struct zr_inst *c)
{
	return atomic_load_explicit(&c->sent, memory_order_relaxed);
}

static int take_groups(struct zr_inst *c, const struct zr_host *h)
{
	int rc = comm_check_place(h);
	if (rc)
		return rc;
	if (h->world > MAX_RANKS)
		return zr_fail(h, ZR_EINVAL, "%d ranks: this plugin connects at most %d", h->world,
			       MAX_RANKS);

	c->rank = h->rank;
	c->world = h->world;
	c->nodes = h->local_world == h->world ? 1 : 2;
	c->group[ZR_GROUP_SELF] = (struct group){ .first = h->rank, .size = 1 };
	c->group[ZR_GROUP_NODE] = (struct group){ .first = h->rank - h->local_rank,
						  .size = h->local_world,
						  .rank = h->local_rank };
	c->group[ZR_GROUP_WORLD] = (struct group){ .size = h->world, .rank = h->rank };
	return 0;
}

static int take_boot(struct zr_inst *c)
{
	if (ZR_HAS(c->h, struct zr_host, get) && c->h->get)
		c->boot = c->h->get(c->h, "zr.boot/1", &c->boot_inst);
	if (!c->boot || !ZR_HAS(c->boot, struct zr_boot_v1, get) || !c->boot->put || !c->boot->get)
		return zr_fail(c->h, ZR_ENOTSUP,
			       "boot offers no key-value area through which %d ranks could meet",
			       c->world);
	return 0;
}

static uint64_t fetch_bytes(int32_t world, int32_t workers)
{
	return (uint64_t)workers * (uint64_t)world * FETCH;
}

static uint64_t local_held(const void *opts, int32_t world, int32_t workers)
{
	const struct zr_inst *c = NULL;
	(void)opts;
	return fetch_bytes(world, workers) +
	       (uint64_t)world * (sizeof *c->source + sizeof *c->watch);
}

/* One piece: what is read of others, then sources, then watches. */
static int take_memory(struct zr_inst *c)
{
	c->fetch = c->h->alloc(c->h, local_held(c->o, c->world, c->h->workers), "comm");
	if (!c->fetch)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");
	c->source = (struct source *)(void *)(c->fetch + fetch_bytes(c->world, c->h->workers));
	c->watch = (struct pollfd *)(void *)(c->source + c->world);
	for (int32_t r = 0; r < c->world; r++)
		c->watch[r].fd = -1;
	return 0;
}

static void local_destroy(struct zr_inst *c)
{
	zl_leave(c);
	c->h->release(c->h, c->fetch);
	free(c);
}

static int local_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *c = calloc(1, sizeof *c);
	if (!c)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	c->h = h;
	c->o = opts;
	c->fd = -1;
	c->pid = getpid();
	c->next = c->head = 1;
	c->doing = "joining";
	int rc = take_groups(c, h);
	if (!rc && h->world > 1) {
		rc = take_boot(c);
		if (!rc)
			rc = take_memory(c);
		if (!rc)
			rc = zl_join(c);
	}

	if (rc) {
		if (c->area)
			zl_abort(c, "a rank could not join");
		local_destroy(c);
		return rc;
	}

	c->doing = "";
	*out = c;
	return 0;
}

static const struct zr_comm_v1 vtbl = {
	.size = sizeof vtbl,
	.post = local_post,
	.test = zl_test,
	.wait = zl_wait,
	.mem_alloc = zl_mem_alloc,
	.mem_free = zl_mem_free,
	.mem_peer = zl_mem_peer,
	.abort = local_abort,
	.bytes_sent = local_bytes_sent,
	.mem_view = zl_mem_view,
	.held = local_held,
	.exchange = zl_exchange,
	.group = zl_group,
};

static const char *const cross_reads[] = { "auto", "off", NULL };
static const struct zr_opt opts[] = {
	ZR_OPT(struct local_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others ends the run, naming them."),
	ZR_OPT(struct local_opts, staging, ZR_T_BYTES, 0, "1M", 65536, 1 << 30, "bytes",
	       "Size of a rank's staging buffer, used for memory that other ranks cannot read."),
	ZR_OPT_ENUM(struct local_opts, cross_read, 0, "auto", cross_reads,
		    "auto: read the memory of other processes through the kernel where it permits "
		    "that; off: always stage."),
};

PLUGIN(comm, "local", &vtbl, .version = "1", .summary = "Ranks of one machine over shared memory.",
       PLUGIN_OPTIONS(struct local_opts, opts), .create = local_create, .destroy = local_destroy);
