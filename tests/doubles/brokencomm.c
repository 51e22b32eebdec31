/* SPDX-License-Identifier: Apache-2.0
 *
 * brokencomm.c - comm/local with a fault that BROKEN names: `memory`, it shows memory of another
 * rank than it was asked for; `counts`, its exchange compares no counts; `group`, operations over
 * a listed group run over the world. Built and run by tests/system/plugin_check.sh.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "wrapped.h"

WRAP_MADE(comm, "comm/local.so", "broken")

enum { MOST = 6000 }; /* bytes that one rank sends to another */

static void *other_memory(struct zr_inst *inst, const void *mine, int32_t group, int32_t rank)
{
	return real_vtbl->mem_peer(inst, mine, group, (rank + 1) % host->world);
}

static int post_over_the_world(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *ticket)
{
	struct zr_comm_op changed = *op;
	if (op->group > ZR_GROUP_WORLD)
		changed.group = ZR_GROUP_WORLD;
	return real_vtbl->post(inst, &changed, ticket);
}

/* An all-to-all of the most that can be, of which each rank takes what it expects. */
static int exchange_uncompared(struct zr_inst *inst, const struct zr_comm_exchange *x,
			       zr_ticket *ticket)
{
	const int32_t ranks = host->world;
	char *sent = calloc((size_t)ranks, MOST), *received = calloc((size_t)ranks, MOST);
	const char *send = x->send;
	char *recv = x->recv;
	for (int32_t r = 0; r < ranks; r++) {
		memcpy(sent + (size_t)r * MOST, send, (size_t)x->send_count[r]);
		send += x->send_count[r];
	}

	const struct zr_comm_seg seg = { sent, received, MOST };
	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = ZR_COMM_ALL_TO_ALL,
				       .group = x->group,
				       .dtype = ZR_U8,
				       .n_seg = 1,
				       .seg = &seg,
				       .tag = x->tag };
	int rc = real_vtbl->post(inst, &op, ticket);
	if (!rc)
		rc = real_vtbl->wait(inst, *ticket);
	*ticket = 0;
	for (int32_t r = 0; r < ranks; r++) {
		memcpy(recv, received + (size_t)r * MOST, (size_t)x->recv_count[r]);
		recv += x->recv_count[r];
	}
	free(sent);
	free(received);
	return rc;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	const char *fault = getenv("BROKEN");
	wrap();
	if (!fault || !strcmp(fault, "memory"))
		vtbl.mem_peer = other_memory;
	else if (!strcmp(fault, "counts"))
		vtbl.exchange = exchange_uncompared;
	else if (!strcmp(fault, "group"))
		vtbl.post = post_over_the_world;
}

ZR_PLUGIN(&desc);
