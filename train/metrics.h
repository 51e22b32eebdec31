/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - carries the metrics of each step to the monitor plugins, each on a thread of its own.
 * Records wait in a ring. No step waits for a monitor: one that fails, or is 2048 steps behind, is
 * stopped with a warning, and the others go on. Nothing allocates after opening (I3).
 */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "core/plugin/host.h"
#include "core/setup.h"

#define ZR_METRICS_PER_STEP 64

struct zr_metrics;

/* Creates every [monitor.*] of the setup's config; process.run_dir is set, or NULL: without that of
 * defaults.ini, which writes there. resumed: the step after
 * which a run goes on, of which monitors keep what came before; -1: a new run. [main] */
int zr_metrics_open(struct zr_setup *setup, int64_t resumed, struct zr_metrics **out,
		    struct zr_error *err);
/* [step] */
void zr_metrics_push(struct zr_metrics *m, int64_t step, const struct zr_metric *metric,
		     uint32_t n);
/* [main] Returns when the monitors have what was pushed, so that a checkpoint that follows has no
 * step of which they know nothing, even where the process is killed then. They flush it meanwhile.
 * One that does not have it after 5 s is stopped with a warning. */
void zr_metrics_wait(struct zr_metrics *m);
/* [main] Waits likewise until everything is written and flushed. A monitor that does not return by
 * then keeps its memory. NULL is fine. */
void zr_metrics_close(struct zr_metrics *m);

#endif
