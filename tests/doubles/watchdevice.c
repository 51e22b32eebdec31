/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdevice.c - the double of cards, watched: built and run by tests/system/watched.sh and
 * tests/system/pinned.sh. Two instances can be, [device] and [device.host]. In the environment,
 *   WATCH_FAIL="OPERATION N"  the Nth call of the operation fails, and every later one, in a
 *                             device's own words; of mem_pin for want of memory; of pinned_twice,
 *                             which is mem_pin, too, as what is pinned already does
 *   WATCH_COUNT=FILE          lines "OPERATION calls beside" to FILE.rank at the end: how many
 *                             calls, and how many of them while a copy from the device to the host
 *                             was under way; of mem_pin how many copies were started from and to
 *                             what it pinned; copies: those that were started, of one stretch or
 *                             of several; sync: waits for the device
 *   WATCH_RANGES=FILE         ranges to FILE.rank as they begin, "DEPTH NAME", and at the end how
 *                             many have not ended, "open N"
 *   WATCH_OLD=1               the table of a device that has no optional function
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/device.h>

#include "wrapped.h"

WRAP(device, "../tests/doubles/.libs/cards.so", "watched")

static struct watched {
	struct zr_ops ops; /* the first: what operations are called with */
	const struct zr_ops *real;
	struct zr_inst *inst;
} watched[2];

static const char *arena[8], *lent[8]; /* device memory; what mem_pin got */
static uint64_t arena_bytes[8], lent_bytes[8];
static unsigned char outward[4096]; /* by ticket: to the host */
static int under_way;

/* ---- operations ---- */

enum {
	MATMUL,
	ATTENTION_BWD,
	LAYERNORM_BWD,
	EMBEDDING_BWD,
	HEAD_LOSS,
	FOLD,
	ADAMW,
	COPY_AFTER,
	COPIES,
	MEM_PIN,
	PINNED_TWICE,
	SYNC,
	OPERATIONS
};
static const char *const name[OPERATIONS] = { "matmul",        "attention_bwd", "layernorm_bwd",
					      "embedding_bwd", "head_loss",     "fold",
					      "adamw",         "copy_after",    "copies",
					      "mem_pin",       "pinned_twice",  "sync" };
static long calls[OPERATIONS], beside[OPERATIONS];

static int begin(int op)
{
	const char *fail = getenv("WATCH_FAIL");
	size_t n = strlen(name[op]);
	calls[op]++;
	beside[op] += under_way > 0;
	if (!fail || strncmp(fail, name[op], n) || fail[n] != ' ' || calls[op] < atol(fail + n))
		return ZR_OK;
	return zr_fail(host, ZR_EIO, "%s: the device caught fire (error 451)", name[op]);
}

#define WATCHED(slot, number)                                                                      \
	static int slot(const struct zr_ops *o, struct zr_stream *s,                               \
			const struct zr_op_##slot *op)                                             \
	{                                                                                          \
		int rc = begin(number);                                                            \
		const struct zr_ops *real_ops = ((const struct watched *)o)->real;                 \
		return rc ? rc : real_ops->slot(real_ops, s, op);                                  \
	}

WATCHED(matmul, MATMUL)
WATCHED(attention_bwd, ATTENTION_BWD)
WATCHED(layernorm_bwd, LAYERNORM_BWD)
WATCHED(embedding_bwd, EMBEDDING_BWD)
WATCHED(head_loss, HEAD_LOSS)
WATCHED(fold, FOLD)
WATCHED(adamw, ADAMW)

static const struct zr_ops *watched_ops(struct zr_inst *d)
{
	struct watched *w = !watched[0].inst || watched[0].inst == d ? &watched[0] : &watched[1];
	w->inst = d;
	w->real = real_vtbl->ops(d);
	w->ops = *w->real;
	w->ops.matmul = matmul;
	w->ops.attention_bwd = attention_bwd;
	w->ops.layernorm_bwd = layernorm_bwd;
	w->ops.embedding_bwd = embedding_bwd;
	w->ops.head_loss = head_loss;
	w->ops.fold = fold;
	w->ops.adamw = adamw;
	return &w->ops;
}

/* ---- copies ---- */

static int is_in(const char *const *base, const uint64_t *bytes, const void *p)
{
	for (int i = 0; i < 8; i++)
		if (base[i] && (uintptr_t)p - (uintptr_t)base[i] < bytes[i])
			return 1;
	return 0;
}

static int is_device(const void *p)
{
	return is_in(arena, arena_bytes, p);
}

static int mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	int i = 0, rc = real_vtbl->mem_alloc(d, bytes, kind, out);
	while (i < 7 && arena[i])
		i++;
	if (!rc && kind == ZR_MEM_DEVICE) {
		arena[i] = *out;
		arena_bytes[i] = bytes;
	}
	return rc;
}

