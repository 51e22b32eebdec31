/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - one row per step: its number, then the metrics named by `columns`, empty where a metric
 * was not measured. The first line of the file names the columns; a resumed run goes on under the
 * same ones, also where the columns of a new file are others by now, without the rows of steps that
 * it trains again.
 */
#include <zeroth/monitor.h>

#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "plugins/descriptor.h"

#define MAX_COLUMNS 64
#define STEP        "step,"

/* Those of a new file. New ones come last. */
static const char usual[] = "loss val_loss lr grad_norm loss_scale tokens_per_s memory "
			    "step_seconds elapsed tokens epoch skipped";

struct csv_opts {
	const char *path;
	const char *columns;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct csv_opts, path, ZR_T_STR, 0, "metrics.csv", 0, 0, "",
	       "File to append to, relative to the run directory."),
	ZR_OPT(struct csv_opts, columns, ZR_T_STR, 0, "auto", 0, 0, "",
	       "Metrics to write after the step, separated by blanks. auto is those of the file, "
	       "or of a "
	       "new one loss val_loss lr grad_norm loss_scale tokens_per_s memory step_seconds "
	       "elapsed "
	       "tokens epoch skipped."),
};

struct zr_inst {
	const struct zr_host *h;
	struct line line;
	int told; /* of a metric without a column */
	uint32_t n;
	const char *column[MAX_COLUMNS]; /* point into names */
	char names[LINE_ROOM];
};

static int split_columns(struct zr_inst *inst, const char *columns)
{
	char *p;

	if (snprintf(inst->names, sizeof inst->names, "%s", columns) >= (int)sizeof inst->names)
		return zr_fail(inst->h, ZR_EINVAL, "columns: longer than %d bytes", LINE_ROOM - 1);

	for (p = inst->names; *(p += strspn(p, " \t,"));) {
		if (inst->n == MAX_COLUMNS)
			return zr_fail(inst->h, ZR_EINVAL, "columns: more than %d", MAX_COLUMNS);

		inst->column[inst->n++] = p;
		p += strcspn(p, " \t,");
		if (*p)
			*p++ = 0;
	}

	return ZR_OK;
}

/* Those of the file's header, which is in the line's text, if it has one. */
static int take_columns(struct zr_inst *inst)
{
	const char *there = inst->line.text;
	inst->told = 1; /* they are a choice of all metrics */
	return split_columns(inst,
			     strncmp(there, STEP, strlen(STEP)) ? usual : there + strlen(STEP));
}

/* Writes the header, or compares it with the one that is there, in the line's text. */
static int header(struct zr_inst *inst)
{
	struct line *l = &inst->line;
	char found[LINE_ROOM];
	uint32_t i;

	memcpy(found, l->text, sizeof found);
	line_text(l, "step");
	for (i = 0; i < inst->n; i++) {
		line_text(l, ",");
		line_text(l, inst->column[i]);
	}

	if (!found[0])
		return line_end(l);
	if (strlen(found) != l->used || memcmp(found, l->text, l->used))
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: has the columns \"%s\"; set columns to these, or another path",
			       l->name, found);

	l->used = 0;
	return ZR_OK;
}

static const struct zr_metric *find_metric(const struct zr_metric *m, uint32_t n, const char *name)
{
	uint32_t i;
	for (i = 0; i < n; i++)
		if (!strcmp(m[i].name, name))
			return &m[i];

	return NULL;
}

/* Logs the first metric that no column takes. */
static void tell_unlisted(struct zr_inst *inst, const struct zr_metric *m, uint32_t n)
{
	uint32_t i, c;

	for (i = 0; i < n && !inst->told; i++) {
		for (c = 0; c < inst->n && strcmp(inst->column[c], m[i].name); c++)
			;
		inst->told = c == inst->n;
		if (inst->told)
			zr_log(inst->h, ZR_LOG_INFO,
			       "%s: no column for \"%s\"; columns = ... adds it", inst->line.name,
			       m[i].name);
	}
}

static int csv_metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *m, uint32_t n)
{
	struct line *l = &inst->line;
	uint32_t i;

	tell_unlisted(inst, m, n);
	line_number(l, (double)step);
	for (i = 0; i < inst->n; i++) {
		const struct zr_metric *found = find_metric(m, n, inst->column[i]);
		line_text(l, ",");
		if (found)
			line_number(l, found->value);
	}

	return line_end(l);
}

static int csv_flush(struct zr_inst *inst)
{
	return line_flush(&inst->line);
}

static int csv_resume(struct zr_inst *inst, int64_t step)
{
	return line_cut(&inst->line, "", step);
}

static int csv_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct csv_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc, automatic;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	automatic = !strcmp(o->columns, "auto");
	if (automatic)
		rc = ZR_OK;
	else
		rc = split_columns(inst, o->columns);
	if (!rc)
		rc = line_open(&inst->line, h, o->path);
	if (!rc) {
		rc = line_first(&inst->line);
		if (!rc && automatic)
			rc = take_columns(inst);
		if (!rc)
			rc = header(inst);
		rc = rc == ZR_EAGAIN ? ZR_EIO : rc; /* a run does not begin without its header */
		if (rc)
			line_close(&inst->line);
	}

	if (rc)
		free(inst);
	else
		*out = inst;

	return rc;
}

static void csv_destroy(struct zr_inst *inst)
{
	line_close(&inst->line);
	free(inst);
}

static const struct zr_monitor_v1 vtbl = {
	.size = sizeof vtbl, .metrics = csv_metrics, .flush = csv_flush, .resume = csv_resume
};

PLUGIN(monitor, "csv", &vtbl, .version = "1",
       .summary = "Metrics as comma separated values, a row per step.",
       PLUGIN_OPTIONS(struct csv_opts, options), .create = csv_create, .destroy = csv_destroy);
