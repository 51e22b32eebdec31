/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - zeroth report RUN...: one HTML page of what the run directories have.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/report/report.h"
#include "train/rundir.h"

#define UNASKED         2    /* conversations that each run answers unasked */
#define UNASKED_SECONDS 60.0 /* after which no checkpoint answers unasked, of all runs */

struct report_args {
	const char *output; /* NULL: not given */
	int samples;        /* -1: not given */
};

static const struct zr_cmd_option options[] = {
	{ 'o', "output", "FILE", "default: report.html in the first run directory",
	  .kind = ZR_CMD_TEXT, .at = offsetof(struct report_args, output) },
	{ 0, "samples", "N",
	  "conversations of its data that the checkpoints of a run answer; 0: none; default: 2, "
	  "where that is quick",
	  .kind = ZR_CMD_INT, .at = offsetof(struct report_args, samples), .most = 64,
	  .counts = "a number of conversations" },
	{ 0 },
};

const struct zr_cmd_usage zr_report_usage = {
	.command = "report",
	.form = { { NULL, "RUN...", NULL } },
	.about = "Writes one HTML page of a run, or of up to 16 runs against each other: curves, "
		 "where time\n"
		 "and memory went, what its model answered over time, configurations and where "
		 "they differ.\n"
		 "It needs no network and no other file. A run that goes on is shown as far as it "
		 "is.\n",
	.option = options,
};

/* Where two directories have one name, the whole paths tell them apart. */
static void tell_apart(struct zr_report *r)
{
	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < i; k++)
			if (!strcmp(r->run[i].name, r->run[k].name)) {
				snprintf(r->run[i].name, sizeof r->run[i].name, "%s",
					 r->run[i].dir);
				snprintf(r->run[k].name, sizeof r->run[k].name, "%s",
					 r->run[k].dir);
			}
}

static int read_runs(struct zr_report *r, char **dir, int n, struct zr_error *err)
{
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		rc = zr_run_files_open(&r->run[i], dir[i], err);
		r->n += !rc;
		if (!rc && r->run[i].has_metrics && zr_rows_read(&r->run[i].metrics, err) < 0)
			rc = err->code;
	}

	tell_apart(r);
	return rc;
}

static int make_answers(struct zr_report *r, int samples, struct zr_error *err)
{
	const struct zr_answers_how how = { .conversations = samples < 0 ? UNASKED : samples,
					    .unasked = samples < 0,
					    .seconds = samples < 0 ? UNASKED_SECONDS : INFINITY };
	const char *dir[ZR_REPORT_RUNS];

	if (!samples)
		return 0;

	r->answers = calloc((size_t)r->n, sizeof *r->answers);
	if (!r->answers)
		return zr_no_memory(err);

	for (int i = 0; i < r->n; i++)
		dir[i] = r->run[i].dir;
	zr_answers_make(dir, r->n, &how, r->answers);
	return 0;
}

static void close_report(struct zr_report *r)
{
	for (int i = 0; r && i < r->n; i++) {
		if (r->answers)
			zr_answers_free(&r->answers[i]);
		zr_run_files_close(&r->run[i]);
	}

	if (r)
		free(r->answers);
	free(r);
}

int zr_cmd_report(int argc, char **argv)
{
	struct zr_report *r;
	struct zr_error err = { 0 };
	struct report_args a = { .samples = -1 };
	struct zr_cmd_operands dirs;
	char path[PATH_MAX], *text = NULL;

	int rc = zr_cmd_parse(argc, argv, &zr_report_usage, NULL, &a, &dirs);
	if (rc >= 0)
		return rc;
	if (dirs.n > ZR_REPORT_RUNS)
		return zr_cmd_refuse(&zr_report_usage, "%d runs: at most %d at once", dirs.n,
				     ZR_REPORT_RUNS);

	r = calloc(1, sizeof *r);
	if (r)
		rc = read_runs(r, dirs.at, dirs.n, &err);
	else
		rc = zr_no_memory(&err);
	if (!rc)
		rc = make_answers(r, a.samples, &err);
	if (!rc)
		rc = zr_report_page(r, &text, &err);
	if (!rc && !a.output &&
	    snprintf(path, sizeof path, "%s/report.html", dirs.at[0]) >= (int)sizeof path)
		rc = zr_err(&err, ZR_EINVAL, "%s: too long a path", dirs.at[0]);
	if (!rc)
		rc = zr_put_text(a.output ? a.output : path, text, &err);
	if (!rc)
		printf("%s\n", a.output ? a.output : path);
	close_report(r);
	free(text);
	return rc ? zr_cmd_failed(&err) : 0;
}
