/* SPDX-License-Identifier: Apache-2.0
 *
 * export.c - see export.h.
 */
#include "core/base/json_text.h"
#include "train/rundir.h"
#include "train/weights/export.h"
#include "train/gguf/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "files/checkpoint/checkpoint.h"
#include "files/gguf/gguf.h"
#include "files/pretrained/tensors.h"
#include "files/tokenizer/tokenizer.h"
#include "train/weights/added.h"

#define CHUNK       65536 /* values that are cast at a time */
#define NAME        64
#define MOST_COPIED (1u << 30) /* bytes of a tokenizer's file that are copied at most */

struct zr_export {
	struct zr_export_gguf *gguf; /* NULL: a directory is written, as the rest says */
	int wide;                    /* its 16 bits have the range of fp32 */
	char *dir, *tmp;
	const struct zr_layout *layout;
	json_t *meta;
	const char *base, *store, *adapter; /* borrowed; NULL: nothing was merged */
	int32_t dtype;
	int replace;
	int32_t *shard; /* [n_tensors] number of the file that holds the tensor */
	int32_t shards;
	int32_t tensor;  /* the next value belongs to this tensor */
	int64_t element; /* and is this element of it */
	int32_t file;    /* number of the open file, -1: none */
	struct zr_st_writer w;
	uint64_t bytes;   /* of all tensors */
	int64_t infinite; /* values that were finite */
	uint16_t *buf;
	struct zr_error failed;
};

/* ---- 16 bits ---- */

static uint32_t bits_of(float x)
{
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

/* As zeroth/device.h defines it: rounds half away from zero and makes NaN quiet. */
static uint16_t to_bf16(float x)
{
	uint32_t b = bits_of(x);
	return (b & 0x7fffffff) > 0x7f800000 ? (uint16_t)(b >> 16 | 0x40) :
					       (uint16_t)((b + 0x8000) >> 16);
}

float zr_export_rounded(int32_t dtype, float x)
{
	uint32_t b;
	uint16_t h;
	float y = x;

	if (dtype == ZR_BF16) {
		b = (uint32_t)to_bf16(x) << 16;
		memcpy(&y, &b, sizeof y);
	} else if (dtype == ZR_F16) {
		h = zr_narrow_f16(x);
		zr_widen_f16(&h, 1, &y);
	}

	return y;
}

void zr_export_narrow(int32_t dtype, const float *x, int64_t n, uint16_t *to)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = dtype == ZR_BF16 ? to_bf16(x[i]) : zr_narrow_f16(x[i]);
}

static void append(struct zr_export *x, const float *v, int64_t n)
{
	if (x->dtype == ZR_F32) {
		zr_st_append(&x->w, v, (size_t)n * sizeof *v);
		return;
	}

	for (int64_t at = 0; at < n; at += CHUNK) {
		int64_t m = n - at < CHUNK ? n - at : CHUNK;
		zr_export_narrow(x->dtype, v + at, m, x->buf);
		for (int64_t i = 0; x->dtype == ZR_F16 && i < m; i++)
			x->infinite += (x->buf[i] & 0x7fff) == 0x7c00 &&
				       (bits_of(v[at + i]) & 0x7fffffff) < 0x7f800000;

		zr_st_append(&x->w, x->buf, (size_t)m * 2);
	}
}

/* ---- files ---- */

static void file_name(const struct zr_export *x, int32_t shard, char name[NAME])
{
	if (x->shards == 1)
		snprintf(name, NAME, "model.safetensors");
	else
		snprintf(name, NAME, "model-%05d-of-%05d.safetensors", shard + 1, x->shards);
}

static struct zr_st_tensor place(const struct zr_export *x, int32_t i, uint64_t at)
{
	const struct zr_tensor *t = x->layout->tensor[i].decl;
	return zr_st_make(t->name, x->dtype, t->ndim, t->dims, at);
}

/* A tensor larger than the limit has a file of its own. */
static void deal_out(struct zr_export *x, uint64_t limit)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < x->layout->n_tensors; i++) {
		uint64_t bytes = place(x, i, 0).bytes;
		if (sum && sum + bytes > limit) {
			x->shards++;
			sum = 0;
		}

		sum += bytes;
		x->bytes += bytes;
		x->shard[i] = x->shards;
	}

	x->shards++;
}

