/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk.c - splits requests into chunks that direct I/O can move (N1), and notes the result of
 * each. Reads and writes take turns, so that a disk that can do both at once does so; each kind
 * goes in the order of its requests, and none before an earlier one of the same bytes is over.
 */
#include "nvme.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#endif

int nv_chunks(struct zr_inst *d)
{
	int64_t n = d->o->queue_depth;

	for (int side = 0; side < 2; side++)
		d->queue_end[side] = &d->queue[side];
	d->chunks = d->h->alloc(d->h, (uint64_t)n * sizeof *d->chunks, "workspace");
	d->bounce_mem = d->h->alloc(d->h, d->o->block_size + d->unit, "workspace");
	if (!d->chunks || !d->bounce_mem)
		return zr_fail(d->h, ZR_ENOMEM,
			       "no memory for %lld chunks and a buffer of %llu bytes", (long long)n,
			       (unsigned long long)d->o->block_size);

	d->bounce =
		(char *)d->bounce_mem + (d->unit - (uintptr_t)d->bounce_mem % d->unit) % d->unit;
	while (n-- > 0) {
		d->chunks[n].next = d->free_chunks;
		d->free_chunks = &d->chunks[n];
	}

	return ZR_OK;
}

/* ---- cutting --------------------------------------------------------------------- */

static uint64_t down(uint64_t x, uint64_t unit)
{
	return x - x % unit;
}

