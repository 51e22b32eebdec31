/* SPDX-License-Identifier: Apache-2.0
 *
 * crashes.c - a crash of the plugin is a failure of the test, which says what it did.
 */
#define _GNU_SOURCE
#include "cmd/check/check.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/crash.h"

static struct zr_check *caught;

static void describe_address(const char *at)
{
	const struct zr_area *a = zr_area_near(caught, at);
	char *text = caught->verdict->text;
	size_t room = sizeof caught->verdict->text;
	if (!a && !caught->plugin)
		snprintf(text, room, "it cannot be loaded: address %p was used; look at its "
			 "constructors, and whether opts, n_opts and opt_stride of its "
			 "descriptor are its options", (const void *)at);
	else if (!a)
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
	zr_check_end(caught, ZR_CHECK_FAILED);
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
