/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.c - how a test ends, and what is looked at around each call of the plugin.
 */
#define _GNU_SOURCE
#include "cmd/check/check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/crash.h"

#define LOOKS 200 /* calls after which the state of the process is compared: later ones are alike */

static void end(struct zr_check *c, int state)
{
	c->verdict->state = state;
	_exit(0);
}

void zr_check_fail(struct zr_check *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->verdict->text, sizeof c->verdict->text, fmt, ap);
	va_end(ap);
	end(c, ZR_CHECK_FAILED);
	abort();
}

void zr_check_skip(struct zr_check *c, const char *why)
{
	snprintf(c->verdict->text, sizeof c->verdict->text, "%s", why);
	end(c, ZR_CHECK_SKIPPED);
	abort();
}

void zr_check_pass(struct zr_check *c)
{
	end(c, ZR_CHECK_PASSED);
	abort();
}

/* ---- crashes --------------------------------------------------------------------- */

static struct zr_check *caught;

static void describe_address(const char *at)
{
	const struct zr_area *a = zr_area_near(caught, at);
	char *text = caught->verdict->text;
	size_t room = sizeof caught->verdict->text;
	if (!a)
		snprintf(text, room, "it used address %p, which is not lent to it; run the test "
			 "in a debugger, or build with -fsanitize=address", (const void *)at);
	else if (at >= a->base && at < a->base + a->bytes)
		snprintf(text, room, "it wrote into %s, %llu bytes from its start, which is "
			 "read-only; copy what must change", a->name,
			 (unsigned long long)(at - a->base));
	else
		snprintf(text, room, "it went beyond %s of %llu bytes, to %lld bytes from its "
			 "start; keep to the elements that it was given", a->name,
			 (unsigned long long)a->bytes, (long long)(at - a->base));
}

static void catch(int sig, siginfo_t *info, void *unused)
{
	(void)unused;
	if (caught->verdict->state != ZR_CHECK_RUNS)
		_exit(1);
	if (sig == SIGSEGV || sig == SIGBUS) {
		describe_address(info->si_addr);
	} else {
		char name[64];
		snprintf(caught->verdict->text, sizeof caught->verdict->text,
			 "it was killed by %s; run the test in a debugger",
			 zr_signal_text(sig, name, sizeof name));
	}
	end(caught, ZR_CHECK_FAILED);
}

void zr_check_catch(struct zr_check *c)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction act = { .sa_sigaction = catch,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	caught = c;
	sigaltstack(&alternate, NULL);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &act, NULL);
}

/* ---- around calls ---------------------------------------------------------------- */

static struct zr_process_state before;

void zr_blame(struct zr_check *c, const char *function)
{
	snprintf(c->verdict->function, sizeof c->verdict->function, "%s", function);
}

void zr_enter(struct zr_check *c, int tag, const char *function)
{
	zr_blame(c, function);
	c->tag = tag;
	if (c->calls++ < LOOKS)
		zr_process_look(&before);
	zr_pool_rounding(c->pool);
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

int zr_left(struct zr_check *c, int rc)
{
	struct zr_process_state after;
	if (c->calls <= LOOKS) {
		zr_process_look(&after);
		const char *what = zr_process_differs(&before, &after, 0);
		if (what)
			zr_check_fail(c, "it changed %s; a plugin leaves the process as it is",
				      what);
	}
	zr_check_quiet(c);
	return rc;
}
