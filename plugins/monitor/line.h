/* SPDX-License-Identifier: Apache-2.0
 *
 * line.h - a text file that grows by whole lines: each line is made in memory of its own and handed
 * to the system in one write, so that a killed run leaves at most one torn line, which the next
 * open cuts off. No function but line_open() and line_cut()
 * allocates.
 */
#ifndef ZR_MONITOR_LINE_H
#define ZR_MONITOR_LINE_H

#include <zeroth/plugin.h>

#define LINE_ROOM 8192 /* bytes of the longest line */

struct line {
	const struct zr_host *h;
	int fd;
	uint32_t used;
	int64_t size;    /* bytes of the file */
	char name[4096]; /* of the file, for messages */
	char text[LINE_ROOM];
};

/* Opens `path` (relative to the run directory) for appending. Fails with a text. */
int line_open(struct line *l, const struct zr_host *h, const char *path);
void line_close(struct line *l);

void line_text(struct line *l, const char *text);
/* The shortest decimal that reads back as the same double. Infinities and NaN as inf, -inf, nan. */
void line_number(struct line *l, double v);
/* Ends the line and writes it, all or nothing; ZR_EAGAIN: the disk is full, for now. */
int line_end(struct line *l);
int line_flush(struct line *l); /* what was written is on the disk */

/* Leaves one row of each step up to `last`, the last of several, and none of later steps; the
 * number of a row's step follows `head`. Lines of something else stay. [main] */
int line_cut(struct line *l, const char *head, int64_t last);

/* Reads the file's first line, without its end, into l->text; "" if the file is empty. */
int line_first(struct line *l);

#endif
