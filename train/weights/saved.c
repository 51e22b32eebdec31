/* SPDX-License-Identifier: Apache-2.0
 *
 * saved.c - see saved.h.
 */
#include "train/weights/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "files/checkpoint/dir.h"
#include "train/weights.h"

/* ---- files ---- */

static int open_files(struct zr_saved *s, struct zr_error *err)
{
	struct rlimit most;
	int rc = 0;

	/* a checkpoint has a file for every rank that wrote it */
	if (!getrlimit(RLIMIT_NOFILE, &most)) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}

	s->file = calloc((size_t)s->m.world, sizeof *s->file);
	s->entry = calloc((size_t)s->m.world, sizeof *s->entry);
	s->n = calloc((size_t)s->m.world, sizeof *s->n);
	s->next = calloc((size_t)s->m.world, sizeof *s->next);
	s->buf = malloc((size_t)s->m.entry_blocks * ZR_BLOCK * sizeof *s->buf);
	if (!s->file || !s->entry || !s->n || !s->next || !s->buf)
		return zr_no_memory(err);

	for (int32_t r = 0; !rc && r < s->m.world; r++) {
		rc = zr_ckpt_open(&s->m, s->path, r, &s->file[r], err);
		if (rc)
			break;

		s->opened++;
		s->entry[r] = zr_entries(&s->m, r, &s->n[r]);
		if (!s->entry[r])
			rc = zr_no_memory(err);
	}

	return rc;
}

void zr_saved_close(struct zr_saved *s)
{
	for (int32_t r = 0; r < s->opened; r++) {
		zr_st_close(&s->file[r]);
		free(s->entry[r]);
	}

	free(s->file);
	free(s->entry);
	free(s->n);
	free(s->next);
	free(s->buf);
	free(s->converted);
	zr_manifest_free(&s->m);
}

int zr_saved_open(const char *path, struct zr_saved *out, struct zr_error *err)
{
	*out = (struct zr_saved){ 0 };
	snprintf(out->path, sizeof out->path, "%s", path);
	int rc = zr_ckpt_check(path, 0, NULL, NULL, &out->m, err);
	if (rc)
		return rc;

	rc = open_files(out, err);
	if (rc)
		zr_saved_close(out);
	return rc;
}

/* ---- entries ---- */

static size_t most_bytes(const struct zr_saved *s)
{
	return (size_t)s->m.entry_blocks * ZR_BLOCK * sizeof *s->buf;
}

static int convert_entry(struct zr_saved *s, const struct zr_ckpt_entry *e, struct zr_error *err)
{
	if (e->state < 0 || !s->convert)
		return 0;

	if (!s->converted)
		s->converted = malloc(most_bytes(s));
	if (!s->converted)
		return zr_no_memory(err);

	memset((char *)s->buf + e->bytes, 0, most_bytes(s) - e->bytes);
	return s->convert(s->convert_arg, e, s->buf, s->converted, err);
}

/* All of an entry to s->buf, and to s->converted if it is a state that has to be. */
static int read_entry(struct zr_saved *s, int32_t rank, const struct zr_ckpt_entry *e,
		      struct zr_error *err)
{
	struct zr_ckpt_found f;

	int rc = zr_ckpt_find(&s->m, &s->file[rank], e, &f, err);
	if (!rc)
		rc = zr_st_read(&s->file[rank], f.tensor, 0, e->bytes, s->buf, err);
	if (!rc)
		rc = zr_ckpt_same(&s->file[rank], &f, XXH3_64bits(s->buf, e->bytes), err);
	if (rc)
		return rc;
	return convert_entry(s, e, err);
}

/* The entries of a tensor that have its values: of its master, or of the state that evaluates. */
static int32_t state_with_values(const struct zr_manifest *m, int32_t tensor)
{
	if (zr_manifest_frozen(m, tensor))
		return -1;
	return m->optimizer[m->optimizer_of[tensor]].evaluates - 1;
}

/* Part of what a tensor has. */
struct part {
	int32_t tensor, state;
	int64_t element;
};

static int has(const struct zr_ckpt_entry *e, const struct part *p)
{
	return e->tensor == p->tensor && e->state == p->state &&
	       e->first * ZR_BLOCK <= p->element && p->element < e->first * ZR_BLOCK + e->elements;
}

