/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.c - what runs, by name, for tools that watch the device: a step, in it the forward, the
 * backward and the update, in these each layer. Whatever fails, each range ends.
 */
#include <stdlib.h>

#include "core/exec/exec.h"

#define TEXT 96 /* bytes of a name */

enum phase { NONE, FORWARD, BACKWARD, UPDATE };

struct range {
	uint8_t phase; /* NONE: that of the instruction before */
	char *text;    /* of a layer; NULL: it has none */
};

struct zr_ranges {
	enum phase now;
	struct range *of[ZR_LOWERED]; /* [instructions] */
	char *texts;
};

static const struct zr_device_v1 *table(const struct zr_session *s)
{
	return s->roles->device.vtbl;
}

static void push(const struct zr_session *s, const char *text)
{
	table(s)->range_push(s->roles->device.inst, text);
}

static void pop(const struct zr_session *s)
{
	table(s)->range_pop(s->roles->device.inst);
}

/* ---- names ----------------------------------------------------------------------- */

static enum phase phase_of(const struct zr_session *s, const struct zr_lowered *p, int32_t n)
{
	const struct zr_program *r = zr_record_of(s->programs, p->id);
	const struct zr_instr *i = &p->instr[n];
	const struct zr_schedule *uses = &s->programs->train_uses;

	if (p->id == ZR_S_UPDATE || i->flags & ZR_F_UPDATE)
		return UPDATE;
	if (i->kind != ZR_I_LAYER || i->op < 0 || !r || r->op[i->op].kind != ZR_P_LAYER)
		return NONE;

	if (r->id == ZR_PROG_EVAL)
		uses = &s->programs->eval_uses;
	return uses->use[r->op[i->op].use].phase == ZR_FORWARD ? FORWARD : BACKWARD;
}

static int has_text(const struct zr_instr *i)
{
	return i->kind == ZR_I_LAYER && i->queue == ZR_Q_COMPUTE;
}

static size_t count_texts(const struct zr_session *s)
{
	size_t sum = 0;

	for (int id = 0; id < ZR_LOWERED; id++)
		for (int32_t n = 0; n < s->programs->lowered[id].n; n++)
			sum += has_text(&s->programs->lowered[id].instr[n]);
	return sum;
}

/* The names of a program are written from `text` on; returns what is behind them. */
static char *name_all(const struct zr_session *s, const struct zr_lowered *p, struct range *range,
		      char *text)
{
	for (int32_t n = 0; n < p->n; n++) {
		range[n].phase = (uint8_t)phase_of(s, p, n);
		if (!has_text(&p->instr[n]))
			continue;

		zr_instr_text(s->setup, p, n, text, TEXT);
		range[n].text = text;
		text += TEXT;
	}
	return text;
}

int zr_ranges_open(struct zr_session *s, struct zr_error *err)
{
	const struct zr_device_v1 *v = table(s);

	if (!ZR_HAS(v, struct zr_device_v1, range_pop) || !v->range_push || !v->range_pop)
		return 0;

	struct zr_ranges *r = calloc(1, sizeof *r);
	s->ranges = r;
	if (!r)
		return zr_no_memory(err);

	char *text = r->texts = calloc(count_texts(s) + 1, TEXT);
	for (int id = 0; text && id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs->lowered[id];
		r->of[id] = calloc((size_t)p->n + 1, sizeof *r->of[id]);
		text = r->of[id] ? name_all(s, p, r->of[id], text) : NULL;
	}
	return text ? 0 : zr_no_memory(err);
}

void zr_ranges_close(struct zr_session *s)
{
	struct zr_ranges *r = s->ranges;
	if (!r)
		return;

	for (int id = 0; id < ZR_LOWERED; id++)
		free(r->of[id]);
	free(r->texts);
	free(r);
	s->ranges = NULL;
}

/* ---- what runs ------------------------------------------------------------------- */

void zr_range_step(const struct zr_session *s, int begins)
{
	char text[32];
	if (!s->ranges)
		return;

	if (!begins) {
		pop(s);
		return;
	}
	snprintf(text, sizeof text, "step %lld", (long long)s->step + 1);
	push(s, text);
}

static void change_phase(const struct zr_session *s, enum phase to)
{
	static const char *const name[] = {
		[FORWARD] = "forward", [BACKWARD] = "backward", [UPDATE] = "update"
	};
	if (s->ranges->now == to)
		return;

	if (s->ranges->now != NONE)
		pop(s);
	if (to != NONE)
		push(s, name[to]);
	s->ranges->now = to;
}

void zr_range_program_ends(const struct zr_session *s)
{
	if (s->ranges)
		change_phase(s, NONE);
}

int zr_range_begins(const struct zr_session *s, const struct zr_lowered *p, int32_t n)
{
	if (!s->ranges)
		return 0;

	const struct range *r = &s->ranges->of[p->id][n];
	if (r->phase != NONE)
		change_phase(s, r->phase);
	if (!r->text)
		return 0;

	push(s, r->text);
	return 1;
}

void zr_range_ends(const struct zr_session *s)
{
	pop(s);
}
