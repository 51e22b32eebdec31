/* SPDX-License-Identifier: Apache-2.0
 *
 * chart.h - curves over the steps as a figure: an SVG that scales with the page, ticks beside it as
 * text that does not, and the points as JSON, with which the script of the page zooms. [main]
 */
#ifndef ZR_REPORT_CHART_H
#define ZR_REPORT_CHART_H

#include <stdint.h>
#include <stdio.h>

/* What of the rows is drawn. */
enum zr_curve_kind {
	ZR_CURVE_LINE,
	ZR_CURVE_FAINT, /* every step, behind a mean */
	ZR_CURVE_MEAN,
	ZR_CURVE_DASHED, /* of many points the means; so is the next */
	ZR_CURVE_DOTTED,
	ZR_CURVE_MARKS /* a tick at the bottom where y is 1 */
};

enum zr_chart_unit { ZR_CHART_NUMBER, ZR_CHART_BYTES, ZR_CHART_PERCENT, ZR_CHART_SECONDS };

struct zr_curve {
	const char *label;
	int run, colour;
	enum zr_curve_kind kind;
	const double *x, *y; /* [n], borrowed; y NaN: no point */
	int64_t n;
};

#define ZR_CHART_CURVES 64

struct zr_chart {
	const char *id; /* of the element; a word */
	const char *title, *unit_text;
	enum zr_chart_unit unit;
	int64_t points; /* at most so many of a curve */
	struct zr_curve curve[ZR_CHART_CURVES];
	int n;
};

/* Adds v if it has rows. */
void zr_chart_add(struct zr_chart *c, struct zr_curve v);
/* Whether any point is there to be drawn. */
int zr_chart_has_points(const struct zr_chart *c);
/* Writes the figure to `page`, and to `data` the member of the object of all charts, with a comma
 * in front where something is in front. 0, or -1 without memory. */
int zr_chart_write(const struct zr_chart *c, FILE *page, FILE *data, int first);

/* Ascending ticks in [low, high] at multiples of 1, 2 or 5 times a power of ten, of bytes times one
 * of 1024. powers: at powers of ten, where there are two. Returns how many. */
int zr_ticks(double low, double high, enum zr_chart_unit unit, int powers, double tick[8]);
/* A short text of a tick: 20k, 1.5 GiB, 40%. */
char *zr_tick_text(double v, enum zr_chart_unit unit, char text[48]);

#endif
