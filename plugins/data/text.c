/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - bytes are tokens: any text, plain or .gz, vocabulary 256. The files are concatenated in
 * order of their names and held in memory. Every 20th chunk of 4 KiB (chunk i with i % 20 == 19) is
 * held out for validation, unless val_path names other files.
 */
#include <zeroth/data.h>

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "bytes.h"
#include "content.h"
#include "files.h"
#include "windows.h"
#include "plugins/descriptor.h"

#define CHUNK 4096
#define EVERY 20         /* chunks, the last of which is held out */
#define KEPT  (32 << 20) /* bytes of all files that are read once: kept until they have a place */
#define FIRST (2 << 20)  /* bytes of room for them to begin with */

struct text_opts {
	const char *path, *val_path;
	int32_t order, content;
	uint64_t max_bytes;
	uint64_t memory; /* no option: that this rank may use; 0: not known */
	int evaluates;   /* no option: 1: all of path is held out, as ZR_SPLIT_VAL */
};

enum { CONTENT_TEXT, CONTENT_ANY };
static const char *const contents[] = { "text", "any", NULL };

static const struct zr_opt options[] = {
	ZR_OPT(struct text_opts, path, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "Text file, plain or gzip, or a pattern of several; relative to the working "
	       "directory."),
	ZR_OPT(struct text_opts, val_path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Text for validation; empty: every 20th chunk of 4 KiB of path is held out."),
	ZR_OPT_ENUM(
		struct text_opts, order, ZR_O_NUMERIC, "random", windows_orders,
		"Order of the sequences of an epoch: random is a permutation by (seed, epoch)."),
	ZR_OPT(struct text_opts, max_bytes, ZR_T_BYTES, ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 1,
	       ZR_HI, "",
	       "The most that all files together may have, gzip expanded; auto is the memory that "
	       "this rank may use."),
	ZR_OPT_ENUM(struct text_opts, content, 0, "text", contents,
		    "text refuses a file that is none: tokens, a binary file, JSON; any learns the "
		    "bytes of all files as they are."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct text_opts *o;
	struct files files[2]; /* ZR_SPLIT_*; no validation files: held out */
	uint8_t *text[2];      /* of host->alloc */
	int64_t n[2];          /* bytes */
	uint8_t *kept;         /* owned while loading: [room] all files; NULL: read them again */
	int64_t room;
	struct windows w[2];
};

/* The stream of files[from] while it is read. */
struct reading {
	struct zr_inst *inst;
	int32_t from;
	int64_t at;     /* bytes of all its files so far */
	int64_t before; /* and of all files of the stream before it */
	struct file *file;
	XXH3_state_t *hash; /* of the file, where its bytes are placed */
};

/* Whether the stream is split in two, having no validation files beside it. */
static int holds_out(const struct zr_inst *inst, int32_t from)
{
	return from == ZR_SPLIT_TRAIN && !inst->files[ZR_SPLIT_VAL].n;
}

/* Bytes of a stream of n that are held out. */
static int64_t held_out(int64_t n)
{
	int64_t chunks = n / CHUNK;
	return chunks / EVERY * CHUNK + (chunks % EVERY == EVERY - 1 ? n % CHUNK : 0);
}

/* Room for `end` bytes, of which n are new; NULL, and none, if there is no memory. */
static uint8_t *more_room(struct zr_inst *inst, int64_t n, int64_t end)
{
	int64_t room = inst->room;
	while (room < end)
		room *= 2;

	uint8_t *kept = bytes_room((size_t)room);
	if (kept)
		memcpy(kept, inst->kept, (size_t)(end - n));
	free(inst->kept);
	inst->room = room;
	return kept;
}

/* Keeps what was read; if it is too much in all, `end` bytes so far, nothing. */
static void keep_bytes(struct zr_inst *inst, const uint8_t *p, int64_t n, int64_t end)
{
	if (!inst->kept)
		return;
	if (end > KEPT) {
		free(inst->kept);
		inst->kept = NULL;
		return;
	}

	if (end > inst->room)
		inst->kept = more_room(inst, n, end);
	if (inst->kept)
		memcpy(inst->kept + end - n, p, (size_t)n);
}

static int count_bytes(void *arg, const uint8_t *p, int64_t n)
{
	struct reading *r = arg;
	const struct text_opts *o = r->inst->o;
	int given = o->max_bytes != ZR_AUTO_COUNT;
	uint64_t most;

	if (given)
		most = o->max_bytes;
	else if (o->memory)
		most = o->memory;
	else
		most = INT64_MAX;
	int rc = ZR_OK;
	if (!r->file->n && o->content != CONTENT_ANY)
		rc = content_check(r->inst->h, r->file->name, p, n);
	if (rc)
		return rc;

	r->file->n += n;
	r->at += n;
	keep_bytes(r->inst, p, n, r->before + r->at);
	if ((uint64_t)(r->inst->files[ZR_SPLIT_TRAIN].tokens + r->at) <= most)
		return ZR_OK;

	return zr_fail(
		r->inst->h, ZR_EINVAL,
		"%s: with it the text has more than %llu bytes, which is %s; %stake a shorter "
		"text, or `zeroth tokenize` it for data/tokens, which leaves it on disk",
		r->file->name, (unsigned long long)most, given ? "max_bytes" : "the memory at hand",
		given ? "raise that if memory allows, " : "");
}

static int place_bytes(void *arg, const uint8_t *p, int64_t n)
{
	struct reading *r = arg;
	struct zr_inst *inst = r->inst;

	XXH3_64bits_update(r->hash, p, (size_t)n);
	while (n > 0) {
		int64_t chunk = r->at / CHUNK, m = CHUNK - r->at % CHUNK, to = r->at;
		int32_t split = r->from;
		if (r->at >= inst->files[r->from].tokens)
			return zr_fail(inst->h, ZR_EIO, "%s: grew while it was read",
				       r->file->name);
		if (holds_out(inst, r->from)) {
			split = chunk % EVERY == EVERY - 1 ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN;
			to -= (split == ZR_SPLIT_VAL ? chunk - chunk / EVERY : chunk / EVERY) *
			      CHUNK;
		}

		if (m > n)
			m = n;
		if (to + m > inst->n[split])
			m = inst->n[split] - to;
		memcpy(inst->text[split] + to, p, (size_t)m);
		p += m;
		n -= m;
		r->at += m;
	}

	return ZR_OK;
}

/* Passes the files of `from` to sink one after the other. */
static int read_files(struct zr_inst *inst, int32_t from, bytes_sink *sink)
{
	struct files *fs = &inst->files[from];
	struct reading r = { .inst = inst, .from = from, .hash = XXH3_createState() };
	int kept = sink == place_bytes && inst->kept;

	if (from == ZR_SPLIT_VAL)
		r.before = inst->files[ZR_SPLIT_TRAIN].tokens;
	else
		r.before = 0;
	int i, rc = r.hash ? ZR_OK : zr_fail(inst->h, ZR_ENOMEM, "no memory");
	for (i = 0; i < fs->n && !rc; i++) {
		r.file = &fs->f[i];
		XXH3_64bits_reset(r.hash);
		if (kept)
			rc = sink(&r, inst->kept + r.before + r.at, r.file->n);
		else
			rc = bytes_read(inst->h, r.file->name, sink, &r);
		r.file->bytes = r.file->n;
		r.file->hash = XXH3_64bits_digest(r.hash);
	}

	XXH3_freeState(r.hash);
	if (!rc && r.at < fs->tokens && sink == place_bytes)
		rc = zr_fail(inst->h, ZR_EIO, "%s: shrank while it was read", r.file->name);

	return rc;
}

static int count_files(struct zr_inst *inst, int32_t from)
{
	struct files *fs = &inst->files[from];
	int i, rc = read_files(inst, from, count_bytes);

	for (i = 0; i < fs->n; i++)
		fs->tokens += fs->f[i].n;
	if (!rc && fs->n && !fs->tokens)
		rc = zr_fail(inst->h, ZR_EINVAL, "%s: is empty", fs->f[0].name);

	return rc;
}

static int place_files(struct zr_inst *inst)
{
	int rc = read_files(inst, ZR_SPLIT_TRAIN, place_bytes);
	if (!rc)
		rc = read_files(inst, ZR_SPLIT_VAL, place_bytes);
	free(inst->kept);
	inst->kept = NULL;
	return rc;
}

static int load(struct zr_inst *inst)
{
	int64_t *n = inst->n;
	int32_t split;

	inst->room = FIRST;
	inst->kept = bytes_room(FIRST);
	int rc = count_files(inst, ZR_SPLIT_TRAIN);
	if (!rc)
		rc = count_files(inst, ZR_SPLIT_VAL);
	if (rc)
		return rc;

	n[ZR_SPLIT_TRAIN] = inst->files[ZR_SPLIT_TRAIN].tokens;
	n[ZR_SPLIT_VAL] = inst->files[ZR_SPLIT_VAL].tokens;
	if (holds_out(inst, ZR_SPLIT_TRAIN)) {
		n[ZR_SPLIT_VAL] = held_out(n[ZR_SPLIT_TRAIN]);
		n[ZR_SPLIT_TRAIN] -= n[ZR_SPLIT_VAL];
	}

	for (split = 0; split < 2; split++) {
		if (n[split])
			inst->text[split] = inst->h->alloc(inst->h, (uint64_t)n[split], "data");
		else
			inst->text[split] = NULL;
		if (n[split] && !inst->text[split])
			return zr_fail(inst->h, ZR_ENOMEM, "no memory for %lld bytes of text",
				       (long long)n[split]);
	}

	return place_files(inst);
}

static int text_info(struct zr_inst *inst, struct zr_data_info *info)
{
	info->vocabulary = 256;
	info->train_tokens = inst->n[ZR_SPLIT_TRAIN];
	info->val_tokens = inst->n[ZR_SPLIT_VAL];
	files_describe(&inst->files[inst->o->evaluates], "bytes", info->train_tokens,
		       info->val_tokens, info->describe, sizeof info->describe);
	if (ZR_HAS(info, struct zr_data_info, val_sequences)) {
		info->train_sequences = inst->w[ZR_SPLIT_TRAIN].n;
		info->val_sequences = windows_once(&inst->w[ZR_SPLIT_VAL]);
	}

	return ZR_OK;
}

static int text_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	int64_t need = windows_cut(&inst->w[ZR_SPLIT_TRAIN], inst->n[ZR_SPLIT_TRAIN], length,
				   inst->o->order);

	if (vocabulary < 256)
		return zr_fail(
			inst->h, ZR_EINVAL,
			"bytes need a model with a vocabulary of at least 256, this one has %lld",
			(long long)vocabulary);
	if (need && !inst->o->evaluates)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: %lld bytes to train on, one sequence needs %lld",
			       inst->files[ZR_SPLIT_TRAIN].f[0].name,
			       (long long)inst->n[ZR_SPLIT_TRAIN], (long long)need);

	need = windows_cut(&inst->w[ZR_SPLIT_VAL], inst->n[ZR_SPLIT_VAL], length, ORDER_SEQUENTIAL);
	if (need && inst->n[ZR_SPLIT_VAL])
		return zr_fail(inst->h, ZR_EINVAL,
			       "%lld bytes for validation, one sequence needs %lld: set val_path",
			       (long long)inst->n[ZR_SPLIT_VAL], (long long)need);

	return ZR_OK;
}

