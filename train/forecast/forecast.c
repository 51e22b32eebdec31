/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.c - see forecast.h: a step is the programs of its micro-batches, the boundary and the
 * update.
 */
#include "train/forecast/forecast.h"

#include <stdlib.h>

#include "train/forecast/traffic.h"

const char *zr_forecast_queue_name(int queue)
{
	if (queue == ZR_FQ_IN)
		return "copy in";
	if (queue == ZR_FQ_OUT)
		return "copy out";
	return zr_queue_name[queue];
}

/* How often a program runs in a step. */
static double runs(const struct zr_setup *s, int id)
{
	const int64_t micro = s->facts.batch.accumulation;
	const int onward = s->programs.lowered[ZR_S_ONWARD].n > 0;

	switch (id) {
	case ZR_S_FIRST:
		return micro > 1 && !onward;
	case ZR_S_MICRO:
		return micro > 2 ? (double)(micro - 2) : 0;
	case ZR_S_LAST:
		return micro > 1 || !onward;
	case ZR_S_UPDATE:
		return !onward;
	case ZR_S_ONWARD:
	case ZR_S_BOUNDARY:
		return 1;
	default:
		return 0;
	}
}

static void add_forecast(struct zr_forecast *to, const struct zr_forecast *f, double times)
{
	for (int q = 0; q < ZR_FORECAST_QUEUES; q++)
		to->queue[q] += times * f->queue[q];
	to->flops += times * f->flops;
	to->again += times * f->again;
	to->guessed += times * f->guessed;
	to->read += (uint64_t)times * f->read;
	to->written += (uint64_t)times * f->written;
	to->copied += (uint64_t)times * f->copied;
}

static int program(struct zr_setup *s, const struct zr_rates *rates, int id,
		   struct zr_forecast *out, struct zr_error *err)
{
	const struct zr_lowered *p = &s->programs.lowered[id];
	const double times = runs(s, id);
	struct zr_forecast f = { 0 };

	if (!(times > 0) || !p->n)
		return 0;

	struct zr_cost *cost = malloc((size_t)p->n * sizeof *cost);
	double *end = malloc((size_t)p->n * sizeof *end);
	int rc;
	if (cost && end)
		rc = zr_forecast_costs(s, rates, p, cost, &f, err);
	else
		rc = zr_no_memory(err);

	if (!rc) {
		out->program[id] = times * zr_forecast_run(&s->facts, p, cost, 0, end);
		out->seconds += out->program[id];
		out->critical += times * zr_forecast_run(&s->facts, p, cost, 1, end);
		add_forecast(out, &f, times);
	}

	free(cost);
	free(end);
	return rc;
}

int zr_forecast_make(struct zr_setup *s, const struct zr_rates *rates, struct zr_forecast *out,
		     struct zr_error *err)
{
	int rc = 0;

	*out = (struct zr_forecast){ 0 };
	for (int id = 0; !rc && id < ZR_LOWERED; id++)
		rc = zr_order(s, &s->programs.lowered[id], err);
	for (int id = 0; !rc && id < ZR_LOWERED; id++)
		rc = program(s, rates, id, out, err);
	out->received = zr_traffic_received(s);
	for (int q = 0; q < ZR_FORECAST_QUEUES; q++)
		if (out->queue[q] > out->queue[out->binding])
			out->binding = q;
	return rc;
}
