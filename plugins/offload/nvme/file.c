/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - objects as files: how they may be read and written, their space, and whether they are
 * still whole.
 */
#define _GNU_SOURCE
#include "nvme.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- direct I/O ------------------------------------------------------------------ */

/* NULL, or why direct I/O is not possible. */
static const char *probe_direct(struct zr_inst *d)
{
	int fd = openat(d->dir, NV_LOCK, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		return strerror(errno);

	close(fd);
#ifdef STATX_DIOALIGN
	struct statx sx;
	if (statx(d->lock, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) ||
	    !(sx.stx_mask & STATX_DIOALIGN))
		/* older than Linux 6.1, or a file system that does not tell: 4096 suits all
		 * disks */
		return NULL;
	if (!sx.stx_dio_offset_align)
		return "the file system has none for these files";
	if (sx.stx_dio_offset_align > d->unit)
		d->unit = sx.stx_dio_offset_align;
	if (sx.stx_dio_mem_align)
		d->mem_align = sx.stx_dio_mem_align;
#endif
	return NULL;
}

int nv_probe(struct zr_inst *d)
{
	const char *why;

	d->unit = d->mem_align = NV_UNIT;
	why = probe_direct(d);
	d->direct = !why;
	if (why) {
		d->mem_align = 1;
		zr_log(d->h, ZR_LOG_WARN,
		       "%s: no direct I/O (%s): data goes through the page cache, which takes "
		       "memory and time",
		       d->o->path, why);
	}

	if (d->o->block_size % d->unit)
		return zr_fail(d->h, ZR_EINVAL,
			       "block_size = %llu: direct I/O in %s moves multiples of %llu bytes",
			       (unsigned long long)d->o->block_size, d->o->path,
			       (unsigned long long)d->unit);

	return ZR_OK;
}

/* ---- space ----------------------------------------------------------------------- */

uint64_t nv_free_bytes(const struct zr_inst *d)
{
	struct statvfs v;
	if (fstatvfs(d->dir, &v) || !v.f_blocks)
		return UINT64_MAX; /* unknown */
	return (uint64_t)v.f_bavail * v.f_frsize;
}

static int full(struct zr_inst *d, const struct nv_object *o, const char *key, uint64_t unused,
		const char *why)
{
	return zr_fail(
		d->h, ZR_EFIT,
		"%s: %s needs %llu bytes and %llu are free (%s); free some, take a larger disk or "
		"offload less",
		d->path, key, (unsigned long long)o->room, (unsigned long long)unused, why);
}

/* Without fallocate, what is free now is all that can be known. */
static int reserve_unsure(struct zr_inst *d, const struct nv_object *o)
{
	if (ftruncate(o->fd, (off_t)o->room))
		return zr_fail(d->h, ZR_EIO, "%s/%s: cannot make it %llu bytes long: %s", d->path,
			       o->name, (unsigned long long)o->room, strerror(errno));
	if (!d->told_unreserved)
		zr_log(d->h, ZR_LOG_WARN,
		       "%s: the file system cannot reserve space: a disk that fills up later ends "
		       "the run",
		       d->o->path);
	d->told_unreserved = 1;
	return ZR_OK;
}

static int reserve(struct zr_inst *d, struct nv_object *o, const char *key)
{
	struct rlimit limit;
	uint64_t unused = nv_free_bytes(d);
	int rc;

	/* beyond it, fallocate would raise SIGXFSZ */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    o->room > limit.rlim_cur)
		return full(d, o, key, limit.rlim_cur, "in one file: ulimit -f");
	if (o->room > unused)
		return full(d, o, key, unused, strerror(ENOSPC));

	do
		rc = fallocate(o->fd, 0, 0, (off_t)o->room);
	while (rc && errno == EINTR);
	if (!rc)
		return ZR_OK;
	if (errno == EOPNOTSUPP || errno == ENOSYS)
		return reserve_unsure(d, o);
	if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
		return full(d, o, key, unused, strerror(errno));

	return zr_fail(d->h, ZR_EIO, "%s/%s: cannot reserve %llu bytes: %s", d->path, o->name,
		       (unsigned long long)o->room, strerror(errno));
}

/* ---- objects --------------------------------------------------------------------- */

