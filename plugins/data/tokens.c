/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - files of token numbers, mapped and never copied: llm.c's .bin (a header of 256 int32,
 * then uint16 or uint32) and raw uint16 or uint32, little-endian. Files of a pattern are one stream
 * in order of their names; sequences may cross from one to the next. Files that know their
 * documents (documents.h) are packed instead.
 */
#include <zeroth/data.h>

#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "mapped.h"
#include "windows.h"
#include "plugins/descriptor.h"

#define HEADER      1024      /* bytes: 256 int32, {magic, version, tokens, 0 ...} */
#define MAGIC_GPT2  20240520  /* version 1: uint16 */
#define MAGIC_LLAMA 20240801  /* version 7: uint32 */
#define GLANCE      (1 << 20) /* tokens of each file looked at before a run */

enum { FORMAT_AUTO, FORMAT_LLMC, FORMAT_UINT16, FORMAT_UINT32 };
static const char *const formats[] = { "auto", "llmc", "uint16", "uint32", NULL };

struct tokens_opts {
	const char *path, *val_path;
	int32_t format, order, packing;
	double split;
	int evaluates; /* no option: 1: all of path is held out, as ZR_SPLIT_VAL */
};

static const struct zr_opt options[] = {
	ZR_OPT(struct tokens_opts, path, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "File of tokens, or a pattern of several; relative to the working directory."),
	ZR_OPT(struct tokens_opts, val_path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Files of tokens for validation; empty: there is none, but for split."),
	ZR_OPT(struct tokens_opts, split, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MAX_OPEN, "0", 0, 1, "",
	       "Share of path that is held out for validation: documents chosen by a hash of "
	       "their number, or the end of files that know no documents."),
	ZR_OPT_ENUM(
		struct tokens_opts, format, 0, "auto", formats,
		"Layout of the files: llmc has llm.c's header, uint16 and uint32 have none, auto "
		"wants the header, or that of a file with documents."),
	ZR_OPT_ENUM(
		struct tokens_opts, order, ZR_O_NUMERIC, "random", windows_orders,
		"Order of the sequences of an epoch: random is a permutation by (seed, epoch)."),
	ZR_OPT_ENUM(
		struct tokens_opts, packing, ZR_O_NUMERIC, "bfd", packings,
		"How documents share sequences: bfd puts the longest first where it leaves least "
		"room, wrapped cuts them where a sequence is full, none takes a sequence for "
		"each."),
};

struct mapping {
	struct mapped m;
	int64_t skip; /* bytes before the first token */
	int width;    /* bytes per token */
};

struct zr_inst {
	const struct zr_host *h;
	const struct tokens_opts *o;
	struct files files[2]; /* ZR_SPLIT_*; no validation files: split */
	struct mapping *map[2];
	int64_t n[2]; /* tokens of each part */
	struct windows w[2];
	struct documents documents[2]; /* of files[] */
	struct documents_part part[2];
	int has_documents;
	int64_t vocabulary; /* tokens are below; 0: any */
	int hashed;         /* the files are */
};

/* Width of the tokens that a header of llm.c announces, 0 if it is none; *n their number. */
static int header_width(const struct mapping *m, int64_t *n)
{
	int32_t head[3];

	if (m->m.bytes < HEADER)
		return 0;

	memcpy(head, m->m.base, sizeof head);
	*n = (uint32_t)head[2];
	if (head[0] == MAGIC_GPT2 && head[1] == 1)
		return 2;
	if (head[0] == MAGIC_LLAMA && head[1] == 7)
		return 4;

	return 0;
}

static int layout_llmc(const struct zr_host *h, const struct file *f, struct mapping *m, int width,
		       int64_t announced)
{
	int64_t room = m->m.bytes - HEADER;

	m->skip = HEADER;
	m->width = width;
	if (room != announced * width)
		return zr_fail(h, ZR_EINVAL,
			       "%s: the header says %lld tokens, the file holds %lld%s: %s",
			       f->name, (long long)announced, (long long)(room / width),
			       room % width ? " and a part" : "",
			       room < announced * width ? "it is truncated" : "it is too long");

	return ZR_OK;
}

static int layout_raw(const struct zr_host *h, const struct file *f, struct mapping *m,
		      const char *format)
{
	m->width = strcmp(format, "uint16") ? 4 : 2;
	if (m->m.bytes % m->width)
		return zr_fail(
			h, ZR_EINVAL,
			"%s: %lld bytes are not a multiple of %d, the size of a token in format = "
			"%s",
			f->name, (long long)m->m.bytes, m->width, format);

	return ZR_OK;
}

static int layout(const struct zr_host *h, const struct file *f, int32_t format, struct mapping *m)
{
	int64_t announced = 0;
	int width = header_width(m, &announced),
	    raw = format == FORMAT_UINT16 || format == FORMAT_UINT32;
	if (width && raw)
		return zr_fail(h, ZR_EINVAL,
			       "%s: has llm.c's header of %s tokens: set format = auto", f->name,
			       width == 2 ? "uint16" : "uint32");
	if (width)
		return layout_llmc(h, f, m, width, announced);
	if (raw)
		return layout_raw(h, f, m, formats[format]);

	return zr_fail(h, ZR_EINVAL,
		       "%s: has no header of llm.c (magic %d version 1, or %d version 7)%s",
		       f->name, MAGIC_GPT2, MAGIC_LLAMA,
		       format == FORMAT_AUTO ?
			       ": set format = uint16 or uint32 if it holds raw tokens" :
			       "");
}

/* Files are of one kind: with documents, or without. */
static int check_kind(struct zr_inst *inst, const struct file *f, int found)
{
	if (found && inst->o->format != FORMAT_AUTO)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: is a file with documents: set format = auto", f->name);
	if (found != inst->has_documents)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: has %s documents, %s has%s: give files of "
			       "one kind",
			       f->name, found ? "its" : "no",
			       inst->files[inst->o->evaluates].f[0].name, found ? " none" : " its");

	return ZR_OK;
}

