/* SPDX-License-Identifier: Apache-2.0
 *
 * area.c - how the ranks find each other. Rank 0 makes the memfd and puts its process and
 * descriptor into boot's key-value area; the others open it through /proc. Nothing of it has a
 * name, so nothing can be left behind, and the size of /dev/shm does not matter.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define KEY    "comm.local"
#define HUGE   (2u << 20)
#define REPORT 10.0 /* seconds between lines that say who is missing */

/* What rank 0 publishes: no address, and a descriptor that others check before they use it. */
struct hello {
	int32_t pid, fd, world, rsv;
	uint64_t nonce, staging;
};

static uint64_t up(uint64_t bytes)
{
	return (bytes + HUGE - 1) / HUGE * HUGE;
}

static void lay_out(struct zr_inst *c)
{
	c->area_bytes = up(sizeof(struct area) + (uint64_t)c->world * sizeof(struct seat));
	c->stage_at = c->area_bytes;
	c->data_at = up(c->stage_at + (uint64_t)c->world * c->o->staging);
}

static int make_file(struct zr_inst *c, void *arg)
{
	(void)arg;
	return zl_file_make(c, c->data_at);
}

/* Rank 0. */
static int make_area(struct zr_inst *c)
{
	struct hello hello = { .pid = c->pid, .world = c->world, .staging = c->o->staging };
	if (getrandom(&hello.nonce, sizeof hello.nonce, 0) != sizeof hello.nonce)
		return zr_fail(c->h, ZR_EIO, "getrandom: %s", strerror(errno));

	int rc = zl_process_join(c, hello.nonce, make_file, NULL);
	if (rc)
		return rc;

	hello.fd = c->fd;
	c->nonce = c->area->nonce = hello.nonce;
	c->area->world = c->world;
	atomic_store(&c->area->end, c->data_at);
	return c->boot->put(c->boot_inst, KEY, &hello, sizeof hello);
}

static int open_file(struct zr_inst *c, void *arg)
{
	const struct hello *hello = arg;
	return zl_file_open(c, hello->pid, hello->fd, c->data_at);
}

/* The other ranks. */
static int open_area(struct zr_inst *c)
{
	struct hello hello;
	int rc = c->boot->get(c->boot_inst, KEY, &hello, sizeof hello, c->o->timeout);
	if (rc)
		return rc; /* boot says why */
	if (hello.world != c->world || hello.staging != c->o->staging)
		return zr_fail(c->h, ZR_EINVAL,
			       "rank 0 has %d ranks and staging = %llu, rank %d has %d and %llu",
			       hello.world, (unsigned long long)hello.staging, c->rank, c->world,
			       (unsigned long long)c->o->staging);

	rc = zl_process_join(c, hello.nonce, open_file, &hello);
	if (rc)
		return rc;

	c->nonce = hello.nonce;
	if (c->area->nonce != hello.nonce || c->area->world != c->world)
		return zr_fail(c->h, ZR_EIO,
			       "/proc/%d/fd/%d is not the memory of the ranks: it is of another "
			       "run",
			       hello.pid, hello.fd);
	return 0;
}

static void say_missing(struct zr_inst *c, uint32_t level, double waited)
{
	char list[256] = "";
	for (int32_t r = 0; r < c->world; r++)
		if (atomic_load(&c->area->seat[r].joined) < level)
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d",
				 *list ? ", " : "", r);
	zr_log(c->h, ZR_LOG_WARN, "still waiting for rank %s to join (%.0f s)", list, waited);
}

/* Waits until every rank has come to that level. */
static int all_joined(struct zr_inst *c, uint32_t level)
{
	double start = zl_now(), said = start;
	for (int32_t r = 0; r < c->world; r++) {
		_Atomic uint32_t *joined = &c->area->seat[r].joined;
		uint32_t seen;
		while ((seen = atomic_load(joined)) < level) {
			int rc = zl_aborted(c);
			if (!rc)
				rc = zl_check_alive(c, r);
			if (rc)
				return rc;
			if (zl_now() - start > c->o->timeout)
				return zl_stop(c, "timeout: rank %d did not join within %.3g s", r,
					       c->o->timeout);
			if (zl_now() - said >= REPORT) {
				said = zl_now();
				say_missing(c, level, said - start);
			}
			zl_nap(joined, seen, 0.2);
		}
	}
	return 0;
}

