/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - what a run directory has of a run, as far as it is there. [main]
 */
#ifndef ZR_REPORT_RUN_H
#define ZR_REPORT_RUN_H

#include <jansson.h>

#include "cmd/report/rows.h"

struct zr_run_value {
	char *section, *key, *text;
};

struct zr_run_files {
	const char *dir; /* borrowed */
	char name[128];  /* of the directory, to tell runs apart */
	struct zr_rows_file metrics;
	int has_metrics;
	struct zr_run_value *value; /* config.ini, in its order */
	int n_values;
	json_t *summary, *plan, *trace; /* NULL: not there, or not readable: see problem */
	char trace_name[64];            /* the file of the last traced step */
	int traces;
	char *samples; /* samples.txt, or the end of it; NULL: none */
	int samples_cut;
	char problem[1024]; /* files that are there and cannot be read; "" if none */
};

/* Reads all but the metrics. Only a directory that is no run's, or cannot be read, is an error. */
int zr_run_files_open(struct zr_run_files *r, const char *dir, struct zr_error *err);
void zr_run_files_close(struct zr_run_files *r);

/* The value of config.ini, or NULL. */
const char *zr_run_find_value(const struct zr_run_files *r, const char *section, const char *key);
/* A number in the summary, or NaN. */
double zr_run_summary(const struct zr_run_files *r, const char *key);
/* When the last step was written, Unix seconds; NaN: there is none. */
double zr_run_last_step(const struct zr_run_files *r);
/* Whether the summary is of all steps. An older one is of an earlier part of a run that goes on. */
int zr_run_ended(const struct zr_run_files *r);
/* How the run stands: "finished", "stopped: ...", ... or that it goes on or was killed. */
void zr_run_state(const struct zr_run_files *r, char *text, size_t size);
/* Reads summary.json again. */
void zr_run_reread(struct zr_run_files *r);

#endif
