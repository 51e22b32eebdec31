/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.c - see oom.h. Where the control group does not show its count, the whole machine's is better than none.
 */
#include "cmd/oom.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The number after "oom_kill " in the file, or -1. */
static long long counter(const char *path)
{
	char line[256];
	long long n = -1, v;
	FILE *f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "oom_kill %lld", &v) == 1)
			n = v;
	fclose(f);
	return n;
}

/* Version 2 has one group ("0::/path"), version 1 one per controller ("9:memory:/path"). */
static long long counter_of_group(void)
{
	char line[PATH_MAX], path[PATH_MAX + 64];
	long long n = -1;
	FILE *f = fopen("/proc/self/cgroup", "r");
	if (!f)
		return -1;
	while (n < 0 && fgets(line, sizeof line, f)) {
		char *group = strchr(line, ':'), *at = group ? strchr(group + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = 0;
		at[strcspn(at, "\n")] = 0;
		if (!group[1])
			snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.events", at);
		else if (strstr(group, "memory"))
			snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.oom_control", at);
		else
			continue;
		n = counter(path);
	}
	fclose(f);
	return n;
}

long long zr_oom_kills(void)
{
	long long n = counter_of_group();
	if (n < 0)
		n = counter("/proc/vmstat");
	return n < 0 ? 0 : n;
}
