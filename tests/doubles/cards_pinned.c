/* SPDX-License-Identifier: Apache-2.0
 *
 * cards_pinned.c - host memory that copies beside the operations may touch. A processor needs no
 * pinned memory; the list here simulates the driver of a GPU, which keeps a list of pinned ranges
 * and fails if memory is unmapped before it was unpinned.
 */
#include "cards.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct card_range {
	char *p;
	uint64_t bytes;
	int lent; /* by mem_pin; else it is memory of mem_alloc */
	struct card_range *next;
};

static int is_mapped(void *p, uint64_t bytes)
{
	return !msync(p, bytes, MS_ASYNC) || errno != ENOMEM;
}

static int add(struct zr_inst *d, void *p, uint64_t bytes, int lent)
{
	struct card_range *r = malloc(sizeof *r);
	if (!r)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for a list of pinned memory");
	*r = (struct card_range){ p, bytes, lent, d->pinned };
	d->pinned = r;
	return ZR_OK;
}

/* The bytes of a range that is taken off the list; 0: there is none. */
static uint64_t drop(struct zr_inst *d, const void *p, int lent)
{
	struct card_range **link = &d->pinned, *r;
	uint64_t bytes;
	while (*link && ((*link)->p != p || (*link)->lent != lent))
		link = &(*link)->next;
	r = *link;
	if (!r)
		return 0;

	bytes = r->bytes;
	*link = r->next;
	free(r);
	return bytes;
}

int card_pinned_add(struct zr_inst *d, void *p, uint64_t bytes)
{
	return add(d, p, bytes, 0);
}

void card_pinned_drop(struct zr_inst *d, const void *p)
{
	drop(d, p, 0);
}

void card_pinned_end(struct zr_inst *d)
{
	while (d->pinned) {
		if (d->pinned->lent)
			zr_log(d->h, ZR_LOG_ERROR,
			       "%llu bytes at %p are still pinned when the device ends: call "
			       "mem_unpin before",
			       (unsigned long long)d->pinned->bytes, (void *)d->pinned->p);
		drop(d, d->pinned->p, d->pinned->lent);
	}
}

/* ---- copies ---------------------------------------------------------------------- */

/* Of a separate device, or within one range. */
static int check_end(const struct zr_inst *d, const char *p, uint64_t bytes)
{
	const struct card_range *r = d->pinned;
	uint64_t at;
	if (card_real(d, p) != p)
		return ZR_OK;

	for (; r; r = r->next) {
		at = (uintptr_t)p - (uintptr_t)r->p;
		if (at <= r->bytes && bytes <= r->bytes - at)
			return ZR_OK;
	}
	return zr_fail(
		d->h, ZR_EINVAL,
		"copy_start: %llu bytes at %p are neither memory of this device nor pinned, as one "
		"range: take ZR_MEM_PINNED, or call mem_pin, or copy",
		(unsigned long long)bytes, (const void *)p);
}

int card_check_beside(const struct zr_inst *d, const struct card_copy *c)
{
	if (!d->separate)
		return ZR_OK;

	int rc = check_end(d, c->dst, c->more * c->dst_apart + c->bytes);
	if (rc)
		return rc;
	return check_end(d, c->src, c->more * c->src_apart + c->bytes);
}

/* ---- interface ------------------------------------------------------------------- */

int card_mem_pin(struct zr_inst *d, void *p, uint64_t bytes)
{
	const struct card_range *r = d->pinned;
	if ((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) || !bytes)
		return zr_fail(d->h, ZR_EINVAL,
			       "mem_pin: %llu bytes at %p: a range starts a page and is not empty",
			       (unsigned long long)bytes, p);
	if (!is_mapped(p, bytes))
		return zr_fail(d->h, ZR_EINVAL, "mem_pin: of %llu bytes at %p some are not mapped",
			       (unsigned long long)bytes, p);

	while (r && ((uintptr_t)r->p >= (uintptr_t)p + bytes ||
		     (uintptr_t)p >= (uintptr_t)r->p + r->bytes))
		r = r->next;
	if (r)
		return zr_fail(
			d->h, ZR_EINVAL,
			"mem_pin: of %llu bytes at %p some are pinned already, among %llu bytes at "
			"%p",
			(unsigned long long)bytes, p, (unsigned long long)r->bytes, (void *)r->p);
	return add(d, p, bytes, 1);
}

void card_mem_unpin(struct zr_inst *d, void *p)
{
	uint64_t bytes = drop(d, p, 1);
	if (!bytes)
		zr_log(d->h, ZR_LOG_ERROR, "mem_unpin: no memory at %p was pinned by mem_pin", p);
	else if (!is_mapped(p, bytes))
		zr_log(d->h, ZR_LOG_ERROR,
		       "mem_unpin: of %llu bytes at %p some are not mapped any more: unpin memory "
		       "before it goes",
		       (unsigned long long)bytes, p);
}
