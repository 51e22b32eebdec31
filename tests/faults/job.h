/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - one run of a program, with a limit of time.
 */
#ifndef ZR_FAULT_JOB_H
#define ZR_FAULT_JOB_H

struct job {
	const char *dir; /* where it runs */
	char *const *argv;
	const char *out, *err; /* files */
	const char *preload;   /* NULL: none */
	const char *fault;     /* ZR_FAULT or NULL */
	const char *counts;    /* ZR_FAULT_COUNTS */
	double limit;          /* seconds */
};

/* Exit code; minus the signal's number where one ended it; -1000: it did not end in time. */
int job_run(const struct job *j);

#endif
