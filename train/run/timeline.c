/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - see timeline.h.
 */
#include "train/run/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "train/share.h"

/* A failure comes back from the device's next operation. */
static void wait_for_device(const struct zr_setup *s)
{
	((const struct zr_device_v1 *)s->roles.device.vtbl)->sync(s->roles.device.inst, NULL);
}

static void note(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	struct zr_timeline *t = arg;

	if (!t->running)
		return; /* an evaluation */
	if (t->wait && !waited && p->instr[n].queue == ZR_Q_COMPUTE)
		wait_for_device(t->session->setup);

	double now = zr_now(), took = now - t->last;
	if (t->tracing)
		zr_trace_note(t->trace, p, n, waited, t->last, now);
	t->last = now;
	t->part[t->part_of[p->id][n]] += took;
	if (p->id == ZR_S_UPDATE || p->instr[n].flags & ZR_F_UPDATE)
		t->update += took;
}

int zr_timeline_open(struct zr_timeline *t, struct zr_session *s, struct zr_error *err)
{
	const struct zr_run_opts *o = zr_config_find(s->setup->cfg, "run")->opts;

	*t = (struct zr_timeline){ .session = s, .wanted = o->wall_clock_breakdown };
	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->setup->programs.lowered[id];
		t->part_of[id] = calloc((size_t)p->n + 1, 1);
		if (!t->part_of[id])
			return zr_err(err, ZR_ENOMEM, "out of memory for %d instructions", p->n);

		for (int32_t n = 0; n < p->n; n++)
			t->part_of[id][n] = (uint8_t)zr_part_of(&s->setup->programs, p, n);
	}

	s->ran_arg = t;
	s->ran = note;
	return 0;
}

int zr_timeline_trace(struct zr_timeline *t, const char *run_dir, struct zr_error *err)
{
	return zr_trace_open(t->session, run_dir, &t->trace, err);
}

void zr_timeline_close(struct zr_timeline *t)
{
	if (t->session)
		t->session->ran = NULL;
	zr_trace_close(t->trace);
	for (int id = 0; id < ZR_LOWERED; id++)
		free(t->part_of[id]);
	*t = (struct zr_timeline){ 0 };
}

void zr_timeline_begin(struct zr_timeline *t)
{
	int64_t step = t->session->step + 1;

	t->tracing = t->trace && zr_trace_wants(t->trace, step);
	t->wait = (t->wanted || t->tracing) && !t->session->setup->facts.device_info.unified;
	t->session->in_turn = t->wait;
	if (t->tracing)
		zr_trace_begin(t->trace, step);
	memset(t->part, 0, sizeof t->part);
	t->update = 0;
	t->running = 1;
	t->began = t->last = zr_now();
}

double zr_timeline_end(struct zr_timeline *t)
{
	double now = zr_now();

	t->part[ZR_PART_OTHER] += now - t->last;
	t->running = 0;
	for (int i = 0; i < ZR_PARTS; i++)
		t->sum[i] += t->part[i];
	if (t->tracing)
		zr_trace_end(t->trace);
	if (t->trace) /* all ranks have been at the boundary of this step */
		zr_trace_merge(t->trace, t->session->step - 1);
	return now - t->began;
}

int zr_timeline_ranks(const struct zr_timeline *t, double mine[ZR_PARTS], double min[ZR_PARTS],
		      double max[ZR_PARTS], struct zr_error *err)
{
	const size_t bytes = sizeof t->sum;
	int world = t->session->setup->facts.process.world;

	memcpy(mine, t->sum, bytes);
	memcpy(min, t->sum, bytes);
	memcpy(max, t->sum, bytes);
	if (!t->wanted)
		return 0;

	double(*all)[ZR_PARTS] = calloc((size_t)world, bytes);
	int rc;
	if (all)
		rc = zr_gather_bytes(t->session, mine, all, bytes, err);
	else
		rc = zr_no_memory(err);
	for (int r = 0; !rc && r < world; r++)
		for (int i = 0; i < ZR_PARTS; i++) {
			min[i] = all[r][i] < min[i] ? all[r][i] : min[i];
			max[i] = all[r][i] > max[i] ? all[r][i] : max[i];
		}
	free(all);
	return rc;
}
