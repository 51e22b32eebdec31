/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waits until something appears in the directory. It looks every millisecond at first,
 * later ten times a second, and logs every 10 s which ranks are missing.
 */
#define _GNU_SOURCE
#include "env.h"

#include <string.h>
#include <time.h>

#define REPORT   10.0
#define LOOK_MIN 1e-3
#define LOOK_MAX 0.1

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "waited 10 s for rank 1, 3 to join" */
static void say(const struct zr_inst *b, const struct ze_wish *w, double waited, char *text,
		size_t room)
{
	size_t n = (size_t)snprintf(text, room, "waited %.0f s for %s%s", waited,
				    w->key ? "the key " : "rank ", w->key ? w->key : "");
	int named = 0;

	if (w->key)
		return;

	for (int32_t r = 0; r < b->mine.world && n < room; r++)
		if (!b->here[r])
			n += (size_t)snprintf(text + n, room - n, "%s%d", named++ ? ", " : "", r);
	if (n < room)
		n += (size_t)snprintf(text + n, room - n, " %s", w->what);
	if (n < room && b->misfit.world)
		snprintf(text + n, room - n, "; a rank %d came that is one of %d ranks, not of %d",
			 b->misfit.rank, b->misfit.world, b->mine.world);
}

void ze_stop(struct zr_inst *b, const char *why)
{
	char text[1000];
	if (b->run < 0)
		return;

	snprintf(text, sizeof text, "rank %d stopped: %s", b->mine.rank, why);
	ze_try_write(b, b->run, b->id, "stopped", text, strlen(text));
}

/* Fails if some rank stopped the run. */
static int check_stopped(struct zr_inst *b)
{
	char why[1024];
	uint64_t bytes = 0;
	if (b->run < 0)
		return 0;

	int rc = ze_read_run(b, "stopped", why, sizeof why - 1, &bytes);
	if (rc <= 0)
		return rc;

	why[bytes] = 0;
	return zr_fail(b->h, ZR_EPEER, "%s", why);
}

static int give_up(struct zr_inst *b, const struct ze_wish *w, double waited)
{
	char text[400], why[420];

	say(b, w, waited, text, sizeof text);
	snprintf(why, sizeof why, "timeout: %s", text);
	if (w->stops)
		ze_stop(b, why);

	return zr_fail(b->h, ZR_EPEER, "%s", why);
}

int ze_wait(struct zr_inst *b, struct ze_wish *w, double timeout)
{
	double start = now(), said = start, nap = LOOK_MIN;
	char text[400];

	memset(b->here, 0, (size_t)b->mine.world);
	for (;;) {
		int rc = w->done(b, w);
		if (rc)
			return rc < 0 ? rc : 0;

		rc = check_stopped(b);
		if (rc)
			return rc;

		double at = now();
		if (at - start >= timeout)
			return give_up(b, w, at - start);
		if (at - said >= REPORT) {
			said = at;
			say(b, w, at - start, text, sizeof text);
			zr_log(b->h, ZR_LOG_WARN, "%s", text);
		}

		nanosleep(&(struct timespec){ 0, (long)(nap * 1e9) }, NULL);
		nap = nap * 1.5;
		if (nap > LOOK_MAX)
			nap = LOOK_MAX;
	}
}
