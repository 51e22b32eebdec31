/* SPDX-License-Identifier: Apache-2.0
 *
 * areas.c - memory that is lent to a plugin between pages that nobody may touch.
 */
#include "cmd/check/check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *zr_area_new(struct zr_check *c, const char *name, uint64_t bytes, uint64_t align)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t whole = (bytes + page - 1) / page * page;

	if (c->n_areas == ZR_CHECK_AREAS)
		zr_check_fail(c, "out of areas");
	char *map = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED || mprotect(map + page, whole, PROT_READ | PROT_WRITE))
		zr_check_lacks(c, "memory");
	char *base = map + page + (whole - bytes) / align * align;
	c->area[c->n_areas++] = (struct zr_area){ .name = name,
						  .base = base,
						  .map = map,
						  .bytes = bytes,
						  .mapped = whole + 2 * page,
						  .access = PROT_READ | PROT_WRITE };
	return base;
}

void zr_area_free(struct zr_check *c, const void *base)
{
	for (int i = 0; i < c->n_areas; i++)
		if (c->area[i].base == base) {
			munmap(c->area[i].map, c->area[i].mapped);
			c->area[i] = c->area[--c->n_areas];
			return;
		}
}

static void set_access(struct zr_check *c, const void *base, int access)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < c->n_areas; i++) {
		struct zr_area *a = &c->area[i];
		if (a->base != base)
			continue;

		a->access = access;
		if (a->mapped > 2 * page)
			mprotect(a->map + page, a->mapped - 2 * page, access);
	}
}

void zr_area_protect(struct zr_check *c, const void *base, int read_only)
{
	set_access(c, base, read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void zr_area_hide(struct zr_check *c, const void *base)
{
	set_access(c, base, PROT_NONE);
}

const struct zr_area *zr_area_near(const struct zr_check *c, const void *at)
{
	const char *p = at;
	for (int i = 0; i < c->n_areas; i++)
		if (p >= c->area[i].map && p < c->area[i].map + c->area[i].mapped)
			return &c->area[i];
	return NULL;
}

void *zr_lend(struct zr_check *c, const char *name, const void *from, uint32_t size,
	      uint32_t minor_size)
{
	uint32_t have = c->minor < ZR_ABI_MINOR && minor_size < size ? minor_size : size;
	uint32_t whole = have + (uint32_t)c->grown;
	char *to = zr_area_new(c, name, whole, 8);

	memcpy(to, from, have);
	memset(to + have, 0xa5, whole - have); /* no pointer, no number that makes sense */
	memcpy(to, &whole, sizeof whole);
	return to;
}
