/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - files of token numbers, mapped and never copied: llm.c's .bin (a header of 256 int32,
 * then uint16 or uint32) and raw uint16 or uint32, little-endian. Files of a pattern are one stream
 * in order of their names; sequences may cross from one to the next.
 */
#include <zeroth/data.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "files.h"
#include "windows.h"

#define HEADER 1024          /* bytes: 256 int32, {magic, version, tokens, 0 ...} */
#define MAGIC_GPT2 20240520  /* version 1: uint16 */
#define MAGIC_LLAMA 20240801 /* version 7: uint32 */
#define WHOLE (INT64_C(256) << 20) /* bytes of all files up to which they are hashed whole */
#define PAGE 4096
#define PAGES 1024           /* of all larger ones together that are hashed instead */
#define GLANCE (1 << 20)      /* tokens of each file looked at before a run */

enum { FORMAT_AUTO, FORMAT_LLMC, FORMAT_UINT16, FORMAT_UINT32 };
static const char *const formats[] = { "auto", "llmc", "uint16", "uint32", NULL };

struct tokens_opts {
	const char *path, *val_path;
	int32_t format, order;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct tokens_opts, path, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "File of tokens, or a pattern of several; relative to the working directory."),
	ZR_OPT(struct tokens_opts, val_path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Files of tokens for validation; empty: there is none."),
	ZR_OPT_ENUM(
		struct tokens_opts, format, 0, "auto", formats,
		"Layout of the files: llmc has llm.c's header, uint16 and uint32 have none, auto "
		"wants the header."),
	ZR_OPT_ENUM(
		struct tokens_opts, order, ZR_O_NUMERIC, "random", windows_orders,
		"Order of the sequences of an epoch: random is a permutation by (seed, epoch)."),
};

struct mapping {
	const uint8_t *base; /* NULL: not mapped */
	int64_t bytes;
	int64_t skip; /* bytes before the first token */
	int width;    /* bytes per token */
};

struct zr_inst {
	const struct zr_host *h;
	const struct tokens_opts *o;
	struct files files[2]; /* ZR_SPLIT_* */
	struct mapping *map[2];
	struct windows w[2];
	int64_t vocabulary; /* tokens are below; 0: any */
	int hashed;         /* the files are */
};

static int map_file(const struct zr_host *h, const char *name, struct mapping *m)
{
	struct stat st;
	int rc = ZR_OK, fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	void *p;
	if (fd < 0 || fstat(fd, &st)) {
		rc = zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = zr_fail(h, ZR_EINVAL, "%s: is not a regular file", name);
	} else if (st.st_size == 0) {
		rc = zr_fail(h, ZR_EINVAL, "%s: is empty", name);
	} else {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			rc = zr_fail(h, ZR_EIO, "%s: cannot map %lld bytes: %s", name,
				     (long long)st.st_size, strerror(errno));
		} else {
			m->base = p;
			m->bytes = st.st_size;
		}
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Width of the tokens that a header of llm.c announces, 0 if it is none; *n their number. */
static int header_width(const struct mapping *m, int64_t *n)
{
	int32_t head[3];
	if (m->bytes < HEADER)
		return 0;
	memcpy(head, m->base, sizeof head);
	*n = (uint32_t)head[2];
	if (head[0] == MAGIC_GPT2 && head[1] == 1)
		return 2;
	return head[0] == MAGIC_LLAMA && head[1] == 7 ? 4 : 0;
}

static int layout_llmc(const struct zr_host *h, const struct file *f, struct mapping *m, int width,
		       int64_t announced)
{
	int64_t room = m->bytes - HEADER;
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
	if (m->bytes % m->width)
		return zr_fail(
			h, ZR_EINVAL,
			"%s: %lld bytes are not a multiple of %d, the size of a token in format = "
			"%s",
			f->name, (long long)m->bytes, m->width, format);
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
	return zr_fail(
		h, ZR_EINVAL, "%s: has no header of llm.c (magic %d version 1, or %d version 7)%s",
		f->name, MAGIC_GPT2, MAGIC_LLAMA,
		format == FORMAT_AUTO ? ": set format = uint16 or uint32 if it holds raw tokens" :
					"");
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
		struct mapping *m = &inst->map[split][i];
		rc = map_file(inst->h, fs->f[i].name, m);
		if (!rc)
			rc = layout(inst->h, &fs->f[i], inst->o->format, m);
		if (!rc)
			fs->tokens += fs->f[i].n = (m->bytes - m->skip) / m->width;
	}
	return rc;
}

static int tokens_info(struct zr_inst *inst, struct zr_data_info *info)
{
	info->vocabulary = 0;
	info->train_tokens = inst->files[ZR_SPLIT_TRAIN].tokens;
	info->val_tokens = inst->files[ZR_SPLIT_VAL].tokens;
	files_describe(&inst->files[ZR_SPLIT_TRAIN], "tokens", info->train_tokens, info->val_tokens,
		       info->describe, sizeof info->describe);
	return ZR_OK;
}

