/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - the processor, memory and the limits of this process.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "doctor.h"
#include "train/fit.h"

/* The first line of a file without its end, or "". */
static const char *first_line(const char *path, char *out, size_t room)
{
	FILE *f = fopen(path, "re");

	*out = 0;
	if (f && !fgets(out, (int)room, f))
		*out = 0;
	if (f)
		fclose(f);
	out[strcspn(out, "\n")] = 0;
	return out;
}

static int number_of(const char *path, int otherwise)
{
	char line[64], *end;
	long v = strtol(first_line(path, line, sizeof line), &end, 10);
	return end == line ? otherwise : (int)v;
}

/* ---- the processor --------------------------------------------------------------- */

/* Adds the names of a line of flags that matter here. */
static void keep_sets(const char *flags, char *out, size_t room)
{
	static const char *const sets[] = { "avx2",        "fma",      "avx512f",  "avx512_bf16",
					    "avx512_fp16", "amx_tile", "amx_bf16", "asimd",
					    "sve",         "bf16" };

	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *at = flags;
		const size_t len = strlen(sets[i]), used = strlen(out);
		while ((at = strstr(at, sets[i])) &&
		       ((at > flags && at[-1] != ' ') || (at[len] && !strchr(" \n", at[len]))))
			at += len;
		if (at)
			snprintf(out + used, room - used, "%s%s", used ? " " : "", sets[i]);
	}
}

/* What control groups of version 2 and 1 say: "200000 100000", or two files. */
static double cpu_quota(void)
{
	char line[64];
	double quota = 0, period = 0;

	if (sscanf(first_line("/sys/fs/cgroup/cpu.max", line, sizeof line), "%lf %lf", &quota,
		   &period) == 2)
		return period > 0 ? quota / period : 0;
	quota = number_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 0);
	period = number_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
	return quota > 0 && period > 0 ? quota / period : 0;
}

void zr_look_processor(struct zr_machine *m)
{
	char line[8192];
	cpu_set_t set;

	FILE *f = fopen("/proc/cpuinfo", "re");
	while (f && fgets(line, sizeof line, f)) {
		const char *v = strchr(line, ':');
		if (!v)
			continue;

		v += 1 + strspn(v + 1, " \t");
		if (!strncmp(line, "model name", 10) && !*m->cpu)
			snprintf(m->cpu, sizeof m->cpu, "%.*s", (int)strcspn(v, "\n"), v);
		if ((!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) && !*m->sets)
			keep_sets(v, m->sets, sizeof m->sets);
	}

	if (f)
		fclose(f);
	m->processors = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
	m->quota = cpu_quota();
	m->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	m->available = zr_memory_at_start();
}

/* ---- limits ---------------------------------------------------------------------- */

static uint64_t limit_of(__rlimit_resource_t what)
{
	struct rlimit lim;
	if (getrlimit(what, &lim) || lim.rlim_cur == RLIM_INFINITY)
		return ZR_UNLIMITED;
	return lim.rlim_cur;
}

#define CAP_IPC_LOCK_BIT 14 /* of linux/capability.h */

static int may_lock(void)
{
	char line[256];
	unsigned long long caps = 0;

	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "CapEff: %llx", &caps);
	if (f)
		fclose(f);
	return caps >> CAP_IPC_LOCK_BIT & 1;
}

static int try_io_uring(void)
{
#ifdef __NR_io_uring_setup
	char parameters[256] = { 0 }; /* struct io_uring_params has 120 bytes */
	int fd = (int)syscall(__NR_io_uring_setup, 4, parameters);
	if (fd < 0)
		return errno;

	close(fd);
	return 0;
#else
	return ENOSYS;
#endif
}

/* "always [madvise] never" -> "madvise" */
static void chosen(const char *line, char *out, size_t room)
{
	const char *from = strchr(line, '['), *to = from ? strchr(from, ']') : NULL;
	*out = 0;
	if (to)
		snprintf(out, room, "%.*s", (int)(to - from - 1), from + 1);
}

void zr_look_limits(struct zr_machine *m)
{
	struct statvfs shm;
	char line[128];

	m->locked = limit_of(RLIMIT_MEMLOCK);
	m->files = limit_of(RLIMIT_NOFILE);
	m->file_size = limit_of(RLIMIT_FSIZE);
	m->addresses = limit_of(RLIMIT_AS);
	m->may_lock = may_lock();
	if (!statvfs("/dev/shm", &shm)) {
		m->shm = (uint64_t)shm.f_blocks * shm.f_frsize;
		m->shm_free = (uint64_t)shm.f_bavail * shm.f_frsize;
	}

	m->overcommit = number_of("/proc/sys/vm/overcommit_memory", -1);
	m->ptrace_scope = number_of("/proc/sys/kernel/yama/ptrace_scope", -1);
	chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line),
	       m->huge_pages, sizeof m->huge_pages);
	m->io_uring = try_io_uring();
}

void zr_machine_free(struct zr_machine *m)
{
	json_decref(m->plugins);
	m->plugins = NULL;
}
