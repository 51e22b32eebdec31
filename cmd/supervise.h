/* SPDX-License-Identifier: Apache-2.0
 *
 * supervise.h - ranks as processes of this machine: started, watched, and ended together (invariant I5).
 */
#ifndef ZR_CMD_SUPERVISE_H
#define ZR_CMD_SUPERVISE_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/error.h"

#define ZR_SUPERVISE_MAX 256 /* ranks that boot/local and comm/local connect */

/* Forks n ranks that call rank_main and end with what it returns; the caller must not have threads. Each finds
 * ZEROTH_LOCAL_RANK, ZEROTH_LOCAL_WORLD and ZEROTH_LOCAL_FD (an empty memfd for boot) in its environment. Rank 0 keeps
 * standard input and output, the others have none; lines on standard error come out as "rank 2: line".
 *
 * A rank that fails says so in *why, not on standard error: what several ranks say alike is printed once.
 *
 * What asks this process or one of the ranks to end (signals.h) goes to all ranks; SIGINT or SIGTERM once more, after the
 * moment of signals.h, kills them. When one fails, the others are stopped within 5 s, and the last line on standard
 * error names it and its cause. Returns the exit code of the process: 0; that of the rank that failed first, 4 if it
 * died by a signal; 130 if all ranks ended because they were asked to. */
int zr_supervise(int n, int (*rank_main)(int rank, void *arg, struct zr_error *why), void *arg);

/* The same without the last line, which is `text`, and with a watch on ranks that stall. */
struct zr_crew_how {
	int n;
	int (*rank_main)(int rank, void *arg, struct zr_error *why);
	void *arg;
	double watchdog;                 /* seconds without a change of *beat that end all ranks, after their stacks; 0: never */
	const _Atomic uint64_t *beat;    /* may be NULL without a watchdog */
};
struct zr_crew_end {
	int died;        /* a rank was killed, crashed, hung or stalled, which another attempt may not; else it gave a reason */
	char text[1280]; /* "rank 2 was killed by SIGKILL (Killed)"; "": nothing failed */
};
int zr_supervise_crew(const struct zr_crew_how *how, struct zr_crew_end *end);

/* What another launcher says of itself: "OMPI_COMM_WORLD_SIZE=4" if it started several ranks, or NULL. */
const char *zr_other_launcher(void);

#endif