static uint64_t up(uint64_t x, uint64_t unit)
{
	return down(x + unit - 1, unit);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Where the chunk that starts at lo ends: with its block, and so that as little as possible is
 * partial. */
static uint64_t cut_at(const struct zr_inst *d, const struct nv_request *r, uint64_t lo)
{
	uint64_t end = smaller(r->off + r->bytes, down(lo, d->o->block_size) + d->o->block_size);
	uint64_t skew = (uint64_t)(uintptr_t)r->mem - r->off;
	if (skew % d->mem_align)
		return end; /* all of it goes through the bounce buffer anyway */
	if (lo % d->unit)
		return smaller(end, up(lo, d->unit));
	if (end - lo >= d->unit)
		return down(end, d->unit);

	return end;
}

static void sign(struct zr_inst *d, const struct nv_chunk *c)
{
	uint64_t *sum = c->request->object->sum;
	for (uint64_t i = 0; sum && i < c->bytes; i += d->unit)
		sum[(c->at + i) / d->unit] = XXH3_64bits(c->mem + i, d->unit);
}

/* A whole unit is written as it is. The units of a partial write are read first, but for the end of
 * an object, where nobody owns the rest. */
static void prepare_write(struct zr_inst *d, struct nv_chunk *c)
{
	const struct nv_request *r = c->request;

	if (c->partial) {
		int to_end = c->hi == c->at + c->bytes || c->hi == r->object->bytes;
		c->write = c->lo == c->at && to_end;
		if (!c->write)
			return;

		memset(c->mem, 0, c->bytes);
		memcpy(c->mem, r->mem + (c->lo - r->off), c->hi - c->lo);
	}

	sign(d, c);
}

/* The next chunk of r, or NULL: it needs the bounce buffer, which is in use. */
static struct nv_chunk *cut(struct zr_inst *d, struct nv_request *r)
{
	struct nv_chunk *c = d->free_chunks;
	uint64_t lo = r->off + r->cut, hi = cut_at(d, r, lo);
	char *mem = r->mem + r->cut;
	int partial = lo % d->unit || hi % d->unit || (uintptr_t)mem % d->mem_align;

	if (partial && d->bounce_busy)
		return NULL;

	d->bounce_busy |= partial;
	d->free_chunks = c->next;
	*c = (struct nv_chunk){ .request = r,
				.lo = lo,
				.hi = hi,
				.at = down(lo, d->unit),
				.write = r->write,
				.partial = partial,
				.mem = partial ? d->bounce : mem };
	c->bytes = (uint32_t)(up(hi, d->unit) - c->at);
	r->cut = hi - r->off;
	r->open++;
	if (r->write)
		prepare_write(d, c);

	return c;
}

static struct nv_request *pop(struct zr_inst *d, int side)
{
	struct nv_request *r = d->queue[side];

	d->queue[side] = r->next;
	if (!r->next)
		d->queue_end[side] = &d->queue[side];
	r->queued = 0;
	return r;
}

static int meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static int overlap(const struct nv_request *e, const struct nv_request *r)
{
	if (e->object == r->object && meet(e->off, e->bytes, r->off, r->bytes))
		return 1;
	return meet((uintptr_t)e->mem, e->bytes, (uintptr_t)r->mem, r->bytes);
}

/* Whether r overlaps an earlier request that goes on. What does not go on may be about to be
 * posted again, by another thread. */
static int too_early(const struct zr_inst *d, const struct nv_request *r)
{
	for (const struct nv_request *e = d->request; e < d->request + NV_INFLIGHT; e++) {
		int earlier = (e->queued || e->open) && e->number < r->number;
		if (earlier && overlap(e, r))
			return 1;
	}

	return 0;
}

/* *finished: a request has ended, for which one on the other side may have waited. */
static struct nv_chunk *next_of(struct zr_inst *d, int side, int *finished)
{
	struct nv_chunk *c;

	while (d->queue[side] && d->queue[side]->code) { /* failed: the rest is not tried */
		struct nv_request *r = pop(d, side);
		if (!r->open) {
			nv_finish(d, r);
			*finished = 1;
		}
	}

	if (!d->queue[side] || (!d->queue[side]->cut && too_early(d, d->queue[side])))
		return NULL;

	c = cut(d, d->queue[side]);
	if (c && c->request->cut == c->request->bytes)
		pop(d, side);

	return c;
}

struct nv_chunk *nv_next(struct zr_inst *d)
{
	int finished = 0;

	for (int i = 0; i < 2 && d->free_chunks; i++) {
		struct nv_chunk *c = next_of(d, d->turn, &finished);
		d->turn = !d->turn;
		if (c)
			return c;
	}

	if (finished)
		return nv_next(d);

	return NULL;
}

/* ---- settling -------------------------------------------------------------------- */

static void verify(struct zr_inst *d, const struct nv_chunk *c)
{
	const uint64_t *sum = c->request->object->sum;

	for (uint64_t i = 0; sum && i < c->bytes; i += d->unit)
		if (sum[(c->at + i) / d->unit] != XXH3_64bits(c->mem + i, d->unit)) {
			nv_refuse(
				c->request,
				"%s/%s: the %llu bytes at offset %llu are not what was written "
				"there (checksum): the disk, or somebody who writes to it, damages "
				"data: choose another path and go on from a checkpoint with "
				"--resume",
				d->path, c->request->object->name, (unsigned long long)d->unit,
				(unsigned long long)(c->at + i));
			return;
		}
}

/* All of it was moved. 1: a partial write has read its units and wants to be written. */
static int moved_all(struct zr_inst *d, struct nv_chunk *c)
{
	const struct nv_request *r = c->request;

	if (c->write)
		return 0;

	verify(d, c);
	if (r->code || !c->partial)
		return 0;
	if (!r->write) {
		memcpy(r->mem + (c->lo - r->off), c->mem + (c->lo - c->at), c->hi - c->lo);
		return 0;
	}

	memcpy(c->mem + (c->lo - c->at), r->mem + (c->lo - r->off), c->hi - c->lo);
	sign(d, c);
	c->write = 1;
	c->done = 0;
	return 1;
}

static void end(struct zr_inst *d, struct nv_chunk *c)
{
	struct nv_request *r = c->request;

	if (c->partial)
		d->bounce_busy = 0;
	c->request = NULL;
	c->next = d->free_chunks;
	d->free_chunks = c;
	if (!--r->open && !r->queued)
		nv_finish(d, r);
}

/* A transfer may stop early; what goes on must start at a unit. */
static int more(struct zr_inst *d, struct nv_chunk *c, int moved)
{
	struct nv_request *r = c->request;
	const char *doing = c->write ? "writing" : "reading";
	uint64_t at = c->at + c->done;

	if (moved == -EINTR || moved == -EAGAIN)
		return 1;
	if (moved < 0) {
		nv_refuse(r, "%s/%s: %s %u bytes at offset %llu: %s", d->path, r->object->name,
			  doing, c->bytes - c->done, (unsigned long long)at, strerror(-moved));
		return 0;
	}

	if ((uint32_t)moved == c->bytes - c->done)
		return moved_all(d, c);
	if ((uint32_t)moved < d->unit) {
		nv_examine(d, r);
		nv_refuse(r, "%s/%s: %s %u bytes at offset %llu stopped after %d", d->path,
			  r->object->name, doing, c->bytes - c->done, (unsigned long long)at,
			  moved);
		return 0;
	}

	c->done += (uint32_t)down((uint64_t)moved, d->unit);
	return 1;
}

int nv_settle(struct zr_inst *d, struct nv_chunk *c, int moved)
{
	int again = more(d, c, moved);
	if (!again)
		end(d, c);
	return again;
}
