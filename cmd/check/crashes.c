/* SPDX-License-Identifier: Apache-2.0
 *
 * crashes.c - a crash of the plugin is a failure of the test, which says what it did.
 */
#include "cmd/check/check.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/run/crash.h"

static struct zr_check *first;                /* of the process */
static _Thread_local struct zr_check *caught; /* of this thread */

static void describe_address(struct zr_check *c, const char *at)
{
	const struct zr_area *a = zr_area_near(c, at);
	char *text = c->verdict->text;
	size_t room = sizeof c->verdict->text;

	if (!a && !c->plugin)
		snprintf(text, room,
			 "it cannot be loaded: address %p was used; look at its "
			 "constructors, and whether opts, n_opts and opt_stride of its "
			 "descriptor are its options",
			 (const void *)at);
	else if (!a)
		snprintf(text, room,
			 "it used address %p, which is not lent to it; run the test "
			 "in a debugger, or build with -fsanitize=address",
			 (const void *)at);
	else if (a->access == PROT_NONE)
		snprintf(text, room,
			 "it used %s, which is memory of a device that the processor "
			 "cannot reach; mem_ok has ZR_MEM_DEVICE: compute with what the step "
			 "lends (elementwise, ops, native), or take the bit out",
			 a->name);
	else if (at >= a->base && at < a->base + a->bytes)
		snprintf(text, room,
			 "it wrote into %s, %llu bytes from its start, which is "
			 "read-only; copy what must change",
			 a->name, (unsigned long long)(at - a->base));
	else
		snprintf(text, room,
			 "it went beyond %s of %llu bytes, to %lld bytes from its "
			 "start; keep to the elements that it was given",
			 a->name, (unsigned long long)a->bytes, (long long)(at - a->base));
}

static void catch (int sig, siginfo_t *info, void *unused)
{
	struct zr_check *c = caught ? caught : first;

	(void)unused;
	if (c->verdict->state != ZR_CHECK_RUNS)
		_exit(1);
	if (sig == SIGSEGV || sig == SIGBUS) {
		describe_address(c, info->si_addr);
	} else {
		char name[64];
		snprintf(c->verdict->text, sizeof c->verdict->text,
			 "it was killed by %s; run the test in a debugger",
			 zr_signal_text(sig, name, sizeof name));
	}

	zr_check_end(c, ZR_CHECK_FAILED);
}

void zr_check_catch(struct zr_check *c)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	static _Thread_local char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack }, there;
	struct sigaction act = { .sa_sigaction = catch,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	caught = c;
	/* a sanitizer gives a thread one, and takes back at the thread's end what it finds then */
	if (sigaltstack(NULL, &there) || there.ss_flags & SS_DISABLE)
		sigaltstack(&alternate, NULL);
	if (first)
		return;

	first = c;
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &act, NULL);
}
