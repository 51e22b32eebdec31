/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - how much memory this process may still take.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/memory/plan.h"

/* The number in the first line of a file that has the format. */
static int find_number(const char *path, const char *format, uint64_t *out)
{
	char line[128];
	unsigned long long v;
	int found = 0;
	FILE *f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof line, f))
		found = sscanf(line, format, &v) == 1; /* cgroup's "max" is no number: no limit */
	if (f)
		fclose(f);
	*out = found ? v : *out;
	return found;
}

/* What the control group at `dir` leaves of its limit; page cache that it could drop is not counted
 * as used. */
static uint64_t group_left(const char *dir, const char *limit_file, const char *used_file)
{
	char path[PATH_MAX];
	uint64_t limit, used = 0, cache = 0;
	snprintf(path, sizeof path, "%s/%s", dir, limit_file);
	if (!find_number(path, "%llu", &limit))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/%s", dir, used_file);
	if (!find_number(path, "%llu", &used))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/memory.stat", dir);
	find_number(path, "inactive_file %llu", &cache);
	used -= cache < used ? cache : used;
	return limit > used ? limit - used : 0;
}

/* The smallest over this process's group and its ancestors, version 2 ("0::/path") and 1
 * ("N:memory:/path"). */
static uint64_t cgroup_left(void)
{
	uint64_t least = UINT64_MAX;
	char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return least;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		int v2 = !strncmp(line, "0::", 3);
		char *path = strstr(line, ":memory:");
		if (!v2 && !path)
			continue;
		char dir[PATH_MAX + 32];
		snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s", v2 ? "" : "/memory",
			 v2 ? line + 3 : path + 8);
		const size_t root = strlen("/sys/fs/cgroup") + (v2 ? 0 : strlen("/memory"));
		for (char *end = dir + strlen(dir); end >= dir + root; end = strrchr(dir, '/')) {
			*end = 0;
			uint64_t left = v2 ? group_left(dir, "memory.max", "memory.current") :
					     group_left(dir, "memory.limit_in_bytes",
							"memory.usage_in_bytes");
			least = left < least ? left : least;
		}
	}
	fclose(f);
	return least;
}

uint64_t zr_memory_available(void)
{
	uint64_t have = UINT64_MAX / 1024, group = cgroup_left();
	struct rlimit lim;
	find_number("/proc/meminfo", "MemAvailable: %llu kB", &have);
	have *= 1024;
	if (group < have)
		have = group;
	if (!getrlimit(RLIMIT_AS, &lim) && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur < have)
		have = lim.rlim_cur;
	return have;
}
