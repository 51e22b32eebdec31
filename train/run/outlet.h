/* SPDX-License-Identifier: Apache-2.0
 *
 * outlet.h - standard output and error of a training where they are pipes or sockets: a reader that
 * stops reading does not stop the training. Nothing is lost as long as the reader takes something
 * within ZR_OUTLET_PATIENCE. After that, what is printed is dropped until there is room again, and
 * a line in its place says how many lines are missing. Files and terminals are written as by any
 * program. [main]
 */
#ifndef ZR_TRAIN_RUN_OUTLET_H
#define ZR_TRAIN_RUN_OUTLET_H

#define ZR_OUTLET_PATIENCE 5.0 /* seconds */

/* From here on stdout and stderr are such files. */
void zr_outlets_begin(void);
/* In a child whose standard file with this number is another now: stdout or stderr writes to it. */
void zr_outlet_leave(int fd);
/* Drops all that is printed there from here on, since nobody will read it. */
void zr_outlet_close(int fd);
/* Flushes all files, as before a fork. Returns whether standard output has failed; why is said by
 * zr_outlet_flush() at the end. */
int zr_outlet_push(void);
/* Flushes standard output. Returns NULL, or why what was printed last is lost. */
const char *zr_outlet_flush(void);

/* Writes to standard error, also in a signal handler; gives up where that takes nothing for a
 * second. */
void zr_outlet_say(const char *text);

#endif
