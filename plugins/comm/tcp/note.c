/* SPDX-License-Identifier: Apache-2.0
 *
 * note.c - messages from rank to rank beside the collectives: where a rank waits, that it stops and
 * why, that it leaves. They are small, and who takes none does not hinder the sender.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PUSH 2.0 /* seconds that a rank which stops gives its message to leave */

double tc_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
}

/* ---- sending --------------------------------------------------------------------- */

static void push(struct tc_peer *peer)
{
	while (peer->to_send && peer->fd[NOTES] >= 0 && !peer->ended) {
		const char *from = (const char *)(&peer->going + 1) - peer->to_send;
		ssize_t n = send(peer->fd[NOTES], from, peer->to_send, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			peer->to_send = 0;
		else
			peer->to_send -= (size_t)n;
	}
}

void tc_send_note(struct zr_inst *c, int32_t what, const struct tc_pend *p)
{
	struct tc_note note = { .what = what };
	for (int k = 0; k < GROUPS; k++)
		note.posted[k] = c->group[k].posted;
	if (p) {
		note.group = p->group;
		note.at = p->own;
	}
	if (what == NOTE_STOPPED)
		memcpy(note.why, c->why, sizeof note.why - 1);
	for (int32_t r = 0; r < c->world; r++) {
		struct tc_peer *peer = &c->peer[r];
		if (r == c->rank || peer->to_send || peer->fd[NOTES] < 0)
			continue; /* one whose last note is not through gets none that says less */
		peer->going = note;
		peer->to_send = sizeof note;
		push(peer);
	}
}

int tc_push_notes(struct zr_inst *c, double seconds)
{
	const double start = tc_now();
	for (;;) {
		int left = 0;
		for (int32_t r = 0; r < c->world; r++) {
			push(&c->peer[r]);
			left |= c->peer[r].to_send && !c->peer[r].ended;
		}
		if (!left || tc_now() - start > seconds)
			return !left;

		sleep_ms(1);
	}
}

/* ---- stopping -------------------------------------------------------------------- */

static int break_off(struct zr_inst *c, const char *why)
{
	snprintf(c->why, sizeof c->why, "%s", why);
	c->broken = 1;
	return zr_fail(c->h, ZR_EPEER, "%s", c->why);
}

int tc_stop(struct zr_inst *c, const char *fmt, ...)
{
	char why[900];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (c->broken)
		return zr_fail(c->h, ZR_EPEER, "%s", c->why);

	tc_push_notes(c, PUSH);
	break_off(c, why);
	tc_send_note(c, NOTE_STOPPED, NULL);
	tc_push_notes(c, PUSH);
	return ZR_EPEER;
}

int tc_enter(struct zr_inst *c)
{
	if (c->broken)
		return zr_fail(c->h, ZR_EPEER, "%s", c->why);
	if (atomic_load(&c->abort_state) == 2)
		return tc_stop(c, "rank %d stopped: %s", c->rank, c->abort_why);
	return 0;
}

int tc_lost(struct zr_inst *c, int32_t rank, int why)
{
	/* what the rank has said before counts */
	c->peer[rank].ended = 1;
	int rc = tc_read_notes(c);
	if (rc)
		return rc;
	c->follows = 1;
	return tc_stop(c, "rank %d has ended, or its connection was cut%s%s", rank, why ? ": " : "",
		       why ? strerror(why) : "");
}

/* ---- reading --------------------------------------------------------------------- */

static int is_note(const struct tc_note *n)
{
	if (n->group < 0 || n->group >= GROUPS)
		return 0;
	if (n->what == NOTE_STOPPED)
		return *n->why != 0;
	return n->what == NOTE_WAITS || n->what == NOTE_LEFT;
}

static int take(struct zr_inst *c, int32_t rank)
{
	struct tc_peer *peer = &c->peer[rank];
	struct tc_note *n = &peer->coming;
	n->why[sizeof n->why - 1] = 0;
	if (!is_note(n)) {
		c->follows = 1;
		return tc_stop(c, "rank %d sent what is no note: do all ranks run the same zeroth?",
			       rank);
	}
	peer->note = *n;
	peer->left |= n->what == NOTE_LEFT;
	if (n->what != NOTE_STOPPED)
		return 0;

	c->follows = 1;
	return break_off(c, n->why);
}

/* 1: its notes are over. */
static int read_of(struct zr_inst *c, int32_t rank)
{
	struct tc_peer *peer = &c->peer[rank];
	for (;;) {
		char *to = (char *)&peer->coming + peer->note_got;
		ssize_t n = recv(peer->fd[NOTES], to, sizeof peer->coming - peer->note_got,
				 MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return 1;

		peer->note_got += (size_t)n;
		if (peer->note_got < sizeof peer->coming)
			continue;
		peer->note_got = 0;
		int rc = take(c, rank);
		if (rc)
			return rc;
	}
}

int tc_read_notes_of(struct zr_inst *c, int32_t rank)
{
	struct tc_peer *peer = &c->peer[rank];
	if (peer->fd[NOTES] < 0)
		return 0;

	int rc = read_of(c, rank);
	if (rc < 0)
		return rc;

	int known = !rc || peer->left || peer->ended;
	peer->ended |= rc;
	return known ? 0 : tc_lost(c, rank, 0);
}

int tc_read_notes(struct zr_inst *c)
{
	int rc = 0;
	for (int32_t r = 0; !rc && r < c->world; r++)
		rc = tc_read_notes_of(c, r);
	return rc;
}

/* ---- leaving --------------------------------------------------------------------- */

static int all_left(const struct zr_inst *c)
{
	for (int32_t r = 0; r < c->world; r++)
		if (r != c->rank && !c->peer[r].left)
			return 0;
	return 1;
}

/* Waits until all are about to leave, or breaks. */
void tc_goodbye(struct zr_inst *c)
{
	const double start = tc_now();
	tc_push_notes(c, PUSH);
	tc_send_note(c, NOTE_LEFT, NULL);
	while (!c->broken && !(tc_push_notes(c, 0) && all_left(c))) {
		if (tc_read_notes(c))
			break;
		if (tc_now() - start > c->o->timeout)
			break_off(c, "timeout: other ranks do not come to the end of the run");
		else
			sleep_ms(5);
	}

	c->follows = 0; /* if others stopped now, then because of this one */
}