/* Checksums of zeros, which is what a reserved file reads as. */
static int make_sums(struct zr_inst *d, struct nv_object *o)
{
	uint64_t n = o->room / d->unit - 1, zeros;
	void *unit = calloc(1, d->unit); /* for a moment: the account has what stays */
	if (!unit)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for a unit of %llu bytes",
			       (unsigned long long)d->unit);

	zeros = XXH3_64bits(unit, d->unit);
	free(unit);
	o->sum = d->h->alloc(d->h, n * sizeof *o->sum, "checksums");
	if (!o->sum)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for %llu checksums",
			       (unsigned long long)n);

	for (uint64_t i = 0; i < n; i++)
		o->sum[i] = zeros;

	return ZR_OK;
}

static int make_file(struct zr_inst *d, struct nv_object *o, const char *key)
{
	struct stat st;

	snprintf(o->name, sizeof o->name, "%03u-%.60s" NV_DATA, d->made++, key);
	o->fd = openat(d->dir, o->name,
		       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (d->direct ? O_DIRECT : 0), 0600);
	if (o->fd < 0)
		return zr_fail(d->h, ZR_EIO, "%s/%s: cannot create it: %s", d->path, o->name,
			       strerror(errno));

	int rc = reserve(d, o, key);
	if (!rc && fstat(o->fd, &st))
		rc = zr_fail(d->h, ZR_EIO, "%s/%s: %s", d->path, o->name, strerror(errno));
	if (!rc)
		o->links = st.st_nlink;

	return rc;
}

static void end(struct zr_inst *d, struct nv_object *o)
{
	if (o->fd >= 0) {
		close(o->fd);
		if (unlinkat(d->dir, o->name, 0))
			zr_log(d->h, ZR_LOG_WARN, "cannot remove %s/%s: %s", d->path, o->name,
			       strerror(errno));
	}

	d->h->release(d->h, o->sum);
	free(o);
}

int nv_make(struct zr_inst *d, const char *key, uint64_t bytes, uint64_t *object)
{
	struct nv_object *o;
	int rc;

	if (!*key || strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(key))
		return zr_fail(d->h, ZR_EINVAL, "\"%s\" is not a key: [a-z0-9._-]+", key);
	if (!bytes || bytes > INT64_MAX / 2)
		return zr_fail(d->h, ZR_EINVAL, "%s: an object of %llu bytes", key,
			       (unsigned long long)bytes);

	o = calloc(1, sizeof *o);
	if (!o)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for an object");

	o->bytes = bytes;
	o->room = ((bytes - 1) / d->unit + 2) * d->unit;
	rc = make_file(d, o, key);
	if (!rc && d->o->checksums)
		rc = make_sums(d, o);
	if (rc) {
		end(d, o);
		return rc;
	}

	o->next = d->objects;
	d->objects = o;
	*object = (uint64_t)(uintptr_t)o;
	return ZR_OK;
}

int nv_discard(struct zr_inst *d, uint64_t object)
{
	struct nv_object *o = nv_object(object), **at = &d->objects;
	if (o->outstanding)
		return zr_fail(d->h, ZR_ESTATE, "%s: %u requests of it are outstanding", o->name,
			       o->outstanding);
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	end(d, o);
	return ZR_OK;
}

/* ---- still whole? ---------------------------------------------------------------- */

/* What was written back late and failed would be read as it was before, once the page cache dropped
 * it. Looking after the read cannot miss it. */
static int lost_write(const struct zr_inst *d, const struct nv_request *r)
{
	return !d->direct && !r->write &&
	       sync_file_range(r->object->fd, (off_t)r->off, (off_t)r->bytes,
			       SYNC_FILE_RANGE_WAIT_BEFORE) &&
	       errno != ESPIPE;
}

void nv_examine(struct zr_inst *d, struct nv_request *r)
{
	const struct nv_object *o = r->object;
	struct stat st;
	if (fstat(o->fd, &st))
		nv_refuse(r, "%s/%s: %s", d->path, o->name, strerror(errno));
	else if ((uint64_t)st.st_size != o->room)
		nv_refuse(r, "%s/%s: somebody changed its size from %llu to %llu bytes", d->path,
			  o->name, (unsigned long long)o->room, (unsigned long long)st.st_size);
	else if (st.st_nlink < o->links)
		nv_refuse(r, "%s/%s: somebody removed it while the run uses it", d->path, o->name);
	else if (lost_write(d, r))
		nv_refuse(r, "%s/%s: an earlier write failed: %s", d->path, o->name,
			  strerror(errno));
}
