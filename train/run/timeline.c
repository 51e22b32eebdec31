/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - see timeline.h.
 */
#include "train/run/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/share.h"

/* A failure comes back from the device's next operation. */
static void wait_for_device(const struct zr_setup *s)
{
	((const struct zr_device_v1 *)s->roles.device.vtbl)->sync(s->roles.device.inst, NULL);
}

/* ---- what the session calls ------------------------------------------------------ */

static int is_update(const struct zr_lowered *p, int32_t n)
{
	return p->id == ZR_S_UPDATE || p->instr[n].flags & ZR_F_UPDATE;
}

/* Whether the device's compute stream computes it, or waits for it. */
static int is_on_stream(const struct zr_instr *i)
{
	return i->queue == ZR_Q_COMPUTE || (i->queue == ZR_Q_COMM && i->flags & ZR_F_DEVICE);
}

static uint64_t mark(struct zr_timeline *t, const struct zr_lowered *p, int32_t n, int after)
{
	struct zr_clock_mark m = { ZR_CLOCK_NOTHING, t->part_of[p->id][n],
				   (uint8_t)is_update(p, n) };

	if (after && p->instr[n].queue == ZR_Q_COMPUTE)
		m.between = ZR_CLOCK_COMPUTED;
	else if (after)
		m.between = ZR_CLOCK_RANKS;
	return zr_clock_mark(t->clock, m, zr_now());
}

static void will(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	struct zr_timeline *t = arg;

	if (!t->running || !t->timing)
		return;

	if (is_on_stream(&p->instr[n])) {
		t->mark = mark(t, p, n, 0);
	} else if (t->tracing && p->instr[n].queue == ZR_Q_COPY && !waited) {
		t->copy = zr_trace_copy(t->trace);
		zr_clock_copies(t->clock, t->copy);
	}
}

/* What the host did since the last call. */
static void host_did(struct zr_timeline *t, const struct zr_lowered *p, int32_t n, int waited,
		     double now)
{
	enum zr_operand_part part = t->part_of[p->id][n];

	if (!waited && p->instr[n].queue != ZR_Q_HOST)
		part = ZR_PART_LAUNCH;
	zr_clock_did(t->clock, part, now);
}

/* A copy that does not was waited for, and passed no marks. */
static int goes_on(const struct zr_timeline *t, const struct zr_lowered *p, int32_t n)
{
	return t->session->bound[p->id].ticket[n] != 0;
}

/* When the device, or the thread beside, did it. */
static void trace_others(struct zr_timeline *t, const struct zr_lowered *p, int32_t n, int waited,
			 uint64_t after)
{
	const struct zr_instr *i = &p->instr[n];

	if (is_on_stream(i)) {
		zr_trace_marks(t->trace, p, n, waited ? 0 : t->mark, after);
	} else if (i->queue == ZR_Q_COPY && !waited) {
		zr_clock_copies(t->clock, -1);
		if (goes_on(t, p, n))
			zr_trace_copied(t->trace, p, n, t->copy);
	} else if (i->queue == ZR_Q_HOST && waited) {
		const struct zr_span *s = &t->beside[p->id][n];
		zr_trace_beside(t->trace, p, n, s->from, s->to);
	}
}

static void note(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	struct zr_timeline *t = arg;
	uint64_t after = 0;

	if (!t->running)
		return; /* an evaluation */
	if (t->wait && !waited && p->instr[n].queue == ZR_Q_COMPUTE)
		wait_for_device(t->session->setup);
	if (t->timing && is_on_stream(&p->instr[n]))
		after = mark(t, p, n, 1);

	double now = zr_now(), took = now - t->last;
	if (t->timing)
		host_did(t, p, n, waited, now);
	if (t->tracing)
		zr_trace_note(t->trace, p, n, waited, t->last, now);
	if (t->tracing && t->timing)
		trace_others(t, p, n, waited, after);
	t->last = now;
	t->part.of[t->part_of[p->id][n]] += took;
	if (is_update(p, n))
		t->update += took;
}

