/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - see trial.h.
 */
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOPPER     90 /* compute capability * 10 */
#define GRACE      5  /* seconds that a killed process may take to end */
#define UNKNOWN    (-1)
#define STILL_RUNS (-2)

extern char **environ;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a process ------------------------------------------------------------------- */

/* Starts it with signals as a new process has them; its output goes to *out. 0, or errno. */
static int start(const struct cuda_trial *t, pid_t *child, int *out)
{
	char gpu[16], seconds[16];
	char *const argv[] = { (char *)(uintptr_t)t->program, (char *)(uintptr_t)t->plugin, gpu,
			       seconds, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none, all;
	int fd[2], rc;

	snprintf(gpu, sizeof gpu, "%d", t->gpu);
	snprintf(seconds, sizeof seconds, "%d", (int)t->seconds + 1);
	if (pipe2(fd, O_CLOEXEC))
		return errno;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&how);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fd[1], STDOUT_FILENO);
	rc = posix_spawn(child, t->program, &files, &how, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);

	close(fd[1]);
	if (rc)
		close(fd[0]);
	*out = fd[0];
	return rc;
}

/* What it says until it has closed its output or time is up. */
static void listen_until(int fd, double end, char *text)
{
	size_t n = 0;

	for (double left = end - now(); left > 0 && n + 1 < CUDA_TRIAL_TEXT; left = end - now()) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (poll(&p, 1, (int)(left * 1e3) + 1) <= 0)
			continue;

		const ssize_t got = read(fd, text + n, CUDA_TRIAL_TEXT - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}

	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
}

/* Its status as waitpid() gives it, UNKNOWN or STILL_RUNS. */
static int wait_until(pid_t child, double end)
{
	for (;;) {
		int status;
		const pid_t got = waitpid(child, &status, WNOHANG);

		if (got == child)
			return status;
		if (got < 0 && errno != EINTR)
			return UNKNOWN; /* somebody else has asked, or SIGCHLD is ignored */
		if (now() >= end)
			return STILL_RUNS;
		nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
	}
}

/* ---- its end --------------------------------------------------------------------- */

#define REFUSED "attention = hopper: on GPU %d, %s, "
#define INSTEAD "; attention = generic does without"

static int judge(const struct zr_host *h, const struct cuda_trial *t, int status, const char *text)
{
	if (status == UNKNOWN)
		return zr_fail(h, ZR_ENOTSUP,
			       REFUSED "how the trial of its kernels ended is not known, as this "
				       "program ignores SIGCHLD or reaps all processes" INSTEAD,
			       t->gpu, t->name);
	if (WIFSIGNALED(status))
		return zr_fail(h, ZR_ENOTSUP,
			       REFUSED "the trial of its kernels was ended by signal %d, "
				       "%s" INSTEAD,
			       t->gpu, t->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		return zr_fail(h, ZR_ENOTSUP, REFUSED "its kernels failed their trial: %s" INSTEAD,
			       t->gpu, t->name, *text ? text : "it did not say why");
	if (!*text)
		return zr_fail(h, ZR_ENOTSUP,
			       REFUSED "the trial of its kernels compared nothing" INSTEAD, t->gpu,
			       t->name);
	return ZR_OK;
}

int cuda_trial(const struct zr_host *h, const struct cuda_trial *t, char *text)
{
	const double end = now() + t->seconds;
	pid_t child;
	int out;

	if (t->capability != HOPPER)
		return zr_fail(
			h, ZR_ENOTSUP,
			"attention = hopper: its kernels are for compute capability 9.0, and "
			"GPU %d, %s, has %d.%d" INSTEAD,
			t->gpu, t->name, t->capability / 10, t->capability % 10);

	int rc = start(t, &child, &out);
	if (rc)
		return zr_fail(h, ZR_EIO,
			       "attention = hopper: %s, which tries its kernels first, does not "
			       "start: %s" INSTEAD,
			       t->program, strerror(rc));

	listen_until(out, end, text);
	close(out);
	int status = wait_until(child, end);
	if (status != STILL_RUNS)
		return judge(h, t, status, text);

	kill(child, SIGKILL);
	status = wait_until(child, now() + GRACE);
	return zr_fail(h, ZR_ENOTSUP,
		       REFUSED "the trial of its kernels did not end in %g s%s" INSTEAD, t->gpu,
		       t->name, t->seconds,
		       status == STILL_RUNS ? ", nor when it was killed: the GPU may hang" : "");
}
