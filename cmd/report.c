/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - zeroth report RUN...: one HTML page of what the run directories have.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/report/report.h"
#include "train/rundir.h"

static const char usage[] =
	"usage: zeroth report [-o FILE] RUN...\n"
	"\n"
	"Writes one HTML page of a run, or of up to 16 runs against each other: curves, where "
	"time\n"
	"and memory went, configurations and where they differ. It needs no network and no other\n"
	"file. A run that goes on is shown as far as it is.\n"
	"\n"
	"  -o, --output FILE  default: report.html in the first run directory\n"
	"  -h, --help         shows this\n";

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, const char **output)
{
	static const struct option longs[] = { { "output", 1, NULL, 'o' },
					       { "help", 0, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int c;
	optind = 1;
	while ((c = getopt_long(argc, argv, "o:h", longs, NULL)) != -1) {
		if (c == 'o' && *optarg) {
			*output = optarg;
			continue;
		}
		return c == 'h' ? fputs(usage, stdout) < 0 : zr_cmd_synopsis(usage);
	}

	const int n = argc - optind;
	if (n > 0 && n <= ZR_REPORT_RUNS)
		return -1;
	if (!n) {
		fputs("zeroth report: RUN is missing\n", stderr);
		return zr_cmd_synopsis(usage);
	}
	fprintf(stderr, "zeroth report: %d runs: at most %d at once\n", n, ZR_REPORT_RUNS);
	return 2;
}

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

int zr_cmd_report(int argc, char **argv)
{
	struct zr_report *r;
	struct zr_error err = { 0 };
	const char *output = NULL;
	char path[PATH_MAX], *text = NULL;
	int rc = parse(argc, argv, &output);
	if (rc >= 0)
		return rc;

	r = calloc(1, sizeof *r);
	rc = r ? read_runs(r, argv + optind, argc - optind, &err) :
		 zr_err(&err, ZR_ENOMEM, "out of memory");
	if (!rc)
		rc = zr_report_page(r, &text, &err);
	if (!rc && !output &&
	    snprintf(path, sizeof path, "%s/report.html", argv[optind]) >= (int)sizeof path)
		rc = zr_err(&err, ZR_EINVAL, "%s: too long a path", argv[optind]);
	if (!rc)
		rc = zr_put_text(output ? output : path, text, &err);
	if (!rc)
		printf("%s\n", output ? output : path);
	for (int i = 0; r && i < r->n; i++)
		zr_run_files_close(&r->run[i]);
	free(r);
	free(text);
	return rc ? zr_cmd_failed(&err) : 0;
}
