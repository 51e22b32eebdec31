/* SPDX-License-Identifier: Apache-2.0
 *
 * chart.c - see chart.h. The SVG is 1000 by 1000 units, stretched over its place; strokes keep
 * their width.
 */
#include "cmd/report/chart.h"

#include <math.h>
#include <stdlib.h>

#include "cmd/report/decimate.h"
#include "cmd/report/html.h"

struct range {
	double x0, x1, y0, y1;
	int log;
};

/* The points of a curve that are drawn. */
struct points {
	double *x, *y;
	int64_t n;
};

void zr_chart_add(struct zr_chart *c, struct zr_curve v)
{
	if (v.y && v.n && c->n < ZR_CHART_CURVES)
		c->curve[c->n++] = v;
}

int zr_chart_has_points(const struct zr_chart *c)
{
	for (int i = 0; i < c->n; i++)
		for (int64_t k = 0; k < c->curve[i].n; k++)
			if (c->curve[i].kind == ZR_CURVE_MARKS ? c->curve[i].y[k] > 0 :
								 isfinite(c->curve[i].y[k]))
				return 1;
	return 0;
}

static int choose_points(const struct zr_curve *c, int64_t most, struct points *p)
{
	const int mean = c->kind == ZR_CURVE_MEAN ||
			 (c->kind >= ZR_CURVE_DASHED && c->kind <= ZR_CURVE_DOTTED &&
			  zr_finite_points(c->y, c->n) > most / 2);
	const int64_t parts = mean ? most / 4 : most / 2;
	int64_t *at = malloc((size_t)(2 * parts + 2) * sizeof *at);

	p->x = malloc((size_t)(2 * parts + 2) * sizeof *p->x);
	p->y = malloc((size_t)(2 * parts + 2) * sizeof *p->y);
	if (!at || !p->x || !p->y) {
		free(at);
		return -1;
	}

	if (mean) {
		p->n = zr_part_means(c->x, c->y, c->n, parts, p->x, p->y);
	} else {
		p->n = zr_decimate(c->y, c->n, parts, at);
		for (int64_t i = 0; i < p->n; i++) {
			p->x[i] = c->x[at[i]];
			p->y[i] = c->y[at[i]];
		}
	}

	free(at);
	return 0;
}

static void find_range(const struct zr_chart *c, const struct points *p, struct range *r)
{
	int positive = 1;

	*r = (struct range){ INFINITY, -INFINITY, INFINITY, -INFINITY, 0 };
	for (int i = 0; i < c->n; i++)
		for (int64_t k = 0; k < p[i].n; k++) {
			r->x0 = fmin(r->x0, p[i].x[k]);
			r->x1 = fmax(r->x1, p[i].x[k]);
			if (c->curve[i].kind == ZR_CURVE_MARKS)
				continue;

			r->y0 = fmin(r->y0, p[i].y[k]);
			r->y1 = fmax(r->y1, p[i].y[k]);
			positive &= p[i].y[k] > 0;
		}
	r->log = positive && r->y1 > 200 * r->y0 && c->unit == ZR_CHART_NUMBER;
	if (!(r->y1 >= r->y0))
		r->y0 = 0, r->y1 = 1;
	if (r->x1 <= r->x0)
		r->x0 -= 1, r->x1 += 1;
	if (r->log) {
		r->y0 /= 1.2;
		r->y1 *= 1.2;
	} else {
		double pad = r->y1 > r->y0 ? 0.04 * (r->y1 - r->y0) : fabs(r->y1) * 0.1 + 1e-12;
		/* a change of a few pages is drawn flat: the ticks' texts could not show it */
		if (c->unit == ZR_CHART_BYTES)
			pad = fmax(pad, 0.05 * r->y1);
		/* what is near 0 starts there */
		int from_zero = r->y0 >= 0 && r->y0 < 0.3 * r->y1;
		r->y0 = from_zero ? 0 : r->y0 - pad;
		r->y1 += pad;
	}
}

static double place_x(const struct range *r, double v)
{
	return 1000 * (v - r->x0) / (r->x1 - r->x0);
}

static double place_y(const struct range *r, double v)
{
	if (r->log)
		return 1000 - 1000 * log(v / r->y0) / log(r->y1 / r->y0);
	return 1000 - 1000 * (v - r->y0) / (r->y1 - r->y0);
}

static const char *kind_name(enum zr_curve_kind kind)
{
	static const char *const name[] = { "line", "faint", "mean", "dashed", "dotted", "marks" };
	return name[kind];
}

static void write_path(const struct zr_curve *c, const struct points *p, const struct range *r,
		       FILE *f)
{
	const int alone = p->n == 1 && c->kind != ZR_CURVE_MARKS;

	fprintf(f, "<path class=\"%s%s r%d\" data-run=\"%d\" d=\"", kind_name(c->kind),
		alone ? " alone" : "", c->colour % 8, c->run);
	for (int64_t i = 0; i < p->n; i++) {
		const double x = place_x(r, p->x[i]);
		if (c->kind != ZR_CURVE_MARKS)
			fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x, place_y(r, p->y[i]));
		else if (p->y[i] > 0)
			fprintf(f, "M%.1f 1000V940", x);
	}

	if (alone)
		fputs("h0", f); /* a dot */
	fputs("\"/>", f);
}

