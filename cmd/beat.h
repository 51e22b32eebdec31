/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.h - what the ranks of a training let their supervisor know while they run, in memory that they share: that they get on,
 * and where rank 0 leaves what can be gone on from. Without a supervisor nobody is told.
 */
#ifndef ZR_CMD_BEAT_H
#define ZR_CMD_BEAT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

struct zr_beat {
	_Atomic uint64_t count;     /* parts of the start, steps, evaluations and checkpoints that ranks have finished */
	_Atomic int64_t steps;      /* that this attempt has finished */
	_Atomic int64_t saved;      /* whether this run has saved a checkpoint, in any attempt */
	int64_t batch, micro;       /* sequences of a step, and of a micro-batch; 0: not known yet */
	char dir[PATH_MAX];         /* the run directory, once it is made */
	char checkpoints[PATH_MAX]; /* that of its checkpoints */
};

struct zr_beat *zr_beat_new(void); /* NULL: no memory. Shared with processes that are forked from now on. */
struct zr_beat *zr_beat_shared(void); /* that one; one that nobody reads if there is none */
void zr_beat_free(void);

#endif