static void join(struct zr_inst *c, uint32_t level)
{
	_Atomic uint32_t *joined = &c->area->seat[c->rank].joined;
	atomic_store(joined, level);
	zl_wake(joined);
}

/* A descriptor per other process that becomes readable when it ends, even before its parent has
 * noticed. */
static void watch(struct zr_inst *c)
{
	for (int32_t r = 0; r < c->world; r++) {
		int pid = atomic_load(&c->area->seat[r].pid);
		c->watch[r].events = POLLIN;
		if (pid == c->pid)
			continue;
		c->watch[r].fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (c->watch[r].fd < 0)
			zr_log(c->h, ZR_LOG_WARN,
			       "cannot watch rank %d (%s): its death would be noticed by the "
			       "timeout only",
			       r, strerror(errno));
	}
}

/* Whether the kernel lets this process read the private memory of every other one. */
static int reads_others(struct zr_inst *c)
{
	for (int32_t r = 0; r < c->world; r++) {
		struct seat *s = &c->area->seat[r];
		if (atomic_load(&s->pid) == c->pid)
			continue;

		uint64_t got = ~c->nonce;
		struct iovec here = { &got, sizeof got },
			     there = { (void *)(uintptr_t)atomic_load(&s->probe), sizeof got };
		if (c->o->cross_read ||
		    process_vm_readv(atomic_load(&s->pid), &here, 1, &there, 1, 0) != sizeof got ||
		    got != c->nonce)
			return 0;
	}
	return 1;
}

/* Whether the processors that the ranks may use are fewer than the ranks. */
static int is_crowded(const struct zr_inst *c)
{
	cpu_set_t all;
	CPU_ZERO(&all);
	for (int32_t r = 0; r < c->world; r++)
		CPU_OR(&all, &all, &c->area->seat[r].cpus);
	return c->world > CPU_COUNT(&all);
}

/* Makes the pages of the own lane of the world, which every run uses: else one small operation in
 * some 30 would wait for the kernel, for longer than for its peer, until the ring had gone round
 * once. */
static void touch_lane(struct seat *mine)
{
	struct lane *l = &mine->lane[ZR_GROUP_WORLD - ZR_GROUP_NODE];
	memset(l, 0, sizeof *l);
}

int zl_join(struct zr_inst *c)
{
	int rc;
	lay_out(c);
	if (c->rank)
		rc = open_area(c);
	else
		rc = make_area(c);
	if (rc)
		return rc;

	struct seat *mine = &c->area->seat[c->rank];
	atomic_store(&mine->pid, c->pid);
	atomic_store(&mine->probe, (uint64_t)(uintptr_t)&c->nonce);
	sched_getaffinity(0, sizeof mine->cpus, &mine->cpus);
	touch_lane(mine);
	join(c, 1);
	rc = all_joined(c, 1);
	if (rc)
		return rc;

	c->crowded = is_crowded(c);
	watch(c);
	atomic_store(&mine->reads, (uint32_t)reads_others(c));
	atomic_store(&mine->ordered, (uint32_t)zl_order());
	join(c, 2);
	rc = all_joined(c, 2);
	if (rc)
		return rc;

	c->reads = c->ordered = 1;
	for (int32_t r = 0; r < c->world; r++) {
		c->reads &= (int)atomic_load(&c->area->seat[r].reads);
		c->ordered &= (int)atomic_load(&c->area->seat[r].ordered);
	}
	if (!c->reads && c->rank == 0 && !c->o->cross_read)
		zr_log(c->h, ZR_LOG_INFO,
		       "process_vm_readv is not permitted here: buffers outside mem_alloc are "
		       "staged");
	return 0;
}

void zl_leave(struct zr_inst *c)
{
	if (c->area) {
		for (int k = 0; k < c->n_regions; k++)
			if (c->region[k].base)
				zl_mem_free(c, c->region[k].base +
						       (uint64_t)c->group[ZR_GROUP_NODE].rank *
							       c->region[k].stride);
		atomic_store(&c->area->seat[c->rank].left, 1);
	}

	for (int32_t r = 0; c->watch && r < c->world; r++)
		if (c->watch[r].fd >= 0)
			close(c->watch[r].fd);
	if (c->stage)
		munmap(c->stage, (uint64_t)c->world * c->o->staging);
	zl_process_leave(c);
}