static int open_file(struct zr_inst *inst, int32_t split, int i)
{
	struct file *f = &inst->files[split].f[i];
	struct mapping *m = &inst->map[split][i];
	struct documents *d = &inst->documents[split];
	int rc = mapped_open(inst->h, f->name, &m->m);
	if (rc)
		return rc;

	const int found = documents_found(m->m.base, m->m.bytes);
	if (split == inst->o->evaluates && i == 0) /* the first of all */
		inst->has_documents = found;
	rc = check_kind(inst, f, found);
	if (rc)
		return rc;

	if (found) {
		rc = documents_add(inst->h, d, f->name, m->m.base, m->m.bytes);
		if (!rc)
			f->n = d->f[d->n - 1].n;
	} else {
		rc = layout(inst->h, f, inst->o->format, m);
		if (!rc)
			f->n = (m->m.bytes - m->skip) / m->width;
	}

	return rc;
}

static int open_split(struct zr_inst *inst, int32_t split, const char *key, const char *pattern)
{
	struct files *fs = &inst->files[split];
	int i, rc = files_find(inst->h, key, pattern, fs);
	if (rc)
		return rc;

	inst->map[split] = calloc((size_t)fs->n, sizeof *inst->map[split]);
	if (!inst->map[split])
		return zr_fail(inst->h, ZR_ENOMEM, "no memory");

	for (i = 0; i < fs->n && !rc; i++) {
		rc = open_file(inst, split, i);
		if (!rc)
			fs->tokens += fs->f[i].n;
	}

	return rc;
}

/* Which tokens are learned and which evaluate. */
static int divide(struct zr_inst *inst)
{
	const struct tokens_opts *o = inst->o;
	int from = ZR_SPLIT_TRAIN;

	if (inst->files[ZR_SPLIT_VAL].n > 0)
		from = ZR_SPLIT_VAL;
	if (!inst->has_documents) {
		if (from == ZR_SPLIT_VAL)
			inst->n[ZR_SPLIT_VAL] = inst->files[from].tokens;
		else
			inst->n[ZR_SPLIT_VAL] =
				(int64_t)((double)inst->files[from].tokens * o->split);
		inst->n[ZR_SPLIT_TRAIN] = inst->files[ZR_SPLIT_TRAIN].tokens -
					  (from == ZR_SPLIT_VAL ? 0 : inst->n[ZR_SPLIT_VAL]);
		return ZR_OK;
	}

	int rc = documents_divide(inst->h, inst->documents, o->split, o->evaluates,
				  o->order == ORDER_RANDOM, inst->part);
	for (int i = 0; i < 2; i++)
		inst->n[i] = inst->part[i].tokens;

	return rc;
}

