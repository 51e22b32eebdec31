/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.c - what of the page is text: an overview, the numbers behind the curves, configurations
 * and where they differ, the machine, samples.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/html.h"
#include "cmd/report/report.h"

static double best_of(const struct zr_rows *rows, const char *name, int64_t *at)
{
	const double *y = zr_rows_find(rows, name);
	double best = NAN;

	for (int64_t i = 0; y && i < rows->n; i++)
		if (isfinite(y[i]) && !(y[i] >= best)) {
			best = y[i];
			*at = i;
		}
	return best;
}

/* ---- overview ---- */

static void fact(FILE *f, const char *name, const char *value)
{
	if (!strcmp(value, "-"))
		return;

	fprintf(f, "<div><dt>%s</dt><dd>%s</dd></div>", name, value);
}

/* Of the summary, unless the run went on since: then, or without one, what the rows have. */
static double counted(const struct zr_run_files *run, const char *key, double rows)
{
	double v = zr_run_ended(run) ? zr_run_summary(run, key) : NAN;
	return isfinite(v) ? v : rows;
}

static double steps_skipped(const struct zr_rows *rows)
{
	const double *y = zr_rows_find(rows, "skipped");
	double sum = y ? 0 : NAN;
	for (int64_t i = 0; y && i < rows->n; i++)
		sum += y[i] == 1;
	return sum;
}

static void write_facts(const struct zr_run_files *run, FILE *f)
{
	const struct zr_rows *rows = &run->metrics.rows;
	char a[ZR_NUMBER_ROOM], text[160];
	const char *planned = zr_run_find_value(run, "train", "steps");
	int64_t at = 0;
	double best = best_of(rows, "val_loss", &at),
	       step = rows->n ? rows->value[0][rows->n - 1] : zr_run_summary(run, "steps");

	if (planned && strtod(planned, NULL) > 0) {
		char b[ZR_NUMBER_ROOM];
		snprintf(text, sizeof text, "%s of %s", zr_number(isnan(step) ? 0 : step, a),
			 zr_number(strtod(planned, NULL), b));
		fact(f, "steps", text);
	} else {
		fact(f, "steps", zr_number(step, a));
	}
	fact(f, "last loss", zr_number(zr_rows_last(rows, "loss"), a));
	if (!isnan(best)) {
		snprintf(text, sizeof text, "%s <small>at step %.0f</small>", zr_number(best, a),
			 rows->value[0][at]);
		fact(f, "best validation loss", text);
	}

	fact(f, "tokens", zr_number(counted(run, "total_tokens", zr_rows_last(rows, "tokens")), a));
	fact(f, "tokens per second",
	     zr_number(counted(run, "tokens_per_s", zr_rows_rate(rows, "tokens_per_s", rows->n)),
		       a));
	double time = zr_rows_last(rows, "elapsed");
	fact(f, "time", zr_number_seconds(isnan(time) ? zr_run_summary(run, "seconds") : time, a));
	double possible = zr_rows_rate(rows, "possible", rows->n);
	if (isfinite(possible)) {
		snprintf(text, sizeof text, "%.0f%%", 100 * possible);
		fact(f, "of what is possible", text);
	}

	fact(f, "skipped steps", zr_number(counted(run, "skipped", steps_skipped(rows)), a));
}

void zr_report_overview(struct zr_report *r)
{
	char state[600];

	fputs("<div class=\"grid2\">", r->page);
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		fprintf(r->page,
			"<section class=\"card run\" data-run=\"%d\"><h3><i class=\"b%d\"></i>", i,
			i % 8);
		zr_html_text(r->page, run->name);
		fputs("</h3><p class=\"state\">", r->page);
		zr_run_state(run, state, sizeof state);
		zr_html_text(r->page, state);
		fputs("</p><dl>", r->page);
		write_facts(run, r->page);
		fputs("</dl>", r->page);
		if (run->metrics.rows.bad)
			fprintf(r->page,
				"<p class=\"note\">Lines of the metrics that are no row of "
				"numbers: %lld.</p>",
				(long long)run->metrics.rows.bad);
		if (run->metrics.torn)
			fputs("<p class=\"note\">The last line of the metrics has no end and was "
			      "left "
			      "out.</p>",
			      r->page);
		if (*run->problem) {
			fputs("<p class=\"note\">Not readable: ", r->page);
			zr_html_text(r->page, run->problem);
			fputs("</p>", r->page);
		}

		fputs("</section>\n", r->page);
	}

	fputs("</div>\n", r->page);
	for (int i = 0; i < r->n; i++)
		if (!r->run[i].has_metrics)
			zr_report_missing(r, &r->run[i],
					  "neither metrics.jsonl nor metrics.csv: there "
					  "are no curves of it");
}

