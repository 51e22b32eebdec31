/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.c - memory that the ranks of a node share: a stretch of the memfd with one range per rank,
 * mapped as a whole by every process. A simulated node does not see the memory of another.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN (2u << 20) /* a range begins where a huge page may */

/* All ranks of the node are here; their byte counts are equal. */
static int meet(struct zr_inst *c, uint64_t bytes)
{
	struct zr_comm_seg seg = { NULL, NULL, (int64_t)bytes };
	struct zr_comm_op op = { .size = sizeof op,
				 .kind = COMM_MEM,
				 .group = ZR_GROUP_NODE,
				 .dtype = ZR_U8,
				 .n_seg = 1,
				 .seg = &seg,
				 .tag = { -1, -1, -1 } };
	zr_ticket t;
	int rc = zl_post(c, &op, &t);
	if (rc == ZR_EAGAIN)
		return zr_fail(c->h, ZR_ESTATE, "mem_alloc with %d operations outstanding",
			       c->outstanding);
	if (rc)
		return rc;
	return zl_wait(c, t);
}

static int map_file(struct zr_inst *c, struct region *r)
{
	const size_t bytes = region_bytes(c, r);
	void *m;
	if (c->area)
		m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, (off_t)r->at);
	else
		m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return zr_fail(c->h, ZR_ENOMEM, "cannot map %llu bytes of shared memory: %s",
			       (unsigned long long)bytes, strerror(errno));

	r->base = m;
	return 0;
}

/* The lowest rank of this node in this process, and how many there are. */
static int32_t first_of_process(struct zr_inst *c, int32_t *many)
{
	int32_t first = -1;
	*many = 0;
	for (int32_t r = node_of(c)->first; r < node_of(c)->first + node_of(c)->size; r++)
		if (atomic_load(&c->area->seat[r].pid) == c->pid) {
			if (first < 0)
				first = r;
			++*many;
		}
	return first;
}

/* Takes the next place in the memfd, which grows. */
static int take_place(struct zr_inst *c, struct region *r)
{
	const uint64_t bytes = region_bytes(c, r);
	r->at = atomic_fetch_add(&c->area->end, bytes);
	return zl_file_grow(c, c->fd, r->at + bytes);
}

/* The node's first rank takes a place for all. */
static int agree_on_place(struct zr_inst *c, struct region *r)
{
	_Atomic uint64_t *place = &c->area->seat[node_of(c)->first].place[r - c->region];
	int rc = 0;
	if (node_of(c)->rank == 0) {
		rc = take_place(c, r);
		atomic_store(place, r->at);
	}
	if (rc) {
		zl_abort(c, "mem_alloc failed on another rank");
		return rc;
	}
	rc = meet(c, r->bytes);
	r->at = atomic_load(place);
	return rc;
}

/* One mapping per process: its first rank makes it, the others take it. */
static int map_together(struct zr_inst *c, struct region *r)
{
	int32_t many, first = first_of_process(c, &many), k = (int32_t)(r - c->region);
	struct shared_map *m = &c->process->maps[first * REGIONS + k];
	int rc = agree_on_place(c, r);
	if (!rc && first == c->rank)
		rc = map_file(c, r);
	if (rc) {
		if (!zl_is_aborted(c))
			zl_abort(c, "mem_alloc failed on another rank");
		return rc;
	}

	if (first == c->rank) {
		atomic_store(&m->users, many);
		atomic_store(&m->base, r->base);
	}
	rc = meet(c, r->bytes);
	if (rc)
		return rc;

	r->base = atomic_load(&m->base);
	return 0;
}

/* A node of one rank. */
static int map_alone(struct zr_inst *c, struct region *r)
{
	if (c->area) {
		int rc = take_place(c, r);
		if (rc)
			return rc;
	}
	return map_file(c, r);
}

int zl_mem_alloc(struct zr_inst *c, uint64_t bytes, void **out)
{
	struct region *r = &c->region[c->n_regions];
	if (c->n_regions == REGIONS)
		return zr_fail(c->h, ZR_ENOMEM, "mem_alloc was called %d times already", REGIONS);
	if (bytes > (uint64_t)1 << 40)
		return zr_fail(c->h, ZR_ENOMEM, "mem_alloc of %llu bytes",
			       (unsigned long long)bytes);

	*r = (struct region){ .bytes = bytes, .stride = (bytes / ALIGN + 1) * ALIGN };
	int rc;
	if (node_of(c)->size == 1)
		rc = map_alone(c, r);
	else
		rc = map_together(c, r);
	if (rc)
		return rc;

	c->n_regions++;
	*out = r->base + (uint64_t)node_of(c)->rank * r->stride;
	return 0;
}

static void unmap(struct zr_inst *c, struct region *r)
{
	int32_t many, first = 0;
	uint64_t own = r->at + (uint64_t)node_of(c)->rank * r->stride;
	zl_views_free(r);
	if (c->area) { /* the pages go now, not when the last process ends */
		first = first_of_process(c, &many);
		(void)!fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)own,
				 (off_t)r->stride);
	}
	if (node_of(c)->size == 1 ||
	    atomic_fetch_sub(&c->process->maps[first * REGIONS + (r - c->region)].users, 1) == 1)
		munmap(r->base, region_bytes(c, r));
	r->base = NULL;
}

void zl_mem_free(struct zr_inst *c, void *p)
{
	for (int k = 0; p && k < c->n_regions; k++) {
		struct region *r = &c->region[k];
		if (r->base && (char *)p == r->base + (uint64_t)node_of(c)->rank * r->stride)
			unmap(c, r);
	}
}
