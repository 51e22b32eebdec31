/* SPDX-License-Identifier: Apache-2.0
 *
 * watchways.c - the double of cards, offload/nvme and comm/local in one plugin that watches whether
 * what is moved has the time of a layer: built and run by tests/system/ways.sh. In the environment,
 *   WATCH_WAYS=FILE  lines "TRANSFER ended beside" to FILE.rank at the end: how many were waited
 *                    for, and how many of them after a layer had run since they were posted.
 *                    Transfers: reads and writes of parameters and activations, copies in to the
 *                        device and out of it, all-gathers of units
 *   WATCH_ROOM=N     reads of parameters under way at most
 *   WATCH_FAIL=N     the Nth read of parameters that is waited for fails, and every later one
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/comm.h>
#include <zeroth/device.h>
#include <zeroth/offload.h>

#include "wrapped.h"

static struct zr_desc device_desc, store_desc, comm_desc;
static struct zr_device_v1 device;
static struct zr_offload_v1 store;
static struct zr_comm_v1 comm;
static const struct zr_desc *real_device, *real_store, *real_comm;
static const struct zr_device_v1 *dev;
static const struct zr_offload_v1 *disk;
static const struct zr_comm_v1 *ranks;
static const struct zr_host *host, *store_host;

/* ---- what is under way ---- */

enum { PARAM, ACTIVATION, OUT_PARAM, OUT_ACTIVATION, COPY_IN, COPY_OUT, GATHER, TRANSFERS };
static const char *const name[TRANSFERS] = { "read_param", "read_act", "write_param", "write_act",
					     "copy_in",    "copy_out", "gather" };
static long ended[TRANSFERS], beside[TRANSFERS], layers;

static struct transfer {
	const void *by; /* the instance; NULL: free */
	uint64_t ticket;
	int what;
	long at; /* layers until then */
} under_way[4096];

static void posted(const void *by, uint64_t ticket, int what)
{
	for (struct transfer *t = under_way; ticket && t < under_way + 4096; t++)
		if (!t->by) {
			*t = (struct transfer){ by, ticket, what, layers };
			return;
		}
}

/* Which it was, -1: none that is watched. */
static int waited(const void *by, uint64_t ticket)
{
	for (struct transfer *t = under_way; t < under_way + 4096; t++)
		if (t->by == by && t->ticket == ticket) {
			t->by = NULL;
			ended[t->what]++;
			beside[t->what] += layers > t->at;
			return t->what;
		}
	return -1;
}

/* ---- the device ---- */

static struct zr_ops watched;
static const struct zr_ops *real_ops;
static const char *arena;
static uint64_t arena_bytes;

#define LAYER(slot)                                                                                \
	static int slot(const struct zr_ops *o, struct zr_stream *s,                               \
			const struct zr_op_##slot *op)                                             \
	{                                                                                          \
		(void)o;                                                                           \
		layers++;                                                                          \
		return real_ops->slot(real_ops, s, op);                                            \
	}

LAYER(embedding)
LAYER(embedding_bwd)
LAYER(attention)
LAYER(attention_bwd)
LAYER(head_loss)

static const struct zr_ops *ops(struct zr_inst *d)
{
	real_ops = dev->ops(d);
	watched = *real_ops;
	watched.embedding = embedding;
	watched.embedding_bwd = embedding_bwd;
	watched.attention = attention;
	watched.attention_bwd = attention_bwd;
	watched.head_loss = head_loss;
	return &watched;
}

static int mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	int rc = dev->mem_alloc(d, bytes, kind, out);
	if (!rc && kind == ZR_MEM_DEVICE && bytes > arena_bytes) {
		arena = *out;
		arena_bytes = bytes;
	}
	return rc;
}

static int is_device(const void *p)
{
	return (uintptr_t)p - (uintptr_t)arena < arena_bytes;
}

static int copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes,
		      uint64_t *ticket)
{
	int rc = dev->copy_start(d, dst, src, bytes, ticket);
	if (!rc && is_device(dst) != is_device(src))
		posted(d, *ticket, is_device(dst) ? COPY_IN : COPY_OUT);
	return rc;
}

static int copy_after(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint32_t slot,
		      uint64_t *ticket)
{
	int rc = dev->copy_after(d, dst, src, bytes, slot, ticket);
	if (!rc && is_device(dst) != is_device(src))
		posted(d, *ticket, is_device(dst) ? COPY_IN : COPY_OUT);
	return rc;
}

static int copy_wait(struct zr_inst *d, uint64_t ticket)
{
	waited(d, ticket);
	return dev->copy_wait(d, ticket);
}

