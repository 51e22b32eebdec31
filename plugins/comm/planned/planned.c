/* SPDX-License-Identifier: Apache-2.0
 *
 * planned.c - comm/planned: what a library that moves the memory of cards would do, for plans on a
 * machine that has neither. Nothing trains with it.
 */
#include <zeroth/comm.h>

#include "plugins/descriptor.h"

struct planned_opts {
	int32_t sums;
};

static int planned_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	(void)opts;
	(void)out;
	return zr_fail(h, ZR_ENOTSUP,
		       "plugin planned is for `zeroth plan`; to train on cards say "
		       "[comm] plugin = nccl");
}

static void planned_destroy(struct zr_inst *inst)
{
	(void)inst;
}

/* None of these is reached: there is no instance. */
static int post(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *ticket)
{
	(void)inst;
	(void)op;
	(void)ticket;
	return ZR_ENOTSUP;
}

static int wait_for(struct zr_inst *inst, zr_ticket ticket)
{
	(void)inst;
	(void)ticket;
	return ZR_ENOTSUP;
}

static int exchange(struct zr_inst *inst, const struct zr_comm_exchange *x, zr_ticket *ticket)
{
	(void)inst;
	(void)x;
	(void)ticket;
	return ZR_ENOTSUP;
}

static int make_group(struct zr_inst *inst, int32_t number, const int32_t *ranks, int32_t n)
{
	(void)inst;
	(void)number;
	(void)ranks;
	(void)n;
	return ZR_ENOTSUP;
}

static void stop(struct zr_inst *inst, const char *why)
{
	(void)inst;
	(void)why;
}

static uint64_t bytes_sent(struct zr_inst *inst)
{
	(void)inst;
	return 0;
}

static const char *sums_of(const void *opts)
{
	return ((const struct planned_opts *)opts)->sums ? "a library" : NULL;
}

static const struct zr_comm_v1 vtbl = { .size = sizeof vtbl,
					.mem = ZR_MEM_HOST | ZR_MEM_DEVICE,
					.post = post,
					.test = wait_for,
					.wait = wait_for,
					.abort = stop,
					.bytes_sent = bytes_sent,
					.sums = sums_of,
					.exchange = exchange,
					.group = make_group };

static const char *const sums[] = { "ordered", "library", NULL };
static const struct zr_opt opts[] = {
	ZR_OPT_ENUM(struct planned_opts, sums, 0, "ordered", sums,
		    "Who adds gradients that each rank sends once per update: ordered, in rank "
		    "order; library, in an order of its own, as NCCL does."),
};

PLUGIN(comm, "planned", &vtbl, .version = "1",
       .summary = "Stands for a library that moves the memory of cards, in plans.",
       PLUGIN_OPTIONS(struct planned_opts, opts), .create = planned_create,
       .destroy = planned_destroy);
