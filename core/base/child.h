/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - processes that this one starts, and their ends.
 */
#ifndef ZR_CORE_BASE_CHILD_H
#define ZR_CORE_BASE_CHILD_H

#include <sys/types.h>

/* Waits for the end of a child, whatever signals come: 0, and its status as waitpid() gives it. -1:
 * it has ended, and how is not known, because SIGCHLD is ignored or another thread has reaped it.
 * *status is then ZR_CHILD_UNKNOWN. [any] */
int zr_child_wait(pid_t child, int *status);
#define ZR_CHILD_UNKNOWN 0xff00 /* of a process that exits with code 255 */

/* Whether a child has ended, with its status as above. It does not wait. [any] */
int zr_child_ended(pid_t child, int *status);

/* In a child that runs code of its own: signals act as in a new process, whatever the program that
 * it was forked from has arranged. */
void zr_child_signals(void);

#endif