/* ---- the store ---- */

static uint64_t param, activation; /* objects */
static long reading;               /* parameters */

static int info(struct zr_inst *d, struct zr_tier_info *i)
{
	int rc = disk->info(d, i);
	if (getenv("WATCH_ROOM"))
		i->max_inflight = (uint32_t)atol(getenv("WATCH_ROOM"));
	return rc;
}

static int make(struct zr_inst *d, const char *key, uint64_t bytes, uint64_t *object)
{
	int rc = disk->make(d, key, bytes, object);
	if (!rc && !strcmp(key, "param"))
		param = *object;
	if (!rc && !strcmp(key, "activation"))
		activation = *object;
	return rc;
}

static int read_object(struct zr_inst *d, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		       uint64_t *ticket)
{
	int rc = getenv("WATCH_ROOM") && object == param && reading == atol(getenv("WATCH_ROOM")) ?
			 ZR_EAGAIN :
			 disk->read(d, object, off, dst, bytes, ticket);
	reading += !rc && object == param;
	if (!rc && (object == param || object == activation))
		posted(d, *ticket, object == param ? PARAM : ACTIVATION);
	return rc;
}

static int write_object(struct zr_inst *d, uint64_t object, uint64_t off, const void *src,
			uint64_t bytes, uint64_t *ticket)
{
	int rc = disk->write(d, object, off, src, bytes, ticket);
	if (!rc && (object == param || object == activation))
		posted(d, *ticket, object == param ? OUT_PARAM : OUT_ACTIVATION);
	return rc;
}

static int wait_object(struct zr_inst *d, uint64_t ticket)
{
	const char *fail = getenv("WATCH_FAIL");
	int what = waited(d, ticket), rc = disk->wait(d, ticket);
	reading -= what == PARAM;
	if (rc || what != PARAM || !fail || ended[PARAM] < atol(fail))
		return rc;
	return zr_fail(store_host, ZR_EIO, "param: the disk caught fire");
}

/* ---- the ranks ---- */

static int post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *ticket)
{
	int rc = ranks->post(c, op, ticket);
	if (!rc && op->kind == ZR_COMM_ALL_GATHER && op->tag.unit >= 0)
		posted(c, *ticket, GATHER);
	return rc;
}

static int wait_ranks(struct zr_inst *c, zr_ticket ticket)
{
	waited(c, ticket);
	return ranks->wait(c, ticket);
}

/* ---- instances ---- */

static int create_device(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	return real_device->create(h, opts, out);
}

static int create_store(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	store_host = h;
	return real_store->create(h, opts, out);
}

static void destroy_device(struct zr_inst *d)
{
	write_counts("WATCH_WAYS", host->rank, TRANSFERS, name, ended, beside);
	real_device->destroy(d);
}

static const struct zr_iface device_ifaces[] = { { "zr.device/1", &device }, { NULL, NULL } };
static const struct zr_iface store_ifaces[] = { { "zr.offload/1", &store }, { NULL, NULL } };
static const struct zr_iface comm_ifaces[] = { { "zr.comm/1", &comm }, { NULL, NULL } };

static struct zr_desc renamed(const struct zr_desc *real, const struct zr_iface *ifaces)
{
	struct zr_desc d = *real;
	d.id = "watchways";
	d.ifaces = ifaces;
	return d;
}

__attribute__((constructor)) static void wrap(void)
{
	real_device = wrapped("../tests/doubles/.libs/cards.so");
	real_store = wrapped("offload/nvme.so");
	real_comm = wrapped("comm/local.so");
	dev = real_device->ifaces[0].vtbl;
	disk = real_store->ifaces[0].vtbl;
	ranks = real_comm->ifaces[0].vtbl;
	device_desc = renamed(real_device, device_ifaces);
	store_desc = renamed(real_store, store_ifaces);
	comm_desc = renamed(real_comm, comm_ifaces);
	device = *dev;
	store = *disk;
	comm = *ranks;
	device_desc.create = create_device;
	device_desc.destroy = destroy_device;
	store_desc.create = create_store;
	device.ops = ops;
	device.mem_alloc = mem_alloc;
	device.copy_start = copy_start;
	device.copy_wait = copy_wait;
	device.copy_after = copy_after;
	store.info = info;
	store.make = make;
	store.read = read_object;
	store.write = write_object;
	store.wait = wait_object;
	comm.post = post;
	comm.wait = wait_ranks;
}

ZR_PLUGIN(&device_desc, &store_desc, &comm_desc);
