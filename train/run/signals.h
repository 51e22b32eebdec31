/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h - the signals that ask a training to end: SIGINT, SIGTERM and SIGHUP unless they were
 * ignored at its start, and SIGPIPE for standard output that nobody reads any more. [main]
 *
 * One request may arrive as several signals: timeout signals its child and the group, systemd sends
 * SIGTERM and SIGHUP, and a supervisor forwards what its ranks have already got. So signals within
 * ZR_SIGNAL_MOMENT of the first one count as the same request.
 */
#ifndef ZR_TRAIN_RUN_SIGNALS_H
#define ZR_TRAIN_RUN_SIGNALS_H

#include <signal.h>
#include <stdio.h>

#define ZR_SIGNAL_MOMENT 2.0 /* seconds; a SIGINT or SIGTERM after it ends the process at once */

/* At the start of main, whatever the parent has arranged: no signal is blocked, and those that the
 * commands depend on act as in a new process. Who ignores SIGINT, SIGTERM, SIGHUP or SIGPIPE for a
 * program means it: nohup, a shell in the background. Those stay ignored. */
void zr_signals_start(void);
/* Handles a signal that asks for an end, unless it was ignored at the start of the program. */
void zr_signals_handle(int sig, const struct sigaction *act);

/* From here on a signal ends the process with status 130: there is nothing to save yet. */
void zr_signals_begin(void);
/* From here on zr_signals_caught returns the first signal. */
void zr_signals_defer(void);
int zr_signals_caught(void); /* 0: none yet */

/* Flushes standard output. If it is a pipe that nobody reads, SIGPIPE counts as caught, and further
 * output is dropped. */
void zr_signals_flush(FILE *out);

/* The signals that ask this process to end: SIGINT, SIGTERM and SIGHUP, without those that are
 * ignored. */
void zr_signals_of_end(sigset_t *set);

#endif
