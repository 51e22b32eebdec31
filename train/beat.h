/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.h - what ranks tell their supervisor while they run, in shared memory: that they make
 * progress, and where rank 0 saves checkpoints to resume from. Without a supervisor nobody reads
 * it.
 */
#ifndef ZR_TRAIN_BEAT_H
#define ZR_TRAIN_BEAT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

struct zr_beat {
	/* parts of the start, steps, evaluations and checkpoints that ranks have finished */
	_Atomic uint64_t count;
	_Atomic int64_t steps; /* steps that this attempt has finished */
	_Atomic int64_t saved; /* whether this run has saved a checkpoint, in any attempt */
	/* sequences of a step, and of a micro-batch; 0: not known yet */
	int64_t batch, micro;
	char dir[PATH_MAX];         /* the run directory, once it is made */
	char checkpoints[PATH_MAX]; /* the directory of its checkpoints */
	/* what zr_beat_look has seen there */
	int there;      /* whether there is a run directory */
	int64_t latest; /* step of the newest whole checkpoint; -1: none */
};

/* Makes the memory, which processes forked from now on share. NULL: no memory. */
struct zr_beat *zr_beat_new(void);
struct zr_beat *zr_beat_shared(void); /* the one of zr_beat_new, or one that nobody reads */

/* Tells the supervisor that this rank makes progress; long reads are no hang. [any] */
void zr_beat(void);
void zr_beat_free(void);

/* Looks at the directories that rank 0 has named, from a machine that has them. */
void zr_beat_look(struct zr_beat *b);

#endif
