/* SPDX-License-Identifier: Apache-2.0
 *
 * curves.c - the metrics over the steps: those that are known in their order, then all others.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/report/chart.h"
#include "cmd/report/report.h"

#define MANY 400 /* rows from which on a mean is drawn over the single steps */

struct known {
	const char *id, *title, *unit_text;
	enum zr_chart_unit unit;
	const char *metric[5]; /* the first as lines, the others dashed */
	int noisy;             /* a mean helps */
	const char *missing;   /* why there may be none; NULL: then nothing is said */
};

static const struct known known[] = {
	{ "loss",
	  "Loss and validation",
	  "nats per token",
	  ZR_CHART_NUMBER,
	  { "loss", "val_loss" },
	  1,
	  "no loss was recorded" },
	{ "lr",
	  "Learning rate",
	  "",
	  ZR_CHART_NUMBER,
	  { "lr" },
	  0,
	  "no learning rate was recorded" },
	{ "norm",
	  "Gradient norm",
	  "before clipping",
	  ZR_CHART_NUMBER,
	  { "grad_norm" },
	  1,
	  "no gradient norm was recorded" },
	{ "scale",
	  "Loss scale",
	  "ticks at the bottom: skipped steps",
	  ZR_CHART_NUMBER,
	  { "loss_scale" },
	  0,
	  "no loss scale was recorded: only fp16 has one" },
	{ "speed",
	  "Tokens per second",
	  "",
	  ZR_CHART_NUMBER,
	  { "tokens_per_s" },
	  1,
	  "no speed was recorded" },
	{ "step",
	  "Time of a step",
	  "",
	  ZR_CHART_SECONDS,
	  { "step_seconds" },
	  1,
	  "the time of each step was not recorded, as by older versions" },
	{ "limit",
	  "Share of the machine's limit",
	  "MFU by the nominal peak and by measured products; "
	  "forecast over measured step",
	  ZR_CHART_PERCENT,
	  { "mfu_product", "mfu", "possible" },
	  1,
	  "no share of the limit was recorded: it needs the rates that `zeroth bench` measures" },
	{ "held",
	  "Memory over time",
	  "of the process, and where measured of the tiers",
	  ZR_CHART_BYTES,
	  { "memory", "device_bytes", "host_bytes" },
	  0,
	  "no memory was recorded" },
	{ "bits",
	  "Validation in bits per byte",
	  "",
	  ZR_CHART_NUMBER,
	  { "val_bits_per_byte" },
	  0,
	  NULL },
	{ "perplexity",
	  "Perplexity of validation",
	  "",
	  ZR_CHART_NUMBER,
	  { "val_perplexity" },
	  0,
	  NULL },
};
#define KNOWN (int)(sizeof known / sizeof *known)

/* Metrics that another section has, or that are no curve of interest. */
static int shown_elsewhere(const char *name)
{
	static const char *const other[] = { "step",  "time",    "elapsed",     "tokens",
					     "epoch", "skipped", ZR_IDLE_METRIC };

	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		if (!strcmp(name, other[i]))
			return 1;
	for (int i = 0; i < KNOWN; i++)
		for (int k = 0; k < 5 && known[i].metric[k]; k++)
			if (!strcmp(name, known[i].metric[k]))
				return 1;
	for (int i = 0; i < ZR_PARTS; i++)
		if (!strcmp(name, zr_part_metric[i]))
			return 1;
	return 0;
}

/* eval.NAME.loss, of an [eval.NAME]. */
static int is_eval_loss(const char *name)
{
	size_t n = strlen(name);
	return !strncmp(name, "eval.", 5) && n > 10 && !strcmp(name + n - 5, ".loss");
}

/* Whether a run before this one has the metric, too. */
static int seen_before(const struct zr_report *r, int run, const char *name)
{
	for (int k = 0; k < run; k++)
		if (zr_rows_find(&r->run[k].metrics.rows, name))
			return 1;
	return 0;
}

/* Labels live as long as the chart; one run needs no name in front. */
static const char *label(const struct zr_report *r, int run, const char *metric, char (*room)[160],
			 int *used)
{
	if (r->n == 1 || *used >= ZR_CHART_CURVES)
		return metric;

	snprintf(room[*used], 160, "%s: %s", r->run[run].name, metric);
	return room[(*used)++];
}

