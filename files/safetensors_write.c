/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_write.c - see safetensors.h: writing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "files/safetensors.h"

static json_t *describe(const struct zr_st_tensor *t)
{
	json_t *shape = json_array();

	for (int32_t d = 0; d < t->ndim; d++)
		zr_json_add(&shape, json_integer(t->dims[d]));

	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", zr_dtype_find(t->dtype, NULL)->name,
			 "shape", shape, "data_offsets", (json_int_t)t->at,
			 (json_int_t)(t->at + t->bytes));
}

char *zr_st_header(const struct zr_st_tensor *t, int64_t n, json_t *meta, size_t *bytes)
{
	json_t *root = json_object();
	char *out = NULL;

	if (meta)
		zr_json_put(&root, "__metadata__", json_incref(meta));
	for (int64_t i = 0; i < n; i++)
		zr_json_put(&root, t[i].name, describe(&t[i]));
	char *text = zr_json_dump(root, JSON_COMPACT);
	json_decref(root);
	if (!text)
		return NULL;

	const size_t len = strlen(text);
	const uint64_t padded = (len + 7) / 8 * 8;
	out = malloc(sizeof padded + padded);
	if (out) {
		memcpy(out, &padded, sizeof padded);
		memcpy(out + sizeof padded, text, len);
		memset(out + sizeof padded + len, ' ', padded - len);
		*bytes = sizeof padded + padded;
	}

	free(text);
	return out;
}

/* What has the name of the temporary file goes, and nothing is written through it. */
int zr_st_create(struct zr_st_writer *w, const char *path, const struct zr_st_tensor *t, int64_t n,
		 json_t *meta, struct zr_error *err)
{
	size_t bytes;

	*w = (struct zr_st_writer){ .path = strdup(path),
				    .fd = -1,
				    .n = n,
				    .hash = XXH3_createState(),
				    .tmp = zr_text("%s.tmp", path) };
	char *header = zr_st_header(t, n, meta, &bytes);
	if (!w->path || !w->hash || !header || !w->tmp) {
		free(header);
		free(w->tmp);
		free(w->path);
		XXH3_freeState(w->hash);
		return zr_err(err, ZR_ENOMEM, "%s: out of memory for its header", path);
	}

	XXH3_64bits_reset(w->hash);
	if (!unlink(w->tmp) || errno == ENOENT)
		w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (w->fd < 0)
		w->failed = errno;
	zr_st_append(w, header, bytes);
	free(header);
	return 0;
}

void zr_st_append(struct zr_st_writer *w, const void *data, size_t bytes)
{
	if (!w->failed)
		w->failed = zr_write_all_at(w->fd, data, bytes, ZR_HERE);
	XXH3_64bits_update(w->hash, data, bytes);
	w->bytes += bytes;
}

/* The hash of a file's bytes. Returns an errno. */
static int hash_file(const struct zr_st *st, XXH3_state_t *hash)
{
	const uint64_t room = 1 << 20;
	char *buf = malloc(room);
	int no = 0;

	if (!buf)
		return ENOMEM;

	XXH3_64bits_reset(hash);
	for (uint64_t at = 0, n; !no && at < st->bytes; at += n) {
		n = st->bytes - at;
		if (n > room)
			n = room;
		no = zr_read_all_at(st->fd, buf, n, at);
		if (!no)
			XXH3_64bits_update(hash, buf, n);
	}

	free(buf);
	return no;
}

/* Whether the file is what was appended, and has as many tensors. */
static int read_back(const struct zr_st_writer *w, struct zr_error *err)
{
	const uint64_t written = XXH3_64bits_digest(w->hash);
	struct zr_st st;
	int rc = zr_st_open(w->tmp, &st, err);
	if (rc)
		return rc;

	int no = hash_file(&st, w->hash);
	if (no)
		rc = zr_file_failed(err, w->tmp, "cannot read it back", no);
	else if (st.n != w->n || st.bytes != w->bytes || XXH3_64bits_digest(w->hash) != written)
		rc = zr_err(err, ZR_EIO, "%s: what was written does not read back", w->tmp);
	zr_st_close(&st);
	return rc;
}

int zr_st_finish(struct zr_st_writer *w, int keep, struct zr_error *err)
{
	int rc = 0;

	if (!w->failed && keep && fsync(w->fd))
		w->failed = errno;
	if (w->fd >= 0 && close(w->fd) && !w->failed)
		w->failed = errno;
	if (!w->failed && keep && !(rc = read_back(w, err)) && rename(w->tmp, w->path))
		w->failed = errno;
	if ((w->failed || rc || !keep) && w->fd >= 0)
		unlink(w->tmp);
	if (!w->failed && !rc && keep)
		w->failed = zr_sync_parent(w->path);
	if (w->failed && keep)
		rc = zr_err(err, ZR_EIO, "%s: cannot write: %s", w->path, strerror(w->failed));
	XXH3_freeState(w->hash);
	free(w->path);
	free(w->tmp);
	return rc;
}
