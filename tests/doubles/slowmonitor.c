/* SPDX-License-Identifier: Apache-2.0
 *
 * slowmonitor.c - a monitor that takes so many milliseconds for each step: SLOWMONITOR=10; or
 * crashes: SLOWMONITOR=crash.
 */
#define _GNU_SOURCE
#include <zeroth/monitor.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct zr_inst {
	const struct zr_host *h;
	struct timespec takes;
	int crashes;
};

static int take(struct zr_inst *inst, int64_t step, const struct zr_metric *m, uint32_t n)
{
	(void)step, (void)m, (void)n;
	if (inst->crashes)
		raise(SIGSEGV);
	nanosleep(&inst->takes, NULL);
	return ZR_OK;
}

/* What it is told of the run is in told.txt of its directory. */
static int begin(struct zr_inst *inst, const struct zr_monitor_run *run)
{
	char path[4096];
	if (!inst->h->run_dir)
		return ZR_OK;
	snprintf(path, sizeof path, "%s/told.txt", inst->h->run_dir);
	FILE *f = fopen(path, "w");
	if (!f)
		return zr_fail(inst->h, ZR_EIO, "cannot write %s", path);
	fprintf(f, "%s %lld %lld %d\n%s", run->name, (long long)run->steps,
		(long long)run->parameters, run->world, run->config);
	return fclose(f) ? zr_fail(inst->h, ZR_EIO, "cannot write %s", path) : ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const char *text = getenv("SLOWMONITOR");
	long ms = text ? atol(text) : 0;
	(void)opts;
	*out = malloc(sizeof **out);
	if (!*out)
		return ZR_ENOMEM;
	(*out)->h = h;
	(*out)->crashes = text && !strcmp(text, "crash");
	(*out)->takes = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_monitor_v1 vtbl = { .size = sizeof vtbl, .metrics = take, .begin = begin };
static const struct zr_iface ifaces[] = { { "zr.monitor/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "monitor",
	.id = "slow",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Takes its time.",
	.ifaces = ifaces,
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