static int open_shard(struct zr_export *x, int32_t shard)
{
	struct zr_st_tensor *t = malloc((size_t)x->layout->n_tensors * sizeof *t);
	json_t *meta = json_pack("{s:s}", "format", "pt");
	char path[PATH_MAX + NAME], name[NAME];

	if (x->base)
		zr_json_put(&meta, "base_model", zr_json_string(x->base, "(not UTF-8)"));
	if (x->store)
		zr_json_put(&meta, "base_model_stored_as", json_string(x->store));
	if (x->adapter)
		zr_json_put(&meta, "adapter", zr_json_string(x->adapter, "(not UTF-8)"));
	uint64_t at = 0;
	int64_t n = 0;
	for (int32_t i = 0; t && i < x->layout->n_tensors; i++)
		if (x->shard[i] == shard) {
			t[n] = place(x, i, at);
			at += t[n++].bytes;
		}
	file_name(x, shard, name);
	snprintf(path, sizeof path, "%s/%s", x->tmp, name);
	int rc;
	if (t && meta)
		rc = zr_st_create(&x->w, path, t, n, meta, &x->failed);
	else
		rc = zr_no_memory(&x->failed);
	if (!rc)
		x->file = shard;
	json_decref(meta);
	free(t);
	return rc;
}

static int close_shard(struct zr_export *x, int keep)
{
	int rc;
	if (x->file >= 0)
		rc = zr_st_finish(&x->w, keep, &x->failed);
	else
		rc = 0;
	x->file = -1;
	return rc;
}

static void next_file(struct zr_export *x)
{
	if (x->shard[x->tensor] != x->file && !close_shard(x, 1))
		open_shard(x, x->shard[x->tensor]);
}

void zr_export_put(struct zr_export *x, const float *values, int64_t n)
{
	if (x->gguf) {
		zr_export_gguf_put(x->gguf, values, n);
		return;
	}

	while (n > 0 && !x->failed.code) {
		int64_t left = x->layout->tensor[x->tensor].elements - x->element,
			now = n < left ? n : left;
		next_file(x);
		if (x->failed.code)
			return;

		append(x, values, now);
		values += now;
		n -= now;
		x->element += now;
		if (x->element == x->layout->tensor[x->tensor].elements) {
			x->tensor++;
			x->element = 0;
		}
	}
}

/* ---- JSON beside them ---- */

/* The text as a number, a boolean, a list or an object if it is one; else as a string. */
static json_t *value_of(const char *key, const char *text)
{
	json_error_t why;

	json_t *j = zr_json_load(text, strlen(text), 0, &why);
	if (errno == ENOMEM || json_is_number(j) || json_is_boolean(j) || json_is_object(j) ||
	    json_is_array(j) || json_is_null(j))
		return j;
	json_decref(j);
	if (strcmp(key, "architectures"))
		return json_string(text);
	return json_pack("[s]", text);
}

/* Writes a file of the new directory. data: NULL means that memory ran out. */
static int put_file(struct zr_export *x, const char *name, const char *data, size_t bytes)
{
	char path[PATH_MAX + NAME];
	snprintf(path, sizeof path, "%s/%s", x->tmp, name);
	int no;
	if (data)
		no = zr_file_put(AT_FDCWD, path, data, bytes);
	else
		no = ENOMEM;
	return no ? zr_err(&x->failed, ZR_EIO, "%s: cannot write: %s", path, strerror(no)) : 0;
}

/* As a text that ends with a line; owned; NULL: out of memory. Takes j. */
static char *lines_of(json_t *j)
{
	char *text = zr_json_text(j, JSON_INDENT(2));
	char *lines = text ? zr_text("%s\n", text) : NULL;
	free(text);
	json_decref(j);
	return lines;
}

static int dump(struct zr_export *x, const char *name, json_t *j)
{
	char *text = lines_of(j);
	int rc = put_file(x, name, text, text ? strlen(text) : 0);
	free(text);
	return rc;
}

