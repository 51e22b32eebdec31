/* SPDX-License-Identifier: Apache-2.0
 *
 * supervise.h - starts ranks as processes on this machine, watches them, and ends them together
 * (invariant I5).
 */
#ifndef ZR_TRAIN_RUN_SUPERVISE_H
#define ZR_TRAIN_RUN_SUPERVISE_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/base/error.h"

#define ZR_SUPERVISE_MAX 256 /* ranks that boot/local and comm/local connect */

/* Exit code of a process that ends with a ZR_E* code: 0 done, 2 bad config or input, 3 cannot fit,
 * 4 a rank died or a system error, 5 numerical stop. */
static inline int zr_exit_code(int code)
{
	switch (code) {
	case 0:
		return 0;
	case ZR_EINVAL:
	case ZR_ENOTSUP:
		return 2;
	case ZR_EFIT:
		return 3;
	case ZR_ENUMERIC:
		return 5;
	default:
		return 4;
	}
}

/* Forks n ranks, which call rank_main and exit with what it returns. The caller must not have
 * threads. Each finds ZEROTH_LOCAL_RANK, ZEROTH_LOCAL_WORLD and ZEROTH_LOCAL_FD (a memfd for boot,
 * see zeroth/boot.h) in its environment; where they are some of a world of several machines, RANK,
 * WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE instead. Rank 0 keeps standard input and output, the
 * others have none; lines on standard error come out as "rank 2: line".
 *
 * A rank that fails says so in *why, not on standard error, so that a text of several ranks is
 * printed once.
 *
 * A signal that asks this process or one of the ranks to end (signals.h) goes to all ranks. Another
 * SIGINT or SIGTERM after ZR_SIGNAL_MOMENT kills them. When one fails, the others are stopped
 * within 5 s, and the last line on standard error names it and its cause. Returns the exit code of
 * the process: 0; that of the rank that failed first, 4 if it died by a signal; 130 if all ranks
 * ended because they were asked to. */
int zr_supervise(int n, int (*rank_main)(int rank, void *arg, struct zr_error *why), void *arg);

/* As above, but returns the last line in `text` instead of printing it, and ends ranks that
 * stall. */
struct zr_crew_how {
	int n;
	int (*rank_main)(int rank, void *arg, struct zr_error *why);
	void *arg;
	/* after so many seconds without a change of *beat, all ranks show their stacks and end; 0:
	 * never */
	double watchdog;
	const _Atomic uint64_t *beat; /* may be NULL without a watchdog */
	/* ranks [first, first + n) of a world of several machines; 0: the n are all there are */
	int first, world;
};
struct zr_crew_end {
	/* 1: a rank was killed, crashed, hung or stalled, so that a restart may help; 0: it
	 * reported a failure */
	int died;
	int interrupted; /* somebody asked it to end, before or meanwhile */
	int weak;        /* the reason is only that another rank ended, perhaps elsewhere */
	int code;        /* what zr_supervise_crew returns; -1: not yet */
	int left;        /* ranks for which there is a machine still */
	char text[1280]; /* "rank 2 was killed by SIGKILL (Killed)"; "": nothing failed */
};
int zr_supervise_crew(const struct zr_crew_how *how, struct zr_crew_end *end);

#endif
