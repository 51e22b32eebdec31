/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.h - a process that crashes, or in which a plugin calls exit, reports where: the function,
 * the plugin, the rank, the step and the operation (invariants I5, I7).
 */
#ifndef ZR_TRAIN_RUN_CRASH_H
#define ZR_TRAIN_RUN_CRASH_H

#include "core/base/error.h"

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write a report before they end this
 * process as usual, and exit, quick_exit and _exit end it with code 4 instead of their own. The
 * report goes to *why, or to standard error if why is NULL. For a signal, *why gets code 0 and a
 * text that continues "killed by SIGSEGV"; for an exit, its code and text. Children are not
 * watched, nor are signals that already have a handler, such as that of a sanitizer. */
void zr_crash_watch(struct zr_error *why);
void zr_crash_unwatch(void); /* from now on an exit is intended */

struct zr_session;
/* Sets the session whose step and operation a report names; NULL: none. */
void zr_crash_session(const struct zr_session *s);

/* Names the plugin that is being loaded, for the report of a crash on its options; NULL: none. */
void zr_crash_loading(const char *plugin);

/* "SIGSEGV (Segmentation fault)" */
const char *zr_signal_text(int sig, char *out, size_t size);

#endif
