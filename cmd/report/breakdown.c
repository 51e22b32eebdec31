/* SPDX-License-Identifier: Apache-2.0
 *
 * breakdown.c - where the time of the steps went: areas that stand on each other, over the steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/chart.h"
#include "cmd/report/html.h"
#include "cmd/report/report.h"

#define WIDE 150 /* parts of the steps, of which each has a mean */

struct areas {
	double mean[ZR_PARTS][WIDE], x[WIDE];
	double all[ZR_PARTS]; /* mean over all steps that have it */
	double idle;          /* likewise without a kernel; NaN: no step has it */
	int wide, parts;      /* parts: that were recorded */
};

static double mean_idle(const struct zr_rows *rows)
{
	const double *y = zr_rows_find(rows, ZR_IDLE_METRIC);
	double sum = 0;
	int64_t n = 0;

	for (int64_t i = 0; y && i < rows->n; i++)
		if (isfinite(y[i])) {
			sum += y[i];
			n++;
		}
	return n ? sum / (double)n : NAN;
}

static void measure(const struct zr_rows *rows, struct areas *a)
{
	memset(a, 0, sizeof *a);
	a->wide = rows->n < WIDE ? (int)rows->n : WIDE;
	for (int p = 0; p < ZR_PARTS; p++) {
		int64_t counted = 0;
		const double *y = zr_rows_find(rows, zr_part_metric[p]);
		if (!y)
			continue;

		for (int w = 0; w < a->wide; w++) {
			int64_t from = rows->n * w / a->wide, to = rows->n * (w + 1) / a->wide,
				n = 0;
			double sum = 0;
			for (int64_t i = from; i < to; i++)
				if (isfinite(y[i])) {
					sum += y[i];
					n++;
				}
			a->mean[p][w] = n ? sum / (double)n : 0;
			a->x[w] = to > from ? (rows->value[0][from] + rows->value[0][to - 1]) / 2 :
					      0;
			a->all[p] += sum;
			counted += n;
		}

		a->parts += counted > 0;
		a->all[p] /= counted ? (double)counted : 1;
	}
	a->idle = mean_idle(rows);
}

static double top_of(const struct areas *a, int w)
{
	double sum = 0;
	for (int p = 0; p < ZR_PARTS; p++)
		sum += a->mean[p][w];
	return sum;
}

static void write_areas(const struct areas *a, FILE *f)
{
	double below[WIDE] = { 0 }, high = 0, tick[8];
	const double x0 = a->x[0], span = a->x[a->wide - 1] > x0 ? a->x[a->wide - 1] - x0 : 1;
	char text[48];

	for (int w = 0; w < a->wide; w++)
		high = fmax(high, top_of(a, w));
	high = high > 0 ? high * 1.04 : 1;
	fputs("<div class=\"plot\"><div class=\"ys\" aria-hidden=\"true\">", f);
	for (int i = 0, n = zr_ticks(0, high, ZR_CHART_SECONDS, 0, tick); i < n; i++)
		fprintf(f, "<span style=\"top:%.2f%%\">%s</span>", 100 - 100 * tick[i] / high,
			zr_tick_text(tick[i], ZR_CHART_SECONDS, text));
	fputs("</div><div class=\"xs\" aria-hidden=\"true\">", f);
	for (int i = 0, n = zr_ticks(x0, x0 + span, ZR_CHART_NUMBER, 0, tick); i < n; i++)
		fprintf(f, "<span style=\"left:%.2f%%\">%s</span>", 100 * (tick[i] - x0) / span,
			zr_tick_text(tick[i], ZR_CHART_NUMBER, text));
	fputs("</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\">"
	      "<title>Time of a step by part</title>"
	      "<desc>Areas that stand on each other; the table below has the means.</desc>",
	      f);
	for (int p = 0; p < ZR_PARTS; p++) {
		if (!(a->all[p] > 0))
			continue;

		fprintf(f, "<path class=\"area p%d\" d=\"M", p);
		for (int w = 0; w < a->wide; w++)
			fprintf(f, "%.1f %.1f ", a->wide > 1 ? 1000 * (a->x[w] - x0) / span : 0,
				1000 - 1000 * (below[w] + a->mean[p][w]) / high);
		if (a->wide == 1)
			fprintf(f, "1000 %.1f ", 1000 - 1000 * (below[0] + a->mean[p][0]) / high);
		if (a->wide == 1)
			fprintf(f, "1000 %.1f ", 1000 - 1000 * below[0] / high);
		for (int w = a->wide - 1; w >= 0; w--)
			fprintf(f, "%.1f %.1f ", a->wide > 1 ? 1000 * (a->x[w] - x0) / span : 0,
				1000 - 1000 * below[w] / high);
		fputs("Z\"/>", f);
		for (int w = 0; w < a->wide; w++)
			below[w] += a->mean[p][w];
	}

	fputs("</svg></div>", f);
}

static void write_table(const struct areas *a, FILE *f)
{
	double sum = 0;
	char text[ZR_NUMBER_ROOM];

	for (int p = 0; p < ZR_PARTS; p++)
		sum += a->all[p];
	fputs("<div class=\"wide\"><table><thead><tr><th>part</th><th>mean of a step</th>"
	      "<th>share</th></tr></thead><tbody>",
	      f);
	for (int p = 0; p < ZR_PARTS; p++) {
		if (a->all[p] > 0)
			fprintf(f,
				"<tr><th scope=\"row\"><i class=\"p%d\"></i>%s</th><td>%s</td>"
				"<td>%.1f%%</td></tr>",
				p, zr_part_name[p], zr_number_seconds(a->all[p], text),
				100 * a->all[p] / sum);
	}

	fprintf(f, "</tbody><tfoot><tr><th scope=\"row\">all</th><td>%s</td><td></td></tr>",
		zr_number_seconds(sum, text));
	if (isfinite(a->idle))
		fprintf(f,
			"<tr><th scope=\"row\">of it without a kernel</th><td>%s</td>"
			"<td>%.1f%%</td></tr>",
			zr_number_seconds(a->idle, text), 100 * a->idle / sum);
	fputs("</tfoot></table></div>", f);
}

int zr_report_breakdown(struct zr_report *r)
{
	struct areas *a = malloc(sizeof *a);
	if (!a)
		return -1;

	zr_report_heading(r, "time", "Where the time went");
	fputs("<div class=\"grid2\">", r->page);
	for (int i = 0; i < r->n; i++) {
		measure(&r->run[i].metrics.rows, a);
		if (!a->parts) {
			zr_report_missing(r, &r->run[i],
					  "no breakdown was recorded: "
					  "[run] wall_clock_breakdown = yes does so");
			continue;
		}

		fputs("<figure class=\"card\"><figcaption>Time of a step by part <small>", r->page);
		zr_html_text(r->page, r->run[i].name);
		fputs(", rank 0</small></figcaption>", r->page);
		write_areas(a, r->page);
		write_table(a, r->page);
		fputs("</figure>\n", r->page);
	}

	fputs("</div>\n", r->page);
	free(a);
	return 0;
}
