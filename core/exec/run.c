/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see exec.h: instructions begin in the order of the program.
 */
#include "core/exec/exec.h"
#include "core/exec/graphs.h"

static int run_one(struct zr_session *s, const struct zr_lowered *p, int32_t n,
		   struct zr_error *err)
{
	int rc = zr_begin(s, p, n, err);
	/* a store or comm holds no more: the oldest ends */
	if (rc == ZR_EAGAIN && !(rc = zr_writes_settle(s, err)))
		rc = zr_begin(s, p, n, err);
	for (int32_t k = 0; rc == ZR_EAGAIN && k < n; k++)
		if (s->bound[p->id].ticket[k] && !(rc = zr_end(s, p, k, err)))
			rc = zr_begin(s, p, n, err);
	if (rc != ZR_EAGAIN)
		return rc;
	return zr_err(err, ZR_EINTERNAL,
		      "[%s] answers ZR_EAGAIN and has no "
		      "request that could end; mend the plugin",
		      p->instr[n].kind == ZR_I_COLLECTIVE ? "comm" : "offload");
}

int zr_run_program(struct zr_session *s, int32_t id, struct zr_error *err)
{
	const struct zr_lowered *p = &s->programs->lowered[id];
	int32_t wait = 0;
	int rc;
	s->running = p;
	rc = zr_mark(s, &s->marks.program, err);
	for (int32_t n = 0; !rc && n < p->n; n++) {
		for (; !rc && wait < p->n_wait && p->wait[wait].instr == n; wait++)
			rc = zr_end_late(s, p->wait[wait].late, err);
		if (!rc)
			rc = run_one(s, p, n, err);
	}

	if (!rc)
		rc = zr_end_stretch(s, err);
	for (int32_t n = 0; !rc && n < p->n; n++)
		if (p->instr[n].flags & ZR_F_LATE)
			s->late = 1;
		else
			rc = zr_end(s, p, n, err);
	if (rc) { /* what another thread still computes is of this program */
		zr_beside_settle(s, &(struct zr_error){ 0 });
		zr_graph_drop(s);
	}
	zr_range_program_ends(s);
	s->in_place += p->in_place;
	s->running = NULL;
	return rc;
}
