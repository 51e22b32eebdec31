/* SPDX-License-Identifier: Apache-2.0
 *
 * entries.c - see manifest.h: which entries a checkpoint has, a function of the layout and the
 * number of ranks, and the files that they are in.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/numbers.h"
#include "core/model/mesh.h"
#include "files/checkpoint/manifest.h"

const char *zr_hex(uint64_t v, char text[17])
{
	snprintf(text, 17, "%016" PRIx64, v);
	return text;
}

const char *zr_ckpt_file_name(int32_t rank, int32_t world, char name[ZR_CKPT_NAME])
{
	snprintf(name, ZR_CKPT_NAME, "rank-%05d-of-%05d.safetensors", rank, world);
	return name;
}

int zr_manifest_frozen(const struct zr_manifest *m, int32_t tensor)
{
	if (m->frozen)
		return m->frozen[tensor];

	return 0;
}

uint32_t *zr_ckpt_by_shape(const struct zr_manifest *m, int32_t tensor, int32_t state)
{
	return &m->by_shape[(size_t)tensor * ZR_CKPT_STATES + (size_t)state];
}

uint64_t zr_ckpt_state_bytes(const struct zr_manifest *m, int32_t tensor, int32_t state,
			     int64_t blocks, int64_t elements)
{
	const struct zr_ckpt_state *st = &m->optimizer[m->optimizer_of[tensor]].state[state];
	if (zr_ckpt_is_by_shape(st))
		return (uint64_t)blocks * *zr_ckpt_by_shape(m, tensor, state);
	if (st->dtype == ZR_U8)
		return (uint64_t)blocks * st->block_bytes;

	return (uint64_t)(elements * zr_dtype_bytes(st->dtype));
}

static const struct zr_ckpt_state *state_of(const struct zr_manifest *m,
					    const struct zr_ckpt_entry *e)
{
	return &m->optimizer[m->optimizer_of[e->tensor]].state[e->state];
}

/* Entries of one list, counted first (at == NULL). */
struct list {
	struct zr_ckpt_entry *at;
	int64_t n;
	uint64_t end;
};

static void add_entry(const struct zr_manifest *m, struct list *l, struct zr_ckpt_entry e)
{
	e.at = l->end;
	if (e.tensor < 0 || e.state < 0)
		e.bytes = (uint64_t)e.elements * 4;
	else
		e.bytes = zr_ckpt_state_bytes(m, e.tensor, e.state, e.blocks, e.elements);
	if (!e.bytes && e.state >= 0) /* it has none, by its shape */
		return;
	l->end += e.bytes;
	if (l->at)
		l->at[l->n] = e;
	l->n++;
}

/* Blocks [first, end) of a tensor: all kinds of data of one stretch, then the next, so that what an
 * update changes together lies together. Stretches start at multiples of their length, whatever the
 * number of ranks. */
static void add_tensor(const struct zr_manifest *m, struct list *l, int32_t tensor, int64_t first,
		       int64_t end)
{
	const int64_t elements = m->layout.tensor[tensor].elements;
	const int frozen = zr_manifest_frozen(m, tensor);
	int32_t states = 0;

	if (frozen == ZR_FROZEN_LEFT_OUT)
		return;
	if (!frozen)
		states = m->optimizer[m->optimizer_of[tensor]].n_states;

	for (int64_t next; first < end; first = next) {
		struct zr_ckpt_entry e = { .tensor = tensor, .first = first };
		next = (first / m->entry_blocks + 1) * m->entry_blocks;
		if (next > end)
			next = end;
		e.blocks = next - first;
		e.elements = e.blocks * ZR_BLOCK;
		if (next * ZR_BLOCK > elements) /* the last block is not full */
			e.elements = elements - first * ZR_BLOCK;
		for (e.state = -1; e.state < states; e.state++)
			add_entry(m, l, e);
	}
}

static void add_all(const struct zr_manifest *m, struct list *l, int32_t rank)
{
	for (int32_t i = 0; i < m->layout.n_tensors; i++) {
		const struct zr_place *t = &m->layout.tensor[i];
		int32_t part = zr_rank_part(m->ranks[i] ? m->ranks[i] : m->world, m->world, rank);
		struct zr_share share = zr_share_of(m->layout.unit[t->unit].blocks, m->world, part);
		int64_t first = share.first - t->offset / ZR_BLOCK, end = first + share.n;
		if (zr_intersect(0, t->blocks, &first, &end))
			add_tensor(m, l, i, first, end);
	}

	if (rank != 0)
		return;

	add_entry(m, l,
		  (struct zr_ckpt_entry){
			  .tensor = ZR_ENTRY_LOSSES, .state = -1, .elements = m->step });
	if (m->layout.persistent)
		add_entry(m, l,
			  (struct zr_ckpt_entry){ .tensor = ZR_ENTRY_PERSISTENT,
						  .state = -1,
						  .elements = m->layout.persistent });
}

