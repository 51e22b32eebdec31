/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - how much memory this process may still take.
 */
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/numbers.h"
#include "core/memory/plan.h"

#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"

/* The number in the first line of a file in `dir` that has the format. */
static int find_number(const char *dir, const char *file, const char *format, uint64_t *out)
{
	char path[PATH_MAX + 64], line[128];
	unsigned long long v;
	int found = 0;
	snprintf(path, sizeof path, "%s/%s", dir, file);
	FILE *f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof line, f))
		found = sscanf(line, format, &v) == 1; /* cgroup's "max" is no number: no limit */
	if (f)
		fclose(f);
	if (found)
		*out = v;
	return found;
}

/* What the control group at `dir` leaves of its limit; page cache that it could drop is not counted
 * as used. */
static uint64_t group_left(const char *dir, const char *limit_file, const char *used_file)
{
	uint64_t limit = 0, used = 0, cache = 0;
	if (!find_number(dir, limit_file, "%llu", &limit) ||
	    !find_number(dir, used_file, "%llu", &used))
		return UINT64_MAX;
	find_number(dir, "memory.stat", "inactive_file %llu", &cache);
	used -= zr_min(cache, used);
	return limit - zr_min(limit, used);
}

/* The least that a group at `dir` below `root` and its ancestors leave. Cuts `dir`. */
static uint64_t least_left(char *dir, const char *root, const char *limit_file,
			   const char *used_file)
{
	uint64_t least = UINT64_MAX;
	for (; strlen(dir) >= strlen(root); *strrchr(dir, '/') = 0)
		least = zr_min(least, group_left(dir, limit_file, used_file));
	return least;
}

/* The least that this process's control group and its ancestors leave: a line of version 2 is
 * "0::/path", one of version 1 "N:memory:/path". */
static uint64_t cgroup_left(void)
{
	uint64_t least = UINT64_MAX;
	char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return least;

	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *path = strstr(line, ":memory:");
		char dir[PATH_MAX + 32]; /* absolute: there is a slash to cut it at */
		uint64_t left = UINT64_MAX;
		if (!strncmp(line, "0::", 3)) {
			snprintf(dir, sizeof dir, V2 "%s", line + 3);
			left = least_left(dir, V2, "memory.max", "memory.current");
		} else if (path) {
			snprintf(dir, sizeof dir, V1 "%s", path + 8);
			left = least_left(dir, V1, "memory.limit_in_bytes",
					  "memory.usage_in_bytes");
		}
		least = zr_min(least, left);
	}

	fclose(f);
	return least;
}

uint64_t zr_memory_available(void)
{
	uint64_t have = UINT64_MAX / 1024, group = cgroup_left();
	struct rlimit lim;
	find_number("/proc", "meminfo", "MemAvailable: %llu kB", &have);
	have = zr_min(have * 1024, group);
	if (!getrlimit(RLIMIT_AS, &lim) && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur < have)
		have = lim.rlim_cur;
	return have;
}
