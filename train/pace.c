/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - see pace.h.
 */
#include "train/pace.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train/fit.h"
#include "train/forecast/plan_json.h"
#include "train/forecast/forecast.h"
#include "train/forecast/source.h"
#include "core/base/log.h"
#include "core/base/pool.h"

/* The "elapsed" of the last line of a file of metrics whose step is at most `step`; 0: none. */
static double elapsed_in(const char *metrics, int64_t step)
{
	static const char head[] = "{\"step\":", key[] = "\"elapsed\":";
	int fd = open(metrics, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;
	double last = 0;

	while (f && getline(&line, &room, f) > 0) {
		const char *at = strstr(line, key);
		if (at && !strncmp(line, head, sizeof head - 1) &&
		    strtoll(line + sizeof head - 1, NULL, 10) <= step)
			last = strtod(at + sizeof key - 1, NULL);
	}

	free(line);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return isfinite(last) && last > 0 ? last : 0;
}

double zr_pace_elapsed_before(const char *run, const char *checkpoint, int64_t step)
{
	static const char *const up[] = { "", "/..", "/../.." };
	char path[PATH_MAX + 32];
	double v = 0;

	for (int i = -1; step > 0 && !v && i < 3; i++) {
		snprintf(path, sizeof path, "%s%s/metrics.jsonl", i < 0 ? run : checkpoint,
			 i < 0 ? "" : up[i]);
		v = elapsed_in(path, step);
	}

	return v;
}

void zr_pace_begin(struct zr_pace *p, const struct zr_setup *s, double elapsed)
{
	const struct zr_data_info *data = &s->roles.source->info;
	double world = (double)s->facts.process.world;

	*p = (struct zr_pace){
		.step_tokens = s->facts.batch.train * s->facts.batch.length,
		.step_sequences = s->facts.batch.train,
		.epoch_sequences = ZR_HAS(data, struct zr_data_info, train_sequences) ?
					   data->train_sequences :
					   0,
		.nominal = world * zr_card_peak(s->facts.device_info.name, s->facts.types.dtype),
		.device_bytes = s->facts.device_info.unified ? 0 : s->plan.arena[ZR_STORE_DEVICE],
		.epoch = NAN,
		.mfu = NAN,
		.mfu_product = NAN,
		.possible = NAN,
	};
	p->flops = s->facts.decl.flops_per_token * (double)p->step_tokens;
	p->started = zr_now() - elapsed;
}

/* The highest rate of products of matrices, of a rank while all of this machine compute. */
static double product_of(const struct zr_rates *r, const struct zr_setup *s)
{
	const char *name = "";
	if (s->facts.types.dtype == ZR_F32)
		name = "matmul.fp32.nn";
	else if (s->facts.types.dtype == ZR_BF16)
		name = "matmul.bf16.nn";
	int ranks = zr_machine_ranks(&s->facts), threads = zr_pool_size(s->facts.process.pool);
	double best = 0;

	for (int i = 0; i < r->n; i++) {
		const struct zr_rate *e = &r->rate[i];
		for (int k = 0; k < e->n && !strcmp(e->name, name); k++) {
			double v = zr_rate_at(r, name, ranks, threads, e->point[k].at, e->dims);
			best = v > best ? v : best;
		}
	}

	return best;
}

int zr_pace_forecast(struct zr_pace *p, struct zr_setup *s, json_t *plan, struct zr_error *err)
{
	static const struct zr_rates none;
	struct zr_rate_source r;
	struct zr_forecast f = { 0 };
	struct zr_error unknown = { 0 };
	int rc = zr_rate_source_open(NULL, NULL, s->cfg, &r, &unknown);

	const int suits = !rc && zr_rate_source_suits(&r, &s->facts);
	if (suits || (!rc && p->nominal > 0))
		rc = zr_forecast_make(s, suits ? &r.rates : &none, &f, &unknown);
	/* at the length that is trained, without gradients of what is frozen; a model that computes
	 * without the operations of the device has only its own count */
	if (!rc && f.flops > 0)
		p->flops = (f.flops - f.again) * s->facts.process.world;
	f.seconds = rc || !suits ? 0 : f.seconds;
	if (suits) {
		p->product = product_of(&r.rates, s) * s->facts.process.world;
		p->forecast = f.seconds;
		p->binding = rc ? NULL : zr_forecast_queue_name(f.binding);
	}

	if (rc)
		zr_logf(ZR_LOG_WARN, "train", "how fast this machine is, is not known: %s",
			unknown.text);
	rc = zr_plan_write(s, plan, &f, r.by, err);
	zr_rate_source_close(&r);
	return rc;
}

double zr_pace_elapsed(const struct zr_pace *p)
{
	return zr_now() - p->started;
}

static double part_of(double rate, double limit)
{
	return rate > 0 && limit > 0 ? rate / limit : NAN;
}

void zr_pace_step(struct zr_pace *p, int64_t step, double seconds)
{
	double rate = seconds > 0 ? 1 / seconds : 0;

	p->seconds = seconds;
	p->tokens = step * p->step_tokens;
	p->tokens_per_s = rate * (double)p->step_tokens;
	int64_t of = 1;
	p->steps++;
	if (p->steps > 2)
		of = p->steps > 10 ? 10 : p->steps - 1;
	p->smooth += (seconds - p->smooth) / (double)of; /* the first warms up caches */
	if (p->epoch_sequences)
		p->epoch = (double)step * (double)p->step_sequences / (double)p->epoch_sequences;
	p->mfu = part_of(p->flops * rate, p->nominal);
	p->mfu_product = part_of(p->flops * rate, p->product);
	p->possible = part_of(p->forecast, seconds);
}

/* Enough digits for people. */
static double milliseconds(double s)
{
	return floor(1e3 * s) / 1e3;
}

static void add_number(struct zr_metric *m, uint32_t *n, const char *name, double value)
{
	if (isfinite(value))
		m[(*n)++] = (struct zr_metric){ name, value };
}

uint32_t zr_pace_metrics(const struct zr_pace *p, struct zr_metric m[ZR_PACE_METRICS])
{
	struct timespec now;
	uint32_t n = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	add_number(m, &n, "step_seconds", p->seconds);
	add_number(m, &n, "elapsed", milliseconds(zr_pace_elapsed(p)));
	add_number(m, &n, "time", milliseconds((double)now.tv_sec + 1e-9 * (double)now.tv_nsec));
	add_number(m, &n, "tokens", (double)p->tokens);
	add_number(m, &n, "epoch", p->epoch);
	add_number(m, &n, "mfu", p->mfu);
	add_number(m, &n, "mfu_product", p->mfu_product);
	add_number(m, &n, "possible", p->possible);
	add_number(m, &n, "host_bytes", (double)zr_process_memory());
	if (p->device_bytes)
		add_number(m, &n, "device_bytes", (double)p->device_bytes);
	return n;
}
