/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c - see writer.h. The archive's form is that of PyTorch's PyTorchStreamWriter
 * (caffe2/serialize/inline_container.cc) and PKWARE's APPNOTE.TXT: sizes and places that 32 bits do
 * not have are in an extra field with 64.
 */
#include "files/torch/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"

#define LOCAL_BYTES    30 /* before each file of the archive, without its name */
#define NOT_IN_32_BITS 0xffffffffu
#define NOT_IN_16_BITS 0xffffu
#define NAME           32
#define ALIGNED        64    /* where numbers begin */
#define ZIP_VERSION    45    /* of the format: that which knows 64 bits */
#define FLAGS          0x808 /* names are in UTF-8; checksum and sizes follow the bytes */
#define ROOM           512

struct zr_zip_entry {
	char name[NAME];
	uint64_t at, bytes; /* at: from the start of the archive */
	uint32_t crc;
};

/* ---- CRC-32 of ISO 3309, eight bytes at a time ---- */

static void make_table(uint32_t table[8][256])
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[0][i] = c;
	}

	for (int k = 1; k < 8; k++)
		for (int i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc_of(const uint32_t table[8][256], uint32_t crc, const unsigned char *p, size_t n)
{
	uint32_t c = ~crc;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;
		memcpy(&v, p, sizeof v);
		v ^= c;
		c = 0;
		for (int k = 0; k < 8; k++)
			c ^= table[7 - k][v >> 8 * k & 255];
	}

	while (n--)
		c = c >> 8 ^ table[0][(c ^ *p++) & 255];
	return ~c;
}

/* ---- bytes ---- */

/* A record of the format that is put together. */
struct record {
	unsigned char bytes[ROOM];
	size_t n;
};

static void add(struct record *r, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		r->bytes[r->n++] = (unsigned char)(v >> 8 * i);
}

static void add_text(struct record *r, const char *text)
{
	while (*text)
		r->bytes[r->n++] = (unsigned char)*text++;
}

/* A number of 32 bits, or what stands there where 64 are elsewhere. */
static uint32_t narrow(uint64_t v)
{
	return v < NOT_IN_32_BITS ? (uint32_t)v : NOT_IN_32_BITS;
}

static void write_bytes(struct zr_torch_writer *w, const void *data, size_t n)
{
	if (!w->failed)
		w->failed = zr_write_all_at(w->fd, data, n, ZR_HERE);
	XXH3_64bits_update(w->hash, data, n);
	w->at += n;
}

static void write_record(struct zr_torch_writer *w, const struct record *r)
{
	write_bytes(w, r->bytes, r->n);
}

/* ---- files of the archive ---- */

static struct zr_zip_entry *add_entry(struct zr_torch_writer *w)
{
	if (w->n == w->room) {
		const int64_t room = 2 * w->room + 8;
		struct zr_zip_entry *more = realloc(w->entry, (size_t)room * sizeof *more);
		if (!more) {
			w->failed = ENOMEM;
			return NULL;
		}
		w->entry = more;
		w->room = room;
	}

	w->entry[w->n] = (struct zr_zip_entry){ .at = w->at - w->from };
	return &w->entry[w->n++];
}

static int is_wide(const struct zr_zip_entry *e)
{
	return narrow(e->bytes) == NOT_IN_32_BITS;
}

/* Before a file: where its sizes follow in 64 bits. */
static void add_wide(struct record *r, const struct zr_zip_entry *e)
{
	if (!is_wide(e))
		return;

	add(r, 1, 2);
	add(r, 16, 2);
	add(r, 0, 8);
	add(r, 0, 8);
}

/* In the directory: sizes and place, each where it needs 64 bits. */
static void add_wide_entry(struct record *r, const struct zr_zip_entry *e)
{
	const int place = narrow(e->at) == NOT_IN_32_BITS;

	if (!is_wide(e) && !place)
		return;

	add(r, 1, 2);
	add(r, (uint64_t)(16 * is_wide(e) + 8 * place), 2);
	if (is_wide(e)) {
		add(r, e->bytes, 8);
		add(r, e->bytes, 8);
	}
	if (place)
		add(r, e->at, 8);
}

