/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - the memfd that all ranks map: how long it is, and whether a descriptor is of one. And
 * what the ranks of one process share beside it, in memory that no other process can write: so no
 * address comes from another process.
 *
 * The memfd is sealed against shrinking: who maps it never meets its end. It grows with mem_alloc,
 * since RLIMIT_FSIZE counts its whole length.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_SEAL)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *processes; /* one for each memfd that this process has mapped */

/* ---- length ---------------------------------------------------------------------- */

static int is_long_enough(int fd, uint64_t bytes)
{
	struct stat st;
	return !fstat(fd, &st) && (uint64_t)st.st_size >= bytes;
}

int zl_file_grow(struct zr_inst *c, int fd, uint64_t bytes)
{
	struct rlimit limit;
	if (is_long_enough(fd, bytes))
		return 0;

	/* beyond it, ftruncate would raise SIGXFSZ */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return zr_fail(c->h, ZR_ENOMEM,
			       "the memory that ranks share takes %llu bytes in one file, and "
			       "ulimit -f allows %llu: raise it (ulimit -f unlimited), or use "
			       "fewer ranks",
			       (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);

	/* Another node may have made it longer meanwhile: the seal keeps that. */
	if (ftruncate(fd, (off_t)bytes) && !(errno == EPERM && is_long_enough(fd, bytes)))
		return zr_fail(c->h, ZR_ENOMEM,
			       "cannot make the memory of the ranks %llu bytes "
			       "long: %s",
			       (unsigned long long)bytes, strerror(errno));
	return 0;
}

/* ---- descriptors ----------------------------------------------------------------- */

int zl_file_make(struct zr_inst *c, uint64_t bytes)
{
	int fd = memfd_create("zeroth", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return zr_fail(c->h, ZR_EIO, "memfd_create: %s", strerror(errno));

	int rc = zl_file_grow(c, fd, bytes);
	if (!rc && fcntl(fd, F_ADD_SEALS, SEALS))
		rc = zr_fail(c->h, ZR_EIO, "cannot seal the memory of the ranks: %s",
			     strerror(errno));
	if (rc) {
		close(fd);
		return rc;
	}
	c->fd = fd;
	return 0;
}

/* What is wrong with what should be the memfd of rank 0, or NULL. No file of a disk has these
 * seals, nor one of /dev/shm. */
static const char *is_none(int fd, uint64_t bytes)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode) || seals < 0 || (seals & SEALS) != SEALS || seals & F_SEAL_WRITE)
		return "it is no memory that a rank has sealed";
	if (st.st_uid != geteuid())
		return "it belongs to another user";
	if ((uint64_t)st.st_size < bytes)
		return "it is too short";
	return NULL;
}

int zl_file_open(struct zr_inst *c, int32_t pid, int32_t number, uint64_t bytes)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
	/* O_NONBLOCK, O_NOCTTY: it may be anything */
	int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return zr_fail(
			c->h, ZR_EIO,
			"cannot open the memory of rank 0 (%s: %s): the ranks must run on one "
			"machine as one user",
			path, strerror(errno));

	const char *why = is_none(fd, bytes);
	if (why) {
		close(fd);
		return zr_fail(c->h, ZR_EIO, "%s is not the memory of the ranks: %s", path, why);
	}
	c->fd = fd;
	return 0;
}

/* ---- one mapping for all ranks of a process -------------------------------------- */

static struct process *find(uint64_t nonce)
{
	struct process *p = processes;
	while (p && p->nonce != nonce)
		p = p->next;
	return p;
}

/* From c->fd, which the process then owns. */
static int add_process(struct zr_inst *c, uint64_t nonce)
{
	struct process *p = calloc(1, sizeof *p);
	struct shared_map *maps = calloc((size_t)c->world * REGIONS, sizeof *maps);
	void *m = mmap(NULL, c->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	int why = errno;
	if (!p || !maps || m == MAP_FAILED) {
		if (m != MAP_FAILED)
			munmap(m, c->area_bytes);
		free(p);
		free(maps);
		return zr_fail(c->h, ZR_ENOMEM, "cannot map the area of the ranks: %s",
			       m == MAP_FAILED ? strerror(why) : "no memory");
	}

	*p = (struct process){ .next = processes,
			       .nonce = nonce,
			       .fd = c->fd,
			       .maps = maps,
			       .area = m,
			       .area_bytes = c->area_bytes };
	processes = p;
	return 0;
}

int zl_process_join(struct zr_inst *c, uint64_t nonce, int (*get)(struct zr_inst *, void *),
		    void *arg)
{
	pthread_mutex_lock(&lock);
	int rc = 0;
	if (!find(nonce)) {
		rc = get(c, arg);
		if (!rc && (rc = add_process(c, nonce)) != 0)
			close(c->fd);
	}
	c->fd = -1;
	if (!rc) {
		c->process = find(nonce);
		c->process->users++;
		c->fd = c->process->fd;
		c->area = c->process->area;
	}

	pthread_mutex_unlock(&lock);
	return rc;
}

void zl_process_leave(struct zr_inst *c)
{
	struct process *p = c->process, **at = &processes;
	if (!p)
		return;

	pthread_mutex_lock(&lock);
	if (--p->users == 0) {
		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
		munmap(p->area, p->area_bytes);
		close(p->fd);
		free(p->maps);
		free(p);
	}

	pthread_mutex_unlock(&lock);
}
