/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.h - restarts a training under a supervisor after the death of a rank: from the newest
 * complete checkpoint, with as many ranks or with fewer, and with the same results bit for bit
 * (invariants I1, I5, I6). [main]
 */
#ifndef ZR_TRAIN_RUN_RESTART_H
#define ZR_TRAIN_RUN_RESTART_H

#include "core/base/error.h"

#define ZR_RESTART_OVERRIDES 4 /* most that a restart adds */

/* What the command line asks for, and the places of what changes between attempts. */
struct zr_restart_how {
	int ranks, restarts;
	int min_ranks;          /* 0: always as many */
	double watchdog;        /* seconds, 0: none */
	const char **resume;    /* *resume: "auto", a path, or NULL: from the beginning */
	const char **overrides; /* [*n_overrides + ZR_RESTART_OVERRIDES] */
	int *n_overrides;
};

/* Trains with so many ranks, each of which calls rank_main with arg and what changed. If a rank
 * dies, hangs or stalls, the training is restarted. If a rank itself reports a failure, it would
 * fail again, and the training ends. Returns the exit code, after a last line that says why. */
int zr_restart_train(const struct zr_restart_how *how,
		     int (*rank_main)(int rank, void *arg, struct zr_error *why), void *arg);

#endif
