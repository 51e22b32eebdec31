/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - see timeline.h.
 */
#include "cmd/timeline.h"

static void note(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	struct zr_timeline *t = arg;
	double now = zr_now(), took = now - t->last;
	(void)waited;
	t->last = now;
	if (p->id == ZR_S_UPDATE || p->instr[n].flags & ZR_F_UPDATE)
		t->update += took;
}

void zr_timeline_watch(struct zr_timeline *t, struct zr_session *s)
{
	s->ran_arg = t;
	s->ran = note;
}

void zr_timeline_begin(struct zr_timeline *t)
{
	t->last = zr_now();
	t->update = 0;
}
