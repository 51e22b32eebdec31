/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - the part of a machine (its NUMA node) that a device is plugged into, by what the kernel
 * says in the device's directory, /sys/bus/pci/devices/ID.
 */
#ifndef ZR_PLUGINS_NEAR_H
#define ZR_PLUGINS_NEAR_H

#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first line of a file there; "": it has none. */
static inline void near_line(const char *dir, const char *file, char *out, int room)
{
	char path[4096 + 32];
	snprintf(path, sizeof path, "%s/%s", dir, file);
	FILE *f = fopen(path, "re");
	*out = 0;
	if (f && !fgets(out, room, f))
		*out = 0;
	if (f)
		fclose(f);
}

/* The number of the node; -1: it is not known, or the machine has no parts. */
static inline int near_node(const char *dir)
{
	char line[64];
	int node = -1;
	near_line(dir, "numa_node", line, sizeof line);
	if (sscanf(line, "%d", &node) != 1 || node < 0)
		return -1;
	return node;
}

/* The processors of the node, a list as "0-3,8": how many it has, of which processor[room] gets the
 * first; 0: not known. */
static inline int32_t near_processors(const char *dir, int32_t *processor, int32_t room)
{
	char line[4096];
	int32_t n = 0;
	int first, last, used;
	near_line(dir, "local_cpulist", line, sizeof line);

	for (const char *at = line; sscanf(at, "%d%n", &first, &used) == 1; at += *at == ',') {
		at += used;
		last = first;
		if (sscanf(at, "-%d%n", &last, &used) == 1)
			at += used;
		for (int k = first; k <= last && n < room; k++)
			processor[n++] = k;
	}
	return n;
}

/* Pages that nobody has touched yet are taken of the node while it has some. 0 or -1 and errno. */
static inline int near_prefer(void *p, uint64_t bytes, int node)
{
	enum { BITS = 8 * sizeof(unsigned long), NODES = 1024 };
	unsigned long nodes[NODES / BITS] = { 0 };
	if (node < 0 || node >= NODES)
		return 0;

	nodes[node / BITS] = 1ul << node % BITS;
	return (int)syscall(SYS_mbind, p, bytes, MPOL_PREFERRED, nodes, (unsigned long)NODES, 0);
}

#endif