/* at: its place among the metrics of the chart, which gives it a colour where there is one run. */
static void add_metric(const struct zr_report *r, struct zr_chart *c, const char *metric, int noisy,
		       int at, char (*room)[160], int *used)
{
	for (int i = 0; i < r->n; i++) {
		const struct zr_rows *rows = &r->run[i].metrics.rows;
		struct zr_curve v = { .run = i,
				      .colour = r->n == 1 ? at : i,
				      .x = rows->value[0],
				      .y = zr_rows_find(rows, metric),
				      .n = rows->n };
		const int mean = noisy && rows->n >= MANY;
		if (!v.y)
			continue;

		v.label = label(r, i, metric, room, used);
		v.kind = ZR_CURVE_LINE;
		if (at)
			v.kind = at > 1 ? ZR_CURVE_DOTTED : ZR_CURVE_DASHED;
		else if (mean)
			v.kind = ZR_CURVE_FAINT;
		zr_chart_add(c, v);
		v.kind = ZR_CURVE_MEAN;
		if (mean && !at)
			zr_chart_add(c, v);
	}
}

/* So many points of a curve that the page stays small. */
static int64_t points_for(const struct zr_report *r)
{
	int64_t most = 3000 / r->n;
	return most > 800 ? 800 : most;
}

static int write_known(struct zr_report *r, const struct known *k, char (*room)[160])
{
	struct zr_chart c = { .id = k->id,
			      .title = k->title,
			      .unit_text = k->unit_text,
			      .unit = k->unit,
			      .points = points_for(r) };
	int used = 0, evals = 1;

	for (int m = 0; m < 5 && k->metric[m]; m++)
		add_metric(r, &c, k->metric[m], k->noisy, m, room, &used);
	for (int i = 0; i < r->n && !strcmp(k->id, "loss"); i++)
		for (int col = 0; col < r->run[i].metrics.rows.columns; col++) {
			const char *name = r->run[i].metrics.rows.name[col];
			if (is_eval_loss(name) && !seen_before(r, i, name))
				add_metric(r, &c, name, 0, ++evals, room, &used);
		}
	if (!strcmp(k->id, "scale") && !zr_chart_has_points(&c))
		c.title = "Skipped steps"; /* of what has no scale */
	if (!strcmp(k->id, "scale"))
		for (int i = 0; i < r->n; i++) {
			const struct zr_rows *rows = &r->run[i].metrics.rows;
			struct zr_curve v = { label(r, i, "skipped", room, &used),
					      i,
					      i,
					      ZR_CURVE_MARKS,
					      rows->value[0],
					      zr_rows_find(rows, "skipped"),
					      rows->n };
			zr_chart_add(&c, v);
		}
	if (!zr_chart_has_points(&c)) {
		if (k->missing)
			fprintf(r->page, "<p class=\"card missing\"><b>%s</b>: %s.</p>\n", k->title,
				k->missing);
		return 0;
	}

	return zr_chart_write(&c, r->page, r->data, !r->charts++);
}

/* A metric that some plugin or a later version has. */
static int write_other(struct zr_report *r, const char *name, int n, char (*room)[160])
{
	char id[32];
	struct zr_chart c = { .id = id, .title = name, .unit_text = "", .points = points_for(r) };
	int used = 0;
	const size_t end = strlen(name);

	c.unit = end > 6 && !strcmp(name + end - 6, "_bytes") ? ZR_CHART_BYTES : ZR_CHART_NUMBER;
	snprintf(id, sizeof id, "other%d", n);
	add_metric(r, &c, name, 1, 0, room, &used);
	if (zr_chart_has_points(&c))
		return zr_chart_write(&c, r->page, r->data, !r->charts++);
	return 0;
}

int zr_report_curves(struct zr_report *r)
{
	char(*room)[160] = malloc(ZR_CHART_CURVES * sizeof *room);
	int rc = room ? 0 : -1, others = 0;
	zr_report_heading(r, "training", "Training");
	fputs("<div class=\"grid2\">", r->page);
	for (int i = 0; i < KNOWN && !rc; i++)
		rc = write_known(r, &known[i], room);
	for (int i = 0; i < r->n && !rc; i++)
		for (int c = 0; c < r->run[i].metrics.rows.columns && !rc && others < 24; c++) {
			const char *name = r->run[i].metrics.rows.name[c];
			if (!shown_elsewhere(name) && !is_eval_loss(name) &&
			    !seen_before(r, i, name))
				rc = write_other(r, name, others++, room);
		}
	fputs("</div>\n", r->page);
	free(room);
	return rc;
}