static void note_beside(void *arg, const struct zr_lowered *p, int32_t n, int over)
{
	struct zr_timeline *t = arg;
	struct zr_span *span = &t->beside[p->id][n];

	if (!t->clock)
		return;
	if (over)
		span->to = zr_now();
	else
		span->from = zr_now();
}

/* ---- opening --------------------------------------------------------------------- */

/* Marks around an instruction, when it begins and perhaps when it is waited for. */
static int64_t marks_around(const struct zr_instr *i)
{
	if (!is_on_stream(i))
		return 0;
	return i->queue == ZR_Q_COMPUTE ? 2 : 4;
}

/* Of each instruction the host does two things, it begins it and waits for it; beside these a step
 * begins and ends. */
static struct zr_clock_room room_of_two_steps(const struct zr_timeline *t)
{
	const struct zr_setup *s = t->session->setup;
	struct zr_clock_room of_one = { .marks = 4, .did = 4 };

	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs.lowered[id];
		const int64_t times = id == ZR_S_MICRO ? s->facts.batch.accumulation : 1;
		if (id == ZR_S_EVAL)
			continue;

		of_one.did += 2 * p->n * times;
		for (int32_t n = 0; n < p->n; n++)
			of_one.marks += marks_around(&p->instr[n]) * times;
	}
	return (struct zr_clock_room){ 2 * of_one.marks, 2 * of_one.did,
				       t->trace ? zr_trace_copies(t->session) : 0 };
}

static int open_clock(struct zr_timeline *t, struct zr_error *err)
{
	struct zr_setup *s = t->session->setup;

	if (!t->wanted && !t->trace)
		return 0;
	if (s->facts.device_info.unified || !zr_clock_has(&s->roles.device))
		return 0;

	const struct zr_clock_room room = room_of_two_steps(t);
	int rc = zr_clock_open(&s->roles.device, &room, &t->clock, err);
	if (!rc && t->trace)
		zr_trace_clock(t->trace, t->clock);
	return rc;
}

static int take_memory(struct zr_timeline *t, struct zr_error *err)
{
	const struct zr_setup_programs *programs = &t->session->setup->programs;

	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &programs->lowered[id];
		t->part_of[id] = calloc((size_t)p->n + 1, 1);
		t->beside[id] = calloc((size_t)p->n + 1, sizeof *t->beside[id]);
		if (!t->part_of[id] || !t->beside[id])
			return zr_err(err, ZR_ENOMEM, "out of memory for %d instructions", p->n);

		for (int32_t n = 0; n < p->n; n++)
			t->part_of[id][n] = (uint8_t)zr_part_of(programs, p, n);
	}
	return 0;
}

int zr_timeline_open(struct zr_timeline *t, struct zr_session *s, const char *run_dir,
		     struct zr_error *err)
{
	const struct zr_run_opts *o = zr_config_find(s->setup->cfg, "run")->opts;

	*t = (struct zr_timeline){ .session = s, .wanted = o->wall_clock_breakdown };
	int rc = take_memory(t, err);
	if (!rc && run_dir)
		rc = zr_trace_open(s, run_dir, &t->trace, err);
	if (!rc)
		rc = open_clock(t, err);
	if (rc)
		return rc;

	s->ran_arg = t;
	s->will = will;
	s->ran = note;
	s->runs_beside = note_beside;
	return 0;
}

void zr_timeline_close(struct zr_timeline *t)
{
	if (t->session) {
		t->session->will = NULL;
		t->session->ran = NULL;
		t->session->runs_beside = NULL;
	}
	zr_trace_close(t->trace);
	zr_clock_close(t->clock);
	for (int id = 0; id < ZR_LOWERED; id++) {
		free(t->part_of[id]);
		free(t->beside[id]);
	}
	*t = (struct zr_timeline){ 0 };
}

/* ---- steps ----------------------------------------------------------------------- */

