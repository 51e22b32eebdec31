/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h - who may write in a directory: the process that holds the lock on its file .lock, which says who that is. The
 * lock goes with the process, however it ends; the file may stay behind and then means nothing. Readers need none. [main]
 */
#ifndef ZR_CMD_LOCK_H
#define ZR_CMD_LOCK_H

#include <limits.h>
#include <stdint.h>

#include "core/error.h"

#define ZR_LOCKS 4

struct zr_locks {
	int n;
	struct {
		int fd;
		uint64_t device, inode; /* of the directory */
		char path[PATH_MAX];    /* of the file */
	} held[ZR_LOCKS];
};

/* The lock of a directory that is there. ZR_EINVAL with the other's name if another process has it. Taking it again does
 * nothing. */
int zr_locks_add(struct zr_locks *l, const char *dir, struct zr_error *err);
/* That of a directory of checkpoints, and if it is a run's RUN/checkpoints, which a run writes under its own lock, RUN's. */
int zr_locks_add_checkpoints(struct zr_locks *l, const char *dir, struct zr_error *err);
void zr_locks_release(struct zr_locks *l);

#endif
