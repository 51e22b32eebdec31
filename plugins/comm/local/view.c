/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - the same place of every rank, one after the other: the pages of the memfd where it lies
 * are mapped once more, read-only, at consecutive addresses. Reading it is a gather without a copy.
 *
 * A view belongs to the region that it shows and to the rank that made it, and goes with the rank's
 * mem_free. It costs a mapping per rank, of which a process has vm.max_map_count.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct view {
	struct view *next;
	char *base;
	uint64_t bytes;
};

/* ---- errors ---------------------------------------------------------------------- */

/* Lines of a file; with `first`, also the number that it begins with. No memory is needed, for
 * there may be none. */
static long lines_of(const char *path, long *first)
{
	char text[4096];
	long n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (ssize_t got = 1; fd >= 0 && (got = read(fd, text, sizeof text - 1)) > 0;) {
		text[got] = 0;
		if (first)
			*first = strtol(text, NULL, 10);
		for (ssize_t i = 0; i < got; i++)
			n += text[i] == '\n';
	}

	if (fd >= 0)
		close(fd);
	return n;
}

/* What was mapped of the view is unmapped again. */
static int no_map(struct zr_inst *c, int32_t ranks, uint64_t bytes, int why)
{
	long most = 0, used = lines_of("/proc/self/maps", NULL);
	lines_of("/proc/sys/vm/max_map_count", &most);
	if (why == ENOMEM && most > 0 && used + ranks + 2 > most)
		return zr_fail(
			c->h, ZR_ENOMEM,
			"a view of %d ranks takes as many mappings, and this process has %ld of "
			"vm.max_map_count = %ld: raise that (sysctl), or make fewer views",
			ranks, used, most);
	return zr_fail(c->h, ZR_ENOMEM, "cannot map a view of %llu bytes of each of %d ranks: %s",
		       (unsigned long long)bytes, ranks, strerror(why));
}

/* ---- mapping --------------------------------------------------------------------- */

/* `at`: place of rank 0's bytes in the memfd, those of the others a stride apart. */
static int map(struct zr_inst *c, struct view *v, uint64_t at, uint64_t stride, int32_t ranks)
{
	uint64_t bytes = v->bytes / (uint64_t)ranks;
	void *m =
		mmap(NULL, v->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return no_map(c, ranks, bytes, errno);

	v->base = m;
	for (int32_t r = 0; r < ranks; r++) {
		m = mmap(v->base + (uint64_t)r * bytes, bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
			 c->fd, (off_t)(at + (uint64_t)r * stride));
		if (m == MAP_FAILED) {
			int why = errno;
			munmap(v->base, v->bytes);
			return no_map(c, ranks, bytes, why);
		}
	}
	return 0;
}

static struct region *region_of(struct zr_inst *c, const void *mine, uint64_t bytes, uint64_t *off)
{
	for (int k = 0; k < c->n_regions; k++) {
		struct region *r = &c->region[k];
		*off = (uint64_t)((uintptr_t)mine - (uintptr_t)r->base) -
		       (uint64_t)c->group[ZR_GROUP_NODE].rank * r->stride;
		if (r->base && *off < r->stride && bytes <= r->stride - *off)
			return r;
	}
	return NULL;
}

/* A view of the group, of `bytes` bytes of each rank, those of this rank at r->base + off in the
 * range of its first one. */
static int add_view(struct zr_inst *c, struct region *r, const struct group *g, uint64_t off,
		    uint64_t bytes, void **out)
{
	const uint64_t first = (uint64_t)(g->first - c->group[ZR_GROUP_NODE].first);
	struct view *v = malloc(sizeof *v);
	if (!v)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	*v = (struct view){ .next = r->views, .bytes = bytes * (uint64_t)g->size };
	int rc = map(c, v, r->at + first * r->stride + off, r->stride, g->size);
	if (rc) {
		free(v);
		return rc;
	}

	r->views = v;
	*out = v->base;
	return 0;
}

int zl_mem_view(struct zr_inst *c, const void *mine, uint64_t bytes, int32_t group, void **out)
{
	const struct group *node = &c->group[ZR_GROUP_NODE];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), off;
	struct region *r = region_of(c, mine, bytes, &off);
	if (group < ZR_GROUP_SELF || group > ZR_GROUP_WORLD)
		return zr_fail(c->h, ZR_EINVAL, "mem_view over unknown group %d", group);
	if (!r || !bytes || bytes % page || off % page)
		return zr_fail(
			c->h, ZR_EINVAL,
			"mem_view of %llu bytes at %p: it takes whole pages of %llu bytes of one "
			"mem_alloc",
			(unsigned long long)bytes, mine, (unsigned long long)page);

	const struct group *g = &c->group[group];
	if (g->size > node->size)
		return zr_fail(c->h, ZR_ENOTSUP,
			       "mem_view over the world: ranks of other nodes share no memory");
	if (g->size == 1) {
		*out = (void *)(uintptr_t)mine;
		return 0;
	}
	return add_view(c, r, g, off, bytes, out);
}

void zl_views_free(struct region *r)
{
	while (r->views) {
		struct view *v = r->views;
		r->views = v->next;
		munmap(v->base, v->bytes);
		free(v);
	}
}