/* ---- numbers ---- */

/* Of rates of steps the mean is that of all steps together, as in the overview. */
static int is_rate(const char *name)
{
	return !strcmp(name, "tokens_per_s") || !strcmp(name, "possible") ||
	       !strncmp(name, "mfu", 3);
}

static void write_row(const struct zr_rows *rows, int c, FILE *f)
{
	const double *y = rows->value[c];
	double first = NAN, last = NAN, low = NAN, high = NAN, sum = 0;
	int64_t n = 0;
	char t[5][ZR_NUMBER_ROOM];

	for (int64_t i = 0; i < rows->n; i++) {
		last = isnan(y[i]) ? last : y[i];
		if (!isfinite(y[i]))
			continue;

		first = n ? first : y[i];
		low = fmin(low, y[i]);
		high = fmax(high, y[i]);
		sum += y[i];
		n++;
	}

	double mean = n ? sum / (double)n : NAN;
	if (is_rate(rows->name[c]))
		mean = zr_rows_rate(rows, rows->name[c], rows->n);
	fputs("<tr><th scope=\"row\">", f);
	zr_html_text(f, rows->name[c]);
	fprintf(f, "</th><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%lld</td></tr>",
		zr_number(first, t[0]), zr_number(last, t[1]), zr_number(low, t[2]),
		zr_number(high, t[3]), zr_number(mean, t[4]), (long long)n);
}

void zr_report_numbers(struct zr_report *r)
{
	zr_report_heading(r, "numbers", "Numbers");
	for (int i = 0; i < r->n; i++) {
		const struct zr_rows *rows = &r->run[i].metrics.rows;
		if (!rows->n)
			continue;

		fprintf(r->page, "<details class=\"card\"%s><summary>", r->n == 1 ? " open" : "");
		zr_html_text(r->page, r->run[i].name);
		fputs("</summary><div "
		      "class=\"wide\"><table><thead><tr><th>metric</th><th>first</th>"
		      "<th>last</th><th>least</th><th>greatest</th><th>mean</th><th>steps</th></tr>"
		      "</thead><tbody>",
		      r->page);
		for (int c = 1; c < rows->columns; c++)
			write_row(rows, c, r->page);
		fputs("</tbody></table></div></details>\n", r->page);
	}
}

/* ---- configuration ---- */

static int differs(const struct zr_report *r, const char *section, const char *key)
{
	const char *a = zr_run_find_value(&r->run[0], section, key);

	for (int i = 1; i < r->n; i++) {
		const char *b = zr_run_find_value(&r->run[i], section, key);
		if ((!a) != (!b) || (a && strcmp(a, b)))
			return 1;
	}

	return 0;
}

static int write_difference(struct zr_report *r, const struct zr_run_value *v, int n)
{
	if (!n) {
		fputs("<div class=\"card wide\"><table class=\"text\"><thead><tr><th>option</th>",
		      r->page);
		for (int i = 0; i < r->n; i++) {
			fputs("<th>", r->page);
			zr_html_text(r->page, r->run[i].name);
			fputs("</th>", r->page);
		}

		fputs("</tr></thead><tbody>", r->page);
	}

	fputs("<tr><th scope=\"row\">", r->page);
	zr_html_text(r->page, v->section);
	putc('.', r->page);
	zr_html_text(r->page, v->key);
	fputs("</th>", r->page);
	for (int i = 0; i < r->n; i++) {
		const char *value = zr_run_find_value(&r->run[i], v->section, v->key);
		fputs("<td>", r->page);
		zr_html_text(r->page, value ? value : "-");
		fputs("</td>", r->page);
	}

	fputs("</tr>", r->page);
	return n + 1;
}

static void write_differences(struct zr_report *r)
{
	int n = 0;

	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < r->run[i].n_values; k++) {
			const struct zr_run_value *v = &r->run[i].value[k];
			int before = !strcmp(v->section, "run") && !strcmp(v->key, "dir");
			for (int j = 0; j < i && !before; j++)
				before = zr_run_find_value(&r->run[j], v->section, v->key) != NULL;
			if (!before && differs(r, v->section, v->key))
				n = write_difference(r, v, n);
		}
	fputs(n ? "</tbody></table></div>\n" :
		  "<p class=\"card\">All options but the directory are the same.</p>\n",
	      r->page);
}

