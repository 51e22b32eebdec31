/* SPDX-License-Identifier: Apache-2.0
 *
 * export_checkpoint.c - see export.h: exports from the files of a checkpoint, without a session.
 * Frozen tensors that a checkpoint leaves out come from the directory that training started from.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "cmd/export.h"
#include "files/checkpoint/dir.h"
#include "files/pretrained/tensors.h"

/* All files of a checkpoint with their entries. Each of them may have parts of a tensor. */
struct source {
	struct zr_manifest m;
	char path[PATH_MAX];
	struct zr_st *file; /* [world] */
	struct zr_ckpt_entry **entry;
	int64_t *n, *next;  /* entries of each file; number of the next one to read */
	int32_t opened;
	struct zr_tensor_files *began; /* the tensors that are left out; NULL: not opened yet */
	float *buf;
};

static int open_source(struct source *s, struct zr_error *err)
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
		return zr_err(err, ZR_ENOMEM, "out of memory");
	for (int32_t r = 0; !rc && r < s->m.world; r++) {
		rc = zr_ckpt_open(&s->m, s->path, r, &s->file[r], err);
		if (rc)
			break;
		s->opened++;
		s->entry[r] = zr_entries(&s->m, r, &s->n[r]);
		if (!s->entry[r])
			rc = zr_err(err, ZR_ENOMEM, "out of memory");
	}
	return rc;
}

static void close_source(struct source *s)
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
	zr_tensor_files_close(s->began);
	zr_manifest_free(&s->m);
}

/* The values that training kept of a tensor: the master, or the compute copy if the unit is frozen
 * or there is no master. */
static int32_t type_of(const struct zr_manifest *m, int32_t tensor)
{
	const struct zr_unit_place *u = &m->layout.unit[m->layout.tensor[tensor].unit];
	int master = 0;
	for (int32_t i = u->first; i < u->first + u->count; i++)
		master |= m->master_bits == 32 && !zr_manifest_frozen(m, i);
	int32_t kept = zr_dtype(0, m->dtype)->id;
	return !master && (kept == ZR_BF16 || kept == ZR_F16) ? kept : ZR_F32;
}

/* Opens the files with the tensors that the checkpoint leaves out. */
static int open_began(struct source *s, struct zr_error *err)
{
	const char *path = json_string_value(json_object_get(s->m.meta, ZR_META_PATH));
	const char *prefix = json_string_value(json_object_get(s->m.meta, ZR_META_PREFIX));
	if (!path)
		return zr_err(err, ZR_EINVAL,
			      "%s: it leaves frozen tensors out, and does not say where they are",
			      s->path);
	return zr_tensor_files_open(path, &s->m.layout, ZR_FILES_WHOLE, prefix ? prefix : "", "*",
				    &s->began, err);
}

/* Exports a tensor that the checkpoint leaves out, with the values that training used. */
static int export_left_out(struct source *s, int32_t tensor, struct zr_export *x,
			   struct zr_error *err)
{
	const struct zr_place *t = &s->m.layout.tensor[tensor];
	int64_t most = s->m.entry_blocks * ZR_BLOCK;
	int32_t type = type_of(&s->m, tensor);
	XXH3_state_t *hash = XXH3_createState();
	int rc = !hash	  ? zr_err(err, ZR_ENOMEM, "out of memory") :
		 s->began ? 0 :
			    open_began(s, err);
	if (hash)
		XXH3_64bits_reset(hash);
	for (int64_t at = 0; !rc && at < t->elements; at += most) {
		int64_t n = t->elements - at < most ? t->elements - at : most;
		rc = zr_tensor_files_read(s->began, tensor, at, n, s->buf, err);
		for (int64_t i = 0; !rc && i < n; i++)
			s->buf[i] = zr_export_rounded(type, s->buf[i]);
		if (!rc) {
			XXH3_64bits_update(hash, s->buf, (size_t)n * sizeof *s->buf);
			zr_export_put(x, s->buf, n);
		}
	}
	if (!rc && XXH3_64bits_digest(hash) != s->m.source[tensor])
		rc = zr_err(
			err, ZR_EINVAL,
			"%s: tensor %s, which the checkpoint leaves out, is not what it was in %s",
			s->path, t->decl->name,
			json_string_value(json_object_get(s->m.meta, ZR_META_PATH)));
	XXH3_freeState(hash);
	return rc;
}

/* Ranks own consecutive parts of a unit, and the entries of each are in the order of the
 * tensors. */
static int export_tensor(struct source *s, int32_t tensor, struct zr_export *x,
			 struct zr_error *err)
{
	int rc = 0;
	if (zr_manifest_frozen(&s->m, tensor) == ZR_FROZEN_LEFT_OUT)
		return export_left_out(s, tensor, x, err);
	for (int32_t r = 0; !rc && r < s->m.world; r++)
		for (; !rc && s->next[r] < s->n[r] && s->entry[r][s->next[r]].tensor == tensor;
		     s->next[r]++) {
			const struct zr_ckpt_entry *e = &s->entry[r][s->next[r]];
			if (e->state >= 0)
				continue;
			rc = zr_ckpt_read(&s->m, &s->file[r], e, s->buf, err);
			if (!rc)
				zr_export_put(x, s->buf, e->elements);
		}
	return rc;
}

int zr_export_checkpoint(const char *path, const char *dir, const struct zr_export_how *how,
			 struct zr_error *err)
{
	struct source s = { 0 };
	struct zr_export *x = NULL;
	int64_t infinite = 0;
	snprintf(s.path, sizeof s.path, "%s", path);
	int rc = zr_ckpt_check(path, 0, NULL, NULL, &s.m, err);
	if (rc)
		return rc;
	if (json_object_get(s.m.plugins, "adapter"))
		rc = zr_err(err, ZR_ENOTSUP, "%s: has adapters, which are not merged yet: at its end "
			    "a run writes them to adapter_model.safetensors in its directory, and "
			    "--resume goes on to there", path);
	rc = rc ? rc : open_source(&s, err);
	if (!rc)
		rc = zr_export_open(dir, &s.m.layout, s.m.meta, how, &x, err);
	for (int32_t i = 0; !rc && i < s.m.layout.n_tensors; i++)
		rc = export_tensor(&s, i, x, err);
	if (x) {
		int end = zr_export_close(x, !rc, &infinite, err);
		rc = rc ? rc : end;
	}
	if (!rc)
		printf("exported    step %lld of %s to %s\n", (long long)s.m.step, s.path, dir);
	if (!rc && infinite)
		fprintf(stderr, "zeroth: %lld values are too large for fp16 and are infinite now\n",
			(long long)infinite);
	close_source(&s);
	return rc;
}
