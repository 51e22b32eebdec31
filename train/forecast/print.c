/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c - see print.h.
 */
#include "train/forecast/print.h"

#include <stdio.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "train/fit.h"

#define BAR  30
#define DAY  86400.0
#define YEAR 365.25 /* days */

const char *zr_seconds_text(double s, char buf[32])
{
	if (s >= 1)
		snprintf(buf, 32, "%.3g s", s);
	else if (s >= 1e-3)
		snprintf(buf, 32, "%.3g ms", 1e3 * s);
	else
		snprintf(buf, 32, "%.3g us", 1e6 * s);
	return buf;
}

double zr_forecast_wear(const struct zr_forecast *f)
{
	return f->seconds > 0 ? (double)f->written * DAY / f->seconds : 0;
}

static void print_queue(const struct zr_forecast *f, int q)
{
	static const char bar[BAR + 1] = "##############################";
	double share = f->seconds > 0 ? f->queue[q] / f->seconds : 0;
	char a[32];

	if (f->queue[q] > 0)
		printf("  %-8s %10s %4.0f %%  %.*s\n", zr_forecast_queue_name(q),
		       zr_seconds_text(f->queue[q], a), 100 * share,
		       (int)(BAR * (share < 1 ? share : 1) + 0.5), bar);
}

/* Bytes that the ranks of a machine write to its disks in a day. */
static double machine_wear(const struct zr_setup_facts *facts, const struct zr_forecast *f)
{
	return zr_forecast_wear(f) * zr_machine_ranks(facts);
}

/* Years of such steps until the disks of a machine are worn; 0: nothing is written, or it is not
 * stated what they bear. */
static double years_of_disks(const struct zr_setup_facts *facts, const struct zr_forecast *f,
			     double endurance)
{
	const double day = machine_wear(facts, f);
	return day > 0 ? endurance / day / YEAR : 0;
}

static void warn_of_wear(const struct zr_setup_facts *facts, const struct zr_forecast *f,
			 double endurance)
{
	const double years = years_of_disks(facts, f, endurance);

	if (years > 0 && years < 1)
		zr_logf(ZR_LOG_WARN, "plan",
			"disks that bear %.4g PB are worn in %.3g days of such steps: keep less "
			"on them, or take larger batches",
			endurance / 1e15, years * YEAR);
}

static void print_disk(const struct zr_setup_facts *facts, const struct zr_forecast *f,
		       double endurance)
{
	const int ranks = zr_machine_ranks(facts);
	char a[32], b[32];

	if (!f->read && !f->written)
		return;

	printf("disk: %s read and %s written a step", zr_bytes_text(f->read, a),
	       zr_bytes_text(f->written, b));
	if (ranks > 1)
		printf(" by each of %d ranks", ranks);
	printf("; %.4g TB written a day", machine_wear(facts, f) / 1e12);
	if (endurance > 0 && f->written)
		printf(", so that %.4g PB last %.3g years", endurance / 1e15,
		       years_of_disks(facts, f, endurance));
	putchar('\n');
	warn_of_wear(facts, f, endurance);
}

static void print_moved(const struct zr_forecast *f)
{
	char a[32];

	if (f->received)
		printf("from other ranks: %s a step\n", zr_bytes_text(f->received, a));
	if (f->copied)
		printf("between memories: %s a step\n", zr_bytes_text(f->copied, a));
}

void zr_forecast_print(const struct zr_setup_facts *facts, const struct zr_forecast *f,
		       const char *by, double endurance)
{
	char a[32], b[32];
	double tokens = (double)(facts->batch.train * facts->batch.length);

	printf("\na step takes %s, %.4g tokens/s, by %s\n", zr_seconds_text(f->seconds, a),
	       f->seconds > 0 ? tokens / f->seconds : 0, by);
	for (int q = 0; q < ZR_FORECAST_QUEUES; q++)
		print_queue(f, q);
	printf("bound by %s; dependencies alone would take %s\n",
	       zr_forecast_queue_name(f->binding), zr_seconds_text(f->critical, b));
	print_moved(f);
	print_disk(facts, f, endurance);
}

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

json_t *zr_forecast_json(const struct zr_setup_facts *facts, const struct zr_forecast *f,
			 const char *by, double endurance)
{
	json_t *j = json_object(), *queues = json_object(), *programs = json_object();
	double tokens = (double)(facts->batch.train * facts->batch.length);

	for (int q = 0; q < ZR_FORECAST_QUEUES; q++)
		zr_json_put(&queues, zr_forecast_queue_name(q), json_real(f->queue[q]));
	for (int p = 0; p < ZR_LOWERED; p++)
		if (f->program[p] > 0)
			zr_json_put(&programs, zr_lowered_name[p], json_real(f->program[p]));
	zr_json_put(&j, "seconds", json_real(f->seconds));
	zr_json_put(&j, "tokens_per_s", json_real(f->seconds > 0 ? tokens / f->seconds : 0));
	zr_json_put(&j, "by", json_string(by));
	zr_json_put(&j, "binding", json_string(zr_forecast_queue_name(f->binding)));
	zr_json_put(&j, "queues", queues);
	zr_json_put(&j, "programs", programs);
	zr_json_put(&j, "critical_path", json_real(f->critical));
	zr_json_put(&j, "flops", json_real(f->flops));
	zr_json_put(&j, "guessed_seconds", json_real(f->guessed));
	zr_json_put(&j, "received_bytes", count(f->received));
	zr_json_put(&j, "copied_bytes", count(f->copied));
	zr_json_put(&j, "disk_read_bytes", count(f->read));
	zr_json_put(&j, "disk_written_bytes", count(f->written));
	zr_json_put(&j, "disk_written_bytes_per_day", json_real(zr_forecast_wear(f)));
	if (endurance > 0 && f->written)
		zr_json_put(&j, "disk_years", json_real(years_of_disks(facts, f, endurance)));
	warn_of_wear(facts, f, endurance);
	return j;
}
