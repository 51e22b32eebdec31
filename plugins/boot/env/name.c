/* SPDX-License-Identifier: Apache-2.0
 *
 * name.c - names of files, and of the process that writes them.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *ze_name(char *out, const char *what, int32_t rank)
{
	snprintf(out, NAME_ROOM, "%s-%d", what, rank);
	return out;
}

const char *ze_name_drawn(char *out, const char *what, int32_t rank, uint64_t draw)
{
	snprintf(out, NAME_ROOM, "%s-%d-%016llx", what, rank, (unsigned long long)draw);
	return out;
}

const char *ze_name_run(char *out, uint64_t id)
{
	snprintf(out, NAME_ROOM, "run-%016llx", (unsigned long long)id);
	return out;
}

int ze_is_drawn(const char *name, const char *what, int32_t *rank, uint64_t *draw)
{
	char again[NAME_ROOM];
	unsigned long long number;
	size_t n = strlen(what);
	if (strncmp(name, what, n) || sscanf(name + n, "-%9d-%16llx", rank, &number) != 2)
		return 0;

	*draw = number;
	return !strcmp(name, ze_name_drawn(again, what, *rank, *draw));
}

int ze_is_run(const char *name, uint64_t *id)
{
	char again[NAME_ROOM];
	unsigned long long number;
	if (sscanf(name, "run-%16llx", &number) != 1)
		return 0;

	*id = number;
	return !strcmp(name, ze_name_run(again, *id));
}

/* FNV-1a, with the end of each text as one more byte. */
uint64_t ze_hash(uint64_t hash, const char *text)
{
	if (!hash)
		hash = 0xcbf29ce484222325u;
	for (;; text++) {
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
		if (!*text)
			return hash;
	}
}

/* A pidfd also knows of the end of a process that nobody has waited for. */
int ze_has_ended(const struct zr_inst *b, const struct ze_hello *m)
{
	if (m->pid <= 0 || !m->machine || m->machine != b->mine.machine)
		return 0;

	int fd = (int)syscall(SYS_pidfd_open, m->pid, 0);
	if (fd < 0)
		return kill(m->pid, 0) && errno == ESRCH;

	struct pollfd end = { .fd = fd, .events = POLLIN };
	const int has_ended = poll(&end, 1, 0) > 0;
	close(fd);
	return has_ended;
}

/* A process number means the same to all that have the same start of the kernel and the same
 * namespace of process numbers. */
void ze_name_process(struct ze_hello *m)
{
	char boot[64] = "", space[64] = "";
	struct stat st;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	if (fd >= 0) {
		n = read(fd, boot, sizeof boot - 1);
		close(fd);
	}

	m->pid = (int32_t)getpid();
	if (n <= 0 || stat("/proc/self/ns/pid", &st))
		return;

	snprintf(space, sizeof space, "%llu", (unsigned long long)st.st_ino);
	m->machine = ze_hash(ze_hash(0, boot), space);
}
