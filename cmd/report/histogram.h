/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h - how many of some numbers lie in each of a row of ranges, as a drawing of a page and
 * as lines of text. [main]
 */
#ifndef ZR_REPORT_HISTOGRAM_H
#define ZR_REPORT_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define ZR_HISTOGRAM_BARS 32

/* Bar i counts the numbers in [low + i * width, low + (i + 1) * width). */
struct zr_histogram {
	int64_t low, width;
	int bars;
	int64_t count[ZR_HISTOGRAM_BARS], most;
};

/* Of n numbers that are not negative, with at most `bars` bars of a round width. */
void zr_histogram_make(struct zr_histogram *h, const int64_t *value, int64_t n, int bars);
/* A figure: bars as inline SVG, the first and the last number below. title, unit: no text of a
 * user. Its style is in frame.css. */
void zr_histogram_draw(FILE *f, const struct zr_histogram *h, const char *title, const char *unit);
/* A line for each bar, of at most `columns` columns. */
void zr_histogram_print(FILE *f, const struct zr_histogram *h, int columns);

#endif