/* What is alike before a file, where checksum and size are not known yet, and in the directory. */
static void add_facts(struct record *r, const struct zr_zip_entry *e, uint32_t crc, uint32_t size,
		      size_t extra)
{
	add(r, ZIP_VERSION, 2);
	add(r, FLAGS, 2);
	add(r, 0, 2);          /* stored */
	add(r, 0, 2);          /* the time, 0:00 */
	add(r, 1 << 5 | 1, 2); /* of the first of January 1980 */
	add(r, crc, 4);
	add(r, size, 4);
	add(r, size, 4);
	add(r, strlen(e->name), 2);
	add(r, extra, 2);
}

/* The field with which PyTorch fills up to where a file's bytes begin. */
static void add_padding(struct record *r, size_t n)
{
	add_text(r, "FB");
	add(r, n, 2);
	while (n--)
		add_text(r, "Z");
}

static void begin_file(struct zr_torch_writer *w, const char *name, uint64_t bytes)
{
	struct zr_zip_entry *e = add_entry(w);
	struct record r = { .n = 0 };
	if (!e)
		return;

	snprintf(e->name, NAME, "archive/%s", name);
	e->bytes = bytes;
	w->crc = 0;
	w->left = bytes;

	const size_t wide = is_wide(e) ? 20 : 0;
	const size_t fixed = LOCAL_BYTES + strlen(e->name) + wide + 4;
	const size_t padding = ALIGNED - 1 - (e->at + fixed + ALIGNED - 1) % ALIGNED;

	add_text(&r, "PK\3\4");
	add_facts(&r, e, 0, is_wide(e) ? NOT_IN_32_BITS : 0, wide + 4 + padding);
	add_text(&r, e->name);
	add_wide(&r, e);
	add_padding(&r, padding);
	write_record(w, &r);
}

/* Its checksum and sizes. */
static void end_file(struct zr_torch_writer *w)
{
	struct record r = { .n = 0 };
	if (w->failed)
		return;

	struct zr_zip_entry *e = &w->entry[w->n - 1];
	const int bytes = is_wide(e) ? 8 : 4;
	e->crc = w->crc;
	add_text(&r, "PK\7\10");
	add(&r, e->crc, 4);
	add(&r, e->bytes, bytes);
	add(&r, e->bytes, bytes);
	write_record(w, &r);
}

static void add_bytes(struct zr_torch_writer *w, const void *data, size_t n)
{
	if (n > w->left && !w->failed)
		w->failed = EOVERFLOW;
	if (w->failed)
		return;

	w->crc = crc_of(w->table, w->crc, data, n);
	w->left -= n;
	write_bytes(w, data, n);
	if (!w->left)
		end_file(w);
}

static void write_file(struct zr_torch_writer *w, const char *name, const void *data, size_t n)
{
	begin_file(w, name, n);
	add_bytes(w, data, n);
}

void zr_torch_storage(struct zr_torch_writer *w, uint64_t bytes)
{
	char name[NAME];

	if (w->left && !w->failed) /* the one before is not complete */
		w->failed = EOVERFLOW;
	snprintf(name, sizeof name, "data/%lld", (long long)w->storages++);
	begin_file(w, name, bytes);
	if (!bytes)
		end_file(w);
}

void zr_torch_append(struct zr_torch_writer *w, const void *data, size_t bytes)
{
	if (bytes)
		add_bytes(w, data, bytes);
}

void zr_torch_begin(struct zr_torch_writer *w, const struct zr_pickler *p)
{
	w->from = w->at;
	w->n = 0;
	w->storages = 0;
	w->left = 0;
	if (p->failed && !w->failed)
		w->failed = ENOMEM;
	if (w->failed)
		return;

	write_file(w, "data.pkl", p->bytes, p->n);
	write_file(w, "byteorder", "little", strlen("little"));
}

/* ---- the directory at the end ---- */

static void write_entry(struct zr_torch_writer *w, const struct zr_zip_entry *e)
{
	struct record r = { .n = 0 }, wide = { .n = 0 };

	add_wide_entry(&wide, e);
	add_text(&r, "PK\1\2");
	add(&r, ZIP_VERSION, 2);
	add_facts(&r, e, e->crc, narrow(e->bytes), wide.n);
	add(&r, 0, 2); /* no comment, */
	add(&r, 0, 2); /* first disk, */
	add(&r, 0, 2); /* attributes that no one needs */
	add(&r, 0, 4);
	add(&r, narrow(e->at), 4);
	add_text(&r, e->name);
	write_record(w, &r);
	write_record(w, &wide);
}

