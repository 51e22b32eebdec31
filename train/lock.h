/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h - decides who may write in a directory: the process that holds the lock on its file .lock.
 * The file says which process that is. The process loses the lock however it ends; a file that
 * stays behind means nothing. Readers need no lock. [main]
 */
#ifndef ZR_TRAIN_LOCK_H
#define ZR_TRAIN_LOCK_H

#include <limits.h>
#include <stdint.h>

#include "core/base/error.h"

#define ZR_LOCKS 4

struct zr_locks {
	int n;
	struct {
		int fd;
		uint64_t device, inode; /* of the directory */
		char path[PATH_MAX];    /* of the file */
	} held[ZR_LOCKS];
};

/* Locks a directory that exists. ZR_EINVAL with the name of the holder if another process has the
 * lock. A second call does nothing. */
int zr_locks_add(struct zr_locks *l, const char *dir, struct zr_error *err);
/* Locks a directory of checkpoints. If it is RUN/checkpoints, it also locks RUN, because a run
 * writes its checkpoints under that lock. */
int zr_locks_add_checkpoints(struct zr_locks *l, const char *dir, struct zr_error *err);
/* Releases all, or those that were added after the first n. */
void zr_locks_release(struct zr_locks *l);
void zr_locks_release_after(struct zr_locks *l, int n);

#endif