static int tokens_info(struct zr_inst *inst, struct zr_data_info *info)
{
	char unit[64] = "tokens";
	int64_t n[2];

	for (int i = 0; i < 2; i++) {
		if (inst->has_documents)
			n[i] = inst->part[i].packing.n;
		else if (i == ZR_SPLIT_VAL)
			n[i] = windows_once(&inst->w[i]);
		else
			n[i] = inst->w[i].n;
	}

	info->vocabulary = 0;
	for (int i = 0; i < 2 && inst->has_documents; i++)
		if (inst->documents[i].vocabulary > info->vocabulary)
			info->vocabulary = inst->documents[i].vocabulary;
	if (inst->has_documents)
		info->flags |= ZR_DATA_DOCUMENTS;
	info->train_tokens = inst->n[ZR_SPLIT_TRAIN];
	info->val_tokens = inst->n[ZR_SPLIT_VAL];
	if (inst->has_documents)
		snprintf(unit, sizeof unit, "tokens in %lld documents",
			 (long long)(inst->part[0].documents + inst->part[1].documents));
	files_describe(&inst->files[inst->o->evaluates], unit, info->train_tokens, info->val_tokens,
		       info->describe, sizeof info->describe);
	if (ZR_HAS(info, struct zr_data_info, val_sequences)) {
		info->train_sequences = n[ZR_SPLIT_TRAIN];
		info->val_sequences = n[ZR_SPLIT_VAL];
	}

	return ZR_OK;
}

static int64_t token_at(const struct mapping *m, int64_t at)
{
	const uint8_t *p = m->m.base + m->skip;
	if (m->width == 2)
		return ((const uint16_t *)p)[at];

	return ((const uint32_t *)p)[at];
}

/* Tokens [at, at + n) of one file, up to the first that is not below limit; returns how many. */
static int64_t widen(const struct mapping *m, int64_t at, int64_t n, int64_t limit, int32_t *to)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		int64_t token = token_at(m, at + i);
		if (token >= limit)
			break;

		to[i] = (int32_t)token;
	}

	return i;
}

/* What split holds out of a stream is its end. */
static int read_tokens(struct zr_inst *inst, int32_t split, int64_t at, int64_t n, int32_t *to)
{
	int64_t limit;

	if (inst->vocabulary > 0)
		limit = inst->vocabulary;
	else
		limit = INT64_C(1) << 31;
	if (split == ZR_SPLIT_VAL && !inst->files[ZR_SPLIT_VAL].n) {
		at += inst->n[ZR_SPLIT_TRAIN];
		split = ZR_SPLIT_TRAIN;
	}

	const struct files *fs = &inst->files[split];
	while (n > 0) {
		int64_t in_file = at, m, ok;
		const struct file *f = files_at(fs, &in_file);
		const struct mapping *map = &inst->map[split][f - fs->f];
		m = f->n - in_file;
		if (m > n)
			m = n;
		ok = widen(map, in_file, m, limit, to);
		if (ok < m)
			return zr_fail(
				inst->h, ZR_EINVAL,
				"%s: token %lld at position %lld is not below the vocabulary of "
				"%lld",
				f->name, (long long)token_at(map, in_file + ok),
				(long long)(in_file + ok), (long long)limit);

		at += m;
		to += m;
		n -= m;
	}

	return ZR_OK;
}

/* Tokens at the start of each file are looked at before the run begins: files of another tokenizer
 * or another format seldom pass, and reading all of them could take minutes. */
static int glance(struct zr_inst *inst, int32_t split)
{
	const struct files *fs = &inst->files[split];
	int64_t start = 0;
	int32_t some[4096];
	int i, rc = ZR_OK;

	for (i = 0; i < fs->n; start += fs->f[i++].n) {
		int64_t at = 0, n, all = fs->f[i].n < GLANCE ? fs->f[i].n : GLANCE;
		for (; !rc && at < all; at += n) {
			n = all - at;
			if (n > 4096)
				n = 4096;
			rc = read_tokens(inst, split, start + at, n, some);
		}
	}

	return rc;
}

static int prepare_split(struct zr_inst *inst, int32_t split, int64_t length, int order)
{
	struct documents_part *part = &inst->part[split];

	if (inst->has_documents) {
		if (part->of)
			return documents_pack(inst->h, part, inst->o->packing, length,
					      inst->vocabulary);

		return ZR_OK;
	}

	int64_t n = inst->n[split], need = windows_cut(&inst->w[split], n, length, order);
	int from = ZR_SPLIT_TRAIN;
	if (inst->files[split].n)
		from = split;
	if (need && (n || from == split))
		return zr_fail(inst->h, ZR_EINVAL, "%s: %lld tokens%s, one sequence needs %lld",
			       inst->files[from].f[0].name, (long long)n,
			       from == split ? "" : " held out by split", (long long)need);

	return glance(inst, split);
}

