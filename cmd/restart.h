/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.h - a training under a supervisor that goes on after the death of a rank: from the newest whole checkpoint, with as
 * many ranks or with fewer, to the same bits (invariants I1, I5, I6). [main]
 */
#ifndef ZR_CMD_RESTART_H
#define ZR_CMD_RESTART_H

#include "cmd/cmd.h"

/* Trains with a.ranks ranks, each of which calls rank_main with `a` as it then is: resume and overrides change between
 * attempts. What dies, hangs or stalls is started again, a.restarts times at most; what a rank itself refuses or could not do
 * would be the same again, and ends the training. Returns the exit code, after a last line that says why. */
int zr_restart_train(struct zr_cmd_args *a, int (*rank_main)(int rank, void *arg, struct zr_error *why));

#endif
