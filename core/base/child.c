/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - see child.h.
 */
#include "core/base/child.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int zr_child_wait(pid_t child, int *status)
{
	pid_t ended;
	do
		ended = waitpid(child, status, 0);
	while (ended < 0 && errno == EINTR);
	if (ended == child)
		return 0;
	*status = ZR_CHILD_UNKNOWN;
	return -1;
}

int zr_child_ended(pid_t child, int *status)
{
	pid_t ended = waitpid(child, status, WNOHANG);
	if (ended < 0 && errno == ECHILD)
		*status = ZR_CHILD_UNKNOWN;
	return ended == child || (ended < 0 && errno == ECHILD);
}

void zr_child_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL); /* fails for those that libc keeps to itself */
	sigprocmask(SIG_SETMASK, &none, NULL);
}