struct zr_ckpt_entry *zr_entries(const struct zr_manifest *m, int32_t rank, int64_t *n)
{
	struct list l = { 0 };

	add_all(m, &l, rank);
	l.at = malloc(((size_t)l.n + 1) * sizeof *l.at);
	l.n = 0;
	l.end = 0;
	if (l.at)
		add_all(m, &l, rank);
	*n = l.n;
	return l.at;
}

struct zr_st_tensor zr_entry_tensor(const struct zr_manifest *m, const struct zr_ckpt_entry *e,
				    char name[ZR_ENTRY_NAME])
{
	int32_t dtype = e->tensor < 0 || e->state < 0 ? ZR_F32 : state_of(m, e)->dtype;
	int64_t n;

	if (dtype == ZR_U8)
		n = (int64_t)e->bytes;
	else
		n = e->elements;
	if (e->tensor < 0)
		snprintf(name, ZR_ENTRY_NAME,
			 e->tensor == ZR_ENTRY_LOSSES ? ZR_CKPT_LOSSES : ZR_CKPT_PERSISTENT);
	else
		snprintf(name, ZR_ENTRY_NAME, "%s/%s@%lld", m->layout.tensor[e->tensor].decl->name,
			 e->state < 0 ? "master" : state_of(m, e)->name,
			 (long long)(e->first * ZR_BLOCK));

	return zr_st_make(name, dtype, 1, &n, e->at);
}

int zr_ckpt_dir(const char *path)
{
	const char *name = strrchr(path, '/');
	return zr_dir_open(AT_FDCWD, path, strncmp(name ? name + 1 : path, "step-", 5) != 0);
}

int zr_ckpt_file_path(const struct zr_manifest *m, const char *dir, int32_t rank,
		      char path[PATH_MAX])
{
	char name[ZR_CKPT_NAME];

	snprintf(path, PATH_MAX, "%s/%s", dir, zr_ckpt_file_name(rank, m->world, name));
	int at = zr_ckpt_dir(dir), fd = at < 0 ? -1 : zr_file_open(at, name, 0), no = errno;
	zr_ckpt_close(at);
	errno = no;
	return fd;
}

int zr_ckpt_open(const struct zr_manifest *m, const char *dir, int32_t rank, struct zr_st *out,
		 struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_st st;
	int rc = zr_st_open_fd(zr_ckpt_file_path(m, dir, rank, path), path, &st, err);
	if (rc)
		return rc;
	if (st.bytes != m->file[rank].bytes)
		rc = zr_err(err, ZR_EINVAL, "%s: %llu bytes, but the manifest says %llu", path,
			    (unsigned long long)st.bytes, (unsigned long long)m->file[rank].bytes);
	else if (st.hash != m->file[rank].header)
		rc = zr_err(err, ZR_EINVAL,
			    "%s: its header is damaged: another checksum than the manifest says",
			    path);
	if (rc)
		zr_st_close(&st);
	else
		*out = st;

	return rc;
}

int zr_ckpt_find(const struct zr_manifest *m, const struct zr_st *file,
		 const struct zr_ckpt_entry *e, struct zr_ckpt_found *out, struct zr_error *err)
{
	struct zr_st_tensor want = zr_entry_tensor(m, e, out->name);
	const struct zr_st_tensor *t = zr_st_find(file, out->name);
	const char *hash = zr_st_meta(file, out->name);

	if (!t || t->dtype != want.dtype || t->elements != want.elements || t->at != want.at ||
	    !hash)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s: %s", file->path, out->name,
			      t ? "not as the manifest declares it" : "missing");

	out->tensor = t;
	out->hash = hash;
	return 0;
}

int zr_ckpt_same(const struct zr_st *file, const struct zr_ckpt_found *f, uint64_t hash,
		 struct zr_error *err)
{
	char hex[17];
	if (!strcmp(zr_hex(hash, hex), f->hash))
		return 0;

	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s is damaged: "
		      "checksum %s, written as %s",
		      file->path, f->name, hex, f->hash);
}