static int read_text(struct zr_inst *inst, int32_t split, int64_t at, int64_t n, int32_t *to)
{
	const uint8_t *from = inst->text[split] + at;
	int64_t i;
	for (i = 0; i < n; i++)
		to[i] = from[i];

	return ZR_OK;
}

static int text_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	return windows_batch(inst->h, inst->w, b, read_text, inst);
}

static int text_file(struct zr_inst *inst, uint32_t i, struct zr_data_file *out)
{
	files_tell(inst->files, i, out);
	return ZR_OK;
}

static int text_decode(const void *opts, int32_t token, char *out)
{
	(void)opts;
	if (token < 0 || token > 255)
		return 0;

	*out = (char)token;
	return 1;
}

static int64_t text_encode(const void *opts, const char *text, int64_t bytes, int32_t *out,
			   int64_t max)
{
	int64_t i;
	(void)opts;
	for (i = 0; i < bytes && i < max; i++)
		out[i] = (uint8_t)text[i];

	return bytes;
}

static void text_destroy(struct zr_inst *inst)
{
	int split;

	for (split = 0; split < 2; split++) {
		inst->h->release(inst->h, inst->text[split]);
		files_free(&inst->files[split]);
	}

	free(inst->kept);
	free(inst);
}

/* Not to max_bytes: a run that is resumed elsewhere may have another. */
static int text_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	(void)h;
	struct text_opts *o = opts;
	if (ZR_HAS(facts, struct zr_facts, memory))
		o->memory = facts->memory;
	else
		o->memory = 0;
	o->evaluates = ZR_HAS(facts, struct zr_facts, evaluates) && facts->evaluates;
	return ZR_OK;
}

static int text_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct text_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = o;
	rc = files_find(h, "path", o->path,
			&inst->files[o->evaluates ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN]);
	if (!rc && !o->evaluates && o->val_path && *o->val_path)
		rc = files_find(h, "val_path", o->val_path, &inst->files[ZR_SPLIT_VAL]);
	if (!rc)
		rc = load(inst);
	if (rc)
		text_destroy(inst);
	else
		*out = inst;

	return rc;
}

static const struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = text_info,
	.prepare = text_prepare,
	.batch = text_batch,
	.decode = text_decode,
	.encode = text_encode,
	.file = text_file,
};

PLUGIN(data, "text", &vtbl, .version = "1",
       .summary = "Text as bytes, plain or gzip; every 20th chunk of 4 KiB held out.",
       PLUGIN_OPTIONS(struct text_opts, options), .resolve = text_resolve, .create = text_create,
       .destroy = text_destroy);
