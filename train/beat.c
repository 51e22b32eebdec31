/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.c - see beat.h.
 */
#include "train/beat.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "files/checkpoint/dir.h"

static struct zr_beat unread, *shared = &unread;

struct zr_beat *zr_beat_new(void)
{
	void *m = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (m == MAP_FAILED)
		return NULL;
	return shared = m;
}

struct zr_beat *zr_beat_shared(void)
{
	return shared;
}

void zr_beat(void)
{
	atomic_fetch_add(&shared->count, 1);
}

void zr_beat_free(void)
{
	if (shared != &unread)
		munmap(shared, sizeof *shared);
	shared = &unread;
}

void zr_beat_look(struct zr_beat *b)
{
	struct stat st;
	b->there = *b->dir && !stat(b->dir, &st);
	b->latest = *b->checkpoints ? zr_ckpt_named(b->checkpoints, "latest") : -1;
}
