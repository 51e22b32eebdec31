/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - one HTML page of some runs, which needs nothing else: no network, no other file. Each
 * section is a file; what a run does not have is said in words. [main]
 */
#ifndef ZR_REPORT_REPORT_H
#define ZR_REPORT_REPORT_H

#include "cmd/report/answers.h"
#include "cmd/report/run.h"
#include "train/forecast/breakdown.h"

#define ZR_REPORT_RUNS 16

struct zr_report {
	struct zr_run_files run[ZR_REPORT_RUNS];
	int n;
	struct zr_answers *answers; /* [n]; NULL: nobody wants them */
	FILE *page;                 /* the sections so far */
	FILE *data;                 /* the members of the object of all charts, for the script */
	int charts;
};

/* The whole page. text: owned by the caller. */
int zr_report_page(struct zr_report *r, char **text, struct zr_error *err);

/* The sections; -1: out of memory. */
int zr_report_curves(struct zr_report *r);
int zr_report_breakdown(struct zr_report *r);
void zr_report_memory(struct zr_report *r);
void zr_report_timeline(struct zr_report *r);
void zr_report_overview(struct zr_report *r);
void zr_report_numbers(struct zr_report *r);
void zr_report_config(struct zr_report *r);
void zr_report_machine(struct zr_report *r);
void zr_report_talks(struct zr_report *r);
void zr_report_samples(struct zr_report *r);

/* section.c: a heading of a section, and a paragraph that says that something is not there. */
void zr_report_heading(struct zr_report *r, const char *id, const char *title);
void zr_report_missing(struct zr_report *r, const struct zr_run_files *run, const char *what);

/* The lines of page.css and page.js, without their ends; NULL ends them. */
extern const char *const zr_page_css[], *const zr_page_js[];

#endif
