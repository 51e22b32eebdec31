/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - what `zeroth train` and `zeroth launch` share: their options, and a rank that trains.
 */
#ifndef ZR_CMD_TRAIN_H
#define ZR_CMD_TRAIN_H

#include "cmd/cmd.h"
#include "train/run/restart.h"

#define ZR_LAUNCH_OVERRIDES 3 /* boot, comm, comm.host */

struct zr_train_args {
	const char *conf;
	/* with room for those that restarts and launches add */
	const char *overrides[ZR_CMD_OVERRIDES + ZR_RESTART_OVERRIDES + ZR_LAUNCH_OVERRIDES];
	int n_overrides;
	int ranks, restarts, min_ranks; /* 0: not given */
	double watchdog;                /* 0: not given */
	const char *resume;             /* NULL: not given */
	int other_data, verify;
	int is_launched; /* over several machines */
};

/* Where a member lies: in train_options.def. */
#define ZR_TRAIN_AT(member) offsetof(struct zr_train_args, member)

/* Refuses options that do not go together, of a training with so many ranks (0: not said). 0, or 2
 * after a line. */
int zr_train_check(const struct zr_cmd_usage *usage, const struct zr_train_args *a, int ranks);

/* Checks that the configuration loads, so that one process reports an error instead of every rank.
 * It runs in a process of its own, because plugins load libraries that may start threads, and a
 * process with threads must not fork ranks. 0, or the exit code after a line. */
int zr_train_try(const struct zr_train_args *a);

/* Runs this process as a rank of several: for zr_supervise_crew, with zr_train_args. */
int zr_train_rank(int rank, void *args, struct zr_error *why);

#endif