static void mark_step(struct zr_timeline *t, enum zr_clock_between between, double now)
{
	const struct zr_clock_mark m = { between, ZR_PART_OTHER, 0 };

	if (!t->timing)
		return;
	zr_clock_did(t->clock, ZR_PART_OTHER, now);
	zr_clock_mark(t->clock, m, now);
}

/* The step before one that is traced has marks, too, so that clocks are set. */
static int wants_marks(const struct zr_timeline *t, int64_t step)
{
	if (!t->clock)
		return 0;
	return t->wanted || zr_trace_wants(t->trace, step) || zr_trace_wants(t->trace, step + 1);
}

void zr_timeline_begin(struct zr_timeline *t)
{
	int64_t step = t->session->step + 1;

	t->tracing = t->trace && zr_trace_wants(t->trace, step);
	t->timing = wants_marks(t, step);
	t->wait = (t->wanted || t->tracing) && !t->clock &&
		  !t->session->setup->facts.device_info.unified;
	t->session->in_turn = t->wait;
	t->session->alone = t->wait || t->timing;
	if (t->tracing)
		zr_trace_begin(t->trace, step);
	t->part = (struct zr_parts){ .idle = NAN };
	t->update = 0;
	t->running = 1;
	t->began = t->last = zr_now();
	mark_step(t, ZR_CLOCK_NO_STEP, t->began);
}

static void add(struct zr_parts *sum, const struct zr_parts *p)
{
	for (int i = 0; i < ZR_PARTS; i++)
		sum->of[i] += p->of[i];
	sum->idle += p->idle;
}

/* By the device's clock instead of the host's. */
static void read_clock(struct zr_timeline *t)
{
	struct zr_parts part = { 0 };
	double update = 0;

	if (!t->clock)
		return;
	zr_clock_read(t->clock, &part, &update);
	if (!t->wanted)
		return;

	t->part = part;
	t->update = update;
}

double zr_timeline_end(struct zr_timeline *t)
{
	const int64_t step = t->session->step, late = t->clock != NULL;
	const double now = zr_now();

	t->part.of[ZR_PART_OTHER] += now - t->last;
	mark_step(t, ZR_CLOCK_NOTHING, now);
	t->running = 0;
	read_clock(t);
	add(&t->sum, &t->part);
	if (t->trace) {
		zr_trace_write(t->trace, step - late);
		/* all ranks have been at the boundary of this step */
		zr_trace_merge(t->trace, step - 1 - late);
	}
	return now - t->began;
}

void zr_timeline_last(struct zr_timeline *t)
{
	if (!t->clock)
		return;

	wait_for_device(t->session->setup);
	t->part = (struct zr_parts){ 0 };
	read_clock(t);
	add(&t->sum, &t->part);
	if (t->trace)
		zr_trace_write(t->trace, t->session->step);
}

static double least(double a, double b)
{
	return b < a ? b : a;
}

static double most(double a, double b)
{
	return b > a ? b : a;
}

int zr_timeline_ranks(const struct zr_timeline *t, struct zr_parts *mine, struct zr_parts *min,
		      struct zr_parts *max, struct zr_error *err)
{
	int world = t->session->setup->facts.process.world;

	*mine = *min = *max = t->sum;
	if (!t->wanted)
		return 0;

	struct zr_parts *all = calloc((size_t)world, sizeof *all);
	int rc;
	if (all)
		rc = zr_gather_bytes(t->session, mine, all, sizeof *all, err);
	else
		rc = zr_no_memory(err);
	for (int r = 0; !rc && r < world; r++) {
		for (int i = 0; i < ZR_PARTS; i++) {
			min->of[i] = least(min->of[i], all[r].of[i]);
			max->of[i] = most(max->of[i], all[r].of[i]);
		}
		min->idle = least(min->idle, all[r].idle);
		max->idle = most(max->idle, all[r].idle);
	}
	free(all);
	return rc;
}