static void write_axes(const struct zr_chart *c, const struct range *r, FILE *f)
{
	double tick[8];
	char text[48];
	int n = zr_ticks(r->y0, r->y1, c->unit, r->log, tick);

	fputs("<div class=\"ys\" aria-hidden=\"true\">", f);
	for (int i = 0; i < n; i++)
		fprintf(f, "<span style=\"top:%.2f%%\">%s</span>", place_y(r, tick[i]) / 10,
			zr_tick_text(tick[i], c->unit, text));
	fputs("</div><div class=\"xs\" aria-hidden=\"true\">", f);
	n = zr_ticks(r->x0, r->x1, ZR_CHART_NUMBER, 0, tick);
	for (int i = 0; i < n; i++)
		fprintf(f, "<span style=\"left:%.2f%%\">%s</span>", place_x(r, tick[i]) / 10,
			zr_tick_text(tick[i], ZR_CHART_NUMBER, text));
	fputs("</div>", f);
}

/* One sentence of what the picture shows, for those who do not see it. */
static void write_description(const struct zr_chart *c, FILE *f)
{
	char a[ZR_NUMBER_ROOM], b[ZR_NUMBER_ROOM];

	fprintf(f, "<title id=\"%s-t\">", c->id);
	zr_html_text(f, c->title);
	fprintf(f, "</title><desc id=\"%s-d\">", c->id);
	for (int i = 0; i < c->n; i++) {
		const struct zr_curve *v = &c->curve[i];
		int64_t first = 0, last = v->n - 1;
		if (v->kind == ZR_CURVE_MEAN || v->kind == ZR_CURVE_MARKS)
			continue;

		while (first < last && !isfinite(v->y[first]))
			first++;
		while (last > first && !isfinite(v->y[last]))
			last--;
		zr_html_text(f, v->label);
		fprintf(f, ": %s at step %.0f, ", zr_number(v->y[first], a), v->x[first]);
		fprintf(f, "%s at step %.0f. ", zr_number(v->y[last], b), v->x[last]);
	}

	fputs("</desc>", f);
}

static void write_data(const struct zr_chart *c, const struct points *p, const struct range *r,
		       FILE *f, int first)
{
	fprintf(f, "%s\n\"%s\":{\"log\":%d,\"unit\":%d,\"range\":[", first ? "" : ",", c->id,
		r->log, c->unit);
	zr_html_number(f, r->x0);
	putc(',', f);
	zr_html_number(f, r->x1);
	fputs("],\"curves\":[", f);
	for (int i = 0; i < c->n; i++) {
		fprintf(f, "%s{\"run\":%d,\"colour\":%d,\"kind\":\"%s\",\"label\":", i ? "," : "",
			c->curve[i].run, c->curve[i].colour % 8, kind_name(c->curve[i].kind));
		zr_html_json(f, c->curve[i].label);
		fputs(",\"x\":[", f);
		for (int64_t k = 0; k < p[i].n; k++)
			fprintf(f, "%s%.12g", k ? "," : "", p[i].x[k]);
		fputs("],\"y\":[", f);
		for (int64_t k = 0; k < p[i].n; k++) {
			if (k)
				putc(',', f);
			zr_html_number(f, p[i].y[k]);
		}

		fputs("]}", f);
	}

	fputs("]}", f);
}

static void write_grid(const struct zr_chart *c, const struct range *r, FILE *f)
{
	double tick[8];
	int n = zr_ticks(r->y0, r->y1, c->unit, r->log, tick);

	fputs("<path class=\"grid\" d=\"", f);
	for (int i = 0; i < n; i++)
		fprintf(f, "M0 %.1fH1000", place_y(r, tick[i]));
	fputs("\"/>", f);
}

static void write_figure(const struct zr_chart *c, const struct points *p, const struct range *r,
			 FILE *f)
{
	fprintf(f, "<figure class=\"card chart\" id=\"%s\"><figcaption>", c->id);
	zr_html_text(f, c->title);
	fputs(" <small>", f);
	zr_html_text(f, c->unit_text);
	fputs(r->log && *c->unit_text ? ", " : "", f);
	fputs(r->log ? "logarithmic</small>" : "</small>", f);
	fputs("<button type=\"button\" class=\"reset\" hidden>show all</button></figcaption>"
	      "<ul class=\"legend\">",
	      f);
	for (int i = 0; i < c->n; i++) {
		if (c->curve[i].kind == ZR_CURVE_FAINT)
			continue;

		fprintf(f, "<li data-run=\"%d\"><i class=\"%s b%d\"></i>", c->curve[i].run,
			kind_name(c->curve[i].kind), c->curve[i].colour % 8);
		zr_html_text(f, c->curve[i].label);
		fputs("</li>", f);
	}

	fputs("</ul><div class=\"plot\">", f);
	write_axes(c, r, f);
	fprintf(f,
		"<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" "
		"aria-labelledby=\"%s-t %s-d\">",
		c->id, c->id);
	write_description(c, f);
	write_grid(c, r, f);
	for (int i = 0; i < c->n; i++)
		write_path(&c->curve[i], &p[i], r, f);
	fputs("</svg><div class=\"tip\" hidden></div></div></figure>\n", f);
}

int zr_chart_write(const struct zr_chart *c, FILE *page, FILE *data, int first)
{
	struct points p[ZR_CHART_CURVES] = { { 0 } };
	struct range r;
	int rc = 0;

	for (int i = 0; i < c->n && !rc; i++)
		rc = choose_points(&c->curve[i], c->points, &p[i]);
	if (!rc) {
		find_range(c, p, &r);
		write_figure(c, p, &r, page);
		write_data(c, p, &r, data, first);
	}

	for (int i = 0; i < c->n; i++) {
		free(p[i].x);
		free(p[i].y);
	}

	return rc;
}