static const char *meta_text(const json_t *meta, const char *key)
{
	return json_string_value(json_object_get(meta, key));
}

/* The config.json of the directory that training started from, or one made from the model's
 * metadata. */
static json_t *config_from(json_t *meta)
{
	const char *read = meta_text(meta, ZR_META_CONFIG), *key;
	json_error_t why;

	json_t *j = read ? zr_json_load(read, strlen(read), 0, &why) : NULL, *text;
	if (j || (read && errno == ENOMEM))
		return j;

	j = json_object();
	json_object_foreach(meta, key, text) if (strncmp(key, "zeroth.", 7))
		zr_json_put(&j, key, value_of(key, json_string_value(text)));
	return j;
}

/* The same for tensors of a type. */
static json_t *config_of(json_t *meta, int32_t dtype)
{
	json_t *j = config_from(meta);

	/* newer files call it dtype */
	const char *key = json_object_get(j, "dtype") ? "dtype" : "torch_dtype";
	const char *type = "float16";
	if (dtype == ZR_F32)
		type = "float32";
	if (dtype == ZR_BF16)
		type = "bfloat16";
	zr_json_put(&j, key, json_string(type));
	return j;
}

/* Refuses a model that others' classes would read as another one. */
static int check_meta(const json_t *meta, struct zr_error *err)
{
	const char *why = meta_text(meta, ZR_META_MISFIT);
	if (!why)
		return 0;
	return zr_err(err, ZR_EINVAL, "no class of transformers computes this model: [model] %s",
		      why);
}

int zr_export_check(const struct zr_setup *s, struct zr_error *err)
{
	json_t *meta = json_object();
	zr_describe_model(s, &meta);
	int rc;
	if (meta)
		rc = check_meta(meta, err);
	else
		rc = zr_no_memory(err);
	json_decref(meta);
	return rc;
}

int zr_export_config(const struct zr_setup *s, const char *path, struct zr_error *err)
{
	json_t *meta = json_object();
	struct zr_error misfit = { 0 };
	int rc = 0;

	zr_describe_model(s, &meta);
	if (!meta)
		return zr_no_memory(err);
	if (check_meta(meta, &misfit)) {
		zr_logf(ZR_LOG_INFO, "export", "no config.json is written: %s", misfit.text);
	} else if (json_object_size(meta)) { /* else it is no model that others have a class for */
		char *text = lines_of(config_of(meta, ZR_F32));
		rc = zr_put_text(path, text, err);
		free(text);
	}

	json_decref(meta);
	return rc;
}

struct zr_grown_rows zr_export_rows(const json_t *meta)
{
	const char *from = meta_text(meta, ZR_META_ROWS), *size = meta_text(meta, "vocab_size");
	struct zr_grown_rows rows = { 0 };

	if (from && size) {
		rows.from = strtoll(from, NULL, 10);
		rows.to = strtoll(size, NULL, 10);
	}

	return rows;
}

static int copy_file(struct zr_export *x, const char *from, const char *name)
{
	char path[PATH_MAX + NAME], *text;
	size_t bytes;

	snprintf(path, sizeof path, "%s/%s", from, name);
	int no = zr_file_text(AT_FDCWD, path, 1, MOST_COPIED, &text, &bytes);
	if (no)
		return no == ENOENT || no == ENOTDIR ?
			       0 :
			       zr_file_failed(&x->failed, path, "cannot copy it", no);

	int rc = put_file(x, name, text, bytes);
	free(text);
	return rc;
}

/* tokenizer.json or tokenizer_config.json with the tokens that were added. */
static int write_added(struct zr_export *x, const char *from, const char *name)
{
	const char *tokens = meta_text(x->meta, ZR_META_ADDED);
	char *text = NULL;
	size_t bytes;
	int rc = 0;

	if (access(from, R_OK | X_OK))
		return 0;
	if (strcmp(name, "tokenizer.json"))
		rc = zr_added_settings(from, tokens, &text, &bytes, &x->failed);
	else
		rc = zr_tokenizer_text_with(from, tokens, &text, &bytes, &x->failed);
	if (!rc && text)
		rc = put_file(x, name, text, bytes);
	free(text);
	return rc;
}

