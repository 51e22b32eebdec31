/* SPDX-License-Identifier: Apache-2.0
 *
 * planted.c - comm/local with one defect, built and run by tests/system/ranks.sh and
 * drift.sh: from step 3 on rank 2 does what PLANTED says (in the environment): posts another
 * `kind`, `tag`, `type` or `count` than the others, `fail`s alone, or takes `memory` without end.
 * `share`: rank 3 changes the first number of what it gives its node in step 3 by one unit in its
 * last place. `sums`: rank 3 changes a bit of each unit's sums that it gets in step 3, in the
 * middle.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "wrapped.h"

WRAP_MADE(comm, "comm/local.so", "planted")

static int is_planted(const char *what)
{
	const char *planted = getenv("PLANTED");
	return planted && !strcmp(planted, what);
}

static void take_memory(void)
{
	for (size_t bytes = (size_t)64 << 20;;) {
		char *p = malloc(bytes);
		if (p)
			memset(p, 1, bytes);
	}
}

static struct {
	zr_ticket ticket;
	int32_t n;
	uint32_t *sum[256];
} got;

/* Remembers where the sums come to. */
static void note_sums(const struct zr_comm_op *op, zr_ticket ticket)
{
	int sums = op->kind == ZR_COMM_ALL_GATHER && op->group == ZR_GROUP_WORLD;
	if (!sums || op->dtype != ZR_F32 || host->rank != 3 || op->tag.step != 3)
		return;
	got.ticket = ticket;
	got.n = op->n_seg < 256 ? op->n_seg : 256;
	for (int32_t i = 0; i < got.n; i++)
		got.sum[i] = (uint32_t *)op->seg[i].recv + op->seg[i].count * host->world / 2;
}

static int wait(struct zr_inst *inst, zr_ticket ticket)
{
	int rc = real_vtbl->wait(inst, ticket);
	for (int32_t i = 0; !rc && ticket == got.ticket && i < got.n; i++)
		*got.sum[i] ^= 0x1000;
	return rc;
}

static int post(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *out)
{
	if (is_planted("sums")) {
		int rc = real_vtbl->post(inst, op, out);
		note_sums(op, *out);
		return rc;
	}
	static struct zr_comm_seg seg[256]; /* peers look at it until the wait */
	struct zr_comm_op o = *op;
	if (is_planted("share") && op->kind == ZR_COMM_ALL_GATHER && op->group == ZR_GROUP_NODE)
		for (int32_t i = 0; host->rank == 3 && op->tag.step == 3 && i < op->n_seg; i++)
			*(uint32_t *)op->seg[i].send ^= 1;
	if (host->rank != 2 || op->tag.step < 3 || op->kind == ZR_COMM_FENCE)
		return real_vtbl->post(inst, op, out);
	if (is_planted("fail"))
		return zr_fail(host, ZR_EIO, "the disk is full");
	if (is_planted("memory"))
		take_memory();
	if (is_planted("kind"))
		o.kind = ZR_COMM_BARRIER, o.n_seg = 0;
	if (is_planted("tag"))
		o.tag.op += 1000;
	if (is_planted("type"))
		o.dtype = o.dtype == ZR_I32 ? ZR_F32 : ZR_I32;
	if (is_planted("count") && o.n_seg > 0 && o.n_seg <= 256) {
		memcpy(seg, o.seg, (size_t)o.n_seg * sizeof *seg);
		seg[o.n_seg - 1].count--;
		o.seg = seg;
	}
	return real_vtbl->post(inst, &o, out);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.post = post;
	vtbl.wait = wait;
	if (is_planted("share")) /* so that it gives, and others do not look */
		vtbl.mem_view = NULL;
}

ZR_PLUGIN(&desc);
