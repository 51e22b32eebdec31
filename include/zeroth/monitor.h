/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/monitor.h - STABLE. Role "monitor", interface "zr.monitor/1": receives the metrics of every
 * step, on a thread of its own, on rank 0. Section [monitor.NAME]; several may be active.
 */
#ifndef ZEROTH_MONITOR_H
#define ZEROTH_MONITOR_H

#include <zeroth/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* FROZEN. A metric that was not measured this step is absent, never NaN by default. */
struct zr_metric {
	const char *name; /* "loss", "val_loss", "lr", "grad_norm", "tokens_per_s", ...; static */
	double value;
};

/* GROWABLE. */
struct zr_monitor_v1 {
	uint32_t size, rsv;
	/* [monitor thread; never two at once] The metrics of one step (1-based), steps ascending. The array is
	 * borrowed for the call. A failure is logged once and stops this monitor, not the run. Relative
	 * file names are meant below host->run_dir. */
	int (*metrics)(struct zr_inst *, int64_t step, const struct zr_metric *m, uint32_t n);
	int (*flush)(struct zr_inst *); /* (optional) [monitor thread] everything so far must be durable */
};

#ifdef __cplusplus
}
#endif
#endif
