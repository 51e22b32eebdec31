/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h - what asks a training to end: SIGINT, SIGTERM, SIGHUP unless it was ignored (nohup), and standard output that
 * nobody reads any more, which counts as SIGPIPE. [main]
 *
 * Who sends a signal to a process group sends it more than once: timeout to its child and to the group, systemd SIGTERM
 * and SIGHUP, and a supervisor forwards what its ranks have got already. So what comes within ZR_SIGNAL_MOMENT of the
 * first one is the first one.
 */
#ifndef ZR_CMD_SIGNALS_H
#define ZR_CMD_SIGNALS_H

#include <signal.h>
#include <stdio.h>

#define ZR_SIGNAL_MOMENT 2.0 /* seconds; a SIGINT or SIGTERM after it ends the process at once */

/* From here on a signal ends the process with status 130: there is nothing to save yet. */
void zr_signals_begin(void);
/* From here on the first one is kept for zr_signals_caught. */
void zr_signals_defer(void);
int zr_signals_caught(void); /* 0: none so far */
/* As before zr_signals_begin. */
void zr_signals_end(void);

/* Flushes; a pipe that nobody reads is SIGPIPE caught, and what else is printed goes nowhere. */
void zr_signals_flush(FILE *out);

/* SIGINT, SIGTERM, SIGHUP unless it is ignored: what asks this process to end. */
void zr_signals_of_end(sigset_t *set);

#endif
