/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate.c - see forecast.h: a program on queues. The thread that issues instructions begins them
 * in order (core/exec/run.c): before one it waits for what goes on beside it and is named in the
 * dependencies. A copy starts after the one computation among its dependencies, for which that
 * thread does not wait (core/exec/marks.c). On a device that computes at once, computing and what
 * the host does are that thread's own time, and so are collectives of ranks that are processes;
 * what other queues need its processors for slows it.
 */
#include "train/forecast/forecast.h"

struct clocks {
	double issue;                    /* of the thread */
	double free[ZR_FORECAST_QUEUES]; /* when each queue has done all that it was given */
};

/* Whether the thread does it itself: of the host's queue, beside a device with a memory of its own,
 * what another thread does not compute. */
static int by_thread(const struct zr_setup_facts *f, const struct zr_instr *i)
{
	if (i->queue == ZR_Q_HOST)
		return f->device_info.host_ops || !zr_beside_kind(i);
	return f->device_info.host_ops && (i->queue == ZR_Q_COMPUTE || i->queue == ZR_Q_COMM);
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

static double start_of(const struct zr_lowered *p, const struct zr_instr *i, const double *end)
{
	double start = 0;
	for (int32_t k = i->after; k < i->after + i->n_after; k++)
		start = later(start, end[p->dep[k]]);
	return start;
}

static void bound(const struct zr_setup_facts *f, const struct zr_lowered *p, struct clocks *c,
		  int32_t n, const struct zr_cost *cost, double *end)
{
	const struct zr_instr *i = &p->instr[n];
	double *free_at = &c->free[cost[n].queue];

	double computed = 0; /* what a copy comes after on the device */

	for (int32_t k = i->after; k < i->after + i->n_after; k++)
		if (p->instr[p->dep[k]].queue != ZR_Q_COMPUTE || i->queue == ZR_Q_HOST)
			c->issue = later(c->issue, end[p->dep[k]]);
		else if (i->queue == ZR_Q_COPY)
			computed = later(computed, end[p->dep[k]]);

	double start = later(later(c->issue, *free_at), computed);
	end[n] = *free_at = start + cost[n].seconds;

	if (by_thread(f, i))
		c->issue = end[n];
	c->issue += cost[n].beside;
}

double zr_forecast_run(const struct zr_setup_facts *f, const struct zr_lowered *p,
		       const struct zr_cost *cost, int unbound, double *end)
{
	struct clocks c = { 0 };
	double over = 0;

	for (int32_t n = 0; n < p->n; n++) {
		const struct zr_instr *i = &p->instr[n];
		if (!unbound) {
			bound(f, p, &c, n, cost, end);
		} else { /* what is computed is in order all the same */
			double start = start_of(p, i, end);
			if (i->queue < ZR_Q_IN_ORDER)
				start = later(start, c.free[i->queue]);
			end[n] = start + cost[n].seconds;
			c.free[i->queue] = later(c.free[i->queue], end[n]);
		}

		over = later(over, end[n]);
	}

	return over;
}
