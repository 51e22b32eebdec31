/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.h - a run as it stands, in lines of text that fit a terminal. [main]
 */
#ifndef ZR_REPORT_SCREEN_H
#define ZR_REPORT_SCREEN_H

#include <stdio.h>

#include "cmd/report/plot.h"
#include "cmd/report/run.h"

struct zr_screen {
	int columns, rows;
	enum zr_plot_with with;
	int marks;       /* bold and dim by the codes of a terminal */
	const char *end; /* of each line */
};

/* Reads what came since the last call: metrics, and the summary of an end. */
int zr_screen_read(struct zr_run_files *run, struct zr_error *err);
/* Writes at most `rows` lines. 0, or -1 without memory. */
int zr_screen_write(const struct zr_screen *s, const struct zr_run_files *run, FILE *f);

#endif