/* Copies the files of the tokenizer and of text generation, which training does not change but for
 * [model] add_tokens. */
static int copy_tokenizer(struct zr_export *x)
{
	static const struct {
		const char *name;
		int has_added; /* tokens of [model] add_tokens */
	} files[] = {
		{ "tokenizer.json", 1 },
		{ "tokenizer_config.json", 1 },
		{ "special_tokens_map.json", 0 },
		{ "added_tokens.json", 0 },
		{ "vocab.json", 0 },
		{ "merges.txt", 0 },
		{ "tokenizer.model", 0 },
		{ "chat_template.jinja", 0 },
		{ "generation_config.json", 0 },
	};
	const char *from = meta_text(x->meta, ZR_META_PATH);
	const char *added = meta_text(x->meta, ZR_META_ADDED);
	int rc = 0;

	if (from && access(from, R_OK | X_OK))
		zr_logf(ZR_LOG_WARN, "export",
			"%s, which the model began with, cannot be read: files of its tokenizer "
			"are left out",
			from);
	else if (from && added)
		rc = zr_tokenizer_has_places(from, added, meta_text(x->meta, ZR_META_IDS),
					     &x->failed);
	for (size_t i = 0; from && !rc && i < sizeof files / sizeof *files; i++)
		if (added && files[i].has_added)
			rc = write_added(x, from, files[i].name);
		else
			rc = copy_file(x, from, files[i].name);
	return rc;
}

static int write_index(struct zr_export *x)
{
	json_t *map = json_object();

	for (int32_t i = 0; i < x->layout->n_tensors; i++) {
		char name[NAME];
		file_name(x, x->shard[i], name);
		zr_json_put(&map, x->layout->tensor[i].decl->name, json_string(name));
	}

	return dump(x, "model.safetensors.index.json",
		    json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)x->bytes,
			      "weight_map", map));
}

/* ---- all of it ---- */

static void release(struct zr_export *x)
{
	free(x->dir);
	free(x->tmp);
	free(x->shard);
	free(x->buf);
	free(x);
}

/* Refuses to start if the disk has too little room. */
static int check_space(const struct zr_export *x, struct zr_error *err)
{
	struct statvfs fs;

	if (statvfs(x->tmp, &fs) || x->bytes <= (uint64_t)fs.f_bavail * fs.f_frsize)
		return 0;

	rmdir(x->tmp);
	return zr_err(
		err, ZR_EIO,
		"%s: the model needs %.1f MiB, the disk has %.1f MiB left: make room or choose "
		"another directory",
		x->dir, (double)x->bytes / 0x1p20,
		(double)fs.f_bavail * (double)fs.f_frsize / 0x1p20);
}

static int make_tmp(struct zr_export *x, struct zr_error *err)
{
	int rc = zr_new_dir_make(x->dir, x->tmp, x->replace, err);
	if (rc)
		return rc;
	return check_space(x, err);
}

static int open_gguf(const char *path, const struct zr_layout *layout, json_t *meta,
		     const struct zr_export_how *how, struct zr_export *x, struct zr_error *err)
{
	const struct zr_export_gguf_how file = { how->gguf, how->tokenizer };
	json_t *config = config_from(meta);

	int rc = config ? 0 : zr_no_memory(err);
	if (!rc)
		rc = zr_export_gguf_open(path, layout, meta, config, &file, &x->gguf, err);
	json_decref(config);
	return rc;
}

