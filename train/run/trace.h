/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - what each instruction of chosen steps took, on all ranks: RUN/trace/step-000010.json in
 * the Trace Event Format (JSON), which Perfetto and chrome://tracing open. A process is a rank, a
 * thread a queue; instructions of a queue that overlap stand on further threads of it. Nothing
 * allocates after opening (I3). [step] but for open and close
 *
 * Each rank writes what it saw to a file of its own, trace/step-000010.rank-1; rank 0 merges them
 * once all have: after the next step, or at the end. A trace has its name when it is complete.
 */
#ifndef ZR_TRAIN_RUN_TRACE_H
#define ZR_TRAIN_RUN_TRACE_H

#include "core/session.h"

struct zr_trace;

/* Whether [run] trace can be read: "10 20-22". [any] */
int zr_trace_check(const struct zr_config *cfg, struct zr_error *err);

/* *out is NULL where it names no step. Collective: dir, the run directory,
 * is that of rank 0. */
int zr_trace_open(struct zr_session *s, const char *dir, struct zr_trace **out,
		  struct zr_error *err);
void zr_trace_close(struct zr_trace *t); /* NULL is fine */

/* Whether a step is traced. */
int zr_trace_wants(const struct zr_trace *t, int64_t step);

/* A step begins; instruction n of p began or was waited for between two times of zr_now(); the step
 * ended, and what was seen is written. Failures are logged, and end the tracing. */
void zr_trace_begin(struct zr_trace *t, int64_t step);
void zr_trace_note(struct zr_trace *t, const struct zr_lowered *p, int32_t n, int waited,
		   double from, double to);
void zr_trace_end(struct zr_trace *t);

/* Once all ranks have written theirs of all steps up to `step`. Rank 0 alone does something. */
void zr_trace_merge(struct zr_trace *t, int64_t step);

#endif
