/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c - a rank stops: it says why to all others, and makes no MPI call from then on.
 */
#define _GNU_SOURCE
#include "mpi.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define PART 0.03 /* of what was waited */
#define NAP  1e-3 /* the longest sleep */
#define PUSH 2.0  /* seconds that a rank which stops gives its message to leave */

double zm_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zm_doze(double waited)
{
	double nap = waited * PART < NAP ? waited * PART : NAP;
	if (waited > ZM_LOOK)
		nanosleep(&(struct timespec){ 0, (long)(nap * 1e9) }, NULL);
}

int zm_note_sent(struct zr_inst *c)
{
	int done = 0;
	return MPI_Testall(c->world, c->note_req, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS ||
	       done;
}

/* To all others; the note being sent must be free. */
void zm_send_note(struct zr_inst *c, int32_t what)
{
	size_t bytes = offsetof(struct zm_note, why);
	if (what == NOTE_STOPPED)
		bytes = sizeof c->note;
	c->note.what = what;
	for (int k = 0; k < GROUPS; k++)
		c->note.posted[k] = c->group[k].posted;
	for (int32_t r = 0; r < c->world; r++)
		if (r != c->rank) /* who has said that it leaves waits for this, too */
			MPI_Isend(&c->note, (int)bytes, MPI_BYTE, r, 0, c->notes, &c->note_req[r]);
}

/* Waits until the note being sent has left. 0: it does not. */
int zm_push_note(struct zr_inst *c)
{
	double start = zm_now(), waited = 0;
	while (!zm_note_sent(c)) {
		waited = zm_now() - start;
		if (waited > PUSH)
			return 0;
		zm_doze(waited);
	}
	return 1;
}

int zm_break(struct zr_inst *c, const char *why)
{
	snprintf(c->why, sizeof c->why, "%s", why);
	c->broken = 1;
	MPI_Comm_set_name(MPI_COMM_SELF, BROKEN);
	return zr_fail(c->h, ZR_EPEER, "%s", c->why);
}

int zm_stop(struct zr_inst *c, const char *fmt, ...)
{
	char why[sizeof c->note.why];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (c->broken)
		return zr_fail(c->h, ZR_EPEER, "%s", c->why);
	if (zm_push_note(c)) {
		snprintf(c->note.why, sizeof c->note.why, "%s", why);
		zm_send_note(c, NOTE_STOPPED);
		zm_push_note(c);
	}
	return zm_break(c, why);
}

int zm_enter(struct zr_inst *c)
{
	if (c->broken)
		return zr_fail(c->h, ZR_EPEER, "%s", c->why);
	if (atomic_load(&c->abort_state) == 2)
		return zm_stop(c, "rank %d stopped: %s", c->rank, c->abort_why);
	return 0;
}

int zm_mpi_failed(struct zr_inst *c, int rc, const char *call)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n;
	if (rc == MPI_SUCCESS)
		return 0;
	MPI_Error_string(rc, text, &n);
	return zm_stop(c, "rank %d: %s: %s", c->rank, call, text);
}
