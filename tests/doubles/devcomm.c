/* SPDX-License-Identifier: Apache-2.0
 *
 * devcomm.c - a comm of device memory alone, as one between GPUs, for devices that are played:
 * comm/local behind copies of the device. What it sends it copies when it is posted, what it
 * receives when it is waited for. Built and run by tests/system/offload.sh. It fails when a segment
 * is on the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/device.h>
#include <zeroth/zero.h>

#include "wrapped.h"

#define PENDING 64
#define SEGS    512

static struct zr_desc desc;
static struct zr_comm_v1 vtbl;
static const struct zr_desc *real;
static const struct zr_comm_v1 *real_vtbl;
static struct zr_host inner;
static const struct zr_host *host;
static const struct zr_boot_v1 *real_boot;
static struct zr_inst *boot_inst, *dev_inst;
static const struct zr_device_v1 *dev;
static int32_t made[ZR_GROUP_CROSS + 1]; /* ranks of groups that were made */

static struct pending {
	zr_ticket ticket; /* of the real one */
	int used, n;
	int64_t received; /* parts */
	uint64_t bytes[SEGS];
	struct zr_comm_seg seg[SEGS], mirror[SEGS];
} pending[PENDING];

/* ---- keys of its own: the comm of the host is another comm/local ---- */

static int put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
{
	char own[64];
	snprintf(own, sizeof own, "dev.%s", key);
	return real_boot->put(b, own, value, bytes);
}

static int get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
{
	char own[64];
	snprintf(own, sizeof own, "dev.%s", key);
	return real_boot->get(b, own, value, bytes, timeout);
}

static const void *inner_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	static struct zr_boot_v1 boot;
	if (strcmp(iface, "zr.boot/1"))
		return host->get(h, iface, inst);
	boot = *real_boot;
	boot.put = put;
	boot.get = get;
	*inst = boot_inst;
	return &boot;
}

/* ---- operations ---- */

static int64_t ranks_of(const struct zr_comm_op *op)
{
	if (op->group == ZR_GROUP_WORLD)
		return host->world;
	if (op->group == ZR_GROUP_NODE)
		return host->local_world;
	return made[op->group] ? made[op->group] : 1;
}

static int group(struct zr_inst *inst, int32_t number, const int32_t *ranks, int32_t n)
{
	made[number] = n;
	return real_vtbl->group(inst, number, ranks, n);
}

static uint64_t width(int32_t dtype)
{
	return dtype == ZR_U8                      ? 1 :
	       dtype == ZR_F32 || dtype == ZR_I32  ? 4 :
	       dtype == ZR_BF16 || dtype == ZR_F16 ? 2 :
						     8;
}

/* Host code cannot look at device memory: an address that a copy from does not change is the
 * host's. */
static int on_host(const void *p)
{
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "r");
	int readable = 0;
	while (maps && fgets(line, sizeof line, maps)) {
		unsigned long lo, hi;
		char mode[5];
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, mode) == 3 && (unsigned long)p >= lo &&
		    (unsigned long)p < hi)
			readable = mode[0] == 'r';
	}
	fclose(maps);
	return readable;
}

static int post(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *out)
{
	struct zr_comm_op o = *op;
	struct pending *p = pending;
	int64_t ranks = ranks_of(op),
		parts = op->kind == ZR_COMM_ALL_TO_ALL || op->kind == ZR_COMM_REDUCE_SCATTER ?
				ranks :
				1;
	int rc = 0;
	while (p < pending + PENDING && p->used)
		p++;
	if (p == pending + PENDING || op->n_seg > SEGS || op->n_seg < 1)
		return zr_fail(host, ZR_EINVAL, "devcomm: an operation of %d segments", op->n_seg);
	memset(p, 0, sizeof *p);
	p->used = 1;
	p->n = op->n_seg;
	p->received = op->kind == ZR_COMM_ALL_GATHER || op->kind == ZR_COMM_ALL_TO_ALL ? ranks : 1;
	for (int i = 0; !rc && i < op->n_seg; i++) {
		uint64_t part = (uint64_t)op->seg[i].count * width(op->dtype),
			 sent = part * (uint64_t)parts;
		if (on_host(op->seg[i].send) || on_host(op->seg[i].recv))
			return zr_fail(host, ZR_EINVAL, "devcomm: segment %d is on the host", i);
		p->seg[i] = op->seg[i];
		p->bytes[i] = part * (uint64_t)p->received;
		p->mirror[i] = (struct zr_comm_seg){ malloc(sent + 1), malloc(p->bytes[i] + 1),
						     op->seg[i].count };
		rc = dev->copy(dev_inst, NULL, (void *)(uintptr_t)p->mirror[i].send,
			       op->seg[i].send, sent);
	}
	o.seg = p->mirror;
	if (!rc)
		rc = real_vtbl->post(inst, &o, &p->ticket);
	*out = (zr_ticket)(p - pending) + 1;
	return rc;
}

static int wait(struct zr_inst *inst, zr_ticket ticket)
{
	struct pending *p = &pending[ticket - 1];
	int rc = p->ticket ? real_vtbl->wait(inst, p->ticket) : 0;
	for (int i = 0; i < p->n; i++) {
		if (!rc)
			rc = dev->copy(dev_inst, NULL, p->seg[i].recv, p->mirror[i].recv,
				       p->bytes[i]);
		free((void *)(uintptr_t)p->mirror[i].send);
		free(p->mirror[i].recv);
	}
	p->used = 0;
	return rc;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	inner = *h;
	inner.get = inner_get;
	real_boot = h->get(h, "zr.boot/1", &boot_inst);
	dev = h->get(h, "zr.device/1", &dev_inst);
	return dev ? real->create(&inner, opts, out) : zr_fail(h, ZR_EINVAL, "devcomm: no device");
}

static int test(struct zr_inst *inst, zr_ticket ticket)
{
	(void)inst, (void)ticket;
	return 0; /* wait tells */
}

static const struct zr_iface ifaces[] = { { "zr.comm/1", &vtbl }, { NULL, NULL } };

__attribute__((constructor)) static void wrap(void)
{
	real = wrapped("comm/local.so");
	real_vtbl = real->ifaces[0].vtbl;
	desc = *real;
	vtbl = (struct zr_comm_v1){ .size = sizeof vtbl,
				    .mem = ZR_MEM_DEVICE,
				    .post = post,
				    .test = test,
				    .wait = wait,
				    .abort = real_vtbl->abort,
				    .bytes_sent = real_vtbl->bytes_sent,
				    .group = group };
	desc.id = "devcomm";
	desc.ifaces = ifaces;
	desc.create = create;
}

ZR_PLUGIN(&desc);
