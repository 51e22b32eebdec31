/* SPDX-License-Identifier: Apache-2.0
 *
 * libraries.c - MPI, CUDA and NCCL as this machine has them. Each is asked in a process of its own,
 * which a library may crash, end or make wait.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/child.h"
#include "core/base/file.h"
#include "doctor.h"
#include "train/run/outlet.h"

#define PATIENCE 10 /* seconds that a library may take to answer */

/* Says one line: 'y' and what there is, or 'n' and why there is nothing. */
static void answer(int fd, char yes, const char *text)
{
	char line[600];
	int n = snprintf(line, sizeof line, "%c%s", yes, text);
	zr_write_all_at(fd, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1, ZR_HERE);
	_exit(0);
}

/* A function of a library as the caller knows it. */
union symbol {
	void *p;
	int (*of_flags)(unsigned);
	int (*of_number)(int *);
	int (*of_name)(char *, int, int);
	int (*of_bytes)(size_t *, int);
};

static union symbol function(void *library, const char *name)
{
	return (union symbol){ .p = dlsym(library, name) };
}

/* The functions of cuda.h, by the names that its macros give them. */
static void ask_cuda(int fd)
{
	char text[512], name[96] = "";
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int version = 0, count = 0, rc, used;

	if (!lib)
		answer(fd, 'n', "no driver: there is no libcuda.so.1");
	const union symbol init = function(lib, "cuInit"),
			   driver = function(lib, "cuDriverGetVersion"),
			   devices = function(lib, "cuDeviceGetCount"),
			   name_of = function(lib, "cuDeviceGetName"),
			   bytes_of = function(lib, "cuDeviceTotalMem_v2");
	if (!init.p || !driver.p || !devices.p || !name_of.p || !bytes_of.p)
		answer(fd, 'n', "libcuda.so.1 lacks functions: it is too old");
	if ((rc = init.of_flags(0))) {
		snprintf(text, sizeof text, "the driver does not start: cuInit gives %d%s", rc,
			 rc == 100 ? " (no device)" : "");
		answer(fd, 'n', text);
	}

	driver.of_number(&version);
	devices.of_number(&count);
	used = snprintf(text, sizeof text, "driver for CUDA %d.%d, %d device%s", version / 1000,
			version % 1000 / 10, count, count == 1 ? "" : "s");
	for (int i = 0; i < count && used < (int)sizeof text; i++) {
		size_t bytes = 0;
		name_of.of_name(name, (int)sizeof name, i);
		bytes_of.of_bytes(&bytes, i);
		used += snprintf(text + used, sizeof text - (size_t)used, "%s %s %.0f GiB",
				 i ? "," : ":", name, (double)bytes / (1 << 30));
	}

	answer(fd, count ? 'y' : 'n', text);
}

static void ask_nccl(int fd)
{
	char text[64];
	void *lib = dlopen("libnccl.so.2", RTLD_NOW);
	int version = 0;

	const union symbol get = lib ? function(lib, "ncclGetVersion") :
				       (union symbol){ .p = NULL };
	if (!get.p || get.of_number(&version))
		answer(fd, 'n', "there is no libnccl.so.2");
	snprintf(text, sizeof text, "%d.%d.%d", version / 10000, version / 100 % 100,
		 version % 100);
	answer(fd, 'y', text);
}

/* The first line of `mpirun --version`. */
static void ask_mpi(int fd)
{
	char line[128] = "";

	FILE *f = popen("mpirun --version 2>/dev/null", "r");
	if (!f || !fgets(line, sizeof line, f) || pclose(f))
		answer(fd, 'n', "there is no mpirun in PATH");
	line[strcspn(line, "\n")] = 0;
	answer(fd, 'y', line);
}

static void ask(void (*fn)(int), char *is, size_t is_room, char *missing, size_t missing_room)
{
	char line[600] = "";
	int fd[2], status;
	ssize_t n = 0;

	*is = *missing = 0;
	snprintf(missing, missing_room, "it does not answer");
	if (pipe2(fd, O_CLOEXEC))
		return;

	zr_outlet_push();
	pid_t child = fork();
	if (!child) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		alarm(PATIENCE);
		fn(fd[1]);
		_exit(1);
	}

	close(fd[1]);
	for (ssize_t got; (size_t)n < sizeof line - 1; n += got) {
		got = read(fd[0], line + n, sizeof line - 1 - (size_t)n);
		if (got < 0 && errno == EINTR)
			got = 0;
		else if (got <= 0)
			break;
	}

	close(fd[0]);
	if (child > 0)
		zr_child_wait(child, &status);
	zr_one_line(line);
	if (*line == 'y') {
		snprintf(is, is_room, "%.*s", (int)is_room - 1, line + 1);
		*missing = 0;
	} else if (*line == 'n') {
		snprintf(missing, missing_room, "%.*s", (int)missing_room - 1, line + 1);
	}
}

void zr_look_libraries(struct zr_machine *m)
{
	ask(ask_mpi, m->mpi, sizeof m->mpi, m->mpi_missing, sizeof m->mpi_missing);
	ask(ask_cuda, m->cuda, sizeof m->cuda, m->cuda_missing, sizeof m->cuda_missing);
	ask(ask_nccl, m->nccl, sizeof m->nccl, m->nccl_missing, sizeof m->nccl_missing);
}
