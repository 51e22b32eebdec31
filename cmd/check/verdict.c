/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.c - how a test ends, and what is looked at around each call of the plugin.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/run/oom.h"

#define LOOKS 200 /* calls after which the state of the process is compared: later ones are alike */

static int missed_memory;

void zr_check_missed_memory(void)
{
	missed_memory = 1;
}

void zr_check_end(struct zr_check *c, int state)
{
	char text[sizeof c->verdict->text];

	if (c->when && state == ZR_CHECK_FAILED) {
		snprintf(text, sizeof text, "%s: %.1400s", c->when, c->verdict->text);
		memcpy(c->verdict->text, text, sizeof text);
	}

	if (state == ZR_CHECK_FAILED && missed_memory) {
		snprintf(text, sizeof text, "this machine gives the test no memory; then: %.1400s",
			 c->verdict->text);
		memcpy(c->verdict->text, text, sizeof text);
		state = ZR_CHECK_UNTESTED;
	}

	c->verdict->state = state;
	if (c->told)
		*c->told = *c->verdict;
	_exit(0);
}

void zr_check_fail(struct zr_check *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->verdict->text, sizeof c->verdict->text, fmt, ap);
	va_end(ap);
	zr_check_end(c, ZR_CHECK_FAILED);
}

void zr_check_skip(struct zr_check *c, const char *why)
{
	snprintf(c->verdict->text, sizeof c->verdict->text, "%s", why);
	zr_check_end(c, ZR_CHECK_SKIPPED);
}

void zr_check_lacks(struct zr_check *c, const char *what)
{
	snprintf(c->verdict->text, sizeof c->verdict->text, "this machine gives the test no %s: %s",
		 what, strerror(errno));
	zr_check_end(c, ZR_CHECK_UNTESTED);
}

int zr_check_starved(int status)
{
	static long long before = -1;
	const long long kills = zr_oom_kills("");

	if (before < 0)
		before = kills;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && kills > before;
}

void zr_check_pool(struct zr_check *c, int threads, struct zr_pool **pool)
{
	int rc = zr_pool_new(threads, pool);
	if (!rc)
		return;

	errno = -rc;
	zr_check_lacks(c, "threads");
}

void zr_check_has_file(struct zr_check *c)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		zr_check_lacks(c, "file");
	close(fd);
}

void zr_check_catch_output(struct zr_check *c)
{
	for (int i = 0; i < 2; i++) {
		c->output[i] = memfd_create("output", MFD_CLOEXEC);
		if (c->output[i] < 0 || dup2(c->output[i], 1 + i) < 0)
			zr_check_lacks(c, "file");
	}
}

void zr_check_pass(struct zr_check *c)
{
	zr_check_end(c, ZR_CHECK_PASSED);
}

void zr_check_copy(struct zr_check *c, int threads, struct zr_check *copy)
{
	struct zr_verdict *own = malloc(sizeof *own);

	*copy = *c;
	if (!own)
		zr_check_lacks(c, "memory");
	zr_check_pool(c, threads, &copy->pool);
	*own = *c->verdict;
	copy->verdict = own;
	copy->told = c->told ? c->told : c->verdict;
	copy->n_areas = 0;
	copy->calls = LOOKS;
	memset(copy->other, 0, sizeof copy->other);
}

/* ---- around calls ---------------------------------------------------------------- */

void zr_blame(struct zr_check *c, const char *function)
{
	snprintf(c->verdict->function, sizeof c->verdict->function, "%s", function);
}

void zr_enter(struct zr_check *c, int tag, const char *function)
{
	zr_blame(c, function);
	c->tag = tag;
	if (c->calls++ < LOOKS)
		zr_process_look(&c->before);
	zr_pool_rounding(c->pool);
	if (c->entering)
		c->entering();
}

void zr_check_quiet(struct zr_check *c)
{
	static const char *const name[] = { "standard output", "standard error" };
	struct stat st;

	if (zr_pool_rounding(c->pool))
		zr_check_fail(c, "it left another floating-point mode (rounding, exceptions or "
				 "denormals); put the mode back before it returns");
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		char begin[80] = "";
		if (fstat(c->output[i], &st) || !st.st_size)
			continue;
		if (pread(c->output[i], begin, sizeof begin - 1, 0) < 0)
			*begin = 0;
		begin[strcspn(begin, "\n")] = 0;
		zr_check_fail(c, "it printed \"%s\" to %s; use zr_log", begin, name[i]);
	}
}

static int strictness(const struct zr_check *c)
{
	const char *role = c->plugin->desc->role;
	if (c->tag == ZR_MAIN)
		return ZR_ANY_CALL;
	return strcmp(role, "offload") && strcmp(role, "comm") ? ZR_NO_THREAD : ZR_STEP_CALL;
}

int zr_left(struct zr_check *c, int rc)
{
	struct zr_process_state after;

	if (c->calls <= LOOKS) {
		zr_process_look(&after);
		const char *what = zr_process_differs(&c->before, &after, strictness(c));
		if (what)
			zr_check_fail(c, "it changed %s; a plugin leaves the process as it is",
				      what);
	}

	zr_check_quiet(c);
	return rc;
}
