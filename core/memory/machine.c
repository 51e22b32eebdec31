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

static int read_number(const char *path, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	unsigned long long v;
	int ok = fscanf(f, "%llu", &v) == 1; /* cgroup's "max" is no number: no limit */
	fclose(f);
	if (ok)
		*out = v;
	return ok ? 0 : -1;
}

static uint64_t meminfo_available(void)
{
	uint64_t kib = UINT64_MAX / 1024;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");
	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof line, f)) {
		unsigned long long v;
		if (sscanf(line, "MemAvailable: %llu kB", &v) == 1)
			kib = v;
	}
	fclose(f);
	return kib * 1024;
}

/* What the control group at `dir` leaves of its limit; page cache that it could drop is not counted as used. */
static uint64_t group_left(const char *dir, const char *limit_file, const char *used_file)
{
	char path[PATH_MAX];
	uint64_t limit, used = 0, cache = 0;
	snprintf(path, sizeof path, "%s/%s", dir, limit_file);
	if (read_number(path, &limit))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/%s", dir, used_file);
	if (read_number(path, &used))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/memory.stat", dir);
	FILE *f = fopen(path, "re");
	char line[128];
	while (f && fgets(line, sizeof line, f)) {
		unsigned long long v;
		if (sscanf(line, "inactive_file %llu", &v) == 1)
			cache = v;
	}
	if (f)
		fclose(f);
	used -= cache < used ? cache : used;
	return limit > used ? limit - used : 0;
}

/* The smallest over this process's group and its ancestors, version 2 ("0::/path") and 1 ("N:memory:/path"). */
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
		snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s", v2 ? "" : "/memory", v2 ? line + 3 : path + 8);
		for (size_t root = strlen(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory"); strlen(dir) >= root;) {
			uint64_t left = v2 ? group_left(dir, "memory.max", "memory.current") :
					     group_left(dir, "memory.limit_in_bytes", "memory.usage_in_bytes");
			if (left < least)
				least = left;
			char *slash = strrchr(dir, '/');
			if (strlen(dir) == root || !slash)
				break;
			*slash = 0;
		}
	}
	fclose(f);
	return least;
}

uint64_t zr_memory_available(void)
{
	uint64_t have = meminfo_available(), group = cgroup_left();
	struct rlimit lim;
	if (group < have)
		have = group;
	if (!getrlimit(RLIMIT_AS, &lim) && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur < have)
		have = lim.rlim_cur;
	return have;
}
