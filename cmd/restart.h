/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.h - restarts a training under a supervisor after the death of a rank: from the newest
 * complete checkpoint, with as many ranks or with fewer, and with the same results bit for bit
 * (invariants I1, I5, I6). [main]
 */
#ifndef ZR_CMD_RESTART_H
#define ZR_CMD_RESTART_H

#include "cmd/cmd.h"

/* Trains with a.ranks ranks, each of which calls rank_main with the current `a`: resume and
 * overrides change between attempts. If a rank dies, hangs or stalls, the training is restarted, at
 * most a.restarts times. If a rank itself reports a failure, it would fail again, and the training
 * ends. Returns the exit code, after a last line that says why. */
int zr_restart_train(struct zr_cmd_args *a,
		     int (*rank_main)(int rank, void *arg, struct zr_error *why));

#endif
