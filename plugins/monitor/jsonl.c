/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonl.c - one JSON object per step: {"step":12,"loss":3.25,...}. A metric that was not measured
 * is absent; one that is infinite or NaN is null. A resumed run goes on without the lines of steps
 * that it trains again.
 */
#include <zeroth/monitor.h>

#include <math.h>
#include <stdlib.h>

#include "line.h"
#include "plugins/descriptor.h"

#define HEAD "{\"step\":"

struct jsonl_opts {
	const char *path;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct jsonl_opts, path, ZR_T_STR, 0, "metrics.jsonl", 0, 0, "",
	       "File to append to, relative to the run directory."),
};

struct zr_inst {
	struct line line;
};

static int jsonl_metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *m, uint32_t n)
{
	struct line *l = &inst->line;
	uint32_t i;

	line_text(l, HEAD);
	line_number(l, (double)step);
	for (i = 0; i < n; i++) {
		line_text(l, ",\"");
		line_text(l, m[i].name);
		line_text(l, "\":");
		if (isfinite(m[i].value))
			line_number(l, m[i].value);
		else
			line_text(l, "null");
	}

	line_text(l, "}");
	return line_end(l);
}

static int jsonl_flush(struct zr_inst *inst)
{
	return line_flush(&inst->line);
}

static int jsonl_resume(struct zr_inst *inst, int64_t step)
{
	return line_cut(&inst->line, HEAD, step);
}

static int jsonl_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct jsonl_opts *o = opts;
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	int rc = line_open(&inst->line, h, o->path);
	if (rc)
		free(inst);
	else
		*out = inst;

	return rc;
}

static void jsonl_destroy(struct zr_inst *inst)
{
	line_close(&inst->line);
	free(inst);
}

static const struct zr_monitor_v1 vtbl = {
	.size = sizeof vtbl, .metrics = jsonl_metrics, .flush = jsonl_flush, .resume = jsonl_resume
};

PLUGIN(monitor, "jsonl", &vtbl, .version = "1", .summary = "Metrics as one JSON object per step.",
       PLUGIN_OPTIONS(struct jsonl_opts, options), .create = jsonl_create,
       .destroy = jsonl_destroy);
