/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_write.c - see safetensors.h: writing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checkpoint/safetensors.h"

static json_t *describe(const struct zr_st_tensor *t)
{
	json_t *shape = json_array();
	for (int32_t d = 0; d < t->ndim; d++)
		json_array_append_new(shape, json_integer(t->dims[d]));
	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", zr_st_type(t->dtype), "shape", shape, "data_offsets", (json_int_t)t->at,
			 (json_int_t)(t->at + t->bytes));
}

char *zr_st_header(const struct zr_st_tensor *t, int64_t n, json_t *meta, size_t *bytes)
{
	json_t *root = json_object();
	char *text, *out = NULL;
	int bad = meta ? json_object_set(root, "__metadata__", meta) : 0;
	for (int64_t i = 0; i < n; i++)
		bad |= json_object_set_new(root, t[i].name, describe(&t[i]));
	text = bad ? NULL : json_dumps(root, JSON_COMPACT);
	json_decref(root);
	size_t len = text ? strlen(text) : 0;
	uint64_t padded = (len + 7) / 8 * 8;
	if (text && (out = malloc(sizeof padded + padded))) {
		memcpy(out, &padded, sizeof padded);
		memcpy(out + sizeof padded, text, len);
		memset(out + sizeof padded + len, ' ', padded - len);
		*bytes = sizeof padded + padded;
	}
	free(text);
	return out;
}

int zr_write_all_at(int fd, const void *data, size_t bytes, uint64_t at)
{
	for (const char *p = data; bytes;) {
		ssize_t n = pwrite(fd, p, bytes, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;
		p += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

int zr_write_all(int fd, const void *data, size_t bytes)
{
	for (const char *p = data; bytes;) {
		ssize_t n = write(fd, p, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;
		p += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int zr_st_create(struct zr_st_writer *w, const char *path, const struct zr_st_tensor *t, int64_t n, json_t *meta, struct zr_error *err)
{
	size_t bytes;
	*w = (struct zr_st_writer){ .path = strdup(path), .fd = -1 };
	char *header = zr_st_header(t, n, meta, &bytes);
	if (!w->path || !header || asprintf(&w->tmp, "%s.tmp", path) < 0) {
		free(header);
		free(w->path);
		return zr_err(err, ZR_ENOMEM, "%s: out of memory for its header", path);
	}
	w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (w->fd < 0)
		w->failed = errno;
	zr_st_append(w, header, bytes);
	free(header);
	return 0;
}

void zr_st_append(struct zr_st_writer *w, const void *data, size_t bytes)
{
	if (!w->failed)
		w->failed = zr_write_all(w->fd, data, bytes);
}

int zr_st_finish(struct zr_st_writer *w, int keep, struct zr_error *err)
{
	int rc = 0;
	if (!w->failed && keep && fsync(w->fd))
		w->failed = errno;
	if (w->fd >= 0 && close(w->fd) && !w->failed)
		w->failed = errno;
	if (!w->failed && keep && rename(w->tmp, w->path))
		w->failed = errno;
	if ((w->failed || !keep) && w->fd >= 0)
		unlink(w->tmp);
	if (w->failed && keep)
		rc = zr_err(err, ZR_EIO, "%s: cannot write: %s", w->path, strerror(w->failed));
	free(w->path);
	free(w->tmp);
	return rc;
}
