/* SPDX-License-Identifier: Apache-2.0
 *
 * planted.c - comm/local with one defect, built and run by tests/system/ranks.sh and
 * drift.sh: from step 3 on rank 2 does what PLANTED says (in the environment): posts another `kind`,
 * `tag`, `type` or `count` than the others, `fail`s alone, or takes `memory` without end. `share`:
 * rank 3 changes the first number of what it gives its node in step 3 by one unit in its last place.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "wrapped.h"

WRAP(comm, "comm/local.so", "planted")

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

static int post(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *out)
{
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

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	return real->create(h, opts, out);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.post = post;
	if (is_planted("share")) /* so that it gives, and others do not look */
		vtbl.mem_view = NULL;
}

ZR_PLUGIN(&desc);
