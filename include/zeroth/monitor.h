/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/monitor.h - STABLE. Role "monitor", interface "zr.monitor/1": receives the metrics of
 * every step on rank 0, in a thread of its own. Its section is [monitor.NAME]; several may be
 * active.
 */
#ifndef ZEROTH_MONITOR_H
#define ZEROTH_MONITOR_H

#include <zeroth/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* FROZEN. A metric that was not measured in this step is absent; it is not passed as NaN. */
struct zr_metric {
	const char *name; /* "loss", "val_loss", "lr", "grad_norm", "tokens_per_s", ...; static */
	double value;
};

/* The run that a monitor is told of. GROWABLE; texts are borrowed for the call. */
struct zr_monitor_run {
	uint32_t size, rsv;
	const char *name;   /* the last part of its directory; "": it has none */
	const char *config; /* INI: all sections with the values that the run has, resolved */
	int64_t steps;      /* of [train], at most */
	int64_t parameters; /* elements that are trained */
	int32_t world, rsv2;
};

/* GROWABLE. */
struct zr_monitor_v1 {
	uint32_t size, rsv;
	/* [monitor thread; never two at once] The metrics of one step (1-based); steps ascend. The
	 * array is borrowed for the call. A failure is logged once and stops this monitor, not the
	 * run, but for ZR_EAGAIN: nothing of this step was taken, as on a full disk, and the same
	 * step comes again with the next one (older hosts stop the monitor then).
	 * Relative names of files are relative to host->run_dir. */
	int (*metrics)(struct zr_inst *, int64_t step, const struct zr_metric *m, uint32_t n);
	/* (optional) [monitor thread] Returns when all metrics received so far are durable. */
	int (*flush)(struct zr_inst *);

	/* since minor 3 */
	/* (optional) [main] Called once, before any metrics(), in a run that resumes after `step`
	 * (0: at its beginning). What this monitor has of later steps belongs to a training that
	 * was left, and goes; of each other step one record stays. At once or not at all: a kill
	 * while this runs loses nothing up to `step`. A failure refuses the run. */
	int (*resume)(struct zr_inst *, int64_t step);

	/* since minor 5 */
	/* (optional) [main] Called once, before resume() and any metrics(). A failure refuses the
	 * run. */
	int (*begin)(struct zr_inst *, const struct zr_monitor_run *);
};

#ifdef __cplusplus
}
#endif
#endif