/* Behind the directory, where a number does not fit into the record that ends the archive. */
static void write_wide_end(struct zr_torch_writer *w, uint64_t directory, uint64_t bytes)
{
	const uint64_t here = w->at - w->from;
	struct record r = { .n = 0 };

	add_text(&r, "PK\6\6");
	add(&r, 44, 8); /* bytes behind these */
	add(&r, ZIP_VERSION, 2);
	add(&r, ZIP_VERSION, 2);
	add(&r, 0, 4);
	add(&r, 0, 4);
	add(&r, (uint64_t)w->n, 8);
	add(&r, (uint64_t)w->n, 8);
	add(&r, bytes, 8);
	add(&r, directory, 8);
	add_text(&r, "PK\6\7");
	add(&r, 0, 4);
	add(&r, here, 8);
	add(&r, 1, 4);
	write_record(w, &r);
}

static void write_end(struct zr_torch_writer *w, uint64_t directory, uint64_t bytes)
{
	const uint64_t n = w->n < NOT_IN_16_BITS ? (uint64_t)w->n : NOT_IN_16_BITS;
	struct record r = { .n = 0 };

	if (n == NOT_IN_16_BITS || narrow(bytes) == NOT_IN_32_BITS ||
	    narrow(directory) == NOT_IN_32_BITS)
		write_wide_end(w, directory, bytes);

	add_text(&r, "PK\5\6");
	add(&r, 0, 4);
	add(&r, n, 2);
	add(&r, n, 2);
	add(&r, narrow(bytes), 4);
	add(&r, narrow(directory), 4);
	add(&r, 0, 2);
	write_record(w, &r);
}

uint64_t zr_torch_end(struct zr_torch_writer *w)
{
	if (w->left && !w->failed)
		w->failed = EOVERFLOW;
	if (w->failed)
		return 0;

	write_file(w, "version", "3\n", strlen("3\n"));
	const uint64_t directory = w->at - w->from;
	for (int64_t i = 0; i < w->n; i++)
		write_entry(w, &w->entry[i]);
	write_end(w, directory, w->at - w->from - directory);
	return w->at - w->from;
}

/* ---- the file ---- */

int zr_torch_create(struct zr_torch_writer *w, const char *path, struct zr_error *err)
{
	*w = (struct zr_torch_writer){ .path = strdup(path), .fd = -1, .hash = XXH3_createState() };
	int no = w->path && w->hash ? 0 : ENOMEM;

	make_table(w->table);
	if (!no && unlink(path) && errno != ENOENT)
		no = errno;
	if (!no)
		w->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (!no && w->fd < 0)
		no = errno;
	if (!no) {
		XXH3_64bits_reset(w->hash);
		return 0;
	}

	XXH3_freeState(w->hash);
	free(w->path);
	return zr_err(err, no == ENOMEM ? ZR_ENOMEM : ZR_EIO, "%s: cannot write: %s", path,
		      strerror(no));
}

/* Whether the file has the bytes that were written. Returns an errno. */
static int read_back(const struct zr_torch_writer *w)
{
	const uint64_t written = XXH3_64bits_digest(w->hash), room = 1 << 20;
	char *some = malloc(room);
	int no = some ? 0 : ENOMEM;

	XXH3_64bits_reset(w->hash);
	for (uint64_t at = 0, n; !no && at < w->at; at += n) {
		n = w->at - at < room ? w->at - at : room;
		no = zr_read_all_at(w->fd, some, n, at);
		if (!no)
			XXH3_64bits_update(w->hash, some, n);
	}

	free(some);
	if (no || XXH3_64bits_digest(w->hash) == written)
		return no;
	return EBADMSG; /* other bytes */
}

int zr_torch_finish(struct zr_torch_writer *w, int rc, struct zr_error *err)
{
	if (!w->failed && !rc && fsync(w->fd))
		w->failed = errno;
	if (!w->failed && !rc)
		w->failed = read_back(w);
	if (close(w->fd) && !w->failed)
		w->failed = errno;
	if (w->failed == EBADMSG && !rc)
		rc = zr_err(err, ZR_EIO, "%s: what was written does not read back", w->path);
	if (w->failed && !rc)
		rc = zr_err(err, w->failed == ENOMEM ? ZR_ENOMEM : ZR_EIO, "%s: cannot write: %s",
			    w->path, strerror(w->failed));
	if (rc)
		unlink(w->path);
	XXH3_freeState(w->hash);
	free(w->path);
	free(w->entry);
	return rc;
}