static int64_t token_at(const struct mapping *m, int64_t at)
{
	const uint8_t *p = m->base + m->skip;
	return m->width == 2 ? ((const uint16_t *)p)[at] : ((const uint32_t *)p)[at];
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

static int read_tokens(struct zr_inst *inst, int32_t split, int64_t at, int64_t n, int32_t *to)
{
	const struct files *fs = &inst->files[split];
	int64_t limit = inst->vocabulary > 0 ? inst->vocabulary : INT64_C(1) << 31;
	while (n > 0) {
		int64_t in_file = at, m, ok;
		const struct file *f = files_at(fs, &in_file);
		const struct mapping *map = &inst->map[split][f - fs->f];
		m = f->n - in_file < n ? f->n - in_file : n;
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
			n = all - at < 4096 ? all - at : 4096;
			rc = read_tokens(inst, split, start + at, n, some);
		}
	}
	return rc;
}

static int prepare_split(struct zr_inst *inst, int32_t split, int64_t length, int order)
{
	const struct files *fs = &inst->files[split];
	int64_t need = windows_cut(&inst->w[split], fs->tokens, length, order);
	if (need && fs->n)
		return zr_fail(inst->h, ZR_EINVAL, "%s: %lld tokens, one sequence needs %lld",
			       fs->f[0].name, (long long)fs->tokens, (long long)need);
	return glance(inst, split);
}

static int tokens_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	int rc;
	inst->vocabulary = vocabulary;
	rc = prepare_split(inst, ZR_SPLIT_TRAIN, length, inst->o->order);
	return rc ? rc : prepare_split(inst, ZR_SPLIT_VAL, length, ORDER_SEQUENTIAL);
}

static int tokens_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	return windows_batch(inst->h, inst->w, b, read_tokens, inst);
}

/* Of pages evenly over the file, the first and the last among them. */
static uint64_t hash_samples(const struct mapping *m, int64_t pages)
{
	uint64_t hash = 0;
	int64_t i;
	madvise((void *)m->base, (size_t)m->bytes, MADV_RANDOM); /* no page but these is read */
	for (i = 0; i < pages; i++) {
		int64_t at = (m->bytes / PAGE - 1) * i / (pages - 1) * PAGE;
		hash = XXH3_64bits_withSeed(m->base + at, PAGE, hash);
	}
	madvise((void *)m->base, (size_t)m->bytes, MADV_NORMAL);
	return XXH3_64bits_withSeed(m->base + m->bytes - PAGE, PAGE, hash);
}

/* To hash all of a large set of files would take minutes before the first step. */
static void hash_files(struct zr_inst *inst)
{
	int64_t all = 0, n = inst->files[0].n + inst->files[1].n;
	int split, i;
	for (split = 0; split < 2; split++)
		for (i = 0; i < inst->files[split].n; i++)
			all += inst->map[split][i].bytes;
	for (split = 0; split < 2; split++)
		for (i = 0; i < inst->files[split].n; i++) {
			const struct mapping *m = &inst->map[split][i];
			struct file *f = &inst->files[split].f[i];
			int64_t pages = PAGES / n > 16 ? PAGES / n : 16;
			f->bytes = m->bytes;
			f->sampled = all > WHOLE && m->bytes > pages * PAGE;
			f->hash = f->sampled ? hash_samples(m, pages) :
					       XXH3_64bits(m->base, (size_t)m->bytes);
		}
	inst->hashed = 1;
}

static int tokens_file(struct zr_inst *inst, uint32_t i, struct zr_data_file *out)
{
	if (!inst->hashed)
		hash_files(inst);
	files_tell(inst->files, i, out);
	return ZR_OK;
}

static void tokens_destroy(struct zr_inst *inst)
{
	int split, i;
	for (split = 0; split < 2; split++) {
		for (i = 0; inst->map[split] && i < inst->files[split].n; i++)
			if (inst->map[split][i].base)
				munmap((void *)inst->map[split][i].base,
				       (size_t)inst->map[split][i].bytes);
		free(inst->map[split]);
		files_free(&inst->files[split]);
	}
	free(inst);
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
	rc = open_split(inst, ZR_SPLIT_TRAIN, "path", o->path);
	if (!rc && o->val_path && *o->val_path)
		rc = open_split(inst, ZR_SPLIT_VAL, "val_path", o->val_path);
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
};
static const struct zr_iface ifaces[] = { { "zr.data/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "data",
	.id = "tokens",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Files of token numbers, uint16 or uint32, with llm.c's header or raw.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct tokens_opts),
	.create = tokens_create,
	.destroy = tokens_destroy,
};
ZR_PLUGIN(&desc);
