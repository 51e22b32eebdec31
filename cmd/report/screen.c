/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.c - see screen.h.
 */
#include "cmd/report/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/report/html.h"

#define RECENT        20 /* steps whose mean time is that of a step */
#define STALL_SECONDS 10 /* a run is not said to stall before */

int zr_screen_read(struct zr_run_files *run, struct zr_error *err)
{
	if (!run->has_metrics)
		run->has_metrics = zr_rows_open(&run->metrics, run->dir);
	int rc = 0;
	if (run->has_metrics)
		rc = zr_rows_read(&run->metrics, err);
	zr_run_reread(run);
	return rc < 0 ? rc : 0;
}

/* Text of a file, cut to the columns, without what a terminal would obey. */
static void put_text(const struct zr_screen *s, const char *text, int used, FILE *f)
{
	for (; *text && used < s->columns; text++)
		if ((*text & 0xc0) != 0x80 || s->with == ZR_PLOT_ASCII) {
			int plain = *text >= ' ' && *text < 0x7f;
			putc(plain ? *text : '?', f);
			used++;
		}
}

/* The mean of the last values; NaN: there are none. */
static double recent(const struct zr_rows *rows, const char *name)
{
	const double *y = zr_rows_find(rows, name);
	double sum = 0;
	int n = 0;

	for (int64_t i = rows->n; y && i-- > 0 && n < RECENT;)
		if (isfinite(y[i])) {
			sum += y[i];
			n++;
		}
	return n ? sum / n : NAN;
}

/* Seconds from step to step, with what comes between, as evaluations; NaN: not known. */
static double pace(const struct zr_rows *rows)
{
	const double *at = zr_rows_find(rows, "elapsed"), *step = rows->value[0];
	const int64_t last = rows->n - 1;
	if (at && last > 0)
		return (at[last] - at[0]) / (step[last] - step[0]);
	return recent(rows, "step_seconds");
}

/* How the run stands. */
static void state_text(const struct zr_run_files *run, char *text, size_t size)
{
	char number[ZR_NUMBER_ROOM];
	double step = zr_run_last_step(run);
	double each = recent(&run->metrics.rows, "step_seconds");

	if (zr_run_ended(run)) {
		zr_run_state(run, text, size);
		return;
	}

	double silent = (double)time(NULL) - step;
	if (isnan(step))
		snprintf(text, size, "no step yet");
	else if (silent > fmax(STALL_SECONDS, 5 * (isnan(each) ? 0 : each)))
		snprintf(text, size, "no step for %s", zr_number_seconds(floor(silent), number));
	else
		snprintf(text, size, "training");
}

/* Adds "name value" where there is a value and room on the line. */
static void add_field(const struct zr_screen *s, char *line, size_t size, const char *name,
		      const char *value)
{
	size_t used = strlen(line), n = strlen(name) + strlen(value) + (used ? 3 : 1);
	if (strcmp(value, "-") && used + n <= (size_t)s->columns && used + n < size)
		snprintf(line + used, size - used, "%s%s %s", used ? "  " : "", name, value);
}

static void write_numbers(const struct zr_screen *s, const struct zr_run_files *run, FILE *f)
{
	const struct zr_rows *rows = &run->metrics.rows;
	const char *planned = zr_run_find_value(run, "train", "steps");
	const double all = planned ? strtod(planned, NULL) : 0;
	const double step = rows->n ? rows->value[0][rows->n - 1] : 0;
	char line[512] = "", text[64], n[ZR_NUMBER_ROOM];

	snprintf(text, sizeof text, "%s", zr_number(step, n));
	if (all > 0)
		snprintf(text + strlen(text), sizeof text - strlen(text), " of %s (%.0f%%)",
			 zr_number(all, n), 100 * step / all);
	add_field(s, line, sizeof line, "step", text);
	add_field(s, line, sizeof line, "loss", zr_number(zr_rows_last(rows, "loss"), n));
	add_field(s, line, sizeof line, "val", zr_number(zr_rows_last(rows, "val_loss"), n));
	add_field(s, line, sizeof line, "tokens/s",
		  zr_number(zr_rows_rate(rows, "tokens_per_s", RECENT), n));
	if (all > step && !zr_run_ended(run))
		add_field(s, line, sizeof line, "left",
			  zr_number_seconds(pace(rows) * (all - step), n));
	add_field(s, line, sizeof line, "time",
		  zr_number_seconds(zr_rows_last(rows, "elapsed"), n));
	double possible = zr_rows_rate(rows, "possible", RECENT);
	snprintf(text, sizeof text, "%.0f%%", 100 * possible);
	add_field(s, line, sizeof line, "of possible", isnan(possible) ? "-" : text);
	add_field(s, line, sizeof line, "memory", zr_number_bytes(zr_rows_last(rows, "memory"), n));
	fprintf(f, "%s%s", line, s->end);
}

struct picture {
	const char *metric, *title;
};

/* Pictures beside each other, then below. Returns -1 without memory. */
static int write_pictures(const struct zr_screen *s, const struct zr_run_files *run, int rows,
			  FILE *f)
{
	static const struct picture picture[] = { { "loss", "loss" },
						  { "tokens_per_s", "tokens/s" },
						  { "val_loss", "validation loss" },
						  { "grad_norm", "gradient norm" },
						  { "lr", "learning rate" },
						  { "memory", "memory, bytes" } };
	const int beside = s->columns >= 90 ? 2 : 1;

	int below = rows / (s->columns >= 90 ? 9 : 8), high;
	if (below < 1)
		below = 1;
	if (below * beside > 6)
		below = 6 / beside;
	high = rows / below - 2;
	if (high < 1)
		return 0;

	for (int b = 0, at = 0; b < below && at < 6; b++) {
		char **plot[2] = { NULL, NULL };
		int rc = 0, n = 0;
		for (; at < 6 && n < beside; at++) {
			const double *y = zr_rows_find(&run->metrics.rows, picture[at].metric);
			if (!y && at > 1)
				continue;

			plot[n] = zr_plot(picture[at].title, run->metrics.rows.value[0], y,
					  y ? run->metrics.rows.n : 0, high,
					  (s->columns - 2 * (beside - 1)) / beside, s->with);
			rc |= !plot[n++];
		}

		for (int i = 0; !rc && n && i < high + 2; i++)
			fprintf(f, "%s%s%s%s", plot[0][i], n > 1 ? "  " : "",
				n > 1 ? plot[1][i] : "", s->end);
		zr_plot_free(plot[0], high);
		zr_plot_free(plot[1], high);
		if (rc)
			return -1;
	}

	return 0;
}

int zr_screen_write(const struct zr_screen *s, const struct zr_run_files *run, FILE *f)
{
	char state[600];

	state_text(run, state, sizeof state);
	fputs(s->marks ? "\033[1m" : "", f);
	put_text(s, run->name, 0, f);
	fputs(s->marks ? "\033[0m" : "", f);
	const int used = (int)strlen(run->name) + 2;
	if (used < s->columns)
		fputs("  ", f);
	put_text(s, state, used, f);
	fputs(s->end, f);
	write_numbers(s, run, f);
	return write_pictures(s, run, s->rows - 3, f);
}
