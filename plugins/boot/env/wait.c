/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waits until something appears in the directory. It looks every millisecond at first,
 * later ten times a second, and logs every 10 s which ranks are missing.
 */
#define _GNU_SOURCE
#include "env.h"

#include <string.h>
#include <time.h>

#define REPORT 10.0
#define LOOK_MIN 1e-3
#define LOOK_MAX 0.1

double ze_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say(const struct zr_inst *b, const struct ze_wish *w, double waited, char *text,
		size_t room)
{
	size_t n = (size_t)snprintf(text, room, "waited %.0f s for %s%s", waited,
				    w->key ? "the key " : "rank ", w->key ? w->key : "");
	int named = 0;
	for (int32_t r = 0; !w->key && r < b->mine.world && n < room; r++)
		if (!b->here[r])
			n += (size_t)snprintf(text + n, room - n, "%s%d", named++ ? ", " : "", r);
	if (!w->key && n < room)
		snprintf(text + n, room - n, " %s", w->what);
}

/* Fails if some rank stopped the run. */
static int check_stopped(struct zr_inst *b)
{
	char why[1024];
	int64_t n = b->id ? ze_read(b, 1, "stopped", why, sizeof why - 1) : -1;
	if (n < 0)
		return 0;
	why[n] = 0;
	return zr_fail(b->h, ZR_EPEER, "%s", why);
}

int ze_wait(struct zr_inst *b, struct ze_wish *w, double timeout)
{
	double start = ze_now(), said = start, nap = LOOK_MIN;
	char text[300];
	memset(b->here, 0, (size_t)b->mine.world);
	for (;;) {
		int rc = w->done(b, w);
		if (rc)
			return rc < 0 ? rc : 0;
		rc = check_stopped(b);
		if (rc)
			return rc;
		double now = ze_now();
		if (now - start >= timeout) {
			say(b, w, now - start, text, sizeof text);
			return zr_fail(b->h, ZR_EPEER, "timeout: %s", text);
		}
		if (now - said >= REPORT) {
			said = now;
			say(b, w, now - start, text, sizeof text);
			zr_log(b->h, ZR_LOG_WARN, "%s", text);
		}
		nanosleep(&(struct timespec){ 0, (long)(nap * 1e9) }, NULL);
		nap = nap * 1.5 < LOOK_MAX ? nap * 1.5 : LOOK_MAX;
	}
}