int zr_export_open(const char *dir, const struct zr_layout *layout, json_t *meta,
		   const struct zr_export_how *how, struct zr_export **out, struct zr_error *err)
{
	size_t len = strlen(dir);
	struct zr_export *x = calloc(1, sizeof *x);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (!x)
		return zr_no_memory(err);

	int rc = check_meta(meta, err);
	if (!rc && how->gguf)
		rc = open_gguf(dir, layout, meta, how, x, err);
	x->wide = how->gguf == ZR_GGUF_BF16;
	if (!rc && how->gguf)
		*out = x;
	else if (rc)
		free(x);
	if (rc || how->gguf)
		return rc;

	*x = (struct zr_export){ .dir = strndup(dir, len),
				 .layout = layout,
				 .meta = meta,
				 .base = how->base,
				 .store = how->store,
				 .adapter = how->adapter,
				 .dtype = how->dtype,
				 .replace = how->replace,
				 .file = -1,
				 .shard = calloc((size_t)layout->n_tensors + 1, sizeof *x->shard),
				 .buf = malloc(CHUNK * 2) };
	if (!x->dir || !x->shard || !x->buf || len > PATH_MAX - NAME ||
	    !(x->tmp = zr_text("%s.tmp", x->dir))) {
		release(x);
		return zr_err(err, ZR_EINVAL, "%s: no memory for it, or a path too long", dir);
	}

	deal_out(x, how->shard_bytes);
	rc = make_tmp(x, err);
	if (rc)
		release(x);
	else
		*out = x;
	return rc;
}

/* keep = 0 removes all that was written. *infinite: values that became infinite in fp16. */
static int close_export(struct zr_export *x, int keep, int64_t *infinite, struct zr_error *err)
{
	if (x->gguf) {
		int rc = zr_export_gguf_done(x->gguf, keep, infinite, err);
		free(x);
		return rc;
	}

	int rc = close_shard(x, keep && !x->failed.code);
	if (!rc && x->failed.code)
		rc = x->failed.code;
	if (!rc && keep && x->tensor < x->layout->n_tensors)
		rc = zr_err(&x->failed, ZR_EINTERNAL, "%s: values are missing", x->dir);
	if (!rc && keep)
		rc = dump(x, "config.json", config_of(x->meta, x->dtype));
	if (!rc && keep && x->shards > 1)
		rc = write_index(x);
	if (!rc && keep)
		rc = copy_tokenizer(x);
	if (!rc && keep)
		rc = zr_new_dir_take(x->dir, x->tmp, x->replace, &x->failed);
	if (rc || !keep)
		zr_remove(AT_FDCWD, x->tmp);
	if (infinite)
		*infinite = x->infinite;
	if (rc)
		zr_err(err, rc, "%s", x->failed.text);
	release(x);
	return rc;
}

int zr_export_done(struct zr_export *x, int rc, struct zr_error *err)
{
	const int wide = x->wide;
	int64_t infinite = 0;

	int end = close_export(x, !rc, &infinite, err);
	if (!rc && !end && infinite)
		fprintf(stderr, "zeroth: %lld values are too large for %s and are infinite now\n",
			(long long)infinite, wide ? "bf16" : "fp16");
	if (rc)
		return rc;
	return end;
}

int zr_export_adapters_alone(const struct zr_export_how *how, struct zr_error *err)
{
	if (how->gguf)
		return zr_err(
			err, ZR_EINVAL,
			"--gguf is for a model, and these are adapters: --merge makes them one");
	if (how->dtype == ZR_F32)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "--dtype is for a model: adapters are written in fp32; --merge makes them "
		      "one");
}

/* ---- from a session ---- */

static int put_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *v)
{
	(void)t, (void)first;
	zr_export_put(arg, v, n);
	return 0;
}

int zr_export_session(struct zr_session *s, const char *dir, int replace, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	struct zr_export *x = NULL;
	struct zr_export_how how = { .dtype = p->facts.types.dtype,
				     .replace = replace,
				     .shard_bytes = ZR_EXPORT_SHARD };
	struct zr_error why = { 0 };

	if (p->facts.process.rank)
		return zr_session_masters(s, NULL, NULL, err);

	json_t *meta = json_object();
	zr_describe_model(p, &meta);
	int bad;
	if (meta)
		bad = zr_export_open(dir, &p->facts.layout, meta, &how, &x, &why);
	else
		bad = zr_no_memory(&why);
	/* other ranks take part in this collective even if opening failed here */
	int rc = zr_session_masters(s, bad ? NULL : put_values, x, err);
	if (!bad)
		bad = close_export(x, !rc, NULL, &why);
	json_decref(meta);
	if (rc || !bad)
		return rc;
	return zr_err(err, bad, "%s", why.text);
}
