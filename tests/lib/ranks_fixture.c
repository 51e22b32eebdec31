/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_fixture.c - see ranks_fixture.h.
 */
#define _GNU_SOURCE
#include "ranks_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zeroth/boot.h>

static void set(const char *name, int value)
{
	char text[16];
	snprintf(text, sizeof text, "%d", value);
	setenv(name, text, 1);
}

int ranks_meeting(int ranks)
{
	const struct zr_local_head head = { .magic = ZR_LOCAL_MAGIC, .world = ranks };
	int fd = memfd_create("boot", MFD_ALLOW_SEALING);
	if (ftruncate(fd, ZR_LOCAL_BYTES) || pwrite(fd, &head, sizeof head, 0) != sizeof head ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -1;
	return fd;
}

int ranks_fork(int n, int (*fn)(int rank, void *arg), void *arg)
{
	int boot = ranks_meeting(n), sum = 0, status;
	fflush(NULL);
	for (int r = 0; r < n; r++) {
		pid_t pid = fork();
		if (pid < 0)
			sum += 1000;
		if (pid)
			continue;
		alarm(60);
		set("ZEROTH_LOCAL_RANK", r);
		set("ZEROTH_LOCAL_WORLD", n);
		set("ZEROTH_LOCAL_FD", boot);
		int rc = fn(r, arg);
		fflush(NULL);
		_exit(rc);
	}
	while (wait(&status) > 0)
		sum += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
	close(boot);
	return sum;
}

void *ranks_shared(unsigned long bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}