static int tokens_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	int rc;

	inst->vocabulary = vocabulary;
	if (inst->o->evaluates)
		rc = ZR_OK;
	else
		rc = prepare_split(inst, ZR_SPLIT_TRAIN, length, inst->o->order);
	if (rc)
		return rc;

	return prepare_split(inst, ZR_SPLIT_VAL, length, ORDER_SEQUENTIAL);
}

static int tokens_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	if (inst->has_documents)
		return documents_batch(inst->h, &inst->part[b->split == ZR_SPLIT_VAL], b);
	return windows_batch(inst->h, inst->w, b, read_tokens, inst);
}

static int tokens_targets(struct zr_inst *inst, const struct zr_batch *b, double *sum)
{
	int64_t all = b->sequences * b->length;

	if (inst->has_documents)
		*sum = documents_targets(&inst->part[b->split == ZR_SPLIT_VAL], b);
	else
		*sum = (double)(b->split == ZR_SPLIT_VAL ? all : all * b->slots);

	return ZR_OK;
}

static int tokens_count(struct zr_inst *inst, int32_t split, uint32_t i, struct zr_data_count *out)
{
	documents_tell(&inst->part[split], i, out);
	return ZR_OK;
}

static void hash_files(struct zr_inst *inst)
{
	int64_t all = 0, n = inst->files[0].n + inst->files[1].n;
	int split, i;

	for (split = 0; split < 2; split++)
		for (i = 0; i < inst->files[split].n; i++)
			all += inst->map[split][i].m.bytes;
	for (split = 0; split < 2; split++)
		for (i = 0; i < inst->files[split].n; i++)
			mapped_hash(&inst->map[split][i].m, n, all, &inst->files[split].f[i]);
	inst->hashed = 1;
}

static int tokens_file(struct zr_inst *inst, uint32_t i, struct zr_data_file *out)
{
	if (!inst->hashed)
		hash_files(inst);
	files_tell(inst->files, i, out);
	if (!out->name)
		return ZR_OK;

	const uint32_t learned = (uint32_t)inst->files[0].n;
	const int split = i >= learned;
	mapped_hash_whole(&inst->map[split][split ? i - learned : i].m, out);
	return ZR_OK;
}

static void tokens_destroy(struct zr_inst *inst)
{
	int split, i;

	for (split = 0; split < 2; split++) {
		for (i = 0; inst->map[split] && i < inst->files[split].n; i++)
			mapped_close(&inst->map[split][i].m);
		free(inst->map[split]);
		files_free(&inst->files[split]);
		packing_free(&inst->part[split].packing);
		documents_free(&inst->documents[split]);
	}

	free(inst);
}

static int tokens_check(const struct zr_host *h, const void *opts)
{
	const struct tokens_opts *o = opts;
	return files_check_split(h, o->split, o->val_path);
}

static int tokens_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	(void)h;
	((struct tokens_opts *)opts)->evaluates = ZR_HAS(facts, struct zr_facts, evaluates) &&
						  facts->evaluates;
	return ZR_OK;
}

static int tokens_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct tokens_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = o;
	rc = open_split(inst, o->evaluates ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN, "path", o->path);
	if (!rc && !o->evaluates && o->val_path && *o->val_path)
		rc = open_split(inst, ZR_SPLIT_VAL, "val_path", o->val_path);
	if (!rc)
		rc = divide(inst);
	if (rc)
		tokens_destroy(inst);
	else
		*out = inst;

	return rc;
}

static const struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = tokens_info,
	.prepare = tokens_prepare,
	.batch = tokens_batch,
	.file = tokens_file,
	.targets = tokens_targets,
	.count = tokens_count,
};

PLUGIN(data, "tokens", &vtbl, .version = "1",
       .summary = "Files of token numbers: with documents, with llm.c's header, or raw.",
       PLUGIN_OPTIONS(struct tokens_opts, options), .resolve = tokens_resolve,
       .check = tokens_check, .create = tokens_create, .destroy = tokens_destroy);
