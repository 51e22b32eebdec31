/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.h - restarts a training under a supervisor after the death of a rank: from the newest
 * complete checkpoint, with as many ranks or with fewer, and with the same results bit for bit
 * (invariants I1, I5, I6). [main]
 */
#ifndef ZR_TRAIN_RUN_RESTART_H
#define ZR_TRAIN_RUN_RESTART_H

#include "train/run/supervise.h"

#define ZR_RESTART_OVERRIDES 4 /* most that a restart adds */

/* What the command line asks for, and the places of what changes between attempts. */
struct zr_restart_how {
	int ranks, restarts;
	int min_ranks;          /* 0: always as many */
	const char **resume;    /* *resume: "auto", a path, or NULL: from the beginning */
	const char **overrides; /* [*n_overrides + ZR_RESTART_OVERRIDES] */
	int *n_overrides;
	/* Trains with so many ranks, with *resume and the overrides as they are now, until all have
	 * ended. Returns the exit code, and in *end why. It has zr_beat_shared() filled, and has
	 * had zr_beat_look() look. */
	int (*attempt)(int ranks, void *arg, struct zr_crew_end *end);
	void *arg;
};

/* Trains until an attempt ends well. If a rank dies, hangs or stalls, the training is restarted. If
 * a rank itself reports a failure, it would fail again, and the training ends. Returns the exit
 * code, after a last line that says why. */
int zr_restart_train(const struct zr_restart_how *how);

#endif
