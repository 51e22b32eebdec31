/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - see trial.h.
 */
#include "cmd/plan/trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "train/fit.h"
#include "train/forecast/print.h"
#include "train/forecast/traffic.h"

const char *const zr_trial_stage[] = { "zero.plugin=stage0", "zero.plugin=stage1",
				       "zero.plugin=stage2", "zero.plugin=stage3" };

const struct zr_tiers zr_trial_tiers[] = {
	{ "-", { 0 }, 0, 0 },
	{ "state: cpu", { "offload.optimizer.plugin=cpu" }, 0, 1 },
	{ "state, parameters: cpu",
	  { "offload.optimizer.plugin=cpu", "offload.param.plugin=cpu" },
	  1,
	  1 },
	{ "state: nvme", { "offload.optimizer.plugin=nvme", "offload.optimizer.path=." }, 0, 0 },
	{ "state, parameters: nvme",
	  { "offload.optimizer.plugin=nvme", "offload.optimizer.path=.",
	    "offload.param.plugin=nvme", "offload.param.path=." },
	  1,
	  0 },
};
const int zr_n_trial_tiers = sizeof zr_trial_tiers / sizeof *zr_trial_tiers;

int zr_tiers_suit(const struct zr_tiers *o, int stage, int separate)
{
	return (stage == 3 || !o->stage3) && (separate || !o->host);
}

void zr_trial_set(struct zr_trial *t, const char *set)
{
	int n = 0;
	while (n < ZR_TRIAL_SETS && t->set[n])
		n++;
	if (set && n < ZR_TRIAL_SETS)
		t->set[n] = set;
}

void zr_trial_set_all(struct zr_trial *t, const char *const *sets)
{
	for (; *sets; sets++)
		zr_trial_set(t, *sets);
}

static int is_offload(const char *line)
{
	line += strspn(line, " \t");
	return !strncmp(line, "[offload.", 9);
}

/* The INI at `path`, without its sections [offload.X] but for `keep`, in memory; returns its
 * descriptor, -1 with errno. */
static int without_offload(const char *path, int keep)
{
	char *line = NULL;
	size_t room = 0;
	int skip = 0;

	/* each only after the one before it: errno is that of the first failure */
	int fd = memfd_create("ini", MFD_CLOEXEC);
	const int copy = fd < 0 ? -1 : dup(fd);
	FILE *to = copy < 0 ? NULL : fdopen(copy, "w");
	FILE *from = to ? fopen(path, "re") : NULL;

	while (from && to && getline(&line, &room, from) >= 0) {
		if (line[strspn(line, " \t")] == '[')
			skip = is_offload(line) && !keep;
		fputs(skip ? "\n" : line, to);
	}

	int bad = !from || !to || ferror(from) || ferror(to);
	free(line);
	if (from)
		fclose(from);
	if ((to && fclose(to)) || bad) {
		if (fd >= 0)
			close(fd);
		fd = -1;
	}

	return fd;
}

static int measure(struct zr_setup *s, struct zr_rate_source *rates, struct zr_trial *t,
		   struct zr_error *err)
{
	t->device = zr_plan_tier(&s->plan, ZR_TIER_DEVICE);
	t->host = zr_plan_tier(&s->plan, ZR_TIER_HOST);
	t->disk = zr_plan_tier(&s->plan, ZR_TIER_DISK);
	t->machine = zr_plan_need(s);
	t->separate = !s->facts.device_info.unified;
	t->clips = s->facts.train->gradient_clipping > 0;
	t->device_sums = s->plan.device_sums;
	t->sequences = s->facts.batch.train;
	t->tokens = (double)(s->facts.batch.train * s->facts.batch.length);
	t->f.received = zr_traffic_received(s); /* known without rates */
	t->forecast = zr_rate_source_suits(rates, &s->facts);
	if (t->forecast)
		return zr_forecast_make(s, &rates->rates, &t->f, err);
	return 0;
}

/* What is said of a row is not about what the user wrote. */
static int say_nothing(int level, const char *topic, const char *text)
{
	(void)level;
	(void)topic;
	(void)text;
	return 1;
}

int zr_trial_run(const struct zr_plan_args *a, struct zr_rate_source *rates, struct zr_trial *t,
		 struct zr_error *err)
{
	const char *all[ZR_CMD_OVERRIDES + 4 + ZR_TRIAL_SETS];
	struct zr_config *cfg = NULL;
	struct zr_setup *s = NULL;
	struct zr_error e = { 0 };
	char ini[64];

	int (*taker)(int, const char *, const char *) = zr_log_taker;
	int n = 0, fd = without_offload(a->operand, t->keep_offload);
	for (int i = 0; i < a->n_overrides; i++)
		if (t->keep_offload || strncmp(a->overrides[i], "offload.", 8))
			all[n++] = a->overrides[i];
	for (int i = 0; i < ZR_TRIAL_SETS && t->set[i]; i++)
		all[n++] = t->set[i];
	snprintf(ini, sizeof ini, "/proc/self/fd/%d", fd);
	zr_log_taker = say_nothing;
	int rc;
	if (fd < 0)
		rc = zr_err(&e, ZR_EIO, "%s: %s", a->operand, strerror(errno));
	else
		rc = zr_config_load(ini, all, n, &cfg, &e);
	if (!rc)
		rc = zr_plan_open(cfg, t->ranks, &s, &e);
	if (!rc)
		rc = measure(s, rates, t, &e);
	t->refused = rc != 0;
	const int copied = !strncmp(e.text, ini, strlen(ini)); /* the user knows its original */
	if (rc)
		snprintf(t->why, sizeof t->why, "%s%.*s", copied ? a->operand : "",
			 (int)sizeof t->why - 1, e.text + (copied ? strlen(ini) : 0));
	zr_setup_close(s);
	zr_config_free(cfg);
	zr_log_taker = taker;
	if (fd >= 0)
		close(fd);
	return rc == ZR_ENOMEM ? zr_err(err, rc, "%s", e.text) : 0;
}

json_t *zr_trial_json(const struct zr_trial *t)
{
	json_t *j = json_object();

	zr_json_put(&j, "ranks", json_integer(t->ranks));
	if (t->refused) {
		zr_json_put(&j, "refused", json_string(t->why));
		return j;
	}

	zr_json_put(&j, "device_bytes", json_integer((json_int_t)t->device));
	zr_json_put(&j, "host_bytes", json_integer((json_int_t)t->host));
	zr_json_put(&j, "disk_bytes", json_integer((json_int_t)t->disk));
	zr_json_put(&j, "machine_bytes", json_integer((json_int_t)t->machine));
	zr_json_put(&j, "received_bytes", json_integer((json_int_t)t->f.received));
	if (t->forecast) {
		zr_json_put(&j, "disk_read_bytes", json_integer((json_int_t)t->f.read));
		zr_json_put(&j, "disk_written_bytes", json_integer((json_int_t)t->f.written));
		zr_json_put(&j, "disk_written_bytes_per_day", json_real(zr_forecast_wear(&t->f)));
		zr_json_put(&j, "comm_seconds", json_real(t->f.queue[ZR_Q_COMM]));
		zr_json_put(&j, "seconds", json_real(t->f.seconds));
		zr_json_put(&j, "tokens_per_s", json_real(t->tokens / t->f.seconds));
		zr_json_put(&j, "binding", json_string(zr_forecast_queue_name(t->f.binding)));
	}

	return j;
}
