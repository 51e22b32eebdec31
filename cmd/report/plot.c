/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c - see plot.h.
 */
#include "cmd/report/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/chart.h"
#include "cmd/report/decimate.h"

#define MANY 3 /* points for a column from which on the means of columns are drawn */
#define AXIS 9 /* columns of the numbers on the left, a blank behind them */

struct dots {
	uint8_t *cell;                 /* [rows * columns], a bit for each dot */
	int rows, columns, wide, high; /* wide, high: dots of a cell */
};

/* Bits of a braille cell (Unicode 15, chapter 21.1): the left column from the top, the right one.
 */
static const uint8_t braille[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

static void set(struct dots *d, int x, int y)
{
	uint8_t *c = &d->cell[y / d->high * d->columns + x / d->wide];
	*c |= d->wide == 1 ? (uint8_t)(1 << y % 2) : braille[y % 4][x % 2];
}

struct range {
	double x0, x1, y0, y1, last;
	int any;
};

static struct range find_range(const double *x, const double *y, int64_t n)
{
	struct range r = { 0 };

	for (int64_t i = 0; i < n; i++) {
		if (!isfinite(y[i]))
			continue;

		r.x0 = r.any ? r.x0 : x[i];
		r.y0 = r.any ? fmin(r.y0, y[i]) : y[i];
		r.y1 = r.any ? fmax(r.y1, y[i]) : y[i];
		r.x1 = x[i];
		r.last = y[i];
		r.any = 1;
	}

	return r;
}

/* Draws from point to point; between two points of one column this is a line up or down. */
static void draw(struct dots *d, const struct range *r, const double *x, const double *y, int64_t n)
{
	const int w = d->columns * d->wide - 1, h = d->rows * d->high - 1;
	int before_x = -1, before_y = 0;

	for (int64_t i = 0; i < n; i++) {
		if (!isfinite(y[i]))
			continue;

		int at_x = r->x1 > r->x0 ? (int)(w * (x[i] - r->x0) / (r->x1 - r->x0)) : 0;
		int at_y;
		if (r->y1 > r->y0)
			at_y = (int)lround(h * (r->y1 - y[i]) / (r->y1 - r->y0));
		else
			at_y = h / 2;
		int steps = before_x < 0 ? 0 : abs(at_y - before_y);
		if (before_x >= 0 && at_x - before_x > steps)
			steps = at_x - before_x;
		for (int k = 1; k < steps; k++)
			set(d, before_x + (at_x - before_x) * k / steps,
			    before_y + (at_y - before_y) * k / steps);
		set(d, at_x, at_y);
		before_x = at_x;
		before_y = at_y;
	}
}

static char *put_cell(char *to, const struct dots *d, uint8_t c)
{
	static const char ascii[] = " '.:";

	if (d->wide == 1) {
		*to++ = ascii[c];
		return to;
	}

	/* U+2800 and up; an empty cell is a blank, which all fonts have */
	if (!c) {
		*to++ = ' ';
		return to;
	}

	*to++ = (char)0xe2;
	*to++ = (char)(0xa0 | c >> 6);
	*to++ = (char)(0x80 | (c & 63));
	return to;
}

/* A line of text, filled with blanks to its columns. */
static char *line_of(const char *text, int columns)
{
	char *line = malloc((size_t)columns + 1);
	if (line)
		snprintf(line, (size_t)columns + 1, "%-*.*s", columns, columns, text);
	return line;
}

static char *curve_line(const struct dots *d, const struct range *r, int row)
{
	char tick[48] = "", *line = malloc((size_t)AXIS + (size_t)d->columns * 3 + 1);

	if (!line)
		return NULL;
	if (r->any && (row == 0 || row == d->rows - 1))
		zr_tick_text(row ? r->y0 : r->y1, ZR_CHART_NUMBER, tick);
	char *to = line + sprintf(line, "%*.*s ", AXIS - 1, AXIS - 1, tick);
	for (int c = 0; c < d->columns; c++)
		to = put_cell(to, d, d->cell[row * d->columns + c]);
	*to = 0;
	return line;
}

char **zr_plot(const char *title, const double *x, const double *y, int64_t n, int rows,
	       int columns, enum zr_plot_with with)
{
	struct dots d = { .rows = rows,
			  .columns = columns - AXIS,
			  .wide = with == ZR_PLOT_BRAILLE ? 2 : 1,
			  .high = with == ZR_PLOT_BRAILLE ? 4 : 2 };
	const struct range r = find_range(x, y, n);
	char **line = calloc((size_t)rows + 2, sizeof *line), text[200], a[48], b[48];
	double *mean = malloc(2 * (size_t)d.columns * sizeof *mean);
	struct range shown;

	d.cell = calloc((size_t)d.rows * (size_t)d.columns, 1);
	if (!line || !d.cell || !mean)
		goto failed;
	if (n > MANY * d.columns) {
		double *mean_y = mean + d.columns;
		n = zr_part_means(x, y, n, d.columns, mean, mean_y);
		x = mean;
		y = mean_y;
	}

	shown = find_range(x, y, n);
	if (r.any)
		draw(&d, &shown, x, y, n);
	snprintf(text, sizeof text, "%*s%s  %s", AXIS, "", title,
		 r.any ? zr_tick_text(r.last, ZR_CHART_NUMBER, a) : "no values yet");
	line[0] = line_of(text, columns);
	for (int i = 0; i < rows; i++)
		line[i + 1] = curve_line(&d, &shown, i);
	zr_tick_text(r.x1, ZR_CHART_NUMBER, b);
	snprintf(text, sizeof text, "%*s%s", AXIS, "", zr_tick_text(r.x0, ZR_CHART_NUMBER, a));
	line[rows + 1] = line_of(r.any ? text : "", columns);
	if (line[rows + 1] && r.any && r.x1 > r.x0 && AXIS + (int)(strlen(a) + strlen(b)) < columns)
		memcpy(line[rows + 1] + columns - strlen(b), b, strlen(b));
	for (int i = 0; i < rows + 2; i++)
		if (!line[i])
			goto failed;
	free(d.cell);
	free(mean);
	return line;
failed:
	free(d.cell);
	free(mean);
	zr_plot_free(line, rows);
	return NULL;
}

void zr_plot_free(char **line, int rows)
{
	for (int i = 0; line && i < rows + 2; i++)
		free(line[i]);
	free(line);
}
