/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - one rank of a measurement: its setup, its memory, the time of a call, and what it notes.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/base/log.h"
#include "core/session.h"
#include "train/run/outlet.h"
#include "train/run/supervise.h"

#define BATCHES    5
#define MOST_CALLS (1 << 22)
#define FILL       (1u << 20) /* bytes */

int zr_bench_processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
	return n > 1 ? n : 1;
}

void zr_bench_meet(const struct zr_bench *b)
{
	if (b->job->ranks > 1)
		pthread_barrier_wait(&b->job->shared->barrier);
}

/* ---- time ------------------------------------------------------------------------ */

/* Average seconds of all ranks for n calls; negative: it failed. */
static double batch(struct zr_bench *b, int (*fn)(void *), void *arg, int n)
{
	double *all = b->job->shared->seconds, sum = 0;
	int rc = 0;

	zr_bench_meet(b);
	double began = zr_now();
	for (int i = 0; i < n && !rc; i++)
		rc = fn(arg);
	if (rc)
		return -1;
	if ((rc = ZR_ASK(&b->s->roles.device, device, sync, b->err, NULL)))
		return -1;

	all[b->rank] = zr_now() - began;
	zr_bench_meet(b);
	for (int i = 0; i < b->job->ranks; i++)
		sum += all[i];
	zr_bench_meet(b);
	return sum / b->job->ranks;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double zr_bench_time(struct zr_bench *b, int (*fn)(void *arg), void *arg)
{
	double t[BATCHES], least = b->seconds / BATCHES;
	int n = 1;

	if (batch(b, fn, arg, 1) < 0) /* what it does for the first time */
		return 0;

	while ((t[0] = batch(b, fn, arg, n)) >= 0 && t[0] < least && n < MOST_CALLS) {
		double more = t[0] > 0 ? 1.2 * least / t[0] : 16;
		if (more < 2)
			more = 2;
		if (more > 16)
			more = 16;
		n = (int)(n * more);
	}

	for (int i = 1; i < BATCHES && t[0] >= 0; i++)
		if ((t[i] = batch(b, fn, arg, n)) < 0)
			t[0] = -1;
	if (t[0] < 0) {
		if (!b->err->code)
			zr_err(b->err, ZR_EINTERNAL, "bench %s: an operation failed",
			       b->job->subject->name);
		return 0;
	}

	qsort(t, BATCHES, sizeof *t, ascending);
	return t[1] / n;
}

/* ---- notes ----------------------------------------------------------------------- */

static void size_text(const struct zr_bench_rate *r, char *out, size_t room)
{
	size_t n = 0;
	*out = 0;
	for (int d = 0; d < r->dims && n < room; d++)
		n += (size_t)snprintf(out + n, room - n, "%s%.0f", d ? "x" : "", r->at[d]);
}

static void show(const struct zr_bench_job *job, const struct zr_bench_rate *r)
{
	static const char bar[] = "####################", blank[] = "                    ";
	static const char *const prefix[] = { "", "k", "M", "G", "T", "P" };
	char size[64];
	double v = r->rate;
	int p = 0;

	size_text(r, size, sizeof size);
	if (job->progress)
		fputs("\r\033[K", stdout);
	if (!r->shown || !job->table) {
		if (job->progress)
			printf("measuring %s %s ...", r->name, size);
		zr_outlet_push();
		return;
	}

	for (; v >= 1000 && p < 5; p++)
		v /= 1000;
	int decimals = 0;
	if (v < 100)
		decimals = v < 10 ? 2 : 1;
	printf("  %-18s %-18s %6.*f %s%-10s", r->name, size, decimals, v, prefix[p], r->unit);
	if (r->share > 0) {
		int n = (int)(20 * r->share + 0.5);
		n = n > 20 ? 20 : n;
		printf(" [%.*s%.*s] %3.0f %%", n, bar, 20 - n, blank, 100 * r->share);
	}

	putchar('\n');
	zr_outlet_push();
}

void zr_bench_note(struct zr_bench *b, const char *name, const double *at, int dims, double work,
		   double seconds, const char *unit, double limit, int shown)
{
	struct zr_bench_shared *all = b->job->shared;

	if (b->rank || seconds <= 0 || work <= 0 || all->n == ZR_BENCH_RATES)
		return;

	struct zr_bench_rate *r = &all->rate[all->n++];
	*r = (struct zr_bench_rate){ .dims = dims,
				     .at = { 1, 1, 1 },
				     .rate = work / seconds,
				     .unit = unit,
				     .shown = shown };
	snprintf(r->name, sizeof r->name, "%s", name);
	memcpy(r->at, at, (size_t)dims * sizeof *at);
	r->share = limit > 0 ? r->rate / limit : 0;
	show(b->job, r);
}

/* ---- memory ---------------------------------------------------------------------- */

void *zr_bench_take(struct zr_bench *b, uint64_t bytes)
{
	char *p = b->room + b->used;
	b->used += (bytes + 255) / 256 * 256;
	if (b->used > b->bytes)
		abort(); /* a subject's `room` is wrong */
	return p;
}

void zr_bench_empty(struct zr_bench *b)
{
	b->used = 0;
}

int zr_bench_put(struct zr_bench *b, void *device, const void *host, uint64_t bytes)
{
	int rc = ZR_ASK(&b->s->roles.device, device, copy, b->err, NULL, device, host, bytes);
	if (rc)
		return rc;
	return ZR_ASK(&b->s->roles.device, device, sync, b->err, NULL);
}

/* bf16 numbers of 1/2 to 1 of either sign, pairs of which are such fp32 numbers: products of zeros
 * may be faster than others. */
static int fill(struct zr_bench *b)
{
	uint16_t *host = malloc(FILL);
	uint32_t seed = 1;
	int rc = host ? 0 : zr_no_memory(b->err);

	for (uint32_t i = 0; i < FILL / 2 && host; i++) {
		seed = seed * 1664525u + 1013904223u;
		host[i] = (uint16_t)(0x3f00u | (seed >> 16 & 0x807fu));
	}

	for (uint64_t at = 0; !rc && at < b->bytes; at += FILL)
		rc = zr_bench_put(b, b->room + at, host,
				  b->bytes - at < FILL ? b->bytes - at : FILL);
	free(host);
	return rc;
}

static int take_room(struct zr_bench *b)
{
	void *p = NULL;
	const uint64_t bytes = b->job->subject->room;

	b->dev = b->s->roles.device.vtbl;
	if (!b->rank) {
		struct zr_bench_shared *all = b->job->shared;
		memcpy(all->device, b->s->facts.device_info.name, sizeof all->device);
		memcpy(all->variant, b->s->facts.device_info.variant, sizeof all->variant);
	}

	if (!bytes)
		return 0;

	int rc = ZR_ASK(&b->s->roles.device, device, mem_alloc, b->err, bytes, ZR_MEM_DEVICE, &p);
	if (rc)
		return rc;

	b->room = p;
	b->bytes = bytes;
	return fill(b);
}

/* ---- the rank -------------------------------------------------------------------- */

static int lacks(const struct zr_config *cfg, const char *option)
{
	return option && !zr_table_find(&zr_config_find(cfg, "optimizer")->table, option);
}

/* *out is NULL if the subject needs an option that the configuration's optimizer does not have. */
static int load(const struct zr_bench_job *job, struct zr_config **out, struct zr_error *err)
{
	const char *overrides[160];
	int n = 0;

	for (int i = 0; i < job->n_overrides && n < 150; i++)
		overrides[n++] = job->overrides[i];
	*out = NULL;
	if (job->subject->needs) {
		int rc = zr_config_load(job->conf, overrides, n, out, err);
		if (rc || lacks(*out, job->subject->needs)) {
			zr_config_free(*out);
			*out = NULL;
			return rc;
		}

		zr_config_free(*out);
	}

	for (const char *const *o = job->subject->overrides; o && *o; o++)
		overrides[n++] = *o;
	return zr_config_load(job->conf, overrides, n, out, err);
}

int zr_bench_rank(int rank, void *arg, struct zr_error *why)
{
	const struct zr_bench_job *job = arg;
	char threads[40];
	struct zr_config *cfg = NULL;
	struct zr_bench b = { .job = job,
			      .rank = rank,
			      .err = why,
			      .seconds = job->seconds > 0 ? job->seconds : job->subject->seconds };

	if (rank)
		zr_log_level(ZR_LOG_ERROR);
	int rc = load(job, &cfg, why);
	if (!rc && !cfg)
		return 0;

	/* only devices that compute on this machine's processors have the option */
	snprintf(threads, sizeof threads, "%d", job->threads);
	if (!rc && zr_table_find(&zr_config_find(cfg, "device")->table, "threads"))
		rc = zr_config_set_auto(cfg, "device", "threads", threads, why);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, 0, 0, &b.s, why);
	if (!rc)
		rc = take_room(&b);
	if (!rc)
		rc = job->subject->run(&b);
	if (!rc)
		zr_bench_meet(&b);
	if (rc && b.s)
		zr_setup_abort(b.s, why->text);
	if (b.room)
		b.dev->mem_free(b.s->roles.device.inst, b.room, b.bytes, ZR_MEM_DEVICE);
	if (!rank && job->progress)
		fputs("\r\033[K", stdout);
	zr_setup_close(b.s);
	zr_config_free(cfg);
	return rc ? zr_exit_code(rc) : 0;
}
