/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - memory and copies. Device memory is host memory; a played device (the option `memory`)
 * has a limit that the sum of its live allocations never exceeds. With `separate` its allocations
 * have addresses that fault, and the memory behind them, fault as well beyond the end of each.
 *
 * Core counts what it asks for here on its own lines, so nothing of this goes through host->alloc.
 */
#include "cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cut at huge pages: two threads that touch one first would both clear it */
#define COPY_CUT (2 << 20)
/* addresses per byte of the limit: allocations of any order of sizes find a gap */
#define SPREAD 4

/* An allocation in a separate arena: [at, end) in whole pages, and a page after it that stays
 * free. */
struct cpu_piece {
	uint64_t at, end;
	struct cpu_piece *next;
};

static uint64_t pages(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

/* ---- the arena ------------------------------------------------------------------- */

int cpu_arena_open(struct zr_inst *d, uint64_t limit, int separate)
{
	struct cpu_arena *a = &d->arena;
	uint64_t span = pages(SPREAD * limit + (1u << 20));
	void *m;
	a->limit = limit;
	if (!separate)
		return ZR_OK;

	m = mmap(NULL, 2 * span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return zr_fail(d->h, ZR_ENOMEM, "no addresses for %llu bytes of device memory: %s",
			       (unsigned long long)limit, strerror(errno));

	a->seen = m;
	a->real = a->seen + span;
	a->span = span;
	return ZR_OK;
}

void cpu_arena_close(struct zr_inst *d)
{
	struct cpu_arena *a = &d->arena;
	while (a->pieces) {
		struct cpu_piece *next = a->pieces->next;
		free(a->pieces);
		a->pieces = next;
	}
	if (a->span)
		munmap(a->seen, 2 * a->span);
}

/* The pages of a piece are there before they are needed, all workers clearing some. A system that
 * does not know how clears them when they are. */
static void touch_item(void *arg, int64_t item, int32_t worker)
{
	const struct cpu_copy *c = arg;
	const int64_t at = item * COPY_CUT;
	(void)worker;
#ifdef MADV_POPULATE_WRITE
	madvise(c->dst + at, (size_t)cpu_min(COPY_CUT, c->bytes - at), MADV_POPULATE_WRITE);
#endif
}

static int map(struct zr_inst *d, void *at, uint64_t bytes, void **out)
{
	void *p = mmap(at, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
	if (p == MAP_FAILED)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for %llu bytes: %s",
			       (unsigned long long)bytes, strerror(errno));

	madvise(p, bytes, MADV_HUGEPAGE); /* an update sweeps over gigabytes */
	struct cpu_copy all = { .dst = p, .bytes = (int64_t)bytes };
	cpu_parallel(d, cpu_ceil_div(all.bytes, COPY_CUT), touch_item, &all);
	*out = p;
	return ZR_OK;
}

static int map_pinned(struct zr_inst *d, uint64_t bytes, void **out)
{
	void *p;
	int rc = map(d, NULL, bytes, &p);
	if (rc)
		return rc;

	rc = cpu_pinned_add(d, p, bytes);
	if (rc)
		munmap(p, bytes);
	else
		*out = p;
	return rc;
}

/* The first gap of the separate arena that takes `bytes` and a free page. */
static struct cpu_piece **gap(struct cpu_arena *a, uint64_t bytes, uint64_t *at)
{
	struct cpu_piece **p = &a->pieces;
	uint64_t need = bytes + pages(1);
	for (*at = 0; *p && (*p)->at - *at < need; p = &(*p)->next)
		*at = (*p)->end + pages(1);
	return *p || a->span - *at >= need ? p : NULL;
}

static int take_piece(struct zr_inst *d, uint64_t bytes, void **out)
{
	struct cpu_arena *a = &d->arena;
	uint64_t at;
	struct cpu_piece **link = gap(a, pages(bytes), &at), *piece;
	void *real;
	int rc;
	if (!link)
		return zr_fail(
			d->h, ZR_EFIT,
			"no %llu bytes of device memory in one piece: %llu of %llu are in use, in "
			"pieces",
			(unsigned long long)bytes, (unsigned long long)a->used,
			(unsigned long long)a->limit);

	piece = malloc(sizeof *piece);
	if (!piece)
		return zr_fail(d->h, ZR_ENOMEM, "no memory");

	rc = map(d, a->real + at, pages(bytes), &real);
	if (rc) {
		free(piece);
		return rc;
	}
	*piece = (struct cpu_piece){ at, at + pages(bytes), *link };
	*link = piece;
	*out = a->seen + at;
	return ZR_OK;
}

/* Mapping anew gives the pages back. */
static void give_piece(struct cpu_arena *a, const void *p)
{
	struct cpu_piece **link = &a->pieces, *piece;
	while (*link && a->seen + (*link)->at != p)
		link = &(*link)->next;
	piece = *link;
	if (!piece)
		return;

	mmap(a->real + piece->at, piece->end - piece->at, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	*link = piece->next;
	free(piece);
}

/* ---- interface ------------------------------------------------------------------- */

int cpu_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	struct cpu_arena *a = &d->arena;
	int rc;
	if (kind == ZR_MEM_PINNED)
		return map_pinned(d, bytes, out);
	if (kind != ZR_MEM_DEVICE || !a->limit)
		return map(d, NULL, bytes, out);
	if (bytes > a->limit - a->used)
		return zr_fail(
			d->h, ZR_EFIT,
			"%llu bytes of device memory do not fit: of memory = %llu bytes %llu are "
			"in use; raise memory, or keep less on the device",
			(unsigned long long)bytes, (unsigned long long)a->limit,
			(unsigned long long)a->used);

	if (a->span)
		rc = take_piece(d, bytes, out);
	else
		rc = map(d, NULL, bytes, out);
	if (!rc)
		a->used += bytes;
	return rc;
}

void cpu_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind)
{
	struct cpu_arena *a = &d->arena;
	int limited = kind == ZR_MEM_DEVICE && a->limit;
	if (!p)
		return;
	if (limited)
		a->used -= bytes;
	if (kind == ZR_MEM_PINNED)
		cpu_pinned_drop(d, p);
	if (limited && a->span)
		give_piece(a, p);
	else
		munmap(p, bytes);
}

static int64_t skew(const struct cpu_copy *c)
{
	return (int64_t)((uintptr_t)c->dst % COPY_CUT);
}

static void copy_item(void *arg, int64_t item, int32_t worker)
{
	const struct cpu_copy *c = arg;
	int64_t at = item * COPY_CUT - skew(c), lo = at > 0 ? at : 0;
	(void)worker;
	memcpy(c->dst + lo, c->src + lo, (size_t)(cpu_min(at + COPY_CUT, c->bytes) - lo));
}

int cpu_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct cpu_copy c = { cpu_real(d, dst), cpu_real(d, src), (int64_t)bytes };
	(void)s;
	cpu_parallel(d, cpu_ceil_div(c.bytes + skew(&c), COPY_CUT), copy_item, &c);
	return ZR_OK;
}

int cpu_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint64_t *ticket)
{
	const struct cpu_copy c = { dst, src, (int64_t)bytes };
	uint64_t k = 0;
	int rc = cpu_check_beside(d, &c);
	*ticket = 0;
	if (rc)
		return rc;

	while (d->late && k < CPU_LATE && d->late[k].bytes)
		k++;
	if (!d->late || k == CPU_LATE || !bytes)
		return cpu_copy(d, NULL, dst, src, bytes);

	d->late[k] = c;
	*ticket = k + 1;
	return ZR_OK;
}

int cpu_copy_wait(struct zr_inst *d, uint64_t ticket)
{
	struct cpu_copy *c = NULL, now;
	int rc;
	if (!ticket)
		return ZR_OK;

	if (d->late && ticket <= CPU_LATE)
		c = d->late + ticket - 1;
	if (!c || !c->bytes)
		return zr_fail(d->h, ZR_EINVAL, "no copy has ticket %llu",
			       (unsigned long long)ticket);

	now = *c;
	c->bytes = 0;
	rc = cpu_check_beside(d, &now);
	if (rc)
		return rc;
	return cpu_copy(d, NULL, now.dst, now.src, (uint64_t)now.bytes);
}
