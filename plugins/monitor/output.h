/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - a file of bytes in a directory of its own, which grows by whole records. Functions
 * fail with a text and, but for the opening ones, allocate nothing.
 */
#ifndef ZR_MONITOR_OUTPUT_H
#define ZR_MONITOR_OUTPUT_H

#include <zeroth/plugin.h>

struct output {
	const struct zr_host *h;
	int dir, fd;     /* -1: none */
	int64_t size;    /* bytes of the file */
	char name[4096]; /* of the directory, or of the file in it, for messages */
};

/* Opens directory `path` (relative to the run directory), which is made where there is none. In a
 * run directory a symbolic link is not followed. */
int output_dir(struct output *o, const struct zr_host *h, const char *path);
/* Goes on in directory `name` in it, which is made, or with make = 0 is there. */
int output_enter(struct output *o, const char *name, int make);
/* Makes file `name` in it, or with make = 0 opens the one that is there. */
int output_file(struct output *o, const char *name, int make);
void output_close(struct output *o);

int output_write(struct output *o, const void *p, size_t bytes); /* appends */
int output_cut(struct output *o, int64_t bytes);                 /* leaves so many */
/* After a write that failed with rc: leaves the bytes that were there before the record. ZR_EAGAIN:
 * so it is, and the disk was full, which may end; else what failed. */
int output_undo(struct output *o, int64_t bytes, int rc);
int output_flush(struct output *o);
int output_failed(const struct output *o, const char *doing); /* says errno: ZR_EAGAIN for a full
							       * disk, else ZR_EIO */

#endif
