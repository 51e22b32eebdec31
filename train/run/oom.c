/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.c - see oom.h. If the control group does not show its count, the count of the whole machine
 * is used.
 */
#include "train/run/oom.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The number after "oom_kill " in the file, or -1. */
static long long counter(const char *root, const char *mount, const char *group, const char *file)
{
	char path[2 * PATH_MAX], line[256];
	long long n = -1, v;

	snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file);
	FILE *f = fopen(path, "r");
	if (!f)
		return -1;

	while (fgets(line, sizeof line, f))
		if (sscanf(line, "oom_kill %lld", &v) == 1)
			n = v;
	fclose(f);
	return n;
}

/* A container may see its own group as the root of the mount while /proc knows its name on the
 * host. */
static long long counter_here(const char *root, const char *mount, const char *group,
			      const char *file)
{
	long long n = counter(root, mount, group, file);
	return n < 0 ? counter(root, mount, "", file) : n;
}

/* Version 2 has one group ("0::/path"), version 1 one per controller ("9:memory:/path"); a machine
 * may have both. */
static long long counter_of_group(const char *root)
{
	char line[PATH_MAX];
	long long n = -1;

	snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
	FILE *f = fopen(line, "r");
	if (!f)
		return -1;

	while (n < 0 && fgets(line, sizeof line, f)) {
		char *controllers = strchr(line, ':'),
		     *group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;

		*group++ = 0;
		group[strcspn(group, "\n")] = 0;
		if (!controllers[1])
			n = counter_here(root, "/sys/fs/cgroup", group, "memory.events");
		else if (strstr(controllers, "memory"))
			n = counter_here(root, "/sys/fs/cgroup/memory", group,
					 "memory.oom_control");
	}

	fclose(f);
	return n;
}

long long zr_oom_kills(const char *root)
{
	long long n = counter_of_group(root);
	if (n < 0)
		n = counter(root, "/proc", "", "vmstat");
	return n < 0 ? 0 : n;
}
