/* @ID@ - a monitor for zeroth: it gets the metrics of each step. See zeroth-plugin(7) and
 * zeroth/monitor.h.
 *
 * As it is written here: a line with the step and the loss in a file of the run directory. It runs
 * on rank 0, in a thread of its own: what takes time here does not hold up the training. */
#include <zeroth/monitor.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a user may set in [monitor.NAME]. */
struct opts {
	const char *path;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, path, ZR_T_STR, 0, "@ID@.txt", 0, 0, "",
	       "File, in the run directory if it does not begin with a slash."),
};

struct zr_inst {
	const struct zr_host *h;
	FILE *file; /* open since create */
	char path[1024], other[1040];
};

static int failed(struct zr_inst *inst, const char *doing)
{
	return zr_fail(inst->h, ZR_EIO, "%s: %s: %s", inst->path, doing, strerror(errno));
}

static int metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(m[i].name, "loss") &&
		    fprintf(inst->file, "%" PRId64 " %.9g\n", step, m[i].value) < 0)
			return failed(inst, "write");
	return ZR_OK;
}

/* All that came so far is on disk when it returns. */
static int flush(struct zr_inst *inst)
{
	if (fflush(inst->file) || fsync(fileno(inst->file)))
		return failed(inst, "write");
	return ZR_OK;
}

/* The run goes on after `step`: lines of later steps go, at once, by a rename. */
static int resume(struct zr_inst *inst, int64_t step)
{
	char line[128];
	int bad;

	FILE *to = fopen(inst->other, "we");
	if (!to)
		return failed(inst, "open");

	rewind(inst->file);
	while (fgets(line, sizeof line, inst->file))
		if (strtoll(line, NULL, 10) <= step)
			fputs(line, to);
	bad = ferror(inst->file) || fflush(to) || fsync(fileno(to));
	if (bad || rename(inst->other, inst->path)) {
		fclose(to);
		return failed(inst, "write");
	}

	fclose(inst->file);
	inst->file = to;
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct opts *o = opts;

	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	if (*o->path == '/' || !h->run_dir)
		snprintf(inst->path, sizeof inst->path, "%s", o->path);
	else
		snprintf(inst->path, sizeof inst->path, "%s/%s", h->run_dir, o->path);
	snprintf(inst->other, sizeof inst->other, "%s.new", inst->path);
	inst->file = fopen(inst->path, "a+e");
	if (!inst->file) {
		int rc = failed(inst, "open");
		free(inst);
		return rc;
	}

	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	fclose(inst->file);
	free(inst);
}

static const struct zr_monitor_v1 vtbl = {
	.size = sizeof vtbl,
	.metrics = metrics,
	.flush = flush,
	.resume = resume,
};
static const struct zr_iface ifaces[] = { { "zr.monitor/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "monitor",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Writes the loss of each step to a text file.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
