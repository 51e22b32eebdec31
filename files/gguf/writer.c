/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c - see gguf.h: files that are written from their start to their end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "files/gguf/gguf.h"

#define FORMAT 3

static uint64_t padded(uint64_t bytes)
{
	return (bytes + ZR_GGUF_ALIGN - 1) / ZR_GGUF_ALIGN * ZR_GGUF_ALIGN;
}

void zr_gguf_make(struct zr_gguf_tensor *t, const char *name, int32_t type, int32_t ndim,
		  const int64_t *dims)
{
	int64_t elements = 1;

	*t = (struct zr_gguf_tensor){ .type = type, .ndim = ndim };
	snprintf(t->name, sizeof t->name, "%s", name);
	for (int32_t d = 0; d < ndim; d++) {
		t->dims[d] = dims[ndim - 1 - d];
		elements *= t->dims[d];
	}

	t->bytes = zr_gguf_bytes(type, elements);
}

static void append_u32(struct zr_gguf_writer *w, uint32_t value)
{
	zr_gguf_append(w, &value, sizeof value);
}

static void append_u64(struct zr_gguf_writer *w, uint64_t value)
{
	zr_gguf_append(w, &value, sizeof value);
}

static void append_head(struct zr_gguf_writer *w, const struct zr_gguf_keys *keys,
			const struct zr_gguf_tensor *t, int64_t n)
{
	uint64_t at = 0;

	zr_gguf_append(w, "GGUF", 4);
	append_u32(w, FORMAT);
	append_u64(w, (uint64_t)n);
	append_u64(w, keys->count);
	zr_gguf_append(w, keys->bytes, keys->used);

	for (int64_t i = 0; i < n; i++) {
		append_u64(w, strlen(t[i].name));
		zr_gguf_append(w, t[i].name, strlen(t[i].name));
		append_u32(w, (uint32_t)t[i].ndim);
		for (int32_t d = 0; d < t[i].ndim; d++)
			append_u64(w, (uint64_t)t[i].dims[d]);
		append_u32(w, (uint32_t)t[i].type);
		append_u64(w, at);
		at += padded(t[i].bytes);
	}

	zr_gguf_pad(w);
}

static void release(struct zr_gguf_writer *w)
{
	XXH3_freeState(w->hash);
	free(w->path);
	free(w->tmp);
}

static int check_room(const struct zr_gguf_writer *w, uint64_t bytes, struct zr_error *err)
{
	struct statvfs fs;

	if (fstatvfs(w->fd, &fs) || bytes <= (uint64_t)fs.f_bavail * fs.f_frsize)
		return 0;

	return zr_err(err, ZR_EIO,
		      "%s: the model needs %.1f MiB, the disk has %.1f MiB left: make room or "
		      "choose another directory",
		      w->path, (double)bytes / 0x1p20,
		      (double)fs.f_bavail * (double)fs.f_frsize / 0x1p20);
}

/* What has the name of the temporary file goes, and nothing is written through it. */
static int open_tmp(struct zr_gguf_writer *w, uint64_t bytes, struct zr_error *err)
{
	struct stat st;

	if (!lstat(w->path, &st))
		return zr_err(err, ZR_EINVAL, "%s exists already; choose another file or remove it",
			      w->path);

	if (!unlink(w->tmp) || errno == ENOENT)
		w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (w->fd < 0)
		return zr_err(err, errno == ENOENT || errno == ENOTDIR ? ZR_EINVAL : ZR_EIO,
			      "%s: cannot make the file: %s", w->tmp, strerror(errno));

	int rc = check_room(w, bytes, err);
	if (rc) {
		close(w->fd);
		unlink(w->tmp);
	}

	return rc;
}

int zr_gguf_create(struct zr_gguf_writer *w, const char *path, const struct zr_gguf_keys *keys,
		   const struct zr_gguf_tensor *t, int64_t n, struct zr_error *err)
{
	uint64_t bytes = keys->used;

	for (int64_t i = 0; i < n; i++)
		bytes += padded(t[i].bytes);
	*w = (struct zr_gguf_writer){ .path = strdup(path),
				      .tmp = zr_text("%s.tmp", path),
				      .fd = -1,
				      .hash = XXH3_createState() };
	int rc = 0;
	if (!w->path || !w->tmp || !w->hash || keys->failed)
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory for its keys", path);
	if (!rc)
		rc = open_tmp(w, bytes, err);
	if (rc) {
		release(w);
		return rc;
	}

	XXH3_64bits_reset(w->hash);
	append_head(w, keys, t, n);
	return 0;
}

void zr_gguf_append(struct zr_gguf_writer *w, const void *data, size_t bytes)
{
	if (!bytes)
		return;

	if (!w->failed)
		w->failed = zr_write_all_at(w->fd, data, bytes, ZR_HERE);
	XXH3_64bits_update(w->hash, data, bytes);
	w->bytes += bytes;
}

void zr_gguf_pad(struct zr_gguf_writer *w)
{
	static const char zeros[ZR_GGUF_ALIGN];

	zr_gguf_append(w, zeros, (size_t)(padded(w->bytes) - w->bytes));
}

/* Whether the file is what was appended. */
static int read_back(struct zr_gguf_writer *w, struct zr_error *err)
{
	const uint64_t written = XXH3_64bits_digest(w->hash);
	const uint64_t room = 1 << 20;
	char *buf = malloc(room);
	int fd = zr_file_open(AT_FDCWD, w->tmp, 0), no = fd < 0 ? errno : 0;
	struct stat st;

	if (!buf)
		no = ENOMEM;
	if (!no && fstat(fd, &st))
		no = errno;

	XXH3_64bits_reset(w->hash);
	for (uint64_t at = 0, n; !no && at < w->bytes; at += n) {
		n = w->bytes - at < room ? w->bytes - at : room;
		no = zr_read_all_at(fd, buf, n, at);
		if (!no)
			XXH3_64bits_update(w->hash, buf, n);
	}

	if (fd >= 0)
		close(fd);
	free(buf);
	if (no && no != ENODATA)
		return zr_file_failed(err, w->tmp, "cannot read it back", no);
	if (no || (uint64_t)st.st_size != w->bytes || XXH3_64bits_digest(w->hash) != written)
		return zr_err(err, ZR_EIO, "%s: what was written does not read back", w->tmp);
	return 0;
}

/* Gives the file its name, unless another one has it by now. */
static int take_name(const struct zr_gguf_writer *w)
{
	if (!link(w->tmp, w->path))
		return unlink(w->tmp) ? errno : 0;
	if (errno == EEXIST)
		return EEXIST;

	/* a file system without hard links */
	return rename(w->tmp, w->path) ? errno : 0;
}

int zr_gguf_finish(struct zr_gguf_writer *w, int keep, struct zr_error *err)
{
	int rc = 0;

	if (!w->failed && keep && fsync(w->fd))
		w->failed = errno;
	if (close(w->fd) && !w->failed)
		w->failed = errno;
	if (!w->failed && keep && !(rc = read_back(w, err)))
		w->failed = take_name(w);
	if (w->failed || rc || !keep)
		unlink(w->tmp);
	if (!w->failed && !rc && keep)
		w->failed = zr_sync_parent(w->path);
	if (w->failed && keep)
		rc = zr_err(err, ZR_EIO, "%s: cannot write: %s", w->path, strerror(w->failed));
	release(w);
	return rc;
}