void zr_report_config(struct zr_report *r)
{
	zr_report_heading(r, "config",
			  r->n > 1 ? "Configurations and where they differ" : "Configuration");
	if (r->n > 1)
		write_differences(r);
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		const char *section = "";
		if (!run->n_values) {
			zr_report_missing(r, run, "no config.ini");
			continue;
		}

		fputs("<details class=\"card\"><summary>config.ini of ", r->page);
		zr_html_text(r->page, run->name);
		fputs("</summary><pre>", r->page);
		for (int k = 0; k < run->n_values; k++) {
			const struct zr_run_value *v = &run->value[k];
			if (strcmp(section, v->section)) {
				section = v->section;
				fputs(k ? "\n[" : "[", r->page);
				zr_html_text(r->page, section);
				fputs("]\n", r->page);
			}

			zr_html_text(r->page, v->key);
			fputs(" = ", r->page);
			zr_html_text(r->page, v->text);
			putc('\n', r->page);
		}

		fputs("</pre></details>\n", r->page);
	}
}

/* ---- machine, samples ---- */

void zr_report_machine(struct zr_report *r)
{
	char a[ZR_NUMBER_ROOM], b[ZR_NUMBER_ROOM], c[ZR_NUMBER_ROOM];

	zr_report_heading(r, "machine", "Machine");
	fputs("<div class=\"card wide\"><table "
	      "class=\"text\"><thead><tr><th>run</th><th>processor</th><th>number</th><th>device</"
	      "th>"
	      "<th>instructions</th><th>ranks</th><th>memory available</th><th>memory "
	      "needed</th></tr>"
	      "</thead><tbody>",
	      r->page);
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		const json_t *of = zr_run_ended(run) ? run->summary : NULL;
		const char *device = json_string_value(json_object_get(of, "device"));
		const char *variant = json_string_value(json_object_get(of, "device_variant"));
		const char *experts = json_string_value(json_object_get(of, "experts_variant"));
		const char *cpu = json_string_value(json_object_get(of, "processor"));
		const char *configured = zr_run_find_value(run, "device", "plugin");
		json_t *have = json_object_get(run->plan, "available");
		json_t *need = json_object_get(run->plan, "needed");
		fputs("<tr><th scope=\"row\">", r->page);
		zr_html_text(r->page, run->name);
		fputs("</th><td>", r->page);
		zr_html_text(r->page, cpu ? cpu : "-");
		fprintf(r->page, "</td><td>%s</td><td>",
			zr_number(of ? zr_run_summary(run, "processors") : NAN, a));
		if (!device)
			device = configured ? configured : "-";
		zr_html_text(r->page, device);
		fputs("</td><td>", r->page);
		zr_html_text(r->page, variant ? variant : "-");
		if (experts) {
			fputs("; experts on the host: ", r->page);
			zr_html_text(r->page, experts);
		}
		fprintf(r->page, "</td><td>%s</td><td>%s</td><td>%s</td></tr>",
			zr_number(of ? zr_run_summary(run, "world") : NAN, a),
			have ? zr_number_bytes(json_number_value(have), b) : "-",
			need ? zr_number_bytes(json_number_value(need), c) : "-");
	}

	fputs("</tbody></table></div>\n", r->page);
	for (int i = 0; i < r->n; i++)
		if (!zr_run_ended(&r->run[i]))
			zr_report_missing(r, &r->run[i],
					  "device and ranks stand in summary.json, which is "
					  "written "
					  "when the run ends");
}

/* Each text below the line "--- how it was drawn". */
static void write_samples(const char *text, FILE *f)
{
	int open = 0;

	for (size_t n; *text; text += n) {
		n = strcspn(text, "\n");
		n += text[n] == '\n';
		const int head = !strncmp(text, "--- ", 4);
		char *line = strndup(head ? text + 4 : text, head ? n - 4 : n);
		if (head || !open)
			fputs(open ? "</pre>" : "", f);
		if (head)
			fputs("<h4>", f);
		else if (!open)
			fputs("<pre class=\"sample\">", f);
		zr_html_text(f, line ? line : "(out of memory)");
		fputs(head ? "</h4><pre class=\"sample\">" : "", f);
		free(line);
		open = 1;
	}

	fputs(open ? "</pre>" : "", f);
}

void zr_report_samples(struct zr_report *r)
{
	zr_report_heading(r, "samples", "Samples");
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		if (!run->samples) {
			zr_report_missing(
				r, run,
				"no sample was kept (zeroth sample --keep adds to samples.txt)");
			continue;
		}

		fputs("<details class=\"card\" open><summary>", r->page);
		zr_html_text(r->page, run->name);
		fputs(run->samples_cut ? " (the end of samples.txt)" : "", r->page);
		fputs("</summary>", r->page);
		write_samples(run->samples, r->page);
		fputs("</details>\n", r->page);
	}
}
