/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - memory and copies. Device memory is host memory; a played card (the option `memory`)
 * has a limit that the sum of its live allocations never exceeds.
 *
 * Core counts what it asks for here on its own lines, so nothing of this goes through host->alloc.
 */
#include "cpu.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* cut at huge pages: two threads that touch one first would both clear it */
#define COPY_CUT (2 << 20)

struct copy {
	char *dst;
	const char *src;
	int64_t bytes;
};

/* The pages of an allocation are there before they are needed, all workers clearing some. A system
 * that does not know how clears them when they are. */
static void touch_item(void *arg, int64_t item, int32_t worker)
{
	const struct copy *c = arg;
	const int64_t at = item * COPY_CUT;
	(void)worker;
#ifdef MADV_POPULATE_WRITE
	madvise(c->dst + at, (size_t)cpu_min(COPY_CUT, c->bytes - at), MADV_POPULATE_WRITE);
#endif
}

static int map(struct zr_inst *d, uint64_t bytes, void **out)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for %llu bytes: %s",
			       (unsigned long long)bytes, strerror(errno));

	madvise(p, bytes, MADV_HUGEPAGE); /* an update sweeps over gigabytes */
	struct copy all = { .dst = p, .bytes = (int64_t)bytes };
	cpu_parallel(d, cpu_ceil_div(all.bytes, COPY_CUT), touch_item, &all);
	*out = p;
	return ZR_OK;
}

/* ---- interface ------------------------------------------------------------------- */

/* Whether the limit counts memory of this kind. */
static int is_limited(const struct zr_inst *d, uint32_t kind)
{
	return kind == ZR_MEM_DEVICE && d->limit;
}

int cpu_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	if (is_limited(d, kind) && bytes > d->limit - d->used)
		return zr_fail(
			d->h, ZR_EFIT,
			"%llu bytes of device memory do not fit: of memory = %llu bytes %llu are "
			"in use; raise memory, or keep less on the device",
			(unsigned long long)bytes, (unsigned long long)d->limit,
			(unsigned long long)d->used);

	int rc = map(d, bytes, out);
	if (!rc && is_limited(d, kind))
		d->used += bytes;
	return rc;
}

void cpu_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind)
{
	if (!p)
		return;
	if (is_limited(d, kind))
		d->used -= bytes;
	munmap(p, bytes);
}

static int64_t skew(const struct copy *c)
{
	return (int64_t)((uintptr_t)c->dst % COPY_CUT);
}

static void copy_item(void *arg, int64_t item, int32_t worker)
{
	const struct copy *c = arg;
	int64_t at = item * COPY_CUT - skew(c), lo = at > 0 ? at : 0;
	(void)worker;
	memcpy(c->dst + lo, c->src + lo, (size_t)(cpu_min(at + COPY_CUT, c->bytes) - lo));
}

int cpu_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct copy c = { dst, src, (int64_t)bytes };
	(void)s;
	cpu_parallel(d, cpu_ceil_div(c.bytes + skew(&c), COPY_CUT), copy_item, &c);
	return ZR_OK;
}

/* A copy is complete when it was started. */
int cpu_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint64_t *ticket)
{
	*ticket = 0;
	return cpu_copy(d, NULL, dst, src, bytes);
}

int cpu_copy_wait(struct zr_inst *d, uint64_t ticket)
{
	if (!ticket)
		return ZR_OK;
	return zr_fail(d->h, ZR_EINVAL, "no copy has ticket %llu", (unsigned long long)ticket);
}
