/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - the metrics of a run as columns of numbers, read from its metrics.jsonl or metrics.csv
 * while it may still be written. [main]
 */
#ifndef ZR_REPORT_ROWS_H
#define ZR_REPORT_ROWS_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

#define ZR_ROWS_COLUMNS 256
#define ZR_ROWS_NAME    80

/* The first column is the step, which ascends: a row of a step that was there takes the place of it
 * and of all behind it, as a run that goes on after an earlier step has it. */
struct zr_rows {
	int64_t n, room;
	int columns;
	char name[ZR_ROWS_COLUMNS][ZR_ROWS_NAME];
	double *value[ZR_ROWS_COLUMNS]; /* [n]; NaN: not measured; infinite: it was not finite */
	int64_t bad;                    /* lines that are no row */
};

/* The column of this name, or NULL. */
const double *zr_rows_find(const struct zr_rows *r, const char *name);
/* The last value that was measured; infinite: it was not finite; NaN: there is none. */
double zr_rows_last(const struct zr_rows *r, const char *name);
/* Of the last `most` values, each a rate of one step: that of these steps together, which all do as
 * much, so that the slow ones count for more. NaN: there are none. */
double zr_rows_rate(const struct zr_rows *r, const char *name, int64_t most);

/* One line without its end. In csv the first line names the columns. 0, or -1 without memory. */
int zr_rows_json(struct zr_rows *r, const char *line, size_t bytes);
int zr_rows_csv(struct zr_rows *r, const char *line, size_t bytes);
void zr_rows_free(struct zr_rows *r);

#define ZR_ROWS_LAST 64

struct zr_rows_file {
	struct zr_rows rows;
	char path[PATH_MAX];
	int csv, fd;
	ino_t inode;
	int64_t at;              /* bytes read, to the end of a line */
	char last[ZR_ROWS_LAST]; /* the bytes in front of `at`, at the end of it */
	int torn;                /* the file goes on with a line that has no end yet */
};

/* Finds the file in a run directory; 0: there is none. Nothing is read yet. */
int zr_rows_open(struct zr_rows_file *f, const char *dir);
/* Reads what came since the last call. Where the file was replaced, or does not have any more what
 * was read, all of it. 1: there are other rows than before; 0: there are not. */
int zr_rows_read(struct zr_rows_file *f, struct zr_error *err);
void zr_rows_close(struct zr_rows_file *f); /* a zeroed one is fine */

#endif
