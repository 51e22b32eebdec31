/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - see job.h.
 */
#define _GNU_SOURCE
#include "tests/faults/job.h"

#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void replace(int fd, const char *path, int flags)
{
	int file = open(path, flags | O_TRUNC | O_CREAT, 0666);
	if (file < 0)
		_exit(98);
	dup2(file, fd);
	close(file);
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void become(const struct job *j)
{
	setpgid(0, 0);
	replace(1, j->out, O_WRONLY);
	replace(2, j->err, O_WRONLY);
	set("LD_PRELOAD", j->preload);
	set("ZR_FAULT", j->fault);
	set("ZR_FAULT_COUNTS", j->counts);
	if (!chdir(j->dir))
		execv(j->argv[0], j->argv);
	_exit(98);
}

int job_run(const struct job *j)
{
	int status, late;
	pid_t pid = fork();
	if (pid < 0)
		err(99, "fork");
	if (pid == 0)
		become(j);
	setpgid(pid, pid);
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	late = p.fd < 0 || poll(&p, 1, (int)(j->limit * 1000)) <= 0;
	if (p.fd >= 0)
		close(p.fd);
	if (late)
		kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	kill(-pid, SIGKILL); /* ranks that it left */
	return late ? -1000 : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
