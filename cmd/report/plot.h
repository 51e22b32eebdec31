/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.h - a curve in lines of text. [main]
 */
#ifndef ZR_REPORT_PLOT_H
#define ZR_REPORT_PLOT_H

#include <stdint.h>

enum zr_plot_with {
	ZR_PLOT_ASCII,  /* a place has two dots: ' . : */
	ZR_PLOT_BRAILLE /* eight, as UTF-8 */
};

/* rows + 2 lines, each of `columns` columns: a title with the last value, the curve between the
 * least and the greatest value, and the first and the last x. Of many points the means are drawn. y
 * that is not finite is no point.
 * Lines and their array are owned by the caller. NULL: no memory. rows >= 1, columns >= 24. */
char **zr_plot(const char *title, const double *x, const double *y, int64_t n, int rows,
	       int columns, enum zr_plot_with with);
void zr_plot_free(char **line, int rows); /* NULL is fine */

#endif
