/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.h - a process that ends where nobody meant it to, as by a crash or a call of exit inside a plugin, says where:
 * in which function of which plugin, on which rank, at which step, in which operation (invariants I5, I7).
 */
#ifndef ZR_CMD_CRASH_H
#define ZR_CMD_CRASH_H

#include "core/error.h"

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT leave a text before they end this process as they always do, and
 * exit, quick_exit and _exit end it with code 4 instead of theirs. To *why if that is not NULL: a text that goes on after
 * "killed by SIGSEGV" with code 0, or that of an exit with its code; else to standard error. Children are not watched, nor
 * are signals that somebody handles already, as sanitizers do. */
void zr_crash_watch(struct zr_error *why);
void zr_crash_unwatch(void); /* from now on exits are meant */

struct zr_session;
void zr_crash_session(const struct zr_session *s); /* whose step and operation are said; NULL: none */

/* "SIGSEGV (Segmentation fault)" */
const char *zr_signal_text(int sig, char *out, size_t size);

#endif
