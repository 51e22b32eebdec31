/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - what each instruction of chosen steps took, on all ranks: RUN/trace/step-000010.json in
 * the Trace Event Format (JSON), which Perfetto and chrome://tracing open. A process is a rank, a
 * thread a queue; instructions of a queue that overlap stand on further threads of it. Nothing
 * allocates after opening (I3). [step] but for open and close
 *
 * Each rank writes what it saw to a file of its own, trace/step-000010.rank-1: after the step, or
 * with a clock of the device after the next one. Rank 0 merges them once all have: a step later, or
 * at the end. A trace has its name when it is complete.
 */
#ifndef ZR_TRAIN_RUN_TRACE_H
#define ZR_TRAIN_RUN_TRACE_H

#include "core/session.h"
#include "train/run/clock.h"

struct zr_trace;

/* Whether [run] trace can be read: "10 20-22". [any] */
int zr_trace_check(const struct zr_config *cfg, struct zr_error *err);

/* *out is NULL where it names no step. Collective: dir, the run directory, is that of rank 0. */
int zr_trace_open(struct zr_session *s, const char *dir, struct zr_trace **out,
		  struct zr_error *err);
void zr_trace_close(struct zr_trace *t); /* NULL is fine */
/* From now on marks that instructions have say when the device did them. */
void zr_trace_clock(struct zr_trace *t, const struct zr_clock *clock);
int64_t zr_trace_copies(const struct zr_session *s); /* marks of copies that zr_trace_copy takes */

/* Whether a step is traced. */
int zr_trace_wants(const struct zr_trace *t, int64_t step);

/* A step begins; instruction n of p began or was waited for between two times of zr_now(). */
void zr_trace_begin(struct zr_trace *t, int64_t step);
void zr_trace_note(struct zr_trace *t, const struct zr_lowered *p, int32_t n, int waited,
		   double from, double to);
/* Of an instruction that began: the marks around it on the device, 0: none, or what was before; the
 * two marks that a copy passes, -1: none is left; when the thread beside computed it. */
void zr_trace_marks(struct zr_trace *t, const struct zr_lowered *p, int32_t n, uint64_t from,
		    uint64_t to);
int64_t zr_trace_copy(struct zr_trace *t);
void zr_trace_copied(struct zr_trace *t, const struct zr_lowered *p, int32_t n, int64_t copy);
void zr_trace_beside(struct zr_trace *t, const struct zr_lowered *p, int32_t n, double from,
		     double to);
/* What was seen of steps up to `step` is written, if it is not yet. Failures are logged, and end
 * the tracing. */
void zr_trace_write(struct zr_trace *t, int64_t step);

/* Once all ranks have written theirs of all steps up to `step`. Rank 0 alone does something. */
void zr_trace_merge(struct zr_trace *t, int64_t step);

#endif
