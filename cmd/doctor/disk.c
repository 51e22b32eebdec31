/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.c - a directory that a run writes to: whether it can, how much, how fast.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/session.h"
#include "doctor.h"

#define BLOCK  (1u << 20)
#define BLOCKS 32

static const struct {
	unsigned long magic;
	const char *name;
	int memory;
} systems[] = {
	/* of statfs(2) */
	{ 0xef53, "ext4", 0 },       { 0x58465342, "xfs", 0 },   { 0x9123683e, "btrfs", 0 },
	{ 0x01021994, "tmpfs", 1 },  { 0x858458f6, "ramfs", 1 }, { 0x794c7630, "overlay", 0 },
	{ 0x6969, "nfs", 0 },        { 0x2fc12fc1, "zfs", 0 },   { 0x65735546, "fuse", 0 },
	{ 0x0bd00bd0, "lustre", 0 }, { 0x47504653, "gpfs", 0 },  { 0xf2f52010, "f2fs", 0 },
	{ 0xff534d42, "cifs", 0 },   { 0x01021997, "9p", 0 },
};

static void name_system(struct zr_disk *d)
{
	struct statfs s;

	if (statfs(d->path, &s))
		return;

	snprintf(d->system, sizeof d->system, "file system 0x%lx", (unsigned long)s.f_type);
	for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
		if (((unsigned long)s.f_type & 0xffffffff) == systems[i].magic) {
			snprintf(d->system, sizeof d->system, "%s", systems[i].name);
			d->memory = systems[i].memory;
		}
}

/* Bytes per second of one pass over the file; 0: it failed. */
static double pass(int fd, char *block, int write)
{
	const double began = zr_now();

	for (int i = 0; i < BLOCKS; i++) {
		const off_t at = (off_t)i * BLOCK;
		ssize_t n = write ? pwrite(fd, block, BLOCK, at) : pread(fd, block, BLOCK, at);
		if (n != BLOCK)
			return 0;
	}

	if (write && fsync(fd))
		return 0;
	return BLOCKS * (double)BLOCK / (zr_now() - began);
}

/* Without O_DIRECT what was written would be read from memory. */
static void measure(struct zr_disk *d, int fd)
{
	char *block = aligned_alloc(4096, BLOCK);
	if (!block)
		return;

	memset(block, 1, BLOCK);
	d->write = pass(fd, block, 1);
	d->read = d->write > 0 ? pass(fd, block, 0) : 0;
	free(block);
}

/* A file without a name, or with one that goes at once. */
static int make_file(const char *dir, int flags)
{
	char path[PATH_MAX + 40];

	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;

	snprintf(path, sizeof path, "%s/.zeroth-doctor-%d", dir, (int)getpid());
	fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* The directory itself, or the nearest above it that exists: runs make what is missing. */
static void nearest(const char *path, char out[PATH_MAX])
{
	char at[PATH_MAX];

	snprintf(at, sizeof at, "%s", *path ? path : ".");
	while (!realpath(at, out)) {
		char *slash = strrchr(at, '/');
		if (!slash || errno != ENOENT) {
			snprintf(at, sizeof at, "%s", *path == '/' ? "/" : ".");
			if (!realpath(at, out))
				snprintf(out, PATH_MAX, "%s", at);
			return;
		}

		*(slash == at ? slash + 1 : slash) = 0;
	}
}

void zr_look_disk(struct zr_machine *m, const char *what, const char *path, int rates)
{
	struct statvfs v;

	if (m->n_disks == ZR_DISKS)
		return;

	struct zr_disk *d = &m->disk[m->n_disks++];
	*d = (struct zr_disk){ .free = ZR_UNLIMITED };
	snprintf(d->what, sizeof d->what, "%s", what);
	nearest(path, d->path);
	for (int i = 0; i < m->n_disks - 1; i++)
		if (!strcmp(m->disk[i].path, d->path)) {
			*d = m->disk[i];
			snprintf(d->what, sizeof d->what, "%s", what);
			return;
		}
	name_system(d);
	if (!statvfs(d->path, &v))
		d->free = (uint64_t)v.f_bavail * v.f_frsize;
	int fd = make_file(d->path, 0);
	d->no = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	fd = d->no ? -1 : make_file(d->path, O_DIRECT);
	d->direct = fd >= 0;
	if (fd >= 0 && rates && d->free > 4ull * BLOCKS * BLOCK)
		measure(d, fd);
	if (fd >= 0)
		close(fd);
}