static int started(int rc, void *dst, const void *src, const uint64_t *ticket)
{
	calls[COPIES]++;
	beside[MEM_PIN] += is_in(lent, lent_bytes, dst) || is_in(lent, lent_bytes, src);
	if (!rc && *ticket < sizeof outward && *ticket && is_device(src) && !is_device(dst)) {
		outward[*ticket] = 1;
		under_way++;
	}
	return rc;
}

static int copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes,
		      uint64_t *ticket)
{
	return started(real_vtbl->copy_start(d, dst, src, bytes, ticket), dst, src, ticket);
}

static uint32_t marked; /* the slot of the last mark */

static int mark(struct zr_inst *d, uint32_t slot)
{
	marked = slot;
	return real_vtbl->mark(d, slot);
}

/* Of those to the device: beside others are those that need not come after all that was marked. */
static int copy_after(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint32_t slot,
		      uint64_t *ticket)
{
	calls[COPY_AFTER] += is_device(dst);
	beside[COPY_AFTER] += is_device(dst) && under_way > 0 && slot != marked;
	return started(real_vtbl->copy_after(d, dst, src, bytes, slot, ticket), dst, src, ticket);
}

static int copy_rows(struct zr_inst *d, const struct zr_device_rows *r, uint64_t *ticket)
{
	return started(real_vtbl->copy_rows(d, r, ticket), r->dst, r->src, ticket);
}

static int copy_wait(struct zr_inst *d, uint64_t ticket)
{
	if (ticket < sizeof outward && outward[ticket]) {
		outward[ticket] = 0;
		under_way--;
	}
	return real_vtbl->copy_wait(d, ticket);
}

static int mem_pin(struct zr_inst *d, void *p, uint64_t bytes)
{
	if (begin(MEM_PIN))
		return zr_fail(host, ZR_ENOMEM, "the device pins no %llu bytes (error 452)",
			       (unsigned long long)bytes);
	if (begin(PINNED_TWICE))
		real_vtbl->mem_pin(d, p, bytes);
	lent[calls[MEM_PIN] % 8] = p;
	lent_bytes[calls[MEM_PIN] % 8] = bytes;
	return real_vtbl->mem_pin(d, p, bytes);
}

static int sync_stream(struct zr_inst *d, struct zr_stream *s)
{
	calls[SYNC]++;
	return real_vtbl->sync(d, s);
}

static FILE *ranges;
static int depth;

static void range_push(struct zr_inst *d, const char *text)
{
	(void)d;
	fprintf(ranges, "%d %s\n", depth++, text);
}

static void range_pop(struct zr_inst *d)
{
	(void)d;
	depth--;
}

static void open_ranges(void)
{
	char path[4096];
	if (ranges || !getenv("WATCH_RANGES"))
		return;

	snprintf(path, sizeof path, "%s.%d", getenv("WATCH_RANGES"), host->rank);
	ranges = fopen(path, "w");
	vtbl.range_push = range_push;
	vtbl.range_pop = range_pop;
}

/* ---- instance ---- */

/* The double has a clock if an option says so. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	int rc = real->create(h, opts, out);
	vtbl.time_open = real_vtbl->time_open;
	vtbl.time_mark = real_vtbl->time_mark;
	vtbl.time_copies = real_vtbl->time_copies;
	vtbl.time_between = real_vtbl->time_between;
	open_ranges();
	return rc;
}

static void destroy(struct zr_inst *d)
{
	write_counts("WATCH_COUNT", host->rank, OPERATIONS, name, calls, beside);
	if (ranges) {
		fprintf(ranges, "open %d\n", depth);
		fflush(ranges);
	}
	real->destroy(d);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	desc.destroy = destroy;
	vtbl.ops = watched_ops;
	vtbl.mem_alloc = mem_alloc;
	vtbl.copy_start = copy_start;
	vtbl.copy_wait = copy_wait;
	vtbl.mem_pin = mem_pin;
	vtbl.sync = sync_stream;
	vtbl.mark = real_vtbl->mark ? mark : NULL;
	vtbl.copy_after = real_vtbl->copy_after ? copy_after : NULL;
	vtbl.copy_rows = real_vtbl->copy_rows ? copy_rows : NULL;
	if (getenv("WATCH_OLD"))
		vtbl.size = offsetof(struct zr_device_v1, copy_start);
}

ZR_PLUGIN(&desc);
