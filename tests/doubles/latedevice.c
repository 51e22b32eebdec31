/* SPDX-License-Identifier: Apache-2.0
 *
 * latedevice.c - device/cpu with an operation that takes its time on one rank: built and run by
 * tests/system/late.sh.
 *   LATE="OPERATION RANK MILLISECONDS"  of fold, adamw, embedding_bwd
 */
#include <string.h>
#include <unistd.h>
#include <zeroth/device.h>

#include "wrapped.h"

WRAP(device, "device/cpu.so", "late")

static struct {
	struct zr_ops ops; /* first: what operations are called with */
	const struct zr_ops *real;
} late[2]; /* [device], [device.host] */
static int instances;

static void wait_a_little(const char *operation)
{
	char name[64];
	int rank, ms;
	const char *text = getenv("LATE");
	if (text && sscanf(text, "%63s %d %d", name, &rank, &ms) == 3 && !strcmp(name, operation) &&
	    host->rank == rank)
		usleep((unsigned)ms * 1000);
}

#define LATE(slot)                                                                                 \
	static int slot(const struct zr_ops *o, struct zr_stream *s,                               \
			const struct zr_op_##slot *op)                                             \
	{                                                                                          \
		const struct zr_ops *real_ops = o == &late[0].ops ? late[0].real : late[1].real;   \
		wait_a_little(#slot);                                                              \
		return real_ops->slot(real_ops, s, op);                                            \
	}

LATE(fold)
LATE(adamw)
LATE(embedding_bwd)

static const struct zr_ops *late_ops(struct zr_inst *d)
{
	static struct zr_inst *owner[2];
	int i = !owner[0] || owner[0] == d ? 0 : 1;
	owner[i] = d;
	late[i].real = real_vtbl->ops(d);
	late[i].ops = *late[i].real;
	late[i].ops.fold = fold;
	late[i].ops.adamw = adamw;
	late[i].ops.embedding_bwd = embedding_bwd;
	return &late[i].ops;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	if (!instances++)
		host = h;
	return real->create(h, opts, out);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.ops = late_ops;
}

ZR_PLUGIN(&desc);