/* Reads the entry with that element of a tensor. A search begins behind the entry of its file that
 * was read last: most often that is the one. */
static int find_entry(struct zr_saved *s, const struct part *p, struct zr_error *err)
{
	if (s->have && has(s->have, p))
		return 0;

	s->have = NULL;
	for (int32_t r = 0; r < s->m.world; r++)
		for (int64_t i = 0, k = s->next[r]; i < s->n[r]; i++, k++) {
			const struct zr_ckpt_entry *e = &s->entry[r][k % s->n[r]];
			if (!has(e, p))
				continue;

			s->next[r] = k % s->n[r];
			int rc = read_entry(s, r, e, err);
			s->have = rc ? NULL : e;
			return rc;
		}
	return zr_err(err, ZR_EINTERNAL, "%s: tensor %s: values are missing", s->path,
		      s->m.layout.tensor[p->tensor].decl->name);
}

int zr_saved_read_state(struct zr_saved *s, int32_t tensor, int32_t state, int64_t first, int64_t n,
			float *x, struct zr_error *err)
{
	struct part p = { tensor, state, first };
	int rc = 0;

	while (!rc && n) {
		rc = find_entry(s, &p, err);
		if (rc)
			break;

		const float *from = state >= 0 && s->convert ? s->converted : s->buf;
		const int64_t at = p.element - s->have->first * ZR_BLOCK;
		const int64_t left = s->have->elements - at, now = n < left ? n : left;
		memcpy(x, from + at, (size_t)now * sizeof *x);
		x += now;
		p.element += now;
		n -= now;
	}

	return rc;
}

int zr_saved_read(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		  struct zr_error *err)
{
	struct zr_saved *s = arg;
	return zr_saved_read_state(s, tensor, state_with_values(&s->m, tensor), first, n, x, err);
}

int zr_saved_fits(const struct zr_saved *s, const struct zr_layout *l, struct zr_error *err)
{
	const struct zr_layout *was = &s->m.layout;
	int same = l->n_tensors == was->n_tensors;

	for (int32_t i = 0; same && i < l->n_tensors; i++) {
		const struct zr_tensor *a = l->tensor[i].decl, *b = was->tensor[i].decl;
		same = !strcmp(a->name, b->name) && a->ndim == b->ndim &&
		       !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims);
	}

	if (same)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: its [model] and [adapter] declare other tensors "
		      "than it has: an older zeroth wrote it, or another plugin",
		      s->path);
}

/* ---- a session ---- */

struct filling {
	struct zr_saved saved;
	struct zr_weights_files files; /* what is left out */
};

static int read_any(void *arg, int32_t tensor, int64_t first, int64_t n, float *x,
		    struct zr_error *err)
{
	struct filling *f = arg;

	if (zr_manifest_frozen(&f->saved.m, tensor) != ZR_FROZEN_LEFT_OUT)
		return zr_saved_read(&f->saved, tensor, first, n, x, err);
	if (zr_weights_files_have(&f->files, tensor))
		return zr_weights_files_read(&f->files, tensor, first, n, x, err);

	return zr_err(err, ZR_EINVAL, "%s: tensor %s is left out, and no file has it",
		      f->saved.path, f->saved.m.layout.tensor[tensor].decl->name);
}

int zr_saved_leaves_out(const struct zr_manifest *m)
{
	for (int32_t i = 0; i < m->layout.n_tensors; i++)
		if (zr_manifest_frozen(m, i) == ZR_FROZEN_LEFT_OUT)
			return 1;
	return 0;
}

int zr_weights_load_checkpoint(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct filling f = { 0 };

	int rc = zr_saved_open(path, &f.saved, err);
	if (rc)
		return rc;

	rc = zr_saved_fits(&f.saved, &s->setup->facts.layout, err);
	if (!rc && zr_saved_leaves_out(&f.saved.m))
		rc = zr_weights_files_open(s->setup, &f.files, err);
	if (!rc)
		rc = zr_session_fill(s, read_any, &f, err);
	zr_weights_files_close(&f.files);
	zr_saved_close(&f.saved);
	return rc;
}
