/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - what the program cuda-trial loads instead of device/cuda: the number of the GPU says
 * how the trial ends.
 */
#include "plugins/device/cuda/trial.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) cuda_trial_fn zr_cuda_trial;

/* Whoever reads the descriptor that ZR_TRIAL_FD names sees that it runs, and when it has ended. */
static void hang(void)
{
	const char *fd = getenv("ZR_TRIAL_FD");

	if (fd && write(atoi(fd), "r", 1) != 1)
		abort();
	signal(SIGALRM, SIG_IGN);
	for (;;)
		pause();
}

int zr_cuda_trial(int gpu, char *text, size_t room)
{
	sigset_t blocked;

	switch (gpu) {
	case 0:
		snprintf(text, room, "all agree");
		return 0;
	case 1:
		snprintf(text, room, "dq differs");
		return -1;
	case 2: /* no sanitizer catches it */
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
		return 0;
	case 3:
		hang();
		return 0;
	case 4: /* whoever reads what it prints reads the end of it */
		printf("all agree\n");
		fflush(stdout);
		close(STDOUT_FILENO);
		hang();
		return 0;
	case 5: /* it compares nothing */
		return 0;
	case 6:
		sigprocmask(SIG_SETMASK, NULL, &blocked);
		snprintf(text, room, "SIGTERM is %s",
			 sigismember(&blocked, SIGTERM) ? "blocked" : "free");
		return 0;
	default:
		exit(7);
	}
}
